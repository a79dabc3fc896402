"""Edits of a live run's state by people: what may be put where.

Flags and outputs that the crew declares, and small values that its agents share. What is not known
is refused by name, all of it before anything is changed: an edit is applied whole or not at all.

A run that does not begin with nothing: messages and values that are there at its beginning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from crewlog.canonical_json import canonical, hash_json
from crewlog.definition.conditions import facts_in
from crewlog.definition.findings import did_you_mean, suggestion
from crewlog.definition.model import NAME_PATTERN
from crewlog.errors import CommandRejected, InternalError, UsageError
from crewlog.graph.outputs import is_kept_whole
from crewlog.graph.run_context import RunContext, message_body
from crewlog.graph.value_kinds import kind_of, path_kinds
from crewlog.ids import AgentName, CommandId, LogName, private_log
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.edits import FLAGS, KINDS, OUTPUTS, PRIVATE, SHARED, is_small, path_parts
from crewlog.state.excerpt import excerpt
from crewlog.state.initial_state import InitialState
from crewlog.state.messages import message_from_json
from crewlog.validation_errors import called

LARGEST = 4096
"""Bytes of JSON of a flag and of a shared value: these are in the state, which every execution
carries."""
MOST_SHARED = 200
"""Shared and private values that a run may have."""


def edit_state(
    run: RunContext,
    set_: Mapping[str, Json],
    delete: Iterable[str],
    *,
    by: str = "",
    reason: str = "",
    command: CommandId | None = None,
    logs: tuple[LogName, ...] = (),
) -> str:
    """Puts values into the state, and takes others away; what was done, for people.

    Args:
        run: The run.
        set_: Values by path.
        delete: Paths to take away; one that is not set stays so.
        by: Who edits.
        reason: Why, for the journal.
        command: The command's id.
        logs: The logs whose readers may see the outputs; by default those of who makes them.

    Raises:
        CommandRejected: a path is not known, or cannot take its value; nothing is changed.
    """
    taken = tuple(dict.fromkeys(delete))
    faults = [*_faults(run, set_, taken)]
    if faults:
        raise CommandRejected(
            "; ".join(message for message, _ in faults),
            remedy=" ".join(dict.fromkeys(remedy for _, remedy in faults if remedy)),
        )
    edits = [_edit(run, path, value, logs) for path, value in set_.items()]
    edits += [j.Edit(path=path, delete=True) for path in taken]
    run.record(j.StateEdited(edits=tuple(edits), by=by, reason=reason, command=command))
    said = [
        f"{path} = {excerpt(json.dumps(v, ensure_ascii=False), 60)}" for path, v in set_.items()
    ]
    return ", ".join([*said, *(f"{path} is taken away" for path in taken)])


Fault = tuple[str, str]
"""What is wrong, and the remedy."""


def _faults(run: RunContext, set_: Mapping[str, Json], delete: tuple[str, ...]) -> Iterable[Fault]:
    for path in (*set_, *delete):
        if fault := _unknown(run, path):
            yield fault
        elif path in set_ and path in delete:
            yield f"{path!r} cannot be both set and taken away", ""
        elif path in set_ and (fault := _unfit(run, path, set_[path])):
            yield fault
    state = run.state
    shared = {f"{SHARED}.{name}" for name in state.shared_context}
    shared |= {
        f"{PRIVATE}.{who}.{n}" for who, found in state.private_context.items() for n in found
    }
    after = (shared | {p for p in set_ if path_parts(p)[0] in (SHARED, PRIVATE)}) - {*delete}
    if len(after) > max(MOST_SHARED, len(shared)):
        yield f"a run has at most {MOST_SHARED} shared and private values", ""


def _unknown(run: RunContext, path: str) -> Fault | None:
    kind, owner, name = path_parts(path)
    if kind in (FLAGS, OUTPUTS):
        known = editable_paths(run)
        if path in known:
            return None
        return _not_there(path, known)
    if kind == SHARED and re.match(NAME_PATTERN, name):
        return None
    if kind == PRIVATE and re.match(NAME_PATTERN, name):
        audiences = _audiences(run)
        if owner in audiences:
            return None
        hint = did_you_mean(owner, audiences, f"Audiences: {', '.join(sorted(audiences))}.")
        return f"there is no audience {owner!r}", hint
    return _not_there(path, editable_paths(run))


def _not_there(path: str, known: list[str]) -> Fault:
    bare = [each for each in known if each.split(".", 1)[1] == path]
    near = bare[0] if bare else suggestion(path, known)
    forms = "flags.NAME, outputs.AGENT.KEY, shared.NAME, private.AUDIENCE.NAME"
    if near:
        return f"there is nothing at {path!r}", f"Did you mean {near!r}?"
    if path.partition(".")[0] in KINDS[:2] and known:
        shown = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
        return f"there is nothing at {path!r}", f"This crew has {shown}."
    return f"there is nothing at {path!r}", f"Paths are {forms}."


def editable_paths(run: RunContext) -> list[str]:
    """The flags and outputs that the crew declares, as paths, sorted."""
    flags: set[str] = {*run.plan.flags, *run.state.flags}
    outputs = {(agent, key) for agent, found in run.state.agent_outputs.items() for key in found}
    for agent, rules in run.plan.agents.items():
        flags |= {*rules.flags}
        outputs |= {(agent, key) for key in (*rules.outputs, "text")}
    for node in run.plan.nodes.values():
        if node.ask is not None and node.ask.sets is not None:
            flags.add(node.ask.sets)
        named = (
            node.when,
            node.only_if,
            node.decide.when if node.decide else None,
            node.route.reads if node.route else None,
        )
        for fact in (fact for when in named if when is not None for fact in facts_in(when)):
            if fact.agent is None or (AgentName(fact.agent), fact.name) not in outputs:
                flags.add(fact.name)
    return sorted(
        [*(f"{FLAGS}.{name}" for name in flags), *(f"{OUTPUTS}.{a}.{key}" for a, key in outputs)]
    )


def _audiences(run: RunContext) -> set[str]:
    found = {f"agent:{agent}" for agent in run.plan.agents}
    for rules in run.plan.agents.values():
        found |= {log for log in (*rules.reads, *rules.writes) if log.startswith("group:")}
    return found


def _unfit(run: RunContext, path: str, value: Json) -> Fault | None:
    kind, owner, name = path_parts(path)
    key = f"{owner}.{name}" if kind == OUTPUTS else name
    if kind in (FLAGS, OUTPUTS) and run.has_list_reducer(key) and not isinstance(value, list):
        return f"{path!r} is a list that steps add to", "Give the whole list that it is to be."
    if not run.has_list_reducer(key) and (fault := _kind_error(run, path, value)):
        return fault
    size = len(canonical(value))
    if kind != OUTPUTS and size > LARGEST:
        return (
            f"the value of {path!r} has {size:,} bytes of JSON, and at most {LARGEST:,} fit",
            "An output takes a value of any size.",
        )
    return None


def _kind_error(run: RunContext, path: str, value: Json) -> Fault | None:
    """What a value is that does not fit where it is to stand."""
    kinds = path_kinds(run, path)
    given = kind_of(value)
    if not kinds.fit or not given or given in kinds.fit:
        return None
    remedy = f"Give {kinds.words}."
    if not kinds.declared:
        remedy += f" To make it something else, take it away first: --delete {path}."
    return f"{path!r} must be {kinds.words}, not {called(value)}: {kinds.because}", remedy


def _shared(run: RunContext, agent: AgentName, key: str) -> tuple[LogName, ...]:
    """Who may see an edited output where the edit does not say: empty for `public`."""
    rules = run.plan.agents.get(agent)
    if rules is not None:
        return rules.shares
    # Its agent has left: it stays for those whom it was for.
    there = run.state.agent_outputs.get(agent, {}).get(key)
    if there is not None and there.elements:  # each of which was for somebody
        return (private_log(agent),)
    return there.logs if there is not None else ()


def _edit(run: RunContext, path: str, value: Json, logs: tuple[LogName, ...]) -> j.Edit:
    kind, agent, key = path_parts(path)
    if kind != OUTPUTS:
        return j.Edit(path=path, value=value)
    name = f"{agent}.{key}"
    logs = logs or _shared(run, AgentName(agent), key)
    if run.has_list_reducer(name):
        return j.Edit(
            path=path, value=value, append=True, logs=logs, **run.item_spec_fields(name, value)
        )
    if is_small(value) or is_kept_whole(run, name, value):
        return j.Edit(path=path, value=value, logs=logs)
    listed = run.list_spec_fields(name, value, small=False, step=False)
    return j.Edit(path=path, body=hash_json(value), inline=value, logs=logs, **listed)


NOBODYS = LogName("private:#request")
"""A log that no agent reads: none has such a name."""


def set_initial_state(run: RunContext, given: InitialState, *, by: str) -> None:
    """Puts messages and values into a run that begins, as if they had been said and set before.

    Args:
        run: The run, which has not routed to its first nodes yet.
        given: What it is given.
        by: Who starts the run.

    Raises:
        UsageError: a message is none, or a value cannot stand where it is to.
    """
    for number, message in enumerate(given.messages):
        try:
            message_from_json(message.body)
        except InternalError as error:
            raise UsageError(
                f"given.messages[{number}]: {error.message}",
                remedy="A body has `type` (human, ai, tool) and `content`; docs/wire.md has more.",
            ) from error
        ref = j.MessageRef(body=hash_json(message.body), logs=(message.log,), inline=message.body)
        run.record(j.MessageAdded(ref=ref, by=by))
    if given.request:
        body = message_body(given.request, by=by, message_id="request")
        ref = j.MessageRef(body=hash_json(body), logs=(NOBODYS,), inline=body)
        run.record(j.MessageAdded(ref=ref, by=by, asks=True))
    if not given.values:
        return
    try:
        edit_state(run, given.values, (), by=by, logs=given.logs)
    except CommandRejected as error:
        raise UsageError(f"given.values: {error.message}", remedy=error.remedy) from error

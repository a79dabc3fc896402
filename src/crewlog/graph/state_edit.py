"""State edits by people, and the initial state of a run.

People may set declared outputs and run outputs, and small values that agents share. All paths and
values of an edit are checked first: it is applied as a whole or not at all.
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
from crewlog.ids import AgentName, CommandId, LogName, is_group_log, private_log
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.edits import FLAGS, KINDS, OUTPUTS, PRIVATE, SHARED, is_small, path_parts
from crewlog.state.excerpt import excerpt
from crewlog.state.initial_state import InitialState
from crewlog.state.messages import message_from_json
from crewlog.validation_errors import describe_value

LARGEST = 4096
"""The most bytes of JSON of a run output or a shared value, which every execution carries."""
MOST_SHARED = 200
"""The most shared and private values of a run."""


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
    """Sets and removes values of the state; returns a summary for people.

    Args:
        run: The run.
        set_: Values by path.
        delete: Paths to remove; one without a value stays so.
        by: The principal.
        reason: Why, for the journal.
        command: The command's id.
        logs: The audience of the outputs; by default the one that their agents have.

    Raises:
        CommandRejected: a path is unknown or cannot have its value; nothing is changed.
    """
    deletions = tuple(dict.fromkeys(delete))
    problems = [*_find_problems(run, set_, deletions)]
    if problems:
        raise CommandRejected(
            "; ".join(message for message, _ in problems),
            remedy=" ".join(dict.fromkeys(remedy for _, remedy in problems if remedy)),
        )
    edits = [_edit(run, path, value, logs) for path, value in set_.items()]
    edits += [j.Edit(path=path, delete=True) for path in deletions]
    run.record(j.StateEdited(edits=tuple(edits), by=by, reason=reason, command=command))
    summary = [
        f"{path} = {excerpt(json.dumps(v, ensure_ascii=False), 60)}" for path, v in set_.items()
    ]
    return ", ".join([*summary, *(f"{path} is removed" for path in deletions)])


Problem = tuple[str, str]
"""What is wrong, and the remedy."""


def _find_problems(
    run: RunContext, set_: Mapping[str, Json], delete: tuple[str, ...]
) -> Iterable[Problem]:
    for path in (*set_, *delete):
        if problem := _path_problem(run, path):
            yield problem
        elif path in set_ and path in delete:
            yield f"{path!r} cannot be both set and removed", ""
        elif path in set_ and (problem := _value_problem(run, path, set_[path])):
            yield problem
    state = run.state
    shared = {f"{SHARED}.{name}" for name in state.shared_context}
    shared |= {
        f"{PRIVATE}.{audience}.{name}"
        for audience, values in state.private_context.items()
        for name in values
    }
    after = (shared | {p for p in set_ if path_parts(p)[0] in (SHARED, PRIVATE)}) - {*delete}
    if len(after) > max(MOST_SHARED, len(shared)):
        yield f"a run has at most {MOST_SHARED} shared and private values", ""


def _path_problem(run: RunContext, path: str) -> Problem | None:
    kind, owner, name = path_parts(path)
    if kind in (FLAGS, OUTPUTS):
        known = editable_paths(run)
        if path in known:
            return None
        return _unknown_path(path, known)
    if kind == SHARED and re.match(NAME_PATTERN, name):
        return None
    if kind == PRIVATE and re.match(NAME_PATTERN, name):
        audiences = _audiences(run)
        if owner in audiences:
            return None
        hint = did_you_mean(owner, audiences, f"Audiences: {', '.join(sorted(audiences))}.")
        return f"there is no audience {owner!r}", hint
    return _unknown_path(path, editable_paths(run))


def _unknown_path(path: str, known: list[str]) -> Problem:
    without_kind = [each for each in known if each.split(".", 1)[1] == path]
    near = without_kind[0] if without_kind else suggestion(path, known)
    forms = "flags.NAME, outputs.AGENT.KEY, shared.NAME, private.AUDIENCE.NAME"
    message = f"there is nothing at {path!r}"
    if near:
        return message, f"Did you mean {near!r}?"
    if path.partition(".")[0] in KINDS[:2] and known:
        first = ", ".join(known[:12]) + (", …" if len(known) > 12 else "")
        return message, f"This crew has {first}."
    return message, f"Paths are {forms}."


def editable_paths(run: RunContext) -> list[str]:
    """The run outputs and outputs of the crew, as paths, sorted."""
    flags: set[str] = {*run.plan.flags, *run.state.flags}
    outputs = {(agent, key) for agent, found in run.state.agent_outputs.items() for key in found}
    for agent, settings in run.plan.agents.items():
        flags |= {*settings.flags}
        outputs |= {(agent, key) for key in (*settings.outputs, "text")}
    for node in run.plan.nodes.values():
        if node.ask is not None and node.ask.sets is not None:
            flags.add(node.ask.sets)
        conditions = (
            node.when,
            node.only_if,
            node.decide.when if node.decide else None,
            node.route.reads if node.route else None,
        )
        for fact in (fact for when in conditions if when is not None for fact in facts_in(when)):
            if fact.agent is None or (AgentName(fact.agent), fact.name) not in outputs:
                flags.add(fact.name)
    return sorted(
        [*(f"{FLAGS}.{name}" for name in flags), *(f"{OUTPUTS}.{a}.{key}" for a, key in outputs)]
    )


def _audiences(run: RunContext) -> set[str]:
    found = {f"agent:{agent}" for agent in run.plan.agents}
    for agent in run.plan.agents.values():
        found |= {log for log in (*agent.reads, *agent.writes) if is_group_log(log)}
    return found


def _value_problem(run: RunContext, path: str, value: Json) -> Problem | None:
    kind, owner, name = path_parts(path)
    key = f"{owner}.{name}" if kind == OUTPUTS else name
    if kind in (FLAGS, OUTPUTS) and run.has_list_reducer(key) and not isinstance(value, list):
        return f"{path!r} must be a list: its reducer adds values to one", "Give the whole list."
    if not run.has_list_reducer(key) and (problem := _kind_problem(run, path, value)):
        return problem
    size = len(canonical(value))
    if kind != OUTPUTS and size > LARGEST:
        return (
            f"the value of {path!r} has {size:,} bytes of JSON, and may have {LARGEST:,}",
            "Use an output of an agent: it takes a value of any size.",
        )
    return None


def _kind_problem(run: RunContext, path: str, value: Json) -> Problem | None:
    """The problem of a value that has the wrong kind for its path."""
    kinds = path_kinds(run, path)
    kind = kind_of(value)
    if not kinds.fit or not kind or kind in kinds.fit:
        return None
    remedy = f"Give {kinds.text}."
    if not kinds.declared:
        remedy += f" To set another kind of value, remove this one first: --delete {path}."
    return f"{path!r} must be {kinds.text}, not {describe_value(value)}: {kinds.because}", remedy


def _default_audience(run: RunContext, agent: AgentName, key: str) -> tuple[LogName, ...]:
    """The audience of an edited output if the edit names none; empty: `public`."""
    settings = run.plan.agents.get(agent)
    if settings is not None:
        return settings.shares
    # The agent was removed: the output keeps its audience.
    output = run.state.agent_outputs.get(agent, {}).get(key)
    if output is not None and output.elements:  # addressed items
        return (private_log(agent),)
    return output.logs if output is not None else ()


def _edit(run: RunContext, path: str, value: Json, logs: tuple[LogName, ...]) -> j.Edit:
    kind, agent, key = path_parts(path)
    if kind != OUTPUTS:
        return j.Edit(path=path, value=value)
    name = f"{agent}.{key}"
    logs = logs or _default_audience(run, AgentName(agent), key)
    if run.has_list_reducer(name):
        return j.Edit(
            path=path, value=value, append=True, logs=logs, **run.item_spec_fields(name, value)
        )
    if is_small(value) or is_kept_whole(run, name, value):
        return j.Edit(path=path, value=value, logs=logs)
    spec_fields = run.list_spec_fields(name, value, small=False, step=False)
    return j.Edit(path=path, body=hash_json(value), inline=value, logs=logs, **spec_fields)


REQUEST_LOG = private_log(AgentName("#request"))
"""A log that no agent reads: no agent has such a name."""


def set_initial_state(run: RunContext, initial: InitialState, *, by: str) -> None:
    """Adds the messages and values of a run's initial state, before its first step.

    Args:
        run: The run, which has not reached a node yet.
        initial: The initial state.
        by: Who starts the run.

    Raises:
        UsageError: a message is not valid, or a value does not fit its path.
    """
    for number, message in enumerate(initial.messages):
        try:
            message_from_json(message.body)
        except InternalError as error:
            raise UsageError(
                f"initial_state.messages[{number}]: {error.message}",
                remedy="A body has `type` (human, ai, tool) and `content`; docs/wire.md has more.",
            ) from error
        ref = j.MessageRef(body=hash_json(message.body), logs=(message.log,), inline=message.body)
        run.record(j.MessageAdded(ref=ref, by=by))
    if initial.request:
        body = message_body(initial.request, by=by, message_id="request")
        ref = j.MessageRef(body=hash_json(body), logs=(REQUEST_LOG,), inline=body)
        run.record(j.MessageAdded(ref=ref, by=by, asks=True))
    if not initial.values:
        return
    try:
        edit_state(run, initial.values, (), by=by, logs=initial.logs)
    except CommandRejected as error:
        raise UsageError(f"initial_state.values: {error.message}", remedy=error.remedy) from error

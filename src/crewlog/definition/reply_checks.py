"""What is wrong with the forms of agents' replies: decisions, schemas, names and fallbacks."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from crewlog.canonical_json import canonical
from crewlog.definition.decisions import DecisionKind, find_decision, reply_fields
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.json_schemas import unusable
from crewlog.definition.model import AgentDefinition, AgentPhase, CrewDefinition
from crewlog.definition.reading import END, Form
from crewlog.definition.replies import VALUE, Reply

_MOST_FIELDS = 64
"""Outputs of a reply: each is an entry of the journal, and part of what executions carry."""
_LARGEST_FALLBACK = 2_000
"""Bytes of a fallback's JSON: every execution carries it."""


def reply_findings(definition: CrewDefinition, places: Collection[str] = ()) -> Iterator[Finding]:
    """What is wrong with the forms of a crew's replies.

    Args:
        definition: The crew.
        places: Its phases: a decision may name them, too.
    """
    for name, agent in definition.agents.items():
        path = ("agents", name, "reply")
        if agent.reply is not None:
            yield from _reply(definition, name, agent, agent.reply, path, places)
            yield from _undescribed(definition, name, agent.reply)


def _reply(
    definition: CrewDefinition,
    name: str,
    agent: AgentDefinition,
    reply: Reply,
    path: Path,
    places: Collection[str],
) -> Iterator[Finding]:
    faults = list(_form(name, reply, path))
    yield from faults
    known = {*definition.agents, *places, END}
    unknown = {
        item.agent or item.phase
        for item in definition.flow
        if isinstance(item, AgentPhase) and item.agent and item.agent not in definition.agents
    }
    for i, each in enumerate(reply.among):
        if each not in known:
            say = f"agent {name!r} may decide for {each!r}, which is no agent and no phase"
            # Inner phases of parts are none that somebody would name, nor are slips.
            there = sorted(n for n in known if "." not in n and n not in unknown)
            remedy = did_you_mean(each, there, f"There are: {listed(there)}.")
            yield Finding((*path, "among", i), say, remedy, word=each)
    if reply.tries > agent.max_calls and "tries" in reply.model_fields_set:
        say = f"agent {name!r} is never asked {reply.tries} times: max_calls is {agent.max_calls}"
        remedy = "Every try is a model call: raise max_calls, or lower tries."
        yield Finding((*path, "tries"), say, remedy, severity="warning")
    if (count := len(reply_fields(reply))) > _MOST_FIELDS:
        say = f"the reply of agent {name!r} has {count} fields; there can be {_MOST_FIELDS}"
        yield Finding(path, say, "Put them into an object: it is one field.")
    if "text" in reply_fields(reply):
        say = f"the reply of agent {name!r} has a field 'text', which is always its final message"
        yield Finding(path, say, "Choose another name for the field.")
    yield from _tagged(name, agent, reply, (*path, "tagged"))
    if reply.fallback is not None and not faults:
        yield from _fallback(definition, name, reply, (*path, "fallback"))


def _undescribed(definition: CrewDefinition, name: str, reply: Reply) -> Iterator[Finding]:
    """Agents without a description that another agent chooses from: it sees only their names."""
    if reply.decision != "route":
        return
    agents = ((each, definition.agents.get(each)) for each in reply.among)
    lacking = [each for each, agent in agents if agent is not None and not agent.description]
    if lacking:
        verb = "has" if len(lacking) == 1 else "have"
        say = f"agent {name!r} chooses from {listed(lacking)}, which {verb} no description"
        remedy = f"Say what each is for: {lacking[0]}: {{description: …}}."
        yield Finding(("agents", lacking[0]), say, remedy, at="key", severity="warning")


def form_findings(name: str, reply: Reply) -> Iterator[Finding]:
    """Why this process cannot read an agent's replies: it lacks the decision."""
    path: Path = ("agents", name, "reply", "decision")
    if reply.decision is None:
        return
    try:
        kind: DecisionKind = find_decision(reply.decision)
    except LookupError as error:
        say = f"no decision is called {reply.decision!r}"
        yield Finding(path, say, str(error), word=reply.decision)
        return
    if kind.broken:
        say = f"the decision {reply.decision!r} cannot be used: {kind.broken}"
        yield Finding(path, say, "Mend that package, or install another.")


def _form(name: str, reply: Reply, path: Path) -> Iterator[Finding]:
    """What is wrong with a decision or a schema itself."""
    yield from form_findings(name, reply)
    if reply.decision is not None:
        return
    if fault := unusable(reply.schema_):
        say = f"the schema of the reply of agent {name!r} cannot be used: {fault}"
        yield Finding((*path, "schema"), say, "It is JSON Schema, draft 2020-12.")
    elif reply.among:
        say = "'among' has no effect, since a schema says itself what is possible"
        yield Finding((*path, "among"), say, "Remove it, or use `enum`.", at="key")
    properties: Any = (reply.schema_ or {}).get("properties")
    fields = reply_fields(reply)
    if isinstance(properties, dict) and fields != (VALUE,):
        for key in properties:  # pyright: ignore[reportUnknownVariableType]
            if key not in fields:
                say = (
                    f"the field {key!r} of the reply of agent {name!r} is no output: it is no name"
                )
                remedy = "A name is a letter and then at most 63 letters, digits, '_' or '-'."
                place = (*path, "schema", "properties", str(key))  # pyright: ignore[reportUnknownArgumentType]
                yield Finding(place, say, remedy, at="key", severity="warning")


def _tagged(name: str, agent: AgentDefinition, reply: Reply, path: Path) -> Iterator[Finding]:
    fields = reply_fields(reply)
    for key in reply.tagged:
        if key not in fields:
            say = f"the reply of agent {name!r} has no field {key!r} to hand on"
            yield Finding((*path, key), say, did_you_mean(key, fields, "Add it to its schema."))
    if reply.tagged and agent.writes:
        say = f"what {name!r} says has all items in it, and goes to {listed(agent.writes)}"
        remedy = "Let it write to nobody: writes: []. What it hands on reaches others as inputs."
        yield Finding(path, say, remedy, at="key", severity="warning")


def _fallback(definition: CrewDefinition, name: str, reply: Reply, path: Path) -> Iterator[Finding]:
    read = Form.of(definition, name).check(reply.fallback)
    if read.faults:
        say = f"the fallback of agent {name!r} is not what its reply must be: {read.faults[0]}"
        yield Finding(path, say, "It is read like a reply of the model.")
    elif len(canonical(reply.fallback)) > _LARGEST_FALLBACK:
        say = f"the fallback of agent {name!r} is larger than {_LARGEST_FALLBACK:,} bytes of JSON"
        yield Finding(path, say, "Every part of a run carries it: let an agent make what is large.")

"""How each operation changes a definition; `crewlog.definition.operations` says what they are.

Operations are applied to the definition as it was written, with its builders and patterns. Each one
gives data of the right shape, or faults of its own; what it means is checked at the end, when all
of them have been applied, and blamed on the operation after which it was first wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from crewlog.definition import operations as o
from crewlog.definition.audiences import without_member, without_reader
from crewlog.definition.conditions import Fact, facts_in, mapped
from crewlog.definition.creatures import among_agents
from crewlog.definition.expand import expand, texts_in
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.flow import Flow, Part, Wait
from crewlog.definition.load import CREW
from crewlog.definition.model import (
    AgentPhase,
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    DecisionPhase,
    RoutePhase,
)
from crewlog.definition.phases import phases
from crewlog.definition.refusing import Refused, known
from crewlog.definition.regrouping import (
    add_channel,
    alive,
    connect,
    disconnect,
    like,
    lives,
    remove_channel,
    tied,
    unwire,
    wire,
)
from crewlog.definition.rule_changes import needed_by_rules, without_agent, without_tool
from crewlog.definition.shape import shaped
from crewlog.definition.splice import FIRST, Splice, lasts, owners, place_before, wait_too
from crewlog.definition.unused import conditions_of
from crewlog.definition.validate import all_findings, findings
from crewlog.errors import InvalidDefinition
from crewlog.model import Json

_OF_ITS_OWN = {
    "crew": "A run keeps its crew's name.",
    "agents": "Use add_agent, remove_agent and edit_agent.",
    "tools": "Use add_tool, remove_tool and edit_tool.",
}
"""Keys of a crew that `edit_crew` does not set, and what does."""


_PLAIN = frozenset({"prompt", "task", "description", "model", "timeout", "enabled"})
"""Keys whose values mean nothing that could be wrong beyond their shape."""


_TEXTS = frozenset({"prompt", "task", "description"})
"""Those of them that are texts, of which any is right."""


_PARTS = ("agent", "phase", "tool", "rule", "set")
"""Where operations have data as a definition has it."""


def apply_operations(
    definition: CrewDefinition, operations: Sequence[o.Operation]
) -> CrewDefinition:
    """The definition after some changes, one after the other, checked as a whole.

    What nobody changes stays as it is written: phases keep their names and their places, and what
    waited for a phase that goes waits for what that one waited for. Only what comes out in the end
    must be a crew that can run, so one operation may make up for what another one leaves open.

    Args:
        definition: The crew as it is.
        operations: What is to be otherwise.

    Raises:
        InvalidDefinition: with everything that is wrong; the paths begin with the number of the
            operation, from 0: `operations[1].set.timeout`.
    """
    states = [definition]
    faults: list[Finding] = []
    failed: list[str] = []
    more = False
    for i, operation in enumerate(operations):
        try:
            states.append(edited(states[-1], operation))
        except Refused as refused:
            own = [each for each in refused.found if not _names(each, failed)]
            more = more or len(own) < len(refused.found) or _unchecked(operation, refused.found)
            faults += [replace(each, path=("operations", i, *each.path)) for each in own]
            failed.append(str(getattr(operation, "name", "")))
            states.append(states[-1])
    wrong = _wrong(states[0], states[-1])
    left = [each for each in wrong if not _names(each, failed)]
    more = more or len(left) < len(wrong)
    faults += _blamed(left, states, operations)
    if faults:
        faults.sort(key=lambda each: [p for p in each.path if isinstance(p, int)][:1])
        raise InvalidDefinition([each.diagnostic() for each in faults], more_may_follow=more)
    return states[-1]


def _wrong(before: CrewDefinition, after: CrewDefinition) -> list[Finding]:
    """What is wrong after some operations; what only new crews must not have, where it is new."""
    found = findings(after)
    if all(not each.anew for each in found):
        return found
    known = {each.message for each in findings(before) if each.anew}
    return [each for each in found if not (each.anew and each.message in known)]


def edited(definition: CrewDefinition, operation: o.Operation) -> CrewDefinition:
    """The definition after one operation; what it means as a whole is not checked.

    Raises:
        Refused: the operation cannot be done, or its data has not the right shape.
    """
    return _APPLY[operation.op](definition, operation)


def _unchecked(operation: o.Operation, found: Iterable[Finding]) -> bool:
    """Whether a refused operation says more than what is wrong with it, that could be wrong, too.

    Where its data has not the right shape, what it means was not looked at; where it names what is
    not there, its data was not looked at.
    """
    said: dict[str, dict[str, Json]] = {
        part: getattr(operation, part, None) or {} for part in _PARTS
    }
    data = [(part, key) for part, values in said.items() for key in values]
    paths = [each.path for each in found]
    if all(path[:1] and path[0] in _PARTS for path in paths):
        return any(place not in {p[:2] for p in paths} and place[1] not in _PLAIN for place in data)
    return any(key not in _TEXTS or not _is_text(said[part][key]) for part, key in data)


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _names(found: Finding, names: Iterable[str]) -> bool:
    """Whether a fault may follow from an operation that was refused."""
    return any(name and repr(name) in found.message for name in names)


def _blamed(
    left: Sequence[Finding], states: Sequence[CrewDefinition], operations: Sequence[o.Operation]
) -> list[Finding]:
    """What is wrong in the end, at the operations after which it was wrong."""
    first = {each.message: len(operations) - 1 for each in left}
    waiting = set(first)
    for i in reversed(range(len(operations))):
        if not waiting:
            break
        if i and states[i] is not states[i + 1]:
            waiting &= {each.message for each in findings(states[i])}
        for message in waiting:
            first[message] = max(0, i - 1)
    found: list[Finding] = []
    for each in left:
        number = first[each.message]
        place = _said(each, states[-1], operations[number])
        found.append(replace(each, path=("operations", number, *place)))
    return found


def _said(found: Finding, crew: CrewDefinition, operation: o.Operation) -> Path:
    """Where an operation says what is wrong; else where it is in the crew that comes out."""
    path = found.path
    match operation:
        case o.AddAgent() | o.EditAgent() if path[:2] == ("agents", operation.name):
            return ("agent" if operation.op == "add_agent" else "set", *path[2:])
        case o.AddTool() | o.EditTool() if path[:2] == ("tools", operation.name):
            return ("tool" if operation.op == "add_tool" else "set", *path[2:])
        case o.AddAgent() | o.AddPhase() if _at_the_end(path, crew):
            return ("phase", *path[2:])
        case o.EditPhase() if (own := _path_of(operation.name, crew)) and path[: len(own)] == own:
            return ("set", *path[len(own) :])
        case o.AddRule() if path[:2] == ("rules", len(crew.rules) - 1):
            return ("rule", *path[2:])
        case o.EditRule() if path[:2] == ("rules", operation.place):
            return ("set", *path[2:])
        case o.EditCrew() if path[:1] and path[0] in operation.set:
            return ("set", *path)
        case _:
            return path


def _path_of(name: str, crew: CrewDefinition) -> Path:
    return next((phase.path for phase in phases(crew) if phase.name == name), ())


def _at_the_end(path: Path, crew: CrewDefinition) -> bool:
    return path[:2] == ("flow", len(crew.flow) - 1)


# -- data ----------------------------------------------------------------------------------------


def _data(crew: CrewDefinition) -> dict[str, Json]:
    """The crew as data, its flow always written."""
    data = crew.to_json()
    data.setdefault("flow", list(crew.agents))
    return data


def _read(data: dict[str, Json], said: Mapping[Path, Path]) -> CrewDefinition:
    """The crew that some data is.

    Args:
        data: The crew as data.
        said: Where the operation says what stands at a place of the crew.

    Raises:
        Refused: where it has not the shape of one.
    """
    found = shaped(data, CREW)
    if isinstance(found, CrewDefinition):
        return found
    raise Refused(*(replace(each, path=_moved(each.path, said)) for each in found))


def _moved(path: Path, said: Mapping[Path, Path]) -> Path:
    for crew, operation in said.items():
        if path[: len(crew)] == crew:
            return (*operation, *path[len(crew) :])
    return path


def _known(
    kind: Literal["agent", "tool"],
    name: str,
    crew: CrewDefinition,
    path: Path,
    *,
    callable_: bool = False,
) -> None:
    there = crew.agents if kind == "agent" else crew.callable_tools if callable_ else crew.tools
    known(kind, name, there, path)


def _new(kind: Literal["agent", "tool"], name: str, crew: CrewDefinition) -> None:
    if name in (crew.agents if kind == "agent" else crew.tools):
        say = f"the crew has {'an' if kind == 'agent' else 'a'} {kind} {name!r} already"
        raise Refused(Finding(("name",), say, f"Use edit_{kind}, or choose another name."))


def _set(old: Mapping[str, Json], update: Mapping[str, Json]) -> dict[str, Json]:
    """Data with fields set; null puts the default back."""
    new = {**old, **update}
    return {key: value for key, value in new.items() if key not in update or value is not None}


# -- agents and tools ----------------------------------------------------------------------------


def _add_agent(crew: CrewDefinition, op: o.AddAgent) -> CrewDefinition:
    _new("agent", op.name, crew)
    if op.phase.get("agent", op.name) != op.name:
        say = f"the phase of the new agent {op.name!r} names another agent"
        raise Refused(Finding(("phase", "agent"), say, "Leave 'agent' out of it."))
    if crew.lives and not op.phase and not op.before:
        return _with_agent(crew, op.name, like(crew, op), "agent")  # it hears
    data = _data(crew)
    data["agents"] = {**data["agents"], op.name: like(crew, op)}
    phase = {"agent": op.name, **op.phase} if op.phase else op.name
    return _with_phase(crew, data, phase, op)


def _edit_agent(crew: CrewDefinition, op: o.EditAgent) -> CrewDefinition:
    lives(crew, op.name, ("name",))
    return _with_agent(crew, op.name, _set(crew.agents[op.name].to_json(), op.set), "set")


def _with_agent(crew: CrewDefinition, name: str, data: Json, at: str) -> CrewDefinition:
    """The crew with an agent that some data is; the others are as they were, and not read again.

    Args:
        crew: The crew.
        name: The agent.
        data: What it has.
        at: Where the operation says it.

    Raises:
        Refused: the data has not the shape of an agent, or ties it to who is in another run.
    """
    alone: dict[str, Json] = {"crew": crew.crew, "agents": {name: data}, "graph": {}, "flow": []}
    agent = _read(alone, {("agents", name): (at,)}).agents[name]
    tied(crew, name, agent, at)
    made = crew.model_copy(update={"agents": {**crew.agents, name: agent}})
    return made if made.flow or made.lives else _read(made.to_json(), {})


def _switch(crew: CrewDefinition, op: o.EnableAgent | o.DisableAgent) -> CrewDefinition:
    lives(crew, op.name, ("name",))
    agent = crew.agents[op.name].model_copy(update={"enabled": op.op == "enable_agent"})
    return crew.model_copy(update={"agents": {**crew.agents, op.name: agent}})


def _add_tool(crew: CrewDefinition, op: o.AddTool) -> CrewDefinition:
    _new("tool", op.name, crew)
    data = _data(crew)
    data["tools"] = {**data.get("tools", {}), op.name: op.tool}
    agents = dict(data["agents"])
    for i, name in enumerate(op.agents):
        _known("agent", name, crew, ("agents", i))
        tools = crew.agents[name].tools
        if tools is not None:
            agents[name] = {**agents[name], "tools": [*tools, op.name]}
    return _read(data | {"agents": agents}, {("tools", op.name): ("tool",)})


def _remove_tool(crew: CrewDefinition, op: o.RemoveTool) -> CrewDefinition:
    _known("tool", op.name, crew, ("name",))
    needed = [p for p in phases(crew) if isinstance(p.item, AgentPhase) and op.name in p.item.needs]
    if needed:
        raise Refused(*(_needs(phase.name, op.name) for phase in needed))
    agents = {
        name: agent.model_copy(update={"tools": tuple(t for t in agent.tools if t != op.name)})
        if agent.tools is not None
        else agent
        for name, agent in crew.agents.items()
    }
    update: dict[str, Any] = {"agents": agents}
    for key in ("tools", "permissions", "approvals"):
        update[key] = {name: v for name, v in getattr(crew, key).items() if name != op.name}
    update["rules"] = without_tool(crew, op.name)
    return crew.model_copy(update=update)


def _needs(phase: str, tool: str) -> Finding:
    say = f"{phase!r} needs the tool {tool!r}, without which it would always be skipped"
    remedy = f"{FIRST}: edit_phase {phase}, with other 'needs', or remove_phase {phase}."
    return Finding(("name",), say, remedy)


def _edit_tool(crew: CrewDefinition, op: o.EditTool) -> CrewDefinition:
    _known("tool", op.name, crew, ("name",))
    data = _data(crew)
    data["tools"] = {**data["tools"], op.name: _set(data["tools"][op.name], op.set)}
    return _read(data, {("tools", op.name): ("set",)})


def _set_permission(crew: CrewDefinition, op: o.EditPermission) -> CrewDefinition:
    _known("tool", op.tool, crew, ("tool",), callable_=True)
    for i, name in enumerate(op.agents or ()):
        _known("agent", name, crew, ("agents", i))
    table = {tool: who for tool, who in crew.permissions.items() if tool != op.tool}
    if op.agents is not None:
        table[op.tool] = tuple(dict.fromkeys(op.agents))
    return crew.model_copy(update={"permissions": table})


# -- rules and groups ------------------------------------------------------------------------------


def _add_rule(crew: CrewDefinition, op: o.AddRule) -> CrewDefinition:
    data = _data(crew)
    rules: list[Json] = [*data.get("rules", ()), op.rule]
    return _read(data | {"rules": rules}, {("rules", len(rules) - 1): ("rule",)})


def _edit_rule(crew: CrewDefinition, op: o.EditRule) -> CrewDefinition:
    _there(crew, op.place)
    data = _data(crew)
    rules: list[Json] = list(data["rules"])
    rules[op.place] = _set(rules[op.place], op.set)
    return _read(data | {"rules": rules}, {("rules", op.place): ("set",)})


def _remove_rule(crew: CrewDefinition, op: o.RemoveRule) -> CrewDefinition:
    _there(crew, op.place)
    rules = (*crew.rules[: op.place], *crew.rules[op.place + 1 :])
    return crew.model_copy(update={"rules": rules})


def _there(crew: CrewDefinition, place: int) -> None:
    if place >= len(crew.rules):
        last = len(crew.rules) - 1
        remedy = f"Its rules are rules[0] to rules[{last}]." if crew.rules else "It has none."
        raise Refused(Finding(("place",), f"the crew has no rules[{place}]", remedy))


def _set_group(crew: CrewDefinition, op: o.SetGroup) -> CrewDefinition:
    for i, name in enumerate(op.agents):
        _known("agent", name, crew, ("agents", i))
    named = tuple(dict.fromkeys(op.agents))
    return crew.model_copy(update={"groups": {**crew.groups, op.name: named}})


def _remove_group(crew: CrewDefinition, op: o.RemoveGroup) -> CrewDefinition:
    if op.name not in crew.groups:
        known = f"There are: {listed(crew.groups)}." if crew.groups else "It has none."
        remedy = did_you_mean(op.name, crew.groups, known)
        raise Refused(Finding(("name",), f"the crew has no group {op.name!r}", remedy))
    groups = {name: named for name, named in crew.groups.items() if name != op.name}
    return crew.model_copy(update={"groups": groups})


def _edit_crew(crew: CrewDefinition, op: o.EditCrew) -> CrewDefinition:
    for key in op.set:
        if key in _OF_ITS_OWN:
            say = f"{key!r} is not set by edit_crew"
            raise Refused(Finding(("set", key), say, _OF_ITS_OWN[key], at="key"))
    return _read(_set(_data(crew), op.set), {(key,): ("set", key) for key in op.set})


# -- phases --------------------------------------------------------------------------------------


def _add_phase(crew: CrewDefinition, op: o.AddPhase) -> CrewDefinition:
    return _with_phase(crew, _data(crew), op.phase, op)


def _with_phase(
    crew: CrewDefinition, data: dict[str, Json], phase: Json, op: o.AddAgent | o.AddPhase
) -> CrewDefinition:
    """The crew with a phase more, or with a block of them."""
    end = len(data["flow"])
    data["flow"] = [*data["flow"], phase]
    said: dict[Path, Path] = {("flow", end): ("phase",)}
    if isinstance(op, o.AddAgent):
        said["agents", op.name] = ("agent",)
    read = _read(data, said)
    flow = _pinned(Flow(read), Flow(crew))
    new = list(flow.parts())[len(Flow(crew).names()) :]
    placed = isinstance(phase, dict) and op.phase.get("after") is not None
    for i, name in enumerate(op.before):
        if flow.part(name) is None or flow.part(name) in new:
            remedy = did_you_mean(name, Flow(crew).names(), "Name a phase of the flow.")
            raise Refused(Finding(("before", i), f"the crew has no phase {name!r}", remedy))
    free = [part for part in new if part.item.after is None]
    if not placed and op.before:
        wait = place_before(flow, op.before)
        if wait is None:
            say = f"{listed(op.before)} wait for different things: what comes before them all?"
            raise Refused(Finding(("before",), say, "Say what the new phase comes 'after'."))
        _let_wait(free, wait)
    elif not placed:
        _let_wait(free, _last(flow, new, free, crew))
    faults = [wait_too(part, new) for part in flow.parts() if part.name in op.before]
    if found := [each for each in faults if each is not None]:
        raise Refused(*found)
    return flow.definition()


def _let_wait(parts: Iterable[Part], wait: Wait) -> None:
    for part in parts:
        part.wait = wait


def _last(flow: Flow, new: list[Part], free: list[Part], crew: CrewDefinition) -> Wait:
    """What phases wait for that come last: where the crew has ways apart, for the one it takes."""
    ways = list(lasts(flow, new, owners(crew)))
    for wait in ways if len(ways) > 1 else ():
        _let_wait(free, wait)
        made = flow.definition()
        names = {part.name for part in new}
        here = {phase.path for phase in phases(made) if phase.name in names}
        if not any(each.path[:2] in here and "after" in each.path for each in all_findings(made)):
            return wait
    return ways[0]


def _pinned(flow: Flow, old: Flow, *, but: int | None = None) -> Flow:
    """A flow with the names, and with what phases wait for, that an older one has at each place.

    Args:
        flow: The flow.
        old: The older one.
        but: The number of a phase that is let wait for what it says itself.
    """
    pairs = list(zip(flow.parts(), old.parts(), strict=False))
    names = {part.name: other.name for part, other in pairs}
    for i, (part, other) in enumerate(pairs):
        part.name = other.name
        part.wait = part.wait.renamed(names) if i == but else other.wait
    for part in list(flow.parts())[len(pairs) :]:
        part.wait = part.wait.renamed(names)
    return flow


def _remove_phase(crew: CrewDefinition, op: o.RemovePhase) -> CrewDefinition:
    splice = Splice(crew)
    part = _phase(splice.flow, op.name)
    return _spliced(crew, splice, [part])


def _phase(flow: Flow, name: str) -> Part:
    part = flow.part(name)
    if part is None:
        remedy = did_you_mean(name, flow.names(), f"There are: {listed(flow.names())}.")
        raise Refused(Finding(("name",), f"the crew has no phase {name!r}", remedy))
    return part


def _spliced(crew: CrewDefinition, splice: Splice, parts: Iterable[Part]) -> CrewDefinition:
    """The crew without some phases; flags that only they set are kept for the conditions."""
    for part in parts:
        splice.take_out(part)
    if splice.faults:
        raise Refused(*splice.faults)
    if not splice.flow.rows and not crew.lives:
        say = "the crew would have no phase left"
        raise Refused(Finding(("name",), say, "Add one first; or stop the run: crewlog stop."))
    return _with_flags(splice.flow.definition(), crew)


def _with_flags(crew: CrewDefinition, old: CrewDefinition) -> CrewDefinition:
    """The crew with the flags that its conditions look at, and that nobody sets any more.

    Conditions stay as they are: whoever runs the crew is asked, and may set the flag.
    """
    had, has = _flags_of(old), _flags_of(crew)
    asked = {
        fact.name
        for phase in phases(crew)
        for condition in conditions_of(phase).values()
        for fact in facts_in(condition)
        if fact.agent is None
    }
    flags = dict(crew.flags) | dict.fromkeys(sorted((asked & had) - has))
    merge = {
        key: how
        for key, how in crew.merge.items()
        if ("." in key or key in has or key in flags)
        and ("." not in key or key.partition(".")[0] in crew.agents)
    }
    return crew.model_copy(update={"flags": flags, "merge": merge})


def _flags_of(crew: CrewDefinition) -> set[str]:
    plain = expand(crew).definition
    found = {flag for agent in plain.agents.values() for flag in agent.writes_flags}
    found.update(p.item.sets for p in phases(plain) if isinstance(p.item, AskPhase) and p.item.sets)
    return found | set(crew.flags)


def _edit_phase(crew: CrewDefinition, op: o.EditPhase) -> CrewDefinition:
    old = Flow(crew)
    part = _phase(old, op.name)
    number = old.names().index(op.name)
    path = phases(crew)[number].path
    data = _data(crew)
    owner: Any = data
    for key in path[:-1]:
        owner = owner[key]
    own = owner[path[-1]] if isinstance(owner[path[-1]], dict) else {"agent": op.name}
    owner[path[-1]] = _set(own, op.set)
    read = _read(data, {path: ("set",)})
    flow = _pinned(Flow(read), old, but=number if "after" in op.set else None)
    list(flow.parts())[number].bare = True
    name = op.set.get("phase", part.name) or phases(read)[number].name
    if name != part.name:
        if name in flow.names():
            say = f"the crew has a phase {name!r} already"
            raise Refused(Finding(("set", "phase"), say, "Choose another name."))
        flow.rename({part.name: name})
    return flow.definition()


# -- removing an agent ---------------------------------------------------------------------------


def _remove_agent(crew: CrewDefinition, op: o.RemoveAgent) -> CrewDefinition:
    name = op.name
    lives(crew, name, ("name",))
    if not {*crew.agents} - {name, *crew.away}:
        say = f"{name!r} is the only agent of the crew"
        if crew.away:
            say = f"{name!r} is the last agent that lives in this run: the others are in others"
        remedy = "Add another one first, or stop the run: crewlog stop RUN."
        raise Refused(Finding(("name",), say, remedy))
    splice = Splice(crew)
    own = [
        p
        for p in splice.flow.parts()
        if isinstance(p.item, AgentPhase) and p.item.agents == (name,)
    ]
    splice.faults += [*_named_by_parts(crew, name), *needed_by_rules(crew, name)]
    for part in splice.flow.parts():
        if part not in own:
            splice.faults += _left_without(part, name)
            _without_agent(part, crew, name, splice.faults)
    without = _spliced(crew, splice, own)
    agents = {
        who: agent.model_copy(update={"reply": agent.reply.without(name)})
        if agent.reply is not None
        else agent
        for who, agent in without.agents.items()
        if who != name
    }
    permissions = {
        tool: who and tuple(each for each in who if each != name)
        for tool, who in without.permissions.items()
    }
    approvals = {
        tool: who and tuple(each for each in who if each != name)
        for tool, who in without.approvals.items()
        if who != (name,)
    }
    update: dict[str, Any] = {
        "agents": without_reader(agents, name),
        "permissions": permissions,
        "approvals": approvals,
        **without_agent(crew, name),
        "memory": without.memory and without.memory.without(name),
        "conversation": without.conversation and without.conversation.without(name),
        **without_member(crew, name),
    }
    made = _with_flags(among_agents(without.model_copy(update=update)), crew)
    return made if made.lives or not crew.lives else made.model_copy(update=alive(crew))


def _named_by_parts(crew: CrewDefinition, name: str) -> Iterable[Finding]:
    """Builders and patterns whose options name an agent."""
    for phase in phases(crew):
        item = phase.item
        if isinstance(item, BuilderPhase) and _has(item.with_, name):
            say = f"the part {phase.name!r}, made by the builder {item.use!r}, names {name!r}"
            how = f"edit_phase {phase.name}, with other options ('with'), or remove_phase"
            yield Finding(("flow", phase.name, "with"), say, f"{FIRST}: {how} {phase.name}.")
    for other, agent in crew.agents.items():
        if other != name and agent.pattern is not None and _has(agent.pattern.with_, name):
            say = f"the pattern {agent.pattern.use!r} of {other!r} names {name!r}"
            remedy = f"{FIRST}: edit_agent {other}, with another 'pattern'."
            yield Finding(("agents", other, "pattern", "with"), say, remedy)


def _has(options: Mapping[str, Json], name: str) -> bool:
    return any(text.partition(".")[0] == name for _, text in texts_in(dict(options)))


def _left_without(part: Part, name: str) -> Iterable[Finding]:
    """A phase with a step for each item of a list that nobody makes any more."""
    item = part.item
    if isinstance(item, AgentPhase) and name in item.agents:
        say = f"items of {part.name!r} may be {name!r}'s"
        how = f"edit_phase {part.name}, with another 'agent' or 'among', or remove_phase"
        yield Finding(("flow", part.name, "among"), say, f"{FIRST}: {how} {part.name}.")
    if isinstance(item, AgentPhase) and item.for_each and item.for_each.startswith(f"{name}."):
        say = f"{part.name!r} has a step for each item of {item.for_each!r}, which {name!r} makes"
        how = f"edit_phase {part.name}, with another 'for_each', or remove_phase {part.name}"
        yield Finding(("flow", part.name, "for_each"), say, f"{FIRST}: {how}.")
    if isinstance(item, RoutePhase) and item.route.startswith(f"{name}."):
        say = f"{part.name!r} goes where {item.route!r} says, which {name!r} sets"
        how = f"edit_phase {part.name}, with another 'route', or remove_phase {part.name}"
        yield Finding(("flow", part.name, "route"), say, f"{FIRST}: {how}.")


def _without_agent(part: Part, crew: CrewDefinition, name: str, faults: list[Finding]) -> None:
    """Conditions on flags of an agent, as conditions on the flags themselves."""
    item = part.item
    flags = set(expand(crew).definition.agents[name].writes_flags)

    def fact(said: Fact, key: str) -> Fact:
        if said.agent != name:
            return said
        if said.name in flags:
            return said.model_copy(update={"agent": None})
        say = f"{key!r} of {part.name!r} looks at {name}.{said.name}, an output of {name!r}"
        remedy = f"{FIRST}: edit_phase {part.name}, with another {key!r}."
        faults.append(Finding(("flow", part.name, key), say, remedy))
        return said

    update: dict[str, Any] = {}
    if not isinstance(item, DecisionPhase | BuilderPhase) and item.only_if is not None:
        update["only_if"] = mapped(item.only_if, lambda said: fact(said, "only_if"))
    if isinstance(item, AgentPhase) and item.when is not None:
        update["when"] = mapped(item.when, lambda said: fact(said, "when"))
    if isinstance(item, DecisionPhase):
        update["if_"] = mapped(item.if_, lambda said: fact(said, "if"))
    if any(value != getattr(item, key) for key, value in update.items()):
        part.set(**update)


_APPLY: dict[str, Callable[[CrewDefinition, Any], CrewDefinition]] = {
    "add_agent": _add_agent,
    "remove_agent": _remove_agent,
    "enable_agent": _switch,
    "disable_agent": _switch,
    "edit_agent": _edit_agent,
    "add_phase": _add_phase,
    "remove_phase": _remove_phase,
    "edit_phase": _edit_phase,
    "add_tool": _add_tool,
    "remove_tool": _remove_tool,
    "edit_tool": _edit_tool,
    "set_permission": _set_permission,
    "add_rule": _add_rule,
    "edit_rule": _edit_rule,
    "remove_rule": _remove_rule,
    "set_group": _set_group,
    "remove_group": _remove_group,
    "add_channel": add_channel,
    "remove_channel": remove_channel,
    "connect": connect,
    "disconnect": disconnect,
    "wire": wire,
    "unwire": unwire,
    "edit_crew": _edit_crew,
}

"""What a change does to a definition, in a line for people.

    summary(old, new)  →  "removes backend; adds mock_generator for ui_designer"

`crewlog.definition.diff` has the differences one by one. Here what only follows from another one is
left out: who reads that `backend` goes need not read that nobody waits for it any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.definition.diff import Change, DefinitionDiff, diff
from crewlog.definition.findings import listed
from crewlog.definition.model import AgentDefinition, CrewDefinition, GraphPolicy
from crewlog.definition.phases import phases
from crewlog.model import Json

LONGEST = 160
"""Characters of a line, where it is one of many."""
NOTHING = "changes nothing"
EDGE_WORDS = {
    "send": ("{name} sends to {to}", "{name} sends no more to {to}"),
    "listen": ("{name} listens to {to}", "{name} listens no more to {to}"),
    "wires": ("{name} is wired to {to}", "{name} is wired no more to {to}"),
    "beside": ("{name} is beside {to}", "{name} is no more beside {to}"),
}
"""How an agent's edges are told, those that come and those that go."""
_TEXTS = frozenset({"task", "ask", "with"})
"""What of a phase takes more than a line to say."""


def summary(old: CrewDefinition, new: CrewDefinition, longest: int | None = LONGEST) -> str:
    """What going from one definition to the other does, in a line.

    Args:
        old: The one.
        new: The other.
        longest: Characters of the line; what does not fit is counted. None: all is told.
    """
    found = diff(*_without_places(old, new))
    said = list(dict.fromkeys(_sayings(found, old, new)))
    if not said:
        return NOTHING
    line = said[0]
    for i, more in enumerate(said[1:], 1):
        left = len(said) - i
        if longest is not None and len(line) + len(more) > longest:
            return f"{line}; and {left} more"
        line = f"{line}; {more}"
    return line


def _without_places(old: CrewDefinition, new: CrewDefinition) -> tuple[CrewDefinition, ...]:
    """Both without where agents live that are in other runs, which is told in other words."""
    both = (old, new)
    if not any(each.away for each in both):
        return both
    left = (each.graph and each.graph.model_copy(update={"away": {}}) for each in both)
    # A policy that says nothing else is as good as none.
    return tuple(
        each.model_copy(update={"graph": policy if policy != GraphPolicy() else None})
        for each, policy in zip(both, left, strict=True)
    )


def _back(old: CrewDefinition, new: CrewDefinition) -> list[str]:
    """Agents that lived in other runs, and live here."""
    return [name for name in old.away if name in new.agents and name not in new.away]


def _gone(names: tuple[str, ...], old: CrewDefinition) -> Iterator[str]:
    """Agents that the crew has no more; of those that left, it is not known whether they live."""
    away = old.away
    if removed := [name for name in names if name not in away]:
        yield f"removes {listed(removed)}"
    if left := [name for name in names if name in away]:
        yield f"forgets {listed(left)}, who left before"


def _sayings(found: DefinitionDiff, old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    gone, came = found.names("agents", "removed"), found.names("agents", "added")
    yield from _gone(gone, old)
    if came:
        yield f"adds {listed(came)}"
    if back := _back(old, new):
        yield f"brings {listed(back)} back"
    switched = [c for c in found.under("agents") if c.path[2:] == ("enabled",)]
    for say, on in (("disables", False), ("enables", True)):
        names = [change.path[1] for change in switched if change.new is on]
        if names:
            yield f"{say} {listed(names)}"
    yield from _tools(found, new, came)
    for say, channels in (
        ("removes", found.names("channels", "removed")),
        ("adds", found.names("channels", "added")),
    ):
        if channels:
            noun = "channel" if len(channels) == 1 else "channels"
            yield f"{say} the {noun} {listed(channels)}"
    yield from _edges(old, new)
    told = {"enabled", *EDGE_WORDS, *_tools_alone(found, old, new)}
    yield from _edits(found, "agents", "", but=told)
    yield from _flow(found, old, new, {*gone, *came})
    rest = (
        *("crew", "description", "model", "flags", "merge", "limits", "memory", "approval"),
        *("policy", "groups", "rules", "timezone", "logs", "interrupts"),
        *("artifacts", "channels", "graph"),
    )
    for change in found.changes:
        if change.path[0] == "flags" and change.kind == "added" and change.new is None:
            continue  # a condition looks at it that looked at an agent's
        if change.path[0] == "channels" and len(change.path) == 2:
            continue
        if change.path[0] in rest or _table(change, {*gone, *came}):
            yield change.words


def _edges(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    """Who hears and speaks elsewhere than before, of agents that stay."""
    for key, (more, less) in EDGE_WORDS.items():
        for name in new.agents:
            before = old.agents.get(name)
            if before is None or before is new.agents[name]:
                continue
            was, now = _targets(before, key), _targets(new.agents[name], key)
            gone = [to for to in was if to not in now and to not in old.agents.keys() - new.agents]
            if came := [to for to in now if to not in was]:
                yield more.format(name=name, to=listed(came))
            if gone:
                yield less.format(name=name, to=listed(gone))


def _targets(agent: AgentDefinition, key: str) -> tuple[str, ...]:
    value: tuple[str, ...] | str | None = getattr(agent, key)
    return value if isinstance(value, tuple) else (value,) if value is not None else ()


def _table(change: Change, agents: set[str]) -> bool:
    """Whether it says who may call a tool, and not only that who is gone may not any more."""
    if change.path[0] not in {"permissions", "approvals"}:
        return False
    if change.old is None or change.new is None:  # every agent: more than a list says
        return True
    return not _sources(change.old) ^ _sources(change.new) <= agents


def _tools(found: DefinitionDiff, new: CrewDefinition, came: tuple[str, ...]) -> Iterator[str]:
    gone = found.names("tools", "removed")
    if gone:
        yield f"removes the {'tool' if len(gone) == 1 else 'tools'} {listed(gone)}"
    for tool in found.names("tools", "added"):
        whose = [n for n, a in new.agents.items() if tool in (a.tools or ()) and n not in came]
        yield f"adds {tool} for {listed(whose)}" if whose else f"adds the tool {tool}"
    yield from _edits(found, "tools", "the tool ", but=set())


def _tools_alone(found: DefinitionDiff, old: CrewDefinition, new: CrewDefinition) -> set[str]:
    """`tools`, where agents only have what was added, and lack what was removed."""
    moved = {*found.names("tools", "added"), *found.names("tools", "removed")}
    for name in {*old.agents} & {*new.agents}:
        before, after = old.agents[name].tools, new.agents[name].tools
        if before != after and not set(before or ()) ^ set(after or ()) <= moved:
            return set()
    return {"tools"}


def _edits(found: DefinitionDiff, section: str, kind: str, but: set[str] | None) -> Iterator[str]:
    """`edits writer (prompt, model)`: the parts that stayed, and what of them is another.

    Args:
        found: All differences.
        section: Where the parts are.
        kind: What they are called.
        but: What is told elsewhere; none: only texts are told here.
    """
    keys: dict[str, list[str]] = {}
    for change in found.under(section):
        name, key = (*change.path, "", "", "")[1:3]
        if key and (key in _TEXTS if but is None else key not in but):
            keys.setdefault(name, []).append(key)
    for name, changed in keys.items():
        yield f"edits {kind}{name} ({', '.join(dict.fromkeys(changed))})"


def _flow(
    found: DefinitionDiff, old: CrewDefinition, new: CrewDefinition, agents: set[str]
) -> Iterator[str]:
    """Phases that come, go or change, but for those of agents that come or go."""
    of = {p.name: getattr(p.item, "agent", "") for crew in (old, new) for p in phases(crew)}
    for say, kind in (("removes", "removed"), ("adds", "added")):
        whole = [c.path[1] for c in found.under("flow") if c.kind == kind and len(c.path) == 2]
        names = [name for name in whole if of.get(name) not in agents]
        if names:
            yield f"{say} the {'phase' if len(names) == 1 else 'phases'} {listed(names)}"
    there = {p.name for p in phases(old)} & {p.name for p in phases(new)}
    gone = found.names("agents", "removed")
    yield from _edits(found, "flow", "the phase ", but=None)
    for change in found.under("flow"):
        follows = change.path[2:] == ("after",) and _around(change, there)
        follows = follows or any(f"{name}." in str(change.old) for name in gone)
        if len(change.path) > 2 and change.path[2] not in _TEXTS and not follows:
            yield change.words


def _around(change: Change, there: set[str]) -> bool:
    """Whether a phase waits for others only because phases come or go."""
    before, after = _sources(change.old), _sources(change.new)
    return bool((before | after) - there)


def _sources(after: Json) -> set[str]:
    """The names in a list, or in what `after` says."""
    if isinstance(after, dict):
        joined: dict[str, Json] = after  # pyright: ignore[reportUnknownVariableType]
        return _sources(joined.get("any", joined.get("of")))
    if isinstance(after, list):
        names: list[Json] = after  # pyright: ignore[reportUnknownVariableType]
        return {str(name) for name in names}
    return set()

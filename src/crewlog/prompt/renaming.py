"""Names of a changed prompt's crew: what did not change keeps the name that it had.

The compiler derives names from places (`writer_2`, `ask_2`), so they move when something before
them goes. A run's journal and approvals name phases: so the names of the earlier crew win.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain, count
from typing import Any

from crewlog.definition.flow import renamed
from crewlog.definition.model import AgentPhase, AskPhase, CrewDefinition, DecisionPhase
from crewlog.definition.phases import PhaseItem, phases

_Keys = tuple[tuple[object, ...], ...]
"""What a phase is known by, from all of it to the least."""

_LONGEST_NAME = 64
_LISTS = ("tools", "reads", "writes", "outputs", "writes_flags")
_DERIVED = ("before_", "gate_")
"""Prefixes of questions whose names follow from the step that they are about."""


def keep_names(previous: CrewDefinition, fresh: CrewDefinition) -> CrewDefinition:
    """The fresh crew with the names and the order that the previous one has for the same things.

    Args:
        previous: The crew of the earlier version.
        fresh: The crew of the changed prompt.
    """
    crew = renamed(fresh, _names(previous, fresh))
    tools = {name: crew.tools[name] for name in _ordered(previous.tools, crew.tools)}
    update: dict[str, Any] = {"agents": {}, "tools": tools}
    for name in _ordered(previous.agents, crew.agents):
        old, new = previous.agents.get(name), crew.agents[name]
        lists = {key: getattr(new, key) for key in _LISTS}
        lists = {k: now and _ordered(getattr(old, k, None), now) for k, now in lists.items()}
        update["agents"][name] = new.model_copy(update=lists)
    for key in ("permissions", "approvals"):
        old, new = getattr(previous, key), getattr(crew, key)
        update[key] = {tool: who and _ordered(old.get(tool), who) for tool, who in new.items()}
    return crew.model_copy(update=update)


def _names(previous: CrewDefinition, fresh: CrewDefinition) -> dict[str, str]:
    """The name of every fresh phase: that of the first earlier phase that is alike, if any."""
    tasks: dict[str, list[str]] = {}
    for item in (phase.item for crew in (previous, fresh) for phase in phases(crew)):
        if isinstance(item, AgentPhase) and item.task:
            tasks.setdefault(item.agent, []).append(_flat(item.task))
    old, new = _known_by(previous, tasks), _known_by(fresh, tasks)
    names: dict[str, str] = {}
    for stage in range(3):
        for mine, keys in new.items():
            left = (name for name in old if name not in names.values() and len(keys) > stage)
            alike = next((name for name in left if keys[stage] in old[name]), None)
            if mine not in names and alike is not None:
                names[mine] = alike
    for name in sorted(new, key=lambda name: name.startswith(_DERIVED)):
        kind, _, of = name.partition("_")
        wanted = f"{kind}_{names.get(of, of)}" if name.startswith(_DERIVED) else name
        names.setdefault(name, _free(wanted, {*names.values()}))
    return names


def _known_by(crew: CrewDefinition, tasks: Mapping[str, list[str]]) -> dict[str, _Keys]:
    """What each phase of a crew is known by."""
    found = phases(crew)
    agents = {p.name: p.item.agent for p in found if isinstance(p.item, AgentPhase)}

    def keys(name: str, item: PhaseItem) -> _Keys:
        match item:
            case AgentPhase():
                agent = crew.agents.get(item.agent)
                # An agent with one phase has its task in its prompt.
                text = _flat(item.task or (agent.prompt if agent is not None else ""))
                task = next((each for each in tasks.get(item.agent, ()) if each in text), text)
                conditions = (item.only_if, item.when, item.for_each)
                return (item.agents, task, conditions), (item.agents, task), (item.agents,)
            case DecisionPhase():
                goal = agents.get(item.go, item.go)
                return ("if", item.if_, goal), ("if", item.if_), ("go", goal)
            case AskPhase():  # another question is another phase: it has no answer yet
                own = not name.startswith(_DERIVED)
                return (("ask", item.ask, item.only_if), ("ask", item.ask)) if own else ()
            case _:
                plain = item.model_copy(update={"phase": None, "after": None})
                return (plain,), (type(item), *(getattr(item, key, "") for key in ("use", "route")))

    return {phase.name: keys(phase.name, phase.item) for phase in found}


def _free(name: str, taken: set[str]) -> str:
    """The name, or the next of its kind that nothing has."""
    stem = re.sub(r"_\d+$", "", name)[: _LONGEST_NAME - 4]
    return next(n for n in chain([name], (f"{stem}_{i}" for i in count(2))) if n not in taken)


def _ordered(old: Iterable[str] | None, new: Iterable[str]) -> tuple[str, ...]:
    """The new names: first those that were there, in the order that they had."""
    now = dict.fromkeys(new)
    return tuple(dict.fromkeys([*(each for each in old or () if each in now), *now]))


def _flat(text: str) -> str:
    """A text's words: without case, layout and signs."""
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))

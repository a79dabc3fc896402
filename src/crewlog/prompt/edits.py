"""Edits: a changed prompt makes a crew in which what did not change keeps its names.

Names that follow from places (`writer_2`, `ask_2`, `after_checker`) move when something before them
goes. A run's journal, its approvals and its diff speak of phases by name, so the names of the
earlier version win: phases are matched by what they are and by their neighbours, flags by their
words, and lists whose order means nothing keep the order that they had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from crewlog.definition import conditions as c
from crewlog.definition.flow import renamed
from crewlog.definition.model import (
    AgentDefinition,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    DecisionPhase,
    ParallelPhase,
    RoutePhase,
    WaitPhase,
)
from crewlog.definition.phases import Phase, phases

K = TypeVar("K")

_WORD = re.compile(r"[^\W_]+")
_FORM = frozenset(
    re.findall(r"\w+", "the a an is are was were be been being has have had it its now")
)
_ENDINGS = ("ing", "ed", "es", "s", "e")
_LONGEST_NAME = 64
_DERIVED = ("before_", "gate_")


def keep_names(previous: CrewDefinition, fresh: CrewDefinition) -> CrewDefinition:
    """The fresh crew with the names and the order that the previous one has for the same things.

    Args:
        previous: The crew of the earlier version.
        fresh: The crew of the changed prompt.
    """
    crew = _with_flags(fresh, _same_flags(previous, fresh))
    crew = renamed(crew, _names(previous, crew))
    agents = {
        name: _agent(previous.agents.get(name), crew.agents[name])
        for name in _ordered(previous.agents, crew.agents)
    }
    return crew.model_copy(
        update={
            "agents": agents,
            "tools": {t: crew.tools[t] for t in _ordered(previous.tools, crew.tools)},
            "permissions": _table(previous.permissions, crew.permissions),
            "approvals": _table(previous.approvals, crew.approvals),
            "flow": tuple(_worded(item, _questions(previous)) for item in crew.flow),
        }
    )


# -- phases ----------------------------------------------------------------------------------------


def _names(previous: CrewDefinition, fresh: CrewDefinition) -> dict[str, str]:
    """The name of every fresh phase."""
    old, new = _Flow(previous), _Flow(fresh)
    pairs = sorted(
        (
            (-score, abs(i - j), i, j)
            for i, mine in enumerate(new.phases)
            for j, theirs in enumerate(old.phases)
            if (score := _likeness(new, mine, old, theirs)) > 0
        ),
    )
    names: dict[str, str] = {}
    taken: set[str] = set()
    for _, _, i, j in pairs:
        mine, theirs = new.phases[i].name, old.phases[j].name
        if mine not in names and theirs not in taken:
            names[mine] = theirs
            taken.add(theirs)
    for phase in new.phases:
        if phase.name in names or phase.name.startswith(_DERIVED):
            continue
        names[phase.name] = _free(phase.name, taken)
        taken.add(names[phase.name])
    for phase in new.phases:
        for kind in _DERIVED:
            if phase.name.startswith(kind):
                of = phase.name.removeprefix(kind)
                name = f"{kind}{names.get(of, of)}"
                names[phase.name] = _free(name, taken)
                taken.add(names[phase.name])
    return names


def _free(name: str, taken: set[str]) -> str:
    """The name, or the next of its kind that nothing has."""
    base, _, number = name.rpartition("_")
    counted = bool(base) and number.isdigit()
    stem, count = (base, int(number)) if counted else (name, 1)
    while name in taken:
        count += 1
        name = f"{stem[: _LONGEST_NAME - 4]}_{count}"
    return name


class _Flow:
    """The phases of a crew with their neighbours."""

    def __init__(self, crew: CrewDefinition) -> None:
        self.crew = crew
        self.phases = phases(crew)
        self.whose = {phase.name: _who(phase) for phase in self.phases}
        self.follows: dict[str, list[str]] = {}
        for phase in self.phases:
            for source in phase.sources:
                self.follows.setdefault(source, []).append(self.whose[phase.name])

    def before(self, phase: Phase) -> list[str]:
        """Who works in the phases that this one waits for."""
        return sorted(self.whose.get(source, "") for source in phase.sources)

    def after(self, phase: Phase) -> list[str]:
        """Who works in the phases that wait for this one."""
        return sorted(self.follows.get(phase.name, ()))

    def task(self, phase: Phase) -> str:
        """What is done in a phase: an agent with one phase has it in its prompt."""
        item = phase.item
        if not isinstance(item, AgentPhase):
            return ""
        agent = self.crew.agents.get(item.agent)
        return _flat(item.task or (agent.prompt if agent is not None else ""))


def _who(phase: Phase) -> str:
    match phase.item:
        case AgentPhase() as item:
            return item.agent
        case BuilderPhase() as item:
            return item.use
        case DecisionPhase():
            return "?"
        case AskPhase():
            return "ask"
        case WaitPhase():
            return "wait"
        case RoutePhase():
            return "route"


def _likeness(  # noqa: C901 - a table of the kinds of phases
    new: _Flow, mine: Phase, old: _Flow, theirs: Phase
) -> int:
    """How much speaks for two phases being the same; 0 where they cannot be."""
    score = _same_place(new, mine, old, theirs)
    match mine.item, theirs.item:
        case AgentPhase() as a, AgentPhase() as b:
            if a.agent != b.agent:
                return 0
            ours, other = new.task(mine), old.task(theirs)
            if ours == other:
                score += 6
            elif ours and other and (ours in other or other in ours):
                score += 4
            score += sum(
                (a.only_if == b.only_if, a.when == b.when, a.for_each == b.for_each, 1),
            )
            return score
        case DecisionPhase() as a, DecisionPhase() as b:
            same_goal = new.whose.get(a.go, a.go) == old.whose.get(b.go, b.go)
            if not (a.if_ == b.if_ or (same_goal and score)):
                return 0
            return score + 4 * (a.if_ == b.if_) + 3 * same_goal
        case AskPhase() as a, AskPhase() as b:
            if mine.name.startswith(_DERIVED) or theirs.name.startswith(_DERIVED):
                return 0
            same = _flat(a.ask) == _flat(b.ask)
            if not same and score < 4:
                return 0
            return score + 6 * same + (a.only_if == b.only_if)
        case WaitPhase() as a, WaitPhase() as b:
            same = (a.wait, a.wait_until) == (b.wait, b.wait_until)
            return score + 6 * same + (a.only_if == b.only_if)
        case RoutePhase() as a, RoutePhase() as b:
            return score + 1 if a.route == b.route else 0
        case BuilderPhase() as a, BuilderPhase() as b:
            return score + 1 if a.use == b.use else 0
        case _:
            return 0


def _same_place(new: _Flow, mine: Phase, old: _Flow, theirs: Phase) -> int:
    return 2 * (new.before(mine) == old.before(theirs)) + 2 * (new.after(mine) == old.after(theirs))


# -- flags -----------------------------------------------------------------------------------------


def _same_flags(previous: CrewDefinition, fresh: CrewDefinition) -> dict[str, str]:
    """Fresh flags that an earlier one, of the same agents, says in another form."""
    old, new = _writers(previous), _writers(fresh)
    gone = {flag: who for flag, who in old.items() if flag not in new}
    found: dict[str, str] = {}
    for flag, who in new.items():
        if flag in old:
            continue
        for other, writers in gone.items():
            alike = _form(flag) == _form(other) and set(who) == set(writers)
            if alike and other not in found.values():
                found[flag] = other
                break
    return found


def _writers(crew: CrewDefinition) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, agent in crew.agents.items():
        for flag in agent.writes_flags:
            found.setdefault(flag, []).append(name)
    return found


def _form(flag: str) -> list[str]:
    return [_stem(word) for word in flag.lower().split("_") if word not in _FORM]


def _stem(word: str) -> str:
    for ending in () if word.endswith("ss") else _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word.removesuffix(ending)
    return word


def _with_flags(crew: CrewDefinition, flags: Mapping[str, str]) -> CrewDefinition:
    if not flags:
        return crew
    agents: dict[str, AgentDefinition] = {}
    for name, agent in crew.agents.items():
        prompt = agent.prompt
        for flag, other in flags.items():
            prompt = prompt.replace(f"the flag '{flag}'", f"the flag '{other}'")
        own = tuple(flags.get(flag, flag) for flag in agent.writes_flags)
        agents[name] = agent.model_copy(update={"writes_flags": own, "prompt": prompt})

    def fact(said: c.Condition | None) -> c.Condition | None:
        match said:
            case c.Fact(operator=None):
                return said.model_copy(update={"name": flags.get(said.name, said.name)})
            case c.Not():
                return said.model_copy(update={"of": fact(said.of)})
            case c.AllOf() | c.AnyOf():
                return said.model_copy(update={"of": tuple(fact(part) for part in said.of)})
            case _:
                return said

    flow = tuple(_each(item, lambda part: _conditions(part, fact)) for item in crew.flow)
    return crew.model_copy(update={"agents": agents, "flow": flow})


def _each(item: Any, change: Callable[[Any], Any]) -> Any:
    """A flow item with each of its phases changed."""
    if isinstance(item, tuple):
        parts: tuple[Any, ...] = item  # pyright: ignore[reportUnknownVariableType]
        return tuple(_each(part, change) for part in parts)
    if isinstance(item, ParallelPhase):
        return item.model_copy(update={"parallel": _each(item.parallel, change)})
    return change(item)


def _conditions(item: Any, change: Callable[[c.Condition | None], c.Condition | None]) -> Any:
    update: dict[str, Any] = {}
    if isinstance(item, AgentPhase):
        update = {"when": change(item.when), "only_if": change(item.only_if)}
    elif isinstance(item, AskPhase | WaitPhase | RoutePhase):
        update = {"only_if": change(item.only_if)}
    elif isinstance(item, DecisionPhase):
        update = {"if_": change(item.if_)}
    return item.model_copy(update=update) if update else item


# -- order and wording -----------------------------------------------------------------------------


def _agent(old: AgentDefinition | None, new: AgentDefinition) -> AgentDefinition:
    if old is None:
        return new
    update: dict[str, Any] = {}
    for key in ("tools", "reads", "writes", "outputs", "writes_flags"):
        before, now = getattr(old, key), getattr(new, key)
        if before is not None and now is not None:
            update[key] = tuple(_ordered(before, now))
    if _flat(old.prompt) == _flat(new.prompt):
        update["prompt"] = old.prompt
    return new.model_copy(update=update)


def _questions(crew: CrewDefinition) -> dict[str, str]:
    """Texts of questions and tasks, by their words."""
    found: dict[str, str] = {}
    for phase in phases(crew):
        item = phase.item
        text = item.ask if isinstance(item, AskPhase) else getattr(item, "task", None)
        if text:
            found.setdefault(_flat(text), text)
    return found


def _worded(item: Any, known: Mapping[str, str]) -> Any:
    def worded(part: Any) -> Any:
        if isinstance(part, AskPhase):
            return part.model_copy(update={"ask": known.get(_flat(part.ask), part.ask)})
        if isinstance(part, AgentPhase) and part.task:
            return part.model_copy(update={"task": known.get(_flat(part.task), part.task)})
        return part

    return _each(item, worded)


def _table(
    old: Mapping[str, tuple[str, ...] | None], new: Mapping[str, tuple[str, ...] | None]
) -> dict[str, tuple[str, ...] | None]:
    return {
        key: None if (now := new[key]) is None else tuple(_ordered(old.get(key) or (), now))
        for key in _ordered(old, new)
    }


def _ordered(old: Iterable[K], new: Iterable[K]) -> list[K]:
    """The new things in the old order; one that was not there comes where it follows another."""
    now = list(dict.fromkeys(new))
    out = [thing for thing in dict.fromkeys(old) if thing in set(now)]
    known = set(out)
    at = 0
    for thing in now:
        if thing in known:
            at = out.index(thing) + 1
        else:
            out.insert(at, thing)
            at += 1
    return out


def _flat(text: str) -> str:
    """A text's words: without case, layout and signs."""
    return " ".join(_WORD.findall(text.casefold()))

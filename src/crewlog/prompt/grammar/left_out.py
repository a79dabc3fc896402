"""What a prompt says that went no further than an agent's words: reported, never dropped.

Names that look like tools, agents that somebody else's task speaks of and that never work, and
`they` where one agent alone was spoken of beside several others.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from crewlog.prompt.ast import AnyStatement, Step, Trait, Words
from crewlog.prompt.grammar.near_shapes import GOAL, NO_MODEL, STRATEGY, WEAK
from crewlog.prompt.grammar.phrase import agents_in
from crewlog.prompt.grammar.state import State

_TOOL = re.compile(r"(?<![\w/.\-`'\"])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w/\-`'\"]|\.\w)")
_PLURAL = re.compile(
    r"(?:they|these|those|both|all of them|the two|both of them|all three)\b", re.IGNORECASE
)
_READ: dict[str, frozenset[str]] = {
    "decides": frozenset([GOAL, STRATEGY]),
    "does": frozenset([NO_MODEL]),
}
"""What is read of a step besides, so that its words need no other."""


def look_at_left_out(state: State) -> None:
    """Reports what ended up in words alone."""
    told = {(s.start, s.end) for r in state.remarks for s in r.words}
    starts = [unit.start for unit in state.units]
    spoken: dict[str, Words] = {}
    for at, statement in enumerate(state.statements):
        if not isinstance(statement, Step | Trait):
            continue
        read: frozenset[str] = frozenset()
        for other in state.statements[at + 1 : at + 3]:
            if other.words == statement.words:
                read |= _READ.get(other.kind, frozenset())
        for words in statement.words:
            _shapes(state, words, read)
            _tools(state, words, told)
            if isinstance(statement, Step) and statement.words:
                units = state.units[
                    bisect_left(starts, words.start) : bisect_left(starts, words.end)
                ]
                for unit in units:
                    for number in agents_in(unit.text):
                        name = state.roster.agent(number)
                        spoken.setdefault(name, Words(start=unit.start, end=unit.end))
    _never_work(state, spoken)
    _they(state)


def _shapes(state: State, words: Words, read: frozenset[str]) -> None:
    """Words that may have been meant as a rule about the crew's shape."""
    said = state.text[words.start : words.end]
    for form, hint in WEAK:
        if hint in read or (found := form.search(said)) is None:
            continue
        place = Words(start=words.start + found.start(), end=words.start + found.end())
        if any(_within(place, r.words) for r in state.remarks):
            continue
        state.remark(
            "read_as_words",
            f"{state.shown(place)!r} is only part of what an agent is told: no rule is made of it",
            [place],
            f"If it is one: {hint[0].lower()}{hint[1:]}" if hint[:3] == "For" else hint,
        )
        return


def _within(place: Words, several: Sequence[Words]) -> bool:
    return any(w.start <= place.start and place.end <= w.end for w in several)


def _tools(state: State, words: Words, told: set[tuple[int, int]]) -> None:
    """Names that are spelled like tools, and that the registry does not offer."""
    for found in _TOOL.finditer(state.text, words.start, words.end):
        place = Words(start=found.start(), end=found.end())
        if found[0] in state.registry.tools or found[0] in state.roster.keys:
            continue
        if any(start <= place.start and place.end <= end for start, end in told):
            continue
        state.remark(
            "read_as_words",
            f"{found[0]!r} is only part of what an agent is told: the registry offers no such tool",
            [place],
            "If a tool is meant, say 'The X may use …' with a tool of the registry.",
        )


def _never_work(state: State, spoken: dict[str, Words]) -> None:
    """Agents that the task of another speaks of, and of whom nothing else is said."""
    known = {name for said in state.statements for name in _agents(said)}
    for name, words in spoken.items():
        if name in known or name in state.registry.agents:
            continue
        called = name.replace("_", " ")
        state.remark(
            "unused",
            f"{name!r} is only spoken of in what another agent is told: it is left out",
            [words],
            f"If it works, too, say what it does: 'Then the {called} …'.",
        )


def _agents(said: AnyStatement) -> tuple[str, ...]:
    named = [getattr(said, key, None) for key in ("agent", "to", "before", "reject_to")]
    parts = [part.agent for part in getattr(said, "parts", ())]
    several = [
        *getattr(said, "agents", ()),
        *getattr(said, "whose", ()),
        *getattr(said, "group", ()),
    ]
    takes_over = getattr(said, "takes_over", None)
    after: Any = getattr(said, "after", None)
    if takes_over is not None:
        parts.append(takes_over.agent)
    if hasattr(after, "of"):
        several += after.of
    return tuple(str(name) for name in (*named, *parts, *several) if name)


def _they(state: State) -> None:
    """`The planner makes a plan for the baker and the cook. They …`, read as the planner."""
    starts = [unit.start for unit in state.units]
    before: Sequence[str] = ()
    for statement in state.statements:
        if not isinstance(statement, Step) or not statement.words:
            continue
        for words in statement.words:
            said = state.text[words.start : words.end]
            others = [name for name in before if name != statement.parts[0].agent]
            if len(statement.parts) == 1 and len(others) > 1 and _PLURAL.match(said):
                agent = statement.parts[0].agent
                state.remark(
                    "assumed",
                    f"{said.split()[0]!r} is taken for {agent!r}, and may be {' and '.join(others)}",
                    [words],
                    "Name those who are meant.",
                )
            units = state.units[bisect_left(starts, words.start) : bisect_left(starts, words.end)]
            numbers = [n for unit in units for n in agents_in(unit.text)]
            before = [state.roster.agent(n) for n in dict.fromkeys(numbers)]

"""Conditions in sentences: `the score is below 0.8`, `the checker approves it`, `it is a bug`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Literal

from crewlog.definition.conditions import Condition, Fact, facts_in, holds, mapped
from crewlog.model import Json
from crewlog.prompt.names import plain
from crewlog.prompt.vocabulary import word_set

_SCALES = word_set(
    """category kind type priority severity status intent language topic level risk urgency mood
    class grade sentiment verdict decision outcome channel region size colour color"""
)
"""Nouns that have values: `the priority is high` compares, `the build is green` does not."""
_COMPARE: dict[str, Literal["<", ">", ">=", "<="]] = {
    "below": "<", "under": "<", "less than": "<", "lower than": "<", "fewer than": "<",
    "above": ">", "over": ">", "more than": ">", "higher than": ">", "greater than": ">",
    "at least": ">=", "not below": ">=", "at most": "<=", "not above": "<=", "no more than": "<=",
}  # fmt: skip
_DECIDED = {
    "approve": "approved", "approves": "approved", "reject": "rejected", "rejects": "rejected",
    "accept": "accepted", "accepts": "accepted", "confirm": "confirmed", "confirms": "confirmed",
}  # fmt: skip


_AgentOf = Callable[[str], str]
"""The agent of some words, or an empty text."""


@dataclass(frozen=True)
class Said:
    """A condition of a sentence."""

    kind: Literal["fact", "not", "all", "any"]
    of: tuple[Said, ...] = ()
    name: str = ""
    operator: Literal["==", "<", ">", ">=", "<="] | None = None
    value: Json = None
    agent: str = ""
    """Who decides it, where the words name an agent."""
    about: str = ""
    """The noun that the condition is about: `models` of `the models are ready`."""


def read_condition(text: str, agent_of: _AgentOf) -> Said | None:
    """Reads a condition; none where it is no condition that the forms know.

    Args:
        text: The words, without `if`.
        agent_of: The agent of some words, or an empty text.
    """
    text = " ".join(text.split()).strip(" ,.")
    for word, kind in ((" or ", "any"), (" and ", "all")):
        parts = text.split(word)
        if len(parts) > 1:
            read = [read_condition(part, agent_of) for part in parts]
            if all(read):
                return Said("any" if kind == "any" else "all", tuple(each for each in read if each))
            return None
    return _fact(text, agent_of)


def _fact(text: str, agent_of: _AgentOf) -> Said | None:
    for pattern, read in _FORMS:
        found = pattern.fullmatch(text)
        said = read(found, agent_of) if found is not None else None
        if found is not None and said is not None:
            return Said("not", (said,)) if found["not"] else said
    return None


def _bare(found: re.Match[str], _: _AgentOf) -> Said | None:
    word = found["word"].casefold()
    return Said("fact", name=plain(word)) if found["they"] or word.endswith("ed") else None


def _kind(found: re.Match[str], _: _AgentOf) -> Said:
    return Said("fact", name="kind", operator="==", value=plain(found["what"]))


def _decision(found: re.Match[str], agent_of: _AgentOf) -> Said | None:
    name = _DECIDED.get(found["verb"].casefold())
    agent = agent_of(found["agent"]) if name else ""
    return Said("fact", name=name, agent=agent) if name and agent else None


def _owner(about: str, agent_of: _AgentOf) -> tuple[str, str]:
    """`Backend's models` as the agent and the thing."""
    found = re.fullmatch(r"(?P<owner>.+?)(?:'s|s')\s+(?P<thing>.+)", about)
    if found is None:
        return "", re.sub(r"^(?:the|its|their)\s+", "", about, flags=re.IGNORECASE)
    agent = agent_of(found["owner"])
    return agent, found["thing"] if agent else about


def _comparison(found: re.Match[str], agent_of: _AgentOf) -> Said:
    agent, thing = _owner(found["about"], agent_of)
    value: Json = float(found["number"].replace(",", ""))
    if found["percent"]:
        value /= 100
    elif value == int(value):
        value = int(value)
    operator = _COMPARE[" ".join(found["how"].casefold().split())]
    return Said("fact", (), plain(thing), operator, value, agent, thing)


def _value(found: re.Match[str], agent_of: _AgentOf) -> Said | None:
    agent, thing = _owner(found["about"], agent_of)
    if thing.split()[-1].casefold() not in _SCALES:
        return None
    return Said("fact", (), plain(thing), "==", found["value"].casefold(), agent, thing)


_NOBODY = re.compile(r"(?:none|neither|nothing|no|any|either|both|all)\b", re.IGNORECASE)


def _state(found: re.Match[str], agent_of: _AgentOf) -> Said | None:
    agent, thing = _owner(found["about"], agent_of)
    if len(thing.split()) > 4 or agent_of(found["about"]) or _NOBODY.match(found["about"]):
        return None
    state = found["state"].casefold()
    name = state if state in {"approved", "rejected"} else plain(f"{thing} {state}")
    return Said("fact", name=name, agent=agent, about=thing)


def _verb(found: re.Match[str], _: _AgentOf) -> Said | None:
    if found["verb"].casefold() in {"is", "are"}:
        return None
    return Said("fact", name=plain(f"{found['about']} {found['verb']}"), about=found["about"])


_SUBJECT = r"(?:(?:the|an?|its|their|his|her|our|your)\s+)?(?P<about>[a-z][\w' -]*?)"
_NUMBER = r"(?P<number>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s*(?P<percent>%|percent|per cent)?"
_THEY = r"(?:it|this|that|they|he|she|the result|the answer)"
_HOW = "|".join(sorted(_COMPARE, key=len, reverse=True))
_NOT = r"(?P<not>not\s+)?"
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], _AgentOf], Said | None]], ...] = (
    tuple(
        (re.compile(pattern, re.IGNORECASE), read)
        for pattern, read in (
            (rf"(?P<they>{_THEY}\s+(?:is|are|was|were)\s+)?{_NOT}(?P<word>[a-z-]+)", _bare),
            (rf"{_THEY}\s+(?:is|are)\s+{_NOT}an?\s+(?P<what>[\w -]{{2,40}})", _kind),
            (
                r"(?P<agent>.+?)\s+(?P<not>(?:does|do)\s+not\s+)?(?P<verb>\w+)(?:\s+(?:it|them|this|that))?",
                _decision,
            ),
            (rf"{_SUBJECT}\s+(?:is|are)\s+{_NOT}(?P<how>{_HOW})\s+{_NUMBER}", _comparison),
            (rf"{_SUBJECT}\s+(?:is|are)\s+{_NOT}(?P<value>[\w-]+)", _value),
            (rf"{_SUBJECT}\s+(?:is|are|has been|have been)\s+{_NOT}(?P<state>[a-z-]+)", _state),
            (r"(?:the\s+)?(?P<about>[a-z-]+s)\s+(?P<not>do\s+not\s+)?(?P<verb>[a-z]+)", _verb),
        )
    )
)
"""Conditions by their patterns, in the order in which they are tried."""


_MOST_CASES = 2_000
"""Combinations of values in which two conditions are looked at."""


def can_both_hold(one: Condition, other: Condition) -> bool:
    """Whether some values of the outputs make both of two conditions true.

    Conditions about different outputs always can.
    """
    first, second = (
        mapped(each, lambda f: f.model_copy(update={"agent": None})) for each in (one, other)
    )
    names = {fact.name for fact in facts_in(first)} & {fact.name for fact in facts_in(second)}
    facts = [*facts_in(first), *facts_in(second)]
    if not names:
        return True
    values = {name: _values_of(name, facts) for name in dict.fromkeys(f.name for f in facts)}
    cases = (dict(zip(values, case, strict=True)) for case in product(*values.values()))
    return any(
        holds(first, case, {}) and holds(second, case, {}) for case in islice(cases, _MOST_CASES)
    )


def _values_of(name: str, facts: list[Fact]) -> list[Any]:
    """Values of an output that differ for some condition: each compared value and its neighbours."""
    flat: list[Any] = []
    for fact in facts:
        if fact.name != name or fact.operator is None:
            continue
        if isinstance(fact.value, list):
            flat.extend(fact.value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        else:
            flat.append(fact.value)
    numbers = [v for v in flat if isinstance(v, int | float) and not isinstance(v, bool)]
    more = [number + step for number in numbers for step in (-0.001, 0.001)]
    return list(dict.fromkeys([True, False, *flat, *more, "another value"]))

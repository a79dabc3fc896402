"""Conditions in sentences: `the score is below 0.8`, `the checker approves it`, `it is a bug`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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
_SUBJECT = r"(?:(?:the|an?|its|their|his|her|our|your)\s+)?(?P<about>[a-z][\w' -]*?)"
_NUMBER = r"(?P<number>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s*(?P<percent>%|percent|per cent)?"
_THEY = r"(?:it|this|that|they|he|she|the result|the answer)"


@dataclass(frozen=True)
class Said:
    """A condition as it is said."""

    kind: Literal["fact", "not", "all", "any"]
    of: tuple[Said, ...] = ()
    name: str = ""
    operator: Literal["==", "<", ">", ">=", "<="] | None = None
    value: Json = None
    agent: str = ""
    """Who decides it, where the words name an agent."""
    about: str = ""
    """The thing that it is said of."""


def read_condition(text: str, agent_of: Callable[[str], str]) -> Said | None:
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


def _not(said: Said, negated: object) -> Said:
    return Said("not", (said,)) if negated else said


def _fact(text: str, agent_of: Callable[[str], str]) -> Said | None:
    for read in (_bare, _kind, _decision, _comparison, _value, _state, _verb):
        found = read(text, agent_of)
        if found is not None:
            return found
    return None


def _bare(text: str, agent_of: Callable[[str], str]) -> Said | None:
    found = re.fullmatch(
        rf"(?P<they>{_THEY}\s+(?:is|are|was|were)\s+)?(?P<not>not\s+)?(?P<word>[a-z-]+)",
        text,
        re.IGNORECASE,
    )
    if found is None:
        return None
    word = found["word"].casefold()
    if not found["they"] and not word.endswith("ed"):
        return None
    return _not(Said("fact", name=plain(word)), found["not"])


def _kind(text: str, agent_of: Callable[[str], str]) -> Said | None:
    found = re.fullmatch(
        rf"{_THEY}\s+(?:is|are)\s+(?P<not>not\s+)?an?\s+(?P<what>[\w -]{{2,40}})",
        text,
        re.IGNORECASE,
    )
    if found is None:
        return None
    return _not(Said("fact", name="kind", operator="==", value=plain(found["what"])), found["not"])


def _decision(text: str, agent_of: Callable[[str], str]) -> Said | None:
    found = re.fullmatch(
        r"(?P<agent>.+?)\s+(?P<not>(?:does|do)\s+not\s+)?(?P<verb>\w+)(?:\s+(?:it|them|this|that))?",
        text,
        re.IGNORECASE,
    )
    if found is None or found["verb"].casefold() not in _DECIDED:
        return None
    agent = agent_of(found["agent"])
    if not agent:
        return None
    return _not(Said("fact", name=_DECIDED[found["verb"].casefold()], agent=agent), found["not"])


def _owner(about: str, agent_of: Callable[[str], str]) -> tuple[str, str]:
    """`Backend's models` as the agent and the thing."""
    found = re.fullmatch(r"(?P<owner>.+?)(?:'s|s')\s+(?P<thing>.+)", about)
    if found is None:
        return "", re.sub(r"^(?:the|its|their)\s+", "", about, flags=re.IGNORECASE)
    agent = agent_of(found["owner"])
    return agent, found["thing"] if agent else about


def _comparison(text: str, agent_of: Callable[[str], str]) -> Said | None:
    words = "|".join(sorted(_COMPARE, key=len, reverse=True))
    found = re.fullmatch(
        rf"{_SUBJECT}\s+(?:is|are)\s+(?P<not>not\s+)?(?P<how>{words})\s+{_NUMBER}",
        text,
        re.IGNORECASE,
    )
    if found is None:
        return None
    agent, thing = _owner(found["about"], agent_of)
    value: Json = float(found["number"].replace(",", ""))
    if found["percent"]:
        value /= 100
    value = int(value) if value == int(value) and not found["percent"] else value
    operator = _COMPARE[" ".join(found["how"].casefold().split())]
    said = Said("fact", name=plain(thing), operator=operator, value=value, agent=agent, about=thing)
    return _not(said, found["not"])


def _value(text: str, agent_of: Callable[[str], str]) -> Said | None:
    found = re.fullmatch(
        rf"{_SUBJECT}\s+(?:is|are)\s+(?P<not>not\s+)?(?P<value>[\w-]+)", text, re.IGNORECASE
    )
    if found is None:
        return None
    agent, thing = _owner(found["about"], agent_of)
    if thing.split()[-1].casefold() not in _SCALES:
        return None
    said = Said(
        "fact",
        name=plain(thing),
        operator="==",
        value=found["value"].casefold(),
        agent=agent,
        about=thing,
    )
    return _not(said, found["not"])


def _state(text: str, agent_of: Callable[[str], str]) -> Said | None:
    found = re.fullmatch(
        rf"{_SUBJECT}\s+(?:is|are|has been|have been)\s+(?P<not>not\s+)?(?P<state>[a-z-]+)",
        text,
        re.IGNORECASE,
    )
    if found is None:
        return None
    agent, thing = _owner(found["about"], agent_of)
    if len(thing.split()) > 4 or agent_of(found["about"]):
        return None
    name = plain(f"{thing} {found['state']}")
    if found["state"].casefold() in {"approved", "rejected"}:
        name = found["state"].casefold()
    return _not(Said("fact", name=name, agent=agent, about=thing), found["not"])


def _verb(text: str, agent_of: Callable[[str], str]) -> Said | None:
    found = re.fullmatch(
        r"(?:the\s+)?(?P<about>[a-z-]+s)\s+(?P<not>do\s+not\s+)?(?P<verb>[a-z]+)",
        text,
        re.IGNORECASE,
    )
    if found is None or found["verb"].casefold() in {"is", "are"}:
        return None
    return _not(
        Said("fact", name=plain(f"{found['about']} {found['verb']}"), about=found["about"]),
        found["not"],
    )

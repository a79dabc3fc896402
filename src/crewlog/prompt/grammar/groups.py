"""Conditions on several agents at once: `both approve`, `either of them rejects it`, `neither does`.

What is said of a group is said of each of its agents, and each decides for itself: `both approve` of
the editor and the lawyer is `the editor and the lawyer approve`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from crewlog.prompt.grammar import condition_words as w

Quantifier = Literal["all", "any", "none", "not all"]

_OPENING: tuple[tuple[Quantifier, str], ...] = (
    (
        "not all",
        r"not (?:both|all)(?: of them)?|(?:they|the two) (?:do|did|have|are) not (?:both|all)",
    ),
    (
        "all",
        (
            r"(?:they )?both(?: of them)?|(?:they )?all of them|they all"
            r"|all (?:two|three|four|five)|each of them|the two|they"
        ),
    ),
    ("any", r"either(?: of them| one)?|(?:at least )?one of (?:them|the two)|any(?: one)? of them"),
    ("none", r"neither(?: of them)?|none of them"),
)
_OPENINGS: tuple[tuple[Quantifier, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?:{text}) ")) for kind, text in _OPENING
)
_PAIR = re.compile(r"(?:not |they )?(?:both|either|neither|the two|one of the two)\b")
_NOUNS = re.compile(r"(?:both|either|neither|all|any)(?: of)?(?: the)? (?P<noun>[a-z-]+) ")


@dataclass(frozen=True, slots=True)
class Shared:
    """What a condition says of a group."""

    quantifier: Quantifier
    agents: tuple[str, ...]
    predicate: str

    @property
    def clear(self) -> bool:
        """Whether it can mean one thing only: `both do not approve` can mean two."""
        words = self.predicate.split()
        if not self.agents:  # `both`, of three
            return False
        if self.quantifier == "all":
            return not {*words[:3]} & w.NEGATIONS
        return self.quantifier == "not all" or not {*words} & {"and", "or", "but"}

    def spelled(self, marks: Sequence[str]) -> str:
        """The same, said of each of the agents; of none and not of all it is the opposite."""
        link = " or " if self.quantifier in {"any", "none"} else " and "
        return f"{link.join(marks)} {self.predicate}"


def shared(
    text: str, beside: Sequence[str], recent: Sequence[str], subject: Sequence[str]
) -> Shared | None:
    """What a condition says of a group; none where it speaks of no group.

    Args:
        text: The condition.
        beside: The agents that worked side by side just before, or the one that did.
        recent: All that worked, the last one last.
        subject: Who `they` are.
    """
    for kind, opening in _OPENINGS:
        found = opening.match(text)
        if found is None:
            continue
        predicate = text[found.end() :]
        if not _verb(predicate, kind):
            break
        they = found[0] == "they "
        if they and not _decides(predicate):  # it may speak of things
            break
        agents = _group(found[0], predicate, subject if they else beside, () if they else recent)
        of_more = len(beside) > 2 and _PAIR.match(found[0]) is not None and _decides(predicate)
        return Shared(kind, agents, predicate) if agents or of_more else None
    return _of_that_name(text, beside)


def _group(
    opening: str, predicate: str, beside: Sequence[str], recent: Sequence[str]
) -> tuple[str, ...]:
    pair = _PAIR.match(opening) is not None
    if len(beside) > 1:
        return tuple(beside) if len(beside) == 2 or not pair else ()
    last = tuple(dict.fromkeys(reversed(recent)))[:2][::-1]
    return last if pair and len(last) == 2 and _decides(predicate) else ()


def _of_that_name(text: str, beside: Sequence[str]) -> Shared | None:
    """`Both reviewers approve` of the legal reviewer and the style reviewer."""
    found = _NOUNS.match(text)
    if found is None or len(beside) < 2:
        return None
    nouns = {found["noun"], found["noun"].removesuffix("s")}
    if not all(name.rpartition("_")[2] in nouns for name in beside):
        return None
    first = text.split(maxsplit=1)[0]
    kinds: dict[str, Quantifier] = {"either": "any", "any": "any", "neither": "none"}
    return Shared(kinds.get(first, "all"), tuple(beside), text[found.end() :])


def _verb(predicate: str, kind: Quantifier) -> bool:
    """Whether a verb that agrees is next: not so in `both results are positive`."""
    word = predicate.partition(" ")[0]
    if word in w.AUXILIARIES:
        return True
    verb = w.INFLECTED.get(word)
    several = kind in {"all", "not all"}
    return verb is not None and verb.form in ({"base", "past"} if several else {"third", "past"})


def _decides(predicate: str) -> bool:
    """Whether people do that, and not things: `both approve`."""
    verb = w.INFLECTED.get(predicate.partition(" ")[0])
    return verb is not None and verb.base != "pass" and verb.base in {*w.DECISIONS, *w.SAYS}

"""Stretches of a sentence as text with placeholders, so that a table of patterns can read them.

`the writer may use write_file` becomes `@0 may use #2`: `@` an agent, `#` a tool by its name,
`$` a tool by its words. Every place in that text leads back to the prompt's own characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from crewlog.prompt.ast import Words
from crewlog.prompt.grammar.lexicon import ADVERBS, NUMBERS
from crewlog.prompt.grammar.sentences import Token

_AND = r"(?: (?:,(?: and| or)?|and|or|as well as|plus|together with)(?: then)?(?: also)? )"
_NUMBER = r"(?:[0-9]+(?:[.,][0-9]+)*|" + "|".join(sorted(NUMBERS, key=len, reverse=True)) + ")"
MACROS = {
    "A": rf"@[0-9]+(?:{_AND}@[0-9]+)*",
    "A1": r"@[0-9]+",
    "T": rf"(?:(?:the )?(?:tools? )?[#$][0-9]+(?: tool)?(?:{_AND}(?:the )?(?:to )?(?:use )?[#$][0-9]+)*)",
    "N": _NUMBER,
    "ADV": ADVERBS,
    "ME": r"(?:me|us|a human|a person|humans|a human being|somebody|someone|people|a colleague|my "
    r"approval|a real person|the boss|the user|a supervisor|the human|a human operator)",
}
"""What stands for what in patterns: `{A}` agents, `{T}` tools, `{N}` a number, …"""


PAUSE, BOUNDED = "¤", "^"
"""What stands for a wait, and for how long a condition is waited for; no prompt has it as a word."""


def pattern(text: str) -> re.Pattern[str]:
    """A pattern with macros; `{A:name}` names what it matches.

    A name may stand in several branches: the second is `name__2`, and so on.
    """

    def filled(found: re.Match[str]) -> str:
        macro, _, name = found[1].partition(":")
        body = MACROS[macro]
        return f"(?P<{name}>{body})" if name else body

    seen: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        count = seen[found[1]] = seen.get(found[1], 0) + 1
        return found[0] if count == 1 else f"(?P<{found[1]}__{count}>"

    whole = re.sub(r"\{([A-Z][A-Z0-9]*(?::[a-z0-9]+)?)\}", filled, text)
    return re.compile(re.sub(r"\(\?P<([a-z0-9]+)>", numbered, whole))


@dataclass(frozen=True, slots=True)
class Unit:
    """A token, or several that stand for one thing."""

    text: str
    start: int
    end: int


@dataclass(slots=True)
class Phrase:
    """Units of one sentence, side by side."""

    units: Sequence[Unit]
    text: str = ""
    _at: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        at = 0
        for unit in self.units:
            self._at.append(at)
            at += len(unit.text) + 1
        self.text = " ".join(u.text for u in self.units)

    def __bool__(self) -> bool:
        return bool(self.units)

    def part(self, start: int, end: int | None = None) -> Phrase:
        """The units between two places of the text."""
        last = len(self.text) if end is None else end
        first = bisect_right(self._at, start) - 1 if start >= 0 else 0
        if self.units and start >= self._at[first] + len(self.units[first].text):
            first += 1
        stop = first
        while stop < len(self.units) and self._at[stop] < last:
            stop += 1
        return Phrase(self.units[first:stop])

    def group(self, found: re.Match[str], name: str | int) -> Phrase:
        """The units that a group of a match holds."""
        if found[name] is None:
            return Phrase(())
        return self.part(found.start(name), found.end(name))

    @property
    def words(self) -> Words:
        """Where it stands in the prompt."""
        return Words(start=self.units[0].start, end=self.units[-1].end)


def agents_in(text: str) -> tuple[int, ...]:
    """The numbers of the agents that a text names, each once."""
    return tuple(dict.fromkeys(int(n) for n in re.findall(r"@([0-9]+)", text)))


def tools_in(text: str) -> tuple[int, ...]:
    """The numbers of the tools that a text names, each once."""
    return tuple(dict.fromkeys(int(n) for n in re.findall(r"[#$]([0-9]+)", text)))


def number(text: str) -> float | None:
    """`three`, `20,000` and `0.8` as numbers."""
    text = text.strip()
    if text in NUMBERS:
        return NUMBERS[text]
    plain = (
        text.replace(",", "") if re.fullmatch(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?", text) else text
    )
    plain = plain.replace(",", ".")
    return float(plain) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", plain) else None


LONGEST_PHRASE = 1_500
"""Characters that patterns are tried on: a list of 200 agents is shorter."""
_LISTING = frozenset([",", "and", "or", "the", "a", "an"])


def too_long(units: Sequence[Unit], words: int) -> bool:
    """Whether units are more than that many words; a list of agents or tools is one of them.

    The time that a pattern takes grows faster than what it reads, so that what nobody writes must
    not be tried.
    """
    if len(units) <= words and sum(len(u.text) + 1 for u in units) <= LONGEST_PHRASE:
        return False
    count, listing = 0, False
    for one in units:
        mention = one.text[0] in "@#$"
        count += not (listing and (mention or one.text in _LISTING))
        listing = mention or (listing and one.text in _LISTING)
    return count > words or sum(len(u.text) + 1 for u in units) > LONGEST_PHRASE


def unit(token: Token) -> Unit:
    """A token as a unit."""
    return Unit(token.text, token.start, token.end)

"""Names of agents in sentences: where a name ends and a verb begins.

No list of verbs decides it. A name is known where the registry or a sentence introduces it, or
where a fixed word ends it ("back to the lead analyst", "the lead analyst may use …"). Else it ends
before a word with `s` at its end ("the release manager checks"), and a name that could end at
several places is not guessed: the sentence is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crewlog.prompt.names import agent_name
from crewlog.prompt.registry import Registry
from crewlog.prompt.vocabulary import remembered, word_set

_WORD = re.compile(r"[^\W_]+(?:[-'’_.][^\W_]+)*")
_DETERMINERS = word_set("the a an our your my each every another one some")
_MODALS = word_set(
    """may can must should shall will cannot can't mustn't shouldn't won't is are was were be has
    have does do doesn't don't isn't aren't had works work uses use starts start reviews gets get
    needs need wants fails fail finishes finish approves approve rejects reject never always only
    also"""
)
"""Words that end a name in front of them."""
_ADVERBS = word_set("then next finally first afterwards now also")
_STOPS = word_set(
    """the a an and or but if unless while when once after before until of to in on at by for with
    from as into onto about over under between that which who whom whose what this these those it
    them they him her not then than so"""
)
"""Words that are in no name."""
_DOERS = (
    "er", "or", "ist", "yst", "ant", "ent", "ian", "eer", "ee", "man", "woman", "person", "scout",
    "clerk", "desk", "team", "bot", "lead", "chief", "head", "agent", "critic", "sceptic", "coach",
    "scribe", "judge", "architect", "advocate", "secretary", "registrar", "guide", "officer", "counsel", "chair", "cook", "pilot", "expert",
)  # fmt: skip
"""Endings of nouns that name a worker."""
_NO_DOERS = word_set(
    """number paper letter order offer matter customer user server computer folder header chapter
    quarter winter summer newsletter buffer parameter layer router container cluster calendar
    vendor error color colour factor floor document content comment statement payment agreement
    department argument environment component event intent percent moment movement text test
    client patient parent student current recent plant restaurant grant fee committee
    other another either neither whether rather never after under over"""
)
"""Nouns with such an ending that name no worker."""
_LONGEST = 5
"""Words of a name."""
PEOPLE = word_set(
    """i me we us you one somebody someone human humans person people nobody anybody many most some
    few several much more it they he she this that there here what thanks"""
)
"""Words that name people, and never an agent."""
EVERYONE = word_set(
    """everyone everybody all every all_agents every_agent each_agent anyone anybody
    any_agent any_of_them all_of_them each_of_them they_all"""
)
"""Words that stand for every agent."""


class Word(NamedTuple):
    """A word of a clause with its place."""

    text: str
    start: int
    end: int
    folded: str
    """The word in small letters."""


@remembered
def words(text: str) -> tuple[Word, ...]:
    """The words of a text."""
    return tuple(
        Word(said := found.group(), *found.span(), said.casefold().replace("’", "'"))
        for found in _WORD.finditer(text)
    )


def does_things(word: str) -> bool:
    """Whether a word names a worker, by its ending: `writer`, `analyst`."""
    folded = word.casefold()
    return folded.endswith(_DOERS) and len(folded) > 3 and folded not in _NO_DOERS


def may_be_verb(word: str) -> bool:
    """Whether a word may be a verb in the third person: `writes`, `goes`."""
    folded = word.casefold()
    return (
        folded.endswith("s")
        and not folded.endswith(("ss", "us", "is", "'s"))
        and len(folded) > 2
        and folded not in {"this", "as", "news", "sales", "always", "perhaps", "times", "besides"}
    )


def is_plural(word: str) -> bool:
    """Whether a word looks like the plural of a noun."""
    return may_be_verb(word) or word.casefold() in {"sales", "news"}


@dataclass(frozen=True)
class Subject:
    """Agents at the start of a text and what follows them."""

    names: tuple[str, ...]
    rest: str
    unclear: tuple[str, ...] = ()
    """Where the name may end at several places: what it may be."""


class Names:
    """The agents that a prompt names.

    Args:
        registry: Its agents are known by their names and by their words.
    """

    def __init__(self, registry: Registry) -> None:
        self.known: dict[tuple[str, ...], str] = {}
        self.roles: Counter[str] = Counter()
        """How often a name stands where only an agent can stand, by name."""
        self._registry = registry
        for name, agent in registry.agents.items():
            for said in (name.replace("_", " "), *agent.words):
                self._remember(said, name)

    def _remember(self, said: str, name: str) -> None:
        key = tuple(word.folded for word in words(said))
        if key:
            self.known.setdefault(key, name)

    def add(self, said: str) -> str:
        """Makes a name known; returns it as agents are called, empty where it is none."""
        found = _core(said)
        if not found or len(found) > _LONGEST or any(w.folded in _STOPS for w in found):
            return ""
        if found[0].folded in PEOPLE or found[0].folded in EVERYONE:
            return ""
        if any(word.folded in _MODALS for word in found[1:]):
            return ""
        key = tuple(word.folded for word in found)
        if key in self.known:
            return self.known[key]
        name = agent_name(said)
        if name:
            self.known[key] = name
        return name

    def name_of(self, said: str) -> str:
        """The known agent of these words, whole; empty where they are none."""
        return self.known.get(tuple(word.folded for word in _core(said)), "")

    def mentioned(self, text: str) -> list[str]:
        """The known agents that a text names, in order."""
        found: list[str] = []
        sequence = [word.folded for word in words(text)]
        at = 0
        while at < len(sequence):
            length = self._match(sequence, at)
            if length:
                found.append(self.known[tuple(sequence[at : at + length])])
            at += length or 1
        return list(dict.fromkeys(found))

    def _match(self, sequence: Sequence[str], at: int) -> int:
        """How many words from here are the longest known name."""
        for length in range(min(_LONGEST, len(sequence) - at), 0, -1):
            if tuple(sequence[at : at + length]) in self.known:
                return length
        return 0

    # -- subjects --------------------------------------------------------------------------------

    def subject(self, text: str, *, bare: bool = False) -> Subject | None:
        """The agents that a text begins with, with a verb behind them; none where there are none.

        `the writer and the checker work …` has two; of `the log analyst reads …` the verb ends the
        name.

        Args:
            text: The text.
            bare: Whether the verb has no ending: `have the scout find …`.
        """
        found: list[str] = []
        at = 0
        while True:
            one = self._one(text[at:], first=not found, several=bool(found) or bare)
            if one is None:
                return None
            if one.unclear:
                return one
            found += one.names
            rest = one.rest
            at = len(text) - len(rest)
            if joint := re.match(r"\s*(?:,\s*and\s+|,\s*|\s+and\s+|&\s*)", rest):
                after = rest[joint.end() :]
                following = self._one(after, first=False, several=True)
                if following is not None and not following.unclear:
                    at = len(text) - len(after)
                    continue
            if re.match(r"\s*(?:,|and\b|&|'s)", rest) or not rest.strip():
                return None
            rest = re.sub(r"^\s*(?:then|next|finally|first|afterwards|now|also)\s+", " ", rest)
            return Subject(tuple(dict.fromkeys(found)), rest.strip())

    def _one(self, text: str, *, first: bool, several: bool) -> Subject | None:
        found = words(text)
        start = 0
        while start < len(found) and found[start].folded in _DETERMINERS:
            start += 1
        if start >= len(found) or start > 2 or found[0].start > 1:
            return None
        sequence = [word.folded for word in found]
        length = self._match(sequence, start)
        if length:
            end = start + length
            if end < len(found) and sequence[end] in {"agent", "agents"}:
                end += 1
            gap = text[found[end - 1].end :]
            return Subject((self.known[tuple(sequence[start : start + length])],), gap)
        capital = found[start].text[:1].isupper() and start == 0 and not first
        if start == 0 and not (capital or found[0].text[:1].isupper()):
            return None
        if found[start].folded in PEOPLE or found[start].folded in EVERYONE:
            return None
        return self._unknown(text, found, start, several=several)

    def _unknown(
        self, text: str, found: Sequence[Word], start: int, *, several: bool
    ) -> Subject | None:
        """A name that nothing introduces, by the verb behind it."""
        ends: list[int] = []
        for at in range(start, min(len(found), start + _LONGEST + 1)):
            word = found[at]
            gap = text[found[at - 1].end : word.start] if at > start else " "
            if at > start and gap.strip():
                if gap.strip() in {",", "&"} and at > start:
                    ends.append(at)
                break
            if at > start and (word.folded in _MODALS or word.folded in _ADVERBS):
                ends.append(at)
                break
            if word.folded in _STOPS:
                if at > start and (
                    word.folded == "and" or (several and does_things(found[at - 1].text))
                ):
                    ends.append(at)
                break
            if at > start and may_be_verb(word.text) and not is_plural(found[at - 1].text):
                ends.append(at)
            elif at > start and several and does_things(found[at - 1].text):
                ends.append(at)  # `the junior rater code the answers`
        if not ends:
            return None
        best = self._clearest(found, start, ends)
        if len(best) > 1:
            said = tuple(" ".join(w.text for w in found[start:end]) for end in best)
            return Subject((), text, said)
        end = best[0]
        name = agent_name(" ".join(word.text for word in found[start:end]))
        if not name:
            return None
        return Subject((name,), text[found[end - 1].end :])

    @staticmethod
    def _clearest(found: Sequence[Word], start: int, ends: Sequence[int]) -> list[int]:
        """Of the places where a name may end those behind a word that names a doer, if any."""
        if len(ends) == 1:
            return list(ends)
        doers = [end for end in ends if does_things(found[end - 1].text)]
        agents = [end for end in ends if found[end - 1].folded in {"agent", "team", "desk", "bot"}]
        best = agents or doers
        if best:
            # `the tester runs unit tests`: the first doer; a second one makes it unclear.
            return best[:1] if len(best) == 1 or not agents else best
        return list(ends)


def _core(said: str) -> tuple[Word, ...]:
    """The words of a name without its articles and without `agent` at its end."""
    found = words(said)
    while found and found[0].folded in _DETERMINERS:
        found = found[1:]
    while len(found) > 1 and found[-1].folded in {"agent", "agents"}:
        found = found[:-1]
    return found


def names_in(texts: Iterable[str], names: Names) -> None:
    """Learns the names that fixed words end, over all clauses of a prompt."""
    for text in texts:
        for pattern in _DEFINITE:
            for found in pattern.finditer(text):
                # `the triage agent` says it outright.
                names.roles[names.add(found["name"])] += 2 if "agent" in found.group() else 1


_NAME = r"(?P<name>(?:[^\W_][\w'-]*)(?:\s+[^\W_][\w'-]*){0,3})"
_DEFINITE = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:back\s+to|start\s+over\s+with|return\s+to|skip)\s+the\s+{_NAME}(?=\s*(?:[.,;:!(]|$|\s(?:and|again|at|no|not|up)\b))",
        rf"\bthe\s+{_NAME}\s+agent\b",
        rf"\bby\s+(?:the|an?)\s+{_NAME}(?=\s*(?:[.,;:!]|$|\s(?:and\s+the|with)\b))",
        rf"\b(?:only|nobody\s+but|no\s+one\s+but)\s+the\s+{_NAME}\s+(?:may|can|sees?|gets?)\b",
        rf"^(?:the\s+){_NAME}\s+(?:may|can|has|have|uses?|should|must|cannot|can't)\b",
        rf"\bthe\s+{_NAME}\s+(?:may|can)\s+(?:not\s+)?(?:use|see)\b",
        rf"\b(?:after|once|until|when)\s+the\s+{_NAME}\s+(?:is\s+done|finishes|has\s+finished|is\s+finished)\b",
        rf"\bif\s+the\s+{_NAME}\s+(?:fails|approves|rejects|doesn't|does\s+not)\b",
        rf"\bthe\s+{_NAME}(?:'s|’s)\s+(?:notes?|work|confidence|results?)\b",
    )
]

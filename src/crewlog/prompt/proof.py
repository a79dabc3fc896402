"""The proof of a reading: its clauses, what their words name, and the faults that the checks find.

The checks of `crewlog.prompt.verify` ask here: which clauses a part comes from, which agents a
clause names, and where the words for a tool or a pause point to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from crewlog.definition.findings import Path
from crewlog.definition.model import parse_duration
from crewlog.prompt import reading as r
from crewlog.prompt.clauses import Clause, Clauses
from crewlog.prompt.faults import Code, Fault
from crewlog.prompt.nouns import Names, does_things
from crewlog.prompt.registry import Registry
from crewlog.prompt.vocabulary import (
    in_order,
    names_agent,
    nouns_of,
    numbers_in,
    one_of,
    phrase_stems,
    stem,
    words_of,
)

NAMES = re.compile(r"[A-Za-z][\w-]*")
SIGHT = one_of(r"sees? seeing shown reads? looks?_at blind notes? work knows? private confidential")
NOBODY_ELSE = one_of("(?:nobody|no_one)_(?:else|but|except)")
NEGATION = re.compile(
    r"\b(?:never|not|mustn't|can't|cannot|mayn't|shan't|nobody|no\s+one|nothing|none|neither|nor|blind)\b|n't\b",
    re.IGNORECASE,
)
RANGE = re.compile(
    r"\b([a-z]|\d{1,3})\s*(?:to|through|until|-|–|—|\.\.\.?)\s*(?:\w+\s+){0,2}([a-z]|\d{1,3})\b",  # noqa: RUF001
    re.IGNORECASE,
)
_PRONOUN = one_of(
    "it its itself they them their she he her him his both all each this that these those one"
    " ones who which everyone everybody either neither again also too"
)
_CORRECTION = one_of(
    "no not wait scratch forget actually instead rather correction sorry strike ignore"
    " take_that_back changed?_my_mind on_second_thought"
)
_SEEN_BY = one_of("(?:seen|read|shown|visible|kept)_(?:by|to|from)")
_LEAD = re.compile(
    r"^(?:(?:and|in\s+parallel|at\s+the\s+same\s+time|then|next|first|finally|lastly|afterwards"
    r"|after\s+that|also|so|oh|ok|well|now|meanwhile)\b,?\s+)+",
    re.IGNORECASE,
)
_PASSIVE = re.compile(r"(?:is|are|was|were|has|have|gets?)\b", re.IGNORECASE)
"""Words behind a subject that do not say what it does."""
_PIECES = re.compile(r",\s+(?:and\s+)?|\s+and\s+(?=(?:the|an?)\s)|:\s+")
"""Where another agent may begin inside a clause."""
_IDENTIFIER = re.compile(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b")
_NEAR = 12
"""Clauses behind a clause in which a correction of it may stand."""
_FREE = {"task", "about", "ask", "value"}
"""Fields that hold the prompt's own words."""


@dataclass(eq=False)
class Piece:
    """A part of the reading with what it says: a part of many clauses is looked at once."""

    part: r.Part

    @cached_property
    def _leaves(self) -> list[tuple[str, Any]]:
        return list(_leaves(self.part.model_dump(exclude={"clauses"})))

    @cached_property
    def names(self) -> set[str]:
        """The names in its structure."""
        structure = (v for key, v in self._leaves if key not in _FREE and isinstance(v, str))
        return {name for value in structure for name in NAMES.findall(value)}

    @cached_property
    def nouns(self) -> set[str]:
        """The nouns of its free texts."""
        return set(nouns_of(" ".join(str(v) for key, v in self._leaves if key in _FREE)))

    @cached_property
    def numbers(self) -> set[float]:
        """Its numbers, durations in each of their units."""
        found: set[float] = set()
        for _, value in self._leaves:
            if isinstance(value, int | float):
                found.add(float(value))
                continue
            found |= numbers_in(value)
            try:
                seconds = parse_duration(value) if value[:1].isdigit() else None
            except ValueError:
                seconds = None
            if seconds is not None:
                found.update(seconds / unit for unit in (1, 60, 3600, 86_400, 604_800))
        return found


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The values inside a part, each with the name of its field."""
    if isinstance(value, dict):
        found: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        for name, inner in found.items():
            yield from _leaves(inner, name)
    elif isinstance(value, tuple):
        several: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        for inner in several:
            yield from _leaves(inner, key)
    else:
        yield key, value


@dataclass(eq=False)
class Source:
    """A clause with its words and its parts."""

    clause: Clause
    pieces: list[Piece] = field(default_factory=list[Piece])

    @property
    def number(self) -> int:
        """Its number."""
        return self.clause.number

    @property
    def text(self) -> str:
        """Its words outside quotation marks: only these oblige."""
        return self.clause.unquoted

    @property
    def parts(self) -> list[r.Part]:
        """The parts that come from it."""
        return [piece.part for piece in self.pieces]

    @cached_property
    def stems(self) -> list[str]:
        """The stems of all its words."""
        return [stem(word) for word in words_of(self.clause.text)]

    @cached_property
    def stem_set(self) -> set[str]:
        """The stems of all its words, without their order."""
        return set(self.stems)

    @cached_property
    def nouns(self) -> tuple[str, ...]:
        """All its nouns."""
        return nouns_of(self.clause.text)

    @cached_property
    def unquoted_nouns(self) -> tuple[str, ...]:
        """The nouns outside quotation marks; `machine_memory` names a tool, and no agent."""
        return nouns_of(_IDENTIFIER.sub(" ", self.text))


class Proof:
    """A reading and its prompt, as every check looks at them."""

    def __init__(self, clauses: Clauses, read: r.Reading, registry: Registry) -> None:
        self.read = read
        self.registry = registry
        self.faults: list[Fault] = []
        self.sources = {clause.number: Source(clause) for clause in clauses}
        self.status = {entry.clause: entry.status for entry in read.ledger}
        self.agents = {agent.name for agent in read.agents} | {step.agent for step in read.steps}
        self.agent_of_step = {step.name: step.agent for step in read.steps}
        self.names = Names(registry)
        for agent in self.agents:
            self.names.add(agent.replace("_", " "))
        self.tool_phrases = {
            name: [phrase_stems(said) for said in (name, *tool.words)]
            for name, tool in registry.tools.items()
        }

    def fault(
        self,
        code: Code,
        message: str,
        remedy: str = "",
        clauses: Sequence[int] = (),
        path: Path = (),
    ) -> None:
        """Adds a fault."""
        self.faults.append(Fault(code, message, remedy, tuple(clauses), path))

    def demand(self, source: Source, what: str, remedy: str) -> None:
        """Adds a fault for a clause of which the parts do not say all."""
        self.fault("obligation", f"clause {source.number} {what}", remedy, (source.number,))

    # -- parts and their clauses -----------------------------------------------------------------

    def text(self, part: r.Part) -> str:
        """The words of a part's clauses."""
        return " ".join(self.sources[n].clause.text for n in part.clauses)

    def around(self, part: r.Part) -> list[Source]:
        """A part's clauses, and the one before where a word points there."""
        found = [self.sources[number] for number in part.clauses]
        for number in part.clauses:
            before = number - 1
            while before in self.sources and self.sources[before].clause.kind == "heading":
                before -= 1
            if before in self.sources and _PRONOUN.search(self.sources[number].clause.text):
                found.append(self.sources[before])
        return found

    def stems_around(self, part: r.Part) -> set[str]:
        """The stems of a part's clauses, and of the one before where a word points there."""
        return set[str]().union(*(source.stem_set for source in self.around(part)))

    def sentence(self, source: Source) -> list[Source]:
        """The clauses of a clause's sentence."""
        number = source.clause.sentence
        found: list[Source] = []
        while (each := self.sources.get(number)) and each.clause.sentence == source.clause.sentence:
            found.append(each)
            number += 1
        return found

    def corrections(self, source: Source) -> Iterator[Source]:
        """The clauses behind a clause that have words which take something back."""
        for number in range(source.number + 1, source.number + 1 + _NEAR):
            later = self.sources.get(number)
            if later is not None and takes_back(later):
                yield later

    @cached_property
    def phases_before(self) -> dict[str, list[str]]:
        """The phases that each phase follows directly, by its name."""
        read = self.read
        pauses: list[r.Question | r.Wait] = [*read.questions, *read.waits]
        phases: list[r.Step | r.Question | r.Wait | r.Use] = [*read.steps, *pauses, *read.uses]
        found = {p.name: [name for group in p.after for name in group.of] for p in phases}
        for question in read.questions:
            found[question.name] += [question.at] if question.at else []
        for step in read.steps:
            if step.instead_of:
                found[step.name] += [step.instead_of, *found.get(step.instead_of, ())]
        for part in pauses:
            for name in part.before:
                found[part.name] += found.get(name, [])
                found.setdefault(name, []).append(part.name)
        return found

    # -- agents and tools in words ---------------------------------------------------------------

    def knows(self, agent: str) -> bool:
        """Whether the reading or the registry has an agent."""
        return agent in self.agents or agent in self.registry.agents

    def is_named(self, agent: str, part: r.Part, *, near: bool = True) -> bool:
        """Whether the clauses of a part name an agent.

        Args:
            agent: Its name.
            part: The part.
            near: Whether a pronoun may point to the clause before.
        """
        sources = self.around(part) if near else [self.sources[n] for n in part.clauses]
        if names_agent(set[str]().union(*(source.nouns for source in sources)), agent):
            return True
        offered = self.registry.agents.get(agent)
        if offered is not None:
            stems = set[str]().union(*(source.stem_set for source in sources))
            if any(stems.issuperset(phrase_stems(words)) for words in offered.words):
                return True
        return self.is_in_range(agent, part)

    def is_in_range(self, name: str, part: r.Part) -> bool:
        """Whether a name is one of `checker A to checker E`, or of `three reviewers`."""
        base, _, last = name.replace("-", "_").rpartition("_")
        nouns = set[str]().union(*(source.nouns for source in self.around(part)))
        if not base or not names_agent(nouns, base):
            return False
        text = self.text(part)
        for first, final in RANGE.findall(text):
            if first.isdigit() and final.isdigit() and last.isdecimal():
                return int(first) <= int(last) <= int(final)
            single = last.isalpha() and len(last) == 1
            if single and first.lower() <= last.lower() <= final.lower():
                return True
        place = int(last) if last.isdecimal() else ord(last.lower()) - 96 if len(last) == 1 else 0
        return 0 < place <= max((n for n in numbers_in(text) if n < 1000), default=0)

    @cached_property
    def _agents_by_noun(self) -> dict[str, list[str]]:
        """The agents by the rarest noun of their names: a clause is looked at once for all."""
        names = {agent: nouns_of(agent) for agent in self.agents}
        counts = Counter(noun for nouns in names.values() for noun in set(nouns))
        found: dict[str, list[str]] = {}
        for agent, nouns in names.items():
            if nouns:
                found.setdefault(min(nouns, key=lambda noun: counts[noun]), []).append(agent)
        return found

    def _agents_near(self, nouns: tuple[str, ...]) -> set[str]:
        """The agents of which the rarest noun is among some nouns."""
        return {agent for each in set(nouns) for agent in self._agents_by_noun.get(each, ())}

    def tool_words(self, tool: str) -> tuple[str, ...]:
        """The words by which the registry names a tool besides its name."""
        offered = self.registry.tools.get(tool)
        return () if offered is None else tuple(offered.words)

    @cached_property
    def clause_of_step(self) -> dict[str, int]:
        """The clause that says each step: the first of its clauses that names its agent."""
        found: dict[str, int] = {}
        for step in self.read.steps:
            known = [number for number in step.clauses if number in self.sources]
            name = nouns_of(step.agent)
            named = (number for number in known if in_order(name, self.sources[number].nouns))
            found[step.name] = next(named, known[0] if known else 0)
        return found

    def agents_in(self, source: Source) -> list[str]:
        """The agents that a clause names outside quotation marks."""
        nouns = source.unquoted_nouns
        near = self._agents_near(nouns)
        return sorted(agent for agent in near if in_order(nouns_of(agent), nouns))

    def first_named(self, nouns: tuple[str, ...], *, backward: bool = False) -> set[str]:
        """The agent that some nouns name first, with those that stand close behind it.

        Args:
            nouns: The nouns of a text.
            backward: Whether the text is read from its end: the agent that it names last.
        """
        step = -1 if backward else 1
        places: dict[str, int] = {}
        for agent in self._agents_near(nouns):
            place = place_of(nouns_of(agent)[::step], nouns[::step])
            if place >= 0:
                places[agent] = place
        found: set[str] = set()
        end = min(places.values(), default=0)
        for agent, place in sorted(places.items(), key=lambda each: each[1]):
            if place > end + 2:
                break
            found.add(agent)
            end = place + len(nouns_of(agent))
        return found

    def named_until(self, source: Source, place: int) -> set[str]:
        """The agents that a clause's sentence names last before a place in the clause."""
        earlier = range(source.clause.sentence, source.number)
        texts = (*(self.sources[n].text for n in earlier), source.text[:place])
        return self.first_named(nouns_of(" ".join(texts)), backward=True)

    def workers_in(self, source: Source) -> list[str]:
        """The agents that a clause says do something: `the secretary files it`."""
        found: list[str] = []
        for piece in _PIECES.split(source.text.strip()):
            text = _LEAD.sub("", piece)
            subject = None if text[:3].casefold() == "ask" else self.names.subject(text)
            if subject is not None and not subject.unclear and not _PASSIVE.match(subject.rest):
                found += subject.names
        return [n for n in found if n != "agent" and does_things(n.rpartition("_")[2])]

    def barred(self, part: r.Part) -> set[str]:
        """The agents that the clauses of a part say may not see something."""
        found: set[str] = set()
        for number in part.clauses:
            text = self.sources[number].text
            negation = NEGATION.search(text)
            if negation is None or not SIGHT.search(text) or NOBODY_ELSE.search(text):
                continue
            by = _SEEN_BY.search(text)
            said = text[by.end() :] if by else text[: negation.start()]
            named = self.first_named(nouns_of(said), backward=True)
            before = self.sources.get(number - 1)
            if not named and before and (not said.strip() or _PRONOUN.search(said)):
                subjects = before.nouns[:8]
                named = {agent for agent in self.agents if in_order(nouns_of(agent), subjects)}
            found |= named
        return found

    def has_tool_words(self, source: Source) -> bool:
        """Whether a clause has the words of a tool outside quotation marks."""
        stems = [stem(word) for word in words_of(source.text)]
        return any(
            in_order(each, stems) for several in self.tool_phrases.values() for each in several
        )


def takes_back(source: Source) -> bool:
    """Whether a clause has words that take something back."""
    return _CORRECTION.search(source.text) is not None


def place_of(phrase: tuple[str, ...], words: tuple[str, ...]) -> int:
    """Where a phrase stands first among some words; -1 where it does not."""
    length = len(phrase)
    places = (i for i in range(len(words) - length + 1) if words[i : i + length] == phrase)
    return next(places, -1)

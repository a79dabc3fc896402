"""Conditions: `approved`, `the score is below 0.8`, `it is a bug or a question`.

A condition is clauses with `or`, `and`, `nor` and commas between them; a clause is a subject
(`subjects`) and what is said of it (`predicates`). What a clause leaves out it shares with the one
before: `the models are ready and tested`, `the score is below 0.5 or above 2`, `the tests or the
build fail`.

The same words always give the same name: an article, `it` and `now` say nothing, a decision
(`approved`, `rejected`) is called so whatever it is about, and otherwise the thing and what is said
of it are the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from crewlog.prompt.ast import Both, Cond, Either, Fact, Not
from crewlog.prompt.grammar import condition_words as w
from crewlog.prompt.grammar.comparisons import open_or
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.mentions import Roster
from crewlog.prompt.grammar.predicates import Predicate, PredicateReader
from crewlog.prompt.grammar.subjects import Subject, Subjects

LONGEST = 80
"""Words; what is longer is no condition."""
_DEEPEST = 3
"""Clauses in clauses: `says that she thinks that …`."""
_LINKS = frozenset(["or", "and", "nor", "but", ","])
_OF = tuple(
    (tuple(words.split()), link)
    for words, link in (
        ("at least one of", "or"),
        ("any one of", "or"),
        ("one of", "or"),
        ("any of", "or"),
        ("either of", "or"),
        ("neither of", "or"),
        ("none of", "or"),
        ("both of", "and"),
        ("each of", "and"),
        ("all of", "and"),
    )
)
"""What stands before a list of subjects, and how these are joined."""
_PAIRED = frozenset(["either", "neither", "both"])
_STRONG = frozenset(["or", "nor"])


@dataclass(slots=True)
class _Clause:
    """A clause as it was read."""

    words: list[str]
    cond: Cond
    """Without its negation."""
    negated: bool = False
    negations: list[int] = field(default_factory=list[int])
    cuts: list[int] = field(default_factory=list[int])
    subject_end: int = 0
    denied: bool = False
    """It shares the `not` of the clause before it."""

    @property
    def said(self) -> Cond:
        """With its negation."""
        if not self.negated:
            return self.cond
        return self.cond.of if isinstance(self.cond, Not) else Not(of=self.cond)


@dataclass(slots=True)
class Reading:
    """A condition's words, with what their pronouns stand for."""

    roster: Roster
    subject: str | None = None
    """Who `it` and `she` are."""
    _depth: int = 0

    def condition(self, text: str) -> Cond | None:
        """The condition that a text says; none where it says none that can be decided."""
        return self._condition(text.split())

    def _condition(self, words: Sequence[str]) -> Cond | None:
        said = _trimmed([word for word in words if word not in {"(", ")"}])
        if not 0 < len(said) <= LONGEST or self._depth > _DEEPEST:
            return None
        parts = _parts(said)
        return None if parts is None else _Joined(self, parts).read()

    def inner(self, words: Sequence[str]) -> Cond | None:
        """A clause in a clause: `says that …`; it has a subject of its own."""
        if len(words) < 2:
            return None
        deeper = Reading(self.roster, self.subject, self._depth + 1)
        parts = _parts(_trimmed(words))
        first = [word for word in parts[0][1] if word not in _PAIRED] if parts else []
        shares = len(parts or ()) > 1 and bool(first) and deeper.subjects().whole(first)
        own = bool(first) and (shares or deeper.clause(first) is not None)
        return deeper._condition(words) if own else None

    def clause(
        self, words: Sequence[str], *, loose: bool = False, measure: str = ""
    ) -> _Clause | None:
        """One clause with its subject.

        Args:
            words: Its words.
            loose: Whether verb and subject need not agree.
            measure: What a number without a name is.
        """
        said = _trimmed(words)
        loose = loose or said[:1] in (["should"], ["were"], ["had"])
        if loose and said[:1] in (["should"], ["were"], ["had"]):
            said = said[1:]
        if said[:1] == ["there"]:
            return self._there(said)
        subjects = Subjects(self.roster.agents, self.subject, self.roster.tools)
        for subject, end in subjects.read(said, loose=loose):
            if end >= len(said):
                continue
            reader = PredicateReader(said, end, subject, subjects, self.inner, measure)
            reader.free = loose
            found = reader.read()
            if found is not None:
                return _clause(said, found, end)
        return None

    def short(self, words: Sequence[str]) -> _Clause | None:
        """A clause without its subject: `approved`, `not ready yet`, `signed off`."""
        said = _trimmed(words)
        content = [word for word in said if word not in w.NEGATIONS | w.FILLERS]
        if not content or not _adjectival(content, alone=len(content) == 1):
            return None
        subjects = Subjects(self.roster.agents, self.subject, self.roster.tools)
        filled = ["it", "is", *said]
        found = PredicateReader(filled, 1, Subject("it"), subjects, self.inner).read()
        return None if found is None else _clause(filled, found, 1)

    def _there(self, words: Sequence[str]) -> _Clause | None:
        """`there are errors`, `there is no doubt`, `there are more than 3 errors left`."""
        if words[:1] != ["there"] or len(words) < 3:
            return None
        at = 1
        while at < len(words) and (
            words[at] in w.AUXILIARIES | w.FILLERS or words[at] in word_set("seem seems appear to")
        ):
            at += 1
        if words[at : at + 1] in (["remain"], ["remains"], ["exist"], ["exists"]):
            at += 1
        negated = words[at : at + 1] in (["not"], ["no"], ["never"])
        at += negated
        if words[at : at + 1] == ["more"] and words[at + 1 : at + 2] != ["than"]:
            at += 1
        if words[at : at + 1] == ["nothing"]:
            return None
        said = ["it", "has", *words[at:]]
        subjects = Subjects(self.roster.agents, self.subject, self.roster.tools)
        found = PredicateReader(said, 1, Subject("it"), subjects, self.inner).read()
        if at == 1 or found is None or (found.negated and not negated):
            return None
        return _Clause(list(words), found.cond, negated != found.negated, cuts=[])

    def subjects(self) -> Subjects:
        """A reader of subjects."""
        return Subjects(self.roster.agents, self.subject, self.roster.tools)


def _clause(words: Sequence[str], found: Predicate, end: int) -> _Clause:
    return _Clause(list(words), found.cond, found.negated, found.negations, found.cuts, end)


class _Joined:
    """Clauses with links between them."""

    def __init__(self, reading: Reading, parts: list[tuple[str, list[str]]]) -> None:
        self.reading = reading
        self.parts = parts
        self.neither = False
        self.waiting: list[tuple[str, list[str]]] = []
        """Subjects that wait for their predicate."""
        self.last: _Clause | None = None
        self.groups: list[list[Cond]] = [[]]
        """Alternatives, each of conditions that hold together."""

    def read(self) -> Cond | None:
        """The whole condition."""
        self._one_of()
        for i, (link, words) in enumerate(self.parts):
            final = i == len(self.parts) - 1
            if not self._part(link, self._opened(words), final):
                return None
        if self.waiting or not all(self.groups):
            return None
        either = [group[0] if len(group) == 1 else Both(of=tuple(group)) for group in self.groups]
        cond = either[0] if len(either) == 1 else Either(of=tuple(either))
        return Not(of=cond) if self.neither else cond

    def _one_of(self) -> None:
        """`at least one of the writer and the checker approves` is `the writer or the checker`."""
        first = self.parts[0][1]
        for opening, link in _OF:
            length = len(opening)
            if tuple(first[:length]) != opening or len(self.parts) < 2:
                continue
            if not first[length:] or not self.reading.subjects().whole(first[length:]):
                return
            self.neither = self.neither or opening[0] in {"none", "neither"}
            self.parts[0] = ("", first[length:])
            for i in range(1, len(self.parts)):
                self.parts[i] = (link, self.parts[i][1])
                if not self.reading.subjects().whole(self.parts[i][1]):
                    return

    def _opened(self, words: list[str]) -> list[str]:
        """Without `either`, `both` and `neither`, which say what links follow."""
        for at, word in enumerate(words):
            if word == "neither" and words[at + 1 : at + 2] != ["of"] and len(self.parts) > 1:
                self.neither = True
                return [*words[:at], *words[at + 1 :]]
            if word in {"either", "both"} and len(self.parts) > 1:
                if words[at + 1 : at + 2] != ["of"]:
                    return [*words[:at], *words[at + 1 :]]
                return words
        return words

    def _part(self, link: str, words: list[str], final: bool) -> bool:
        if words[:1] in (["if"], ["when"], ["then"]):
            words = words[1:]
        grade = link == "or" and len(words) == 1 and words[0] in w.OR_MORE | w.OR_LESS
        if not words or grade:
            return False
        clause = self._shared(link, words) if self.last is not None else None
        if clause is None:
            clause = self._own(words)
        if clause is None and not final and self.reading.subjects().whole(words):
            self.waiting.append((link, words))
            return True
        if clause is None:
            return False
        if clause.denied:
            return self._deny(clause)
        made = clause.said
        if link == "nor" and not self.neither:
            made = made.of if isinstance(made, Not) else Not(of=made)
            link = "and"
        return self._spread(link, clause, made)

    def _spread(self, link: str, clause: _Clause, made: Cond) -> bool:
        """Adds a clause, and what subjects that waited share with it."""
        predicate = clause.words[clause.subject_end :]
        if self.waiting and not clause.subject_end:
            return False
        for before, subject in self.waiting:
            alike = self.reading.clause([*subject, *predicate], loose=True)
            if alike is None:
                return False
            self._add(before, alike.said)
        self.waiting = []
        self._add(link, made)
        self.last = clause
        return True

    def _add(self, link: str, made: Cond) -> None:
        if link in _STRONG and self.groups[-1]:
            self.groups.append([made])
        else:
            self.groups[-1].append(made)

    def _own(self, words: list[str]) -> _Clause | None:
        measure = ""
        if self.last is not None and isinstance(self.last.cond, Fact) and self.last.cond.operator:
            measure = self.last.cond.name
        loose = bool(self.waiting)
        clause = self.reading.clause(words, loose=loose, measure=measure)
        return clause or self.reading.short(words)

    def _shared(self, link: str, words: list[str]) -> _Clause | None:
        """A clause that leaves out its beginning: `… or a question`, `… and tested`."""
        last = self.last
        if last is None or not last.cuts or self._complete(words):
            return None
        closed = w.PREPOSITIONS | w.DETERMINERS | w.STATES | {"too", "not"}
        for cut in sorted(set(last.cuts), reverse=True):
            dropped = [at for at in last.negations if at < cut]
            shared = [word for at, word in enumerate(last.words[:cut]) if at not in dropped]
            if shared[-1:] and shared[-1] in w.PREPOSITIONS and not words[0].isalpha():
                continue
            if shared[-1:] and shared[-1] in w.PREPOSITIONS and words[0] in closed:
                continue
            clause = self.reading.clause([*shared, *words], loose=bool(self.waiting))
            if clause is None:
                continue
            alike = _shape(words) == _shape(last.words[max(last.cuts) :])
            clause.denied = bool(dropped) and link in {"or", "and"} and not clause.negated
            clause.denied = clause.denied and (alike or link == "and")
            return None if clause.denied and link == "and" else clause
        return None

    def _deny(self, clause: _Clause) -> bool:
        """`not a bug or a question` is neither."""
        before = self.groups[-1][-1]
        if not isinstance(before, Not):
            return False
        others = before.of.of if isinstance(before.of, Either) else (before.of,)
        self.groups[-1][-1] = Not(of=Either(of=(*others, clause.cond)))
        return True

    def _complete(self, words: list[str]) -> bool:
        """Whether words have a subject and a verb of their own."""
        return self.reading.clause(words) is not None


def _shape(words: Sequence[str]) -> str:
    """What a complement begins with; `not` reaches from one to another that is alike."""
    first = words[0] if words else ""
    if first in {"a", "an", "the"}:
        return "noun"
    return first if first in {"too", "by", "in", "on", "of"} else "state"


def _trimmed(words: Sequence[str]) -> list[str]:
    """Without what stands before and behind a condition and says nothing."""
    said = list(words)
    while said and said[0] == ",":
        said = said[1:]
    for opening in w.OPENINGS:
        length = len(opening)
        if tuple(said[:length]) == opening and len(said) > length:
            verb = w.INFLECTED.get(said[length])
            pronoun = verb is not None and verb.form == "third" and opening == ("that",)
            if said[length] in w.AUXILIARIES or said[length] == "to" or pronoun:
                continue
            said = said[length:]
            break
    shorter = True
    while shorter:
        shorter = False
        while said and said[-1] == ",":
            said, shorter = said[:-1], True
        for tail in w.TAILS:
            if len(said) > len(tail) and tuple(said[-len(tail) :]) == tail and _tail(said, tail):
                said, shorter = said[: -len(tail)], True
    return said


def _tail(words: Sequence[str], tail: tuple[str, ...]) -> bool:
    """Whether words say something without their tail: `either` alone does not."""
    before = words[-len(tail) - 1]
    closed = w.DETERMINERS | w.BE
    return before not in (closed if len(tail) == 1 else closed | w.PREPOSITIONS)


def _parts(words: Sequence[str]) -> list[tuple[str, list[str]]] | None:
    """The clauses of a condition with the links before them; a comma is the link that follows."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    told = False
    for at, word in enumerate(words):
        told = told or (word == "that" and at > 0 and _tells(words[at - 1]))
        if word not in _LINKS or told or _inside(words, at):
            parts[-1][1].append(word)
        elif not parts[-1][1]:
            link = parts[-1][0]
            parts[-1] = (word if link in {"", ","} else link, [])
        else:
            parts.append((word, []))
    following = ""
    out: list[tuple[str, list[str]]] = []
    for i, (link, said) in reversed(list(enumerate(parts))):
        if not said:
            return None
        if link == ",":
            if not following:
                return None
            link = following
        following = "or" if link == "nor" else link
        out.append((link if i else "", said))
    return out[::-1]


def _tells(word: str) -> bool:
    """Whether a word says that what follows is somebody's opinion: `says that … or …`."""
    found = w.INFLECTED.get(word)
    return word in w.SURE or (found is not None and found.base in w.SAYS)


def _inside(words: Sequence[str], at: int) -> bool:
    """Whether a link is part of something else: `0.8 or better`, `up and running`."""
    if words[at] in {"or", "and"}:
        around = (words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else "")
        return around in w.IDIOMS or open_or(words, at)
    return False


def state_word(word: str) -> bool:
    """Whether a word by itself is something that a thing is: `approved`, `urgent`."""
    return _adjectival([word], alone=True) and (
        word in w.STATES or word in w.INFLECTED or word.endswith(w.ADJECTIVE_ENDINGS)
    )


def _adjectival(words: Sequence[str], *, alone: bool) -> bool:
    """Whether words can stand for `it is …` without saying so."""
    first = words[0]
    found = w.INFLECTED.get(first)
    vague = alone and first in w.VAGUE
    if first in w.UNITS or first in w.TENS or first in w.DETERMINERS:
        return False
    if vague or first in w.TIME or first in w.OTHERS or not first[:1].isalpha():
        return False
    if first in w.PREPOSITIONS and not alone:
        return words[-1] in w.PLACES
    if first in w.STATES or (found is not None and found.form == "past"):
        return True
    if first.endswith(w.ADJECTIVE_ENDINGS) and not w.noun(first):
        return True
    if first in {"too", "no"}:
        return not alone
    return alone and not w.noun(first) and found is None and not first.endswith("s")

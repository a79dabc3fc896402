"""Predicates of conditions: what a clause says of its subject.

A predicate is auxiliaries and negations, then a copula with its complement (`is below 0.8`, `looks
good`, `is a bug`) or a verb with its object (`rejects it`, `has its models ready`, `do not hold`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from crewlog.prompt.ast import Both, Cond, Fact, Not
from crewlog.prompt.grammar import condition_words as w
from crewlog.prompt.grammar.comparisons import Comparison, compared, numeral, whole
from crewlog.prompt.grammar.lexicon import third_person, verb_base, word_set
from crewlog.prompt.grammar.subjects import Subject, Subjects
from crewlog.prompt.names import plain

_MOST = 5
"""Words that a name takes from a predicate."""
_ITS = word_set("its his her their")
_WORK = word_set("work job part task turn bit share it everything")
_Inner = Callable[[Sequence[str]], Cond | None]


@dataclass(slots=True)
class Predicate:
    """What is read of a predicate: a condition without its negation, and where its parts end."""

    cond: Cond
    negated: bool
    negations: list[int] = field(default_factory=list[int])
    """Where `not` and its like stand."""
    cuts: list[int] = field(default_factory=list[int])
    """The ends of its beginnings, which what follows `or` may share."""


class PredicateReader:
    """Reads the predicate of one clause.

    Args:
        words: The clause.
        at: Where its predicate begins.
        subject: Its subject.
        subjects: Reads objects.
        inner: Reads a clause in the clause: `says that …`.
        measure: What a number without a name is (`it is below 0.8` after `the score is …`).
    """

    def __init__(
        self,
        words: Sequence[str],
        at: int,
        subject: Subject,
        subjects: Subjects,
        inner: _Inner,
        measure: str = "",
    ) -> None:
        self.words = list(words)
        self.at = at
        self.subject = subject
        self.subjects = subjects
        self.inner = inner
        self.measure = measure
        self.negated = subject.negative
        self.negations: list[int] = []
        self.cuts: list[int] = [at]
        self.passive = False
        self.free = False
        """An auxiliary or `not` was read: any verb may follow."""

    def read(self) -> Predicate | None:
        """The predicate; none where its words say nothing that can be decided."""
        cond = self._verb_group()
        if cond is None:
            return None
        negated = self.negated
        if isinstance(cond, Fact) and negated and cond.operator in w.OPPOSITE:
            return Predicate(
                cond.model_copy(update={"operator": w.OPPOSITE[cond.operator]}),
                False,
                self.negations,
                self.cuts,
            )
        if isinstance(cond, Not):
            cond, negated = cond.of, not negated
        return Predicate(cond, negated, self.negations, self.cuts)

    # -- auxiliaries -------------------------------------------------------------------------------

    def _verb_group(self) -> Cond | None:
        while self.at < len(self.words):
            word = self.words[self.at]
            if word in w.NEGATIONS:
                self._negate(1)
            elif self._next("no", "longer"):
                self._negate(2)
            elif word in w.DO or word in w.WILL:
                self.at, self.free = self.at + 1, True
            elif word in w.FILLERS and not self._next("all", "of"):
                self.at += 1
            elif (word in w.BE and word != "been") or (self._next("have", "been")):
                return self._be()
            elif word in w.HAVE and (found := self._perfect()) is not None:
                return found
            elif self.at >= len(self.words):  # `has still`: fillers and nothing behind them
                return None
            elif not self._catenative():
                return self._main()
        return None

    def _negate(self, length: int) -> None:
        self.negations.extend(range(self.at, self.at + length))
        self.negated, self.free = not self.negated, True
        self.at += length

    def _next(self, *words: str) -> bool:
        return self.words[self.at : self.at + len(words)] == list(words)

    def _skip(self, *fillers: str) -> None:
        while self.at < len(self.words):
            word = self.words[self.at]
            if word in w.NEGATIONS and not self._next("not", "equal"):
                self._negate(1)
            elif self._next("no", "longer"):
                self._negate(2)
            elif word in w.FILLERS or word in fillers:
                self.at += 1
            else:
                return

    def _catenative(self) -> bool:
        """Past `fails to`, `manages to`, `turns out to`, `keeps`."""
        found = w.INFLECTED.get(self.words[self.at])
        if found is None:
            return False
        to = self.at + 1
        if self.words[to : to + 1] == ["out"]:
            to += 1
        if self.words[to : to + 1] == ["to"] and (found.base == "fail" or found.base in w.TO):
            if found.base == "need":
                return False
            if found.base == "fail":
                self.negated = not self.negated
                self.negations.extend((self.at, to))
            self.at, self.free = to + 1, True
            return True
        follows = w.INFLECTED.get(self.words[to]) if to < len(self.words) else None
        if follows is not None and follows.form == "ing" and found.base in {"keep", "stop"}:
            if found.base == "stop":
                self._negate(1)
            self.at, self.free = to, True
            return True
        return False

    def _perfect(self) -> Cond | None:
        """`has passed`, `have been approved`, `has not yet been signed`."""
        begin = self.at
        negated, negations = self.negated, list(self.negations)
        self.at += 1
        self._skip()
        if "been" in self.words[begin : self.at]:
            found = w.INFLECTED.get(self.words[self.at]) if self.at < len(self.words) else None
            self.passive = found is not None and found.form == "past"
            return self._complement()
        verb = w.INFLECTED.get(self.words[self.at]) if self.at < len(self.words) else None
        word = self.words[self.at] if self.at < len(self.words) else ""
        perfect = verb is not None and (verb.form == "past" or word == w.participle(verb.base))
        if perfect:
            self.free = True
            if self._catenative():
                return self._verb_group()
            return self._main()
        if verb is None and word.endswith("ed"):
            return self._fact(self.words[self.at :])
        self.at, self.negated, self.negations = begin, negated, negations
        return None

    # -- copulas -----------------------------------------------------------------------------------

    def _be(self) -> Cond | None:
        self.at += 2 if self._next("have", "been") else 1
        self._skip()
        word = self.words[self.at] if self.at < len(self.words) else ""
        found = w.INFLECTED.get(word)
        if self._next("able", "to") or self._next("going", "to") or self._next("about", "to"):
            self.at, self.free = self.at + 2, True
            return self._main()
        if self._next("unable", "to"):
            self._negate(2)
            return self._main()
        if found is not None and found.form == "ing" and self._goes_on(found):
            self.free = True
            return self._main()
        self.passive = found is not None and found.form == "past"
        return self._complement()

    def _goes_on(self, verb: w.Verb) -> bool:
        """Whether `is failing` is what a thing does, and not as `is convincing` what it is."""
        more = self.at + 1 < len(self.words)
        if self.words[self.at] in w.STATES:
            return False
        known = verb.base in w.HAPPENS | w.CHANGES | w.LINKS | w.MOVES | set(w.LIMITS)
        return known or more or self.subject.kind in {"agent", "person"}

    def _complement(self) -> Cond | None:
        """What follows a copula."""
        self._skip("be", "been", "being", "as")
        if self._next("set", "to"):
            self.at += 2
        if self._next("no") and self.at + 1 < len(self.words):
            self._none()
        if self._next("to", "be"):
            self.at += 2
            self._skip()
        if self._next("at") and numeral(self.words, self.at + 1):
            self.at += 1
        self.cuts.append(self.at)
        if self.at >= len(self.words):
            return None
        if self.words[self.at] in {"in", "of", "about", "for"}:
            self.cuts.append(self.at + 1)
        for read in (self._than, self._says_that, self._called, self._choice, self._a_kind):
            cond = read()
            if cond is not None:
                return cond
        return self._state() if compared(self.words, self.at) is None else None

    def _none(self) -> None:
        """`is no good`, `is no bug` as `is not good`, `is not a bug`."""
        after = self.words[self.at + 1]
        if after in w.LESS | w.MORE:
            return
        self._negate(1)
        if after not in w.STATES:
            self.at -= 1
            self.words[self.at] = "a"

    def _than(self) -> Cond | None:
        found = compared(self.words, self.at, bare=True)
        if found is None:
            return None
        if found.end < len(self.words) and not self._drop_tail(found.end):
            return None
        name = self.subject.name if self.subject.kind == "thing" else self.measure
        if found.unit in w.CONFIDENT:
            name = "confidence"
        if name and (found.unit.endswith(" long") or self.words[self.at] in w.LONG):
            name = f"{name} length"
        return self._compare(name or self._unit_name(found), found)

    def _unit_name(self, found: Comparison) -> str:
        return "" if self.subject.kind == "thing" else found.unit

    def _drop_tail(self, at: int) -> bool:
        """Whether words are a place that says nothing of what is so: `in the log`."""
        rest = self.words[at:]
        return rest[0] in w.PREPOSITIONS and self.subjects.whole(rest[1:])

    def _compare(self, name: str, found: Comparison, agent: str | None = None) -> Cond | None:
        key = _named(name.split())
        if not key:
            return None
        agent = agent or self.subject.agent
        fact = Fact(name=key, operator=found.operator, value=whole(found.value), agent=agent)
        if found.upto is None:
            return fact
        upper = Fact(name=key, operator="<=", value=whole(found.upto), agent=agent)
        return Both(of=(fact, upper))

    def _says_that(self) -> Cond | None:
        """`is sure that the facts hold`, `is of the opinion that …`."""
        words, at = self.words, self.at
        told = w.INFLECTED.get(words[at])
        if told is not None and told.base in w.SAYS and words[at + 1 : at + 2] == ["that"]:
            return self._inner(at + 2)
        if self.subject.kind not in {"agent", "person"} and self.subject.agent is None:
            return None
        if words[at] in w.SURE and words[at + 1 : at + 2] == ["that"]:
            return self._inner(at + 2)
        if words[at : at + 4] == ["of", "the", "opinion", "that"]:
            return self._inner(at + 4)
        return None

    def _inner(self, at: int) -> Cond | None:
        cond = self.inner(self.words[at:])
        return None if cond is None else decided_by(cond, self.subject.agent)

    def _called(self) -> Cond | None:
        """`is classified as a bug`, `is marked urgent`, `is rated under 7`."""
        found = w.INFLECTED.get(self.words[self.at])
        if found is None or found.form != "past" or found.base not in w.CALLS:
            return None
        return self._called_what(found.base, self.at + 1, self.subject)

    def _called_what(self, verb: str, at: int, subject: Subject) -> Cond | None:
        words = self.words
        by = self._by(at)
        end = len(words) if by is None else by[0]
        agent = by[1] if by is not None else None
        if words[at : at + 1] in (["as"], ["at"], ["with"]):
            at += 1
        elif words[at : at + 2] == ["to", "be"]:
            at += 2
        if at >= end:
            return None
        number = compared(words[:end], at, bare=True)
        if number is not None and number.end == end and verb in w.SCORES:
            return self._compare(w.SCORES[verb], number, agent)
        thing = Subject("it", agent=agent or subject.agent)
        reader = PredicateReader(words[:end], at, thing, self.subjects, self.inner)
        cond = reader._complement()
        self.negated ^= reader.negated
        return None if cond is None else decided_by(cond, thing.agent)

    def _by(self, at: int) -> tuple[int, str] | None:
        """`by @1` at the end, and whom it names."""
        end = len(self.words)
        if end - 2 >= at and self.words[end - 2] == "by":
            agent = self.subjects.agent(self.words[end - 1])
            if agent is not None:
                return end - 2, agent
        return None

    def _choice(self) -> Cond | None:
        """`is high` of a priority, `is of high priority`, `is high priority`."""
        rest = [word for word in self.words[self.at :] if word not in {"the", "a", "an"}]
        of = rest[:1] == ["of"]
        rest = rest[1:] if of else rest
        if len(rest) == 2 and rest[1] in w.CHOICES and (of or rest[0] in w.STATES):
            return self._equal(rest[1], rest[:1])
        if len(rest) == 2 and of and rest[0] in w.CHOICES:
            return self._equal(rest[0], rest[1:])
        if of or self.subject.head not in w.CHOICES or self.subject.kind != "thing":
            return None
        value = self.words[self.at :]
        if value[0] in {"the", "a", "an", "either"}:
            value = value[1:]
        if not value or len(value) > 4 or not all(_free(word) for word in value):
            return None
        decided = set(w.DECISIONS.values()) | word_set("clear ready right ok available in known")
        if plain(" ".join(value)) in decided or value[0] in w.PREPOSITIONS:
            return None
        if self.subject.agent is None and len(value) > 1 and value[-1] in w.PREPOSITIONS:
            return None
        return self._equal(self.subject.name, value)

    def _equal(self, name: str, value: Sequence[str]) -> Cond | None:
        key = _named(name.split())
        if not key or not value:
            return None
        return Fact(name=key, operator="==", value=plain(" ".join(value)), agent=self._owner())

    def _owner(self) -> str | None:
        return self.subject.agent

    def _a_kind(self) -> Cond | None:
        """`is a bug`, `is one of the poems`, `is about money`."""
        words, at = self.words, self.at
        if words[at] in {"a", "an", "some"} or (words[at] == "about" and at + 1 < len(words)):
            at += 1
        elif words[at : at + 3] == ["one", "of", "the"]:
            at += 3
        else:
            return None
        by = self._by(at)
        end, agent = by or (len(words), self._owner())
        what = words[at:end]
        if not 0 < len(what) <= 4 or not all(_free(word) for word in what):
            return None
        return Fact(name="kind", operator="==", value=plain(" ".join(what)), agent=agent)

    def _state(self) -> Cond | None:
        by = self._by(self.at)
        end, agent = by or (len(self.words), None)
        said = self.words[self.at : end]
        if said and said[-1] in w.FILLERS and len(said) > 1:
            said = said[:-1]
        phrasal = tuple(said[:2])
        decided = _decided(phrasal)
        if decided and (len(said) <= len(decided.split("_")) or self._reason(said)):
            judged = self.subject.head in w.JUDGEMENTS or self.subject.kind != "thing"
            name = decided
            if self.subject.kind == "thing" and decided in w.PASSIVE_ONLY and agent is None:
                return self._fact(said)
            return Fact(name=name, agent=agent or (self.subject.agent if judged else None))
        return self._fact(said, agent)

    def _reason(self, said: Sequence[str]) -> bool:
        """`approved for release` is approved, `agreed on` agreed."""
        if len(said) == 2 and said[1] in {"on", "upon", "to", "with"}:
            return True
        return len(said) > 2 and said[1] in {"for", "by", "as", "in", "on", "with"}

    # -- verbs -------------------------------------------------------------------------------------

    def _main(self) -> Cond | None:
        self._skip()
        if self.at >= len(self.words):
            return None
        if self.words[self.at] in w.BE:
            return self._be()
        found = w.INFLECTED.get(self.words[self.at])
        if found is None:
            return self._unknown_verb()
        if self._agreeing(found):
            for read in (
                self._says,
                self._decides,
                self._finds,
                self._becomes,
                self._link,
                self._limit,
                self._calls,
                self._assigns,
                self._has,
            ):
                cond = read(found)
                if cond is not None:
                    return cond
            return self._does(found)
        return None

    def _agreeing(self, verb: w.Verb) -> bool:
        """Whether a verb can follow: `drafts` alone is no verb of `it`."""
        return self.free or verb.form != "ing"

    def _unknown_verb(self) -> Cond | None:
        if compared(self.words, self.at) is not None:
            return self._than()
        if self.words[self.at + 1 : self.at + 2] == ["that"] and self.subject.agent is not None:
            return self._inner(self.at + 2)
        if self.free and not self.passive and self.words[self.at].isalpha():
            base = self.words[self.at]
            return self._does(w.Verb(base, "base")) if _free(base) else None
        word = self.words[self.at]
        if self.subject.kind == "thing" and word.endswith(w.VERB_ENDINGS):
            return self._does(w.Verb(word[:-1], "third"))
        if self.subject.kind == "thing" and word in w.STATES:
            return self._state()
        if self.subject.kind == "thing" and self.at + 1 == len(self.words) and third_person(word):
            return self._does(w.Verb(verb_base(word), "third"))
        return None

    def _becomes(self, verb: w.Verb) -> Cond | None:
        """`the status changes to closed`."""
        self_at = self.at
        if verb.base in w.MOVES | w.CHANGES and self.words[self_at + 1 : self_at + 2] == ["to"]:
            self.at += 2
            cond = self._choice() if self.at < len(self.words) else None
            self.at = self_at
            return cond
        return None

    def _link(self, verb: w.Verb) -> Cond | None:
        if verb.base not in w.LINKS | w.MOVES:
            return None
        begin = self.at
        self.at += 1
        if self.at < len(self.words) and self.words[self.at] in w.LINK_PARTICLES:
            self.at += 1
        self._skip("as", "like", "to")
        if self._next("at") and numeral(self.words, self.at + 1):
            self.at += 1
        found = compared(self.words, self.at, bare=verb.base in w.MOVES | {"end", "prove"})
        if found is not None and verb.base != "get":
            cond = self._than()
            if cond is not None:
                self.cuts.append(self.at)
                return cond
        if verb.base == "get" and found is not None:
            self.at = begin
            return None
        if verb.base in w.LINKS and self._adjectival():
            return self._complement()
        self.at = begin
        return None

    def _adjectival(self) -> bool:
        if self.at >= len(self.words):
            return False
        if self.words[self.at] in {"a", "an"} and self.words[self.at - 1] in {"get", "gets", "got"}:
            return False
        if self.words[self.at] in w.DETERMINERS - {"a", "an", "enough"}:
            return False
        word, before = self.words[self.at], self.words[self.at - 1]
        if word in w.PREPOSITIONS - {"in", "of", "on", "out", "under"}:
            return word in w.STATES
        return before not in {"in", "up"} or word in w.STATES

    def _limit(self, verb: w.Verb) -> Cond | None:
        """`exceeds 5`, `reaches 80 %`, `scores below 0.8`, `costs 50 or more`."""
        at = self.at + 1
        if verb.base in w.LIMITS:
            value = compared(self.words, at, bare=True)
            if value is not None and value.end == len(self.words) and value.operator == "==":
                sign = w.LIMITS[verb.base]
                name = self.subject.name if self.subject.kind == "thing" else self.measure
                found = Comparison(sign, value.value, value.end)
                return self._compare(name, found)
        if verb.base in w.SCORES:
            if self.words[at : at + 1] == ["at"] and numeral(self.words, at + 1):
                at += 1
            value = compared(self.words, at, bare=True)
            if value is not None and value.end == len(self.words):
                return self._compare(w.SCORES[verb.base], value)
        return None

    def _says(self, verb: w.Verb) -> Cond | None:
        agent = self.subject.kind in {"agent", "person"}
        it = self.subject.kind == "it" and not self.subject.many
        told = self.words[self.at + 1 : self.at + 2] == ["that"]
        if not (verb.base in w.SAYS or told) or not (agent or it):
            return None
        at = self.at + 1
        rest = self.words[at:]
        if agent and verb.base == "say" and rest[:1] and rest[0] in w.SAYS_SO and len(rest) <= 2:
            return Fact(name="approved", agent=self.subject.agent)
        if agent and verb.base == "say" and rest == ["no"]:
            return Fact(name="rejected", agent=self.subject.agent)
        for whom in (["us"], ["me"], ["to", "us"], ["to", "me"], ["back"]):
            if rest[: len(whom)] == whom:
                rest = rest[len(whom) :]
        if rest[:1] == ["that"]:
            return self._subordinate(rest[1:])
        return self._subordinate(rest) if rest else None

    def _subordinate(self, words: Sequence[str]) -> Cond | None:
        cond = self.inner(words)
        agent = self.subject.agent or (self.subjects.last if self.subject.kind == "it" else None)
        return None if cond is None else decided_by(cond, agent)

    def _decides(self, verb: w.Verb) -> Cond | None:
        end, name = self._decision(verb)
        if not name:
            return self._consents(verb)
        rest = self.words[end:]
        if self.subject.kind == "thing":
            return None
        if self.subject.kind == "it" and not rest:
            return Fact(name=name)
        if rest and not (self.subjects.whole(rest) or self._object(rest)):
            return None
        agent = self.subject.agent
        if self.subject.kind == "it" and rest:
            agent = self.subjects.last
        return Fact(name=name, agent=agent)

    def _decision(self, verb: w.Verb) -> tuple[int, str]:
        """The flag that a decision sets, and where the verb and its particle end."""
        for (first, particle), name in w.PHRASAL.items():
            if verb.base != first:
                continue
            for at in range(self.at + 1, min(self.at + 6, len(self.words))):
                if self.words[at] == particle:
                    del_object = self.words[self.at + 1 : at]
                    if not del_object or self._object(del_object):
                        return (at + 1 if not del_object else len(self.words)), name
        return self.at + 1, w.DECISIONS.get(verb.base, "")

    def _object(self, words: Sequence[str]) -> bool:
        rest = list(words)
        while rest and rest[0] in {"of", "to", "with", "on", "for"}:
            rest = rest[1:]
        if not rest or rest == ["it"] or rest[0] in {"him", "her", "everything", "what", "that"}:
            return True
        return len(rest) <= 8 and (
            rest[0] in w.DETERMINERS or rest[0].startswith("@") or rest[0] in w.PRONOUNS
        )

    def _consents(self, verb: w.Verb) -> Cond | None:
        """`gives its approval`, `gives the green light`."""
        gets = verb.base in {"get", "receive", "obtain"}
        if not gets and (verb.base not in {"give", "grant"} or self.subject.kind == "thing"):
            return None
        rest = [word for word in self.words[self.at + 1 :] if word not in w.DETERMINERS]
        agent = self.subject.agent
        if gets:
            agent = self.subjects.agent(rest[-1]) if rest[-2:-1] == ["from"] else None
            rest = rest[:-2] if agent is not None else rest
        rest = [word for word in rest if word not in {"it", "us", "me"}]
        negative = rest[:1] == ["no"]
        said = "-".join(rest[negative:])
        if said not in w.CONSENT and not (rest[negative:] and rest[negative] in w.CONSENT):
            return None
        fact = Fact(name="approved", agent=agent)
        return Not(of=fact) if negative else fact

    def _calls(self, verb: w.Verb) -> Cond | None:
        """`finds it too long`, `rates it under 7`, `classifies the mail as spam`."""
        if verb.base not in w.CALLS or self.subject.kind == "thing":
            return None
        at = self.at + 1
        if at >= len(self.words):
            return None
        agent = self.subject.agent or self.subjects.last
        asked = Subject("agent", agent=agent)
        if self.words[at] in {"it", "this", "that", "them", "everything"}:
            return self._called_what(verb.base, at + 1, asked) if at + 1 < len(self.words) else None
        if self.words[at] in w.DETERMINERS:
            for end in range(at + 2, min(at + 6, len(self.words))):
                marker = self.words[end]
                named = self.subjects.whole(self.words[at:end])
                said = marker in {"as", "at"} or compared(self.words, end) is not None
                state = marker in w.STATES and end == len(self.words) - 1
                number = compared(self.words, end)
                if named and self.words[at] in _ITS and number is not None:
                    return self._compare(" ".join(self.words[at:end]), number, agent)
                if named and (said or state):
                    return self._called_what(verb.base, end, asked)
        return None

    def _assigns(self, verb: w.Verb) -> Cond | None:
        """`gives it a score below 7`, `sets the priority to high`."""
        if verb.base not in w.ASSIGNS or self.subject.kind == "thing":
            return None
        rest = self.words[self.at + 1 :]
        for at in range(1, min(len(rest), 6)):
            before = self.subjects.whole(rest[:at]) or rest[:at] in (["it"], ["them"])
            if before and rest[at] in {"to", "at", "as"}:
                said = [word for word in rest[:at] if word not in w.DETERMINERS]
                number = compared(rest, at + 1, bare=True)
                if number is not None and number.end == len(rest):
                    return self._compare(" ".join(said), number)
                choice = said[-1] in w.CHOICES and len(rest) <= at + 4
                return self._equal(" ".join(said), rest[at + 1 :]) if choice else None
            if before and (number_of := self._number_of(rest[at:])) is not None:
                return number_of
            end = [word for word in rest[at:] if word not in w.DETERMINERS]
            if before and len(end) == 2 and end[1] in w.CHOICES:
                return self._equal(end[1], end[:1])
        return None

    def _finds(self, verb: w.Verb) -> Cond | None:
        """`finds a bug`, `spots no errors`."""
        rest = self.words[self.at + 1 :]
        across = (verb.base, *rest[:1]) in {("come", "across"), ("run", "into")}
        if not (verb.base in w.FINDS or across) or self.subject.kind == "thing":
            return None
        rest = rest[across:]
        number = self._number_of(rest)
        if number is not None:
            return number
        if rest in (["nothing"], ["none"]):
            return Not(of=Fact(name="something_found", agent=self.subject.agent))
        if rest in (["something"], ["anything"]):
            return Fact(name="something_found", agent=self.subject.agent)
        negative = rest[:1] == ["no"]
        thing = self._thing(rest[negative:])
        if not thing:
            return None
        agent = self.subject.agent
        fact = Fact(name=plain(f"{' '.join(thing)} found"), agent=agent)
        return Not(of=fact) if negative else fact

    def _number_of(self, rest: Sequence[str]) -> Cond | None:
        """`more than 3 errors`, `a score of 0.8 or better`, `less than 80 % coverage`."""
        words = list(rest)
        found = compared(words, 0, bare=True)
        if found is not None and found.unit:
            tail = words[found.end :]
            if not tail or tail[0] in w.PREPOSITIONS:
                return self._compare(found.unit, found)
        at = 0
        while at < len(words) and words[at] in w.DETERMINERS:
            at += 1
        for end in range(at + 1, min(at + 4, len(words))):
            begin = end + (words[end] in {"of", "at"})
            found = compared(words, begin, bare=begin > end)
            if found is not None and found.end == len(words):
                return self._compare(" ".join(words[at:end]), found)
        return None

    def _thing(self, words: Sequence[str]) -> list[str]:
        """A noun phrase's words without articles; empty where it is none."""
        said: list[str] = []
        something = len(words) == 2 and words[0] in {"something", "anything"}
        for word in words[something:]:
            agent = self.subjects.agent(word)
            if agent is not None:
                said += agent.split("_")
            elif word not in w.DETERMINERS and word not in {"'s", "single"}:
                said.append(word)
        while said and said[-1] in {"left", "anymore", "it", "them", "in", "of", "with", "at"}:
            said.pop()
        said = ["something", *said] if something and said else said
        ok = all(_free(word) for word in said[something:]) and len(said) <= _MOST
        return said if ok else []

    def _has(self, verb: w.Verb) -> Cond | None:
        """`has its models ready`, `gets a score of 5`, `has no objections`, `contains errors`."""
        if verb.base not in w.HAS:
            return None
        rest = self.words[self.at + 1 :]
        number = self._number_of(rest)
        if number is not None:
            return number
        if verb.base == "have" and (ready := self._has_ready(rest)) is not None:
            return ready
        negative = rest[:1] == ["no"]
        said = self._thing(rest[negative:])
        if negative and said[:1] == ["more"]:
            said = said[1:]
        if negative and not said:
            return None
        if len(said) == 2 and said[1] in w.CHOICES and said[0] in w.STATES:
            return self._equal(said[1], said[:1])
        named = self.subject.kind in {"agent", "person", "it"}
        if said and named and (verb.base in {"have", "raise", "voice", "express", "contain"}):
            fact = Fact(name=plain(" ".join(said)), agent=self.subject.agent, about=said[-1])
            return Not(of=fact) if negative else fact
        return None

    def _has_ready(self, rest: Sequence[str]) -> Cond | None:
        """`has the outline ready`: the thing is ready, and the subject says so."""
        last = len(rest)
        while last and rest[last - 1] in w.FILLERS | {"to"}:
            last -= 1
        done = rest[last - 1] if last else ""
        found = w.INFLECTED.get(done)
        state = done in w.STATES or (found is not None and found.form == "past")
        state = state and done != "left"
        thing = self._thing(rest[: last - 1]) if state and last > 1 else []
        thing = [word for word in thing if word not in w.FILLERS]
        if not thing or thing[-1] in w.STATES or thing[-1] in _WORK:
            return None
        return Fact(
            name=plain(f"{' '.join(thing)} {done}"), agent=self.subject.agent, about=thing[-1]
        )

    def _does(self, verb: w.Verb) -> Cond | None:
        """Any other verb: `the facts hold`, `it compiles`, `the customer wants a refund`."""
        rest = self.words[self.at + 1 :]
        if compared(rest, 0) is not None:
            return self._number_of(rest)
        negative = rest[:1] == ["no"]
        particle = rest[:1] if rest[:1] and rest[0] in {"up", "out", "off", "down", "in"} else []
        if particle and rest[1:2] != ["the"] and len(rest) > 1 and rest[1] not in w.PREPOSITIONS:
            particle = []
        said = self._thing(rest[negative + len(particle) :])
        said = [*particle, *said]
        if rest and not said and not particle and rest not in (["it"], ["them"], ["this"]):
            return None
        form = self._form(verb, changed=not rest, alone=len(said) == len(particle))
        fact = self._fact([form, *said], active=True)
        if fact is None:
            return None
        return Not(of=fact) if negative else fact

    def _form(self, verb: w.Verb, *, changed: bool, alone: bool) -> str:
        """How a verb stands in a name: the same in every tense, or as the state it leads to."""
        thing = self.subject.kind == "thing"
        if changed and verb.base in w.CHANGES and (thing or not (verb.form == "base" or self.free)):
            return w.participle(verb.base)
        moved = not changed and verb.base in {"go", "come"}
        if alone and thing and verb.form == "past" and verb.base not in w.HAPPENS and not moved:
            return self.words[self.at]
        return self._present(verb)

    def _present(self, verb: w.Verb) -> str:
        plural = self.subject.many and self.subject.kind != "agent"
        return verb.base if plural else w.third(verb.base)

    # -- names -------------------------------------------------------------------------------------

    def _fact(
        self, said: Sequence[str], agent: str | None = None, *, active: bool = False
    ) -> Cond | None:
        """The subject and what is said of it, as a name."""
        words = list(said)
        words = [word for word in words if word not in w.DETERMINERS - {"enough"}]
        words = self._without_aside(words) if agent or not active else words
        if not words or len(words) > _MOST or not all(map(_free, words[active:])):
            return None
        if any(word[0].isdigit() for word in words):
            return None
        if self.subject.kind == "it" and words[0] in {"case", "so", "point"}:
            return None
        if words[0] in w.OTHERS or (words[0] in w.TIME and words[0] not in w.INFLECTED):
            return None
        owner = agent or self.subject.agent
        if self.subject.kind == "agent":
            return Fact(name=plain(" ".join(words)), agent=owner)
        name = plain(f"{self.subject.name} {' '.join(words)}")
        return Fact(name=name, agent=owner, about=self.subject.head) if name else None

    def _without_aside(self, words: list[str]) -> list[str]:
        """`happy with it` is happy; of an agent, `happy with the draft` is, too."""
        short = self.subject.kind in {"agent", "person"}
        for at in range(1, len(words)):
            if words[at] not in w.PREPOSITIONS:
                continue
            rest = words[at + 1 :]
            if rest and (rest[0] in w.PRONOUNS | {"me", "us", "you"} or short):
                return words[:at]
        return words


def _decided(words: tuple[str, ...]) -> str:
    """`approved`, `signed off`: the flag that a participle sets."""
    found = w.INFLECTED.get(words[0]) if words else None
    if found is None or found.form != "past":
        return ""
    phrasal = w.PHRASAL.get((found.base, words[1])) if len(words) > 1 else None
    return phrasal or w.DECISIONS.get(found.base, "")


def _named(words: Sequence[str]) -> str:
    kept = [word for word in words if word not in w.DETERMINERS and word != "'s"]
    return plain(" ".join(kept)) if kept and all(_free(word) for word in kept) else ""


def _free(word: str) -> bool:
    """Whether a word may be part of a name."""
    closed = w.OTHERS | w.AUXILIARIES | w.PRONOUNS | w.NEGATIONS | {"no"}
    return word[:1].isalnum() and word not in closed


def decided_by(cond: Cond, agent: str | None) -> Cond:
    """A condition whose facts an agent decides, where nobody else is named."""
    if isinstance(cond, Fact):
        return cond if cond.agent else cond.model_copy(update={"agent": agent})
    if isinstance(cond, Not):
        return Not(of=decided_by(cond.of, agent))
    of = tuple(decided_by(part, agent) for part in cond.of)
    return Both(of=of) if isinstance(cond, Both) else cond.model_copy(update={"of": of})

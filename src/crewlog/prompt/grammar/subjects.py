"""Subjects of conditions: whom and what a clause is about, and where its predicate begins.

`the quality of the text`, `@1 's models`, `none of the tests`, `it`, `the models @1 made`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from crewlog.prompt.grammar import condition_words as w
from crewlog.prompt.grammar.lexicon import plural, singular, third_person, word_set

_LONGEST = 6
_NEGATIVE = {"nothing": "it", "nobody": "he", "no-one": "he", "none": "they", "neither": "they"}
_SOMEBODY = word_set("everyone everybody both either someone somebody anyone anybody")
_QUANTIFIERS: tuple[tuple[tuple[str, ...], str], ...] = tuple(
    (tuple(words.split()), kind)
    for words, kind in (
        ("none of", "none"),
        ("neither of", "none"),
        ("not all of", "none"),
        ("not all", "none"),
        ("not every", "each none"),
        ("not one of", "one none"),
        ("not one", "none"),
        ("not a single", "none"),
        ("not any", "none"),
        ("not", "none"),
        ("no single", "none"),
        ("no", "none"),
        ("at least one of", "one"),
        ("at least one", ""),
        ("every one of", ""),
        ("every single", "each"),
        ("each and every", "each"),
        ("each one of", ""),
        ("each of", ""),
        ("all of", ""),
        ("both of", ""),
        ("some of", ""),
        ("most of", ""),
        ("any one of", "one"),
        ("any of", "one"),
        ("one of", "one"),
        ("every", "each"),
        ("each", "each"),
        ("a single", ""),
    )
)
"""What stands before a noun, and what it does to it: pluralises it, singularises it, negates."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom or what a clause is about."""

    kind: Literal["thing", "agent", "it", "person"]
    """`it` stands for anything that was spoken of; a person is the agent spoken of last."""
    words: tuple[str, ...] = ()
    """A thing's name, without its article."""
    agent: str | None = None
    """The agent that is the subject, or whose thing it is."""
    many: bool = False
    negative: bool = False
    """`nothing`, `none of the tests`."""

    @property
    def name(self) -> str:
        """The thing's name in words; empty for pronouns and agents."""
        return " ".join(self.words)

    @property
    def head(self) -> str:
        """The thing's noun."""
        return self.words[-1] if self.words else ""


class Subjects:
    """Reads subjects.

    Args:
        names: The agents' names, by number.
        last: The agent that `he`, `she` and, in a decision, `it` stand for.
        tools: The tools' names, by number.
    """

    def __init__(self, names: Sequence[str], last: str | None, tools: Sequence[str]) -> None:
        self.names = names
        self.last = last
        self.tools = tools

    def agent(self, word: str) -> str | None:
        """The agent that a word names."""
        if not word.startswith("@") or not word[1:].isdigit():
            return None
        at = int(word[1:])
        return self.names[at] if at < len(self.names) else None

    def read(self, words: Sequence[str], *, loose: bool = False) -> Iterator[tuple[Subject, int]]:
        """The subjects that words may begin with, the likelier first, and where each ends.

        Args:
            words: A clause.
            loose: Whether number and verb need not agree (`the tests or the build fail`).
        """
        if words[:2] == ["no", "one"] and words[2:3] != ["of"]:
            yield Subject("person", negative=True), 2
            return
        kind, at = _quantifier(words)
        pronoun = self._pronoun(words, at)
        if pronoun is not None:
            agent = pronoun[0].agent if pronoun[0].kind == "agent" else None
            compound = self._compound(words, at, agent) if agent is not None else None
            says = w.INFLECTED.get(words[at + 1]) if at + 1 < len(words) else None
            if compound is not None and (says is None or says.base not in w.SAYS):
                yield compound
            yield _quantified(pronoun[0], kind), pronoun[1]
            if compound is not None:
                yield compound
            return
        for subject, end in self._noun(words, at, loose or "one" in kind.split()):
            yield _quantified(subject, kind), end

    def whole(self, words: Sequence[str]) -> bool:
        """Whether words are nothing but a subject: `the tests`."""
        _, at = _quantifier(words)
        if (found := self._pronoun(words, at)) is not None:
            return found[1] == len(words)
        owner, begin, articles = self._determined(words, at)
        enough = articles or owner is not None or self._plural_noun(words)
        return bool(enough) and self._thing(words, begin, len(words), owner) is not None

    def _plural_noun(self, words: Sequence[str]) -> bool:
        return len(words) <= 2 and singular(words[-1]) != words[-1]

    def _pronoun(self, words: Sequence[str], at: int) -> tuple[Subject, int] | None:
        word = words[at] if at < len(words) else ""
        after = words[at + 1] if at + 1 < len(words) else ""
        if word in _NEGATIVE:
            kind: Literal["it", "person"] = "person" if _NEGATIVE[word] == "he" else "it"
            many = _NEGATIVE[word] == "they"
            return Subject(kind, negative=True, many=many), at + 1
        if word in {"he", "she"}:
            return Subject("person", agent=self.last), at + 1
        if word in {"all", "both", "the"} and after in {"two", "three", "four", "five", "others"}:
            end = at + 2 + 2 * (words[at + 2 : at + 4] == ["of", "them"])
            if _begins_predicate(words, end):
                return Subject("person", many=True), end
        if word in {"all", "both", "each", "any", "one", "either", "some"} and after == "of":
            return self._pronoun(words, at + 2)
        if word in _SOMEBODY and _begins_predicate(words, at + 1):
            return Subject("person", many=word == "both"), at + 1
        demonstrative = word in {"this", "that", "these", "those", "all", "any"}
        if word in w.PRONOUNS and (not demonstrative or _begins_predicate(words, at + 1)):
            return Subject("it", many=word in w.MANY), at + 1
        agent = self.agent(word)
        if agent is not None and after != "'s":
            return Subject("agent", agent=agent), at + 1
        return None

    def _compound(self, words: Sequence[str], at: int, agent: str) -> tuple[Subject, int] | None:
        """`the backend tests are green`: an agent's name before a noun, as a part of it."""
        end = at + 1
        while end < len(words) and end - at < 4 and _nominal(words[end]):
            if words[end] in w.FILLERS | w.DETERMINERS | {"there"}:
                return None
            end += 1
        if end == at + 1 or end >= len(words) or words[end] not in w.AUXILIARIES:
            return None
        name = (*agent.split("_"), *words[at + 1 : end])
        return Subject("thing", name, many=many(name[-1])), end

    def _determined(self, words: Sequence[str], at: int) -> tuple[str | None, int, bool]:
        """Past articles and an owner: `all of @1 's`."""
        begin = at
        while begin < len(words) and words[begin] in w.DETERMINERS:
            begin += 1
        if begin + 1 < len(words) and words[begin + 1] == "'s":
            agent = self.agent(words[begin])
            if agent is not None:
                return agent, begin + 2, True
        return None, begin, begin > at

    def _noun(self, words: Sequence[str], at: int, loose: bool) -> Iterator[tuple[Subject, int]]:
        owner, begin, _ = self._determined(words, at)
        for end in _ends(words, begin, loose):
            subject = self._thing(words, begin, end, owner)
            if subject is not None:
                yield subject, end

    def _thing(
        self, words: Sequence[str], begin: int, end: int, owner: str | None
    ) -> Subject | None:
        stop = begin
        while stop < end and words[stop] not in w.PREPOSITIONS:
            stop += 1
        name = list(words[begin:stop])
        given = w.INFLECTED.get(name[-1]) if stop < end and words[stop] == "by" and name else None
        if given is not None and given.form == "past":
            name.pop()
        if name and name[-1] in w.FILLERS:
            name.pop()
        if stop < end:
            if not name:
                return None
            found = self._of(words, stop, end, name)
            if found is None:
                return None
            name, maker = found
            owner = owner or maker
        name = [self._tool(word) for word in name]
        if not name or not all(_nominal(word) for word in name) or len(name) > _LONGEST:
            return None
        return Subject("thing", tuple(name), owner, many=many(name[-1]))

    def _tool(self, word: str) -> str:
        if word[:1] in "#$" and word[1:].isdigit() and int(word[1:]) < len(self.tools):
            return self.tools[int(word[1:])].replace("_", " ")
        return word

    def _of(
        self, words: Sequence[str], stop: int, end: int, name: list[str]
    ) -> tuple[list[str], str | None] | None:
        """A noun's `of the text`, `from @1`, `in the log`, and the name that it leaves."""
        rest = [word for word in words[stop + 1 : end] if word not in w.DETERMINERS]
        for word in rest:
            agent = self.agent(word)
            if agent is not None and words[stop] in {"of", "from", "by"}:
                return name, agent
            if agent is None and not _nominal(word) and word not in {"of", "in", "'s", "it"}:
                return None
        if not rest or words[stop] == "than":
            return None
        if words[stop] == "of" and name and name[-1] in w.COUNTS:
            counted = words[stop + 1] not in w.DETERMINERS and many(rest[-1])
            return (rest, None) if counted else (name, None)
        if words[stop] == "of":
            return name, None
        return [*name, words[stop], *rest], None


def _quantifier(words: Sequence[str]) -> tuple[str, int]:
    for quantifier, kind in _QUANTIFIERS:
        if tuple(words[: len(quantifier)]) == quantifier:
            return kind, len(quantifier)
    return "", 0


def _quantified(subject: Subject, kind: str) -> Subject:
    negative = subject.negative or "none" in kind
    if subject.words and "each" in kind:
        named = (*subject.words[:-1], plural(subject.words[-1]))
        return replace(subject, words=named, many=True, negative=negative)
    if subject.words and "one" in kind.split():
        named = (*subject.words[:-1], singular(subject.words[-1]))
        return replace(subject, words=named, many=False, negative=negative)
    return replace(subject, negative=negative)


def many(noun: str) -> bool:
    """Whether a noun is in the plural."""
    return singular(noun) != noun or noun in {"data", "people", "criteria", "children"}


def _nominal(word: str) -> bool:
    """Whether a word can stand in a thing's name."""
    closed = w.OTHERS | w.AUXILIARIES | w.NEGATIONS | w.PRONOUNS | word_set("too so very")
    return word[:1].isalnum() and word not in closed and word not in w.DETERMINERS


def _begins_predicate(words: Sequence[str], at: int) -> bool:
    if at >= len(words):
        return False
    word = words[at]
    if word in w.AUXILIARIES | w.NEGATIONS | w.FILLERS:
        return True
    found = w.INFLECTED.get(word)
    return found is not None and (found.base in w.HAPPENS or not w.noun(found.base))


def _ends(words: Sequence[str], begin: int, loose: bool) -> Iterator[int]:
    """Where a noun phrase may end: before an auxiliary, a verb that agrees, or a state."""
    weak: list[int] = []
    for at in range(begin, min(len(words), begin + 12)):
        word = words[at]
        if word in w.AUXILIARIES - {"may"} or word in w.NEGATIONS or word[:1] in "<>=!":
            if at > begin:
                yield at
            break
        if word == "no" and words[at + 1 : at + 2] == ["longer"]:
            yield at
            break
        if at > begin and (word in w.DETERMINERS and words[at - 1] not in w.PREPOSITIONS):
            if word in {"all", "both", "each"}:
                yield at
            break
        if word in w.OTHERS:
            break
        if at > begin and words[at - 1] not in w.DETERMINERS and _verb_after(words, at, loose):
            weak.append(at)
    else:
        at = len(words)
    last = len(words) - 1
    yield from sorted(
        weak, key=lambda k: (not (k == last and _happens(words[k])), not _link(words[k]))
    )
    if last > begin and at > last and last not in weak and _state(words, last):
        yield last


def _happens(word: str) -> bool:
    """Whether a word can only be the verb at the end of a clause: `the smoke tests fail`."""
    found = w.INFLECTED.get(word)
    return found is not None and found.base in w.HAPPENS and not w.noun(found.base)


def _link(word: str) -> bool:
    found = w.INFLECTED.get(word)
    return found is not None and found.base in w.LINKS | w.MOVES | set(w.LIMITS) | {"score"}


def _state(words: Sequence[str], at: int) -> bool:
    return words[at] in w.STATES or words[at].endswith("ed")


def _unknown_verb(words: Sequence[str], at: int) -> bool:
    """Whether a word in -s is a verb that nobody listed: `until the chapter grips`."""
    word = words[at]
    if many(words[at - 1]) or w.noun(word) or w.noun(singular(word)):
        return False
    alone = at + 1 == len(words) and at > 1 and words[at - 2] in w.DETERMINERS
    return word.endswith(w.VERB_ENDINGS) or (alone and third_person(word))


def _compound_noun(words: Sequence[str], at: int) -> bool:
    """`The smoke tests fail`: a plural before its verb, and no verb itself."""
    found, follows = w.INFLECTED[words[at]], w.INFLECTED.get("".join(words[at + 1 : at + 2]))
    noun = found.form == "third" and w.noun(found.base) and found.base in w.LINKS
    return noun and follows is not None and follows.form == "base" and follows.base != "like"


def _verb_after(words: Sequence[str], at: int, loose: bool) -> bool:
    """Whether the word at a place can be the verb of the noun before it."""
    found = w.INFLECTED.get(words[at])
    before = words[at - 1]
    if found is None:
        return _unknown_verb(words, at)
    if before in w.FILLERS and at > 1:
        before = words[at - 2]
    if _compound_noun(words, at):
        return False
    settled = found.base in w.HAPPENS | w.CHANGES | w.LINKS | w.MOVES | set(w.LIMITS)
    if not settled and (before in w.STATES or before.endswith(w.ATTRIBUTES)):
        return False
    if w.noun(found.base) and not settled and not words[at + 1 : at + 2]:
        return False
    if found.form == "past":
        return True
    if found.form == "ing":
        return False
    if loose:
        return True
    return (found.form == "base") == many(before)

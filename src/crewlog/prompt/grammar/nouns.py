"""Noun phrases: where the name of an agent begins and ends, and what kind of noun its head is.

A name ends where a verb follows that it is the subject of, or where its head is over. The head is
the last word, or the one before `of`: the head of `head of research` is `head`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from crewlog.prompt.grammar.lexicon import (
    ADVERBS_OF_WORK,
    AUXILIARIES,
    CALENDAR,
    DEPARTMENTS,
    DETERMINERS,
    FUNCTION,
    INSIDE_NAMES,
    NOT_VERBS,
    NUMBERS,
    ORDINALS,
    OUTSIDERS,
    PLACES_OF_WORK,
    PRONOUNS,
    STATIVE,
    THINGS,
    VERBS,
    abstract,
    agentive,
    known_verb,
    participle,
    singular,
    third_person,
)
from crewlog.prompt.grammar.sentences import Token

LONGEST_NAME = 5
"""Words."""

SIGNS = frozenset([*",;:()–<>=%", "->", "<=", ">=", "==", "!="])
_DEGREES = DETERMINERS | {"new", "single"}
_BE = frozenset(["is", "are", "was", "were", "be", "been", "being", "gets", "get", "got"])
_NO_PATIENT = frozenset(["followed", "helped", "supported", "assisted", "joined", "succeeded"])


class Head(Enum):
    """What the head of a noun phrase says about whether it works."""

    AGENT = "agent"
    """It says who does something: `reviewer`."""
    PLACE = "place"
    """People work there: `desk`."""
    NAME = "name"
    """A name of its own, in capitals: `Backend`, `QA`."""
    OPEN = "open"
    """A noun that may be anything."""
    THING = "thing"
    """A thing, or somebody who is not in the crew."""


def in_name(word: str) -> bool:
    """Whether a word may be part of an agent's name."""
    known = word in FUNCTION or word in SIGNS or word in NUMBERS
    return not known and word[:1].isalpha()


def continues(tokens: Sequence[Token], at: int, begin: int) -> bool:
    """Whether a token may be part of a name that began before it."""
    word = tokens[at].text
    if in_name(word) or (at > begin and word in INSIDE_NAMES):
        return True
    following = at + 1 < len(tokens) and in_name(tokens[at + 1].text)
    if tokens[at].shouted and following and not tokens[at + 1].shouted:
        return word in {"it", "us", "hr", "am", "or"}  # `the IT forensics agent`
    if at == begin:
        ordinal = begin > 0 and word in ORDINALS and tokens[begin - 1].text in DETERMINERS
        return ordinal and following and not known_verb(tokens[at + 1].text)
    return word == "of" and following and classified(tokens[at - 1]) is Head.AGENT


def after_determiners(tokens: Sequence[Token], at: int) -> int:
    """The first token of a noun phrase after `the`, `one of the` and the like."""
    begin = at
    while at < len(tokens) and tokens[at].text in _DEGREES:
        at += 1
        if at < len(tokens) and at == begin + 1 and tokens[at].text == "of":
            at += 1 if tokens[at - 1].text == "one" else 0
    return at


def classified(token: Token, *, article: bool = True) -> Head:
    """The kind of a noun."""
    word = token.text
    if word in PRONOUNS or word in CALENDAR:
        return Head.THING
    if word in OUTSIDERS - PLACES_OF_WORK and (article or not token.capital):
        return Head.THING
    if agentive(word) or word == "agent":
        return Head.AGENT
    if word in DEPARTMENTS and not article:
        return Head.NAME
    if word in PLACES_OF_WORK:
        return Head.PLACE
    if token.shouted and len(word) < 6:
        return Head.NAME
    if word in THINGS or word in OUTSIDERS:
        return Head.THING
    if token.capital and not article:
        return Head.NAME
    return Head.THING if abstract(word) else Head.OPEN


def head_of(tokens: Sequence[Token], begin: int, end: int) -> Token:
    """The head of a name: its last word, or the one before `of`."""
    for j in range(begin + 1, end):
        if tokens[j].text == "of":
            return tokens[j - 1]
    return tokens[end - 1]


def verb_at(tokens: Sequence[Token], at: int) -> bool:
    """Whether a verb of a single subject, or an adverb before one, stands at a token."""
    word = tokens[at].text
    if third_person(word) or word in AUXILIARIES:
        return True
    return (
        word in ADVERBS_OF_WORK
        and at + 1 < len(tokens)
        and (
            third_person(tokens[at + 1].text)
            or known_verb(tokens[at + 1].text)
            or tokens[at + 1].text in AUXILIARIES | ADVERBS_OF_WORK
        )
    )


def before_verb(tokens: Sequence[Token], at: int) -> int | None:
    """Where a name that begins at a token ends, if a verb that it could be the subject of follows.

    The first word that may be a verb is it where the head before it says who works, or is a name;
    else the first verb that is known.
    """
    fallback: int | None = None
    for j in range(at, min(at + LONGEST_NAME + 1, len(tokens))):
        word = tokens[j].text
        if j > at:
            head = classified(head_of(tokens, at, j))
            if head is Head.AGENT:
                if word in VERBS and not agentive(word) and tokens[j - 1].text != "of":
                    return None  # `the writer and the painter compare notes`
                if verb_at(tokens, j) or aside(tokens, j):
                    return j
            known = third_person(word) and known_verb(word) and not _plural_at(tokens, j)
            auxiliary = word in AUXILIARIES and not continues(tokens, j, at)
            proper = at > 0 and tokens[j - 1].capital and third_person(word)
            if fallback is None and (known or proper or auxiliary):
                fallback = j
        if not continues(tokens, j, at):
            break
    return fallback


def _plural_at(tokens: Sequence[Token], at: int) -> bool:
    """Whether what may be a verb is a plural: `the foreign invoices are …`."""
    following = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if following in {"are", "were", "have", "do"} or following in AUXILIARIES - {"'s"}:
        return True
    return third_person(following) and known_verb(following)


def aside(tokens: Sequence[Token], at: int) -> bool:
    """`the writer, using …`, `the writer (web_search) drafts` and `the writer, well, writes`."""
    if tokens[at].text not in {",", "("} or at + 1 >= len(tokens):
        return False
    if tokens[at].text == "," and tokens[at + 1].text in {"using", "who", "when", "if", "with"}:
        return True
    sign = ")" if tokens[at].text == "(" else ","
    last = min(at + 9, len(tokens) - 1)
    close = next((j for j in range(at + 1, last) if tokens[j].text == sign), 0)
    return bool(close) and third_person(tokens[close + 1].text)


def done_to(tokens: Sequence[Token], at: int) -> bool:
    """Whether a verb says what somebody else does: `… is restarted by the operator`."""
    if tokens[at].text not in _BE:
        return False
    for j in range(at + 1, min(at + 7, len(tokens) - 1)):
        word = tokens[j].text
        if word == "by":
            return tokens[j - 1].text not in _NO_PATIENT and any(
                participle(t.text) for t in tokens[at + 1 : j]
            )
        if word in SIGNS:
            break
    return False


def head_end(tokens: Sequence[Token], at: int) -> int | None:
    """Where a name with the head of an agent ends, whatever follows."""
    end: int | None = None
    for j in range(at, min(at + LONGEST_NAME, len(tokens))):
        word = tokens[j].text
        if not continues(tokens, j, at):
            break
        if agentive(word) or (agentive(singular(word)) and word not in OUTSIDERS):
            end = j + 1
        elif end is not None and (word == "of" or tokens[j - 1].text == "of"):
            end = j + 1 if word != "of" else end
        elif end is not None:
            break
    return end


def plain_end(tokens: Sequence[Token], at: int) -> int | None:
    """Where a noun phrase of any kind ends, in a list that can hold nothing but agents."""
    j = at
    follows = tokens[at + 1].text if at + 1 < len(tokens) else ""
    verb = at < len(tokens) and _verb(tokens[at].text) and follows not in {",", "or"}
    if at and tokens[at - 1].text not in DETERMINERS and verb:
        return None  # `…, and stops after ten rounds`
    while j < len(tokens) and j - at < LONGEST_NAME and continues(tokens, j, at):
        word = tokens[j].text
        if j > at and third_person(word) and known_verb(word):
            break
        if j > at and word in VERBS and _base_verb(tokens, j):
            break
        j += 1
    return j if j > at else None


def _verb(word: str) -> bool:
    return third_person(word) and known_verb(word)


def _base_verb(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word that may be a verb of several is one: an object or a preposition follows."""
    head = tokens[at - 1].text
    if head in PLACES_OF_WORK or agentive(head):
        return True
    following = tokens[at + 1].text if at + 1 < len(tokens) else ""
    return following in DETERMINERS or following in {"it", "them", "for", "on", "up", "out"}


def proper_end(tokens: Sequence[Token], at: int) -> int | None:
    """Where a name in capitals ends: `Backend`, `QA`."""
    j = at
    while j < len(tokens) and tokens[j].capital and in_name(tokens[j].text) and j - at < 3:
        j += 1
    return j if j > at and tokens[at].text not in CALENDAR | PRONOUNS else None


def open_end(tokens: Sequence[Token], at: int) -> int:
    """Where a noun phrase ends before a sign, a word of grammar or a verb in the third person."""
    end = at
    while end < len(tokens) and end - at < LONGEST_NAME and continues(tokens, end, at):
        if end > at and third_person(tokens[end].text) and known_verb(tokens[end].text):
            break
        end += 1
    return end


def works_at(tokens: Sequence[Token], at: int) -> bool:
    """Whether a verb says work, and no state: `checks`, not `seems`."""
    word = tokens[at].text
    if word in ADVERBS_OF_WORK and at + 1 < len(tokens):
        word = tokens[at + 1].text
    return known_verb(word) and third_person(word) and word not in STATIVE


def plural_noun(word: str) -> bool:
    """Whether a noun stands for several."""
    return word.endswith("s") and word not in NOT_VERBS and not word.endswith("ss")


def listed(
    tokens: Sequence[Token], at: int, *, any_noun: bool = False
) -> tuple[list[tuple[int, int]], int]:
    """The noun phrases of a list that begins at a token, and where the list ends."""
    items: list[tuple[int, int]] = []
    end = at
    while at < len(tokens):
        begin = after_determiners(tokens, at)
        stop = head_end(tokens, begin) or proper_end(tokens, begin)
        if stop is None and any_noun:
            stop = plain_end(tokens, begin)
        if stop is None:
            break
        items.append((begin, stop))
        end = stop
        at = _separated(tokens, _past_addition(tokens, stop))
        if at < 0:
            break
    return items, end


def _past_addition(tokens: Sequence[Token], at: int) -> int:
    """Behind what a member of a list has: `(web_search)`, `with web_search`."""
    if at < len(tokens) and tokens[at].text == "(":
        last = min(at + 30, len(tokens))
        return next((j + 1 for j in range(at, last) if tokens[j].text == ")"), at)
    if at < len(tokens) and tokens[at].text == "with":
        last = min(at + 6, len(tokens))
        return next((j for j in range(at, last) if tokens[j].text in {",", ";", "and"}), at)
    return at


def _separated(tokens: Sequence[Token], at: int) -> int:
    """The token behind commas, `and` and `or`; -1 where there are none."""
    begin = at
    while at < len(tokens) and tokens[at].text in {",", "and", "or", ";", "then", "plus"}:
        at += 1
    if at == begin:
        return -1
    if at < len(tokens) and tokens[at].text in {"if", "when", "where"}:  # `A and, if needed, B`
        last = min(at + 6, len(tokens) - 1)
        return next((j + 1 for j in range(at, last) if tokens[j].text == ","), at)
    return at

"""What `'s` stands for: `is`, `has`, or that something belongs to somebody.

`It's` and its like are always `is`. Behind a noun the words that follow decide: nothing that
belongs to somebody begins with an article, a preposition or `not`, and a participle or an adjective
that ends its clause is said of the noun.
"""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.prompt.grammar import condition_words as w
from crewlog.prompt.grammar.lexicon import (
    AUXILIARIES,
    CONDITIONALS,
    DETERMINERS,
    FUNCTION,
    participle,
    third_person,
    word_set,
)

_FARTHEST = 5
"""Words of a subject."""
_ADVERBS = word_set("still already now really very quite just currently also always never only yet")
_SAID = word_set("not no too going allowed permitted there the a an") | w.PREPOSITIONS
"""What says how or where something is, and begins no noun phrase of somebody's."""
_HAS = word_set("got been had")
_JOINS = word_set("and or but then if unless when once until while so because nor whenever for")
_OPENS = (
    CONDITIONALS
    | _JOINS
    | word_set("after before as that thus now since soon think thinks means moment")
)
"""What a clause may begin behind."""
_NOUNS = word_set("content right good minor public secret back end close")
"""Adjectives that are nouns as often."""


def stands_for(said: Sequence[str], at: int) -> str:
    """`is` or `has` for a `'s` that is one; `'s` for one that says whose something is.

    Args:
        said: The words of a sentence.
        at: Where the `'s` stands.
    """
    follows = said[at + 1 :]
    while follows and follows[0] in _ADVERBS:
        follows = follows[1:]
    if not follows:
        return "'s"
    if follows[0] in _HAS:
        return "has"
    if follows[0] in _SAID:
        return "is"
    if said[at - 1] in w.CHOICES and _whole_clause(said, at):
        return "is"
    if follows[0].endswith("ing") and _ends(follows):
        begin = _begin(said, at)
        if begin and said[begin - 1] in _SUBORDINATE | {"while", "whilst"}:
            return "is"
    how = participle(follows[0]) or _adjective(follows[0])
    return "is" if how and _ends(follows) and _subject(said[:at]) else "'s"


def _adjective(word: str) -> bool:
    known = word in w.STATES and word not in _NOUNS
    return known or (len(word) > 5 and word.endswith(("ful", "less", "ous", "ive", "able", "ible")))


def _ends(follows: Sequence[str]) -> bool:
    """Whether a clause is over behind its first word, save for where, when and by whom."""
    if len(follows) < 2:
        return True
    after = follows[1]
    return not after[0].isalpha() or after in w.PREPOSITIONS | _JOINS | word_set(
        "after before again yet enough now at to not only"
    )


def _subject(before: Sequence[str]) -> bool:
    """Whether the noun before the `'s` begins its clause."""
    at = len(before)
    while at and len(before) - at < _FARTHEST and _in_noun(before[at - 1]):
        at -= 1
        if before[at] in DETERMINERS:
            break
    return at < len(before) and (
        not at or not before[at - 1][0].isalpha() or before[at - 1] in _OPENS
    )


def _whole_clause(said: Sequence[str], at: int) -> bool:
    """`If the priority's medium`: a condition that has no other verb."""
    begin = _begin(said, at)
    if not begin or said[begin - 1] not in _SUBORDINATE:
        return False
    for word in said[at + 1 :]:
        if not word[0].isalpha() or word in _JOINS:
            return True
        if word in AUXILIARIES or third_person(word):
            return False
    return True


def _begin(said: Sequence[str], at: int) -> int:
    """Where the noun before a place begins."""
    while at and _in_noun(said[at - 1]):
        at -= 1
    return at


_SUBORDINATE = CONDITIONALS | word_set("once provided assuming case as")


def _in_noun(word: str) -> bool:
    return word in DETERMINERS or (word[0].isalpha() and word not in FUNCTION)

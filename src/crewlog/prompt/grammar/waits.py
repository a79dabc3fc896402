"""Who is done: `both are done`, `any two of them have delivered`, `the writer's work is over`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from crewlog.prompt.grammar import condition_words as w
from crewlog.prompt.grammar.comparisons import numeral
from crewlog.prompt.grammar.lexicon import word_set

Join = Literal["all", "any"] | int

_ENDED = word_set("""
done finished ready through complete completed over back in ended stopped out free concluded
delivered returned submitted available settled
""")
_ENDS = word_set("""
finish complete end conclude deliver report return submit stop wrap hand turn come get do have check
respond reply answer
""")
"""Verbs that say that somebody has come to an end, with what `_PARTICLES` and `_THEIRS` say."""
_ALONE = word_set(
    "finish complete end conclude deliver report return submit stop respond reply answer"
)
_PARTICLES = word_set("up in over back there through out home round around")
_THEIRS = word_set("""
work job part task turn bit share thing things step pass go say round stint assignment duty work
tasks jobs parts it that this so everything result results
""")
_ASIDE = word_set("both all each finally fully completely first already now too then entirely")
_THEM = word_set("them these those")
_GROUP = word_set("agents ones others rest two three four five six lot last team reviewers results")
_EVERYBODY = word_set("both all they these those everyone everybody each")
_ANY = word_set("any either one whichever someone somebody anyone anybody")
_THAT = word_set("that this it everything all")
_WHOLE = word_set("step part work job lot thing phase stage round")


@dataclass(frozen=True, slots=True)
class Who:
    """Those who are to be done, and where their words end."""

    end: int
    agents: str = ""
    """The part of the text that names them; empty means those of before."""
    join: Join = "all"
    that: bool = False
    """No agents, but what was said before: `that`, `everything`."""


def done(words: Sequence[str]) -> Who | None:
    """Who is done, where words say that somebody is."""
    if (first := _first(words)) is not None:
        return first
    found = who(words)
    if found is None or not _is_done(words[found.end :], that=found.that):
        return None
    return found


def who(words: Sequence[str]) -> Who | None:
    """The agents that words begin with, or words that stand for those of before."""
    at, join = _count(words)
    if at:
        at += words[at : at + 1] == ["of"]
    named = _names(words, at)
    if named is not None:
        return _possessed(words, named, join or ("any" if _either(words[at:named]) else "all"))
    if at and join is not None:
        return _of_before(words, at, join)
    return _everybody(words)


def _names(words: Sequence[str], at: int) -> int | None:
    """Where a list of agents ends."""
    end: int | None = None
    while at < len(words):
        if words[at] in {"both", "all", "either"} and end is None:
            at += 1
        elif words[at].startswith("@"):
            at = end = at + 1
        elif end is not None and words[at] in {",", "and", "or"}:
            at += 1
        else:
            break
    return end


def _either(words: Sequence[str]) -> bool:
    return "or" in words


def _possessed(words: Sequence[str], end: int, join: Join) -> Who | None:
    """`@1`, `@1 's work`."""
    named = " ".join(words[:end])
    if words[end : end + 1] == ["'s"]:
        if words[end + 1 : end + 2] and words[end + 1] in _THEIRS:
            return Who(end + 2, named, join)
        return None
    return Who(end, named, join)


def _count(words: Sequence[str]) -> tuple[int, Join | None]:
    """`any of`, `at least two of`, `the first two`: how many, and where what they are of begins."""
    at = 0
    for lead in (["at", "least"], ["any"], ["the", "first"], ["the"], ["a"], ["all"]):
        if words[: len(lead)] == lead:
            at = len(lead)
            break
    value = numeral(words, at)
    if value is not None and value[0] == int(value[0]) and 0 < value[0] <= 99:
        if at and words[0] in {"the", "all"} and words[:2] != ["the", "first"]:
            return 0, None
        return value[1], "any" if value[0] == 1 else int(value[0])
    if words[:1] and words[0] in _ANY:
        at = 1 + (words[1:2] == ["one"])
        return at, "any"
    if words[:2] in (["a", "single"], ["the", "fastest"], ["the", "quickest"], ["the", "first"]):
        return 2 + (words[2:3] == ["one"]), "any"
    return 0, None


def _of_before(words: Sequence[str], at: int, join: Join) -> Who | None:
    """What `two of` and `any` are of: `them`, `the three agents`, or nothing more."""
    while at < len(words) and words[at] in {"the", "all"}:
        at += 1
    begin = at
    while at < len(words) and at - begin < 3 and (words[at] in _THEM | _GROUP):
        at += 1
    return Who(at, "", join)


def _everybody(words: Sequence[str]) -> Who | None:
    """`both`, `all three of them`, `the others`, `everything`."""
    at = 0
    while at < len(words) and words[at] in _EVERYBODY | _GROUP | _THEM | {"of", "the"}:
        at += 1
    if words[at : at + 1] == ["agents"]:
        at += 1
    said = set(words[:at]) - {"the", "of"}
    if said and not (said <= {"all", "last"} and _singular(words, at)):
        if said == {"all"} and words[at : at + 1] and words[at] in _THAT | _WHOLE:
            return Who(at + 1, that=True)
        return Who(at)
    at = 1 if words[:1] and words[0] in _THAT else 0
    if words[:2] in (["all", "that"], ["all", "this"], ["it", "all"]):
        at = 2
    if words[:2] == ["all", "of"] and words[2:3] and words[2] in _THAT:
        at = 3
    begin = at + (words[at : at + 1] == ["the"])
    if words[begin : begin + 1] and words[begin] in _WHOLE:
        at = begin + 1
    return Who(at, that=True) if at else None


def _singular(words: Sequence[str], at: int) -> bool:
    return words[at : at + 1] in (["is"], ["has"], ["that"], ["this"], ["it"])


def _first(words: Sequence[str]) -> Who | None:
    """`whoever finishes first`, `the first to finish`, `the first one is back`."""
    if words[:1] == ["whoever"] and "first" in words:
        return Who(len(words), join="any")
    at = 1 if words[:1] == ["the"] else 0
    if words[at : at + 1] != ["first"]:
        return None
    at += 1
    while at < len(words) and words[at] in word_set("one of them agent result these"):
        at += 1
    rest = words[at:]
    if rest[:1] == ["to"] and (_is_done(rest[1:]) or _is_done(rest[2:])):
        return Who(len(words), join="any")
    return Who(len(words), join="any") if _is_done(rest) else None


def _is_done(words: Sequence[str], *, that: bool = False) -> bool:
    """Whether a predicate says that its subject has come to an end."""
    at = 0
    while at < len(words) and words[at] in w.BE | w.HAVE | _ASIDE | {"got", "gets", "get"}:
        at += 1
    if at >= len(words):
        return False
    word, rest = words[at], [x for x in words[at + 1 :] if x not in _ASIDE]
    if that and word in word_set("happened settled taken out"):
        return True
    found = w.INFLECTED.get(word)
    if word in _ENDED and (not rest or _tail(rest, passive=True)):
        return True
    if words[at : at + 3] == ["good", "to", "go"] or words[at : at + 2] == ["signed", "off"]:
        return True
    owned = rest and rest[0] in w.DETERMINERS and rest[1:2] and rest[1] in _THEIRS
    had = at and word in {"turn", "say", "go"} | w.DETERMINERS
    if found is None or found.base not in _ENDS:
        return bool(had and words[at + 1 : at + 2] and words[at + 1] in _THEIRS)
    if found.base == "turn" and not (rest and rest[0] == "in"):
        return False
    if rest and rest[0] in _PARTICLES:
        return _tail(rest[1:])
    if owned:
        return _tail(rest[2:])
    if rest and found.base in {"finish", "complete", "do"} and rest[0] in _THEIRS:
        return _tail(rest[1:])
    return found.base in _ALONE and _tail(rest)


def _tail(words: Sequence[str], *, passive: bool = False) -> bool:
    """Whether words behind `is done` say nothing more of when: `with its work`, `writing`."""
    if not words:
        return True
    found = w.INFLECTED.get(words[0])
    ing = found is not None and found.form == "ing"
    linked = words[0] in word_set("with and on in for to from") or ing
    return linked or (passive and words[0] in w.DETERMINERS | {"at"})

"""Words with a fixed meaning: numbers, durations, and the words that oblige.

`verify` holds the parts of a reading against them, and the forms reader takes its slots from them.
Everything here works on one clause at a time, in time that is linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import TypeVar


def word_set(text: str) -> frozenset[str]:
    """The words of a table that is written as a text."""
    return frozenset(text.split())


def one_of(words: str) -> re.Pattern[str]:
    """A pattern for one of some words, in any case; `_` stands for the space in a phrase."""
    choices = "|".join(words.replace("_", r"\s+").split())
    return re.compile(rf"\b(?:{choices})\b", re.IGNORECASE)


NUMBERS: dict[str, float] = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14,
    "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20,
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80,
    "ninety": 90, "hundred": 100, "thousand": 1000, "dozen": 12, "once": 1, "twice": 2,
    "thrice": 3, "both": 2, "either": 1, "couple": 2, "pair": 2, "single": 1, "half": 0.5,
    "first": 1, "any": 1, "whoever": 1, "whichever": 1, "another": 1, "second": 2, "third": 3,
}  # fmt: skip
"""Words that say a number."""
UNITS: dict[str, float] = {
    "second": 1, "sec": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "day": 86_400,
    "week": 604_800, "night": 43_200, "s": 1, "m": 60, "h": 3600, "d": 86_400,
}  # fmt: skip
"""Units of time, in seconds."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
"""How the names of the months begin, in order."""
SMALL = word_set(
    """a an the and or of to in on at by for with from as is are was be been it its they their them
    this that these those he she his her we our us i my me you your all each every not no"""
)
"""Words that name nothing."""

_WORD = re.compile(r"[^\W_]+(?:'(?=s\b|t\b|re\b|ve\b|ll\b|d\b)[^\W_]+)?")
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_NUMBER_WORD = r"\d+(?:\.\d+)?|half\s+an?|an?|" + "|".join(
    word for word in NUMBERS if word not in {"second", "first", "third", "any", "either", "both"}
)
_DURATION = re.compile(
    rf"(?<![\w.])(?P<count>{_NUMBER_WORD})(?:\s+of)?(?:\s+|-)?(?:whole\s+)?"
    rf"(?P<unit>{'|'.join(sorted(UNITS, key=len, reverse=True))})s?(?:\s+and\s+(?P<half>a\s+half))?\b",
    re.IGNORECASE,
)
_ADJECTIVES = {"hourly": 3600.0, "daily": 86_400.0, "overnight": 43_200.0}


_SHORT = 600
"""Characters of a text about which something is remembered."""
_Found = TypeVar("_Found")


def remembered(find: Callable[[str], _Found]) -> Callable[[str], _Found]:
    """Remembers what a function finds in short texts: clauses are looked at again and again.

    What it finds in a long text is not kept: thousands of long texts would fill the memory.
    """
    short = lru_cache(maxsize=8192)(find)

    @wraps(find)
    def found(text: str) -> _Found:
        return short(text) if len(text) <= _SHORT else find(text)

    return found


@remembered
def words_of(text: str) -> tuple[str, ...]:
    """The words of a text in small letters; `don't` is one word, `_` and `-` divide."""
    return tuple(_WORD.findall(text.casefold().replace("’", "'")))


_IRREGULAR = {
    "bought": "buy",
    "built": "build",
    "drawn": "draw",
    "found": "find",
    "made": "make",
    "paid": "pay",
    "sent": "send",
    "shown": "show",
    "written": "write",
}
"""Participles that have none of the common endings."""


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A word without its commonest endings, so that `approves`, `approved` and `approval` meet."""
    word = _IRREGULAR.get(word, word.removesuffix("'s"))
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiousl":
        word = word[:-1]  # submitted, planning
    return word.removesuffix("e") if len(word) > 3 else word


@lru_cache(maxsize=65_536)
def noun(word: str) -> str:
    """A word without the ending of a plural: names of agents are held against these."""
    word = word.removesuffix("'s")
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


_ENDINGS = (
    "ications", "ication", "isation", "ization", "ations", "ation", "ements", "ement", "ingly",
    "ings", "ing", "ions", "ion", "ances", "ance", "ies", "ied", "als", "al", "ers", "er", "ors",
    "or", "est", "ed", "es", "ly", "y", "s",
)  # fmt: skip


@remembered
def nouns_of(text: str) -> tuple[str, ...]:
    """The words of a text or a name (`fact_checker`), without the endings of plurals."""
    return tuple(map(noun, words_of(text)))


def stems_of(text: str) -> set[str]:
    """The stems of the words of a text."""
    return {stem(word) for word in words_of(text)}


@remembered
def numbers_in(text: str) -> frozenset[float]:
    """The numbers that a text says: in digits, in words, and percentages as fractions, too."""
    found: set[float] = set()
    for match in _NUMBER.finditer(text):
        value = float(match.group().replace(",", ""))
        found.add(value)
        rest = text[match.end() : match.end() + 9].lstrip().casefold()
        if rest.startswith(("%", "percent", "per cent")):
            found.add(round(value / 100, 6))
        if rest.startswith("k") and not rest[1:2].isalpha():
            found.add(value * 1000)
        if rest.startswith(("million", "m ")):
            found.add(value * 1_000_000)
    words = words_of(text)
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word not in NUMBERS:
            continue
        value = NUMBERS[word]
        found.add(value)
        factor = NUMBERS.get(following, 0)
        if factor in {100, 1000, 12} and value != factor:
            found.add(value * factor)
        elif value in range(20, 100, 10) and 0 < factor < 10:
            found.add(value + factor)
        if following in {"percent", "per"}:
            found.add(round(value / 100, 6))
    return frozenset(found)


def durations_in(text: str) -> set[float]:
    """The durations that a text says, in seconds."""
    found = {seconds for word, seconds in _ADJECTIVES.items() if word in text.casefold()}
    total = 0.0
    for match in _DURATION.finditer(text):
        count = " ".join(match["count"].casefold().split())
        if count in {"a", "an"}:
            number = 1.0
        elif count.startswith("half"):
            number = 0.5
        else:
            number = NUMBERS.get(count) or float(count)
        seconds = (number + (0.5 if match["half"] else 0)) * UNITS[match["unit"].casefold()]
        total += seconds
        found.add(seconds)
    if total:
        found.add(total)  # an hour and thirty minutes
    return found


def names_agent(nouns: set[str], name: str) -> bool:
    """Whether all words of an agent's name (`fact_checker`) stand among the nouns of a text."""
    parts = nouns_of(name)
    return bool(parts) and nouns.issuperset(parts)


def phrase_stems(phrase: str) -> list[str]:
    """The stems of a phrase without the words that name nothing."""
    return [stem(word) for word in words_of(phrase) if word not in SMALL]


def in_order(phrase: Iterable[str], text: Iterable[str]) -> bool:
    """Whether the words of a phrase stand in a text in this order, with few words between."""
    wanted = list(phrase)
    at, gap = 0, 0
    for word in text:
        if at < len(wanted) and word == wanted[at]:
            at, gap = at + 1, 0
            if at == len(wanted):
                return True
        elif at:
            gap += 1
            if gap > 3:
                at, gap = (1, 0) if word == wanted[0] else (0, 0)
    return False


# -- words that oblige -----------------------------------------------------------------------------

OBLIGING: dict[str, re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE | re.VERBOSE)
    for kind, pattern in {
        "consent": r"""
            \bask(?:s|ed|ing)?\s+(?:me|us|a\s+human|people|somebody|someone|for\s+permission)\b
          | \b(?:checks?|confirms?|clears?\s+it|consults?)\s+with\s+(?:me|us|a\s+human)\b
          | \b(?:my|our|human|a\s+human's|a\s+person's)\s+
            (?:\w+\s+)?(?:approval|consent|permission|ok|okay|go-?ahead|say-?so|sign-?off|yes|blessing|nod)\b
          | \b(?:i|we)(?:\s+have|'ve|\s+must|\s+need\s+to|\s+want\s+to|'ll|\s+will)?\s+(?:first\s+)?
            (?:approve|sign|signed|sign(?:ed)?\s+off|agree|confirm|ok|okay|see|seen|said)\w*\b
          | \b(?:approval|consent|permission|sign-?off)\s+(?:of|from|by)\s+(?:me|us|a\s+human|people)\b
          | \bneeds?\s+(?:approval|permission|consent|a\s+yes)\b
          | \b(?:approved|signed\s+off|confirmed|released)\s+by\s+(?:me|us|a\s+human|people)\b
          | \brun\s+(?:it|this|that)\s+(?:by|past)\s+(?:me|us)\b
          | \blets?\s+(?:me|us)\s+(?:know|decide|see|veto|approve)\b
          | \b(?:green\s+light|thumbs[\s-]up|veto)\b
          | \b(?:consults?|shows?|hears?\s+from|waits?\s+for)\s+(?:me|us)\b | \bmy\s+word\b
          | \bwithout\s+[\w-]+'s\s+(?:approval|consent|permission|ok|okay|sign-?off)\b
          | \b(?:i|we)\s+(?:(?:am|are|have|want|need|wish)\s+to|must|should)\s+be\s+asked\b
        """,
        "exclusive": r"""
            \b(?:only|solely|exclusively|nobody\s+(?:but|else|except)|no\s+one\s+(?:but|else|except)
            |none\s+but|nothing\s+else|alone)\b
        """,
        "forbidden": r"""
            \b(?:never|must\s+not|mustn't|may\s+not|mayn't|nobody|no\s+one
            |(?:cannot|can't|can\s+not)(?!\s+be\s+reached)
            |not\s+allowed|forbidden|shall\s+not|shan't|blind|isn't\s+allowed|aren't\s+allowed
            |no\s+access|hands?\s+off|keep\s+\w+\s+(?:away|off))\b
        """,
        "condition": r"""
            \b(?:if|unless|until|except|assuming|given\s+that|in\s+case|in\s+the\s+event|whenever|provided|providing|as\s+long\s+as|otherwise|or\s+else
            |should\s+the|depending|only\s+(?:if|when|after|once))\b
        """,
        "return": r"""
            \b(?:back\s+to|goes\s+back|go\s+back|going\s+back|send(?:s|ing)?\s+(?:\w+\s+){1,3}back
            |returns?\s+(?:it\s+|them\s+|this\s+)?to|start\s+over|try\s+again|tries\s+again
            |repeat(?:s|ed)?|redo(?:es)?|revis(?:e|es)\s+(?:it|them|until)|another\s+(?:go|round|try)
            |rework(?:s)?\s+(?:it|them)\s+until|round(?:s)?\s+(?:max|tops|at\s+most))\b
        """,
        "bound": r"""
            \b(?:at\s+most|no\s+more\s+than|not\s+more\s+than|never\s+more\s+than|up\s+to\s+\w+\s+times
            |(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|several|few)\s+(?:more\s+)?times|maximum|max|tops|at\s+the\s+most|twice|once\s+at\s+most|only\s+once
            |a\s+budget\s+of|spend)\b
        """,
        "quorum": r"""
            \b(?:any|one|two|three|four|five|\d+)\s+(?:\w+\s+)?of\s+(?:the|them|these|those|us|\w+)\b
          | \beither\s+of\b | \bas\s+soon\s+as\s+(?:any|one|either|two|three|the\s+first)\b
          | \b(?:whoever|whichever|first\s+(?:one\s+)?(?:to|back|that|who))\b
          | \bmajority\b | \bquorum\b
        """,
        "stand_in": r"""
            \b(?:instead|in\s+(?:its|his|her|their)\s+place|takes?\s+over|stands?\s+in|falls?\s+back
            |fallback|in\s+place\s+of|steps?\s+in(?!\s+(?:all|total)\b)|as\s+a\s+substitute|backup
            |(?:cannot|can't|can\s+not)\s+be\s+reached)\b
        """,
        "time_limit": r"""
            \bwithin\s+(?:\d|an?\b|one|two|three|four|five|six|ten|half|the\s+hour)
          | \b(?:no\s+later\s+than|in\s+less\s+than|not\s+done\s+(?:in|after)|times?\s+out|deadline)\b
          | \b(?:doesn't|does\s+not)\s+(?:answer|respond|reply|finish)\s+(?:in|within|after)\b
        """,
        "pause": r"""
            \bwaits?\s+(?:for\s+)?(?:\d|an?\b|one|two|three|four|five|six|ten|half|until\s+\d)
          | \b(?:\d+|an?|one|two|three|half\s+an?)\s+(?:second|minute|hour|day|week)s?\s+later\b
          | \bpauses?\s+(?:for|of)\b
        """,
        "sight": r"""
            \b(?:sees?|seen|blind|show(?:s|n)?|hidden|confidential|private|secret\s+from|in\s+the\s+dark)\b
        """,
        "each": r"""\b(?:for\s+each|for\s+every|per|each\s+of\s+(?:the|these|those)|one\s+by\s+one)\b""",
    }.items()
}
"""Words that oblige, by what they oblige to; a clause with one needs a part of that kind."""


@remembered
def obligations(text: str) -> tuple[tuple[str, re.Match[str]], ...]:
    """The kinds of obligation that a clause has, with the words."""
    searched = ((kind, pattern.search(text)) for kind, pattern in OBLIGING.items())
    return tuple((kind, found) for kind, found in searched if found is not None)

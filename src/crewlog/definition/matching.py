"""Regular expressions of definitions and servers, matched in a time that grows with the text alone.

Python's own engine tries every way in which a pattern may fit: `(a+)+` takes a lifetime for forty
letters, and holds up all that a worker does. So patterns are those of Rust's `regex`, which
pydantic brings: no look-around, no back-references, and every letter of a text is looked at once.
What a letter may cost is the size of the pattern, which is bounded, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

LONGEST_MATCHED = 10_000
"""Characters of a text that a pattern is tried on."""
LONGEST_PATTERN = 4_000
"""Characters of a pattern."""
LARGEST = 4_000
"""The size of a pattern: its characters and classes, each as often as it is repeated."""
_MOST_WORK = 4_000_000
"""Size times characters: a third of a second at the very worst."""
_COUNT = re.compile(r"\{\s*([0-9]{0,9})\s*(?:,\s*([0-9]{0,9})\s*)?\}")
_VERBOSE = re.compile(r"\(\?[A-Za-z]*x")
_ESCAPED = re.compile(r"\\(?:[pPxuU]\{[^}]{0,60}\}|x..|u....|U........|.)", re.DOTALL)


class NotLinear(ValueError):
    """A pattern that cannot be matched in a bounded time, or is none."""


@dataclass(frozen=True)
class Pattern:
    """A pattern that can be matched."""

    longest: int
    """Characters of a text that it is tried on."""
    whole: SchemaValidator
    """Takes texts that it matches from end to end."""
    part: SchemaValidator
    """Takes texts that it matches somewhere."""

    def matches(self, text: str, *, whole: bool = True) -> bool:
        """Whether it matches a text that is not longer than `longest`."""
        try:
            (self.whole if whole else self.part).validate_python(text)
        except ValidationError:
            return False
        return True


@lru_cache(512)
def pattern_of(text: str) -> Pattern:
    """The pattern that a text is.

    Raises:
        NotLinear: with what is wrong with it.
    """
    if len(text) > LONGEST_PATTERN:
        raise NotLinear(f"it has more than {LONGEST_PATTERN:,} characters")
    part = _compiled(text)  # by itself first: `a)|(b` is none, and would be one in a group
    size = _size(text)
    if size > LARGEST:
        raise NotLinear(
            f"its repetitions make it {size:,} characters long, of at most {LARGEST:,}; "
            "'longest' bounds a text, too"
        )
    whole = _compiled(rf"\A(?:{text})\z")
    return Pattern(min(LONGEST_MATCHED, _MOST_WORK // max(size, 1)), whole, part)


def _compiled(text: str) -> SchemaValidator:
    schema = core_schema.str_schema(pattern=text, regex_engine="rust-regex", strict=True)
    try:
        return SchemaValidator(schema)
    except SchemaError as error:
        raise NotLinear(_reason(str(error))) from None


def _reason(told: str) -> str:
    """What the engine says, without the pattern and the arrows below it."""
    said = told.rpartition("error: ")[2].splitlines()[0] if "error: " in told else ""
    if "look-around" in said or "backreferences" in said:
        return "it has look-around or a back-reference, which cannot be matched in a bounded time"
    return said.strip() or "it is too large, or no regular expression"


def _size(text: str) -> int:
    """How many characters and classes a pattern has, each as often as it is repeated at most."""
    if _VERBOSE.search(text):
        raise NotLinear("it has the flag 'x'; write it without white space and remarks")
    sizes = [0]  # of the group that is open, and those around it
    last, at = 0, 0
    while at < len(text):
        sign = text[at]
        counted = _COUNT.match(text, at) if sign == "{" else None
        if counted:
            times = max(int(each or 1) for each in (counted[1], counted[2] or ""))
            sizes[-1] += last * (max(times, 1) - 1)
            last *= max(times, 1)
            at = counted.end()
            continue
        if sign == "(":
            sizes.append(0)
            last = 0
        elif sign == ")" and len(sizes) > 1:
            last = max(sizes.pop(), 1)
            sizes[-1] += last
        elif sign not in "*+?|^$":
            sizes[-1] += 1
            last = 1
        at = _after(text, at)
    return sum(sizes)


def _after(text: str, at: int) -> int:
    """Where the character or the class ends that begins at a place."""
    if text[at] == "\\":
        found = _ESCAPED.match(text, at)
        return found.end() if found else at + 1
    if text[at] != "[":
        return at + 1
    depth, start = 0, at
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == "[":
            depth += 1
        elif text[at] == "]" and at > start + 1 + (text[start + 1 : start + 2] == "^"):
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return at

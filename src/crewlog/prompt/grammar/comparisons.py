"""Numbers and what they are compared with: `at least 80 %`, `0.8 or better`, `between 3 and 5`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crewlog.prompt.grammar import condition_words as w
from crewlog.prompt.grammar.phrase import number

Operator = w.Operator
_LONGEST = max(map(len, w.OPERATORS))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A number, how something compares with it, and where its words end."""

    operator: Operator
    value: float
    end: int
    unit: str = ""
    """What is counted: `errors` of "more than 3 errors"."""
    upto: float | None = None
    """Of `between`: the upper bound."""


def numeral(words: Sequence[str], at: int) -> tuple[float, int] | None:
    """The number that begins at a word, and where it ends; percentages as fractions."""
    found = _digits(words, at) or _spelled(words, at)
    if found is None:
        return None
    value, end = found
    if end < len(words) and words[end] in w.SCALES:
        value, end = value * w.SCALES[words[end]], end + 1
    if end < len(words) and words[end] in w.PERCENT:
        return value / 100, end + 1
    if tuple(words[end : end + 2]) == ("per", "cent"):
        return value / 100, end + 2
    return value, end


def _digits(words: Sequence[str], at: int) -> tuple[float, int] | None:
    if at >= len(words):
        return None
    word = words[at]
    if word[:1].isdigit():
        scaled = word[:-1] if word[-1:] in {"k", "m"} else word
        value = number(scaled)
        if value is not None:
            return value * (w.SCALES[word[-1]] if scaled != word else 1), at + 1
    return None


def _spelled(words: Sequence[str], at: int) -> tuple[float, int] | None:
    end = at + (at < len(words) and words[at] == "a")
    if end < len(words) and (words[end] in {"hundred", "thousand", "million", "half", "quarter"}):
        if words[end] in w.FRACTIONS:
            return w.FRACTIONS[words[end]], end + 1
        return 1, end
    whole, end = _whole(words, at)
    if whole is not None and end < len(words) and words[end] in {"quarters", "thirds"}:
        return whole * w.FRACTIONS[words[end]], end + 1
    if end < len(words) and words[end] == "point":
        digits = ""
        at_digit = end + 1
        while at_digit < len(words) and words[at_digit] in w.UNITS:
            digits += str(w.UNITS[words[at_digit]])
            at_digit += 1
        if digits:
            return float(f"{whole or 0:g}.{digits}"), at_digit
    return None if whole is None else (whole, end)


def _whole(words: Sequence[str], at: int) -> tuple[float | None, int]:
    if at >= len(words):
        return None, at
    parts = words[at].split("-")
    if parts[0] in w.TENS and len(parts) <= 2:
        tens, end = w.TENS[parts[0]], at + 1
        rest = parts[1] if len(parts) > 1 else words[end] if end < len(words) else ""
        if rest in w.UNITS and 0 < w.UNITS[rest] < 10:
            return tens + w.UNITS[rest], end + (len(parts) == 1)
        return (tens, end) if len(parts) == 1 else (None, at)
    return (w.UNITS[words[at]], at + 1) if words[at] in w.UNITS else (None, at)


def compared(words: Sequence[str], at: int, *, bare: bool = False) -> Comparison | None:
    """The comparison that begins at a word.

    Args:
        words: The words.
        at: Where it begins.
        bare: Whether a number by itself is one (`is 5`).
    """
    if words[at : at + 1] == ["between"]:
        return _between(words, at + 1)
    found = _operator(words, at)
    operator, begin = found or ("==", at)
    begin += begin < len(words) and words[begin] in {"the", "only"}
    value = numeral(words, begin)
    if value is None and words[begin : begin + 1] in (["a"], ["an"]):
        begin, value = begin + 1, numeral(words, begin + 1)
    if value is None:
        return None
    unit, end = _unit(words, value[1])
    more = _or_more(words, end)
    if more is not None:
        return Comparison(more, value[0], end + 2, unit)
    if found is None and not bare:
        return None
    return Comparison(operator, value[0], end, unit)


def _between(words: Sequence[str], at: int) -> Comparison | None:
    low = numeral(words, at)
    if low is None or words[low[1] : low[1] + 1] != ["and"]:
        return None
    high = numeral(words, low[1] + 1)
    if high is None:
        return None
    percent = words[high[1] - 1] in w.PERCENT | {"cent"} and low[0] > 1
    unit, end = _unit(words, high[1])
    return Comparison(">=", low[0] / 100 if percent else low[0], end, unit, upto=high[0])


def _operator(words: Sequence[str], at: int) -> tuple[Operator, int] | None:
    for length in range(_LONGEST, 0, -1):
        sign = w.OPERATORS.get(tuple(words[at : at + length]))
        if sign is not None:
            return sign, at + length
    no = words[at : at + 1] == ["no"]
    at += no
    if at < len(words) and words[at] in {"well", "far", "still", "anything", "much", "even"}:
        at += 1
    if at >= len(words) or words[at] not in w.LESS | w.MORE:
        return None
    way: Operator = "<" if words[at] in w.LESS else ">"
    at += 1
    at += words[at : at + 1] == ["than"]
    for equal in (["or", "equal", "to"], ["or", "equal", "than"], ["or", "equal"]):
        if words[at : at + len(equal)] == equal:
            return (">=" if way == ">" else "<="), at + len(equal)
    if no:
        return (">=" if way == "<" else "<="), at
    return way, at


def _or_more(words: Sequence[str], at: int) -> Operator | None:
    if at + 1 < len(words) and words[at] in {"or", "and"}:
        last = at + 2 >= len(words) or numeral(words, at + 2) is None
        if words[at + 1] in w.OR_MORE and last:
            return ">="
        if words[at + 1] in w.OR_LESS and last:
            return "<="
    return None


def _unit(words: Sequence[str], at: int) -> tuple[str, int]:
    """What is counted, and where its words end."""
    if words[at : at + 2] == ["out", "of"]:
        whole = numeral(words, at + 2)
        return ("", whole[1]) if whole is not None else ("", at)
    end = at
    closed = w.OTHERS | w.AUXILIARIES | w.PREPOSITIONS | w.NEGATIONS | w.FILLERS | w.PRONOUNS
    while end < len(words) and end - at < 3 and words[end][:1].isalpha():
        if words[end] in closed:
            break
        end += 1
    return " ".join(words[at:end]), end


def open_or(words: Sequence[str], at: int) -> bool:
    """Whether the `or` or `and` at a place belongs to a comparison: `0.8 or better`."""
    after = tuple(words[at + 1 : at + 2])
    if (
        after in {("equal",), ("above",), ("below",)}
        and at
        and words[at - 1]
        in {
            *("at", "to", "than", "on", "above", "below", "greater", "less", "more", "higher"),
        }
    ):
        return True
    if after == ("equal",):
        return True
    if _or_more(words, at) is not None:
        return any(numeral(words, k) is not None for k in range(max(at - 5, 0), at))
    start = max(at - 5, 0)
    return words[at] == "and" and any(words[k] == "between" for k in range(start, at))


def whole(value: float) -> int | float:
    """A number without digits that say nothing."""
    value = round(value, 10)
    return int(value) if value == int(value) else value

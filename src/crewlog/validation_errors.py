"""Error messages for invalid values from outside, instead of pydantic's, which are for programmers.

    'to' must be a text, not the number 5; 'nde' is unknown; `set` or `delete` must name something

All messages about such values are built here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_TYPES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number that is not infinite",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}
_LISTS = ("too_short", "too_long")
_WAY = re.compile(r"constrained-\w+|function-\w+\[.*|[a-z-]+\[.*\]|\[key\]", re.DOTALL)
_PLAIN = frozenset({"str", "int", "float", "bool"})
"""Pydantic's names for branches of unions."""


def faults_of(error: ValidationError, whole: str = "it") -> str:
    """All faults in one line.

    Args:
        error: The error of pydantic.
        whole: The name of the whole value, for faults without a field.
    """
    return "; ".join(_fault_texts(error.errors(include_url=False, include_context=True), whole))


def _fault_texts(faults: Sequence[ErrorDetails], whole: str) -> Iterator[str]:
    """The texts of faults; type faults of one place are one text."""
    types: dict[str, list[str]] = {}
    for each in faults:
        if each["type"] in _TYPES:
            types.setdefault(_place(each["loc"]), []).append(_TYPES[each["type"]])
    for each in faults:
        place = _place(each["loc"])
        if each["type"] not in _TYPES:
            yield fault_of(each, whole)
        elif kinds := types.pop(place, None):
            wanted = " or ".join(dict.fromkeys(kinds))
            where = repr(place) if place else whole
            yield f"{where} must be {wanted}, not {called(each['input'])}"


def _place(parts: Sequence[int | str]) -> str:
    """The path of a fault, without pydantic's names for unions and validators."""
    last = len(parts) - 1
    return ".".join(
        str(part)
        for i, part in enumerate(parts)
        if not _WAY.fullmatch(str(part)) and not (i == last and part in _PLAIN)
    )


def fault_of(fault: ErrorDetails, whole: str = "it", *, below: int = 0) -> str:
    """One fault, with its field.

    Args:
        fault: The fault of pydantic.
        whole: The name of the whole value.
        below: The number of leading parts of the path to omit.
    """
    where = _place(fault["loc"][below:])
    if "error" in fault.get("ctx", {}):  # a sentence of Crewlog
        return f"{where!r}: {rule_of_error(fault)}" if where else rule_of_error(fault)
    return f"{repr(where) if where else whole} {rule_of_error(fault)}"


def rule_of_error(fault: ErrorDetails) -> str:
    """The fault without its field: `must be a text, not the number 5`."""
    kind, context, value = fault["type"], fault.get("ctx", {}), fault["input"]
    match kind:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is unknown"
        case "value_error" | "assertion_error":
            return str(context.get("error", fault["msg"]))
        case "string_pattern_mismatch":
            return f"cannot be {called(value)}"
        case "union_tag_invalid":
            return f"must be one of {_plain(context.get('expected_tags', ''))}"
        case "union_tag_not_found":
            return f"has no {_plain(context.get('discriminator', 'kind'))}"
        case _:
            return rule(kind, context, value)


def rule(kind: str, context: Mapping[str, Any], value: object) -> str:
    """The rule that a value breaks, by pydantic's type of error."""
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, not {called(value)}"
    items = " items" if kind in _LISTS else " characters"
    match kind:
        case "literal_error":
            return f"must be {_plain(context.get('expected', ''))}, not {called(value)}"
        case "greater_than_equal":
            return f"must be at least {_bound(context.get('ge'))}, not {called(value)}"
        case "greater_than":
            return f"must be more than {_bound(context.get('gt'))}, not {called(value)}"
        case "less_than_equal":
            return f"must be at most {_bound(context.get('le'))}, not {called(value)}"
        case "less_than":
            return f"must be less than {_bound(context.get('lt'))}, not {called(value)}"
        case "too_short" | "string_too_short":
            return "is empty" if not value else f"needs {context.get('min_length')}{items}"
        case "too_long" | "string_too_long":
            return f"has more than {context.get('max_length'):,}{items}"
        case _:
            return f"cannot be {called(value)}"


def called(value: object) -> str:
    """The description of a value in a message."""
    match value:
        case None:
            return "empty"
        case bool():
            return json.dumps(value)
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {value[:40]!r}" if value else "an empty text"
        case Sequence():
            return "a list"
        case _:
            return "a mapping"


def _bound(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(text: object) -> str:
    return str(text).replace("'", "")

"""Error messages for invalid input. Those of pydantic are for programmers.

'to' must be a text, not the number 5; 'nde' is unknown; `set` or `delete` must name something
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_TYPE_NAMES = {
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
_LIST_ERRORS = ("too_short", "too_long")
_INTERNAL_NAME = re.compile(r"constrained-\w+|function-\w+\[.*|[a-z-]+\[.*\]|\[key\]", re.DOTALL)
"""Pydantic's names for unions and validators in a path."""
_UNION_BRANCHES = frozenset({"str", "int", "float", "bool"})
"""Pydantic's names for branches of unions."""


def validation_error_text(error: ValidationError, whole: str = "it") -> str:
    """The text of all errors, in one line.

    Args:
        error: The error of pydantic.
        whole: The name of the whole value, for errors without a field.
    """
    return "; ".join(_error_texts(error.errors(include_url=False, include_context=True), whole))


def _error_texts(errors: Sequence[ErrorDetails], whole: str) -> Iterator[str]:
    """Yields the texts of errors; type errors of one field are one text."""
    types: dict[str, list[str]] = {}
    for each in errors:
        if each["type"] in _TYPE_NAMES:
            types.setdefault(_field_path(each["loc"]), []).append(_TYPE_NAMES[each["type"]])
    for each in errors:
        path = _field_path(each["loc"])
        if each["type"] not in _TYPE_NAMES:
            yield field_error_text(each, whole)
        elif names := types.pop(path, None):
            expected = " or ".join(dict.fromkeys(names))
            field = repr(path) if path else whole
            yield f"{field} must be {expected}, not {describe_value(each['input'])}"


def _field_path(parts: Sequence[int | str]) -> str:
    """The path of an error, without pydantic's names for unions and validators."""
    last = len(parts) - 1
    return ".".join(
        str(part)
        for i, part in enumerate(parts)
        if not _INTERNAL_NAME.fullmatch(str(part)) and not (i == last and part in _UNION_BRANCHES)
    )


def field_error_text(error: ErrorDetails, whole: str = "it", *, below: int = 0) -> str:
    """The text of one error, with its field.

    Args:
        error: The error of pydantic.
        whole: The name of the whole value, for an error without a field.
        below: The number of leading parts of the path to omit.
    """
    path, rule = _field_path(error["loc"][below:]), rule_of_field_error(error)
    if "error" in error.get("ctx", {}):  # the message of a validator of Crewlog: a sentence
        return f"{path!r}: {rule}" if path else rule
    return f"{repr(path) if path else whole} {rule}"


def rule_of_field_error(error: ErrorDetails) -> str:
    """The text of one error, without its field: `must be a text, not the number 5`."""
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    match kind:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is unknown"
        case "value_error" | "assertion_error":
            return str(context.get("error", error["msg"]))
        case "string_pattern_mismatch":
            return f"cannot be {describe_value(value)}"
        case "union_tag_invalid":
            return f"must be one of {_without_quotes(context.get('expected_tags', ''))}"
        case "union_tag_not_found":
            return f"has no {_without_quotes(context.get('discriminator', 'kind'))}"
        case _:
            return broken_rule(kind, context, value)


def broken_rule(kind: str, context: Mapping[str, Any], value: object) -> str:
    """The rule that a value breaks.

    Args:
        kind: The error type of pydantic.
        context: The context of the error.
        value: The value.
    """
    if kind in _TYPE_NAMES:
        return f"must be {_TYPE_NAMES[kind]}, not {describe_value(value)}"
    items = " items" if kind in _LIST_ERRORS else " characters"
    match kind:
        case "literal_error":
            expected = _without_quotes(context.get("expected", ""))
            return f"must be {expected}, not {describe_value(value)}"
        case "greater_than_equal":
            return f"must be at least {_bound(context.get('ge'))}, not {describe_value(value)}"
        case "greater_than":
            return f"must be more than {_bound(context.get('gt'))}, not {describe_value(value)}"
        case "less_than_equal":
            return f"must be at most {_bound(context.get('le'))}, not {describe_value(value)}"
        case "less_than":
            return f"must be less than {_bound(context.get('lt'))}, not {describe_value(value)}"
        case "too_short" | "string_too_short":
            return "is empty" if not value else f"needs {context.get('min_length')}{items}"
        case "too_long" | "string_too_long":
            return f"has more than {context.get('max_length'):,}{items}"
        case _:
            return f"cannot be {describe_value(value)}"


def describe_value(value: object) -> str:
    """The description of a value for a message: `the number 5`."""
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


def _without_quotes(text: object) -> str:
    return str(text).replace("'", "")

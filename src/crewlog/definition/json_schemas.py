"""Values held against a JSON Schema that a stranger may have written: in bounded work.

The schema of a server's tool may refer to itself until two branches have become a million, and its
patterns may be made to take a lifetime. So the work is counted, and patterns are matched in linear
time. What cannot be looked at that way is left to whoever wrote the schema: a server has said it of
its own tool; of a definition's own schemas, `unusable` tells it beforehand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from crewlog.definition.matching import NotLinear, pattern_of
from crewlog.model import Json

MOST_WORK = 40_000
"""Keywords that are looked at for one call, large ones counted by their entries: about a second."""
_MOST_ERRORS = 50
_PER_STEP = 64
"""Entries or characters of a value that cost as much as a keyword: it may be told in an error."""


class _TooMuchError(Exception):
    """The work is more than a call may cost."""


def schema_faults(
    schema: Mapping[str, Json], value: Any, *, called: str = "the tool's schema"
) -> list[str]:
    """How a value does not fit a schema, each fault with its place; empty where it does.

    Args:
        schema: The schema. What it refers to elsewhere is never fetched.
        value: What the model says, or a person.
        called: What messages call the schema.
    """
    left = _LEFT.set([MOST_WORK])
    try:
        # Without a registry of ours, the library fetches what a schema refers to from anywhere.
        nothing: Registry[Any] = Registry()
        validator: Any = _Bounded(dict(schema), registry=nothing)
        found: list[ValidationError] = list(
            islice(validator.iter_errors(_plain(value)), _MOST_ERRORS)
        )
    except _TooMuchError:
        return [f"all: to hold them against {called} takes too long"]
    except Exception as error:  # noqa: BLE001 - the schema may be anything
        return [f"all: {called} cannot be used ({type(error).__name__})"]
    finally:
        _LEFT.reset(left)
    found.sort(key=lambda each: list(map(str, each.path)))
    return [
        f"{'.'.join(map(str, each.absolute_path)) or 'all'}: {_short(each.message, 200)}"
        for each in found
    ]


def unusable(schema: Any) -> str:
    """Why nothing can be held against a schema; empty where it can."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = ".".join(map(str, error.absolute_path))
        return f"{where}: {_short(error.message, 200)}" if where else _short(error.message, 200)
    except Exception as error:  # noqa: BLE001 - it may be anything
        return f"it is no JSON Schema ({type(error).__name__})"
    try:
        return next(_unusable(schema, _places(schema)), "")
    except RecursionError:
        return "it is nested too deep"


def _places(schema: Any) -> Any:
    """Finds what a schema refers to, in itself alone."""
    nothing: Registry[Any] = Registry()
    return nothing.resolver_with_root(DRAFT202012.create_resource(schema))


def _unusable(schema: Any, places: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:  # pyright: ignore[reportUnknownVariableType]
            yield from _unusable(each, places)
    if not isinstance(schema, dict):
        return
    inner: dict[str, Any] = schema  # pyright: ignore[reportUnknownVariableType]
    if "$id" in inner:  # what is in it is looked for in it
        places = places.in_subresource(DRAFT202012.create_resource(inner))
    for key, value in inner.items():
        yield from _unusable_at(key, value, places)


def _unusable_at(key: str, value: Any, places: Any) -> Iterator[str]:
    if key in ("$ref", "$dynamicRef"):
        yield from _astray(key, str(value), places)
    elif key == "pattern" and isinstance(value, str) and (fault := _no_pattern(value)):
        yield fault
    elif key in ("unevaluatedProperties", "unevaluatedItems"):
        yield f"{key!r} is not looked at: say additionalProperties, or prefixItems and items"
    elif key in _BY_NAME and isinstance(value, dict):
        if key == "patternProperties":
            yield from filter(None, map(_no_pattern, value))  # pyright: ignore[reportUnknownArgumentType]
        for each in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _unusable(each, places)
    elif key not in _DATA:
        yield from _unusable(value, places)


def _astray(key: str, ref: str, places: Any) -> Iterator[str]:
    """Why a reference leads to no schema; nothing where it does."""
    if not ref.startswith("#"):
        yield f"what is elsewhere is never fetched: {_short(ref, 100)}"
        return
    try:
        found = isinstance(places.lookup(ref).contents, dict | bool)
    except (Unresolvable, ValueError, TypeError, KeyError):
        found = False
    if not found:
        yield f"{key!r} leads nowhere: {_short(ref, 100)}"


_DATA = ("const", "default", "enum", "examples")
"""Keys of a schema whose values are no schemas."""
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keys of a schema with schemas by name."""


def _no_pattern(pattern: str) -> str:
    try:
        pattern_of(pattern)
    except NotLinear as error:
        return f"the pattern {_short(pattern, 100)!r} cannot be used: {error}"
    return ""


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _short(text: str, limit: int) -> str:
    """The start of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


_LEFT: ContextVar[list[int]] = ContextVar("crewlog_schema_work")


def _spend(amount: int) -> None:
    left = _LEFT.get()
    left[0] -= amount
    if left[0] < 0:
        raise _TooMuchError


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | list | dict) else 0  # pyright: ignore[reportUnknownArgumentType]


def _counted(keyword: Any) -> Any:
    def looked_at(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        entries = len(value) if isinstance(value, list | dict) else 0  # pyright: ignore[reportUnknownArgumentType]
        _spend(1 + entries + _length(instance) // _PER_STEP)
        yield from keyword(validator, value, instance, schema) or ()

    return looked_at


def _fits(pattern: object, text: str) -> bool | None:
    """Whether a pattern is somewhere in a text; none where that cannot be looked at."""
    try:
        found = pattern_of(str(pattern))
    except NotLinear:
        return None
    return None if len(text) > found.longest else found.matches(text, whole=False)


def _pattern(_v: Any, value: Any, instance: Any, _s: Any) -> Iterator[Any]:
    if isinstance(instance, str):
        _spend(len(instance) // _PER_STEP)
        if _fits(value, instance) is False:
            yield ValidationError(f"it does not match {_short(str(value), 100)!r}")


def _by_pattern(validator: Any, value: Any, instance: Any, _s: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in value.items():
        for key, each in instance.items():  # pyright: ignore[reportUnknownVariableType]
            _spend(1)
            if _fits(pattern, key):  # pyright: ignore[reportUnknownArgumentType]
                yield from validator.descend(each, inner, path=key, schema_path=pattern)


def _others(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    named: Any = schema.get("properties", {})
    patterns: Any = schema.get("patternProperties", {})
    _spend(len(instance) * (1 + len(patterns)))  # pyright: ignore[reportUnknownArgumentType]
    others: list[str] = [
        key
        for key in instance  # pyright: ignore[reportUnknownVariableType]
        # What cannot be looked at may fit.
        if key not in named and all(_fits(each, key) is False for each in patterns)  # pyright: ignore[reportUnknownArgumentType]
    ]
    if isinstance(value, dict):
        for key in others:
            yield from validator.descend(instance[key], value, path=key)
    elif not value and others:
        yield ValidationError(f"there is no {_short(others[0], 80)!r}")


def _unique(_v: Any, value: Any, instance: Any, _s: Any) -> Iterator[Any]:
    if value and isinstance(instance, list):
        found = [json.dumps(each, sort_keys=True) for each in instance]  # pyright: ignore[reportUnknownVariableType]
        if len(set(found)) < len(found):
            yield ValidationError("its items are not all different")


def _left_alone(_v: Any, _value: Any, _instance: Any, _s: Any) -> Iterator[Any]:
    yield from ()


_LIBRARY: Any = validators
_Bounded: Any = _LIBRARY.extend(
    Draft202012Validator,
    {
        name: _counted(keyword)
        for name, keyword in (
            dict(Draft202012Validator.VALIDATORS)
            | {
                "pattern": _pattern,
                "patternProperties": _by_pattern,
                "additionalProperties": _others,
                "uniqueItems": _unique,
                "unevaluatedProperties": _left_alone,
                "unevaluatedItems": _left_alone,
            }
        ).items()
    },
)

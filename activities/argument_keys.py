"""The keys of arguments that are inside others, as a tool's schema names them.

A tool may take a key by more names than its schema tells (a field and its alias), and drops or
keeps what it does not know. So where a check looks for a key inside an argument, the objects on the
way have the keys that the schema names, and no others: else the value comes in beside the check.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

Schema = Mapping[str, Any]

ANYTHING: Schema = {}
"""The schema that anything fits."""
_MOST = 2_000
"""Parts of a schema that are looked at for one key; a larger one is held to name none."""


class Keys(NamedTuple):
    """The keys of some objects."""

    named: frozenset[str]
    """Those that the schema names."""
    open: bool
    """Whether they may have others."""


def keys_of(schemas: Sequence[Schema]) -> Keys:
    """The keys that the objects may have which fit one of some schemas, or are items of those."""
    objects, others = _parts(schemas)
    named = frozenset(key for each in objects for key in _named(each))
    open_ = others is None or any(_more(each) is not None for each in objects)
    # What a text holds is told by nobody, unless there is an object that it may stand for.
    return Keys(named, open_ or bool(others and not objects))


def within(schemas: Sequence[Schema], key: str) -> list[Schema]:
    """The schemas of what objects have under a key; see `keys_of`."""
    objects, others = _parts(schemas)
    found: list[Schema] = [] if others is not None and (objects or not others) else [ANYTHING]
    for each in objects:
        more = _more(each)
        if key in _named(each):
            found.append(_named(each)[key])
        elif more is not None:
            found.append(more)
    return found


def _named(schema: Schema) -> Mapping[str, Schema]:
    return schema.get("properties") or {}


def _more(schema: Schema) -> Schema | None:
    """The schema of the keys of an object that are not named; none where there are none of these.

    As at the top, an object that names its keys and says nothing of others has no others.
    """
    more: Any = schema.get("additionalProperties")
    if isinstance(more, dict):
        return cast("Schema", more)
    if more is True or schema.get("patternProperties"):
        return ANYTHING
    return None if schema.get("properties") or more is False else ANYTHING


def _parts(schemas: Sequence[Schema]) -> tuple[list[Schema], list[Schema] | None]:
    """The objects that schemas lead to, and the texts; none for these where anything may be."""
    objects: list[Schema] = []
    texts: list[Schema] = []
    for count, each in enumerate(_flat(schemas)):
        if count > _MOST or not _says(each):
            return objects, None
        if _is_object(each):
            objects.append(each)
        elif "string" in _types(each):
            texts.append(each)
    return objects, texts


def _flat(schemas: Iterable[Schema]) -> Iterator[Schema]:
    """Schemas with those that they choose from, and those of lists' items in the lists' place."""
    for each in schemas:
        words = ("anyOf", "oneOf", "allOf", "prefixItems")
        inner: list[Any] = [part for word in words for part in each.get(word) or ()]
        inner += [each[word] for word in ("items", "contentSchema") if word in each]
        parts: list[Schema] = [part for part in inner if isinstance(part, dict)]
        if _types(each) & {"object", "string"}:  # of one that says what it is, others are bounds
            parts = [part for part in parts if _says(part)]
        yield from _flat(parts)
        if _is_object(each) or not parts:
            yield ANYTHING if "array" in _types(each) and not _is_object(each) else each


def _types(schema: Schema) -> set[str]:
    kind: Any = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


def _is_object(schema: Schema) -> bool:
    return "object" in _types(schema) or "properties" in schema or "additionalProperties" in schema


def _says(schema: Schema) -> bool:
    """Whether a schema says what it is of, and not merely some bounds of it."""
    return not schema.keys().isdisjoint(_KINDS)


_KINDS = ("type", "enum", "const", "properties", "additionalProperties", "items", "prefixItems",
          "anyOf", "oneOf", "allOf")  # fmt: skip

"""Validates the arguments of a tool call: by the tool's schema, the definition and the allowlist.

Invalid arguments fail before the call begins: there is no start record, and no quota is used. The
message is for the model, which may call again. People who edit arguments get the same message.

A check may be for a key inside an argument. A tool may accept that key under more names than its
schema has, such as an alias, and it may ignore unknown keys. So the objects that contain the key
must have no other keys than those of the schema: otherwise a value could avoid the check.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, cast

from langchain_core.tools import BaseTool
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from crewlog.activities.tool_loader import Tool
from crewlog.allowlist.files import resolve_within
from crewlog.allowlist.http import url_error
from crewlog.authority.allowlist import check_path, check_url
from crewlog.definition.findings import did_you_mean
from crewlog.definition.json_schemas import schema_faults
from crewlog.definition.matching import pattern_of
from crewlog.definition.model import ToolDefinition
from crewlog.definition.reaching import ArgumentCheck
from crewlog.errors import NotInAllowlist
from crewlog.model import Json
from crewlog.state.excerpt import excerpt

Schema = Mapping[str, Any]

ANYTHING: Schema = {}
"""The schema that anything fits."""
_MOST_SCHEMAS = 2_000
"""The most parts of a schema that are read for one key; a larger schema counts as naming none."""


class Keys(NamedTuple):
    """The keys of some objects."""

    named: frozenset[str]
    """The keys that the schema names."""
    open: bool
    """Whether the objects may have other keys."""


def keys_of(schemas: Sequence[Schema]) -> Keys:
    """Returns the keys of the objects that schemas describe, also as items of lists."""
    objects, texts = _parts(schemas)
    named = frozenset(key for each in objects for key in _properties(each))
    open_ = texts is None or any(_other_keys_schema(each) is not None for each in objects)
    # The content of a text is unknown, unless it may stand for one of the objects.
    return Keys(named, open_ or bool(texts and not objects))


def schemas_of_key(schemas: Sequence[Schema], key: str) -> list[Schema]:
    """Returns the schemas of the values that objects have under a key; see `keys_of`."""
    objects, texts = _parts(schemas)
    found: list[Schema] = [] if texts is not None and (objects or not texts) else [ANYTHING]
    for each in objects:
        others = _other_keys_schema(each)
        if key in _properties(each):
            found.append(_properties(each)[key])
        elif others is not None:
            found.append(others)
    return found


def _properties(schema: Schema) -> Mapping[str, Schema]:
    return schema.get("properties") or {}


def _other_keys_schema(schema: Schema) -> Schema | None:
    """Returns the schema of the keys that an object does not name; None: it has no other keys.

    An object that names its keys, without `additionalProperties`, has no other keys.
    """
    others: Any = schema.get("additionalProperties")
    if isinstance(others, dict):
        return cast("Schema", others)
    if others is True or schema.get("patternProperties"):
        return ANYTHING
    return None if schema.get("properties") or others is False else ANYTHING


def _parts(schemas: Sequence[Schema]) -> tuple[list[Schema], list[Schema] | None]:
    """Returns the schemas of objects and of texts; None for the texts: any value fits."""
    objects: list[Schema] = []
    texts: list[Schema] = []
    for count, each in enumerate(_flatten(schemas)):
        if count > _MOST_SCHEMAS or not _has_kind(each):
            return objects, None
        if _is_object(each):
            objects.append(each)
        elif "string" in _types(each):
            texts.append(each)
    return objects, texts


def _flatten(schemas: Iterable[Schema]) -> Iterator[Schema]:
    """Yields the alternatives of schemas, and the schemas of items in the place of lists."""
    for each in schemas:
        keywords = ("anyOf", "oneOf", "allOf", "prefixItems")
        inner: list[Any] = [part for word in keywords for part in each.get(word) or ()]
        inner += [each[word] for word in ("items", "contentSchema") if word in each]
        parts: list[Schema] = [part for part in inner if isinstance(part, dict)]
        if _types(each) & {"object", "string"}:  # then a part without a type only restricts it
            parts = [part for part in parts if _has_kind(part)]
        yield from _flatten(parts)
        if _is_object(each) or not parts:
            yield ANYTHING if "array" in _types(each) and not _is_object(each) else each


def _types(schema: Schema) -> set[str]:
    kind: Any = schema.get("type", [])
    return {kind} if isinstance(kind, str) else set(kind)


def _is_object(schema: Schema) -> bool:
    return "object" in _types(schema) or "properties" in schema or "additionalProperties" in schema


def _has_kind(schema: Schema) -> bool:
    """Whether a schema says what kind of value it is for, and does not only restrict it."""
    return not schema.keys().isdisjoint(_KINDS)


_KINDS = ("type", "enum", "const", "properties", "additionalProperties", "items", "prefixItems",
          "anyOf", "oneOf", "allOf")  # fmt: skip


MOST_CHARACTERS = 1_000_000
"""The most characters of the arguments of a call, as JSON."""
_MOST_FAULTS = 8


def argument_error(tool: Tool, args: Mapping[str, Any]) -> str | None:
    """Returns what is wrong with the arguments of a call, for the model; None: they are valid.

    Args:
        tool: The tool.
        args: The arguments, of a model or of a person.
    """
    return schema_error(tool, args) or check_error(tool, args)


def schema_error(tool: Tool, args: Mapping[str, Any]) -> str | None:
    """Returns how arguments do not fit the tool's schema; None: they fit."""
    faults = list(_size_faults(args)) or [
        *_schema_faults(tool, args),
        *dict.fromkeys(_find_unknown(tool, args)),
    ]
    return invalid_arguments_message(tool.tool.name, faults) if faults else None


def check_error(tool: Tool, args: Mapping[str, Any]) -> str | None:
    """Returns how arguments that fit the schema fail the definition's checks; None: they pass."""
    faults = list(_check_faults(tool.definition, args))
    return invalid_arguments_message(tool.tool.name, faults) if faults else None


def invalid_arguments_message(tool: str, faults: list[str]) -> str:
    """Returns the message about invalid arguments."""
    more = len(faults) - _MOST_FAULTS
    text = "; ".join([*faults[:_MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])])
    end = "" if text.endswith("?") else "."
    return f"The arguments of {tool!r} are not valid: {text}{end} Call it again."


def validation_faults(errors: list[ErrorDetails]) -> list[str]:
    """Returns the errors of pydantic as texts, each with the path of the argument."""
    return [f"{'.'.join(map(str, e['loc'])) or 'all'}: {e['msg']}" for e in errors]


def find_allowlisted_arguments(
    tool: Tool, kind: str, args: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yields the texts in arguments that are declared as paths or as URLs, with their names."""
    for name, check in tool.definition.checks.items():
        if check.is_ == kind:
            for value in _values(args, name):
                if isinstance(value, str):
                    yield name, value


def argument_names(tool: Tool, sibling: str) -> list[str]:
    """Returns the arguments that a tool's schema names.

    Args:
        tool: The tool.
        sibling: The name of an argument inside another one, instead of the top level.
    """
    *path, _ = sibling.split(".")
    *_, (before, keys) = _levels(tool, [*path, ""])
    return [".".join([*before, key]) for key in sorted(keys.named)] if path else list(_top(tool))


def find_unknown_check(tool: Tool) -> str:
    """Returns a checked argument that the tool does not have; empty: it has all of them."""
    for name in tool.definition.checks:
        parts = name.split(".")
        for part, (_, keys) in zip(parts, _levels(tool, parts), strict=True):
            if part not in keys.named and not keys.open:
                return name
    return ""


def _top(tool: Tool) -> dict[str, Schema]:
    return tool.parameters.get("properties") or {}


def _levels(tool: Tool, parts: Sequence[str]) -> Iterator[tuple[Sequence[str], Keys]]:
    """Yields the keys at each level of an argument's name, with the path of the level."""
    top = _top(tool)
    yield (), Keys(frozenset(top), _accepts_any(tool.tool, tool.parameters))
    schemas = [top.get(parts[0], ANYTHING)]
    for place in range(1, len(parts)):
        yield parts[:place], keys_of(schemas)
        schemas = schemas_of_key(schemas, parts[place])


def _size_faults(args: Mapping[str, Any]) -> Iterator[str]:
    try:
        size = len(json.dumps(args))
    except (TypeError, ValueError, RecursionError) as error:
        yield f"all: they are not JSON ({error})"
        return
    if size > MOST_CHARACTERS:
        yield f"all: they are longer than {MOST_CHARACTERS:,} characters"


def _find_unknown(tool: Tool, args: Mapping[str, Any]) -> Iterator[str]:
    """Yields unknown arguments: at the top level, and on the paths of checked arguments."""
    for checked in ("", *(name for name in tool.definition.checks if "." in name)):
        values: list[Any] = [args]
        parts = checked.split(".")
        for part, (path, keys) in zip(parts, _levels(tool, parts), strict=True):
            found = [inside for value in values for inside in _parse_json_text(value)]
            objects = [each for each in found if _is_mapping(each)]
            names = sorted(keys.named) if path else list(_top(tool))
            for name in (key for each in objects for key in each):
                if not keys.open and name not in keys.named:
                    near = did_you_mean(name, names, f"There are: {', '.join(names) or 'none'}.")
                    full_name = ".".join([*path, excerpt(name, 80)])
                    yield f"{full_name}: there is no such argument. {near}".rstrip(".")
            values = [v for each in objects if part in each for v in _flatten_list(each[part])]


def _accepts_any(tool: BaseTool, parameters: Mapping[str, Json]) -> bool:
    """Whether a tool accepts arguments that its schema does not name."""
    schema = tool.args_schema
    if isinstance(schema, dict):
        others = schema.get("additionalProperties")
        open_ended = not schema.get("properties") and others is not False
        return open_ended or bool(others) or bool(schema.get("patternProperties"))
    if parameters.get("additionalProperties"):
        return True
    function: Any = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    if function is None:
        return False
    kinds = {each.kind for each in inspect.signature(function).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds


def _schema_faults(tool: Tool, args: Mapping[str, Any]) -> Iterator[str]:
    schema = tool.tool.args_schema
    if isinstance(schema, dict):
        yield from schema_faults(schema, args)
        return
    model = _arguments_model(tool.tool)
    if model is None:
        return  # `ToolNode` validates any other kind of schema
    try:
        model.model_validate(dict(args))
    except ValidationError as error:
        yield from validation_faults(error.errors(include_url=False))
    except Exception:  # noqa: BLE001 - a validator is code of the tool, and fails again in the call
        return


def _arguments_model(tool: BaseTool) -> type[BaseModel] | None:
    """Returns the pydantic model of the arguments, without injected ones."""
    for_model: Any = tool.tool_call_schema
    whole: Any = tool.args_schema
    if not _is_model(for_model) or not _is_model(whole):
        return None
    return whole if set(whole.model_fields) == set(for_model.model_fields) else for_model


def _is_model(value: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(value, type) and issubclass(value, BaseModel)


# -- checks of the definition ----------------------------------------------------------------------


def _check_faults(definition: ToolDefinition, args: Mapping[str, Any]) -> Iterator[str]:
    for name, check in definition.checks.items():
        for value in _values(args, name):
            fault = _fault(definition, check, value)
            if fault:
                yield f"{name}: {fault}"


def _values(args: Mapping[str, Any], name: str) -> Iterator[Any]:
    """Yields the values of an argument, which may be inside another one; of a list, each item.

    They may be inside a text with JSON, which the tool parses. Any other text yields `_UNREADABLE`,
    since its meaning to the tool is unknown.
    """
    found: list[Any] = [args]
    for part in name.split("."):
        inside = [each for value in found for each in _parse_json_text(value)]
        yield from (value for value in inside if value is _UNREADABLE)
        found = [value[part] for value in inside if _is_mapping(value) and part in value]
        found = [inner for value in found for inner in _flatten_list(value)]
    yield from found


_UNREADABLE = object()
"""Stands for the values in a text that is not JSON."""


def _parse_json_text(value: Any) -> list[Any]:
    """Returns a value; of a text with JSON, the values in it."""
    if not isinstance(value, str) or not value.strip():
        return [value]
    try:
        return _flatten_list(json.loads(value, object_pairs_hook=_unique_keys))
    except (ValueError, RecursionError):
        return [_UNREADABLE]


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):  # some parsers use the first value, and others the last
        raise ValueError("an object has a key twice")
    return fields


def _is_json_text(text: str) -> bool:
    """Whether a text is JSON, which a tool may parse."""
    if text.lstrip()[:1] not in ("[", "{", '"'):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def _flatten_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        parts: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [inner for part in parts for inner in _flatten_list(part)]
    return [value]


def _fault(definition: ToolDefinition, check: ArgumentCheck, value: Any) -> str:
    if value is _UNREADABLE:
        return "it must be in an object, or in a JSON text that has each key once"
    if value is None:
        return ""  # omitted; the schema says whether it may be
    if check.enum is not None and not any(_same(value, each) for each in check.enum):
        return f"it must be one of {excerpt(json.dumps(check.enum), 200)}"
    return _number_fault(check, value) or _text_fault(definition, check, value)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON; to Python, 1 and true are equal."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _number_fault(check: ArgumentCheck, value: Any) -> str:
    if check.minimum is None and check.maximum is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "it must be a number"
    if not (check.minimum is None or value >= check.minimum):
        return f"it must be at least {check.minimum:g}"
    if not (check.maximum is None or value <= check.maximum):
        return f"it must be at most {check.maximum:g}"
    return ""


def _text_fault(definition: ToolDefinition, check: ArgumentCheck, value: Any) -> str:
    if check.is_ is None and check.pattern is None and check.longest is None:
        return ""
    if not isinstance(value, str):
        return "it must be a text"
    if check.longest is not None and len(value) > check.longest:
        return f"it must have at most {check.longest:,} characters"
    if check.pattern is not None and (fault := _pattern_fault(check.pattern, value)):
        return fault
    if check.is_ is not None and _is_json_text(value):
        return f"it must be the {check.is_} itself, not a JSON text"
    if check.is_ == "path":
        decision = check_path(value, definition.paths)
        return "" if decision.allowed else decision.reason
    if check.is_ == "url":
        decision = check_url(value, definition.hosts)
        return "" if decision.allowed else decision.reason
    return ""


def _pattern_fault(text: str, value: str) -> str:
    pattern = pattern_of(text)
    if len(value) > pattern.longest:
        return f"it must have at most {pattern.longest:,} characters"
    return "" if pattern.matches(value) else f"it must match {text}"


def _is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


async def allowlist_error(tool: Tool, args: Mapping[str, Any], workspace: Path) -> str | None:
    """Returns which paths or URLs are not in the allowlist, for the model; None: all are.

    `argument_error` has checked them as texts; this follows links and resolves host names.

    Args:
        tool: The tool.
        args: The call's arguments, which have passed `argument_error`.
        workspace: The run's directory.
    """
    definition = tool.definition
    faults: list[str] = []
    for name, path in find_allowlisted_arguments(tool, "path", args):
        try:
            resolve_within(workspace, path, definition.paths)
        except NotInAllowlist as exc:
            faults.append(f"{name}: {exc.message}")
    for name, url in find_allowlisted_arguments(tool, "url", args):
        if fault := await url_error(url, definition.hosts):
            faults.append(f"{name}: {fault}")
    return invalid_arguments_message(tool.tool.name, faults) if faults else None

"""A call's arguments, held against the tool's schema and the definition's checks before it runs.

Nothing has begun where they do not hold: no start note, no quota. The message is for the model,
which may call again; people who edit arguments get the same.

The keys of arguments that are inside others, as a tool's schema names them.

A tool may take a key by more names than its schema tells (a field and its alias), and drops or
keeps what it does not know. So where a check looks for a key inside an argument, the objects on the
way have the keys that the schema names, and no others: else the value comes in beside the check.

Arguments that are declared as paths or URLs, followed before the call that is to use them.
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

from crewlog.activities.tools import Tool
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


MOST_BYTES = 1_000_000
"""Arguments of one call, as JSON."""
_MOST_FAULTS = 8


def argument_error(tool: Tool, args: Mapping[str, Any]) -> str | None:
    """What is wrong with the arguments of a call, as the model is told it; none where they hold.

    Args:
        tool: The tool, as the worker's registry has it.
        args: What the model says, or a person.
    """
    return schema_error(tool, args) or check_error(tool, args)


def schema_error(tool: Tool, args: Mapping[str, Any]) -> str | None:
    """How the arguments of a call do not fit the tool itself; none where they do."""
    faults = list(_size(args)) or [*_schema(tool, args), *_unknown(tool, args)]
    return refusal(tool.tool.name, faults) if faults else None


def check_error(tool: Tool, args: Mapping[str, Any]) -> str | None:
    """What the definition's checks refuse of arguments that fit the tool; none: nothing."""
    faults = list(_checks(tool.definition, args))
    return refusal(tool.tool.name, faults) if faults else None


def refusal(tool: str, faults: list[str]) -> str:
    """The sentence of a call that is not made for its arguments."""
    more = len(faults) - _MOST_FAULTS
    told = "; ".join([*faults[:_MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])])
    end = "" if told.endswith("?") else "."
    return f"The arguments of {tool!r} are not valid: {told}{end} Call it again."


def faults_of(errors: list[ErrorDetails]) -> list[str]:
    """The faults that pydantic found, each with the place of the argument."""
    return [f"{'.'.join(map(str, e['loc'])) or 'all'}: {e['msg']}" for e in errors]


def guarded(tool: Tool, kind: str, args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The arguments that are declared as paths or as URLs, with their names; texts alone."""
    for name, check in tool.definition.checks.items():
        if check.is_ == kind:
            for value in _values(args, name):
                if isinstance(value, str):
                    yield name, value


def argument_names(tool: Tool, beside: str = "") -> list[str]:
    """The arguments that a tool's schema names.

    Args:
        tool: The tool.
        beside: The name of one that is inside another: then those that are there, too.
    """
    *way, _ = beside.split(".")
    *_, (before, keys) = _levels(tool, [*way, ""])
    return [".".join([*before, key]) for key in sorted(keys.named)] if way else list(_top(tool))


def unchecked(tool: Tool) -> str:
    """A checked argument that the tool does not have: its check would hold nothing; else empty."""
    for name in tool.definition.checks:
        parts = name.split(".")
        for part, (_, keys) in zip(parts, _levels(tool, parts), strict=True):
            if part not in keys.named and not keys.open:
                return name
    return ""


def _top(tool: Tool) -> dict[str, Schema]:
    return tool.parameters.get("properties") or {}


def _levels(tool: Tool, parts: Sequence[str]) -> Iterator[tuple[Sequence[str], Keys]]:
    """The keys beside each part of an argument's name, with what they are inside."""
    top = _top(tool)
    yield (), Keys(frozenset(top), _takes_any(tool.tool, tool.parameters))
    schemas = [top.get(parts[0], ANYTHING)]
    for place in range(1, len(parts)):
        yield parts[:place], keys_of(schemas)
        schemas = within(schemas, parts[place])


def _size(args: Mapping[str, Any]) -> Iterator[str]:
    try:
        size = len(json.dumps(args))
    except (TypeError, ValueError, RecursionError) as error:
        yield f"all: they are not JSON ({error})"
        return
    if size > MOST_BYTES:
        yield f"all: they are longer than {MOST_BYTES:,} characters"


def _unknown(tool: Tool, args: Mapping[str, Any]) -> Iterator[str]:
    yield from dict.fromkeys(_strays(tool, args))


def _strays(tool: Tool, args: Mapping[str, Any]) -> Iterator[str]:
    """Arguments that there are not: at the top, and on the way to what is checked inside others."""
    for checked in ("", *(name for name in tool.definition.checks if "." in name)):
        values: list[Any] = [args]
        parts = checked.split(".")
        for part, (way, keys) in zip(parts, _levels(tool, parts), strict=True):
            found = [inside for value in values for inside in _opened(value)]
            objects = [each for each in found if _is_mapping(each)]
            names = sorted(keys.named) if way else list(_top(tool))
            for name in (key for each in objects for key in each):
                if not keys.open and name not in keys.named:
                    near = did_you_mean(name, names, f"There are: {', '.join(names) or 'none'}.")
                    told = ".".join([*way, excerpt(name, 80)])
                    yield f"{told}: there is no such argument. {near}".rstrip(".")
            values = [v for each in objects if part in each for v in _each(each[part])]


def _takes_any(tool: BaseTool, parameters: Mapping[str, Json]) -> bool:
    """Whether a tool takes arguments that its schema does not name."""
    schema = tool.args_schema
    if isinstance(schema, dict):
        more = schema.get("additionalProperties")
        open_ended = not schema.get("properties") and more is not False
        return open_ended or bool(more) or bool(schema.get("patternProperties"))
    if parameters.get("additionalProperties"):
        return True
    function: Any = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    if function is None:
        return False
    kinds = {each.kind for each in inspect.signature(function).parameters.values()}
    return inspect.Parameter.VAR_KEYWORD in kinds


def _schema(tool: Tool, args: Mapping[str, Any]) -> Iterator[str]:
    schema = tool.tool.args_schema
    if isinstance(schema, dict):
        yield from schema_faults(schema, args)
        return
    model = _model(tool.tool)
    if model is None:
        return  # a kind that only `ToolNode` knows: it validates it itself
    try:
        model.model_validate(dict(args))
    except ValidationError as error:
        yield from faults_of(error.errors(include_url=False))
    except Exception:  # noqa: BLE001 - a validator is the tool's own code: it fails as the tool
        return


def _model(tool: BaseTool) -> type[BaseModel] | None:
    """The model that arguments must fit: the tool's own, or what of it a model may say."""
    said: Any = tool.tool_call_schema
    whole: Any = tool.args_schema
    if not _is_model(said) or not _is_model(whole):
        return None
    return whole if set(whole.model_fields) == set(said.model_fields) else said


def _is_model(value: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(value, type) and issubclass(value, BaseModel)


# -- what the definition says ----------------------------------------------------------------------


def _checks(definition: ToolDefinition, args: Mapping[str, Any]) -> Iterator[str]:
    for name, check in definition.checks.items():
        for value in _values(args, name):
            fault = _fault(definition, check, value)
            if fault:
                yield f"{name}: {fault}"


def _values(args: Mapping[str, Any], name: str) -> Iterator[Any]:
    """The values of an argument, which may be inside another; of a list each.

    What they are inside may be a text of JSON, which the tool reads: it is looked into. For a text
    that is none, `_CLOSED` stands: nobody knows what the tool finds in it.
    """
    found: list[Any] = [args]
    for part in name.split("."):
        inside = [each for value in found for each in _opened(value)]
        yield from (value for value in inside if value is _CLOSED)
        found = [value[part] for value in inside if _is_mapping(value) and part in value]
        found = [inner for value in found for inner in _each(value)]
    yield from found


_CLOSED = object()
"""Stands for what may be in a text that is no JSON."""


def _opened(value: Any) -> list[Any]:
    """A value, or what is in it where it is a text of JSON."""
    if not isinstance(value, str) or not value.strip():
        return [value]
    try:
        return _each(json.loads(value, object_pairs_hook=_once))
    except (ValueError, RecursionError):
        return [_CLOSED]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # one reader takes the first of two, and another the last
        raise ValueError("a key is there twice")
    return found


def _is_packed(text: str) -> bool:
    """Whether a text is one of JSON, which a tool may take for what is in it."""
    if text.lstrip()[:1] not in ("[", "{", '"'):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


def _each(value: Any) -> list[Any]:
    if isinstance(value, list):
        parts: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [inner for part in parts for inner in _each(part)]
    return [value]


def _fault(definition: ToolDefinition, check: ArgumentCheck, value: Any) -> str:
    if value is _CLOSED:
        return "what it is in must be an object, or a text of JSON that has each key once"
    if value is None:
        return ""  # left out, where the schema lets it be
    if check.enum is not None and not any(_same(value, each) for each in check.enum):
        return f"it must be one of {excerpt(json.dumps(check.enum), 200)}"
    return _number_fault(check, value) or _text_fault(definition, check, value)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are one; to Python, 1 and true are equal."""
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
    if check.is_ is not None and _is_packed(value):
        return f"it must be the {check.is_} itself, and no text of JSON"
    if check.is_ == "path":
        found = check_path(value, definition.paths)
        return "" if found.allowed else found.reason
    if check.is_ == "url":
        found = check_url(value, definition.hosts)
        return "" if found.allowed else found.reason
    return ""


def _pattern_fault(text: str, value: str) -> str:
    pattern = pattern_of(text)
    if len(value) > pattern.longest:
        return f"it must have at most {pattern.longest:,} characters"
    return "" if pattern.matches(value) else f"it must match {text}"


def _is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)


async def allowlist_error(tool: Tool, args: Mapping[str, Any], workspace: Path) -> str | None:
    """Where an argument leads that it may not, as the model is told it; none where it may.

    `argument_error` has judged how they are written; here links are followed and names looked up.

    Args:
        tool: The tool.
        args: The call's arguments, which `argument_error` found nothing wrong with.
        workspace: The run's folder.
    """
    definition = tool.definition
    faults: list[str] = []
    for name, path in guarded(tool, "path", args):
        try:
            resolve_within(workspace, path, definition.paths)
        except NotInAllowlist as exc:
            faults.append(f"{name}: {exc.message}")
    for name, url in guarded(tool, "url", args):
        if fault := await url_error(url, definition.hosts):
            faults.append(f"{name}: {fault}")
    return refusal(tool.tool.name, faults) if faults else None

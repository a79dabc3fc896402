"""The shape of what people write: which keys, which types; every fault as a sentence.

`Form` says what kind of file it is: a crew, or a registry (`crewlog.prompt.registry_file`).

pydantic validates, but an item of a flow is one of eight things, and pydantic would report every
branch. So each part is given to the one model that its keys ask for, and what pydantic says is
put in words. What is written is read strictly: `"3"` is not a number, and `true` is not one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeGuard, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from crewlog.definition.conditions import ConditionSyntaxError
from crewlog.definition.findings import Finding, Path, did_you_mean, listed, suggestion
from crewlog.definition.model import (
    EDGES,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    DecisionPhase,
    JoinAll,
    JoinAny,
    JoinQuorum,
    ParallelPhase,
    RoutePhase,
    WaitPhase,
)
from crewlog.model import Json, Model
from crewlog.validation_errors import broken_rule, describe_value

_M = TypeVar("_M", bound=Model)

_PHASES: dict[str, type[BaseModel]] = {
    "agent": AgentPhase,
    "if": DecisionPhase,
    "ask": AskPhase,
    "wait": WaitPhase,
    "wait_until": WaitPhase,
    "route": RoutePhase,
    "parallel": ParallelPhase,
    "use": BuilderPhase,
}
_IN_PARALLEL = ("agent", "ask", "wait", "wait_until")
_JOINS: dict[str, type[BaseModel]] = {"all": JoinAll, "any": JoinAny, "quorum": JoinQuorum}
_CONDITIONS = ("if", "when", "only_if")
_AFTER = "Write a phase, a list of phases, {any: [...]}, or {quorum: 2, of: [...]}."
_ITEM = (
    "Write an agent's name, a list of them, or {agent: …}, {if: …}, {ask: …}, {wait: …}, "
    "{route: …}, {parallel: …}, {use: …}."
)


@dataclass(frozen=True)
class Form(Generic[_M]):
    """A kind of file that people write: what it is read to, and how it is spoken of."""

    model: type[_M]
    called: str
    """`crew`, `registry`."""
    begins: str
    """How such a file begins, as a remedy."""
    check: Callable[[_M], list[Finding]]
    """What is wrong with its meaning, where its shape is right; warnings, too."""
    own: Mapping[str, Callable[[Json, Mapping[str, Json]], Iterator[Finding]]] = field(
        default_factory=dict[str, Callable[[Json, Mapping[str, Json]], Iterator[Finding]]]
    )
    """What checks the shape of a key's value, for those that pydantic could not explain; it is
    given all of the data as well."""


def shaped(data: Json, form: Form[_M]) -> _M | list[Finding]:
    """What some data is read to, or everything that is wrong with its shape."""
    if not _is_mapping(data):
        say = f"a {form.called} is a mapping of keys to values, not {describe_value(data)}"
        return [Finding((), say, form.begins)]
    rest = {key: value for key, value in data.items() if key not in form.own}
    found = list(_of_model(form.model, rest, (), form.called))
    for key, faults in form.own.items():
        if key in data:
            found.extend(faults(data[key], data))
    if found:
        return found
    try:
        return form.model.model_validate_json(json.dumps(data, allow_nan=False), strict=True)
    except ValidationError as error:  # what the parts allow, the whole must; say it anyway
        return list(_in_words(error, form.model, (), form.called))
    except (ValueError, TypeError, RecursionError) as error:
        return [Finding((), f"the {form.called} is not JSON: {error}")]


def _hears(crew: Mapping[str, Json]) -> bool:
    """Whether agents of a crew hear: then it needs no flow."""
    agents = crew.get("agents")
    each = agents.values() if _is_mapping(agents) else ()
    return (
        bool(crew.get("channels"))
        or crew.get("graph") is not None
        or any(_is_mapping(agent) and any(agent.get(key) for key in EDGES) for agent in each)
    )


def flow_faults(flow: Json, crew: Mapping[str, Json]) -> Iterator[Finding]:
    """What is wrong with the shape of a crew's flow."""
    if not _is_list(flow):
        yield Finding(
            ("flow",),
            f"'flow' must be a list, not {describe_value(flow)}",
            "Begin each item with '- '.",
        )
    elif not flow and not _hears(crew):
        yield Finding(
            ("flow",), "the flow is empty", "Leave it out to run the agents one after the other."
        )
    else:
        for i, item in enumerate(flow):
            yield from _of_item(item, ("flow", i))


def _of_item(item: Json, path: Path, inner: bool = False) -> Iterator[Finding]:
    if isinstance(item, str):
        return
    if _is_list(item) and not inner:
        parts = item
        if not parts:
            yield Finding(path, f"{_where(path)} is an empty list", _ITEM)
        for i, part in enumerate(parts):
            yield from _of_item(part, (*path, i), inner=True)
        return
    if not _is_mapping(item):
        yield Finding(path, f"{_where(path)} cannot be {describe_value(item)}", _ITEM)
        return
    fields = item
    kinds = [key for key in _PHASES if key in fields]
    if not kinds and "for_each" in fields:  # each item may name its own agent
        kinds = ["agent"]
    if len(kinds) != 1:
        yield _no_kind(fields, kinds, path)
    elif inner and kinds[0] not in _IN_PARALLEL:
        yield Finding(
            (*path, kinds[0]),
            f"{_where(path)} runs in parallel, where only agents, questions and waits can be",
            f"Put the '{kinds[0]}' into the flow itself.",
            at="key",
        )
    else:
        yield from _of_phase(fields, kinds[0], path)


def _no_kind(fields: dict[str, Json], kinds: list[str], path: Path) -> Finding:
    if kinds:
        return Finding(
            (*path, kinds[1]),
            f"{_where(path)} has {listed(repr(k) for k in kinds)}: an item does one thing",
            "Make two items of it.",
            at="key",
        )
    for key in fields:
        near = did_you_mean(key, _PHASES)
        if near:
            return Finding((*path, key), f"unknown key {key!r} in {_where(path)}", near, at="key")
    return Finding(path, f"{_where(path)} has none of the keys {listed(_PHASES, 'or')}", _ITEM)


def _of_phase(fields: dict[str, Json], kind: str, path: Path) -> Iterator[Finding]:
    model = _PHASES[kind]
    rest = {key: value for key, value in fields.items() if key in _keys(model)}
    # Also `if_` and `otherwise`, which pydantic would take.
    yield from (_unknown(key, model, path) for key in fields if key not in rest)
    if rest.get("after") is not None:
        yield from _of_after(rest["after"], (*path, "after"))
    rest.pop("after", None)
    for key in _CONDITIONS:
        value = rest.get(key)
        if key in rest and not isinstance(value, str) and (value is not None or key == "if"):
            yield Finding(
                (*path, key),
                f"'{key}' in {_where(path)} must be a condition, not {describe_value(value)}",
                f"Write a text, e.g. {key}: not approved",
            )
            rest[key] = "x"
    parts = rest.get("parallel")
    if _is_list(parts):
        for i, part in enumerate(parts):
            yield from _of_item(part, (*path, "parallel", i), inner=True)
        rest["parallel"] = ["x"] if parts else []
    yield from _of_model(model, rest, path)


def _of_after(after: Json, path: Path) -> Iterator[Finding]:
    if isinstance(after, str):
        return
    if _is_list(after):
        for i, name in enumerate(after):
            if not isinstance(name, str):
                yield Finding(
                    (*path, i), f"'after' lists phases, and {describe_value(name)} is none", _AFTER
                )
        return
    if _is_mapping(after):
        fields = after
        for key, model in _JOINS.items():
            if key in fields:
                yield from _of_model(model, fields, path)
                return
        for key in fields:
            yield Finding(
                (*path, key),
                f"unknown key {key!r} in 'after'",
                did_you_mean(key, _JOINS) or _AFTER,
                at="key",
            )
            return
    yield Finding(path, f"'after' cannot be {describe_value(after)}", _AFTER)


def _of_model(
    model: type[BaseModel], data: dict[str, Json], path: Path, top: str = "crew"
) -> Iterator[Finding]:
    try:
        model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        yield from _in_words(error, model, path, top)
    except (ValueError, TypeError, RecursionError) as error:
        yield Finding(path, f"{_where(path, top)} is not JSON: {error}")


_ONE_OR_SEVERAL = frozenset(["str", "tuple[str, ...]"])
"""What pydantic calls the two ways of naming tools in a rule, which are no keys of anybody."""


def _in_words(
    error: ValidationError, model: type[BaseModel], base: Path, top: str
) -> Iterator[Finding]:
    details = error.errors(include_url=False)
    seen = _misspelt(details, model, base)  # the sentence of the slip tells of the lack, too
    for detail in details:
        location = detail["loc"]
        if detail["type"] == "default_factory_not_called":
            continue  # the flow's default is made of agents that are wrong themselves
        is_key = location[-1:] == ("[key]",)
        if location[:1] == ("join",):
            location = ("join",)  # a union of a word and a number: one sentence for both
        if location[-2:] == ("tool", "str") and isinstance(detail["input"], list):
            continue  # one tool or several: what is wrong with the list is told
        location = tuple(
            part
            for at, part in enumerate(location)
            if part not in _ONE_OR_SEVERAL or location[at - 1] != "tool"
        )
        path = (*base, *(part for part in location if part != "[key]"))
        if path not in seen:
            seen.add(path)
            yield _sentence(detail, model, path, is_key, top)


def _misspelt(details: list[ErrorDetails], model: type[BaseModel], base: Path) -> set[Path]:
    """The missing keys that are there under a name that was probably meant to be theirs."""
    unknown = [(*base, *each["loc"]) for each in details if each["type"] == "extra_forbidden"]
    meant = {
        (*path[:-1], suggestion(str(path[-1]), _keys(_model_at(path[:-1], model))))
        for path in unknown
    }
    missing = {(*base, *each["loc"]) for each in details if each["type"] == "missing"}
    return meant & missing


def _sentence(
    detail: ErrorDetails, model: type[BaseModel], path: Path, is_key: bool, top: str
) -> Finding:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown(str(path[-1]), _model_at(path[:-1], model), path[:-1], top)
    if kind == "missing":
        owner = _where(path[:-1], top)
        return Finding(path, f"{owner} has no {str(path[-1])!r}", _example(str(path[-1])))
    if is_key and kind == "literal_error":
        return _no_such_key(detail, path)
    if is_key or kind == "string_pattern_mismatch":
        return _bad_text(detail, path, is_key)
    cause = context.get("error")
    if isinstance(cause, ConditionSyntaxError):
        message = f"in the condition of {_where(path[:-1])}: {cause}"
        remedy = "A condition is like: not approved and backend.score >= 0.8"
        return Finding(path, message, remedy, offset=cause.offset)
    if path[-1:] == ("join",):
        say = "must be all, any, or how many"
    elif isinstance(cause, ValueError) and isinstance(detail["input"], dict | list):
        say = f"cannot be as it is: {cause}"
    elif isinstance(cause, ValueError):
        say = f"cannot be {describe_value(detail['input'])}: {cause}"
    else:
        say = broken_rule(kind, context, detail["input"])
    return Finding(path, f"{_named(path)} {say}", _repair(detail, path))


def _no_such_key(detail: ErrorDetails, path: Path) -> Finding:
    """A key of a mapping that has only certain ones."""
    known = _expected(detail)
    remedy = did_you_mean(str(path[-1]), known, f"It can have {listed(known)}.")
    return Finding(path, f"unknown key {path[-1]!r} in {_where(path[:-1])}", remedy, at="key")


def _bad_text(detail: ErrorDetails, path: Path, is_key: bool) -> Finding:
    value = str(path[-1]) if is_key else str(detail["input"])
    if path[-1] == "run" and not is_key:
        say = f"{_named(path)} must be 'module:function', not {describe_value(value)}"
        return Finding(path, say, "For example: run: my_tools:write_file")
    if path[0] == "memory" and is_key:
        say = f"{value[:40]!r} is not a scope of a memory"
        return Finding(path, say, "A scope is agent, public or group:NAME.", at="key")
    say = f"{value[:40]!r} cannot be a name"
    remedy = "A name is a letter and then at most 63 letters, digits, '_' or '-'."
    return Finding(path, say, remedy, at="key" if is_key else "value")


def _expected(detail: ErrorDetails) -> list[str]:
    return str(detail.get("ctx", {}).get("expected", "")).split("'")[1::2]


def _repair(detail: ErrorDetails, path: Path) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "literal_error":
        return did_you_mean(str(value), _expected(detail))
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f'To make it text, put it in quotes: "{json.dumps(value)}".'
    if kind == "tuple_type" and isinstance(value, str | bool):
        said, key = str(value)[:40], path[-1]
        tabled = path[0] in _TABLES
        if said.lower() in _EVERYBODY and (tabled or (path[0] == "rules" and key == "agents")):
            return f"For every agent: {key}: null."
        if said.lower() in _NOBODY and tabled:
            return f"For no agent: {key}: []."
        return f"Write it as a list: [{said}]."
    if kind == "tuple_type" and path == ("rules",):
        return "Write it as a list: - {tool: publish, do: ask}"
    return ""


def _unknown(key: str, model: type[BaseModel], owner: Path, top: str = "crew") -> Finding:
    known = _keys(model)
    remedy = did_you_mean(key, known, f"It can have {listed(known)}.")
    return Finding((*owner, key), f"unknown key {key!r} in {_where(owner, top)}", remedy, at="key")


def _keys(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _model_at(path: Path, outer: type[BaseModel]) -> type[BaseModel]:
    """The model of a part: as deep as the path can be followed through the fields' types."""
    found, named = outer, False
    for part in path:
        if named or isinstance(part, int):  # an entry of a mapping or list: its type is known
            named = False
            continue
        known = {field.alias or name: field for name, field in found.model_fields.items()}
        if part not in known:
            break
        kind = known[part].annotation
        found = _model_in(kind) or found
        named = get_origin(kind) is dict
    return found


def _model_in(kind: Any) -> type[BaseModel] | None:
    """The first model in a type: `Retry`, `Pattern | None`, `dict[Name, ToolDefinition]`."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((found for each in get_args(kind) if (found := _model_in(each))), None)


_TABLES = ("approvals", "permissions", "memory")
"""Where null is every agent, and an empty list none."""
_EVERYBODY = ("all", "any", "every", "everybody", "everyone", "yes", "true", "*")
_NOBODY = ("none", "never", "nobody", "no", "false")


def _example(key: str) -> str:
    examples = {
        "tool": "tool: publish",
        "crew": "crew: release-notes",
        "agents": "agents: {writer: {prompt: Write notes for users.}}",
        "prompt": "prompt: Write notes for users.",
        "run": "run: my_tools:write_file",
        "go": "go: writer",
        "of": "of: [ui_designer, backend]",
    }
    return f"For example: {examples[key]}" if key in examples else ""


def _where(path: Path, top: str = "crew") -> str:
    """What a place in the data is called."""
    match path:
        case ():
            return f"the {top}"
        case (str(key),):
            return f"{key!r}"
        case ("agents" | "tools" as section, str(name)):
            return f"{section[:-1]} {name!r}"
        case ("rules", int(item)):
            return f"rules[{item}]"  # what `why` and the audit call it
        case ("flow", int(item)):
            return f"item {item + 1} of the flow"
        case ("flow", int(item), *_, int(part)):
            return f"part {part + 1} of item {item + 1} of the flow"
        case (*owner, str(key)):
            return f"{key!r} of {_where(tuple(owner))}"
        case _:
            return f"item {int(path[-1]) + 1} of {_where(path[:-1])}"


def _named(path: Path) -> str:
    return _where(path) if path else "the definition"


def _is_list(value: Json) -> TypeGuard[list[Json]]:
    return isinstance(value, list)


def _is_mapping(value: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, dict)

"""Arguments are validated by the schema and the checks before a call."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any

import pytest
from langchain_core.tools import StructuredTool
from langgraph.prebuilt import InjectedState
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from crewlog.activities.arguments import (
    MOST_CHARACTERS,
    argument_error,
    find_allowlisted_arguments,
    find_unknown_check,
)
from crewlog.activities.tool_loader import Tool, make_tool
from crewlog.definition.json_schemas import schema_faults
from crewlog.definition.model import ToolDefinition


def take(
    n: Annotated[int, Field(ge=0)],
    path: str = "notes/a",
    url: str = "",
    tags: list[str] | None = None,
    options: dict[str, Any] | None = None,
    mode: str | bool | int = "",
) -> str:
    """Takes things."""
    return f"{n} {path} {url} {tags} {options} {mode}"


def made(function: Any = take, **definition: Any) -> Tool:
    tool = StructuredTool.from_function(func=function, name="take")
    return make_tool(tool, ToolDefinition.model_validate({"run": "m:take", **definition}))


CHECKS: dict[str, Any] = {
    "n": {"maximum": 9, "minimum": 1},
    "path": "path",
    "url": "url",
    "tags": {"pattern": "[a-z]+", "longest": 4},
    "options.deep.to": "path",
    "mode": {"enum": ["a", 1, False]},
}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"n": 1}, None),
        ({"n": 1, "tags": None}, None),
        ({"n": 1, "path": "notes/x", "tags": ["abc", "d"], "url": "https://x.org/"}, None),
        ({"n": 1, "options": {"deep": {"to": "notes/b"}, "more": 1}}, None),
        ({"n": 1, "mode": "a"}, None),
        ({"n": 1, "path": "notes/[id]/page.tsx"}, None),
        ({"n": 1, "path": '["/etc/passwd"]'}, "path: it must be the path itself, not a JSON text"),
        ({"n": 1, "path": ' "/etc/passwd"'}, "path: it must be the path itself"),
        ({"n": 1, "mode": False}, None),
        ({}, "n: Field required"),
        ({"n": "x"}, "n: Input should be a valid integer"),
        ({"n": -1}, "n: Input should be greater than or equal to 0"),
        ({"n": 1, "pth": "x"}, "pth: there is no such argument. Did you mean 'path'?"),
        ({"n": 1, "run": "x"}, "run: there is no such argument"),
        ({"n": 0}, "n: it must be at least 1"),
        ({"n": 10}, "n: it must be at most 9"),
        ({"n": "10"}, "n: it must be a number"),  # pydantic would take it for 10
        ({"n": True}, "n: it must be a number"),
        ({"n": 1, "path": "/etc/passwd"}, "path: the path '/etc/passwd' is absolute"),
        ({"n": 1, "path": "other/x"}, "path: 'other/x' is not in notes/"),
        (
            {"n": 1, "url": "http://169.254.169.254/"},
            "url: 169.254.169.254 is the address of a metadata service",
        ),
        ({"n": 1, "tags": ["abc", "A1"]}, "tags: it must match [a-z]+"),
        ({"n": 1, "tags": ["abc\n"]}, "tags: it must match"),
        ({"n": 1, "tags": ["abcde"]}, "tags: it must have at most 4 characters"),
        (
            {"n": 1, "options": {"deep": {"to": "../x"}}},
            "options.deep.to: the path '../x' contains '..'",
        ),
        ({"n": 1, "options": {"deep": [{"to": "notes/a"}, {"to": "~"}]}}, "starts with '~'"),
        ({"n": 1, "options": {"deep": {"to": ["notes/a", ["/x"]]}}}, "is absolute"),
        ({"n": 1, "options": {"deep": {"to": 5}}}, "options.deep.to: it must be a text"),
        ({"n": 1, "mode": "b"}, 'mode: it must be one of ["a", 1, false]'),
        ({"n": 1, "mode": True}, "mode: it must be one of"),
        ({"n": 1, "mode": 0}, "mode: it must be one of"),
        ({"n": 1, "path": "a" * MOST_CHARACTERS}, "all: they are longer than"),
        ({"n": {1}}, "all: they are not JSON"),
    ],
)
def test_arguments_are_validated(args: dict[str, Any], told: str | None) -> None:
    fault = argument_error(made(checks=CHECKS, paths=("notes/",), hosts=("x.org",)), args)
    assert fault is None if told is None else fault is not None and told in fault, fault
    if fault is not None:
        assert fault.startswith("The arguments of 'take' are not valid: ")
        assert fault.endswith(" Call it again.")


def test_a_model_cannot_set_injected_state() -> None:
    def look(n: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
        """Looks."""
        return f"{n} {state}"

    tool = made(look)
    assert argument_error(tool, {"n": 1}) is None
    assert "state: there is no such argument" in (argument_error(tool, {"n": 1, "state": {}}) or "")


def test_a_tool_with_open_arguments() -> None:
    def anything(**more: Any) -> str:
        """Takes anything."""
        return str(more)

    assert argument_error(made(anything), {"x": 1}) is None
    assert find_unknown_check(made(anything, checks={"x": {"longest": 1}})) == ""


def schema_tool(schema: dict[str, Any], **definition: Any) -> Tool:
    tool = StructuredTool(name="take", description="Takes.", args_schema=schema, func=take)
    return make_tool(tool, ToolDefinition.model_validate({"run": "m:take", **definition}))


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "q": {"type": "string", "maxLength": 3},
        "by": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["q"],
}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"q": "abc"}, None),
        ({"q": "abc", "by": None}, None),
        ({}, "all: 'q' is a required property"),
        ({"q": "abcd"}, "q: 'abcd' is too long"),
        ({"q": 1}, "q: 1 is not of type 'string'"),
        ({"q": "a", "by": "x"}, "by: 'x' is not"),
        ({"q": "a", "more": 1}, "more: there is no such argument"),
    ],
)
def test_arguments_are_validated_by_a_json_schema(args: dict[str, Any], told: str | None) -> None:
    fault = argument_error(schema_tool(SCHEMA), args)
    assert fault is None if told is None else fault is not None and told in fault, fault


def test_a_schema_reference_is_not_fetched() -> None:
    schema = {"type": "object", "properties": {"q": {"$ref": "http://127.0.0.1:9/schema.json"}}}
    tool = schema_tool(SCHEMA)
    other = replace(tool, tool=tool.tool.model_copy(update={"args_schema": schema}))
    assert "cannot be used" in (argument_error(other, {"q": 1}) or "")


def test_a_check_of_an_unknown_argument_is_found() -> None:
    assert find_unknown_check(made(checks={"pth": "path"})) == "pth"
    assert find_unknown_check(made(checks={"path": "path", "options.x": {"longest": 1}})) == ""


def test_allowlisted_arguments_are_found() -> None:
    tool = made(checks=CHECKS, hosts=("x.org",))
    args = {"n": 1, "path": "a", "url": "https://x.org/", "options": {"deep": {"to": ["b", "c"]}}}
    assert list(find_allowlisted_arguments(tool, "path", args)) == [
        ("path", "a"), ("options.deep.to", "b"), ("options.deep.to", "c")
    ]  # fmt: skip
    assert list(find_allowlisted_arguments(tool, "url", args)) == [("url", "https://x.org/")]


def texts(options: str = "") -> str:
    """Takes an object as text, which it reads by itself."""
    return options


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", None),
        ('{"deep": {"to": "a/b"}, "more": 1}', None),
        ('{"deep": "{\\"to\\": \\"a/b\\"}"}', None),
        ('{"deep": {"to": "../b"}}', "options.deep.to: "),
        ('{"deep": "{\\"to\\": \\"/b\\"}"}', "options.deep.to: "),
        ('[{"deep": []}, {"deep": [{"to": ["a", "/b"]}]}]', "options.deep.to: "),
        ('{"deep": {"to": "a", "to": "/b"}}', "it must be in an object, or in a JSON text"),
        ("deep: {to: /b}", "it must be in an object, or in a JSON text"),
        ("[" * 100_000, "it must be in an object, or in a JSON text"),
    ],
)
def test_checks_apply_inside_json_texts(options: str, told: str | None) -> None:
    tool = made(texts, checks={"options.deep.to": "path"})
    fault = argument_error(tool, {"options": options})
    assert fault is None if told is None else fault is not None and told in fault, fault
    assert all(
        name == "options.deep.to"
        for name, _ in find_allowlisted_arguments(tool, "path", {"options": options})
    )


# -- keys inside arguments -------------------------------------------------------------------------


class Place(BaseModel):
    """Where something is to go, by one of several names."""

    model_config = ConfigDict(populate_by_name=True)
    file_path: str = Field("", alias="path")
    other: str = Field("", validation_alias=AliasChoices("copy", "second"))


def put(
    to: Place | None = None,
    every: list[Place] | None = None,
    by: dict[str, Place] | None = None,
    pair: tuple[Place, int] | None = None,
    text: Place | str = "",
    free: dict[str, Any] | None = None,
) -> str:
    """Puts things."""
    return f"{to} {every} {by} {pair} {text} {free}"


INSIDE = ("to.path", "to.copy", "every.path", "by.x.path", "pair.path", "text.path", "free.path")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (
            {
                "to": {"path": "a", "copy": "b"},
                "every": [{"path": "a"}],
                "by": {"x": {"path": "a"}},
            },
            "",
        ),
        ({"text": "{}", "pair": [{"path": "a"}, 1], "free": {"path": "a", "b": {"c": 1}}}, ""),
        ({"to": {"path": "/a"}}, "to.path: "),
        (
            {"to": {"file_path": "/a"}},
            "to.file_path: there is no such argument. Did you mean 'path",
        ),
        ({"to": {"second": "/a"}}, "to.second: there is no such argument. There are: copy, path."),
        ({"every": [{}, {"file_path": "/a"}]}, "every.file_path: there is no such argument"),
        ({"by": {"x": {"file_path": "/a"}}}, "by.x.file_path: there is no such argument"),
        ({"pair": [{"file_path": "/a"}, 1]}, "pair.file_path: there is no such argument"),
        ({"text": {"file_path": "/a"}}, "text.file_path: there is no such argument"),
        ({"text": '{"file_path": "/a"}'}, "text.file_path: there is no such argument"),
    ],
)
def test_aliases_cannot_avoid_a_check(args: dict[str, Any], told: str) -> None:
    tool = made(put, checks=dict.fromkeys(INSIDE, "path"))
    assert find_unknown_check(tool) == ""
    assert told in (argument_error(tool, args) or "")
    assert (argument_error(tool, args) is None) is (told == "")
    assert argument_error(made(put), args) is None, "nothing is checked"


@pytest.mark.parametrize(
    "name", ["to.pth", "every.pth", "by.x.pth", "pair.p", "to.path.x.y", "x.y"]
)
def test_a_nested_check_of_an_unknown_argument_is_found(name: str) -> None:
    tool = made(put, checks={"free.any.thing": "path", name: "path"})
    assert (find_unknown_check(tool) == name) is (name != "to.path.x.y"), "a text may hold anything"


def test_a_nested_check_of_a_server_tool() -> None:
    kinds: list[tuple[dict[str, Any], str]] = [
        ({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}, "q.b"),
        ({"type": ["array", "null"], "items": {"properties": {"a": {}}}}, "q.b"),
        ({"type": "integer"}, "q.b"),
        ({"type": "object", "additionalProperties": False}, "q.b"),
        ({"type": ["array", "null"]}, ""),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": True}, ""),
        ({"properties": {"a": {}}, "patternProperties": {"^b": {}}}, ""),
        ({"anyOf": [{"properties": {"a": {}}}, {}]}, ""),
        ({}, ""),
    ]
    for schema, told in kinds:
        whole = {"type": "object", "properties": {"q": schema}}
        assert find_unknown_check(schema_tool(whole, checks={"q.b": "path"})) == told, schema


# -- what takes a lifetime -------------------------------------------------------------------------


def checked(pattern: str) -> Tool:
    return made(texts, checks={"options": {"pattern": pattern}})


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "([a-z]{0,60}){0,60}[0-9]", "(.*){20}b"])
def test_no_pattern_blocks_a_worker(pattern: str) -> None:
    begun = time.process_time()
    assert "it must " in (argument_error(checked(pattern), {"options": "a" * 10_000}) or "")
    assert "it must match" in (argument_error(checked(pattern), {"options": "a" * 1_000}) or "")
    assert time.process_time() - begun < 3


def doubling(levels: int) -> dict[str, Any]:
    """A schema in which each level asks for the next one twice."""
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    last = {f"d{levels}": {"type": "string"}}
    return {**SCHEMA, "properties": {"q": {"$ref": "#/$defs/d0"}}, "$defs": twice | last}


HOSTILE: list[tuple[dict[str, Any], Any, str | None]] = [
    (doubling(3), "a", None),
    (doubling(60), "a", "takes too long"),
    ({"$ref": "#/properties/q"}, "a", "cannot be used"),
    ({"required": 5}, {}, "cannot be used"),
    ({"pattern": "^(a+)+$"}, "a" * 9_000 + "b", "q: it does not match"),
    ({"pattern": "^(?!b)"}, "b", None),  # its server looks
    ({"items": {"enum": list(range(2_000))}}, [9] * 100_000, "takes too long"),
    ({"uniqueItems": True}, [{}] * 50_000, "not all different"),
    ({"patternProperties": {"^(a+)+$": {"type": "string"}}}, {"a" * 9_000 + "b": 1}, None),
    ({"patternProperties": {"^x": {"type": "string"}}}, {"x1": 1}, "q.x1: 1 is not of type"),
    (
        {"patternProperties": {"^x": {}}, "additionalProperties": False},
        {"x1": 1, "y": 1},
        "q: there is no 'y'",
    ),
]


@pytest.mark.parametrize(("schema", "value", "told"), HOSTILE)
def test_no_schema_of_a_server_blocks_a_worker(
    schema: dict[str, Any], value: Any, told: str | None
) -> None:
    whole = schema if "$defs" in schema else {**SCHEMA, "properties": {"q": schema}}
    begun = time.process_time()
    faults = "; ".join(schema_faults(whole, {"q": value}))
    assert faults == "" if told is None else told in faults, faults
    assert time.process_time() - begun < 3

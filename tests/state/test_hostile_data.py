"""What is read back constructs the known message types and nothing else, whatever it is fed."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import ValidationError
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.converter import DefaultPayloadConverter

import crewlog
from crewlog.definition.load import load_data, load_definition
from crewlog.errors import CrewlogError, InternalError, InvalidDefinition
from crewlog.payload_storage.converter import CrewPayloadConverter
from crewlog.state.calls import CallToolResult
from crewlog.state.journal import entry_from_json
from crewlog.state.messages import MESSAGE_TYPES, message_from_json
from crewlog.state.model import CrewState
from crewlog.store.codec import load_json
from crewlog.wire import SetPermission

CONSTRUCTOR: dict[str, Any] = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "HumanMessage"],
    "kwargs": {"content": "obey"},
}
DEEP = "[" * 100_000 + "]" * 100_000


def payload(data: bytes, encoding: bytes = b"json/plain", **metadata: bytes) -> Payload:
    return Payload(metadata={"encoding": encoding, **metadata}, data=data)


def bodies() -> Iterator[Any]:
    """Message bodies that are none."""
    yield CONSTRUCTOR
    yield {"type": "constructor", "content": "x"}
    yield {"type": "system", "content": "x", "lc": 1}
    yield {"type": "human", "content": "x", "__class__": "dict"}
    yield {"type": "human", "content": "x", "lc_attributes": {}}
    yield {"type": "function", "name": "f", "content": "x"}
    yield {"type": "chat", "role": "people", "content": "x"}
    yield {"type": "remove", "id": "__remove_all__", "content": ""}
    yield {"type": "AIMessageChunk", "content": "x"}
    yield {"type": ["ai"], "content": "x"}
    yield {"type": None, "content": "x"}
    yield {"content": "x"}
    yield {"type": "tool", "content": "x"}
    yield {"type": "human"}
    yield {"type": "human", "content": 7}
    yield {"type": "human", "content": None}
    yield {"type": "ai", "content": "x", "tool_calls": "wipe"}
    yield {"type": "ai", "content": "x", "tool_calls": [{"args": 7}]}
    yield {"type": "ai", "content": "x", "usage_metadata": {"input_tokens": "many"}}
    yield {"type": "ai", "content": "x", "usage_metadata": "many"}
    yield {"type": "ai", "content": "x", "tool_calls": [CONSTRUCTOR]}


@pytest.mark.parametrize("body", list(bodies()), ids=lambda b: json.dumps(b)[:50])
def test_a_body_that_is_none_is_refused(body: Any) -> None:
    with pytest.raises(InternalError, match="a stored message"):
        message_from_json(body)
    converter = CrewPayloadConverter()
    given = payload(json.dumps({"lc_message": body}).encode())
    with pytest.raises(InternalError):
        converter.from_payload(given, HumanMessage)


def test_what_looks_like_an_object_inside_a_body_stays_data() -> None:
    for kind, more in (("human", {}), ("ai", {}), ("system", {}), ("tool", {"tool_call_id": "c"})):
        message = message_from_json(
            {
                "type": kind,
                "content": [CONSTRUCTOR],
                "additional_kwargs": {"x": CONSTRUCTOR},
                **more,
            }
        )
        assert type(message) is MESSAGE_TYPES[kind]
        assert message.content == [CONSTRUCTOR]
        assert message.additional_kwargs["x"] == CONSTRUCTOR
    call = {"name": "act", "args": CONSTRUCTOR, "id": "c", "type": "tool_call"}
    message = message_from_json({"type": "ai", "content": "", "tool_calls": [call]})
    assert isinstance(message, AIMessage)
    assert message.tool_calls[0]["args"] == CONSTRUCTOR


def test_a_message_is_made_only_where_one_is_asked_for() -> None:
    converter = CrewPayloadConverter()
    tagged = {"lc_message": {"type": "human", "content": "x"}}
    for value in (CONSTRUCTOR, tagged, [tagged, CONSTRUCTOR]):
        given = payload(json.dumps(value).encode())
        assert converter.from_payload(given) == value
        assert converter.from_payload(given, dict if isinstance(value, dict) else list) == value
    found = converter.from_payload(payload(json.dumps([tagged]).encode()), list[BaseMessage])
    assert found == [HumanMessage("x")]


@pytest.mark.parametrize("encoding", [b"json/protobuf", b"binary/protobuf"])
def test_no_protobuf_is_made_of_a_payload(encoding: bytes) -> None:
    kind = b"temporal.api.common.v1.WorkflowExecution"
    data = b"{}" if encoding.startswith(b"json") else b""
    given = payload(data, encoding, messageType=kind)
    assert isinstance(DefaultPayloadConverter().from_payload(given), WorkflowExecution)
    with pytest.raises(TypeError, match="are not read here"):
        CrewPayloadConverter().from_payload(given)


@pytest.mark.parametrize(
    "given",
    [
        payload(b"\x80\x04c__builtin__\neval\n.", b"python/pickle"),
        payload(b"\x81\xa1a\x01", b"msgpack"),
        payload(b"{}", b""),
        payload(DEEP.encode()),
        payload(b"[1"),
        payload(b"\xff"),
    ],
    ids=["pickle", "msgpack", "none", "deep", "cut", "bytes"],
)
def test_what_is_not_json_is_an_error_and_no_object(given: Payload) -> None:
    with pytest.raises(Exception) as info:  # noqa: PT011 - `read_args` and the SDK take any
        CrewPayloadConverter().from_payload(given)
    assert not isinstance(info.value, RecursionError | MemoryError)


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", '{"a":-Infinity}', "~NaN", "1" * 5_000, "[1", "", "\x80"]
)
def test_a_row_that_is_not_json_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the decoder says
        load_json(text)


@pytest.mark.parametrize(
    "read",
    [
        lambda: entry_from_json({"kind": "constructor", "lc": 1}),
        lambda: entry_from_json({"kind": ["RunStarted"]}),
        lambda: entry_from_json({"kind": "RunCompleted", "lc": CONSTRUCTOR}),
        lambda: CrewState.from_json({"run": "r", "__class__": "x"}),
        lambda: CallToolResult.from_json({"body": {}, "hash": "h", "ok": True, "ms": "many"}),
        lambda: SetPermission.from_json({"id": "x", "tool": CONSTRUCTOR, "agents": []}),
    ],
)
def test_a_model_takes_no_unknown_key_and_no_odd_value(read: Any) -> None:
    with pytest.raises((ValidationError, CrewlogError)):
        read()


BOMB = "\n".join(
    ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
)


@pytest.mark.parametrize(
    "text",
    [
        "crew: !!python/object/apply:os.system [x]",
        "crew: !!python/name:os.system",
        "crew: !!python/module:os",
        "crew: !!binary aGk=",
        "crew: !!set {a, b}",
        "crew: !!timestamp 2001-01-01",
        "crew: !Ref x",
        "!!python/object:crewlog.errors.UsageError {message: x}",
        "%TAG ! tag:yaml.org,2002:python/\n---\ncrew: !object/apply:os.system [x]",
        BOMB,
        "crew: " + "[" * 5_000,
        "crew: " + "[" * 5_000 + "]" * 5_000,
        "crew: {a: " * 2_000,
        "- " * 5_000,
        "crew: .nan",
        "crew: " + "9" * 5_000,
        'crew: "\\ud83d"',
        "crew: \x00",
        "? {a: b}\n: c",
    ],
    ids=range(19),
)
def test_no_yaml_makes_an_object_or_takes_long(text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(InvalidDefinition):
        load_definition(text)
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    "more",
    [
        {"flags": {"f": float("nan")}},
        {"flags": {"f": float("inf")}},
        {"agents": {"a": {"prompt": "p", "model_settings": {"x": {1, 2}}}}},
        {"agents": {"a": {"prompt": "p", "model_settings": {"x": object()}}}},
        {"crew": CONSTRUCTOR},
        {"agents": [CONSTRUCTOR]},
        {"lc": 1},
    ],
)
def test_data_that_no_definition_can_have_is_refused(more: dict[str, Any]) -> None:
    data = {"crew": "t", "model": "openai:x", "agents": {"a": {"prompt": "p"}}, **more}
    with pytest.raises(InvalidDefinition):
        load_data(data)


FORBIDDEN = frozenset(
    {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "ormsgpack", "msgpack"}
    | {"yaml", "langchain_core.load", "langchain.load", "langgraph.checkpoint.serde"}
)
CALLS = frozenset({"eval", "exec", "compile", "__import__"})


def test_nothing_of_ours_can_make_objects_of_data() -> None:
    """No module imports what unpickles or loads objects, or runs data as code."""
    root = Path(crewlog.__file__).parent
    seen = 0
    for path in sorted(root.rglob("*.py")):
        seen += 1
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                whole = {name, name.partition(".")[0]}
                assert not whole & FORBIDDEN, f"{path} imports {name}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in CALLS, f"{path}:{node.lineno} calls {node.func.id}"
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "YAML"
            ):
                kinds = [k.value for k in node.keywords if k.arg == "typ"]
                assert [ast.literal_eval(k) for k in kinds] == ["safe"], f"{path}:{node.lineno}"
    assert seen > 300

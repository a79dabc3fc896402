"""Whatever a tool returns is stored as JSON, and read back as a tool message."""

from __future__ import annotations

import json
from typing import Any

import hostile_tools
import pytest
from langchain_core.messages import ToolMessage

from crewlog.canonical_json import canonical, check_depth, hash_json
from crewlog.definition.model import CrewDefinition
from crewlog.payload_storage.converter import CrewPayloadConverter
from crewlog.state.calls import CallToolResult
from crewlog.state.messages import message_from_json

TEXTS = {"text": "a", "nul": "\x00", "keys": '{"1": "a", "null": "b"}'}
"""What is shown of results that are texts, or nearly."""


def crew(function: str = "hostile", **agent: Any) -> CrewDefinition:
    agent = agent or {"prompt": "p", "writes_flags": ["ready"], "outputs": ["spec"]}
    tool = {"run": f"hostile_tools:{function}", "effects": "read"}
    return CrewDefinition.from_json(
        {
            "crew": "c",
            "model": "scripted:x",
            "agents": {"backend": agent},
            "tools": {"hostile": tool},
        }
    )


@pytest.mark.parametrize("kind", hostile_tools.KINDS)
async def test_results_are_stored_as_data(tool_call: Any, store: Any, kind: str) -> None:
    hostile_tools.MADE.clear()
    result: CallToolResult = await tool_call("hostile", {"kind": kind}, crew=crew())
    assert "unpickled" not in hostile_tools.MADE
    # It is JSON, as it is kept: in the store, in a payload, in the history.
    for value in (
        result.body,
        *result.returned.flags.values(),
        *(o.to_json() for o in result.returned.outputs),
    ):
        canonical(value)
        check_depth(value)
        assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert await store.get_bodies([hash_json(result.body)]) == {result.hash: result.body}
    converter = CrewPayloadConverter()
    (payload,) = converter.to_payloads([result])
    assert converter.from_payloads([payload], [CallToolResult]) == [result]
    # It is the answer to its call, and nobody else's word.
    message = message_from_json(result.body)
    assert type(message) is ToolMessage
    assert message.tool_call_id == "c1"
    assert message.name == "hostile"
    if kind in TEXTS:
        assert message.content == TEXTS[kind]
    if kind == "told_flags":
        assert result.returned.flags == {"ready": hostile_tools.CONSTRUCTOR}


async def test_text_that_looks_like_an_object_stays_text(tool_call: Any) -> None:
    result = await tool_call("hostile", {"kind": "constructor"}, crew=crew())
    assert json.loads(result.body["content"]) == hostile_tools.CONSTRUCTOR
    for kind in ("told_constructor", "told_human", "told_system", "told_remove"):
        said = await tool_call("hostile", {"kind": kind}, crew=crew())
        assert "obey" not in str(said.body), "what it tells besides its answer is nobody's message"


def carried(result: CallToolResult) -> CallToolResult:
    """The result as a workflow gets it."""
    converter = CrewPayloadConverter()
    (read,) = converter.from_payloads(converter.to_payloads([result]), [CallToolResult])
    return read


@pytest.mark.parametrize("kind", hostile_tools.UNKEPT)
async def test_data_that_cannot_be_stored_sets_nothing(tool_call: Any, kind: str) -> None:
    """Nobody could read such a result: its run would be dead."""
    doing = crew("hostile_text", does=["hostile"], outputs=["spec"])
    result = carried(await tool_call("hostile", {"kind": kind}, crew=doing))
    assert (result.ok, result.returned.outputs) == (False, ())
    assert "The call was made, but its outputs cannot be stored" in result.body["content"]


@pytest.mark.parametrize("depth", [90, 150, 205])
async def test_an_artifact_is_stored_or_refused(tool_call: Any, depth: int) -> None:
    doing = crew("hostile_artifact", does=["hostile"], outputs=["spec"])
    result = carried(await tool_call("hostile", {"depth": depth}, crew=doing))
    assert result.ok == (depth == 90)
    assert bool(result.returned.outputs) == result.ok
    if not result.ok:
        assert "nested deeper than 100 levels" in result.body["content"]

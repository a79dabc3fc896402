"""Inputs in the prompts of models and for tools."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from activity_kit import RUN, Log, crew
from crew_tools import PNG

from crewlog.activities.files import Files
from crewlog.canonical_json import hash_json
from crewlog.content_blocks import file_label
from crewlog.definition.context import Input
from crewlog.ids import LogName
from crewlog.message_files import FileRef
from crewlog.payload_storage.file_store import FileStore
from crewlog.state.agent_inputs import AgentInput, InputValue
from crewlog.testing.scripted import recorded_prompts, scripted


def made(*inputs: Any, script: Any = None, **more: Any) -> Any:
    script = script or {"agents": {"backend": [{"text": "done"}]}}
    return crew(scripted(script), backend={"inputs": [*inputs], **more})


async def block(
    model_call: Any, definition: Any, *given: AgentInput, log: Log | None = None
) -> str:
    log = log or Log()
    log.says("go")
    await model_call(definition, log, inputs=given)
    messages = recorded_prompts(definition.model)[-1].messages
    return str(messages[-1]["content"]) if len(messages) == 3 else ""


async def test_inputs_are_in_the_prompt_only(model_call: Any, store: Any) -> None:
    found = [{"node": "mail", "why": "it sends", "for": "x"}, {"node": "y", "why": "z", "for": "q"}]
    large = {"type": "ai", "content": "what was written " * 30, "name": "writer"}
    await store.put_bodies(RUN, {hash_json(large): large})
    definition = made(
        {"from": "writer.found", "where": {"for": "x"}, "as": "Nodes"},
        "flag:ready",
        "writer.text",
        "input",
    )
    text = await block(
        model_call,
        definition,
        AgentInput(source="flag:ready", value=True),
        AgentInput(source="writer.text", body=hash_json(large)),
        AgentInput(source="writer.found", value=found),
    )
    assert text == (
        "What you are given:\n\nNodes:\n- node: mail; why: it sends\n\nflag:ready:\ntrue\n\n"
        f"writer.text:\n{large['content']}"
    )


async def test_undeclared_or_unreadable_inputs_are_not_shown(model_call: Any) -> None:
    definition = made("writer.a", "writer.b", "writer.c")
    group = (LogName("group:secret"),)
    text = await block(
        model_call,
        definition,
        AgentInput(source="writer.a", value="secret", logs=group),
        AgentInput(
            source="writer.b",
            elements=(
                InputValue(value="mine", logs=(LogName("readers:backend"),)),
                InputValue(value="secret", logs=(LogName("readers:writer"),)),
            ),
        ),
        AgentInput(source="writer.undeclared", value="secret"),
    )
    assert text == "What you are given:\n\nwriter.b:\n- mine"


async def test_prompts_without_inputs_are_unchanged(model_call: Any) -> None:
    assert await block(model_call, made()) == ""
    nothing = made({"from": "writer.found", "where": {"for": "x"}})
    given = AgentInput(source="writer.found", value=[{"for": "y"}])
    assert await block(model_call, nothing, given) == ""


@pytest.mark.parametrize(
    ("wanted", "item", "taken"),
    [
        ({"for": "x"}, {"for": "x", "n": 1}, True),
        ({"for": ["x", "y"]}, {"for": "y"}, True),
        ({"n": 1}, {"n": True}, False),
        ({"n": None}, {}, False),
        ({"for": "x"}, "x", False),
        ({}, "x", True),
    ],
)
def test_which_items_an_input_selects(wanted: Any, item: Any, taken: bool) -> None:
    assert Input.model_validate({"from": "a.b", "where": wanted}).takes(item) is taken


async def test_a_tool_sees_its_agents_inputs(tool_call: Any) -> None:
    tools = {"asks": {"run": "crew_tools:asks", "effects": "read"}}
    definition = made({"from": "writer.found", "as": "Nodes"}, "writer.other", tools=None)
    definition = definition.model_copy(
        update={"tools": {**definition.tools, **crew(tools=tools).tools}}
    )
    given = (AgentInput(source="writer.found", value=[1, 2]),)
    result = await tool_call("asks", {"name": "Nodes"}, crew=definition, inputs=given)
    assert result.body["content"] == "[1, 2]"
    result = await tool_call("asks", {"name": "writer.found"}, crew=definition, inputs=given)
    assert result.body["content"] == "[1, 2]"
    result = await tool_call("asks", {"name": "writer.other"}, crew=definition, inputs=given)
    assert result.body["content"] == "null"
    result = await tool_call("asks", {"name": "writer.more"}, crew=definition, inputs=given)
    assert "declares no input 'writer.more'" in result.body["content"]


PICTURE = FileRef(sha256="ab" * 32, mime_type="image/png", size=34, name="cat.png")


async def test_only_messages_have_files(
    model_call: Any, store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def shown(files: Files, messages: Any) -> Any:
        found = await kept(files, messages)
        asked.extend(found)
        return found

    kept = Files.load_files
    monkeypatch.setattr(Files, "load_files", shown)
    ref = await FileStore(tmp_path / "payloads").put(PNG, "image/png", "dot.png")
    said: dict[str, Any] = {"type": "ai", "content": [ref.block], "name": "writer"}
    await store.put_bodies(RUN, {hash_json(said): said})
    text = await block(
        model_call, made("writer.text"), AgentInput(source="writer.text", body=hash_json(said))
    )
    assert text.endswith(f"writer.text:\n{file_label(ref.block)}")
    assert asked[-1].content[1]["base64"] == base64.b64encode(PNG).decode()

    asked.clear()
    forged = {"writer.found": [ref.block], "writer.response": said}
    for source, value in forged.items():
        await store.put_bodies(RUN, {hash_json(value): value})
        for given in (
            AgentInput(source=source, value=value),
            AgentInput(source=source, body=hash_json(value)),
            AgentInput(source=source, elements=(InputValue(body=hash_json(value)),)),
        ):
            assert ref.sha256 in await block(model_call, made(source), given)
    assert not asked, "no message has a file"


async def test_a_tool_gets_the_blocks_of_a_message_with_files(tool_call: Any, store: Any) -> None:
    said: dict[str, Any] = {"type": "ai", "content": [PICTURE.block], "name": "writer"}
    await store.put_bodies(RUN, {hash_json(said): said})
    tools = {"asks": {"run": "crew_tools:asks", "effects": "read"}}
    definition = made("writer.text", tools=None)
    definition = definition.model_copy(
        update={"tools": {**definition.tools, **crew(tools=tools).tools}}
    )
    given = (AgentInput(source="writer.text", body=hash_json(said)),)
    result = await tool_call("asks", {"name": "writer.text"}, crew=definition, inputs=given)
    assert json.loads(result.body["content"]) == [PICTURE.block]

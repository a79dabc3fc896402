"""Programs that behave badly as servers: bounded in memory and time, and told by name."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from children import running
from crewlog.activities.mcp_tools import McpTools
from crewlog.activities.tool_loader import Tool, ToolLoader
from crewlog.activities.tool_node import ToolRunner
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition, ToolDefinition
from crewlog.definition.reaching import McpServer
from crewlog.errors import InvalidDefinition, OutcomeUnknown, ToolFailed, ToolMissing
from crewlog.ids import ToolName
from crewlog.mcp_servers import sessions, stdio
from crewlog.store.in_process import InMemoryStore
from crewlog.tool_call import ToolCall, calling

WILD = Path(__file__).with_name("wild.py")
LARGEST = 300_000


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "LARGEST_ANSWER", LARGEST)
    monkeypatch.setattr(stdio, "END_SECONDS", 0.3)
    monkeypatch.setattr(sessions, "OPEN_SECONDS", 1.5)
    monkeypatch.setattr(sessions, "CLOSE_SECONDS", 2.0)


@asynccontextmanager
async def wild(
    how: str, *answer: str, **more: Any
) -> AsyncGenerator[tuple[ToolLoader, McpServer, Any]]:
    """A worker's tools, with one that is of a server that behaves like that."""
    server = McpServer(command=sys.executable, args=(str(WILD), how, *answer))
    store = InMemoryStore()
    tame = sessions.Session("s", McpServer(command=sys.executable, args=(str(WILD), "x:x")))
    try:
        said = await tame.list_tools()
    finally:
        await tame.close()
    await store.approve_tool(server.source, "do", said["do"].hash, "me", 1, "any")
    mcp = McpTools(store)
    registry = ToolLoader(mcp=lambda: mcp)
    definition = ToolDefinition.model_validate({"run": "mcp:s/do", **more})

    async def ready() -> Tool:
        crew = CrewDefinition.model_construct(tools={"do": definition}, mcp={"s": server})
        return await registry.load(ToolName("do"), crew, for_call=True)

    try:
        yield registry, server, ready
    finally:
        await registry.close()
    assert running(WILD) == []


async def call(tool: Tool, folder: Path) -> str:
    return (await called(tool, folder)).text


async def called(tool: Tool, folder: Path) -> Any:
    """The message that a call comes to."""
    known: Any = {"run": "r", "step": "a#1", "call": 1, "key": "r/a#1/1", "agent": "a"}
    with calling(ToolCall(**known, id="c", tool=ToolName("do"), workspace=folder)):
        return (await ToolRunner().run(tool, "c", {}, {})).message


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("initialize:endless", "it answers with more than 300,000 bytes"),
        ("tools/list:endless", "it answers with more than 300,000 bytes"),
        ("tools/list:noise", "it writes more than 300,000 bytes without a request"),
        ("tools/list:notes", "it writes more than 300,000 bytes without a request"),
        ("initialize:hang", "no answer in 1.5 s"),
        ("tools/list:deaf", "no answer in 1.5 s"),
        ("initialize:die", "it ended with the exit code 3; its last output: out of[1m paper"),
        ("tools/list:die", "it ended with the exit code 3; its last output: out of[1m paper"),
    ],
)
async def test_a_server_that_cannot_be_listened_to_is_away(how: str, told: str) -> None:
    async with wild(how) as (_, server, ready):
        began = time.monotonic()
        with pytest.raises(ToolMissing) as missing:
            await ready()
        assert time.monotonic() - began < 12  # two tries, and their ends
    assert missing.value.message.startswith("the MCP server 's' does not answer: ")
    assert told in missing.value.message
    assert server.source in missing.value.remedy
    assert missing.value.call_again


@pytest.mark.parametrize("how", ["tools/list:slow", "tools/call:slow", "tools/call:complain"])
async def test_a_server_that_is_slow_or_complains_is_heard(how: str, tmp_path: Path) -> None:
    """What it writes to its standard error holds nobody up, and fills nothing."""
    async with wild(how) as (_, _, ready):
        assert await call(await ready(), tmp_path) == "done"
        assert await call(await ready(), tmp_path) == "done"


@pytest.mark.parametrize("how", ["die", "endless", "notes"])
async def test_who_goes_in_mid_call_is_told_by_name(how: str, tmp_path: Path) -> None:
    async with wild(f"tools/call:{how}") as (_, _, ready):
        with pytest.raises(OutcomeUnknown, match="the MCP server 's' disconnected while") as gone:
            await asyncio.wait_for(call(await ready(), tmp_path), 8)
        assert "Find out whether it happened" in gone.value.remedy
        await ready()  # it is started anew
    async with wild(f"tools/call:{how}", effects="read") as (_, _, ready):
        with pytest.raises(ToolFailed, match="the MCP server 's' disconnected while") as failed:
            await asyncio.wait_for(call(await ready(), tmp_path), 8)
        assert failed.value.retryable


async def test_a_call_that_hangs_holds_up_nobody_else(tmp_path: Path) -> None:
    """It is the tool's own time limit that ends the call; then the server is started anew."""
    async with wild("tools/call:hang") as (_, _, ready):
        tool = await ready()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await call(tool, tmp_path)
        await ready()


async def test_of_two_calls_at_once_both_are_told(tmp_path: Path) -> None:
    async with wild("tools/call:die") as (_, _, ready):
        tool = await ready()
        both = [asyncio.create_task(call(tool, tmp_path)) for _ in range(2)]
        done, left = await asyncio.wait(both, timeout=8)
        assert not left
        assert all(isinstance(each.exception(), OutcomeUnknown) for each in done)


def kept(folder: Path, answer: dict[str, Any]) -> str:
    """The file with what a server answers to calls."""
    (folder / "answer.json").write_text(json.dumps(answer))
    return str(folder / "answer.json")


def text(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": each} for each in texts]


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({"content": [], "structuredContent": {"n": 3}}, '{"n": 3}'),
        ({"content": [], "structuredContent": {"wait": 30}, "isError": True}, '{"wait": 30}'),
        ({"content": text("see data"), "structuredContent": {"n": [1]}}, 'see data{"n": [1]}'),
        # What a text says anyway is not told twice, as the SDK's servers say it.
        ({"content": text('{\n "n": 3}'), "structuredContent": {"n": 3}}, '{\n "n": 3}'),
        ({"content": text("3"), "structuredContent": {"result": 3}}, "3"),
        ({"content": text("3"), "structuredContent": {"result": "3"}}, "3"),
        ({"content": text("1", "2"), "structuredContent": {"result": [1, 2]}}, "12"),
        ({"content": [], "structuredContent": {}}, "{}"),
        ({"content": []}, "(nothing)"),
        ({"content": [], "structuredContent": {"a\u202e": "b\x1b[1m"}}, '{"a": "b[1m"}'),
        (
            {"content": text("x"), "structuredContent": nested(150)},
            "x(its structured content is left",
        ),
    ],
)
async def test_structured_content_is_told(
    result: dict[str, Any], told: str, tmp_path: Path
) -> None:
    async with wild("x:x", kept(tmp_path, {"result": result})) as (_, _, ready):
        message = await called(await ready(), tmp_path)
    assert message.text.startswith(told)
    assert message.status == ("error" if result.get("isError") else "success")


async def test_large_structured_content_is_cut(tmp_path: Path) -> None:
    data = {"rows": ["x" * 100] * 2_500}  # less than `LARGEST` bytes
    answer = kept(tmp_path, {"result": {"content": [], "structuredContent": data}})
    async with wild("x:x", answer) as (_, _, ready):
        message = await called(await ready(), tmp_path)
    assert len(message.text) < 201_000
    assert message.text.startswith('{"rows": ["xxx')
    assert message.text.endswith("characters)")


async def test_an_answer_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    answer = kept(tmp_path, {"result": {"content": [], "structuredContent": nested(250)}})
    async with wild("x:x", answer) as (_, _, ready):
        with pytest.raises(ToolFailed, match=r"its response is invalid: .*recursion"):
            await asyncio.wait_for(call(await ready(), tmp_path), 10)


async def test_a_refusal_is_told_with_its_data(tmp_path: Path) -> None:
    error = {"code": -32602, "message": "no such\x1b row", "data": {"rows": 3}}
    async with wild("x:x", kept(tmp_path, {"error": error})) as (_, _, ready):
        with pytest.raises(ToolFailed) as refused:
            await call(await ready(), tmp_path)
    assert refused.value.message == 'no such row\n{"rows": 3}'


def test_two_servers_with_a_tool_of_the_same_name() -> None:
    server = {"command": "x", "tools": ["do"]}
    agent = {"prompt": "p", "tools": ["do"]}
    crew = {
        "crew": "x",
        "model": "openai:gpt-5-mini",
        "agents": {"a": agent},
        "mcp": {"one": server, "two": server},
    }
    with pytest.raises(InvalidDefinition, match="'two' brings a tool 'do', and there is one"):
        load_data(crew)

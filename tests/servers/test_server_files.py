"""Files in the results of MCP servers: pictures, sounds and documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from crewlog.activities.files import Files
from crewlog.activities.mcp_tools import McpTools
from crewlog.activities.tool_loader import ToolLoader
from crewlog.activities.tool_node import ToolRunner
from crewlog.definition.model import CrewDefinition, ToolDefinition
from crewlog.definition.reaching import McpServer
from crewlog.ids import ToolName
from crewlog.message_files import files_of
from crewlog.payload_storage.file_store import FileStore
from crewlog.store.in_process import InMemoryStore
from crewlog.tool_call import ToolCall, calling

DATA = b"the bytes of a file"


async def test_files_of_a_server_are_kept_by_their_hashes(tmp_path: Path) -> None:
    program = Path(__file__).with_name("picture_server.py")
    server = McpServer(command=sys.executable, args=(str(program),))
    store = InMemoryStore()
    mcp = McpTools(store)
    registry = ToolLoader(mcp=lambda: mcp)
    try:
        said = await mcp._sessions.of("s", server).list_tools()
        await store.approve_tool(server.source, "draw", said["draw"].hash, "me", 1, "any")
        definition = ToolDefinition.model_validate({"run": "mcp:s/draw"})
        crew = CrewDefinition.model_construct(tools={"draw": definition}, mcp={"s": server})
        tool = await registry.load(ToolName("draw"), crew, for_call=True)
        call: Any = {"run": "r", "step": "a#1", "call": 1, "key": "r/a#1/1", "agent": "a"}
        with calling(ToolCall(**call, id="c", tool=ToolName("draw"), workspace=tmp_path)):
            message = (await ToolRunner().run(tool, "c", {}, {})).message
    finally:
        await registry.close()
    kept = FileStore(tmp_path / "payloads")
    body = {"content": (await Files(kept).store_files(message)).content}
    assert body["content"][0]["text"] == "Look:"  # type: ignore[index]
    found = files_of(body)  # type: ignore[arg-type]
    assert [each.mime_type for each in found] == ["image/png", "audio/wav", "application/pdf"]
    assert [block["type"] for block in body["content"][1:]] == ["image", "audio", "file"]  # type: ignore[index]
    for each in found:
        assert await kept.get(each.sha256) == DATA

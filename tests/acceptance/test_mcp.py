"""A crew with tools of an MCP server: blocked as long as nobody has approved what they say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from covers import covers
from crewlog.definition.reaching import McpServer
from crewlog.servers.sessions import Sessions
from crewlog.store import Store

from .harness import LIMIT, Site, calls

SERVER = Path(__file__).parents[1] / "servers" / "server.py"


async def approve(store: Store, server: McpServer) -> None:
    """As `crewlog mcp approve` does."""
    sessions = Sessions()
    said = await sessions.of("s", server).tools()
    await sessions.close()
    await store.approve_tool(server.source, "add", said["add"].digest, "me", 1, "any")


@covers("C42", "C43", "C74")
async def test_a_tool_is_blocked_until_it_is_approved(crews: Site, tmp_path: Path) -> None:
    site = crews
    server = McpServer(
        command=sys.executable, args=(str(SERVER),), env={"STATE": str(tmp_path / "state")}
    )
    replies: list[Any] = [
        calls(("sum", {"a": 1, "b": 2})),
        calls(("sum", {"a": 1, "b": 200}), ("sum", {"a": 1, "b": 2, "to": "evil.example"})),
        {"text": "A"},
    ]
    crew = site.crew(
        {"a": replies}, tools={"sum": {"run": "mcp:s/add"}}, mcp={"s": server.to_json()}, flow=["a"]
    )
    run = await site.start(crew)
    view = await run.wait_until(
        lambda view: "nobody has approved the tool 'sum'" in view.waiting_for, LIMIT
    )
    assert "waits for a person to approve the tool 'sum': " in view.waiting_for
    assert not (tmp_path / "calls").exists()
    await approve(site.store, server)
    result = await run.result(LIMIT)
    assert result.outputs["a"]["text"] == "A"
    # Arguments outside of the server's schema never reach it.
    assert (tmp_path / "calls").read_text() == "1+2\n"

"""The MCP server that ships with the hub, spoken with as a worker speaks with it."""

from __future__ import annotations

import re
import sys

from crewlog.definition.reaching import McpServer
from crewlog.mcp_servers.sessions import Sessions, call_tool

from .conftest import EXAMPLES


async def test_it_tells_how_the_machine_is() -> None:
    server = McpServer(
        command=sys.executable, args=(str(EXAMPLES / "ops_hub" / "machine_server.py"),)
    )
    sessions = Sessions()
    session = sessions.of("machine", server)
    try:
        found = await session.list_tools()
        async with session.use() as opened:
            free = await session.wait_for(call_tool(opened, "disk", {"path": "/"}))
            nowhere = await session.wait_for(call_tool(opened, "disk", {"path": "/no/such"}))
            load = await session.wait_for(call_tool(opened, "load", {}))
    finally:
        await sessions.close()
    assert sorted(found) == ["disk", "load", "memory", "uptime"]
    assert not any(each.fault for each in found.values())
    assert re.search(r"of [\d.]+ GiB are free", free.content[0].text)
    assert nowhere.isError
    assert load.content[0].text.startswith("Load ")

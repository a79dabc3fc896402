"""Whether the MCP servers of a crew can be used from here: they answer and offer the crew's tools.

A server that is a program is started for the look and ended again. All are asked at the same time,
and none is waited for longer than `LIMIT`.
"""

from __future__ import annotations

import asyncio

from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.reaching import McpServer, mcp_tool
from crewlog.dev.doctor import Check
from crewlog.errors import CrewlogError
from crewlog.mcp_servers.sessions import Sessions

LIMIT = 10.0
"""Seconds that a server has to start and to list its tools."""


async def check_servers(crew: CrewDefinition, limit: float = LIMIT) -> list[Check]:
    """Looks at each MCP server that a crew names.

    Args:
        crew: The crew.
        limit: How long each server may take, in seconds.
    """
    sessions = Sessions()
    try:
        looks = (_look(sessions, crew, name, each, limit) for name, each in crew.mcp.items())
        return list(await asyncio.gather(*looks))
    finally:
        await sessions.close()


async def _look(
    sessions: Sessions, crew: CrewDefinition, name: str, server: McpServer, limit: float
) -> Check:
    title = f"MCP server {name}"
    try:
        async with asyncio.timeout(limit):
            offered = await sessions.of(name, server).list_tools()
    except TimeoutError:
        remedy = f"Start it, or correct it under 'mcp:'. It is {server.source!r}."
        return Check(title, "fail", f"does not answer in {limit:g} s", remedy)
    except CrewlogError as error:
        return Check(title, "fail", error.message, error.remedy)
    named = [mcp_tool(tool.run) for tool in crew.tools.values()]
    mine = [each[1] for each in named if each is not None and each[0] == name]
    missing = [tool for tool in mine if tool not in offered]
    faulty = [tool for tool in mine if tool in offered and offered[tool].fault]
    if missing or faulty:
        told = [f"does not offer {listed(map(repr, missing))}"] if missing else []
        told += [f"{tool!r} cannot be used: {offered[tool].fault}" for tool in faulty]
        return Check(title, "fail", "; ".join(told), "`crewlog mcp list FILE` says what it offers.")
    return Check(title, "ok", f"answers; tools of the crew that it offers: {len(mine)}")

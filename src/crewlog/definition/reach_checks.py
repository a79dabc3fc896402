"""What is wrong with what tools may touch, and with the servers that they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crewlog.definition.findings import Finding, Path, did_you_mean
from crewlog.definition.matching import NotLinear, pattern_of
from crewlog.definition.model import CrewDefinition, ToolDefinition
from crewlog.definition.reaching import McpServer, mcp_tool


def reach_findings(definition: CrewDefinition) -> Iterator[Finding]:
    """Faults of `checks`, and of tools that servers have."""
    yield from tool_faults(definition.tools, definition.mcp)


def tool_faults(
    tools: Mapping[str, ToolDefinition], servers: Mapping[str, McpServer]
) -> Iterator[Finding]:
    """The same of the tools of whatever offers them."""
    for name, tool in tools.items():
        path: Path = ("tools", name)
        for argument, check in tool.checks.items():
            if check.pattern is not None and (fault := _pattern_fault(check.pattern)):
                say = f"the pattern of {argument!r} of the tool {name!r} cannot be used: {fault}"
                remedy = "Write one without it: patterns are those of Rust's regex."
                yield Finding((*path, "checks", argument), say, remedy)
            if check.is_ == "url" and not tool.hosts:
                say = f"tool {name!r} checks the URL {argument!r}, and may reach no host"
                remedy = 'Name its hosts, e.g. hosts: [api.example.org], or hosts: ["*"].'
                yield Finding((*path, "checks", argument), say, remedy)
        found = mcp_tool(tool.run)
        if found is None:
            continue
        if found[0] not in servers:
            say = f"tool {name!r} is of the MCP server {found[0]!r}, which is not defined."
            remedy = did_you_mean(found[0], servers, "Servers are under 'mcp:'.")
            yield Finding((*path, "run"), say, remedy, word=found[0])
        if tool.placed == "local":
            say = f"the tool {name!r} is placed local, and is of an MCP server"
            yield Finding((*path, "placed"), say, "Remove 'placed': servers may take their time.")


def _pattern_fault(text: str) -> str:
    try:
        pattern_of(text)
    except NotLinear as error:
        return str(error)
    return ""

"""What `doctor` finds of the MCP servers of a crew."""

from __future__ import annotations

import sys
from pathlib import Path

from crewlog.definition.load import load_definition
from crewlog.dev.tool_servers import check_servers

SERVER = Path(__file__).parents[1] / "servers" / "server.py"
CREW = """
crew: c
model: openai:gpt-5-mini
agents:
  a: {{prompt: Add., tools: [add, ad, x, y]}}
tools:
  add: {{run: "mcp:good/add"}}
  ad: {{run: "mcp:lacking/ad"}}
  x: {{run: "mcp:gone/x"}}
  y: {{run: "mcp:mute/y"}}
mcp:
  good: {{command: {python}, args: [{server}], env: {{STATE: {state}}}}}
  lacking: {{command: {python}, args: [{server}], env: {{STATE: {state}}}}}
  gone: {{command: no-such-program}}
  mute: {{command: {python}, args: ["-c", "import sys; sys.stdin.read()"]}}
"""


async def test_each_server_is_started_and_asked_for_the_tools_of_the_crew(tmp_path: Path) -> None:
    text = CREW.format(python=sys.executable, server=SERVER, state=tmp_path / "state")
    checks = await check_servers(load_definition(text), limit=5)
    found = {each.name.removeprefix("MCP server "): each for each in checks}
    assert {name: each.status for name, each in found.items()} == {
        "good": "ok",
        "lacking": "fail",
        "gone": "fail",
        "mute": "fail",
    }
    assert found["lacking"].detail == "does not offer 'ad'"
    assert "the program 'no-such-program' is not installed here" in found["gone"].detail
    assert found["mute"].detail == "does not answer in 5 s"

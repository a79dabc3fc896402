"""A crew with tools of an MCP server: blocked as long as nobody has approved what they say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from covers import covers
from crewlog.definition.reaching import McpServer
from crewlog.errors import RunFailed
from crewlog.mcp_servers.descriptions import describe_tool
from crewlog.mcp_servers.sessions import Sessions
from crewlog.store import Store

from .harness import LIMIT, Site, calls

SERVER = Path(__file__).parents[1] / "servers" / "server.py"
WILD = SERVER.with_name("wild.py")
DIGEST = describe_tool("do", None, {"type": "object"}).hash


def answering(site: Site, folder: Path, result: dict[str, Any], **tool: Any) -> dict[str, Any]:
    """A crew whose agent calls the tool of a server that answers just that."""
    answer = folder / "answer.json"
    answer.write_text(json.dumps({"result": result}))
    crew = site.crew(
        {"a": [calls(("do", {})), {"text": "A"}]},
        tools={"do": {"run": "mcp:s/do", "approved": DIGEST, "retry": "safe", **tool}},
        mcp={"s": {"command": sys.executable, "args": [str(WILD), "x:x", str(answer)]}},
        flow=["a"],
    )
    crew["agents"]["a"]["on_error"] = "fail"
    return crew


async def approve(store: Store, server: McpServer) -> None:
    """As `crewlog mcp approve` does."""
    sessions = Sessions()
    said = await sessions.of("s", server).list_tools()
    await sessions.close()
    await store.approve_tool(server.source, "add", said["add"].hash, "me", 1, "any")


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
        lambda view: "nobody has approved the tool 'sum'" in view.wait_reason, LIMIT
    )
    assert "waits for a person to approve the tool 'sum': " in view.wait_reason
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    assert (asked.kind, asked.step) == ("mcp_approval", "a#1")
    assert "the tool 'sum'" in asked.question
    assert "crewlog mcp approve FILE s add" in asked.detail
    assert not (tmp_path / "calls").exists()
    await approve(site.store, server)
    result = await run.result(LIMIT)
    assert result.outputs["a"]["text"] == "A"
    answers = await site.entries(run, "InterruptAnswered")
    assert [(each.interrupt, each.decision) for each in answers] == [(asked.id, "approved")]
    # Arguments outside of the server's schema never reach it.
    assert (tmp_path / "calls").read_text() == "1+2\n"


async def test_a_tool_that_its_server_does_not_offer_asks_people(
    crews: Site, tmp_path: Path
) -> None:
    server = McpServer(
        command=sys.executable, args=(str(SERVER),), env={"STATE": str(tmp_path / "state")}
    )
    tools = {"sum": {"run": "mcp:s/ad"}}
    crew = crews.crew({"a": [{"text": "A"}]}, tools=tools, mcp={"s": server.to_json()}, flow=["a"])
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    told = f"{asked.question} {asked.detail}"
    assert "the MCP server 's' does not offer a tool 'ad'" in told
    assert "Did you mean 'add'?" in told
    assert "worker" not in (await run.status()).wait_reason
    await run.stop()
    crew["agents"]["a"]["on_error"] = "fail"
    with pytest.raises(RunFailed, match="does not offer a tool 'ad'"):
        await (await crews.start(crew)).result(LIMIT)


async def test_structured_content_sets_the_outputs_of_an_agent_without_a_model(
    crews: Site, tmp_path: Path
) -> None:
    data = {"pieces": 7, "operations": "none"}
    crew = answering(crews, tmp_path, {"content": [], "structuredContent": data})
    crew["agents"]["a"] = {"does": ["do"], "tools": ["do"], "outputs": ["pieces"]}
    _, result = await crews.finish(crew)
    assert result.outputs["a"]["pieces"] == 7


@pytest.mark.parametrize("on_error", ["model", "fail"])
async def test_an_error_of_a_server_is_told_or_fails_its_step(
    on_error: str, crews: Site, tmp_path: Path
) -> None:
    result = {"content": [], "structuredContent": {"wait": 30}, "isError": True}
    crew = answering(crews, tmp_path, result, on_error=on_error)
    if on_error == "fail":
        run = await crews.start(crew)
        with pytest.raises(RunFailed, match=r'the tool .do. raised {"wait": 30}'):
            await run.result(LIMIT)
        return
    run, ended = await crews.finish(crew)
    assert ended.status == "completed"
    told = crews.prompted(run)[-1]["messages"][-1]
    assert '{"wait": 30}' in str(told["content"])

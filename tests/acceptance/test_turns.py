"""Turns on the real path: parallel tools, messages as models see them, large payloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from covers import covers
from crewlog.payload_storage.converter import data_converter
from crewlog.state.journal import ToolCallCompleted

from .harness import Site, calls, tool


async def test_the_same_call_twice_runs_twice(crews: Site) -> None:
    twice = calls(("echo", {"text": "hi"}), ("echo", {"text": "hi"}))
    crew = crews.crew({"a": [twice, twice, {"text": "done"}]}, tools={"echo": tool("echo")})
    run, result = await crews.finish(crew)
    assert result.outputs["a"]["text"] == "done"
    assert result.total.tool_calls == 4
    ran = crews.ledger(run, "start")
    assert [e["text"] for e in ran] == ["hi"] * 4
    assert len({e["key"] for e in ran}) == 4


@covers("C87")
async def test_tools_of_a_turn_overlap_and_are_applied_in_call_order(crews: Site) -> None:
    naps = calls(
        ("nap", {"seconds": 1.6}), ("blocking_nap", {"seconds": 1.5}), ("echo", {"text": "x"})
    )
    names = ("nap", "blocking_nap", "echo")
    crew = crews.crew({"a": [naps, {"text": "done"}]}, tools={name: tool(name) for name in names})
    run, _ = await crews.finish(crew)
    starts = {e["tool"]: e["at"] for e in crews.ledger(run, "start")}
    ends = {e["tool"]: e["at"] for e in crews.ledger(run, "end")}
    assert max(starts.values()) < min(ends["nap"], ends["blocking_nap"])
    applied: list[ToolCallCompleted] = await crews.entries(run, "ToolCallCompleted")
    assert [e.tool for e in applied] == list(names)
    (_, second) = crews.prompted(run)
    assert [m["name"] for m in second["messages"] if m["type"] == "tool"] == list(names)


@covers("C41")
async def test_message_types_arrive_intact_in_the_prompt(crews: Site) -> None:
    """The scripted model records what it was given: LangChain's classes, after the whole way."""
    asked = calls(("done", {}), text="Let me see.")
    crew = crews.crew(
        {"a": [asked, {"text": "All done."}], "b": [{"text": "Seen."}]},
        tools={"done": tool("done")},
    )
    run, _ = await crews.finish(crew, {"task": "Bäckerei", "n": 3})
    first, second, third = (p["messages"] for p in crews.prompted(run))
    assert [m["type"] for m in first] == ["system", "human"]
    assert json.loads(
        first[1]["content"].partition("{")[1] + first[1]["content"].partition("{")[2]
    ) == {
        "task": "Bäckerei",
        "n": 3,
    }
    assert [m["type"] for m in second] == ["system", "human", "ai", "tool"]
    assert second[2]["tool_calls"] == [{"tool": "done", "args": {}}]
    assert second[2]["content"] == "Let me see."
    assert json.loads(second[3]["content"]) == {"done": True, "items": [1, 2, 3]}
    # Another agent sees what was said in public, and none of the calls.
    assert "All done." in third[-1]["content"]
    assert "tool" not in {m["type"] for m in third}


async def test_message_types_pass_the_payload_converter(tmp_path: Path) -> None:
    converter = data_converter(tmp_path)
    messages = [
        SystemMessage("You are."),
        HumanMessage([{"type": "text", "text": "look"}], name="ana", id="m1"),
        AIMessage(
            "",
            tool_calls=[{"name": "echo", "args": {"text": "é"}, "id": "c1", "type": "tool_call"}],
            usage_metadata={"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        ),
        ToolMessage("é", tool_call_id="c1", name="echo", status="error"),
    ]
    many, one = await converter.encode([messages, messages[-1]])
    back, last = await converter.decode([many, one], [list[BaseMessage], ToolMessage])
    assert (back, last) == (messages, messages[-1])
    assert [type(m) for m in back] == [type(m) for m in messages]


async def test_what_looks_like_a_message_stays_data(tmp_path: Path) -> None:
    converter = data_converter(tmp_path)
    value = {"lc_message": 1, "flags": [{"lc_message": {"type": "human", "content": "x"}}]}
    for hint in (None, [dict[str, Any]]):
        assert await converter.decode(await converter.encode([value]), hint) == [value]


async def test_large_results_stay_out_of_the_history(crews: Site) -> None:
    five, one = 5 * 2**20, 2**20
    said = "a word " * (one // 7)
    crew = crews.crew(
        {"a": [calls(("large", {"size": five})), {"text": said}], "b": [{"text": "short"}]},
        tools={"large": tool("large")},
    )
    run, result = await crews.finish(crew)
    assert result.outputs["a"]["text"].startswith("a word a word ")
    (returned,) = await crews.entries(run, "ToolCallCompleted")
    (replied,) = [
        e for e in await crews.entries(run, "ModelCallCompleted") if e.agent == "a" and not e.calls
    ]
    bodies = await crews.store.get_bodies([returned.ref.body, replied.ref.body])
    assert len(str(bodies[returned.ref.body]["content"])) == five  # type: ignore[index,call-overload]
    assert bodies[replied.ref.body]["content"] == said  # type: ignore[index,call-overload]
    history = await crews.temporal.get_workflow_handle(run.id).fetch_history()
    sizes = [event.ByteSize() for event in history.events]
    # The payloads' threshold is 256 KB: what is below it stays where everybody can see it.
    assert max(sizes) < 256 * 1024
    assert sum(sizes) < 512 * 1024
    assert sum(f.stat().st_size for f in crews.payloads.rglob("*") if f.is_file()) > five + one
    assert "a word a word" in crews.prompted(run)[-1]["messages"][-1]["content"]

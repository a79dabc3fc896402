"""What a crew remembers, over runs on a real server: by whom, from whom, and after a rollback."""

from __future__ import annotations

from typing import Any

import pytest

from covers import covers
from crewlog.errors import InvalidArguments, RunNotFound
from crewlog.ids import AgentName

from .harness import LIMIT, Site, calls


def notes(text: str, scope: str = "public", key: str = "") -> dict[str, Any]:
    memory = {"text": text} | ({"key": key} if key else {})
    return calls(("memory_write", {"memories": [memory], "scope": scope}))


LOOKS = calls(("memory_read", {"query": "canary"}), ("memory_read", {"scope": "agent:a"}))


async def tool_messages(site: Site, run: Any, agent: str) -> list[str]:
    last = [p for p in site.prompted(run) if p["agent"] == agent][-1]
    return [m["content"] for m in last["messages"] if m["type"] == "tool"]


@covers("C27")
async def test_a_later_run_reads_what_its_scopes_allow(crews: Site) -> None:
    rules = {"a": {"reads": ["public"]}, "b": {"reads": [], "writes": ["public"]}}
    memory = {"read": {"agent": None, "public": None}, "write": {"agent": ["a"], "public": None}}
    crew: dict[str, Any] = {"rules": rules, "memory": memory}
    first, result = await crews.finish(
        crews.crew(
            {
                "a": [notes("canary of a", "agent:a"), {"text": "A"}],
                "b": [notes("canary of all", "public"), {"text": "B"}],
            },
            **crew,
        )
        | {"crew": "remembers"}
    )
    assert result.status == "completed"
    second, result = await crews.finish(
        crews.crew({"a": [LOOKS, {"text": "A"}], "b": [LOOKS, {"text": "B"}]}, **crew)
        | {"crew": "remembers"}
    )
    assert result.status == "completed"
    both, own = await tool_messages(crews, second, "a")
    assert "canary of a" in both
    assert "canary of all" in both
    assert '"author": "b"' in both
    assert f'"run": "{first.id}"' in both
    assert "canary of a" in own
    assert "canary of all" not in own
    for said in await tool_messages(crews, second, "b"):
        assert "canary" not in said, "it reads no log but its own"
    # What the tools answered is in nobody's prompt but that of who asked.
    prompts = [p for p in crews.prompted(second) if p["agent"] == "b"]
    assert not any("canary of" in str(m["content"]) for p in prompts for m in p["messages"])
    await crews.client().delete(first.id, memories=True)
    crews.runs.remove(first)
    assert await crews.client().memory.newest("remembers") == []
    try:
        await first.status()
    except RunNotFound:
        pass
    else:
        raise AssertionError("the run is deleted")


async def test_a_permission_and_an_approval_hold_for_it(crews: Site) -> None:
    crew = crews.crew(
        {"a": [notes("one", key="k"), {"text": "A"}], "b": [notes("two"), {"text": "B"}]},
        memory={},
        permissions={"memory_write": ["a"]},
        approvals={"memory_write": None},
    ) | {"crew": "asks"}
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (question,) = await run.interrupts()
    assert question.action_requests[0]["name"] == "memory_write"
    assert await crews.client().memory.newest("asks") == []
    await run.answer(question.id, "approve", by="ana")
    assert (await run.result(LIMIT)).status == "completed"
    (memory,) = await crews.client().memory.newest("asks")
    assert (memory.key, memory.text, memory.author.agent) == ("k", "one", AgentName("a"))
    assert memory.author.step == "a#1"


async def test_what_is_to_be_remembered_can_be_edited(crews: Site) -> None:
    crew = crews.crew(
        {"a": [notes("one", key="k"), {"text": "A"}]}, memory={}, approvals={"memory_write": None}
    ) | {"crew": "edits"}
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (question,) = await run.interrupts()
    args = question.action_requests[0]["args"]
    wrong, right = ({"text": text, "key": "k"} for text in ("", "two"))
    with pytest.raises(InvalidArguments, match=r"memories\.0\.text"):
        await run.edit_call(question.id, "memory_write", {**args, "memories": [wrong]})
    await run.edit_call(question.id, "memory_write", {**args, "memories": [right]})
    assert (await run.result(LIMIT)).status == "completed"
    (memory,) = await crews.client().memory.newest("edits")
    assert memory.text == "two"


async def test_a_rollback_leaves_what_was_remembered_and_writes_anew(crews: Site) -> None:
    crew = crews.crew(
        {"a": [{"text": "A"}], "b": [notes("noted"), {"text": "B"}]},
        memory={},
        flow=["a", "b", {"ask": "Well?"}],
    ) | {"crew": "goes-back"}
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (place,) = (c.position for c in (await run.checkpoints()).checkpoints if c.step == "a#1")
    await run.rollback(place, by="ana")
    await run.wait_until(lambda view: any(i != "i1" for i in view.interrupts), LIMIT)
    found = await crews.client().memory.newest("goes-back")
    assert {(m.text, m.author.step) for m in found} == {("noted", "b#1"), ("noted", "b#2")}
    assert await crews.client().memory.forget("goes-back", run=run.id, step="b#1") == 1

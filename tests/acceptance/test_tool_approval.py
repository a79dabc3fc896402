"""Calls of tools that wait for a person's yes, on real servers: kills, pauses, many executions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.errors import InterruptNotOpen

from .harness import LIMIT, Site, calls, tool, until
from .test_hostile import until_scheduled
from .test_rebuild import (
    QUEUE,
    assert_same,
    assert_same_once_more,
    db,  # noqa: F401 - the fixture
    dump,
    is_whole,
    lose,
)

TOOLS = {"echo": tool("echo"), "risky": tool("echo", "never", effects="external", risk="high")}
BATCH = calls(
    ("echo", {"text": "one"}), ("risky", {"text": "rm -r notes"}), ("echo", {"text": "two"})
)


def crew_of(site: Site, **more: Any) -> dict[str, Any]:
    agents = {"a": [BATCH, {"text": "A"}], "b": [{"text": "B"}]}
    return site.crew(agents, tools=TOOLS, approvals={"risky": ["a"]}, **more)


async def asked(run: Run) -> Any:
    await run.wait_until(
        lambda view: bool(view.interrupts) and not any(s.calls for s in view.frontier), LIMIT
    )
    (question,) = await run.interrupts()
    return question


def ran(site: Site, run: Run) -> list[str]:
    return sorted(e["text"] for e in site.ledger(run, "start"))


async def tool_messages(site: Site, run: Run) -> list[str]:
    last = [p for p in site.prompted(run) if p["agent"] == "a"][-1]
    return [m["content"] for m in last["messages"] if m["type"] == "tool"]


@covers("C33")
async def test_a_call_runs_once_it_is_approved(crews: Site) -> None:
    run = await crews.start(crew_of(crews))
    question = await asked(run)
    assert (question.kind, question.step) == ("tool_approval", "a#1")
    assert question.options == ("approve", "reject", "stop")
    assert question.action_requests[0]["name"] == "risky"
    assert question.action_requests[0]["args"] == {"text": "rm -r notes"}
    assert ran(crews, run) == ["one", "two"]
    view = await run.status()
    assert view.status == "waiting"
    # From several sides at once: one answer.
    answers = await asyncio.gather(
        *(run.answer(question.id, "approve", by=who) for who in ("ana", "ben", "eve")),
        return_exceptions=True,
    )
    assert len([a for a in answers if isinstance(a, InterruptNotOpen)]) == 2
    assert (await run.result(LIMIT)).status == "completed"
    assert ran(crews, run) == ["one", "rm -r notes", "two"]
    assert await tool_messages(crews, run) == ["one", "rm -r notes", "two"]


@pytest.mark.parametrize("decision", ["reject", "not on a Friday"])
async def test_a_call_that_is_refused_does_not_run(crews: Site, decision: str) -> None:
    run = await crews.start(crew_of(crews))
    question = await asked(run)
    await run.answer(question.id, decision, by="ana")
    assert (await run.result(LIMIT)).status == "completed"
    assert ran(crews, run) == ["one", "two"]
    told = "Refused by ana." if decision == "reject" else f"Refused by ana: {decision}"
    assert await tool_messages(crews, run) == ["one", told, "two"]


async def test_a_rejection_with_a_reason_and_a_stop(crews: Site) -> None:
    run = await crews.start(crew_of(crews))
    question = await asked(run)
    handle = crews.temporal.get_workflow_handle(run.id)
    decision = {"type": "reject", "message": "approve"}
    command = {"id": "r1", "by": "ana", "interrupt": question.id, "decisions": [decision]}
    accepted = await handle.execute_update("answer", command, id="r1")
    assert accepted["detail"] == "reject"
    await run.result(LIMIT)
    assert await tool_messages(crews, run) == ["one", "Refused by ana: approve", "two"]
    run = await crews.start(crew_of(crews))
    await run.answer((await asked(run)).id, "stop")
    assert (await run.result(LIMIT)).status == "stopped"
    assert ran(crews, run) == ["one", "two"]


async def test_a_pause_and_another_agent(crews: Site) -> None:
    crew = crew_of(crews)
    crew["flow"] = [["a", "b"]]
    run = await crews.start(crew)
    question = await asked(run)
    await run.pause(id="p")
    await run.answer(question.id, "approve")
    await run.wait_until(lambda view: view.status == "paused" and not view.interrupts, LIMIT)
    assert ran(crews, run) == ["one", "two"]
    await run.resume(id="r")
    assert (await run.result(LIMIT)).status == "completed"


@pytest.mark.timeout(400)
async def test_a_worker_that_is_killed_while_it_is_open_and_rows_that_are_lost(
    site: Site,
    db: Any,  # noqa: F811
) -> None:
    """Many executions: the question is carried from one to the next while another agent works."""
    busy = [calls(("echo", {"text": f"{n}"})) for n in range(12)]
    agents = {"a": [BATCH, {"text": "A"}], "b": [*busy, {"text": "B"}], "c": [{"text": "C"}]}
    crew = site.crew(
        agents,
        rules={"b": {"retry": {"first": 0.05, "longest": 0.2, "attempts": 50}}},
        tools=TOOLS,
        approvals={"risky": None},
        limits={"events": 50},
        flow=[["a", "b"], "c"],
    )
    await site.start_worker(QUEUE)
    run = await site.start(crew, queue=QUEUE)
    await until(lambda: len(site.ledger(run, "start")) >= 5, "work")
    for dead in site.workers[QUEUE]:
        dead.kill()
    await site.start_worker(QUEUE)
    question = await asked(run)
    assert (question.id, question.kind) == ("i1", "tool_approval")
    assert "rm -r notes" not in ran(site, run)
    for dead in site.workers[QUEUE]:
        dead.kill()
    await site.start_worker(QUEUE)
    await run.answer(question.id, "approve", by="ana")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert result.executions > 1
    assert ran(site, run).count("rm -r notes") == 1
    assert len(await site.entries(run, "InterruptRaised")) == 1
    before = await dump(db)
    await lose(db)
    await asyncio.to_thread(site.end_workers, QUEUE)
    assert is_whole(await run.rebuild())
    assert_same(await dump(db), before)
    await assert_same_once_more(site, db, run)


async def test_a_yes_that_expires_before_its_call_begins_is_asked_for_again(crews: Site) -> None:
    echo = {"echo": tool("echo", queue="expires")}
    crew = crews.crew(
        {"a": [calls(("echo", {"text": "x"})), {"text": "A"}]}, tools=echo, flow=["a"]
    )
    run = await crews.start(crew | {"approvals": {"echo": None}, "interrupts": {"valid": "1s"}})
    first = await asked(run)
    answered = asyncio.get_running_loop().time()
    await run.answer(first.id, "approve", by="ana")
    await until_scheduled(crews, run, 1)
    await asyncio.sleep(answered + 1.1 - asyncio.get_running_loop().time())  # what is tested
    await crews.start_worker("expires")
    await run.wait_until(lambda view: [*view.interrupts] not in ([], [first.id]), LIMIT)
    await run.answer((await run.interrupts())[0].id, "reject", by="ana")
    assert (await run.result(LIMIT)).status == "completed"
    assert ran(crews, run) == []
    await asyncio.to_thread(crews.end_workers, "expires")


@pytest.mark.parametrize("text", ["rm -r everything", "x" * 9000])
async def test_a_question_asked_again_shows_the_arguments(crews: Site, text: str) -> None:
    """The yes to a call expires, or a live permission comes, while another call is under way."""
    crew = crews.crew(
        {
            "a": [calls(("gate", {"name": "a"}), ("risky", {"text": text})), {"text": "A"}],
            "b": [calls(("gate", {"name": "b"}), ("echo", {"text": text})), {"text": "B"}],
        },
        tools={"gate": tool("gate"), **TOOLS},
        interrupts={"approve_risk": "high", "valid": "1s"},
        limits={"parallel": 1},
        flow=["a", "b"],
    )
    run = await crews.start(crew)

    async def question(name: str) -> Any:
        await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
        (found,) = await run.interrupts()
        assert found.action_requests[0]["name"] == name
        return found

    def shows(found: Any) -> None:
        shown = found.action_requests[0]["args"]["text"]
        assert shown == text or (shown.startswith("xxx") and "(9000 characters)" in shown)
        assert found.has_excerpts is (shown != text)
        assert shown in found.detail

    first = await question("risky")
    shows(first)
    await run.answer(first.id, "approve", by="ana")
    await asyncio.sleep(1.1)  # the yes holds for a second
    crews.open_gate(run, "a")
    again = await question("risky")
    shows(again)
    assert again.action_requests == first.action_requests or text not in first.detail
    (listed,) = [each for each in await crews.client().inbox() if each.run == run.id]
    assert listed.action_requests == again.action_requests
    assert (listed.detail, listed.has_excerpts) == (again.detail, again.has_excerpts)
    await run.answer(again.id, "approve", by="ana")
    await until(lambda: crews.ledger(run, "start", gate="b"), "the gate of b")
    await run.rule("b", "echo", "ask")
    crews.open_gate(run, "b")
    ruled = await question("echo")
    shows(ruled)
    await run.answer(ruled.id, "approve", by="ana")
    assert (await run.result(LIMIT)).status == "completed"
    done = [e.get("text") for e in crews.ledger(run, "start")]
    assert done.count(text) == 2

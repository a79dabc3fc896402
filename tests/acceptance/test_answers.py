"""Questions to people on real servers: edited calls, refusals, expiry, and the inbox."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.errors import CommandRejected, InterruptNotOpen, InvalidArguments, NotPermitted

from .harness import LIMIT, Site, calls, tool
from .test_rebuild import (
    QUEUE,
    assert_same,
    db,  # noqa: F401 - the fixture
    dump,
    is_whole,
    lose,
)
from .test_tool_approval import asked, ran, tool_messages

TOOLS = {"risky": tool("echo", "never", effects="external", risk="high")}
BATCH = calls(("risky", {"text": "rm -r notes"}))


def crew_of(site: Site, **policy: Any) -> dict[str, Any]:
    policy = {"approve_risk": "high", **policy}
    agents = {"a": [BATCH, {"text": "A"}], "b": [{"text": "B"}]}
    return site.crew(agents, tools=TOOLS, interrupts=policy)


async def inbox(run: Run, site: Site) -> list[Any]:
    return [each for each in await site.client().inbox() if each.run == run.id]


async def inbox_of(run: Run, site: Site, interrupt: str) -> Any:
    """The question of that number, once it is the only one of the run that the inbox has."""
    async with asyncio.timeout(LIMIT):
        while True:
            found = await inbox(run, site)
            if [each.id for each in found] == [interrupt]:
                return found[0]
            await asyncio.sleep(0.05)


@covers("C31")
async def test_edited_arguments_are_checked_and_are_what_runs(crews: Site) -> None:
    run = await crews.start(crew_of(crews))
    question = await asked(run)
    (review,) = question.review_configs
    assert review["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    found = await inbox_of(run, crews, question.id)
    assert found.tool == "risky"
    assert found.action_requests == question.action_requests
    for args, told in [({"text": 3}, "text"), ({}, "text"), ({"text": "x", "sudo": True}, "sudo")]:
        with pytest.raises(InvalidArguments, match=told):
            await run.edit_call(question.id, "risky", args)
    with pytest.raises(CommandRejected, match="asks about 'risky'"):
        await run.edit_call(question.id, "echo", {"text": "x"})
    assert (await asked(run)).id == question.id
    assert ran(crews, run) == []
    await run.edit_call(question.id, "risky", {"text": "ls notes"}, by="ana")
    assert (await run.result(LIMIT)).status == "completed"
    assert ran(crews, run) == ["ls notes"]
    (told,) = await tool_messages(crews, run)
    assert "changed the arguments" in told
    assert told.endswith("\nls notes")
    refused = await crews.entries(run, "CommandRejected")
    types = [entry.error_type for entry in refused]
    assert types == ["InvalidArguments"] * 3 + [""]
    assert await inbox(run, crews) == []


async def test_who_may_answer_and_who_was_first(crews: Site) -> None:
    run = await crews.start(crew_of(crews, people=["ana", "ben"]))
    question = await asked(run)
    with pytest.raises(NotPermitted, match="'eve' may not answer"):
        await run.answer(question.id, "approve", by="eve")
    with pytest.raises(InterruptNotOpen, match="'i9' is not open"):
        await run.answer("i9", "approve", by="ana")
    with pytest.raises(CommandRejected, match="no answer"):
        await run.answer(question.id, "aprove", by="ana")
    answers = await asyncio.gather(
        run.answer(question.id, "approve", by="ana"),
        run.answer(question.id, "reject", by="ben"),
        return_exceptions=True,
    )
    (late,) = [each for each in answers if isinstance(each, BaseException)]
    assert isinstance(late, InterruptNotOpen)
    assert "answered" in str(late)
    assert (await run.result(LIMIT)).status == "completed"
    (entry,) = await crews.entries(run, "InterruptAnswered")
    assert entry.by in str(late)
    assert ran(crews, run) == (["rm -r notes"] if entry.decision == "approve" else [])


@pytest.mark.timeout(200)
async def test_nobody_answers_while_no_worker_is_there(
    site: Site,
    db: Any,  # noqa: F811
) -> None:
    """It is escalated, and then answered; every row is the same once it is rebuilt."""
    policy = {"expires": "2s", "default": "escalate", "escalate_to": "boss"}
    await site.start_worker(QUEUE)
    run = await site.start(crew_of(site, **policy), queue=QUEUE)
    assert (await asked(run)).id == "i1"
    for dead in site.workers[QUEUE]:
        dead.kill()
    await site.start_worker(QUEUE)
    await run.wait_until(lambda view: tuple(view.interrupts) == ("i2",), LIMIT)
    question = await asked(run)
    assert (question.escalated, question.to) == (True, ("boss",))
    # The run says that it waits as it stores the question: the inbox may have it a moment later.
    found = await inbox_of(run, site, "i2")
    assert found.to == ("boss",)
    with pytest.raises(InterruptNotOpen, match="the crew's policy answered 'escalated'"):
        await run.answer("i1", "approve", by="ana")
    await run.edit_call("i2", "risky", {"text": "ls"}, by="boss")
    assert (await run.result(LIMIT)).status == "completed"
    assert ran(site, run) == ["ls"]
    before = await dump(db)
    await lose(db)
    await asyncio.to_thread(site.end_workers, QUEUE)
    assert is_whole(await run.rebuild())
    assert_same(await dump(db), before)


async def test_a_question_that_expires_is_answered_by_the_policy(crews: Site) -> None:
    run = await crews.start(crew_of(crews, expires=0.5))
    assert (await run.result(LIMIT)).status == "completed"
    assert ran(crews, run) == []
    assert await tool_messages(crews, run) == ["Refused by policy: nobody answered in time"]
    (entry,) = await crews.entries(run, "InterruptAnswered")
    assert (entry.by, entry.expired) == ("policy", True)

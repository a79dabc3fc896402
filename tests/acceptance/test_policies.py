"""Policies of crews on real servers: plans made anew, gates, bounds, and work that is judged."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.errors import RunFailed
from crewlog.wire import InterruptView

from .harness import LIMIT, SHARED, Site, calls, tool, until


async def asked(run: Run, *before: InterruptView) -> InterruptView:
    """The question that the run waits on, and none of those before."""
    old = {each.id for each in before}
    await run.wait_until(lambda view: bool({*view.interrupts} - old), LIMIT)
    (question,) = [each for each in await run.interrupts() if each.id not in old]
    return question


async def worked(site: Site, run: Run) -> list[str]:
    """Which agent worked in which step, in order."""
    entries = await site.entries(run, "StepStarted")
    return [f"{each.step} {each.agent}" for each in entries if each.agent is not None]


def says(value: Any) -> dict[str, Any]:
    return {"text": json.dumps(value)}


async def command_line(site: Site, *words: str) -> str:
    """What a command prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crewlog.cli.main", *words),
        env=site.environ(SHARED),
        cwd=site.project,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), LIMIT)
    return out.decode()


@covers("C43")
async def test_agents_side_by_side_have_the_tools_they_list_and_one_reviews_another(
    crews: Site,
) -> None:
    waits = calls(("gate", {"name": "g"}))
    crew = crews.crew(
        {
            "screens": [waits, {"text": "S"}],
            "data": [waits, {"text": "D"}],
            "author": [{"text": "first draft"}, {"text": "second draft"}],
            "critic": [
                {"text": "too long"},
                calls(("set_flag", {"flag": "approved", "value": True})),
                {"text": "good"},
            ],
        },
        rules={
            "screens": {"tools": ["gate"]},
            "data": {"tools": ["gate", "echo"]},
            "author": {"tools": []},
            "critic": {"tools": [], "writes_flags": ["approved"]},
        },
        tools={"gate": tool("gate"), "echo": tool("echo")},
        flow=[
            ["screens", "data"],
            {"use": "review", "with": {"author": "author", "reviewer": "critic"}},
        ],
    )
    run = await crews.start(crew)
    # Both are in the middle of their turns at one time, and neither ends before the gate opens.
    await until(lambda: len(crews.ledger(run, "start")) == 2, "both")
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"
    listed = {each["agent"]: set(each["tools"]) for each in crews.prompted(run)}
    assert listed["screens"] & {"gate", "echo"} == {"gate"}
    assert listed["data"] >= {"gate", "echo"}
    assert (await worked(crews, run))[2:] == [
        "review#1 author", "critic#1 critic", "review#2 author", "critic#2 critic",
    ]  # fmt: skip
    again = next(p for p in crews.prompted(run) if p["step"] == "review#2")
    assert "[critic] too long" in [m["content"] for m in again["messages"]]


@covers("C45", "C47")
async def test_a_plan_is_shown_and_made_anew_by_people_and_by_a_decision(crews: Site) -> None:
    def plan(task: str) -> dict[str, Any]:
        return says({"steps": [{"id": "s", "agent": "worker", "task": task}]})

    crew = crews.crew(
        {
            "planner": [plan("bake a cake"), plan("bake bread"), plan("bake rolls")],
            "worker": [{"when": ".", "text": "made"}],
            "judge": [
                says({"replan": True, "reason": "nobody eats bread"}),
                says({"replan": False, "reason": "fine"}),
            ],
        },
        rules={
            "planner": {"reply": {"decision": "plan", "among": ["worker"]}},
            "judge": {"reply": "replan"},
        },
        flow=[
            "planner",
            {
                "ask": "By this plan?",
                "phase": "gate",
                "shows": "planner.steps",
                "options": ["go", "planner", "stop"],
            },
            {"agent": "worker", "for_each": "planner.steps"},
            "judge",
            {"if": "judge.replan", "go": "planner", "at_most": 1, "else": "ask_human"},
        ],
    )
    run = await crews.start(crew)
    first = await asked(run)
    assert (first.question, first.detail) == ("By this plan?", "1. s (worker): bake a cake")
    assert await worked(crews, run) == ["planner#1 planner"], "nobody works by a plan unseen"
    await run.answer(first.id, "planner")
    second = await asked(run, first)
    assert second.detail == "1. s (worker): bake bread"
    await run.answer(second.id, "go")
    third = await asked(run, first, second)
    assert third.detail == "1. s (worker): bake rolls"
    await run.answer(third.id, "go")
    assert (await run.result(LIMIT)).status == "completed"
    items = [p["messages"][-1]["content"] for p in crews.prompted(run) if p["agent"] == "worker"]
    assert ["bread" in items[0], "rolls" in items[1], len(items)] == [True, True, 2]
    again = [p for p in crews.prompted(run) if p["agent"] == "planner"][-1]
    assert "nobody eats bread" in json.dumps(again["messages"])


@covers("C41", "C45")
@pytest.mark.parametrize("escalates", [True, False])
async def test_an_agent_decides_whether_people_are_asked_and_what(
    crews: Site, *, escalates: bool
) -> None:
    """After garbage it is asked again; what it wants to know is shown to those who are asked."""
    said = {"escalate": escalates, "question": "May we pay $900?", "reason": "it is much"}
    crew = crews.crew(
        {
            "watch": [{"text": "hm, hard to say"}, says(said)],
            "payer": [{"text": "Paid."}],
        },
        rules={"watch": {"reply": {"decision": "escalate", "tries": 2}}},
        flow=[
            "watch",
            {
                "ask": "The watch asks you.",
                "shows": "watch.question",
                "only_if": "watch.escalate",
                "phase": "gate",
            },
            "payer",
        ],
    )
    run = await crews.start(crew)
    if escalates:
        question = await asked(run)
        assert question.question == "The watch asks you."
        assert question.detail == "May we pay $900?"
        assert await worked(crews, run) == ["watch#1 watch"]
        await run.answer(question.id, "approve", by="ana")
    result = await run.result(LIMIT)
    assert (result.status, result.outputs["payer"]["text"]) == ("completed", "Paid.")  # type: ignore[index]
    assert result.outputs["watch"]["reason"] == "it is much"  # type: ignore[index]
    (refused,) = await crews.entries(run, "StructuredOutputRejected")
    (taken,) = await crews.entries(run, "StructuredOutputParsed")
    assert (refused.agent, taken.decision) == ("watch", "escalate")
    people = await crews.entries(run, "InterruptRaised")
    assert len(people) == int(escalates)


@covers("C47")
@pytest.mark.parametrize("handed_on", [True, False])
async def test_people_are_asked_before_a_step_a_call_and_a_hand_over(
    crews: Site, *, handed_on: bool
) -> None:
    crew = crews.crew(
        {
            "author": [calls(("echo", {"text": "look it up"})), {"text": "The news."}],
            "publisher": [{"text": "It is out."}],
        },
        tools={"echo": tool("echo", "never", effects="external", risk="high")},
        approvals={"echo": ["author"]},
        flow=[
            {"ask": "Begin?", "phase": "begin"},
            "author",
            {"ask": "Hand it on?", "phase": "hand", "shows": "author.text"},
            "publisher",
        ],
    )
    run = await crews.start(crew)
    begin = await asked(run)
    assert (begin.question, await worked(crews, run)) == ("Begin?", [])
    await run.answer(begin.id, "approve")
    call = await asked(run, begin)
    assert (call.kind, call.action_requests[0]["name"]) == ("tool_approval", "echo")
    assert crews.ledger(run) == []
    await run.answer(call.id, "approve")
    hand = await asked(run, begin, call)
    assert (hand.question, hand.detail) == ("Hand it on?", "The news.")
    assert len(crews.ledger(run, "start")) == 1
    assert await worked(crews, run) == ["author#1 author"]
    await run.answer(hand.id, "approve" if handed_on else "reject")
    await run.result(LIMIT)
    published = "publisher#1 publisher" in await worked(crews, run)
    assert published is handed_on


def judged(site: Site, says_: list[dict[str, Any]], otherwise: str) -> dict[str, Any]:
    """A worker who is sent back until a judge is sure enough, twice at most."""
    return site.crew(
        {"worker": [{"text": f"try {n}"} for n in range(1, 9)], "judge": [says(s) for s in says_]},
        rules={"judge": {"reply": "terminate"}},
        flow=[
            "worker",
            "judge",
            {
                "if": "not (judge.done and judge.confidence >= 0.8)",
                "go": "worker",
                "at_most": 2,
                "else": otherwise,
            },
            "last",
        ],
    )


UNSURE = [{"done": True, "confidence": 0.79}, {"done": False, "confidence": 0.99}] * 2


@covers("C46", "C55", "C56")
@pytest.mark.parametrize("otherwise", ["ask_human", "fail", "next"])
async def test_tries_that_are_used_up_end_in_what_the_crew_says(
    crews: Site, otherwise: str
) -> None:
    crew = judged(crews, UNSURE, otherwise)
    crew["agents"]["last"] = {"does": [{"tool": "done"}]}
    run = await crews.start(crew | {"tools": {"done": tool("done")}})
    if otherwise == "ask_human":
        question = await asked(run)
        assert question.question.endswith("the most. What now?")
        await run.answer(question.id, "stop")
        assert (await run.result(LIMIT)).status == "stopped"
    elif otherwise == "fail":
        with pytest.raises(RunFailed, match="judge"):
            await run.result(LIMIT)
    else:
        assert (await run.result(LIMIT)).status == "completed"
    steps = [each.partition(" ")[0] for each in await worked(crews, run)]
    assert [each for each in steps if "worker" in each] == ["worker#1", "worker#2", "worker#3"]
    assert ("last#1" in steps) is (otherwise == "next")


@covers("C46", "C56")
async def test_a_goal_that_is_reached_ends_it_with_tries_left(crews: Site) -> None:
    crew = judged(crews, [UNSURE[0], {"done": True, "confidence": 0.8}], "fail")
    crew["agents"]["last"] = {"does": [{"tool": "done"}]}
    _, result = await crews.finish(crew | {"tools": {"done": tool("done")}})
    assert result.status == "completed"
    assert [found["text"] for name, found in result.outputs.items() if name == "worker"] == [
        "try 2"
    ]


@covers("C46")
async def test_a_plan_may_have_no_more_steps_than_the_crew_lets_it(crews: Site) -> None:
    steps = [{"id": f"s{n}", "agent": "worker", "task": "dig"} for n in range(9)]
    crew = crews.crew(
        {"planner": [says({"steps": steps})], "worker": [{"text": "dug"}]},
        rules={"planner": {"reply": {"decision": "plan", "among": ["worker"]}}},
        flow=["planner", {"agent": "worker", "for_each": "planner.steps", "at_once": 1}],
        limits={"steps": 4},
    )
    run = await crews.start(crew)
    question = await asked(run)
    assert question.kind == "limit"
    assert len(await worked(crews, run)) <= 4
    await run.answer(question.id, "stop")
    assert (await run.result(LIMIT)).status == "stopped"


GOOD = {
    "shop/cart.py": "def total(prices):\n    return sum(prices)\n",
    "shop/tax.py": "def tax(price):\n    return price // 5\n",
    "test_shop.py": "from shop import cart\n\ndef test_total():\n    assert cart.total([1]) == 1\n",
}
BAD = {
    "shop/cart.py": "def total(prices):\n    return sum(prices) + 1\n",
    "shop/tax.py": "def tax(price):\n    return prize // 5\n",
    "shop/broken.py": "def broken(:\n",
}


STEPS = {"tests": "begin#1", "compiler": "compiler#1", "linter": "linter#1"}


async def verdict(run: Run, step: str) -> tuple[bool, list[dict[str, Any]]]:
    """Whether what was looked at in a step has passed, and the signals."""
    (found,) = [each for each in (await run.report()).steps if each.step == step]
    sets = {key.partition(".")[2]: value.plain for key, value in found.values.items()}
    return sets["passed"], sets["signals"]


@covers("C52", "C53")
async def test_compiler_linter_and_tests_really_judge_bad_code_and_good(crews: Site) -> None:
    owners = {
        "cart": ["shop/cart.py", "test_shop.py"],
        "tax": ["shop/tax.py"],
        "other": ["shop/broken.py"],
    }
    names = {"tests": "run_pytest", "compiler": "compile_python", "linter": "lint"}
    offered = {
        each: {"run": f"crewlog.evaluators:{each}", "effects": "write", "retry": "safe"}
        for each in names.values()
    }
    crew = crews.crew(
        {**dict.fromkeys(names, ()), "mender": [calls(("gate", {"name": "g"})), {"text": "M"}] * 2},
        rules={
            name: {
                "does": [{"tool": each, "args": {"owners": owners}}],
                "outputs": ["signals", "passed"],
            }
            for name, each in names.items()
        },
        tools={**offered, "gate": tool("gate")},
        flow=[
            {"agent": "tests", "phase": "begin"},
            "compiler",
            "linter",
            "mender",
            {"if": "not compiler.passed", "go": "begin", "at_most": 1},
        ],
    )
    folder = crews.root / "workspace" / f"judged-{crews.root.name}"
    (folder / "shop").mkdir(parents=True)
    for path, text in {**GOOD, **BAD}.items():
        (folder / path).write_text(text)
    run = await crews.start(crew, id=folder.name)
    await until(lambda: crews.ledger(run, "start"), "the verdict")
    first = {name: await verdict(run, step) for name, step in STEPS.items()}
    (folder / "shop/broken.py").unlink()
    for path, text in GOOD.items():
        (folder / path).write_text(text)
    crews.open_gate(run, "g")
    await run.result(LIMIT)
    kinds = {
        name: {(s["agent"], s["type"], s["severity"]) for s in found}
        for name, (_, found) in first.items()
    }
    assert kinds["tests"] == {("cart", "test_failure", "error")}
    assert kinds["compiler"] == {("other", "compile_error", "error")}
    assert kinds["linter"] >= {
        ("tax", "lint_issue", "error"), ("other", "compile_error", "error"),
    }  # fmt: skip
    assert all(each["detail"] and each["where"] for _, found in first.values() for each in found)
    assert {name: passed for name, (passed, _) in first.items()} == dict.fromkeys(names, False)
    last = {name: await verdict(run, step.replace("#1", "#2")) for name, step in STEPS.items()}
    assert {name: passed for name, (passed, _) in last.items()} == dict.fromkeys(names, True)


@covers("C68")
async def test_a_route_beyond_its_bound_warns_and_ends_the_turn(crews: Site) -> None:
    back = {"text": json.dumps({"next": "finder"})}
    crew = crews.crew(
        {"chief": [back] * 5, "finder": [{"text": f"found {n}"} for n in range(5)]},
        rules={"chief": {"reply": {"decision": "route", "among": ["finder"]}, "writes": []}},
        flow=[
            "chief",
            {"route": "chief.next", "to": ["finder"], "at_most": 2, "phase": "way"},
            {"agent": "finder", "after": "go"},
            {"if": "chief.next == 'finder'", "go": "chief", "at_most": 9, "phase": "back"},
        ],
        conversation={},
    )
    run = await crews.start(crew, "")
    reply = await run.send("Find it.", timeout=LIMIT)
    assert (reply.text, reply.agent, reply.error) == ("found 1", "finder", "")
    assert reply.warning == (
        "A limit was reached: chief.next is 'finder', and the run went to finder 2 times, the most."
    )
    told = (await run.conversation()).last_response
    assert told is not None
    assert told.warning == reply.warning
    assert (reply.end_reason, told.end_reason) == ("route_limit_reached", "route_limit_reached")
    assert (await run.state()).execution_count == {"finder": 3}, "the try that is refused counts"
    await run.stop()
    await run.result(LIMIT)
    (refused,) = await crews.entries(run, "BranchTargetRefused")
    assert (refused.goes, refused.used_up) == ("end", True)


@covers("C56", "C46")
async def test_programs_tell_a_used_up_retry_budget_from_an_approval(crews: Site) -> None:
    again = {"text": json.dumps({"proceed": False, "actions": []})}
    content = {"text": json.dumps({"proceed": True, "actions": []})}

    async def reviewed(*verdicts: Any) -> tuple[Run, Any]:
        crew = crews.crew(
            {"maker": [{"text": "made"}] * 3, "judge": list(verdicts)},
            rules={"judge": {"reply": {"decision": "reflection", "among": ["maker"]}}},
            flow=["maker", "judge", {"if": "not judge.proceed", "go": "maker", "at_most": 1}],
        )
        return await crews.finish(crew, "Make it.")

    run, result = await reviewed(again, again)
    assert (result.status, result.end_reason) == ("completed", "retry_budget_exhausted")
    assert "went to maker 1 times" in result.warning
    assert (await run.state()).end_reason == "retry_budget_exhausted"
    (ended,) = await crews.entries(run, "RunCompleted")
    assert ended.end_reason == "retry_budget_exhausted"
    told = json.loads(await command_line(crews, "show", run.id, "--json"))
    assert told["end_reason"] == "retry_budget_exhausted"
    *_, told = (await command_line(crews, "watch", run.id, "--json")).splitlines()
    assert json.loads(told)["end_reason"] == "retry_budget_exhausted"
    assert "completed · retry_budget_exhausted" in await command_line(crews, "show", run.id)
    assert "done · retry_budget_exhausted" in await command_line(crews, "watch", run.id)
    _, result = await reviewed(again, content)
    assert (result.status, result.end_reason, result.warning) == ("completed", "completed", "")

"""Parts of flows on the real server: builders, patterns, gates, and when a run asks by itself."""

from __future__ import annotations

import asyncio
from typing import Any

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import EditAgent

from .harness import LIMIT, Site, calls, tool, until


def sets(key: str, value: Any) -> dict[str, Any]:
    return calls(("set_output", {"key": key, "value": value}))


async def steps(site: Site, run: Run) -> list[str]:
    entries = await site.entries(run, "StepStarted")
    return [entry.step for entry in entries if entry.agent is not None]


async def asked(run: Run) -> Any:
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    return (await run.interrupts())[0]


@covers("C5", "C6", "C13", "C18")
async def test_builders_and_patterns_are_steps_like_any_others(crews: Site) -> None:
    """A supervisor, whose worker reviews its own work, and a decision after it."""
    crew = crews.crew(
        {
            "chief": [sets("next", "coder"), {"text": "1"}, sets("next", "done"), {"text": "2"}],
            "coder": [
                {"text": "a draft"},
                *(sets("content", False), {"text": "it is too long"}),
                {"text": "a better draft"},
                *(sets("content", True), {"text": "it is fine"}),
            ],
            "tester": [{"text": "tested"}],
            "skeptic": [{"text": "no"}],
        },
        rules={"coder": {"pattern": "review_loop"}},
        flow=[
            {"use": "supervisor", "with": {"supervisor": "chief", "workers": ["coder"]}},
            {"if": "coder.content", "go": "tester"},
            "skeptic",
            {"agent": "tester", "after": "go"},
        ],
    )
    run, result = await crews.finish(crew)
    assert result.status == "completed"
    assert await steps(crews, run) == [
        "supervisor#1",
        "coder#1",
        "coder.review#1",
        "coder#2",
        "coder.review#2",
        "supervisor#2",
        "tester#1",
    ]
    # Each step has a trace of its own, and sees what the agent said in the one before.
    review = next(p for p in crews.prompted(run) if p["step"] == "coder.review#1")
    assert "Review what you have just made" in review["messages"][0]["content"]
    assert "a draft" in [m["content"] for m in review["messages"]]


@covers("C9", "C12", "C19")
async def test_steps_are_switched_off_and_need_their_tools(crews: Site) -> None:
    crew = crews.crew(
        {
            "a": [calls(("gate", {"name": "g"})), {"text": "A"}, {"text": "at last"}],
            "b": [{"text": "B"}],
            "c": [{"text": "C"}],
            "d": [{"text": "D"}],
        },
        rules={"b": {"pattern": "planner_executor"}},
        tools={"gate": tool("gate"), "echo": tool("echo")},
        permissions={"echo": ["a"]},
        flags={"wanted": False},
        flow=[
            "a",
            "b",
            {"agent": "c", "needs": ["echo"]},
            {"agent": "d", "only_if": "wanted"},
            {"agent": "a", "phase": "last", "needs": ["gate"]},
        ],
    )
    run = await crews.start(crew)
    await until(lambda: crews.ledger(run, "start"), "the gate")
    off = {"pattern": {"use": "planner_executor", "off": ["plan"]}}
    changing = asyncio.create_task(run.change(operations=[EditAgent(name="b", set=off)]))
    crews.open_gate(run, "g")
    assert (await changing).swap
    await run.result(LIMIT)
    assert await steps(crews, run) == ["a#1", "b#1", "last#1"]
    skipped = {e.step: e.because for e in await crews.entries(run, "StepCompleted") if e.skipped}
    assert "echo" in skipped["c#1"]
    assert "wanted" in skipped["d#1"]


@covers("C31")
async def test_a_run_asks_where_an_agent_is_unsure_and_where_a_rule_says_so(crews: Site) -> None:
    crew = crews.crew(
        {
            "a": [
                *(sets("confidence", 0.3), {"text": "perhaps"}),
                *(sets("confidence", 0.9), {"text": "A"}),
            ],
            "b": [calls(("echo", {"text": "x"})), {"text": "B"}],
        },
        rules={"a": {"outputs": ["confidence"], "ask_below": 0.6}},
        tools={"echo": tool("echo")},
        flow=["a", "b"],
    )
    crew["rules"] = [{"tool": "echo", "do": "ask", "reason": "on Fridays"}]
    run = await crews.start(crew)
    question = await asked(run)
    assert (question.kind, question.step) == ("low_confidence", "a#1")
    await run.answer(question.id, "look once more")
    await run.wait_until(lambda view: view.interrupts not in ((), (question.id,)), LIMIT)
    (question,) = await run.interrupts()
    assert (question.kind, question.rule) == ("tool_approval", "rules[0]")
    assert crews.ledger(run) == []
    await run.answer(question.id, "approve")
    assert (await run.result(LIMIT)).status == "completed"
    told = next(p for p in crews.prompted(run) if p["step"] == "a#1" and p["call"] > 3)
    assert "look once more" in str(told["messages"])


@covers("C16", "C51")
async def test_the_state_has_all_of_a_run_in_one_place(crews: Site) -> None:
    crew = crews.crew(
        {"a": [sets("score", 0.7), sets("secret", 1), {"text": "A"}], "b": [{"text": "B"}]},
        rules={"a": {"outputs": ["score"], "writes": ["group:g"]}, "b": {"reads": []}},
        groups={"g": ["a"]},
        tools={"echo": tool("echo")},
        permissions={"echo": ["a"]},
        flow=["a", {"ask": "Go on?"}, {"agent": "b", "when": "a.score > 0.5"}],
    )
    run = await crews.start(crew)
    question = await asked(run)
    await run.edit_state({"shared.tone": "calm", "private.agent:a.note": "mine"})
    state = await run.state()
    assert {"public", "group:g", "private:a"} <= {*state.messages}
    assert state.agent_outputs["a"]["score"].value == 0.7
    assert "secret" not in state.agent_outputs["a"], "it does not declare it"
    assert state.tool_permissions == {"echo": ("a",)}
    assert any("a.score > 0.5" in rule for rule in state.coordination_rules)
    assert state.shared_context == {"tone": "calm"}
    assert state.private_context == {"agent:a": {"note": "mine"}}
    assert state.execution_trace.length > 0
    assert [*state.interrupts] == [question.id]
    await run.pause("lunch", by="ana")
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    assert (await run.state()).status_reason is not None
    await run.resume()
    await run.answer(question.id, "approve")
    assert (await run.result(LIMIT)).status == "completed"
    told = next(p for p in crews.prompted(run) if p["agent"] == "b")
    assert [m["type"] for m in told["messages"]] == ["system", "human"]
    assert "A" not in told["messages"][1]["content"]


@covers("C51")
async def test_an_agent_is_given_and_gives_what_is_declared_and_nothing_else(crews: Site) -> None:
    """Its input is a projection, its results are merged by key, and no other key is taken."""
    found = [
        *(sets("names", ["Ana", "Bo"]), sets("note", "between us")),
        *(sets("undeclared", 1), {"text": "I have said it."}),
    ]
    more = [sets("names", ["Bo", "Cy"]), {"text": "And I."}]
    crew = crews.crew(
        {"one": found, "two": more, "three": [{"text": "Hello, all."}], "teller": [{"text": "."}]},
        rules={
            "one": {"outputs": ["names", "note"], "writes_flags": ["seen"]},
            "two": {"outputs": ["names"]},
            "three": {"reads": [], "inputs": [{"from": "one.names", "as": "Who is there"}]},
            "teller": {"reads": [], "inputs": ["one.note", "two.names"]},
        },
        merge={"one.names": "union"},
        flow=["one", {"agent": "one", "phase": "anew"}, "two", "three", "teller"],
    )
    again = [sets("names", ["Bo", "Dan"]), {"text": "Once more."}]
    crew["model"] = crews.script(
        {"one": [*found, *again], "two": more, "three": [{"text": "x"}], "teller": [{"text": "."}]}
    )
    run, result = await crews.finish(crew, "go")
    assert result.outputs["one"]["names"] == ["Ana", "Bo", "Dan"], "merged as it is declared"  # type: ignore[index]
    assert result.outputs["two"]["names"] == ["Bo", "Cy"]  # type: ignore[index]
    assert {key for key in result.outputs["one"] if key != "text"} == {"names", "note"}  # type: ignore[index]
    (three,) = [p["messages"] for p in crews.prompted(run) if p["agent"] == "three"]
    shown = "\n".join(each["content"] for each in three[1:])
    assert "Who is there" in shown
    assert [name in shown for name in ("Ana", "Bo", "Dan", "Cy")] == [True, True, True, False]
    assert "between us" not in shown
    assert "I have said it" not in shown
    (teller,) = [p["messages"] for p in crews.prompted(run) if p["agent"] == "teller"]
    told = "\n".join(each["content"] for each in teller[1:])
    assert ["between us" in told, "Cy" in told, "Ana" in told] == [True, True, False]


@covers("C89")
async def test_each_agent_has_its_prompt_tools_and_model(crews: Site) -> None:
    small = crews.script({"b": [calls(("echo", {"text": "x"})), {"text": "B of the other model"}]})
    crew = crews.crew(
        {"a": [{"text": "A"}], "b": []},
        rules={
            "a": {"prompt": "You find.", "tools": [], "model_settings": {"temperature": 0}},
            "b": {"prompt": "You build.", "tools": ["echo"], "model": small},
        },
        tools={"echo": tool("echo"), "gate": tool("gate")},
        flow=["a", "b"],
    )
    run, result = await crews.finish(crew)
    assert {agent: found["text"] for agent, found in result.outputs.items()} == {
        "a": "A",
        "b": "B of the other model",
    }
    first, second, _ = crews.prompted(run)
    assert (first["agent"], first["tools"], second["tools"]) == ("a", [], ["echo"])
    assert first["file"] != second["file"] == small.removeprefix("scripted:")
    assert [p["messages"][0]["content"] for p in (first, second)] == ["You find.", "You build."]


@covers("C70")
async def test_the_answer_is_that_of_the_agent_with_priority(crews: Site) -> None:
    crew = crews.crew(
        {
            "expert": [
                {"when": "bill", "text": "It is paid."},
                {"when": ".", "fail": "refused", "times": 99, "text": "never"},
            ],
            "clerk": [{"when": ".", "text": "Anything else?"}],
        },
        rules={"expert": {"on_error": "continue"}},
        flow=["expert", "clerk"],
        conversation={"respond": ["expert", "clerk"]},
    )
    run = await crews.start(crew, "")
    reply = await run.send("my bill", timeout=LIMIT)
    assert (reply.agent, reply.text) == ("expert", "It is paid.")
    reply = await run.send("hello", timeout=LIMIT)
    assert (reply.agent, reply.text) == ("clerk", "Anything else?")
    await run.stop()

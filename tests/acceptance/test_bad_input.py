"""What tools and models do wrong: each ends in one clear place, and loses nothing."""

from __future__ import annotations

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.errors import RunFailed

from .harness import LIMIT, Site, calls, tool


async def asked(run: Run) -> str:
    view = await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    return view.interrupts[0]


@covers("C41", "C42")
async def test_a_model_sees_what_its_tools_did_wrong(crews: Site) -> None:
    wrong = calls(("raises", {"kind": "value"}), ("unserializable", {}), ("echo", {"words": 1}))
    crew = crews.crew(
        {"a": [wrong, {"text": "I see."}]},
        tools={name: tool(name) for name in ("raises", "unserializable", "echo")},
    )
    run, result = await crews.finish(crew)
    assert result.outputs["a"]["text"] == "I see."
    told = [m["content"] for m in crews.prompted(run)[1]["messages"] if m["type"] == "tool"]
    assert "ValueError: the oven is cold" in told[0]
    assert "not JSON" in told[1]
    assert "text: Field required" in told[2]
    assert {e["tool"] for e in crews.ledger(run, "start")} == {"raises", "unserializable"}


async def test_a_tool_that_fails_the_step_asks_people(crews: Site) -> None:
    crew = crews.crew(
        {"a": [calls(("raises", {"kind": "connection"})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={"raises": tool("raises", on_error="fail", policy={"attempts": 3, "first": 0.05})},
    )
    run = await crews.start(crew)
    question = await asked(run)
    assert len(crews.ledger(run, "start")) == 3  # a passing trouble, in a tool that may be repeated
    await run.answer(question, "retry")
    await run.wait_until(lambda view: view.interrupts == ("i2",), LIMIT)
    assert [e["attempt"] for e in crews.ledger(run, "start")][3] > 1
    await run.answer("i2", "skip")
    result = await run.result(LIMIT)
    assert result.outputs == {"b": {"text": "B"}}


async def test_a_refused_model_asks_people_and_is_asked_again(crews: Site) -> None:
    crew = crews.crew({"a": [{"fail": "refused"}, {"text": "A"}]})
    run = await crews.start(crew)
    question = await asked(run)
    (interrupt,) = await run.interrupts()
    assert interrupt.kind == "step_failed"
    assert "refused" in interrupt.detail
    await run.answer(question, "retry")
    assert (await run.result(LIMIT)).outputs["a"]["text"] == "A"


async def test_an_unavailable_model_is_asked_until_it_answers(crews: Site) -> None:
    crew = crews.crew({"a": [{"fail": "unavailable", "times": 2}, {"text": "A"}]})
    run, result = await crews.finish(crew)
    assert result.outputs["a"]["text"] == "A"
    assert [p["attempt"] for p in crews.prompted(run)] == [1, 2, 3]


async def test_a_model_that_stalls_beyond_its_timeout(crews: Site) -> None:
    crew = crews.crew(
        {"a": [{"stall": 30, "text": "A"}], "b": [{"text": "B"}]},
        rules={
            "a": {"timeout": 0.5, "retry": {"attempts": 2, "first": 0.05}, "on_error": "continue"}
        },
    )
    run, result = await crews.finish(crew)
    assert result.outputs["b"] == {"text": "B"}
    assert "did not answer in time" in result.outputs["a"]["error"]
    (failed,) = await crews.entries(run, "StepFailed")
    assert failed.error_type == "ModelUnavailable"
    assert "did not answer in time" in failed.error
    assert [p["agent"] for p in crews.prompted(run)] == ["a", "a", "b"]


@covers("C41")
async def test_a_model_that_answers_nonsense_repairs_it(crews: Site) -> None:
    crew = crews.crew({"a": [{"nonsense": True}, {"text": "A"}]}, tools={"echo": tool("echo")})
    run, result = await crews.finish(crew)
    assert result.outputs["a"]["text"] == "A"
    told = [m["content"] for m in crews.prompted(run)[1]["messages"] if m["type"] == "tool"]
    assert len(told) == 2
    assert any("no_such_tool" in text for text in told)
    assert not crews.ledger(run)


async def test_a_step_that_fails_the_run(crews: Site) -> None:
    crew = crews.crew({"a": [{"fail": "refused"}]}, rules={"a": {"on_error": "fail"}})
    run = await crews.start(crew)
    with pytest.raises(RunFailed, match=r"a#1: the script .* refused"):
        await run.result(LIMIT)
    assert (await run.state()).status == "failed"

"""Bounds that a crew sets: calls in flight at a time, and how long a tool may take."""

from __future__ import annotations

import pytest

from covers import covers

from .harness import LIMIT, Site, calls, tool, until


@pytest.mark.parametrize(("parallel", "most"), [(1, 1), (2, 2), (64, 6)])
@covers("C48")
async def test_no_more_calls_are_in_flight_than_the_limit_lets(
    crews: Site, parallel: int, most: int
) -> None:
    naps = calls(*[("nap", {"seconds": 0.3})] * 3)
    crew = crews.crew(
        {"a": [naps, {"text": "A"}], "b": [naps, {"text": "B"}]},
        tools={"nap": tool("nap")},
        flow=[["a", "b"]],
        limits={"parallel": parallel},
    )
    run, result = await crews.finish(crew)
    assert {agent: found["text"] for agent, found in result.outputs.items()} == {"a": "A", "b": "B"}
    notes = sorted(crews.ledger(run), key=lambda e: e["at"])
    assert [e["event"] for e in notes].count("start") == 6
    under_way = highest = 0
    for note in notes:
        under_way += 1 if note["event"] == "start" else -1
        highest = max(highest, under_way)
    assert highest <= most
    if parallel == 1:
        assert [e["event"] for e in notes] == ["start", "end"] * 6
    else:
        assert highest > 1


@pytest.mark.parametrize(("decision", "said"), [("done", "it was done"), ("retry", "passed g")])
@covers("C42")
async def test_a_tool_that_takes_too_long_and_must_not_be_repeated_asks_people(
    crews: Site, decision: str, said: str
) -> None:
    crew = crews.crew(
        {"a": [calls(("gate", {"name": "g"})), {"text": "A"}]},
        # It beats all the time: only its timeout ends it.
        tools={"gate": tool("gate", "never", timeout=1, heartbeat=5)},
    )
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (question,) = await run.interrupts()
    assert question.kind == "outcome_unknown"
    assert len(crews.ledger(run, "start")) == 1
    await until(lambda: crews.ledger(run, "cancelled"), "the cancellation")
    crews.open_gate(run, "g")
    await run.answer(question.id, decision)
    assert (await run.result(LIMIT)).outputs["a"]["text"] == "A"
    assert len(crews.ledger(run, "start")) == (2 if decision == "retry" else 1)
    (returned,) = await crews.entries(run, "ToolCallCompleted")
    assert said in returned.excerpt

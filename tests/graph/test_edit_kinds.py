"""An edit gives a value of the kind that the crew declares, or that is there."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.state.calls import OutputValue
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, returns, says

CREW: dict[str, Any] = {
    "agents": {
        "a": {"tools": ["t"], "writes_flags": ["ready", "grade"], "outputs": ["score", "free"]},
        "b": {"tools": []},
    },
    "tools": {"t": {"run": "m:f"}},
    "flags": {"ok": False, "limit": 3, "unset": None},
}
FLOW: list[Any] = [
    "a",
    {"agent": "b", "when": "ready and a.score >= 0.5 and grade in ['A', 'B'] and not ok"},
]


async def at_the_requirement() -> Simulation:
    """A run whose second agent waits; the first has set an output to a list."""
    free = returns("text", outputs=(OutputValue(key="free", value=["x"]),))
    script = Replies({"a#1": [says("", "t")]}, {"t": free})
    sim = await Simulation.begin(plan_of(FLOW, **CREW), script)
    return await sim.run()


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("flags.ok", 5, "must be true or false, not the number 5: its initial value is such"),
        ("flags.limit", True, "must be a number, not true"),
        ("flags.limit", "7", "must be a number, not the text '7'"),
        (
            "flags.ready",
            "flase",
            "must be true or false, not the text 'flase': conditions only check",
        ),
        ("flags.grade", 1, "must be a text, not the number 1: a condition compares it"),
        ("outputs.a.score", "0.7", "must be a number, not the text '0.7'"),
        (
            "outputs.a.free",
            {"x": 1},
            "must be a list, not a mapping: its current value is such a value",
        ),
        ("outputs.a.text", 3, "must be a text, not the number 3"),
    ],
)
async def test_a_value_of_another_kind_is_refused(path: str, value: Any, why: str) -> None:
    sim = await at_the_requirement()
    before = sim.state
    refused = await sim.command("edit_state", set={path: value})
    assert refused.error is not None
    assert f"{path!r} {why}" in refused.error.message
    assert "Give " in refused.error.remedy
    assert sim.state.flags == before.flags
    assert sim.state.agent_outputs == before.agent_outputs


async def test_a_value_that_fits_is_set() -> None:
    sim = await at_the_requirement()
    fitting = {
        "flags.ok": None,
        "flags.limit": 0.5,
        "flags.unset": "anything",
        "flags.grade": "A",
        "outputs.a.score": 1,
    }
    done = await sim.command("edit_state", set=fitting)
    assert done.error is None


async def test_what_is_taken_away_first_may_become_something_else() -> None:
    sim = await at_the_requirement()
    await sim.command("edit_state", set={"shared.tone": "calm"})
    refused = await sim.command("edit_state", set={"shared.tone": ["calm"]})
    assert refused.error is not None
    assert "--delete shared.tone" in refused.error.remedy
    await sim.command("edit_state", delete=["shared.tone"])
    done = await sim.command("edit_state", set={"shared.tone": ["calm"]})
    assert done.error is None


async def test_an_answer_is_yes_no_or_words() -> None:
    flow = ["a", {"ask": "Well?", "options": ["yes", "later", "no"], "sets": "when"}]
    sim = await (await Simulation.begin(plan_of(flow))).run()
    for value in (True, "later"):
        assert (await sim.command("edit_state", set={"flags.when": value})).error is None
    assert (await sim.command("edit_state", set={"flags.when": 2})).error is not None

"""Values that several steps set: put together as `merge` says, or a conflict that people see."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from crewlog.canonical_json import canonical, hash_json
from crewlog.model import Json
from crewlog.state.calls import OutputValue
from crewlog.state.reducers import MAX_BYTES, conflict_reason
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, as_json, folded, returns, says

LARGE = ["y" * 300, "z" * 300]
ALIKE = {"k": "v" * 300}


def _output(value: Json) -> OutputValue:
    if len(canonical(value)) <= 256:
        return OutputValue(key="made", value=value)
    return OutputValue(key="made", body=hash_json(value), content=value)


async def put_together(
    how: str, values: list[Json], order: tuple[int, ...] = (), edit: Json = None
) -> Simulation:
    """A phase whose items' steps set a flag and an output each; they end in that order."""
    steps = [f"each#1.{n}" for n in range(1, len(values) + 1)]
    replies = {"maker#1": [says("", "t")], **{step: [says("", "t")] for step in steps}}
    given = dict(zip(steps, values, strict=True))

    class Script(Replies):
        def __call__(self, order_: Any) -> Any:
            if order_.call.tool is None:
                return super().__call__(order_)
            if order_.step not in given:
                made = OutputValue(key="list", value=list(range(len(values))))
                return returns("", outputs=(made,))
            value = given[order_.step]
            return returns("", flags={"sum": value}, outputs=(_output(value),))

    plan = plan_of(
        ["maker", {"agent": "each", "for_each": "maker.list"}],
        {
            "maker": {"outputs": ["list"], "tools": ["t"]},
            "each": {"outputs": ["made"], "writes_flags": ["sum"], "tools": ["t"]},
        },
        tools={"t": {"run": "m:f"}},
        flags={"sum": None},
        merge={"each.made": how, "sum": how},
    )
    sim = await Simulation.begin(plan, Script(replies))
    await sim.finish("maker#1", "maker#1", "maker#1")
    if edit is not None:
        await sim.command("edit_state", set={"outputs.each.made": edit})
    for number in order or range(len(values)):
        await sim.finish(steps[number], steps[number], steps[number])
    await sim.run()
    assert sim.state.status == "completed"
    assert as_json(folded(sim.journal)) == as_json(sim.state)
    return sim


def made(sim: Simulation) -> Any:
    return sim.state.agent_outputs[next(a for a in sim.state.agent_outputs if a == "each")]["made"]


FIT: list[tuple[str, list[Json], Json]] = [
    ("sum", [1, 2, 3], 6),
    ("max", [1, 3, 2], 3),
    ("min", ["b", "a", "c"], "a"),
    ("union", [["b", "a"], ["a", "c"], "b"], ["b", "a", "c"]),
    ("union", [LARGE, ["x", LARGE[0]]], [*LARGE, "x"]),
    ("update", [{"b": 1}, {"a": {"c": 2}}, {"b": 1}], {"a": {"c": 2}, "b": 1}),
    ("update", [{"long": "w" * 300}, {"a": 1}], {"a": 1, "long": "w" * 300}),
    ("agree", ["yes", None, "yes"], "yes"),
]


@pytest.mark.parametrize(("how", "values", "whole"), FIT)
async def test_values_are_put_together_the_same_whichever_step_is_faster(
    how: str, values: list[Json], whole: Json
) -> None:
    for order in permutations(range(len(values))):
        sim = await put_together(how, values, order)
        assert sim.state.flags["sum"] == whole  # type: ignore[index]
        assert made(sim).value == whole
        assert not sim.facts("WriteRefused")
        assert "conflicts" not in sim.state.flags


async def test_large_values_that_are_the_same_agree_by_their_hash() -> None:
    sim = await put_together("agree", [ALIKE, dict(ALIKE)])
    assert made(sim).body == hash_json(ALIKE)
    sim = await put_together("agree", [ALIKE, {"k": "w" * 300}])
    assert made(sim).body == hash_json(ALIKE)
    assert {e["key"]: e["because"] for e in sim.facts("WriteRefused")} == {
        "sum": "the two are not the same",
        "each.made": "the two are not the same",
    }


CONFLICTING: list[tuple[str, list[Json], Json, str]] = [
    ("sum", [1, "two"], 1, "'sum' takes numbers only"),
    ("sum", [True, 1], 1, "'sum' takes numbers only"),
    ("max", [1, "two"], 1, "'max' takes numbers, or texts, only"),
    ("update", [{"a": 1}, {"a": 2}], {"a": 1}, "'a' is there with another value"),
    ("update", [{"a": 1}, [1]], {"a": 1}, "'update' takes objects only"),
    ("agree", ["yes", "no"], "yes", "the two are not the same"),
]


@pytest.mark.parametrize(("how", "values", "kept", "why"), CONFLICTING)
async def test_what_does_not_fit_is_a_conflict_and_the_first_stays(
    how: str, values: list[Json], kept: Json, why: str
) -> None:
    sim = await put_together(how, values)
    assert sim.state.flags["sum"] == kept  # type: ignore[index]
    assert made(sim).value == kept
    conflicts = {e["key"]: e for e in sim.facts("WriteRefused")}
    assert set(conflicts) == {"sum", "each.made"}
    assert {e["because"] for e in conflicts.values()} == {why}
    assert sim.state.flags["conflicts"] == 2  # type: ignore[index]


async def test_a_value_that_people_set_is_put_together_with_what_steps_set() -> None:
    large = {"x": "y" * 300}
    assert made(await put_together("update", [{"a": 1}], edit=large)).value == {**large, "a": 1}
    sim = await put_together("union", [["a"]], edit=["b", "a"])
    assert made(sim).value == ["b", "a"]
    sim = await put_together("update", [{"a": 1}], edit={"x": "y" * MAX_BYTES})
    assert [e["key"] for e in sim.facts("WriteRefused")] == ["each.made"]


async def test_what_is_put_together_is_bounded() -> None:
    sim = await put_together(
        "union", [["a" * (MAX_BYTES // 2)], ["b" * (MAX_BYTES // 2)], ["c"], "d" * MAX_BYTES]
    )
    (one,) = [e for e in sim.facts("WriteRefused") if e["key"] == "sum"][:1]
    assert f"at most {MAX_BYTES:,} are put together" in one["because"]
    large = [e for e in sim.facts("WriteRefused") if e["key"] == "each.made"]
    assert len(large) == 2
    assert made(sim).value == ["a" * (MAX_BYTES // 2), "c"]


async def test_a_decision_looks_at_conflicts() -> None:
    plan = plan_of(
        [
            ["a", "b"],
            {"if": "conflicts > 0", "go": "judge"},
            "last",
            {"agent": "judge", "after": "go"},
        ],
        {name: {"writes_flags": ["verdict"]} for name in ("a", "b")},
        merge={"verdict": "agree"},
    )

    def answers(order: Any) -> Any:
        if order.call.tool is None:
            return (
                says("", "set_flag") if order.step[0] in "ab" and order.call.call == 1 else says("")
            )
        return returns("", flags={"verdict": order.step})

    sim = await Simulation.begin(plan, answers)
    await sim.run()
    assert "judge#1" in sim.ran()
    assert "last#1" not in sim.ran()


@pytest.mark.parametrize(("there", "value"), [(1e308, 1e308), (10**400, 0.5), (-1e308, -1.7e308)])
def test_a_sum_that_is_no_number_is_a_conflict(there: float, value: float) -> None:
    assert conflict_reason("sum", there, value) == "together they are no number that can be kept"


EXTREME: list[Json] = [
    1e308, 1e308, -0.0, 9 * 10**4298, 9 * 10**4298, "nan", "inf", {"a": 1e308}, {"a": [[[]]]},
    [1, 1.0, True], "\u202e\U0001f600", True, list(range(3_000)), None,
]  # fmt: skip


@pytest.mark.parametrize("how", ["union", "sum", "max", "min", "update", "agree"])
async def test_a_run_goes_on_whatever_its_steps_set(how: str) -> None:
    sim = await put_together(how, EXTREME)
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.facts("WriteRefused")
    assert as_json(folded(sim.journal)) == as_json(sim.state)

"""How values combine that several steps set: the last one, or a list in an order that is fixed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, StepId
from crewlog.state.calls import OutputValue
from crewlog.state.model import CrewState
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, as_json, folded, returns, run, says

LONG = "x" * 300


def crew_of(**merge: str) -> GraphPlan:
    """A maker, a worker for each item, and an end; the worker sets what `merge` names."""
    agents = {
        "maker": {"outputs": ["list"]},
        "worker": {"outputs": ["found"], "writes_flags": ["seen"]},
    }
    flow = ["maker", {"agent": "worker", "for_each": "maker.list"}, "last"]
    rules = {"seen": "last", "worker.found": "last"}
    return plan_of(flow, agents, merge=rules | {k.replace("__", "."): v for k, v in merge.items()})


def script(found: Any = None) -> Any:
    """Each item sets a flag and an output that say which it was."""

    def answer(order: Any) -> Any:
        name, _, number = order.step.partition("#1.")
        if order.call.tool is None:
            first = order.call.call == 1 and name in ("maker#1", "worker")
            tool = "set_output"
            return says(f"said in {order.step}", *([tool] if first else []))
        if name == "maker#1":
            return returns(outputs=(OutputValue(key="list", value=["a", "b", "c"]),))
        value = found(number) if found else f"found {number}"
        output = OutputValue(key="found", value=value)
        if isinstance(value, str) and len(value) > 256:
            output = OutputValue(key="found", body=hash_json(value), content=value)
        return returns(f"r{number}", flags={"seen": int(number)}, outputs=(output,))

    return answer


async def mapped(plan: GraphPlan, order: tuple[int, ...], answer: Any = None) -> Simulation:
    """A run whose items end in an order."""
    sim = await Simulation.begin(plan, answer or script())
    await sim.finish("maker#1", "maker#1", "maker#1")
    for number in order:
        await sim.finish(*[f"worker#1.{number}"] * 3)
    await sim.run()
    assert sim.state.status == "completed"
    assert as_json(folded(sim.journal)) == as_json(sim.state)
    assert CrewState.from_json(sim.state.to_json()) == sim.state
    return sim


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3])))
async def test_what_items_add_is_in_the_order_of_the_items(order: tuple[int, ...]) -> None:
    plan = crew_of(seen="append", worker__found="append", worker__text="append")
    sim = await mapped(plan, order)
    outputs = sim.state.agent_outputs[AgentName("worker")]
    assert sim.state.flags["seen"] == [1, 2, 3]  # type: ignore[index]
    assert outputs["found"].value == ["found 1", "found 2", "found 3"]
    finals = {
        e["step"]: e["ref"]["body"] for e in sim.facts("ModelCallCompleted") if not e.get("calls")
    }
    assert list(outputs["text"].bodies) == [finals[f"worker#1.{n}"] for n in (1, 2, 3)]
    assert outputs["text"].value is None


async def test_without_a_rule_the_last_one_stays() -> None:
    plain = crew_of()  # runs of older crews have no rules, though a check asks for them now
    for plan in (plain, plain.model_copy(update={"merge": {}})):
        sim = await mapped(plan, (3, 1, 2))
        assert sim.state.flags["seen"] == 2  # type: ignore[index]
        assert sim.state.agent_outputs[AgentName("worker")]["found"].value == "found 2"
        assert not [e for e in sim.journal if "append" in e]


async def test_large_values_are_kept_by_their_bodies() -> None:
    plan = crew_of(worker__found="append")
    sim = await mapped(plan, (2, 1, 3), script(lambda n: LONG + n if n == "2" else n))
    found = sim.state.agent_outputs[AgentName("worker")]["found"]
    assert [part.value for part in found.elements] == ["1", None, "3"]
    assert found.bodies == (hash_json(LONG + "2"),)
    assert found.value is None, "conditions see no list that is not small"


async def test_steps_that_are_no_items_add_in_the_order_of_the_journal() -> None:
    agents = {name: {"writes_flags": ["seen"]} for name in ("a", "b")}
    flow: list[Any] = [["a", "b"], {"ask": "Well?", "sets": "seen", "options": ["yes", "no"]}]
    plan = plan_of([*flow, "last"], agents, merge={"seen": "append"}, flags={"seen": [0]})
    tools = {"set_flag/2": returns(flags={"seen": "x"})}
    replies = {f"{n}#1": [says("", "set_flag")] for n in "ab"}
    sim = await run(plan, Replies(replies, tools))
    await sim.answer("no")
    await sim.run()
    assert sim.state.flags["seen"] == [0, "x", "x", False]  # type: ignore[index]


async def test_a_list_that_steps_made_can_be_mapped_over() -> None:
    agents = {
        "maker": {"outputs": ["list"]},
        "worker": {"outputs": ["found"]},
    }
    flow = [
        "maker",
        {"agent": "worker", "for_each": "maker.list"},
        {"agent": "last", "for_each": "worker.found"},
    ]
    plan = plan_of(flow, agents, merge={"worker.found": "append"})
    sim = await Simulation.begin(plan, script(lambda n: LONG if n == "2" else n))
    await sim.finish("maker#1", "maker#1", "maker#1")
    for number in (3, 2, 1):
        await sim.finish(*[f"worker#1.{number}"] * 3)
    items = [sim.engine.child_steps.item(StepId(f"last#1.{n}")) for n in (1, 2, 3)]
    assert [(i.value, i.body) for i in items if i] == [
        ("1", None), (None, hash_json(LONG)), ("3", None),
    ]  # fmt: skip
    await sim.run()
    assert sim.state.status == "completed"
    assert as_json(folded(sim.journal)) == as_json(sim.state)

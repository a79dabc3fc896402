"""Artifacts in the engine: one log in call order, whose head who may see it gets, and refusals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, ContentHash, artifact_log
from crewlog.state.artifacts import fold, operations_body
from crewlog.state.calls import ArtifactChange, RefusedOperations
from crewlog.state.logs import empty_log_head
from graph.crews import plan_of
from graph.simulation import RUN, Replies, Simulation, returns, says

TOOLS = {"act": {"run": "m:f"}}
LOG = artifact_log("doc")
ROOT = empty_log_head(RUN, LOG)
ORDERS = list(itertools.permutations([2, 3, 4]))


def crew(**doc: Any) -> GraphPlan:
    return plan_of(["a", "b"], {"a": {}}, tools=TOOLS, artifacts={"doc": doc})


def change(call: int, *, name: str = "doc", base: ContentHash = ROOT) -> ArtifactChange:
    """What the call `call` does: a key of its own, and one that all of them set."""
    operations = [
        {"op": "add", "path": f"/{call}", "value": call},
        {"op": "add", "path": "/last", "value": call},
    ]
    body = operations_body(f"a#1/{call}", "a", operations)
    return ArtifactChange(artifact=name, body=hash_json(body), content=body, count=2, base=base)


def script(**names: str) -> Replies:
    tools = {
        f"act/{n}": returns(f"t{n}", operations=(change(n, name=names.get(f"c{n}", "doc")),))
        for n in (2, 3, 4)
    }
    return Replies({"a#1": [says("", "act", "act", "act")]}, tools)


async def landed(plan: GraphPlan, order: tuple[int, ...], replies: Replies) -> Simulation:
    sim = await Simulation.begin(plan, replies)
    await sim.finish("a#1")
    for number in order:
        await sim.land(("a#1", number))
    return sim


@pytest.mark.parametrize("order", ORDERS)
async def test_the_log_has_the_operations_in_call_order(order: tuple[int, ...]) -> None:
    sim = await landed(crew(), order, script())
    applied = sim.facts("ArtifactOperationsApplied")
    assert [entry["call"] for entry in applied] == [2, 3, 4]
    assert [entry.get("moved", False) for entry in applied] == [False, True, True]
    assert all("base" not in entry for entry in applied), "what only the engine needs is not kept"
    bodies = [change(entry["call"]).content for entry in applied]
    assert [hash_json(body) for body in bodies] == [entry["ref"]["body"] for entry in applied]
    assert fold(bodies, {}).value == {"2": 2, "3": 3, "4": 4, "last": 4}
    turn = sim.state.frontier["a#1"].turn  # type: ignore[index]
    assert turn is not None
    assert turn.unresolved == (3, 4)


async def test_the_next_reply_settles_what_is_open_and_is_journaled_before_it() -> None:
    told = RefusedOperations(call=3, artifact="doc", refused=1, reasons=("1: …",))
    replies = script()
    replies._replies["a#1"] = iter(
        [says("", "act", "act", "act"), says("done", refused_operations=(told,))]
    )
    sim = await landed(crew(), (2, 3, 4), replies)
    await sim.run()
    (settled,) = sim.facts("ArtifactOperationsRefused")
    assert (settled["step"], settled["call"], settled["refused"]) == ("a#1", 3, 1)
    kinds = [entry["kind"] for entry in sim.journal]
    after = kinds.index("ArtifactOperationsRefused") + 1
    assert kinds[after] == "ModelCallCompleted"


async def test_who_may_not_change_it_is_refused_whatever_the_activity_says() -> None:
    plan = crew(writers=["b"])
    sim = await landed(plan, (3, 2, 4), script(c4="other"))
    assert sim.facts("ArtifactOperationsApplied") == []
    reasons = [entry["reason"] for entry in sim.facts("PermissionDenied")]
    mine = "'a' may not change the artifact 'doc'"
    assert reasons == [mine, mine, "there is no artifact 'other'"]
    assert LOG not in sim.state.messages


async def test_a_view_has_the_head_for_those_who_see_it_alone() -> None:
    sim = await landed(crew(readers=["b"]), (2, 3, 4), script())
    head = sim.state.messages[LOG].head
    assert sim.engine.view(AgentName("b")).heads[LOG] == head
    assert LOG not in sim.engine.view(AgentName("a")).heads
    assert LOG not in sim.engine.view(AgentName("b")).without(lambda log: log == LOG).heads

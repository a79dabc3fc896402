"""Edits of the state and of permissions by people, and names for checkpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.graph.tags import MOST_TAGS
from crewlog.ids import RunId
from crewlog.state import journal as j
from crewlog.state.calls import OutputValue
from crewlog.state.checkpoints import checkpoint_kind
from crewlog.state.journal import Batch
from crewlog.store.projection import project
from crewlog.workflows.commands.queue import Applied
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, as_json, final, folded, returns, says

TOOLS = {name: {"run": "m:f"} for name in ("read", "act")}


async def at(flow: list[Any], *done: str, script: Any = final, **more: Any) -> Simulation:
    sim = await Simulation.begin(plan_of(flow, **more), script)
    await sim.settle()
    sim.launch()
    await sim.finish(*done)
    return sim


def waiting() -> list[Any]:
    return ["a", {"agent": "b", "when": "a.ready and ok"}]


READY = {"a": {"writes_flags": ["ready"], "outputs": ["score", "list"]}}


async def test_a_waiting_step_whose_condition_comes_true_goes_on() -> None:
    sim = await at(waiting(), agents=READY)
    await sim.command("edit_state", set={"flags.ok": True})
    await sim.finish("a#1")
    assert sim.asked().kind == "requirement", "half of the condition is not enough"
    done = await sim.command("edit_state", set={"flags.ready": True}, reason="seen it")
    assert isinstance(done.outcome, Applied)
    assert done.outcome.result.detail == "flags.ready = true"
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran() == ["a#1", "b#1"]
    assert [e["decision"] for e in sim.facts("InterruptAnswered")] == ["withdrawn"]
    assert sim.facts("StateEdited")[-1]["reason"] == "seen it"


async def test_each_kind_of_path_is_set_and_taken_away() -> None:
    sim = await at(["a", "b"], agents=READY)
    values = {
        "flags.ok": True,
        "outputs.a.score": 0.5,
        "shared.tone": {"formal": True},
        "private.agent:b.hint": [1, 2],
    }
    await sim.command("edit_state", set=values)
    state = sim.state
    assert state.flags["ok"] is True  # type: ignore[index]
    assert state.agent_outputs["a"]["score"].value == 0.5  # type: ignore[index]
    assert state.shared_context == {"tone": {"formal": True}}
    assert state.private_context == {"agent:b": {"hint": [1, 2]}}
    gone = await sim.command("edit_state", delete=[*values, "flags.ready"])
    assert gone.error is None
    state = sim.state
    assert not state.flags
    assert not state.agent_outputs
    assert not state.shared_context
    assert not state.private_context
    assert as_json(folded(sim.journal)) == as_json(state)


async def test_a_large_output_is_a_body_that_the_store_keeps() -> None:
    flow = ["a", {"agent": "b", "for_each": "a.list"}]
    sim = await at(flow, "a#1", agents=READY)
    assert "which is not set" in sim.asked().question
    items = [f"{n}" * 100 for n in range(4)]
    await sim.command("edit_state", set={"outputs.a.list": items, "outputs.a.text": "x" * 300})
    output = sim.state.agent_outputs["a"]["list"]  # type: ignore[index]
    assert (output.value, output.body, output.items) == (None, hash_json(items), 4)
    batch = Batch(first=1, entries=tuple(sim.journal))
    bodies = project(RunId("sim"), batch).bodies
    assert bodies[hash_json(items)].body == items
    assert bodies[hash_json("x" * 300)].body == "x" * 300
    await sim.run()
    assert sim.state.status == "completed"
    assert sorted(sim.ran())[1:] == [f"b#1.{n}" for n in range(1, 5)]


async def test_a_small_list_is_one_that_a_node_has_steps_for() -> None:
    sim = await at(["a", {"agent": "b", "for_each": "a.list"}], "a#1", agents=READY)
    await sim.command("edit_state", set={"outputs.a.list": ["x", "y"]})
    await sim.run()
    assert sorted(sim.ran()) == ["a#1", "b#1.1", "b#1.2"]


async def test_a_list_that_steps_add_to_is_replaced_and_added_to() -> None:
    more = {"flags": {"ok": [1]}, "merge": {"ok": "append", "a.list": "append"}}
    agents = {"a": {"writes_flags": ["ok"], "outputs": ["list"]}}
    adds = returns(flags={"ok": "new"}, outputs=(OutputValue(key="list", value="new"),))
    script = Replies({"a#1": [says("", "set_flag")]}, {"set_flag": adds})
    sim = await at(["a", "b"], "a#1", script=script, agents=agents, **more)
    large = "y" * 300
    await sim.command("edit_state", set={"flags.ok": [2, 3], "outputs.a.list": ["x", large]})
    await sim.finish("a#1")
    assert sim.state.flags["ok"] == [2, 3, "new"]  # type: ignore[index]
    parts = sim.state.agent_outputs["a"]["list"].elements  # type: ignore[index]
    assert [part.value or part.body for part in parts] == ["x", hash_json(large), "new"]
    bodies = project(RunId("sim"), Batch(first=1, entries=tuple(sim.journal))).bodies
    assert bodies[hash_json(large)].body == large
    refused = await sim.command("edit_state", set={"flags.ok": 1})
    assert refused.error is not None
    assert "must be a list" in refused.error.message


@pytest.mark.parametrize(
    ("content", "what", "remedy"),
    [
        ({"set": {"flags.reedy": 1}}, "'flags.reedy'", "Did you mean 'flags.ready'?"),
        ({"set": {"ready": 1}}, "'ready'", "Did you mean 'flags.ready'?"),
        ({"set": {"a.score": 1}}, "'a.score'", "Did you mean 'outputs.a.score'?"),
        ({"set": {"outputs.a.scor": 1}}, "'outputs.a.scor'", "Did you mean 'outputs.a.score'?"),
        ({"set": {"flags.zzzzzzzz": 1}}, "'flags.zzzzzzzz'", "This crew has flags.ok"),
        ({"delete": ["flagz"]}, "'flagz'", ""),
        ({"set": {"private.agent:bb.x": 1}}, "audience 'agent:bb'", "Did you mean 'agent:b'?"),
        ({"set": {"shared.": 1}}, "'shared.'", "Paths are"),
        ({"set": {"shared.tone": "x" * 5000}}, "5,002 bytes", "it takes a value of any size"),
        ({"set": {"flags.ok": 1}, "delete": ["flags.ok"]}, "both set and removed", ""),
    ],
)
async def test_what_cannot_be_is_refused_by_name_and_nothing_is_changed(
    content: dict[str, Any], what: str, remedy: str
) -> None:
    sim = await at(waiting(), agents=READY)
    before = sim.state
    values = {"shared.fine": 1, **content.get("set", {})}
    refused = await sim.command("edit_state", **{**content, "set": values})
    assert refused.error is not None
    assert what in refused.error.message
    assert remedy in refused.error.remedy
    assert sim.state.flags == before.flags
    assert sim.state.shared_context == {}


async def test_a_permission_holds_for_the_next_call_and_for_those_that_wait() -> None:
    script = Replies({"a#1": [says("", "read", "act"), says("", "act")]})
    sim = await Simulation.begin(
        plan_of(["a", "b"], {"a": {"tools": ["read", "act"]}}, tools=TOOLS), script
    )
    sim.parallel = 1
    await sim.settle()
    sim.launch()
    await sim.finish("a#1")
    assert list(sim.flights) == [("a#1", 2)], "the second call waits for room"
    done = await sim.command("set_permission", tool="act", agents=["b"])
    assert isinstance(done.outcome, Applied)
    assert done.outcome.result.detail == "b may call act"
    await sim.settle()
    assert [(e["tool"], e["call"]) for e in sim.facts("PermissionDenied")] == [("act", 3)]
    await sim.command("set_permission", tool="act", agents=None)
    await sim.run()
    assert sim.state.status == "completed"
    made = [order[:2] for order in sim.made]
    assert ("a#1", 3) not in made
    assert ("a#1", 5) in made, "and allowed again"


async def test_a_call_that_people_approved_is_looked_at_again() -> None:
    plan = plan_of(["a"], {"a": {"tools": ["act"]}}, tools=TOOLS, approvals={"act": None})
    sim = await (await Simulation.begin(plan, Replies({"a#1": [says("", "act")]}))).run()
    await sim.command("set_permission", tool="act", agents=[])
    await sim.answer("approve")
    await sim.run()
    assert sim.state.status == "completed"
    assert ("a#1", 2, 1) not in sim.made
    (denied,) = sim.facts("PermissionDenied")
    assert "permissions do not let" in denied["reason"]


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        ({"tool": "reed", "agents": []}, "Did you mean 'read'?"),
        ({"tool": "read", "agents": ["nobody"]}, "Agents: a, b."),
    ],
)
async def test_a_permission_of_what_is_not_there(content: dict[str, Any], remedy: str) -> None:
    sim = await at(["a", "b"], agents={"a": {"tools": ["read"]}}, tools=TOOLS)
    refused = await sim.command("set_permission", **content)
    assert refused.error is not None
    assert remedy in refused.error.remedy
    assert sim.state.tool_permissions == {}


def checkpoints(sim: Simulation) -> list[int]:
    """The positions of the run's beginning and of the ends of its steps."""
    kinds = ((each["kind"], each.get("source"), each.get("because", "")) for each in sim.journal)
    return [at for at, found in enumerate(kinds, 1) if checkpoint_kind(*found) is not None]


async def test_a_checkpoint_gets_a_name_and_the_name_moves() -> None:
    sim = await at(["a", "b"], "a#1")
    await sim.command("pause")
    begin, end = checkpoints(sim)
    await sim.command("tag", checkpoint=begin, tag="before")
    await sim.command("tag", checkpoint=end, tag="before")
    await sim.command("tag", checkpoint=begin, tag="first")
    assert sim.state.tags == {"before": end, "first": begin}
    late = await sim.command("tag", checkpoint=10_000, tag="late")
    assert late.error is not None
    assert "no checkpoint 10000 yet" in late.error.message
    for number in range(MOST_TAGS):
        await sim.command("tag", checkpoint=begin, tag=f"t{number}")
    assert len(sim.state.tags) == MOST_TAGS
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_what_is_no_checkpoint_gets_no_name() -> None:
    sim = await at(["a", "b"], "a#1")
    begin, end = checkpoints(sim)
    refused = await sim.command("tag", checkpoint=begin + 1, tag="between")
    assert refused.error is not None
    assert f"position {begin + 1} of the run" in refused.error.message
    assert f"@{begin} and {sim.state.run}@{end}" in refused.error.remedy
    assert sim.state.tags == {}


@pytest.mark.parametrize("name", ["12", "a b", "a@b", "-x", "a/b", "10**30", "", "x" * 101])
async def test_a_name_that_could_be_mistaken_is_refused(name: str) -> None:
    sim = await at(["a", "b"], "a#1")
    refused = await sim.command("tag", checkpoint=checkpoints(sim)[0], tag=name)
    assert refused.error is not None
    assert sim.state.tags == {}


async def test_facts_of_people_come_back_from_json_as_they_were() -> None:
    for edit in (
        j.Edit(path="flags.ok", value=None),
        j.Edit(path="flags.ok", value=False),
        j.Edit(path="flags.ok", delete=True),
        j.Edit(path="outputs.a.list", value=[], append=True),
    ):
        entry = j.StateEdited(edits=(edit,))
        data = json.loads(json.dumps(j.entry_to_json(entry)))
        assert repr(j.entry_from_json(data)) == repr(entry)


async def test_what_an_agent_that_has_left_said_stays_for_those_whom_it_was_for() -> None:
    secret = {"a": {"outputs": ["score"], "shares": []}}
    sim = await at(["a", "b"], agents=secret)
    await sim.command("edit_state", set={"outputs.a.score": 2})
    assert sim.state.agent_outputs["a"]["score"].logs == ("private:a",)  # type: ignore[index]
    await sim.change(plan_of(["b"]))
    assert "a" not in sim.engine.plan.agents
    await sim.command("edit_state", set={"outputs.a.score": 3})
    found = sim.state.agent_outputs["a"]["score"]  # type: ignore[index]
    assert (found.value, found.logs) == (3, ("private:a",))

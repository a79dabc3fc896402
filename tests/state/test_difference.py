"""What differs between two states and between two graphs."""

from __future__ import annotations

from typing import Any

from crewlog.reporting.diff.plan import plan_diff, plan_edges
from crewlog.reporting.diff.state import SECTIONS, StateChange, state_diff
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState
from graph.crews import plan_of
from graph.simulation import RUN, Simulation, crew_run, says


def told(changes: tuple[StateChange, ...]) -> list[tuple[Any, ...]]:
    return [(c.section, c.name, c.kind, c.old, c.new) for c in changes]


async def waiting() -> Simulation:
    plan = plan_of(["a", {"agent": "b", "when": "a.ready"}], {"a": {"writes_flags": ["ready"]}})
    return await (await Simulation.begin(plan, lambda _: says("done"))).run()


async def test_an_edit_and_what_follows_from_it() -> None:
    sim = await waiting()
    before = sim.state
    await sim.command("edit_state", set={"flags.ready": True, "outputs.a.text": "mine"})
    found = state_diff(before, sim.state)
    body = before.agent_outputs["a"]["text"].body  # type: ignore[index]
    assert told(found.under("flags")) == [("flags", "ready", "added", None, True)]
    assert told(found.under("outputs")) == [
        ("outputs", "a.text", "changed", {"body": body}, "mine")
    ]
    assert {change.section for change in found.changes} == {"flags", "outputs"}
    await sim.run()
    after = state_diff(before, sim.state)
    assert told(after.under("frontier")) == [
        ("frontier", "b#1", "removed", "interrupted: for a.ready", None)
    ]
    assert ("messages", "public", "changed", 2, 3) in told(after.under("messages"))
    assert ("done", "b", "added", None, 1) in told(after.changes)
    assert ("run", "status", "changed", "running", "completed") in told(after.changes)


async def test_a_state_does_not_differ_from_itself_and_one_is_not_true() -> None:
    sim = await waiting()
    assert not state_diff(sim.state, sim.state)
    assert not state_diff(sim.state, CrewState.from_json(sim.state.to_json()))
    one = sim.state.model_copy(update={"flags": {"ok": 1}})
    true = sim.state.model_copy(update={"flags": {"ok": True}})
    assert told(state_diff(one, true).changes) == [("flags", "ok", "changed", 1, True)]


async def test_differences_backwards_are_the_same_ones() -> None:
    flip = {"added": "removed", "removed": "added", "changed": "changed"}
    seen: set[str] = set()
    for seed in range(24):
        states = (await crew_run(seed)).engine.journal.states  # type: ignore[attr-defined]
        for old, new in zip(states[::7], states[5::7], strict=False):
            there, back = state_diff(old, new).changes, state_diff(new, old).changes
            assert {(c.section, c.name, c.kind) for c in there} == {
                (c.section, c.name, flip[c.kind]) for c in back
            }
            assert all((c.old is None) or c.kind != "added" for c in there)
            seen |= {c.section for c in there}
    assert seen >= {*SECTIONS} - {"graph", "shared", "private", "detached_steps"}


async def test_the_states_between_two_add_up_to_their_difference() -> None:
    """What `reduce` leaves alone is not looked at: nothing may be missed by that."""
    for seed in range(4):
        state = CrewState(run=RUN)
        for entry in (await crew_run(seed)).journal:
            after = fold(state, j.entry_from_json(entry))
            copied = CrewState.from_json(after.to_json())
            assert state_diff(state, after) == state_diff(state, copied)
            state = after


def test_graphs_differ_in_nodes_edges_and_rules() -> None:
    tools = {"read": {"run": "m:f"}}
    old = plan_of(["a", "b", "c"], {"b": {"max_calls": 3}}, tools=tools)
    new = plan_of(
        ["a", "b", {"agent": "d", "after": ["b"]}, {"agent": "c", "after": ["a", "d"]}],
        {"b": {"max_calls": 4}},
        tools=tools,
        permissions={"read": ["a"]},
    )
    found = plan_diff(old, new)
    assert (found.added, found.removed) == (("d",), ())
    assert found.edges_added == (("b", "d", "join"), ("a", "c", "join"), ("d", "c", "join"))
    assert found.edges_removed == (("b", "c", "join"),)
    assert "max_calls" in found.rules["agents.b"]
    assert found.rules["agents.d"] == ("added",)
    assert found.rules["permissions.read"] == ("added",)
    assert not plan_diff(old, old)
    back = plan_diff(new, old)
    assert (back.removed, back.edges_removed) == (("d",), found.edges_added)


def test_edges_tell_what_leads_there() -> None:
    plan = plan_of(
        [
            "a",
            {"if": "not ok", "go": "a", "at_most": 2, "phase": "d"},
            {"ask": "Well?", "options": ["yes", "a", "no"], "phase": "q"},
            "z",
        ]
    )
    assert set(plan_edges(plan)) == {
        ("a", "d", "join"),
        ("d", "a", "go"),
        ("d", "q", "join"),
        ("q", "a", "answer"),
        ("q", "z", "join"),
    }

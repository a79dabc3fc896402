"""What people let an agent call while it lives in a run holds for it wherever it goes."""

from __future__ import annotations

from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.graph.restore import start_split_run as begun_as_part
from crewlog.graph.run_merge.surviving_run import apply_merge
from crewlog.ids import AgentName
from crewlog.state.fold import fold
from crewlog.state.journal import ComponentChanged, entry_from_json
from crewlog.state.model import CrewState
from crewlog.state.split import split_run_state
from graph.simulation import RUN, Simulation, dice
from graph.test_bounded_splits import APART, apart, pond, says_all
from graph.test_taking_in import prepared

TIE = {"op": "connect", "sender": "ann", "listener": "dan", "channel": "tie"}


def may(sim: Simulation) -> set[str]:
    """Who may dig in a run, of all who have what it takes."""
    names = ("ann", "bob", "dan")
    return {name for name in names if sim.engine.check(AgentName(name), "dig").allowed}


def begun(
    sim: Simulation, before: CrewState, kept: CrewDefinition
) -> tuple[Simulation, CrewDefinition]:
    """The run that those who left are, as it begins from what the other one's journal says."""
    [fact] = sim.facts("ComponentChanged")
    entry = entry_from_json(fact)
    assert isinstance(entry, ComponentChanged)
    [made] = entry.split_runs
    after = fold(before, entry.model_copy(update={"split_runs": ()}))
    then = split_run_state(after, made.run, made.contents, made.definition, ())
    policy = kept.graph
    assert policy is not None
    away = {n: RUN for n in kept.agents if n not in policy.away}
    theirs = kept.model_copy(update={"graph": policy.model_copy(update={"away": away})})
    plan = lower(load_data(theirs.to_json()))
    engine = begun_as_part(plan, then, RUN, by="eve", at=1, split="apart")
    return Simulation(engine, says_all(), dice(0)), theirs


async def test_it_holds_over_a_split_and_where_who_left_comes_home() -> None:
    crew = pond(permissions={"dig": ["ann"]})
    sim = await Simulation.begin(lower(crew), says_all())
    await sim.settle()
    await sim.command("set_permission", tool="dig", agents=["ann", "bob"])
    before = sim.state
    kept = apart(sim, crew, APART)
    part, theirs = begun(sim, before, kept)
    assert may(sim) == may(part) == {"ann", "bob"}
    await part.command("set_permission", tool="dig", agents=["dan"])
    assert (may(sim), may(part)) == ({"ann", "bob"}, {"dan"})
    apply_merge(sim.engine, prepared(sim, part, (kept, theirs), **TIE), op="m")
    assert may(sim) == {"ann", "bob", "dan"}

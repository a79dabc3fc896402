"""A graph with budgets and quotas falls apart: its parts may do, and ask for, what it could."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import AddAgent, EditCrew, Operation, RemoveChannel
from crewlog.graph.engine import Engine
from crewlog.graph.lowering.plans import lower
from crewlog.graph.run_split import split_contents, split_definitions
from crewlog.graph.swap import live_change
from crewlog.ids import CommandId, RunId
from crewlog.state.calls import PrepareChangeResult, PreparedSplitRun
from crewlog.state.components import split_components
from crewlog.state.model import CrewState
from crewlog.state.recorder import Journal
from crewlog.state.split import SplitContents, split_run_state
from graph.simulation import RUN, Replies, Simulation, as_json, dice, folded, says

USES = {"calls": 1, "input_tokens": 60, "output_tokens": 40, "cost": 0.5}
APART = RemoveChannel(name="tie")


def pond(**more: Any) -> CrewDefinition:
    """Three who talk in `near`, and one in `far` whom `tie` leads to."""
    agents = {
        "ann": {"prompt": "p", "listen": ["near"], "send": ["tie"], "tools": ["dig"]},
        "bob": {"prompt": "p", "listen": ["near"], "tools": ["dig"]},
        "cid": {"prompt": "p", "listen": ["near"], "tools": []},
        "dan": {"prompt": "p", "listen": ["far", "tie"], "tools": ["dig"]},
    }
    data = {"crew": "t", "model": "openai:x", "agents": agents, "tools": {"dig": {"run": "m:d"}}}
    return load_data(data | more)


def apart(sim: Simulation, crew: CrewDefinition, *operations: Operation) -> CrewDefinition:
    """Has a run change so that its graph falls apart, as the workflow does; the crew it keeps."""
    after = apply_operations(crew, operations)
    command = CommandId("apart")
    graph = lower(after).component
    assert graph is not None
    graphs = split_components(RUN, graph, command)
    crews = {
        id_: load_data(each.to_json())
        for id_, each in split_definitions(after, graphs, RUN).items()
    }
    parts = tuple(
        PreparedSplitRun(
            run=id_,
            definition=crews[id_].to_json(),
            component=each,
            contents=split_contents(after, each),
        )
        for id_, each in graphs.items()
        if id_ != RUN
    )
    prepared = PrepareChangeResult(plan=lower(crews[RUN]).to_json(), split_runs=parts)
    report, plan = live_change.change_report(sim.engine, prepared)
    live_change.accept_change(sim.engine, plan, report, by="eve", command=command, split_runs=parts)
    assert live_change.split(sim.engine) is None
    return crews[RUN]


def part_of(sim: Simulation, before: CrewState, crew: CrewDefinition) -> Simulation:
    """The run that those who left are from then on."""
    [fact] = sim.facts("ComponentChanged")
    [made] = fact["split_runs"]
    share = SplitContents.model_validate(made["contents"])
    policy = crew.graph
    assert policy is not None
    away = {n: RUN for n in crew.agents if n not in policy.away}
    theirs = crew.model_copy(update={"graph": policy.model_copy(update={"away": away})})
    state = split_run_state(before, RunId(made["run"]), share, made["definition"], ())
    journal = Journal(state)
    return Simulation(Engine(lower(load_data(theirs.to_json())), journal), says_all(), dice(0))


def says_all() -> Replies:
    names = ("ann", "bob", "cid", "dan")
    return Replies({f"{name}#{n}": [says("", usage=USES)] for name in names for n in range(1, 20)})


def left(state: CrewState, crew: CrewDefinition, budget: str) -> float:
    usage = state.total_usage
    used = usage.cost if budget == "cost" else usage.input_tokens + usage.output_tokens
    return getattr(crew.limits, budget) + state.added_budgets.get(budget, 0) - used


async def hear(sim: Simulation, channel: str, times: int = 1) -> None:
    for number in range(times):
        await sim.command("message", text=f"m{number}", to=f"channel:{channel}")
        await sim.run()


@pytest.mark.parametrize(
    ("budget", "limit", "mine", "theirs"),
    [
        ("tokens", 300, (225, "225"), (75, "75")),
        ("tokens", 298, (224, "224"), (75, "75")),  # 300 were used
        ("cost", 1.5, (1.125, "$1.125"), (0.375, "$0.375")),
    ],
)
async def test_each_part_asks_for_its_share_of_what_the_run_asks_for(
    budget: str, limit: float, mine: tuple[float, str], theirs: tuple[float, str]
) -> None:
    crew = pond(limits={budget: limit})
    sim = await Simulation.begin(lower(crew), says_all())
    await hear(sim, "near", 2)
    assert (sim.asked().more, sim.asked().question.startswith("The run has ")) == (limit, True)
    before = sim.state
    kept = apart(sim, crew, APART)
    part = part_of(sim, before, kept)
    debt = -left(before, crew, budget)
    # What was asked for all of them is asked for those who stay, and for those who left.
    await sim.run()
    await hear(part, "far")
    for each, (more, told) in ((sim, mine), (part, theirs)):
        asked = each.asked()
        assert (asked.budget, asked.more) == (budget, more)
        assert f", and its share of the limit is used up. Go on with {told} more?" in asked.question
        await each.answer("go on")
        assert left(each.state, kept, budget) == pytest.approx(more - debt * more / limit, abs=1)
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_a_question_of_time_stays_open() -> None:
    crew = pond(limits={"tokens": 1000})
    sim = await Simulation.begin(lower(crew), says_all())
    await sim.run()
    sim.engine.ask("budget", "Go on?", budget="wall", more=60)
    apart(sim, crew, APART)
    assert sim.asked().budget == "wall"


async def test_who_came_to_a_part_counts_there() -> None:
    crew = pond(limits={"tokens": 400})
    sim = await Simulation.begin(lower(crew), says_all())
    kept = apart(sim, crew, APART)
    more = apply_operations(kept, [AddAgent(name="eve", agent={"prompt": "p", "listen": ["near"]})])
    await sim.change(lower(more))
    await hear(sim, "near", 4)
    assert sim.asked().more == 400 * 4 / 5


@pytest.mark.parametrize(("budget", "limit", "raised"), [("tokens", 300, 700), ("cost", 1.5, 3.5)])
async def test_a_raise_in_the_change_that_parts_is_divided(
    budget: str, limit: float, raised: float
) -> None:
    crew = pond(limits={budget: limit})
    sim = await Simulation.begin(lower(crew), says_all())
    await hear(sim, "near")
    before = sim.state
    kept = apart(sim, crew, EditCrew(set={"limits": {budget: raised}}), APART)
    part = part_of(sim, before, kept)
    rest = raised - limit
    assert left(sim.state, kept, budget) == pytest.approx(rest * 3 / 4)
    assert left(part.state, kept, budget) == pytest.approx(rest * 1 / 4)


async def test_a_quota_that_the_change_brings_is_divided() -> None:
    crew = pond()
    sim = await Simulation.begin(lower(crew), says_all())
    await sim.run()
    before = sim.state
    quota = [{"tool": "dig", "quota": "9 per run"}]
    kept = apart(sim, crew, EditCrew(set={"rules": quota}), APART)
    part = part_of(sim, before, kept)
    assert [[*each.state.quotas.values()] for each in (sim, part)] == [[3], [6]]


async def test_who_is_added_alone_has_a_share_of_a_quota() -> None:
    crew = pond(rules=[{"tool": "dig", "quota": "8 per run"}])
    sim = await Simulation.begin(lower(crew), says_all())
    await sim.run()
    agent = {"prompt": "p", "listen": ["alone"], "tools": ["dig"]}
    apart(sim, crew, AddAgent(name="eve", agent=agent))
    [fact] = sim.facts("ComponentChanged")
    assert [*fact["remaining_budget"]["quotas"].values()] == [2]
    assert [*fact["split_runs"][0]["contents"]["remaining_budget"]["quotas"].values()] == [6]


@pytest.mark.parametrize("rules", [[], [{"tool": "dig", "quota": "8 per day"}]])
async def test_who_is_added_alone_as_the_quota_goes_has_a_share_of_what_was_used(
    rules: list[dict[str, Any]],
) -> None:
    """It may come back, and counts on then: no part has more by that than it would have had."""
    crew = pond(rules=[{"tool": "dig", "quota": "8 per run"}])
    sim = await Simulation.begin(lower(crew), says_all())
    await sim.run()
    agent = {"prompt": "p", "listen": ["alone"], "tools": ["dig"]}
    apart(sim, crew, EditCrew(set={"rules": rules}), AddAgent(name="eve", agent=agent))
    [fact] = sim.facts("ComponentChanged")
    assert [*fact["remaining_budget"]["quotas"].values()] == [2]
    assert [*fact["split_runs"][0]["contents"]["remaining_budget"]["quotas"].values()] == [6]


async def test_what_a_split_fails_of_is_there_for_who_reads_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    crew = pond(rules=[{"tool": "dig", "quota": "8 per run"}])
    sim = await Simulation.begin(lower(crew), says_all())
    bug = KeyError("eve")

    def fails(*_: object) -> None:
        raise bug

    monkeypatch.setattr(live_change, "divided_budgets", fails)
    with pytest.raises(AssertionError) as caught:
        apart(sim, crew, APART)
    assert "KeyError('eve')" in str(caught.value)
    assert bug.__traceback__ is not None
    assert sim.facts("ComponentChanged") == [], "the run goes on as it was"

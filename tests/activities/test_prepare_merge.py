"""The preparation of a run merge from the stored state of the other run."""

from __future__ import annotations

import asyncio
import json
from unittest import mock

import pytest
from activity_kit import assert_referenced

from crewlog.activities import run_merge
from crewlog.activities.definitions import Definitions
from crewlog.activities.run_merge import FIRST_BATCH_TIMEOUT, RunMerges
from crewlog.activities.server import Server
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.errors import ComponentConflict, StoreUnavailable
from crewlog.graph.lowering.plans import lower
from crewlog.graph.run_merge.surviving_run import apply_merge
from crewlog.ids import RunId, StepId
from crewlog.state import journal as j
from crewlog.state.calls import PrepareMerge, PrepareMergeResult
from crewlog.state.journal import Batch, entry_to_json
from crewlog.state.model import CrewState
from crewlog.state.run_merge.surviving_state import removed_agents
from crewlog.store import InMemoryStore
from crewlog.store.journal_reader import load_state
from crewlog.workflows.activity_options import PREPARE_CHANGE_OPTIONS
from graph.simulation import Simulation, final

ONE, TWO = RunId("one"), RunId("two")
EDGE = {"op": "connect", "sender": "a", "listener": "b", "channel": "x"}


def crew(name: str, **more: object) -> CrewDefinition:
    agents = {name: {"prompt": "p", "listen": ["x"]}}
    return load_data({"crew": "t", "model": "openai:x", "agents": agents, **more})


async def stored(store: InMemoryStore, run: RunId, definition: CrewDefinition) -> Simulation:
    """A run with a message that waits for its agent."""
    await store.put_definition(run, definition.to_json())
    with mock.patch("graph.simulation.RUN", run):
        sim = await Simulation.begin(lower(definition), final)
    await sim.command("message", text="one", to="channel:x")
    await sim.settle()
    await keep(store, sim)
    return sim


async def keep(store: InMemoryStore, sim: Simulation) -> None:
    journal = sim.engine.journal
    await store.append(sim.state.run, journal.unpacked_batch())
    journal.mark_stored(sim.state.position)


ENTERED_AT = 3
"""The position at which the surviving run entered the merge."""


async def freeze(
    store: InMemoryStore, two: Simulation, to: RunId = ONE, started_at: int | None = None
) -> None:
    """Freezes a run for a merge, and stores it."""
    two.engine.record(
        j.MergeAccepted(
            merge="m",
            other=to,
            requester=to,
            status="draining",
            deadline=9,
            other_position=ENTERED_AT,
            other_started_at=two.state.started_at if started_at is None else started_at,
        )
    )
    two.engine.record(j.MergeFrozen(merge="m", other=to))
    await keep(store, two)


async def prepared(
    store: InMemoryStore,
    one: Simulation,
    position: int = 0,
    gone: tuple[str, ...] = (),
    entered_at: int = ENTERED_AT,
) -> PrepareMergeResult:
    task = PrepareMerge(
        run=ONE,
        base=one.state.definition,
        other=TWO,
        merge="m",
        entered_at=entered_at,
        started_at=one.state.started_at,
        position=position,
        operation=EDGE,
        asks=ONE,
        removed=gone,
    )
    task = PrepareMerge.from_json(json.loads(json.dumps(task.to_json())))
    made = await RunMerges(store, Definitions(store), Server()).prepare(task)
    return PrepareMergeResult.from_json(json.loads(json.dumps(made.to_json())))


async def test_the_merged_definition_is_stored() -> None:
    store = InMemoryStore()
    one, two = await stored(store, ONE, crew("a")), await stored(store, TWO, crew("b"))
    await freeze(store, two)
    made = await prepared(store, one, two.state.position)
    assert (made.merged_run, made.position, made.agents) == (TWO, two.state.position, ("b",))
    assert not made.refused
    assert made.widens is None
    both = CrewDefinition.from_json(await store.get_definition(lower_hash(made)))
    assert both.to_json() == made.definition
    apply_merge(one.engine, made, op="m", by="ana")
    await keep(store, one)
    assert (await load_state(store, ONE)) == one.state
    assert await store.lineage(ONE) == {TWO}
    await one.run()
    assert sorted(e["step"] for e in one.facts("StepCompleted")) == ["a#1", "b#1"]
    await keep(store, one)
    assert (await load_state(store, ONE)) == one.state


async def test_a_merged_agent_does_not_continue_turns_of_a_removed_one() -> None:
    store = InMemoryStore()
    both = load_data(
        {
            "crew": "t",
            "model": "openai:x",
            "agents": {name: {"prompt": "p", "listen": ["x"]} for name in ("a", "b")},
        }
    )
    one = await stored(store, ONE, both)
    await freeze(store, await stored(store, TWO, crew("b")))
    await one.command("message", text="two", to="channel:x")
    left = crew("a")
    await store.put_definition(ONE, left.to_json())
    await one.change(lower(left))
    gone = removed_agents(one.state, one.engine.plan.agents)
    assert gone == ("b",)
    made = await prepared(store, one, gone=gone)
    assert (made.agents, made.nodes) == (("b-2",), {"b": "b-2"})
    apply_merge(one.engine, made, op="m", by="ana")
    assert [*one.state.detached_steps] == ["b#2"], "it waits for who is added under that name"
    assert one.state.frontier[StepId("b#1")].is_detached, "that turn is not of who comes"
    await one.run()
    ran = sorted(e["step"] for e in one.facts("StepCompleted"))
    assert ran == ["a#1", "a#2", "b#1", "b-2#1"]


def lower_hash(made: PrepareMergeResult) -> str:
    found: str = made.plan["definition"]
    return found


async def test_an_older_state_is_not_the_last_one() -> None:
    store = InMemoryStore()
    one, two = await stored(store, ONE, crew("a")), await stored(store, TWO, crew("b"))
    await freeze(store, two)
    before = two.state.position
    two.engine.record(j.MergeFailed(merge="m", other=ONE, reason="no"))
    await two.run()
    await freeze(store, two)
    made = await prepared(store, one, before)
    assert made.position == before
    assert "frontier" in made.state
    made = await prepared(store, one)
    assert made.position == two.state.position
    assert "frontier" not in made.state


@pytest.mark.parametrize("wrong", ["status", "coordinator", "round", "start"])
async def test_only_a_state_that_is_frozen_for_the_round_is_merged(wrong: str) -> None:
    store = InMemoryStore()
    one, two = await stored(store, ONE, crew("a")), await stored(store, TWO, crew("b"))
    if wrong != "status":
        to = RunId("three") if wrong == "coordinator" else ONE
        await freeze(store, two, to, started_at=77 if wrong == "start" else None)
    made = await prepared(store, one, entered_at=8 if wrong == "round" else ENTERED_AT)
    assert (made.refused, made.plan) == ("'two' is not frozen for this merge", {})
    with pytest.raises(ComponentConflict, match="is not frozen for this merge"):
        apply_merge(one.engine, made, op="m")


async def test_runs_that_cannot_merge_are_refused() -> None:
    store = InMemoryStore()
    one = await stored(store, ONE, crew("a", flags={"f": 1}))
    await freeze(store, await stored(store, TWO, crew("b", flags={"f": 2})))
    made = await prepared(store, one)
    assert "the flag 'f'" in made.refused
    assert made.remedy
    assert not made.plan
    with pytest.raises(ComponentConflict, match="the flag 'f'"):
        apply_merge(one.engine, made, op="m")
    assert not one.facts("RunMerged")


async def test_a_crew_that_cannot_run_is_refused() -> None:
    store = InMemoryStore()
    logs = {"x": {"writers": []}}
    one = await stored(store, ONE, crew("a", logs=logs))
    await freeze(store, await stored(store, TWO, crew("b")))
    made = await prepared(store, one)
    assert "the crew of both runs is invalid" in made.refused
    assert "writers" in made.refused


async def test_an_agent_with_the_name_of_a_phase_cannot_merge() -> None:
    """Crews that ran before such phases were refused have them still."""
    store = InMemoryStore()
    data = crew("a").to_json()
    data["agents"]["b"] = {"prompt": "p"}
    more = {"flow": [{"agent": "a", "phase": "b"}], "graph": {"away": {"b": TWO}}}
    one = await stored(store, ONE, CrewDefinition.from_json({**data, **more}))
    await freeze(store, await stored(store, TWO, crew("b")))
    made = await prepared(store, one)
    assert "is invalid: the phase 'b' has the name" in made.refused
    with pytest.raises(ComponentConflict, match="the phase 'b' has the name"):
        apply_merge(one.engine, made, op="m")


def after(run: RunId, source: RunId, *, split: bool) -> Batch:
    """The journal of a run that goes on from another one: as a part of it, or as a copy."""
    forked = j.RunForked(
        at=5,
        run=run,
        source=source,
        to=2,
        state=CrewState(run=run, position=2).to_json(),
        split="cut" if split else "",
    )
    return Batch(first=3, entries=(entry_to_json(forked),))


@pytest.mark.parametrize(
    ("comes", "bounds", "together"),
    [
        ({TWO: (ONE, True)}, {}, True),  # it parted from the run that takes it in
        ({ONE: (TWO, True)}, {}, True),
        ({ONE: (RunId("p"), True), TWO: (RunId("p"), True)}, {}, True),
        ({TWO: (RunId("q"), True), RunId("q"): (ONE, True)}, {}, True),  # a part of a part
        ({TWO: (RunId("q"), True), RunId("q"): (ONE, False)}, {}, False),  # a copy has its own
        ({TWO: (ONE, False)}, {}, False),
        ({}, {}, False),  # strangers
        ({TWO: (ONE, True)}, {"tokens": 9}, False),  # of another limit
    ],
)
async def test_budgets_divided_by_splits_are_added(
    comes: dict[RunId, tuple[RunId, bool]], bounds: dict[str, int], *, together: bool
) -> None:
    limits = {"limits": {"tokens": 8}}
    crews = {ONE: crew("a", **limits), TWO: crew("b", **({"limits": bounds} if bounds else limits))}
    store = InMemoryStore()
    preparer = RunMerges(store, Definitions(store), Server())
    for run, (source, split) in comes.items():
        await store.append(run, after(run, source, split=split))
    state = await run_merge._load_last_state(store, TWO) or CrewState(run=TWO)
    assert await preparer._is_reunion(ONE, crews[ONE], state, crews[TWO]) is together


ASKS = {"op": "connect", "sender": "a", "listener": "b", "channel": "x"}


async def decided(
    store: InMemoryStore,
    server: Server,
    base: CrewDefinition,
    other: RunId = TWO,
    merged: tuple[str, ...] = (),
) -> PrepareMergeResult:
    """What is said to a run that asks another one."""
    task = PrepareMerge(
        run=ONE,
        base=lower(base).definition,
        other=other,
        operation=ASKS,
        asks=ONE,
        decide=True,
        merged=merged,
    )
    return await RunMerges(store, Definitions(store), server).prepare(task)


class OpenRuns(Server):
    """A server on which each run is open, until a test ends them."""

    def __init__(self, *, are_open: bool = True) -> None:
        self.are_open = are_open
        self.asked = asyncio.Event()

    async def is_open(self, run: RunId) -> bool:
        self.asked.set()
        return self.are_open


@pytest.mark.parametrize("larger", [ONE, TWO])
async def test_the_run_that_asks_refers_to_the_definition_of_a_preview(larger: RunId) -> None:
    store = InMemoryStore()
    more = {name: {"prompt": "p", "listen": ["x"]} for name in ("c", "d")}
    crews = {ONE: crew("a"), TWO: crew("b")}
    data = crews[larger].to_json()
    crews[larger] = load_data({**data, "agents": {**data["agents"], **more}})  # type: ignore[dict-item]
    for run, definition in crews.items():
        await stored(store, run, definition)
    made = await decided(store, OpenRuns(), crews[ONE])
    assert made.merged_run == (TWO if larger == ONE else ONE)
    await store.delete([TWO], 1, grace=0)
    assert await store.get_definition(lower_hash(made)) == made.definition
    await assert_referenced(store, ONE)


@pytest.mark.parametrize("late", [ONE, TWO])
@pytest.mark.parametrize("sizes", ["one stays", "two stays"])
async def test_a_new_run_is_waited_for(late: RunId, sizes: str) -> None:
    """Either of the two may have stored nothing yet."""
    store, server = InMemoryStore(), OpenRuns()
    more = {"c": {"prompt": "p", "listen": ["x"]}}
    crews = {ONE: crew("a"), TWO: crew("b")}
    larger = ONE if sizes == "one stays" else TWO
    data = crews[larger].to_json()
    crews[larger] = load_data({**data, "agents": {**data["agents"], **more}})  # type: ignore[dict-item]
    for run, definition in crews.items():
        await store.put_definition(run, definition.to_json())
        if run != late:
            await stored(store, run, definition)
    waits = asyncio.create_task(decided(store, server, crews[ONE]))
    if (late, larger) != (ONE, ONE):  # what only asks is not looked at
        await asyncio.wait_for(server.asked.wait(), 10)
        assert not waits.done()
    await stored(store, late, crews[late])
    made = await asyncio.wait_for(waits, 10)
    assert (made.refused, made.merged_run) == ("", TWO if larger == ONE else ONE)


@pytest.mark.parametrize(
    ("merged", "refused"),
    [
        (("m",), "the run 'two' has been merged into this run"),
        (("l", "m"), "the run 'two' has been merged into this run"),
        (("l",), ""),
        ((), ""),
    ],
)
async def test_the_surviving_run_knows_the_outcome_first(
    merged: tuple[str, ...], refused: str
) -> None:
    """What the store has of the one that was taken in says only that it is frozen."""
    store = InMemoryStore()
    await stored(store, ONE, crew("a"))
    await freeze(store, await stored(store, TWO, crew("b")))
    made = await decided(store, OpenRuns(), crew("a"), merged=merged)
    assert made.refused == refused
    assert ("without naming a run" in made.remedy) == bool(refused)


THREE = RunId("three")


@pytest.mark.parametrize("outcome", ["merged", "failed", ""])
async def test_others_learn_the_outcome_from_the_surviving_run(outcome: str) -> None:
    store = InMemoryStore()
    await stored(store, ONE, crew("a"))
    third = await stored(store, THREE, crew("c"))
    await freeze(store, await stored(store, TWO, crew("b")), THREE)
    third.engine.record(
        j.MergeAccepted(
            merge="m", other=TWO, requester=TWO, status="coordinating", deadline=9, other_position=1
        )
    )
    if outcome == "merged":
        fact = {"position": third.state.position + 9, "previous_position": third.state.position}
        named = {"crew": "t", "definition": third.state.definition, "graph_version": 2}
        merged = {"merged_run": TWO, "merged_run_position": 5, "merged_run_started_at": 1}
        third.engine.record(
            j.RunMerged(merge="m", merged_state={"run": TWO}, **merged, **fact, **named)
        )
    elif outcome:
        third.engine.record(j.MergeFailed(merge="m", other=TWO, reason="no"))
    await keep(store, third)
    made = await decided(store, OpenRuns(), crew("a"))
    assert made.refused == ("the run 'two' is merged" if outcome == "merged" else "")
    assert ("merged into the run three: name that one" in made.remedy) == bool(made.refused)


async def test_a_run_that_is_not_open_is_not_waited_for() -> None:
    store, one = InMemoryStore(), crew("a")
    await stored(store, ONE, one)
    server = OpenRuns(are_open=False)
    made = await asyncio.wait_for(decided(store, server, one), 1)
    assert made.refused == "there is no run 'two' that has begun"
    server.are_open = True
    waits = asyncio.create_task(decided(store, server, one))
    server.asked.clear()
    await asyncio.wait_for(server.asked.wait(), 10)
    server.are_open = False  # it was ended meanwhile
    assert (await asyncio.wait_for(waits, 10)).refused == made.refused


async def test_the_wait_for_a_new_run_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_merge, "FIRST_BATCH_TIMEOUT", 0.1)
    store, one = InMemoryStore(), crew("a")
    await stored(store, ONE, one)
    made = await asyncio.wait_for(decided(store, OpenRuns(), one), 10)
    assert made.refused == "the run 'two' has begun, but nothing of it is stored yet"
    assert "worker" in made.remedy
    assert (
        PREPARE_CHANGE_OPTIONS["start_to_close_timeout"].total_seconds() > FIRST_BATCH_TIMEOUT + 5
    )


async def test_a_local_activity_does_not_wait_for_a_new_run() -> None:
    store, server, one = InMemoryStore(), OpenRuns(), crew("a")
    await stored(store, ONE, one)
    preparer = RunMerges(store, Definitions(store), server, waits_for_first_batch=False)
    asks = PrepareMerge(
        run=ONE, base=lower(one).definition, other=TWO, operation=ASKS, asks=ONE, decide=True
    )
    with pytest.raises(StoreUnavailable, match="nothing of the run 'two' is stored yet"):
        await preparer.prepare(asks)
    assert not server.asked.is_set()


TOOL = {"run": "mine:dig", "effects": "read"}
MORE = {"c": {"prompt": "p", "listen": ["x"]}}


async def warned(
    one: CrewDefinition, two: CrewDefinition, queues: dict[RunId, str]
) -> tuple[str, ...]:
    """What is said beforehand to a run that asks another one, on the task queues of both."""
    store = InMemoryStore()
    await stored(store, ONE, one)
    await stored(store, TWO, two)

    class Queues(Server):
        async def find_task_queue(self, run: RunId) -> str:
            return queues[run]

    preparer = RunMerges(store, Definitions(store), Queues())
    asks = PrepareMerge(
        run=ONE, base=lower(one).definition, other=TWO, operation=ASKS, asks=ONE, decide=True
    )
    made = await preparer.prepare(asks)
    assert made.refused == ""
    return PrepareMergeResult.from_json(json.loads(json.dumps(made.to_json()))).warnings


APART = {ONE: "first", TWO: "second"}


async def test_a_warning_names_what_other_workers_need() -> None:
    (told,) = await warned(crew("a"), crew("b", tools={"dig": TOOL}), APART)
    say, remedy = told.split("\n")
    assert say == (
        "the agents of 'two' get the workers of 'one', on the task queue 'first', which need "
        "the tool 'dig' (mine:dig)"
    )
    assert remedy.endswith("crewlog change two --edit tool.dig.queue=second.")
    larger = load_data({**(b := crew("b").to_json()), "agents": {**b["agents"], **MORE}})  # type: ignore[dict-item]
    (turned,) = await warned(crew("a", tools={"dig": TOOL}), larger, APART)
    assert turned.startswith("the agents of 'one' get the workers of 'two', on the task queue 's")
    scripted = crew("b", model="scripted:b.yaml")
    (told,) = await warned(crew("a"), scripted, APART)
    assert "need the script 'b.yaml'\n" in told
    assert "--edit" not in told, "a script goes with no queue of its own"


@pytest.mark.parametrize(
    ("one", "two", "queues"),
    [
        ({}, {"tools": {"dig": TOOL}}, {ONE: "same", TWO: "same"}),
        ({}, {"tools": {"dig": TOOL}}, {ONE: "", TWO: "second"}),
        ({}, {"tools": {"dig": {**TOOL, "queue": "diggers"}}}, APART),
        ({"tools": {"dig": TOOL}}, {"tools": {"dig": TOOL}}, APART),
        ({"tools": {"dig": TOOL}}, {}, APART),
        ({}, {}, APART),
    ],
    ids=["one queue", "not known", "own queue", "both", "who stays", "none"],
)
async def test_no_warning_if_the_workers_need_nothing_else(
    one: dict[str, object], two: dict[str, object], queues: dict[RunId, str]
) -> None:
    assert await warned(crew("a", **one), crew("b", **two), queues) == ()

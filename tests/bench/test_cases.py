"""The cheapest cases on the session's servers: the engine and the floor, in small sizes.

Nothing is said about how fast they are; what a step leaves in a history does not hang on the
machine.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from bench import crews, graphs, resting, topologies
from bench.cases import CASES, Bench, case
from bench.history import IS_STEP, events_of, gaps_ms, step_cost
from bench.site import Site, beside
from bench.steps import beside_bare, measures
from crewlog.definition.load import load_data
from crewlog.encryption.keys import new_key_file, write_keys
from crewlog.encryption.rows import PREFIX
from crewlog.graph.lowering.plans import lower
from crewlog.ids import RunId


async def test_steps_beside_the_floor(site: Site) -> None:
    figures = {f.name: f for f in await beside_bare(Bench(site, pairs=1), 10)}
    assert set(figures) == {
        "step_ms_10",
        "bare_step_ms_10",
        "step_vs_bare_10",
        "history_bytes_per_step_10",
    }
    assert all(f.median > 0 for f in figures.values())
    ratio = figures["step_vs_bare_10"].median
    assert ratio == pytest.approx(figures["step_ms_10"].median / figures["bare_step_ms_10"].median)


async def test_what_a_step_leaves_in_the_history(site: Site) -> None:
    made = measures(Bench(site), 20)
    ours, floor = await made["engine"](), await made["bare"]()
    # Scheduled, started, completed, and a workflow task of three: never fewer in sequence.
    assert 6 <= floor.events <= 6.5
    assert 6 <= ours.events <= 7
    # The message is in it, and the transcript is not.
    assert 400 < floor.bytes < 2500
    assert 400 < ours.bytes < 2500


async def test_a_run_of_several_executions_is_one_sequence_of_events(site: Site) -> None:
    crew = {**crews.ring(20), "crew": "short", "limits": {"events": 50}}
    handle = await site.start_crew(await site.register(crew))
    result = await handle.result()
    assert result["executions"] > 1
    events = await events_of(site, handle)
    cost = step_cost(events, IS_STEP["engine"], 20)
    assert cost.events > 6.2
    with pytest.raises(AssertionError, match="20 steps, not 21"):
        step_cost(events, IS_STEP["engine"], 21)


async def test_a_tool_is_called_as_often_as_the_model_says(site: Site) -> None:
    handle = await site.start_crew(await site.register(crews.lookups(3, local=False)))
    await handle.result()
    gaps = gaps_ms(await events_of(site, handle), IS_STEP["engine"])
    assert len(gaps) == 3
    assert min(gaps) > 0


async def test_a_site_beside_another_stores_what_is_new_and_seals_it(site: Site) -> None:
    path = site.root / "keys.json"
    write_keys(path, new_key_file())
    async with beside(site, "bench_beside", path) as sealed:
        connection = await asyncpg.connect(sealed.environ["DATABASE_URL"])
        try:
            crew, counts = await sealed.register(crews.ring(10, "bench:new")), list[int]()
            for _ in range(2):
                await (await sealed.start_crew(crew)).result()
                rows = await connection.fetch("SELECT body FROM crewlog.bodies")
                assert all(row["body"].startswith(PREFIX) for row in rows)
                counts.append(len(rows))
        finally:
            await connection.close()
    assert counts[0] >= 10
    assert counts[1] - counts[0] >= 10, "the second run stores its own messages"


async def test_compiling(site: Site) -> None:
    figures = await case("compile")(Bench(site, pairs=2))
    assert [len(f.values) for f in figures] == [2, 2]


def test_the_crews_are_ones() -> None:
    made = [crews.ring(10), crews.ring(1000), crews.fan(32), crews.waiting(), crews.blocks()]
    made += [crews.lanes("l", [[0.1], [0.2]]), crews.lookups(5, local=False)]
    made += [crews.pool([0.2, 0.1, 0.1], 2), crews.together([0.1, 0.2])]
    plans = [lower(load_data(crew)) for crew in made]
    assert [len(plan.nodes) for plan in plans] == [10, 11, 33, 2, 100, 2, 1, 2, 1]


def test_every_case_is_there() -> None:
    assert all(callable(case(name)) and asyncio.iscoroutinefunction(case(name)) for name in CASES)


async def test_splits_and_merges_beside_the_floor(site: Site) -> None:
    figures = {f.name: f.median for f in await graphs.run(Bench(site, pairs=1), 1, messages=2)}
    assert {*figures} == {
        "split_ms",
        "merge_ms",
        "bare_part_ms",
        "split_vs_bare",
        "merge_vs_bare",
        "split_vs_bare_same_process",
        "merge_vs_bare_same_process",
        "split_10mb_vs_1kb",
        "merge_10mb_vs_1kb",
    }
    assert min(figures.values()) > 0
    floor = figures["bare_part_ms"]
    assert figures["merge_vs_bare"] == pytest.approx(figures["merge_ms"] / floor)
    assert figures["split_vs_bare"] == pytest.approx(figures["split_ms"] / floor)


async def test_creatures_at_rest_leave_no_event_and_ask_no_store(site: Site) -> None:
    figures = {f.name: f.median for f in await resting.run(Bench(site, pairs=1), 2, seconds=1)}
    assert 50 < figures["idle_500_creatures_mb"] < 1000
    assert figures["idle_500_creatures_events"] == 0
    assert figures["idle_500_creatures_queries"] == 0


async def test_it_is_seen_when_the_store_is_asked(site: Site) -> None:
    await site.store.read_journal(RunId("nobody"), 0)
    before = await resting.used_at(site)
    await site.store.read_journal(RunId("nobody"), 0)
    assert resting.newly_used(before, await resting.used_at(site)) == 1


async def test_every_kind_of_operation_is_measured(site: Site) -> None:
    cases = topologies.cases()
    assert (len(cases["add"].graph.agents), len(cases["add"].graph.channels)) == (200, 400)
    # What people change a graph with: `crewlog graph add`, `channel`, `connect`, ….
    assert {case.operation.op for case in cases.values()} == {
        *("add_agent", "remove_agent", "enable_agent", "disable_agent"),
        *("add_channel", "remove_channel", "connect", "disconnect", "wire", "unwire"),
    }
    pure, whole = await topologies.run(Bench(site, pairs=1), 1)
    assert 0 < pure.median < whole.median

"""Rollback, fork and taking up again, on the real server."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import asyncpg
import pytest

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import AddAgent, EditAgent, RemoveAgent
from crewlog.errors import (
    CommandRejected,
    HistoryConflict,
    RunAlreadyExists,
    RunFailed,
    ServiceError,
    UsageError,
)
from crewlog.ids import StepId, idempotency_key
from crewlog.state.calls import quota_idempotency_key
from crewlog.state.journal import Batch
from crewlog.state.model import CrewState
from crewlog.store.protocol import QuotaPeriod
from crewlog.wire import CheckpointView

from .harness import LIMIT, RUN_LIMIT, Site, calls, tool, until

QUEUE = "rewind"


def crew(site: Site, **more: Any) -> dict[str, Any]:
    """A turn with tools, two lanes and a join, a loop, items, and a question at the end."""
    listing = calls(("set_output", {"key": "list", "value": ["x", "y"]}), ("echo", {"text": "a"}))
    made = site.crew(
        {
            "a": [listing, {"text": "a is done"}],
            "b": [calls(("echo", {"text": "b"})), {"text": "b is done"}],
            "c": [{"text": "c is done"}],
            "d": [{"text": f"round {i}"} for i in range(1, 4)],
            "each": [calls(("echo", {"text": "item"})), {"text": "an item is done"}],
            "last": [{"text": "the end"}],
        },
        rules={
            "a": {"outputs": ["list"]},
            "b": {"reads": []},
            "c": {"reads": []},
            "each": {"reads": [], "writes": ["group:items"]},
        },
        tools={"echo": tool("echo")},
        flags={"good": False},
        merge={"each.text": "append"},
        **more,
    )
    made["flow"] = [
        "a",
        ["b", "c"],
        "d",
        {"if": "not good", "go": "d", "at_most": 2},
        {"agent": "each", "for_each": "a.list"},
        {"ask": "Publish?", "sets": "good"},
        "last",
    ]
    return made


async def at_the_question(run: Run) -> CrewState:
    """The state where the run asks whether to publish."""
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    return await run.state()


def end_of(state: CrewState) -> dict[str, Any]:
    """What a run has come to, without the names of its steps, positions and heads."""
    return {
        "flags": state.flags,
        "outputs": {
            agent: {
                key: (o.value, o.body if key != "text" else None, [p.value for p in o.elements])
                for key, o in found.items()
            }
            for agent, found in state.agent_outputs.items()
        },
        "logs": {log: head.length for log, head in state.messages.items()},
        "routing": state.routing,
        "steps": state.steps,
        "at": [entry.node for entry in state.frontier.values()],
    }


async def texts(site: Site, state: CrewState) -> dict[str, list[str]]:
    """What the agents said last."""
    bodies = {
        agent: found["text"].bodies
        for agent, found in state.agent_outputs.items()
        if "text" in found
    }
    stored = await site.store.get_bodies([h for hashes in bodies.values() for h in hashes])
    return {agent: [stored[h]["content"] for h in hashes] for agent, hashes in bodies.items()}


async def places(run: Run) -> list[CheckpointView]:
    """The run's checkpoints, its beginning first."""
    return list((await run.checkpoints(0, 1000)).checkpoints)


async def answered(run: Run) -> Any:
    (question,) = await run.interrupts()
    await run.answer(question.id, "approve")
    return await run.result(LIMIT)


@covers("C6", "C13", "C24", "C25", "C26", "C33")
async def test_a_rollback_to_every_checkpoint_and_forward_again_ends_the_same(
    crews: Site,
) -> None:
    run = await crews.start(crew(crews))
    first = await at_the_question(run)
    said = await texts(crews, first)
    assert said["d"] == ["round 3"]
    found = await places(run)
    assert len(found) >= 10
    for number, place in enumerate(found, 1):
        outcome = await run.rollback(place.position, by="ana", id=f"back{number}")
        again = await at_the_question(run)
        assert again.position > outcome.position
        assert end_of(again) == end_of(first), place
        assert await texts(crews, again) == said, place
        assert len(again.changes) == number
    position = (await run.state()).position
    await run.rollback(found[0].position, by="ana", id="back1")  # sent again
    assert (await run.state()).position == position
    result = await answered(run)
    assert result.status == "completed"
    entries = await crews.entries(run, "StepStarted", "StepCompleted")
    names = [(entry.kind, entry.step) for entry in entries]
    assert len(set(names)) == len(names), "a visit was begun or ended twice"
    raised = [entry.interrupt.id for entry in await crews.entries(run, "InterruptRaised")]
    assert len(set(raised)) == len(raised)
    keys = [line["key"] for line in crews.ledger(run, "start")]
    assert len(set(keys)) == len(keys)


async def test_what_is_no_checkpoint_is_refused_with_the_nearest(crews: Site) -> None:
    run = await crews.start(crew(crews))
    await at_the_question(run)
    found = [place.position for place in await places(run)]
    gap = next(p for p in range(found[0], found[-1]) if p not in found)
    before = max(p for p in found if p < gap)
    after = min(p for p in found if p > gap)
    with pytest.raises(CommandRejected, match=f"position {gap} .* is no checkpoint") as refused:
        await run.rollback(gap)
    assert f"{run.id}@{before} and {run.id}@{after}" in refused.value.remedy
    with pytest.raises(UsageError, match=f"position {gap} .* is no checkpoint"):
        await run.fork(gap)
    with pytest.raises(CommandRejected, match="position 100000 "):
        await run.rollback(100_000)


async def test_a_paused_run_stays_paused(crews: Site) -> None:
    run = await crews.start(crew(crews))
    await at_the_question(run)
    await run.pause()
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    place = (await places(run))[1]
    await run.rollback(place.position)
    state = await run.state()
    assert (state.status, [e.node for e in state.frontier.values()]) == ("paused", ["b", "c"])
    await run.resume()
    await at_the_question(run)


async def test_a_fork_shares_the_logs_and_ends_as_its_source(crews: Site) -> None:
    run = await crews.start(crew(crews))
    first = await at_the_question(run)
    found = await places(run)
    for place in (found[0], found[len(found) // 2], found[-1]):
        fork = await run.fork(place.position, execution_timeout=RUN_LIMIT)
        crews.runs.append(fork)
        state = await at_the_question(fork)
        assert end_of(state) == end_of(first)
        assert await texts(crews, state) == await texts(crews, first)
        assert state.source is not None
        assert (state.source.run, fork.id.startswith("acceptance-")) == (run.id, True)
        journal = await crews.journal(fork)
        assert journal[0][1].kind == "RunForked"
        assert journal[0][0] == state.source.position + 1
        steps = {line["step"] for line in crews.ledger(fork, "start")}
        assert steps <= {line["step"] for line in crews.ledger(run, "start")}
        assert (await answered(fork)).status == "completed"
        assert (await fork.rebuild()).whole
    assert (await run.state()).position == first.position


async def test_a_fork_of_a_run_that_has_ended_rolls_back_in_its_own_journal(crews: Site) -> None:
    run = await crews.start(crew(crews))
    await at_the_question(run)
    await answered(run)
    place = (await places(run))[2]
    name = f"twin-{secrets.token_hex(4)}"
    fork = await run.fork(place.position, id=name, execution_timeout=RUN_LIMIT)
    crews.runs.append(fork)
    before = await at_the_question(fork)
    own = [each.position for each in await places(fork) if each.position > place.position + 1]
    await fork.rollback(own[0])
    assert end_of(await at_the_question(fork)) == end_of(before)
    with pytest.raises(CommandRejected, match="no checkpoint"):
        await fork.rollback(place.position)
    with pytest.raises(RunAlreadyExists):
        await run.fork(place.position, id=name)


@pytest.mark.timeout(400)
async def test_a_worker_is_killed_during_a_rollback(site: Site) -> None:
    worker = await site.start_worker(QUEUE)
    run = await site.start(crew(site), queue=QUEUE)
    first = await at_the_question(run)
    place = (await places(run))[1]
    going = asyncio.create_task(run.rollback(place.position, id="back"))
    worker.kill()
    await site.start_worker(QUEUE)
    try:
        await going
    except ServiceError:  # nobody answered in time: the same id is sent again
        await run.rollback(place.position, id="back")
    assert end_of(await at_the_question(run)) == end_of(first)
    assert len(await site.entries(run, "RunRolledBack")) == 1
    assert (await answered(run)).status == "completed"
    site.end_workers(QUEUE)


async def test_a_rollback_cuts_off_what_is_under_way(crews: Site) -> None:
    made = crews.crew(
        {"a": [{"text": "a"}], "b": [calls(("gate", {"name": "g"})), {"text": "b"}]},
        tools={"gate": tool("gate")},
    )
    made["flow"] = ["a", "b"]
    run = await crews.start(made)
    await until(lambda: crews.ledger(run, "start"), "the call")
    await run.rollback((await places(run))[1].position)
    await until(lambda: len(crews.ledger(run, "start")) == 2, "the call, made again")
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "completed"
    assert {line["step"] for line in crews.ledger(run, "start")} == {"b#1", "b#2"}
    ended = [entry.step for entry in await crews.entries(run, "StepCompleted")]
    assert ended == ["a#1", "b#2"]


@covers("C34")
async def test_a_stopped_run_is_taken_up_again(crews: Site) -> None:
    run = await crews.start(crew(crews))
    first = await at_the_question(run)
    await run.stop("enough")
    assert (await run.result(LIMIT)).status == "stopped"
    await run.reopen(execution_timeout=RUN_LIMIT)
    again = await at_the_question(run)
    assert end_of(again) == end_of(first)
    assert list(again.frontier) == list(first.frontier)
    assert list(again.interrupts) == list(first.interrupts)
    with pytest.raises(CommandRejected, match="has not ended"):
        await run.reopen()
    assert (await answered(run)).status == "completed"
    assert (await run.rebuild()).whole
    with pytest.raises(UsageError, match="is completed"):
        await run.reopen()


async def test_a_failed_run_is_taken_up_again_with_the_call_that_failed(crews: Site) -> None:
    made = crews.crew(
        {"a": [{"text": "a"}], "b": [{"fail": "refused"}, {"text": "b"}]},
        rules={"b": {"on_error": "fail"}},
    )
    made["flow"] = ["a", "b"]
    run = await crews.start(made)
    with pytest.raises(RunFailed):
        await run.result(LIMIT)
    await run.reopen(execution_timeout=RUN_LIMIT)
    result = await run.result(LIMIT)
    assert result.status == "completed"
    started = [entry.step for entry in await crews.entries(run, "StepStarted")]
    assert started == ["a#1", "b#1"]


async def test_a_terminated_run_is_taken_up_again(crews: Site) -> None:
    run = await crews.start(crew(crews))
    first = await at_the_question(run)
    await run.terminate("oops")
    await run.reopen(execution_timeout=RUN_LIMIT)
    assert list((await at_the_question(run)).interrupts) == list(first.interrupts)
    assert (await answered(run)).status == "completed"


async def test_an_id_that_exists_is_refused_attached_to_or_replaced(crews: Site) -> None:
    made = crew(crews)
    name = f"taken-{secrets.token_hex(4)}"
    run = await crews.start(made, id=name)
    first = await at_the_question(run)
    client = crews.client()
    with pytest.raises(RunAlreadyExists):
        await client.start(made, "go", id=name)
    attached = await client.start(made, "go", id=name, existing="attach")
    assert (await attached.state()).position == first.position
    anew = await client.start(made, "go", id=name, existing="replace", execution_timeout=RUN_LIMIT)
    state = await at_the_question(anew)
    assert state.started_at > first.started_at
    assert end_of(state) == end_of(first)
    assert (await answered(anew)).status == "completed"
    assert (await anew.rebuild()).whole
    attached = await client.start(made, "go", id=name, existing="attach")
    assert (await attached.result(LIMIT)).status == "completed"
    with pytest.raises(UsageError, match="needs the id"):
        await client.start(made, "go", existing="attach")


async def test_a_quota_of_a_day_counts_the_runs_that_had_an_id_before(crews: Site) -> None:
    name = f"nightly-{secrets.token_hex(4)}"
    said = [calls(("echo", {"text": "x"})), {"text": "a"}]
    held = [calls(("gate", {"name": "g"})), *said]
    rules = [{"tool": "echo", "quota": "2 per day"}]
    made, then = (
        crews.crew({"a": each}, tools={"echo": tool("echo"), "gate": tool("gate")})
        | {"crew": name, "rules": rules}
        for each in (said, held)
    )
    run, _ = await crews.finish(made, id=name)
    began = (await run.state()).started_at
    connection = await asyncpg.connect(crews.endpoints.database_url)
    try:
        rows = await connection.fetch(
            "SELECT quota, period FROM crewlog.quota_calls WHERE quota LIKE $1", f"{name}/%"
        )
    finally:
        await connection.close()
    ((quota, span),) = rows
    anew = await crews.client().start(
        then, "go", id=name, existing="replace", execution_timeout=RUN_LIMIT
    )
    await until(lambda: crews.ledger(run, "start", tool="gate"), "the gate")
    # A call of the replaced run that comes late; the new one will have one of the same key.
    late = quota_idempotency_key(idempotency_key(anew.id, StepId("a#1"), 4), began)
    assert (
        await crews.store.count_call(late, [QuotaPeriod(quota=quota, period=span, limit=2)], began)
        is None
    )
    crews.open_gate(anew, "g")
    assert (await anew.result(LIMIT)).status == "completed"
    assert len(crews.ledger(run, "start", tool="echo")) == 1
    (refused,) = await crews.entries(anew, "PermissionDenied")
    assert (refused.call, refused.rule) == (4, "rules[0]")
    assert (await anew.rebuild()).whole


async def test_what_a_replaced_run_stores_late_is_refused(crews: Site) -> None:
    made = crews.crew(
        {"a": [{"text": "a"}], "b": [calls(("gate", {"name": "g"})), {"text": "b"}]},
        tools={"gate": tool("gate")},
        flow=["a", "b"],
    )
    name = f"late-{secrets.token_hex(4)}"
    run = await crews.start(made, id=name)
    await until(lambda: crews.ledger(run, "start"), "the call")
    old = (await crews.client().gateway.describe(run.id)).run_id
    anew = await crews.client().start(
        made, "anew", id=name, existing="replace", execution_timeout=RUN_LIMIT
    )
    await until(lambda: len(crews.ledger(run, "start")) == 2, "the new one's call")
    before = await crews.journal(anew)
    end = (await anew.state()).position
    late = Batch(first=end + 1, entries=({"kind": "StepCompleted", "step": "old#1", "at": 1},))
    with pytest.raises(HistoryConflict):
        await crews.store.append(anew.id, late, execution=str(old))
    assert await crews.journal(anew) == before
    crews.open_gate(anew, "g")
    assert (await anew.result(LIMIT)).status == "completed"
    assert (await anew.rebuild()).whole


async def test_what_a_terminated_run_stores_late_is_refused_once_it_goes_on(crews: Site) -> None:
    made = crews.crew(
        {"a": [{"text": "a"}], "b": [calls(("gate", {"name": "g"})), {"text": "b"}]},
        tools={"gate": tool("gate")},
        flow=["a", "b"],
    )
    run = await crews.start(made)
    await until(lambda: crews.ledger(run, "start"), "the call")
    old = (await crews.client().gateway.describe(run.id)).run_id
    await run.terminate("oops")
    await run.reopen(execution_timeout=RUN_LIMIT)
    await run.wait_until(lambda view: view.status == "running", LIMIT)
    before, end = await crews.journal(run), (await run.state()).position
    late = Batch(first=end + 1, entries=({"kind": "StepCompleted", "step": "old#1", "at": 1},))
    with pytest.raises(HistoryConflict):
        await crews.store.append(run.id, late, execution=str(old))
    assert (await crews.journal(run))[: len(before)] == before
    crews.open_gate(run, "g")
    await run.terminate("enough")


@covers("C26")
async def test_a_fork_with_another_prompt(crews: Site) -> None:
    run = await crews.start(crew(crews))
    await at_the_question(run)
    place = (await places(run))[-1]
    change = EditAgent(name="last", set={"prompt": "You end it otherwise."})
    fork = await run.fork(place.position, operations=[change], execution_timeout=RUN_LIMIT)
    crews.runs.append(fork)
    await at_the_question(fork)
    assert (await answered(fork)).status == "completed"
    (prompt,) = [p for p in crews.prompted(fork) if p["agent"] == "last"]
    assert "You end it otherwise." in prompt["messages"][0]["content"]


async def test_a_rollback_over_a_change_of_the_graph_puts_the_old_one_back(crews: Site) -> None:
    run = await crews.start(crew(crews))
    first = await at_the_question(run)
    place = next(each for each in await places(run) if each.node == "c")
    added = AddAgent(name="x", agent={"prompt": "You are x."}, phase={"after": ["last"]})
    await run.change(operations=[RemoveAgent(name="each"), added])
    changed = await at_the_question(run)
    assert (changed.graph_version, changed.definition != first.definition) == (2, True)
    await run.rollback(place.position)
    state = await at_the_question(run)
    assert (state.graph_version, state.definition) == (3, first.definition)
    assert end_of(state) == end_of(first)
    assert [m.graph_version for m in state.changes] == [2, 3]
    assert "x" not in (await run.graph()).plan["nodes"]
    assert (await answered(run)).status == "completed"
    assert (await run.rebuild()).whole


async def test_a_stopped_run_goes_on_from_its_recipe(crews: Site) -> None:
    run = await crews.start(crew(crews))
    first = await at_the_question(run)
    await run.change(operations=[EditAgent(name="last", set={"prompt": "Otherwise."})])
    await run.stop()
    assert (await run.result(LIMIT)).status == "stopped"
    await run.reopen("recipe", execution_timeout=RUN_LIMIT)
    state = await at_the_question(run)
    assert (state.recipe, state.definition) == (first.definition, first.definition)
    assert (await answered(run)).status == "completed"
    (prompt,) = [p for p in crews.prompted(run) if p["agent"] == "last"]
    assert "Otherwise." not in prompt["messages"][0]["content"]


async def test_what_was_lost_of_forks_and_of_runs_that_went_back_is_made_again(
    crews: Site,
) -> None:
    run = await crews.start(crew(crews))
    await at_the_question(run)
    place = (await places(run))[3]
    await run.rollback(place.position)
    await at_the_question(run)
    fork = await run.fork(place.position, execution_timeout=RUN_LIMIT)
    crews.runs.append(fork)
    await at_the_question(fork)
    await answered(fork)
    await run.stop("enough")
    await run.result(LIMIT)
    await run.reopen(execution_timeout=RUN_LIMIT)
    await at_the_question(run)
    await answered(run)
    for each in (run, fork):
        before = await crews.journal(each)
        rows = await crews.store.list_checkpoints(each.id)
        await crews.store.truncate_journal(each.id)
        assert await crews.journal(each) == []
        report = await each.rebuild()
        assert report.whole, report
        assert await crews.journal(each) == before
        assert await crews.store.list_checkpoints(each.id) == rows
    state = await crews.check(fork)
    assert state is not None
    assert state.status == "completed"


async def test_a_fork_stores_little_and_begins_soon(crews: Site) -> None:
    batch = calls(*[("echo", {"text": "x" * 900})] * 10)
    made = crews.crew({"a": [*[batch] * 10, {"text": "a"}]}, tools={"echo": tool("echo")})
    made["flow"] = ["a", {"ask": "Go on?"}]
    run = await crews.start(made)
    await at_the_question(run)
    place = (await places(run))[-1]
    before = await stored(crews)
    fork = await run.fork(place.position, execution_timeout=RUN_LIMIT)
    crews.runs.append(fork)
    await at_the_question(fork)
    await fork.stop("measured")
    await fork.result(LIMIT)
    assert await stored(crews) - before < 10_000


async def stored(site: Site) -> int:
    """The bytes of all rows."""
    connection = await asyncpg.connect(site.endpoints.database_url)
    try:
        tables = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'crewlog'"
        )
        sizes = [
            await connection.fetchval(
                f'SELECT coalesce(sum(pg_column_size(t.*)), 0) FROM crewlog."{name}" AS t'  # noqa: S608
            )
            for (name,) in tables
        ]
        return int(sum(sizes))
    finally:
        await connection.close()

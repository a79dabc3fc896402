"""`Run.rebuild`: all rows are lost, and are the same again.

Each test begins with empty tables, so that a dump is what its run made. Equal means: every column
of every row of every table, but for

- the tables that are not rebuilt, because no history has their rows (`tests/store_tables.py`);
- `quota_calls`, whose times differ by a moment: `quota_counts` has their sums.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    ResetWorkflowExecutionRequest,
)
from temporalio.service import RPCError, RPCStatusCode

from covers import covers
from crewlog.client import RebuildReport, Run
from crewlog.encryption.keys import environment_keyring
from crewlog.encryption.rows import RowCipher
from crewlog.errors import StoreIncomplete, UsageError
from crewlog.store import open_store
from crewlog.store.key_check import COLUMNS
from store_tables import NOT_REBUILT_TABLES, REBUILT_TABLES

from .harness import LIMIT, Site, calls, payload_in, tool, until

RARE = {"tags", "permission_changes", "log_sources", "accepted_executions"}
"""Tables that have rows only of runs to which something happened that most are spared."""
TABLES = {table: key for table, key in REBUILT_TABLES.items() if table != "quota_calls"}
"""The compared tables, each with a column to sort its rows."""
QUEUE = "rebuild"
LARGE = "0123456789" * 8000
pytestmark = pytest.mark.timeout(400)
Dump = dict[str, list[dict[str, Any]]]


@pytest.fixture
async def db(site: Site) -> AsyncIterator[Any]:
    store = await open_store(site.endpoints.database_url)  # a test that failed left no tables
    await store.close()
    connection = await asyncpg.connect(site.endpoints.database_url)
    await lose(connection)
    yield connection
    await connection.close()
    site.end_workers(QUEUE)


async def lose(db: Any) -> None:
    tables = [*TABLES, "crews", "catalog_entries", "quota_calls"]
    await db.execute(f"TRUNCATE {', '.join(f'crewlog.{table}' for table in tables)}")


async def drop(db: Any) -> None:
    """Drops every table of ours, whichever there are, and with them what says that there were."""
    rows = await db.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'crewlog'")
    assert {row["tablename"] for row in rows} == REBUILT_TABLES.keys() | NOT_REBUILT_TABLES
    tables = ", ".join(f"crewlog.{row['tablename']}" for row in rows)
    while True:
        try:
            await db.execute(f"DROP TABLE {tables}")
        except asyncpg.DeadlockDetectedError:  # against a worker that stores in several of them
            continue
        break


async def rebuilt_by_command(site: Site, run: Run) -> RebuildReport:
    """What `crewlog rebuild RUN` says, a process that nobody told anything."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crewlog.cli.main", "rebuild", run.id, "--json"),
        env=site.environ(QUEUE),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await asyncio.wait_for(process.communicate(), LIMIT)
    assert process.returncode == 0, (out, said)
    return RebuildReport.model_validate(json.loads(out), extra="ignore")


async def dump(db: Any) -> Dump:
    kept = await as_kept(db)
    return {table: [_opened(table, row) for row in rows] for table, rows in kept.items()}


async def as_kept(db: Any) -> Dump:
    """The rows as the tables have them, to be put back."""
    found: Dump = {}
    for table, key in TABLES.items():
        rows = await db.fetch(f"SELECT * FROM crewlog.{table} ORDER BY {key}")  # noqa: S608
        found[table] = [dict(row) for row in rows]
    return found


TIMED = {"start_records", "accepted_executions"}
"""Tables with the time at which a row was stored, which a rebuild does not know."""


def _opened(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row, decrypted where encryption is on: no two encryptions are the same."""
    cipher = RowCipher(environment_keyring(), "default")
    if table in TIMED:
        row["at"] = 0
    for each in COLUMNS:
        if each.table == table and row[each.column]:
            place = [str(row[name]) for name in each.place]
            row[each.column] = cipher.decrypt(row[each.column], each.kind, *place)
    return row


def assert_same(found: Dump, expected: Dump) -> None:
    for table in TABLES:
        lost = [row for row in expected[table] if row not in found[table]]
        more = [row for row in found[table] if row not in expected[table]]
        assert (lost, more) == ([], []), table
        assert found[table] == expected[table]


async def worker(site: Site) -> None:
    """A worker that has no row in memory; large payloads are stored outside of the history."""
    site.end_workers(QUEUE)
    await site.start_worker(QUEUE, CREWLOG_PAYLOAD_THRESHOLD="65536")


def busy(
    site: Site, events: int = 50, nap: float = 0.02, turns: int = 0, heartbeat: float = 30
) -> dict[str, Any]:
    """Turns with parallel tools, large and small outputs, a payment, a refusal and questions.

    `turns` more of them come before the first question. A call that misses its heartbeat on a busy
    machine is made again, and then the store has more than the history: only where workers are
    killed is the heartbeat short.
    """
    batch = calls(("nap", {"seconds": nap}), ("echo", {"text": "x"}), ("large", {"size": 70_000}))
    outputs = calls(
        ("set_output", {"key": "large", "value": {"text": LARGE}}),
        ("set_output", {"key": "small", "value": 1.0}),
        ("pay", {"name": "g"}),
    )
    crew = site.crew(
        {
            "one": [batch, outputs, batch, batch, {"text": "one é😀 \x00"}],
            "two": [
                batch,
                batch,
                *[batch] * turns,
                calls(("pay", {"name": "g"})),
                batch,
                {"text": "2"},
            ],
            "last": [batch, {"text": "end"}],
        },
        rules={"one": {"outputs": ["large", "small"]}},
        tools={
            "nap": tool("nap"),
            "echo": tool("echo"),
            "large": tool("large"),
            "pay": tool("gate", "never", effects="external"),
        },
        permissions={"pay": ["one"]},
        limits={"events": events},
    )
    crew["flow"] = [["one", "two"], {"ask": "Go on?", "sets": "go"}, "last", {"ask": "Publish?"}]
    crew["rules"] = [{"tool": ["nap", "echo", "pay"], "quota": "1000 per day"}]
    for each in (*crew["agents"].values(), *crew["tools"].values()):
        each["heartbeat"] = heartbeat
    return crew


async def at_the_question(site: Site, number: int) -> None:
    run = site.runs[-1]
    await run.wait_until(lambda view: view.interrupts == (f"i{number}",), LIMIT)


async def soon(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT):
        while not await condition():  # noqa: ASYNC110 - it is in other processes
            await asyncio.sleep(0.02)


async def pending(site: Site, run: Run) -> list[Any]:
    """The run's activities that have not ended."""
    description = await site.temporal.get_workflow_handle(run.id).describe()
    return list(description.raw_description.pending_activities)


async def at_rest(site: Site, run: Run) -> None:
    """Waits until all that the run knows is stored, and nothing is under way."""

    async def rests() -> bool:
        row = await site.store.get_run(run.id)
        stored = row is not None and row.position == (await run.status()).position
        return stored and not await pending(site, run)

    await soon(rests)


async def started(site: Site, events: int = 50, turns: int = 0) -> Run:
    """A run that waits at its first question."""
    run = await site.start(busy(site, events, turns=turns), queue=QUEUE)
    site.open_gate(run, "g")
    await at_the_question(site, 1)
    return run


async def finished(site: Site, events: int = 50) -> Run:
    run = await started(site, events)
    await run.message("hurry")
    await run.answer("i1", "approve", by="ana")
    await at_the_question(site, 2)
    await run.answer("i2", "reject")
    await run.result(LIMIT)
    return run


def is_whole(report: RebuildReport) -> bool:
    return report.whole and not (report.absent or report.apart or report.problems)


async def assert_same_once_more(site: Site, db: Any, run: Run) -> None:
    """A run that has completed is what the store folds to, now and after another rebuild."""
    state = await site.check(run)
    assert state is not None
    assert state.status == "completed"
    after = await dump(db)
    await drop(db)
    assert is_whole(await rebuilt_by_command(site, run))
    assert_same(await dump(db), after)


@covers("C120")
async def test_all_rows_are_the_same_again(site: Site, db: Any) -> None:
    await worker(site)
    run = await finished(site)
    before = await dump(db)
    assert all(before[table] for table in TABLES if table not in RARE)
    await lose(db)
    site.end_workers(QUEUE)  # nothing but histories and payloads is needed
    report = await run.rebuild()
    assert_same(await dump(db), before)
    assert is_whole(report)
    assert len(report.executions) >= 3
    assert report.tail == "stored"
    assert report.positions == report.position == before["journal_entries"][-1]["position"]
    # Once more: nothing changes, and nothing is refused.
    assert await run.rebuild() == report
    assert await run.rebuild(replace=True) == report
    assert_same(await dump(db), before)


async def test_rows_that_are_lost_in_mid_run(site: Site, db: Any) -> None:
    await worker(site)
    run = await started(site)
    before = await dump(db)
    await lose(db)
    with pytest.raises(StoreIncomplete, match="lacks the journal"):
        await run.journal()
    report = await run.rebuild()
    assert is_whole(report)
    assert_same(await dump(db), before)
    await worker(site)
    await run.answer("i1", "approve")
    await at_the_question(site, 2)
    await run.answer("i2", "approve")
    await run.result(LIMIT)
    after = await dump(db)
    await lose(db)
    assert is_whole(await run.rebuild())
    assert_same(await dump(db), after)


async def test_tables_that_are_dropped_after_three_continue_as_news(site: Site, db: Any) -> None:
    await worker(site)
    run = await started(site, turns=4)
    await at_rest(site, run)
    before = await dump(db)
    assert all(before[table] for table in TABLES if table not in RARE)
    await drop(db)
    report = await rebuilt_by_command(site, run)
    assert is_whole(report)
    assert len(report.executions) > 3
    assert (report.tail, report.position) == ("stored", before["journal_entries"][-1]["position"])
    assert_same(await dump(db), before)
    await worker(site)  # it has nothing but the rows
    for number in 1, 2:
        await at_the_question(site, number)
        await run.answer(f"i{number}", "approve")
    assert (await run.result(LIMIT)).status == "completed"
    await assert_same_once_more(site, db, run)


async def test_tables_that_are_dropped_while_the_run_works(site: Site, db: Any) -> None:
    await worker(site)
    run = await site.start(patient(busy(site, nap=0.2)), queue=QUEUE)
    site.open_gate(run, "g")
    people = asyncio.create_task(answered(run))
    await until(lambda: len(site.ledger(run, "start", tool="nap")) >= 3, "work")
    await drop(db)
    report = await rebuilt_by_command(site, run)
    assert (report.missing, report.absent, report.problems) == ((), (), ())
    assert (await run.result(LIMIT)).status == "completed"
    await people
    paid = [entry["key"] for entry in site.ledger(run, "start", tool="pay")]
    assert len(paid) == len(set(paid))
    assert report.position < (await run.status()).position, "it was at work"
    await assert_same_once_more(site, db, run)


async def test_a_payment_is_not_repeated_before_its_claim_is_made_again(
    site: Site, db: Any
) -> None:
    await worker(site)
    run = await site.start(patient(busy(site, 2000, heartbeat=1)), queue=QUEUE)
    await until(lambda: site.ledger(run, "start", gate="g"), "the gate")
    await drop(db)
    for dead in site.workers[QUEUE]:
        dead.kill()
    site.open_gate(run, "g")
    await worker(site)  # it makes empty tables, and tries the payment again

    async def lacks_rows() -> bool:
        # Each is decoded on its own, as the run's: where encryption is on, its words are encrypted.
        read = site.temporal.data_converter.decode_failure
        failures = [str(await read(call.last_failure)) for call in await pending(site, run)]
        return any("are missing from the store" in failure for failure in failures)

    await soon(lacks_rows)
    people = asyncio.create_task(answered(run))
    assert is_whole(await rebuilt_by_command(site, run))
    assert (await run.result(LIMIT)).status == "completed"
    await people
    raised = await site.entries(run, "InterruptRaised")
    assert "outcome_unknown" in [entry.interrupt.kind for entry in raised]
    paid = [entry["key"] for entry in site.ledger(run, "start", tool="pay")]
    assert len(paid) == len(set(paid)) > 0


def patient(crew: dict[str, Any]) -> dict[str, Any]:
    """A crew whose calls outlast a store without tables."""
    patience = {"first": 0.05, "longest": 0.2, "attempts": 100}
    for agent in crew["agents"].values():
        agent["retry"] = patience
    for deed in crew["tools"].values():
        deed["policy"] = patience
    return crew


async def answered(run: Run) -> None:
    """People who answer whatever is asked, until the run has ended."""
    with suppress(UsageError):  # it ended
        while True:
            view = await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
            for question in view.interrupts:
                await run.answer(question, "approve")


async def test_a_run_at_work_is_not_disturbed(site: Site, db: Any) -> None:
    await worker(site)
    run = await site.start(busy(site, nap=1.0), queue=QUEUE)
    site.open_gate(run, "g")
    asked = asyncio.create_task(at_the_question(site, 1))
    reports: list[RebuildReport] = []
    while not asked.done():
        reports.append(await run.rebuild(replace=True))
    await asked
    assert len(reports) > 3
    for report in reports:
        assert (report.missing, report.problems, report.absent) == ((), (), ())
        assert report.replaced_after is None or report.tail == "unknown"
    before = await dump(db)
    await lose(db)
    assert is_whole(await run.rebuild())
    assert_same(await dump(db), before)


async def test_the_run_tells_what_no_activity_has_carried(site: Site, db: Any) -> None:
    await worker(site)
    run = await site.start(busy(site, 2000), queue=QUEUE)
    await until(lambda: site.ledger(run, "start", gate="g"), "the gate")
    await run.wait_until(lambda view: "two" in view.completed_steps, LIMIT)
    at = (await run.status()).position
    await run.message("while it pays", id="m1")
    await run.wait_until(lambda view: view.position > at, LIMIT)
    await lose(db)
    report = await run.rebuild()
    assert report.tail == "told"
    assert is_whole(report)
    entries = await site.entries(run)
    assert len(entries) == report.position == at + 1
    assert entries[-1].command == "m1"
    site.end_workers(QUEUE)
    await lose(db)
    report = await run.rebuild()
    assert report.tail == "unknown"
    assert 0 < report.position <= at
    # The payment had begun and must not be repeated: the claim on it is there again, and people
    # are asked, by a worker that knows nothing.
    site.open_gate(run, "g")
    await worker(site)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    assert len(site.ledger(run, "start", tool="pay")) == 1
    [question] = await run.interrupts()
    assert question.kind == "outcome_unknown"
    await run.answer(question.id, "it happened")
    await run.wait_until(lambda view: len(view.interrupts) == 1, LIMIT)
    journal = await site.entries(run, "MessageAdded")
    assert any(entry.command == "m1" for entry in journal)


async def test_executions_that_are_gone_are_named(site: Site, db: Any) -> None:
    await worker(site)
    first, middle = await finished(site), await finished(site)
    wholes = {run.id: await run.rebuild() for run in (first, middle)}
    ids = {id_: whole.executions for id_, whole in wholes.items()}
    before = await dump(db)
    gone = (first, ids[first.id][0]), (middle, ids[middle.id][1])
    await asyncio.gather(*(delete(site, run, execution) for run, execution in gone))
    await lose(db)

    report = await first.rebuild()
    assert report.executions == ids[first.id][1:]
    assert report.absent == ids[first.id][:1]
    [gap] = report.missing
    assert gap.first == 1
    # Prompts are in no carry. What continue-as-new carried is a snapshot to go on from.
    assert report.lacking == tuple(
        row["definition"] for row in before["runs"] if row["run"] == first.id
    )
    assert (await site.store.get_snapshot(first.id, gap.last + 1)).position == gap.last
    with pytest.raises(StoreIncomplete, match="lacks the journal"):
        await first.journal()

    report = await middle.rebuild()
    assert report.executions == (ids[middle.id][0], *ids[middle.id][2:])
    assert report.absent == ids[middle.id][1:2]
    [hole] = report.missing
    assert hole.first > 1
    assert not report.lacking

    found = await dump(db)
    gaps = {first.id: gap, middle.id: hole}
    for table in ("journal_entries", "checkpoints", "snapshots"):
        for row in before[table]:
            lost = gaps[row["run"]]
            inside = lost.first <= row["position"] <= lost.last - (table == "snapshots")
            assert (row in found[table]) != inside, (table, row["position"])
    assert all(row in before["log_links"] for row in found["log_links"])
    assert all(row in before["bodies"] for row in found["bodies"])
    site.runs.clear()  # their journals cannot be folded any more


async def delete(site: Site, run: Run, execution: str) -> None:
    which = WorkflowExecution(workflow_id=run.id, run_id=execution)
    namespace = site.temporal.namespace
    await site.temporal.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(namespace=namespace, workflow_execution=which)
    )
    handle = site.temporal.get_workflow_handle(run.id, run_id=execution)
    for _ in range(1200):  # the server takes half a minute over it
        try:
            await handle.fetch_history()
        except RPCError as error:
            # The second is what a server says that has removed the events already.
            if error.status not in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                raise
            return
        await asyncio.sleep(0.05)
    raise TimeoutError("the execution is still there")


async def test_a_payload_that_is_gone_is_named(site: Site, db: Any) -> None:
    await worker(site)
    run = await finished(site, 2000)
    before = await dump(db)
    [body] = [
        row for row in before["bodies"] if LARGE in row["body"] and '"text"' in row["body"][:9]
    ]
    gone = [
        file
        for file in site.payloads.rglob("*")
        if file.is_file() and f'"body":"{body["hash"]}"'.encode() in payload_in(file)
    ]
    # Those of other tests' runs, too.
    results = [file for file in gone if b'"content":{"text"' in payload_in(file)]
    away = [file.rename(f"{file}.away") for file in results]
    await lose(db)
    report = await run.rebuild()
    assert body["hash"] in report.lacking
    assert not report.missing
    [problem] = report.problems
    assert "call_tool result" in problem
    assert any(str(file) in problem for file in results)
    assert (await dump(db))["journal_entries"] == before["journal_entries"]
    for file, name in zip(away, results, strict=True):
        file.rename(name)
    assert is_whole(await run.rebuild())
    assert_same(await dump(db), before)


async def test_a_run_that_was_reset(site: Site, db: Any) -> None:
    await worker(site)
    crew = site.crew(
        {"a": [calls(("echo", {"text": "x"})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={"echo": tool("echo")},
    )
    run, _ = await site.finish(crew, queue=QUEUE)
    old, kept = await dump(db), await as_kept(db)
    site.end_workers(QUEUE)
    history = await site.temporal.get_workflow_handle(run.id).fetch_history()
    tasks = [
        event.event_id
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    await site.temporal.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=site.temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id, run_id=history.run_id),
            reason="a test",
            workflow_task_finish_event_id=tasks[1],
            request_id="reset",
        )
    )
    report = await run.rebuild(replace=True)
    assert report.tail == "unknown"
    assert report.replaced_after == report.position < old["journal_entries"][-1]["position"]
    row = await site.store.get_run(run.id)
    assert row is not None
    assert (row.status, row.ended_at) == ("running", None)
    await worker(site)
    await run.result(LIMIT)
    new = await dump(db)
    assert new["journal_entries"] != old["journal_entries"]
    # The rows of the history before the reset are put over it, as if the reset had not been seen.
    await lose(db)
    for table in ("journal_entries", "runs", "steps", "checkpoints", "snapshots", "definitions"):
        rows = [tuple(row.values()) for row in kept[table]]
        await db.copy_records_to_table(table, schema_name="crewlog", records=rows)
    with pytest.raises(UsageError, match="has another journal") as caught:
        await run.rebuild()
    assert "--replace" in caught.value.remedy
    report = await run.rebuild(replace=True)
    assert is_whole(report)
    assert report.replaced_after is not None
    assert (await dump(db))["journal_entries"] == new["journal_entries"]
    assert (await dump(db))["runs"] == new["runs"]
    assert (await dump(db))["snapshots"] == new["snapshots"]

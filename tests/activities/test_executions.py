"""Which executions are accepted: the check against the store, and then the server."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from activity_kit import RUN
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from crewlog.activities.executions import Executions
from crewlog.activities.server import ExecutionStart, Server
from crewlog.definition.load import load_data
from crewlog.errors import NotPermitted
from crewlog.ids import RunId
from crewlog.state.calls import SignedStart
from crewlog.state.journal import Batch
from crewlog.store.in_process import InMemoryStore
from crewlog.wire import WORKFLOW_TYPE


class Started(Server):
    """What began how, and how often it was asked."""

    def __init__(self) -> None:
        self.origins: dict[str, ExecutionStart] = {}
        self.asked: list[str] = []

    def has(self, name: str, continued: str = "", **fields: Any) -> None:
        before = self.origins.get(continued)
        given = {
            "workflow": WORKFLOW_TYPE,
            "queue": "crews",
            "first": before.first if before else name,
            "original": name,
            "continued": continued,
            "at": len(self.origins),
        }
        self.origins[name] = ExecutionStart.model_validate(given | fields)

    async def find_execution(self, run: RunId, execution: str) -> ExecutionStart | None:
        assert run == RUN
        self.asked.append(execution)
        return self.origins.get(execution)


@pytest.fixture
def server() -> Started:
    return Started()


@pytest.fixture
def executions(store: InMemoryStore, server: Started) -> Executions:
    return Executions(store, server)


async def believed(
    executions: Executions, name: str, *, of: str = RUN, batch: Batch = Batch.EMPTY, by: str = ""
) -> bool:
    """Whether an activity of an execution may be done."""
    info = ActivityEnvironment.default_info()
    env = ActivityEnvironment()
    env.info = dataclasses.replace(info, workflow_id=of, workflow_run_id=name)
    try:
        await env.run(executions.check, RUN, by, batch)
    except ApplicationError as error:
        if error.type != "NotPermitted" or not error.non_retryable:
            raise
        return False
    return True


async def signed(store: InMemoryStore, *, mode: str = "signed") -> str:
    policy: dict[str, Any] = {"mode": mode}
    if mode == "signed":
        key = "ed25519:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
        policy["principals"] = {
            "ada": {"key": key, "rights": ["view", "answer", "operate", "change", "grant"]}
        }
    agents = {"a": {"model": "m:x", "prompt": "p"}}
    crew = load_data({"crew": "c", "agents": agents, "flow": ["a"], "policy": policy})
    return str(await store.put_definition(RUN, crew.to_json()))


async def test_a_recorded_execution_needs_no_request(
    executions: Executions, server: Started, store: InMemoryStore
) -> None:
    await store.accept_executions(RUN, ["e1"])
    assert await believed(executions, "e1")
    assert not server.asked


async def test_a_continued_execution_is_looked_up_once(
    executions: Executions, server: Started, store: InMemoryStore
) -> None:
    server.has("e1")
    server.has("e2", "e1")
    server.has("reset", "e1", original="e2", first="e2")
    await store.accept_executions(RUN, ["e1"])
    for _ in range(2):
        assert await believed(executions, "e2")
        assert await believed(executions, "reset")
    assert server.asked == ["e2", "reset"]
    assert set(await store.accepted_executions(RUN)) == {"e1", "e2", "reset"}


async def test_foreign_executions_are_refused_and_not_recorded(
    executions: Executions, server: Started, store: InMemoryStore
) -> None:
    server.has("e1")
    server.has("e2", "e1")
    server.has("begun")
    server.has("other", workflow="Stranger", queue="own")
    server.has("turned", "other")
    server.has("turned on", "turned")
    server.has("elsewhere", queue="own")
    server.has("moved", "elsewhere")
    await store.accept_executions(RUN, ["e1"])
    for name in ("begun", "other", "turned", "turned on", "elsewhere", "moved", "nowhere"):
        assert not await believed(executions, name), name
    assert not await believed(executions, "e2", of="another workflow")
    assert set(await store.accepted_executions(RUN)) == {"e1"}


async def test_a_chain_of_executions_may_be_long(
    executions: Executions, server: Started, store: InMemoryStore
) -> None:
    server.has("e1")
    for n in range(2, 40):
        server.has(f"e{n}", f"e{n - 1}", first="gone")
    await store.accept_executions(RUN, ["e3"])
    assert await believed(executions, "e39")


async def test_an_unsigned_run_is_not_looked_up(
    executions: Executions, server: Started, store: InMemoryStore
) -> None:
    server.has("e1")
    server.has("e2", "e1")
    by = await signed(store, mode="open")
    assert await believed(executions, "e2", by=by)
    assert not server.asked
    now = await signed(store)
    assert await believed(executions, "e2", by=now)
    assert set(await store.accepted_executions(RUN)) == {"e2"}


async def test_without_records_type_and_task_queue_decide(
    executions: Executions, server: Started, store: InMemoryStore
) -> None:
    batch = Batch(first=1, entries=({"kind": "RunStarted", "definition": await signed(store)},))
    server.has("start")
    server.has("stranger", workflow="Stranger")
    server.has("turned", "stranger")
    server.has("elsewhere", queue="own")
    server.has("moved", "elsewhere")
    server.has("e2", "start")
    for name in ("stranger", "turned", "moved"):
        assert not await believed(executions, name, batch=batch), name
    assert await believed(executions, "e2", batch=batch)


def use(execution: str) -> SignedStart:
    return SignedStart(start="s", content={}, at=1, execution=execution)


async def test_a_start_cannot_replace_a_signed_run(
    executions: Executions, store: InMemoryStore
) -> None:
    await executions.check_unused_id(RUN, use("new"))
    await store.accept_executions(RUN, ["e1"])
    await executions.check_unused_id(RUN, use("e1"))
    with pytest.raises(NotPermitted, match="the start does not replace it"):
        await executions.check_unused_id(RUN, use("new"))


async def test_a_replacement_names_the_present_run(
    executions: Executions, server: Started, store: InMemoryStore
) -> None:
    server.has("before")
    server.has("e1")
    server.has("e2", "e1")
    server.has("failed")
    await executions.record_replacing_start(use("new"), None, RUN, [])
    await store.accept_executions(RUN, ["e1"])
    for named in (["e1"], ["e2"], ["before", "e2"], ["failed"]):
        await executions.record_replacing_start(use("new"), None, RUN, named)
    for named in ([], ["before"], ["gone"]):
        with pytest.raises(NotPermitted, match="has continued since"):
            await executions.record_replacing_start(use("new"), None, RUN, named)


async def test_an_unsigned_run_is_recorded_only_after_a_signed_one(
    executions: Executions, store: InMemoryStore
) -> None:
    await executions.begin(RUN, use("e1"), signed=False)
    assert not await store.accepted_executions(RUN)
    await executions.begin(RUN, use("e1"), signed=True)
    await executions.begin(RUN, use("e2"), signed=False, replaces=True)
    assert set(await store.accepted_executions(RUN)) == {"e2"}

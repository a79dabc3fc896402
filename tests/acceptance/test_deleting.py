"""Runs are deleted, and what is kept of them is bounded, on the real path."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run, beginnings
from crewlog.definition.operations import Disconnect, EditAgent
from crewlog.errors import RunNotFound, StoreIncomplete, UsageError
from crewlog.ids import PUBLIC, AgentName, RunId
from crewlog.state.components import split_run_id
from crewlog.state.fold import fold_journal
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import GRACE
from store.waiting import held

from .harness import LIMIT, RUN_LIMIT, Site, assert_equal, calls, tool
from .test_change import at_gate, cut, gated
from .test_creatures import living, rested
from .test_splits import EDGES, until_begun


def now_ms() -> int:
    return int(time.time() * 1000)


def talk(site: Site, **more: Any) -> dict[str, Any]:
    return site.crew({"a": [{"text": "A"}], "b": [{"text": "B"}]}, flow=["a", "b"], **more)


async def gone(site: Site, run: Run) -> None:
    """Checks that nobody knows the run any more."""
    site.runs.remove(run)
    with pytest.raises(RunNotFound):
        await run.status()
    assert await site.store.get_run(run.id) is None
    assert await site.store.read_journal(run.id) == []
    with pytest.raises(RunNotFound):
        await site.client().delete(run.id)


async def test_an_ended_run_is_deleted_and_its_twin_is_not(crews: Site) -> None:
    crew = talk(crews)
    run, _ = await crews.finish(crew)
    twin, _ = await crews.finish(crew)  # says the same, word for word
    state = await load_state(crews.store, run.id)
    head = state.messages[PUBLIC].head
    done = await crews.client().delete(run.id)
    assert [(each.run, each.status) for each in done.runs] == [(run.id, "completed")]
    assert done.rows.entries == state.position
    await gone(crews, run)
    with pytest.raises(StoreIncomplete):
        await crews.store.read_log(head)
    folded = await crews.check(twin)
    assert folded is not None
    links = await crews.store.read_log(folded.messages[PUBLIC].head)
    # What earlier deletions left may have gone as well, so that is not counted: it is looked for.
    assert len(await crews.store.get_bodies([link.body for link in links])) == 3, "the twin has it"
    await crews.store.get_definition(folded.definition)
    again, _ = await crews.finish(crew, id=run.id)
    assert again.id == run.id, "its id is free"


async def test_a_definition_that_only_a_pending_change_needs_stays(crews: Site) -> None:
    """Another run has it, too, and is deleted while the calls in flight are awaited."""
    queue = "deleting-pending"
    worker = await crews.start_worker(queue)
    crew = gated(crews)
    target = cut(crew, "b", "c")
    other, _ = await crews.finish(target)
    run = await at_gate(crews, cut(crew, "a", "b"), queue=queue)
    changed = await run.change(definition=target, wait=False)
    assert changed.swap
    await crews.client().delete(other.id)
    await gone(crews, other)
    await crews.store.delete([], now_ms() + 2 * GRACE)
    worker.kill()
    await crews.start_worker(queue)
    crews.open_gate(run, "g")
    await run.wait_until(lambda view: view.graph_version == 2, LIMIT)
    assert (await run.result(LIMIT)).status == "completed"


async def test_the_definition_of_a_dry_run_is_deleted_with_its_run(crews: Site) -> None:
    run = await at_gate(crews, gated(crews))
    edit = EditAgent(name="b", set={"prompt": f"Only {run.id} has this."})
    seen = await run.change(operations=[edit], dry_run=True)
    assert await crews.store.get_definition(seen.definition)
    crews.open_gate(run, "g")
    await run.result(LIMIT)
    await crews.client().delete(run.id)
    await gone(crews, run)
    await crews.store.delete([], now_ms() + 2 * GRACE)
    with pytest.raises(StoreIncomplete):
        await crews.store.get_definition(seen.definition)


async def test_a_run_of_a_deleted_ones_id_has_files_of_its_own(crews: Site) -> None:
    tools = {
        "keep_file": tool("keep_file", "safe", effects="write"),
        "show_file": tool("show_file"),
    }

    def crew(*asked: tuple[str, dict[str, str]]) -> dict[str, Any]:
        return crews.crew(
            {"a": [*(calls(each) for each in asked), {"text": "A"}]}, tools=tools, flow=["a"]
        )

    keep = ("keep_file", {"path": "a.txt", "text": "of the first"})
    show = ("show_file", {"path": "a.txt"})
    run, _ = await crews.finish(crew(keep))
    await crews.client().delete(run.id)
    crews.runs.remove(run)
    own = ("keep_file", {"path": "a.txt", "text": "of the second"})
    again, _ = await crews.finish(crew(show, own, show), id=run.id)
    (*_, last) = crews.prompted(again)
    first, _, second = [m["content"] for m in last["messages"] if m["type"] == "tool"]
    assert "of the first" not in first
    assert second == "of the second"
    assert (crews.root / "workspace" / run.id / "a.txt").read_text() == "of the second"


async def test_a_run_under_way_is_refused_unless_forced(crews: Site) -> None:
    crew = crews.crew({"a": [{"text": "A"}]}, flow=["a", {"ask": "Well?"}])
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    with pytest.raises(UsageError, match="is under way") as caught:
        await crews.client().delete(run.id)
    assert "--force" in caught.value.remedy
    assert (await run.status()).interrupts
    done = await crews.client().delete(run.id, force=True)
    assert [each.status for each in done.runs] == ["terminated"]
    await gone(crews, run)


async def test_what_ended_long_ago_is_listed(crews: Site) -> None:
    run, _ = await crews.finish(talk(crews))

    async def listed(seconds: float, *statuses: str) -> bool:
        found = await crews.client().delete_ended(seconds, statuses=statuses, dry_run=True)
        return run.id in {each.run for each in found.runs}

    async def seen() -> bool:
        return await listed(0)

    await until_true(seen)
    assert await listed(0, "completed")
    assert not await listed(0, "failed")
    assert not await listed(3600)
    assert await crews.store.get_run(run.id) is not None


async def until_true(condition: Any) -> None:
    async with asyncio.timeout(LIMIT):
        while not await condition():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(0.05)


@covers("C59")
async def test_snapshots_and_checkpoints_of_a_long_run(crews: Site) -> None:
    agents = [f"a{n}" for n in range(30)]
    crew = crews.crew(
        {agent: [{"text": agent}] for agent in agents},
        flow=agents,
        checkpoints={"keep_last": 2},
    )
    run, result = await crews.finish(crew)
    position = result.position

    async def pruned() -> bool:
        return len(await crews.store.list_checkpoints(run.id)) < len(agents)

    await until_true(pruned)
    listed = (await run.checkpoints(limit=1000)).checkpoints
    assert [each.kind for each in listed] == ["start", "step", "step"]
    assert [each.node for each in listed[1:]] == agents[-2:]
    everything = await crews.store.list_checkpoints(run.id, pruned=True)
    assert [each.agent for each in everything if each.kind == "step"] == agents
    assert await crews.store.list_snapshots(run.id) == [position]
    rows = await crews.journal(run)
    for each in everything[::7]:
        folded = fold_journal(run.id, (entry for at, entry in rows if at <= each.position))
        assert_equal(await load_state(crews.store, run.id, each.position), folded)


async def test_a_source_is_deleted_as_soon_as_its_fork_was_asked_for(crews: Site) -> None:
    run, _ = await crews.finish(talk(crews))
    end = (await run.checkpoints()).checkpoints[1]
    fork = await run.fork(end.position, execution_timeout=RUN_LIMIT)
    await crews.client().delete(run.id)
    await gone(crews, run)
    crews.runs.append(fork)
    assert (await fork.result(LIMIT)).status == "completed"
    (heard,) = [each for each in crews.prompted(fork) if each["agent"] == "b"]
    assert "A" in str(heard["messages"]), "what was said before the fork is there"
    assert (await fork.rebuild()).whole


async def test_a_source_stays_while_nobody_begins_its_fork(
    crews: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beginnings, "BEGUN_WITHIN", 0.1)
    run, _ = await crews.finish(talk(crews))
    end = (await run.checkpoints()).checkpoints[1]
    fork = await crews.client("nobody").run(run.id).fork(end.position, execution_timeout=RUN_LIMIT)
    with pytest.raises(UsageError, match=f"its fork '{fork.id}' has not started"):
        await crews.client().delete(run.id)
    assert (await run.status()).status == "completed", "nothing was removed"
    assert run.id not in {
        each.run for each in (await crews.client().delete_ended(0, dry_run=True)).runs
    }
    await fork.terminate()
    await crews.client().delete(run.id)
    await gone(crews, run)


async def test_a_source_stays_until_its_parts_have_begun(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What those who left take with them is its own until then, and would be lost with it."""
    monkeypatch.setattr(beginnings, "BEGUN_WITHIN", 0.1)
    queue = "parted"
    worker = await site.start_worker(queue)
    says = {name: [{"text": f"{name} heard"}] * 3 for name in ("ann", "bob", "cid")}
    run = await site.start(living(site, says, EDGES), "", queue=queue)
    await rested(run)
    await run.message("precious", to="channel:x", by="dot")
    await site.spoken(run, "ann")
    part = site.client(queue).run(split_run_id(RunId(run.id), "cut", AgentName("ann")))
    # A part claims who is its own when it begins, and waits here for that.
    async with held(
        site.endpoints.database_url, "LOCK TABLE crewlog.start_records IN EXCLUSIVE MODE"
    ):
        cut = Disconnect(sender="ann", listener="bob")
        await run.change(operations=[cut], id="cut", wait=False)
        await until_true(lambda: parted(site, run))
        worker.kill()
    assert await site.store.get_run(RunId(part.id)) is None, "it has not begun"
    with pytest.raises(UsageError, match=f"its fork '{part.id}' has not started") as caught:
        await site.client(queue).delete(run.id, force=True)
    assert f"`crewlog delete {part.id} --force`" in caught.value.remedy
    await run.terminate()
    with pytest.raises(UsageError, match="has not started"):
        await site.client(queue).delete(run.id)
    assert await site.journal(run), "nothing was removed"
    await site.start_worker(queue)
    site.runs.append(part)
    await until_begun(part)
    await until_true(lambda: site.store.get_run(RunId(part.id)))
    await site.client(queue).delete(run.id)
    await gone(site, run)
    await part.message("and then?", to="channel:x", by="dot")
    await until_true(lambda: heard(site, part, "and then?"))
    assert "precious" in str(site.prompted(part)[-1]["messages"]), "what was said before is there"
    await site.settle()
    site.end_workers(queue)


async def parted(site: Site, run: Run) -> bool:
    return bool(await site.entries(run, "ComponentChanged"))


async def heard(site: Site, run: Run, text: str) -> bool:
    return any(text in str(prompt["messages"]) for prompt in site.prompted(run))

"""Runs that are deleted: all of theirs goes, and nothing that anybody else uses."""

from __future__ import annotations

import pytest

from crewlog.canonical_json import hash_json
from crewlog.errors import StoreIncomplete
from crewlog.ids import PUBLIC, ContentHash, CrewName, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.model import CrewState, LogHead
from crewlog.store import Store
from crewlog.store.protocol import GRACE, Snapshot
from store.journals import PRIVATE, A, Journal, asked, rows_of

NOW = 10 * GRACE


async def talk(store: Store, run: RunId, *texts: str, definition: str = "") -> Journal:
    """A run that said these texts, and is stored with its definition."""
    hash_ = await store.put_definition(run, {"crew": definition or run})
    entry = j.RunStarted(run=run, crew=CrewName("band"), definition=hash_, at=1)
    journal = Journal(run, [entry])
    for text in texts:
        journal.say({"text": text}, PUBLIC, PRIVATE)
    await store.append(run, journal.batch(), journal.bodies)
    return journal


def fork_of(journal: Journal, run: RunId, *texts: str, base: int) -> Journal:
    """A fork after a position, with texts of its own."""
    heads = {log: LogHead(head=head, length=1) for log, head in journal.heads[base].items()}
    state = CrewState(run=run, crew=CrewName("band"), messages=heads).to_json()
    forked = j.RunForked(run=run, source=journal.run, to=base, state=state)
    fork = Journal(run)
    fork.entries = [{"kind": "none"}] * base
    fork.heads = [dict(journal.heads[base])] * (base + 1)
    fork.add(forked)
    for text in texts:
        fork.say({"text": text}, PUBLIC)
    return fork


async def begun(store: Store, fork: Journal, base: int) -> None:
    await store.append(fork.run, fork.batch(base + 1), fork.bodies)


async def said(store: Store, head: ContentHash) -> list[str]:
    """The texts of a log."""
    links = await store.read_log(head)
    bodies = await store.get_bodies([link.body for link in links])
    return [bodies[link.body]["text"] for link in links]


async def test_everything_of_a_run_goes(store: Store, run: RunId) -> None:
    journal = await talk(store, run, f"{run} one", f"{run} two")
    journal.add(asked("i1"))
    journal.add(j.StepStarted(step=StepId("a#1"), agent=A))
    journal.add(j.StepCompleted(step=StepId("a#1")))
    journal.add(j.CheckpointTagged(checkpoint=5, tag="good"))
    output = journal.body([f"{run} large"])
    journal.add(j.OutputSet(agent=A, key="list", body=output))
    await store.append(run, journal.batch(), journal.bodies)
    await store.put_snapshot(run, Snapshot(position=3, state={"run": run}))
    await store.claim(run, f"{run}/a#1/2/1", "me")
    deleted = await store.delete([run], NOW, grace=0)
    assert (deleted.entries, deleted.bodies, deleted.definitions) == (len(journal), 3, 1)
    assert await store.get_run(run) is None
    assert await store.read_journal(run) == []
    assert await store.list_interrupts(run, open_only=False) == []
    assert await store.list_checkpoints(run, pruned=True) == []
    assert await store.list_snapshots(run) == []
    assert await store.claim(run, f"{run}/a#1/2/1", "you") == "you"
    for body in journal.bodies:
        with pytest.raises(StoreIncomplete):
            await store.get_bodies([body])
    with pytest.raises(StoreIncomplete):
        await store.read_log(journal.heads[-1][PUBLIC])
    with pytest.raises(StoreIncomplete):
        await store.get_definition(hash_json({"crew": run}))
    assert (await store.delete([run], NOW, grace=0)).entries == 0


async def test_what_another_run_has_stays(store: Store, run: RunId) -> None:
    other = RunId(f"{run}-other")
    await talk(store, run, f"both {run}", f"mine {run}", definition=f"shared {run}")
    journal = await talk(store, other, f"both {run}", definition=f"shared {run}")
    output = {"text": f"mine {run}"}  # as an output, and not in a log
    journal.add(j.OutputSet(agent=A, key="list", body=hash_json(output)))
    await store.append(other, journal.batch())
    before = await rows_of(store, journal)
    deleted = await store.delete([run], NOW, grace=0)
    assert (deleted.bodies, deleted.definitions) == (0, 0)
    assert await rows_of(store, journal) == before
    assert await store.get_bodies([hash_json(output)]) == {hash_json(output): output}
    assert await store.get_definition(hash_json({"crew": f"shared {run}"}))
    deleted = await store.delete([other], NOW, grace=0)
    assert (deleted.bodies, deleted.definitions) == (2, 1), "with the last one it goes"


async def test_what_is_registered_stays(store: Store, run: RunId) -> None:
    await store.register_crew(CrewName(f"crew-{run}"), {"crew": run}, 1)
    await talk(store, run)
    assert (await store.delete([run], NOW, grace=0)).definitions == 0
    assert await store.get_definition(hash_json({"crew": run}))


async def test_a_definition_that_a_run_had_once_stays(store: Store, run: RunId) -> None:
    journal = await talk(store, run)
    new = await store.put_definition(run, {"crew": f"{run} new"})
    journal.add(j.GraphSwapped(graph_version=2, crew=CrewName("band"), definition=new))
    await store.append(run, journal.batch())
    again = RunId(f"{run}-again")
    await talk(store, again, definition=run)
    assert (await store.delete([again], NOW, grace=0)).definitions == 0
    assert (await store.delete([run], NOW, grace=0)).definitions == 2


async def test_a_fork_keeps_the_logs_it_shares(store: Store, run: RunId) -> None:
    fork, base = RunId(f"{run}-fork"), 3
    source = await talk(store, run, *(f"{run} {n}" for n in range(1, 5)))
    journal = fork_of(source, fork, f"{run} own", base=base)
    await begun(store, journal, base)
    head = journal.heads[-1][PUBLIC]
    whole = [f"{run} 1", f"{run} 2", f"{run} own"]
    assert await said(store, head) == whole
    deleted = await store.delete([run], NOW, grace=0)
    assert deleted.bodies == 2, "what was said after the fork began"
    assert await said(store, head) == whole
    assert await said(store, source.heads[base][PRIVATE]) == whole[:2]
    with pytest.raises(StoreIncomplete):
        await store.read_log(source.heads[-1][PUBLIC])
    deleted = await store.delete([fork], NOW, grace=0)
    assert deleted.bodies == 3, "its own, and what was kept for it"
    with pytest.raises(StoreIncomplete):
        await store.read_log(head)
    with pytest.raises(StoreIncomplete):
        await store.read_log(source.heads[base][PRIVATE])


async def test_a_source_keeps_its_own(store: Store, run: RunId) -> None:
    fork, base = RunId(f"{run}-fork"), 3
    source = await talk(store, run, *(f"{run} {n}" for n in range(1, 5)))
    before = await rows_of(store, source)
    journal = fork_of(source, fork, f"{run} 4", f"{run} own", base=base)
    await begun(store, journal, base)
    assert (await store.delete([fork], NOW, grace=0)).bodies == 1
    assert await rows_of(store, source) == before


async def test_a_fork_of_a_fork(store: Store, run: RunId) -> None:
    first, second = RunId(f"{run}-f1"), RunId(f"{run}-f2")
    source = await talk(store, run, f"{run} 1", f"{run} 2")
    middle = fork_of(source, first, f"{run} 3", f"{run} 4", base=2)
    await begun(store, middle, 2)
    last = fork_of(middle, second, f"{run} 5", base=4)
    await begun(store, last, 4)
    whole = [f"{run} 1", f"{run} 3", f"{run} 5"]
    await store.delete([first], NOW, grace=0)
    assert await said(store, last.heads[-1][PUBLIC]) == whole
    await store.delete([run], NOW, grace=0)
    assert await said(store, last.heads[-1][PUBLIC]) == whole
    assert (await store.delete([second], NOW, grace=0)).bodies == 3


async def test_both_of_a_family_at_once(store: Store, run: RunId) -> None:
    fork = RunId(f"{run}-fork")
    source = await talk(store, run, f"{run} 1", f"{run} 2")
    journal = fork_of(source, fork, f"{run} 3", base=2)
    await begun(store, journal, 2)
    assert (await store.delete([run, fork], NOW, grace=0)).bodies == 3


async def test_what_may_be_on_its_way_waits(store: Store, run: RunId) -> None:
    journal = await talk(store, run, f"{run} one", f"{run} two")
    one, two = journal.bodies
    deleted = await store.delete([run], NOW)
    assert (deleted.entries, deleted.bodies) == (3, 0)
    assert deleted.unreferenced >= 3
    await store.put_bodies(
        RunId(f"{run}-other"), {two: {"text": f"{run} two"}}
    )  # another run's, not named yet
    await store.put_definition(RunId(f"{run}-other"), {"crew": run})
    deleted = await store.delete([], NOW + GRACE - 1)
    assert deleted.bodies == 0
    await store.delete([], NOW + GRACE)
    assert await store.get_bodies([two])
    assert await store.get_definition(hash_json({"crew": run}))
    with pytest.raises(StoreIncomplete):
        await store.get_bodies([one])


async def test_a_body_that_is_claimed_for_a_run_goes_with_it(store: Store, run: RunId) -> None:
    body = {"summary": f"{run} in short"}
    hash_ = hash_json(body)
    await talk(store, run, f"{run} one")
    await store.put_bodies(run, {hash_: body})
    assert await store.claim(run, f"{run}/summary:{hash_}/0/0", hash_) == hash_
    await store.delete([run], NOW, grace=0)
    assert await store.key_owner(f"{run}/summary:{hash_}/0/0") is None
    with pytest.raises(StoreIncomplete):
        await store.get_bodies([hash_])


async def test_claims_of_runs_with_alike_names(store: Store, run: RunId) -> None:
    await talk(store, run)
    others = [RunId(f"{run}{more}") for more in ("/b", "0", "-b")]
    for other in others:
        await store.claim(other, f"{other}/a#1/1/1", "me")
    await store.delete([run], NOW, grace=0)
    for other in others:
        assert await store.claim(other, f"{other}/a#1/1/1", "you") == "me", other


async def test_a_deleted_run_can_begin_again(store: Store, run: RunId) -> None:
    journal = await talk(store, run, f"{run} one")
    before = await rows_of(store, journal)
    await store.delete([run], NOW, grace=0)
    await talk(store, run, f"{run} one")
    assert await rows_of(store, journal) == before

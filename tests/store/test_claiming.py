"""A creature whose run has ended is gone on with by one run, whoever comes at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from crewlog.activities import restore
from crewlog.activities.crew_activities import CrewActivities
from crewlog.activities.server import Server
from crewlog.client.rebuild import _came_home
from crewlog.definition.creatures import creatures_of, elsewhere
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.errors import HistoryConflict, UsageError
from crewlog.ids import AgentName, CrewName, NodeName, RunId
from crewlog.state import journal as j
from crewlog.state.calls import PrepareChange, PrepareChangeResult, RestoreState
from crewlog.state.split import SplitContents, split_run_state
from crewlog.store import Store
from crewlog.store.checkpoints import load_reopen_state
from crewlog.store.claims import rebuild_claim
from crewlog.store.journal_reader import load_state
from crewlog.store.remote_agents import find_remote_agents

CREW = CrewName("homes")
CID = AgentName("cid")


def crew() -> CrewDefinition:
    agents: dict[str, dict[str, Any]] = {
        "ann": {"listen": ["x"], "send": ["bridge"]},
        "cid": {"listen": ["bridge"]},
        "dan": {"listen": ["bridge"]},
    }
    each = {"prompt": "Do.", "model": "scripted:none.json"}
    return load_data({"crew": CREW, "agents": {n: {**each, **a} for n, a in agents.items()}})


@dataclass
class Family:
    """A run, and a part of it in which cid and dan live; both have ended."""

    store: Store
    run: RunId
    workspace: Path
    open: set[RunId] = field(default_factory=set[RunId])
    """The runs whose workflow runs, as the server says."""
    lasts: dict[RunId, str] = field(default_factory=dict[RunId, str])
    """The last execution of each."""

    @property
    def part(self) -> RunId:
        return RunId(f"{self.run}-part")

    async def begin(self, *, part: bool = True) -> None:
        whole = await self.store.put_definition(self.run, crew().to_json())
        rest = {"cid": self.part, "dan": self.part}
        stays = await self.store.put_definition(self.run, elsewhere(crew(), rest).to_json())
        left = await self.store.put_definition(
            self.run, elsewhere(crew(), {"ann": self.run}).to_json()
        )
        share = SplitContents(
            agents=(CID, AgentName("dan")), nodes=(NodeName("cid"), NodeName("dan"))
        )
        await self.record(
            self.run, j.RunStarted(run=self.run, crew=CREW, definition=whole, at=1), base=0
        )
        before = await load_state(self.store, self.run)
        split = j.ComponentChanged(
            at=2,
            change="split",
            graph_version=2,
            crew=CREW,
            definition=stays,
            split="cut",
            split_runs=(j.SplitRun(run=self.part, definition=left, contents=share),),
        )
        await self.record(self.run, split, j.RunStopped(at=3))
        if part:
            then = split_run_state(before, self.part, share, left, ())
            begins = j.RunForked(
                at=3, run=self.part, source=self.run, to=2, state=then.to_json(), split="cut"
            )
            await self.record(self.part, begins, j.RunStopped(at=4), base=2)

    async def record(
        self, run: RunId, *entries: j.JournalEntry, base: int | None = None, execution: str = "e0"
    ) -> None:
        after = (await load_state(self.store, run)).position if base is None else base
        rows = tuple(map(j.entry_to_json, entries))
        await self.store.append(run, j.Batch(first=after + 1, entries=rows), execution=execution)

    # -- what the two do ---------------------------------------------------------------------

    def server(self) -> Server:
        family = self

        class Ended(Server):
            async def find_last_executions(self, run: RunId) -> tuple[str, ...] | None:
                last = family.lasts.get(run)
                return None if run in family.open else (last,) if last else ()

        return Ended()

    async def _local(self, run: RunId, execution: str, name: str, task: Any) -> Any:
        self.open.add(run)
        self.lasts[run] = execution
        env = ActivityEnvironment()
        env.info = replace(env.info, workflow_id=run, workflow_run_id=execution, is_local=True)
        acts = CrewActivities(self.store, workspace=self.workspace, server=self.server())
        try:
            return await env.run(getattr(acts, name), task)
        except ApplicationError:
            self.dies(run)
            raise

    def dies(self, run: RunId) -> None:
        self.open.discard(run)

    async def asks_home(self, execution: str = "home") -> PrepareChangeResult:
        """The run that is about to go back to its recipe; what comes of it is not recorded yet."""
        state = await load_state(self.store, self.run)
        task = PrepareChange(
            run=self.run,
            base=state.recipe,
            recipe=True,
            against=state.definition,
            after=state.position,
        )
        made: PrepareChangeResult = await self._local(self.run, execution, "prepare_change", task)
        return made

    async def goes_home(self, made: PrepareChangeResult, execution: str = "home") -> None:
        """Records what comes of it."""
        at = (await load_state(self.store, self.run)).position
        then = (await load_state(self.store, self.run, at - 1)).to_json()
        back = j.RunReopened(at=8, to=at - 1, state=then, claimed=made.claimed)
        swap = j.GraphSwapped(
            at=9,
            graph_version=3,
            crew=CREW,
            definition=await self.store.put_definition(self.run, made.definition),
        )
        await self.record(self.run, back, swap, execution=execution)

    async def asks_on(self, execution: str = "on") -> None:
        """The part that is about to be taken up; it is not recorded yet."""
        await self._local(
            self.part, execution, "restore_state", RestoreState(run=self.part, reopen=True)
        )

    async def goes_on(self, execution: str = "on") -> None:
        at = (await load_state(self.store, self.part)).position
        then = (await load_state(self.store, self.part, at - 1)).to_json()
        await self.record(
            self.part, j.RunReopened(at=8, to=at - 1, state=then), execution=execution
        )

    async def lives(self) -> tuple[set[str], set[str]]:
        """The creatures of the run and of the part, where these go on."""
        found: list[set[str]] = []
        for run in (self.run, self.part):
            state = await load_state(self.store, run)
            data = await self.store.get_definition(state.definition)
            names = {*creatures_of(CrewDefinition.from_json(data))}
            found.append(set() if state.is_ended else names)
        return found[0], found[1]


@pytest.fixture
async def family(store: Store, run: RunId, tmp_path: Path) -> Family:
    found = Family(store, run, tmp_path)
    await found.begin()
    return found


HOME, ON = ({"ann", "cid", "dan"}, set[str]()), ({"ann"}, {"cid", "dan"})


class Paused:
    """A store in which whoever claims first waits right before that, having read all."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.there, self.go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, *args: Any, **more: Any) -> str:
        if not self.there.is_set():
            self.there.set()
            await self.go.wait()
        return await self._store.claim(*args, **more)


async def paused(
    family: Family, ask: Callable[[Family], Awaitable[Any]], kind: type[Paused] = Paused
) -> tuple[Paused, Any]:
    """One side, which has read that the other one rests, and does nothing more for a while."""
    store = kind(family.store)
    slow: Any = replace(family, store=store)  # the same runs are open in both
    asked = asyncio.ensure_future(ask(slow))
    await asyncio.wait_for(store.there.wait(), 20)
    return store, asked


async def test_who_comes_first_goes_on_and_the_other_is_told(family: Family) -> None:
    made = await family.asks_home()
    assert set(made.claimed) == {"cid", "dan"}
    with pytest.raises(ApplicationError, match=r"is about to continue cid"):
        await family.asks_on()
    await family.goes_home(made)
    assert await family.lives() == HOME
    with pytest.raises(ApplicationError, match=r"continues cid and dan of"):
        await family.asks_on("again")


async def test_the_run_leaves_who_is_about_to_go_on_elsewhere(family: Family) -> None:
    await family.asks_on()
    made = await family.asks_home()
    assert (made.claimed, CrewDefinition.from_json(made.definition).graph is not None) == ({}, True)
    assert "cid stays in" in made.what
    assert "dan stays in" in made.what
    await family.goes_home(made)
    await family.goes_on()
    assert await family.lives() == ON


async def test_who_has_read_and_waits_finds_them_at_home(family: Family) -> None:
    store, asked = await paused(family, lambda slow: slow.asks_on())
    await family.goes_home(await family.asks_home())
    store.go.set()
    with pytest.raises(ApplicationError, match=r"continues cid and dan of"):
        await asked
    assert await family.lives() == HOME


async def test_who_has_read_and_waits_leaves_them_where_they_are(family: Family) -> None:
    store, asked = await paused(family, lambda slow: slow.asks_home())
    await family.asks_on()
    await family.goes_on()
    store.go.set()
    made = await asked
    assert made.claimed == {}
    await family.goes_home(made)
    assert await family.lives() == ON


class PausedLater(Paused):
    """A store in which whoever has claimed one waits right before the next."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._claims = 0

    async def claim(self, *args: Any, **more: Any) -> str:
        self._claims += 1
        return await (self._store if self._claims == 1 else super()).claim(*args, **more)


@pytest.mark.parametrize("slow", ["asks_home", "asks_on"])
async def test_who_comes_between_two_claims_takes_nobody(family: Family, slow: str) -> None:
    store, asked = await paused(family, lambda slowed: getattr(slowed, slow)(), PausedLater)
    if slow == "asks_on":
        assert (await family.asks_home()).claimed == {}
    else:
        with pytest.raises(ApplicationError, match="is about to continue"):
            await family.asks_on()
        family.open.add(family.part)  # its workflow fails a moment later
    store.go.set()
    made = await asked
    if slow == "asks_on":
        await family.goes_on()
        assert (await family.lives())[1] == {"cid", "dan"}
    else:
        assert set(made.claimed) == {"cid", "dan"}
        await family.goes_home(made)
        assert await family.lives() == HOME


async def test_another_try_of_the_same_execution_finds_its_own_claims(family: Family) -> None:
    first = await family.asks_home()
    assert await family.asks_home() == first
    family.dies(family.run)
    await family.asks_on()
    await family.asks_on()


async def test_what_died_before_it_recorded_anything_keeps_nobody(family: Family) -> None:
    late = await family.asks_home()
    family.dies(family.run)
    await family.asks_on()
    with pytest.raises(HistoryConflict):  # of an activity that hung meanwhile
        await family.goes_home(late)
    await family.goes_on()
    assert (await family.lives())[1] == {"cid", "dan"}


async def test_a_part_that_died_before_it_recorded_anything_keeps_nobody(family: Family) -> None:
    await family.asks_on()
    family.dies(family.part)
    made = await family.asks_home()
    with pytest.raises(HistoryConflict):
        await family.goes_on()
    await family.goes_home(made)
    assert await family.lives() == HOME


async def test_the_next_execution_of_the_same_run_begins_anew(family: Family) -> None:
    late = await family.asks_home("one")
    family.dies(family.run)
    made = await family.asks_home("two")
    with pytest.raises(ApplicationError, match="is about to continue"):
        await family.asks_on()
    with pytest.raises(HistoryConflict):
        await family.goes_home(late, "one")
    await family.goes_home(made, "two")
    assert await family.lives() == HOME


async def test_a_run_that_went_on_as_it_was_gave_its_claims_up(family: Family) -> None:
    await family.asks_home("one")
    family.dies(family.run)
    at = (await load_state(family.store, family.run)).position
    then = (await load_state(family.store, family.run, at - 1)).to_json()
    family.open.add(family.run)
    await family.record(family.run, j.RunReopened(at=8, to=at - 1, state=then), execution="two")
    await family.asks_on()  # though that run is open
    await family.goes_on()
    assert await family.lives() == ON


async def test_a_part_that_ended_once_more_is_asked_anew(family: Family) -> None:
    await family.asks_on()
    await family.goes_on()
    await family.record(family.part, j.RunStopped(at=9), execution="on")
    family.dies(family.part)
    made = await family.asks_home()
    assert {each.execution for each in made.claimed.values()} == {2}
    await family.goes_home(made)
    assert await family.lives() == HOME


async def test_a_part_that_went_on_and_ended_while_the_run_waited_is_asked_anew(
    family: Family,
) -> None:
    store, asked = await paused(family, lambda slow: slow.asks_home())
    await family.asks_on()
    await family.goes_on()
    await family.record(family.part, j.RunStopped(at=9), execution="on")
    family.dies(family.part)
    store.go.set()
    made = await asked
    assert {each.execution for each in made.claimed.values()} == {2}
    with pytest.raises(ApplicationError, match="is about to continue"):
        await family.asks_on("again")


async def test_a_claim_that_did_not_stand_does_not_come_back(family: Family) -> None:
    await family.asks_on("one")
    family.dies(family.part)
    first = await family.asks_home()
    family.open.add(family.part)  # it is tried again, and about to be told
    assert await family.asks_home() == first
    assert set(first.claimed) == {"cid", "dan"}


async def test_a_swap_that_failed_keeps_them_for_the_run(family: Family) -> None:
    made = await family.asks_home("one")
    at = (await load_state(family.store, family.run)).position
    then = (await load_state(family.store, family.run, at - 1)).to_json()
    await family.record(
        family.run,
        j.SwapFailed(at=7, graph_version=3, error="of a change before"),
        j.RunReopened(at=8, to=at - 1, state=then, claimed=made.claimed),
        j.RunStopped(at=9),
        execution="one",
    )
    family.dies(family.run)
    with pytest.raises(ApplicationError, match=r"continues cid and dan of"):
        await family.asks_on()
    again = await family.asks_home("two")
    assert (again.claimed, creatures_of(CrewDefinition.from_json(again.definition))) == (
        {},
        ("ann", "cid", "dan"),
    )


async def test_a_rebuild_makes_the_claims_that_a_journal_tells(family: Family) -> None:
    store, run = family.store, family.run

    async def over(_: RunId) -> tuple[str, ...]:
        return ()

    found = await find_remote_agents(store, run, {"cid": family.part, "dan": family.part}, over)
    assert (found.runs, set(found.claimable)) == ({}, {"cid", "dan"})
    at = (await load_state(store, run)).position
    then = (await load_state(store, run, at - 1)).to_json()
    back = j.RunReopened(at=8, to=at - 1, state=then, claimed={**found.claimable})
    batch = j.Batch(first=at + 1, entries=(j.entry_to_json(back),))
    for _ in range(2):
        for taker, left in _came_home(run, [batch]):
            await rebuild_claim(store, taker, left)
            assert await store.key_owner(left.key(1)) == f"{run}/{at}/"
            assert await store.key_owner(left.key(2)) is None
    await store.append(run, batch)
    with pytest.raises(ApplicationError, match=r"continues cid and dan of"):
        await family.asks_on()
    state = await load_state(store, family.part)
    with pytest.raises(UsageError, match=r"continues cid and dan of"):
        await load_reopen_state(store, family.part, state)  # as a client looks


async def test_a_client_refuses_agents_that_an_open_run_has_claimed(family: Family) -> None:
    """The claim is stored before the run stores that it continues the agents."""
    store, part = family.store, family.part
    end = await load_state(store, part)
    lookup = family.server().find_last_executions
    made = await family.asks_home()
    with pytest.raises(UsageError, match=rf"{family.run}.* is about to continue cid and dan of"):
        await load_reopen_state(store, part, end, lookup)
    await family.goes_home(made)
    with pytest.raises(UsageError, match=r"continues cid and dan of"):
        await load_reopen_state(store, part, end, lookup)


async def test_a_client_ignores_a_claim_whose_run_ended_without_an_entry(family: Family) -> None:
    store, part = family.store, family.part
    await family.asks_home()
    family.dies(family.run)
    lookup = family.server().find_last_executions
    await load_reopen_state(store, part, await load_state(store, part), lookup)


async def test_a_part_that_has_not_begun_waits_and_begins_no_more(
    store: Store, run: RunId, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "SPLIT_WAIT_SECONDS", 0.01)
    family = Family(store, run, tmp_path)
    await family.begin(part=False)

    async def begins(execution: str) -> None:
        task = RestoreState(run=run, split_after=1)
        await family._local(family.part, execution, "restore_state", task)

    await begins("one")
    assert (await family.asks_home("zero")).claimed == {}, "the server says that it is open"
    family.dies(family.part)
    made = await family.asks_home("home")
    assert {each.began for each in made.claimed.values()} == {0}
    with pytest.raises(ApplicationError, match="about to claim the agent 'cid'") as caught:
        await begins("two")
    assert caught.value.type == "SplitNotRecorded"
    await family.goes_home(made)
    with pytest.raises(ApplicationError, match="claimed the agent 'cid' before") as caught:
        await begins("three")
    assert caught.value.type == "SplitNeverRecorded"

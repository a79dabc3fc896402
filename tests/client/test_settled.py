"""What of a history is a run's, by made histories: without a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from client.made_histories import give
from crewlog.client import others as module
from crewlog.client.extract import Ends, Extracted, Place, Told, extract, join, pieces
from crewlog.client.gateway import Gateway
from crewlog.client.histories import Chain, Execution
from crewlog.client.others import Others
from crewlog.client.settled import (
    OPEN,
    Heard,
    Parted,
    TakenIn,
    after,
    crossings,
    line,
    parted,
    taken_in,
    until,
)
from crewlog.ids import RunId
from crewlog.state import calls
from crewlog.state.journal import Batch
from crewlog.state.model import CrewState, MergeOutcome, PendingMerge
from crewlog.store import InMemoryStore

ONE, TWO = RunId("one"), RunId("two")
TAKES = {
    "kind": "RunMerged",
    "position": 9,
    "previous_position": 4,
    "merged_run": TWO,
    "merged_run_position": 4,
    "merged_run_started_at": 5,
    "merge": "tie",
}
PARTS = {"kind": "ComponentChanged", "split_runs": [{"run": "p1"}, {"run": "p2"}]}
ACCEPTS = {
    "kind": "MergeAccepted",
    "merge": "tie",
    "other": TWO,
    "other_position": 3,
    "other_started_at": 5,
}
FAILS = {"kind": "MergeFailed", "merge": "tie", "other": ONE, "reason": "it ended"}
JOINS = {"kind": "RunEndedByMerge", "merge": "tie", "run": ONE, "position": 9}
OFFERS = {"kind": "MergeFrozen", "merge": "tie", "other": ONE}
STARTS = {"kind": "RunStarted", "at": 5}


def said(text: str) -> dict[str, Any]:
    return {"kind": "Said", "text": text}


def batch(first: int, *entries: dict[str, Any]) -> Batch:
    return Batch(first=first, entries=entries)


def state(position: int, run: RunId = ONE, **more: Any) -> CrewState:
    return CrewState(run=run, position=position, **more)


def execution(
    id_: str, *batches: Batch, carried: CrewState | None = None, ended: Any = "", **more: Any
) -> Execution:
    found = Extracted(batches=join(batches), carried=carried, **more)
    return Execution(id_, Ends("", "", ended=ended), found, frozenset())


# -- the journal -------------------------------------------------------------------------------


def test_the_execution_that_took_a_run_up_says_where_it_goes_on() -> None:
    first = execution("e1", batch(1, *map(said, "abc")), batch(4, TAKES, said("d")))
    second = execution("e2", batch(4, said("x"), said("y")), carried=state(3))
    told = line([first, second])
    (whole,) = told.batches
    assert [entry["text"] for entry in whole.entries] == ["a", "b", "c", "x", "y"]
    assert told.ends == {"e1": 3}
    (left,) = told.left
    assert (left.first, left.last, left.execution) == (9, 10, "e1")
    assert "goes on from position 3" in left.why


def test_nothing_is_left_out_where_one_execution_is_handed_to_the_next() -> None:
    ends = batch(3, said("c"))
    first = execution("e1", batch(1, *map(said, "ab")), ends)
    second = execution("e2", ends, batch(4, said("d")), carried=state(3))
    told = line([first, second])
    assert [entry["text"] for each in told.batches for entry in each.entries] == [*"abcd"]
    assert (told.left, told.ends) == ([], {})


def test_of_three_executions_the_newest_word_counts() -> None:
    first = execution("e1", batch(1, *map(said, "abcd")))
    second = execution("e2", batch(4, said("x"), said("y")), carried=state(3))
    third = execution("e3", batch(3, said("z")), carried=state(2))
    told = line([first, second, third])
    assert [entry["text"] for each in told.batches for entry in each.entries] == ["a", "b", "z"]
    assert told.ends == {"e1": 2, "e2": 2}
    assert {(each.first, each.last, each.execution) for each in told.left} == {
        (4, 4, "e1"),
        (3, 3, "e1"),
        (4, 5, "e2"),
    }


def test_batches_are_cut_after_a_position() -> None:
    whole = [batch(1, *map(said, "abcd"), TAKES, said("e"))]
    assert until(whole, 20) == whole
    assert until(whole, 8) == until(whole, 4) == [batch(1, *map(said, "abcd"))]
    assert until(whole, 0) == []
    assert after(whole, 4) == after(whole, 8) == [9, 10]
    assert after(whole, 10) == []
    cut = list(pieces(ONE, whole[0], 3, 9))
    assert [(each.first, len(each.entries)) for each in cut] == [(1, 3), (4, 1), (9, 2)]


def test_what_an_activity_is_given_tells_what_was_stored_before() -> None:
    def flush(first: int, *entries: dict[str, Any], activity: str) -> Told:
        task = {"run": ONE, "batch": batch(first, *entries).to_json(), "definition": "d"}
        return Told(Place(calls.STORE_BATCH, "input", first, activity), task)

    one, two = {"kind": "MessageAdded", "ref": {"body": "b", "logs": []}}, dict(FAILS)
    found = extract([flush(1, one, activity="1"), flush(2, two, activity="2")])
    assert found.problems == []
    assert (found.stored, found.flushes) == (1, {"1": 1, "2": 2})
    assert extract([]).stored == 0


# -- what others say ---------------------------------------------------------------------------


def test_entries_by_which_creatures_come_or_go_are_found_with_their_round() -> None:
    journal = [batch(1, said("a"), dict(ACCEPTS), PARTS, said("b"), TAKES)]
    first, second = crossings(journal, 0)
    assert first == Parted(3, PARTS, (RunId("p1"), RunId("p2")))
    assert second == TakenIn(9, TAKES, TWO, "tie", 3, 5)
    assert (first.before, second.before) == (2, 4)
    assert crossings(journal, 8) == [second]
    assert crossings(journal, 9) == []
    # The entry names the round by itself.
    (known,) = crossings([batch(9, TAKES)], 0)
    assert known == TakenIn(9, TAKES, TWO, "tie", 3, 5)
    assert crossings([batch(1, {"kind": "ComponentChanged"})], 0) == []


TAKEN = TakenIn(9, TAKES, TWO, "tie", 3, 5)


def word(*entries: tuple[int, dict[str, Any]], **more: Any) -> str:
    return taken_in(TAKEN, ONE, entries, **more).word


def test_the_run_that_came_says_whether_it_did() -> None:
    assert word((4, OFFERS), (5, JOINS)) == "so"
    assert word((4, OFFERS), (5, FAILS)) == "not"
    assert word((4, OFFERS)) == word() == "open"
    # Another round, another merge, and another run say nothing of it.
    assert word((2, FAILS)) == "open"
    assert word((5, {**FAILS, "merge": "knot"})) == "open"
    assert word((5, {**FAILS, "other": "three"}), (6, {**JOINS, "run": "three"})) == "open"
    heard = taken_in(TAKEN, ONE, [(5, FAILS)])
    assert "'two' has `MergeFailed` at 5" in heard.why


def test_a_run_that_never_offered_itself_was_not_taken_in() -> None:
    assert word((1, STARTS), whole=True) == "never"
    assert word((1, STARTS), (4, OFFERS), whole=True) == "open"
    offers = PendingMerge(merge="tie", other=ONE, status="frozen", requester=ONE, position=3)
    assert word(states=[state(4, TWO, pending_merge=offers)], whole=True) == "open"
    joins = offers.model_copy(update={"status": "draining"})
    assert word(states=[state(4, TWO, pending_merge=joins)], whole=True) == "never"


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (MergeOutcome(outcome="merged", other=ONE, position=9), "so"),
        (MergeOutcome(outcome="failed", other=ONE, position=5), "not"),
        (MergeOutcome(outcome="failed", other=ONE, position=3), "open"),
        (MergeOutcome(outcome="failed", other=RunId("three"), position=5), "open"),
    ],
)
def test_a_state_tells_of_a_merge_whose_entries_are_gone(outcome: MergeOutcome, says: str) -> None:
    assert word(states=[state(8, TWO, merges={"tie": outcome})]) == says


def test_one_part_that_has_begun_is_enough() -> None:
    so, never, unread = Heard("so"), Heard("never", "it ended"), Heard("unread", "no key")
    assert parted([OPEN, never, so]) == so
    assert parted([never, OPEN]) == never
    assert parted([never, unread]) == unread
    assert parted([OPEN, OPEN]) == parted([]) == OPEN


# -- by the store, and by histories ------------------------------------------------------------


@dataclass
class World:
    """Runs that a server has, with their histories, and a store."""

    chains: dict[str, Chain] = field(default_factory=dict[str, Chain])
    store: InMemoryStore = field(default_factory=InMemoryStore)

    def others(self) -> Others:
        return Others(cast("Gateway", None), self.store, ONE, lambda _: None)

    def has(self, run: RunId, *executions: Execution, **more: Any) -> None:
        self.chains[run] = Chain([*executions], **more)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    give(monkeypatch, made.chains, module)
    return made


def journal(*entries: dict[str, Any]) -> Batch:
    return batch(1, STARTS, said("a"), said("b"), *entries)


async def test_rows_say_it_before_any_history_is_read(world: World) -> None:
    assert await world.others().say_of(TAKEN) == OPEN  # nobody knows of that run
    await world.store.append(TWO, batch(4, OFFERS, FAILS))
    assert (await world.others().say_of(TAKEN)).word == "not"
    world.has(TWO, execution("e", journal(OFFERS, JOINS)))
    assert (await world.others().say_of(TAKEN)).word == "not"


async def test_a_history_says_it_where_rows_are_lost(world: World) -> None:
    world.has(TWO, execution("e", journal(OFFERS, JOINS)))
    assert (await world.others().say_of(TAKEN)).word == "so"
    world.has(TWO, execution("e", journal()))
    assert (await world.others().say_of(TAKEN)).word == "never"
    # Where a part of it is gone, or it is another run by now, it may have been said.
    world.has(TWO, execution("e", journal()), absent=["e0"])
    assert await world.others().say_of(TAKEN) == OPEN
    world.has(TWO, execution("e", batch(1, {**STARTS, "at": 6}, said("a"))))
    assert await world.others().say_of(TAKEN) == OPEN
    world.has(TWO, execution("e", journal(), problems=["event 7: no key"]))
    assert await world.others().say_of(TAKEN) == Heard("unread", "event 7: no key")


async def test_of_a_run_that_was_taken_up_again_its_newest_word_counts(world: World) -> None:
    first = execution("e1", journal(OFFERS, FAILS), ended="outside")
    second = execution("e2", batch(5, said("c")), carried=state(4, TWO))
    world.has(TWO, first, second)
    assert await world.others().say_of(TAKEN) == OPEN


async def test_a_part_has_begun_where_it_has_read_that_it_is_one(world: World) -> None:
    part, forked = RunId("p"), {"kind": "RunForked", "source": ONE}
    each = Parted(3, PARTS, (part,))
    others = world.others()
    assert await others.say_of(each) == OPEN
    world.has(part, execution("e"))
    assert await others.say_of(each) == OPEN  # it waits
    world.has(part, execution("e", ended="outside"))
    assert (await others.say_of(each)).word == "never"
    world.has(part, execution("e", problems=["no key"], ended="outside"))
    assert await others.say_of(each) == Heard("unread", "no key")
    world.has(part, execution("e", carried=state(3)))
    assert (await others.say_of(each)).word == "so"
    world.has(part, execution("e", batch(4, forked)))
    assert (await others.say_of(each)).word == "so"
    world.has(part, execution("e", batch(4, {**forked, "source": "three"})))
    assert (await others.say_of(each)).word == "never"


async def test_a_part_that_the_store_knows_has_begun(world: World) -> None:
    part = RunId("p")
    rows = [{"kind": "RunForked", "source": ONE, "run": part, "to": 3, "state": {}}]
    await world.store.append(part, batch(4, *rows))
    assert (await world.others().say_of(Parted(3, PARTS, (part,)))).word == "so"


async def test_whether_a_run_was_taken_in_its_history_says_before_its_rows(world: World) -> None:
    others = world.others()
    takes = {**TAKES, "merged_run": ONE}
    assert not await others.has_taken(TWO, "tie", 9)
    whole = {**takes, "graph_version": 2, "crew": "c", "definition": "d"}
    await world.store.append(TWO, batch(9, whole))
    assert await others.has_taken(TWO, "tie", 9)
    assert not await others.has_taken(TWO, "knot", 9)
    # It was reset as well: neither keeps the other one from being made again.
    world.has(TWO, execution("e", journal()))
    assert not await others.has_taken(TWO, "tie", 9)
    world.has(TWO, execution("e", journal(), problems=["no key"]))
    assert await others.has_taken(TWO, "tie", 9)
    world.has(TWO, execution("e", journal(said("c"), takes)))
    assert await others.has_taken(TWO, "tie", 9)
    merged = MergeOutcome(outcome="merged", other=ONE, position=9)
    world.has(TWO, execution("e", carried=state(30, TWO, merges={"tie": merged})))
    assert await others.has_taken(TWO, "tie", 9)

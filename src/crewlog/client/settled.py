"""What of a run's histories is the run's, and what others have settled otherwise: pure.

An execution that was ended from outside may have recorded what was never stored. Whoever waited for
it has the store take nothing more of it, and goes on by what is stored. So its history alone does
not tell how far it came:

    line(executions)    the journal; where a run was taken up again, that execution's word counts
    crossings(...)      the entries by which creatures come or go
    taken_in(...)       what the run that came says of one, by its journal

A merge is a word of the run that stays, and the other one acts on it alone: it becomes part of that
(`RunEndedByMerge`), or goes on by itself (`MergeFailed`). A split is a word, too, and each part
begins by it. So is that creatures came home: the run in which they lived goes on no more by it. So
what those journals say tells whether the word was there to be read. See
docs/decisions/0055.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from crewlog.client.extract import Extracted, join
from crewlog.ids import RunId
from crewlog.model import Json, Model
from crewlog.state.journal import Batch, preceding_position
from crewlog.state.model import CrewState

Word = Literal["so", "not", "never", "open", "unread"]
"""What another run's journal says of an entry: it was stored; it was not; nothing, and it will not
any more; nothing yet; or it cannot be read."""
Placed = tuple[int, Mapping[str, Json]]
"""An entry as JSON, with its position."""


class LeftOut(Model):
    """What a history tells, and what is not the run's."""

    first: int
    """The first of the positions."""
    last: int
    """The last one."""
    execution: str
    """The execution that tells them: Temporal's run id."""
    why: str
    """Why they are not, for people."""


class Heard(NamedTuple):
    """What another run says of an entry."""

    word: Word
    why: str = ""
    """Of `not` and `never`: in which way it was settled otherwise; of `unread` why, for people."""


OPEN = Heard("open")


@dataclass(frozen=True)
class Crossing:
    """An entry by which creatures come to a run, or leave it."""

    position: int
    entry: Mapping[str, Json]

    @property
    def before(self) -> int:
        """The position of the entry before it."""
        return preceding_position(self.entry, self.position)


@dataclass(frozen=True)
class TakenIn(Crossing):
    """The run took in another one."""

    of: RunId
    """The other one."""
    op: str
    """The merge."""
    theirs: int = 0
    """The last position before the other run froze."""
    began: int = 0
    """When the other run was started, in milliseconds since the epoch; 0: that is not known."""


@dataclass(frozen=True)
class Parted(Crossing):
    """Creatures left the run for runs of their own."""

    parts: tuple[RunId, ...]
    """These runs."""


@dataclass(frozen=True)
class Returned(Crossing):
    """Creatures came home to the run, which went on with its recipe."""

    homes: tuple[RunId, ...]
    """The runs in which they lived until these ended."""


class Execution(Protocol):
    """An execution that was read."""

    @property
    def id(self) -> str:
        """Temporal's run id of it."""
        ...

    @property
    def extracted(self) -> Extracted:
        """What it tells."""
        ...


# -- the journal -----------------------------------------------------------------------------


class Line(NamedTuple):
    """The journal that executions tell."""

    batches: list[Batch]
    left: list[LeftOut]
    """What they tell, and what is not the run's."""
    ends: dict[str, int]
    """The last position that counts of each execution, where that is not its last one."""


def line(executions: Sequence[Execution]) -> Line:
    """The journal that executions tell, and what of it is not the run's.

    An execution begins with the run as it was stored, or as it was handed on. What an earlier one
    tells of later positions was neither.

    Args:
        executions: Those of a chain, oldest first.
    """
    told: list[tuple[str, list[Batch]]] = []
    left: list[LeftOut] = []
    ends: dict[str, int] = {}
    for execution in executions:
        began = execution.extracted.carried
        if began is not None:
            why = f"the execution that took the run up goes on from position {began.position}"
            for number, (id_, batches) in enumerate(told):
                beyond = after(batches, began.position)
                if beyond:
                    ends[id_] = began.position
                    first, last = beyond[0], beyond[-1]
                    left.append(LeftOut(first=first, last=last, execution=id_, why=why))
                    told[number] = id_, until(batches, began.position)
        told.append((execution.id, execution.extracted.batches))
    return Line(join(batch for _, batches in told for batch in batches), left, ends)


def until(batches: Iterable[Batch], position: int) -> list[Batch]:
    """What batches have up to a position."""
    found: list[Batch] = []
    for batch in batches:
        entries = tuple(entry for at, entry in placed(batch) if at <= position)
        if len(entries) == len(batch.entries):
            found.append(batch)
        elif entries:
            found.append(batch.model_copy(update={"entries": entries}))
    return found


def after(batches: Iterable[Batch], position: int) -> list[int]:
    """The positions that batches have after one."""
    return [at for batch in batches for at in batch.positions() if at > position]


def placed(batch: Batch) -> Iterator[Placed]:
    """The entries of a batch, each with its position."""
    return zip(batch.positions(), batch.entries, strict=True)


# -- what others act on ----------------------------------------------------------------------


def crossings(batches: Iterable[Batch], position: int) -> list[TakenIn | Parted | Returned]:
    """The entries after a position by which creatures come to a run, or leave it, in order.

    Args:
        batches: The run's journal.
        position: The position.
    """
    found: list[TakenIn | Parted | Returned] = []
    for at, entry in (each for batch in batches for each in placed(batch)):
        kind = entry.get("kind")
        if at <= position:
            continue
        if kind == "RunMerged":
            theirs, began = entry["merged_run_position"] - 1, entry["merged_run_started_at"]
            found.append(TakenIn(at, entry, entry["merged_run"], entry["merge"], theirs, began))
        elif kind == "ComponentChanged" and (parts := parts_of(entry)):
            found.append(Parted(at, entry, parts))
        elif kind == "RunReopened" and (home := entry.get("claimed")):
            homes = {RunId(each["run"]) for each in home.values()}
            found.append(Returned(at, entry, tuple(sorted(homes))))
    return found


def parts_of(entry: Mapping[str, Json]) -> tuple[RunId, ...]:
    """The runs that an entry, as JSON, says to be parts of its run from then on."""
    return tuple(RunId(part["run"]) for part in entry.get("split_runs", ()))


def taken_in(
    taken: TakenIn,
    run: RunId,
    journal: Iterable[Placed],
    states: Iterable[CrewState] = (),
    *,
    whole: bool = False,
) -> Heard:
    """What the run that was taken in says of it.

    Args:
        taken: The entry that says so.
        run: The run whose entry that is.
        journal: The journal of the one that was taken in; after `taken.theirs` is enough.
        states: States of that one that are known.
        whole: Whether that is all of its journal, and it is the run that was meant: then it
            cannot have been frozen where it does not say so.
    """
    frozen = False
    for position, entry in journal:
        if position <= taken.theirs or entry.get("merge") != taken.op:
            continue
        kind = entry.get("kind")
        if kind == "RunEndedByMerge" and entry["run"] == run:
            return Heard("so")
        if kind == "MergeFailed" and entry["other"] == run:
            said = f"the journal of {taken.of!r} has `MergeFailed` at {position}: it lives on alone"
            return Heard("not", said)
        frozen |= kind == "MergeFrozen"
    for state in states:
        word, joining = state.merges.get(taken.op), state.pending_merge
        if word is not None and word.other == run and word.outcome == "merged":
            return Heard("so")
        if word is not None and word.other == run and word.position > taken.theirs:
            said = f"{taken.of!r} gave the merge up at {word.position}: it lives on alone"
            return Heard("not", said)
        frozen |= joining is not None and (joining.merge, joining.status) == (taken.op, "frozen")
    if whole and not frozen:
        return Heard("never", f"{taken.of!r} was never frozen for it: it lives on alone")
    return OPEN


def returned(each: Returned, home: RunId, journal: Iterable[Placed]) -> Heard:
    """What a run says of the entry by which its creatures came home to another one.

    Args:
        each: The entry.
        home: The run in which they had lived.
        journal: Its journal.
    """
    for position, entry in journal:
        if entry.get("kind") in ("RunReopened", "RunForked") and entry["at"] > each.entry["at"]:
            return Heard("not", f"{home!r} went on with its creatures at {position} itself")
    return OPEN


def parted(parts: Iterable[Heard]) -> Heard:
    """What the parts of a graph say of the entry that parts them, together.

    One that has begun has read the entry. Where none has, and one will not, nobody has left.
    """
    heard = list(parts)
    for word in ("so", "unread", "not", "never"):
        for each in heard:
            if each.word == word:
                return each
    return OPEN

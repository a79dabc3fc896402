"""What other runs say of a run's journal: by the store, or by their histories.

Rows may be lost of all of them at once, and come back in any order. So whoever makes those of one
run reads the histories of the others itself: what comes of it is the same whichever is first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from crewlog.client.extract import gaps
from crewlog.client.gateway import Gateway
from crewlog.client.histories import Chain, Histories, Tell
from crewlog.client.merged_journals import start_time
from crewlog.client.settled import (
    OPEN,
    Heard,
    Parted,
    Placed,
    Returned,
    TakenIn,
    line,
    parted,
    placed,
    returned,
    taken_in,
)
from crewlog.errors import CrewlogError, NotPermitted, RunNotFound, ServiceError, StoreIncomplete
from crewlog.ids import RunId
from crewlog.model import Json
from crewlog.store.protocol import Store

_PAGE = 1000
"""Entries that are read at a time."""


class Others:
    """Asks the journals of other runs.

    Args:
        gateway: The server that has their histories.
        store: The store that may have their rows.
        run: The run of which they are asked.
        tell: Told how far it is.
    """

    def __init__(self, gateway: Gateway, store: Store, run: RunId, tell: Tell) -> None:
        self._gateway = gateway
        self._store = store
        self._run = run
        self._tell = tell

    async def say_of(self, each: TakenIn | Parted | Returned) -> Heard:
        """What the runs that an entry is about say of it.

        Args:
            each: The entry.
        """
        if isinstance(each, TakenIn):
            return await self.says_who_came(each)
        if isinstance(each, Returned):
            heard = [await self.went_on(each, home) for home in each.homes]
            return next((said for said in heard if said != OPEN), OPEN)
        return parted([await self.begun(part) for part in each.parts])

    async def went_on(self, each: Returned, home: RunId) -> Heard:
        """What a run says of the entry by which its creatures came home to this one.

        Args:
            each: The entry.
            home: The run in which they had lived.
        """
        rows = [row async for row in self._rows(home, 0)]
        if (heard := returned(each, home, rows)) != OPEN:
            return heard
        chain = await self._chain(home)
        if chain is None:
            return OPEN
        batches = line(chain.executions).batches
        heard = returned(each, home, [one for batch in batches for one in placed(batch)])
        for text in (text for one in chain.executions for text in one.extracted.problems):
            return Heard("unread", text) if heard == OPEN else heard
        return heard

    async def says_who_came(self, taken: TakenIn) -> Heard:
        """What a run says of the entry that took it in.

        Args:
            taken: The entry.
        """
        rows = [each async for each in self._rows(taken.of, taken.theirs)]
        if (heard := taken_in(taken, self._run, rows)) != OPEN:
            return heard
        chain = await self._chain(taken.of)
        if chain is None:
            return OPEN
        batches = line(chain.executions).batches
        entries = [each for batch in batches for each in placed(batch)]
        states = [each.extracted.carried for each in chain.executions]
        problems = [text for each in chain.executions for text in each.extracted.problems]
        heard = taken_in(
            taken,
            self._run,
            entries,
            [state for state in states if state is not None],
            whole=not problems
            and _is_whole(chain)
            and bool(entries)
            and taken.began in (0, start_time(entries[0][1])),
        )
        return Heard("unread", problems[0]) if problems and heard == OPEN else heard

    async def begun(self, part: RunId) -> Heard:
        """What a run says of the entry that made it a part of this one.

        Args:
            part: The run that is the part.
        """
        async for _, entry in self._rows(part, 0, 1):
            return self._is_ours(part, entry)
        chain = await self._chain(part)
        if chain is None:
            return OPEN
        for execution in chain.executions:
            for batch in execution.extracted.batches:
                return self._is_ours(part, batch.entries[0])
            if execution.extracted.carried is not None:
                return Heard("so")
        for text in (text for each in chain.executions for text in each.extracted.problems):
            return Heard("unread", text)
        if not chain.executions[-1].ends.ended:
            return OPEN
        return Heard("never", f"its part {part!r} has ended without having begun")

    def _is_ours(self, part: RunId, entry: Mapping[str, Json]) -> Heard:
        """What the first entry of a part's journal says."""
        if entry.get("kind") == "RunForked" and entry.get("source") != self._run:
            return Heard("never", f"{part!r} is a part of {entry.get('source')!r}")
        return Heard("so")

    async def has_taken(self, other: RunId, op: str, position: int) -> bool:
        """Whether another run's journal says that it took this one in.

        Its history counts, as far as that goes: it may have been reset as well.

        Args:
            other: The other run.
            op: The merge.
            position: Where its journal says so.
        """
        chain = await self._chain(other)
        if chain is not None:
            told = line(chain.executions)
            entries = [each for batch in told.batches for each in placed(batch)]
            if any(self._takes(entry, op) for _, entry in entries):
                return True
            states = [each.extracted.carried for each in chain.executions]
            words = [state.merges.get(op) for state in states if state is not None]
            if any(word is not None and word.outcome == "merged" for word in words):
                return True
            problems = any(each.extracted.problems for each in chain.executions)
            if _is_whole(chain) and not problems:
                return False
        async for _, entry in self._rows(other, position - 1, 1):
            return self._takes(entry, op)
        return False

    def _takes(self, entry: Mapping[str, Json], op: str) -> bool:
        """Whether an entry says that this run was taken in."""
        said: tuple[Json, ...] = entry.get("kind"), entry.get("merged_run"), entry.get("merge")
        return said == ("RunMerged", self._run, op)

    async def _rows(self, run: RunId, after: int, most: int = 0) -> AsyncIterator[Placed]:
        """What the store has of a journal after a position, as far as that can be read."""
        while True:
            try:
                rows = await self._store.read_journal(run, after, most or _PAGE)
            except CrewlogError as error:
                if isinstance(error, ServiceError) and not isinstance(error, StoreIncomplete):
                    raise
                return
            for row in rows:
                yield row.position, row.entry
            if not rows or most:
                return
            after = rows[-1].position

    async def _chain(self, run: RunId) -> Chain | None:
        """The histories of a run; none where the server has none of it."""
        self._tell(f"reading what {run} says of it")
        known = {*await self._store.accepted_executions(run)} - {""}
        try:
            return await Histories(self._gateway, run, self._tell).read(known)
        except (RunNotFound, NotPermitted):
            return None


def _is_whole(chain: Chain) -> bool:
    """Whether executions tell all of a journal, up to what is in no activity yet."""
    batches = line(chain.executions).batches
    end = batches[-1].last if batches else 0
    return not (chain.absent or gaps(batches, end, chain.base))

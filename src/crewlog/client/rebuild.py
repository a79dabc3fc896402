"""Makes a run's rows again from its histories.

Everything in a store follows from histories: definitions from the result of `prepare_run`, journal
batches from the inputs of activities, bodies from their results, snapshots from what is handed to
the store and from what continue-as-new carries. What is made is the same, row by row, but for what
no history has: registrations of crews, and bodies of attempts that never answered. Quotas over runs
have what their calls used of them (`crewlog.client.counted`).

What a run has recorded since its last activity is in no history yet: the run itself is asked. It
may go on while its rows are made: everything is insert-only and comes again, so that what its
activities store meanwhile is the same or new. Rows are only removed to be replaced, and then the
histories are read once more: whatever was stored before the removal is in them by then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from crewlog.client.counted import count
from crewlog.client.extract import Extracted, gaps, join, last, pieces
from crewlog.client.gateway import Gateway, pauses
from crewlog.client.histories import Chain, Execution, Histories, Tell
from crewlog.client.locked import locked
from crewlog.client.others import Others
from crewlog.client.settled import (
    Crossing,
    Heard,
    LeftOut,
    Parted,
    TakenIn,
    after,
    crossings,
    line,
    until,
)
from crewlog.errors import (
    CrewlogError,
    HistoryConflict,
    RemoteAgentConflict,
    StoreIncomplete,
    TemporalUnavailable,
    UsageError,
)
from crewlog.ids import ContentHash, LogName, RunId
from crewlog.model import Json, Model
from crewlog.state.calls import attempt_owner, start_record_key
from crewlog.state.claim import ClaimedAgent, ClaimOwner
from crewlog.state.journal import (
    Batch,
    MessageQueued,
    OutputSet,
    PromptReceived,
    RunReopened,
    preceding_position,
)
from crewlog.state.logs import batch_entries, heads_after_batch
from crewlog.state.model import CrewState
from crewlog.store.claims import rebuild_claim
from crewlog.store.protocol import Store
from crewlog.store.reencryption import delete_unreadable_rows
from crewlog.wire import JournalPage, Page

_ENTRIES = 500
"""Journal entries that are stored, or asked for, at a time."""
_BODIES = 200
"""Bodies that are stored at a time."""
_TRIES = 5
"""How often the histories are read again because the run continued as new meanwhile."""
_LAST = ("RunCompleted", "RunStopped", "RunFailed", "RunEndedByMerge")
"""After one of these entries there is no other."""

_HELD_BACK = 7.0
"""Seconds until an answer that the server holds back is in the history: the workflow task of a
worker that died times out in five."""

_Calls = frozenset[tuple[str, str]]
"""Activities, each by its execution and its id."""

Tail = Literal["stored", "told", "unknown"]


class Missing(Model):
    """Journal positions that nothing tells any more."""

    first: int
    last: int


class RebuildReport(Model):
    """What was made again, and what could not be."""

    run: RunId
    position: int
    """The last journal position that is known of."""
    positions: int
    """How many journal entries were made again; rows that were there count as well."""
    bodies: int
    """How many bodies, in entries or not."""
    snapshots: int
    """How many states."""
    definitions: int
    """How many definitions."""
    missing: tuple[Missing, ...] = ()
    """The journal positions that were not made again."""
    lacking: tuple[ContentHash, ...] = ()
    """Bodies and definitions that entries name, and neither a history nor the store has."""
    executions: tuple[str, ...] = ()
    """The executions that were read, oldest first: Temporal's run ids."""
    absent: tuple[str, ...] = ()
    """Executions that the server does not have any more, as far as others name them."""
    apart: tuple[str, ...] = ()
    """Other executions of the same workflow id, which are not known to belong to this run."""
    left_out: tuple[LeftOut, ...] = ()
    """What executions tell that is not the run's, since others have gone on without it: where it
    was ended from outside, or taken up again. Nothing is missing by that."""
    tail: Tail = "stored"
    """What the run recorded last: an activity carried it, the run told it, or no worker answered.
    In the last case it is stored when the run goes on; of a run that was ended from outside it may
    be lost."""
    replaced_after: int | None = None
    """The position after which rows were removed first; none where nothing was to be replaced."""
    problems: tuple[str, ...] = ()
    """What could not be read, and why."""

    @property
    def whole(self) -> bool:
        """Whether everything up to `position` is in the store, and all of the history was read."""
        return not (self.missing or self.lacking or self.problems)


@dataclass(frozen=True)
class _Found:
    """What the histories and the run tell."""

    chain: Chain
    batches: list[Batch]
    """The journal, as the fewest batches."""
    position: int
    """The last position that is known of."""
    tail: Tail
    left: tuple[LeftOut, ...] = ()
    """What the executions tell, and what is not the run's."""
    ends: Mapping[str, int] = field(default_factory=dict[str, int])
    """The last position that counts of each execution, where that is not its last one."""
    fence: int = 0
    """The position from which on the journal is stored in the name of the last execution: whether
    that stored it is not known, and the store may have been told to take nothing more of it. 0:
    nothing is stored so."""
    unread: tuple[str, ...] = ()
    """What is not known of other runs, whose histories cannot be read."""

    def counts(self, execution: str, position: int) -> bool:
        """Whether what an execution tells of a position is the run's."""
        end = self.ends.get(execution)
        return end is None or position <= end

    @property
    def last(self) -> Execution:
        """The last execution that tells anything; else the newest one."""
        told = [e for e in self.chain.executions if e.extracted.batches or e.extracted.carried]
        return told[-1] if told else self.chain.executions[-1]

    @property
    def problems(self) -> list[str]:
        """What could not be read, and why."""
        return [*(text for each in self.all for text in each.problems), *self.unread]

    @property
    def all(self) -> Iterator[Extracted]:
        return (execution.extracted for execution in self.chain.executions)

    @property
    def positions(self) -> int:
        return sum(len(batch.entries) for batch in self.batches)


class Rebuild:
    """Makes the rows of one run again."""

    def __init__(
        self,
        gateway: Gateway,
        store: Callable[[], Awaitable[Store]],
        run: RunId,
        tell: Tell | None = None,
    ) -> None:
        self._gateway = gateway
        self._open = store
        self._run = run
        self._tell: Tell = tell or (lambda _: None)
        self._silent = False
        """Whether the run was asked for its tail, and no worker answered: it is not asked again."""
        self._refused = 0
        """The position from which on the store takes nothing more of the last execution."""

    async def __call__(self, *, replace: bool = False) -> RebuildReport:
        """See `crewlog.client.run.Run.rebuild`."""
        store = await self._open()
        kept: int | None = None
        deadline = time.monotonic() + _HELD_BACK
        waits = pauses(0.05, 1.0)
        awaited: _Calls | None = None
        tries = 0
        while tries < _TRIES:
            found = await self._find(store)
            await self._check_unlocked(found)
            awaited = _unanswered(found.chain) if awaited is None else awaited
            differs = await self._first_beyond(store, found, replace=replace)
            if differs is None:
                try:
                    report = await self._make(store, found, kept)
                except HistoryConflict as conflict:
                    if await self._is_shut(store, found, conflict.position):
                        self._refused = conflict.position
                        continue
                    differs = conflict.position
                else:
                    if time.monotonic() > deadline or not await self._held_back(found, awaited):
                        return report
                    self._tell("waiting for answers that the server holds back")
                    await asyncio.sleep(next(waits))
                    continue
            tries += 1
            _check_read(found, self._run, differs)
            if not replace:
                raise UsageError(
                    f"from position {differs} on, the store has another journal of the run "
                    f"{self._run!r} than its history",
                    remedy="It was reset, or its id was used again. "
                    f"`crewlog rebuild {self._run} --replace` removes those rows first.",
                )
            if not await self._is_new(store, found):
                await self._check_settled(store, differs)
            self._tell(f"removing what is stored from position {differs} on")
            # What was reset, or replaced, may have activities at work still.
            others = await Histories(self._gateway, self._run, self._tell).ended_apart(found.chain)
            await store.reject_executions(self._run, others)
            await store.truncate_journal(self._run, differs - 1)
            kept = differs - 1 if kept is None else min(kept, differs - 1)
        raise UsageError(
            f"the rows of the run {self._run!r} change faster than they can be replaced",
            remedy="Pause the run, and try again.",
        )

    async def _is_new(self, store: Store, found: _Found) -> bool:
        """Whether the histories are of another run that has the id now, which was not reset."""
        executions = found.chain.executions
        if executions[0].ends.before or executions[0].extracted.reopened or not found.batches:
            return False
        known = {"", *(each.id for each in executions)}
        if not all(each.ends.others <= known for each in executions):
            return False
        rows = await store.read_journal(self._run, 0, 1)
        return bool(rows) and rows[0].entry != found.batches[0].entries[0]

    async def _check_settled(self, store: Store, differs: int) -> None:
        """Refuses to remove rows by which creatures live in another run, or in this one.

        Raises:
            RemoteAgentConflict: they would live twice then, or nowhere.
        """
        others = Others(self._gateway, store, self._run, self._tell)
        at = differs - 1
        while rows := await store.read_journal(self._run, at, _ENTRIES):
            for row in rows:
                if why := await self._keeps(others, row.position, row.entry):
                    raise _settled(self._run, why)
            at = rows[-1].position

    async def _keeps(self, others: Others, position: int, entry: Mapping[str, Json]) -> str:
        """Why an entry may not be removed; empty where it may."""
        match entry.get("kind"):
            case "RunEndedByMerge":
                into = RunId(str(entry["run"]))
                if await others.has_taken(into, str(entry["merge"]), int(entry["position"])):
                    return (
                        f"by position {position} it is part of {into!r}, whose journal says so, "
                        "too: its creatures live there"
                    )
            case "RunMerged" | "ComponentChanged":
                batch = Batch(first=position, entries=(dict(entry),))
                for each in crossings([batch], 0):
                    heard = await others.say_of(each)
                    if heard.word == "unread":
                        return f"what came of position {position} is not known: {heard.why}"
                    if heard.word == "so":
                        return _lives(each)
            case _:
                pass
        return ""

    async def _check_unlocked(self, found: _Found) -> None:
        """Refuses to report on histories of which nothing can be read, since a key is gone."""
        if found.position or not any(each.problems for each in found.all):
            return
        for execution in found.chain.executions:
            if (error := await locked(self._gateway.temporal, self._run, execution.id)) is not None:
                error.remedy += " Nothing was changed."
                raise error

    async def _held_back(self, found: _Found, awaited: _Calls) -> bool:
        """Whether the histories lack an answer that may have been stored before the rows were lost.

        Who answered by the time of the first look must have stored its message before, perhaps in
        rows that are gone. While a workflow task is being worked on, the server shows such an
        answer in no history.
        """
        missing = awaited & _unanswered(found.chain)
        if not missing:
            return False
        now = await self._gateway.describe(self._run)
        at_work = {
            (now.run_id or "", activity.activity_id)
            for activity in now.raw_description.pending_activities
        }
        return not missing <= at_work

    async def _is_shut(self, store: Store, found: _Found, position: int) -> bool:
        """Whether a position was refused since the execution is shut, and not for what is there."""
        if self._refused or not found.fence or position < found.fence:
            return False
        return not await store.read_journal(self._run, position - 1, 1)

    # -- finding -----------------------------------------------------------------------------

    async def _find(self, store: Store) -> _Found:
        """What the histories and the run tell, as far as nobody has settled it otherwise."""
        return await self._settled(store, await self._all_told(store))

    async def _settled(self, store: Store, found: _Found) -> _Found:
        """Leaves out what the last execution recorded, and what was never stored.

        A run that is at work stores what it has recorded. One that was ended from outside may not
        have: then others, who waited for it, have gone on without. Where none of them has yet, the
        store decides, as it would for the execution itself.
        """
        told = found.last
        if told.ends.ended != "outside":
            return found
        others = Others(self._gateway, store, self._run, self._tell)
        known = told.extracted.stored
        for each in crossings(found.batches, known):
            heard = await others.say_of(each)
            if heard.word in ("never", "open", "unread") and await self._has(store, each):
                heard = Heard("so")
            if heard.word == "so":
                known = each.position  # whoever read it has read all that comes before
            elif heard.word != "open":
                found = _without(found, each.before, heard)
                break
        beyond = after(found.batches, known)
        if self._refused in beyond:
            gone = "the store takes nothing more of it, since another run went on without it"
            kept = [at for batch in found.batches for at in batch.positions()]
            before = max((at for at in kept if at < self._refused), default=known)
            found = _without(found, before, Heard("never", gone))
        return replace(found, fence=beyond[0] if beyond else 0)

    async def _has(self, store: Store, each: Crossing) -> bool:
        """Whether the store has an entry."""
        rows = await store.read_journal(self._run, each.position - 1, 1)
        return any(row.entry == each.entry for row in rows if row.position == each.position)

    async def _all_told(self, store: Store) -> _Found:
        """The histories, and the tail that the run itself tells."""
        for left in reversed(range(_TRIES)):
            known = await store.accepted_executions(self._run)
            chain = await Histories(self._gateway, self._run, self._tell).read(known)
            told = line(chain.executions)
            batches, ends = told.batches, told.ends
            position = max([chain.executions[-1].extracted.end, *map(last, batches)])
            found = _Found(chain, batches, position, "stored", tuple(told.left), ends)
            newest = chain.executions[-1].extracted  # it may have taken the run up again
            if newest.batches and batches[-1].entries[-1].get("kind") in _LAST:
                return found
            if self._silent or chain.passed:  # another would answer in its place
                return replace(found, tail="unknown")
            self._tell("asking the run for what it recorded last")
            try:
                tail, position = await self._tail(position)
            except TemporalUnavailable:
                raise
            except CrewlogError:  # no worker, or none that can go on
                self._silent = True
                return replace(found, tail="unknown")
            began = found.last is chain.executions[-1]
            if (tail is None or not began) and left:
                continue  # it continued as new since its histories were read, or took the run up
            return self._with_tail(found, tail, position)
        raise AssertionError

    def _with_tail(self, found: _Found, tail: Batch | None, position: int) -> _Found:
        carried = found.chain.executions[-1].extracted.carried
        heads = heads_after(self._run, found.batches, carried)
        if tail is None or heads is None:
            return replace(found, position=position, tail="unknown")
        if not tail.entries:
            return found
        batches = join([*found.batches, tail.model_copy(update={"heads": heads})])
        return replace(found, batches=batches, position=position, tail="told")

    async def _tail(self, after: int) -> tuple[Batch | None, int]:
        """What the run has recorded after a position; none where it has continued as new since."""
        entries: list[dict[str, Json]] = []
        first, at = after + 1, after
        while True:
            argument = Page(after=at, limit=_ENTRIES).to_json()
            answer = await self._gateway.query(self._run, "journal", argument)
            page = JournalPage.model_validate(answer, extra="ignore")
            if page.first > at + 1:
                return None, page.position
            if page.entries:
                first = first if entries else page.entries[0].position
                entries += [item.data for item in page.entries]
                at = page.entries[-1].position
            if not page.entries or at >= page.position:
                return Batch(first=first, entries=tuple(entries)), at

    async def _first_beyond(self, store: Store, found: _Found, *, replace: bool) -> int | None:
        """The first position that the store has and the run does not."""
        rows = await store.read_journal(self._run, found.position, _ENTRIES)
        if not rows:
            return None
        # A run that is at work stores more while we look: it knows of that itself by now.
        now = await self._find(store)
        if now.position >= rows[-1].position:
            return None
        # Where no worker answers, an earlier rebuild may have stored what the run still holds. That
        # may go: the run stores it again.
        return now.position + 1 if replace or now.tail != "unknown" else None

    # -- making ------------------------------------------------------------------------------

    async def _make(self, store: Store, found: _Found, replaced: int | None) -> RebuildReport:
        """Stores everything; what names something else comes after it.

        Claims come first: a call that is tried again while its rows are made cannot begin without
        its message, and must not find that before the claim.
        """
        await self._drop_unreadable(store, found)
        if _is_signed(found):  # before there are rows in whose place another one could come
            await store.accept_executions(
                self._run, [execution.id for execution in found.chain.line]
            )
        for key, owner in _claims(self._run, found):
            await store.claim(self._run, key, owner)
        for taker, left in _came_home(self._run, found.batches):
            await rebuild_claim(store, taker, left)
        await count(store, self._run, found.chain, int(time.time() * 1000))
        definitions = {h: d for each in found.all for h, d in each.definitions.items()}
        for definition in definitions.values():
            await store.put_definition(self._run, definition)
        bodies = {h: b for each in found.all for h, b in each.bodies.items()}
        for number, part in enumerate(_parts(bodies, _BODIES)):
            self._tell(f"storing bodies: {number * _BODIES + len(part):,} of {len(bodies):,}")
            await store.put_bodies(self._run, part)
        for batch in found.batches:
            for piece in pieces(self._run, batch, _ENTRIES, found.fence):
                self._tell(f"storing the journal: {last(piece):,} of {found.position:,}")
                fenced = 0 < found.fence <= piece.first
                name = found.last.id if fenced else ""
                await store.append(self._run, piece, execution=name)
        snapshots = {
            snap.position: snap
            for each in found.chain.executions
            for snap in each.extracted.snapshots
            if found.counts(each.id, snap.position)
        }
        for snapshot in snapshots.values():
            await store.put_snapshot(self._run, snapshot)
        named, inline = _bodies_of(found.batches)
        lacking = await _lacking(store, sorted(named - bodies.keys() - inline))
        plans = {plan.definition for each in found.all for plan in each.plans}
        for hash_ in plans | _older(found.all):
            if not await _has_definition(store, hash_):
                lacking.append(hash_)
        chain = found.chain
        return RebuildReport(
            run=self._run,
            position=found.position,
            positions=found.positions,
            bodies=len(bodies.keys() | inline),
            snapshots=len(snapshots),
            definitions=len(definitions),
            missing=tuple(
                Missing(first=first, last=end)
                for first, end in gaps(found.batches, found.position, chain.base)
            ),
            lacking=tuple(lacking),
            executions=tuple(execution.id for execution in chain.executions),
            absent=tuple(chain.absent),
            apart=tuple(chain.apart),
            left_out=found.left,
            tail=found.tail,
            replaced_after=replaced,
            problems=tuple(found.problems),
        )

    async def _drop_unreadable(self, store: Store, found: _Found) -> None:
        """Removes what is there, cannot be read, and is about to be made."""
        _, inline = _bodies_of(found.batches)
        bodies = {hash_ for each in found.all for hash_ in each.bodies} | inline
        definitions = {h: d for each in found.all for h, d in each.definitions.items()}
        positions = [position for batch in found.batches for position in batch.positions()]
        whole = not any(gaps(found.batches, found.position, found.chain.base))
        dropped = await delete_unreadable_rows(
            store, self._run, positions, bodies, definitions, whole=whole
        )
        if dropped:
            self._tell(f"removed what was changed, moved or plain: {dropped:,} rows")


def _check_read(found: _Found, run: RunId, differs: int) -> None:
    """Rows that a history seems not to have may be what could not be read of it: they stay."""
    for problem in found.problems:
        raise StoreIncomplete(
            f"the history of the run {run!r} cannot be read whole, so whether its rows from "
            f"position {differs} on are of another one is not known: {problem}",
            remedy="Nothing was changed. Once the history can be read, do it again: the keys that "
            "it is encrypted with, or the payload folder, are missing here.",
        )


def _lives(each: Crossing) -> str:
    if isinstance(each, TakenIn):
        said = f"at position {each.position} it took in {each.of!r}, whose journal says so, too: "
        return said + "the creatures of that run live here"
    parts = ", ".join(map(repr, each.parts)) if isinstance(each, Parted) else ""
    return f"at position {each.position} creatures left it for {parts}, and live there"


def _settled(run: RunId, why: str) -> RemoteAgentConflict:
    return RemoteAgentConflict(
        f"the rows of the run {run!r} are not replaced: {why}. By another history they would live "
        "twice, or nowhere",
        remedy="Nothing was changed. End what the reset began (`temporal workflow terminate "
        f"--workflow-id {run}`): what is stored counts, and `crewlog resume {run}` goes on from "
        "it, or says which run does.",
    )


def _without(found: _Found, position: int, heard: Heard) -> _Found:
    """What the run has recorded up to a position; the rest is not its."""
    beyond = after(found.batches, position)
    left = LeftOut(
        first=beyond[0],
        last=beyond[-1],
        execution=found.last.id,
        why=f"it was ended from outside, and {heard.why}",
    )
    ids = [each.id for each in found.chain.executions]
    return replace(
        found,
        batches=until(found.batches, position),
        position=position,
        tail="stored",
        left=(*found.left, left),
        ends={id_: min(found.ends.get(id_, position), position) for id_ in ids},
        unread=(*found.unread, heard.why) if heard.word == "unread" else found.unread,
    )


def _is_signed(found: _Found) -> bool:
    """Whether a definition that the run had asks for signed commands."""
    named = {entry.get("definition") for batch in found.batches for entry in batch.entries}
    named |= {each.carried.definition for each in found.all if each.carried is not None}
    plans = (plan for each in found.all for plan in each.plans if plan.definition in named)
    return any(plan.policy is not None and plan.policy.signed for plan in plans)


def _unanswered(chain: Chain) -> _Calls:
    """The activities that had no outcome when the histories were read."""
    return frozenset((each.id, call) for each in chain.executions for call in each.unanswered)


def heads_after(
    run: RunId, batches: Iterable[Batch], carried: CrewState | None
) -> dict[LogName, ContentHash] | None:
    """The logs' heads after joined batches; none where entries that may have moved them are gone.

    Args:
        run: The run.
        batches: The journal.
        carried: The state that the newest execution began with; none for the first execution.
    """
    at = carried.position if carried else 0
    heads = {log: head.head for log, head in carried.messages.items()} if carried else {}
    for batch in batches:
        if last(batch) <= at:
            continue
        placed = list(zip(batch.positions(), batch.entries, strict=True))
        if preceding_position(batch.entries[0], batch.first) > at:
            return None
        left = [(position, entry) for position, entry in placed if position > at]
        rest = Batch(first=left[0][0], heads=heads, entries=tuple(entry for _, entry in left))
        heads = heads_after_batch(run, heads, rest)
        at = last(batch)
    return heads


def _claims(run: RunId, found: _Found) -> Iterator[tuple[str, str]]:
    """The claims of calls that must not be repeated, as keys and owners.

    Whether a call that has not answered had begun is in no history. A claim that is too many asks
    people a question; one that is missing lets a tool do twice what it must do once. So every such
    call is claimed: for the try that answered, or else for the first one. It has not where what
    leads to it was never stored.
    """
    plans = [plan for each in found.all for plan in each.plans]
    for execution in found.chain.executions:
        told = execution.extracted
        for activity, call in told.calls.items():
            if not found.counts(execution.id, call.batch.last):
                continue
            rules = [plan.tools[call.tool] for plan in plans if call.tool in plan.tools]
            if any(rule.repeat == "never" for rule in rules):
                attempt = told.attempts.get(activity, 1)
                yield start_record_key(run, call), attempt_owner(execution.id, activity, attempt)


def _came_home(run: RunId, batches: Iterable[Batch]) -> Iterator[tuple[ClaimOwner, ClaimedAgent]]:
    """The claims of creatures that came home, by what the journal says."""
    for batch in batches:
        for position, entry in batch_entries(batch):
            for left in entry.claimed.values() if isinstance(entry, RunReopened) else ():
                yield ClaimOwner(run, position - 1), left


def _bodies_of(batches: Iterable[Batch]) -> tuple[set[ContentHash], set[ContentHash]]:
    """The bodies that entries name, and those that they carry themselves."""
    named: set[ContentHash] = set()
    inline: set[ContentHash] = set()
    for batch in batches:
        for _, entry in batch_entries(batch):
            if isinstance(entry, OutputSet) and entry.body is not None:
                named.add(entry.body)
            if isinstance(entry, PromptReceived):
                named.add(entry.prompt)
                inline.add(entry.prompt)
            if isinstance(entry, MessageQueued):
                named.add(entry.ref.body)
                inline |= {entry.ref.body} if entry.ref.inline is not None else set()
            if entry.message is not None:
                named.add(entry.message.body)
                if entry.message.inline is not None:
                    inline.add(entry.message.body)
    return named, inline


async def _lacking(store: Store, hashes: list[ContentHash]) -> list[ContentHash]:
    """Those of `hashes` that the store has no body for."""
    if not hashes:
        return []
    try:
        await store.get_bodies(hashes)
    except StoreIncomplete:
        if len(hashes) == 1:
            return hashes
        half = len(hashes) // 2
        return [*await _lacking(store, hashes[:half]), *await _lacking(store, hashes[half:])]
    return []


def _older(executions: Iterable[Extracted]) -> set[ContentHash]:
    """The definitions of steps that executions began with, and whose nodes are gone."""
    states = [each.carried for each in executions if each.carried is not None]
    entries = (
        entry for state in states for entry in (state.frontier | state.detached_steps).values()
    )
    return {entry.definition for entry in entries if entry.definition}


async def _has_definition(store: Store, hash_: ContentHash) -> bool:
    try:
        await store.get_definition(hash_)
    except StoreIncomplete:
        return False
    return True


def _parts(bodies: Mapping[ContentHash, Json], size: int) -> Iterator[dict[ContentHash, Json]]:
    items = list(bodies.items())
    for start in range(0, len(items), size):
        yield dict(items[start : start + size])

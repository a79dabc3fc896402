"""The histories of a run: every execution of its chain that the server still has.

The chain is walked back from the newest execution, each of which says which one it continues. So an
execution that a reset took the place of is not in it, nor is an earlier run of the same id. Where
one execution is gone, the one before it still says that it was continued by that one, and the walk
goes on there. Where two in a row are gone, nothing says what comes before: that is left out and
named.

Whoever reaches the server can have a workflow of their own continue under a run's id. So the chain
is that of the newest execution that is the run's, as far as the server says and the store knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistoryEventFilterType
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError

from crewlog import wire
from crewlog.client.extract import (
    START,
    Ends,
    Extracted,
    Picked,
    Place,
    Told,
    ends_of,
    extract,
    pick,
)
from crewlog.client.gateway import CALL_LIMIT, Gateway
from crewlog.client.outcomes import completed, unanswered, uncertain
from crewlog.errors import NotPermitted, RunNotFound
from crewlog.ids import RunId
from crewlog.model import Json
from crewlog.temporal_service.errors import is_execution_not_found

Tell = Callable[[str], None]
"""Told how far it is."""

_PAGE = 1000
_AT_ONCE = 16
"""Payloads that are fetched at a time."""


@dataclass(frozen=True)
class Execution:
    """One execution, read."""

    id: str
    """Temporal's run id of it."""
    ends: Ends
    extracted: Extracted
    unanswered: frozenset[str]
    """The ids of its activities that had no outcome in it yet."""
    began: float = 0.0
    """When it was started, in seconds since the epoch."""
    uncertain: Mapping[str, int] = field(default_factory=dict[str, int])
    """The ids of its activities that may have begun and have no result, and when they ended."""


@dataclass
class Chain:
    """The executions of a run."""

    executions: list[Execution] = field(default_factory=list[Execution])
    """Oldest first."""
    absent: list[str] = field(default_factory=list[str])
    """Executions that the chain names and the server does not have."""
    apart: list[str] = field(default_factory=list[str])
    """Executions of the same workflow id that are not in the chain, as far as is known."""

    passed: bool = False
    """Whether newer executions of the workflow id are none of the run's."""

    @property
    def line(self) -> list[Execution]:
        """The newest execution, and those that it goes on from as the server says it.

        What a run that was taken up again goes on from is not: its own history says that.
        """
        starts = [n for n, each in enumerate(self.executions) if not each.ends.before]
        return self.executions[starts[-1] if starts else 0 :]

    def belongs(self, known: Collection[str]) -> bool:
        """Whether this is the run's, and nobody else's who has its id.

        Args:
            known: The executions that the store knows to be the run's; none where it knows nothing.
        """
        line = self.line
        if any(_kind(each) != _kind(line[-1]) for each in line):
            return False
        if line[-1].ends.workflow != wire.WORKFLOW_TYPE:
            return False
        return not known or any(
            not {each.id, each.ends.before, *each.ends.others}.isdisjoint(known) for each in line
        )

    @property
    def base(self) -> int:
        """The position after which what the executions tell begins.

        It is 0 but for a fork, and for a run that was taken up again and whose earlier executions
        are gone.
        """
        oldest = self.executions[0]
        began = oldest.extracted.carried
        return began.position if began is not None and not oldest.ends.before else 0


class Histories:
    """Reads the histories of one run."""

    def __init__(self, gateway: Gateway, run: RunId, tell: Tell) -> None:
        self._gateway = gateway
        self._run = run
        self._tell = tell

    async def read(self, known: Collection[str] = ()) -> Chain:
        """The whole chain, as it is now.

        Args:
            known: The executions that are known to be the run's; where there are any, the chain has
                one of them, and what is newer and has none is passed over.

        Raises:
            RunNotFound: the server does not know the run, or it is no crew's.
            NotPermitted: none of the executions that the server has is known to be the run's.
            TemporalUnavailable: the server is away.
        """
        description = await self._gateway.describe(self._run)
        newest = description.run_id or ""
        chain = await self._chain(newest)
        if chain is None:
            raise await self._gateway.not_found(self._run)
        if chain.belongs(known):
            return chain
        passed = [newest]
        for id_ in await self._older(newest):
            older = await self._chain(id_)
            if older is not None and older.belongs(known):
                read = {each.id for each in older.executions}
                older.apart = [each for each in sorted({*older.apart, *passed}) if each not in read]
                older.passed = True
                return older
            passed.append(id_)
        if description.workflow_type != wire.WORKFLOW_TYPE:
            raise RunNotFound(
                f"{self._run!r} is a workflow of the type {description.workflow_type!r}, not a "
                "crew's run",
                place=self._gateway.address,
            )
        raise NotPermitted(
            f"no execution that the server has under {self._run!r} is known to be the run's: what "
            "has its id was neither started as it nor continued by it",
            remedy="Nothing was changed. `crewlog show` has the run as the store knows it.",
        )

    async def _chain(self, id_: str) -> Chain | None:
        """The chain that an execution is of; none where the server does not have it."""
        newest = await self._execution(id_, 1)
        if newest is None:
            return None
        chain = Chain([newest])
        while (after := chain.executions[-1].ends.after) and (
            found := await self._execution(after, len(chain.executions) + 1)
        ):
            chain.executions.append(found)  # it continued as new meanwhile
        await self._walk_back(chain)
        return chain

    async def _older(self, newest: str) -> list[str]:
        """The workflow id's other executions that are a crew's, the newest first."""
        kind, name = wire.WORKFLOW_TYPE, _quoted(self._run)
        try:
            found = [
                (listed.start_time, listed.run_id)
                async for listed in self._gateway.temporal.list_workflows(
                    f"WorkflowId = '{name}' AND WorkflowType = '{kind}'",
                    rpc_timeout=timedelta(seconds=CALL_LIMIT),
                )
                if listed.run_id != newest
            ]
        except RPCError as error:
            raise await self._gateway.failed(error, self._run) from error
        return [id_ for _, id_ in sorted(found, reverse=True)]

    async def _walk_back(self, chain: Chain) -> None:
        others: dict[str, str] | None = None
        while before := await self._before(chain.executions[0]):
            count = len(chain.executions) + 1
            found = await self._execution(before, count)
            if found is None:
                chain.absent.insert(0, before)
                others = await self._others(chain) if others is None else others
                bridge = next((id_ for id_, after in others.items() if after == before), None)
                found = await self._execution(bridge, count) if bridge else None
            if found is None:
                break
            chain.executions.insert(0, found)
        read = {execution.id for execution in chain.executions}
        chain.apart = [id_ for id_ in others or () if id_ not in read]

    async def _before(self, oldest: Execution) -> str:
        """The execution before another one; empty where that is the run's first."""
        if oldest.ends.before or not oldest.extracted.reopened:
            return oldest.ends.before
        # A run that was taken up again has no execution that it continues: it is the one that was
        # started last before it.
        name, found, began = _quoted(self._run), "", 0.0
        try:
            async for listed in self._gateway.temporal.list_workflows(
                f"WorkflowId = '{name}'", rpc_timeout=timedelta(seconds=CALL_LIMIT)
            ):
                at = listed.start_time.timestamp()
                if began < at < oldest.began and listed.run_id != oldest.id:
                    found, began = listed.run_id, at
        except RPCError as error:
            if not is_execution_not_found(error):
                raise await self._gateway.failed(error, self._run) from error
        return found

    async def ended_apart(self, chain: Chain) -> list[str]:
        """Executions of the workflow id that have ended and are not in a chain."""
        read = {execution.id for execution in chain.executions}
        name = _quoted(self._run)
        try:
            return [
                listed.run_id
                async for listed in self._gateway.temporal.list_workflows(
                    f"WorkflowId = '{name}' AND ExecutionStatus != 'Running'",
                    rpc_timeout=timedelta(seconds=CALL_LIMIT),
                )
                if listed.run_id not in read
            ]
        except RPCError as error:
            raise await self._gateway.failed(error, self._run) from error

    async def _others(self, chain: Chain) -> dict[str, str]:
        """The workflow id's other executions, and by which each was continued."""
        read = {execution.id for execution in chain.executions}
        name = _quoted(self._run)
        found: dict[str, str] = {}
        try:
            async for listed in self._gateway.temporal.list_workflows(
                f"WorkflowId = '{name}'", rpc_timeout=timedelta(seconds=CALL_LIMIT)
            ):
                if listed.run_id in read:
                    continue
                events = await self._events(
                    listed.run_id, WorkflowHistoryEventFilterType.CLOSE_EVENT
                )
                if events:
                    found[listed.run_id] = ends_of(events[0], events[-1]).after
        except RPCError as error:
            if not is_execution_not_found(error):
                raise await self._gateway.failed(error, self._run) from error
        return found

    async def _execution(self, id_: str, number: int) -> Execution | None:
        events = await self._events(id_, WorkflowHistoryEventFilterType.ALL_EVENT, number)
        if not events:
            return None
        told, problems = await self._decoded(id_, list(pick(events)))
        extracted = extract(told)
        extracted.problems = [*problems, *(f"{id_}: {text}" for text in extracted.problems)]
        done = [extracted.flushes.get(activity, 0) for activity in completed(events)]
        extracted.stored = max([extracted.stored, *done])
        ends = ends_of(events[0], events[-1])
        if not (ends.before or extracted.batches or extracted.carried):
            extracted.reopened = await self._takes_up(id_, events[0])
        return Execution(
            id_,
            ends,
            extracted,
            frozenset(unanswered(events)),
            events[0].event_time.ToNanoseconds() / 1e9,
            uncertain(events),
        )

    async def _takes_up(self, id_: str, first: HistoryEvent) -> bool:
        """Whether an execution that has not begun to work was started to take the run up again."""
        payloads = first.workflow_execution_started_event_attributes.input.payloads
        place = Place(START, "input", first.event_id)
        told, _ = await self._decoded(id_, [Picked(place, each) for each in payloads[:1]])
        return any(_reopens(each.value) for each in told)

    async def _events(
        self, id_: str, which: WorkflowHistoryEventFilterType, number: int = 0
    ) -> list[HistoryEvent]:
        """The events of an execution; none where the server does not have it."""
        handle = self._gateway.temporal.get_workflow_handle(self._run, run_id=id_)
        events: list[HistoryEvent] = []
        try:
            async for event in handle.fetch_history_events(
                page_size=_PAGE,
                event_filter_type=which,
                rpc_timeout=timedelta(seconds=CALL_LIMIT),
            ):
                events.append(event)
                if number and len(events) % _PAGE == 0:
                    self._tell(f"reading execution {number}: {len(events):,} events")
        except RPCError as error:
            if is_execution_not_found(error):
                return []
            raise await self._gateway.failed(error, self._run) from error
        if number:
            self._tell(f"reading execution {number}: {len(events):,} events")
        return events

    async def _decoded(self, id_: str, picked: list[Picked]) -> tuple[list[Told], list[str]]:
        """The values of payloads, and what is wrong with those that cannot be had."""
        converter = self._gateway.temporal.data_converter.with_context(
            WorkflowSerializationContext(self._gateway.temporal.namespace, self._run)
        )
        room = asyncio.Semaphore(_AT_ONCE)

        async def decode(item: Picked) -> Told | str:
            try:
                async with room:
                    [value] = await converter.decode([item.payload])
            except Exception as error:  # noqa: BLE001 - drivers and codecs are anybody's code
                text = str(error).splitlines()[0] if str(error) else type(error).__name__
                return f"{id_}: {item.place}: {text}"
            return Told(item.place, value)

        found = await asyncio.gather(*(decode(item) for item in picked))
        told = [item for item in found if isinstance(item, Told)]
        return told, [item for item in found if isinstance(item, str)]


def _reopens(start: Json) -> bool:
    """Whether what a run was started with takes up one that had ended."""
    match start:
        case {"reopen": str(how)}:
            return bool(how)
        case _:
            return False


def _kind(execution: Execution) -> tuple[str, str]:
    """What all executions of one run have in common: the workflow's type and the task queue."""
    return execution.ends.workflow, execution.ends.queue


def _quoted(run: RunId) -> str:
    """A run's id as a list filter quotes it."""
    return run.replace("\\", "\\\\").replace("'", "\\'")

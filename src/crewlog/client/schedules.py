"""Schedules: runs that the server starts by itself, every so often or by the calendar.

Thin over Temporal's own schedules, which go on while nobody of ours is there. A run's id is its
schedule's with the time that it was due: `nightly-2026-12-01T02:00:00Z`; so no two have the same.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, TypeVar

from temporalio.client import (
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleListActionStartWorkflow,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
)
from temporalio.service import RPCError, RPCStatusCode

from crewlog import wire
from crewlog.client.catalog import Crew
from crewlog.client.clock_changes import ClockChange, clock_changes
from crewlog.client.gateway import CALL_LIMIT
from crewlog.client.session import Session
from crewlog.client.starting import checked
from crewlog.definition.findings import did_you_mean
from crewlog.definition.times import duration_words
from crewlog.encryption import purposes
from crewlog.encryption.codec import EncryptionCodec, encrypt_for
from crewlog.encryption.rows import PREFIX, RowCipher
from crewlog.errors import CrewlogError, DecryptionFailed, EncryptionKeyMissing, UsageError
from crewlog.ids import RunId
from crewlog.model import Json
from crewlog.temporal_service.errors import is_not_found
from crewlog.wire import StartRun

T = TypeVar("T")

Overlap = Literal["skip", "buffer", "allow"]
_OVERLAPS: dict[Overlap, ScheduleOverlapPolicy] = {
    "skip": ScheduleOverlapPolicy.SKIP,
    "buffer": ScheduleOverlapPolicy.BUFFER_ONE,
    "allow": ScheduleOverlapPolicy.ALLOW_ALL,
}
_OVERLAP_NAMES: dict[ScheduleOverlapPolicy, Overlap] = {
    policy: name for name, policy in _OVERLAPS.items()
}
_LIMIT = timedelta(seconds=CALL_LIMIT)
_LONGEST_NAME = 150
"""Characters: the ids of the runs have a time behind it."""
_AT_ONCE = 16
"""Schedules that are asked for at a time."""
_PAUSES = (0.0, 0.1, 1.0, 1.0)
"""Seconds before each try to change a schedule."""
_SECOND = timedelta(seconds=1)
"""What ids of runs are told apart by: of two triggers within one, the server starts the second not
at all, or under the id of the first where that has ended."""
_LONG_AGO = datetime.fromtimestamp(0, UTC)
_SDK_NOTE = re.compile(r"(?:Paused|Unpaused) via \w+ SDK")
_NOTE = "schedule_note"
"""What notes are encrypted as."""
_WHEN, _CREW, _BY = "when", "crew", "by"
"""What the memo of a schedule says: the server tells a cron line only as a calendar."""


@dataclass(frozen=True)
class ScheduleView:
    """A schedule."""

    name: str
    crew: str
    when: str
    """`every 1h`, or the cron line with its time zone."""
    paused: bool
    note: str
    """Why it is paused, or what was said at last."""
    next: tuple[int, ...]
    """When it will start runs, in milliseconds since the epoch; some of them."""
    recent: tuple[RunId, ...]
    """Runs that it started, the newest last; some of them."""
    overlap: Overlap | None = None
    """What happens where a run is due and the last one goes on; none where another client made the
    schedule with an overlap that has no name here."""
    running: tuple[RunId, ...] = ()
    """Runs of it that go on."""
    started: int = 0
    """How many runs it has started."""
    skipped: int = 0
    """How many it skipped because the last one went on."""
    by: str = ""
    """Who made it."""
    timezone: str = "UTC"
    """The zone of its cron line; UTC where it has none."""
    clock_changes: tuple[ClockChange, ...] = ()
    """The next days on which a time of it does not exist, or exists twice, as clocks change."""


class Scheduled(Protocol):
    """Makes the action of a schedule: `Client.scheduled`."""

    async def __call__(
        self, id: RunId, crew: Crew, input: Json, *, by: str | None, **options: Any
    ) -> tuple[str, StartRun, ScheduleActionStartWorkflow]:
        """The crew's name, the start of its runs, and the action."""
        ...


class Schedules:
    """The schedules of a namespace that start crews; `Client.schedules`."""

    def __init__(self, session: Session, scheduled: Scheduled) -> None:
        self._session = session
        self._scheduled = scheduled

    async def create(
        self,
        name: str,
        crew: Crew,
        *,
        every: timedelta | None = None,
        cron: str = "",
        timezone: str = "",
        input: Json = "",
        overlap: Overlap = "skip",
        by: str | None = None,
        paused: bool = False,
        registry: str = "",
        reader: Literal["auto", "forms", "model"] = "auto",
        model: str = "",
    ) -> None:
        """Makes a schedule.

        Args:
            name: What it is called, and how the ids of its runs begin.
            crew: As for `Client.start`. A registered name means its newest version at each time.
            every: How often; or
            cron: When, as a cron line (`0 9 * * MON-FRI`), with its
            timezone: `Europe/Berlin`; by default UTC.
            input: What each run is asked to do.
            overlap: Where a run is due while the last one goes on: `skip` it, `buffer` one until
                that has ended, or `allow` both.
            by: Who makes it; by default the system's user.
            paused: Whether it starts nothing until it is resumed or triggered.
            registry: As for `Client.start`.
            reader: Likewise.
            model: Likewise.

        Raises:
            UsageError: there is one of that name, or what is said makes no schedule.
            InvalidDefinition: the crew has faults.
            TemporalUnavailable: the server is away.
        """
        crew_name, start, action = await self._scheduled(
            _checked(name), crew, input, by=by, registry=registry, reader=reader, model=model
        )
        spec, when = _spec(every, cron, timezone)
        schedule = Schedule(
            action=action, spec=spec, policy=SchedulePolicy(overlap=_OVERLAPS[overlap])
        )
        schedule.state.paused = paused
        memo = {_CREW: crew_name, _WHEN: when, _BY: start.by}
        try:
            with encrypt_for(purposes.SCHEDULE):
                await self._session.temporal.create_schedule(
                    name, schedule, memo=memo, rpc_timeout=_LIMIT
                )
        except ScheduleAlreadyRunningError as error:
            raise UsageError(
                f"there is a schedule {name!r} already",
                remedy=f"Choose another name, or `crewlog schedule delete {name}` first.",
            ) from error
        except RPCError as error:
            raise await self._failed(error, name, when) from error

    async def list(self, limit: int = 200) -> list[ScheduleView]:
        """The schedules, by name, each as `show` tells it.

        Raises:
            TemporalUnavailable: the server is away.
        """
        room = asyncio.Semaphore(_AT_ONCE)

        async def view(name: str) -> ScheduleView | None:
            async with room:
                return await self._found(name)

        views = await asyncio.gather(*map(view, await self._names(limit)))
        return [each for each in views if each is not None]

    async def show(self, name: str) -> ScheduleView:
        """A schedule with what it did and will do.

        Raises:
            UsageError: there is none of that name.
            TemporalUnavailable: the server is away.
        """
        found = await self._on(name, lambda s: s.describe(rpc_timeout=_LIMIT))
        return await _described(found, self._cipher)

    async def pause(self, name: str, note: str = "") -> None:
        """Lets it start nothing; runs that go on are not touched. Raises as `trigger`."""
        said = self._noted(name, note)
        await self._change(
            name,
            lambda s, _: s.pause(note=said, rpc_timeout=_LIMIT),
            lambda _, after: after.schedule.state.paused,
        )

    async def resume(self, name: str, note: str = "") -> None:
        """Lets it start runs again. Raises as `trigger`."""
        said = self._noted(name, note)
        await self._change(
            name,
            lambda s, _: s.unpause(note=said, rpc_timeout=_LIMIT),
            lambda _, after: not after.schedule.state.paused,
        )

    async def trigger(self, name: str) -> None:
        """Starts a run of it now, as its overlap allows.

        Raises:
            UsageError: there is none of that name, or the server did not do it: others change the
                schedule at the same time, or it cannot start the run.
            TemporalUnavailable: the server is away.
        """

        async def in_a_second_of_its_own(
            handle: ScheduleHandle, before: ScheduleDescription
        ) -> None:
            runs = before.info.recent_actions
            last = max((done.scheduled_at for done in runs), default=_LONG_AGO)
            since = datetime.now(UTC) - last.replace(microsecond=0)
            if timedelta(0) <= since < _SECOND:
                await asyncio.sleep((_SECOND - since).total_seconds())
            await handle.trigger(rpc_timeout=_LIMIT)

        await self._change(
            name,
            in_a_second_of_its_own,
            lambda before, after: _done_so_far(before) != _done_so_far(after),
        )

    async def delete(self, name: str) -> None:
        """Removes it; its runs stay as they are. Raises as `show`."""
        await self._on(name, lambda s: s.delete(rpc_timeout=_LIMIT))

    @property
    def _cipher(self) -> RowCipher:
        """What encrypts notes: to Temporal they are no payloads."""
        temporal = self._session.temporal
        codec = temporal.data_converter.payload_codec
        keys = codec.keys if isinstance(codec, EncryptionCodec) else None
        return RowCipher(keys, temporal.namespace)

    def _noted(self, name: str, note: str) -> str | None:
        return self._cipher.encrypt(note, _NOTE, name) if note else None

    async def _change(
        self,
        name: str,
        change: Callable[[ScheduleHandle, ScheduleDescription], Awaitable[None]],
        is_done: Callable[[ScheduleDescription, ScheduleDescription], bool],
    ) -> None:
        """Changes a schedule and sees that it is changed.

        The server's scheduler keeps a single change that it has not come to: the next one takes
        its place, and who sent the first is told nothing. A description is a query, which is
        answered behind all that was sent before it.
        """

        async def seen(handle: ScheduleHandle) -> bool:
            before = now = await handle.describe(rpc_timeout=_LIMIT)
            for pause in _PAUSES:
                await asyncio.sleep(pause)
                await change(handle, now)
                now = await handle.describe(rpc_timeout=_LIMIT)
                if is_done(before, now):
                    return True
            return False

        if not await self._on(name, seen):
            raise UsageError(
                f"the server did not do it, in {len(_PAUSES)} tries",
                remedy="Others change it at the same time, or it cannot start runs: see "
                "`crewlog schedule list`, and say it again.",
                place=f"the schedule {name!r}",
            )

    async def _on(self, name: str, call: Callable[[ScheduleHandle], Awaitable[T]]) -> T:
        try:
            return await call(self._session.temporal.get_schedule_handle(name))
        except RPCError as error:
            raise await self._failed(error, name) from error

    async def _found(self, name: str) -> ScheduleView | None:
        """A schedule, or none where it went after it was listed."""
        handle = self._session.temporal.get_schedule_handle(name)
        try:
            return await _described(await handle.describe(rpc_timeout=_LIMIT), self._cipher)
        except RPCError as error:
            if is_not_found(error):
                return None
            raise await self._session.gateway.failed(error, RunId(name)) from error

    async def _names(self, limit: int = 200) -> tuple[str, ...]:
        """What the schedules that start crews are called, sorted.

        The server's list of schedules does not have what they did: `show` has.
        """
        found: list[str] = []
        try:
            async for each in await self._session.temporal.list_schedules(rpc_timeout=_LIMIT):
                action = each.schedule.action if each.schedule else None
                if (
                    isinstance(action, ScheduleListActionStartWorkflow)
                    and action.workflow == wire.WORKFLOW_TYPE
                ):
                    found.append(each.id)
                if len(found) >= limit:
                    break
        except RPCError as error:
            raise await self._session.gateway.failed(error, RunId("")) from error
        return tuple(sorted(found))

    async def _failed(self, error: RPCError, name: str, when: str = "") -> CrewlogError:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            if not when:
                return UsageError(error.message, place=f"the schedule {name!r}")
            return UsageError(
                f"{when!r} is no time: {error.message}",
                remedy="A cron line is a minute, hour, day of the month, month and day of the "
                "week, such as '0 9 * * MON-FRI'; a time zone has a name such as Europe/Berlin.",
                place=f"the schedule {name!r}",
            )
        if not is_not_found(error):
            return await self._session.gateway.failed(error, RunId(name))
        return UsageError(
            f"there is no schedule {name!r}",
            remedy=did_you_mean(name, await self._names(), "`crewlog schedule list` lists them."),
        )


def _checked(name: str) -> RunId:
    if len(name) > _LONGEST_NAME:
        raise UsageError(
            f"a schedule's name has at most {_LONGEST_NAME} characters",
            remedy=f"Shorten it: this one has {len(name)}.",
        )
    return checked(name)


def _spec(every: timedelta | None, cron: str, timezone: str) -> tuple[ScheduleSpec, str]:
    if (every is None) == (not cron):
        raise UsageError(
            "a schedule is either 'every' so often or by a 'cron' line",
            remedy="For example: --every 1h, or --cron '0 9 * * MON-FRI'.",
        )
    if every is not None:
        if every < timedelta(seconds=1):
            raise UsageError(
                "a schedule starts a run at most once a second",
                remedy="Say a second or more, such as --every 10m.",
            )
        if timezone:
            raise UsageError(
                "a time zone is for a cron line: 'every' counts from the epoch",
                remedy="Leave --timezone out, or say the time as --cron.",
            )
        when = f"every {duration_words(every.total_seconds())}"
        return ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)]), when
    spec = ScheduleSpec(cron_expressions=[cron], time_zone_name=timezone or None)
    return spec, f"{cron} {timezone or 'UTC'}"


async def _memo(of: ScheduleDescription) -> dict[str, str]:
    return {key: str(value) for key, value in (await of.memo()).items()}


async def _described(found: ScheduleDescription, cipher: RowCipher) -> ScheduleView:
    memo, info, schedule = await _memo(found), found.info, found.schedule
    return ScheduleView(
        name=found.id,
        crew=memo.get(_CREW, ""),
        when=memo.get(_WHEN, ""),
        paused=schedule.state.paused,
        note=_note(schedule.state.note or "", found.id, cipher),
        next=tuple(map(_ms, info.next_action_times)),
        recent=_runs([done.action for done in info.recent_actions]),
        overlap=_OVERLAP_NAMES.get(schedule.policy.overlap),
        running=_runs(info.running_actions),
        started=info.num_actions,
        skipped=info.num_actions_skipped_overlap,
        by=memo.get(_BY, ""),
        timezone=schedule.spec.time_zone_name or "UTC",
        clock_changes=clock_changes(
            schedule.spec.calendars, schedule.spec.time_zone_name or "", datetime.now(UTC)
        ),
    )


def _done_so_far(by: ScheduleDescription) -> tuple[int, ...]:
    """What is counted of a schedule's starts, however its overlap takes them."""
    info = by.raw_description.info
    skipped, dropped = info.overlap_skipped, info.buffer_dropped
    return (info.action_count, skipped, dropped, info.missed_catchup_window, info.buffer_size)


def _note(said: str, name: str, cipher: RowCipher) -> str:
    """What people said; an SDK notes something itself where nobody does."""
    if not said.startswith(PREFIX):  # the web UI's are plain, too: nothing hangs on a note
        return "" if _SDK_NOTE.fullmatch(said) else said
    try:
        return cipher.decrypt(said, _NOTE, name)
    except EncryptionKeyMissing:
        return "(encrypted with a key that is not here)"
    except DecryptionFailed:
        return "(changed since it was encrypted)"


def _runs(actions: Any) -> tuple[RunId, ...]:
    return tuple(
        RunId(action.workflow_id)
        for action in actions
        if isinstance(action, ScheduleActionExecutionStartWorkflow)
    )


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def scheduled_start(options: dict[str, Any], start: dict[str, Json]) -> ScheduleActionStartWorkflow:
    """What a schedule does: start a run with these options."""
    # The server itself refuses an id that is taken; it takes no policy of ours.
    kept = {key: value for key, value in options.items() if key != "id_reuse_policy"}
    return ScheduleActionStartWorkflow(wire.WORKFLOW_TYPE, start, **kept)

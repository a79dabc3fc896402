"""Places in runs as people write them: `notes`, `notes@12`, `notes@draft`, `notes@exchange:3`.

A position has a number; and one that people look for has a name: a tag, a turn of a conversation, a
step (`notes@writer#2`), each where it ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from crewlog.client.gateway import Gateway
from crewlog.definition.findings import did_you_mean
from crewlog.errors import (
    CrewlogError,
    RunNotFound,
    ServiceError,
    StoreIncomplete,
    UsageError,
    WorkerMissing,
)
from crewlog.ids import RunId, is_step_id
from crewlog.state.checkpoints import exchange_name, exchange_number, nearest, no_checkpoint_message
from crewlog.state.journal import RunForked, entry_from_json
from crewlog.state.model import CrewState
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Store
from crewlog.wire import LARGEST_POSITION, CheckpointPage, CheckpointView, JournalPage

_PAGE = 1000


class Addressed(Protocol):
    """A run whose positions have names: `Run`, as far as this module reads it."""

    id: RunId

    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage:
        """A part of the journal."""
        ...

    async def checkpoints(self, after: int = 0, limit: int = 200) -> CheckpointPage:
        """A part of the checkpoints."""
        ...

    async def state(self) -> CrewState:
        """The state."""
        ...

    async def polled(self) -> bool:
        """Whether a worker polls for the run."""
        ...

    async def open_store(self) -> Store:
        """The store."""
        ...

    def sibling(self, run: RunId) -> Addressed:
        """Another run of the same client."""
        ...


class Runs(Protocol):
    """A client, as far as this module needs one."""

    gateway: Gateway

    async def store(self) -> Store:
        """The store."""
        ...

    def run(self, id: str) -> Addressed:
        """The run of an id."""
        ...


class Place(NamedTuple):
    """A run, and where in it."""

    run: RunId
    position: int | None
    """The journal position; none: the run as it is."""


def split(target: str) -> tuple[str, str]:
    """A run's id, and the position or tag after its last `@`; empty where there is none."""
    run, at, place = target.rpartition("@")
    return (run, place) if at and run else (target, "")


def named(target: str) -> tuple[str, str]:
    """A run, and the position or tag of it that must be named.

    Raises:
        UsageError: none is named.
    """
    run, at = split(target)
    if not at:
        name = target.rstrip("@") or "RUN"
        raise UsageError(
            f"{target!r} names no checkpoint",
            remedy="Say RUN@POSITION, RUN@TAG or RUN@exchange:N: "
            f"`crewlog checkpoints {name}` lists them.",
        )
    return run, at


async def place_of(client: Runs, target: str) -> Place:
    """The place that `RUN`, `RUN@POSITION`, `RUN@TAG`, `RUN@exchange:N` or `RUN@STEP` names.

    A run's id may have an `@` itself: one that there is comes first.

    Raises:
        UsageError: the run has no such position or tag.
    """
    run, at = split(target)
    if not at or await _exists(client, target):
        return Place(RunId(target), None)
    return Place(RunId(run), await position_of(client.run(run), at))


async def checkpoint_of(client: Runs, target: str) -> tuple[RunId, int]:
    """The same, where a position or a tag must be named: what comes after the last `@`.

    Raises:
        UsageError: none is named, or the run does not have it.
    """
    run, at = named(target)
    return RunId(run), await position_of(client.run(run), at)


async def position_of(run: Addressed, at: int | str) -> int:
    """The journal position that is meant by a number, a tag, a turn or a step.

    Raises:
        UsageError: it is too large a number or too small, or no tag, turn or step of the run.
        RunNotFound: a name in a run that there is not.
    """
    text = str(at)
    if _is_number(text):
        if len(text) <= len(str(LARGEST_POSITION)) and 1 <= int(text) <= LARGEST_POSITION:
            return int(text)
        raise UsageError(
            f"the run {run.id!r} has no position {_brief(text)}",
            remedy=f"`crewlog checkpoints {run.id}` lists the positions.",
            place=f"run {run.id!r}",
        )
    if is_step_id(text) or exchange_number(text) is not None:
        return await _ended(run, text)
    tags = await tags_of(run)
    if text not in tags:
        known = f"Tags: {', '.join(tags)}." if tags else "It has no tags: give a position."
        raise UsageError(
            f"the run {run.id!r} has no checkpoint that is called {_brief(text)!r}",
            remedy=f"{did_you_mean(text, tags, known)} `crewlog checkpoints {run.id}` lists them.",
            place=f"run {run.id!r}",
        )
    return tags[text]


async def _ended(run: Addressed, name: str) -> int:
    """Where a step or an exchange ended; the last time, where a run went back and did it again.

    Raises:
        UsageError: the run has none of that name that has ended.
    """
    found = await _ends_of(run)
    if name in found:
        return found[name]
    if (there := await _inherited(run, name)) is not None:
        if there.run == run.id:
            return there.position
        raise UsageError(
            f"{_brief(name)!r} ended in the run {there.run!r}, before the run {run.id!r} was "
            "forked from there: it goes back as far as it was forked, and no further",
            remedy=f"`crewlog fork {there.run}@{there.position}` begins a run there.",
            place=f"run {run.id!r}",
        )
    alike = [
        each for each in found if (exchange_number(each) is None) == (exchange_number(name) is None)
    ]
    known = f"The last that did: {', '.join(alike[-5:])}." if alike else "None has."
    what = "exchange" if exchange_number(name) is not None else "step"
    raise UsageError(
        f"the run {run.id!r} has no {what} {_brief(name)!r} that has ended",
        remedy=f"{did_you_mean(name, alike, known) if what == 'step' else known} "
        f"`crewlog checkpoints {run.id}` lists them.",
        place=f"run {run.id!r}",
    )


async def _ends_of(run: Addressed, until: int = LARGEST_POSITION) -> dict[str, int]:
    """Where the steps and exchanges of a run ended, up to a position."""
    return {
        each.step or exchange_name(each.exchange): each.position
        for each in await checkpoints_of(run)
        if each.kind in ("step", "exchange") and each.position <= until
    }


class _End(NamedTuple):
    """Where a step or an exchange ended, and in whose journal."""

    run: RunId
    position: int


async def _inherited(run: Addressed, name: str) -> _End | None:
    """Where a step or an exchange ended that a fork has of its source; none where it has none.

    What the fork began with is its own first position, also where its source began there as a fork.
    """
    first = (await run.journal(0, 1)).entries
    forked = entry_from_json(first[0].data) if first else None
    if not isinstance(forked, RunForked) or not forked.checkpoint:
        return None
    source = run.sibling(forked.source)
    ends = await _ends_of(source, forked.checkpoint)
    there = _End(source.id, ends[name]) if name in ends else await _inherited(source, name)
    if there == (source.id, forked.checkpoint):
        return _End(run.id, first[0].position)
    return there


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _brief(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


async def tags_of(run: Addressed) -> Mapping[str, int]:
    """The positions that people gave names to: as the run tells, or else the store.

    Raises:
        RunNotFound: neither knows the run.
    """
    try:
        if await run.polled():
            return (await run.state()).tags
        return (await load_state(await run.open_store(), run.id)).tags
    except (WorkerMissing, RunNotFound) as error:
        try:
            return (await load_state(await run.open_store(), run.id)).tags
        except StoreIncomplete:
            raise error from None


async def check_checkpoint(run: Addressed, position: int) -> None:
    """Looks whether a position is a checkpoint of a run, as far as it or the store tells.

    Raises:
        UsageError: it is none; the remedy names the nearest that are.
    """
    try:
        found = {each.position: each.kind for each in await checkpoints_of(run)}
        if position not in found:
            store = await run.open_store()  # where a policy has pruned it, it is one all the same
            rows = await store.list_checkpoints(run.id, position - 1, 1, pruned=True)
            found |= {row.position: row.kind for row in rows}
    except ServiceError:
        return  # the run itself looks once more
    if position not in found:
        raise UsageError(
            no_checkpoint_message(run.id, position),
            remedy=nearest(run.id, position, sorted(at for at, k in found.items() if k != "tag")),
            place=f"run {run.id!r}",
        )


async def checkpoints_of(run: Addressed) -> list[CheckpointView]:
    """All checkpoints of a run."""
    found: list[CheckpointView] = []
    while True:
        page = await run.checkpoints(found[-1].position if found else 0, _PAGE)
        found += page.checkpoints
        if len(page.checkpoints) < _PAGE:
            return found


async def _exists(client: Runs, run: str) -> bool:
    try:
        await client.gateway.describe(RunId(run))
    except RunNotFound:
        return await _stored(client, run)
    return True


async def _stored(client: Runs, run: str) -> bool:
    try:
        return await (await client.store()).get_run(RunId(run)) is not None
    except CrewlogError:
        return False

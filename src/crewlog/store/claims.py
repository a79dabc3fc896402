"""Who goes on with a creature whose run has ended: that run once more, or one that it had left.

Both of them read, decide, and record it later, each in its own journal. So each claims the creature
first, and the claim of one who died before it recorded anything does not stand. See
docs/decisions/0057.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Literal, NamedTuple

from crewlog.definition.findings import listed
from crewlog.errors import UsageError
from crewlog.ids import AgentName, RunId
from crewlog.state.claim import ClaimedAgent, ClaimOwner, claim_owner
from crewlog.state.journal import (
    JournalEntry,
    MergeFailed,
    RunReopened,
    SwapFailed,
    entry_from_json,
)
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Store

Over = Callable[[RunId], Awaitable[Collection[str] | None]]
"""The last executions of a run that has ended, as the server says; none while it is open."""


class Word(NamedTuple):
    """Who goes on with a creature."""

    say: Literal["ours", "moved", "about to", "went on"]
    """Whoever asks; nobody yet, but its run is not where it was; another run is about to, or
    did."""
    run: RunId = RunId("")
    """That other run."""
    name: AgentName = AgentName("")
    """What it is called there."""


OURS = Word("ours")


async def goes_on(store: Store, left: ClaimedAgent, over: Over, taker: ClaimOwner | None) -> Word:
    """Claims a creature whose run has ended.

    Args:
        store: The store.
        left: The creature.
        over: Tells whether a run has ended.
        taker: For whom; none: nothing is claimed, and it is only looked who has it.
    """
    link = 0
    while True:
        link += 1
        key = left.key(link)
        owner = await (store.key_owner(key) if taker is None else store.claim(key, taker.owner))
        if owner is None or (taker is not None and owner == taker.owner):
            return OURS
        if await store.key_owner(left.key(link + 1)) is not None:
            continue  # somebody has seen that it does not stand
        word = await _stands(store, left, claim_owner(owner), over, taker)
        if word is not None:
            return word


async def _stands(
    store: Store, left: ClaimedAgent, by: ClaimOwner, over: Over, taker: ClaimOwner | None
) -> Word | None:
    """What a claim says; none where it does not stand: its owner is gone, and recorded nothing.

    Whoever finds that has the store take nothing more of that owner first.
    """
    own = by.run == left.run
    if not own and (entry := await _next(store, by)) is not None:
        return _home(entry, left, by)
    # An earlier execution of the run that asks has ended.
    executions = () if taker is not None and by.run == taker.run else await over(by.run)
    if executions is None:
        return Word("about to", by.run, left.name)
    if taker is None:
        return None
    await reject_executions(store, by.run, {by.execution, *executions})
    if own:
        return None if await _is_there(store, left) else Word("moved")
    entry = await _next(store, by)
    return None if entry is None else _home(entry, left, by)


async def _next(store: Store, by: ClaimOwner) -> JournalEntry | None:
    """What a run recorded when it went on; none where it has not."""
    for row in await store.read_journal(by.run, by.position, 3):
        entry = entry_from_json(row.entry)
        if not isinstance(entry, SwapFailed | MergeFailed):  # of what it was about when it ended
            return entry
    return None


def _home(entry: JournalEntry, left: ClaimedAgent, by: ClaimOwner) -> Word | None:
    """What that says of a creature."""
    home = entry.claimed if isinstance(entry, RunReopened) else {}
    return next((Word("went on", by.run, n) for n, each in home.items() if each == left), None)


async def _is_there(store: Store, left: ClaimedAgent) -> bool:
    """Whether the run is where it was when its creature was looked for."""
    if await store.get_run(left.run) is None:
        return not left.began
    return (await load_state(store, left.run)).execution == left.execution


async def reject_executions(store: Store, run: RunId, executions: Collection[str]) -> None:
    """Has the store take nothing more of executions that have ended."""
    if known := sorted({*executions} - {""}):  # the empty name is that of what a rebuild stores
        await store.reject_executions(run, known)


async def claim_agents(
    store: Store, creatures: Collection[ClaimedAgent], over: Over, taker: ClaimOwner | None
) -> None:
    """Claims the creatures of a run that has ended, for itself: it is about to be taken up.

    Once one of them is not its own, it claims none of the others: it does not go on, and whoever
    has that one may be about to claim them.

    Args:
        store: The store.
        creatures: Those of the run.
        over: Tells whether a run has ended.
        taker: The run itself; none: nothing is claimed, and it is only looked who has them.

    Raises:
        UsageError: another run has taken some of them home, or is about to.
    """
    gone: dict[Word, list[str]] = {}
    run = RunId("")
    for each in sorted(creatures, key=lambda each: each.name):
        word, run = await goes_on(store, each, over, None if gone else taker), each.run
        if word.say != "ours":
            gone.setdefault(word._replace(name=AgentName("")), []).append(each.name)
    for word, names in gone.items():
        raise _refusal(word, run, names)


def _refusal(word: Word, run: RunId, names: Collection[str]) -> UsageError:
    copies = f"`crewlog fork {run}@POSITION` goes on with copies of them."
    if word.say == "moved":
        return UsageError(f"the run {run!r} went on meanwhile", remedy=f"`crewlog show {run}`.")
    if word.say == "about to":
        return UsageError(
            f"the run {word.run!r} is about to go back to its recipe, and takes {listed(names)} of "
            f"{run!r} home",
            remedy=f"`crewlog show {word.run}` tells what came of it. If it did not, resume "
            f"{run!r} again; else {copies}",
        )
    return UsageError(
        f"the run {word.run!r} went back to its recipe, and has {listed(names)} of {run!r} again",
        remedy=copies,
    )


async def rebuild_claim(store: Store, taker: ClaimOwner, left: ClaimedAgent) -> None:
    """Claims what a journal says that its run went on with, where no claim of that is there.

    Args:
        store: The store.
        taker: The run; its position is the one before the entry that says so.
        left: The creature.
    """
    link = 0
    while True:
        link += 1
        by = claim_owner(await store.claim(left.key(link), taker.owner))
        # It may have recorded what it gave up in between.
        if by.run == taker.run and taker.position - 2 <= by.position <= taker.position:
            return

"""The tools of the crews that faults are done to: each acts on the ledger, or only looks."""

from __future__ import annotations

import asyncio
import time
import zlib

from temporalio import activity

from crewlog.tool_call import current_call

from .worker import here, what_of

_LONGEST = 60
"""Milliseconds that a tool takes before and after its effect, at most."""
_RELEASE_INTERVAL = 0.05
"""Seconds between two reads of the ledger by a tool that waits."""


def _pause(item: str, part: str) -> float:
    """Seconds, the same for each try of the same thing."""
    text = f"{current_call().run}/{item}/{part}"
    return zlib.crc32(text.encode()) % _LONGEST / 1000


def _begin(item: str) -> None:
    call = current_call()
    info = activity.info()
    within = (info.workflow_run_id or "", info.activity_id, info.attempt)
    here().ledger.begin(call.run, item, call.tool, call.key, call.attempt, within)
    here().points.reach("effect.before", call.run, _what())


def _end() -> None:
    here().points.reach("effect.after", current_call().run, _what())


def _what() -> str:
    return what_of(activity.info())


async def peek(item: str) -> str:
    """Looks from within the run's own worker, and changes nothing."""
    _begin(item)
    _end()
    return f"glimpsed {item}"


async def look(item: str) -> str:
    """Looks, and changes nothing."""
    _begin(item)
    await asyncio.sleep(_pause(item, "look"))
    _end()
    return f"seen {item}"


def deposit(item: str) -> str:
    """Deposits through a service that takes idempotency keys."""
    _begin(item)
    time.sleep(_pause(item, "before"))
    new = here().ledger.deposit(current_call().run, item, current_call().key)
    time.sleep(_pause(item, "after"))
    _end()
    # The answer is that of a good service: the same for the same key, whether it was new or not.
    return f"deposited {item}" if new or item else item


async def hold(item: str) -> str:
    """Deposits once the driver releases the item, through a service that takes idempotency keys."""
    _begin(item)
    run, key = current_call().run, current_call().key
    while not here().ledger.is_released(run, item):  # noqa: ASYNC110 - another process does
        await asyncio.sleep(_RELEASE_INTERVAL)
    here().ledger.deposit(run, item, key)
    _end()
    return f"held {item}"


async def send(item: str) -> str:
    """Sends what cannot be taken back, through a service that knows no keys."""
    _begin(item)
    await asyncio.sleep(_pause(item, "before"))
    here().ledger.send(current_call().run, item, current_call().key)
    await asyncio.sleep(_pause(item, "after"))
    _end()
    return f"sent {item}"

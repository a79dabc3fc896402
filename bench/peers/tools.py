"""The tools of the benchmarks' crews."""

from __future__ import annotations

import asyncio

ROWS = {f"k{i}": f"value {i}" for i in range(100)}


async def nap(seconds: float) -> str:
    """Sleeps."""
    await asyncio.sleep(seconds)
    return "slept"


async def lookup(key: str) -> str:
    """Looks a value up."""
    return ROWS[key]

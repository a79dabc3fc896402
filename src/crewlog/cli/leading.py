"""Where a run is part of another one by now: what is said to it is said there."""

from __future__ import annotations

from crewlog.cli.screen import Screen, plain
from crewlog.client import Client
from crewlog.errors import RunNotFound


async def led_to(screen: Screen, client: Client, run_id: str) -> str:
    """The run that one is part of, told in a line; or itself, where it is one of its own.

    Args:
        screen: Where it is told.
        client: A client of the server that has the run.
        run_id: The run that was named.
    """
    try:
        run = await client.run(run_id).successor()
    except RunNotFound:
        return run_id  # who asks next says so
    if run.id != run_id:
        screen.note(
            ("▸ ", "yellow"), f"{plain(run_id)} is part of {plain(run.id)} by now: going on there"
        )
    return str(run.id)

"""A tool that no worker has yet: its call is made again until there is one, and no step fails.

A crew may be given a tool while it runs, and workers get its code one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from covers import covers

from .harness import LIMIT, Site, calls, tool

QUEUE = "lacking"


@pytest.fixture
async def lacking(site: Site) -> AsyncIterator[Site]:
    await site.start_worker(QUEUE)
    yield site
    await asyncio.to_thread(site.end_workers, QUEUE)


@pytest.mark.timeout(400)
async def test_a_call_waits_for_a_worker_that_has_its_tool(lacking: Site) -> None:
    site = lacking
    crew = site.crew(
        {"a": [calls(("fresh", {"text": "at last"})), {"text": "A"}]},
        # One try: what the lack of a tool costs must not be counted against it.
        tools={"fresh": {**tool("echo"), "run": "fresh_deeds:echo", "policy": {"attempts": 1}}},
        flow=["a"],
    )
    run = await site.start(crew, queue=QUEUE)
    view = await run.wait_until(lambda view: bool(view.wait_reason), LIMIT)
    assert view.status == "waiting" or "fresh_deeds" in view.wait_reason
    assert "tool 'fresh'" in view.wait_reason
    assert "no module 'fresh_deeds'" in view.frontier[0].calls[0]
    assert not view.interrupts
    (site.project / "fresh_deeds.py").write_text("from deeds import echo\n")
    result = await run.result(LIMIT)
    assert result.outputs["a"]["text"] == "A"
    (started,) = site.ledger(run, "start")
    assert started["attempt"] == 1
    kinds = [entry.kind for entry in await site.entries(run)]
    assert not {"StepFailed", "InterruptRaised", "PermissionDenied"} & set(kinds)


@pytest.mark.timeout(400)
@covers("C121")
async def test_a_worker_that_has_the_tool_takes_the_call(lacking: Site) -> None:
    """Beside a worker that lacks it, one that has it is enough."""
    site = lacking
    crew = site.crew(
        {"a": [calls(("fresh", {"text": "there"})), {"text": "A"}]},
        tools={"fresh": {**tool("echo", "never"), "run": "elsewhere:echo", "queue": "has-it"}},
        flow=["a"],
    )
    run = await site.start(crew, queue=QUEUE)
    await site.start_worker("has-it")
    await run.wait_until(lambda view: "no module 'elsewhere'" in view.wait_reason, LIMIT)
    (site.project / "elsewhere.py").write_text("from deeds import echo\n")
    assert (await run.result(LIMIT)).outputs["a"]["text"] == "A"
    assert len(site.ledger(run, "start")) == 1
    await asyncio.to_thread(site.end_workers, "has-it")


@pytest.mark.timeout(400)
async def test_a_run_that_waits_for_a_tool_can_be_stopped(lacking: Site) -> None:
    site = lacking
    crew = site.crew(
        {"a": [calls(("never_there", {"text": "x"})), {"text": "A"}]},
        tools={"never_there": {**tool("echo"), "run": "nowhere:echo"}},
        flow=["a"],
    )
    run = await site.start(crew, queue=QUEUE)
    await run.wait_until(lambda view: "nowhere" in view.wait_reason, LIMIT)
    await run.stop("nobody has it")
    assert (await run.result(LIMIT)).status == "stopped"

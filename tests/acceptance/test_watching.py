"""Following a run over a swap: the cursor, the command line, and the web UI's text."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

from temporalio.api.sdk.v1 import WorkflowMetadata

from covers import covers
from crewlog.client import Event, Run
from crewlog.definition.operations import AddAgent

from .harness import LIMIT, Site, calls, tool, until

EDITOR = AddAgent(name="editor", agent={"prompt": "You edit."}, phase={"after": ["b"]})


async def swapped(site: Site) -> Run:
    """A run that was changed in mid-turn: `a` waits at a gate, then `b` and the new `editor`."""
    crew = site.crew(
        {"a": [calls(("gate", {"name": "g"})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={"gate": tool("gate")},
        flow=["a", "b"],
        model=site.script(
            {
                "a": [calls(("gate", {"name": "g"})), {"text": "A"}],
                "*": [{"text": "said"}],
            }
        ),
    )
    run = await site.start(crew)
    await until(lambda: site.ledger(run, "start"), "the tool")
    await run.change(operations=[EDITOR], by="ana", reason="too dry", wait=False)
    return run


async def journal(run: Run, after: int = 0) -> list[Event]:
    async with asyncio.timeout(LIMIT):
        return [event async for event in run.events(after)]


async def test_who_comes_again_over_a_swap_misses_nothing(crews: Site) -> None:
    run = await swapped(crews)
    reading = asyncio.ensure_future(journal(run))
    draining = await _details(crews, run)
    assert "Changing to graph v2 by ana" in draining
    crews.open_gate(run, "g")
    whole = await reading
    kinds = [event.entry.kind for event in whole]
    assert kinds.index("ChangeAccepted") < kinds.index("GraphSwapped")
    assert [event.position for event in whole] == list(range(1, len(whole) + 1))
    for after in (1, kinds.index("ChangeAccepted") + 1, kinds.index("GraphSwapped") + 1):
        assert await journal(run, after) == whole[after:]
    details = await _details(crews, run)
    assert "graph v2" in details
    assert "Changed at run time:" in details
    assert "by ana" in details
    assert '("editor")' in details, "the picture is the new graph's"


async def _details(site: Site, run: Run) -> str:
    """What the web UI shows of the run."""
    handle = site.temporal.get_workflow_handle(run.id)
    found = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(found.current_details)


@covers("C1", "C35")
async def test_watch_draws_each_graph_and_show_keeps_the_layers_apart(crews: Site) -> None:
    run = await swapped(crews)
    crews.open_gate(run, "g")
    await run.result(LIMIT)
    text = await _crewlog(crews, "watch", run.id)
    first, _, second = text.partition("graph v1 → v2 by ana")
    assert "graph v1" in first, "the graph that it began with"
    assert "editor" not in first.partition("changes to graph v2")[0]
    assert "too dry" in first
    assert "editor" in second
    records = [
        json.loads(line)
        for line in (await _crewlog(crews, "watch", run.id, "--state", "--json")).splitlines()
    ]
    (graph,) = [each for each in records if each["event"] == "graph"]
    assert graph["graph_version"] == 2
    assert "editor" in graph["plan"]["nodes"]
    states = [each["position"] for each in records if each["event"] == "state"]
    ended = [
        each["position"]
        for each in records
        if each["event"] == "journal" and each["entry"]["kind"] == "StepCompleted"
    ]
    assert [position for position in states if position in ended] == ended
    shown: dict[str, Any] = json.loads(await _crewlog(crews, "show", run.id, "--json"))
    state = await run.state()
    assert shown["recipe"]["definition"] == state.recipe
    assert shown["definition"] == state.definition
    assert shown["definition"] != shown["recipe"]["definition"]
    assert [each["by"] for each in shown["mutations"]] == ["ana"]
    page = await _crewlog(crews, "show", run.id)
    assert "changed at run time:" in page
    log = await _crewlog(crews, "log", run.id)
    assert "GraphSwapped" in log


async def _crewlog(site: Site, *arguments: str) -> str:
    def go() -> str:
        done = subprocess.run(
            [sys.executable, "-m", "crewlog.cli.main", *arguments],
            cwd=site.project,
            env=site.environ("shared"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return await asyncio.to_thread(go)

"""One run across two builds, each a worker process of its own; the second has a changed carry.

It needs a server that moves pinned runs at continue-as-new (`make test-cluster`).
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

import crewlog

from .builds import Deployment, builds, executions
from .harness import LIMIT, Site, calls, tool, until

CALLS = 12

READER = '''SCHEMA = 2


def _from_schema_1(data: dict[str, Json]) -> dict[str, Json]:
    """A carry of schema 1 as one of schema 2: a field has another name, and there is a new one."""
    rest = {name: value for name, value in data.items() if name != "search_attributes"}
    renamed = {"knows_attributes": data["search_attributes"], "read_from": 1}
    return {**rest, **renamed, "schema_version": 2}
'''
VERSION = '    version = data.get("schema_version")\n'
FROM_1 = '    data = _from_schema_1(data) if data.get("schema_version") == 1 else data\n'
CHANGES = {
    "state/carry.py": (
        ("SCHEMA = 1\n", READER),
        (VERSION, f"{FROM_1}{VERSION}"),
        ("    search_attributes: bool = False", "    knows_attributes: bool = False"),
        (
            '    """Whether the server has',
            "    read_from: int = 2\n" + '    """Whether the server has',
        ),
    ),
    "workflows/crew_run.py": (
        ("search_attributes=carry.search_attributes", "search_attributes=carry.knows_attributes"),
    ),
    "workflows/execution_end.py": (
        (
            "                search_attributes=self._context.search_attributes,",
            "                knows_attributes=self._context.search_attributes,",
        ),
    ),
}
"""What the second build has changed: the carry's schema, as a maintainer would change it."""


@pytest.fixture
async def deployment(site: Site) -> Any:
    found = Deployment(site, f"acceptance-{secrets.token_hex(4)}")
    yield found
    site.end_workers(found.name)


def changed_build(root: Path) -> Path:
    """This project's package with a changed carry; for `PYTHONPATH`."""
    package = root / "build-b" / "crewlog"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(Path(crewlog.__file__).parent, package, ignore=ignored)
    for name, changes in CHANGES.items():
        file = package / name
        text = file.read_text()
        for old, new in changes:
            assert text.count(old) == 1, f"{name} has changed: {old!r}"
            text = text.replace(old, new)
        file.write_text(text)
    return package.parent


def long_crew(site: Site) -> dict[str, Any]:
    """A turn that stands at a gate, then calls tools for several executions; then another agent."""
    steps = [calls(("echo", {"text": f"{number}"})) for number in range(CALLS)]
    return site.crew(
        {
            "a": [calls(("gate", {"name": "g"})), *steps, {"text": "A"}],
            "b": [calls(("echo", {"text": "b"})), {"text": "B"}],
        },
        tools={"gate": tool("gate", heartbeat=30), "echo": tool("echo")},
        limits={"events": 50},
    )


def carried(events: list[HistoryEvent]) -> dict[str, Any]:
    """What an execution was continued with."""
    [payload] = events[0].workflow_execution_started_event_attributes.input.payloads
    found: dict[str, Any] = json.loads(payload.data)["carry"]
    return found


@pytest.mark.timeout(400)
async def test_a_run_moves_to_the_second_build_with_its_state(
    site: Site, deployment: Deployment
) -> None:
    first = await deployment.build("a")
    run = await site.start(long_crew(site), queue=deployment.name)
    # Nobody has made a build current: the run waits, and the worker says with which command to.
    assert "this build gets no runs: no build is current" in first.said()
    await deployment.make_current(first, "a")
    await until(lambda: site.ledger(run, "start", gate="g"), "the gate")

    source = await asyncio.to_thread(changed_build, site.root)
    second = await deployment.build("b", PYTHONPATH=str(source))
    assert "build 'a' is current" in second.said()
    moved = await deployment.make_current(second, "b")
    assert (await run.status()).execution == 1
    site.open_gate(run, "g")
    result = await run.result(LIMIT)

    # The first execution stayed on its build to its end, although the second was current by then.
    histories = await executions(site, run)
    assert len(histories) == result.executions >= 3
    assert [builds(events) for events in histories] == [{"a"}, *[{"b"}] * (len(histories) - 1)]
    assert histories[0][-1].event_time.ToDatetime(moved.tzinfo) > moved
    seams = await site.entries(run, "ExecutionContinuedAsNew")
    assert seams[0].because == "another build of its workers is current"
    assert seams[1].because == "its history has reached its limit"

    # The second build read the carry of schema 1, and wrote one of schema 2.
    old, new = carried(histories[1]), carried(histories[2])
    assert (old["schema_version"], old["search_attributes"]) == (1, True)
    assert "knows_attributes" not in old
    assert (new["schema_version"], new["knows_attributes"]) == (2, True)
    assert "search_attributes" not in new

    # Nothing was lost, nothing was doubled.
    assert {agent: o["text"] for agent, o in result.outputs.items()} == {"a": "A", "b": "B"}
    echoed = [e["text"] for e in site.ledger(run, "start") if "text" in e]
    assert echoed == [*map(str, range(CALLS)), "b"]
    assert max(Counter(e["key"] for e in site.ledger(run, "start")).values()) == 1
    kinds = Counter(entry.kind for entry in await site.entries(run))
    assert kinds["StepStarted"] == kinds["StepCompleted"] == 2
    assert kinds["ToolCallCompleted"] == CALLS + 2
    assert kinds["ModelCallCompleted"] == CALLS + 4


@pytest.mark.timeout(400)
async def test_a_run_on_the_current_build_is_not_moved(site: Site, deployment: Deployment) -> None:
    """No build has changed: it continues as new when its history is long enough, not before."""
    await deployment.make_current(await deployment.build("a"), "a")
    run = await site.start(long_crew(site), queue=deployment.name)
    site.open_gate(run, "g")
    await run.result(LIMIT)
    seams = await site.entries(run, "ExecutionContinuedAsNew")
    assert seams
    assert {seam.because for seam in seams} == {"its history has reached its limit"}
    assert all(builds(events) == {"a"} for events in await executions(site, run))


@pytest.mark.timeout(400)
async def test_a_run_from_before_there_were_versions_moves_to_the_first_build(
    site: Site, deployment: Deployment
) -> None:
    """At its next task, in mid-execution: the first build replays what was before it."""
    before = await site.start_worker(deployment.name)
    run = await site.start(long_crew(site), queue=deployment.name)
    await until(lambda: site.ledger(run, "start", gate="g"), "the gate")
    first = await deployment.build("a")
    await deployment.make_current(first, "a")
    site.open_gate(run, "g")
    result = await run.result(LIMIT)
    assert before.process.poll() is None
    histories = await executions(site, run)
    assert [builds(events) for events in histories] == [
        {"", "a"},
        *[{"a"}] * (result.executions - 1),
    ]
    assert max(Counter(e["key"] for e in site.ledger(run, "start")).values()) == 1
    assert len(site.ledger(run, "start")) == CALLS + 2

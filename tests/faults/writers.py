"""Two agents that write to one log at the same time, many times, on two workers; and its readers.

Each lane is a loop of its own, so the writers never wait for each other. The calls have a task
queue of their own, which both workers take from: on the run's own queue they would start eagerly,
all of them where the run is.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg

from crewlog.activities.hydrator import Hydrator
from crewlog.client import Run
from crewlog.ids import PUBLIC, AgentName, LogName, RunId, private_log
from crewlog.state.calls import View
from crewlog.state.logs import chain, empty_log_head
from crewlog.state.model import CrewState, LogHead
from crewlog.store.protocol import LogLink
from crewlog.wire import WORKFLOW_TYPE

from .audit import Evidence, audit
from .crew import Expected, FaultCrew
from .report import Report
from .stand import Stand
from .worker import CALLS_QUEUE

WRITERS = ("x", "y")
READER = "z"
"""An agent that only reads; it takes its turn when both have ended."""
_SAID = re.compile(r"\b[xyz] \d+$")


def writing_crew(folder: Path, pairs: int, events: int = 500) -> FaultCrew:
    """Two agents that take `pairs` turns each, side by side, and one that reads what they said."""
    said = {w: [{"text": f"{w} {n}"} for n in range(1, pairs + 1)] for w in WRITERS}
    script = folder / f"writers-{pairs}.json"
    script.write_text(json.dumps({"agents": {**said, READER: [{"text": f"{READER} 1"}]}}))
    flow: list[Any] = []
    for writer in WRITERS:
        again = {"if": "not enough", "go": writer, "at_most": pairs - 1}
        flow += [
            {"agent": writer, "after": []},
            {**again, "phase": f"again_{writer}", "after": writer},
        ]
    flow.append({"agent": READER, "after": [f"again_{writer}" for writer in WRITERS]})
    definition = {
        "crew": "writers",
        "model": f"scripted:{script}",
        "agents": {
            name: {"prompt": f"You are {name}.", "heartbeat": 10, "retry": {"attempts": 100}}
            for name in (*WRITERS, READER)
        },
        "flow": flow,
        "flags": {"enough": False},
        "limits": {"events": events},
    }
    decisions = {f"again_{w}#{n}" for w in WRITERS for n in range(1, pairs + 1)}
    turns = {f"{w}#{n}" for w in WRITERS for n in range(1, pairs + 1)} | {f"{READER}#1"}
    return FaultCrew(definition, Expected(frozenset(turns | decisions), frozenset(decisions)))


@dataclass
class Reading:
    """What one reader was shown of the log, as the texts in order."""

    reader: str
    texts: list[str]


@dataclass
class Log:
    """A run's public log, and how everybody reads it."""

    run: str
    head: LogHead
    links: list[LogLink]
    """From the store, oldest first."""
    successors: Counter[str]
    """How many links of the store continue each of the log's heads."""
    journal: list[tuple[int, str]]
    """Position and body of each public message, by the journal."""
    views: list[str]
    """The heads that model calls were given, over the whole run."""
    readings: list[Reading] = field(default_factory=list)


def check_log(log: Log, pairs: int) -> list[str]:
    """What is wrong with a log: forks, gaps, and readers who see another order."""
    wrong: list[str] = []
    previous = empty_log_head(log.run, PUBLIC)
    for link in log.links:
        if link.previous != previous:
            wrong.append(f"the chain breaks before position {link.position}")
        if link.head != chain(link.previous, link.position, link.body):
            wrong.append(f"the head at position {link.position} is not that of its message")
        previous = link.head
    if previous != log.head.head:
        wrong.append("the chain does not end at the head that the run has")
    if log.head.length != len(log.links):
        wrong.append(f"the run counts {log.head.length} messages, the chain has {len(log.links)}")
    if [(link.position, link.body) for link in log.links] != log.journal:
        wrong.append("the chain and the journal have other messages, or another order")
    wrong += [
        f"{count} links continue {head}" for head, count in log.successors.items() if count > 1
    ]
    # Each of these names a beginning of the log: that agents saw nothing else is in the hashes.
    heads = {empty_log_head(log.run, PUBLIC), *(link.head for link in log.links)}
    wrong += [
        f"a view had the head {v}, which is none of the chain" for v in log.views if v not in heads
    ]
    return wrong + _check_readings(log, pairs)


def _check_readings(log: Log, pairs: int) -> list[str]:
    wrong: list[str] = []
    first = log.readings[0]
    for writer in WRITERS:
        own = [text for text in first.texts if text.startswith(f"{writer} ")]
        if own != [f"{writer} {n}" for n in range(1, pairs + 1)]:
            wrong.append(f"{first.reader} does not have all that {writer} said, in its order")
    wrong += [
        f"{other.reader} reads another order than {first.reader}"
        for other in log.readings[1:]
        if other.texts != first.texts
    ]
    return wrong


async def write_in_parallel(stand: Stand, name: str, pairs: int, limit: float) -> Report:
    """Lets two agents write, on two workers, and checks what all readers are shown."""
    report = Report(name, 0)
    begun = time.monotonic()
    calls = f"{name}-calls"
    fleet = stand.fleet(name, 2, **{CALLS_QUEUE: calls})
    await fleet.open()
    ready = time.monotonic()
    try:
        crew = writing_crew(stand.site.root, pairs)
        await stand.site.temporal.start_workflow(
            WORKFLOW_TYPE,
            {"crew": crew.definition, "queue": calls},
            id=name,
            task_queue=name,
            execution_timeout=timedelta(seconds=limit),
        )
        run = stand.client(name).run(name)
        result = await run.result(limit)
        took = time.monotonic() - ready
        evidence = await stand.evidence(run, result.status)
        report.findings = audit(evidence, crew.expected)
        log = await read_log(stand, run, evidence)
    finally:
        await fleet.close()
    report.violations += check_log(log, pairs) + fleet.deserters
    report.violations += _apart(evidence)
    report.notes |= {
        "pairs of writes": pairs,
        "ms per pair": round(took * 1000 / pairs, 1),
        "turned from one writer to the other": _turns(log),
        "calls by worker": sorted(Counter(c.pid for c in _model_calls(evidence)).values()),
    }
    report.seconds = time.monotonic() - begun
    return report


def _model_calls(evidence: Evidence) -> list[Any]:
    return [c for c in evidence.calls if c.name == "call_model" and c.event == "return"]


def _apart(evidence: Evidence) -> list[str]:
    """Whether it was what it should be: two writers at the same time, on two workers."""
    count = Counter(c.pid for c in _model_calls(evidence))
    if len(count) < 2 or min(count.values()) * 10 < count.total():
        return [f"the calls were not on two workers: {dict(count)}"]
    return []


def _turns(log: Log) -> int:
    writers = [text[0] for text in log.readings[0].texts]
    return sum(one != other for one, other in itertools.pairwise(writers))


async def read_log(stand: Stand, run: Run, evidence: Evidence) -> Log:
    """The public log of a run that has ended, as everybody reads it."""
    store, run_id = stand.site.store, RunId(run.id)
    state = evidence.states["the workflow's state"]
    head = state.messages[PUBLIC]
    links = await store.read_log(head.head, {empty_log_head(run_id, PUBLIC)})
    journal = [
        (position, str(entry.message.body))
        for position, entry in evidence.journal
        if entry.message is not None and PUBLIC in entry.message.logs
    ]
    root = str(empty_log_head(run_id, PUBLIC))
    views = [c.view.get(PUBLIC, root) for c in evidence.completions if c.name == "call_model"]
    log = Log(run.id, head, links, await _successors(stand, links), journal, views)
    bodies = await store.get_bodies({link.body for link in links})
    told = [event async for event in run.events()]
    log.readings = [
        Reading("the chain in the store", _texts([bodies[link.body] for link in links])),
        Reading(
            "the client",
            _texts(
                bodies[e.entry.message.body]
                for e in told
                if e.entry.message is not None and PUBLIC in e.entry.message.logs
            ),
        ),
    ]
    for agent in (*WRITERS, READER):
        log.readings.append(await _as_agent(stand, run_id, AgentName(agent), state))
    return log


async def _as_agent(stand: Stand, run: RunId, agent: AgentName, state: CrewState) -> Reading:
    """What a worker that knows nothing of the run shows to an agent at the end."""
    logs: tuple[LogName, ...] = (PUBLIC, private_log(agent))
    heads = {log: state.messages[log].head for log in logs if log in state.messages}
    shown = await Hydrator(stand.site.store).hydrate(run, agent, View(heads=heads))
    texts = [found[0] for m in shown if (found := _SAID.search(str(m.text)))]
    return Reading(f"the agent {agent}", texts)


async def _successors(stand: Stand, links: Sequence[LogLink]) -> Counter[str]:
    """How many links of the store come after each head: a log with a fork has one with two."""
    connection = await asyncpg.connect(stand.site.services.endpoints.database_url)
    try:
        rows = await connection.fetch(
            "SELECT previous, count(*) AS n FROM crewlog.log_links "
            "WHERE previous = ANY($1) GROUP BY 1",
            [link.previous for link in links],
        )
    finally:
        await connection.close()
    return Counter({row["previous"]: row["n"] for row in rows})


def _texts(bodies: Any) -> list[str]:
    found = (_SAID.search(str(body["content"])) for body in bodies)
    return [match[0] for match in found if match]

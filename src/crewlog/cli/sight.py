"""A run as `show` and `graph` see it: from the run itself, or from the store where no worker is.

Looking at a run must never move it, so no worker is started for it. A run that has ended, or that
nobody works on, is read from the store: folding its journal gives the state.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from crewlog.client import Client, Run
from crewlog.client.approvals import with_approved
from crewlog.client.events import OUTSIDE, outside
from crewlog.client.gateway import STATUS_NAMES, pauses
from crewlog.client.pending_calls import doing, pending_calls
from crewlog.client.places import place_of
from crewlog.client.showing import with_shown
from crewlog.client.stalled import Stalled, stalled
from crewlog.definition.model import CrewDefinition
from crewlog.errors import CrewlogError, RunFailed, RunNotFound, StoreIncomplete, WorkerMissing
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.graph.timers import (
    deadline_of,
    pause_text,
    run_wait_text,
    status_by_journal,
    step_wait_text,
)
from crewlog.ids import NodeName, RunId
from crewlog.model import Json
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.reporting.trace.view import PendingCall
from crewlog.reporting.wire_views import interrupt_view
from crewlog.run_status import ENDED
from crewlog.state.fold import fold_journal
from crewlog.state.frontier import item_agent
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState
from crewlog.store.missing_rows import MissingRows
from crewlog.store.protocol import Store
from crewlog.wire import EntryView, InterruptView

PAGE = 1000
BEGINS_WITHIN = 10.0
"""Seconds from a run's start in which it is waited for, where nothing of it is known yet."""


@dataclass
class Sight:
    """What is known of a run."""

    run: str
    state: CrewState
    plan: GraphPlan | None
    status: str
    """A `RunStatus`, or `terminated`, `canceled`, `timed_out`; or `retrying`, see `doing`."""
    live: bool
    """Whether the run itself answered; if not, it may be further than this."""
    wait_reason: str
    """Why nothing moves."""
    ended: int | None
    """Milliseconds since the epoch."""
    questions: list[InterruptView]
    queue: str = ""
    calls: dict[str, tuple[str, ...]] | None = None
    """Calls in flight, by step."""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """Steps whose calls wait for a worker that has their tool, with what to do about it."""
    prompt: str | None = None
    """The prompt that it was started with, where it was one and the store has it."""
    stalled: list[Stalled] = field(default_factory=list[Stalled])
    """What of its own it fails to do, again and again."""
    pending: list[PendingCall] = field(default_factory=list[PendingCall])
    """Its calls that wait, or are made once more."""
    at: int | None = None
    """The journal position at which it is seen; none: it is seen as it is."""

    @property
    def over(self) -> bool:
        """Whether it has ended, by itself or from outside."""
        return self.status in ENDED or self.status in OUTSIDE

    @property
    def statuses(self) -> dict[NodeName, str]:
        """What each node is, as `crewlog.reporting.drawing` takes it."""
        return statuses_of(self.state)


_DRAWN = {"interrupted": "waiting", "queued": "ready"}


def statuses_of(state: CrewState) -> dict[NodeName, str]:
    """What each node of a run is; nodes that were never reached are left out."""
    found = {node: "done" for node, count in state.routing.completed.items() if count}
    for entry in state.frontier.values():
        found[entry.node] = _DRAWN.get(entry.status, entry.status)
    if state.status == "failed":
        for node, status in found.items():
            found[node] = status if status in {"done", "ready"} else "failed"
    return found


async def see(client: Client, run_id: str) -> Sight:
    """Everything about a run.

    Raises:
        RunNotFound: neither the server nor the store knows it.
        RunFailed: it ended before its first entry.
        StoreUnavailable: only the store could tell, and it is away.
    """
    run = client.run(run_id)
    status, ended, queue, began = "", None, "", 0.0
    stalls: list[Stalled] = []
    calls: list[PendingCall] = []
    missing: RunNotFound | None = None
    try:
        description = await client.gateway.describe(run.id)
        status = STATUS_NAMES.get(description.status, "") if description.status else ""
        queue = description.task_queue
        began = description.start_time.timestamp()
        if description.close_time:
            ended = int(description.close_time.timestamp() * 1000)
        stalls = await stalled(client.gateway, run.id, description)
        calls = await pending_calls(client.gateway, run.id, description)
    except RunNotFound as error:
        missing = error

    async def with_waits(sight: Sight) -> Sight:
        now = doing(calls) if sight.status == "running" else sight.status
        waits = [call for call in calls if call.is_waiting]
        sight = replace(sight, stalled=stalls, pending=waits, status=now)
        return await _with_prompt(client, sight)

    if missing is None and status == "running":
        try:
            return await with_waits(await _live(client, run, queue))
        except WorkerMissing:
            pass
    try:
        return await with_waits(await _stored(client, run, status, ended, queue))
    except (StoreIncomplete, RunNotFound, WorkerMissing):
        if status == "running" and (begun := await _begun(client, run, queue, began)) is not None:
            return await with_waits(begun)
        if missing is not None:
            raise missing from None
        if status == "failed":
            raise await _failed_early(client, run) from None
        if status in OUTSIDE:
            raise outside(run.id, status, 0) from None
        raise


async def see_at(client: Client, target: str) -> Sight:
    """A run as it is, or as it was at a position or a tag: `RUN`, `RUN@12`, `RUN@draft`.

    Raises:
        UsageError: it has no such position or tag.
        RunNotFound, RunFailed, StoreUnavailable: as `see`.
    """
    run_id, position = await place_of(client, target)
    sight = await see(client, run_id)
    if position is None:
        return sight
    state = await client.run(run_id).state_at(position)
    plan = sight.plan
    if state.definition != sight.state.definition:
        plan = await plan_of(client, state)
    return replace(
        sight,
        state=state,
        plan=plan,
        status=status_by_journal(state),
        wait_reason="",
        ended=None,
        questions=[],  # they were open then: nobody can answer there
        calls=None,
        failures={},
        stalled=[],
        pending=[],
        at=position,
    )


async def plan_of(client: Client, state: CrewState) -> GraphPlan | None:
    """The graph that a run had; none before it had one."""
    crew = await crew_of(client, state)
    return lower(crew) if crew is not None else None


async def crew_of(client: Client, state: CrewState) -> CrewDefinition | None:
    """The definition that a run had; none before it had one."""
    if not state.definition:
        return None
    store = await client.store()
    return CrewDefinition.from_json(await store.get_definition(state.definition))


async def _with_prompt(client: Client, sight: Sight) -> Sight:
    if sight.state.prompt is not None:
        with suppress(CrewlogError):  # it is a part of the picture, and no more
            text = sight.state.prompt.text
            sight.prompt = (await (await client.store()).get_bodies([text]))[text]
    return sight


async def _begun(client: Client, run: Run, queue: str, began: float) -> Sight | None:
    """A run that was started a moment ago, once its worker has come; none where that takes long.

    Its worker may be starting yet: what is typed right behind `crewlog run --detach` is for that
    run all the same.
    """
    deadline = time.monotonic() + began + BEGINS_WITHIN - time.time()
    for pause in pauses(0.02, 0.5):
        if time.monotonic() > deadline:
            return None
        await asyncio.sleep(pause)
        with suppress(WorkerMissing):
            return await _live(client, run, queue)
        with suppress(StoreIncomplete, RunNotFound):
            return await _stored(client, run, "running", None, queue)
    raise AssertionError


async def _failed_early(client: Client, run: Run) -> RunFailed:
    """Why a run failed of which nothing was recorded: its crew is unknown or faulty, say."""
    message, _, remedy = (await client.gateway.failure(run.id)).partition("\n")
    return RunFailed(
        f"failed before its first step: {message}",
        remedy="\n".join(line.strip() for line in remedy.splitlines()),
        place=f"run {run.id!r}",
    )


async def _live(client: Client, run: Run, queue: str) -> Sight:
    state, view, graph, questions = await asyncio.gather(
        run.state(), run.status(), run.graph(), run.interrupts()
    )
    plan = GraphPlan.from_json(graph.plan)
    return Sight(
        run=run.id,
        state=state,
        plan=plan if plan.nodes else None,  # a prompt that is not compiled yet has none
        status=view.status,
        live=True,
        wait_reason=view.wait_reason,
        ended=None,
        questions=questions,
        queue=queue,
        calls={step.step: step.calls for step in view.frontier},
        failures={step.step: step.failure for step in view.frontier if step.failure},
    )


async def whole_journal(run: Run, after: int = 0) -> list[EntryView]:
    """All entries after a position."""
    found: list[EntryView] = []
    while True:
        page = await run.journal(after, PAGE)
        found += page.entries
        if not page.entries or found[-1].position >= page.position:
            return found
        after = found[-1].position


async def _stored(client: Client, run: Run, status: str, ended: int | None, queue: str) -> Sight:
    store = await client.store()
    items: list[Any] = []
    while rows := await store.read_journal(run.id, items[-1].position if items else 0, PAGE):
        items += rows
    if not items:
        raise StoreIncomplete(
            f"the store knows nothing of the run {run.id!r} yet, and no worker answers for it",
            remedy=f"`crewlog watch {run.id}` brings a worker where it can; if the store was lost, "
            f"`crewlog rebuild {run.id}` makes its rows again.",
        )
    state = fold_journal(RunId(run.id), [entry_from_json(row.entry) for row in items])
    definition = await _definition(store, run, state)
    plan = lower(CrewDefinition.from_json(definition)) if definition else None
    closed = state.status in ENDED
    open_ = not closed and status == "running"
    if closed and ended is None:
        ended = items[-1].entry.get("at")
    shown = state.status if closed or status in {"", "running", "completed"} else status
    waiting = ""
    if open_:
        waiting = "a worker: nobody works on it now"
        if holds := pause_text(state):
            waiting = holds
        elif by_journal := run_wait_text(state):
            shown, waiting = "waiting", by_journal
    questions = [interrupt_view(i, state.prompt, definition) for i in state.interrupts.values()]
    if open_:
        questions = await with_shown(client.store, questions)
        questions = await with_approved(client.store, run.id, questions)
    else:
        questions = []
    return Sight(
        run=run.id,
        state=state,
        plan=plan,
        status=shown,
        live=closed,
        wait_reason=waiting,
        ended=ended,
        questions=questions,
        queue=queue,
    )


async def _definition(store: Store, run: Run, state: CrewState) -> dict[str, Json] | None:
    """A run's definition, or the one that people are asked about."""
    hash_ = state.definition or (state.prompt and state.prompt.definition)
    if not hash_:
        return None
    try:
        return await store.get_definition(hash_)
    except MissingRows as error:
        raise error.for_run(run.id) from error


def as_json(sight: Sight, url: str | None) -> dict[str, Any]:
    """What `crewlog show --json` prints."""
    state = sight.state
    return {
        "run": sight.run,
        "crew": state.crew or (sight.plan.crew if sight.plan else ""),
        "prompt": sight.prompt,
        "status": sight.status,
        "end_reason": sight.state.end_reason,
        "live": sight.live,
        "wait_reason": sight.wait_reason,
        "graph_version": state.graph_version,
        "execution": state.execution,
        "position": state.position,
        "at": sight.at,
        "started_at": state.started_at,
        "ended_at": sight.ended,
        "steps": state.steps,
        "frontier": [
            {
                "step": entry.step,
                "node": entry.node,
                "status": entry.status,
                "wait_reason": step_wait_text(entry),
                "deadline": deadline_of(entry),
                "leaving": entry.is_detached,
                "calls": list((sight.calls or {}).get(entry.step, ())),
                "failure": sight.failures.get(entry.step, ""),
                "agent": item_agent(state, entry.step) or "",
            }
            for entry in state.frontier.values()
        ],
        "stalled": [asdict(each) for each in sight.stalled],
        "pending": [asdict(each) for each in sight.pending],
        "completed_steps": state.routing.completed,
        "flags": state.flags,
        "outputs": {
            agent: {key: output.model_dump(mode="json") for key, output in found.items()}
            for agent, found in state.agent_outputs.items()
        },
        "interrupts": [question.model_dump(mode="json") for question in sight.questions],
        "usage": {agent: used.model_dump() for agent, used in state.usage.items()},
        "total": state.total_usage.model_dump(),
        "mermaid": mermaid(sight.plan, sight.statuses) if sight.plan else "",
        "task_queue": sight.queue,
        "error": state.error,
        "url": url,
    }

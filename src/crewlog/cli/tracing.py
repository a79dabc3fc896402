"""`trace`: what a run did, step by step and call by call."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug, RunPlaceArgument
from crewlog.ids import ContentHash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crewlog.cli.traced import Traced
    from crewlog.client import Client
    from crewlog.ids import RunId
    from crewlog.model import Json
    from crewlog.reporting.trace.view import TraceView
    from crewlog.state.journal import JournalEntry

LOOK = "Look"


@app.command(rich_help_panel=LOOK)
def trace(
    run: RunPlaceArgument,
    step: Annotated[
        str | None,
        typer.Option(
            "--step",
            metavar="STEP",
            help="Only this step (writer#2, worker#1.3), or all visits to a node.",
            show_default=False,
        ),
    ] = None,
    other: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="RUN[@POSITION]",
            help="Compare with another run: where they part, and what is otherwise.",
            show_default=False,
        ),
    ] = None,
    changes: Annotated[
        bool, typer.Option("--changes", help="What each step changed in the state.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Whole arguments and results, from the store.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show what a run did: steps with times, inputs, calls, results, errors and questions."""
    return go(_trace(run, step, other, changes=changes, full=full, as_json=as_json), debug=debug)


async def _trace(
    run_id: str, step: str | None, other: str | None, *, changes: bool, full: bool, as_json: bool
) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.cli.traced import show_parting, show_trace  # noqa: PLC0415
    from crewlog.reporting.trace.comparison import trace_diff  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        if other is not None:
            one, two = await asyncio.gather(
                load_trace(client, run_id, step, whole=True),
                load_trace(client, other, step, whole=True),
            )
            if as_json:
                screen.document(trace_diff(one.trace, two.trace).model_dump(mode="json"))
            else:
                show_parting(screen, one, two, full=full)
            return exits.OK
        found = await load_trace(client, run_id, step, changes=changes)
        if full:
            found.bodies = await _bodies(client, found.trace)
            for call in (call for each in found.trace.all_steps() for call in each.calls):
                call.content = found.bodies.get(call.body) if call.body is not None else None
        if as_json:
            screen.document(found.trace.model_dump(mode="json"))
        else:
            show_trace(screen, found, full=full)
    return exits.OK


async def load_trace(
    client: Client,
    target: str,
    step: str | None,
    *,
    changes: bool = False,
    whole: bool = False,
    visited: set[RunId] | None = None,
) -> Traced:
    """A run's trace; where it is to be `whole`, with what a fork shares with its source.

    Args:
        client: The client.
        target: The run, or a place in it.
        step: Only this step, or the steps of this node.
        changes: Whether each step has its changes of the state.
        whole: Whether a fork has the steps that it shares with its source.
        visited: The runs whose traces are being made: see `merged_runs`.
    """
    from crewlog.cli.sight import see_at, whole_journal  # noqa: PLC0415
    from crewlog.cli.traced import Traced  # noqa: PLC0415
    from crewlog.client.merged_journals import merged_runs  # noqa: PLC0415
    from crewlog.ids import RunId  # noqa: PLC0415
    from crewlog.reporting.trace.builder import run_trace  # noqa: PLC0415
    from crewlog.reporting.trace.step_changes import changes_by_step  # noqa: PLC0415
    from crewlog.state.journal import entry_from_json  # noqa: PLC0415

    sight = await see_at(client, target)
    run_id, last = sight.run, sight.state.position if sight.at is not None else math.inf
    items = await whole_journal(client.run(run_id))
    entries = [(i.position, entry_from_json(i.data)) for i in items if i.position <= last]
    if whole:
        entries = [*await _shared(client, entries), *entries]
    reads = {name: r.reads for name, r in sight.plan.agents.items()} if sight.plan else {}
    found = run_trace(entries, reads)
    if step is not None:
        _only(found, step, run_id)
    found.pending = tuple(sight.pending)
    if step is None:
        visited = set() if visited is None else visited
        async for merged in merged_runs(client.run(run_id), (e for _, e in entries), visited):
            part = await load_trace(client, merged, step, changes=changes, visited=visited)
            found.merged_runs.append(part.trace)
    if changes:
        changed = changes_by_step(RunId(run_id), entries)
        for each in found.all_steps():
            each.changes = changed[each.step].changes if each.step in changed else None
    return Traced(sight, found)


async def _shared(
    client: Client, entries: Sequence[tuple[int, JournalEntry]]
) -> list[tuple[int, JournalEntry]]:
    """What came before a fork's own journal, in the runs that it comes from."""
    from crewlog.cli.sight import whole_journal  # noqa: PLC0415
    from crewlog.errors import RunNotFound  # noqa: PLC0415
    from crewlog.state.journal import RunForked, entry_from_json  # noqa: PLC0415

    first = entries[0][1] if entries else None
    if not isinstance(first, RunForked):
        return []
    try:
        items = await whole_journal(client.run(first.source))
    except RunNotFound:
        return []  # it was deleted: the fork has its state, and not how it came about
    before = [(i.position, entry_from_json(i.data)) for i in items if i.position <= first.to]
    return [*await _shared(client, before), *before]


def _only(found: TraceView, wanted: str, run_id: str) -> None:
    """Leaves only a step, or the visits to a node, in a trace.

    Raises:
        UsageError: there is no such step or node in it.
    """
    from crewlog.definition.findings import did_you_mean  # noqa: PLC0415
    from crewlog.errors import UsageError  # noqa: PLC0415

    known = list(found.all_steps())
    # A visit that a rollback brought back is there twice.
    found.steps = [s for s in known if s.step == wanted] or [
        s for s in found.steps if s.node == wanted
    ]
    if not found.steps:
        names: dict[str, None] = dict.fromkeys([*(s.step for s in known), *(s.node for s in known)])
        raise UsageError(
            f"the run {run_id!r} has no step {wanted!r}",
            remedy=did_you_mean(wanted, names, f"`crewlog trace {run_id}` shows them all."),
            place=f"run {run_id!r}",
        )
    found.events, found.interrupts = [], []


async def _bodies(client: Client, found: TraceView) -> Mapping[Any, Json]:
    """The messages of a trace that the store has: one that is missing is told by its start."""
    from crewlog.cli.texts import stored  # noqa: PLC0415
    from crewlog.reporting.trace.view import body_of  # noqa: PLC0415

    calls = [call for step in found.all_steps() for call in step.calls]
    wanted = {hash_ for call in calls for hash_ in (call.body, call.message) if hash_}
    sets = [value for step in found.all_steps() for value in step.values.values()]
    wanted |= {ContentHash(body) for value in sets if (body := body_of(value))}
    return await stored(client, wanted)

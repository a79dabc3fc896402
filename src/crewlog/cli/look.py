"""`ps`, `show`, `watch`, `log`: looking at runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug, RunArgument, RunPlaceArgument, Timeout, Wait

if TYPE_CHECKING:
    from crewlog.cli.screen import Part, Screen
    from crewlog.cli.sight import Sight
    from crewlog.client import Client, Run, RunSummary
    from crewlog.ids import RunId
    from crewlog.wire import EntryView

LOOK = "Look"
_STYLES = {
    "running": "cyan",
    "waiting": "bold yellow",
    "paused": "yellow",
    "stopping": "yellow",
    "completed": "green",
    "stopped": "yellow",
    "merged": "green",
    "retrying": "yellow",
}


MOST = 1000
"""Runs that `ps` lists at most."""


@app.command(rich_help_panel=LOOK)
def ps(
    all_: Annotated[bool, typer.Option("--all", "-a", help="Ended runs, too.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MOST, help="At most so many.")
    ] = 20,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List the runs that are under way.

    Without --all, the newest ended ones are shown where nothing is under way.
    """
    return go(_ps(all_=all_, limit=limit, as_json=as_json), debug=debug)


async def _ps(*, all_: bool, limit: int, as_json: bool) -> int:
    from crewlog.cli.background import LIVE, unpolled  # noqa: PLC0415
    from crewlog.cli.screen import Screen, counted  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        statuses = () if all_ else LIVE
        found = await client.list(statuses=statuses, limit=limit, pending=True)
        # Only a full page may leave some out.
        total = await client.count(statuses=statuses) if len(found) == limit else len(found)
        if as_json:
            alone = await unpolled(client, found)
            runs = [
                {
                    **asdict(each),
                    "status": _status(each, alone),
                    "waits_for_worker": _alone(each, alone),
                }
                for each in found
            ]
            fault = await client.store_fault()
            told = fault and {"message": fault.message, "remedy": fault.remedy}
            screen.document({"runs": runs, "total": max(total, len(found)), "store_fault": told})
            return exits.OK
        if not found and not all_:
            ended = await client.list(statuses=(), limit=min(limit, 5))
            if not ended:
                screen.line("No runs yet. ", ("Start one: crewlog run crew.yaml", "dim"))
                return exits.OK
            screen.line("Nothing is under way. ", ("The last runs:", "dim"))
            found = ended
        _table(screen, found, await unpolled(client, found))
        if total > len(found):
            more = f"{len(found):,} of {total:,} runs; -n {min(total, MOST)} shows more"
            screen.line(("  " + more, "dim"))
        elif all_:
            screen.line((f"  {counted(total, 'run')}", "dim"))
        await _tell_faults(screen, client, found)
    return exits.OK


async def _tell_faults(screen: Screen, client: Client, runs: Sequence[RunSummary]) -> None:
    """What is wrong with the store, as far as it can be read, and as far as the runs met it."""
    from crewlog.cli.presence import tell_stalled  # noqa: PLC0415
    from crewlog.cli.screen import plain  # noqa: PLC0415

    if (fault := await client.store_fault()) is not None:
        said = f"{plain(fault.message).rstrip('.')}. {plain(fault.remedy)}"
        screen.wrapped(["  ", ("! ", "bold yellow")], said, indent=4)
    for each in runs:
        for stalled in each.stalled:
            tell_stalled(screen, each.run, stalled)


def _alone(run: RunSummary, unpolled: set[str]) -> bool:
    """Whether a run is under way and no worker is there for it."""
    return run.ended is None and run.task_queue in unpolled


def _status(run: RunSummary, unpolled: set[str]) -> str:
    """What a run does; one that would run, were a worker there, waits."""
    return "waiting" if run.status == "running" and _alone(run, unpolled) else run.status


def _table(screen: Screen, runs: list[RunSummary], unpolled: set[str]) -> None:
    from crewlog.cli.delays import first_words  # noqa: PLC0415
    from crewlog.cli.screen import ago, lasted, plain  # noqa: PLC0415

    def status(each: RunSummary) -> str:
        return plain(_status(each, unpolled)) + (", no worker" if _alone(each, unpolled) else "")

    rows: list[list[Part]] = [
        [
            plain(each.run),
            (status(each), _STYLES.get(_status(each, unpolled), "red")),
            plain(each.crew) or "?",
            (ago(each.started), "dim"),
            (lasted(each.started, each.ended), "dim"),
        ]
        for each in runs
    ]
    screen.rows(("run", "status", "crew", "started", "took"), rows)
    for each in runs:
        if each.ended is None and (waits := each.wait_reason or first_words(each.pending)):
            screen.line("  ", (f"{plain(each.run)}: ", "dim"), (plain(waits), "dim"), crop=True)


@app.command(rich_help_panel=LOOK)
def show(
    run: RunPlaceArgument,
    changes: Annotated[
        bool, typer.Option("--changes", help="Only what was changed at run time, all of it.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show where a run is: its graph, what it does, what it waits for, what it made.

    Looking never moves a run: where no worker answers, the store is read.
    """
    return go(_show(run, changes=changes, as_json=as_json), debug=debug)


async def _changes(screen: Screen, client: Client, sight: Sight) -> None:
    """All changes that were made to a run while it lived."""
    from crewlog.cli.layers import mutations_of, show_mutations  # noqa: PLC0415

    found = await mutations_of(client.run(sight.run))
    if screen.as_json:
        told = [each.model_dump(mode="json") for each in found]
        screen.document({"run": sight.run, "mutations": told})
    else:
        show_mutations(screen, sight.state, found)


async def _show(target: str, *, changes: bool, as_json: bool) -> int:
    from crewlog.cli.layers import layers_json, recipe_of  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.cli.shown import show_run  # noqa: PLC0415
    from crewlog.cli.sight import as_json as sight_json  # noqa: PLC0415
    from crewlog.cli.sight import see_at  # noqa: PLC0415
    from crewlog.cli.told_breaks import breaks_of  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        sight = await see_at(client, target)
        if changes:
            await _changes(screen, client, sight)
            return exits.OK
        if as_json:
            recipe = await recipe_of(client, sight.state)
            data = sight_json(sight, client.url(sight.run))
            breaks = await breaks_of(client.run(sight.run), sight.state)
            data["asks_before"] = [asdict(each) for each in breaks]
            screen.document({**data, **layers_json(recipe, sight.state)})
        else:
            await show_run(screen, client, sight)
    return exits.OK


def _which(flag: str, metavar: str, help_: str) -> Any:
    """An option that may be repeated, and chooses events."""
    return typer.Option(
        flag, metavar=metavar, help=help_, show_default=False, rich_help_panel="Which events"
    )


@app.command(rich_help_panel=LOOK)
def watch(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN…", help="The runs' ids.", show_default=False),
    ] = None,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="POSITION", help="Begin after this position.")
    ] = 0,
    state: Annotated[
        bool, typer.Option("--state", help="Also what each checkpoint changed in the state.")
    ] = False,
    kind: Annotated[
        list[str] | None,
        _which("--kind", "KIND", "ToolCallCompleted, CREATURE_STARTED, TOPOLOGY_CHANGED:split, …"),
    ] = None,
    creature: Annotated[
        list[str] | None, _which("--creature", "AGENT", "Who does it, or whom it concerns.")
    ] = None,
    graph: Annotated[
        list[str] | None,
        _which("--graph", "RUN", "In these runs, or about them; no others are followed to."),
    ] = None,
    channel: Annotated[
        list[str] | None, _which("--channel", "CHANNEL", "What is said there, and wires there.")
    ] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Follow a run to its end, with what its models write; or several, or some of their events.

    Where the run's own worker has gone (Ctrl-C in `crewlog run`), this brings it one again. Where
    the run waits for people and nobody is here to answer, it leaves with exit code 3. With
    --json it prints an event a line; the last line is the result. Of several runs, or where events
    are chosen, it only looks: by time, and on into the runs that a run parts into or becomes a part
    of.
    """
    from crewlog.cli.following import watch_run  # noqa: PLC0415
    from crewlog.cli.watching import asked_for, watch_many  # noqa: PLC0415

    asked, chosen = asked_for(runs, kind, creature, graph, channel)
    if len(asked) == 1 and chosen.all:
        one = watch_run(
            asked[0], after=after, as_json=as_json, state=state, wait=wait, timeout=timeout
        )
        return go(one, debug=debug)
    many = watch_many(asked, chosen, after=after, state=state, timeout=timeout, as_json=as_json)
    return go(many, debug=debug)


@app.command(rich_help_panel=LOOK)
def log(
    run: RunArgument,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="POSITION", help="Begin after this position.")
    ] = 0,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="At most so many entries; 0 means all.")
    ] = 0,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Print a run's journal: every event, in order.

    Before each merge come the events of the merged run, with its id.

    Long values are shortened. With --json they are whole, an entry a line: {"position", "entry"}.
    """
    return go(_log(run, after=after, limit=limit, as_json=as_json), debug=debug)


async def _log(run_id: str, *, after: int, limit: int, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.cli.shown import journal_line  # noqa: PLC0415
    from crewlog.ids import RunId  # noqa: PLC0415
    from crewlog.reporting.events.view import event_of, event_view  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        run, start = client.run(run_id), 0
        if after:
            first = (await run.journal(0, 1)).entries
            start = first[0].data.get("at", 0) if first else 0
        events = read_with_merged_runs(run, after)
        printed = 0
        async for of, item in events:
            start = start or item.data.get("at", 0)
            if as_json:
                event = event_of(RunId(of), item.position, item.data)
                screen.record(event_view(event).model_dump(mode="json"))
            else:
                name = [] if of == run.id else [(f"{plain(of)} ", "dim")]
                screen.line(*name, *journal_line(item, start), crop=True)
            printed += 1
            if printed == limit:
                break
    return exits.OK


async def read_with_merged_runs(
    run: Run, after: int = 0, visited: set[RunId] | None = None
) -> AsyncIterator[tuple[str, EntryView]]:
    """The journal of a run after a position; before each merge, the journal of the merged run.

    Args:
        run: The run.
        after: The position.
        visited: The runs whose journals are being read: see `merged_runs`.
    """
    from crewlog.client.merged_journals import merged_runs  # noqa: PLC0415
    from crewlog.state.journal import entry_from_json  # noqa: PLC0415

    visited = set() if visited is None else visited
    while True:
        page = await run.journal(after, 500)
        for item in page.entries:
            if item.data.get("kind") == "RunMerged":
                async for merged in merged_runs(run, [entry_from_json(item.data)], visited):
                    async for each in read_with_merged_runs(run.sibling(merged), 0, visited):
                        yield each
            yield run.id, item
        if not page.entries or page.entries[-1].position >= page.position:
            return
        after = page.entries[-1].position

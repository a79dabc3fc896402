"""What `run`, `demo`, `watch` and `answer` share: a worker, the timeline, a way to leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from crewlog.cli import exits
from crewlog.cli.app import interrupted
from crewlog.cli.follow import Follower, Manner
from crewlog.cli.hands import Assignment, Hand, assigned, hand
from crewlog.cli.pictures import show_picture
from crewlog.cli.preflight import check_worker_can, scripted_note
from crewlog.cli.presence import Waits
from crewlog.cli.questions import answer_line, show_question
from crewlog.cli.screen import Part, Screen, plain
from crewlog.cli.services import connected
from crewlog.cli.topology import graph_after, plans_of
from crewlog.client import Client, Run
from crewlog.client.gateway import STATUS_NAMES
from crewlog.client.pending_calls import pending_calls
from crewlog.client.session import no_worker
from crewlog.client.stalled import stalled
from crewlog.client.starting import check_attached, check_before
from crewlog.definition.model import CrewDefinition
from crewlog.errors import CrewlogError, RunNotFound, StoreUnavailable
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.graph.wakes import unread_log_reason
from crewlog.ids import PUBLIC, ContentHash, CrewName, RunId
from crewlog.model import Json
from crewlog.state.journal import (
    GraphReplacement,
    RunForked,
    RunReopened,
    RunRolledBack,
    RunStarted,
    entry_from_json,
)
from crewlog.wire import EntryView


@dataclass(frozen=True)
class Start:
    """What `crewlog run` is to start."""

    crew: CrewDefinition | str
    """A definition, or a registered name."""
    directory: Path
    """Where the crew's code is."""
    input: Json = ""
    id: str | None = None
    by: str | None = None
    queue: str | None = None
    note: str = ""
    """A line about it, after the services."""
    file: Path | None = None
    """The crew's file, for the places of faults."""
    existing: Literal["reject", "attach", "replace"] = "reject"
    """What to do where there is a run of that id: `reject`, `attach` or `replace`."""
    files: tuple[Path, ...] = ()
    """Files that go with the input."""
    of_new: Mapping[str, object] = field(default_factory=dict[str, object])
    """What those options of the command say that a run takes which is not there yet."""


def header(screen: Screen, run: str, plan: GraphPlan, version: int = 1) -> None:
    """`crew flutter-music-app · run music-7f3a · graph v1`, and the picture."""
    screen.line("")
    screen.line(
        ("  crew ", "dim"),
        plain(plan.crew),
        (" · run ", "dim"),
        (run, "bold"),
        (f" · graph v{version}", "dim"),
    )
    screen.line("")
    show_picture(screen, plan)
    screen.line("")


async def start_and_follow(
    screen: Screen, start: Start, manner: Manner, *, tell: bool = False
) -> int:
    """Start a run, follow it to its end, and say how to come back if somebody leaves."""
    assignment = assign_for(start)
    async with (
        ready(screen, assignment, tell=tell) as client,
        hand(assignment) as lent,
    ):
        definition = await definition_of_start(client, start.crew)
        note = start.note or (scripted_note(definition) if definition else "")
        if note:
            screen.line(note)
        tell_unheard(screen, definition, start)
        run = await _started(client, start)
        _begun(screen, run, start, assignment)
        plan = lower(definition) if definition else None
        if plan:
            header(screen, run.id, plan)
        return await _follow(
            screen, client, run, assignment, lent, manner, plan=plan, file=start.file
        )


@asynccontextmanager
async def ready(
    screen: Screen, assignment: Assignment, *, tell: bool = False
) -> AsyncGenerator[Client]:
    """A client, and a store that answers where we bring the worker: without it, no run begins.

    Nor does one begin where rows of the store could not be read: its own would be the same.
    """
    async with connected(screen, queue=assignment.queue, both=True, tell=tell) as client:
        try:
            await client.store()
        except StoreUnavailable:
            if assignment.own:
                raise
        yield client


async def definition_of_start(client: Client, crew: CrewDefinition | str) -> CrewDefinition | None:
    """The definition that is started; of a registered name, what the store has."""
    if isinstance(crew, CrewDefinition):
        return crew
    try:
        store = await client.store()
        row = await store.get_crew(CrewName(crew))
        if row is None:
            return None
        return CrewDefinition.from_json(await store.get_definition(row.definition))
    except CrewlogError:
        return None


def tell_unheard(screen: Screen, crew: CrewDefinition | None, start: Start) -> None:
    """Warns that nobody has a turn for what a crew of creatures is started with."""
    if crew is None or not crew.lives or not start.input:
        return
    why, remedy = unread_log_reason(lower(crew), PUBLIC)
    if why:
        screen.note(("! ", "bold yellow"), f"nobody has a turn for the input: {plain(why)}")
        to = remedy.partition(": ")[2]
        said = f"say it to the run: crewlog message {start.id or 'RUN'} TEXT {to}"
        screen.note((f"    Name a root, graph: {{root: AGENT}}; or {plain(said)}", "dim"))


def assign_for(start: Start) -> Assignment:
    """Where the steps of a run that is to be started are done.

    Raises:
        InvalidDefinition: the command's own worker could not do them.
    """
    from crewlog.cli.hands import assign  # noqa: PLC0415

    assignment = assign(start.directory, start.queue)
    if assignment.own and isinstance(start.crew, CrewDefinition):
        check_worker_can(start.crew, assignment.directory, start.file)
    return assignment


async def start_and_leave(screen: Screen, start: Start) -> int:
    """Start a run and return: a worker in the background has it."""
    from crewlog.cli.background import background_worker, mention  # noqa: PLC0415

    assignment = assign_for(start)
    async with ready(screen, assignment) as client:
        if assignment.own:
            # Who may not start it is left no worker.
            await check_before(client, start.crew, start.input, id=start.id, by=start.by)
            mention(screen, await background_worker(assignment))
        tell_unheard(screen, await definition_of_start(client, start.crew), start)
        run = await _started(client, start)
        _begun(screen, run, start, assignment)
        await _mention(screen, client, assignment)
        crew = start.crew if isinstance(start.crew, str) else start.crew.crew
        screen.line(("  crew ", "dim"), plain(crew), (" · run ", "dim"), (run.id, "bold"))
        screen.line(
            ("  Return   ", "dim"), f"crewlog watch {run.id}", (f"     {run.url or ''}", "dim")
        )
    return exits.OK


async def _started(client: Client, start: Start) -> Run:
    """The run: a new one, or with `existing` the one that is there."""
    if start.existing == "attach" and start.id is not None and await is_there(client, start.id):
        check_attached(start.id, start.of_new)
    return await client.start(
        start.crew,
        start.input,
        id=start.id,
        by=start.by,
        existing=start.existing,
        files=start.files,
    )


async def is_there(client: Client, id: str) -> bool:
    """Whether there is a run of an id, open or ended."""
    try:
        await client.gateway.describe(client.run(id).id)
    except RunNotFound:
        return False
    return True


def _begun(screen: Screen, run: Run, start: Start, assignment: Assignment) -> None:
    if screen.as_json:
        crew = start.crew if isinstance(start.crew, str) else start.crew.crew
        screen.record(
            {
                "event": "started",
                "run": run.id,
                "crew": crew,
                "task_queue": assignment.queue,
                "own_worker": assignment.own,
                "url": run.url,
            }
        )


async def _mention(screen: Screen, client: Client, assignment: Assignment) -> None:
    """Mention that nobody polls the task queue of a run that is left to others."""
    from crewlog.cli.background import polled  # noqa: PLC0415

    if not assignment.comes and not await polled(client, assignment.queue):
        screen.note(("▸ ", "yellow"), no_worker(plain(assignment.queue)))


async def _follow(
    screen: Screen,
    client: Client,
    run: Run,
    assignment: Assignment,
    lent: Hand | None,
    manner: Manner,
    *,
    plan: GraphPlan | None,
    version: int = 1,
    after: int = 0,
    over: bool = False,
    file: Path | None = None,
) -> int:
    from crewlog.cli.background import polled  # noqa: PLC0415

    async def look() -> bool:
        worker = assignment.worker  # it may have been started only just now
        if worker is not None and worker.process.alive:
            return True
        return await polled(client, assignment.queue)

    async def stalls() -> Waits:
        told = await client.gateway.describe(run.id)
        calls = await pending_calls(client.gateway, run.id, told)
        waits = [call for call in calls if call.is_waiting]
        return Waits(await stalled(client.gateway, run.id, told), waits)

    follower = Follower(
        screen,
        run,
        nodes=plan.nodes if plan else (),
        manner=manner,
        hand=lent,
        directory=assignment.directory,
        polled=None if over or lent is not None else look,
        there=None if over else client.gateway.there,
        stalls=None if over else stalls,
        queue=assignment.queue,
        over=over,
        plans=plans_of(client, run),
        version=version,
        drawn=None if after else plan,
        file=file,
    )
    client.report = follower.report
    limit = asyncio.timeout(manner.timeout)
    try:
        async with limit:
            code = await follower.follow(after)
    except asyncio.CancelledError:
        left(screen, run, assignment, lent, follower)
        raise
    except TimeoutError:
        if not limit.expired():
            raise
        left(screen, run, assignment, lent, follower, over=manner.timeout)
        return exits.WAITS
    if code == exits.WAITS:
        if screen.as_json:
            asked = follower.question
            wait_reason = f"{asked.id}: {asked.question}" if asked is not None else ""
            told = {"event": "left", "run": run.id, "reason": "waits", "wait_reason": wait_reason}
            screen.record({**told, "exit_code": code})
        else:
            screen.line("")
            screen.line(
                ("  The run waits for an answer; nothing is lost. ", "dim"),
                f"crewlog show {run.id}",
            )
    return code


def left(
    screen: Screen,
    run: Run,
    assignment: Assignment,
    lent: Hand | None,
    follower: Follower,
    *,
    again: str = "watch",
    over: float | None = None,
) -> None:
    """What the run waits for or does after Ctrl-C, SIGTERM or a timeout, and how to return.

    Args:
        screen: Where it is told.
        run: The run.
        assignment: Who has its steps.
        lent: The command's own worker.
        follower: What was seen of the run.
        again: The command that returns to it.
        over: The timeout that is over; none where somebody left.
    """
    asked, wait_reason = follower.question, follower.wait_reason
    # An answer brings a worker: until then, none is missing.
    workless = asked is None and (lent is not None or follower.alone)
    if screen.as_json:
        screen.record(
            {
                "event": "left",
                "run": run.id,
                "reason": "interrupted" if over is None else "timeout",
                "wait_reason": f"{asked.id}: {asked.question}"
                if asked is not None
                else wait_reason,
                "waits_for_worker": lent is not None or follower.alone,
                "exit_code": interrupted() if over is None else exits.WAITS,
            }
        )
        return
    screen.line("")
    name: Part = (run.id, "bold")
    if over is not None:
        screen.line("  ", name, f" has not ended after {over:g} s.")
    if asked is not None:
        screen.wrapped(
            ["  ", name], f" waits for an answer to {asked.id}. Nothing is lost.", indent=4
        )
        show_question(screen, asked, run.id)
        screen.line("    ", *answer_line(run.id, asked))
        screen.line("")
    elif wait_reason:
        screen.wrapped(["  ", name], f" {plain(wait_reason)}. Nothing is lost.", indent=4)
    if workless:
        needs = "needs a worker, too" if wait_reason else "waits for a worker"
        alone = (
            no_worker(plain(assignment.queue)) if lent is None else "this command was the only one"
        )
        screen.line("  ", name, f" {needs}: {alone}. Nothing is lost.")
    elif asked is None and assignment.worker is not None:
        pid = assignment.worker.process.pid
        screen.line("  ", name, f" goes on: the worker in the background (pid {pid}) has it.")
    elif asked is None:
        screen.line(
            "  ", name, f" goes on with the workers of the task queue '{plain(assignment.queue)}'."
        )
    brings = "     (brings a worker; it goes on where it was)" if lent is not None else ""
    screen.line(("  Return   ", "dim"), f"crewlog {again} {run.id}", (brings, "dim"))
    screen.line(("  End      ", "dim"), f"crewlog stop {run.id}")


async def watch_run(
    run_id: str,
    *,
    after: int = 0,
    as_json: bool = False,
    state: bool = False,
    wait: bool = False,
    timeout: float | None = None,
) -> int:
    """Follow a run that is there; `crewlog watch`."""
    screen = Screen(as_json=as_json)
    manner = Manner(ask=screen.asks, leave=not wait, state=state, timeout=timeout)
    async with connected(screen, both=True) as client:
        return await follow_known(screen, client, run_id, after=after, manner=manner)


@dataclass(frozen=True)
class Brought:
    """A worker that the command has already."""

    assignment: Assignment
    hand: Hand | None


async def follow_known(
    screen: Screen,
    client: Client,
    run_id: str,
    *,
    manner: Manner,
    after: int = 0,
    brought: Brought | None = None,
) -> int:
    """Follow a run that is there, with a worker of our own where nobody else has its code."""
    run = client.run(run_id)
    description = None
    try:
        description = await client.gateway.describe(run.id)
    except RunNotFound:
        # The store may know what the server has forgotten.
        if not (await run.journal(0, 1)).entries:
            raise
    is_open = description is not None and (
        description.status is None or STATUS_NAMES.get(description.status) == "running"
    )
    assignment = assigned(description.task_queue if description else "")
    if brought is not None or not is_open:
        assignment = replace(assignment, own=False)
    async with hand(assignment) as own:
        lent = brought.hand if brought else own
        plan, version = await _plan_at(client, run, after, live=is_open)
        if plan and not after:
            header(screen, run.id, plan, version)
        return await _follow(
            screen,
            client,
            run,
            assignment,
            lent,
            manner,
            plan=plan,
            version=version,
            after=after,
            over=not is_open,
        )


async def _plan_at(
    client: Client, run: Run, after: int, *, live: bool
) -> tuple[GraphPlan | None, int]:
    """The graph that the run had after a position, and its version; else the one it has."""
    found: tuple[ContentHash, int] | None = None
    try:
        async for item in _until(run, max(after, 1)):
            entry = entry_from_json(item.data)
            if isinstance(entry, RunStarted):
                found = entry.definition, 1
            elif isinstance(entry, GraphReplacement | RunRolledBack | RunForked | RunReopened):
                found = graph_after(entry, 0) or found
    except CrewlogError:
        found = None
    plan = await plans_of(client, run)(found[0]) if found else None
    if found and plan:
        return plan, found[1]
    return await _plan_of(client, run, live=live), found[1] if found else 1


async def _until(run: Run, last: int) -> AsyncGenerator[EntryView]:
    """The journal up to a position."""
    after = 0
    while after < last and (page := await run.journal(after, min(last - after, 1000))).entries:
        for item in page.entries:
            yield item
        after = page.entries[-1].position


async def _plan_of(client: Client, run: Run, *, live: bool) -> GraphPlan | None:
    """The run's graph, for the header: from the store, else from the run."""
    try:
        store = await client.store()
        row = await store.get_run(RunId(run.id))
        if row is not None and row.definition:
            return lower(CrewDefinition.from_json(await store.get_definition(row.definition)))
        if live:
            plan = GraphPlan.from_json((await run.graph()).plan)
            return plan if plan.nodes else None  # a prompt that is not compiled yet has none
    except CrewlogError:
        pass
    return None

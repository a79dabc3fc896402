"""`change`: another graph, other agents, other rules for a run that lives."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, By, Debug, GraphVersion, RunArgument
from crewlog.errors import check_ineffective_options

if TYPE_CHECKING:
    from crewlog.cli.changes import Asked, Wanted
    from crewlog.cli.screen import Screen
    from crewlog.cli.sight import Sight
    from crewlog.client import Client, Run
    from crewlog.definition.operations import Operation
    from crewlog.wire import ChangeResult

WORKER_LIMIT = 40.0
"""Seconds for a worker of our own to come up and answer."""
NEVER = "never"
"""No definition's hash: a change that is to lead to it is refused."""
WHAT, HOW = "What changes", "How"


def _many(flag: str, metavar: str, help_: str) -> Any:
    """An option that may be repeated."""
    return typer.Option(flag, metavar=metavar, help=help_, show_default=False, rich_help_panel=WHAT)


@app.command(rich_help_panel="Talk")
def change(
    run: RunArgument,
    prompt: Annotated[
        str | None, _many("--prompt", "FILE|TEXT", "A prompt that says all that the crew is to be.")
    ] = None,
    definition: Annotated[
        str | None, _many("--definition", "FILE|NAME", "A crew's file, or a registered crew.")
    ] = None,
    add_agent: Annotated[
        list[str] | None,
        _many("--add-agent", "NAME=…", "An agent: a file, YAML in a line, or its prompt."),
    ] = None,
    after: Annotated[
        list[str] | None,
        _many("--after", "PHASE", "What added agents come after; by default they come last."),
    ] = None,
    before: Annotated[
        list[str] | None, _many("--before", "PHASE", "What waits for the added agents.")
    ] = None,
    add_tool: Annotated[
        list[str] | None,
        _many("--add-tool", "NAME=…", "A tool: a file, YAML in a line, or module:function."),
    ] = None,
    tools_for: Annotated[
        list[str] | None, _many("--for", "AGENT", "Who gets the added tools.")
    ] = None,
    remove: Annotated[
        list[str] | None,
        _many("--remove", "AGENT", "What waited for it waits for what it waited for."),
    ] = None,
    disable: Annotated[
        list[str] | None, _many("--disable", "AGENT", "Its phases stay, and are skipped.")
    ] = None,
    enable: Annotated[list[str] | None, _many("--enable", "AGENT", "It takes part again.")] = None,
    edit: Annotated[
        list[str] | None,
        _many(
            "--edit",
            "PATH=VALUE",
            "agent.NAME.field, tool.NAME.field, phase.NAME.field or crew.field; null puts the "
            "default back. A prompt or a task may be a file.",
        ),
    ] = None,
    operations: Annotated[
        Path | None, _many("--operations", "FILE", "A YAML list of operations.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only show what it would do.", rich_help_panel=HOW),
    ] = False,
    abandon: Annotated[
        bool,
        typer.Option("--abandon", help="Cut off the turns of agents that go.", rich_help_panel=HOW),
    ] = False,
    drain_timeout: Annotated[
        str | None,
        typer.Option(
            "--drain-timeout",
            metavar="30s",
            help="How long calls under way are waited for; then they are made again.",
            show_default=False,
            rich_help_panel=HOW,
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask first.", rich_help_panel=HOW)
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait", help="Wait until the run has the graph.", rich_help_panel=HOW
        ),
    ] = True,
    registry: Annotated[
        str,
        typer.Option("--registry", metavar="NAME", help="Of a prompt.", rich_help_panel=HOW),
    ] = "",
    reader: Annotated[
        str,
        typer.Option(
            "--reader",
            metavar="READER",
            help="Of a prompt: auto, forms or model.",
            rich_help_panel=HOW,
        ),
    ] = "auto",
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Of a prompt: the model that reads it and that its crew uses, where the prompt "
            "names none.",
            rich_help_panel=HOW,
        ),
    ] = "",
    reason: Annotated[
        str, typer.Option("--reason", "-r", metavar="TEXT", help="Why.", rich_help_panel=HOW)
    ] = "",
    by: By = None,
    graph_version: GraphVersion = None,
    command_id: Annotated[
        str | None,
        typer.Option(
            "--command-id",
            "--id",
            metavar="ID",
            help="The command's own id: sent again, it has no second effect.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Change a run while it lives: by a prompt, by a definition, or piece by piece.

    At a terminal it shows what the change would do, and asks. Several single changes are one
    change. What is under way finishes first; nothing is lost and nothing is done twice.
    """
    from crewlog.cli.changes import Asked  # noqa: PLC0415

    if prompt is None:
        of_prompt = {"--registry": registry, "--reader": reader != "auto", "--model": model}
        remedy = "Leave it out; --edit model=NAME changes the model of a crew."
        check_ineffective_options(
            "crewlog change", of_prompt, "nothing is compiled without --prompt", remedy
        )
    asked = Asked(
        prompt=prompt,
        definition=definition,
        operations=operations,
        add_agent=add_agent or (),
        after=after or (),
        before=before or (),
        add_tool=add_tool or (),
        tools_for=tools_for or (),
        edit=edit or (),
        enable=enable or (),
        disable=disable or (),
        remove=remove or (),
    )
    how: dict[str, Any] = {
        "registry": registry,
        "reader": _reader(reader),
        "model": model,
        "running": "abandon" if abandon else "finish",
        "drain_timeout": _seconds(drain_timeout),
        "reason": reason,
        "by": by,
        "graph_version": graph_version,
    }
    return go(
        _change(
            run,
            asked,
            how,
            dry_run=dry_run,
            yes=yes,
            wait=wait,
            command_id=command_id,
            as_json=as_json,
        ),
        debug=debug,
    )


def _reader(typed: str) -> Literal["auto", "forms", "model"]:
    from crewlog.errors import UsageError  # noqa: PLC0415

    match typed:
        case "auto" | "forms" | "model":
            return typed
        case _:
            raise UsageError(f"no reader is called {typed!r}", remedy="auto, forms or model.")


def _seconds(typed: str | None) -> float | None:
    from crewlog.definition.model import parse_duration  # noqa: PLC0415
    from crewlog.errors import UsageError  # noqa: PLC0415

    if typed is None:
        return None
    try:
        return parse_duration(float(typed) if typed.replace(".", "", 1).isdigit() else typed)
    except ValueError as error:
        raise UsageError(f"--drain-timeout {typed!r}: {error}", remedy="E.g. 30s.") from None


async def _change(run_id: str, asked: Asked, how: dict[str, Any], **rest: Any) -> int:
    from crewlog.cli.changes import wanted  # noqa: PLC0415

    return await make_change(run_id, wanted(asked), how, **rest)


async def make_change(
    run_id: str,
    typed: Wanted,
    how: dict[str, Any],
    *,
    dry_run: bool,
    yes: bool,
    command_id: str | None,
    as_json: bool,
    wait: bool = True,
) -> int:
    """Shows what a change would do, asks where somebody is there to say yes, and makes it.

    Args:
        run_id: The run.
        typed: The change.
        how: What `Run.change` takes besides: who, why, the version that it was decided for (none:
            the one that the run has now), and how what is under way ends.
        dry_run: Whether it is only shown.
        yes: Whether nobody is asked.
        command_id: The command's own id.
        as_json: Whether a program reads.
        wait: Whether to wait until the run has the graph.
    """
    from crewlog.cli.leading import check_meant, led_to  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    what: dict[str, Any] = {
        "prompt": typed.prompt,
        "definition": typed.definition,
        "operations": typed.operations,
        **how,
    }
    screen = Screen(as_json=as_json)

    async def use(run: Run, sight: Sight) -> int:
        from crewlog.cli.change_terms import in_terms_of  # noqa: PLC0415
        from crewlog.cli.changed import tell_change, tell_warnings  # noqa: PLC0415
        from crewlog.cli.told_graphs import tell_graphs  # noqa: PLC0415
        from crewlog.client.run import new_command_id  # noqa: PLC0415

        if not as_json:
            await mention_alone(screen, client, sight.queue)
        seen: ChangeResult | None = None
        if command_id is None or command_id not in sight.state.commands:
            with in_terms_of(typed.places, run.id):
                seen = await _preview(run, sight, what, dry_run=dry_run)
            asks = screen.asks and not yes
            ended = _decide(screen, run.id, sight, seen, dry_run=dry_run, asks=asks)
            if ended is not None:
                return ended
            if seen is not None:
                what.update(_preconditions(sight, seen))
        # One id, however often it is sent: whoever is told of it may send it again, too.
        identity = command_id or new_command_id()
        with in_terms_of(typed.places, run.id):
            changed: ChangeResult = await patiently(
                lambda: run.change(**what, wait=False, id=identity)
            )
        more: dict[str, Any] = {}
        if wait:
            more = await _come_about(screen, client, run, changed, sight.queue)
        if as_json:
            document = {**changed.model_dump(mode="json", exclude={"plan"}), **more}
            screen.document({"event": "changed", "run": run.id, "waited": wait, **document})
        else:
            tell_change(screen, run.id, changed, waited=wait, operations=typed.operations)
            tell_graphs(screen, run.id, changed, seen, sight.plan)
            tell_warnings(screen, changed.report, shown=screen.asks and not yes)
            await _questions(screen, run)
        return exits.OK

    async with connected(screen, both=True) as client:
        found = await led_to(screen, client, run_id)
        check_meant(run_id, found, typed.operations)
        async with AsyncExitStack() as helping:
            await _with_others(screen, client, typed.operations, None if dry_run else helping)
            return await with_worker(client, found.run.id, use)


def _decide(
    screen: Screen,
    run_id: str,
    sight: Sight,
    seen: ChangeResult | None,
    *,
    dry_run: bool,
    asks: bool,
) -> int | None:
    """Shows a change and asks whether to make it; returns the exit code, or none to make it.

    Args:
        screen: Where it is shown.
        run_id: The run.
        sight: The run as it was seen.
        seen: What the change would do; none: it waits for the pending change.
        dry_run: Whether it is only shown.
        asks: Whether the user is asked.
    """
    from crewlog.cli.changed import show_change  # noqa: PLC0415
    from crewlog.cli.screen import plain  # noqa: PLC0415

    if seen is None:
        pending = sight.state.pending_change
        if pending is not None and not screen.as_json:
            first = plain(pending.what or pending.command)
            screen.line(f"  Another change is pending, to graph v{pending.graph_version}: {first}.")
            screen.line("  This one waits for it, also after Ctrl-C, and has no preview.")
    elif not seen.swap and seen.definition == sight.state.definition and not dry_run:
        return _unchanged(screen, run_id, seen)
    elif dry_run and screen.as_json:
        screen.document({"event": "dry_run", "run": run_id, **seen.model_dump(mode="json")})
    elif dry_run or asks:
        show_change(screen, sight, seen)
    if dry_run:
        return exits.OK
    if asks and not agreed(screen):
        screen.line("  Nothing was changed.")
        return exits.STOPPED
    return None


def _preconditions(sight: Sight, seen: ChangeResult) -> dict[str, Any]:
    """What must hold for a change, so that only what was shown comes about."""
    topology = seen.report.component_change if seen.report is not None else None
    # The definitions of a split name ids of the command's own.
    is_split = topology is not None and topology.kind == "split"
    return {
        "graph_version": sight.state.graph_version,
        **({} if is_split else {"expect": seen.definition}),
    }


async def _come_about(
    screen: Screen, client: Client, run: Run, changed: ChangeResult, queue: str
) -> dict[str, Any]:
    """Waits until the run has the graph, or is one with the other run.

    Returns:
        Of two that became one: the run that both are, and the version of its graph.
    """
    from crewlog.cli.draining import drained  # noqa: PLC0415

    if changed.swap:
        await drained(screen, client, run, changed, queue)
    if not changed.merge:
        return {}
    into = await run.merged(changed)
    version = (await client.run(into).status()).graph_version
    return {"into": into, "graph_version": version}


async def helped(
    screen: Screen, client: Client, other: str, queue: str, helping: AsyncExitStack | None
) -> None:
    """Sees to it that a run which a change asks can answer, or says that nobody works on it.

    Args:
        screen: Where that is said.
        client: A client of the server.
        other: The run.
        queue: Its task queue.
        helping: What ends with the command: a worker of our own, where the run needs one and we
            may bring it. None: nothing is asked of the run.
    """
    from crewlog.cli.background import polled  # noqa: PLC0415
    from crewlog.cli.hands import assigned, hand  # noqa: PLC0415
    from crewlog.cli.screen import plain  # noqa: PLC0415
    from crewlog.client.session import no_worker  # noqa: PLC0415

    assignment = assigned(queue)
    if assignment.worker is not None or await polled(client, queue):
        return
    if not assignment.own:
        said = f"{plain(other)} cannot answer: {no_worker(plain(queue))}"
        screen.note(("▸ ", "yellow"), said)
    elif helping is not None:
        await helping.enter_async_context(hand(assignment))


async def _with_others(
    screen: Screen,
    client: Client,
    operations: Iterable[Operation],
    helping: AsyncExitStack | None,
) -> None:
    """The same for all runs that a change names besides its own."""
    for other, queue in await _others(client, operations):
        await helped(screen, client, other, queue, helping)


async def _others(client: Client, operations: Iterable[Operation]) -> list[tuple[str, str]]:
    """The runs that a change names besides its own and that have not ended, with their task queues.

    Raises:
        RunNotFound: neither the server nor the store knows one.
    """
    from crewlog.errors import RunNotFound  # noqa: PLC0415

    found: list[tuple[str, str]] = []
    for other in (getattr(each, "other", None) for each in operations):
        if other is None:
            continue
        try:
            told = await client.gateway.describe(other)
            if told.close_time is None:
                found.append((other, told.task_queue))
        except RunNotFound as error:
            if await (await client.store()).get_run(other) is None:
                remedy = "`crewlog graphs` lists those that there are."
                raise RunNotFound(error.message, remedy=remedy, place="--with") from error
    return found


def _unchanged(screen: Screen, run_id: str, seen: ChangeResult) -> int:
    """Tells that the crew is already as it would be: nothing is asked and nothing is recorded."""
    from crewlog.cli.screen import plain  # noqa: PLC0415

    if screen.as_json:
        told = seen.model_dump(mode="json", exclude={"plan", "report"})
        screen.document({"event": "unchanged", "run": run_id, **told})
    else:
        screen.line(f"  That changes nothing: {plain(run_id)} is like that already.")
    return exits.OK


async def _preview(
    run: Run, sight: Sight, what: dict[str, Any], *, dry_run: bool
) -> ChangeResult | None:
    """What the change would do to the run; none: it waits for the pending change.

    Raises:
        CrewlogError: the change is refused, or only a preview is asked for while another change is
            pending.
    """
    from crewlog.errors import ChangeConflict  # noqa: PLC0415

    try:
        return await _looked_at(run, sight, what, on_record=not dry_run)
    except ChangeConflict:
        if dry_run or what["graph_version"] or sight.state.pending_change is None:
            raise
        return None


async def _looked_at(
    run: Run, sight: Sight, what: dict[str, Any], *, on_record: bool
) -> ChangeResult:
    """What the change would do to the run as it was seen.

    Args:
        run: The run.
        sight: The run as it was seen.
        what: The change, with the version that it was decided for; none: as it was seen.
        on_record: Whether a refusal is to be in the run's journal: dry runs leave no trace. Not
            where a model would read a prompt again for it.
    """
    from crewlog.client.run import new_command_id  # noqa: PLC0415
    from crewlog.errors import (  # noqa: PLC0415
        ChangeConflict,
        CommandRejected,
        CrewlogError,
        NotPermitted,
    )

    identity = new_command_id()
    version = what["graph_version"] or sight.state.graph_version
    asked: dict[str, Any] = {**what, "graph_version": version}
    try:
        found: ChangeResult = await patiently(
            lambda: run.change(**asked, dry_run=True, id=identity)
        )
    except (ChangeConflict, NotPermitted):  # it may succeed later; or the journal has it
        raise
    except CommandRejected:
        if on_record and not what.get("prompt"):
            # Nothing comes out that has this hash: whatever happens meanwhile, it has no effect.
            with suppress(CrewlogError):
                await run.change(**asked, expect=NEVER, wait=False, id=new_command_id())
        raise
    return found


async def with_worker(
    client: Client, run_id: str, use: Callable[[Run, Sight], Awaitable[int]]
) -> int:
    """Uses a run, with a worker of our own where it needs one and we may bring it."""
    from crewlog.cli.background import polled  # noqa: PLC0415
    from crewlog.cli.hands import assigned, hand  # noqa: PLC0415
    from crewlog.cli.sight import see  # noqa: PLC0415
    from crewlog.errors import CommandRejected  # noqa: PLC0415

    sight = await see(client, run_id)
    if sight.over:
        remedy = f"Its graph stays as it is: crewlog show {run_id}"
        if into := sight.state.surviving_run:
            remedy = f"It is part of {into} by now: name that run."
        elif sight.status != "completed" or sight.state.idle is not None:
            remedy = f"`crewlog resume {run_id}` takes it up again: then it can be changed."
        raise CommandRejected(
            f"the run {run_id!r} has ended: it is {sight.status}",
            remedy=remedy,
            place=f"run {run_id!r}",
        )
    run = client.run(run_id)
    assignment = assigned(sight.queue)
    if not assignment.own or await polled(client, sight.queue):
        return await use(run, sight)
    async with hand(assignment):
        return await use(run, sight)


async def mention_alone(screen: Screen, client: Client, queue: str) -> None:
    """Says that nobody polls the task queue: a command waits for a worker for a while.

    Not of a queue whose worker the command brings, or that has been started on this machine: that
    one comes to it.
    """
    from crewlog.cli.background import polled  # noqa: PLC0415
    from crewlog.cli.hands import assigned  # noqa: PLC0415
    from crewlog.cli.screen import plain  # noqa: PLC0415
    from crewlog.client.session import no_worker  # noqa: PLC0415

    if assigned(queue).comes or await polled(client, queue):
        return
    screen.note(("▸ ", "yellow"), no_worker(plain(queue)))


async def patiently(send: Callable[[], Awaitable[Any]]) -> Any:
    """What a command gives; a worker that has just been started may take a moment."""
    from crewlog.errors import WorkerMissing  # noqa: PLC0415

    deadline = time.monotonic() + WORKER_LIMIT
    while True:
        try:
            return await send()
        except WorkerMissing:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


def agreed(screen: Screen, question: str = "Change it?") -> bool:
    """Whether whoever is at the terminal says yes."""
    screen.out.print(f"  {question} [y/N] ", end="", soft_wrap=True)
    try:
        return input().strip().lower() in {"y", "yes"}
    except EOFError:
        return False


async def _questions(screen: Screen, run: Run) -> None:
    """What the run asks now: a change may leave something open."""
    from crewlog.cli.questions import answer_line  # noqa: PLC0415
    from crewlog.cli.screen import plain  # noqa: PLC0415
    from crewlog.errors import CrewlogError  # noqa: PLC0415

    try:
        questions = await run.interrupts()
    except CrewlogError:
        return  # it has ended, or nobody answers any more: the change was told
    for question in questions:
        screen.line("  ", ("? ", "yellow"), plain(question.question))
        screen.line("    ", *answer_line(run.id, question))

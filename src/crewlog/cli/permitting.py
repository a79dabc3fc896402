"""`permissions`, `why`, `allow`, `deny`, `inherit`, `disable-tool`, `enable-tool`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import (
    AsJson,
    By,
    CommandIdOption,
    Debug,
    GraphVersion,
    Reason,
    RunArgument,
    parameters,
    takes,
)

if TYPE_CHECKING:
    from crewlog.cli.screen import Screen
    from crewlog.client import Run
    from crewlog.wire import PermissionView

AUTHORITY = "Authority"
EVERYONE = "*"
Do = Literal["allow", "ask", "deny", "inherit"]
"""What people rule; `inherit` takes it back."""

AgentArgument = Annotated[
    str,
    typer.Argument(
        metavar="AGENT", help="The agent; '*' is every one that has the tool.", show_default=False
    ),
]
ToolArgument = Annotated[str, typer.Argument(metavar="TOOL", help="The tool.", show_default=False)]


@app.command(rich_help_panel=AUTHORITY)
def permissions(
    run: RunArgument,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent", metavar="NAME", help="Only this agent; may be repeated.", show_default=False
        ),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            "--tool", metavar="NAME", help="Only this tool; may be repeated.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Who may call which tool now, and why: agents, tools, and the reason for every cell.

    What people set at run time is marked, with who did. A run that has ended is read from the
    store: it is as it was at its end.
    """
    return go(_permissions(run, agent or [], tool or [], as_json=as_json), debug=debug)


async def _permissions(run_id: str, agents: list[str], tools: list[str], *, as_json: bool) -> int:
    from crewlog.cli.matrix import show_matrix  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.reporting.permission_matrix.view import permission_matrix_view  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        view = permission_matrix_view(await client.run(run_id).permissions(agents, tools))
    if as_json:
        screen.document(view.model_dump(mode="json"))
    else:
        show_matrix(screen, view, whole=bool(tools))
    return exits.OK


@app.command(rich_help_panel=AUTHORITY)
def why(
    run: RunArgument,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent.", show_default=False)],
    tool: ToolArgument,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Why an agent may call a tool, or may not: every rule that was looked at.

    Which one decided, what is left of quotas, and what one can do about it.
    """
    return go(_why(run, agent, tool, as_json=as_json), debug=debug)


async def _why(run_id: str, agent: str, tool: str, *, as_json: bool) -> int:
    from crewlog.cli.matrix import show_why  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.reporting.permission_matrix.view import permission_explanation  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        page = await client.run(run_id).permissions([agent], [tool], checks=True)
    view = permission_explanation(page)
    if as_json:
        screen.document(view.model_dump(mode="json"))
    else:
        show_why(screen, view)
    return exits.OK


class Command(NamedTuple):
    """What every ruling has besides what it is about."""

    reason: str = ""
    by: str | None = None
    graph_version: int | None = None
    command_id: str | None = None


class Place(NamedTuple):
    """What is ruled of."""

    run: str
    agent: str
    tool: str


def _rules(
    do: Do, name: str | None = None
) -> Callable[[Callable[..., Place]], Callable[..., Place]]:
    """Makes a command that rules: its own arguments, and then the options that all of them have.

    Args:
        do: What is ruled.
        name: The command's name, where it is not the function's.
    """

    def made(place: Callable[..., Place]) -> Callable[..., Place]:
        own = parameters(place)

        def command(**given: Any) -> int:
            about = place(**{each.name: given.pop(each.name) for each in own})
            debug, as_json = given.pop("debug"), given.pop("as_json")
            return go(ruled(*about, do, Command(**given), as_json=as_json), debug=debug)

        takes(command, (*own, *parameters(_options)), place.__doc__)
        app.command(name=name or place.__name__, rich_help_panel=AUTHORITY)(command)
        return place

    return made


def _options(
    reason: Reason = "",
    by: By = None,
    graph_version: GraphVersion = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """The options of all commands that rule."""


@_rules("allow")
def allow(run: RunArgument, agent: AgentArgument, tool: ToolArgument) -> Place:
    """Let an agent call a tool of the crew, whatever the definition says, from now on.

    It holds from the next call on, without a swap. Quotas count all the same, and an agent that
    works for another one never may more than that.
    """
    return Place(run, agent, tool)


@_rules("deny")
def deny(run: RunArgument, agent: AgentArgument, tool: ToolArgument) -> Place:
    """Let an agent not call a tool, whatever the definition says, from now on.

    A call that is waiting to be made is refused, too; one that has begun goes on.
    """
    return Place(run, agent, tool)


@_rules("inherit")
def inherit(run: RunArgument, agent: AgentArgument, tool: ToolArgument) -> Place:
    """Take back what was said of an agent and a tool: what the definition says holds again."""
    return Place(run, agent, tool)


@_rules("deny", "disable-tool")
def disable_tool(run: RunArgument, tool: ToolArgument) -> Place:
    """Switch a tool off for every agent of a run, from the next call on."""
    return Place(run, EVERYONE, tool)


@_rules("inherit", "enable-tool")
def enable_tool(run: RunArgument, tool: ToolArgument) -> Place:
    """Switch a tool on again: what the definition says of it holds again."""
    return Place(run, EVERYONE, tool)


async def ruled(
    run_id: str,
    agent: str,
    tool: str,
    do: Do,
    command: Command,
    *,
    as_json: bool,
) -> int:
    """Rules of an agent's calls of a tool, and tells what holds now where it is something else.

    Args:
        run_id: The run.
        agent: The agent; `*`: every one.
        tool: The tool.
        do: What is ruled.
        command: Who rules, and why.
        as_json: Whether a program reads.
    """
    from crewlog.cli.editing import sent  # noqa: PLC0415

    async def then(screen: Screen, run: Run) -> None:
        found = await run.permissions([] if agent == EVERYONE else [agent], [tool])
        _tell(screen, run_id, do, list(found.cells))

    return await sent(
        run_id,
        "set_permission",
        lambda run, id_: run.rule(
            agent,
            tool,
            do,
            reason=command.reason,
            by=command.by,
            graph_version=command.graph_version,
            id=id_,
        ),
        command_id=command.command_id,
        as_json=as_json,
        then=then,
    )


def _tell(screen: Screen, run: str, do: str, cells: list[PermissionView]) -> None:
    """What holds now, where the ruling alone does not say it."""
    from crewlog.cli.matrix import cell_line  # noqa: PLC0415

    for cell in cells:
        told = cell.has_tool or cell.live_permission is not None or len(cells) == 1
        if told and (do == "inherit" or cell.outcome != do):
            cell_line(screen, cell)
    if not any(cell.has_tool or cell.live_permission for cell in cells):
        tool = cells[0].tool if cells else ""
        screen.line("  ", (f"No agent has {tool}. ", "dim"), f"crewlog allow {run} AGENT {tool}")

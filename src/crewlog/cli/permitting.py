"""`permissions`, `why`, `allow`, `deny`, `inherit`, `disable-tool`, `enable-tool`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, By, CommandIdOption, Debug, RunArgument

if TYPE_CHECKING:
    from crewlog.cli.screen import Screen
    from crewlog.client import Run
    from crewlog.graph.matrix import Cell

AUTHORITY = "Authority"
EVERYONE = "*"

Reason = Annotated[
    str, typer.Option("--reason", "-r", metavar="TEXT", help="Why; it is kept in the journal.")
]
AgentArgument = Annotated[
    str,
    typer.Argument(
        metavar="AGENT", help="The agent; '*' is every one that has the tool.", show_default=False
    ),
]
ToolArgument = Annotated[str, typer.Argument(metavar="TOOL", help="The tool.", show_default=False)]
Version = Annotated[
    int | None,
    typer.Option(
        "--graph-version",
        metavar="N",
        min=1,
        help="The version that this was decided for: where the run has another one, it refuses.",
        show_default=False,
    ),
]


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

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        page = await client.run(run_id).permissions(agents, tools)
    if as_json:
        screen.document(page.model_dump(mode="json", exclude={"cells": {"__all__": {"looks"}}}))
    else:
        show_matrix(screen, page, whole=bool(tools))
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
    from crewlog.cli.matrix import remedies, show_why  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        run = client.run(run_id)
        page = await run.permissions([agent], [tool], looks=True)
    cell = page.cells[0]
    if as_json:
        told = [{"command": command, "does": does} for command, does in remedies(run_id, cell)]
        screen.document({"run": run_id, **cell.model_dump(mode="json"), "remedies": told})
    else:
        show_why(screen, page, cell)
    return exits.OK


@app.command(rich_help_panel=AUTHORITY)
def allow(
    run: RunArgument,
    agent: AgentArgument,
    tool: ToolArgument,
    reason: Reason = "",
    by: By = None,
    graph_version: Version = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Let an agent call a tool of the crew, whatever the definition says, from now on.

    It holds from the next call on, without a swap. Quotas count all the same, and an agent that
    works for another one never may more than that.
    """
    who = Command(reason, by, graph_version, command_id)
    return go(ruled(run, agent, tool, "allow", who, as_json=as_json), debug=debug)


@app.command(rich_help_panel=AUTHORITY)
def deny(
    run: RunArgument,
    agent: AgentArgument,
    tool: ToolArgument,
    reason: Reason = "",
    by: By = None,
    graph_version: Version = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Let an agent not call a tool, whatever the definition says, from now on.

    A call that is waiting to be made is refused, too; one that has begun goes on.
    """
    who = Command(reason, by, graph_version, command_id)
    return go(ruled(run, agent, tool, "deny", who, as_json=as_json), debug=debug)


@app.command(rich_help_panel=AUTHORITY)
def inherit(
    run: RunArgument,
    agent: AgentArgument,
    tool: ToolArgument,
    reason: Reason = "",
    by: By = None,
    graph_version: Version = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Take back what was said of an agent and a tool: what the definition says holds again."""
    who = Command(reason, by, graph_version, command_id)
    return go(ruled(run, agent, tool, "inherit", who, as_json=as_json), debug=debug)


@app.command(name="disable-tool", rich_help_panel=AUTHORITY)
def disable_tool(
    run: RunArgument,
    tool: ToolArgument,
    reason: Reason = "",
    by: By = None,
    graph_version: Version = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Switch a tool off for every agent of a run, from the next call on."""
    who = Command(reason, by, graph_version, command_id)
    return go(ruled(run, EVERYONE, tool, "deny", who, as_json=as_json), debug=debug)


@app.command(name="enable-tool", rich_help_panel=AUTHORITY)
def enable_tool(
    run: RunArgument,
    tool: ToolArgument,
    reason: Reason = "",
    by: By = None,
    graph_version: Version = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Switch a tool on again: what the definition says of it holds again."""
    who = Command(reason, by, graph_version, command_id)
    return go(ruled(run, EVERYONE, tool, "inherit", who, as_json=as_json), debug=debug)


class Command:
    """What every command of this kind has."""

    def __init__(
        self, reason: str, by: str | None, graph_version: int | None, command_id: str | None
    ) -> None:
        self.reason = reason
        self.by = by
        self.graph_version = graph_version
        self.command_id = command_id


async def ruled(
    run_id: str,
    agent: str,
    tool: str,
    do: Literal["allow", "ask", "deny", "inherit"],
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


def _tell(screen: Screen, run: str, do: str, cells: list[Cell]) -> None:
    """What holds now, where the ruling alone does not say it."""
    from crewlog.cli.matrix import cell_line  # noqa: PLC0415

    for cell in cells:
        told = cell.has or cell.set is not None or len(cells) == 1
        if told and (do == "inherit" or cell.outcome != do):
            cell_line(screen, cell)
    if not any(cell.has or cell.set for cell in cells):
        tool = cells[0].tool if cells else ""
        screen.line("  ", (f"No agent has {tool}. ", "dim"), f"crewlog allow {run} AGENT {tool}")

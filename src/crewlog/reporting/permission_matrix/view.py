"""The permission matrix and one of its cells as typed views."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from crewlog.definition.model import GROUP_TOOLS, SEND_MESSAGE
from crewlog.definition.quotas import quota_of
from crewlog.ids import AgentName, RunId, ToolName
from crewlog.model import Model
from crewlog.wire import PermissionsPage, PermissionView

_KEYS_OF_TOOLS = {
    "set_flag": ("writes_flags=[FLAG]", "an agent with writes_flags has the tool"),
    "set_output": ("outputs=[NAME]", "an agent with outputs has the tool"),
    SEND_MESSAGE: ("send=[CHANNEL]", "an agent with channels to send to has the tool"),
    **dict.fromkeys(GROUP_TOOLS, ("privileged=true", "a privileged agent has the tool")),
}
"""Tools that no permission gives: the key that does, and its effect."""


class PermissionMatrixView(Model):
    """The permission matrix of a run, row by row."""

    run: RunId
    crew: str
    graph_version: int
    position: int
    """The journal position."""
    agents: tuple[AgentName, ...]
    """All agents of the run."""
    remote_agents: dict[AgentName, RunId] = Field(default_factory=dict[AgentName, RunId])
    """Remote agents, with the runs that a split moved them to."""
    tools: tuple[ToolName, ...]
    """All tools that agents of the crew may have."""
    cells: tuple[PermissionView, ...]
    """The requested cells, without their checks."""
    live: bool
    """Whether the run answered. If not, this is from the store."""


class RemedyView(Model):
    """A command that changes a permission."""

    command: str
    """The command: `crewlog allow RUN AGENT TOOL`."""
    effect: str
    """What it does."""


class PermissionExplanationView(PermissionView):
    """A cell of the permission matrix with its checks, and the commands that change it."""

    run: RunId
    live: bool
    """Whether the run answered. If not, this is from the store."""
    remedies: tuple[RemedyView, ...]
    """The commands that change it."""


def permission_matrix_view(page: PermissionsPage) -> PermissionMatrixView:
    """The matrix.

    Args:
        page: All requested cells of a run.
    """
    return PermissionMatrixView(
        run=page.run,
        crew=page.crew,
        graph_version=page.graph_version,
        position=page.position,
        agents=page.agents,
        remote_agents=page.remote_agents,
        tools=page.tools,
        cells=page.cells,
        live=page.live,
    )


def permission_explanation(page: PermissionsPage) -> PermissionExplanationView:
    """Why an agent may call a tool, or may not.

    Args:
        page: The page with the cell alone, and with its checks.
    """
    (cell,) = page.cells
    return PermissionExplanationView(
        **{name: getattr(cell, name) for name in PermissionView.model_fields},
        run=page.run,
        live=page.live,
        remedies=tuple(_remedies(page.run, cell)),
    )


def _remedies(run: RunId, cell: PermissionView) -> Iterator[RemedyView]:
    if cell.rule == "parent":
        check = next(each for each in cell.checks if each.rule == "parent" and each.decides)
        yield RemedyView(
            command=f"crewlog permissions {run} --tool {cell.tool}",
            effect=f"{check.text}: that one decides",
        )
        return
    if cell.rule == "tools" and cell.tool in _KEYS_OF_TOOLS:
        field, effect = _KEYS_OF_TOOLS[cell.tool]
        yield RemedyView(
            command=f"crewlog change {run} --edit agent.{cell.agent}.{field}",
            effect=f"{effect}; a live permission does not give it",
        )
        return
    full = next((quota for quota in cell.quotas if quota.remaining_calls == 0), None)
    if full is not None and cell.outcome == "deny" and cell.rule == full.rule:
        place = full.rule.removeprefix("rules[").removesuffix("]")
        quota = f"{quota_of(full.quota).most * 2} per {quota_of(full.quota).per}"
        operation = f"{{op: edit_rule, place: {place}, set: {{quota: {quota}}}}}"
        yield RemedyView(
            command=f"crewlog change {run} --operations FILE",
            effect=f"a change raises the quota, a live permission does not: [{operation}]",
        )
        return
    yield from _live_permissions(run, cell)


def _live_permissions(run: RunId, cell: PermissionView) -> Iterator[RemedyView]:
    """The commands that set another live permission, or remove it."""
    if cell.live_permission is not None and cell.live_permission.do != "permission":
        agent = "'*'" if cell.live_permission.agent == "*" else cell.agent
        yield RemedyView(
            command=f"crewlog inherit {run} {agent} {cell.tool}",
            effect="the permissions of the definition apply again",
        )
    effects = {
        "allow": "the agent may call the tool, from the next call on",
        "ask": "each call needs an approval",
        "deny": "the agent may not call the tool, from the next call on",
    }
    for command, effect in effects.items():
        if cell.outcome != command:
            yield RemedyView(
                command=f"crewlog {command} {run} {cell.agent} {cell.tool}", effect=effect
            )

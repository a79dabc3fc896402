"""Pictures of graphs on a screen."""

from __future__ import annotations

from collections.abc import Mapping

from crewlog.cli.screen import Screen
from crewlog.cli.told_creatures import show_creatures
from crewlog.graph.plan import GraphPlan
from crewlog.ids import NodeName
from crewlog.reporting.drawing.terminal import terminal_drawing

_WIDEST = 120
"""Columns of a drawing with its indentation, at most: a wider one is hard to read."""


def show_picture(
    screen: Screen, plan: GraphPlan, statuses: Mapping[NodeName, str] | None = None
) -> None:
    """The drawing of a plan; its notes are folded where the terminal has an edge.

    Of creatures alone it is a table of them: no way leads from one to the other.
    """
    if plan.component is not None and all(node.is_wake_node for node in plan.nodes.values()):
        show_creatures(screen, plan, statuses or {})
        return
    width = min(screen.width, _WIDEST) - 4
    screen.block(terminal_drawing(plan, statuses, width, screen.colored, folds=screen.has_edge))

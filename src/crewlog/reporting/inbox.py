"""The inbox: the open interrupts of all runs."""

from __future__ import annotations

from crewlog.ids import RunId
from crewlog.reporting.wire_views import interrupt_view
from crewlog.state.model import Interrupt
from crewlog.wire import InterruptView


class InboxInterruptView(InterruptView):
    """An open interrupt, with its run."""

    run: RunId
    raised_at: int = 0
    """When it was raised, in milliseconds since the epoch."""
    tool: str = ""
    """Of a call: the tool."""


def inbox_interrupt_view(run: RunId, raised_at: int, interrupt: Interrupt) -> InboxInterruptView:
    """An open interrupt.

    Args:
        run: The run that raised it.
        raised_at: When, in milliseconds since the epoch.
        interrupt: The interrupt.
    """
    view = interrupt_view(interrupt)
    return InboxInterruptView(**dict(view), run=run, raised_at=raised_at, tool=interrupt.tool)

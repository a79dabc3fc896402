"""Who has a turn for what people said to a run of creatures; a warning where nobody has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crewlog.cli.screen import Screen, plain
from crewlog.definition.findings import listed
from crewlog.errors import CrewlogError
from crewlog.graph.plan import GraphPlan
from crewlog.graph.wakes import unread_log_reason, woken_agents
from crewlog.ids import AgentName, LogName

if TYPE_CHECKING:
    from crewlog.client import Run

_NAMED = 5
"""Agents that are named."""


class Hearing(NamedTuple):
    """Who hears a message."""

    turns: tuple[str, ...] = ()
    """Agents that have a turn for it."""
    off: tuple[str, ...] = ()
    """Those of them that are switched off."""
    why: str = ""
    """Why nobody has."""
    remedy: str = ""

    @property
    def words(self) -> str:
        """`: keeper hears it`."""
        if not self.turns:
            return ""
        shown = [*self.turns[:_NAMED]]
        if more := len(self.turns) - len(shown):
            shown.append(f"{more} more")
        return f": {listed(map(plain, shown))} {'hears' if len(self.turns) == 1 else 'hear'} it"

    def to_json(self) -> dict[str, Any]:
        """The same for a program."""
        warning = f"nobody has a turn for it: {self.why}" if self.why else ""
        return {"turns": list(self.turns), "disabled_reason": list(self.off), "warning": warning}


async def hearing(run: Run, log: str) -> Hearing | None:
    """Who hears what was said in a log of a run; none where no agent of it hears.

    Args:
        run: The run.
        log: The log, by the name that it has there.
    """
    try:
        plan = GraphPlan.from_json((await run.graph()).plan)
    except CrewlogError:
        return None  # it has ended, or nobody answers any more: the message was told
    return hearing_in(plan, LogName(log)) if plan.graph is not None else None


def hearing_in(plan: GraphPlan, log: LogName) -> Hearing:
    """Who hears what people say in a log of a crew of creatures."""
    found = [n for n in woken_agents(plan, log) if plan.wake_node_of(AgentName(n)) is not None]
    off = [name for name in found if not plan.agents[AgentName(name)].enabled]
    return Hearing(tuple(found), tuple(off), *unread_log_reason(plan, log))


def tell_hearing(screen: Screen, run: str, found: Hearing) -> None:
    """What whoever said it should know: that nobody hears it, or not yet."""
    if found.why:
        said = f"nobody has a turn for it: {plain(found.why)}"
        screen.wrapped(["  ", ("! ", "bold yellow")], said, indent=4)
        screen.wrapped(["      "], plain(found.remedy), indent=6, style="dim")
    for name in found.off:
        start = f"crewlog graph start {run} {plain(name)}"
        said = f"{plain(name)} is switched off: it waits until {start}"
        screen.wrapped(["  ", ("! ", "bold yellow")], said, indent=4)


def tell_paused(screen: Screen, run: str) -> None:
    """What whoever said something to a paused run should know: it waits, whoever hears it."""
    said = f"{plain(run)} is paused: it waits until crewlog resume {run}"
    screen.wrapped(["  ", ("! ", "bold yellow")], said, indent=4)

"""What `crewlog interrupt` leads to: before which steps a run asks people, as far as is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crewlog.cli.screen import plain
from crewlog.client import Run
from crewlog.definition.findings import listed
from crewlog.errors import CrewlogError
from crewlog.ids import ANY_NODE
from crewlog.state.model import CommandOutcome, CrewState


@dataclass(frozen=True)
class Before:
    """Where a run asks people."""

    run: str
    asks: tuple[str, ...] = ()
    """Steps that it asks about already."""
    node: str = ANY_NODE
    """The node before which it will ask; `*`: whichever is next."""
    next: tuple[str, ...] = ()
    """Steps that have not begun and that it will ask before, the first of them that starts."""
    follows: tuple[str, ...] = ()
    """Steps that are under way: what follows one of them is asked about."""
    already: bool = False
    """Whether people had asked for that before."""

    def to_json(self) -> dict[str, Any]:
        """What `--json` adds."""
        steps = {"asks": self.asks, "next": self.next, "follows": self.follows}
        return {"node": self.node, **steps, "already": self.already}

    @property
    def words(self) -> str:
        """`will ask before the step that follows writer#1`, as what the run does."""
        already = ": that was asked for already" if self.already and not self.asks else ""
        return f"{self._words}{already}"

    @property
    def _words(self) -> str:
        if self.asks:
            steps = plain(listed(self.asks))
            return f"asks before {steps}: crewlog answer {plain(self.run)}"
        if self.node != ANY_NODE:
            what = plain(listed(self.next, "or") if self.next else self.node)
            begun = f"; {plain(listed(self.follows))} has begun already" if self.follows else ""
            return f"will ask before {what}{begun}"
        if self.next:
            return f"will ask before {plain(listed(self.next, 'or'))}, whichever starts first"
        if self.follows:
            return f"will ask before the step that follows {plain(listed(self.follows, 'or'))}"
        return "will ask before its next step"


@dataclass(frozen=True)
class Break:
    """A node before which a run is to ask people, and has not yet."""

    node: str
    """The node; `*`: whichever is next."""
    by: str = ""
    """Who wants to be asked, where the journal tells."""

    @property
    def words(self) -> str:
        """`asks before taster (by root)`."""
        what = "its next step" if self.node == ANY_NODE else plain(self.node)
        return f"asks before {what}" + (f" (by {plain(self.by)})" if self.by else "")


async def breaks_of(run: Run, state: CrewState) -> list[Break]:
    """What a run is still to ask people before, and who wants that."""
    from crewlog.cli.sight import whole_journal  # noqa: PLC0415
    from crewlog.state.journal import BreakpointSet, entry_from_json  # noqa: PLC0415

    if not state.breakpoints:
        return []
    by: dict[str, str] = {}
    for item in await whole_journal(run):
        if item.position > state.position:
            break
        entry = entry_from_json(item.data)
        if isinstance(entry, BreakpointSet):
            by[entry.node] = entry.by
    return [Break(str(node), by.get(node, "")) for node in state.breakpoints]


async def asked_already(run: Run, node: str) -> bool:
    """Whether a run is to ask before a node anyway; no where no worker tells."""
    try:
        return node in (await run.state()).breakpoints
    except CrewlogError:
        return False


def steps_before(
    node: str, state: CrewState | None, outcome: CommandOutcome | None, *, already: bool = False
) -> Before | None:
    """What an `interrupt` leads to; none where nobody has told.

    Args:
        node: The node that it names, or `*`.
        state: The state after it.
        outcome: How it ended.
        already: Whether people had asked for that before.
    """
    if state is None or outcome is None or not outcome.ok:
        return None
    asked = [q for q in state.interrupts.values() if q.kind == "manual" and q.step is not None]
    asked = [q for q in asked if q.position > outcome.position]
    if asked:
        return Before(state.run, asks=tuple(str(q.step) for q in asked), node=node)
    steps = [e for e in state.frontier.values() if node in (ANY_NODE, e.node)]
    begun = ("running", "interrupted")
    return Before(
        state.run,
        node=node,
        already=already,
        next=tuple(str(e.step) for e in steps if e.status not in begun),
        follows=tuple(str(e.step) for e in steps if e.status in begun),
    )

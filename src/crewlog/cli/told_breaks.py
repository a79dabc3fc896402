"""What `crewlog interrupt` leads to: before which steps a run asks people, as far as is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crewlog.cli.screen import plain
from crewlog.definition.findings import listed
from crewlog.ids import node_of
from crewlog.state.model import CommandOutcome, CrewState


@dataclass(frozen=True)
class Before:
    """Where a run asks people."""

    run: str
    asks: tuple[str, ...] = ()
    """Steps that it asks about already."""
    node: str = "*"
    """The node before which it will ask; `*`: whichever is next."""
    next: tuple[str, ...] = ()
    """Steps that have not begun and that it will ask before, the first of them that starts."""
    follows: tuple[str, ...] = ()
    """Steps that are under way: what follows one of them is asked about."""

    def to_json(self) -> dict[str, Any]:
        """What `--json` adds."""
        steps = {"asks": self.asks, "next": self.next, "follows": self.follows}
        return {"node": self.node, **steps}

    @property
    def words(self) -> str:
        """`will ask before the step that follows writer#1`, as what the run does."""
        if self.asks:
            steps = plain(listed(self.asks))
            return f"asks before {steps}: crewlog answer {plain(self.run)}"
        if self.node != "*":
            what = plain(listed(self.next, "or") if self.next else self.node)
            begun = f"; {plain(listed(self.follows))} has begun already" if self.follows else ""
            return f"will ask before {what}{begun}"
        if self.next:
            return f"will ask before {plain(listed(self.next, 'or'))}, whichever starts first"
        if self.follows:
            return f"will ask before the step that follows {plain(listed(self.follows, 'or'))}"
        return "will ask before its next step"


def steps_before(
    node: str, state: CrewState | None, outcome: CommandOutcome | None
) -> Before | None:
    """What an `interrupt` leads to; none where nobody has told.

    Args:
        node: The node that it names, or `*`.
        state: The state after it.
        outcome: How it ended.
    """
    if state is None or outcome is None or not outcome.ok:
        return None
    asked = [q for q in state.interrupts.values() if q.kind == "manual" and q.step is not None]
    asked = [q for q in asked if q.position > outcome.position]
    if asked:
        return Before(state.run, asks=tuple(str(q.step) for q in asked), node=node)
    steps = [e for e in state.frontier.values() if node in ("*", node_of(e.step))]
    begun = ("running", "asking")
    return Before(
        state.run,
        node=node,
        next=tuple(str(e.step) for e in steps if e.status not in begun),
        follows=tuple(str(e.step) for e in steps if e.status in begun),
    )

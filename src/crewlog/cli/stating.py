"""What each checkpoint of a run that is followed changed in its state.

A checkpoint stands for the state with the routing that belongs to it, so what it changed is told
with the entry after that: the first that routes nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.client import Event
from crewlog.reporting.diff.state import StateDiff, state_diff
from crewlog.state.checkpoints import checkpoint_kind
from crewlog.state.fold import fold
from crewlog.state.journal import NodesReached
from crewlog.state.model import CrewState


@dataclass(frozen=True)
class Stated:
    """What a checkpoint changed."""

    position: int
    """The checkpoint."""
    changes: StateDiff
    """Since the checkpoint before it."""


class States:
    """Folds the journal as it comes."""

    def __init__(self) -> None:
        self._state: CrewState | None = None
        self._before: CrewState | None = None
        self._checkpoint = 0

    def take(self, event: Event) -> Stated | None:
        """Takes an event; what the checkpoint before it changed, where that is complete now."""
        routes = isinstance(event.entry, NodesReached) and event.entry.source is not None
        stated = None if routes else self.settle()
        if self._state is None:
            # A fork's journal begins above its checkpoint, with the state of that.
            self._state = CrewState(run=event.run, position=event.position - 1)
            self._before = self._state
        self._state = fold(self._state, event.entry)
        routed = event.entry if isinstance(event.entry, NodesReached) else None
        source, because = (routed.source, routed.because) if routed else ("", "")
        if checkpoint_kind(event.entry.kind, source, because):
            self._checkpoint = event.position
        return stated

    def settle(self) -> Stated | None:
        """What the last checkpoint changed, where that is not told yet: nothing came after it."""
        if not self._checkpoint or self._state is None or self._before is None:
            return None
        found = Stated(self._checkpoint, state_diff(self._before, self._state))
        self._before, self._checkpoint = self._state, 0
        return found if found.changes else None

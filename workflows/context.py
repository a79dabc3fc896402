"""What the parts of an execution share."""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.graph.engine import Engine


@dataclass
class ExecutionContext:
    """The engine of an execution, with the settings and counters that its parts share."""

    engine: Engine
    """The engine; a swap replaces it."""
    task_queue: str = ""
    """The task queue of the run's activities; empty: the workflow's own."""
    search_attributes: bool = False
    """Whether the server knows Crewlog's search attributes."""
    quiet: bool = False
    """Whether search attributes leave out the content of an encrypted run."""
    is_closing: bool = False
    """Whether the execution is about to continue as new: nothing starts any more."""
    events: int = 0
    """Temporal commands that this execution issued. Each leaves an event in the history."""

    def advance_clock(self, at: int) -> None:
        """Moves the engine's clock forward, to milliseconds since the epoch; never back."""
        self.engine.at = max(self.engine.at, at)

    @property
    def is_merge_frozen(self) -> bool:
        """Whether the run is frozen for a run merge, and waits for the outcome."""
        merge = self.engine.state.pending_merge
        return merge is not None and merge.status == "frozen"

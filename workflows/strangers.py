"""Signals that nobody signed: a run with a signed policy counts them, once there are many.

Whoever reaches the server can send a run thousands of signals. Each refusal is an entry in the
journal, which every call carries to the store; so the first `TOLD` of an execution are refused one
by one, and of the rest there is one entry for each `COUNTED`, and for what is left in the end.
Updates are answered, and what a principal signed has a name: these are refused one by one, always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from crewlog.errors import NotPermitted
    from crewlog.graph.drafting import Drafting
    from crewlog.graph.engine import Engine
    from crewlog.state import journal as j

from crewlog.workflows import gate

if TYPE_CHECKING:
    from crewlog.workflows.inbox import Incoming

TOLD = 100
"""Signals without a proof that an execution refuses one by one."""
COUNTED = 1000
"""Further ones that have an entry together."""
COUNTS = "counts-unproven-signals"
"""The patch of executions that do so; older ones refuse each."""


class Strangers:
    """Counts the signals of an execution that prove nothing."""

    def __init__(self) -> None:
        self._met = 0
        self._untold = 0

    def counted(self, engine: Engine | Drafting, incoming: Incoming) -> bool:
        """Whether a command is done with by counting it: nothing more comes of it."""
        # Who waits for an answer, by an update, is told: that came at a known time, no signal does.
        if incoming.arrived is not None or engine.state.closed:
            return False
        found = gate.look(engine, incoming)
        if found is None or found.proven:
            return False
        self._met += 1
        if self._met <= TOLD or not workflow.patched(COUNTS):
            return False
        incoming.done = True
        self._untold += 1
        if self._untold >= COUNTED:
            self.tell(engine)
        return True

    def tell(self, engine: Engine | Drafting) -> None:
        """Records how many there were since that was recorded last."""
        if self._untold:
            engine.record(
                j.CommandRejected,
                name="signals",
                reason=f"and {self._untold:,} more signals that carried no proof",
                error_type=NotPermitted.__name__,
            )
            self._untold = 0

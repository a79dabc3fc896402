"""Signals that are nobody's commands: a run counts them, once there are many.

Whoever reaches the server can send a run thousands of signals. Each refusal is an entry in the
journal, which every call carries to the store; so of the signals that prove nothing (where the
policy is signed) or are no commands, the first `TOLD` of an execution are refused one by one, and
of the rest there is one entry for each `COUNTED`, and for what is left in the end. Of these, what
cannot have a proof, as its bytes show, is not even read. Updates are answered, and what a principal
signed has a name: these are refused one by one, always.

The SDK takes an activation of more than two seconds for a deadlock, and a worker that takes up a
run is handed all of a task's signals in one. So the loop rests after each `SPENT` of work: a local
activity ends the activation. It is counted over the execution: where activations end is another
matter in a replay.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from crewlog.errors import CommandRejected, NotPermitted
    from crewlog.graph.engine import Engine
    from crewlog.ids import RESERVED
    from crewlog.state import journal as j

from crewlog.workflows.command_queue import QueuedCommand, UndecodedPayload

TOLD = 100
"""Signals of nobody's that an execution refuses one by one."""
COUNTED = 1000
"""Further ones that have an entry together."""
SPENT = 2500
"""The work after which the loop rests, in signals that are counted without being read."""
READING = 10
"""The work of reading one, and of what comes of it."""
BYTES = 256
"""Bytes of one that are as much work again."""


class UnauthenticatedSignals:
    """Counts the signals of an execution that are nobody's commands."""

    def __init__(self) -> None:
        self._met = 0
        """How many were refused one by one."""
        self.untold = 0
        """How many were counted since that was recorded last."""
        self._spent = 0

    def rests(self, incoming: QueuedCommand, *, encrypted: bool) -> bool:
        """Whether the loop rests before it takes this.

        Args:
            incoming: The command that is next.
            encrypted: Whether what comes without encryption is refused.
        """
        self._spent += work(incoming, many=self._met >= TOLD, encrypted=encrypted)
        if self._spent < SPENT:
            return False
        self._spent = 0
        return True

    def count_undecoded(self, engine: Engine, incoming: QueuedCommand) -> bool:
        """Whether a signal is done with by counting it, without being read."""
        brought = incoming.data
        if self._met < TOLD or not isinstance(brought, UndecodedPayload) or not brought.is_unsigned:
            return False
        if not _is_signed(engine):
            return False
        self._count(engine, incoming)
        return True

    def counted(self, engine: Engine, incoming: QueuedCommand) -> bool:
        """Whether a command is done with by counting it: nothing more comes of it."""
        # An update is always answered. It came at a known time, which a signal does not.
        if incoming.arrived is not None or self._met < TOLD or not _is_unauthenticated(incoming):
            return False
        self._count(engine, incoming)
        return True

    def note(self, incoming: QueuedCommand) -> None:
        """Notes a command that was refused, where it is nobody's."""
        proven = incoming.authorization is not None and incoming.authorization.verified
        if incoming.arrived is None and not proven:
            self._met += incoming.authorization is not None or incoming.unfit

    def tell(self, engine: Engine) -> None:
        """Records how many there were since that was recorded last."""
        if self.untold:
            signed = _is_signed(engine)
            what = "carried no proof" if signed else "are no commands"
            engine.record(
                j.CommandRejected(
                    name="signals",
                    reason=f"and {self.untold:,} more signals that {what}",
                    error_type=NotPermitted.__name__ if signed else "",
                )
            )
            self.untold = 0

    def _count(self, engine: Engine, incoming: QueuedCommand) -> None:
        incoming.done = True
        self.untold += 1
        if self.untold >= COUNTED:
            self.tell(engine)


def work(incoming: QueuedCommand, *, many: bool, encrypted: bool) -> int:
    """How much work a command is, as it came; the same to a worker with other settings.

    Args:
        incoming: The command.
        many: Whether what cannot have a proof is only counted.
        encrypted: Whether what comes without encryption is refused.
    """
    brought = incoming.data
    if not isinstance(brought, UndecodedPayload) or brought.may_be_replaced(encrypted=encrypted):
        return READING
    return 1 if many and brought.is_unsigned else READING + brought.size // BYTES


def _is_signed(engine: Engine) -> bool:
    policy = engine.plan.policy
    return policy is not None and policy.signed


def _is_unauthenticated(incoming: QueuedCommand) -> bool:
    """Whether a judged signal proves nothing where it must, or is no command."""
    if incoming.authorization is not None:
        return not incoming.authorization.verified
    data: Any = incoming.data
    if isinstance(data, dict) and str(data.get("id", "")).startswith(RESERVED):  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        return False  # the run's own: clients cannot send these
    try:
        incoming.parse()
    except CommandRejected:
        return True
    return False

"""The limit of rejections: unauthenticated and malformed signals are counted after the first ones.

A client that reaches the server can send a run thousands of signals, and each rejection is a
journal entry, which calls carry to the store. So an execution rejects only the first
`MAX_REJECTIONS` signals one by one that have no valid signature (if the policy needs one) or are no
commands. It counts the others: one entry for each `SIGNALS_PER_ENTRY`, and one at the end. A
counted signal whose bytes cannot contain a signature is not even parsed. Updates, and commands with
a valid signature, are always rejected one by one.

The SDK takes an activation of more than two seconds for a deadlock, and a worker gets all signals
of a workflow task in one activation. So the loop pauses after each `WORK_PER_PAUSE`: a local
activity ends the activation. The work is counted over the execution, since in a replay the
activations end at other signals.
"""

from __future__ import annotations

from typing import Any

from crewlog.errors import CommandRejected, NotPermitted
from crewlog.graph.engine import Engine
from crewlog.ids import RESERVED
from crewlog.state import journal as j
from crewlog.workflows.commands.queue import QueuedCommand, UndecodedPayload, Unrecorded

MAX_REJECTIONS = 100
"""Signals that an execution rejects one by one."""
SIGNALS_PER_ENTRY = 1000
"""Further signals for one journal entry."""
WORK_PER_PAUSE = 2500
"""The work after which the loop pauses, in signals that are counted without being parsed."""
PARSE_WORK = 10
"""The work of a signal that is parsed and applied."""
BYTES_PER_WORK = 256
"""Bytes of a signal that add one to its work."""


class UnauthenticatedSignals:
    """Counts the unauthenticated and malformed signals of an execution."""

    def __init__(self) -> None:
        self._rejections = 0
        """How many were rejected one by one."""
        self.unrecorded = 0
        """How many were counted since the last entry."""
        self._work = 0

    def must_pause(self, incoming: QueuedCommand) -> bool:
        """Whether the loop must pause before it takes a command."""
        is_limited = self._rejections >= MAX_REJECTIONS
        self._work += signal_work(incoming, is_limited=is_limited)
        if self._work < WORK_PER_PAUSE:
            return False
        self._work = 0
        return True

    def count_undecoded(self, engine: Engine, incoming: QueuedCommand) -> bool:
        """Counts a signal that need not be parsed; returns whether it did."""
        payload = incoming.data
        if self._rejections < MAX_REJECTIONS or not isinstance(payload, UndecodedPayload):
            return False
        if not payload.is_unsigned or not _is_signed(engine):
            return False
        self._count(engine, incoming)
        return True

    def count(self, engine: Engine, incoming: QueuedCommand) -> bool:
        """Counts an unauthenticated or malformed signal; returns whether it did."""
        # An update always gets a result. Only updates have a time of arrival here.
        if incoming.arrived_at is not None or self._rejections < MAX_REJECTIONS:
            return False
        if not _is_unauthenticated(incoming):
            return False
        self._count(engine, incoming)
        return True

    def add_rejection(self, incoming: QueuedCommand) -> None:
        """Counts the rejection of an unauthenticated or malformed signal."""
        is_verified = incoming.authorization is not None and incoming.authorization.verified
        if incoming.arrived_at is None and not is_verified:
            self._rejections += incoming.authorization is not None or incoming.is_malformed

    def record(self, engine: Engine) -> None:
        """Records how many signals were counted since the last entry."""
        if self.unrecorded:
            is_signed = _is_signed(engine)
            what = "have no valid signature" if is_signed else "are no commands"
            engine.record(
                j.CommandRejected(
                    name="signals",
                    reason=f"and {self.unrecorded:,} more signals that {what}",
                    error_type=NotPermitted.__name__ if is_signed else "",
                )
            )
            self.unrecorded = 0

    def _count(self, engine: Engine, incoming: QueuedCommand) -> None:
        incoming.outcome = Unrecorded()
        self.unrecorded += 1
        if self.unrecorded >= SIGNALS_PER_ENTRY:
            self.record(engine)


def signal_work(incoming: QueuedCommand, *, is_limited: bool) -> int:
    """The work of a command. It depends on the bytes only, not on the settings of the worker.

    Args:
        incoming: The command.
        is_limited: Whether signals without a signature are only counted.
    """
    payload = incoming.data
    if not isinstance(payload, UndecodedPayload) or payload.is_replaced:
        return PARSE_WORK
    if is_limited and payload.is_unsigned:
        return 1
    return PARSE_WORK + payload.size // BYTES_PER_WORK


def _is_signed(engine: Engine) -> bool:
    policy = engine.plan.policy
    return policy is not None and policy.signed


def _is_unauthenticated(incoming: QueuedCommand) -> bool:
    """Whether a signal has no valid signature though it needs one, or is no command."""
    if incoming.authorization is not None:
        return not incoming.authorization.verified
    data: Any = incoming.data
    if isinstance(data, dict) and str(data.get("id", "")).startswith(RESERVED):  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        return False  # a command of the run itself: clients cannot send such ids
    try:
        incoming.parse()
    except CommandRejected:
        return True
    return False

"""The binding of an approval: this call, these arguments, this principal, until this deadline.

    a person approves a call ──► `Binding` ──► the run keeps its hash with the call

    before the call is scheduled, and again before it is made, `check_binding` compares the hash
    with that of the call to be made, and the deadline with the time

A call is named by its run, its step and its number in the step, which are unique in the run, and an
interrupt is answered once, so an approval is used once. After a rollback or a fork the step or the
run has another id, and people are asked again.

The hash is not a signature: a writer of a run's history can write hashes, too. Temporal and the
authentication of encrypted payloads prevent such writes.
"""

from __future__ import annotations

import hmac

from crewlog.authority.permissions import Decision
from crewlog.canonical_json import hash_json
from crewlog.ids import ContentHash, InterruptId, RunId, StepId
from crewlog.model import Json, Model


class Approval(Model):
    """The approval that a call is made with; the rest of its binding is the call itself."""

    binding: str
    """The hash of the binding at the time of the approval."""
    arguments: ContentHash | None = None
    """The hash of the arguments that are to run; see `Binding`."""
    edited: bool = False
    """Whether people edited the arguments: the store has the edited ones."""
    by: str = ""
    """The principal that approved it."""
    until: int = 0
    """The deadline of the approval, in milliseconds since the epoch; 0: none."""


class Binding(Model):
    """The call, arguments, principal and deadline for which an approval is valid."""

    run: RunId
    interrupt: InterruptId
    """The interrupt that was answered."""
    step: StepId
    call: int
    """The call's number in the step."""
    tool: str
    id: str
    """The id that the model gave the call, unique in the message."""
    message: ContentHash
    """The AI message that requests the call."""
    arguments: ContentHash | None = None
    """The hash of all arguments that are to run. None: those of the message, also if people are
    asked again about a call that they edited before."""
    edited: bool = False
    """Whether people edited the arguments."""
    by: str = ""
    """The principal that approved it."""
    until: int = 0
    """The time by which the call must have begun, in milliseconds since the epoch; 0: none."""

    @property
    def hash(self) -> str:
        """The hash of all fields."""
        # Defaults too: a field that a later build adds must not make two bindings equal.
        return hash_json(["approval", self.model_dump(mode="json")])

    def approval(self, hash_: str) -> Approval | None:
        """The approval of a call; None if the call needed none.

        Args:
            hash_: The hash of the binding at the time of the approval.
        """
        if not self.interrupt:
            return None
        return Approval(
            binding=hash_,
            arguments=self.arguments,
            edited=self.edited,
            by=self.by,
            until=self.until,
        )


def arguments_hash(args: Json) -> ContentHash:
    """The hash of the arguments of a call, under which the store has edited ones."""
    return hash_json(args)


def check_binding(hash_: str, binding: Binding, *, at: int) -> Decision:
    """Whether an approval is valid for a call that is about to be made.

    Args:
        hash_: The hash of the binding at the time of the approval; empty: no approval.
        binding: The binding of the call that is to be made.
        at: The time, in milliseconds since the epoch.
    """
    call = f"the call {binding.step}/{binding.call} of {binding.tool!r}"
    if not hash_ or not binding.interrupt:
        return Decision(allowed=False, reason=f"{call} has no approval")
    if not hmac.compare_digest(hash_.encode(), binding.hash.encode()):
        reason = f"the approval {binding.interrupt!r} is not valid for {call}: the call has changed"
        return Decision(allowed=False, reason=reason)
    if binding.until and at > binding.until:
        reason = f"the approval {binding.interrupt!r} of {call} has expired"
        return Decision(allowed=False, reason=reason)
    return Decision(allowed=True, reason=f"{binding.by or 'a person'} approved {call}")

"""What a yes to a call is about: this call, with these arguments, by this person, until then.

    a person says yes ──► `Binding` ──► its seal is kept with the call
    before the call is scheduled, and again before it is made: is the binding of what is about to
    happen the one that was sealed, and has it not expired?

A call has its run, its step and its number there, which no other call of the run ever has, and it
is answered once: so a yes is used once. A run that goes back, or is forked, has other steps or
another id, and people are asked anew.

A seal is a digest, not a signature. Whoever can write a run's history can seal what he likes: that
is kept from strangers by Temporal, and by the codec's authentication.
"""

from __future__ import annotations

import hmac

from crewlog.authority.permissions import Decision
from crewlog.canonical_json import hash_json
from crewlog.ids import ContentHash, InterruptId, RunId, StepId
from crewlog.model import Json, Model


class Approval(Model):
    """What a call says of the yes that it is made by; its other parts are the call's own."""

    seal: str
    """What was sealed when somebody said yes."""
    arguments: ContentHash | None = None
    """The digest of the arguments that are to run; see `Binding`."""
    edited: bool = False
    """Whether people put these in the place of the message's: the store has them."""
    by: str = ""
    """Who said yes."""
    until: int = 0
    """Until when it holds, in milliseconds since the epoch; 0: no limit."""


class Binding(Model):
    """Everything that a yes to a call of a tool holds for."""

    run: RunId
    interrupt: InterruptId
    """The question that was answered."""
    step: StepId
    call: int
    """The call's number in the step."""
    tool: str
    id: str
    """The model's own id of the call: which of the message's calls."""
    message: ContentHash
    """The AI message that asks for the call."""
    arguments: ContentHash | None = None
    """The digest of all arguments that are to run. None: those of the message are meant, as where
    people are asked again about a call that they had edited."""
    edited: bool = False
    """Whether people put other arguments in the place of the message's."""
    by: str = ""
    """Who said yes."""
    until: int = 0
    """Until when the call must have begun, in milliseconds since the epoch; 0: no limit."""

    @property
    def seal(self) -> str:
        """The digest of all of it."""
        # Every field, defaults too: what a later build adds must not make two bindings one.
        return hash_json(["approval", self.model_dump(mode="json")])

    def told(self, seal: str) -> Approval | None:
        """What a call that is to be made says of its approval; none where nobody was asked."""
        if not self.interrupt:
            return None
        return Approval(
            seal=seal,
            arguments=self.arguments,
            edited=self.edited,
            by=self.by,
            until=self.until,
        )


def arguments_hash(args: Json) -> ContentHash:
    """The digest of a call's arguments, which is also the address of edited ones in the store."""
    return hash_json(args)


def check_binding(seal: str, binding: Binding, *, at: int) -> Decision:
    """Whether a yes holds for a call that is about to be made.

    Args:
        seal: What was sealed when somebody said yes; empty: nobody did.
        binding: What is about to happen.
        at: When, in milliseconds since the epoch.
    """
    call = f"the call {binding.step}/{binding.call} of {binding.tool!r}"
    if not seal or not binding.interrupt:
        return Decision(allowed=False, reason=f"nobody has approved {call}")
    if not hmac.compare_digest(seal.encode(), binding.seal.encode()):
        told = f"what was approved by {binding.interrupt!r} is not {call} as it is about to be made"
        return Decision(allowed=False, reason=told)
    if binding.until and at > binding.until:
        reason = f"the approval {binding.interrupt!r} of {call} has expired"
        return Decision(allowed=False, reason=reason)
    return Decision(allowed=True, reason=f"{binding.by or 'a person'} approved {call}")

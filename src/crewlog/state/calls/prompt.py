"""Compile a prompt to a definition."""

from __future__ import annotations

from typing import Literal

from crewlog.ids import ContentHash
from crewlog.model import Json, Model
from crewlog.state.journal import Batch
from crewlog.state.model import PromptDiagnostic, PromptReply
from crewlog.usage import Usage

COMPILE_PROMPT = "compile_prompt"


class CompilePrompt(Model):
    """Read a prompt, with the forms or by asking a model once, and make a definition of it."""

    prompt: ContentHash
    """The prompt's hash. The batch brings it along once; from then on it is a body in the store."""
    registry: str = ""
    """The registry that says what it may use; empty: nothing."""
    reader: Literal["auto", "forms", "model"] = "auto"
    """Who reads it."""
    model: str = ""
    """The model of crews, in the place of the registry's; empty: the registry's."""
    replies: tuple[PromptReply, ...] = ()
    """What the model answered before, oldest first: it is told what does not hold in them."""
    batch: Batch = Batch.EMPTY
    """What no finished activity has stored yet."""
    attempt: int = 1
    """Which try, counting those that people asked for."""


class CompilePromptResult(Model):
    """What a prompt comes to, or a model's answer that does not hold."""

    reader: Literal["forms", "model"] = "forms"
    """Who read it."""
    reply: PromptReply | None = None
    """What the model answered; none where it was not asked."""
    errors: int = 0
    """What does not hold in the answer."""
    again: bool = False
    """Whether the model must be asked once more; then there is nothing else yet."""
    definition: dict[str, Json] | None = None
    """The crew; none where there is an error."""
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    """Errors and warnings, in the order of the prompt."""
    requirements: tuple[str, ...] = ()
    model: str = ""
    """The model that answered, as it is called."""
    usage: Usage = Usage()
    """This call's usage."""
    journaled: bool = True
    """Whether the store has the input's batch."""
    at: int = 0
    """When the call ended, in milliseconds since the epoch: the activity sets it last."""

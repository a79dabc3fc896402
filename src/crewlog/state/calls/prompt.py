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
    """Reads a prompt, by forms or by one call of a model, and makes a definition of it."""

    prompt: ContentHash
    """The hash of the prompt. The first batch contains the prompt; then the store has it as a
    body."""
    registry: str = ""
    """The registry of what the prompt may use; empty: nothing."""
    reader: Literal["auto", "forms", "model"] = "auto"
    """The prompt reader."""
    model: str = ""
    """The model of crews, instead of the registry's; empty: the registry's."""
    replies: tuple[PromptReply, ...] = ()
    """The model's earlier replies, oldest first: it is shown the errors in them."""
    batch: Batch = Batch.EMPTY
    """The entries that no completed activity has stored."""
    attempt: int = 1
    """The number of the attempt, including those that people asked for."""


class CompilePromptResult(Model):
    """The definition that a prompt compiles to, or a reply with errors."""

    reader: Literal["forms", "model"] = "forms"
    """The prompt reader that was used."""
    reply: PromptReply | None = None
    """The reply of the model; none if no model was called."""
    errors: int = 0
    """The number of errors in the reply."""
    again: bool = False
    """Whether the model must be called once more; then there is no other result yet."""
    definition: dict[str, Json] | None = None
    """The definition; none if there is an error."""
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    """Errors and warnings, in the order of the prompt."""
    requirements: tuple[str, ...] = ()
    model: str = ""
    """The model that replied, by the name that it gives itself."""
    usage: Usage = Usage()
    """The usage of this call."""
    journaled: bool = True
    """Whether the store has the batch of the input."""
    at: int = 0
    """When the call ended, in milliseconds since the epoch; the activity sets it last."""

"""Which reader reads a prompt: a model where one is configured, else the forms."""

from __future__ import annotations

from typing import Literal

from crewlog.prompt.clauses import Clauses
from crewlog.prompt.compile import compile_prompt, unreadable
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.faults import Fault
from crewlog.prompt.reading import EMPTY
from crewlog.prompt.registry import Registry

Reader = Literal["auto", "forms", "model"]
"""`auto`: a model where one is configured, else the forms."""


def without_model(
    text: str, registry: Registry, reader: Reader, *, has_model: bool, file: str = "prompt"
) -> CompiledPrompt | None:
    """What a prompt comes to without a model; none where one is to be asked.

    Args:
        text: The prompt.
        registry: What it may use.
        reader: Who is to read it.
        has_model: Whether there is a model to ask.
        file: What the prompt is called in messages.
    """
    found = unreadable(text, file, "forms")
    if found is not None:
        return found
    if reader == "forms" or (reader == "auto" and not has_model):
        return compile_prompt(text, registry, file=file)
    return None if has_model else needs_model(text, file)


def needs_model(text: str, file: str) -> CompiledPrompt:
    """The result of a prompt that a model is to read where no model is configured."""
    fault = Fault(
        "model_failed",
        "a model is to read the prompt, and none is configured",
        "Name one (--model, or `model:` in the registry), or use --reader forms.",
    )
    return CompiledPrompt(Clauses(text, ()), file, "model", EMPTY, None, (fault,))

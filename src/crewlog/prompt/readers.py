"""Which reader reads a prompt, and what its reading comes to.

`auto` is the grammar where it understands everything, else the model if there is one, else what
the grammar understood, with its remarks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from crewlog.prompt.ast import PromptAst
from crewlog.prompt.compile import compile_prompt, compiled, unreadable
from crewlog.prompt.compiled import CompiledPrompt, Remark
from crewlog.prompt.llm import REPAIRS, read_reply
from crewlog.prompt.registry import Registry
from crewlog.prompt.remarks import Remarks

Reader = Literal["auto", "grammar", "llm"]
NOT_READ = frozenset(
    {"not_understood", "read_as_words", "unknown_agent", "unknown_tool", "invalid"}
)
"""Remarks of the grammar where another reader may understand more."""


@dataclass(frozen=True)
class First:
    """A prompt before any model is asked."""

    found: CompiledPrompt | None
    """What the grammar makes of it; none where it was not asked."""
    more: bool
    """Whether a model is to read it, if there is one."""


def first_reading(text: str, registry: Registry, reader: Reader, file: str = "prompt") -> First:
    """What a prompt comes to before it is known whether there is a model.

    Args:
        text: The prompt.
        registry: What it may use.
        reader: Who is to read it.
        file: What the prompt is called in messages.
    """
    found = unreadable(text, file)
    if found is not None:
        return First(found, more=False)
    if reader == "llm":
        return First(None, more=True)
    found = compile_prompt(text, registry, file=file)
    more = reader == "auto" and any(remark.code in NOT_READ for remark in found.remarks)
    return First(found, more)


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
    first = first_reading(text, registry, reader, file)
    if first.more and has_model:
        return None
    return first.found or needs_model(text, file)


def needs_model(text: str, file: str) -> CompiledPrompt:
    """What is said where a model is to read a prompt, and there is none."""
    remarks = Remarks(text, file)
    remarks.error(
        "model_failed",
        "a model is to read the prompt, and there is none",
        (),
        "Name one in the registry or at the start (`model`), or let the grammar read it.",
    )
    return CompiledPrompt(text, file, "llm", PromptAst(), None, remarks.all())


@dataclass(frozen=True)
class Asked:
    """What a model's answer comes to."""

    faults: int
    """What does not hold in it."""
    compiled: CompiledPrompt | None
    """None where the model is to be asked once more."""


def with_model(
    text: str, reply: str, registry: Registry, *, before: int, file: str = "prompt"
) -> Asked:
    """What a model's answer comes to.

    Args:
        text: The prompt.
        reply: The answer.
        registry: What the prompt may use.
        before: How often it has answered before.
        file: What the prompt is called in messages.
    """
    read = read_reply(text, reply, registry)
    faults = len(read.faults)
    if faults and before < REPAIRS:
        return Asked(faults, None)
    remarks = read.remarks(text, file)
    if faults and not read.ast.statements:
        none = CompiledPrompt(text, file, "llm", read.ast, None, remarks, rounds=before)
        return Asked(faults, none)
    found = compiled(
        text, read.ast, registry, file=file, reader="llm", remarks=remarks, rounds=before
    )
    return Asked(faults, _sound(found))


def _sound(found: CompiledPrompt) -> CompiledPrompt:
    """What was compiled, with an error where there is neither a definition nor one."""
    if found.definition is not None or any(remark.error for remark in found.remarks):
        return found
    remarks = Remarks(found.text, found.file)
    remarks.error("invalid", "the prompt does not say who does what")
    more: tuple[Remark, ...] = (*found.remarks, *remarks.all())
    return replace(found, remarks=more)

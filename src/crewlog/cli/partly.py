"""A crew that has only a part of its prompt: its runs begin with a question to people.

The question is a phase of the crew's own flow. So every run asks it, no matter which client starts
the run, and `--yes` does not answer it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crewlog.cli.screen import counted
from crewlog.definition.model import AskPhase, CrewDefinition, ParallelPhase
from crewlog.definition.phases import phases

if TYPE_CHECKING:
    from crewlog.prompt.compiled import CompiledPrompt

APPROVE = "approve_crew"
"""The phase that asks."""
_NO_HINT = {"empty", "too_large", "model_failed"}
"""Faults whose remedy is all that helps."""


def asking_first(found: CompiledPrompt) -> CompiledPrompt:
    """The compiled prompt; where it has faults, its crew asks people before its first step.

    Args:
        found: A prompt with a crew that can run.
    """
    crew = found.definition
    if crew is None or found.ok:
        return found
    name = _free({phase.name for phase in phases(crew)} | {*crew.agents})
    faults = counted(len(found.faults), "fault")
    say = f"The prompt of this crew is not understood as a whole ({faults}). Run the crew?"
    flow = (AskPhase(ask=say, phase=name), *(_after_it(item, name) for item in crew.flow))
    moved = tuple(
        replace(source, path=("flow", source.path[1] + 1, *source.path[2:]))
        if source.path[:1] == ("flow",) and isinstance(source.path[1], int)
        else source
        for source in found.sources
    )
    asks = CrewDefinition.model_validate({**_fields(crew), "flow": flow})
    return replace(found, definition=asks, sources=moved)


def _fields(crew: CrewDefinition) -> dict[str, Any]:
    return {
        (field.alias or name): getattr(crew, name)
        for name, field in CrewDefinition.model_fields.items()
        if name in crew.model_fields_set
    }


def _free(taken: set[str]) -> str:
    name, number = APPROVE, 1
    while name in taken:
        number += 1
        name = f"{APPROVE}_{number}"
    return name


def _after_it(item: Any, name: str) -> Any:
    """An item of the flow; where it starts with the run, it waits for the question."""
    if isinstance(item, tuple):
        parts: tuple[Any, ...] = item  # pyright: ignore[reportUnknownVariableType]
        return tuple(_after_it(each, name) for each in parts)
    if isinstance(item, ParallelPhase):
        parts = tuple(_after_it(part, name) for part in item.parallel)
        item = item.model_copy(update={"parallel": parts})
    if getattr(item, "after", None) == ():
        return item.model_copy(update={"after": name})
    return item


def ways_on(found: CompiledPrompt, *, partial: bool) -> str:
    """What people can do about a prompt with faults, as a line; empty where the remedies say all.

    Args:
        found: The prompt.
        partial: Whether the command takes `--allow-partial`, and did not get it.
    """
    if not found.faults or any(fault.code in _NO_HINT for fault in found.faults):
        return ""
    ways = ["reword the prompt as the hints say"]
    if found.reader == "forms":
        ways.append("let a model read it (--reader model --model NAME)")
    ways.append("write the crew by hand (crew.yaml)")
    if found.partial and partial:
        ways.append("take the part that is understood (--allow-partial; people approve each run)")
    faults = counted(len(found.faults), "fault")
    return f"{faults}: the prompt is not understood as a whole. You can {_either(ways)}."


def _either(ways: list[str]) -> str:
    return f"{', '.join(ways[:-1])}, or {ways[-1]}"

"""The agents of a draft: what a prompt says of each, and what the registry gives it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from crewlog.definition.model import AgentDefinition
from crewlog.model import Json
from crewlog.prompt.ast import Words
from crewlog.prompt.registry import OfferedAgent
from crewlog.prompt.wording import agent_prompt, duties, task_text

_WORD = re.compile(r"[^\W_]+")


@dataclass
class Member:
    """An agent of the draft."""

    name: str
    words: tuple[Words, ...]
    """Where it is first spoken of."""
    offered: OfferedAgent | None = None
    """What the registry has of that name."""
    traits: list[str] = field(default_factory=list[str])
    tasks: list[str] = field(default_factory=list[str])
    tools: list[str] = field(default_factory=list[str])
    """What the prompt gives it."""
    flags: list[str] = field(default_factory=list[str])
    outputs: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    """Outputs, each with the values that conditions compare it with."""
    lists: list[str] = field(default_factory=list[str])
    """Outputs that are lists."""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else the prompt says: model, pattern, enabled, on_error, reads, writes."""
    settings: list[tuple[str, tuple[Words, ...]]] = field(
        default_factory=list[tuple[str, tuple[Words, ...]]]
    )
    """What was set, and where it was said."""

    def all_tools(self) -> list[str]:
        """Its tools: the registry's and those that the prompt gives it."""
        own = list(self.offered.tools or ()) if self.offered else []
        return list(dict.fromkeys([*own, *self.tools]))

    def mentions(self, noun: str) -> bool:
        """Whether what is said of it speaks of a thing."""
        wanted = {stem(word) for word in _WORD.findall(noun)}
        said = {stem(word) for text in (*self.tasks, *self.traits) for word in _WORD.findall(text)}
        return bool(wanted) and wanted <= said

    def definition(self, tasks_apart: bool) -> AgentDefinition:
        """The agent as a definition has it.

        Args:
            tasks_apart: Whether its phases have their tasks, so that its prompt needs none.
        """
        base = self.offered.definition() if self.offered else None
        given: dict[str, Any] = dict(self.fields)
        flags = list(base.writes_flags) if base else []
        keys = list(base.outputs) if base else []
        said = duties(
            [flag for flag in self.flags if flag not in flags],
            {key: values for key, values in self.outputs.items() if key not in keys},
            [key for key in self.lists if key not in keys],
            [*self.tasks, *self.traits],
        )
        if base is None and "does" in self.fields:
            prompt = ""  # it has no model
        elif base is None:
            sentences = [*([] if tasks_apart else self.tasks), *self.traits]
            prompt = agent_prompt(self.name, sentences, said)
        else:
            prompt = " ".join(part for part in (base.prompt, task_text(self.traits), *said) if part)
        return AgentDefinition.model_validate(
            {
                **(base.model_dump(exclude_unset=True, by_alias=True) if base else {}),
                **given,
                "prompt": prompt,
                "tools": tuple(self.all_tools()),
                "writes_flags": tuple(dict.fromkeys([*flags, *self.flags])),
                "outputs": tuple(dict.fromkeys([*keys, *self.outputs])),
            }
        )


def stem(word: str) -> str:
    """A word without the endings of plurals, so that `models` and `model` are one."""
    folded = word.casefold()
    if folded.endswith("ies") and len(folded) > 4:
        return folded[:-3] + "y"
    if folded.endswith(("ses", "xes", "zes", "ches", "shes")):
        return folded[:-2]
    return folded[:-1] if folded.endswith("s") and not folded.endswith("ss") else folded


def speaks_of(members: Iterable[Member], noun: str, prefer: Sequence[str]) -> str | None:
    """The agent that what is said of speaks of a thing; of several the preferred or first one."""
    found = [member.name for member in members if noun and member.mentions(noun)]
    for name in prefer:
        if name in found:
            return name
    return found[0] if found else None

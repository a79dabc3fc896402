"""The agents of a reading: what it says of each, and what the registry gives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crewlog.definition.decisions import reply_fields
from crewlog.definition.model import AgentDefinition
from crewlog.definition.replies import Reply
from crewlog.model import Json
from crewlog.prompt import reading as r
from crewlog.prompt.registry import OfferedAgent
from crewlog.prompt.wording import agent_prompt, duties, task_text


@dataclass
class Member:
    """An agent while a reading is lowered."""

    name: str
    clauses: tuple[int, ...]
    """Where it is first spoken of."""
    offered: OfferedAgent | None = None
    """What the registry has of that name."""
    traits: list[str] = field(default_factory=list[str])
    tasks: list[str] = field(default_factory=list[str])
    tools: list[str] = field(default_factory=list[str])
    """What the prompt gives it."""
    flags: list[str] = field(default_factory=list[str])
    outputs: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    """Outputs, each with the values of a choice."""
    lists: list[str] = field(default_factory=list[str])
    """Outputs that are lists."""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else the prompt says: model, pattern, enabled, on_error, reads, writes."""

    def all_tools(self) -> list[str]:
        """Its tools: the registry's and those that the prompt gives it."""
        own = list(self.offered.tools or ()) if self.offered else []
        return list(dict.fromkeys([*own, *self.tools]))

    def decides(self, output: r.Output) -> None:
        """Lets it set an output, unless it sets one of that name anyway."""
        if output.kind == "boolean" and output.name != "unsure":
            if not self.sets(output.name):
                self.flags.append(output.name)
        elif output.kind == "list":
            self.makes_list(output.name)
        elif not self.sets(output.name):
            self.outputs[output.name] = list(output.values)

    def makes_list(self, name: str) -> None:
        """Lets it set an output that is a list."""
        self.outputs.setdefault(name, [])
        if name not in self.lists:
            self.lists.append(name)

    def sets(self, name: str) -> bool:
        """Whether it sets a flag or an output of a name, by itself or by the form of its reply."""
        if name in self.flags or name in self.outputs or name == "text":
            return True
        reply: Reply | None = self.fields.get("reply")
        if reply is None and self.offered is not None:
            reply = self.offered.reply
        own = (*self.offered.writes_flags, *self.offered.outputs) if self.offered else ()
        return name in own or (reply is not None and name in reply_fields(reply))

    def definition(self, *, tasks_apart: bool) -> AgentDefinition:
        """The agent as a definition has it.

        Args:
            tasks_apart: Whether its phases have their tasks, so that its prompt needs none.
        """
        base = self.offered.definition() if self.offered else None
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
                **self.fields,
                "prompt": prompt,
                "tools": tuple(self.all_tools()),
                "writes_flags": tuple(dict.fromkeys([*flags, *self.flags])),
                "outputs": tuple(dict.fromkeys([*keys, *self.outputs])),
            }
        )

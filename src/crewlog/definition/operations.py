"""Changes to a definition, one by one: what `change` takes instead of a whole definition.

Each operation says one thing that people want to be otherwise, and is data: the same in YAML, on
the wire and on the command line. `crewlog.definition.apply` applies them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from crewlog.definition.model import Name
from crewlog.ids import RunId
from crewlog.model import Json, Model


class AddAgent(Model):
    """Add an agent, with a phase where it takes its turn."""

    op: Literal["add_agent"] = "add_agent"
    name: Name
    agent: dict[str, Json] = Field(default_factory=dict)
    """As under `agents` in a definition; with `like`, what it has of its own."""
    like: str | None = None
    """An agent of the crew that it is like in all that `agent` does not say, but for its channels,
    wires, ties and privileges."""
    phase: dict[str, Json] = Field(default_factory=dict)
    """What its phase has besides the agent: `after`, `when`, `task`, …; by default it comes last,
    after the phases that nothing follows, and in a crew with channels has none."""
    before: tuple[str, ...] = ()
    """Phases that wait for it from now on."""


class RemoveAgent(Model):
    """Remove an agent and its phases; what waited for these waits for what they waited for."""

    op: Literal["remove_agent"] = "remove_agent"
    name: str


class EnableAgent(Model):
    """Let an agent take part again."""

    op: Literal["enable_agent"] = "enable_agent"
    name: str


class DisableAgent(Model):
    """Switch an agent off: its phases stay where they are, and are skipped."""

    op: Literal["disable_agent"] = "disable_agent"
    name: str


class EditAgent(Model):
    """Change fields of an agent: its prompt, its model, its tools, and others."""

    op: Literal["edit_agent"] = "edit_agent"
    name: str
    set: dict[str, Json] = Field(min_length=1)
    """The fields, as under `agents`; null puts the default back."""


class AddPhase(Model):
    """Add a phase of any kind."""

    op: Literal["add_phase"] = "add_phase"
    phase: dict[str, Json]
    """As in `flow`, with what it comes `after`."""
    before: tuple[str, ...] = ()
    """Phases that wait for it from now on."""


class RemovePhase(Model):
    """Remove a phase; what waited for it waits for what it waited for."""

    op: Literal["remove_phase"] = "remove_phase"
    name: str


class EditPhase(Model):
    """Change fields of a phase: `after`, `when`, `at_most`, and others."""

    op: Literal["edit_phase"] = "edit_phase"
    name: str
    set: dict[str, Json] = Field(min_length=1)


class AddTool(Model):
    """Add a tool, and let agents have it."""

    op: Literal["add_tool"] = "add_tool"
    name: Name
    tool: dict[str, Json]
    """As under `tools` in a definition."""
    agents: tuple[str, ...] = ()
    """Agents that list their tools and get this one, too; those that inherit have it anyway."""


class RemoveTool(Model):
    """Remove a tool, from the agents that list it, too."""

    op: Literal["remove_tool"] = "remove_tool"
    name: str


class EditTool(Model):
    """Change fields of a tool."""

    op: Literal["edit_tool"] = "edit_tool"
    name: str
    set: dict[str, Json] = Field(min_length=1)


class EditPermission(Model):
    """Say who may call a tool."""

    op: Literal["set_permission"] = "set_permission"
    tool: str
    agents: tuple[str, ...] | None
    """Null: every agent that has it; an empty list: nobody."""


class AddRule(Model):
    """Add a rule over calls of tools."""

    op: Literal["add_rule"] = "add_rule"
    rule: dict[str, Json] = Field(min_length=1)
    """As under `rules` in a definition."""


class EditRule(Model):
    """Change fields of a rule."""

    op: Literal["edit_rule"] = "edit_rule"
    place: int = Field(ge=0)
    """Which one, from 0: 1 is `rules[1]`."""
    set: dict[str, Json] = Field(min_length=1)
    """The fields, as under `rules`; null puts the default back."""


class RemoveRule(Model):
    """Remove a rule; those behind it move up at once."""

    op: Literal["remove_rule"] = "remove_rule"
    place: int = Field(ge=0)
    """Which one, from 0: 1 is `rules[1]`."""


class SetGroup(Model):
    """Say who is in a group; one that is not there is made."""

    op: Literal["set_group"] = "set_group"
    name: Name
    agents: tuple[str, ...]


class RemoveGroup(Model):
    """Remove a group that nothing names any more."""

    op: Literal["remove_group"] = "remove_group"
    name: str


class EditCrew(Model):
    """Change fields of the crew itself: `model`, `flow`, `limits`, `groups`, `logs`, and others."""

    op: Literal["edit_crew"] = "edit_crew"
    set: dict[str, Json] = Field(min_length=1)


class AddChannel(Model):
    """Add a channel, which connects nobody by itself."""

    op: Literal["add_channel"] = "add_channel"
    name: Name
    description: str | None = None
    """What it is for, in a line."""


class RemoveChannel(Model):
    """Remove a channel, with all that leads there."""

    op: Literal["remove_channel"] = "remove_channel"
    name: str


class Connect(Model):
    """Let an agent send to a channel, and another one listen to it."""

    op: Literal["connect"] = "connect"
    sender: str
    listener: str
    channel: Name | None = None
    """By default `SENDER-to-LISTENER`; one that is not there is made."""
    other: RunId | None = None
    """The run in which the listener lives, where it is another one: the two become one."""

    @property
    def over(self) -> str:
        """The channel, by its name."""
        return self.channel or f"{self.sender}-to-{self.listener}"[:64]


class Disconnect(Model):
    """Let what an agent says in a channel be heard by another one no more.

    Who sends goes on where others listen, and who listens where others speak; where both would, who
    listens leaves the channel.
    """

    op: Literal["disconnect"] = "disconnect"
    sender: str
    listener: str
    channel: str | None = None
    """By default every channel that leads from the one to the other."""


class Wire(Model):
    """Let an agent's final messages go to another agent, too, or to a channel."""

    op: Literal["wire"] = "wire"
    name: str
    to: str
    """An agent, or `channel:C`."""
    other: RunId | None = None
    """The run in which that is, where it is another one: the two become one."""


class Unwire(Model):
    """Let an agent's final messages go there no more."""

    op: Literal["unwire"] = "unwire"
    name: str
    to: str


Operation = Annotated[
    AddAgent
    | RemoveAgent
    | EnableAgent
    | DisableAgent
    | EditAgent
    | AddPhase
    | RemovePhase
    | EditPhase
    | AddTool
    | RemoveTool
    | EditTool
    | EditPermission
    | AddRule
    | EditRule
    | RemoveRule
    | SetGroup
    | RemoveGroup
    | AddChannel
    | RemoveChannel
    | Connect
    | Disconnect
    | Wire
    | Unwire
    | EditCrew,
    Field(discriminator="op"),
]
"""One change to a definition."""

"""What a prompt may use: the tools, agents, models and builders that its crew's registry offers.

A prompt is untrusted text. It can name what stands here, and nothing else; it can narrow what an
agent may do, and never widen it.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from crewlog.definition.capabilities import Offer
from crewlog.definition.model import (
    AgentDefinition,
    CrewDefinition,
    Limits,
    Name,
    Rule,
    ToolDefinition,
)
from crewlog.definition.reaching import McpServer
from crewlog.definition.unused import callers
from crewlog.model import Model

LONGEST_WAIT = 365 * 86_400.0
"""Seconds that a prompt may have a run wait."""
WAIT_REMEDY = "At most 365 days; for more, wait until a date, or write it into the definition."


class OfferedTool(ToolDefinition):
    """A tool, and what a prompt may do with it."""

    words: tuple[str, ...] = ()
    """How people say it, besides its name: `write files`, `search the web`."""
    grant: tuple[str, ...] | None = None
    """The agents that a prompt may give it to. Null: any; an empty list: none, so that only agents
    of the registry that list it have it."""

    def definition(self) -> ToolDefinition:
        """The tool as a definition has it."""
        return ToolDefinition.model_validate(
            self.model_dump(exclude={"words", "grant"}, exclude_unset=True)
        )


class OfferedAgent(AgentDefinition):
    """An agent that prompts may name. Its tools are its own, whatever a prompt says."""

    words: tuple[str, ...] = ()
    """How people call it, besides its name."""

    def definition(self) -> AgentDefinition:
        """The agent as a definition has it."""
        return AgentDefinition.model_validate(
            self.model_dump(exclude={"words"}, exclude_unset=True, by_alias=True)
        )


class Registry(Model):
    """What prompts may use."""

    registry: Name = "registry"
    """Its name."""
    description: str | None = None
    """What it is for."""
    model: str | None = None
    """The model of crews that say nothing of one."""
    models: tuple[str, ...] = ()
    """Models that prompts may name, besides `model`."""
    agents: dict[Name, OfferedAgent] = Field(default_factory=dict)
    """Agents by name."""
    new_agents: bool = True
    """Whether prompts may speak of agents that do not stand here."""
    tools: dict[Name, OfferedTool] = Field(default_factory=dict)
    """Tools by name."""
    mcp: dict[Name, McpServer] = Field(default_factory=dict)
    """Servers of tools by the Model Context Protocol; `run: mcp:SERVER/TOOL` names a tool."""
    builders: tuple[Name, ...] | None = None
    """Builders that prompts may use. Null: every registered one."""
    approvals: dict[Name, tuple[str, ...] | None] = Field(default_factory=dict)
    """Tools whose calls wait for a person's yes, whatever the prompt says, with the agents; null:
    every agent."""
    groups: dict[Name, tuple[str, ...]] = Field(default_factory=dict)
    """Agents by the group's name, for `rules`."""
    rules: tuple[Rule, ...] = ()
    """Rules over calls of tools, as in a definition: they hold in every crew, whatever the prompt
    says."""
    limits: Limits = Limits()
    """Bounds of every crew; a prompt can only lower them."""
    approval: Literal["required", "understood"] = "understood"
    """Whether `--yes` may approve what a prompt was compiled to; see `CrewDefinition.approval`."""

    def with_model(self, model: str) -> Self:
        """The registry with another model of crews that say nothing of one; of none, as it is.

        What it offered is offered still.
        """
        if not model or model == self.model:
            return self
        own = () if self.model is None else (self.model,)
        models = tuple(dict.fromkeys((*own, *self.models)))
        return self.model_copy(update={"model": model, "models": models})


def registry_of_crew(crew: CrewDefinition) -> Registry:
    """What a prompt may use that changes a crew for which no registry stands: what the crew has.

    Its agents keep what they may call, and its tools go to nobody else. A default that an agent
    says can be said otherwise.
    """
    may = {tool: callers(crew, tool) for tool in crew.tools}
    agents = {
        name: {
            **agent.model_dump(exclude_unset=True, exclude={*agent.said_defaults}, by_alias=True),
            "tools": tuple(tool for tool in crew.tools if name in may[tool]),
        }
        for name, agent in crew.agents.items()
    }
    tools = {
        name: {**tool.model_dump(exclude_unset=True), "grant": tuple(may[name])}
        for name, tool in crew.tools.items()
    }
    return Registry.model_validate(
        {
            "registry": crew.crew,
            "model": crew.model,
            "models": tuple(dict.fromkeys(a.model for a in crew.agents.values() if a.model)),
            "agents": agents,
            "tools": tools,
            "mcp": crew.mcp,
            "approvals": crew.approvals,
            "groups": crew.groups,
            "rules": crew.rules,
            "limits": crew.limits,
            "approval": crew.approval,
        }
    )


def offer_of_registry(registry: Registry, version: int | None = None) -> Offer:
    """A registry as `crewlog.definition.capabilities` asks about it."""
    return Offer(
        kind="registry",
        name=registry.registry,
        version=version,
        agents=registry.agents,
        tools=registry.tools,
        approvals=registry.approvals,
        grants={name: tool.grant for name, tool in registry.tools.items()},
    )

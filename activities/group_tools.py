"""The group tools, by which a privileged agent changes its component.

They have no effect by themselves. They return operations, which the run handles as any change of
its crew; the model gets the result of the change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.types import Command
from pydantic import BaseModel, Field

from crewlog.activities.tool_node import REGROUPS
from crewlog.definition import group_tools as operation_makers
from crewlog.definition.model import NAME_PATTERN, WIRE_PATTERN, CrewDefinition
from crewlog.definition.operations import AddAgent, Operation
from crewlog.errors import UsageError
from crewlog.graph.group_tools import PENDING_ANSWER
from crewlog.ids import AgentName, ToolName
from crewlog.tool_call import current_call

MOST = 50
"""The most edges of one kind for a new agent."""
_Name = Annotated[str, Field(pattern=NAME_PATTERN)]
_To = Annotated[str, Field(pattern=WIRE_PATTERN)]
_Names = Annotated[list[_Name], Field(max_length=MOST)]


class GroupAddNode(BaseModel):
    """The arguments of `group_add_node`."""

    name: _Name = Field(description="The new agent's name, which nobody had before.")
    prompt: str | None = Field(
        None, min_length=1, max_length=20_000, description="Its prompt: what it is to do."
    )
    like: _Name | None = Field(
        None, description="An agent of the crew that it is like in all that is not said here."
    )
    description: str | None = Field(
        None, max_length=300, description="What it is for, in a line; shown to people."
    )
    tools: _Names | None = Field(
        None, description="Its tools; by default those of the agent that it is like, or yours."
    )
    listen: _Names = Field([], description="Channels whose messages give it a turn each.")
    send: _Names = Field([], description="Channels that it may send to.")
    wires: Annotated[list[_To], Field(max_length=MOST)] = Field(
        [], description="Where what it says at the end of a turn goes: agents, or `channel:C`."
    )


class GroupNode(BaseModel):
    """The arguments of the tools with one agent."""

    name: _Name = Field(description="The agent.")


class GroupChannel(BaseModel):
    """The arguments of `group_channel`."""

    action: Literal["add", "remove", "connect", "disconnect"] = Field(
        description="`add` or `remove` a channel; `connect` or `disconnect` two agents by one."
    )
    channel: _Name | None = Field(
        None,
        description="The channel. To connect, by default SENDER-to-LISTENER, which is made; to "
        "disconnect, by default all that lead from the one to the other.",
    )
    sender: _Name | None = Field(None, description="Who sends there, to connect or disconnect.")
    listener: _Name | None = Field(None, description="Who listens there, likewise.")
    description: str | None = Field(
        None, max_length=300, description="Of a channel to add: what it is for, in a line."
    )


class GroupWire(BaseModel):
    """The arguments of `group_wire`."""

    name: _Name = Field(description="The agent whose words go there.")
    to: _To = Field(description="Where they go: an agent, or `channel:C`.")
    action: Literal["add", "remove"] = Field("add", description="`add` the wire, or `remove` it.")


_Maker = Callable[..., Operation]
_ABOUT: dict[str, tuple[type[BaseModel], str]] = {
    "group_add_node": (
        GroupAddNode,
        (
            "Brings a new agent into your graph. It works for you, and may do no more than you. It "
            "may listen and send only where you listen or send: wire it to you, or connect it to "
            "you by group_channel once it is there."
        ),
    ),
    "group_remove_node": (
        GroupNode,
        (
            "Takes an agent out of your graph, with what leads to it. A turn that it has goes on "
            "to its end."
        ),
    ),
    "group_start_node": (GroupNode, "Lets an agent take part again that was stopped."),
    "group_stop_node": (
        GroupNode,
        "Lets an agent of your graph stand still: what it hears waits until it is started.",
    ),
    "group_channel": (
        GroupChannel,
        (
            "Adds or removes a channel of your graph, or lets one agent send to another one by a "
            "channel, or no more. Each message in a channel gives a turn to all who listen there."
        ),
    ),
    "group_wire": (
        GroupWire,
        (
            "Lets what an agent says at the end of each turn go to another agent or a channel, "
            "which gives a turn there; or no more."
        ),
    ),
}


Remembers = Callable[[CrewDefinition, AgentName], Awaitable[bool]]
"""Returns whether the memory has something of an agent with a name."""


def group_tool(
    name: ToolName, crew: CrewDefinition, who: AgentName, remembers: Remembers | None = None
) -> StructuredTool:
    """Returns the group tool of an agent.

    Args:
        name: The tool.
        crew: The crew.
        who: The agent.
        remembers: Returns whether the memory has something of a name; None: no memory.
    """
    makers: dict[str, _Maker] = {
        "group_add_node": partial(operation_makers.add_node, crew, who),
        "group_remove_node": operation_makers.remove_node,
        "group_start_node": operation_makers.start_node,
        "group_stop_node": operation_makers.stop_node,
        "group_channel": operation_makers.change_channel,
        "group_wire": operation_makers.change_wire,
    }
    schema, about = _ABOUT[name]
    make = makers[name]

    async def call(**args: Any) -> Command[Any]:
        operation = make(**args)
        if isinstance(operation, AddAgent) and operation.name not in crew.agents:
            new = AgentName(operation.name)
            if remembers is not None and await remembers(crew, new):
                raise UsageError(
                    f"another agent with the name {new!r} has memories that the new one must not "
                    "read",
                    remedy="Choose another name.",
                )
        data = {"op": operation.op, **operation.to_json()}
        message = ToolMessage(PENDING_ANSWER, tool_call_id=current_call().id)
        return Command(update={REGROUPS: [data], "messages": [message]})

    return StructuredTool.from_function(
        coroutine=call, name=name, description=about, args_schema=schema
    )

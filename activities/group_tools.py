"""The group tools, by which a privileged agent changes its component.

They only return operations, which the run handles like any change of its crew. The model gets the
result of the change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.types import Command
from pydantic import BaseModel, Field

from crewlog.activities.tool_loader import Tool, make_tool
from crewlog.activities.tool_node import GRAPH_CHANGES
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

    name: _Name = Field(description="The name of the new agent; no agent may have had it before.")
    prompt: str | None = Field(
        None, min_length=1, max_length=20_000, description="Its prompt: its task."
    )
    like: _Name | None = Field(
        None,
        description="An agent of the crew whose other settings it copies.",
    )
    description: str | None = Field(
        None, max_length=300, description="Its purpose, in one line, for people."
    )
    tools: _Names | None = Field(
        None, description="Its tools; by default those of the agent in `like`, or yours."
    )
    listen: _Names = Field([], description="Channels whose messages give it a turn each.")
    send: _Names = Field([], description="Channels that it may send to.")
    wires: Annotated[list[_To], Field(max_length=MOST)] = Field(
        [], description="Where its final messages go: agents, or `channel:C`."
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
        description="The channel. To connect, by default a new one, SENDER-to-LISTENER; to "
        "disconnect, by default all channels from the sender to the listener.",
    )
    sender: _Name | None = Field(None, description="The sending agent, to (dis)connect.")
    listener: _Name | None = Field(None, description="The listening agent, to (dis)connect.")
    description: str | None = Field(
        None, max_length=300, description="The purpose of a channel to add, in one line."
    )


class GroupWire(BaseModel):
    """The arguments of `group_wire`."""

    name: _Name = Field(description="The agent whose final messages are sent.")
    to: _To = Field(description="The receiver: an agent, or `channel:C`.")
    action: Literal["add", "remove"] = Field("add", description="`add` the wire, or `remove` it.")


_Maker = Callable[..., Operation]
_TOOLS: dict[str, tuple[_Maker, type[BaseModel], str]] = {
    "group_add_node": (
        operation_makers.add_node,
        GroupAddNode,
        (
            "Adds a new agent to your graph. It works for you, and has no more rights than you. It "
            "may listen and send only where you listen or send: wire it to you, or connect it to "
            "you with group_channel after you have added it."
        ),
    ),
    "group_remove_node": (
        operation_makers.remove_node,
        GroupNode,
        "Removes an agent from your graph, with its connections. Its current turn runs to its end.",
    ),
    "group_start_node": (
        operation_makers.start_node,
        GroupNode,
        "Starts a stopped agent of your graph again.",
    ),
    "group_stop_node": (
        operation_makers.stop_node,
        GroupNode,
        "Stops an agent of your graph: its messages wait until it is started again.",
    ),
    "group_channel": (
        operation_makers.change_channel,
        GroupChannel,
        (
            "Adds or removes a channel of your graph, or (dis)connects two agents by a channel. "
            "Each message in a channel starts a turn of every agent that listens to it."
        ),
    ),
    "group_wire": (
        operation_makers.change_wire,
        GroupWire,
        (
            "Adds or removes an output wire: it sends the final message of each turn of an agent "
            "to another agent or a channel, and starts a turn there."
        ),
    ),
}


HasMemories = Callable[[CrewDefinition, AgentName], Awaitable[bool]]
"""Returns whether the scope of an agent's name has entries in the memory."""


def group_tool(
    name: ToolName, crew: CrewDefinition, agent: AgentName, has_memories: HasMemories
) -> Tool:
    """Returns the group tool of an agent.

    Args:
        name: The tool.
        crew: The crew.
        agent: The agent.
        has_memories: Returns whether an agent's name has entries in the memory.
    """
    make, schema, about = _TOOLS[name]
    if name == "group_add_node":
        make = partial(make, crew, agent)

    async def call(**args: Any) -> Command[Any]:
        operation = make(**args)
        if isinstance(operation, AddAgent) and operation.name not in crew.agents:
            new = AgentName(operation.name)
            if await has_memories(crew, new):
                raise UsageError(
                    f"another agent with the name {new!r} has memories that the new one must not "
                    "read",
                    remedy="Choose another name.",
                )
        data = {"op": operation.op, **operation.to_json()}
        message = ToolMessage(PENDING_ANSWER, tool_call_id=current_call().id)
        return Command(update={GRAPH_CHANGES: [data], "messages": [message]})

    return make_tool(
        StructuredTool.from_function(
            coroutine=call, name=name, description=about, args_schema=schema
        )
    )

"""One tool call through LangGraph's `ToolNode`, with LangGraph's own semantics.

`ToolNode` must be a node of a graph: alone it raises for a missing config key. So it runs in a
graph of one node, compiled once for each tool. Its result may be a `Command`, which no data
converter carries; here it becomes plain data.

The result of an agent without a model sets outputs, too: a model would call `set_output`. If the
result is an object, its keys set the outputs that the agent declares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, cast
from weakref import WeakKeyDictionary

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from crewlog.activities.tool_loader import Tool
from crewlog.canonical_json import canonical, check_depth
from crewlog.definition.model import GROUP_TOOLS, SEND_MESSAGE, AgentDefinition
from crewlog.errors import ToolFailed
from crewlog.ids import NodeName
from crewlog.model import Json
from crewlog.state.calls import ArtifactChange, ToolCallDenied, ToolCallInvalid

_UPDATES = frozenset({"flags", "outputs", "operations", "messages"})
SENDS = "sends"
"""The key that the built-in tool of channels updates; the tools of a crew may not."""
GRAPH_CHANGES = "graph_changes"
"""The key that the group tools update; the tools of a crew may not."""
_OWN = {SEND_MESSAGE: {SENDS}, **{tool: {GRAPH_CHANGES} for tool in GROUP_TOOLS}}


class ToolState(TypedDict, total=False):
    """The state for a tool that asks for it, and the call."""

    messages: list[BaseMessage]
    """The transcript of the agent, up to the message with the call."""
    run: str
    step: str
    agent: str
    call: dict[str, Any]
    outcome: Any


@dataclass
class Outcome:
    """The result of a tool."""

    message: ToolMessage
    flags: dict[str, Json] = field(default_factory=dict[str, Json])
    outputs: dict[str, Json] = field(default_factory=dict[str, Json])
    goto: list[NodeName] = field(default_factory=list[NodeName])
    operations: list[Json] = field(default_factory=list[Json])
    """Its operations on artifacts, as it returned them."""
    sends: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Its messages to channels."""
    graph_changes: list[dict[str, Json]] = field(default_factory=list[dict[str, Json]])
    """Its operations on the component of its agent."""
    changes: tuple[ArtifactChange, ...] = ()
    """Its operations on artifacts, after they were tried on what the agent sees."""
    result: ToolCallInvalid | ToolCallDenied | None = None
    """The outcome of a call that was not made."""


class ToolRunner:
    """Runs tools, each in a compiled graph of its own."""

    def __init__(self) -> None:
        self._graphs: WeakKeyDictionary[Tool, Any] = WeakKeyDictionary()

    async def run(self, tool: Tool, id_: str, args: Mapping[str, Any], state: ToolState) -> Outcome:
        """Runs a tool.

        Raises:
            langgraph.prebuilt.tool_node.ToolInvocationError: the arguments are not valid.
            ToolFailed: it returned a `Command` that a run cannot follow.
            Exception: the tool raised it.
        """
        graph = self._graphs.get(tool)
        if graph is None:
            graph = self._graphs[tool] = _compile(tool.tool)
        call = {"name": tool.tool.name, "args": dict(args), "id": id_, "type": "tool_call"}
        done = await graph.ainvoke({**state, "call": call})
        if "outcome" not in done:  # LangGraph ended the graph to wait for an answer
            raise ToolFailed(
                f"the tool {tool.tool.name!r} called LangGraph's interrupt()",
                remedy="A crew asks people by an `ask` phase in its flow.",
            )
        return _outcome(tool.tool.name, done["outcome"])


def _compile(tool: BaseTool) -> Any:
    # Crewlog classifies errors itself, see `tool_calls`.
    node = ToolNode([tool], handle_tool_errors=False)

    async def execute(state: ToolState, config: RunnableConfig) -> ToolState:
        # The same shape as a `Send` from an agent's graph: the state is read from the channels.
        return {"outcome": await node.ainvoke(cast("Any", [state.get("call")]), config)}

    graph: StateGraph[ToolState, None, ToolState, ToolState] = StateGraph(ToolState)
    graph.add_node("tool", execute)
    graph.add_edge(START, "tool")
    graph.add_edge("tool", END)
    return graph.compile(name="tool")


def _outcome(name: str, output: Any) -> Outcome:
    if isinstance(output, dict):
        (message,) = cast("dict[str, list[ToolMessage]]", output)["messages"]
        return Outcome(message)
    parts: Sequence[Any] = output
    messages: list[ToolMessage] = []
    goto: list[NodeName] = []
    merged: dict[str, Any] = {}  # the keys are those of `Outcome`
    updates = _UPDATES | _OWN.get(name, set())
    for part in parts:
        update = cast("dict[str, Any]", part.update if isinstance(part, Command) else part)
        if unknown := set(update) - updates:
            raise ToolFailed(
                f"the tool {name!r} returned a Command that updates {sorted(unknown)}",
                remedy="A run takes updates of flags, outputs, operations and messages.",
            )
        # A handoff may contain the whole transcript, which the log has already.
        messages += [m for m in update.get("messages", ()) if isinstance(m, ToolMessage)]
        for key, value in update.items():
            if isinstance(value, Mapping):
                merged[key] = {**merged.get(key, {}), **value}
            elif value and key != "messages":
                merged[key] = [*merged.get(key, ()), *value]
        if isinstance(part, Command):
            goto += _targets(name, part.goto)  # pyright: ignore[reportUnknownArgumentType]
    return Outcome(messages[-1], goto=goto, **merged)


def _targets(name: str, goto: Any) -> Iterable[NodeName]:
    for target in [goto] if isinstance(goto, str) else goto or ():
        if not isinstance(target, str):
            raise ToolFailed(
                f"the tool {name!r} returned a Command that goes to a {type(target).__name__}",
                remedy="Name the node to go to; what it should get can be an output.",
            )
        yield NodeName(target)


def with_outputs(outcome: Outcome, agent: AgentDefinition) -> Outcome:
    """Returns the outcome with the outputs that the keys of its result name.

    Args:
        outcome: The outcome. Outputs that it sets by a `Command` stay.
        agent: The agent without a model that made the call.
    """
    if outcome.message.status != "success":
        return outcome
    message = outcome.message
    data = _object(message.artifact)
    # LangChain's adapter puts the data of an MCP tool there.
    result = _object(data.get("structured_content")) or data or _object(message.text)
    outputs = {key: result[key] for key in agent.outputs if key in result}
    if faults := [f"{key!r}: {why}" for key, value in outputs.items() if (why := _fault(value))]:
        text = f"The call was made, but its outputs cannot be stored: {'; '.join(faults)}"
        error = outcome.message.model_copy(update={"status": "error", "content": text})
        return replace(outcome, message=error)
    return replace(outcome, outputs={**outputs, **outcome.outputs})


def _fault(value: Json) -> str:
    """Returns why a value cannot be stored; empty: it can."""
    try:
        check_depth(value)
        canonical(value)
    except (ValueError, TypeError, RecursionError) as error:
        return str(error)
    return ""


def _object(value: Any) -> dict[str, Json]:
    """Returns an object, or the object in a JSON text; otherwise an empty one."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]

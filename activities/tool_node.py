"""One tool call through LangGraph's `ToolNode`, so that what it means is LangGraph's own.

`ToolNode` wants to be a node: alone it raises for a missing config key. So it is one, in a graph
of one node, compiled once per tool. What comes out may be a `Command`, which no data converter
carries; here it becomes plain data.

What a tool's result sets, where it was called by an agent without a model.

A model says by `set_output` what of a result matters. Here nobody does, so the result itself is
looked at: an object sets those outputs that its agent declares.
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

from crewlog.activities.tools import Tool
from crewlog.canonical_json import canonical, check_depth
from crewlog.definition.model import GROUP_TOOLS, SEND_MESSAGE, AgentDefinition
from crewlog.errors import ToolFailed
from crewlog.ids import NodeName
from crewlog.model import Json
from crewlog.state.calls import ArtifactChange, ToolCallDenied, ToolCallInvalid

_UPDATES = frozenset({"flags", "outputs", "operations", "messages"})
SENDS = "sends"
"""What the built-in tool of channels updates; a crew's own tools do not."""
REGROUPS = "regroups"
"""What the group tools update; likewise."""
_OWN = {SEND_MESSAGE: {SENDS}, **{tool: {REGROUPS} for tool in GROUP_TOOLS}}


class ToolState(TypedDict, total=False):
    """What a tool that asks for the state is given, besides the call itself."""

    messages: list[BaseMessage]
    """The agent's view, up to the message that made the call."""
    run: str
    step: str
    agent: str
    call: dict[str, Any]
    outcome: Any


@dataclass
class Outcome:
    """What a tool did."""

    message: ToolMessage
    flags: dict[str, Json] = field(default_factory=dict[str, Json])
    outputs: dict[str, Json] = field(default_factory=dict[str, Json])
    goto: list[NodeName] = field(default_factory=list[NodeName])
    operations: list[Json] = field(default_factory=list[Json])
    """What it does to artifacts, as it said it."""
    sends: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """What it sends to channels."""
    regroups: list[dict[str, Json]] = field(default_factory=list[dict[str, Json]])
    """What it changes of its agent's graph, as operations."""
    changes: tuple[ArtifactChange, ...] = ()
    """The operations on artifacts, tried on what its agent sees."""
    result: ToolCallInvalid | ToolCallDenied | None = None
    """Of a call that was not made: its outcome."""


class ToolRunner:
    """Runs tools, each by its own compiled graph."""

    def __init__(self) -> None:
        self._graphs: WeakKeyDictionary[Tool, Any] = WeakKeyDictionary()

    async def run(self, tool: Tool, id_: str, args: Mapping[str, Any], state: ToolState) -> Outcome:
        """Runs a tool.

        Raises:
            langgraph.prebuilt.tool_node.ToolInvocationError: for arguments that do not fit.
            ToolFailed: for a `Command` that a run cannot follow.
            Exception: whatever the tool raised.
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
    # Errors are ours to sort: the model's, the tool's, or a passing one.
    node = ToolNode([tool], handle_tool_errors=False)

    async def execute(state: ToolState, config: RunnableConfig) -> ToolState:
        # The same shape as a `Send` from an agent's graph: the state is read from the channels.
        return {"outcome": await node.ainvoke(cast("Any", [state.get("call")]), config)}

    graph: StateGraph[ToolState, None, ToolState, ToolState] = StateGraph(ToolState)
    graph.add_node("tool", execute)
    graph.add_edge(START, "tool")
    graph.add_edge("tool", END)
    return graph.compile(name="tool")


def _outcome(name: str, given: Any) -> Outcome:
    if isinstance(given, dict):
        (message,) = cast("dict[str, list[ToolMessage]]", given)["messages"]
        return Outcome(message)
    parts: Sequence[Any] = given
    messages: list[ToolMessage] = []
    flags: dict[str, Json] = {}
    outputs: dict[str, Json] = {}
    goto: list[NodeName] = []
    operations: list[Json] = []
    sends: list[dict[str, str]] = []
    regroups: list[dict[str, Json]] = []
    updates = _UPDATES | _OWN.get(name, set())
    for part in parts:
        update = cast("dict[str, Any]", part.update if isinstance(part, Command) else part)
        if unknown := set(update) - updates:
            raise ToolFailed(
                f"the tool {name!r} returned a Command that updates {sorted(unknown)}",
                remedy="A run takes updates of flags, outputs, operations and messages.",
            )
        flags |= update.get("flags") or {}
        outputs |= update.get("outputs") or {}
        operations += update.get("operations") or ()
        sends += update.get(SENDS) or ()
        regroups += update.get(REGROUPS) or ()
        # A hand-off may bring the whole history along: the log has that already.
        messages += [m for m in update.get("messages", ()) if isinstance(m, ToolMessage)]
        if isinstance(part, Command):
            goto += _targets(name, part.goto)  # pyright: ignore[reportUnknownArgumentType]
    return Outcome(messages[-1], flags, outputs, goto, operations, sends, regroups)


def _targets(name: str, goto: Any) -> Iterable[NodeName]:
    for target in [goto] if isinstance(goto, str) else goto or ():
        if not isinstance(target, str):
            raise ToolFailed(
                f"the tool {name!r} returned a Command that goes to a {type(target).__name__}",
                remedy="Name the node to go to; what it should get can be an output.",
            )
        yield NodeName(target)


def with_outputs(outcome: Outcome, agent: AgentDefinition) -> Outcome:
    """The outcome of a call, with the outputs that its result names by its keys.

    Args:
        outcome: What the tool did. What it sets itself, by a `Command`, stays.
        agent: Who called it: an agent without a model.
    """
    if outcome.message.status != "success":
        return outcome
    message = outcome.message
    data = _object(message.artifact)
    # A server's tool has its data there, as LangChain's adapter puts it.
    found = _object(data.get("structured_content")) or data or _object(message.text)
    named = {key: found[key] for key in agent.outputs if key in found}
    if faults := [f"{key!r}: {why}" for key, value in named.items() if (why := _unkept(value))]:
        said = f"The call was made, but what it says cannot be kept: {'; '.join(faults)}"
        told = outcome.message.model_copy(update={"status": "error", "content": said})
        return replace(outcome, message=told)
    return replace(outcome, outputs={**named, **outcome.outputs})


def _unkept(value: Json) -> str:
    """Why a value cannot be kept; empty where it can."""
    try:
        check_depth(value)
        canonical(value)
    except (ValueError, TypeError, RecursionError) as error:
        return str(error)
    return ""


def _object(value: Any) -> dict[str, Json]:
    """An object, or one in a text of JSON; else an empty one."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]

"""The tools that every crew has, `set_flag` and `set_output`, and those of memory and notes.

They are tools like any other, limited to what their agent declares; what they return is a
`Command`, and the run applies it after its own check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.types import Command
from pydantic import BaseModel, Field, WithJsonSchema, create_model

from crewlog.activities.group_tools import group_tool
from crewlog.activities.memory_tools import MemoryTools
from crewlog.activities.recent import LruCache
from crewlog.activities.scratch_tools import note_tool
from crewlog.activities.tool_graph import SENDS
from crewlog.activities.tools import Tool, make_tool
from crewlog.definition.artifacts import SCRATCH_TOOLS, Scratch
from crewlog.definition.audiences import Audiences
from crewlog.definition.model import GROUP_TOOLS, MEMORY_TOOLS, SEND_MESSAGE, CrewDefinition
from crewlog.ids import AgentName, ToolName
from crewlog.model import Json
from crewlog.state.brief import brief
from crewlog.tool_call import current_call

SET_FLAG = ToolName("set_flag")
SET_OUTPUT = ToolName("set_output")
LONGEST_SENT = 32_000
"""Characters of a message to a channel: it travels in the histories of runs."""

# Every type is named, and a list has items: some services refuse a schema without.
_ANY_JSON: dict[str, Any] = {
    "anyOf": [
        *({"type": t} for t in ("string", "number", "boolean", "object", "null")),
        {"type": "array", "items": {}},
    ]
}
_FLAG_VALUE: dict[str, Any] = {"anyOf": [{"type": t} for t in ("boolean", "number", "string")]}


class BuiltInTools:
    """Makes an agent's own copies of the built-in tools, and keeps them.

    Args:
        memory: Makes those of crews with a memory; without it there are none.
    """

    def __init__(self, memory: MemoryTools | None = None) -> None:
        self._memory = memory
        self._tools: LruCache[tuple[ToolName, tuple[str, ...]], Tool] = LruCache(1024)

    def tool(self, name: ToolName, crew: CrewDefinition, who: AgentName) -> Tool | None:
        """The built-in tool of that name; none where the agent declares nothing it could set.

        Args:
            name: The tool.
            crew: The crew.
            who: The agent.
        """
        if name in MEMORY_TOOLS:
            return None if self._memory is None else self._memory.tool(name, crew, who)
        agent = crew.agents[who]
        if name == SEND_MESSAGE:
            return self._send(crew, agent.send)
        if name in GROUP_TOOLS:
            # Not kept: what a new agent may have is read off the crew as it is.
            if not crew.is_privileged(who):
                return None
            remembers = None if self._memory is None else self._memory.remembers
            return make_tool(group_tool(name, crew, who, remembers))
        if name in SCRATCH_TOOLS:
            return self._scratch(name, crew, who)
        names = {SET_FLAG: agent.writes_flags, SET_OUTPUT: agent.outputs}.get(name, ())
        if not names:
            return None
        key = (name, names)
        make = _set_flag if name == SET_FLAG else _set_output
        return self._tools.get(key) or self._tools.put(key, make_tool(make(names)))

    def _send(self, crew: CrewDefinition, channels: tuple[str, ...]) -> Tool | None:
        if not channels:
            return None
        about = {name: said.description or "" for name, said in crew.channels.items()}
        key = (ToolName(SEND_MESSAGE), tuple(f"{c} {about.get(c, '')}" for c in channels))
        return self._tools.get(key) or self._tools.put(key, make_tool(_send(channels, about)))

    def _scratch(self, name: ToolName, crew: CrewDefinition, who: AgentName) -> Tool | None:
        bounds, seen = crew.agents[who].scratch, Audiences(crew).notes_seen(who)
        if not seen or (bounds is None and name == "note"):
            return None
        bounds = bounds or Scratch()
        key = (name, (who, str(bounds.most), str(bounds.longest), *seen))
        found = self._tools.get(key)
        return found or self._tools.put(key, make_tool(note_tool(name, who, bounds, seen)))


def _set_flag(flags: Sequence[str]) -> StructuredTool:
    async def set_flag(flag: str, value: Json = True) -> Command[Any]:
        return _command("flags", {flag: value}, f"The flag {flag} is now {_shown(value)}.")

    return StructuredTool.from_function(
        coroutine=set_flag,
        name=SET_FLAG,
        description="Sets a flag that the crew's flow looks at. Set it only when it is so.",
        args_schema=_arguments("SetFlag", "flag", flags, _FLAG_VALUE, default=True),
    )


def _set_output(keys: Sequence[str]) -> StructuredTool:
    async def set_output(key: str, value: Json) -> Command[Any]:
        return _command("outputs", {key: value}, f"The output {key} is set.")

    return StructuredTool.from_function(
        coroutine=set_output,
        name=SET_OUTPUT,
        description="Sets one of your outputs, for the agents that come after you.",
        args_schema=_arguments("SetOutput", "key", keys, _ANY_JSON, default=...),
    )


def _send(channels: Sequence[str], about: Mapping[str, str]) -> StructuredTool:
    async def send_message(channel: str, text: str) -> Command[Any]:
        return _command(SENDS, [{"channel": channel, "text": text}], f"Sent to {channel}.")

    each = "; ".join(f"{c} ({about[c]})" if about.get(c) else c for c in channels)
    fields: dict[str, Any] = {
        "channel": (Literal[tuple(channels)], Field(description=f"One of: {each}.")),
        "text": (str, Field(min_length=1, max_length=LONGEST_SENT, description="What you say.")),
    }
    schema: type[BaseModel] = create_model("SendMessage", **fields)
    return StructuredTool.from_function(
        coroutine=send_message,
        name=SEND_MESSAGE,
        description="Says something in a channel. Each agent that listens there has a turn for it.",
        args_schema=schema,
    )


def _arguments(
    name: str, key: str, names: Sequence[str], schema: dict[str, Any], *, default: Any
) -> type[BaseModel]:
    fields: dict[str, Any] = {
        # A closed list in the schema: the model sees it, and anything else is its mistake.
        key: (Literal[tuple(names)], Field(description=f"One of: {', '.join(names)}.")),
        "value": (
            Annotated[Any, WithJsonSchema(schema)],
            Field(default, description="Its value."),
        ),
    }
    made: type[BaseModel] = create_model(name, **fields)
    return made


def _command(what: str, values: Json, said: str) -> Command[Any]:
    message = ToolMessage(said, tool_call_id=current_call().id)
    return Command(update={what: values, "messages": [message]})


def _shown(value: Json) -> str:
    return brief(json.dumps(value, ensure_ascii=False), 80)

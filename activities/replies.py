"""A model's reply as it is kept: the same for the same reply, and fit to be shown again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolCall

from crewlog.ids import AgentName, StepId
from crewlog.state.brief import brief
from crewlog.state.calls import AskedTool

NAMELESS = "unknown"
"""What a tool call without a name is called."""
_KEPT_METADATA = ("model_name", "finish_reason")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_ID = 40
"""OpenAI refuses longer ids of tool calls."""
_BRIEF_ARGUMENTS = 80


def kept(reply: BaseMessage, agent: AgentName, step: StepId, call: int) -> AIMessage:
    """The message to keep of a reply: named, numbered, and without what differs by chance.

    A call whose arguments could not be parsed stays among `invalid_tool_calls`: the tool activity
    finds it there and answers it, so that the model may repair it.
    """
    taken: set[str] = set()
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    source = reply if isinstance(reply, AIMessage) else AIMessage(reply.content)

    def fresh(id_: str | None) -> str:
        number = len(calls) + len(invalid) + 1
        if not id_ or id_ in taken:
            tail = f"_{call}_{number}"
            id_ = _NOT_IN_IDS.sub("_", step)[: _LONGEST_ID - len(tail)] + tail
        taken.add(id_)
        return id_

    # One by one: an id is fresh with regard to those before it.
    for c in source.tool_calls:
        calls += [ToolCall(name=c["name"] or NAMELESS, args=c["args"], id=fresh(c["id"]))]
    for i in source.invalid_tool_calls:
        invalid += [
            InvalidToolCall(
                type="invalid_tool_call",
                name=i["name"] or NAMELESS,
                args=i["args"] or "",
                id=fresh(i["id"]),
                error=None,
            )
        ]
    kept_metadata = {
        k: source.response_metadata[k] for k in _KEPT_METADATA if source.response_metadata.get(k)
    }
    usage = source.usage_metadata
    return AIMessage(
        content=_content(source),
        id=f"{step}/{call}",
        name=agent,
        tool_calls=calls,
        invalid_tool_calls=invalid,
        response_metadata=kept_metadata,
        usage_metadata=None
        if usage is None
        else {
            "input_tokens": usage["input_tokens"],
            "output_tokens": usage["output_tokens"],
            "total_tokens": usage["total_tokens"],
        },
    )


def _content(reply: AIMessage) -> Any:
    refusal: Any = reply.additional_kwargs.get("refusal")
    # A refusal is what the model said: the agent's text, like any other.
    return refusal if refusal and not reply.content else reply.content


def asked_tools(message: AIMessage) -> tuple[AskedTool, ...]:
    """The tool calls of a kept reply, well-formed ones first."""
    well = [
        AskedTool(id=c["id"] or "", tool=c["name"], brief=_arguments(c["args"]))
        for c in message.tool_calls
    ]
    ill = [
        AskedTool(
            id=c["id"] or "", tool=c["name"] or "", brief=brief(c["args"] or "", _BRIEF_ARGUMENTS)
        )
        for c in message.invalid_tool_calls
    ]
    return (*well, *ill)


def _arguments(args: dict[str, Any]) -> str:
    # Arguments may be megabytes: each is cut before it is made one line.
    parts: Sequence[str] = [_value(v) for v in args.values()]
    return brief(" ".join(parts), _BRIEF_ARGUMENTS)


def _value(value: Any) -> str:
    return value[: _BRIEF_ARGUMENTS + 1] if isinstance(value, str) else str(value)[:81]

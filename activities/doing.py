"""What a tool's result sets, where it was called by an agent without a model.

A model says by `set_output` what of a result matters. Here nobody does, so the result itself is
looked at: an object sets those outputs that its agent declares.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from crewlog.activities.tool_graph import Outcome
from crewlog.content import canonical, check_depth
from crewlog.definition.model import AgentDefinition
from crewlog.model import Json


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

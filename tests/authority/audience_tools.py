"""Tools of random crews: they say canaries, and show what they are given."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

from crewlog import artifact_update, current_call
from crewlog.operations import add

seen: list[Callable[[str, str, str], None]] = []
"""Takes the run's agent, step, and the text that a tool was given."""


@tool
def look(note: str, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Looks at the messages of the agent that calls it."""
    seen[-1](state["agent"], state["step"], repr(state["messages"]))
    return f"looked: {note}"


@tool
def fail(note: str) -> str:
    """Fails."""
    raise ValueError(f"it broke: {note}")


@tool
def hand(note: str, to: str) -> Command[Any]:
    """Hands off, and brings what it has along."""
    return Command(goto=to, update={"messages": [HumanMessage(f"from a hand-off: {note}")]})


@tool
def relay(what: Any, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Says what it is given, and sets it."""
    seen[-1](state["agent"], state["step"], repr(state["messages"]) + repr(what))
    return json.dumps({"list": what})


@tool
def scribble(text: str) -> Command[Any]:
    """Adds a text to the page."""
    return artifact_update(add("/-", text, artifact="page"), said=f"added {text}")


@tool
def peek() -> str:
    """Looks at the inputs and the artifacts of the agent that calls it."""
    call = current_call()
    seen[-1](call.agent, call.step, repr(call.inputs) + repr(call.artifacts))
    return "seen"

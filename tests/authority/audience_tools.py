"""Tools of random crews: they say canaries, and show what they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.prebuilt import InjectedState
from langgraph.types import Command

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

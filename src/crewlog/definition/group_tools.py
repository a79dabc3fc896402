"""What privileged agents ask of their own graph by the group tools, as operations on the crew.

An agent that another one brings works for that one, and has no more than it from the start: of what
its model has, it keeps what the caller has, too. Calls of tools are bounded where they are checked,
and the definition's own checks refuse the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from crewlog.definition import operations as o
from crewlog.definition.audiences import Audiences
from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.errors import UsageError
from crewlog.model import Json

BROUGHT = frozenset(
    {
        "prompt", "description", "model", "tools", "reads", "writes", "shares", "writes_flags",
        "listen", "send", "wires", "parent",
    }
)  # fmt: skip
"""The fields that one agent may say of another one that it brings."""
_OTHERS = AgentDefinition(prompt="-")
"""What an agent has that says nothing."""


def add_node(
    crew: CrewDefinition,
    caller: str,
    name: str,
    *,
    like: str | None = None,
    prompt: str | None = None,
    description: str | None = None,
    tools: Sequence[str] | None = None,
    **edges: Sequence[str],
) -> o.AddAgent:
    """An agent that works for the caller.

    Args:
        crew: The crew.
        caller: Who brings it.
        name: Its name.
        like: The agent of the crew that it is like in all that is not said here.
        prompt: Its prompt.
        description: What it is for, in a line.
        tools: Its tools; none: those of the agent that it is like, or all that the caller has.
        edges: What it listens to (`listen`), sends to (`send`), and is wired to (`wires`).

    Raises:
        UsageError: it has neither a prompt nor an agent that it is like.
    """
    if like is None and not prompt:
        raise UsageError(
            f"the new agent {name!r} has no prompt",
            remedy="Give it a prompt, or say which agent it is like.",
        )
    agent: dict[str, Json] = {"parent": caller}
    said = {"prompt": prompt, "description": description, "tools": tools, **edges}
    for key, value in said.items():
        if value or (key == "tools" and value is not None):
            agent[key] = value if isinstance(value, str) else [*value]
    if like is None or like in crew.agents:
        model = _OTHERS if like is None else crew.agents[like]
        agent = {**_bounded(crew, caller, model), **agent}
    if like is None and crew.model is None and crew.agents[caller].model is not None:
        agent["model"] = crew.agents[caller].model
    return o.AddAgent(name=name, like=like, agent=agent)


def _bounded(crew: CrewDefinition, caller: str, model: AgentDefinition) -> dict[str, Json]:
    """What of an agent's tools, logs and flags its caller has, too, where that is not all."""
    audiences, own = Audiences(crew), crew.agents[caller]

    def kept(logs: Iterable[str], theirs: Sequence[str], *, write: bool) -> list[str]:
        # A log that names its agents does not name a new one.
        return [x for x in logs if x in theirs and audiences.named(x, write=write) is None]

    writes, shares = audiences.writes(caller), audiences.shares(caller)
    found: dict[str, Sequence[str] | None] = {
        "tools": _tools(model.tools, own.tools),
        "reads": kept(model.reads, audiences.listed(caller), write=False),
        "writes": kept(model.writes, writes, write=True),
        "writes_flags": [flag for flag in model.writes_flags if flag in own.writes_flags],
    }
    if model.shares is not None:
        found["shares"] = kept(model.shares, (*writes, *shares), write=True)
    return {
        key: [*now]
        for key, now in found.items()
        if now is not None and tuple(now) != getattr(model, key)
    }


def _tools(model: Sequence[str] | None, own: Sequence[str] | None) -> Sequence[str] | None:
    """The tools of one that the other one has, too; none: every tool of the crew."""
    if model is None or own is None:
        return own if model is None else model
    return [tool for tool in model if tool in own]


def remove_node(name: str) -> o.RemoveAgent:
    """An agent goes."""
    return o.RemoveAgent(name=name)


def start_node(name: str) -> o.EnableAgent:
    """An agent takes part again."""
    return o.EnableAgent(name=name)


def stop_node(name: str) -> o.DisableAgent:
    """An agent stands still: what it hears waits for it."""
    return o.DisableAgent(name=name)


def change_channel(
    action: str,
    channel: str | None = None,
    sender: str | None = None,
    listener: str | None = None,
    description: str | None = None,
) -> o.Operation:
    """A channel is made or goes, or two agents are connected by one, or no more.

    Args:
        action: `add`, `remove`, `connect` or `disconnect`.
        channel: The channel; to connect, by default `SENDER-to-LISTENER`; to disconnect, all.
        sender: Who sends there.
        listener: Who listens there.
        description: Of a new channel: what it is for, in a line.

    Raises:
        UsageError: something is missing.
    """
    if action in ("connect", "disconnect"):
        if not sender or not listener:
            raise UsageError(f"to {action}, name the 'sender' and the 'listener'")
        edge: dict[str, Any] = {"sender": sender, "listener": listener, "channel": channel}
        return o.Connect(**edge) if action == "connect" else o.Disconnect(**edge)
    if not channel:
        raise UsageError(f"to {action} a channel, name the 'channel'")
    if action == "remove":
        return o.RemoveChannel(name=channel)
    return o.AddChannel(name=channel, description=description)


def change_wire(name: str, to: str, action: str = "add") -> o.Wire | o.Unwire:
    """An agent's final messages go to another agent or a channel, too; to `remove` it, no more."""
    return o.Unwire(name=name, to=to) if action == "remove" else o.Wire(name=name, to=to)

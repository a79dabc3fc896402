"""The crews that are measured, as users would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crewlog.definition.model import ToolDefinition

RING = 10
"""Agents of a ring: one decision for ten steps."""
Crew = dict[str, Any]


def agent(model: str = "bench:say", **more: Any) -> Crew:
    """An agent."""
    return {"prompt": "You work.", "model": model, "tools": [], **more}


def ring(steps: int, model: str = "bench:say") -> Crew:
    """Agents one after the other, and a decision that goes around again: so many steps in all.

    Args:
        steps: How many.
        model: What each of them is.

    Raises:
        ValueError: so many are no whole rounds.
    """
    if steps % RING or steps < RING:
        raise ValueError(f"{steps} steps are no rounds of {RING}")
    names = [f"agent{number}" for number in range(RING)]
    flow: list[Any] = list(names)
    if steps > RING:
        flow.append({"if": "not enough", "go": names[0], "at_most": steps // RING - 1})
    return {
        "crew": f"ring-{steps}",
        "agents": {name: agent(model) for name in names},
        "flow": flow,
        "flags": {"enough": False},
    }


def slow(calls: int, seconds: float) -> Crew:
    """A chain of agents. Each model call takes some seconds."""
    names = [f"agent{number}" for number in range(calls)]
    model = f"bench:wait-{seconds}"
    return {"crew": "slow", "agents": {name: agent(model) for name in names}, "flow": [*names]}


def fan(width: int) -> Crew:
    """Agents side by side, and one that waits for all of them."""
    names = [f"agent{number}" for number in range(width)]
    return {
        "crew": f"fan-{width}",
        "agents": {name: agent() for name in [*names, "last"]},
        "flow": [names, "last"],
    }


def lanes(name: str, naps: Sequence[Sequence[float]]) -> Crew:
    """Lanes of agents, each of whom calls a tool that sleeps."""
    agents: Crew = {}
    flow: list[Any] = []
    for lane, row in enumerate(naps):
        for place, seconds in enumerate(row):
            one = f"lane{lane}_{place}"
            # An agent reads its own log alone: what it does hangs on its own last message.
            agents[one] = agent(f"bench:nap-{seconds}", tools=["nap"], reads=[])
            flow.append({"agent": one, "after": f"lane{lane}_{place - 1}" if place else []})
    tools = {"nap": {"run": "bench.peers.tools:nap", "effects": "read"}}
    return {"crew": name, "agents": agents, "flow": flow, "tools": tools}


def pool(naps: Sequence[float], at_once: int, name: str = "pool") -> Crew:
    """An agent that makes a list, and for each of its items one that calls a tool that sleeps."""
    names = [f"worker{number}" for number in range(len(naps))]
    work = {"phase": "work", "for_each": "maker.items", "by": "agent", "among": names}
    agents: Crew = {"maker": agent(f"bench:plan-{len(naps)}", outputs=["items"])}
    for worker, seconds in zip(names, naps, strict=True):
        agents[worker] = agent(f"bench:nap-{seconds}", tools=["nap"], reads=[])
    tools = {"nap": {"run": "bench.peers.tools:nap", "effects": "read"}}
    flow = ["maker", {**work, "at_once": at_once}]
    return {"crew": name, "agents": agents, "flow": flow, "tools": tools}


def together(naps: Sequence[float]) -> Crew:
    """One agent that calls a tool several times in one reply."""
    one = agent(f"bench:naps-{'+'.join(map(str, naps))}", tools=["nap"])
    tools = {"nap": {"run": "bench.peers.tools:nap", "effects": "read"}}
    return {"crew": "together", "agents": {"agent0": one}, "flow": ["agent0"], "tools": tools}


def session(spokes: int = 3) -> Crew:
    """A hub that is talked to, with windows: what is older is summed up."""
    agents: Crew = {"router": {**agent("bench:route-spoke0"), "window": {"last": 5}}}
    agents |= {f"spoke{number}": agent() for number in range(spokes)}
    return {
        "crew": "session",
        "agents": agents,
        "flow": [{"use": "hub", "with": {"router": "router"}}],
        "conversation": {},
        "window": {"last": 20, "summary": "extract"},
    }


def waiting() -> Crew:
    """One step, then a question that nobody answers."""
    return {
        "crew": "waiting",
        "agents": {"agent0": agent()},
        "flow": ["agent0", {"ask": "Go on?"}],
    }


def can_place_local() -> bool:
    """Whether a definition can place a tool `local`."""
    return "placed" in ToolDefinition.model_fields


def lookups(count: int, *, local: bool) -> Crew:
    """One agent that calls a short tool which only reads, many times one after the other."""
    tool: Crew = {"run": "bench.peers.tools:lookup", "effects": "read"}
    if local:
        tool["placed"] = "local"
    one = agent(f"bench:lookup-{count}", tools=["lookup"], max_calls=count + 5)
    return {
        "crew": f"lookups-{'local' if local else 'activity'}",
        "agents": {"agent0": one},
        "flow": ["agent0"],
        "tools": {"lookup": tool},
    }


def blocks(count: int = 10, width: int = 8) -> Crew:
    """A hundred agents: blocks of eight side by side, then two who work on what these made."""
    flow: list[Any] = []
    for block in range(count):
        flow.append([f"b{block}_{place}" for place in range(width)])
        flow += [f"b{block}_merge", f"b{block}_check"]
    names = [name for item in flow for name in (item if isinstance(item, list) else [item])]
    return {"crew": "blocks", "agents": {name: agent() for name in names}, "flow": flow}

"""A swap at every step of a crew with loops, joins, a fan-out and parallel tools.

The run is held in the middle of one step, between two of its calls, while its graph is changed. It
must end in the same state as a run that had the new graph from the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run

from .harness import LIMIT, Site, calls, tool, until
from .test_continue import canonical

LANES = ("ui", "backend", "audio")
LOOPS = 3
ITEMS = ("red", "green", "blue")
TAIL = ("editor", "tester", "packer", "shipper")
VISITS: dict[str, int] = {
    "planner": 1,
    **{f"{lane}_{part}": 1 for lane in LANES for part in ("draft", "build", "check")},
    "merger": 1,
    "writer": LOOPS + 1,
    "critic": LOOPS + 1,
    **{f"vote_{name}": 1 for name in "xyz"},
    "painter": len(ITEMS),
    **dict.fromkeys(TAIL, 1),
}
"""Every agent with its visits, the steps of items included."""
PLACES = [(agent, visit) for agent, visits in VISITS.items() for visit in range(1, visits + 1)]
END_LIMIT = 2 * LIMIT
"""Seconds for a whole run: of two hundred calls, which take a busy machine a minute."""
OF_THE_CHANGE = ("graph_version", "changes", "commands")


def gate_of(agent: str, visit: int) -> str:
    return f"{agent}-{visit}"


def turn(agent: str, visit: int) -> list[dict[str, Any]]:
    """A turn with two batches of tools; the second one has parallel calls and the gate."""
    first = calls(("echo", {"text": f"{agent} begins"}))
    gate = ("gate", {"name": gate_of(agent, visit)})
    return [
        first,
        calls(("echo", {"text": "beside"}), gate, ("echo", {"text": "after"})),
        {"text": f"{agent} {visit}"},
    ]


def crew_of(site: Site) -> dict[str, Any]:
    agents = {
        agent: [entry for visit in range(1, visits + 1) for entry in turn(agent, visit)]
        for agent, visits in VISITS.items()
    }
    listing = {"tool": "set_output", "args": {"key": "colours", "value": list(ITEMS)}}
    agents["planner"].insert(0, {"text": "", "tool_calls": [listing]})
    # The steps of items say the same each: which of them is first is chance.
    agents["painter"] = turn("painter", 1)
    agents["epilogue"] = [{"text": "the end"}]
    # What an agent is shown hangs on who was faster; each reads its own log alone.
    # A call that a busy worker makes again would be counted twice.
    rules: dict[str, dict[str, Any]] = {agent: {"reads": [], "heartbeat": 30} for agent in agents}
    rules["planner"]["outputs"] = ["colours"]
    crew = site.crew(
        agents,
        rules=rules,
        tools={name: tool(name, heartbeat=30) for name in ("echo", "gate")},
        flags={"good": False},
        merge={"painter.text": "append"},
    )
    flow: list[Any] = ["planner"]
    for lane in LANES:
        flow.append({"agent": f"{lane}_draft", "after": "planner"})
        flow.append({"agent": f"{lane}_build", "after": f"{lane}_draft"})
        flow.append({"agent": f"{lane}_check", "after": f"{lane}_build"})
    flow += [
        {"agent": "merger", "after": [f"{lane}_check" for lane in LANES]},
        "writer",
        "critic",
        {"if": "not good", "go": "writer", "at_most": LOOPS, "phase": "loop"},
        {"parallel": [f"vote_{name}" for name in "xyz"], "join": "all"},
        {"agent": "painter", "for_each": "planner.colours"},
        *TAIL,
        "epilogue",
    ]
    return {**crew, "flow": flow}


def before(crew: dict[str, Any]) -> dict[str, Any]:
    """The crew as it is before the change: without its last phase and the agent of it."""
    agents = {name: agent for name, agent in crew["agents"].items() if name != "epilogue"}
    return {**crew, "agents": agents, "flow": crew["flow"][:-1]}


def open_all(site: Site, run_id: str, but: str = "") -> None:
    for agent, visit in PLACES:
        if gate_of(agent, visit) != but:
            (site.root / "ledger" / f"{run_id}.{gate_of(agent, visit)}.open").touch()


async def comparable(site: Site, run: Run) -> dict[str, Any]:
    found = await canonical(site, run)
    for name in OF_THE_CHANGE:
        found["state"].pop(name, None)
    for part in found["state"]["agent_outputs"]["painter"]["text"]["elements"]:
        part["position"] = part["position"][1]  # its item; the other is a journal position
    found["logs"]["private:painter"].sort()  # of the steps of items any may be first
    return found


def differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two values are not the same, as paths."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=str):
            yield from differing(one.get(key), other.get(key), f"{path}.{key}")
    elif one != other:
        yield f"{path}: {str(one)[:200]} != {str(other)[:200]}"


_whole: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}


async def whole(site: Site) -> tuple[dict[str, Any], dict[str, Any]]:
    """The crew, and what a run comes to that has the new graph from the start; made once."""
    if id(site) not in _whole:
        crew = crew_of(site)
        open_all(site, "whole")
        run = await site.start(crew, id="whole")
        result = await run.result(END_LIMIT)
        assert result.executions == 1
        assert result.steps >= 30
        _whole[id(site)] = crew, await comparable(site, run)
    return _whole[id(site)]


@pytest.mark.parametrize(("agent", "visit"), PLACES)
@covers("C2", "C17")
async def test_a_swap_in_the_middle_of_a_step(crews: Site, agent: str, visit: int) -> None:
    crew, expected = await whole(crews)
    gate = gate_of(agent, visit) if agent != "painter" else gate_of(agent, 1)
    run_id = f"swapped-{agent}-{visit}"
    open_all(crews, run_id, but=gate)
    run = await crews.start(before(crew), id=run_id)
    wanted = visit if agent == "painter" else 1  # the steps of all items stand at one gate
    await until(lambda: len(crews.ledger(run, "start", gate=gate)) >= wanted, "the gate")
    changed = await run.change(definition=crew, graph_version=1, wait=False, by="test")
    assert changed.swap
    crews.open_gate(run, gate)
    result = await run.result(END_LIMIT)
    assert result.executions == 2
    state = await run.state()
    assert state.graph_version == 2
    assert not list(differing(await comparable(crews, run), expected))

"""What a run of twenty agents carries is small, whatever commands it has had."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from crewlog.errors import CommandConflict
from crewlog.state.carry import Carry
from crewlog.state.fold import fold
from crewlog.state.journal import entry_from_json
from crewlog.workflows.commands.effects import apply_command, id_to_look_up
from crewlog.workflows.commands.queue import Applied, QueuedCommand
from crewlog.workflows.execution_end import CARRIED_BYTES
from graph.crews import plan_of
from graph.simulation import Simulation, final

MOST = 32 * 1024
COMMANDS = 2_000
NAMES = [f"agent{n}" for n in range(20)]
Sort = Callable[[int], tuple[str, dict[str, Any]]]

SORTS: dict[str, Sort] = {
    "message": lambda n: ("message", {"text": "Hello", "to": "public"}),
    "pause and resume": lambda n: ("resume" if n % 2 else "pause", {"reason": "because " * 1_000}),
    "interrupt": lambda n: ("interrupt", {"node": NAMES[n % 20]}),
    "tag": lambda n: ("tag", {"checkpoint": 3, "tag": f"{n:x<100}"}),
    "edit_state": lambda n: ("edit_state", {"set": {"flags.ok": n}}),
    "set_permission": lambda n: ("set_permission", {"tool": "t", "agents": [NAMES[n % 20]]}),
    "redirect": lambda n: ("redirect", {"node": NAMES[n % 20]}),
    "refused, with long reasons": lambda n: ("interrupt", {"node": "n" * 5_000}),
    "refused, with long ids": lambda n: ("interrupt", {"id": f"{n:😀>200}", "node": "no"}),
    "unknown": lambda n: ("nonsense" * 20, {"id": f"{n:é>200}"}),
    "answer": lambda n: ("answer", {"interrupt": "no", "decisions": [{"type": "approve"}]}),
    "stop": lambda n: ("stop", {"reason": "because " * 1_000}),
}  # fmt: skip


async def running() -> Simulation:
    tools = {"t": {"run": "m:f"}}
    plan = plan_of(NAMES, {name: {"tools": ["t"]} for name in NAMES}, tools=tools)
    sim = await Simulation.begin(plan, final)
    for _ in range(3):
        await sim.round()
    return sim


def carried(sim: Simulation) -> int:
    carry = Carry(plan=sim.engine.plan.to_json(), state=sim.state.to_json()).to_json()
    return len(json.dumps(carry, separators=(",", ":"), ensure_ascii=False).encode())


async def send(sim: Simulation, sort: Sort, count: int = COMMANDS) -> None:
    for n in range(count):
        name, content = sort(n)
        said = {"id": f"c-{n:032x}", "by": "eve", **content}
        await apply_command(sim.engine, QueuedCommand(name, said))
        # As activities store the journal meanwhile: what waits for that is bounded by itself.
        sim.engine.journal.mark_stored(sim.state.position)


@pytest.mark.parametrize("sort", SORTS.values(), ids=SORTS)
async def test_the_carry_stays_small(sort: Sort) -> None:
    sim = await running()
    await send(sim, sort)
    assert carried(sim) + CARRIED_BYTES < MOST


async def test_the_carry_stays_small_with_some_of_all() -> None:
    sim = await running()
    for sort in SORTS.values():
        await send(sim, sort, 200)
    assert carried(sim) + CARRIED_BYTES < MOST


async def test_an_old_id_is_told_from_a_new_one() -> None:
    """Of what no activity has stored yet without a look into the store."""
    sim = await running()
    first = await sim.command("message", id="one", text="pay now")
    for n in range(300):
        await sim.command("message", id=f"x{n}", text=".")
    assert isinstance(first.outcome, Applied)
    assert "one" not in sim.state.commands
    again = QueuedCommand("message", {"id": "one", "text": "pay now"})
    assert id_to_look_up(sim.engine, again) == ""
    assert again.known_outcome is not None
    before = sim.state.position
    await apply_command(sim.engine, again)
    assert isinstance(again.outcome, Applied)
    assert (again.outcome.result.position, again.outcome.result.detail) == (
        first.outcome.result.position,
        "applied before",
    )
    assert sim.state.position == before

    other = QueuedCommand("message", {"id": "one", "text": "pay twice"})
    id_to_look_up(sim.engine, other)
    await apply_command(sim.engine, other)
    assert isinstance(other.error, CommandConflict)
    assert [e for e in sim.engine.journal.entries if e.get("command") == "one"] == [
        sim.engine.journal.entries[first.outcome.result.position - 1]
    ]

    sim.engine.journal.mark_stored(sim.state.position)
    assert (
        id_to_look_up(sim.engine, QueuedCommand("message", {"id": "one", "text": "pay now"}))
        == "one"
    )
    assert (
        id_to_look_up(sim.engine, QueuedCommand("message", {"id": "new", "text": "pay now"})) == ""
    )
    assert id_to_look_up(sim.engine, QueuedCommand("message", {"text": "no id"})) == ""


async def test_a_malformed_command_with_an_old_id_gets_no_outcome() -> None:
    sim = await running()
    await sim.command("message", id="one", text="pay now")
    for n in range(300):
        await sim.command("message", id=f"x{n}", text=".")
    bad = QueuedCommand("message", {"id": "one", "text": ""})
    id_to_look_up(sim.engine, bad)
    await apply_command(sim.engine, bad)
    told = sim.engine.journal.entries[-1]
    assert (told["kind"], "command" in told) == ("CommandRejected", False)


async def test_the_fold_gives_the_same() -> None:
    sim = await running()
    start = sim.state
    await send(sim, SORTS["refused, with long ids"], 300)
    state = start
    for data in sim.engine.journal.entries[start.position :]:
        state = fold(state, entry_from_json(data))
    assert state == sim.state

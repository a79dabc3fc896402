"""Long runs as the engine makes them, without a server: their journals as a store has them."""

from __future__ import annotations

from crewlog.graph.run_context import CallRequest
from crewlog.state.journal import Batch
from crewlog.state.model import CrewState
from crewlog.store import Store
from graph.crews import plan_of
from graph.simulation import RUN, Outcome, Simulation, Witness, returns, says

AGENTS = 20


class LongRun:
    """A run of a crew that goes round and round: its journal, and the state at each position."""

    run = RUN

    def __init__(self, simulation: Simulation) -> None:
        journal = simulation.engine.journal
        assert isinstance(journal, Witness)
        self.entries = tuple(journal.entries)
        self.states: list[CrewState] = journal.states

    def batch(self, first: int = 1, last: int = 0) -> Batch:
        """The entries from `first` to `last`, by default all, both included."""
        before = self.states[first - 2].messages if first > 1 else {}
        heads = {log: head.head for log, head in before.items()}
        return Batch(first=first, heads=heads, entries=self.entries[first - 1 : last or None])

    @property
    def checkpoints(self) -> list[int]:
        """The positions after each step."""
        ends = enumerate(self.entries, 1)
        return [position for position, entry in ends if entry["kind"] == "StepCompleted"]

    async def store(self, store: Store, size: int = 500) -> None:
        """Appends it in batches."""
        for first in range(1, len(self.entries) + 1, size):
            await store.append(self.run, self.batch(first, first + size - 1))


def _script(order: CallRequest) -> Outcome:
    if order.call.tool is not None:
        return returns("It is so. " * 20)
    asks = order.call.call == 1 and len(order.step) % 2
    usage = {"calls": 1, "input_tokens": 900, "output_tokens": 80, "cost": 0.0012}
    return says(f"{order.step} has this to say. " * 15, *(["read"] if asks else []), usage=usage)


async def _made(steps: int) -> LongRun:
    names = [f"agent{n}" for n in range(AGENTS)]
    again = {"if": "not ok", "go": names[0], "at_most": 1000, "phase": "again"}
    plan = plan_of(
        [*names[:3], {"parallel": names[3:6]}, *names[6:], again],
        {name: {"tools": ["read"], "outputs": ["score"]} for name in names},
        tools={"read": {"run": "m:f"}},
        limits={"steps": steps},
    )
    return LongRun(await (await Simulation.begin(plan, _script)).run(rounds=20 * steps))


_RUNS: dict[int, LongRun] = {}


async def long_run(steps: int) -> LongRun:
    """A run of so many steps; made once in a session."""
    if steps not in _RUNS:
        _RUNS[steps] = await _made(steps)
    return _RUNS[steps]

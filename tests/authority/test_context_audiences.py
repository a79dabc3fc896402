"""Windows, summaries and inputs show nobody what is for others, whatever happens to a run."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from authority.audience_world import Canary, Layout, Worker, World, reads, some
from crewlog.activities import inputs as reading
from crewlog.activities import summaries, windows
from crewlog.authority.permissions import Decision
from crewlog.graph import inputs as telling
from crewlog.ids import AgentName, LogName

HUNTS = int(os.environ.get("CREWLOG_CONTEXT_HUNTS", "24"))
"""Random crews that run; 1,000 take two minutes."""


class ContextWorld(World):
    """A world whose agents have windows and inputs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.more = self._add

    def _add(self, layout: Layout, data: dict[str, Any]) -> None:
        rng, names = self.rng, [*layout["agents"]]
        for name, said in layout["agents"].items():
            window: dict[str, Any] = {"summary": rng.choice(["off", "extract", "canary:sum"])}
            window |= rng.choice([{"last": rng.randint(1, 4)}, {"tokens": rng.randint(200, 400)}])
            data["agents"][name]["window"] = window
            sources = ["input", "flag:mood", *(f"{n}.{k}" for n in names for k in ("list", "text"))]
            said["inputs"] = some(rng, sources) if rng.random() < 0.4 else []
            data["agents"][name]["inputs"] = said["inputs"]
            if rng.random() < 0.4:
                pool = ["public", "channel:open", f"readers:{'+'.join(some(rng, names, 1))}"]
                said["shares"] = data["agents"][name]["shares"] = some(rng, pool)

    def shares(self, agent: str) -> list[str]:
        said = self.of(agent)["agents"][agent]
        return list(said.get("shares", said["writes"]))

    def is_given(self, agent: str, step: str, canary: Canary) -> bool:
        if super().is_given(agent, step, canary):
            return True
        inputs = self.of(agent)["agents"].get(agent, {}).get("inputs", [])
        if canary.kind == "flag":
            return "flag:mood" in inputs
        if canary.kind in ("input", "message"):
            return "input" in inputs and "public" in canary.logs
        key = {"output": "list", "edited": "list", "said": "text"}.get(canary.kind)
        if key is None or f"{canary.owner}.{key}" not in inputs:
            return False
        return any(
            log == "public"
            or agent in log.removeprefix("readers:").split("+")
            or reads(self.of(agent), agent, log)
            for log in canary.logs
        )


async def hunt(seed: int, worker: Worker, *, changes: bool = True) -> ContextWorld:
    world = ContextWorld(random.Random(seed), worker, changes=changes)  # noqa: S311
    await world.begin(seed)
    for _ in range(6):
        await world.message()
    await world.run()
    return world


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CHUNK", 2)
    monkeypatch.setattr(summaries, "CHUNK", 2)


def wrong(world: World) -> list[Any]:
    return [*world.leaks, *(each for each in world.refusals if "view" in each)]


async def test_random_windows_and_inputs_show_nobody_what_is_for_others(tmp_path: Path) -> None:
    counts: dict[str, int] = {}
    worker = Worker(tmp_path)
    for seed in range(HUNTS):
        world = await hunt(seed, worker, changes=bool(seed % 3))
        assert not wrong(world), (seed, wrong(world)[:3])
        for what, count in world.counts.items():
            counts[what] = counts.get(what, 0) + count
    assert counts["looks"] > 3 * HUNTS
    assert counts["summaries"] > HUNTS / 4
    assert all(counts[what] for what in ("items", "change", "rollback", "fork", "swaps"))


def _yes(*_: Any, **__: Any) -> Decision:
    return Decision(allowed=True, reason="")


def _summaries_of_all_logs(patch: pytest.MonkeyPatch) -> None:
    """A summary is found by its length alone: that of another log, or another run."""
    patch.setattr(windows.SummarizedPrefix, "head", property(lambda self: f"head {self.length}"))


def _inputs_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(telling, "may_read_input", _yes)
    patch.setattr(reading, "may_read_input", _yes)


def _undeclared_inputs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(telling, "may_read_input", _yes)
    patch.setattr(reading, "_readable_part", lambda input_, *_: input_)


@pytest.mark.parametrize("mutate", [_summaries_of_all_logs, _inputs_for_all, _undeclared_inputs])
async def test_the_hunt_sees_a_check_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutate: Any
) -> None:
    mutate(monkeypatch)
    worker = Worker(tmp_path)
    for seed in range(80):
        if wrong(await hunt(seed, worker)):
            return
    pytest.fail("nothing was seen")


def test_what_is_for_an_agent_by_name_reaches_it_also_where_it_reads_nothing() -> None:
    ann = AgentName("ann")

    def given(*logs: str, of: tuple[str, ...] = ()) -> bool:
        said = [LogName(log) for log in logs]
        return reading.may_read_input(ann, said, reads=[LogName(log) for log in of]).allowed

    assert given("readers:bob+ann")
    assert given("public")
    assert given()
    assert given("group:g", of=("group:g",))
    assert not given("group:g")
    assert not given("readers:bob")
    assert not given("private:bob", of=("public",))

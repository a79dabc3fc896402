"""What stands above the line and what below it: with measurements that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench import lanes, pool, replay, throughput
from bench.cases import Bench
from bench.site import Site


class Nowhere:
    """A site on which nothing runs."""

    id = "run"

    def __init__(self, root: Path) -> None:
        self.root = root

    async def register(self, crew: Mapping[str, Any]) -> str:
        return str(crew["crew"])

    async def _itself(self, *_: Any, **__: Any) -> Nowhere:
        return self

    peer = start = start_crew = spawn = result = _itself

    async def end(self) -> None:
        pass


async def figures(
    case: Any, measured: Mapping[str, float], root: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, float]:
    async def rounds(systems: Mapping[str, Any], *_: Any, **__: Any) -> dict[str, list[float]]:
        return {name: [measured[name]] * 3 for name in systems}

    async def events_of(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(case, "rounds", rounds)
    monkeypatch.setattr(case, "events_of", events_of, raising=False)
    monkeypatch.setattr(replay, "WorkflowHistory", lambda *_: SimpleNamespace(to_json=str))
    found = await case.run(Bench(cast("Site", Nowhere(root)), pairs=3))
    return {figure.name: figure.median for figure in found}


async def test_throughput_is_the_engines_by_the_floors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = {"engine": 80, "bare": 100, "tuned": 160}
    assert await figures(throughput, measured, tmp_path, monkeypatch) == {
        "throughput_steps_per_s": 80,
        "throughput_vs_bare": 0.8,
        "throughput_vs_bare_same_process": 0.5,
    }


async def test_lanes_are_all_of_them_by_the_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await figures(lanes, {"lanes": 2000, "longest": 1600}, tmp_path, monkeypatch)
    assert found == {
        "lanes_vs_critical_path": 1.25,
        "lanes_vs_sleep": 1.25,
        "plain_lanes_vs_critical_path": 1.25,
    }


async def test_a_pool_is_by_half_of_what_its_steps_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = {"pool": 7875, "short": 2625, "turn": 3750}
    found = await figures(pool, measured, tmp_path, monkeypatch)
    assert found == pytest.approx(
        {
            "pool_vs_optimum": 1.25,
            "pool_overhead_ms": 525,
            "pool_short_vs_optimum": 1.5,
            "turn_tools_vs_longest": 1.25,
        }
    )


async def test_replay_is_the_engines_by_the_floors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = {"engine": 70, "bare": 100, "bare by our runner": 140}
    found = await figures(replay, measured, tmp_path, monkeypatch)
    assert found == {
        "replay_events_per_s": 70,
        "replay_vs_bare": 0.7,
        "replay_vs_bare_same_sandbox": 0.5,
    }

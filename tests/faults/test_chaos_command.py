"""What the long set of faults tells: its help, how far it is, and a table."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from . import chaos
from .crew import make_crew
from .drill import Drill
from .report import Report


def test_the_help_has_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        chaos.arguments(["--help"])
    told = capsys.readouterr().out
    for option, default in (("seed", 1), ("scenario", "all"), ("runs", 100), ("kills", 200)):
        line = re.search(rf"^  --{option} .*?\(default: (\S+)\)", told, re.DOTALL | re.MULTILINE)
        assert line is not None
        assert line[1] == str(default)
    assert "None" not in told


@pytest.mark.parametrize(("words", "tables"), [(["--scenario", "workers"], 1), ([], 8)])
async def test_one_scenario_has_one_table(
    words: list[str],
    tables: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def perform(scenario: str, given: argparse.Namespace) -> Report:
        return Report(scenario, given.seed)

    monkeypatch.setattr(chaos, "perform", perform)
    assert await chaos.main(words) == 0
    assert capsys.readouterr().out.count("steps expected") == tables


@pytest.mark.parametrize(
    ("started", "told"),
    [
        (3, "3 of 6 runs ended, 50% of the work begun, 2 faults"),
        (8, "3 of 8 runs ended (2 extra, as the faults go on), 38% of the work begun, 2 faults"),
    ],
)
def test_runs_beyond_the_least_are_work_too(tmp_path: Path, started: int, told: str) -> None:
    crew = make_crew(tmp_path)
    items = sum(len(found) for found in crew.expected.items.values())
    fleet = SimpleNamespace(points=None, kills=Counter({"store_batch.end": 2}))
    ledger = SimpleNamespace(progress=lambda _: 3 * items)
    stand: Any = SimpleNamespace(fleet=lambda *_: fleet, client=lambda _: None, ledger=ledger)
    drill = Drill(stand, "workers", 1, crew, runs=6)
    drill.started = started
    drill._ended = dict.fromkeys(("a", "b", "c"), (None, "completed"))  # type: ignore[assignment]
    assert drill.so_far().partition(" s, ")[2] == told

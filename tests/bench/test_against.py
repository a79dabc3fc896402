"""Two engines side by side: the table, and the engine of this work tree as one of the two."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import against
from bench.__main__ import main
from bench.site import ROOT, Site


def test_the_table_has_medians_and_ratios_within_a_round() -> None:
    old = [{"step_ms_10": value} for value in (1.0, 2.0, 10.0)]
    new = [{"step_ms_10": value} for value in (2.0, 1.0, 30.0)]
    # The ratio of the medians would be 1.
    assert against.table(old, new) == [
        ("step_ms_10", "2", "2", "2.000", "1.250 … 2.500", ""),
    ]


async def test_the_engine_of_this_work_tree_is_measured(site: Site) -> None:
    python = Path(sys.executable)
    async with against.engine(site, "against", "this", python, ROOT) as engine:
        steps = await against.steps(engine, 10)
        fan = await against.fan(engine)
        answer = await engine.order("ring", 10, 3)
        assert engine.temporal.namespace == "against"
    assert steps["step_ms_10"] > 0
    assert 6 <= steps["events_per_step_10"] < 7
    assert 400 < steps["history_bytes_per_step_10"] < 2500
    # Nine steps lie between the first and the last; the run has a beginning and an end besides.
    assert steps["run_events_10"] > 9 * steps["events_per_step_10"]
    assert steps["run_history_bytes_10"] > 9 * steps["history_bytes_per_step_10"]
    assert 0 < steps.get("worker_cpu_ms_per_step_10", 1) < 1000
    assert 3 <= fan["events_per_step_fanout_32"] < 6
    assert len({id for id, _ in answer["runs"]}) == 3
    assert answer["seconds"] > 0


async def test_a_commit_without_the_needed_modules_is_refused(site: Site, tmp_path: Path) -> None:
    started = against.engine(site, "against-none", "abc", Path(sys.executable), tmp_path)
    with pytest.raises(against.Failed, match=r"(?s)the engine of abc did not start.*No module"):
        async with started:
            pass


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "some.json"], "--against prints its figures and writes none"),
        (["--only", "tools"], "there is no case 'tools': steps, fanout, throughput"),
        (["--sizes", "ten"], "--sizes takes numbers of steps, not 'ten'"),
        (["--sizes", "15"], "--sizes takes multiples of 10, not 15"),
        (["--pairs", "0"], "--pairs takes at least 1"),
    ],
)
def test_a_comparison_refuses_options_that_it_cannot_have(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--against", "HEAD", *words]) == 1
    assert f"error: {message}" in capsys.readouterr().err


def test_a_comparison_with_an_unknown_commit_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--against", "no-such-commit"]) == 1
    assert "error: there is no commit 'no-such-commit'" in capsys.readouterr().err

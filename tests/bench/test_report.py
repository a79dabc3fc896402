"""The JSON is one flat object with stable names, and targets are told from figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import report
from bench.__main__ import main
from bench.pairs import figure

ROOT = Path(__file__).parents[2]
STABLE = set(
    """
step_ms_10 step_ms_100 step_ms_1000 step_vs_bare_10 step_vs_bare_100 step_vs_bare_1000
step_vs_plugin_10 step_vs_plugin_100 history_bytes_per_step_10 history_bytes_per_step_1000
events_per_step events_per_step_fanout_32 lanes_vs_critical_path throughput_vs_bare replay_vs_bare
compile_100_vs_langgraph rss_per_run_kb local_tool_ms tool_ms
""".split()  # noqa: SIM905 - as the list is written elsewhere
)


def test_all_names_are_there_and_the_object_is_flat(tmp_path: Path) -> None:
    path = tmp_path / "latest.json"
    found = report.flat([figure("step_ms_10", [9.0, 10.0, 12.0])])
    report.write(path, report.complete(found))
    read = json.loads(path.read_text())
    assert set(read) >= STABLE
    assert read["step_ms_10"] == 10
    assert read["spread_step_ms_10"] == 1.5
    assert read["local_tool_ms"] is None
    assert not any(isinstance(value, dict | list) for value in read.values())


def test_a_figure_without_a_name_of_the_list_is_refused() -> None:
    with pytest.raises(KeyError, match="step_ms_11"):
        report.flat([figure("step_ms_11", [1])])


def test_what_was_measured_replaces_what_was_before(tmp_path: Path) -> None:
    path = tmp_path / "latest.json"
    report.write(path, report.complete({"step_ms_10": 10.0, "step_ms_100": 10.0, "pairs": 10}))
    whole = report.merged(path, {"step_ms_100": 12.0, "step_ms_1000": 11.0, "pairs": 2})
    assert (whole["step_ms_10"], whole["step_ms_100"], whole["pairs"]) == (10, 12, 10)
    assert whole["step_ms_apart"] == 1.2


def test_figures_of_other_versions_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "latest.json"
    report.write(path, report.complete({"step_ms_10": 10.0, "temporalio": "1.0", "cpus": 2}))
    with pytest.raises(report.OtherMachineError, match="other temporalio: measure all"):
        report.merged(path, {"step_ms_10": 12.0, "temporalio": "1.1", "cpus": 2})


def test_few_rounds_do_not_replace_the_latest_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pairs", "9"]) == 1
    assert "no less than 10 rounds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("step_vs_bare_10", 1.3, "met"),
        ("step_vs_bare_10", 1.31, "missed"),
        ("step_vs_plugin_10", 1.0, "missed"),
        ("throughput_vs_bare", 0.8, "met"),
        ("throughput_vs_bare", 0.79, "missed"),
        ("step_ms_10", 10.0, ""),
        ("local_tool_ms", None, ""),
    ],
)
def test_a_target_is_met_or_missed(name: str, value: float | None, said: str) -> None:
    [row] = report.lines({name: value})
    assert row[0] == name
    assert row[4] == said


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ((1.01, 1.05), "met"),
        ((1.0, 1.06), "not shown"),
        ((1.051, 1.06), "missed"),
        ((None, None), "not shown"),
    ],
)
def test_a_small_difference_is_told_from_its_whole_interval(
    interval: tuple[float | None, float | None], said: str
) -> None:
    name = "authority_on_vs_off"
    [row] = report.lines({name: 1.04, f"least_{name}": interval[0], f"most_{name}": interval[1]})
    assert row[4] == said


def test_the_tables_have_a_row_for_each_name() -> None:
    found = report.complete({"step_ms_10": 10.25, "low_step_ms_10": 10.0, "high_step_ms_10": 11.0})
    assert "step_ms_10" in report.text(found)
    rows = report.markdown(found).splitlines()
    assert len(rows) == 4 + len(report.NAMES)
    assert "| `step_ms_10` | 10.25 | 10 … 11 |" in rows[4]


def test_the_page_has_the_table_of_the_latest_figures() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    latest = json.loads((ROOT / "bench" / "latest.json").read_text())
    again = report.on_page(page, report.markdown(latest))
    assert page == again, "run python -m bench --table bench/latest.json --page docs/performance.md"
    with pytest.raises(ValueError, match="the page has no <!-- table -->"):
        report.on_page("", "")


def test_a_case_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "steps,nothing"]) == 1
    assert "there is no case 'nothing'" in capsys.readouterr().err


def test_no_target_goes_unmeasured() -> None:
    latest = json.loads((ROOT / "bench" / "latest.json").read_text())
    missing = [s.name for s in report.SPECS if s.target is not None and latest.get(s.name) is None]
    assert not missing, f"run python -m bench for {', '.join(missing)}"

"""The JSON is one flat object with stable names, and pages agree with it."""

from __future__ import annotations

import json
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

from bench import report, specs
from bench.__main__ import main
from bench.cases import CASES
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
    found = report.flat([figure("step_ms_10", [9.0, 10.0, 12.0])], "steps")
    report.write(path, report.complete(found))
    read = json.loads(path.read_text())
    assert set(read) >= STABLE
    assert read["step_ms_10"] == 10
    assert read["spread_step_ms_10"] == 1.5
    assert read["local_tool_ms"] is None
    assert not any(isinstance(value, dict | list) for value in read.values())


@pytest.mark.parametrize("name", ["step_ms_11", "tool_ms"])
def test_a_figure_that_is_no_row_of_its_case_is_refused(name: str) -> None:
    with pytest.raises(KeyError, match=f"the case 'steps' has no row '{name}'"):
        report.flat([figure(name, [1])], "steps")


def test_every_case_has_rows() -> None:
    assert set(specs.SPECS_OF) == set(CASES)
    assert len(specs.NAMES) == len(set(specs.NAMES))


def test_a_case_replaces_all_its_rows_and_keeps_those_of_other_cases(tmp_path: Path) -> None:
    path = tmp_path / "latest.json"
    before: report.Flat = {"tool_ms": 15.0, "local_tool_ms": 9.0, "fanout_ms_32": 80.0}
    report.stamp(before, "aaaaaaaa", 0.125)
    report.write(path, report.complete(before))
    now: report.Flat = {"tool_ms": 12.0}
    report.stamp(now, "bbbbbbbb", 1)
    whole = report.merged(path, now, ["tools"])
    assert report.by_commit(whole) == {"aaaaaaaa": ["fanout_ms_32"], "bbbbbbbb": ["tool_ms"]}
    assert (whole["load_fanout_ms_32"], whole["load_tool_ms"]) == (0.12, 1)
    assert whole["local_tool_ms"] is None
    assert "commit_local_tool_ms" not in whole


def test_figures_of_other_versions_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "latest.json"
    report.write(path, report.complete({"step_ms_10": 10.0, "temporalio": "1.0", "cpus": 2}))
    with pytest.raises(report.OtherMachineError, match=r"\(temporalio 1.0, now 1.1\): measure all"):
        report.merged(path, {"step_ms_10": 12.0, "temporalio": "1.1", "cpus": 2}, ["steps"])


def test_few_rounds_do_not_replace_the_latest_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--pairs", "9"]) == 1
    assert "no less than 10 rounds" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("lanes_vs_critical_path", 1.05, "met"),
        ("lanes_vs_critical_path", 1.06, "missed"),
        ("step_vs_plugin_10", 1.0, "missed"),
        ("throughput_vs_bare", 0.9, "met"),
        ("throughput_vs_bare", 0.89, "missed"),
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


def test_the_page_names_the_commits_of_its_rows() -> None:
    found: report.Flat = {"step_ms_10": 10.0, "tool_ms": 15.0}
    report.stamp(found, "aaaaaaaa", 0.25)
    assert report.conditions(found).startswith("Measured at commit `aaaaaaaa`; ")
    assert report.conditions(found).endswith("load average before: 0.25.")
    found["commit_tool_ms"] = "bbbbbbbb"
    several = "Measured at several commits: `aaaaaaaa` (steps), `bbbbbbbb` (tools); "
    assert report.conditions(found).startswith(several)


COMPARISON = {
    "| LangGraph with a Postgres saver": (
        *("plain_lanes_vs_critical_path", "plain_step_ms_100", "plain_step_ms_1000"),
    ),
    "| LangGraph's Temporal plugin": (
        *("plugin_step_ms_100", "plugin_history_bytes_per_step_100"),
    ),
    "| Crewlog": (
        *("lanes_vs_critical_path", "step_ms_100", "step_ms_1000"),
        *("history_bytes_per_step_100", "history_bytes_per_step_1000"),
    ),
    "A bare Temporal workflow": (
        *("bare_step_ms_100", "bare_step_ms_1000", "bare_history_bytes_per_step_100"),
    ),
}
"""The rows of the README's comparison, by how each begins, and their figures in order."""
LENGTHS = re.compile(r"after [\d,]+|\d+ bytes")
"""Numbers of the comparison that say what was measured."""


def test_the_readme_compares_with_the_latest_figures() -> None:
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("\n## How it compares\n")[2].partition("\n## ")[0]
    latest = json.loads((ROOT / "bench" / "latest.json").read_text())
    for begin, names in COMPARISON.items():
        [line] = [line for line in section.splitlines() if line.startswith(begin)]
        shown = re.findall(r"\d+(?:\.\d+)?", LENGTHS.sub("", line))
        figures = [Decimal(str(latest[name])) / (1000 if "bytes" in name else 1) for name in names]
        expected = [
            str(value.quantize(Decimal(text), ROUND_HALF_UP))
            for value, text in zip(figures, shown, strict=True)
        ]
        assert shown == expected, f"{begin}: {', '.join(names)}"


def test_a_case_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "steps,nothing"]) == 1
    assert "there is no case 'nothing'" in capsys.readouterr().err


def test_no_target_goes_unmeasured() -> None:
    latest = json.loads((ROOT / "bench" / "latest.json").read_text())
    missing = [s.name for s in report.SPECS if s.target is not None and latest.get(s.name) is None]
    assert not missing, f"run python -m bench for {', '.join(missing)}"

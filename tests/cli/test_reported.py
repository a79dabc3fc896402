"""The pages about what came of a run: its end, and its report, on narrow terminals and in pipes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crewlog.cli.ending import show_end
from crewlog.cli.reported import in_markdown, show_report
from crewlog.cli.reporting import as_seen
from crewlog.cli.screen import Screen
from crewlog.ids import InterruptId
from crewlog.reporting.report.view import ReportView
from crewlog.wire import InterruptView, RunResult

ITEMS = [{"id": "prices", "agent": "pricing", "task": "Write the prices."}]
SIGNALS = [{"agent": "cart", "detail": f"case {i} fails at the sum"} for i in range(4)]
REPORT = ReportView.model_validate(
    {
        "run": "shop-1",
        "crew": "feature",
        "summary": {"value": "word " * 400 + "last"},
        "summary_agent": "finisher",
        "item_lists": [
            {
                "step": "work#1",
                "source": "planner.steps",
                "item_count": 1,
                "items": {"value": ITEMS},
                "statuses": ["completed"],
            }
        ],
        "steps": [
            {
                "step": "tests#1",
                "node": "tests",
                "agent": "tests",
                "tools": ["run", "run", "look"],
                "values": {"tests.signals": {"value": SIGNALS}, "tests.passed": {"value": False}},
            }
        ],
        "decisions": [
            {
                "position": 9,
                "kind": "reply",
                "by": "planner",
                "decision": 'plan: steps = [{"id": "prices", "agent"…',
            }
        ],
        "agents": {"tests": {"steps": 1, "values": {"tests.signals": {"value": SIGNALS}}}},
        "outputs": {
            "planner": {"steps": {"value": ITEMS}, "response": {"value": "{}"}},
            "tests": {"signals": {"value": SIGNALS}, "passed": {"value": False}},
            "finisher": {"text": {"value": "word " * 400 + "last"}},
        },
    }
)


def test_an_output_is_told_once_and_folded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_report(Screen(), REPORT)
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    said = " ".join(out.split())
    assert said.count("case 0 fails") == 1
    assert said.count("Write the prices.") == 1  # as the plan; the output refers to it
    assert "planner.steps the plan above" in said
    assert "run (2), look · signals, passed = false" in said
    assert "plan: steps = …" in said
    assert "sets signals" in said
    assert "response" not in said
    assert said.count("last") == 1  # the result, whole
    assert said.endswith("Look crewlog report shop-1 --json all of it, whole")


def test_a_pipe_gets_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(Screen(), REPORT)
    (signals,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("  tests.sig"))
    assert signals.endswith("…")


@pytest.mark.parametrize("lines", [1, 30])
def test_the_end_of_a_run_has_the_last_text_whole(
    lines: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = "\n".join(f"{i} " + "a language model " * 12 + "ends" for i in range(lines))
    result = RunResult.model_validate(
        {"run": "shop-1", "status": "completed", "outputs": {"finisher": {"text": text}}}
    )
    (tmp_path / "workspace" / "shop-1").mkdir(parents=True)
    (tmp_path / "workspace" / "shop-1" / "a.txt").write_text("")
    run: Any = SimpleNamespace(id="shop-1", url=None)
    show_end(Screen(), run, result, tmp_path)
    out = capsys.readouterr().out
    words = out.split()
    assert words[1 : words.index("Files")] == text.split()  # whole, and no word broken
    assert max(map(len, out.partition("Files")[0].splitlines())) <= 60
    assert "(1 file)" in out
    assert out.rstrip().endswith("Look     crewlog report shop-1")


def test_open_questions_have_their_answer_and_accepted_replies_their_ending(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = ReportView.model_validate(
        {
            "run": "r",
            "status": "waiting",
            "summary": {"value": "half a"},
            "summary_agent": "w",
            "summary_ending": "cut",
            "steps": [{"step": "w#1", "node": "w", "agent": "w", "accepted_ending": "cut"}],
            "interrupts": [
                {"id": "i1", "question": "Go on?", "answer_command": "crewlog answer r i1 yes|no"}
            ],
        }
    )
    show_report(Screen(), found)
    page = capsys.readouterr().out
    assert "crew ? · run r · waiting" in page
    assert "result, by w (cut, accepted)" in page
    assert any("w#1" in line and "cut, accepted" in line for line in page.splitlines())
    assert "answer: crewlog answer r i1 yes|no" in page
    told = "\n".join(in_markdown(found))
    assert "## Result, by w (cut, accepted)" in told
    assert "crewlog answer r i1 yes" in told


def test_a_report_has_the_status_and_the_answers_that_show_has() -> None:
    found = ReportView.model_validate(
        {"run": "r", "status": "running", "interrupts": [{"id": "i1", "question": "Go on?"}]}
    )
    asked = InterruptView(
        id=InterruptId("i1"),
        kind="ask",
        question="Go on?",
        options=("yes", "no"),
        action_requests=(),
        review_configs=(),
    )
    sight: Any = SimpleNamespace(run="r", status="waiting", questions=[asked])
    told = as_seen(found, sight)
    assert told.status == "waiting"
    assert [each.answer_command for each in told.interrupts] == ["crewlog answer r i1 yes|no"]

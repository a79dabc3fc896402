"""What `crewlog rebuild` says of what it left out."""

from __future__ import annotations

import pytest

from crewlog.cli import rebuilding
from crewlog.cli.screen import Screen
from crewlog.client import RebuildReport
from crewlog.client.settled import LeftOut
from crewlog.ids import RunId


def test_what_is_left_out_is_said_with_its_cause_and_nothing_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    why = "it was ended from outside, and 'two' lives on alone"
    report = RebuildReport(
        run=RunId("one"),
        position=4,
        positions=4,
        bodies=0,
        snapshots=0,
        definitions=1,
        left_out=(
            LeftOut(first=9, last=10, execution="e1", why=why),
            LeftOut(first=5, last=5, execution="e2", why="\x1b[31mred"),
        ),
    )
    assert report.whole
    rebuilding._show(Screen(), report)
    out = " ".join(capsys.readouterr().out.split())
    assert "✓ one: 4 journal positions" in out
    assert f"left out: journal positions 9 to 10 of the execution e1: {why}" in out
    assert "left out: journal position 5 of the execution e2: " in out
    assert "\x1b" not in out
    assert "!" not in out
    assert report.model_dump(mode="json")["left_out"][0]["why"] == why

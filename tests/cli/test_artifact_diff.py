"""`crewlog artifact --diff` where nothing differs: it says where something does."""

from __future__ import annotations

from typing import Any, cast

import pytest

from crewlog.cli.artifacts import _when  # pyright: ignore[reportPrivateUsage]
from crewlog.cli.screen import Screen
from crewlog.client.artifacts import artifact_changes
from crewlog.reporting.wire_views import entry_view
from crewlog.wire import JournalPage


class _Run:
    """A run that has nothing but a journal."""

    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage:
        del limit
        entries = tuple(entry_view(at, data) for at, data in JOURNAL if at > after)
        return JournalPage(entries=entries[:2], first=1, position=JOURNAL[-1][0])


def _applied(step: str, artifact: str = "workflow", count: int = 1) -> dict[str, Any]:
    return {"kind": "ArtifactOperationsApplied", "step": step, "artifact": artifact, "count": count}


JOURNAL = [
    (3, _applied("scout#1", "notes")),
    (4, {"kind": "StepCompleted", "step": "scout#1"}),
    (7, _applied("builder#1")),
    (9, _applied("builder#1", count=3)),
    (12, _applied("checker#1", count=2)),
]


async def test_it_names_the_steps_and_where_they_changed_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = await artifact_changes(cast("Any", _Run()), "workflow")
    assert found == [("builder#1", 7, 9, 4), ("checker#1", 12, 12, 2)]
    _when(Screen(), "notes-1", "workflow", found)
    out = capsys.readouterr().out
    assert "builder#1   @7 to @9   4 operations" in out
    assert "checker#1   @12        2 operations" in out
    assert "crewlog checkpoints notes-1" in out
    _when(Screen(), "notes-1", "workflow", [])
    assert "nobody has changed workflow yet" in capsys.readouterr().out

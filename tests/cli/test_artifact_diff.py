"""`crewlog artifact --diff` where nothing differs: it says where something does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crewlog.cli.artifacts import _when  # pyright: ignore[reportPrivateUsage]
from crewlog.cli.main import run_cli
from crewlog.cli.screen import Screen
from crewlog.client.artifacts import ArtifactView, find_artifact_steps
from crewlog.reporting.wire_views import entry_view
from crewlog.wire import JournalPage

from .conftest import check_views


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
    found = await find_artifact_steps(cast("Any", _Run()), "workflow")
    rows = [(each.step, each.first, each.last, each.operations) for each in found]
    assert rows == [("builder#1", 7, 9, 4), ("checker#1", 12, 12, 2)]
    _when(Screen(), "notes-1", "workflow", found)
    out = capsys.readouterr().out
    assert "builder#1   @7 to @9   4 operations" in out
    assert "checker#1   @12        2 operations" in out
    assert "crewlog checkpoints notes-1" in out
    _when(Screen(), "notes-1", "workflow", [])
    assert "nobody has changed workflow yet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("contents", "changes"),
    [
        (
            ({"nodes": [{"id": "a"}], "n": 1}, {"nodes": [{"id": "a"}, {"id": "b"}], "n": 1}),
            [
                {
                    "kind": "added",
                    "path": "/nodes/1",
                    "old": None,
                    "new": {"id": "b"},
                    "label": "id=b",
                }
            ],
        ),
        (({"n": 1}, {"n": 1}), []),
    ],
)
def test_the_diff_as_json_is_valid_by_its_schema(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    contents: tuple[Any, Any],
    changes: list[Any],
) -> None:
    by_position = dict(zip(("7", "9"), contents, strict=True))

    @asynccontextmanager
    async def connected(*_: Any, **__: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(run=lambda _: _Run())

    async def artifacts_of(_: Any, names: Sequence[str], at: str) -> list[ArtifactView]:
        return [ArtifactView(name=names[0], position=int(at), content=by_position[at])]

    monkeypatch.setattr("crewlog.cli.services.connected", connected)
    monkeypatch.setattr("crewlog.client.artifacts.artifacts_of", artifacts_of)
    arguments = ["artifact", "notes-1", "workflow", "--diff", "7", "9", "--json"]
    assert run_cli(arguments) == 0
    data = json.loads(capsys.readouterr().out)
    check_views(arguments, [data])
    assert (data["artifact"], data["from"], data["to"]) == ("workflow", 7, 9)
    assert data["changes"] == changes
    steps = [] if changes else ["builder#1", "checker#1"]
    assert [each["step"] for each in data["steps"]] == steps

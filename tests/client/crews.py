"""Crews that these tests run; their models follow scripts."""

from __future__ import annotations

from typing import Any

from crewlog.testing import scripted


def line(**script: list[dict[str, Any]]) -> dict[str, Any]:
    """A writer, then a checker."""
    return {
        "crew": "notes",
        "model": scripted({"agents": {"*": [{"text": "fine"}], **script}}),
        "agents": {"writer": {"prompt": "Write."}, "checker": {"prompt": "Check."}},
        "flow": ["writer", "checker"],
    }


def asking() -> dict[str, Any]:
    """A writer, then a question to people."""
    crew = line()
    crew["flow"] = ["writer", {"ask": "Publish?", "options": ["yes", "later", "no"], "sets": "ok"}]
    del crew["agents"]["checker"]
    return crew


def looping(times: int, events: int = 50) -> dict[str, Any]:
    """A writer that is sent back `times` times, in executions of about `events` events."""
    crew = line()
    crew["flow"] = ["writer", {"if": "not done", "go": "writer", "at_most": times, "else": "end"}]
    del crew["agents"]["checker"]
    crew["flags"] = {"done": False}
    crew["limits"] = {"events": events}
    crew["model"] = scripted({"agents": {"*": [{"text": f"draft {i}"} for i in range(times + 1)]}})
    return crew


def slow(seconds: float) -> dict[str, Any]:
    """A writer whose model takes its time."""
    return line(writer=[{"text": "at last", "stall": seconds}])

"""A crew whose tools and agents change while it works, through the command line alone.

Two agents work side by side. The user interface's own tool is taken away, and what all share still
works; a tool is added, and used at once; the back end is removed, and the audio agent, which waits
for it, waits for people or takes its other way.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from covers import covers

from .conftest import Cli

pytestmark = pytest.mark.server
LIMIT = 100.0

TOOLS = '''
import asyncio
from pathlib import Path

from crewlog.tool_call import current_call


async def hold(name: str) -> str:
    """Waits until somebody opens the gate."""
    gate = Path(__file__).parent / f"{current_call().run}.{name}"
    async with asyncio.timeout(300):
        while not gate.exists():
            await asyncio.sleep(0.05)
    return f"{name} is open"


async def design_theme(colour: str) -> str:
    """The user interface's own."""
    return f"a theme in {colour}"


async def write_code(path: str) -> str:
    """Shared by all."""
    return f"wrote {path}"
'''
MOCKS = '''
async def mock_data(kind: str) -> str:
    """Data to show before there is any."""
    return f"three {kind}"
'''


def calls(*asked: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"text": "", "tool_calls": [{"tool": tool, "args": args} for tool, args in asked]}


SCRIPT = {
    "agents": {
        "ui": [
            calls(("hold", {"name": "theme"})),
            calls(("design_theme", {"colour": "blue"}), ("write_code", {"path": "player.dart"})),
            calls(("hold", {"name": "mocks"})),
            calls(("mock_data", {"kind": "tracks"})),
            {"text": "the screens are there"},
        ],
        "backend": [
            calls(("hold", {"name": "models"})),
            calls(("write_code", {"path": "track.dart"})),
            {"text": "no models yet"},
        ],
        "aggregator": [{"text": "put together"}],
        "audio": [calls(("write_code", {"path": "audio.dart"})), {"text": "it plays"}],
        "silence": [{"text": "it is silent"}],
    }
}
TOOL = {"effects": "read"}
CREW: dict[str, Any] = {
    "crew": "story",
    "model": "scripted:story.script.json",
    "agents": {
        "ui": {"prompt": "Screens."},
        "backend": {"prompt": "Data.", "writes_flags": ["models_ready"]},
        "aggregator": {"prompt": "Parts."},
        "audio": {"prompt": "Sound."},
    },
    "tools": {
        "hold": {"run": "story_tools:hold", **TOOL},
        "design_theme": {"run": "story_tools:design_theme", **TOOL},
        "write_code": {"run": "story_tools:write_code", **TOOL},
    },
    "permissions": {"design_theme": ["ui"]},
    "flow": [["ui", "backend"], "aggregator", {"agent": "audio", "when": "backend.models_ready"}],
}
OTHER_WAY = {
    **CREW,
    "crew": "story-else",
    "agents": {**CREW["agents"], "silence": {"prompt": "Nothing."}},
    "flow": [
        *CREW["flow"][:2],
        {"agent": "audio", "when": "backend.models_ready", "else": "silence"},
        {"agent": "silence", "after": "go"},
    ],
}


@pytest.fixture(scope="module")
def story(project: Path) -> Path:
    """The project with the story's crews; its worker finds the tools when they are called."""
    (project / "story_tools.py").write_text(TOOLS)
    (project / "story.script.json").write_text(json.dumps(SCRIPT))
    (project / "story.json").write_text(json.dumps(CREW))
    (project / "story_else.json").write_text(json.dumps(OTHER_WAY))
    return project


class Story:
    """A run, told and looked at by commands."""

    def __init__(self, crewlog: Cli, project: Path, crew: str) -> None:
        self.id = f"story-{uuid4().hex[:6]}"
        self._crewlog = crewlog
        self._project = project
        self.say("run", crew, "--input", "a player", "--id", self.id, "--detach")

    def say(self, command: str, *arguments: str) -> str:
        done = self._crewlog(command, *arguments)
        assert done.code == 0, done.out + done.err
        return done.out

    def entries(self, kind: str) -> list[dict[str, Any]]:
        done = self._crewlog("log", self.id, "--json")
        found = [record["entry"] for record in done.records]
        return [entry for entry in found if entry["kind"] == kind]

    def view(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.say("show", self.id, "--json"))
        return found

    def until(self, seen: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + LIMIT
        while not (found := seen()):
            assert time.monotonic() < deadline, f"{what} did not come"
            time.sleep(0.2)
        return found

    def holds(self, step: str) -> None:
        def held() -> bool:
            steps = {s["step"]: s.get("calls", ()) for s in self.view()["frontier"]}
            return any("hold" in doing for doing in steps.get(step, ()))

        self.until(held, f"{step} at its gate")

    def open(self, gate: str) -> None:
        (self._project / f"{self.id}.{gate}").touch()

    def returned(self) -> dict[str, tuple[bool, str]]:
        found = self.entries("ToolCallCompleted")
        return {entry["tool"]: (entry.get("ok", True), entry["excerpt"]) for entry in found}


@covers("C8", "C10", "C11", "C38")
def test_tools_and_agents_change_while_it_works(crewlog: Cli, story: Path) -> None:
    run = Story(crewlog, story, "story.json")
    run.holds("ui#1")
    run.holds("backend#1")
    # The tool of one agent is denied, and what all share is not.
    nobody = story / "nobody.json"
    nobody.write_text(json.dumps([{"op": "set_permission", "tool": "design_theme", "agents": []}]))
    said = run.say("change", run.id, "--operations", str(nobody), "--yes")
    assert "goes by other rules from now on" in said  # a permission needs no other graph
    run.open("theme")
    run.until(lambda: "write_code" in run.returned(), "the code")
    returned = run.returned()
    assert not returned["design_theme"][0]
    assert returned["write_code"] == (True, "wrote player.dart")
    # A tool that is added works at once for the agent that gets it, with code of its own.
    (story / "story_mocks.py").write_text(MOCKS)
    added = 'mock_data={run: "story_mocks:mock_data", effects: read}'
    run.say("change", run.id, "--add-tool", added, "--yes")
    run.open("mocks")
    run.until(lambda: "mock_data" in run.returned(), "the mock data")
    assert run.returned()["mock_data"] == (True, "three tracks")
    # The back end goes, in the middle of its turn.
    told = run.say("change", run.id, "--remove", "backend", "--dry-run")
    assert "graph v1 → v2" in told
    assert "models_ready" in told
    run.open("models")
    run.say("change", run.id, "--remove", "backend", "--yes")
    # The aggregator goes on without it; audio waits for what only it would have set.
    asked = run.until(lambda: run.view()["interrupts"], "the question")
    assert "models_ready" in asked[0]["question"]
    assert run.view()["graph_version"] == 2
    assert [e["step"] for e in run.entries("StepStarted")].count("aggregator#1") == 1
    run.say("edit", run.id, "models_ready=true")
    assert crewlog("watch", run.id).code == 0
    assert run.view()["status"] == "completed"
    assert [e["step"] for e in run.entries("StepCompleted")][-1] == "audio#1"
    [swapped] = run.entries("GraphSwapped")
    assert swapped["by"]


@covers("C38")
def test_the_other_way_is_taken_where_the_back_end_goes(crewlog: Cli, story: Path) -> None:
    (story / "story_mocks.py").write_text(MOCKS)
    run = Story(crewlog, story, "story_else.json")
    run.holds("backend#1")
    run.say("change", run.id, "--remove", "backend", "--abandon", "--drain-timeout", "1s", "--yes")
    for gate in ("theme", "mocks"):
        run.open(gate)
    assert crewlog("watch", run.id).code == 0
    done = [entry["step"] for entry in run.entries("StepCompleted")]
    assert "silence#1" in done
    skipped = {e["step"]: e.get("skipped", False) for e in run.entries("StepCompleted")}
    assert skipped["audio#1"]
    assert not run.entries("InterruptRaised")

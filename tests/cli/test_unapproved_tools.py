"""A crew with a server's tool that nobody has approved, through the command line alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from .conftest import Cli

pytestmark = pytest.mark.server
SERVER = Path(__file__).parents[1] / "servers" / "server.py"


@pytest.fixture
def shop(home: Path, tmp_path: Path) -> Cli:
    """A project whose crew calls a tool of a server."""
    crew = {
        "crew": "shop",
        "model": "scripted:script.json",
        "agents": {"a": {"prompt": "P.", "tools": ["add"]}},
        "mcp": {
            "s": {
                "command": sys.executable,
                "args": [str(SERVER)],
                "env": {"STATE": str(tmp_path / "state")},
                "tools": ["add"],
            }
        },
    }
    said = [{"tool_calls": [{"tool": "add", "args": {"a": 1, "b": 2}}]}, {"text": "done"}]
    (tmp_path / "crew.yaml").write_text(json.dumps(crew))
    (tmp_path / "script.json").write_text(json.dumps({"agents": {"a": said}}))
    return Cli(home, tmp_path)


def test_a_tool_that_nobody_has_approved_is_a_question(shop: Cli) -> None:
    run = f"shop-{uuid4().hex[:6]}"
    left = shop("run", "crew.yaml", "--id", run)
    assert left.code == 3, left.err
    assert "May agents use the tool 'add' as its server describes it now?" in left.out
    assert "crewlog mcp approve crew.yaml s add" in " ".join(left.out.split())
    assert "The run waits for an answer" in left.out
    asked = [each for each in shop("inbox", "--json").records if each["run"] == run]
    assert [(each["kind"], each["approved_at"]) for each in asked] == [("mcp_approval", 0)]
    told = " ".join(shop("inbox").out.split())
    assert "`crewlog mcp approve FILE s add`. FILE is the crew's file." in told
    approved = shop("mcp", "approve", "crew.yaml", "--yes")
    assert approved.code == 0, approved.err
    assert f"{run} waits for this, and has no worker: crewlog watch {run}" in approved.out
    for command in (("show", run), ("inbox",)):
        page = " ".join(shop(*command).out.split())
        assert "It was approved " in page
        assert f"`crewlog watch {run}` brings one" in page
        assert "nobody has approved" not in page
    done = shop("watch", run)
    assert done.code == 0, done.err
    assert not [each for each in shop("inbox", "--json").records if each["run"] == run]

"""`crewlog mcp`: looking at what servers say of their tools, and approving it."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crewlog.cli import services
from crewlog.cli.main import run_cli
from crewlog.client import keys
from crewlog.reporting.inbox import InboxInterruptView
from crewlog.store.in_process import InMemoryStore

SERVER = Path(__file__).parents[1] / "servers" / "server.py"


class Connected:
    """A client that has a store, and nothing else."""

    user = "me"

    def __init__(self) -> None:
        self.kept = InMemoryStore()
        self.key: keys.Key | None = None

    async def inbox(self) -> list[InboxInterruptView]:
        return []

    async def store(self) -> InMemoryStore:
        return self.kept

    def signed(self, run: str, name: str, content: dict[str, Any]) -> dict[str, Any]:
        return self.key.signed(run, name, content, "") if self.key else content


@pytest.fixture
def client() -> Connected:
    return Connected()


@pytest.fixture
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Connected) -> Path:

    @asynccontextmanager
    async def connected(*_: Any, **__: Any) -> AsyncIterator[Connected]:
        yield client

    monkeypatch.setattr(services, "connected", connected)
    file = tmp_path / "crew.yaml"
    file.write_text(
        json.dumps(
            {
                "crew": "x",
                "model": "openai:gpt-5-mini",
                "agents": {"a": {"prompt": "hi", "tools": ["my_add", "my_shout"]}},
                "mcp": {
                    "s": {
                        "command": sys.executable,
                        "args": [str(SERVER)],
                        "env": {"STATE": str(tmp_path / "state")},
                        "tools": ["add", "shout"],
                        "prefix": "my_",
                    }
                },
            }
        )
    )
    return file


def states(crew: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert run_cli(["mcp", "list", str(crew), "--json"]) == 0
    return {each["tool"]: each["state"] for each in json.loads(capsys.readouterr().out)["tools"]}


def test_from_new_to_changed(
    crew: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert states(crew, capsys)["add"] == "new"
    assert run_cli(["mcp", "approve", str(crew)]) == 2  # nobody is there to be asked
    assert "Look, then say --yes" in capsys.readouterr().err
    assert run_cli(["mcp", "show", str(crew), "s", "my_shout"]) == 0
    shown = capsys.readouterr().out
    assert "shout of s as my_shout: new" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    wrong = ["mcp", "approve", str(crew), "s", "add", "--yes", "--digest", "0" * 64]
    assert run_cli(wrong) == 2
    assert "has another hash now" in capsys.readouterr().err
    assert run_cli(["mcp", "approve", str(crew), "--yes"]) == 0
    assert "approved  my_add" in capsys.readouterr().out
    found = states(crew, capsys)
    # What the crew does not have is not approved along with the rest.
    assert (found["add"], found["shout"], found["fail"]) == ("approved", "approved", "new")
    (tmp_path / "state").write_text(" And more.")
    assert states(crew, capsys)["add"] == "changed"
    assert run_cli(["mcp", "show", str(crew), "s", "add"]) == 0
    shown = capsys.readouterr().out
    changed = shown[shown.index("since it was approved:") :]
    assert "- Adds two numbers.\n" in changed
    assert "+ Adds two numbers. And more.\n" in changed
    assert run_cli(["mcp", "show", str(crew), "s", "add", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["tools"]
    assert told["before"]["description"] == "Adds two numbers."
    assert run_cli(["mcp", "approve", str(crew), "--yes"]) == 0
    capsys.readouterr()
    assert run_cli(["mcp", "show", str(crew), "s", "add"]) == 0
    assert "since it was approved" not in capsys.readouterr().out


def test_words_that_belong_to_another_approval_are_not_shown_as_the_old_ones(
    crew: Path, tmp_path: Path, client: Connected, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hash that counts is another one than that of the text which the store keeps."""
    assert run_cli(["mcp", "approve", str(crew), "--yes"]) == 0
    ((source, tools),) = client.kept._approvals.items()
    assert "add" in tools
    client.kept._approvals[source]["add"] = "0" * 64
    capsys.readouterr()
    assert run_cli(["mcp", "show", str(crew), "s", "add"]) == 0
    assert "was not kept" in capsys.readouterr().out


def test_of_a_signed_crew_only_who_may_grant_approves(
    crew: Path, tmp_path: Path, client: Connected, capsys: pytest.CaptureFixture[str]
) -> None:
    ada, dev = keys.make("ada", tmp_path / "keys"), keys.make("dev", tmp_path / "keys")
    data = json.loads(crew.read_text())
    assert run_cli(["mcp", "approve", str(crew), "--yes"]) == 0  # whoever has the store
    principals = {
        "ada": {"key": ada.public, "rights": ["grant"]},
        "dev": {"key": dev.public, "rights": ["change"]},
    }
    crew.write_text(json.dumps({**data, "policy": {"mode": "signed", "principals": principals}}))
    for key in (None, dev):
        client.key = key
        assert run_cli(["mcp", "approve", str(crew), "--yes"]) != 0
        assert "who have the right 'grant'" in capsys.readouterr().err
        assert states(crew, capsys)["add"] == "new"
    client.key = ada
    assert run_cli(["mcp", "approve", str(crew), "--yes", "--by", "dev"]) == 0
    capsys.readouterr()
    assert run_cli(["mcp", "list", str(crew)]) == 0
    assert "approved by ada" in capsys.readouterr().out
    (tmp_path / "state").write_text(" And more.")
    assert states(crew, capsys)["add"] == "changed"
    assert run_cli(["mcp", "show", str(crew), "s", "add"]) == 0
    assert "+ Adds two numbers. And more." in capsys.readouterr().out


def test_validate_says_what_is_to_be_approved_and_who_may_what(
    crew: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(crew.read_text())
    key = {"key": "ed25519:3qLCSCroBYFwGiAkGm/unEZCw+Hz6phl2vFiwQ0dXgY=", "rights": ["grant"]}
    data["policy"] = {"mode": "signed", "principals": {"ada": key}}
    crew.write_text(json.dumps(data))
    assert run_cli(["validate", str(crew)]) == 0
    told = capsys.readouterr().out
    assert "policy: ada may grant, by signed commands" in told
    assert "must approve what the server says of my_add and my_shout" in told
    assert f"crewlog mcp approve {crew}" in told
    assert run_cli(["validate", str(crew), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["to_approve"] == ["my_add", "my_shout"]
    assert found["policy"] == ["ada may grant, by signed commands"]
    data["tools"] = {"my_add": {"run": "mcp:s/add", "approved": "0" * 64}}
    data["mcp"]["s"]["tools"] = ["shout"]
    crew.write_text(json.dumps(data))
    assert run_cli(["validate", str(crew), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to_approve"] == ["my_shout"]


def test_a_tool_of_the_crew_that_the_server_lacks_has_a_row(
    crew: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(crew.read_text())
    data["tools"] = {"my_ad": {"run": "mcp:s/ad"}}
    crew.write_text(json.dumps(data))
    assert states(crew, capsys)["ad"] == "not offered by the server"
    assert run_cli(["mcp", "list", str(crew)]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if " ad " in line]
    assert row.split() == ["s", "ad", "my_ad", *["not", "offered", "by", "the", "server"]]
    assert run_cli(["mcp", "show", str(crew), "s", "ad"]) == 0
    assert "does not offer it. Did you mean 'add'?" in capsys.readouterr().out
    assert run_cli(["mcp", "approve", str(crew), "--yes"]) == 0
    assert "my_ad\n" not in capsys.readouterr().out


def test_a_server_that_cannot_be_started_is_a_service_that_is_away(
    crew: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(crew.read_text())
    data["mcp"]["s"]["command"] = "no-such-program"
    crew.write_text(json.dumps(data))
    assert run_cli(["mcp", "list", str(crew)]) == 5
    told = capsys.readouterr().err
    assert "the program 'no-such-program' is not installed here" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "FILE", "t"], "the crew has no MCP server 't'"),
        (["approve", "FILE", "--digest", "0"], "--digest goes with one tool"),
    ],
)
def test_slips(
    crew: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert run_cli(["mcp", *(str(crew) if a == "FILE" else a for a in arguments)]) == 2
    assert told in capsys.readouterr().err

"""`crewlog chat`: sessions at a terminal, from a pipe, and one message at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from covers import covers

from .conftest import Cli
from .terminal import Terminal

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def desk(project: Path) -> Path:
    (project / "desk.yaml").write_text(
        "crew: desk\nmodel: scripted:desk.script.yaml\nconversation: {}\n"
        "agents:\n"
        "  router: {prompt: R., writes: []}\n"
        "  billing: {prompt: B., on_error: continue}\n"
        "  clerk: {prompt: C., tools: [look]}\n"
        "tools: {look: {run: 'desk_tools:look'}}\n"
        "approvals: {look: null}\n"
        "flow:\n  - {use: hub, with: {router: router, agents: [billing, clerk]}}\n"
    )
    (project / "desk_tools.py").write_text(
        'def look(what: str) -> str:\n    """Looks."""\n    return what\n'
    )
    script = {
        "agents": {
            "router": [
                {"when": "bill", "text": '{"next": "billing"}'},
                {"when": "broken", "text": '{"next": "billing"}'},
                {"when": ".", "of": "people", "text": '{"next": "clerk"}'},
            ],
            "billing": [
                {"when": "broken", "fail": "refused", "times": 99, "text": "never"},
                {"when": ".", "text": "It is paid."},
            ],
            "clerk": [
                {"when": ".", "of": "tool", "text": "I looked."},
                {"when": ".", "text": "", "tool_calls": [{"tool": "look", "args": {"what": "x"}}]},
            ],
        }
    }
    (project / "desk.script.yaml").write_text(json.dumps(script))
    return project / "desk.yaml"


def fresh() -> str:
    return f"desk-{uuid4().hex[:6]}"


@covers("C61", "C74")
def test_a_session_message_by_message(crewlog: Cli, desk: Path) -> None:
    run = fresh()
    first = crewlog("chat", str(desk), "my bill", "--id", run)
    assert (first.code, first.out.strip()) == (0, "It is paid."), first.err
    again = crewlog("chat", run, "the bill again", "--json")
    (answer,) = [each for each in again.records if each["event"] == "answer"]
    assert (answer["exchange"], answer["text"], answer["agent"]) == (2, "It is paid.", "billing")
    broken = crewlog("chat", run, "it is broken")
    assert "Sorry, I have no answer to that." in broken.out
    asked = crewlog("ask", str(desk), "my bill", "--id", run)
    assert asked.out.strip() == "It is paid."
    assert crewlog("stop", run).code == 0


def test_several_lines_are_one_message_at_a_terminal(crewlog: Cli, desk: Path) -> None:
    run = fresh()
    terminal = Terminal("chat", str(desk), "--id", run, cwd=crewlog.cwd, env=crewlog.env)
    terminal.expect(f"session {run}")
    terminal.expect("›")  # noqa: RUF001
    terminal.type("\x1b[200~crew: a\nflow: [my bill]\n\x1b[201~and\\")
    terminal.type("no more")
    terminal.expect("It is paid.")
    terminal.type("again, my bill")
    terminal.expect("It is paid.")
    terminal.hang_up()
    assert terminal.end() == 0
    said = [each for each in crewlog("log", run, "--json").records
            if each["entry"]["kind"] == "MessageAdded"]  # fmt: skip
    texts = [each["entry"]["ref"]["inline"]["content"] for each in said]
    assert texts == ["crew: a\nflow: [my bill]\nand\nno more", "again, my bill"]


def test_another_model_for_a_session(crewlog: Cli, desk: Path) -> None:
    other = {"agents": {"router": [{"when": ".", "text": '{"next": "billing"}'}],
                        "billing": [{"when": ".", "text": "By another."}]}}  # fmt: skip
    (desk.parent / "other.script.yaml").write_text(json.dumps(other))
    model = ("--model", f"scripted:{desk.parent / 'other.script.yaml'}")
    done = crewlog("chat", str(desk), "my bill", *model)
    assert done.out.strip() == "By another.", done.err
    assert (
        "--model has no effect: a registered crew has its models"
        in crewlog("chat", "desk-none", *model).err
    )


def test_lines_from_a_pipe_are_messages(crewlog: Cli, desk: Path) -> None:
    run = fresh()
    done = subprocess.run(
        [sys.executable, "-m", "crewlog.cli.main", "chat", str(desk), "--id", run],
        input="my bill\n\nthe bill \\\nagain\n",
        capture_output=True,
        text=True,
        cwd=crewlog.cwd,
        env=crewlog.env,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "It is paid.\nIt is paid.\n"), done.stderr


def test_at_a_terminal(crewlog: Cli, desk: Path) -> None:
    run = fresh()
    terminal = Terminal("chat", str(desk), "--id", run, cwd=crewlog.cwd, env=crewlog.env)
    terminal.expect(f"session {run}")
    terminal.type("my bill")
    terminal.expect("It is paid.")
    terminal.type("what else")
    terminal.expect("May clerk#1 call look with x?")
    terminal.expect("or a sentence")
    terminal.type("1")
    assert "answered by" not in terminal.expect("✓ approved")
    terminal.expect("I looked.")
    terminal.expect("›")  # noqa: RUF001
    terminal.hang_up()
    terminal.expect(f"crewlog chat {run}")
    assert terminal.process.wait(60) == 0
    terminal = Terminal("chat", run, cwd=crewlog.cwd, env=crewlog.env)
    terminal.expect("I looked.")  # what was answered last
    terminal.interrupt()
    terminal.expect(f"crewlog stop {run}")
    assert terminal.process.wait(60) == 130


def test_run_leaves_after_the_first_answer(crewlog: Cli, desk: Path) -> None:
    run = fresh()
    done = crewlog("run", str(desk), "--input", "my bill", "--id", run)
    assert done.code == 0, done.err
    assert "exchange 1 is over, billing answers" in done.out
    assert "It is paid." in done.out
    assert f"crewlog chat {run}" in done.out


def test_what_is_no_conversation_says_so(crewlog: Cli) -> None:
    done = crewlog("chat", "two.yaml", "hello")
    assert done.code == 2
    assert "the crew 'two' is no conversation" in done.err
    assert "'nobody' is no file, no registered crew and no run" in crewlog("chat", "nobody").err

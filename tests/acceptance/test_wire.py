"""The wire contract from any language: the `temporal` command line, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.encryption.keys import KEYS
from crewlog.temporal_service.cli import find_cli

from .harness import LIMIT, SHARED, Site, calls, tool, until

pytestmark = pytest.mark.skipif(
    bool(os.environ.get(KEYS)), reason="with encryption on, what is not encrypted is refused"
)


class CommandLine:
    """Runs `temporal workflow …` against the site's server."""

    def __init__(self, program: Path, address: str, namespace: str) -> None:
        self._program = program
        self._where = ("--address", address, "--namespace", namespace)

    async def __call__(self, *words: str) -> Any:
        command = [str(self._program), "workflow", *words, *self._where, "-o", "json"]
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "TEMPORAL_CONFIG_FILE": os.devnull,
        }
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env=environ,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}{done.stdout}"
        return json.loads(done.stdout) if done.stdout.strip() else None

    async def as_written(self, line: str) -> None:
        """Runs a command of the documents, at this server."""
        program, kind, *words = shlex.split(line)
        assert (program, kind) == ("temporal", "workflow")
        await self(*words)

    async def query(self, run: str, name: str, argument: Any = None) -> Any:
        more = () if argument is None else ("--input", json.dumps(argument))
        answer = await self("query", "-w", run, "--type", name, *more)
        return answer["queryResult"][0]

    async def signal(self, run: str, name: str, content: Any) -> None:
        await self("signal", "-w", run, "--name", name, "--input", json.dumps(content))


@pytest.fixture(scope="module")
async def temporal(whole_site: Site) -> CommandLine:
    ends = whole_site.endpoints
    return CommandLine((await find_cli()).path, ends.temporal_address, ends.namespace)


@covers("C124", "C125")
async def test_a_run_from_start_to_result(crews: Site, temporal: CommandLine) -> None:
    definition = crews.crew(
        {"writer": [calls(("gate", {"name": "g"})), {"text": "A poem."}]},
        tools={"gate": tool("gate")},
        flow=["writer", {"ask": "Publish it?", "options": ["yes", "no"], "sets": "published"}],
    )
    start = {"crew": definition, "input": "Write a poem.", "by": "ana"}
    run = "poem-1"
    words = ("--type", "CrewRun", "--task-queue", SHARED, "--execution-timeout", "90s")
    await temporal("start", "-w", run, *words, "--input", json.dumps(start))
    known = crews.client().run(run)
    crews.runs.append(known)
    await until(lambda: crews.ledger(known, "start"), "the gate")

    await temporal.signal(run, "message", {"id": "m1", "by": "ana", "text": "Keep it short."})
    await temporal.signal(run, "pause", {"id": "p1", "by": "ana", "reason": "lunch"})
    crews.open_gate(known, "g")
    await known.wait_until(lambda view: view.status == "paused", LIMIT)
    status = await temporal.query(run, "status")
    assert (status["status"], status["wait_reason"]) == (
        "paused",
        f"paused by ana: crewlog resume {run}",
    )
    await temporal.signal(run, "resume", {"id": "r1", "by": "ana"})

    await _interrupted(known)
    (question,) = await temporal.query(run, "interrupts")
    assert (question["id"], question["options"]) == ("i1", ["yes", "no"])
    await _see_everything(temporal, run)
    answer = {"id": "a1", "by": "ana", "interrupt": "i1", "decisions": [{"type": "approve"}]}
    accepted = await temporal(
        "update",
        "execute",
        "-w",
        run,
        "--name",
        "answer",
        "--update-id",
        "a1",
        "--input",
        json.dumps(answer),
    )
    assert "a1" in json.dumps(accepted)
    result = (await temporal("result", "-w", run))["result"]
    assert result["status"] == "completed"
    assert result["flags"]["published"] is True
    assert result["outputs"]["writer"]["text"] == "A poem."


async def _interrupted(run: Run) -> None:
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)


async def _see_everything(temporal: CommandLine, run: str) -> None:
    state = await temporal.query(run, "state")
    assert list(state["outputs"]) == ["writer"]
    assert state["data"]["visits"] == {"writer": 1, "ask_1": 1}
    graph = await temporal.query(run, "graph")
    assert graph["statuses"] == {"writer": "done", "ask_1": "interrupted"}
    assert "writer" in graph["mermaid"]
    page = await temporal.query(run, "journal", {"after": 1, "limit": 2})
    assert [item["position"] for item in page["entries"]] == [2, 3]
    whole = await temporal.query(run, "journal")
    assert whole["position"] == len(whole["entries"])
    start, checkpoint = (await temporal.query(run, "checkpoints"))["checkpoints"]
    assert start["kind"] == "start"
    assert checkpoint["step"] == "writer#1"


async def test_a_bad_start_says_what_is_wrong(crews: Site, temporal: CommandLine) -> None:
    words = ("--type", "CrewRun", "--task-queue", SHARED, "--execution-timeout", "20s")
    await temporal(
        "start", "-w", "bad-wire", *words, "--input", json.dumps({"crew": {"crew": "x"}})
    )
    with pytest.raises(AssertionError, match="agents"):
        await temporal("result", "-w", "bad-wire")


def documented() -> list[str]:
    """The commands in docs/wire.md, each in one line."""
    text = (Path(__file__).parents[2] / "docs" / "wire.md").read_text().replace("\\\n", " ")
    found = [line for line in text.splitlines() if line.startswith("temporal workflow ")]
    # The run stands on the tests' task queue; everything else is as it is written.
    return [line.replace("--task-queue crewlog", f"--task-queue {SHARED}") for line in found]


async def test_the_commands_of_the_documents(crews: Site, temporal: CommandLine) -> None:
    definition = crews.crew(
        {"collector": [calls(("gate", {"name": "g"})), {"text": "C"}], "writer": [{"text": "W"}]},
        tools={"gate": tool("gate")},
        flow=[
            "collector",
            "writer",
            {"ask": "Publish?", "options": ["yes", "later", "no"], "sets": "approved"},
        ],
    )
    await crews.client().register({**definition, "crew": "release-notes"})
    # desk-1 is a conversation, which tests/acceptance/test_conversations.py asks.
    lines = [line for line in documented() if not _changes(line) and "desk-1" not in line]
    used: list[str] = []

    async def say(*words: str) -> None:
        for line in lines:
            if all(word in line for word in words) and line not in used:
                used.append(line)
                await temporal.as_written(line)

    await say("start", "notes-42")
    run = crews.client().run("notes-42")
    crews.runs.append(run)
    await until(lambda: crews.ledger(run, "start"), "the gate")
    for name in ("pause", "resume", "interrupt", "message"):
        await say("signal", f"--name {name}")
    crews.open_gate(run, "g")
    await _interrupted(run)
    await say("query")
    await say("--update-id r1")
    await run.wait_until(lambda view: view.interrupts == ("i2",), LIMIT)
    await say("--update-id r2")
    await say("result")
    result = await run.result(LIMIT)
    assert (result.status, result.flags["approved"]) == ("completed", "later")
    assert not await crews.entries(run, "CommandRejected")
    assert len(await crews.entries(run, "MessageAdded")) == 2  # the input, and what was said
    rest = [line for line in lines if line not in used]
    assert len(rest) == 3
    order = ("stop", "hello-1", "prose-7")
    stopped, inline, prose = sorted(rest, key=lambda line: [word not in line for word in order])
    other = await crews.start(definition)
    await until(lambda: crews.ledger(other, "start"), "the gate")
    await temporal.as_written(stopped.replace("notes-42", other.id))
    assert (await other.result(LIMIT)).status == "stopped"
    # Its model needs a key: that it starts is enough.
    for line, id_ in ((inline, "hello-1"), (prose, "prose-7")):
        await temporal.as_written(line.replace(f"--task-queue {SHARED}", "--task-queue nobody"))
        await crews.client().run(id_).terminate()


CHANGING = (
    *("change", "edit_state", "redirect", "set_permission", "rollback", "tag", "ask"),
    *("fork", "reopen"),
)


def _changes(line: str) -> bool:
    return any(f"--name {name} " in line or f'"{name}":' in line for name in CHANGING)


async def test_the_commands_that_change_a_run(crews: Site, temporal: CommandLine) -> None:
    definition = crews.crew(
        {name: [{"text": name}] * 9 for name in ("collector", "writer", "checker", "publisher")},
        rules={"checker": {"writes_flags": ["models_ready"], "outputs": ["score"]}},
        tools={"write_file": tool("echo")},
    )
    asking = {"ask": "Publish?", "phase": "gate"}
    crew = {**definition, "crew": "release-notes"}
    crew["flow"] = ["collector", "writer", "checker", asking, "publisher"]
    await crews.client().register(crew)
    run = await crews.start(crew)
    lines = [line for line in documented() if _changes(line)]
    used: list[str] = []

    async def say(word: str, *replaced: tuple[str, str], to: str = run.id) -> None:
        (line,) = (line for line in lines if word in line)
        used.append(line)
        for old, new in replaced:
            assert old in line
            line = line.replace(old, new)
        await temporal.as_written(line.replace("notes-42", to))

    async def asks_again(number: int) -> str:
        view = await run.wait_until(lambda view: view.interrupts == (f"i{number}",), LIMIT)
        (step,) = view.frontier
        return str(step.step)

    await asks_again(1)
    for update in ("ch1", "s1", "e1", "ch2", "ch3"):
        await say(f"--update-id {update} ")
    state = await run.state()
    assert state.flags["models_ready"] is True
    assert state.agent_outputs["checker"]["score"].value == 0.9
    assert state.tool_permissions["write_file"] == ("writer",)
    assert state.graph_version == 1
    assert [each.by for each in state.changes][-2:] == ["ana", "ana"]
    found = (await run.checkpoints()).checkpoints
    writer = next(each.position for each in found if each.step == "writer#1")
    await say("--name tag ", ('"checkpoint": 13', f'"checkpoint": {writer}'))
    await say("--update-id rb1 ", ('"position": 12', f'"position": {writer}'))
    step = await asks_again(2)
    assert (await run.state()).tags == {"draft": writer}
    nowhere = (f"--task-queue {SHARED}", "--task-queue nobody")  # its model needs a key
    await say('"fork"', nowhere, ('"position": 12', f'"position": {writer}'))
    await crews.client().run("notes-43").terminate()
    await say("--update-id d1 ", ("checker#2", step))
    await asks_again(3)
    answer = asyncio.create_task(say("--update-id a1 "))
    await until_said(run, "And the known issues?")
    await say("--update-id d2 ")
    await answer
    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert (await run.state()).visits["writer"] == 2
    other = await crews.start(crew)
    await _interrupted(other)
    await other.stop("enough")
    await other.result(LIMIT)
    await say('"reopen"', to=other.id)
    await _interrupted(other)
    assert used == list(dict.fromkeys(used))
    assert {*used} == {*lines}


async def until_said(run: Run, text: str) -> None:
    """Waits until somebody has said it."""
    async for event in run.events():
        ref = event.entry.message
        if ref is not None and ref.inline and ref.inline.get("content") == text:
            return

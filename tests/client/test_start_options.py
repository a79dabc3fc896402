"""The options of a start mean the same on the command line, in the client and on the wire.

The table has every option of each, with its name in the others, or why it is not there: an option
that is added in one of them alone is noticed.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError
from temporalio.client import WorkflowFailureError

from crewlog.cli import asking, chatting, scheduling
from crewlog.cli.main import run_cli
from crewlog.cli.run import run as run_command
from crewlog.client import Client, schedules
from crewlog.errors import UsageError
from crewlog.ids import AgentName
from crewlog.state.model import CrewState
from crewlog.testing import CrewlogLocal
from crewlog.testing.scripted import scripted
from crewlog.wire import Change, InitialState, StartRun

OUTPUT = {"as_json", "debug"}
WRITER = AgentName("writer")
PROMPT = "The writer writes the notes."


class Option(NamedTuple):
    """An option of a start, by its names; None: it is not there, for the reason that follows."""

    cli: str | None
    client: str | None
    wire: str | None
    why: str = ""


OPTIONS = (
    Option("crew", "crew", "crew"),
    Option("input", "input", "input"),
    Option("by", "by", "by"),
    Option("model", "model", "model"),
    Option("registry", "registry", "registry"),
    Option("reader", "reader", "reader"),
    Option("id", "id", None, "Temporal's workflow id"),
    Option("existing", "existing", "replace", "the others are Temporal's reuse policy"),
    Option("task_queue", None, "queue", "a client has one task queue: `connect(task_queue=…)`"),
    Option(None, "execution_timeout", None, "Temporal's, and for programs"),
    Option(None, "initial_state", "initial_state", "of evaluations"),
    Option(None, None, "proof", "made of the key that is chosen"),
    Option(None, None, "command", "made by `ask`"),
    Option(None, None, "replaced_executions", "made by `existing` and `reopen`"),
    Option(None, None, "fork", "`fork`"),
    Option(None, None, "reopen", "`resume`"),
    Option(None, None, "reason", "`resume --reason`"),
    Option(None, None, "split", "of runs alone"),
    Option("file", "files", "files", "`--file` may be repeated"),
    Option("timeout", None, None, "how long the command follows the run"),
    Option("detach", None, None, "whether the command follows the run"),
    Option("wait", None, None, "whether the command waits for others' answers"),
    Option("answer", None, None, "answers of the command's own"),
    Option("yes", None, None, "an approval by whoever types"),
    Option("allow_partial", None, None, "a prompt is compiled by the command"),
)


def parameters(function: Any) -> set[str]:
    return {*inspect.signature(function).parameters} - {"self"}


def test_the_table_has_every_option() -> None:
    assert parameters(run_command) - OUTPUT == {each.cli for each in OPTIONS if each.cli}
    assert parameters(Client.start) == {each.client for each in OPTIONS if each.client}
    assert {*StartRun.model_fields} == {each.wire for each in OPTIONS if each.wire}
    for each in OPTIONS:
        assert each.why or each.cli == each.client == each.wire, each


def test_defaults_are_the_same() -> None:
    client = inspect.signature(Client.start).parameters
    for each in OPTIONS:
        if each.client is None or each.wire is None or each.client in ("crew", "existing"):
            continue
        default = client[each.client].default
        assert default == StartRun.model_fields[each.wire].default or default is None, each


@pytest.mark.parametrize("start", [Client.ask, schedules.Schedules.create])
def test_what_else_starts_a_run_takes_the_same(start: Any) -> None:
    assert {"input", "by", "model", "registry", "reader"} <= parameters(start)


@pytest.mark.parametrize("command", [asking.ask, chatting.chat, scheduling.create])
def test_each_command_that_starts_a_run_takes_a_model(command: Any) -> None:
    assert {"model", "task_queue", "by"} <= parameters(command)


def crew(model: str | None = None) -> dict[str, Any]:
    named = {"model": model} if model else {}
    return {"crew": "notes", **named, "agents": {"writer": {"prompt": "Write."}}}


def says(text: str) -> str:
    return scripted({"agents": {"writer": [{"text": text}]}})


GOES_NOWHERE = (
    ({"registry": "ours"}, "`registry` goes with a prompt"),
    ({"reader": "forms"}, "`reader` goes with a prompt"),
    ({"registry": "ours", "reader": "model"}, "`registry` and `reader` go with a prompt"),
)


@pytest.mark.parametrize(("option", "why"), GOES_NOWHERE)
async def test_an_option_without_effect_is_refused_everywhere(
    option: dict[str, str],
    why: str,
    crewlog_local: CrewlogLocal,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = await crewlog_local.client()
    with pytest.raises(UsageError, match=why):
        await client.start(crew("openai:m"), **option)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=why):
        await client.ask(crew("openai:m"), "x", **option)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=why):
        await client.schedules.create(
            "nightly",
            crew("openai:m"),
            every=timedelta(hours=1),
            **option,  # type: ignore[arg-type]
        )
    with pytest.raises(ValidationError, match=why):
        StartRun(crew=crew("openai:m"), **option)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=why):
        Change(id="c", definition="notes", **option)  # type: ignore[arg-type]
    assert "InvalidStart" in await failure(client, {"crew": crew("openai:m"), **option})
    file = tmp_path / "crew.yaml"
    file.write_text(json.dumps(crew("openai:m")))
    typed = [word for name, value in option.items() for word in (f"--{name}", value)]
    for command in (["run", str(file)], ["change", "some-run", "--edit", "model=openai:x"]):
        assert await asyncio.to_thread(run_cli, [*command, *typed]) == 2
        said = capsys.readouterr().err
        assert all(f"--{name}" in said for name in option)
        assert "no effect" in said


async def failure(client: Client, start: dict[str, Any]) -> str:
    """How a workflow fails that somebody starts with plain JSON."""
    handle = await client.temporal.start_workflow(
        "CrewRun",
        start,
        id=f"raw-{id(start)}",
        task_queue=client.task_queue,
        execution_timeout=timedelta(seconds=30),
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    cause: Any = failed.value.cause
    return f"{cause.type}: {cause.message}"


@pytest.mark.parametrize("own", [None, "openai:in-the-file"])
async def test_a_model_takes_the_place_of_the_files(
    own: str | None, crewlog_local: CrewlogLocal, tmp_path: Path
) -> None:
    """In the client as with `--model`, also where the file names none."""
    file = tmp_path / "crew.yaml"
    given = crew(own)
    if own:
        given["agents"]["writer"]["model"] = own
    file.write_text(json.dumps(given))
    client = await crewlog_local.client()
    run = await client.start(str(file), model=says("of the option"))
    result = await run.result(30)
    assert result.outputs[WRITER]["text"] == "of the option"
    assert (await client.ask(str(file), "x", model=says("asked"))).outputs[WRITER] == {
        "text": "asked"
    }


async def test_the_wire_takes_a_model_as_the_client_does(crewlog_local: CrewlogLocal) -> None:
    client = await crewlog_local.client()
    own, model = crew("openai:in-the-data"), says("the same")
    own["agents"]["writer"]["model"] = "openai:the-agents"
    run = await client.start(own, model=model)
    await run.result(30)
    handle = await client.temporal.start_workflow(
        "CrewRun",
        {"crew": own, "model": model},
        id=f"{run.id}-raw",
        task_queue=client.task_queue,
        execution_timeout=timedelta(seconds=30),
    )
    result = await handle.result()
    assert result["outputs"]["writer"]["text"] == "the same"
    told: list[CrewState] = [await each.state() for each in (run, client.run(f"{run.id}-raw"))]
    assert told[0].definition == told[1].definition


REGISTERED = "a registered crew has its models"


async def test_a_registered_crew_has_its_models(crewlog_local: CrewlogLocal) -> None:
    client = await crewlog_local.client()
    await client.register(crew("openai:m"))
    with pytest.raises(UsageError, match=REGISTERED):
        await client.start("notes", model="openai:x")
    with pytest.raises(UsageError, match=REGISTERED):
        await client.ask("notes", "x", model="openai:x")
    assert REGISTERED in await failure(client, {"crew": "notes", "model": "openai:x"})


@pytest.mark.parametrize(
    "words",
    [
        ("run", "notes"),
        ("ask", "notes", "x"),
        ("chat", "notes"),
        ("schedule", "create", "nightly", "notes", "--every", "1h"),
    ],
)
def test_a_command_says_so_too(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli([*words, "--model", "openai:x"]) == 2
    assert REGISTERED in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("ask", "RUN", "AGENT", "TOOL", "--timeout", "3"), "--timeout"),
        (("ask", "RUN", "AGENT", "TOOL", "--model", "openai:m"), "--model"),
        (("ask", "notes", "what?", "--reason", "so"), "--reason"),
        (("run", "crew.yaml", "--yes"), "--yes"),
        (("run", "crew.yaml", "--allow-partial"), "--allow-partial"),
        (("compile", "notes.md", "--force"), "--force"),
    ],
)
def test_a_command_says_which_option_has_no_effect(
    words: tuple[str, ...], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli([*words]) == 2
    assert f"{option} has no effect" in capsys.readouterr().err


async def test_a_name_that_no_model_has_is_refused_before_a_run(
    crewlog_local: CrewlogLocal,
) -> None:
    client = await crewlog_local.client()
    for given in (crew("openai:m"), PROMPT):
        with pytest.raises(UsageError, match="opnai"):
            await client.start(given, model="opnai:x")


async def test_a_file_of_prose_is_a_prompt(crewlog_local: CrewlogLocal, tmp_path: Path) -> None:
    """As it is on the command line; the model is the crew's, where the prompt names none."""
    file = tmp_path / "notes.md"
    file.write_text(PROMPT)
    run = await (await crewlog_local.client()).start(file, reader="forms", model="openai:chosen")
    view = await run.wait_until(lambda view: bool(view.interrupts), 30)
    assert view.interrupts
    (question,) = await run.interrupts()
    assert question.action_requests[0]["args"]["definition"]["model"] == "openai:chosen"
    await run.terminate("seen")


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ({"files": [b"GIF89a"]}, "`files` has"),
        ({"initial_state": InitialState(request="Other.")}, "`initial_state` has"),
        ({"model": "scripted:other"}, "`model` has"),
        ({"execution_timeout": timedelta(hours=1)}, "`execution_timeout` has"),
        ({"model": "scripted:other", "files": [b"GIF89a"]}, "`model` and `files` have"),
    ],
)
async def test_a_run_that_is_there_takes_no_option_of_a_start(
    option: dict[str, Any], name: str, crewlog_local: CrewlogLocal
) -> None:
    client = await crewlog_local.client()
    made = crew(says("done"))
    id_ = f"there-{secrets.token_hex(4)}"
    run = await client.start(made, "go", id=id_, existing="attach")
    again = await client.start(made, "go", id=id_, existing="attach")
    assert again.id == run.id
    await run.result(30)
    with pytest.raises(UsageError, match=f"{name} no effect: the run '{id_}' is there"):
        await client.start(made, "go", id=id_, existing="attach", **option)


async def test_a_prompt_is_attached_to_without_its_options(crewlog_local: CrewlogLocal) -> None:
    client = await crewlog_local.client()
    id_ = f"there-{secrets.token_hex(4)}"
    await client.start(crew(says("done")), id=id_)
    for option in ({"reader": "forms"}, {"registry": "ours"}):
        with pytest.raises(UsageError, match="no effect"):
            await client.start(PROMPT, id=id_, existing="attach", **option)  # type: ignore[arg-type]


async def test_what_is_said_to_a_run_that_ended_has_an_effect(crewlog_local: CrewlogLocal) -> None:
    asks = {"ask": "Go on?", "options": ["yes", "no"]}
    run = await crewlog_local.start({**crew(says("done")), "flow": ["writer", asks]})
    await run.wait_until(lambda view: bool(view.interrupts), 30)
    await run.stop("enough")
    assert (await run.result(30)).status == "stopped"
    with pytest.raises(UsageError, match="recipe"):
        await run.resume(recipe=crew("openai:m"))
    with pytest.raises(UsageError, match="no effect"):
        await run.resume(id="r-1")
    await run.resume("the key is mended", by="ana")
    await run.wait_until(lambda view: bool(view.interrupts), 30)
    entries = (await run.journal(limit=200)).entries
    (reopened,) = [each.data for each in entries if each.data["kind"] == "RunReopened"]
    assert (reopened["by"], reopened["reason"]) == ("ana", "the key is mended")
    await run.terminate("seen")

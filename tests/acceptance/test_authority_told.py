"""What docs/authority shows in Python runs as it stands; bad input is refused alike everywhere."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from crewlog.client import Run
from crewlog.errors import CommandRejected
from crewlog.failure_details import failure_details

from .harness import LIMIT, Site, calls, tool

PAGES = Path(__file__).parents[2] / "docs" / "authority"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = "notes-42"
"""The run of the samples."""


async def at_a_question(site: Site) -> Run:
    """A run whose writer asks people before it publishes."""
    crew = site.crew(
        {"writer": [calls(("publish", {"text": "v1"})), {"text": "W"}], "reader": [{"text": "R"}]},
        tools={"publish": tool("echo", "never", effects="external")},
        rules={"reader": {"tools": []}},
    )
    run = await site.start(crew | {"approvals": {"publish": None}})
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    return run


async def test_the_samples_that_speak_to_a_run_do_what_they_say(
    crews: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await at_a_question(crews)
    space: dict[str, Any] = {"client": crews.client()}
    ran: list[str] = []
    for page in sorted(PAGES.glob("*.md")):
        for text in FENCE.findall(page.read_text()):
            if "await " not in text and "async for" not in text:
                continue  # a tool: tests/docs calls it
            sample = text.replace(NAMED, run.id)
            code = compile(sample, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            found = eval(code, space)  # noqa: S307 - our own page
            if inspect.isawaitable(found):
                await found
            ran.append(page.name)
    assert {"audit.md", "memory.md", "permissions.md"} <= set(ran)
    assert {each.agent for each in space["page"].cells} == {"writer", "reader"}
    assert space["cell"].checks
    learned = await crews.client().memory.read("support", "public", "refunds")
    assert "14 days" in str(learned)
    assert not capsys.readouterr().err
    # All that was ruled is taken back, and the call still waits for its yes.
    (cell,) = (await run.permissions(["writer"], ["publish"])).cells
    assert (cell.outcome, cell.rule) == ("ask", "approvals")
    await run.answer("i1", "approve", by="ana")
    assert (await run.result(LIMIT)).status == "completed"


async def until_refused(run: Run, times: int) -> None:
    """Waits until so many commands were refused."""
    async with asyncio.timeout(LIMIT):
        while len([e async for e in run.audit(kinds=["refusal"])]) < times:  # noqa: ASYNC110 - a query tells
            await asyncio.sleep(0.05)


def set_permission(agent: str, tool_name: str, do: str = "deny") -> tuple[str, dict[str, Any]]:
    return "set_permission", {"agent": agent, "tool": tool_name, "do": do}


def answer(interrupt: str, *decisions: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "answer", {"interrupt": interrupt, "decisions": list(decisions)}


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def rules(*rules: tuple[str, str]) -> tuple[str, dict[str, Any]]:
    """A change that adds rules about `publish`."""
    added = [{"tool": "publish", "agents": [agent], "do": do} for agent, do in rules]
    return "change", {"operations": [{"op": "add_rule", "rule": rule} for rule in added]}


YES = {"type": "approve"}
BOTH = "rules[0] says always and rules[1] says never: publish by reader"
BAD = [
    (set_permission("writr", "publish"), "there is no agent 'writr'", "Did you mean 'writer'?"),
    (set_permission("zoe", "publish"), "there is no agent 'zoe'", "Agents: writer, reader."),
    (set_permission("writer", "publsh"), "there is no tool 'publsh'", "Did you mean 'publish'?"),
    (set_permission("writer", "publish", "forbid"), "'do' must be", "docs/wire.md"),
    (answer("i9", YES), "'i9' is not open", "Open now: i1"),
    (answer("i1", edit("publish", txt="x")), "of 'publish' are not valid", "stays open"),
    (answer("i1", edit("drop", text="x")), "'drop'", ""),
    (answer("i1"), "decisions", "docs/wire.md"),
    (rules(("writr", "never")), "names the agent 'writr'", "correct the change"),
    (rules(("reader", "always"), ("reader", "never")), BOTH, "correct the change"),
]
"""Commands, what their refusals say, and what these say to do."""


async def test_bad_input_is_told_alike_to_any_client_and_in_the_audit(crews: Site) -> None:
    run = await at_a_question(crews)
    handle = crews.temporal.get_workflow_handle(run.id)
    told: list[tuple[str, str]] = []
    for number, ((name, content), say, remedy) in enumerate(BAD):
        with pytest.raises(WorkflowUpdateFailedError) as info:
            await handle.execute_update(name, {"id": f"bad{number}", "by": "ana", **content})
        cause = info.value.cause
        assert isinstance(cause, ApplicationError)
        assert say in cause.message
        assert remedy in failure_details(cause).remedy
        assert cause.type in {"CommandRejected", "InterruptNotOpen", "InvalidArguments"}
        if "wire.md" not in remedy:  # what is no command at all never gets into a history
            told.append((name, cause.message))
    records = [each async for each in run.audit(kinds=["refusal"])]
    assert [(each.action, each.principal) for each in records] == [
        (name, "ana") for name, _ in told
    ]
    for record, (_, message) in zip(records, told, strict=True):
        first, *more = (line.strip() for line in message.splitlines())
        assert record.reason.startswith(first)
        assert all(line in record.reason for line in more)
    # By signal, too: nobody is answered, and the audit has it.
    sent = [each for each in BAD if each[2] != "docs/wire.md"]
    for number, ((name, content), _, _) in enumerate(sent):
        await handle.signal(name, {"id": f"sent{number}", "by": "ana", **content})
    await until_refused(run, len(told) + len(sent))
    records = [each async for each in run.audit(kinds=["refusal"])][len(told) :]
    for record, ((name, content), say, _) in zip(records, sent, strict=True):
        edits = any(each["type"] == "edit" for each in content.get("decisions", ()))
        update = name == "change" or (edits and say.startswith("of"))
        assert ("not as a signal" if update else say) in record.reason
    # The same from Python, and the run waits on, unharmed.
    with pytest.raises(CommandRejected, match="there is no agent 'writr'"):
        await run.deny("writr", "publish")
    assert (await run.status()).interrupts == ("i1",)
    await run.answer("i1", "approve", by="ana")
    assert (await run.result(LIMIT)).status == "completed"
    assert [each["text"] for each in crews.ledger(run, "start")] == ["v1"]

"""The hub's specialists, each at work by itself on the servers that it looks at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from covers import covers
from crewlog.client import Client
from crewlog.testing import scripted
from shared import LIMIT, Lab

from .conftest import EXAMPLES, Inside

pytestmark = pytest.mark.server
HELLO = '{crew: hello, model: "scripted:hello.yaml", agents: {greeter: {prompt: Greet.}}}'


def crew() -> dict[str, Any]:
    """The example's crew."""
    found: dict[str, Any] = YAML(typ="safe").load(EXAMPLES / "ops_hub" / "crew.yaml")
    return found


def alone(agent: str) -> dict[str, Any]:
    """The example's crew with one specialist at work, and nobody in front of it."""
    found = crew()
    del found["conversation"], found["agents"]["router"]
    agents = {name: given | {"enabled": name == agent} for name, given in found["agents"].items()}
    return {**found, "agents": agents, "flow": [list(agents)]}


@pytest.fixture
def at_home(inside: Inside, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's folder; its tools look at the servers of the test."""
    (tools,) = inside("ops_hub", "tools")

    @asynccontextmanager
    async def connected() -> AsyncGenerator[Client]:
        yield lab.client

    monkeypatch.setattr(tools, "connected", connected)


async def said(lab: Lab, agent: str, question: str) -> str:
    async with lab.worker():
        run = await lab.start(alone(agent), question)
        return str((await run.result(LIMIT)).outputs[agent]["text"])


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize(
    ("agent", "question", "answers"),
    [
        (
            "health",
            "Is all healthy?",
            ('"server": {"reachable": true', '"workers": 1', '"runs": {"run'),
        ),
        ("health", "What went wrong?", ('{"failed": []',)),
        ("information", "Which crews are there?", ('This is what I found: {"crews": []}',)),
        ("information", "Describe the crew nobody", ("there is no crew 'nobody'",)),
        ("information", "Which runs are open?", ('"crew": "ops-hub", "status": "running"',)),
        ("machine", "How much room is on the disk?", ("GiB are free",)),
        ("general", "What time is it?", ("UTC",)),
    ],
)
async def test_a_specialist_looks_at_what_is_there(
    lab: Lab, agent: str, question: str, answers: tuple[str, ...]
) -> None:
    text = await said(lab, agent, question)
    assert all(answer in text for answer in answers), text


@pytest.mark.usefixtures("at_home")
async def test_a_crew_is_registered_after_a_persons_yes(lab: Lab) -> None:
    async with lab.worker():
        run = await lab.start(alone("registry"), f"Register this crew: {HELLO}")
        await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
        (asked,) = await run.interrupts()
        assert (asked.kind, "hello" in asked.question + asked.detail) == ("tool_approval", True)
        assert not await lab.client.catalog.crews()
        await run.answer(asked.id, "approve")
        result = await run.result(LIMIT)
    assert "It is registered" in str(result.outputs["registry"]["text"])
    assert [each.row.name for each in await lab.client.catalog.crews()] == ["hello"]


@pytest.mark.usefixtures("at_home")
async def test_whatever_people_answer_about_a_registration_works_offline(lab: Lab) -> None:
    async with lab.worker():
        for answer, says, status in (
            ("not on a Friday", "Refused by ana: not on a Friday", "completed"),
            ("stop", "", "stopped"),
            ("edit", "It is registered", "completed"),
        ):
            run = await lab.start(alone("registry"), f"Register this crew: {HELLO}")
            await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
            (asked,) = await run.interrupts()
            if answer == "edit":
                changed = {"definition": HELLO.replace("hello,", "hallo,")}
                await run.edit_call(asked.id, "register_crew", changed, by="ana")
            else:
                await run.answer(asked.id, answer, by="ana")
            result = await run.result(LIMIT)
            assert result.status == status
            assert says in str(result.outputs.get("registry", {}).get("text", ""))
    assert [each.row.name for each in await lab.client.catalog.crews()] == ["hallo"]


@pytest.mark.usefixtures("at_home")
async def test_what_is_remembered_is_recalled_by_a_later_run(lab: Lab) -> None:
    kept = await said(lab, "memory", "Remember that backups run at four.")
    found = await said(lab, "memory", "What do we know about backups?")
    assert kept.startswith("Kept in public")
    assert "> backups run at four." in found


ASKED = (
    ("What can you do?", "general", "I look after this system"),
    ("Is the store healthy?", "health", "All is well: "),
    ("Which crews are there?", "information", "This is what I found: "),
    ("How much room is on the disk?", "machine", "GiB are free"),
    ("Remember that backups run at four.", "memory", "Kept in public"),
    ("What do we know about backups?", "memory", "> backups run at four."),
)


@covers("C61", "C62", "C64", "C66", "C71", "C72")
@pytest.mark.usefixtures("at_home")
async def test_each_message_goes_to_whoever_answers_it_best(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "prompts"
    monkeypatch.setenv("CREWLOG_SCRIPT_RECORD", str(record))
    async with lab.worker():
        run = await lab.start(crew(), "")
        for turn, (question, agent, words) in enumerate(ASKED, 1):
            reply = await run.send(question, timeout=LIMIT)
            assert (reply.exchange, reply.agent, reply.error) == (turn, agent, "")
            assert words in reply.text
        await run.stop()
        outputs = (await run.result(LIMIT)).outputs
    assert outputs["router"]["next"] == "memory"
    calls = [json.loads(line) for line in record.read_text().splitlines()]
    asked = [call["messages"] for call in calls if call["agent"] == "router"]
    assert len(asked) == len(ASKED)
    # Its prompt, the last five of what was asked, chosen and answered, and what is asked now.
    last = [min(3 * turn + 1, 6) for turn in range(len(ASKED))]
    assert [len(messages) - 1 for messages in asked] == last
    assert [messages[-1]["content"] for messages in asked] == [each[0] for each in ASKED]


@covers("C62", "C69")
@pytest.mark.usefixtures("at_home")
async def test_a_registration_in_a_conversation_waits_for_a_persons_yes(lab: Lab) -> None:
    async with lab.worker():
        run = await lab.start(crew(), "")
        asked = asyncio.create_task(run.send(f"Register this crew: {HELLO}", timeout=LIMIT))
        await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
        (question,) = await run.interrupts()
        await run.answer(question.id, "reject")
        assert "It is not registered." in (await asked).text
        assert not await lab.client.catalog.crews()
        faults = await run.send("Check this crew: {crew: bad, agents: {a: {}}}", timeout=LIMIT)
        assert faults.text.startswith("It has faults: ")
        await run.stop()


@covers("C63", "C73")
@pytest.mark.usefixtures("at_home")
async def test_a_new_specialist_is_a_few_lines(lab: Lab) -> None:
    script: dict[str, Any] = YAML(typ="safe").load(EXAMPLES / "ops_hub" / "ops.script.yaml")
    script["agents"]["poet"] = [{"when": ".*", "text": "Roses are red."}]
    chosen = {"when": "(?i)poem", "text": '{"next": "poet"}'}
    script["agents"]["router"].insert(0, chosen)
    found = crew()
    found["agents"]["poet"] = {"description": "Rhymes", "prompt": "You rhyme.", "tools": []}
    async with lab.worker():
        run = await lab.start({**found, "model": scripted(script)}, "Write a poem.")
        reply = await run.send("A poem, please.", timeout=LIMIT)
        assert (reply.exchange, reply.agent, reply.text) == (2, "poet", "Roses are red.")
        await run.stop()

"""The crews of the examples' prompts at work, with the scripts of the examples."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from crewlog import compile_prompt
from crewlog.client import Client
from crewlog.client.catalog import registry_of
from shared import LIMIT, Lab

from .conftest import EXAMPLES, Inside

pytestmark = pytest.mark.server


def told(example: str) -> dict[str, Any]:
    """The crew that an example's prompt says."""
    folder = EXAMPLES / example
    registry = registry_of(folder / "registry.yaml")
    found = compile_prompt((folder / "prompt.md").read_text(), registry).definition
    assert found is not None
    return found.to_json()


async def test_the_feature_crew_of_the_prompt_plans_builds_and_mends(
    lab: Lab, inside: Inside
) -> None:
    inside("feature_crew", "tools")
    async with lab.worker():
        run = await lab.start(told("feature_crew"), "Prices, a cart, and how it is used.")
        await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
        (question,) = await run.interrupts()
        assert question.detail.startswith("1. prices (pricing): Write shop/pricing.py")
        await run.answer(question.id, "approve", by="ana")
        result = await run.result(LIMIT)
        report = await run.report()
    assert result.status == "completed"
    assert result.outputs["tests"]["passed"] is True
    assert str(result.outputs["finisher"]["text"]).startswith("The shop has prices")
    # The tests find the fault before the reviewer, who has it mended by the one whose it is.
    found = [step.values["tests.passed"].plain for step in report.steps if step.agent == "tests"]
    assert found == [False, True], [step.step for step in report.steps]
    written = (lab.root / "workspace" / run.id / "shop/pricing.py").read_text()
    assert "count >= 10" in written


async def test_the_hub_of_the_prompt_answers_a_few_turns(
    lab: Lab, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tools,) = inside("ops_hub", "tools")

    @asynccontextmanager
    async def connected() -> AsyncGenerator[Client]:
        yield lab.client

    monkeypatch.setattr(tools, "connected", connected)
    async with lab.worker():
        # What is remembered beyond a run is said in definitions alone.
        memory = {"read": {"public": ["memory", "general"]}, "write": {"public": ["memory"]}}
        run = await lab.start(told("ops_hub") | {"memory": memory}, "")
        for question, agent, words in (
            ("Which crews are there?", "information", "This is what I found"),
            ("Remember that backups run at four.", "memory", "Kept in public"),
            ("What time is it?", "general", "UTC"),
        ):
            reply = await run.send(question, timeout=LIMIT)
            assert (reply.agent, reply.error) == (agent, "")
            assert words in reply.text
        await run.stop()
        outputs = (await run.result(LIMIT)).outputs
    assert outputs["router"]["next"] == "general"

"""The task of a phase is in the prompts of its agent."""

from __future__ import annotations

import pytest
from activity_kit import RUN, crew
from temporalio.exceptions import ApplicationError

from crewlog.activities.definitions import Definitions
from crewlog.definition.builders import _registered
from crewlog.ids import StepId
from crewlog.store.in_process import InMemoryStore
from crewlog.testing.scripted import recorded_prompts

ANY = {"agents": {"*": [{"text": "ok"}] * 9}}


async def test_the_task_of_a_phase_is_in_its_system_message(model_call, log):
    flow = ["backend", {"agent": "backend", "phase": "final.check", "task": "Check it."}, "writer"]
    definition = crew(ANY, flow=flow)
    log.says("go")
    for step in ("backend#1", "final.check#1", "final.check#2"):
        await model_call(definition, log, step=StepId(step))
    said = [p.messages[0]["content"] for p in recorded_prompts(definition.model or "")]
    assert said[0] == "Build it."
    assert said[1:] == ["Build it.\n\nYour task now: Check it."] * 2


async def test_a_pattern_adds_tasks_and_outputs(model_call, log):
    definition = crew(ANY, backend={"pattern": "review_loop", "outputs": []})
    log.says("go")
    tools = ("set_output",)
    for step in ("backend#1", "backend.review#1"):
        await model_call(definition, log, step=StepId(step), tools=tools)
    work, review = recorded_prompts(definition.model or "")
    assert "Your task now" not in str(work.messages[0]["content"])
    assert "Your task now: Review what you" in str(review.messages[0]["content"])
    assert "Outputs: content." in str(review.messages[0]["content"])
    assert review.tools == ("set_output",)


async def test_an_output_that_a_builder_adds_can_be_set(tool_call):
    flow = [{"use": "map_reduce", "with": {"over": "backend.topics", "map": "writer",
                                            "reduce": "critic"}}]  # fmt: skip
    definition = crew(ANY, flow=["backend", *flow])
    result = await tool_call("set_output", {"key": "topics", "value": ["a"]}, crew=definition)
    assert (result.ok, result.returned.outputs[0].value) == (True, ["a"])


async def test_a_definition_is_expanded_once(store: InMemoryStore):
    definition = crew(ANY, backend={"pattern": "planner_executor"})
    hash_ = await store.put_definition(RUN, definition.to_json())
    definitions = Definitions(store)
    assert await definitions.get(hash_) is await definitions.get(hash_)
    assert "Carry out your plan" in str(await definitions.task(hash_, StepId("backend.execute#4")))
    assert await definitions.task(hash_, StepId("nowhere#1")) is None


async def test_a_worker_without_the_builder_is_an_error(model_call, log, monkeypatch):
    definition = crew(ANY, backend={"pattern": "review_loop"})
    monkeypatch.delitem(_registered, "review_loop")
    with pytest.raises(ApplicationError, match="no builder is called 'review_loop'"):
        await model_call(definition, log)

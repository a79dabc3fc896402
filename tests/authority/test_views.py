"""Who reads what: an agent's view has the logs that it may read, and its prompt nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from crewlog.activities.crew import CrewActivities
from crewlog.graph.engine import Engine
from crewlog.graph.lower import lower
from crewlog.ids import AgentName, LogName, RunId, StepId
from crewlog.state.calls import CallModel
from crewlog.state.packing import unpack
from crewlog.store.memory import InMemoryStore
from crewlog.testing.scripted import recorded_prompts, scripted
from graph.crews import crew

RUN = RunId("views")
READS: dict[str, dict[str, Any]] = {
    "plain": {},
    "member": {"reads": ["public", "group:x"]},
    "insider": {"reads": ["group:x"]},
    "own": {"reads": ["private:own"]},
    "deaf": {"reads": []},
}
LOGS = ["public", "group:x", "group:y", "channel:c", *(f"private:{agent}" for agent in READS)]
EXPECTED = {
    "plain": {"public", "private:plain"},
    "member": {"public", "group:x", "private:member"},
    "insider": {"group:x", "private:insider"},
    "own": {"private:own"},
    "deaf": {"private:deaf"},
}


async def engine_of(definition: Any) -> Engine:
    """A run in which somebody has said something in every log."""
    engine = await Engine.begin(lower(definition), RUN, input_text="", by="eve", at=1)
    for log in LOGS:
        engine.say(f"<said in {log}>", by="eve", to=LogName(log), message_id=log)
    return engine


def crew_of(**more: Any) -> Any:
    return crew(list(READS), READS, **more)


@pytest.mark.parametrize("agent", READS)
async def test_a_view_has_the_heads_of_what_the_agent_reads(agent: str) -> None:
    engine = await engine_of(crew_of())
    heads = engine.view(AgentName(agent)).heads
    assert set(heads) == EXPECTED[agent]
    assert heads == {log: engine.state.messages[log].head for log in heads}
    assert not [log for log in heads if log.startswith("private:") and log != f"private:{agent}"]


async def test_a_log_without_messages_is_in_no_view() -> None:
    engine = await Engine.begin(lower(crew_of()), RUN, input_text="go", by="eve", at=1)
    views = {agent: set(engine.view(AgentName(agent)).heads) for agent in READS}
    assert views == {a: {"public"} & set(logs) for a, logs in EXPECTED.items()}


@pytest.mark.parametrize("hot", [True, False], ids=["one worker", "a new worker each"])
async def test_a_prompt_has_no_text_of_a_log_that_the_agent_does_not_read(
    tmp_path: Path, hot: bool
) -> None:
    model = scripted({"agents": {"*": [{"text": "ok"}]}})
    definition = crew_of(model=model)
    engine = await engine_of(definition)
    store = InMemoryStore()
    hash_ = await store.put_definition(definition.to_json())
    batch = engine.ledger.batch()
    await store.append(RUN, unpack(batch, {}))
    activities = CrewActivities(store, workspace=tmp_path)
    for agent in READS:
        if not hot:
            activities = CrewActivities(store, workspace=tmp_path)
        task = CallModel(
            run=RUN,
            step=StepId(f"{agent}#1"),
            call=1,
            agent=AgentName(agent),
            definition=hash_,
            view=engine.view(AgentName(agent)),
            # What the worker is given besides names every log.
            batch=batch,
        )
        await ActivityEnvironment().run(activities.call_model, task)
    prompts = {prompt.agent: prompt for prompt in recorded_prompts(model)}
    for agent, prompt in prompts.items():
        text = repr(prompt.messages)
        assert {log for log in LOGS if f"<said in {log}>" in text} == EXPECTED[agent]
    assert set(prompts) == set(READS)

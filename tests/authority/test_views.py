"""Who reads what: an agent's view has the logs that it may read, and its prompt nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from crewlog.activities.crew_activities import CrewActivities
from crewlog.graph.engine import Engine
from crewlog.graph.lowering.plans import lower
from crewlog.graph.restore import fork, reopen
from crewlog.ids import PUBLIC, AgentName, ContentHash, LogName, RunId, StepId
from crewlog.state.batch_codec import unpack
from crewlog.state.calls import CallModel, View
from crewlog.state.journal import Batch
from crewlog.state.model import Item
from crewlog.state.restore import ReopenPoint
from crewlog.store import InMemoryStore, Store
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


class Scene:
    """A run in which something was said in every log, and its store."""

    def __init__(self, engine: Engine, model: str, definition: ContentHash, store: Store) -> None:
        self.engine = engine
        self.model = model
        self.definition = definition
        self.store = store

    @classmethod
    async def made(cls) -> Scene:
        model = scripted({"agents": {"*": [{"text": "ok"}]}})
        definition = crew_of(model=model)
        store = InMemoryStore()
        hash_ = await store.put_definition(RUN, definition.to_json())
        return cls(await engine_of(definition), model, hash_, store)


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
    scene = await Scene.made()
    batch = scene.engine.journal.batch()
    await scene.store.append(RUN, unpack(batch, {}))
    activities = CrewActivities(scene.store, workspace=tmp_path)
    for agent in READS:
        if not hot:
            activities = CrewActivities(scene.store, workspace=tmp_path)
        task = CallModel(
            run=RUN,
            step=StepId(f"{agent}#1"),
            call=1,
            agent=AgentName(agent),
            definition=scene.definition,
            view=scene.engine.view(AgentName(agent)),
            # What the worker is given besides names every log.
            batch=batch,
        )
        await ActivityEnvironment().run(activities.call_model, task)
    prompts = {prompt.agent: prompt for prompt in recorded_prompts(scene.model)}
    for agent, prompt in prompts.items():
        text = repr(prompt.messages)
        assert {log for log in LOGS if f"<said in {log}>" in text} == EXPECTED[agent]
    assert set(prompts) == set(READS)


@pytest.mark.parametrize(
    ("heads", "item", "say"),
    [
        ({"group:x": "group:x"}, None, "'plain' may not read 'group:x'"),
        ({"private:deaf": "private:deaf"}, None, "'plain' may not read 'private:deaf'"),
        ({"private:plain#1.3": "public"}, None, "may not read 'private:plain#1.3'"),
        ({"public": "group:x"}, None, "the head of 'public' in the view is one of 'group:x'"),
        (
            {},
            Item(number=2, of=2, value="<item>", logs=(LogName("group:x"),)),
            "readers of group:x",
        ),
        ({}, Item(number=2, of=2, value="<item>", is_withheld=True), "may not see it any more"),
    ],
)
async def test_a_worker_refuses_what_the_run_should_not_have_sent(
    tmp_path: Path, heads: dict[str, str], item: Item | None, say: str
) -> None:
    """Logs that the agent may not read, one that pretends to be another, and others' items."""
    scene = await Scene.made()
    logs = scene.engine.state.messages
    task = CallModel(
        run=RUN,
        step=StepId("plain#1.2"),
        agent=AgentName("plain"),
        definition=scene.definition,
        view=View(heads={LogName(log): logs[LogName(of)].head for log, of in heads.items()}),
        batch=scene.engine.journal.batch(),
        item=item,
    )
    activities = CrewActivities(scene.store, workspace=tmp_path)
    with pytest.raises(ApplicationError, match=say) as raised:
        await ActivityEnvironment().run(activities.call_model, task)
    assert (raised.value.type, raised.value.non_retryable) == ("LogAccessDenied", True)
    assert not recorded_prompts(scene.model)
    assert "said in" not in str(raised.value)
    assert "<item>" not in str(raised.value)


def _forked(engine: Engine, run: str) -> Engine:
    made = fork(engine.plan, engine.state, RunId(run), by="eve", at=2)
    for log in (*LOGS[:3], f"channel:{run}"):
        made.say(f"<said in {log} of {run}>", by="eve", to=LogName(log), message_id=f"{run} {log}")
    return made


def _reopened(engine: Engine) -> Engine:
    end = ReopenPoint(engine.state.position)
    return reopen(engine.plan, engine.journal, engine.state, end, by="eve", at=3)


@pytest.mark.parametrize("again", [False, True], ids=["lives", "taken up again"])
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "in the batch"])
async def test_a_fork_of_a_fork_refuses_the_heads_that_its_ancestors_would(
    tmp_path: Path, stored: bool, again: bool
) -> None:
    """One of a log that the agent may not read, wherever it began, and one of a stranger's.

    What it may read is shown, wherever that began.
    """
    scene = await Scene.made()
    stranger = await Engine.begin(lower(crew_of()), RunId("other"), input_text="", by="eve", at=1)
    stranger.say("<said in public>", by="eve", to=PUBLIC, message_id="m")
    first = _forked(scene.engine, "fork")
    engine = _forked(first, "fork-of-fork")
    if again:  # what is before its end is stored
        await scene.store.append(engine.state.run, unpack(engine.journal.batch(), {}))
        engine.journal.mark_stored(engine.state.position)
        engine = _reopened(engine)
    runs = [scene.engine, first, engine, stranger]
    batches = [unpack(each.journal.batch(), {}) for each in runs]
    for each, batch in zip(runs, batches, strict=True):
        if stored or each is not engine:
            await scene.store.append(each.state.run, batch)
    activities = CrewActivities(scene.store, workspace=tmp_path)

    async def shown(head: ContentHash, log: str = "public") -> str:
        call = CallModel(
            run=engine.state.run,
            step=StepId("plain#1"),
            agent=AgentName("plain"),
            definition=scene.definition,
            view=View(heads={LogName(log): head}),
            batch=Batch.EMPTY if stored else batches[2],
        )
        before = len(recorded_prompts(scene.model))
        await ActivityEnvironment().run(activities.call_model, call)
        return repr(recorded_prompts(scene.model)[before].messages)

    own = engine.state.messages
    assert "of fork-of-fork" in await shown(own[PUBLIC].head)
    private = LogName("private:plain")
    assert f"<said in {private}>" in await shown(own[private].head, private)
    for at in runs[:3]:
        # Not even its own one in the place of `public`, nor those that the crew does not name.
        for log in LOGS[1:]:
            told = "no log" if log in ("group:y", "channel:c", private) else repr(log)
            with pytest.raises(ApplicationError, match=f"is one of ({told}|no log)") as raised:
                await shown(at.state.messages[LogName(log)].head)
            assert raised.value.type == "LogAccessDenied"
    for head in (stranger.state.messages[PUBLIC].head, own[LogName("channel:fork")].head):
        with pytest.raises(ApplicationError, match="is one of no log of that name"):
            await shown(head)


async def test_the_run_withholds_an_item_that_its_agent_may_not_see_any_more() -> None:
    engine = await engine_of(crew_of())
    item = Item(number=1, of=1, value="secret", logs=(LogName("group:x"),))
    step = StepId("plain#1.1")
    assert engine.visible_item(AgentName("member"), item, step) == item
    withheld = engine.visible_item(AgentName("plain"), item, step)
    assert (withheld.is_withheld, withheld.value) == (True, None)
    unsaid = Item(number=1, of=1, value="of public")
    assert engine.visible_item(AgentName("insider"), unsaid, step).value == "of public"
    assert engine.visible_item(AgentName("plain"), unsaid, step).value == "of public"

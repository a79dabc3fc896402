"""Places in runs, by position or by tag; and forks that cannot be."""

from __future__ import annotations

import re
from datetime import timedelta
from uuid import uuid4

import pytest

from client import crews
from crewlog.client import Run
from crewlog.client.places import checkpoint_of, place_of, split
from crewlog.client.starting import begin as begin_run
from crewlog.definition.operations import EditAgent, EditCrew, RemoveAgent
from crewlog.errors import (
    CommandRejected,
    InvalidDefinition,
    RunFailed,
    RunNotFound,
    UsageError,
)
from crewlog.wire import CheckpointView, ForkSource, StartRun
from shared import LIMIT, Lab

pytestmark = pytest.mark.usefixtures("worker")


async def asked(lab: Lab) -> tuple[Run, list[CheckpointView]]:
    """A run that asks, and its checkpoints: its beginning, and its writer's end."""
    run = await lab.start(crews.asking())
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    return run, list((await run.checkpoints()).checkpoints)


async def tagged(run: Run, position: int, name: str) -> None:
    await run.tag(position, name)
    async for event in run.events():
        if event.entry.kind == "CheckpointTagged":
            return


@pytest.mark.parametrize(
    ("target", "run", "at"),
    [
        ("r", "r", ""),
        ("r@12", "r", "12"),
        ("a@b@tag", "a@b", "tag"),
        ("@3", "@3", ""),
        ("r@", "r", ""),
    ],
)
def test_a_target_is_split_at_its_last_at(target: str, run: str, at: str) -> None:
    assert split(target) == (run, at)


async def test_a_tag_means_its_position_everywhere(lab: Lab) -> None:
    run, (_, end) = await asked(lab)
    await tagged(run, end.position, "draft")
    assert await place_of(lab.client, f"{run.id}@draft") == (run.id, end.position)
    assert await place_of(lab.client, f"{run.id}@{end.position}") == (run.id, end.position)
    assert await place_of(lab.client, run.id) == (run.id, None)
    assert await checkpoint_of(lab.client, f"{run.id}@draft") == (run.id, end.position)
    assert (await run.rollback("draft")).position > end.position
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    fork = await run.fork("draft")
    await fork.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    state = await fork.state()
    assert state.source is not None
    assert state.source.position >= end.position
    assert state.visits == {**state.visits, "writer": 1}


async def test_a_run_whose_id_has_an_at_is_a_run(lab: Lab) -> None:
    name = f"a{uuid4().hex[:6]}@7"
    run = await lab.start(crews.asking(), id=name)
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    assert await place_of(lab.client, name) == (name, None)
    assert await checkpoint_of(lab.client, f"{name}@3") == (name, 3)


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("drft", "Did you mean 'draft'?"),
        ("10**30", "Tags: draft."),
        (str(10**30), "lists the positions"),
        ("0", "lists the positions"),
        ("-3", "lists the positions"),
        ("", "Say RUN@POSITION, RUN@TAG or RUN@exchange:N"),
    ],
)
async def test_what_is_no_place_is_said(lab: Lab, at: str, words: str) -> None:
    run, (begin, _) = await asked(lab)
    await tagged(run, begin.position, "draft")
    with pytest.raises(UsageError) as refused:
        await checkpoint_of(lab.client, f"{run.id}@{at}")
    assert words in refused.value.remedy
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 150


async def test_a_place_of_no_run(lab: Lab) -> None:
    with pytest.raises(RunNotFound):
        await place_of(lab.client, "nobody-knows-this@draft")


async def test_what_is_no_checkpoint_gets_no_name(lab: Lab) -> None:
    run, (begin, end) = await asked(lab)
    with pytest.raises(UsageError, match=f"position {begin.position + 1} .*no checkpoint") as no:
        await run.tag(begin.position + 1, "draft")
    assert f"{run.id}@{begin.position} and {run.id}@{end.position}" in no.value.remedy
    with pytest.raises(UsageError, match="cannot be a checkpoint's name"):
        await run.tag(begin.position, "my draft")
    with pytest.raises(UsageError, match="is no number"):
        await run.tag(begin.position, "12")
    assert (await run.state()).tags == {}


async def test_a_rollback_of_an_ended_run_says_what_to_do_instead(lab: Lab) -> None:
    run, (begin, _) = await asked(lab)
    await run.stop()
    await run.result(LIMIT)
    with pytest.raises(CommandRejected, match="has ended") as refused:
        await run.rollback(begin.position)
    assert f"crewlog fork {run.id}@POSITION" in refused.value.remedy
    assert f"crewlog resume {run.id}" in refused.value.remedy


# -- forks that cannot be --------------------------------------------------------------------

FAULTS: list[tuple[dict[str, object], str]] = [
    ({"operations": [EditAgent(name="wrter", set={"max_calls": 3})]}, "wrter"),
    ({"operations": [EditAgent(name="writer", set={"nonsense": 3})]}, "nonsense"),
    ({"operations": [EditCrew(set={"model": "nobody"})]}, "nobody"),
    ({"operations": [RemoveAgent(name="writer")]}, "writer"),
    ({"definition": {"crew": "notes", "agents": {"a": {"prompt": "p"}}}}, "model"),
]


@pytest.mark.parametrize(("change", "word"), FAULTS)
async def test_a_faulty_fork_starts_nothing(lab: Lab, change: dict[str, object], word: str) -> None:
    run, (begin, _) = await asked(lab)
    name = f"faulty-{uuid4().hex[:6]}"
    with pytest.raises((InvalidDefinition, UsageError)) as refused:
        await run.fork(begin.position, id=name, **change)  # type: ignore[arg-type]
    assert refused.value.exit_code == 2
    assert word in str(refused.value)
    with pytest.raises(RunNotFound):
        await lab.client.gateway.describe(lab.client.run(name).id)
    fork = await run.fork(begin.position, id=name)  # the id is not used up
    await fork.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)


async def test_a_fork_takes_operations_or_a_definition(lab: Lab) -> None:
    run, (begin, _) = await asked(lab)
    with pytest.raises(UsageError, match="do not go together"):
        await run.fork(
            begin.position,
            operations=[EditAgent(name="writer", set={"max_calls": 3})],
            definition=crews.asking(),
        )


async def test_a_failure_is_told_without_what_is_for_the_run(lab: Lab) -> None:
    """A start past the client's checks, as another language may send it."""
    run, (begin, _) = await asked(lab)
    operation = EditAgent(name="nobody", set={"max_calls": 3})
    start = StartRun(fork=ForkSource(run=run.id, position=begin.position, operations=(operation,)))
    name = f"bad-{uuid4().hex[:6]}"
    made = await begin_run(lab.client, name, "notes", start, timedelta(seconds=LIMIT))
    with pytest.raises(RunFailed) as failed:
        await lab.client.run(made).result(LIMIT)
    assert "nobody" in str(failed.value)
    assert not re.search(r"\d{13}|True", str(failed.value))

"""The last check before a model call: permissions that changed since it was scheduled."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from activity_kit import RUN, at_once, crew, with_info
from temporalio.exceptions import ApplicationError

from crewlog.errors import StoreUnavailable
from crewlog.failure_details import failure_details
from crewlog.ids import CrewName
from crewlog.state import journal as j
from crewlog.state.journal import Batch, entry_to_json
from crewlog.testing.scripted import recorded_prompts

RULES = j.DefinitionChanged(crew=CrewName("music"), definition="d2", what="edits backend (reads)")


def says(*texts: str, **more: Any) -> Any:
    return crew({"agents": {"backend": [{"text": text, **more} for text in texts]}})


def asked(definition: Any) -> int:
    return len(recorded_prompts(definition.model))


async def rule(store: Any, position: int = 7) -> None:
    await store.append(RUN, Batch(first=position, entries=(entry_to_json(RULES),)))


@pytest.fixture
def queries(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the store was asked of the journal and of live permissions, and how it was written."""
    found: list[str] = []

    def noting(name: str, does: Any) -> Any:
        async def noted(*args: Any, **more: Any) -> Any:
            inner = name == "last_permission_position" and found[-1:] == [
                "append"
            ]  # the memory's own look
            found.extend([] if inner else [name])
            out = await does(*args, **more)
            found.extend(["end"] if name == "append" else [])
            return out

        return noted

    for name in ("append", "put_bodies", "last_permission_position"):
        monkeypatch.setattr(store, name, noting(name, getattr(store, name)))
    return found


async def test_no_model_is_called_after_a_permission_changed(model_call, store, log):
    definition = says("A")
    await rule(store)
    log.says("go")
    with pytest.raises(ApplicationError, match="of 'backend' was scheduled") as caught:
        await model_call(definition, log)
    assert caught.value.type == "PermissionsChanged"
    assert caught.value.non_retryable  # the run makes it anew, and no try is used up
    assert not failure_details(caught.value).effect_started
    with pytest.raises(ApplicationError, match="PermissionsChanged"):
        await model_call(definition, log, position=6)
    assert asked(definition) == 0
    assert len(await store.read_journal(RUN)) == 1  # what led to it is stored all the same
    assert (await model_call(definition, log, position=7)).body["content"] == "A"


async def test_no_model_is_called_without_the_store(model_call, store, log, monkeypatch):
    async def away(*_args: Any, **_more: Any) -> Any:
        raise StoreUnavailable("away")

    definition = says("A")
    for method in ("append", "last_permission_position"):
        monkeypatch.setattr(store, method, away)
    for text in ("go", ""):  # with something to store, and with nothing
        if text:
            log.says(text)
        with pytest.raises(ApplicationError) as caught:
            await model_call(definition, log)
        assert caught.value.type == "StoreUnavailable"
        assert not failure_details(caught.value).effect_started
    assert asked(definition) == 0


async def test_a_permission_set_during_preparation_applies(
    model_call, activities, env, store, log, monkeypatch
):
    at_once(env, monkeypatch)
    monkeypatch.setattr("crewlog.activities.permissions.FRESH", 0.5)
    ready = activities._models._models.get

    async def slow(*args: Any) -> Any:
        await rule(store)
        await asyncio.sleep(0.6)
        return await ready(*args)

    monkeypatch.setattr(activities._models._models, "get", slow)
    definition = says("A")
    log.says("go")
    with pytest.raises(ApplicationError) as caught:
        await model_call(definition, log)
    assert caught.value.type == "PermissionsChanged"
    assert asked(definition) == 0


@pytest.mark.parametrize("late", [0.0, 60.0, -60.0], ids=["at once", "late", "by another clock"])
async def test_only_a_delayed_call_checks_permissions_again(
    model_call, env, log, queries, monkeypatch, late
):
    at_once(env, monkeypatch)
    # However slow the machine is: only a minute is late, and the model is waited for.
    monkeypatch.setattr("crewlog.activities.permissions.FRESH", 30.0)
    monkeypatch.setattr("crewlog.activities.model_calls.QUICK_SECONDS", 30.0)
    then = env.info.scheduled_time - timedelta(seconds=abs(late))
    with_info(env, scheduled_time=then)
    if late < 0:  # a worker's clock that is behind the server's cannot tell
        ahead = timedelta(hours=1)
        with_info(env, scheduled_time=then + ahead, started_time=env.info.started_time + ahead)
    definition = says("A", "B")
    for text in ("one", "two"):
        log.says(text)
        result = await model_call(definition, log)
        assert (result.stored, result.journaled) == (True, True)
        log.replied(result, "backend")
    if late == 0:
        assert queries == ["append", "end", "append", "end"]
    else:  # what a quick model's call stores goes with the reply, once it is known to be quick
        assert queries == [
            "append",
            "end",
            "put_bodies",
            "last_permission_position",
            "append",
            "end",
        ]


async def test_a_delayed_call_of_a_slow_model_reads_the_store_once(model_call, log, queries):
    definition = says("A", "B", stall=0.1)
    for text in ("one", "two"):
        log.says(text)
        log.replied(await model_call(definition, log), "backend")
    assert queries == ["append", "end", "put_bodies"] * 2

"""Replies that are no good answer, and limits of services, seen by those who run crews."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.errors import RunFailed
from crewlog.run_status import ENDED
from crewlog.state.journal import entry_from_json
from crewlog.testing import CrewlogLocal
from crewlog.wire import RunView
from scripted_service import Fails, Says, Script, Service, calls, openai_services

SECONDS = 60
QUICK = {"attempts": 2, "first": 0.2}
CUT = Says(calls('{"text": "half"}'), end="length")
WITHHELD = Says({"content": "hal"}, end="content_filter")
EMPTY = Says({"content": ""})
UNKNOWN = Says({"content": "hal"}, end="because")
TOOLS = '''\
import os

def put(text: str) -> str:
    """Keeps a text."""
    with open(os.environ["KEPT"], "a") as file:
        file.write(f"{text}\\n")
    return "kept"
'''


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], Service]]:
    with openai_services(monkeypatch) as start:
        yield start


@pytest.fixture(autouse=True)  # without the tool no model is asked
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What the tool `put` was given."""
    (tmp_path / "keeping_tools.py").write_text(TOOLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("KEPT", str(tmp_path / "kept"))
    sys.modules.pop("keeping_tools", None)
    file = tmp_path / "kept"
    return lambda: file.read_text().splitlines() if file.exists() else []


def crew(flow: tuple[Any, ...] = ("a", "b"), **a: Any) -> dict[str, Any]:
    agents = {
        "a": {"prompt": "Do it.", "tools": ["put"], "retry": QUICK, **a},
        "b": {"prompt": "Sum up.", "tools": [], "retry": QUICK},
    }
    return {
        "crew": "replies",
        "model": "openai:m",
        "agents": {name: agents[name] for name in flow},
        "tools": {"put": {"run": "keeping_tools:put", "effects": "write", "retry": "keyed"}},
        "flow": [*flow],
    }


async def played(local: CrewlogLocal, definition: dict[str, Any]) -> tuple[Run, RunView]:
    """A run at its end or at its first question."""
    run = await local.start(definition, timeout=SECONDS)
    view = await run.wait_until(lambda v: v.status in ENDED or bool(v.wait_reason), timeout=SECONDS)
    if view.status not in ENDED:
        await run.terminate("seen")
    return run, view


async def kinds(run: Run, kind: str) -> list[Any]:
    page = await run.journal(limit=200)
    found = [entry_from_json(each.data) for each in page.entries]
    return [entry for entry in found if entry.kind == kind]


@covers("C75")
@pytest.mark.parametrize("bad", [CUT, WITHHELD, EMPTY, UNKNOWN])
async def test_a_bad_reply_is_asked_for_again_and_is_nobody_s_input(
    crewlog_local: CrewlogLocal,
    service: Callable[[Script], Service],
    kept: Callable[[], list[str]],
    bad: Says,
) -> None:
    models = service(lambda n, _: bad if n == 0 else Says({"content": "whole"}))
    run, view = await played(crewlog_local, crew())
    assert view.status == "completed"
    assert (await run.result(SECONDS)).outputs["a"]["text"] == "whole"
    assert kept() == []
    (refused,) = await kinds(run, "StructuredOutputRejected")
    assert (refused.attempt, refused.of) == (1, 3)
    assert refused.errors[0] in json.dumps(models.asked[1]["messages"])
    assert "hal" not in json.dumps(models.asked[2]["messages"]), "b was shown half a text"
    (first, *_) = await kinds(run, "ModelCallCompleted")
    assert first.ending in ("cut", "withheld", "empty", "unknown")


async def test_a_model_that_never_answers_well_is_asked_three_times(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service]
) -> None:
    models = service(lambda *_: EMPTY)
    run, view = await played(crewlog_local, crew(("a",)))
    assert len(models.asked) == 3
    assert "was asked 3 times" in view.wait_reason
    assert "it was empty" in view.wait_reason
    (failed,) = await kinds(run, "StepFailed")
    assert "on_error: {bad_reply: accept}" in failed.error


@pytest.mark.parametrize(
    ("policy", "status", "asked", "text"),
    [
        ("ask", "waiting", 1, None),
        ("fail", "failed", 1, None),
        ("accept", "completed", 2, "hal"),
    ],
)
async def test_the_policy_says_what_follows(
    crewlog_local: CrewlogLocal,
    service: Callable[[Script], Service],
    policy: str,
    status: str,
    asked: int,
    text: str | None,
) -> None:
    models = service(lambda n, _: WITHHELD if n == 0 else Says({"content": "done"}))
    definition = crew(on_error={"failure": "continue", "bad_reply": policy})
    run, view = await played(crewlog_local, definition)
    assert (view.status, len(models.asked)) == (status, asked)
    if status == "waiting":
        assert "withheld" in view.wait_reason
    elif text is not None:
        result, report = await run.result(SECONDS), await run.report()
        assert result.outputs["a"]["text"] == text
        assert result.warning.startswith("The reply of 'a' is taken as it is: ")
        assert [step.accepted_ending for step in report.steps] == ["withheld", ""]
    else:
        with pytest.raises(RunFailed, match="withheld"):
            await run.result(SECONDS)


@pytest.mark.parametrize("policy", ["ask", "fail"])
async def test_people_are_told_what_a_model_said_as_it_refused(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service], policy: str
) -> None:
    service(lambda *_: Says({"content": None, "refusal": "I cannot help with that."}))
    run, view = await played(crewlog_local, crew(("a",), on_error={"bad_reply": policy}))
    if policy == "ask":
        said = view.wait_reason
    else:
        with pytest.raises(RunFailed) as failed:
            await run.result(SECONDS)
        said = failed.value.message
    assert "the model refused to answer" in said
    assert "The model said: I cannot help with that." in said
    (step,) = await kinds(run, "StepFailed")
    assert "I cannot help" not in step.error, "other agents may read it"


async def test_calls_of_a_cut_reply_are_never_made(
    crewlog_local: CrewlogLocal,
    service: Callable[[Script], Service],
    kept: Callable[[], list[str]],
) -> None:
    service(lambda n, _: CUT if n == 0 else Says({"content": "done"}))
    _, view = await played(crewlog_local, crew(on_error={"bad_reply": "accept"}))
    assert (view.status, kept()) == ("completed", [])


@pytest.mark.parametrize("bad", [Says({"content": "hal"}, end="length"), WITHHELD])
async def test_a_capped_turn_does_not_publish_a_bad_reply(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service], bad: Says
) -> None:
    models = service(lambda *_: bad)
    run, view = await played(crewlog_local, crew(max_calls=2, on_cap="end"))
    assert len(models.asked) == 2
    assert "was asked 2 times" in view.wait_reason
    assert not await kinds(run, "TurnLimitReached")


async def test_a_capped_turn_publishes_its_text_alone(
    crewlog_local: CrewlogLocal,
    service: Callable[[Script], Service],
    kept: Callable[[], list[str]],
) -> None:
    secret = {"reasoning_content": "SECRET", **calls('{"text": "SECRET"}')}
    models = service(
        lambda n, _: Says({"content": "I keep it.", **secret} if n == 0 else {"content": "seen"})
    )
    run, view = await played(crewlog_local, crew(max_calls=1, on_cap="end"))
    assert (view.status, kept()) == ("completed", ["SECRET"])
    (capped,) = await kinds(run, "TurnLimitReached")
    assert capped.ref.logs == ("public",)
    store = await run.open_store()
    (body,) = (await store.get_bodies([capped.ref.body])).values()
    assert body == {"type": "ai", "content": "I keep it.", "name": "a", "id": "a#1/1"}
    assert (await run.result(SECONDS)).outputs["a"]["text"] == "I keep it."
    assert "[a] I keep it." in json.dumps(models.asked[1]["messages"])


async def test_a_run_goes_on_without_a_step_whose_replies_are_bad(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service]
) -> None:
    def script(_: int, asked: dict[str, Any]) -> Says:
        first = "Do it." in asked["messages"][0]["content"]
        return WITHHELD if first else Says({"content": "alone"})

    service(script)
    run, view = await played(crewlog_local, crew(on_error="continue"))
    assert view.status == "completed"
    result = await run.result(SECONDS)
    assert result.outputs["b"]["text"] == "alone"
    assert result.end_reason == "reply_tries_exhausted"
    assert result.warning == "The run went on without a#1, which failed: BadReply."


async def test_a_conversation_answers_with_its_apology(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service]
) -> None:
    service(lambda *_: Says({"refusal": "I cannot."}))
    definition = {
        **crew(("a",), on_error="continue"),
        "conversation": {"apology": "Not this time."},
    }
    run = await crewlog_local.start(definition, input="Hello", timeout=SECONDS)
    async with asyncio.timeout(SECONDS):
        while (last := (await run.conversation()).last_response) is None:  # noqa: ASYNC110 - a query tells
            await asyncio.sleep(0.05)
    assert last.text == "Not this time."
    assert "refused" in last.error
    await run.terminate("seen")


@covers("C75")
async def test_twenty_agents_get_through_a_limit_of_two_calls_a_second(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service]
) -> None:
    lock, let_through = threading.Lock(), [0.0, 0.0]

    def script(*_: Any) -> Says | Fails:
        with lock:
            now = time.monotonic()
            if now - let_through[0] < 1:
                return Fails(429, {"error": {"message": "two a second"}}, {"retry-after": "1"})
            let_through[:] = [let_through[1], now]
        return Says({"content": "done"})

    service(script)
    names = [f"w{n}" for n in range(20)]
    definition = {
        "crew": "many",
        "model": "openai:m",
        "agents": {name: {"prompt": "Work."} for name in names},
        "flow": [names],
    }
    run = await crewlog_local.start(definition, timeout=150)
    assert (await run.result(150)).status == "completed"


async def gaps_until_it_fails(
    local: CrewlogLocal, models: Service, retry: dict[str, Any]
) -> list[float]:
    """The seconds between the requests of a step that a limit refuses."""
    run = await local.start(crew(("a",), retry=retry, on_error="fail"), timeout=SECONDS)
    with pytest.raises(RunFailed, match="slow down"):
        await run.result(SECONDS)
    return [after - before for before, after in pairwise(models.times)]


async def test_rounds_of_a_limit_are_as_far_apart_as_the_service_asks(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service]
) -> None:
    busy = Fails(429, {"error": {"message": "slow down"}}, {"retry-after": "3"})
    models = service(lambda *_: busy)
    retry = {"attempts": 1, "first": 0.2, "longest": 0.2}
    gaps = await gaps_until_it_fails(crewlog_local, models, retry)
    assert len(gaps) == 3, "four rounds, as the documentation says"
    assert min(gaps) >= 3


async def test_rounds_of_a_limit_go_on_with_the_backoff(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service]
) -> None:
    models = service(lambda *_: Fails(429, {"error": {"message": "slow down"}}))
    retry = {"attempts": 1, "first": 1, "backoff": 2}
    gaps = await gaps_until_it_fails(crewlog_local, models, retry)
    assert all(gap >= least for gap, least in zip(gaps, (1, 2, 4), strict=True)), gaps


@pytest.mark.parametrize("status", [429, 503])
async def test_a_wait_of_a_day_is_a_question(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service], status: int
) -> None:
    busy = Fails(status, {"error": {"message": "daily limit"}}, {"retry-after": "86400"})
    models = service(lambda *_: busy)
    _, view = await played(crewlog_local, crew(("a",)))
    assert len(models.asked) == 1
    assert "takes no call for" in view.wait_reason


async def test_a_call_that_meets_a_limit_says_so_while_it_waits(
    crewlog_local: CrewlogLocal, service: Callable[[Script], Service]
) -> None:
    service(lambda *_: Fails(429, {"error": {"message": "slow down"}}))
    definition = crew(("a",), retry={"attempts": 1})
    run = await crewlog_local.start(definition, timeout=SECONDS)
    view = await run.wait_until(lambda v: any(e.failure for e in v.frontier), timeout=SECONDS)
    (step,) = view.frontier
    assert "waits for the limit of openai:m" in step.failure
    assert "slow down" in step.failure
    await run.terminate("seen")

"""SIGKILL of the worker in mid-run, in every kind of call, with several runs under way at once.

The runs are brought to their places on one worker, which is killed; a second worker starts with
nothing but the environment. What must be true is looked at run by run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from covers import covers
from crewlog.client import Run

from .harness import LIMIT, PATIENT, PROJECT, Site, calls, tool, until

QUEUE = "killed"
LATER = "from deeds import echo as late_echo\n"
RULES = dict.fromkeys("ab", PATIENT)


async def _start(site: Site, name: str) -> Run:
    """A run whose tool, or model, is where the kill will hit it."""
    crews = {
        "model": site.crew({"a": [{"text": "A", "stall": 1.5}], "b": [{"text": "B"}]}, rules=RULES),
        "safe": _with_tool(site, "gate", _patient("gate")),
        "keyed": _with_tool(site, "pay", _patient("pay", "keyed", effects="external"), amount=5),
        "never-retry": _with_tool(site, "gate", _patient("gate", "never")),
        "never-done": _with_tool(site, "gate", _patient("gate", "never")),
        "paused": _with_tool(site, "gate", _patient("gate")),
        "missing": site.crew(
            {"a": [calls(("late", {"text": "at last"})), {"text": "A"}]},
            tools={"late": {**_patient("echo"), "run": "later:late_echo"}},
            rules=RULES,
        ),
    }
    return await site.start(crews[name], queue=QUEUE, id=name)


def _with_tool(
    site: Site, name: str, definition: dict[str, object], **args: object
) -> dict[str, object]:
    return site.crew(
        {"a": [calls((name, {"name": "g", **args})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={name: definition},
        rules=RULES,
    )


def _patient(function: str, retry: str | None = None, **more: object) -> dict[str, object]:
    """A tool that is not called again as long as the machine is merely busy."""
    return tool(function, retry, heartbeat=PATIENT["heartbeat"], **more)


NAMES = ("model", "safe", "keyed", "never-retry", "never-done", "paused", "missing")


async def _bring_to_places(site: Site) -> dict[str, Run]:
    runs = {name: await _start(site, name) for name in NAMES if name != "model"}
    for name in ("safe", "keyed", "never-retry", "never-done", "paused"):
        await until(lambda name=name: site.ledger(runs[name], "start"), name, of=runs[name])
    await until(lambda: site.ledger(runs["keyed"], "paid"), "the payment", of=runs["keyed"])
    await runs["missing"].wait_until(lambda view: "late" in view.wait_reason, LIMIT)
    paused = runs["paused"]
    await paused.pause("lunch", by="ana")
    site.open_gate(paused, "g")
    # What runs finishes, is applied, and nothing follows.
    await paused.wait_until(
        lambda view: view.status == "paused" and not view.frontier[0].calls, LIMIT
    )
    await until(lambda: site.ledger(paused, "end"), "the end of what ran", of=paused)
    # The last one, since it does not stay where it is: the model answers after a while.
    runs["model"] = await _start(site, "model")
    await until(lambda: site.prompted(runs["model"]), "the prompt", of=runs["model"])
    return runs


@pytest.fixture(scope="module")
async def runs(whole_site: Site) -> AsyncIterator[dict[str, Run]]:
    """The runs, with their worker killed and another one started."""
    site = whole_site
    victim = await site.start_worker(QUEUE)
    found = await _bring_to_places(site)
    site.runs.clear()  # they outlive the tests, and are checked when all of these are over
    victim.kill()
    (site.project / "later.py").write_text(LATER)
    for name in ("safe", "keyed"):
        site.open_gate(found[name], "g")
    late = await site.start(site.crew({"a": [{"text": "A"}]}), queue=QUEUE, id="cancelled-early")
    await late.cancel()
    site.runs.clear()
    found["cancelled-early"] = late
    await site.start_worker(QUEUE)
    yield found
    site.runs.extend(found.values())
    await site.settle()
    await asyncio.to_thread(site.end_workers, QUEUE)
    assert (PROJECT / "deeds.py").exists()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["model", "safe", "keyed"])
@covers("C120", "C121")
async def test_the_run_ends_right(whole_site: Site, runs: dict[str, Run], name: str) -> None:
    result = await runs[name].result(LIMIT)
    assert {agent: found["text"] for agent, found in result.outputs.items()} == {"a": "A", "b": "B"}
    entries = await whole_site.entries(runs[name])
    kinds = [e.kind for e in entries]
    assert kinds.count("StepStarted") == kinds.count("StepCompleted") == 2
    assert kinds.count("ModelCallCompleted") == (2 if name == "model" else 3)
    assert kinds[-1] == "RunCompleted"
    assert "InterruptRaised" not in kinds


async def test_the_model_was_asked_again(whole_site: Site, runs: dict[str, Run]) -> None:
    await runs["model"].result(LIMIT)
    *again, last = whole_site.prompted(runs["model"])
    assert {p["agent"] for p in again} == {"a"}
    assert last["agent"] == "b"
    assert len(again) >= 2, "by the worker that was killed, and by the other one"
    assert all(p["messages"] == again[0]["messages"] for p in again)


async def test_a_safe_tool_was_repeated(whole_site: Site, runs: dict[str, Run]) -> None:
    await runs["safe"].result(LIMIT)
    starts = whole_site.ledger(runs["safe"], "start")
    # A heartbeat that a busy machine misses makes it be called once more: how often is not told.
    attempts = [e["attempt"] for e in starts]
    assert len(attempts) >= 2
    assert attempts == sorted({*attempts})
    assert len({e["key"] for e in whole_site.ledger(runs["safe"])}) == 1
    (returned,) = await whole_site.entries(runs["safe"], "ToolCallCompleted")
    assert "passed g" in returned.excerpt


async def test_a_keyed_tool_had_one_effect(whole_site: Site, runs: dict[str, Run]) -> None:
    await runs["keyed"].result(LIMIT)
    events = [e["event"] for e in whole_site.ledger(runs["keyed"])]
    assert events[:4] == ["start", "paid", "start", "known"]
    assert events.count("paid") == 1
    assert len({e["key"] for e in whole_site.ledger(runs["keyed"])}) == 1


@pytest.mark.parametrize(("decision", "starts"), [("retry", 2), ("done", 1)])
async def test_a_tool_that_must_not_be_repeated_asks_people(
    whole_site: Site, runs: dict[str, Run], decision: str, starts: int
) -> None:
    run = runs[f"never-{decision}"]
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (question,) = await run.interrupts()
    assert question.kind == "outcome_unknown"
    assert question.options == ("done", "retry", "stop")
    assert len(whole_site.ledger(run, "start")) == 1
    whole_site.open_gate(run, "g")
    await run.answer(question.id, decision)
    result = await run.result(LIMIT)
    assert result.outputs["b"]["text"] == "B"
    assert len(whole_site.ledger(run, "start")) == starts
    (returned,) = await whole_site.entries(run, "ToolCallCompleted")
    assert ("passed g" if decision == "retry" else "it was done") in returned.excerpt


async def test_a_pause_outlives_the_worker(whole_site: Site, runs: dict[str, Run]) -> None:
    run = runs["paused"]
    await runs["safe"].result(LIMIT)  # by now the new worker has done much else
    # Where the worker died in its workflow task, nobody answers until that has timed out.
    await run.wait_until(lambda view: view.wait_reason.startswith("paused by ana"), LIMIT)
    assert len(whole_site.prompted(run)) == 1
    assert len(whole_site.ledger(run, "start")) == 1
    await run.resume()
    assert (await run.result(LIMIT)).outputs["b"]["text"] == "B"
    assert len(whole_site.ledger(run, "start")) == 1
    kinds = [e.kind for e in await whole_site.entries(run)]
    between = kinds[kinds.index("Paused") : kinds.index("RunResumed")]
    assert set(between) <= {"Paused", "ToolCallCompleted"}


async def test_a_missing_tool_module_is_mended_by_a_new_worker(
    whole_site: Site, runs: dict[str, Run]
) -> None:
    run = runs["missing"]
    assert (await run.result(LIMIT)).outputs["a"]["text"] == "A"
    assert not await whole_site.entries(run, "StepFailed", "InterruptRaised")
    assert [e["text"] for e in whole_site.ledger(run, "start")] == ["at last"]


async def test_a_cancel_before_the_first_task(whole_site: Site, runs: dict[str, Run]) -> None:
    run = runs["cancelled-early"]
    with pytest.raises(Exception, match="canceled"):
        await run.result(LIMIT)
    assert [e.kind for e in await whole_site.entries(run)][-1] == "RunStopped"
    assert not whole_site.prompted(run)

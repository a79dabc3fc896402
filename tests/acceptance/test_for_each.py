"""A phase with a step for each item of a list: on real servers, with a worker that is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run

from .harness import LIMIT, Site, calls, tool, until
from .test_rebuild import (
    QUEUE,
    assert_same,
    assert_same_once_more,
    db,  # noqa: F401 - the fixture
    dump,
    is_whole,
    lose,
)

ECHO = {"echo": tool("echo")}


def mapping(site: Site, items: list[Any], worker: list[Any], **more: Any) -> dict[str, Any]:
    """A planner that hands on a list, a worker for each item, and a writer."""
    rules = {"planner": {"outputs": ["topics"]}} | more.pop("rules", {})
    agents: dict[str, Any] = {
        "planner": [calls(("set_output", {"key": "topics", "value": items})), {"text": "planned"}],
        "worker": worker,
        "writer": [{"text": "written"}],
    }
    flow = ["planner", {"agent": "worker", "for_each": "planner.topics", "task": "Look at it."}]
    return site.crew(agents, rules=rules, flow=[*flow, "writer"], **more)


def prompts_of(site: Site, run: Run, agent: str) -> list[dict[str, Any]]:
    return [prompt for prompt in site.prompted(run) if prompt["agent"] == agent]


@pytest.mark.parametrize("size", [12, 40], ids=["a small list", "a large list"])
@covers("C49")
async def test_each_item_has_a_turn_that_sees_it_and_nothing_of_the_others(
    crews: Site, size: int
) -> None:
    items = [f"topic {n}" + " and so on" * (size > 12) for n in range(1, size + 1)]
    worker = [calls(("echo", {"text": "x"}), ("echo", {"text": "y"})), {"text": "found"}]
    run, result = await crews.finish(
        mapping(crews, items, worker, tools=ECHO, limits={"parallel": 5})
    )
    assert result.status == "completed"
    assert result.outputs["writer"]["text"] == "written"
    assert result.steps == size + 2
    prompts = prompts_of(crews, run, "worker")
    assert Counter(p["step"] for p in prompts) == {f"worker#1.{n}": 2 for n in range(1, size + 1)}
    for prompt in prompts:
        number = int(prompt["step"].rpartition(".")[2])
        texts = [m["content"] for m in prompt["messages"]]
        assert "Your task now: Look at it." in texts[0]
        items_shown = [t for t in texts if t.startswith("Your item (")]
        assert items_shown == [f"Your item ({number} of {size}): {items[number - 1]}"]
        assert texts[1:4] == ["go", "[planner] planned", items_shown[0]]
        kinds = [m["type"] for m in prompt["messages"][4:]]
        assert kinds == ([] if prompt["call"] == 1 else ["ai", "tool", "tool"])
    (last,) = prompts_of(crews, run, "writer")
    assert Counter(m["content"] for m in last["messages"])["[worker] found"] == size
    assert len(crews.ledger(run, "start")) == 2 * size
    state = await run.state()
    assert not [log for log in state.messages if "#" in log]


@pytest.mark.timeout(400)
async def test_a_thousand_items(crews: Site) -> None:
    items = [f"topic {n}" for n in range(1, 1001)]
    crew = mapping(crews, items, [{"text": "found"}], limits={"events": 2000})
    for agent in crew["agents"].values():  # no worker dies here: a busy one must not look dead
        agent["heartbeat"] = 30
    run = await crews.start(crew)
    result = await run.result(150)
    assert (result.status, result.steps) == ("completed", 1002)
    assert result.executions > 1
    done = Counter(e.step for e in await crews.entries(run, "StepCompleted"))
    assert set(done.values()) == {1}
    assert len(done) == 1003


async def test_no_list_is_asked_about_and_an_empty_one_skips(crews: Site) -> None:
    run = await crews.start(mapping(crews, "no list", [{"text": "found"}]))  # type: ignore[arg-type]
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    assert (asked.kind, asked.step, asked.options) == (
        "requirement", "worker#1", ("again", "skip", "stop"),
    )  # fmt: skip
    assert "planner.topics, which is a text and no list" in asked.question
    await run.answer(asked.id, "skip")
    assert (await run.result(LIMIT)).status == "completed"
    run, result = await crews.finish(mapping(crews, [], [{"text": "found"}]))
    assert result.status == "completed"
    assert not prompts_of(crews, run, "worker")


@covers("C49")
async def test_an_item_that_fails_is_asked_about_and_the_others_go_on(crews: Site) -> None:
    worker = [
        {"when": r"Your item \(2 of 3\)", "fail": "refused", "times": 1, "text": "at last"},
        {"text": "found"},
    ]
    run = await crews.start(mapping(crews, ["a", "b", "c"], worker))
    await run.wait_until(
        lambda view: (
            bool(view.interrupts) and [s.step for s in view.frontier] == ["worker#1", "worker#1.2"]
        ),
        LIMIT,
    )
    (asked,) = await run.interrupts()
    assert (asked.kind, asked.step) == ("step_failed", "worker#1.2")
    await run.answer(asked.id, "retry")
    result = await run.result(LIMIT)
    assert (result.status, result.outputs["worker"]["text"]) == ("completed", "at last")


@pytest.mark.timeout(400)
async def test_a_worker_that_is_killed_in_mid_map_and_rows_that_are_lost(
    site: Site,
    db: Any,  # noqa: F811
) -> None:
    items = [f"topic {n} {'x' * 40}" for n in range(1, 13)]
    worker = [
        calls(("echo", {"text": "x"}), ("pay", {"name": "g", "amount": 1})),
        {"text": "found"},
    ]
    crew = mapping(
        site,
        items,
        worker,
        rules={"worker": {"retry": {"first": 0.05, "longest": 0.2, "attempts": 50}}},
        tools=ECHO | {"pay": tool("pay", "keyed", effects="external")},
        limits={"parallel": 4, "events": 50},
    )
    await site.start_worker(QUEUE)
    run = await site.start(crew, queue=QUEUE)
    await until(lambda: len(site.ledger(run, "paid")) >= 1, "a payment")
    for dead in site.workers[QUEUE]:
        dead.kill()
    site.open_gate(run, "g")
    await site.start_worker(QUEUE)
    result = await run.result(LIMIT)
    assert (result.status, result.steps) == ("completed", 14)
    assert result.executions > 2
    assert len(site.ledger(run, "paid")) == 12
    assert {e["key"] for e in site.ledger(run, "paid")} == {
        f"{run.id}/worker#1.{n}/3" for n in range(1, 13)
    }
    done = Counter(e.step for e in await site.entries(run, "StepCompleted"))
    assert set(done.values()) == {1}
    before = await dump(db)
    await lose(db)
    await asyncio.to_thread(site.end_workers, QUEUE)
    assert is_whole(await run.rebuild())
    assert_same(await dump(db), before)
    await assert_same_once_more(site, db, run)


@covers("C50")
async def test_what_the_items_say_is_a_list_in_their_order(crews: Site) -> None:
    large = "y" * 400
    first = calls(("set_output", {"key": "found", "value": large}), ("nap", {"seconds": 0.3}))
    worker = [
        {"when": r"Your item \(1 of 3\)", **first},
        {"when": r"Your item", **calls(("set_output", {"key": "found", "value": 2}))},
        {"text": "said"},
    ]  # fmt: skip
    crew = mapping(
        crews,
        ["a", "b", "c"],
        worker,
        rules={"worker": {"outputs": ["found"]}},
        tools={"nap": tool("nap")},
        merge={"worker.found": "append", "worker.text": "append"},
    )
    crew["flow"][-1] = {"agent": "writer", "for_each": "worker.found"}
    run, result = await crews.finish(crew)
    assert result.outputs["worker"] == {"found": [large, 2, 2], "text": ["said"] * 3}
    shown = [p["messages"][-1]["content"] for p in prompts_of(crews, run, "writer")]
    assert sorted(shown) == [f"Your item ({n} of 3): {v}" for n, v in ((1, large), (2, 2), (3, 2))]

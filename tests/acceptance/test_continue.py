"""Automatic continue-as-new: in mid-turn, in mid-join, while people are asked and talk."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from crewlog.client import Run
from crewlog.errors import CommandRejected, InterruptNotOpen
from crewlog.workflows.commands.unauthenticated_signals import MAX_REJECTIONS

from .harness import LIMIT, Site, calls, tool

ROUNDS = 5
MESSAGES, SENDERS = 200, 8
QUESTIONS = 50


def busy_crew(site: Site, events: int) -> dict[str, Any]:
    """Three lanes of turns with parallel tools, a join, a loop and a conclusion."""
    batch = calls(("nap", {"seconds": 0.03}), ("echo", {"text": "x"}), ("nap", {"seconds": 0.01}))
    lanes = {f"lane{i}": [*[batch] * (ROUNDS + i), {"text": f"done {i}"}] for i in range(3)}
    crew = site.crew(
        {
            **lanes,
            "critic": [{"text": f"again {i}"} for i in range(4)],
            "closer": [{"text": "end"}],
        },
        # What a lane reads is its own: else its prompt, and the tokens of it, would be chance.
        rules={lane: {"reads": []} for lane in lanes},
        tools={"nap": tool("nap"), "echo": tool("echo")},
        flags={"good": False},
        limits={"events": events},
    )
    crew["flow"] = [
        list(lanes),
        "critic",
        {"if": "not good", "go": "critic", "at_most": 3},
        "closer",
    ]
    return crew


async def canonical(site: Site, run: Run) -> dict[str, Any]:
    """What a run came to, without times, positions and hashes that hang on them."""
    state = (await run.state()).model_dump(mode="json")
    gone = ("run", "started_at", "position", "execution", "definition", "recipe", "execution_trace")
    for name in gone:
        del state[name]
    state["messages"] = {log: head["length"] for log, head in state["messages"].items()}
    for outputs in state["agent_outputs"].values():
        for output in outputs.values():
            del output["position"]
    by_step: dict[str, list[tuple[str, Any]]] = {}
    for entry in await site.entries(run):
        step = getattr(entry, "step", None)
        if step is not None and entry.kind != "CompletionBuffered":
            by_step.setdefault(step, []).append((entry.kind, getattr(entry, "call", None)))
    bodies: dict[str, list[str]] = {}
    for entry in await site.entries(run):
        if entry.message is not None:
            for log in entry.message.logs:
                bodies.setdefault(log, []).append(entry.message.body)
    return {
        "state": state,
        "steps": by_step,
        # Lanes write to the public log in any order; what is private has one.
        "logs": {log: sorted(b) if log == "public" else b for log, b in bodies.items()},
        "ran": Counter(e["key"].partition("/")[2] for e in site.ledger(run, "start")),
    }


async def test_nothing_is_lost_or_doubled_in_mid_turn_and_mid_join(crews: Site) -> None:
    short, long = busy_crew(crews, 50), busy_crew(crews, 20_000)
    long["model"] = short["model"]
    (run, result), (whole, other) = await asyncio.gather(crews.finish(short), crews.finish(long))
    assert other.executions == 1
    expected = await canonical(crews, whole)
    places: list[tuple[bool, bool]] = []
    # Not only between steps: the seams cut turns whose batches were half applied, and the join.
    # Where they cut depends on how fast the lanes are.
    for _ in range(6):
        assert result.executions > 3
        found = await canonical(crews, run)
        assert max(found["ran"].values()) == 1
        assert found == expected
        places += await cut_places(crews, run)
        if any(turn for turn, _ in places) and any(join for _, join in places):
            break
        run, result = await crews.finish(short)
    assert any(turn for turn, _ in places)
    assert any(join for _, join in places)


async def cut_places(site: Site, run: Run) -> list[tuple[bool, bool]]:
    """For each seam: whether it was in a turn after its first call, and in a join half full."""
    places: list[tuple[bool, bool]] = []
    for position, entry in await site.journal(run):
        if entry.kind == "ExecutionContinuedAsNew":
            snapshot = await site.store.get_snapshot(run.id, position)
            assert snapshot is not None
            assert snapshot.position == position
            frontier: Mapping[str, Any] = snapshot.state.get("frontier", {})
            turns = [e.get("turn") or {} for e in frontier.values()]
            arrivals: Mapping[str, int] = snapshot.state.get("routing", {}).get("arrivals", {})
            arrived = [node for node in arrivals if node.startswith("lane")]
            in_turn = any(turn.get("next_call", 1) > 2 for turn in turns)
            places.append((in_turn, 0 < len(arrived) < 3))
    return places


def asking_crew(site: Site) -> dict[str, Any]:
    """Asks as many questions as there are, one after the other, beside an agent at work."""
    batch = calls(("nap", {"seconds": 0.02}), ("echo", {"text": "x"}))
    crew = site.crew(
        {"worker": [*[batch] * 20, {"text": "done"}]},
        tools={"nap": tool("nap"), "echo": tool("echo")},
        flags={"enough": False},
        limits={"events": 50},
    )
    crew["flow"] = [
        {"agent": "worker", "after": []},
        {"ask": "More?", "phase": "question", "sets": "answer", "words": True, "after": []},
        {"if": "not enough", "go": "question", "at_most": QUESTIONS - 1, "else": "next"},
        # The run stays open until everybody has said everything.
        {"ask": "Close?", "phase": "last"},
    ]
    return crew


async def answer_all(run: Run, sender: int, accepted: list[str]) -> None:
    """Answers whatever is open, racing with others, until there have been enough."""
    number = 0
    while len(accepted) < QUESTIONS:
        for question in await run.interrupts():
            if question.question != "More?":
                continue
            number += 1
            command = f"answer-{sender}-{number}"
            try:
                outcome = await run.answer(question.id, f"words {command}", id=command)
            except (InterruptNotOpen, CommandRejected):
                continue
            assert outcome.id == command
            accepted.append(command)
        await asyncio.sleep(0.01)


async def talk(run: Run, sender: int) -> None:
    for number in range(MESSAGES // SENDERS):
        command = f"message-{sender}-{number}"
        await run.message(f"{sender}:{number}", id=command)
        if number % 5 == 0:  # delivered twice: the second has no effect
            await run.message(f"{sender}:{number}", id=command)
        await asyncio.sleep(0.02)


@pytest.mark.timeout(400)
async def test_commands_stream_in_over_the_seams(crews: Site) -> None:
    run = await crews.start(asking_crew(crews))
    accepted: list[str] = []
    answers = [answer_all(run, sender, accepted) for sender in range(3)]
    await asyncio.wait_for(
        asyncio.gather(*answers, *(talk(run, sender) for sender in range(SENDERS))), LIMIT * 2
    )
    last = await run.wait_until(lambda view: f"i{QUESTIONS + 1}" in view.interrupts, LIMIT)
    await run.answer(last.interrupts[0], "approve", id="close")
    result = await run.result(LIMIT)
    assert result.executions > 3
    entries = await crews.entries(run)
    by_kind = Counter(entry.kind for entry in entries)
    said = [e.command for e in entries if e.kind == "MessageAdded" and e.command]
    assert len(said) == len(set(said)) == MESSAGES
    for sender in range(SENDERS):  # and each sender's in the order in which it sent them
        own = [int(c.rpartition("-")[2]) for c in said if c.startswith(f"message-{sender}-")]
        assert own == list(range(MESSAGES // SENDERS))
    answered = [e.command for e in entries if e.kind == "InterruptAnswered"]
    assert sorted(answered) == sorted([*accepted, "close"])
    assert len(answered) == len(set(answered)) == QUESTIONS + 1 == by_kind["InterruptRaised"]
    assert max(Counter(e["key"] for e in crews.ledger(run, "start")).values()) == 1
    assert len(crews.ledger(run, "start")) == 40


async def test_an_open_question_and_a_pause_are_carried(crews: Site) -> None:
    """While people are asked, messages alone fill the history until the run continues as new."""
    crew = crews.crew({"a": [{"text": "A"}]}, flow=[{"ask": "Begin?"}, "a"], limits={"events": 50})
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await run.interrupt("a", id="before-a")
    await run.pause(id="wait")
    for number in range(60):
        await run.message(f"{number}", id=f"m{number}")
    view = await run.wait_until(lambda view: view.execution > 1, LIMIT)
    assert (view.status, view.interrupts) == ("paused", ("i1",))
    await run.resume(id="go")
    first = await run.answer("i1", "approve", id="yes")
    await run.wait_until(lambda view: view.interrupts == ("i2",), LIMIT)
    again = await run.answer("i1", "approve", id="yes")
    assert again.position == first.position
    await run.answer("i2", "approve")
    assert (await run.result(LIMIT)).outputs["a"]["text"] == "A"
    prompt = crews.prompted(run)[0]["messages"]
    assert sum(1 for m in prompt if m["type"] == "human") >= 1
    assert all(str(number) in str(prompt) for number in range(60))


UNREADABLE: dict[str, list[Any]] = {
    "bytes": [b"\xff\xfe"],
    "NaN": [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b'{"id": NaN}'))],
    "half": [RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b'{"id": '))],
    "protobuf": [Payload(data=b"x")],
    "none": [],
}


MORE = re.compile(r"and (\d+) more signals that are no commands")


async def test_what_is_no_json_is_refused_on_either_side_of_a_seam(crews: Site) -> None:
    crew = crews.crew({"a": [{"text": "A"}]}, flow=[{"ask": "Begin?"}, "a"], limits={"events": 50})
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    handle = crews.temporal.get_workflow_handle(run.id)

    async def send(sender: int) -> None:
        for _ in range(5):
            for args in UNREADABLE.values():
                await handle.signal("pause", args=args)
            await handle.signal("message", {"id": f"crewlog:{sender}", "text": "not mine"})

    await asyncio.wait_for(asyncio.gather(*(send(sender) for sender in range(SENDERS))), LIMIT)
    await run.wait_until(lambda view: view.execution > 1, LIMIT)
    await run.answer("i1", "approve")
    assert (await run.result(LIMIT)).outputs["a"]["text"] == "A"
    refused = [e.reason for e in await crews.entries(run, "CommandRejected")]
    counted = [reason for reason in refused if MORE.fullmatch(reason)]  # of an execution's many
    reasons = [reason for reason in refused if reason not in counted]
    more = sum(int(MORE.sub(r"\1", reason)) for reason in counted)
    assert len(reasons) + more == SENDERS * 5 * (len(UNREADABLE) + 1)
    assert len(reasons) >= MAX_REJECTIONS
    told = Counter(reason.partition(" '")[0].partition(": line")[0][:40] for reason in reasons)
    assert "Field required" not in str(told), told

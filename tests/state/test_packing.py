"""Packing: what is left out of an activity's input comes back exactly as it was."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from pydantic import ValidationError

from crewlog.activities.ai_messages import build_message
from crewlog.canonical_json import hash_json
from crewlog.ids import AgentName, ContentHash, LogName, StepId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.batch_codec import pack, pack_view, required_bodies, unpack, unpack_view
from crewlog.state.body_metadata import body_metadata
from crewlog.state.calls import (
    CallModel,
    CallModelResult,
    CallToolResult,
    OutputValue,
    ToolReturned,
    View,
    requested_calls,
)
from crewlog.state.excerpt import message_excerpt
from crewlog.state.logs import batch_links, extended_logs
from crewlog.state.messages import message_to_json
from crewlog.state.model import Call, CrewState
from crewlog.state.recorder import Journal
from crewlog.usage import Usage
from graph.simulation import RUN, crew_run, dice

SEEDS = range(40)


def through_json(batch: j.Batch) -> j.Batch:
    return j.Batch.from_json(json.loads(json.dumps(batch.to_json())))


def reply(rng: random.Random, step: str, call: int, cost: float = 0.0) -> CallModelResult:
    """A reply as a model activity makes it."""
    agent = AgentName(rng.choice(["a", "b c", "ö"]))
    tools = [
        {
            "name": rng.choice(["t", "u"]),
            "args": {"x": "y" * rng.choice([0, 5, 200])},
            "id": f"i{n}",
        }
        for n in range(rng.randrange(3))
    ]
    message = AIMessage(
        rng.choice(["", "hello", "x" * 300, "two\nlines"]),
        tool_calls=tools,
        usage_metadata=rng.choice(
            [None, {"input_tokens": 7, "output_tokens": 0, "total_tokens": 7}]
        ),
        response_metadata={"model_name": "m-2"} if rng.random() < 0.5 else {},
    )
    made = build_message(message, agent, StepId(step), call, model="scripted:x")
    body = message_to_json(made)
    used = {**body_metadata(body)["usage"], "cost": cost}
    if cost:  # a model with a price is not one without
        used.pop("unpriced", None)
    usage = Usage.model_validate(used)
    return CallModelResult(body=body, hash=hash_json(body), usage=usage)


def replied(result: CallModelResult, step: str, call: int) -> j.ModelCallCompleted:
    asked = requested_calls(result.body)
    return j.ModelCallCompleted(
        at=5,
        step=StepId(step),
        call=call,
        agent=result.body["name"],
        ref=j.MessageRef(body=result.hash, logs=(LogName("public"),)),
        model=result.model,
        usage=result.usage,
        excerpt=message_excerpt(result.body),
        calls=tuple(
            Call(call=call + 1 + n, tool=a.tool, id=a.id, message=result.hash, excerpt=a.excerpt)
            for n, a in enumerate(asked)
        ),
    )


async def test_every_journal_survives_packing_cut_anywhere() -> None:
    for seed in SEEDS:
        sim, rng = await crew_run(seed), dice(seed)
        at = 0
        while at < len(sim.journal):
            end = at + rng.randrange(1, 12)
            batch = j.Batch(first=at + 1, entries=tuple(sim.journal[at:end]))
            packed = through_json(pack(batch, {}))
            assert json.dumps(unpack(packed, {}).to_json()) == json.dumps(batch.to_json())
            assert unpack(batch, {}) == batch, "what is whole stays as it is"
            at = end


def test_replies_and_results_leave_out_what_their_bodies_tell() -> None:
    rng = dice(1)
    saved, kept = 0, set[tuple[str, bool]]()
    for n in range(300):
        step = f"node {n % 3}#{n}"
        result = reply(rng, step, 1, cost=rng.choice([0.0, 0.25]))
        message = ToolMessage(
            "done",
            tool_call_id="i0",
            name="t",
            id=f"{step}/2",
            status=rng.choice(["success", "error"]),
        )
        body = message_to_json(message)
        answer = CallToolResult(body=body, hash=hash_json(body))
        entries: list[j.JournalEntry] = [
            replied(result, step, 1),
            j.ToolCallCompleted(
                at=6,
                step=StepId(step),
                call=2,
                agent=AgentName(rng.choice(["a", f"node {n % 3}"])),
                tool="t",
                ref=j.MessageRef(body=answer.hash, logs=(LogName("private:a"),)),
                ok=answer.ok,
                excerpt=message_excerpt(body),
                ms=n,
            ),
            j.StepCompleted(at=6, step=StepId(step)),
        ]
        journal = Journal(CrewState(run=RUN))
        journal.learn(result)
        journal.learn(answer)
        for entry in entries:
            journal.record(entry)
        packed = through_json(journal.batch())
        assert set(required_bodies(packed)) == {result.hash, answer.hash}
        bodies = {each.hash: body_metadata(each.body) for each in (result, answer)}
        whole = unpack(packed, bodies)
        assert json.dumps(whole.entries) == json.dumps(journal.entries), "in the same order, too"
        for short in packed.entries[:2]:
            assert short.keys() <= {"kind", "at", "ref", "calls", "usage", "agent", "ms"}
        for short, entry in zip(packed.entries[:2], whole.entries, strict=False):
            is_text = entry["kind"] == "ModelCallCompleted" and not entry.get("calls")
            usual = ["public" if is_text else f"private:{entry['agent']}"]
            assert ("logs" not in short["ref"]) == (entry["ref"]["logs"] == usual)
            kept.add((entry["kind"], "logs" in short["ref"]))
        saved += len(json.dumps(whole.entries)) - len(json.dumps(packed.entries))
    assert saved / 300 > 250
    assert len(kept) == 4, "each kind had the usual logs, and others"


@pytest.mark.parametrize(
    "changed",
    [
        {"excerpt": "other"},
        {"model": ""},
        {"agent": AgentName("somebody")},
        {"usage": Usage(calls=2)},
        {"calls": ()},
        {"step": StepId("x#9")},
        {"call": 7},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_an_entry_that_says_otherwise_than_its_body_survives(changed: dict[str, Any]) -> None:
    rng = dice(3)
    result = next(r for r in (reply(rng, "x#1", 1) for _ in range(50)) if requested_calls(r.body))
    entry = replied(result, "x#1", 1).model_copy(update=changed)
    batch = j.Batch(entries=(j.entry_to_json(entry),))
    facts = {result.hash: body_metadata(result.body)}
    assert unpack(through_json(pack(batch, facts)), facts) == batch


def test_a_message_that_travels_inline_is_not_looked_for() -> None:
    result = reply(dice(5), "x#1", 1)
    entry = replied(result, "x#1", 1)
    inline = entry.model_copy(update={"ref": entry.ref.model_copy(update={"inline": result.body})})
    batch = j.Batch(entries=(j.entry_to_json(inline),))
    packed = pack(batch, {result.hash: body_metadata(result.body)})
    assert not set(required_bodies(packed))
    assert unpack(packed, {}) == batch


def test_what_the_store_lacks_is_a_clear_failure() -> None:
    result = reply(dice(5), "x#1", 1)
    batch = j.Batch(entries=(j.entry_to_json(replied(result, "x#1", 1)),))
    packed = pack(batch, {result.hash: body_metadata(result.body)})
    with pytest.raises(KeyError, match=result.hash):
        unpack(packed, {})


def test_heads_that_follow_from_the_batch_are_left_out_of_a_view() -> None:
    result = reply(dice(5), "x#1", 1)
    batch = j.Batch(
        heads={LogName("public"): ContentHash("h0")},
        entries=(j.entry_to_json(replied(result, "x#1", 1)),),
    )
    (link,) = batch_links(RUN, batch)
    view = View(heads={LogName("public"): link.head, LogName("private:a"): ContentHash("p")})
    packed = pack_view(view, extended_logs(batch))
    assert packed.heads == {"public": "", "private:a": "p"}
    assert unpack_view(packed, RUN, batch) == view
    assert unpack_view(view, RUN, batch) == view


@pytest.mark.parametrize("cost", [0.0, 0.5])
def test_results_cross_as_json_without_what_their_bodies_tell(cost: float) -> None:
    rng = dice(9)
    for _ in range(50):
        result = reply(rng, "x#1", 1, cost)
        data: dict[str, Json] = json.loads(json.dumps(result.to_json()))
        assert data.keys() == ({"body", "usage"} if cost else {"body"})
        assert data.get("usage", {"cost": cost}) == {"cost": cost}
        assert CallModelResult.from_json(data) == result


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(calls=1, input_tokens=7),
        Usage(calls=1, input_tokens=8, unpriced="m"),
        Usage(calls=2, input_tokens=7, output_tokens=1, cost=0.1, unpriced="m-2"),
        Usage(calls=1, unpriced="another"),
    ],
)
def test_a_usage_that_differs_from_its_body_crosses_whole(usage: Usage) -> None:
    metadata = {"input_tokens": 7, "output_tokens": 0, "total_tokens": 7}
    message = AIMessage(
        "x", id="x#1/1", name="x", usage_metadata=metadata, response_metadata={"model_name": "m"}
    )
    body = message_to_json(message)
    result = CallModelResult(body=body, hash=hash_json(body), usage=usage)
    assert CallModelResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    batch = j.Batch(entries=(j.entry_to_json(replied(result, "x#1", 1)),))
    bodies = {result.hash: body_metadata(body)}
    assert unpack(through_json(pack(batch, bodies)), bodies) == batch


def test_large_answers_are_not_relied_on() -> None:
    for size in (100, 40_000):
        body = message_to_json(AIMessage("x" * size, id="x#1/1", name="x"))
        result = CallModelResult(body=body, hash=hash_json(body))
        journal = Journal(CrewState(run=RUN))
        journal.learn(result)
        journal.record(replied(result, "x#1", 1))
        assert bool(set(required_bodies(journal.batch()))) is (size == 100)


def test_a_small_answer_in_a_large_result_is_not_relied_on() -> None:
    body = message_to_json(ToolMessage("set", tool_call_id="i", name="t", id="x#1/2"))
    large = OutputValue(key="k", body=hash_json("y" * 40_000), content="y" * 40_000)
    answer = CallToolResult(body=body, hash=hash_json(body), outcome=ToolReturned(outputs=(large,)))
    journal = Journal(CrewState(run=RUN))
    journal.learn(answer)
    ref = j.MessageRef(body=answer.hash, logs=(LogName("private:x"),))
    returned = j.ToolCallCompleted(
        step=StepId("x#1"), call=2, agent=AgentName("x"), tool="t", ref=ref
    )
    journal.record(returned)
    assert not set(required_bodies(journal.batch()))


@pytest.mark.parametrize(
    "entries",
    [
        {},
        "StepStarted",
        7,
        [1],
        [{}],
        [{"kind": "StepStarted"}],
        [{"kind": "StepStarted", "step": 1}],
    ],
    ids=str,
)
def test_a_call_whose_batch_names_no_step_is_refused_as_invalid(entries: Any) -> None:
    given = {"definition": "d", "batch": {"entries": entries}}
    with pytest.raises(ValidationError, match="step"):
        CallModel.model_validate(given)


def test_a_call_leaves_out_the_step_that_its_batch_begins() -> None:
    begun = {"kind": "StepStarted", "step": "planner#1", "agent": "planner", "at": 1}
    batch = j.Batch(first=3, entries=(begun,))
    call = CallModel(step=StepId("planner#1"), definition=ContentHash("d"), batch=batch)
    assert "step" not in call.to_json()
    assert CallModel.model_validate(call.to_json()) == call
    other = call.model_copy(update={"step": StepId("critic#1")})
    assert other.to_json()["step"] == "critic#1"
    assert CallModel.model_validate(other.to_json()) == other

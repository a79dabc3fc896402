"""Replies of a form on the real path: tries, fallbacks, people, plans, and capped turns."""

from __future__ import annotations

import json
from typing import Any

from covers import covers
from crewlog.state.journal import StructuredOutputParsed, StructuredOutputRejected

from .harness import LIMIT, Site, calls, tool

GOOD = {"text": 'Well:\n```json\n{"next": "billing", "rationale": "money"}\n```'}
GARBAGE = ({"text": "I like trains."}, {"text": '{"next": "nobody"}'}, {"text": "{"})
ROUTE = {"decision": "route", "among": ["billing", "general"]}


def hub(site: Site, *replies: dict[str, Any], **reply: Any) -> dict[str, Any]:
    """A router and two that it may name."""
    agents = {
        "router": replies,
        "billing": [{"text": "Refunded."}],
        "general": [{"text": "Hello."}],
    }
    rules = {
        "router": {"reply": {**ROUTE, **reply}},
        "general": {"inputs": ["router.response", "router.next"]},
        "billing": {"description": "Invoices and refunds"},
    }
    flow = ["router", *({"agent": a, "only_if": f"router.next == '{a}'"} for a in list(agents)[1:])]
    return site.crew(agents, rules=rules, flow=flow)


@covers("C40", "C63", "C66")
async def test_garbage_garbage_good(crews: Site) -> None:
    run, result = await crews.finish(hub(crews, *GARBAGE[:2], GOOD))
    router = result.outputs["router"]
    assert (router["next"], router["rationale"]) == ("billing", "money")
    assert router["response"] == router["text"] == GOOD["text"]
    assert result.outputs["billing"]["text"] == "Refunded."
    assert "general" not in result.outputs
    refused: list[StructuredOutputRejected] = await crews.entries(run, "StructuredOutputRejected")
    assert [(each.attempt, each.of) for each in refused] == [(1, 3), (2, 3)]
    assert refused[1].errors == ("'next': 'nobody' is not one of billing and general",)
    (taken,) = await crews.entries(run, "StructuredOutputParsed")
    assert (taken.how, taken.attempt, taken.decision) == ("json", 3, "route")
    assert result.usage["router"].calls == 3, "every try counts"
    first, second, third, billing = (each["messages"] for each in crews.prompted(run))
    assert "- billing: Invoices and refunds" in first[0]["content"]
    assert [m["type"] for m in second] == ["system", "human", "ai", "human"]
    assert "there is no JSON in it that is whole" in second[-1]["content"]
    assert "'nobody' is not one of billing and general" in third[-1]["content"]
    assert "trains" not in json.dumps(billing), "garbage is nobody's business"


@covers("C40", "C71")
async def test_garbage_three_times_takes_the_fallback(crews: Site) -> None:
    run, result = await crews.finish(hub(crews, *GARBAGE, fallback={"next": "general"}))
    assert result.status == "completed"
    assert result.outputs["router"]["next"] == "general"
    assert result.outputs["general"]["text"] == "Hello."
    assert result.outputs["router"]["response"] == "{", "what it said at last"
    assert len(await crews.entries(run, "StructuredOutputRejected")) == 3
    (taken,) = await crews.entries(run, "StructuredOutputParsed")
    assert (taken.how, taken.excerpt) == ("fallback", "next = general")
    shown = crews.prompted(run)[-1]["messages"][-1]["content"]
    assert "router.response:\n{\n\nrouter.next:\ngeneral" in shown


@covers("C40")
async def test_without_a_fallback_people_are_asked_and_a_retry_works(crews: Site) -> None:
    run = await crews.start(hub(crews, *GARBAGE, GOOD))
    view = await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    state = await run.state()
    (question,) = state.interrupts.values()
    assert question.kind == "step_failed"
    assert "the reply of 'router' cannot be used, and it was asked 3 times" in question.question
    await run.answer(view.interrupts[0], "retry", by="ana")
    result = await run.result(LIMIT)
    assert result.outputs["router"]["next"] == "billing"
    (taken,) = await crews.entries(run, "StructuredOutputParsed")
    assert taken.attempt == 1


@covers("C39", "C54", "C46")
async def test_decisions_choose_the_way_through_a_crew(crews: Site) -> None:
    """A strategy, a plan with steps side by side, a review that sends back, and an end."""
    steps = [{"id": f"s{n}", "agent": "worker", "task": f"part {n} " * 9} for n in range(5)]
    again = {"proceed": False, "actions": [{"target": "worker", "directive": "more"}]}
    crew = crews.crew(
        {
            "chief": [{"text": "We plan_then_parallel this one."}],
            "planner": [{"text": json.dumps({"steps": steps})}],
            "worker": [{"text": "made"}],
            "critic": [{"text": json.dumps(again)}, {"text": '{"proceed": "yes"}'}],
            "judge": [{"text": '{"done": true, "confidence": "90%"}'}],
        },
        rules={
            "chief": {"reply": "strategy"},
            "planner": {"reply": {"decision": "plan", "among": ["worker"]}},
            "critic": {"reply": "reflection"},
            "judge": {"reply": "terminate", "ask_below": 0.5},
        },
        merge={"worker.text": "append"},
        flow=[
            "chief",
            {"agent": "planner", "only_if": "chief.strategy == 'plan_then_parallel'"},
            {"agent": "worker", "for_each": "planner.steps"},
            "critic",
            {"if": "not critic.proceed", "go": "critic", "at_most": 2},
            "judge",
        ],
    )
    run, result = await crews.finish(crew)
    assert result.outputs["worker"]["text"] == ["made"] * 5
    assert [each["id"] for each in result.outputs["planner"]["steps"]] == [s["id"] for s in steps]
    assert result.outputs["critic"]["proceed"] is True
    assert result.outputs["critic"]["actions"] == [], "not those of the visit before"
    assert result.outputs["judge"]["confidence"] == 0.9
    taken: list[StructuredOutputParsed] = await crews.entries(run, "StructuredOutputParsed")
    assert [(each.decision, each.how) for each in taken] == [
        ("strategy", "lenient"),
        ("plan", "json"),
        ("reflection", "json"),
        ("reflection", "json"),
        ("terminate", "lenient"),
    ]


@covers("C41", "C80")
async def test_a_capped_turn_ends_with_what_is_there(crews: Site) -> None:
    look = calls(("echo", {"text": "x"}), text="Half of it.")
    crew = crews.crew(
        {"finder": [look] * 9, "responder": [{"text": "Sorry, half."}]},
        rules={
            "finder": {"max_calls": 2, "on_cap": "end"},
            "responder": {"reply": {"schema": {"type": "object", "properties": {"ok": {}}}}},
        },
        tools={"echo": tool("echo")},
        flow=["finder", "responder"],
    )
    crew["agents"]["responder"]["reply"]["fallback"] = {"ok": False}
    crew["agents"]["responder"]["reply"]["tries"] = 1
    run, result = await crews.finish(crew)
    assert result.outputs["finder"] == {"text": "Half of it.", "capped": True}
    assert result.outputs["responder"]["ok"] is False
    assert result.usage["finder"].calls == 2
    (capped,) = await crews.entries(run, "TurnLimitReached")
    assert capped.calls == 2
    last = crews.prompted(run)[-1]["messages"]
    assert [m["content"] for m in last if "Half" in m["content"]] == ["[finder] Half of it."]


async def test_thousands_of_small_values_do_not_hold_up_a_run(crews: Site) -> None:
    """A workflow task that takes two seconds is tried again for ever, and the run is dead."""
    many = [{"n": n, "for": "b"} for n in range(8_000)]
    schema = {"type": "object", "properties": {"seen": {}, "context": {"type": "array"}}}
    crew = crews.crew(
        {
            "a": [
                {"text": json.dumps({"seen": [0] * 8_000, "context": many})},
                {"text": json.dumps({"seen": [0] * 8_000, "context": many[:200]})},
            ],
            "b": [{"text": "Done."}],
        },
        rules={
            "a": {"reply": {"schema": schema, "tagged": {"context": "for"}}, "writes": []},
            "b": {"inputs": ["a.context"]},
        },
        flow=["a", "b"],
        merge={"a.seen": "union"},
    )
    run, result = await crews.finish(crew)
    assert (result.status, result.outputs["a"]["seen"]) == ("completed", [0])
    (refused,) = await crews.entries(run, "StructuredOutputRejected")
    assert refused.errors == (
        "'context' has 8,000 items, and at most 200 can be handed on at once",
    )

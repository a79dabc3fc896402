"""Rules, live permissions and quotas in a run: what is refused, asked and counted."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from crewlog.client.quotas import with_used_up
from crewlog.definition.quotas import window_of
from crewlog.errors import CommandRejected
from crewlog.graph.interrupts import action_request
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName
from crewlog.reporting.wire_views import interrupt_view
from crewlog.state.calls import ToolCallDenied, ToolCallInvalid
from crewlog.store.in_process import InMemoryStore
from crewlog.store.protocol import QuotaPeriod
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, as_json, folded, returns, run, says

TOOLS = {name: {"run": "m:f"} for name in ("act", "read")}


def ruled(*rules: dict[str, Any], **more: Any) -> GraphPlan:
    return plan_of(["a", "b"], **{"tools": TOOLS, "rules": rules, **more})


def asks(*tools: str, **more: Any) -> Replies:
    return Replies({"a#1": [says("", *tools)]}, **more)


def denied(sim: Simulation) -> list[tuple[int, str]]:
    return [(e["call"], e["rule"]) for e in sim.facts("PermissionDenied")]


def refold(sim: Simulation) -> None:
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_a_rule_refuses_and_the_model_is_told_why() -> None:
    never = {"tool": "act", "do": "never", "reason": "not on a Friday"}
    sim = await run(ruled(never), asks("act", "read"))
    assert denied(sim) == [(2, "rules[0]")]
    assert [call for step, call, _ in sim.made if step == "a#1"] == [1, 3, 4]
    assert "not on a Friday" in sim.facts("ToolCallCompleted")[0]["excerpt"]
    assert "act" not in sim.engine.tools_of(AgentName("a"))
    refold(sim)


async def test_a_rule_asks_where_its_condition_holds() -> None:
    ask = {"tool": "act", "do": "ask", "if": "not ok"}
    sim = await run(ruled(ask, flags={"ok": False}), asks("act"))
    assert sim.asked().kind == "tool_approval"
    await sim.answer("approve")
    await sim.run()
    assert ("a#1", 2, 1) in sim.made
    other = await run(ruled(ask, flags={"ok": True}), asks("act"))
    assert other.state.status == "completed"
    refold(sim)


@pytest.mark.parametrize(
    ("rules", "more", "rule", "why", "risk"),
    [
        (
            [{"tool": "act", "do": "ask", "if": "not ok", "reason": "only checked titles"}],
            {},
            "rules[0]",
            "rules[0] says ask: only checked titles ('a' calls 'act')",
            "high",
        ),
        (
            [],
            {"approvals": {"act": None}},
            "approvals",
            "approvals say that people are asked before 'a' calls 'act'",
            "high",
        ),
        (
            [],
            {"interrupts": {"approve_risk": "high"}},
            "interrupts.approve_risk",
            "interrupts.approve_risk says that people are asked before calls of tools of high risk",
            "high",
        ),
    ],
)
async def test_a_question_about_a_call_says_why_it_is_asked(
    rules: list[Any], more: dict[str, Any], rule: str, why: str, risk: str
) -> None:
    tools = {"act": {"run": "m:f", "risk": "high"}}
    plan = ruled(*rules, tools=tools, flags={"ok": False}, **more)
    asked = (await run(plan, asks("act"))).asked()
    assert (asked.rule, asked.reason, asked.risk) == (rule, why, risk)
    description = action_request(asked)["description"]
    assert why in description
    assert "high risk" in description.splitlines()[1]


async def test_people_are_told_of_a_quota_that_lets_nothing_through() -> None:
    rules = [{"tool": "act", "quota": "3 per day"}, {"tool": "act", "quota": "9 per run"}]
    sim = await run(ruled(*rules, approvals={"act": None}), asks("act"))
    question = interrupt_view(sim.asked())
    ((name, quota, rule),) = [(q.name, q.quota, q.rule) for q in question.quotas]
    assert (quota, rule) == ("3 per day", "rules[0]")
    store = InMemoryStore()

    async def opened() -> InMemoryStore:
        return store

    at = 1_790_000_000_000
    for call in range(3):
        (free,) = await with_used_up(opened, [question], at)
        assert free.exhausted_quota == ""
        span = window_of("day", at, UTC)
        await store.count_call(f"c{call}", [QuotaPeriod(quota=name, period=span, limit=3)], at)
    (full,) = await with_used_up(opened, [question], at)
    assert full.exhausted_quota.startswith(
        "rules[0] is used up, at most 3 per day: no yes lets the call"
    )
    (tomorrow,) = await with_used_up(opened, [question], at + 86_400_000)
    assert tomorrow.exhausted_quota == ""


async def test_a_quota_of_another_crew_counts_there() -> None:
    day = {"tool": "act", "quota": "3 per day"}
    first = {"crew": "first", "key": "k", "zone": "Asia/Tokyo"}
    rules = [
        {**day, "counted": first},
        {**day, "quota": "2 per day", "counted": first},
        {**day, "counted": {"crew": "second", "key": "k"}},
        day,
    ]
    sim = await run(ruled(*rules), asks("act"))
    found = sim.engine.quotas(AgentName("a"), "act")
    assert [(q.crew, q.key, q.zone, q.quota) for q in found if q.key == "k"] == [
        ("first", "k", "Asia/Tokyo", "2 per day"),
        ("second", "k", "UTC", "3 per day"),
    ]
    (own,) = [q for q in found if q.key != "k"]
    assert (own.crew, own.quota) == (sim.engine.plan.crew, "3 per day")


@pytest.mark.parametrize("whom", ["a", "*"])
async def test_why_people_ruled_is_told_to_who_is_refused_or_asked(whom: str) -> None:
    sim = await Simulation.begin(ruled(), asks("act"))
    said = {"tool": "act", "agent": whom, "do": "deny", "reason": "closed till noon"}
    await sim.command("set_permission", **said)
    await sim.run()
    told = [
        sim.facts("PermissionDenied")[0]["reason"],
        sim.facts("ToolCallCompleted")[0]["excerpt"],
    ]
    assert [": closed till noon" in each for each in told] == [True, True]
    sim = await Simulation.begin(ruled(), asks("act"))
    await sim.command("set_permission", **{**said, "do": "ask"})
    await sim.run()
    assert sim.asked().reason == "people want to be asked before 'a' calls 'act': closed till noon"
    assert sim.asked().rule == "live_permission"


async def test_a_quota_counts_what_is_made_and_not_what_is_refused() -> None:
    quota = {"tool": "*", "quota": "2 per run"}
    sim = await run(ruled(quota, approvals={"act": None}), asks("act", "read", "read"))
    assert denied(sim) == [(4, "rules[0]")]
    await sim.answer("reject")
    assert [*sim.state.quotas.values()] == [1]
    await sim.run()
    assert [*sim.state.quotas.values()] == [1]
    assert sim.state.status == "completed"
    refold(sim)


@pytest.mark.parametrize("most", [(5, 100_000), (100_000, 5), (9, 5, 7)])
@pytest.mark.parametrize("per", ["hour", "day"])
async def test_of_two_quotas_over_runs_of_the_same_calls_the_lesser_is_reserved(
    most: tuple[int, ...], per: str
) -> None:
    sim = await run(ruled(*({"tool": "act", "quota": f"{n} per {per}"} for n in most)), asks("act"))
    (found,) = sim.engine.quotas(AgentName("a"), "act")
    assert found.quota == f"5 per {per}"
    assert found.rule.startswith(f"rules[{most.index(5)}]")


async def test_a_call_that_its_activity_refuses_is_given_back_and_journaled() -> None:
    refusal = returns("no", outcome=ToolCallDenied(reason="rules[1] is used up", rule="rules[1]"))
    script = asks("act", tools={"act": refusal})
    sim = await run(ruled({"tool": "act", "quota": "5 per run"}), script)
    assert denied(sim) == [(2, "rules[1]")]
    assert [*sim.state.quotas.values()] == [0]
    refold(sim)


async def test_a_call_that_never_began_is_given_back_without_a_refusal() -> None:
    script = asks(
        "act",
        tools={"act": returns("its arguments do not fit", ok=False, outcome=ToolCallInvalid())},
    )
    sim = await run(ruled({"tool": "act", "quota": "5 per run"}), script)
    assert denied(sim) == []
    assert [*sim.state.quotas.values()] == [0]
    refold(sim)


async def test_a_child_uses_up_its_parents_quota_and_may_no_more_than_that() -> None:
    agents = {
        "a": {"prompt": "p", "tools": ["act", "read"], "parent": "b"},
        "b": {"prompt": "p", "tools": ["act"]},
    }
    quota = {"tool": "act", "agents": ["b"], "quota": "1 per run"}
    plan = plan_of(["a", "b"], agents=agents, tools=TOOLS, rules=[quota])
    sim = await run(plan, asks("act", "act", "read"))
    assert [call for call, _ in denied(sim)] == [3, 4]
    reasons = [e["reason"] for e in sim.facts("PermissionDenied")]
    assert "its parent agent may not do more" in reasons[1]
    refold(sim)


async def test_who_allows_what_the_agent_above_may_not_is_told_that_it_changes_nothing() -> None:
    agents = {"a": {"prompt": "p", "parent": "b"}, "b": {"prompt": "p", "tools": ["read"]}}
    sim = await Simulation.begin(plan_of(["a", "b"], agents=agents, tools=TOOLS), asks("act"))
    assert (
        await command(sim, "allow")
    ).outcome.result.detail == "it is set, but a still may not call act"
    await command(sim, "allow", agent="b")
    assert (await command(sim, "allow")).outcome.result.detail == "a may call act"
    assert (await command(sim, "deny")).outcome.result.detail == "a may not call act"
    await command(sim, "deny", agent="*")
    summary = "the permission of a for act is removed, but nobody may call act"
    assert (await command(sim, "inherit")).outcome.result.detail == summary


async def command(sim: Simulation, do: str, tool: str = "act", agent: str = "a") -> Any:
    return await sim.command("set_permission", tool=tool, agent=agent, do=do)


async def test_a_ruling_holds_for_calls_that_are_not_made_yet() -> None:
    sim = await Simulation.begin(ruled(), asks("act", "act"))
    await sim.settle()
    sim.launch()
    await sim.land(("a#1", 1))  # the reply: its calls are asked for, and not made
    await command(sim, "deny")
    await sim.run()
    assert denied(sim) == [(2, "live_permission"), (3, "live_permission")]
    assert sim.state.live_permissions == {"act": {"a": "deny"}}
    refold(sim)


async def test_a_ruling_makes_a_call_that_is_not_made_yet_a_question() -> None:
    sim = await Simulation.begin(ruled(), asks("act"))
    await sim.settle()
    sim.launch()
    await sim.land(("a#1", 1))
    await command(sim, "ask")
    await sim.run()
    assert sim.asked().tool == "act"
    await sim.answer("approve")
    await sim.run()
    assert sim.state.status == "completed"
    assert ("a#1", 2, 1) in sim.made
    refold(sim)


async def test_a_ruling_lifts_what_the_definition_says_and_gives_a_tool() -> None:
    agents = {"a": {"prompt": "p", "tools": ["read"]}, "b": {"prompt": "p"}}
    never = {"tool": "act", "do": "never"}
    plan = plan_of(["a", "b"], agents=agents, tools=TOOLS, rules=[never])
    sim = await Simulation.begin(plan, asks("act"))
    await command(sim, "allow")
    assert "act" in sim.engine.tools_of(AgentName("a"))
    await sim.run()
    assert ("a#1", 2, 1) in sim.made
    assert denied(sim) == []
    refold(sim)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"tool": "akt", "agent": "a", "do": "deny"}, "there is no tool 'akt'"),
        ({"tool": "act", "agent": "c", "do": "deny"}, "there is no agent 'c'"),
        ({"tool": "act"}, "exactly one of `agents` and `do`"),
        ({"tool": "act", "agents": [], "do": "deny", "agent": "a"}, "exactly one"),
        ({"tool": "act", "do": "deny"}, "`agent` goes with `do`"),
        ({"tool": "act", "agent": "a", "do": "maybe"}, "do"),
    ],
)
async def test_a_ruling_that_cannot_be_is_refused(said: dict[str, Any], message: str) -> None:
    sim = await Simulation.begin(ruled(), asks("act"))
    incoming = await sim.command("set_permission", **said)
    assert isinstance(incoming.error, CommandRejected)
    assert message in str(incoming.error)
    assert sim.state.live_permissions == {}

"""The matrix of agents and tools: what it tells is what the engine decides, with every rule."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.model import GraphPolicy
from crewlog.ids import AgentName, ToolName
from crewlog.reporting.permission_matrix.builder import (
    PermissionView,
    agents_in,
    cell,
    cells,
    plan_tools,
    remote_agents,
    run_context_of,
    with_quota_use,
)
from graph.crews import plan_of
from graph.simulation import RandomScript, Replies, Simulation, dice, random_plan, says

TOOLS = {name: {"run": "m:f"} for name in ("read", "act", "send")}
AGENTS = {"a": {"tools": ["read", "act"]}, "b": {"tools": ["read", "send"]}}


async def begun(**more: Any) -> Simulation:
    return await Simulation.begin(plan_of(["a", "b"], AGENTS, tools=TOOLS, **more))


def of(sim: Simulation, agent: str, tool: str) -> PermissionView:
    return cell(sim.engine, AgentName(agent), ToolName(tool), checks=True)


def decided(found: PermissionView) -> list[str]:
    return [check.rule for check in found.checks if check.decides]


async def test_who_lives_in_another_run_has_no_cell_here() -> None:
    sim = await begun()
    policy = GraphPolicy(away={"b": "elsewhere"})
    plan = sim.engine.plan.model_copy(update={"graph": policy})
    assert (agents_in(plan), remote_agents(plan)) == (("a",), {"b": "elsewhere"})
    found, total = cells(run_context_of(plan, sim.state))
    assert {each.agent for each in found} == {"a"}
    assert total == len(found) == 3
    assert cells(run_context_of(plan, sim.state), ["b"]) == ((), 0)


async def test_every_cell_with_its_reason() -> None:
    sim = await begun(permissions={"send": []}, approvals={"act": None})
    found, total = cells(sim.engine)
    assert total == len(found) == 6
    told = {(c.agent, c.tool): (c.outcome, c.rule, c.has_tool) for c in found}
    assert told[AgentName("a"), ToolName("read")] == ("allow", "", True)
    assert told[AgentName("a"), ToolName("act")] == ("ask", "approvals", True)
    assert told[AgentName("a"), ToolName("send")] == ("deny", "tools", False)
    assert told[AgentName("b"), ToolName("send")] == ("deny", "permissions", True)
    assert all(c.reason and not c.checks for c in found)


async def test_a_risk_that_asks_is_named_as_the_definition_does() -> None:
    tools = {**TOOLS, "act": {"run": "m:f", "risk": "high"}}
    agents = {**AGENTS, "b": {"tools": ["act"], "parent": "a"}}
    plan = plan_of(["a", "b"], agents, tools=tools, interrupts={"approve_risk": "high"})
    sim = await Simulation.begin(plan)
    for agent in "ab":
        found = of(sim, agent, "act")
        assert (found.outcome, found.rule) == ("ask", "interrupts.approve_risk")
        assert decided(found) == ["interrupts.approve_risk"]
        assert found.reason.startswith("interrupts.approve_risk says that people are asked")
        assert all(not check.text.startswith("approvals") for check in found.checks)
    await sim.command("set_permission", tool="act", agent="b", do="allow")
    found = of(sim, "b", "act")
    assert (found.outcome, found.rule) == ("ask", "parent")
    assert "may not do more: interrupts.approve_risk says that" in found.reason


async def test_pages_and_filters() -> None:
    sim = await begun()
    whole, total = cells(sim.engine)
    pages = [cells(sim.engine, after=n, limit=2)[0] for n in range(0, total, 2)]
    assert tuple(c for page in pages for c in page) == whole
    found, total = cells(sim.engine, ["b", "nobody"], ["send"])
    assert [(c.agent, c.tool) for c in found] == [("b", "send")]
    assert total == 1
    assert cells(sim.engine, ["nobody"]) == ((), 0)
    assert cells(sim.engine, after=100) == ((), 6)


async def test_what_decided_is_marked_and_what_does_not_count_is_told() -> None:
    rules = [
        {"tool": "act", "agents": ["a"], "do": "never", "if": "not ready", "reason": "not yet"},
        {"tool": "*", "do": "ask", "agents": ["group:all"]},
    ]
    sim = await begun(rules=rules, groups={"all": ["a"]}, flags={"ready": False})
    found = of(sim, "a", "act")
    assert (found.outcome, found.rule, found.may_change) == ("deny", "rules[0]", True)
    assert decided(found) == ["rules[0]"]
    await sim.command("edit_state", set={"flags.ready": True})
    found = of(sim, "a", "act")
    assert (found.outcome, decided(found)) == ("ask", ["rules[1]"])
    (aside,) = [check for check in found.checks if check.rule == "rules[0]"]
    assert not aside.applies
    assert "does not hold now" in aside.text


async def test_a_ruling_says_who_made_it_and_stands_in_the_definitions_place() -> None:
    sim = await begun(permissions={"act": []})
    assert of(sim, "a", "act").live_permission is None
    await sim.command("set_permission", tool="act", agent="a", do="allow", by="ana", reason="busy")
    found = of(sim, "a", "act")
    assert (found.outcome, found.rule) == ("allow", "live_permission")
    assert decided(found) == ["live_permission"]
    assert found.live_permission is not None
    assert (
        found.live_permission.do,
        found.live_permission.agent,
        found.live_permission.by,
        found.live_permission.reason,
    ) == (
        "allow",
        "a",
        "ana",
        "busy",
    )
    assert found.live_permission.position == sim.state.position
    assert [check.applies for check in found.checks if check.rule == "permissions"] == [False]
    await sim.command("set_permission", tool="read", agent="*", do="deny", by="ben")
    for agent in "ab":
        made = of(sim, agent, "read").live_permission
        assert made is not None
        assert (made.agent, made.by) == ("*", "ben")
    await sim.command("set_permission", tool="read", agent="*", do="inherit")
    assert of(sim, "a", "read").live_permission is None
    await sim.command("set_permission", tool="send", agents=[], by="eve")
    made = of(sim, "b", "send").live_permission
    assert made is not None
    assert (made.do, made.by) == ("permission", "eve")


async def test_what_is_left_of_a_quota() -> None:
    rules = [{"tool": ["read", "act"], "quota": "2 per run"}, {"tool": "act", "quota": "9 per day"}]
    sim = await begun(rules=rules)
    (quota,) = of(sim, "a", "read").quotas
    assert (quota.rule, quota.used_calls, quota.remaining_calls) == ("rules[0]", 0, 2)
    assert [q.remaining_calls for q in of(sim, "a", "act").quotas] == [2, None]
    script = Replies({"a#1": [says("", "read", "read")]})
    sim = await (
        await Simulation.begin(plan_of(["a"], AGENTS, tools=TOOLS, rules=rules), script)
    ).run()
    found = of(sim, "a", "read")
    assert (found.outcome, found.rule, decided(found)) == ("deny", "rules[0]", ["rules[0]"])
    assert [q.remaining_calls for q in found.quotas] == [0]


async def test_what_the_store_says_of_a_day_is_left_and_refuses_where_nothing_is() -> None:
    rules = [{"tool": "act", "quota": "9 per day"}, {"tool": "act", "do": "ask"}]
    sim = await begun(rules=rules)
    found = of(sim, "a", "act")
    (quota,) = found.quotas
    assert (quota.crew, quota.zone) == (sim.engine.plan.crew, "UTC")
    assert with_quota_use(found, {}) == found
    other = quota.model_copy(update={"crew": "other"})
    some = with_quota_use(found, {quota: 7, other: 9})
    assert (some.outcome, some.quotas[0].used_calls, some.quotas[0].remaining_calls) == (
        "ask",
        7,
        2,
    )
    assert decided(some) == ["rules[1]"]
    assert [
        check.text.endswith(": 2 left") for check in some.checks if check.rule == "rules[0]"
    ] == [True]
    full = with_quota_use(found, {quota: 9})
    assert (full.outcome, full.rule, decided(full)) == ("deny", "rules[0]", ["rules[0]"])
    assert "9 per day over all runs" in full.reason
    never = of(await begun(rules=[*rules, {"tool": "act", "do": "never"}]), "a", "act")
    assert with_quota_use(never, {never.quotas[0]: 9}).rule == never.rule == "rules[2]"


async def test_an_agent_that_works_for_another_shows_that_ones_quotas() -> None:
    agents = {"a": {"prompt": "p", "parent": "b"}, "b": {"prompt": "p"}}
    rules = [{"tool": "act", "agents": ["b"], "quota": "9 per day"}]
    plan = plan_of(["a", "b"], agents, tools=TOOLS, rules=rules)
    sim = await Simulation.begin(plan, Replies({}))
    assert [quota.quota for quota in of(sim, "a", "act").quotas] == ["9 per day"]


async def test_an_agent_that_works_for_another() -> None:
    agents = {"a": {"tools": ["read", "act"]}, "b": {"tools": ["read", "send"], "parent": "a"}}
    plan = plan_of(["a", "b"], agents, tools=TOOLS, permissions={"read": ["b"]})
    sim = await Simulation.begin(plan)
    found = of(sim, "b", "send")
    assert (found.outcome, found.rule, decided(found)) == ("deny", "parent", ["parent"])


@pytest.mark.parametrize("seed", range(40))
async def test_it_says_what_the_engine_decides(seed: int) -> None:
    """For random runs and live permissions, live and as they are read from a store."""
    rng = dice(f"matrix/{seed}")
    plan = random_plan(rng)
    sim = await Simulation.begin(plan, RandomScript(plan, seed), seed=seed, people=True)
    for _ in range(12):
        await sim.round()
        tool = rng.choice([*plan.tools, "no_such_tool"])
        agent = rng.choice([*plan.agents, "*"])
        do = rng.choice(["allow", "ask", "deny", "inherit"])
        await sim.command("set_permission", tool=tool, agent=agent, do=do, by="eve")
    engine = sim.engine
    found, _ = cells(engine, checks=True)
    assert len(found) == len(engine.plan.agents) * len(plan_tools(engine.plan))
    for each in found:
        decision = engine.check(each.agent, each.tool)
        assert (each.outcome, each.rule, each.reason) == (
            decision.outcome,
            decision.rule,
            decision.reason,
        )
        if decision.rule:
            assert decided(each) == [decision.rule], each
        if decision.rule == "live_permission":
            assert each.live_permission is not None
            assert each.live_permission.by == "eve"
    stored, _ = cells(run_context_of(engine.plan, sim.state), checks=True)
    assert stored == found

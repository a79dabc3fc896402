"""Builds the cells of the permission matrix, each with its checks.

A plan and a state are enough: the workflow answers for a live run, and the client for an ended run
from the store. `RunContext.check` decides; this module explains its decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from crewlog.authority.permissions import (
    EVERYONE,
    LIVE_PERMISSION,
    Decision,
    Outcome,
    Permission,
    is_approval_required,
    live_permission,
    permission_text,
)
from crewlog.definition.findings import listed
from crewlog.definition.quotas import is_per_run, quota_of
from crewlog.graph.interrupts import reason_fields
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import RunContext
from crewlog.ids import AgentName, RunId, ToolName
from crewlog.state.live_permissions import (
    last_change,
)
from crewlog.state.model import ChangedPermission, ChangeRecord, CrewState
from crewlog.state.recorder import Journal
from crewlog.wire import LivePermissionView, PermissionCheckView, PermissionView, QuotaUseView

APPROVALS = "approvals"
"""The name that the engine gives to an approval, also for a tool with high risk."""


def run_context_of(plan: GraphPlan, state: CrewState) -> RunContext:
    """The context that checks the permissions of a run."""
    return RunContext(plan, Journal(state))


def plan_tools(plan: GraphPlan) -> tuple[ToolName, ...]:
    """The tools that agents of a plan may have: those of the crew, and the built-in ones in use."""
    found = [*plan.tools, *(tool for rules in plan.agents.values() for tool in rules.tools)]
    return tuple(dict.fromkeys(found))


def agents_in(plan: GraphPlan) -> tuple[AgentName, ...]:
    """The agents of the run, without remote agents."""
    return tuple(name for name in plan.agents if name not in plan.away)


def remote_agents(plan: GraphPlan) -> dict[AgentName, RunId]:
    """The remote agents, with their runs."""
    return {AgentName(name): RunId(run) for name, run in plan.away.items() if name in plan.agents}


def cells(
    run: RunContext,
    agents: Sequence[str] = (),
    tools: Sequence[str] = (),
    *,
    after: int = 0,
    limit: int = 1000,
    checks: bool = False,
) -> tuple[tuple[PermissionView, ...], int]:
    """A page of the matrix, row by row.

    Args:
        run: The run.
        agents: The rows; none: all. Other names than those of the agents are ignored.
        tools: The columns; none: all. Other names are ignored likewise.
        after: The number of cells before the page.
        limit: The most cells of the page.
        checks: Whether each cell has its checks.

    Returns:
        The cells, and the number of cells on all pages.
    """
    rows = [name for name in agents_in(run.plan) if not agents or name in agents]
    columns = [name for name in plan_tools(run.plan) if not tools or name in tools]
    total = len(rows) * len(columns)
    places = range(min(after, total), min(after + limit, total))
    found = (divmod(place, len(columns)) for place in places)
    return tuple(cell(run, rows[r], columns[c], checks=checks) for r, c in found), total


def cell(
    run: RunContext, agent: AgentName, tool: ToolName, *, checks: bool = False
) -> PermissionView:
    """Whether an agent may call a tool now, and why."""
    decision = _decision(run, agent, tool)
    rules = run.plan.agents[agent]
    made = _live_permission(run, agent, tool)
    ruled = made is not None and made.do != "permission"
    covering = [rule for rule in run.plan.checks if rule.covers(agent, tool)]
    # The calls of an agent count in the quotas of its parent agents, too.
    counting = [rule for each in (agent, *rules.within) for rule in _quotas(run, each, tool)]
    quotas = [_quota_view(run, rule) for rule in {rule.place: rule for rule in counting}.values()]
    return PermissionView(
        agent=agent,
        tool=tool,
        outcome=decision.outcome,
        reason=decision.reason,
        rule=decision.rule,
        has_tool=tool in rules.tools,
        live_permission=made,
        may_change=any(rule.when is not None and (rule.quota or not ruled) for rule in covering),
        quotas=tuple(quotas),
        checks=tuple(_mark_deciding(_checks(run, agent, tool), decision.rule)) if checks else (),
    )


def _as_written(run: RunContext, tool: ToolName, decision: Decision) -> Decision:
    """The decision with the key of the definition that asks: `approvals`, or that of the risk."""
    if decision.rule != APPROVALS:
        return decision
    rules = run.plan.tools.get(tool)
    risk = rules.risk if rules is not None else "low"
    fields = reason_fields(decision, "", risk, run.plan.interrupts.approve_risk)
    return decision.model_copy(update={"reason": fields["reason"], "rule": fields["rule"]})


def _decision(run: RunContext, agent: AgentName, tool: ToolName) -> Decision:
    """The decision of the engine, with the key of the definition that decided."""
    decision = run.check(agent, tool)
    if decision.rule != "parent":
        return _as_written(run, tool, decision)
    for parent in run.plan.agents[agent].within:
        above = run.check(parent, tool)
        if decision.reason.endswith(above.reason):
            head = decision.reason.removesuffix(above.reason)
            reason = f"{head}{_as_written(run, tool, above).reason}"
            return decision.model_copy(update={"reason": reason})
    return decision


def _quotas(run: RunContext, agent: str, tool: str) -> list[Permission]:
    return [
        rule
        for rule in run.plan.checks
        if rule.quota and rule.covers(agent, tool) and (rule.when is None or run.holds(rule.when))
    ]


def _quota_view(run: RunContext, rule: Permission) -> QuotaUseView:
    view = QuotaUseView(rule=rule.path, quota=rule.quota, key=rule.key)
    if is_per_run(rule.quota):
        return _with_use(view, run.state.quotas.get(rule.key, 0))
    return view.model_copy(update=vars(run.quota_counter(rule)))


def _with_use(view: QuotaUseView, used: int) -> QuotaUseView:
    left = max(0, quota_of(view.quota).most - used)
    return view.model_copy(update={"used_calls": used, "remaining_calls": left})


def with_quota_use(cell: PermissionView, used: Mapping[QuotaUseView, int]) -> PermissionView:
    """A cell with the use of its quotas over several runs; one that is used up denies the call.

    Args:
        cell: The cell, as the run built it.
        used: The number of calls that are counted now, by quota.
    """
    quotas = tuple(_with_use(q, used[q]) if q in used else q for q in cell.quotas)
    counted = {now.rule: now for q, now in zip(cell.quotas, quotas, strict=True) if q in used}
    checks = tuple(
        check.model_copy(
            update={"text": f"{check.text}: {counted[check.rule].remaining_calls} left"}
        )
        if check.rule in counted and check.applies
        else check
        for check in cell.checks
    )
    found = cell.model_copy(update={"quotas": quotas, "checks": checks})
    full = next((quota for quota in counted.values() if quota.remaining_calls == 0), None)
    if full is None or cell.outcome == "deny":
        return found
    decided = tuple(
        check.model_copy(update={"outcome": "deny", "decides": True})
        if check.rule == full.rule
        else check.model_copy(update={"decides": False})
        for check in checks
    )
    reason = f"{full.rule} is used up: at most {full.quota} over all runs of the crew"
    return found.model_copy(
        update={"outcome": "deny", "reason": reason, "rule": full.rule, "checks": decided}
    )


def _live_permission(run: RunContext, agent: str, tool: str) -> LivePermissionView | None:
    state = run.state
    row = state.live_permissions.get(tool, {})
    offered = run.plan.agents[AgentName(agent)].tools
    ruled = live_permission(
        agent, tool, agent_tools=offered, live_permissions=state.live_permissions
    )
    if ruled is not None:
        name = agent if agent in row else EVERYONE
        made = last_change(state, ChangedPermission(tool=tool, agent=name, do=ruled))
        return _with_change(LivePermissionView(do=ruled, agent=name), made)
    if state.tool_permissions.get(tool) != run.plan.permissions.get(ToolName(tool)):
        agents = state.tool_permissions.get(tool)
        made = last_change(state, ChangedPermission(tool=tool, agents=agents))
        return _with_change(LivePermissionView(do="permission"), made)
    return None


def _with_change(view: LivePermissionView, change: ChangeRecord | None) -> LivePermissionView:
    if change is None:
        return view
    return view.model_copy(
        update={
            "by": change.by,
            "at": change.at,
            "position": change.position,
            "reason": change.reason,
        }
    )


# -- checks ------------------------------------------------------------------------------


def _checks(run: RunContext, agent: AgentName, tool: ToolName) -> Iterator[PermissionCheckView]:
    """The checks, in their order."""
    rules = run.plan.agents[agent]
    ruled = live_permission(
        agent, tool, agent_tools=rules.tools, live_permissions=run.state.live_permissions
    )
    free = ruled is None  # a live permission replaces those of the definition
    if tool in rules.tools:
        yield PermissionCheckView(
            rule="tools", text=f"{tool} is among the tools of {agent}", applies=free
        )
    else:
        says = f"{tool} is not among the tools of {agent}"
        yield PermissionCheckView(rule="tools", text=says, outcome="deny", applies=free)
    yield _permission_table_check(run, agent, tool, applies=free)
    for rule in run.plan.checks:
        if rule.covers(agent, tool):
            yield from _permission_checks(run, rule, free=free)
    if is_approval_required(agent, tool, run.plan.approvals):
        asked = Decision(outcome="ask", allowed=True, reason="", rule=APPROVALS)
        key = _as_written(run, tool, asked).rule
        says = f"{key}: each call of {tool} by {agent} needs an approval"
        yield PermissionCheckView(rule=key, text=says, outcome="ask", applies=free)
    else:
        yield PermissionCheckView(rule=APPROVALS, text=f"approvals do not name {tool} for {agent}")
    if ruled is not None:
        name = agent if agent in run.state.live_permissions.get(tool, {}) else "every agent"
        says = f"a live permission sets {ruled} for {name} and {tool}; it replaces the definition"
        yield PermissionCheckView(rule=LIVE_PERMISSION, text=says, outcome=ruled)
    for parent in rules.within:
        above = _decision(run, parent, tool)
        says = f"{agent} works for {parent}, and may never more: {above.reason}"
        yield PermissionCheckView(rule="parent", text=says, outcome=above.outcome)


def _permission_table_check(
    run: RunContext, agent: str, tool: str, *, applies: bool
) -> PermissionCheckView:
    allowed = run.state.tool_permissions.get(tool)
    if allowed is None:
        says = f"permissions leave {tool} to every agent that has it"
        return PermissionCheckView(rule="permissions", text=says, applies=applies)
    says = f"permissions let {listed(allowed) if allowed else 'nobody'} call {tool}"
    outcome: Literal["deny", ""] = "" if agent in allowed else "deny"
    return PermissionCheckView(rule="permissions", text=says, outcome=outcome, applies=applies)


def _permission_checks(
    run: RunContext, rule: Permission, *, free: bool
) -> Iterator[PermissionCheckView]:
    """The check of a permission; its quota applies also to a live permission."""
    holds = rule.when is None or run.holds(rule.when)
    says = f"{permission_text(rule)}{f' ({rule.reason})' if rule.reason else ''}"
    if not holds:
        yield PermissionCheckView(
            rule=rule.path, text=f"{says}: that does not hold now", applies=False
        )
        return
    outcome: Outcome | Literal[""] = {"never": "deny", "ask": "ask"}.get(rule.do, "")  # type: ignore[assignment]
    if rule.do == "always" and not rule.quota:
        outcome = "allow"
    if rule.quota:
        counted = _quota_view(run, rule)
        full = counted.remaining_calls == 0
        if counted.remaining_calls is not None:
            says = f"{says}: {counted.remaining_calls} left"
        yield PermissionCheckView(
            rule=rule.path,
            text=says,
            outcome="deny" if full else outcome,
            applies=free or full or not outcome,
        )
        return
    yield PermissionCheckView(rule=rule.path, text=says, outcome=outcome, applies=free)


def _mark_deciding(
    checks: Iterator[PermissionCheckView], rule: str
) -> Iterator[PermissionCheckView]:
    """The checks; the one that decided is marked."""
    marked = False
    for check in checks:
        decides = not marked and check.applies and bool(check.outcome) and check.rule == rule
        marked = marked or decides
        yield check.model_copy(update={"decides": True}) if decides else check

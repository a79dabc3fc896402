"""Authorization of tool calls and outputs: the permissions of a definition and of a live run.

`definition_permissions` resolves the groups and names of a definition's rules. People may set live
permissions for tool calls while a run lives; for one agent and tool the last one counts. A live
permission for all agents also removes milder ones of single agents, but keeps stricter ones: who
denies a tool to everyone means everyone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import model_validator

from crewlog.definition.conditions import Condition, render_condition
from crewlog.definition.counting import quota_key
from crewlog.definition.findings import listed
from crewlog.definition.interrupting import approvals_of
from crewlog.definition.model import EVERY_TOOL, ConditionText, Counted, CrewDefinition, Rule
from crewlog.definition.quotas import Quota, is_per_run, quota_of
from crewlog.definition.rule_checks import members
from crewlog.model import Model

EVERY_CREW_HAS = frozenset({"set_flag", "set_output"})
"""Tools that `"*"` does not cover: the agent declares what they may set."""

# Every execution carries these, so their fields are short.


class Permission(Model):
    """A rule of the definition, as the plan has it."""

    place: int
    """The index of the rule in the definition, from 0."""
    tools: tuple[str, ...] = ()
    """The tools; empty: all tools of the crew."""
    agents: tuple[str, ...] | None = None
    """The agents; null: all."""
    do: Literal["always", "never", "ask"] = "always"
    when: ConditionText | None = None
    """The condition under which it applies."""
    quota: str = ""
    """`5 per run`; empty: calls are not counted."""
    key: str = ""
    """The name of the quota. It depends on tools, agents, condition and period, not on the limit
    or the index of the rule."""
    reason: str = ""
    """The reason, for people and the model."""
    counted: Counted | None = None
    """The crew in whose quota calls count, if it is another one."""

    def covers(self, agent: str, tool: str) -> bool:
        """Whether it is for calls of a tool by an agent, without regard to its condition."""
        if self.agents is not None and agent not in self.agents:
            return False
        return tool in self.tools if self.tools else tool not in EVERY_CREW_HAS

    @property
    def limit(self) -> Quota | None:
        """The quota."""
        return quota_of(self.quota) if self.quota else None

    @property
    def path(self) -> str:
        """Its path in the definition: `rules[1]`."""
        return f"rules[{self.place}]"

    def describe(self, verb: str) -> str:
        """`rules[1] says never: only on weekdays`, for people and for the model."""
        return f"{self.path} {verb}{f': {self.reason}' if self.reason else ''}"


def definition_permissions(definition: CrewDefinition) -> Iterator[Permission]:
    """The rules of a definition, without those for groups that have no agents."""
    for place, rule in enumerate(definition.rules):
        agents = members(definition, rule.agents)
        if agents != ():
            yield _build_permission(place, rule, agents, quota_key(definition, rule))


def _build_permission(
    place: int, rule: Rule, agents: tuple[str, ...] | None, key: str
) -> Permission:
    tools = () if rule.tool == EVERY_TOOL else tuple(dict.fromkeys(rule.tools))
    counted = rule.counted
    if counted is not None and rule.quota is not None and is_per_run(rule.quota):
        key, counted = counted.key, None
    return Permission(
        place=place,
        tools=tools,
        agents=agents,
        do=rule.do,
        when=rule.if_,
        quota=rule.quota or "",
        key=key,
        reason=_without_full_stop(rule.reason),
        counted=counted,
    )


def _without_full_stop(reason: str) -> str:
    # Messages continue after the reason.
    text = reason.strip()
    return text if text.endswith("..") else text.removesuffix(".")


def permission_text(rule: Permission) -> str:
    """A permission as a sentence: `publish is never called by writer if not approved`."""
    tools = listed(rule.tools) if rule.tools else "every tool"
    verb = "is" if not rule.tools or len(rule.tools) == 1 else "are"
    by = "" if rule.agents is None else f" by {listed(rule.agents)}"
    when = "" if rule.when is None else f" if {render_condition(rule.when)}"
    parts: list[str] = []
    if rule.do == "never":
        parts.append(f"{tools} {verb} never called{by}{when}")
    elif rule.do == "ask":
        parts.append(f"calls of {tools}{by} wait for a person's yes{when}")
    elif not rule.quota:
        parts.append(f"{tools} {verb} called{by} without asking{when}")
    if rule.quota:
        parts.append(f"{tools} {verb} called{by} at most {rule.quota}{when}")
    return "; ".join(parts)


def is_always_asked(definition: CrewDefinition, agent: str, tool: str) -> bool:
    """Whether the definition requires an approval of each such call."""
    agents = approvals_of(definition).get(tool, ())
    if agents is None or agent in agents:
        return True
    return any(
        rule.do == "ask" and rule.if_ is None and is_covered(definition, rule, agent, tool)
        for rule in definition.rules
    )


def is_covered(definition: CrewDefinition, rule: Rule, agent: str, tool: str) -> bool:
    """Whether a rule is for calls of a tool by an agent, without regard to its condition."""
    agents = members(definition, rule.agents)
    if agents is not None and agent not in agents:
        return False
    return tool in rule.tools or (rule.tool == EVERY_TOOL and tool not in EVERY_CREW_HAS)


Outcome = Literal["allow", "ask", "deny"]
"""The result of a check, from the mildest to the strictest."""
LivePermission = Outcome
"""A permission that people set for the calls of a tool by an agent while the run lives."""
LIVE_PERMISSION = "live_permission"
"""`Decision.rule` of a decision by a live permission."""
EVERYONE = "*"
"""Instead of an agent: a live permission for all agents."""
STRICTNESS: Mapping[Outcome, int] = {"allow": 0, "ask": 1, "deny": 2}
"""A larger number is stricter."""


class Decision(Model):
    """The result of a check, with its reason. It goes into the journal."""

    allowed: bool
    """Whether it is permitted; with `ask`, after the approval of a person."""
    reason: str
    """The reason for people, with the rule and its source."""
    outcome: Outcome = "allow"
    """`ask` needs the approval of a person."""
    rule: str = ""
    """What decided, for programs. Of calls: a key of the definition (`tools`, `permissions`,
    `approvals`, `rules[1]`), `live_permission`, `parent`, or `privileged` of group tools; empty if
    nothing restricts the call, and of all that is not a call."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Sets the one of `allowed` and `outcome` that is missing."""
        match data:
            case {"outcome": outcome, **fields}:
                return {**fields, "outcome": outcome, "allowed": outcome != "deny"}
            case {"allowed": allowed, **fields}:
                return {**fields, "allowed": allowed, "outcome": "allow" if allowed else "deny"}
            case _:
                return data


def limit_to_parent(child: Decision, parent: Decision) -> Decision:
    """The stricter of both decisions: an agent never may do more than its parent agent."""
    if STRICTNESS[parent.outcome] <= STRICTNESS[child.outcome]:
        return child
    reason = f"its parent agent may not do more: {parent.reason}"
    return Decision(outcome=parent.outcome, allowed=True, reason=reason, rule="parent")


def authorize_tool(
    agent: str,
    tool: str,
    *,
    agent_tools: Collection[str],
    crew_tools: Collection[str],
    permissions: Mapping[str, tuple[str, ...] | None],
    approvals: Mapping[Any, tuple[str, ...] | None] | None = None,
    rules: Sequence[Permission] = (),
    live_permissions: Mapping[str, Mapping[str, LivePermission]] | None = None,
    holds: Callable[[Condition], bool] | None = None,
    used: Mapping[str, int] | None = None,
    counted: Collection[str] = (),
) -> Decision:
    """Decides whether `agent` may call `tool` now: the strictest permission that applies.

    A live permission for the agent and the tool replaces the permissions of the definition. Quotas
    count in any case, and no live permission adds a tool that the crew does not have.

    Args:
        agent: The caller.
        tool: The tool, as the model wrote it.
        agent_tools: The tools of the agent in the definition.
        crew_tools: All tools of the crew.
        permissions: The agents that may call each tool; null or absent: all, an empty list: nobody.
        approvals: The tools that need an approval, with the agents for which they do; null: all.
        rules: The rules of the definition.
        live_permissions: By tool and agent.
        holds: Whether a condition is true now; None: rules with a condition are ignored.
        used: The number of counted calls of each quota of the run, by key.
        counted: The quotas in which this call is counted already.
    """
    if tool not in crew_tools:
        return _deny(f"there is no tool {tool!r}", "tools")
    applying = [
        rule
        for rule in rules
        if rule.covers(agent, tool)
        and (rule.when is None or (holds is not None and holds(rule.when)))
    ]
    live = live_permission(
        agent, tool, agent_tools=agent_tools, live_permissions=live_permissions or {}
    )
    if live is None:
        decision = _decide_by_definition(
            agent, tool, agent_tools, permissions, approvals or {}, applying
        )
    else:
        decision = _decide_by_live_permission(agent, tool, live)
    if decision.allowed and used is not None:
        refusal = _find_used_up_quota(tool, applying, used, counted)
        if refusal is not None:
            return refusal
    return decision


def live_permission(
    agent: str,
    tool: str,
    *,
    agent_tools: Collection[str],
    live_permissions: Mapping[str, Mapping[str, LivePermission]],
) -> LivePermission | None:
    """The live permission for calls of a tool by an agent: its own, else the one for all agents.

    The one for all agents gives the tool to no agent that does not have it.
    """
    row = live_permissions.get(tool)
    if not row:
        return None
    own = row.get(agent)
    if own is not None:
        return own
    every = row.get(EVERYONE)
    return every if every == "deny" or tool in agent_tools else None


def _decide_by_live_permission(agent: str, tool: str, live: LivePermission) -> Decision:
    reason = {
        "allow": f"people allowed {agent!r} to call {tool!r}",
        "ask": f"people want to be asked before {agent!r} calls {tool!r}",
        "deny": f"people do not let {agent!r} call {tool!r}",
    }[live]
    return Decision(outcome=live, allowed=True, reason=reason, rule=LIVE_PERMISSION)


def _decide_by_definition(
    agent: str,
    tool: str,
    agent_tools: Collection[str],
    permissions: Mapping[str, tuple[str, ...] | None],
    approvals: Mapping[Any, tuple[str, ...] | None],
    applying: Sequence[Permission],
) -> Decision:
    if tool not in agent_tools:
        return _deny(f"{tool!r} is not among the tools of {agent!r}", "tools")
    allowed = permissions.get(tool)
    if allowed is not None and agent not in allowed:
        return _deny(f"permissions do not let {agent!r} call {tool!r}", "permissions")
    for rule in applying:
        if rule.do == "never":
            return _deny(f"{rule.describe('says never')} ({agent!r} calls {tool!r})", rule.path)
    if is_approval_required(agent, tool, approvals):
        reason = f"approvals say that people are asked before {agent!r} calls {tool!r}"
        return Decision(outcome="ask", allowed=True, reason=reason, rule="approvals")
    for rule in applying:
        if rule.do == "ask":
            reason = f"{rule.describe('says ask')} ({agent!r} calls {tool!r})"
            return Decision(outcome="ask", allowed=True, reason=reason, rule=rule.path)
    always = next((rule for rule in applying if not rule.quota), None)
    reason = f"{tool!r} is among the tools of {agent!r}"
    if always is not None:
        reason += f", and {always.describe('says always')}"
    return Decision(allowed=True, reason=reason, rule=always.path if always else "")


def _find_used_up_quota(
    tool: str, applying: Sequence[Permission], used: Mapping[str, int], counted: Collection[str]
) -> Decision | None:
    """The refusal by a quota of the run that is used up; the store checks quotas over runs."""
    for rule in applying:
        limit = rule.limit
        if limit is None or limit.per != "run" or rule.key in counted:
            continue
        if used.get(rule.key, 0) >= limit.most:
            tools = listed(rule.tools) if rule.tools else tool
            reason = f"{rule.describe('is used up')}: {tools} at most {rule.quota}"
            return _deny(reason, rule.path)
    return None


def _deny(reason: str, rule: str) -> Decision:
    return Decision(allowed=False, reason=reason, outcome="deny", rule=rule)


def quota_permissions(
    agent: str,
    tool: str,
    rules: Sequence[Permission],
    holds: Callable[[Condition], bool],
) -> list[Permission]:
    """The rules with a quota in which a call counts now."""
    return [
        rule
        for rule in rules
        if rule.quota and rule.covers(agent, tool) and (rule.when is None or holds(rule.when))
    ]


def is_approval_required(
    agent: str, tool: str, approvals: Mapping[Any, tuple[str, ...] | None]
) -> bool:
    """Whether each call of `tool` by `agent` needs an approval.

    Args:
        agent: The caller.
        tool: The tool.
        approvals: The tools that need an approval, with the agents for which they do; null: all.
    """
    if tool not in approvals:
        return False
    agents = approvals[tool]
    return agents is None or agent in agents


def authorize_output(kind: str, agent: str, name: str, allowed: Collection[str]) -> Decision:
    """Decides whether `agent` may set `name`; `kind` is `flag` or `output`, for the reason."""
    if name in allowed:
        return Decision(allowed=True, reason=f"{agent!r} declares the {kind} {name!r}")
    return Decision(
        allowed=False, reason=f"{agent!r} may not set the {kind} {name!r}: it does not declare it"
    )


LivePermissions = dict[str, dict[str, LivePermission]]


def with_live_permission(
    live_permissions: Mapping[str, Mapping[str, LivePermission]],
    tool: str,
    agent: str,
    do: LivePermission | None,
) -> LivePermissions:
    """Sets a live permission, or removes it without `do`.

    Args:
        live_permissions: The current ones, by tool and agent.
        tool: The tool.
        agent: The agent; `*`: all.
        do: The live permission.
    """
    row: dict[str, LivePermission] = dict(live_permissions.get(tool, {}))
    if agent == EVERYONE and do is not None:
        row = {name: old for name, old in row.items() if STRICTNESS[old] >= STRICTNESS[do]}
    if do is None:
        row.pop(agent, None)
    else:
        row[agent] = do
    return _with_tool(live_permissions, tool, row)


def without_milder_permissions(
    live_permissions: Mapping[str, Mapping[str, LivePermission]],
    tool: str,
    agents: Sequence[str] | None,
) -> LivePermissions:
    """Removes the live permissions of a tool that would allow calls to agents outside a list."""
    row: dict[str, LivePermission] = {
        name: old
        for name, old in live_permissions.get(tool, {}).items()
        if old == "deny" or agents is None or name in agents
    }
    return _with_tool(live_permissions, tool, row)


def _with_tool(
    live_permissions: Mapping[str, Mapping[str, LivePermission]],
    tool: str,
    row: dict[str, LivePermission],
) -> LivePermissions:
    """Replaces the row of one tool; an empty row is left out."""
    found: LivePermissions = {
        name: dict(each) for name, each in live_permissions.items() if name != tool
    }
    if row:
        found[tool] = row
    return found

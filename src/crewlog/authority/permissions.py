"""Who may call which tool, and who may read and write what: decisions with their reasons."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from pydantic import model_validator

from crewlog.authority.rules import Permission
from crewlog.definition.conditions import Condition
from crewlog.definition.findings import listed
from crewlog.model import Model

Outcome = Literal["allow", "ask", "deny"]
"""What comes of a check, from the mildest to the strictest."""
Ruling = Literal["allow", "ask", "deny"]
"""What people said of an agent's calls of a tool while the run lived."""
EVERYONE = "*"
"""In the place of an agent: a ruling for all of them."""
_STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}


class Decision(Model):
    """The outcome of a check; its reason is written for people and goes into the journal."""

    allowed: bool
    """Whether it may be done: with `ask`, once a person has said yes."""
    reason: str
    """Why, with the rule and where that comes from."""
    outcome: Outcome = "allow"
    """`deny` is never done, `ask` waits for people."""
    rule: str = ""
    """What decided: `tools`, `permissions`, `approvals`, `rules[1]`, `ruling`, `parent`; empty
    where nothing speaks against it."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Of `allowed` and `outcome` one follows from the other."""
        if isinstance(data, dict):
            given: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
            if "outcome" not in given and "allowed" in given:
                return {**given, "outcome": "allow" if given["allowed"] else "deny"}
            if "outcome" in given:
                return {**given, "allowed": given["outcome"] != "deny"}
            return given
        return data


def bounded(child: Decision, parent: Decision) -> Decision:
    """What a child may do, which is never more than its parent: the stricter of both."""
    if _STRICTNESS[parent.outcome] <= _STRICTNESS[child.outcome]:
        return child
    reason = f"it works for an agent that may not do more: {parent.reason}"
    return Decision(outcome=parent.outcome, allowed=True, reason=reason, rule="parent")


def authorize_tool(
    agent: str,
    tool: str,
    *,
    offered: Collection[str],
    known: Collection[str],
    permissions: Mapping[str, tuple[str, ...] | None],
    approvals: Mapping[Any, tuple[str, ...] | None] | None = None,
    rules: Sequence[Permission] = (),
    rulings: Mapping[str, Mapping[str, Ruling]] | None = None,
    holds: Callable[[Condition], bool] | None = None,
    used: Mapping[str, int] | None = None,
    counted: Collection[str] = (),
) -> Decision:
    """Whether `agent` may call `tool` now: the strictest of all that is said of it.

    What people ruled of the agent and the tool while the run lived counts in the place of what the
    definition says of them; but quotas count all the same, and no ruling brings a tool that the
    crew does not have.

    Args:
        agent: The caller.
        tool: The tool, as the model spelled it.
        offered: The tools that the agent's definition gives it.
        known: All tools of the crew.
        permissions: The matrix in force: null or absent inherits, an empty list means nobody.
        approvals: The tools that need a person's yes, with the agents that it holds for; null:
            every agent.
        rules: The crew's rules.
        rulings: What people ruled while the run lived, by tool and agent.
        holds: Whether a condition holds now; none: rules that have one are left aside.
        used: How many calls of a run's quotas are used, by the quota's key.
        counted: The quotas that this very call is counted in already.
    """
    if tool not in known:
        return _deny(f"there is no tool {tool!r}", "tools")
    applying = [
        rule
        for rule in rules
        if rule.covers(agent, tool)
        and (rule.when is None or (holds is not None and holds(rule.when)))
    ]
    ruled = live_permission(agent, tool, offered=offered, rulings=rulings or {})
    if ruled is None:
        decision = _defined(agent, tool, offered, permissions, approvals or {}, applying)
    else:
        decision = _ruled(agent, tool, ruled)
    if decision.allowed and used is not None:
        full = _used_up_quota(tool, applying, used, counted)
        if full is not None:
            return full
    return decision


def live_permission(
    agent: str,
    tool: str,
    *,
    offered: Collection[str],
    rulings: Mapping[str, Mapping[str, Ruling]],
) -> Ruling | None:
    """What people ruled of an agent's calls of a tool: its own ruling, else everyone's.

    A ruling for everyone gives the tool to nobody who does not have it.
    """
    row = rulings.get(tool)
    if not row:
        return None
    own = row.get(agent)
    if own is not None:
        return own
    every = row.get(EVERYONE)
    return every if every == "deny" or tool in offered else None


def _ruled(agent: str, tool: str, ruled: Ruling) -> Decision:
    said = {
        "allow": f"people allowed {agent!r} to call {tool!r}",
        "ask": f"people want to be asked before {agent!r} calls {tool!r}",
        "deny": f"people do not let {agent!r} call {tool!r}",
    }[ruled]
    return Decision(outcome=ruled, allowed=True, reason=said, rule="ruling")


def _defined(
    agent: str,
    tool: str,
    offered: Collection[str],
    permissions: Mapping[str, tuple[str, ...] | None],
    approvals: Mapping[Any, tuple[str, ...] | None],
    applying: Sequence[Permission],
) -> Decision:
    """What the definition says, with the matrix in force."""
    if tool not in offered:
        return _deny(f"{tool!r} is not among the tools of {agent!r}", "tools")
    allowed = permissions.get(tool)
    if allowed is not None and agent not in allowed:
        return _deny(f"permissions do not let {agent!r} call {tool!r}", "permissions")
    for rule in applying:
        if rule.do == "never":
            return _deny(f"{rule.told('says never')} ({agent!r} calls {tool!r})", rule.called)
    if is_approval_required(agent, tool, approvals):
        reason = f"approvals say that people are asked before {agent!r} calls {tool!r}"
        return Decision(outcome="ask", allowed=True, reason=reason, rule="approvals")
    for rule in applying:
        if rule.do == "ask":
            reason = f"{rule.told('says ask')} ({agent!r} calls {tool!r})"
            return Decision(outcome="ask", allowed=True, reason=reason, rule=rule.called)
    always = next((rule for rule in applying if not rule.quota), None)
    reason = f"{tool!r} is among the tools of {agent!r}"
    if always is not None:
        reason += f", and {always.told('says always')}"
    return Decision(allowed=True, reason=reason, rule=always.called if always else "")


def _used_up_quota(
    tool: str, applying: Sequence[Permission], used: Mapping[str, int], counted: Collection[str]
) -> Decision | None:
    """The refusal by a run's quota that is used up; quotas over runs are the store's."""
    for rule in applying:
        limit = rule.limit
        if limit is None or limit.per != "run" or rule.key in counted:
            continue
        if used.get(rule.key, 0) >= limit.most:
            of = listed(rule.tools) if rule.tools else tool
            say = f"{rule.told('is used up')}: {of} at most {rule.quota}"
            return _deny(say, rule.called)
    return None


def _deny(reason: str, rule: str) -> Decision:
    return Decision(allowed=False, reason=reason, outcome="deny", rule=rule)


def quota_permissions(
    agent: str,
    tool: str,
    rules: Sequence[Permission],
    holds: Callable[[Condition], bool],
) -> list[Permission]:
    """The rules by which a call is counted now."""
    return [
        rule
        for rule in rules
        if rule.quota and rule.covers(agent, tool) and (rule.when is None or holds(rule.when))
    ]


def is_approval_required(
    agent: str, tool: str, approvals: Mapping[Any, tuple[str, ...] | None]
) -> bool:
    """Whether a person must say yes to each call that `agent` makes of `tool`.

    Args:
        agent: The caller.
        tool: The tool.
        approvals: The tools that need it, with the agents that it holds for; null: every agent.
    """
    if tool not in approvals:
        return False
    held = approvals[tool]
    return held is None or agent in held


def authorize_output(kind: str, agent: str, name: str, allowed: Collection[str]) -> Decision:
    """Whether `agent` may set the flag or output `name`; `kind` says which for the reason."""
    if name in allowed:
        return Decision(allowed=True, reason=f"{agent!r} declares the {kind} {name!r}")
    return Decision(
        allowed=False, reason=f"{agent!r} may not set the {kind} {name!r}: it does not declare it"
    )

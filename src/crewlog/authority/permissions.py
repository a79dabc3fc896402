"""Who may call which tool, and who may read and write what: decisions with their reasons.

Rules over calls as the engine keeps them: a definition's, with groups and names put in place.

What people rule of tool calls while a run lives, one ruling after the other.

Of two rulings the later one counts. A ruling for everyone also takes away what is milder among the
rulings for single agents: who switches a tool off means it. What is stricter stays.
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
"""Tools that `"*"` does not mean: what they may set is said by the agent itself."""

# Kept short: this is data that every execution carries.


class Permission(Model):
    """A rule of the crew, as a plan has it."""

    place: int
    """Which of the definition's rules, from 0."""
    tools: tuple[str, ...] = ()
    """The tools; none: every tool of the crew."""
    agents: tuple[str, ...] | None = None
    """The agents; null: every one."""
    do: Literal["always", "never", "ask"] = "always"
    when: ConditionText | None = None
    """It applies where this holds."""
    quota: str = ""
    """`5 per run`; empty: calls are not counted."""
    key: str = ""
    """The quota's name: the same for the same tools, agents, condition and window, however many
    calls it allows and wherever it stands."""
    reason: str = ""
    """Why, for people and the model."""
    counted: Counted | None = None
    """Where calls are counted, where that is not the run's own crew."""

    def covers(self, agent: str, tool: str) -> bool:
        """Whether it is about calls of a tool by an agent, whatever its condition."""
        if self.agents is not None and agent not in self.agents:
            return False
        return tool in self.tools if self.tools else tool not in EVERY_CREW_HAS

    @property
    def limit(self) -> Quota | None:
        """Its quota."""
        return quota_of(self.quota) if self.quota else None

    @property
    def called(self) -> str:
        """Its place in the definition: `rules[1]`."""
        return f"rules[{self.place}]"

    def told(self, verb: str) -> str:
        """`rules[1] says never: only on weekdays`, for people and for the model."""
        return f"{self.called} {verb}{f': {self.reason}' if self.reason else ''}"


def rules_of(definition: CrewDefinition) -> Iterator[Permission]:
    """A definition's rules; those of groups without agents are about nobody, and left out."""
    for place, rule in enumerate(definition.rules):
        named = members(definition, rule.agents)
        if named != ():
            yield _kept(place, rule, named, quota_key(definition, rule))


def _kept(place: int, rule: Rule, named: tuple[str, ...] | None, key: str) -> Permission:
    tools = () if rule.tool == EVERY_TOOL else tuple(dict.fromkeys(rule.tools))
    counted = rule.counted
    if counted is not None and rule.quota is not None and is_per_run(rule.quota):
        key, counted = counted.key, None
    return Permission(
        place=place,
        tools=tools,
        agents=named,
        do=rule.do,
        when=rule.if_,
        quota=rule.quota or "",
        key=key,
        reason=_clause(rule.reason),
        counted=counted,
    )


def _clause(reason: str) -> str:
    """A reason without its full stop: in a message, more words come after it."""
    text = reason.strip()
    return text if text.endswith("..") else text.removesuffix(".")


def permission_text(rule: Permission) -> str:
    """The rule as a sentence: `publish is never called by writer if not approved`."""
    tools = listed(rule.tools) if rule.tools else "every tool"
    many = not rule.tools or len(rule.tools) == 1
    by = "" if rule.agents is None else f" by {listed(rule.agents)}"
    when = "" if rule.when is None else f" if {render_condition(rule.when)}"
    parts: list[str] = []
    if rule.do == "never":
        parts.append(f"{tools} {'is' if many else 'are'} never called{by}{when}")
    elif rule.do == "ask":
        parts.append(f"calls of {tools}{by} wait for a person's yes{when}")
    elif not rule.quota:
        parts.append(f"{tools} {'is' if many else 'are'} called{by} without asking{when}")
    if rule.quota:
        parts.append(f"{tools} {'is' if many else 'are'} called{by} at most {rule.quota}{when}")
    return "; ".join(parts)


def is_always_asked(definition: CrewDefinition, agent: str, tool: str) -> bool:
    """Whether the definition alone says that people are asked before each such call."""
    named = approvals_of(definition).get(tool, ())
    if named is None or agent in named:
        return True
    return any(
        rule.do == "ask" and rule.if_ is None and is_covered(definition, rule, agent, tool)
        for rule in definition.rules
    )


def is_covered(definition: CrewDefinition, rule: Rule, agent: str, tool: str) -> bool:
    """Whether a rule is about calls of a tool by an agent, whatever its condition."""
    named = members(definition, rule.agents)
    if named is not None and agent not in named:
        return False
    return tool in rule.tools or (rule.tool == EVERY_TOOL and tool not in EVERY_CREW_HAS)


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


Rulings = dict[str, dict[str, Ruling]]
STRICTNESS: Mapping[Ruling, int] = {"allow": 0, "ask": 1, "deny": 2}
"""Of two rulings the larger one lets less happen."""


def with_live_permission(
    rulings: Mapping[str, Mapping[str, Ruling]], tool: str, agent: str, do: Ruling | None
) -> Rulings:
    """The rulings once one more is made; without `do` it is taken back.

    Args:
        rulings: Those in force, by tool and agent.
        tool: The tool.
        agent: The agent; `*`: every one.
        do: What is ruled.
    """
    row: dict[str, Ruling] = dict(rulings.get(tool, {}))
    if agent == EVERYONE and do is not None:
        row = {who: was for who, was in row.items() if STRICTNESS[was] >= STRICTNESS[do]}
    if do is None:
        row.pop(agent, None)
    else:
        row[agent] = do
    return _with(rulings, tool, row)


def without_milder_permissions(
    rulings: Mapping[str, Mapping[str, Ruling]], tool: str, agents: Sequence[str] | None
) -> Rulings:
    """The rulings once people have said who may call a tool: nobody else keeps a milder one."""
    row: dict[str, Ruling] = {
        who: was
        for who, was in rulings.get(tool, {}).items()
        if was == "deny" or agents is None or who in agents
    }
    return _with(rulings, tool, row)


def _with(
    rulings: Mapping[str, Mapping[str, Ruling]], tool: str, row: dict[str, Ruling]
) -> Rulings:
    """All rulings with those of one tool; a tool without any is left out."""
    found: Rulings = {name: dict(each) for name, each in rulings.items() if name != tool}
    if row:
        found[tool] = row
    return found

"""Rules over calls as the engine keeps them: a definition's, with groups and names put in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from crewlog.definition.conditions import render_condition
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

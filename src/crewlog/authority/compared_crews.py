"""Two definitions of a crew, and what each says as a whole of calls, models, errors and conditions.

Definitions are compared leaf by leaf, with builders and patterns expanded. An agent that only one
of them has is `NEW_AGENT` in the other one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.conditions import ConditionNames, condition_names
from crewlog.definition.context_checks import summary_models
from crewlog.definition.diff import Change, diff
from crewlog.definition.expand import expand
from crewlog.definition.model import (
    GROUP_TOOLS,
    AgentDefinition,
    AgentPhase,
    AskPhase,
    CrewDefinition,
    DecisionPhase,
    RoutePhase,
)
from crewlog.definition.phases import ASK_HUMAN, PhaseItem, phases
from crewlog.definition.unused import conditions_of
from crewlog.json_diff import is_same

NEW_AGENT = AgentDefinition(prompt="-", tools=())
"""An agent that may do what the right `change` permits a new agent."""


FAILURES = ("continue", "ask", "fail")
"""Policies for failures, from the mildest on; a stand-in is as mild as `continue`."""
BAD_REPLIES = ("accept", "retry", "ask", "fail")
"""Policies for bad replies, from the mildest on."""
_LEVEL_OF_NEW_AGENTS = 1
"""`NEW_AGENT` has `ask` and `retry`."""


class ComparedCrews:
    """Two definitions of a crew.

    Args:
        old: The definition before.
        new: The definition after.
    """

    def __init__(self, old: CrewDefinition, new: CrewDefinition) -> None:
        self._old, self._new = old, new

    @cached_property
    def old(self) -> CrewDefinition:
        """The definition before, expanded."""
        return expand(self._old).definition

    @cached_property
    def new(self) -> CrewDefinition:
        """The definition after, expanded."""
        return expand(self._new).definition

    @cached_property
    def leaves(self) -> tuple[Change, ...]:
        """The paths at which they differ, with both values."""
        names = tuple(dict.fromkeys((*self.new.agents, *self.old.agents)))
        old, new = _comparable(self.old, names), _comparable(self.new, names)
        return tuple(
            each
            for each in diff(old, new).changes
            if each.kind != "changed" or not is_same(each.old, each.new)
        )

    @cached_property
    def is_flow_guarded(self) -> bool:
        """Whether the old flow decides about people's answers or about the conditions of rules."""
        return asks_people(self.old) or any(rule.if_ is not None for rule in self.old.rules)

    @cached_property
    def deciding_names(self) -> ConditionNames:
        """What the conditions of the old rules read, and those of an old flow that asks people."""
        conditions = [rule.if_ for rule in self.old.rules if rule.if_ is not None]
        if asks_people(self.old):
            for phase in phases(self.old):
                conditions += conditions_of(phase).values()
        return condition_names(conditions)

    def adds_calls(self, name: str) -> bool:
        """Whether an agent or a tool has a call that it did not have, or had only with approval."""
        return any(name in call for call in self._more_calls)

    @cached_property
    def _more_calls(self) -> set[tuple[str, str]]:
        old = _calls(self.old)
        return {call for call, level in _calls(self.new).items() if old.get(call, 0) < level}

    @cached_property
    def adds_models(self) -> bool:
        """Whether the new crew uses a model that the old one did not use."""
        return not _models(self.new) <= _models(self.old)

    def has_milder_errors(self, agent: str = "") -> bool:
        """Whether the run continues, or asks, after errors after which it asked, or failed.

        Args:
            agent: The agent; empty: any.
        """
        old, new = _error_levels(self.old), _error_levels(self.new)
        return any(
            level < old.get(key, _LEVEL_OF_NEW_AGENTS)
            for key, level in new.items()
            if agent in ("", key[0])
        )

    def without_old(self, agent: str) -> ComparedCrews:
        """The comparison if the old crew did not have an agent."""
        others = {name: each for name, each in self.old.agents.items() if name != agent}
        return ComparedCrews(self.old.model_copy(update={"agents": others}), self.new)

    def sets_the_same(self, agent: str) -> bool:
        """Whether an agent may set the same of the values that deciding conditions read."""
        return self._settable(self.old, agent) == self._settable(self.new, agent)

    def _settable(self, crew: CrewDefinition, name: str) -> set[tuple[str, ...]]:
        agent = crew.agents.get(name)
        if agent is None or not agent.enabled:
            return set()
        outputs = {(name, key) for key in outputs_of(agent)} & self.deciding_names.outputs
        return {(flag,) for flag in {*agent.writes_flags} & self.deciding_names.flags} | outputs


def asks_people(crew: CrewDefinition) -> bool:
    """Whether the flow of an expanded definition asks people anything."""
    return any(_is_question(phase.item) for phase in phases(crew))


def _is_question(item: PhaseItem) -> bool:
    match item:
        case DecisionPhase():
            return item.otherwise == ASK_HUMAN
        case RoutePhase():
            return ASK_HUMAN in (item.otherwise, item.else_used_up)
        case _:
            return isinstance(item, AskPhase)


def _comparable(crew: CrewDefinition, names: Iterable[str]) -> CrewDefinition:
    """A crew with the agents of both crews, and with some defaults resolved."""
    agents = {name: _with_shares(crew.agents.get(name, NEW_AGENT)) for name in names}
    tools = {n: tool.model_copy(update={"retry": tool.repeat}) for n, tool in crew.tools.items()}
    return crew.model_copy(update={"agents": agents, "tools": tools})


def _with_shares(agent: AgentDefinition) -> AgentDefinition:
    return agent.model_copy(update={"shares": agent.writes}) if agent.shares is None else agent


def _calls(crew: CrewDefinition) -> dict[tuple[str, str], int]:
    """The calls that agents may make: 1 with the approval of people, 2 without."""
    found: dict[tuple[str, str], int] = {}
    for name, agent in crew.agents.items():
        for tool in crew.callable_tools:
            allowed, approvals = crew.permissions.get(tool), crew.approvals.get(tool, ())
            if agent.tools is not None and tool not in agent.tools:
                continue
            if tool in GROUP_TOOLS and tool not in crew.tools and not crew.is_privileged(name):
                continue
            if allowed is None or name in allowed:
                found[name, tool] = 1 if approvals is None or name in approvals else 2
    return found


def _models(crew: CrewDefinition) -> set[str | None]:
    own = {agent.model or crew.model for agent in crew.agents.values()}
    return own | {crew.model} | {model for model, _ in summary_models(crew)}


def _error_levels(crew: CrewDefinition) -> dict[tuple[str, str], int]:
    """How strict each agent's mildest policies for failures and bad replies are."""
    found: dict[tuple[str, str], int] = {}
    for name, agent in crew.agents.items():
        found[name, "failure"] = FAILURES.index(agent.on_error.failure)
        found[name, "bad_reply"] = BAD_REPLIES.index(agent.on_error.bad_reply)
    for phase in phases(crew):
        item = phase.item
        if isinstance(item, AgentPhase) and item.on_error is not None:
            level = FAILURES.index(item.on_error) if item.on_error in FAILURES else 0
            for name in item.agents:
                found[name, "failure"] = min(found.get((name, "failure"), level), level)
    return found

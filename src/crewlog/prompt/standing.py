"""Rules and groups that stand, whatever a prompt says: its registry's, and those that people wrote.

A prompt can narrow what an agent may do, and never widen it: it cannot take back a rule. So those
of its registry are put into every crew that is made of one, and those of the crew that a prompt
changes stay, as far as their agents and tools are still there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from crewlog.authority.permissions import Permission, definition_permissions, permission_text
from crewlog.definition.findings import Finding
from crewlog.definition.model import EVERY_TOOL, GROUP, CrewDefinition, LogDefinition, Rule

CHANNEL = "channel:"
"""What the log of an agent is called in a crew that has groups: there, `group:G` is a group's."""
Groups = Mapping[str, Sequence[str]]


def with_standing(crew: CrewDefinition, groups: Groups, rules: Sequence[Rule]) -> CrewDefinition:
    """The crew with what stands: what it has already is not said twice.

    A group of the crew that has the same name gets the other's agents, too: what holds for a group
    then holds for more agents, and never for fewer.

    Args:
        crew: The crew.
        groups: The groups.
        rules: The rules.
    """
    kept = [rule for rule in (_within(rule, crew) for rule in rules) if rule is not None]
    named = {
        name.removeprefix(GROUP)
        for rule in kept
        for name in rule.agents or ()
        if name.startswith(GROUP)
    }
    joined = {**crew.groups}
    for name, agents in groups.items():
        there = tuple(agent for agent in agents if agent in crew.agents)
        if there or name in named:
            joined[name] = tuple(dict.fromkeys((*joined.get(name, ()), *there)))
    # First, so that their places are those of the definition that they come from.
    more = (*kept, *(rule for rule in crew.rules if rule not in kept))
    return crew.model_copy(update={"groups": joined, "rules": more})


def with_channels(crew: CrewDefinition) -> CrewDefinition:
    """The crew with a channel for each agent whose work only some see, in the place of `group:A`.

    In a crew without groups `group:A` is for those who list it; where groups come, it is theirs.
    """
    own = {n: f"{GROUP}{n}" for n, agent in crew.agents.items() if agent.writes == (f"{GROUP}{n}",)}
    own = {name: log for name, log in own.items() if name not in crew.groups}
    if not own:
        return crew
    instead = {log: f"{CHANNEL}{name}" for name, log in own.items()}
    agents = {
        name: agent.model_copy(
            update={
                "reads": tuple(instead.get(log, log) for log in agent.reads),
                "writes": tuple(instead.get(log, log) for log in agent.writes),
            }
        )
        for name, agent in crew.agents.items()
    }
    logs = {
        name: LogDefinition(
            readers=tuple(n for n, agent in crew.agents.items() if log in agent.reads),
            writers=(name,),
        )
        for name, log in own.items()
    }
    return crew.model_copy(update={"agents": agents, "logs": {**logs, **crew.logs}})


def _within(rule: Rule, crew: CrewDefinition) -> Rule | None:
    """A rule as far as it is about a crew; none where it is about nothing in it."""
    update: dict[str, object] = {}
    if rule.tool != EVERY_TOOL:
        tools = tuple(tool for tool in rule.tools if tool in crew.callable_tools)
        if not tools:
            return None
        update["tool"] = tools[0] if len(tools) == 1 else tools
    if rule.agents is not None:
        agents = tuple(a for a in rule.agents if a.startswith(GROUP) or a in crew.agents)
        if not agents:
            return None
        update["agents"] = agents
    if all(getattr(rule, key) == value for key, value in update.items()):
        return rule
    return rule.model_copy(update=update)


def not_standing(crew: CrewDefinition, groups: Groups, rules: Sequence[Rule]) -> Iterator[Finding]:
    """Rules that stand, and that a crew lacks after an edit.

    Args:
        crew: The crew.
        groups: The groups of what stands.
        rules: The rules.
    """
    bare = crew.model_copy(update={"groups": {}, "rules": ()})
    has = {_said(rule) for rule in definition_permissions(crew)}
    wants = with_standing(bare, groups, rules)
    for rule in definition_permissions(wants):
        if not any(_covers(each, _said(rule)) for each in has):
            say = f"the registry has the rule that {permission_text(rule)}"
            yield Finding(("rules",), say, "Leave it as it was compiled: rules can only be added.")


_Said = tuple[tuple[str, ...], tuple[str, ...] | None, str, str, str]


def _said(rule: Permission) -> _Said:
    data = rule.to_json()
    agents = None if rule.agents is None else tuple(sorted(rule.agents))
    return tuple(sorted(rule.tools)), agents, rule.do, str(data.get("when", "")), rule.quota


def _covers(has: _Said, wanted: _Said) -> bool:
    """Whether a rule says what another one does, of the same agents or of more."""
    if has[0] != wanted[0] or has[2:] != wanted[2:]:
        return False
    return has[1] is None or (wanted[1] is not None and set(wanted[1]) <= set(has[1]))

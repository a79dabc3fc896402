"""What a command touches in a run: see `TOUCHES` in `crewlog.authority.rights`.

The right to operate a run does not include the rights to grant and to answer. So a command is
judged by what it names and by the state: not by what may follow from it. A state that is restored
is compared with the present one, value by value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from crewlog.authority.permissions import STRICTNESS, LivePermission
from crewlog.authority.rights import Touch
from crewlog.definition.conditions import (
    Condition,
    ConditionNames,
    condition_names,
    parse_condition,
)
from crewlog.graph.plan import ASK_HUMAN, GraphPlan, PlanNode
from crewlog.ids import AgentName, FlagName, NodeName, StepId
from crewlog.state.edits import FLAGS, OUTPUTS, path_parts
from crewlog.state.model import CrewState

ToolPermissions = Mapping[str, tuple[AgentName, ...] | None]
"""The agents that may call each tool; null: all that have it."""
_READS = "the condition of a permission reads"


def edit_touches(plan: GraphPlan, now: CrewState, paths: Collection[str]) -> Iterator[Touch]:
    """What the edit of values touches.

    Args:
        plan: The run's plan.
        now: The run's state.
        paths: The edited paths: `flags.closed`, `outputs.writer.ready`.
    """
    for path in _matching_paths(permission_condition_names(plan), paths):
        yield Touch(kind="permission condition", text=f"{path}, which {_READS}")
    for path in _matching_paths(_flow_names(plan), paths):
        yield Touch(kind="flow", text=f"{path}, which the flow that asks people reads or sets")
    for interrupt in now.interrupts.values():
        step = now.frontier.get(interrupt.step) if interrupt.step is not None else None
        node = plan.nodes.get(step.node) if step is not None else None
        if interrupt.kind == "requirement" and node is not None and node.when is not None:
            for path in _matching_paths(condition_names([node.when]), paths):
                yield Touch(kind="requirement", text=f"{path}, which {interrupt.id} asks about")


def redirect_touches(plan: GraphPlan, now: CrewState, step: StepId | None) -> Iterator[Touch]:
    """What a redirect touches.

    Args:
        plan: The run's plan.
        now: The run's state.
        step: The step that it ends; none: the only one.
    """
    if any(map(_asks, plan.nodes.values())):
        yield Touch(kind="place", text="the place of the run in a flow that asks people")
    steps = [each for each, entry in now.frontier.items() if not entry.parent]
    step = step or (steps[0] if len(steps) == 1 else None)
    for interrupt in now.interrupts.values():
        entry = now.frontier.get(interrupt.step) if interrupt.step is not None else None
        if step and entry is not None and entry.parent_or_self == step:
            text = f"{step}, which asks {interrupt.id} ({interrupt.kind})"
            yield Touch(kind="interrupt", text=text)


def restore_touches(
    names: ConditionNames, plan: GraphPlan, now: CrewState, then: CrewState, *, moves: bool = True
) -> Iterator[Touch]:
    """What it touches to continue from another state: the differences of both states.

    Args:
        names: What the conditions of the permissions in force read: `permission_condition_names`.
        plan: The plan of the other state.
        now: The run's state, or its last one.
        then: The other state.
        moves: Whether the run gets the place in the flow that it had there.
    """
    for name in _changed_values(names, now, then):
        yield Touch(kind="permission condition", text=f"{name}, which {_READS}")
    # People are asked again.
    taken_back = {flag for flag in _answers(plan) if then.flags.get(flag) == plan.flags.get(flag)}
    again = _agents_again(plan, now, then)
    set_again = {flag for agent in again for flag in plan.agents[agent].flags}
    names = _flow_names(plan)
    names = ConditionNames(
        names.flags - taken_back - set_again,
        frozenset(output for output in names.outputs if output[0] not in again),
    )
    for name in _changed_values(names, now, then):
        yield Touch(kind="flow", text=f"{name}, which the flow that asks people reads or sets")
    for name, node in plan.nodes.items() if moves else ():
        if _is_passed(name, node, then):
            yield Touch(kind="place", text=f"the place of the run behind {name}, which asks people")
    yield from permission_touches(now.tool_permissions, then.tool_permissions, plan.agents)


def permission_touches(
    now: ToolPermissions, then: ToolPermissions, agents: Iterable[AgentName]
) -> Iterator[Touch]:
    """The tools that agents may call in another state and not now, by `set_permission`.

    Args:
        now: The agents that may call each tool now; null or absent: all agents that have it.
        then: The same in the other state.
        agents: The agents in the other state.
    """
    for agent in agents:
        for tool in sorted(now):
            if _may_use(then, tool, agent) and not _may_use(now, tool, agent):
                text = f"agent {agent} may call {tool}, which is forbidden now"
                yield Touch(kind="live permission", text=text)


def live_permission_touches(now: CrewState, then: CrewState) -> Iterator[Touch]:
    """The live permissions of agents that are milder in another state than now.

    Args:
        now: The run's last state.
        then: The other state.
    """
    for tool in sorted({*now.live_permissions, *then.live_permissions}):
        before, after = (each.live_permissions.get(tool, {}) for each in (now, then))
        for agent in sorted({*before, *after}):
            if _strictness(after.get(agent)) < _strictness(before.get(agent)):
                text = f"agent {agent} may call {tool}, for which people set {before.get(agent)}"
                yield Touch(kind="live permission", text=text)


def _strictness(permission: LivePermission | None) -> float:
    """How strict a live permission is; without one, the definition decides."""
    return STRICTNESS["allow"] + 0.5 if permission is None else STRICTNESS[permission]


def _may_use(permissions: ToolPermissions, tool: str, agent: AgentName) -> bool:
    agents = permissions.get(tool)
    return agents is None or agent in agents


def other_people_asked(plan: GraphPlan, now: CrewState, principal: str) -> tuple[str, ...]:
    """The people of the first question of the flow that a principal may not answer; else empty.

    Args:
        plan: The run's plan.
        now: The run's state.
        principal: The principal who gives the command.
    """
    recipients = (each.to for each in now.interrupts.values() if each.kind == "ask")
    others = (to for to in (plan.interrupts.people, *recipients) if to and principal not in to)
    return next(others, ())


def permission_condition_names(plan: GraphPlan) -> ConditionNames:
    """The flags and outputs that the conditions of permissions read."""
    return condition_names(rule.when for rule in plan.checks if rule.when is not None)


def _flow_names(plan: GraphPlan) -> ConditionNames:
    """What the conditions of a flow that asks people read, and what answers set.

    That includes lists whose items name their agents: people approve them as parts of a plan.
    """
    if not any(map(_asks, plan.nodes.values())):
        return condition_names(())
    conditions: list[Condition | None] = []
    for node in plan.nodes.values():
        conditions += [node.when, node.only_if, node.decide.when if node.decide else None]
        conditions += [node.route.reads if node.route else None]
        # The path `agent.output` parses as a condition.
        conditions += [parse_condition(node.for_each) if node.by and node.for_each else None]
    names = condition_names(each for each in conditions if each is not None)
    return names._replace(flags=names.flags | _answers(plan))


def _answers(plan: GraphPlan) -> frozenset[FlagName]:
    """The flags that answers set."""
    asks = (node.ask for node in plan.nodes.values() if node.ask is not None)
    return frozenset(ask.sets for ask in asks if ask.sets is not None)


def _asks(node: PlanNode) -> bool:
    decide, route = node.decide, node.route
    return (
        node.ask is not None
        or (decide is not None and decide.otherwise == ASK_HUMAN)
        or (route is not None and ASK_HUMAN in (route.otherwise, route.used_up))
    )


def _is_passed(name: NodeName, node: PlanNode, state: CrewState) -> bool:
    """Whether people may have answered a question of the flow."""
    if not _asks(node):
        return False
    if node.decide is not None:
        return state.routing.loops.get(name, 0) >= (node.decide.at_most or 0)
    return _is_completed(name, state)


def _is_completed(name: NodeName, state: CrewState) -> bool:
    """Whether a step of a node is over."""
    waiting = sum(entry.node == name for entry in state.frontier.values())
    return state.visits.get(name, 0) > waiting


def _agents_again(plan: GraphPlan, now: CrewState, then: CrewState) -> set[AgentName]:
    """The agents that have taken their first turn since: they take it again, and set values."""
    nodes = plan.nodes.items()
    before = {a for name, node in nodes if _is_completed(name, then) for a in node.agents}
    return {a for name, node in nodes if now.visits.get(name) for a in node.agents} - before


def _matching_paths(names: ConditionNames, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        kind, owner, name = path_parts(path)
        is_flag = kind == FLAGS and name in names.flags
        if is_flag or (kind == OUTPUTS and (owner, name) in names.outputs):
            yield path


def _changed_values(names: ConditionNames, now: CrewState, then: CrewState) -> Iterator[str]:
    """The flags and outputs whose values differ in two states."""
    for name in sorted(names.flags):
        if now.flags.get(FlagName(name)) != then.flags.get(FlagName(name)):
            yield f"flags.{name}"
    for agent, key in sorted(names.outputs):
        of_now, of_then = (s.agent_outputs.get(AgentName(agent), {}).get(key) for s in (now, then))
        if of_now != of_then:
            yield f"outputs.{agent}.{key}"

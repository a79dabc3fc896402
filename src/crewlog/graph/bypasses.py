"""Commands that would bypass permissions or people: state edits, redirects and rollbacks.

The right to operate a run does not include the rights to grant and to answer. So these commands
need a further right where they change what the condition of a permission reads, set the flag of a
question, avoid a question, or reuse an earlier answer. `crewlog.graph.guards` finds the questions.

Every function yields the bypasses of a command as texts for its error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crewlog.definition.conditions import (
    Condition,
    ConditionNames,
    Fact,
    condition_names,
    holds,
    parse_condition,
)
from crewlog.definition.model import ConditionText
from crewlog.graph.guards import PlanGuards
from crewlog.graph.plan import ASK_HUMAN, GraphPlan
from crewlog.ids import AgentName, FlagName, NodeName, StepId
from crewlog.state.edits import FLAGS, OUTPUTS, path_parts
from crewlog.state.model import CrewState, Interrupt


def permission_condition_names(plan: GraphPlan) -> ConditionNames:
    """The flags and outputs that the conditions of permissions read."""
    return condition_names(rule.when for rule in plan.checks if rule.when is not None)


def permission_condition_edits(plan: GraphPlan, paths: Iterable[str]) -> Iterator[str]:
    """Edited paths that the condition of a permission reads.

    Args:
        plan: The run's plan.
        paths: The edited paths: `flags.closed`, `outputs.writer.ready`.
    """
    names = permission_condition_names(plan)
    for path in _matching_paths(names, paths):
        yield f"{path}, which the condition of a permission reads"


def flow_condition_edits(plan: GraphPlan, paths: Iterable[str]) -> Iterator[str]:
    """Edited paths that a flow with questions reads.

    They decide whether a question is asked, and what its answer leads to: also the agents of items,
    which are part of a plan that people approve.

    Args:
        plan: The run's plan.
        paths: The edited paths.
    """
    has_question = False
    conditions: list[ConditionText | None] = []
    for node in plan.nodes.values():
        decide = node.decide
        has_question = (
            has_question
            or node.ask is not None
            or (decide is not None and decide.otherwise == ASK_HUMAN)
            or (node.route is not None and ASK_HUMAN in (node.route.otherwise, node.route.used_up))
        )
        conditions += [node.when, node.only_if, decide.when if decide is not None else None]
        conditions += [node.route.reads if node.route is not None else None]
        # A list whose items name their agents: its path `agent.output` parses as a condition.
        conditions += [parse_condition(node.for_each) if node.by and node.for_each else None]
    if not has_question:
        return
    names = condition_names(each for each in conditions if each is not None)
    for path in _matching_paths(names, paths):
        yield f"{path}, which the flow that asks people reads"


def _matching_paths(names: ConditionNames, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        kind, owner, name = path_parts(path)
        is_flag = kind == FLAGS and name in names.flags
        if is_flag or (kind == OUTPUTS and (owner, name) in names.outputs):
            yield path


def answer_output(interrupt: Interrupt, decision: str) -> FlagName | None:
    """The flag that an answer to a requirement sets; none if it sets none."""
    if interrupt.kind != "requirement" or interrupt.step is None:
        return None
    if decision in ("skip", "again", "stop"):
        return None
    condition = parse_condition(interrupt.detail)
    if isinstance(condition, Fact) and condition.operator is None:
        return FlagName(condition.name)
    return None


def answer_edits(plan: GraphPlan, paths: Iterable[str]) -> Iterator[str]:
    """Edited paths that the answer to a question sets."""
    sets = PlanGuards(plan).answers
    for path in paths:
        kind, _, name = path_parts(path)
        if kind == FLAGS and FlagName(name) in sets:
            yield f"{path}, which the answer to {sets[FlagName(name)]} sets"


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


def restored_permission_conditions(
    names: ConditionNames, now: CrewState, then: CrewState
) -> Iterator[str]:
    """Values that a rollback changes and that the conditions of permissions read.

    Args:
        names: What the conditions read.
        now: The run's state, or its last one.
        then: The state to restore.
    """
    for name in _changed_values(names, now, then):
        yield f"it restores {name}, which the condition of a permission reads"


def restored_answers(plan: GraphPlan, now: CrewState, then: CrewState) -> Iterator[str]:
    """Answers of people that a rollback restores and that have changed since."""
    for flag, node in PlanGuards(plan).answers.items():
        value = then.flags.get(flag)
        if value not in (plan.flags.get(flag), now.flags.get(flag)):
            yield f"it restores the answer to {node} ({flag})"


def redirected_step(now: CrewState, step: StepId | None) -> StepId | None:
    """The step that a redirect ends; none if the redirect names none and several run."""
    steps = [each for each, entry in now.frontier.items() if not entry.parent]
    return step or (steps[0] if len(steps) == 1 else None)


def interrupts_of_step(now: CrewState, step: StepId | None) -> list[str]:
    """The open interrupts of a step and of its child steps."""
    return [
        f"{interrupt.id} ({interrupt.kind})"
        for interrupt in now.interrupts.values()
        if step
        and interrupt.step is not None
        and (entry := now.frontier.get(interrupt.step)) is not None
        and entry.parent_or_self == step
    ]


def is_behind_question(plan: GraphPlan, node: NodeName) -> bool:
    """Whether every path to a node leads through a question of the flow.

    A join is reached without a question if enough of its sources are.
    """
    questions = frozenset(name for name, each in plan.nodes.items() if each.ask is not None)
    return node in PlanGuards(plan).behind(questions)


def redirect_bypasses(plan: GraphPlan, now: CrewState, node: NodeName) -> Iterator[str]:
    """The guards that a redirect to a node bypasses.

    Args:
        plan: The run's plan.
        now: The run's state.
        node: The target of the redirect.
    """
    guards = PlanGuards(plan)
    is_question = node in plan.nodes and plan.nodes[node].ask is not None
    if not is_question and node in guards.behind(guards.guards()):
        yield node
    for name in sorted(guards.unguarded([node], now.routing) - {node}):
        if now.visits.get(name):
            yield f"{node}, from where {_reuse_text(name)}"


def requirement_edits(plan: GraphPlan, now: CrewState, paths: Iterable[str]) -> Iterator[str]:
    """Edited paths that a requirement reads about which people are asked.

    Args:
        plan: The run's plan.
        now: The run's state.
        paths: The edited paths.
    """
    for interrupt in now.interrupts.values():
        step = now.frontier.get(interrupt.step) if interrupt.step is not None else None
        node = plan.nodes.get(step.node) if step is not None else None
        if interrupt.kind == "requirement" and node is not None and node.when is not None:
            for path in _matching_paths(condition_names([node.when]), paths):
                yield f"{path}, which {interrupt.id} asks about"


def reused_answers(plan: GraphPlan, now: CrewState | None, then: CrewState) -> Iterator[str]:
    """Nodes that run again after a rollback, by an answer from before the checkpoint.

    Args:
        plan: The plan at the checkpoint.
        now: The run's state; none for a new run from the checkpoint.
        then: The state to restore.
    """
    start = {entry.node for entry in then.frontier.values() if not entry.is_detached}
    for name in sorted(PlanGuards(plan).unguarded(start, then.routing)):
        node = plan.nodes[name]
        if node.ask is not None and name in start and _holds(node.only_if, then):
            continue  # people are asked at once
        if now is None or _has_run_since(name, now, then):
            yield _reuse_text(name)


def restored_guard_conditions(plan: GraphPlan, now: CrewState, then: CrewState) -> Iterator[str]:
    """Values that a rollback changes and that decide whether people are asked.

    Except for those that an agent may set again before people are asked.

    Args:
        plan: The plan at the checkpoint.
        now: The run's state, or its last one.
        then: The state to restore.
    """
    guards = PlanGuards(plan)
    names = guards.names()
    start = {entry.node for entry in then.frontier.values() if not entry.is_detached}
    before_guards = guards.nodes_before_guards(start, then.routing)
    agents = {agent for name in before_guards for agent in plan.nodes[name].agents}
    own_flags = {flag for agent in agents for flag in plan.agents[agent].flags}
    flags = {*map(FlagName, names.flags)} - {*guards.answers} - own_flags
    outputs = {(owner, key) for owner, key in names.outputs if owner not in agents}
    for name in _changed_values(ConditionNames(frozenset(flags), frozenset(outputs)), now, then):
        yield f"it restores {name}, which decides whether people are asked"


def _reuse_text(name: NodeName) -> str:
    return f"{name} runs again by an earlier answer"


def _has_run_since(name: NodeName, now: CrewState, then: CrewState) -> bool:
    """Whether a step of a node has started since."""
    if now.visits.get(name, 0) > then.visits.get(name, 0):
        return True
    steps = (step for step, entry in then.frontier.items() if entry.node == name)
    entries = [now.frontier.get(step) for step in steps]
    return any(
        each is None or each.turn is not None or each.child_steps is not None for each in entries
    )


def _holds(condition: Condition | None, state: CrewState) -> bool:
    values = {
        agent: {key: output.value for key, output in outputs.items()}
        for agent, outputs in state.agent_outputs.items()
    }
    return condition is None or holds(condition, state.flags, values)


def _changed_values(names: ConditionNames, now: CrewState, then: CrewState) -> Iterator[str]:
    """The flags and outputs whose values differ in the two states."""
    for name in sorted(names.flags):
        if now.flags.get(FlagName(name)) != then.flags.get(FlagName(name)):
            yield f"the flag {name}"
    for agent, key in sorted(names.outputs):
        of_now, of_then = (s.agent_outputs.get(AgentName(agent), {}).get(key) for s in (now, then))
        if of_now != of_then:
            yield f"{agent}.{key}"

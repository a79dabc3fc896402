"""What a live run's state decides: the conditions of rules, and what people have answered.

Who steers a run may edit its state, send it elsewhere, and take it back. None of that may lift a
rule or be an answer to a question: an edit of what the condition of a rule reads gives somebody
leave to call, and the flag that a question sets says what people said. Nor may it keep people from
being asked, or use again what they said once: `crewlog.graph.guards` says where a flow asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crewlog.authority.guards import ConditionNames, condition_names
from crewlog.definition.conditions import Condition, Fact, holds, parse_condition
from crewlog.definition.model import ConditionText
from crewlog.graph.guards import PlanGuards
from crewlog.graph.plan import ASK_HUMAN, GraphPlan
from crewlog.ids import AgentName, FlagName, NodeName, StepId
from crewlog.state.edits import FLAGS, OUTPUTS, path_parts
from crewlog.state.model import CrewState, Interrupt


def permission_condition_names(plan: GraphPlan) -> ConditionNames:
    """The flags and outputs that the conditions of a crew's rules read."""
    return condition_names(rule.when for rule in plan.checks if rule.when is not None)


def permission_condition_edits(plan: GraphPlan, paths: Iterable[str]) -> Iterator[str]:
    """Paths of an edit that the condition of a rule reads, in words.

    Args:
        plan: The run's.
        paths: What is edited: `flags.closed`, `outputs.writer.ready`.
    """
    read = permission_condition_names(plan)
    yield from (f"{path}, which the condition of a rule reads" for path in _read(read, paths))


def flow_condition_edits(plan: GraphPlan, paths: Iterable[str]) -> Iterator[str]:
    """Paths of an edit by which a flow goes that asks people, in words.

    They say whether a question is asked at all, and what comes of its answer: also who works on
    what, where a plan says that which people have approved.

    Args:
        plan: The run's.
        paths: What is edited.
    """
    asks = False
    conditions: list[ConditionText | None] = []
    for node in plan.nodes.values():
        decide = node.decide
        asks = (
            asks
            or node.ask is not None
            or (decide is not None and decide.otherwise == ASK_HUMAN)
            or (node.route is not None and ASK_HUMAN in (node.route.otherwise, node.route.used_up))
        )
        conditions += [node.when, node.only_if, decide.when if decide is not None else None]
        conditions += [node.route.reads if node.route is not None else None]
        # A list of items that name their agents; `agent.output` is a condition as it stands.
        conditions += [parse_condition(node.for_each) if node.by and node.for_each else None]
    if not asks:
        return
    read = condition_names(each for each in conditions if each is not None)
    yield from (f"{path}, which the flow that asks people reads" for path in _read(read, paths))


def _read(names: ConditionNames, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        kind, owner, name = path_parts(path)
        if _reads(names, kind, owner, name):
            yield path


def answer_output(asked: Interrupt, decision: str) -> FlagName | None:
    """The flag that an answer to a requirement sets; none where it sets none."""
    if asked.kind != "requirement" or asked.step is None or decision in ("skip", "again", "stop"):
        return None
    condition = parse_condition(asked.detail)
    if isinstance(condition, Fact) and condition.operator is None:
        return FlagName(condition.name)
    return None


def answer_edits(plan: GraphPlan, paths: Iterable[str]) -> Iterator[str]:
    """Paths of an edit that the answer to a question sets, in words."""
    sets = PlanGuards(plan).answers
    for path in paths:
        kind, _, name = path_parts(path)
        if kind == FLAGS and FlagName(name) in sets:
            yield f"{path}, which the answer to {sets[FlagName(name)]} sets"


def other_people_asked(plan: GraphPlan, now: CrewState, who: str) -> tuple[str, ...]:
    """Whom the flow's questions are asked of, where somebody is not among them; else empty.

    Args:
        plan: The run's.
        now: The run as it is.
        who: A principal.
    """
    asked = (each.to for each in now.interrupts.values() if each.kind == "ask")
    others = (to for to in (plan.interrupts.people, *asked) if to and who not in to)
    return next(others, ())


def restored_permission_conditions(
    read: ConditionNames, now: CrewState, then: CrewState
) -> Iterator[str]:
    """What the conditions of rules read, and what is otherwise where a run goes back to.

    Args:
        read: What they read.
        now: The run as it is, or was at last.
        then: What it goes back to.
    """
    for name in _changed_values(read, now, then):
        yield f"{name} is what it was there, and the condition of a rule reads it"


def restored_answers(plan: GraphPlan, now: CrewState, then: CrewState) -> Iterator[str]:
    """Answers of people that hold where a run goes back to, and which are other ones by now."""
    for flag, node in PlanGuards(plan).answers.items():
        value = then.flags.get(flag)
        if value not in (plan.flags.get(flag), now.flags.get(flag)):
            yield f"the answer to {node} ({flag}) is what it was there"


def redirected_step(now: CrewState, step: StepId | None) -> StepId | None:
    """The step whose place a redirect takes; none where it says none, and that is not clear."""
    steps = [each for each, entry in now.frontier.items() if not entry.parent]
    return step or (steps[0] if len(steps) == 1 else None)


def interrupts_of_step(now: CrewState, step: StepId | None) -> list[str]:
    """The questions that a step waits for, in words."""
    return [
        f"{asked.id} ({asked.kind})"
        for asked in now.interrupts.values()
        if step
        and asked.step is not None
        and (entry := now.frontier.get(asked.step)) is not None
        and entry.parent_or_self == step
    ]


def is_behind_question(plan: GraphPlan, node: NodeName) -> bool:
    """Whether every way to a node leads through a question of the crew's flow.

    What waits for several nodes is reached without a question where enough of them are.
    """
    asks = frozenset(name for name, each in plan.nodes.items() if each.ask is not None)
    return node in PlanGuards(plan).behind(asks)


def redirect_bypasses(plan: GraphPlan, now: CrewState, node: NodeName) -> Iterator[str]:
    """By what a redirect to a node goes past what people decide, in words.

    Args:
        plan: The run's.
        now: The run as it is.
        node: Where it is sent.
    """
    asking = PlanGuards(plan)
    asks = node in plan.nodes and plan.nodes[node].ask is not None
    if not asks and node in asking.behind(asking.deciding()):
        yield node
    for name in sorted(asking.unasked([node], now.routing) - {node}):
        if now.visits.get(name):
            yield f"{node}, from where {_reuse_text(name)}"


def requirement_edits(plan: GraphPlan, now: CrewState, paths: Iterable[str]) -> Iterator[str]:
    """Paths of an edit that people are being asked about, in words: requirements read them.

    Args:
        plan: The run's.
        now: The run as it is.
        paths: What is edited.
    """
    for asked in now.interrupts.values():
        step = now.frontier.get(asked.step) if asked.step is not None else None
        node = plan.nodes.get(step.node) if step is not None else None
        if asked.kind == "requirement" and node is not None and node.when is not None:
            read = condition_names([node.when])
            yield from (f"{path}, which {asked.id} asks about" for path in _read(read, paths))


def reused_answers(plan: GraphPlan, now: CrewState | None, then: CrewState) -> Iterator[str]:
    """What comes once more where a run goes back to, by an answer that people gave before it.

    Args:
        plan: The plan that the run had there.
        now: The run as it is; none for another run, which begins there.
        then: What it goes back to.
    """
    begin = {entry.node for entry in then.frontier.values() if not entry.is_detached}
    for name in sorted(PlanGuards(plan).unasked(begin, then.routing)):
        node = plan.nodes[name]
        if node.ask is not None and name in begin and _holds(node.only_if, then):
            continue  # people are asked at once
        if now is None or _begun(name, now, then):
            yield _reuse_text(name)


def restored_guard_conditions(plan: GraphPlan, now: CrewState, then: CrewState) -> Iterator[str]:
    """What decides whether people are asked, and is otherwise where a run goes back to.

    What an agent may set whose turn comes before that is the crew's to say anew.

    Args:
        plan: The plan that the run had there.
        now: The run as it is, or was at last.
        then: What it goes back to.
    """
    asking = PlanGuards(plan)
    read = asking.names()
    begin = {entry.node for entry in then.frontier.values() if not entry.is_detached}
    ahead = asking.nodes_before_guards(begin, then.routing)
    agents = {agent for name in ahead for agent in plan.nodes[name].agents}
    set_anew = {flag for agent in agents for flag in plan.agents[agent].flags}
    flags = {*map(FlagName, read.flags)} - {*asking.answers} - set_anew
    outputs = {(owner, key) for owner, key in read.outputs if owner not in agents}
    for name in _changed_values(ConditionNames(frozenset(flags), frozenset(outputs)), now, then):
        yield f"{name} is what it was there, and decides whether people are asked"


def _reuse_text(name: NodeName) -> str:
    return f"{name} comes once more by an answer that was given before"


def _begun(name: NodeName, now: CrewState, then: CrewState) -> bool:
    """Whether a node was visited since, or what had not begun there has by now."""
    if now.visits.get(name, 0) > then.visits.get(name, 0):
        return True
    steps = (step for step, entry in then.frontier.items() if entry.node == name)
    found = [now.frontier.get(step) for step in steps]
    return any(
        each is None or each.turn is not None or each.child_steps is not None for each in found
    )


def _holds(condition: Condition | None, state: CrewState) -> bool:
    outputs = {
        agent: {key: output.value for key, output in found.items()}
        for agent, found in state.agent_outputs.items()
    }
    return condition is None or holds(condition, state.flags, outputs)


def _reads(read: ConditionNames, kind: str, owner: str, name: str) -> bool:
    return (kind == FLAGS and name in read.flags) or (
        kind == OUTPUTS and (owner, name) in read.outputs
    )


def _changed_values(read: ConditionNames, now: CrewState, then: CrewState) -> Iterator[str]:
    """Names of what has another value in one state than in the other."""
    for name in sorted(read.flags):
        if now.flags.get(FlagName(name)) != then.flags.get(FlagName(name)):
            yield f"the flag {name}"
    for agent, key in sorted(read.outputs):
        of_now, of_then = (s.agent_outputs.get(AgentName(agent), {}).get(key) for s in (now, then))
        if of_now != of_then:
            yield f"{agent}.{key}"

"""What a live run's state decides: the conditions of rules, and what people have answered.

Who steers a run may edit its state, send it elsewhere, and take it back. None of that may lift a
rule or be an answer to a question: an edit of what the condition of a rule reads gives somebody
leave to call, and the flag that a question sets says what people said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crewlog.authority.guards import Names, names_in
from crewlog.definition.conditions import Fact, parse_condition
from crewlog.definition.model import ConditionText
from crewlog.graph.plan import ASK_HUMAN, GraphPlan, PlanNode
from crewlog.ids import AgentName, FlagName, NodeName, StepId, item_of, visit_of
from crewlog.state.edited import FLAGS, OUTPUTS, split_path
from crewlog.state.model import CrewState, Interrupt


def rule_names(plan: GraphPlan) -> Names:
    """The flags and outputs that the conditions of a crew's rules read."""
    return names_in(rule.when for rule in plan.checks if rule.when is not None)


def lifting(plan: GraphPlan, paths: Iterable[str]) -> Iterator[str]:
    """Paths of an edit that the condition of a rule reads, in words.

    Args:
        plan: The run's.
        paths: What is edited: `flags.closed`, `outputs.writer.ready`.
    """
    read = rule_names(plan)
    yield from (f"{path}, which the condition of a rule reads" for path in _read(read, paths))


def leading(plan: GraphPlan, paths: Iterable[str]) -> Iterator[str]:
    """Paths of an edit by which a flow goes that asks people, in words.

    They say whether a question is asked at all, and what comes of its answer.

    Args:
        plan: The run's.
        paths: What is edited.
    """
    asks = False
    conditions: list[ConditionText | None] = []
    for node in plan.nodes.values():
        decide = node.decide
        asks = (
            asks or node.ask is not None or (decide is not None and decide.otherwise == ASK_HUMAN)
        )
        conditions += [node.when, node.only_if, decide.when if decide is not None else None]
    if not asks:
        return
    read = names_in(each for each in conditions if each is not None)
    yield from (f"{path}, which the flow that asks people reads" for path in _read(read, paths))


def _read(names: Names, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        kind, owner, name = split_path(path)
        if (kind == FLAGS and name in names.flags) or (
            kind == OUTPUTS and (owner, name) in names.outputs
        ):
            yield path


def set_by(asked: Interrupt, decision: str) -> FlagName | None:
    """The flag that an answer to a requirement sets; none where it sets none."""
    if asked.kind != "requirement" or asked.step is None or decision in ("skip", "again", "stop"):
        return None
    condition = parse_condition(asked.detail)
    if isinstance(condition, Fact) and condition.operator is None:
        return FlagName(condition.name)
    return None


def answering(plan: GraphPlan, paths: Iterable[str]) -> Iterator[str]:
    """Paths of an edit that the answer to a question sets, in words."""
    sets = _answers(plan)
    for path in paths:
        kind, _, name = split_path(path)
        if kind == FLAGS and FlagName(name) in sets:
            yield f"{path}, which the answer to {sets[FlagName(name)]} sets"


def asks_others(plan: GraphPlan, now: CrewState, who: str) -> tuple[str, ...]:
    """Whom the flow's questions are asked of, where somebody is not among them; else empty.

    Args:
        plan: The run's.
        now: The run as it is.
        who: A principal.
    """
    asked = (each.to for each in now.interrupts.values() if each.kind == "ask")
    others = (to for to in (plan.interrupts.people, *asked) if to and who not in to)
    return next(others, ())


def lifted(read: Names, now: CrewState, then: CrewState) -> Iterator[str]:
    """What the conditions of rules read, and what is otherwise where a run goes back to.

    Args:
        read: What they read.
        now: The run as it is, or was at last.
        then: What it goes back to.
    """
    for name in sorted(read.flags):
        if now.flags.get(FlagName(name)) != then.flags.get(FlagName(name)):
            yield f"the flag {name} is what it was there, and the condition of a rule reads it"
    for agent, key in sorted(read.outputs):
        of_now, of_then = (s.agent_outputs.get(AgentName(agent), {}).get(key) for s in (now, then))
        if of_now != of_then:
            yield f"{agent}.{key} is what it was there, and the condition of a rule reads it"


def answered(plan: GraphPlan, now: CrewState, then: CrewState) -> Iterator[str]:
    """Answers of people that hold where a run goes back to, and which are other ones by now."""
    for flag, node in _answers(plan).items():
        value = then.flags.get(flag)
        if value not in (plan.flags.get(flag), now.flags.get(flag)):
            yield f"the answer to {node} ({flag}) is what it was there"


def used_again(plan: GraphPlan, now: CrewState, then: CrewState) -> Iterator[str]:
    """Steps behind a question that are done, and would be once more, by the same answer.

    Args:
        plan: The run's, where it goes back to.
        now: The run as it is, or was at last.
        then: What it goes back to.
    """
    for step, entry in sorted(then.frontier.items()):
        if step not in now.frontier and passes_a_question(plan, entry.node):
            yield f"{step} is done, and people were asked before it"


def gives_way(now: CrewState, step: StepId | None) -> StepId | None:
    """The step whose place a redirect takes; none where it says none, and that is not clear."""
    steps = [each for each in now.frontier if not item_of(each)]
    return step or (steps[0] if len(steps) == 1 else None)


def open_at(now: CrewState, step: StepId | None) -> list[str]:
    """The questions that a step waits for, in words."""
    return [
        f"{asked.id} ({asked.kind})"
        for asked in now.interrupts.values()
        if step and asked.step is not None and visit_of(asked.step) == step
    ]


def _answers(plan: GraphPlan) -> dict[FlagName, NodeName]:
    """The flags that answers set, with the questions."""
    asking = ((name, node.ask) for name, node in plan.nodes.items() if node.ask is not None)
    return {ask.sets: name for name, ask in asking if ask.sets is not None}


def passes_a_question(plan: GraphPlan, node: NodeName) -> bool:
    """Whether every way to a node leads through a question of the crew's flow.

    What waits for several nodes is reached without a question where enough of them are.
    """
    free: set[NodeName] = set()
    while True:
        more = {name for name, each in plan.nodes.items() if _is_free(name, each, plan, free)}
        if more == free:
            return node in plan.nodes and node not in free
        free = more


def _is_free(name: NodeName, node: PlanNode, plan: GraphPlan, free: Iterable[NodeName]) -> bool:
    """Whether a node is reached from some others, of which those that ask let nobody pass."""
    passed = [each for each in free if plan.nodes[each].ask is None]
    if node.entry or any(name in _jumps(plan.nodes[each]) for each in passed):
        return True
    join = node.join
    return join is not None and sum(source in passed for source in join.of) >= join.need


def _jumps(node: PlanNode) -> tuple[str, ...]:
    """Where a node sends the run, besides what waits for it."""
    decide = node.decide
    return (node.otherwise, *((decide.go, decide.otherwise) if decide is not None else ()))

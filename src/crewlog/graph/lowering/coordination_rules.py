"""The coordination rules of a plan as sentences, for people."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.authority.permissions import definition_permissions, permission_text
from crewlog.definition.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Fact,
    Not,
    render_condition,
    skips_words,
)
from crewlog.definition.findings import listed
from crewlog.definition.interrupting import approvals_of
from crewlog.definition.model import CrewDefinition
from crewlog.definition.times import duration_words, time_words
from crewlog.graph.plan import (
    ASK_HUMAN,
    END,
    NEXT,
    SKIP,
    ConditionBranch,
    GraphPlan,
    PlanNode,
    Route,
    Wait,
)
from crewlog.ids import NodeName

_REDUCER_TEXTS: dict[str, str] = {
    "union": "make a list of distinct values",
    "sum": "are added up",
    "max": "are reduced to the greatest",
    "min": "are reduced to the least",
    "update": "are merged into one object",
    "agree": "must be equal",
    "append": "make a list",
}
"""What becomes of the values that several steps set, by reducer."""
_CONVERSATION_RULE = "each message starts the flow again, and has a response at its end"
ANY_WORDS = "any words"
"""The last option of a question that takes text."""


def node_rules(name: NodeName, node: PlanNode) -> Iterator[str]:
    """The coordination rules of a node."""
    waits: list[str] = []
    if node.is_wake_node:
        return
    if node.join is not None:
        of, need = node.join.of, node.join.need
        if need == len(of):
            waits.extend(of)
        elif need == 1:
            waits.append(f"the first of {listed(of)}")
        else:
            waits.append(f"{need} of {listed(of)}")
    if node.when is not None:
        waits.append(render_condition(node.when))
    if node.wait is not None:
        waits.append(wait_text(node.wait))
    if waits:
        yield f"{name} waits for {listed(waits)}"
    elif node.entry:
        yield f"{name} starts with the run"
    else:
        yield f"{name} starts when a branch or a handoff leads to it"
    yield from _start_rules(name, node)
    yield from _failure_rules(name, node)
    yield from _target_rules(name, node)


def _target_rules(name: NodeName, node: PlanNode) -> Iterator[str]:
    """The targets of a branch, or the options of a question."""
    if node.decide is not None and not node.decide.passes:
        yield f"{name}: {condition_branch_text(node.decide)}"
    if node.route is not None:
        yield f"{name}: {output_branch_text(node.route)}"
    if node.ask is not None:
        answers = [*node.ask.options, *([ANY_WORDS] if node.ask.words else [])]
        yield f"{name} asks people: {listed(answers, 'or')}"


def _failure_rules(name: NodeName, node: PlanNode) -> Iterator[str]:
    """The alternatives and the timeouts of a node."""
    if node.when is not None and node.otherwise != ASK_HUMAN:
        what = "is skipped" if node.otherwise == SKIP else f"is replaced by {node.otherwise}"
        yield f"{name} {what} where {render_condition(node.when)} can no longer hold"
    elif node.for_each is not None and node.otherwise != ASK_HUMAN:
        what = "is skipped" if node.otherwise == SKIP else f"is replaced by {node.otherwise}"
        yield f"{name} {what} where {node.for_each} cannot be worked on"
    if node.when is not None and node.within is not None:
        condition = render_condition(node.when)
        yield f"{name} waits for {condition} at most {duration_words(node.within)}"
    if node.timeout is not None:
        yield f"{name} fails where a step of it takes more than {duration_words(node.timeout)}"
    if node.on_error:
        yield f"where {name} fails, {on_error_text(node.on_error)}"


def on_error_text(policy: str) -> str:
    """What happens if a step fails, by the `on_error` of its phase or agent."""
    texts = {
        "ask": "people are asked",
        "fail": "the run fails",
        "continue": "the run continues without it",
    }
    return texts.get(policy, f"{policy} runs instead")


def wait_text(wait: Wait) -> str:
    """`2h`, or `2026-12-01 09:00 +01:00`."""
    return time_words(wait.until) if wait.until else duration_words(wait.seconds)


def _start_rules(name: NodeName, node: PlanNode) -> Iterator[str]:
    """What a node that is reached needs to run, and how many steps it has."""
    if node.only_if is not None and node.ask is not None:
        yield f"{name} is asked only if {render_condition(node.only_if)}"
    elif node.only_if is not None and node.route is not None:
        yield f"{name} branches only if {render_condition(node.only_if)}"
    elif node.only_if is not None and node.wait is not None:
        yield f"{name} is waited for only if {render_condition(node.only_if)}"
    elif node.only_if is not None:
        yield f"{name} is {skips_words(node.only_if)}"
    if node.needs:
        agent = node.agent if not node.by else "an item's agent"
        yield f"{name} is skipped unless {agent} may call {listed(node.needs)}"
    if node.for_each is not None:
        yield f"{name} has a step for each item of {node.for_each}{concurrency_text(node)}"


def concurrency_text(node: PlanNode) -> str:
    """`, 2 at a time, by the agent that it names`."""
    text = f", {node.at_once} at a time" if node.at_once is not None else ""
    if node.by:
        text += f", by the agent that its {node.by!r} names"
    return text


def crew_rules(definition: CrewDefinition) -> Iterator[str]:
    """The coordination rules that are not about one node."""
    for name, agent in definition.agents.items():
        if not agent.enabled:
            yield f"{name} is switched off: its phases are skipped"
    yield from _channel_coordination_rules(definition)
    for tool, agents in approvals_of(definition).items():
        if agents is None:
            yield f"every call of {tool} waits for a person's yes"
        elif agents:
            yield f"calls of {tool} by {listed(agents)} wait for a person's yes"
    for rule in definition_permissions(definition):
        yield permission_text(rule)
    for name, agent in definition.agents.items():
        if agent.parent is not None:
            yield f"{name} works for {agent.parent}, and may call no other tools than it"
    yield from _reducer_rules(definition)
    if definition.conversation is not None:
        yield _CONVERSATION_RULE


def _reducer_rules(definition: CrewDefinition) -> Iterator[str]:
    """How the values that several steps set become one."""
    for key, reducer in definition.merge.items():
        if reducer != "last":
            yield f"the values of {key} from several steps {_REDUCER_TEXTS[reducer]}"


def _channel_coordination_rules(definition: CrewDefinition) -> Iterator[str]:
    """The channels and output wires of agents."""
    for name, agent in definition.agents.items():
        if agent.listen:
            yield f"{name} has a turn for each message in {listed(agent.listen)}"
        if agent.wires:
            yield f"the final messages of {name} go to {listed(agent.wires)}"


def condition_branch_text(branch: ConditionBranch) -> str:
    """`not approved → writer (≤ 3), else ask_human`."""
    limit = f" (≤ {branch.at_most})" if branch.at_most is not None else ""
    otherwise = f", else {branch.otherwise}" if limit and branch.otherwise != NEXT else ""
    return f"{render_condition(branch.when)} → {branch.go}{limit}{otherwise}"


def output_branch_text(route: Route) -> str:
    """`where router.next says: billing or technician (≤ 1), else end`."""
    used_up = f", then {route.used_up}" if route.used_up != END else ""
    limit = f"(≤ {route.at_most} each{used_up})"
    return f"where {route.by} says: {listed(route.to, 'or')} {limit}, else {route.otherwise}"


def requirements(plan: GraphPlan) -> list[str]:
    """The requirements of nodes: `audio depends on backend.models_ready`.

    A flag that only one agent writes is named with the agent.
    """
    return [
        f"{name} depends on {render_condition(_with_agents(node.when, plan))}"
        for name, node in plan.nodes.items()
        if node.when is not None
    ]


def _with_agents(condition: Condition, plan: GraphPlan) -> Condition:
    """A condition with the agent of each flag that only one agent writes."""
    match condition:
        case Fact():
            writers = [name for name, rules in plan.agents.items() if condition.name in rules.flags]
            if condition.agent is None and len(writers) == 1:
                return condition.model_copy(update={"agent": writers[0]})
            return condition
        case Not():
            return Not(of=_with_agents(condition.of, plan))
        case AllOf():
            return AllOf(of=tuple(_with_agents(part, plan) for part in condition.of))
        case AnyOf():
            return AnyOf(of=tuple(_with_agents(part, plan) for part in condition.of))

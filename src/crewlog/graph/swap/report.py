"""The report of a swap: what another graph does to a run.

    swap_report(old, new, state) -> SwapReport

Pure: no Temporal and no LangGraph. The report says what happens to every node and to every step of
the frontier, and which nodes are blocked; its `remap` is all that `fold` needs to apply the swap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from crewlog.definition.conditions import render_condition
from crewlog.errors import CommandRejected
from crewlog.graph.joins import lost_targets, missing_sources
from crewlog.graph.loops import forward_edges
from crewlog.graph.plan import DetachedStep, GraphPlan, PlanAgent, PlanNode
from crewlog.graph.swap.blocked_nodes import BlockedNode, blocked_nodes
from crewlog.graph.swap.join_remap import JoinRemap
from crewlog.graph.timers import step_wait_text
from crewlog.graph.wakes import plan_component_change
from crewlog.ids import (
    AgentName,
    InterruptId,
    NodeName,
    StepId,
    ToolName,
    step_id,
)
from crewlog.json_diff import Difference, differences
from crewlog.model import Model
from crewlog.state.components import ComponentChange
from crewlog.state.journal import ReachedNode, Remap
from crewlog.state.model import CrewState, FrontierStep, Interrupt, Routing

Frontier = Mapping[StepId, FrontierStep]

ChangeEffect = Literal[
    "kept", "moves", "finishes", "abandoned", "detached", "returns", "retracted", "starts"
]
"""What happens to a step: `kept` continues; `moves` continues in another run; `finishes` ends its
turn, and nothing follows; `abandoned` is cancelled; `detached` waits for its node; `returns` was
detached; `retracted` was reached and waits again; `starts` is reached by the swap itself."""


ASKED_AGAIN = "is asked anew"
"""Why an interrupt is withdrawn whose step is kept: its question has changed."""


class StepRemap(Model):
    """What happens to a step."""

    step: StepId
    node: NodeName
    effect: ChangeEffect
    progress: str = ""
    """What it does now, for people: `running: 1 call under way`, `waits for backend.ready`."""
    because: str = ""
    """Why, for people."""


class SwapReport(Model):
    """What another graph does to a run."""

    graph_version: int
    """The version of the new graph; the current one if the graph stays the same."""
    swap: bool
    """Whether the run drains and swaps the graph; otherwise the change applies at once."""
    added: tuple[NodeName, ...] = ()
    removed: tuple[NodeName, ...] = ()
    kept: tuple[NodeName, ...] = ()
    """Nodes that are the same in both: of the same kind, and of the same agent."""
    changed: tuple[NodeName, ...] = ()
    """Kept nodes with other joins, conditions or branches."""
    steps: tuple[StepRemap, ...] = ()
    """All steps: those of the frontier, the detached ones, and those that start."""
    blocked: tuple[BlockedNode, ...] = ()
    withdrawn: tuple[InterruptId, ...] = ()
    """Open interrupts that no step waits for any more, or whose question has changed."""
    notes: tuple[str, ...] = ()
    """Other changes: of agents, tools and permissions; new nodes that the run has passed."""
    warnings: tuple[str, ...] = ()
    """What may not be intended: that a channel has no reader any more, or that no node sets the
    output that ends the run. Each with its remedy in a line of its own."""
    remap: Remap = Remap()
    component_change: ComponentChange | None = None
    """The change of the component; none: it stays the same."""
    at_once: bool = False
    """Whether it applies at once though nodes change, because only wake nodes do."""


def swap_report(
    old: GraphPlan,
    new: GraphPlan,
    state: CrewState,
    *,
    abandon: bool = False,
) -> SwapReport:
    """What a swap from one plan to another does to a run.

    Args:
        old: The current plan.
        new: The next plan.
        state: The state of the run.
        abandon: Whether running turns whose nodes are removed are cancelled.
    """
    if is_same_graph(old, new):
        return SwapReport(
            graph_version=state.graph_version,
            swap=False,
            kept=tuple(new.nodes),
            steps=tuple(_step_remap(e, "kept") for e in state.frontier.values()),
            blocked=blocked_nodes(
                old, new, state, {**state.frontier}, forward_edges(new), state.routing
            ),
            notes=tuple(plan_notes(old, new)),
        )
    if is_same_flow(old, new):
        report = _SwapReporter(old, new, state, abandon=abandon).report()
        update = {
            "swap": False,
            "at_once": True,
            "component_change": plan_component_change(old, new, state.run),
        }
        return report.model_copy(update=update)
    if state.is_conversation_idle:  # the next exchange starts with an empty routing
        state = state.model_copy(update={"routing": Routing()})
    return _SwapReporter(old, new, state, abandon=abandon).report()


def is_same_graph(old: GraphPlan, new: GraphPlan) -> bool:
    """Whether two plans have the same nodes, edges and component."""
    return [*old.nodes.items()] == [*new.nodes.items()] and old.component == new.component


def is_same_flow(old: GraphPlan, new: GraphPlan) -> bool:
    """Whether two plans have the same nodes and edges, apart from wake nodes."""

    def flow(plan: GraphPlan) -> list[tuple[NodeName, PlanNode]]:
        return [(name, node) for name, node in plan.nodes.items() if not node.is_wake_node]

    return flow(old) == flow(new)


def is_same(old: PlanNode | None, new: PlanNode | None) -> bool:
    """Whether two nodes of one name are the same node, so that its steps are kept.

    The node of a phase and the wake node of its agent are not. Items may name more agents than
    before, but not fewer, since an item may name the removed one.

    Args:
        old: The node in the current plan.
        new: The node in the next plan.
    """
    if old is None or new is None or not {*old.among} <= {*new.among}:
        return False

    def key(node: PlanNode) -> tuple[object, ...]:
        return node.kind, node.agent, node.by, node.is_wake_node

    return key(old) == key(new)


def check_wake_nodes(
    old: GraphPlan, new: GraphPlan, state: CrewState, *, again: bool = False
) -> None:
    """Checks that a change of an agent's wake node loses no step and skips no phase.

    Steps are named after their node, so those of the old wake node are not steps of the new one.
    And a phase with the name of a former wake node would count as completed.

    Args:
        old: The current plan.
        new: The next plan.
        state: The state of the run.
        again: Whether the run returns to its recipe, whose phases may have had steps.

    Raises:
        CommandRejected: a step would be lost, or a phase skipped.
    """
    for name, node in old.nodes.items():
        if not node.is_wake_node or node.agent is None:
            continue
        after = new.nodes.get(name)
        if after is not None and not after.is_wake_node and state.visits.get(name) and not again:
            raise CommandRejected(
                f"{name!r} cannot be a phase from now on: messages started steps of "
                f"{node.agent!r} there",
                remedy="Give the phase another name: phase: NAME",
            )
        wake_node = new.wake_node_of(node.agent)
        steps = sum(e.node == name and not e.is_detached for e in state.frontier.values())
        if wake_node not in (None, name) and steps:
            plural = "s" * (steps > 1)
            raise CommandRejected(
                f"cannot move {node.agent!r} from the node {name!r} to {wake_node!r}: it has "
                f"{steps} unfinished step{plural} there",
                remedy="Send the change once these have ended; or give the phase another name.",
            )


def with_detached_steps(
    old: GraphPlan, new: GraphPlan, frontier: Frontier, detached_steps: Frontier
) -> GraphPlan:
    """The new plan with what the detached steps of the run need.

    Args:
        old: The plan before.
        new: The plan from now on.
        frontier: The frontier of the run.
        detached_steps: The detached steps outside of the frontier.
    """
    kept: dict[StepId, DetachedStep] = {}
    ending = [entry for entry in frontier.values() if entry.is_detached]
    for entry in (*ending, *detached_steps.values()):
        detached = old.detached_step(entry) or detached_step(old, entry.node)
        if detached is not None:
            kept[entry.parent_or_self] = detached
    return new.model_copy(update={"detached_steps": dict(sorted(kept.items()))})


def detached_step(plan: GraphPlan, name: NodeName) -> DetachedStep | None:
    """What a step of a node needs once the node is removed; none: the plan has no such node."""
    node = plan.nodes.get(name)
    if node is None:
        return None
    settings = plan.agents[node.agent] if node.agent else PlanAgent()
    among = {agent: plan.agents[agent] for agent in node.among}
    names = [*settings.tools, *(tool for each in among.values() for tool in each.tools)]
    tools = {tool: plan.tools[tool] for tool in names if tool in plan.tools}
    return DetachedStep(
        node=node,
        agent=settings,
        among=among,
        tools=tools,
        artifacts=plan.artifacts,
        definition=plan.definition,
    )


def permissions_after(
    old: GraphPlan, new: GraphPlan, state: CrewState, detached_turns: Iterable[StepId] = ()
) -> dict[str, tuple[AgentName, ...] | None]:
    """The agents that may call each tool with the new plan; none: every agent that has it.

    What people set on the live run stays in force: an agent that they gave a tool keeps it, and one
    that they took it from does not get it back, whatever the new plan says. Otherwise the new plan
    applies. Agents of detached turns keep their permissions until their turns end.
    """
    steps = [state.frontier[step] for step in detached_turns]
    ending = {agent for step in steps for agent in old.node_of(step).agents}
    known = {*old.agents, *new.agents, *ending}
    permissions: dict[str, tuple[AgentName, ...] | None] = {}
    for tool in dict.fromkeys((*new.permissions, *state.tool_permissions)):
        before, after = old.permissions.get(ToolName(tool)), new.permissions.get(ToolName(tool))
        now = state.tool_permissions.get(tool, before)
        if after == before and tool in state.tool_permissions:
            permissions[tool] = now if now is None else tuple(a for a in now if a in known)
            continue
        defined = {*old.agents} if before is None else {*before}
        taken = set[AgentName]() if now is None else defined - {*now}
        if after is None:
            left = [agent for agent in new.agents if agent not in taken]
            if taken & {*new.agents}:
                permissions[tool] = tuple(left)
            elif tool in new.permissions:
                permissions[tool] = None
            continue
        keep = [a for a in sorted(ending - {*new.agents}) if now is None or a in now]
        given = [a for a in now or () if a in new.agents and a not in defined]
        allowed = (*(agent for agent in after if agent not in taken), *given, *keep)
        permissions[tool] = tuple(dict.fromkeys(allowed))
    return permissions


class _SwapReporter:
    """Makes the report of a swap."""

    def __init__(
        self,
        old: GraphPlan,
        new: GraphPlan,
        state: CrewState,
        *,
        abandon: bool,
    ) -> None:
        self._old = old
        self._new = new
        self._state = state
        self._abandon = abandon
        self._kept = frozenset(n for n in new.nodes if self._is_same(old.nodes.get(n), n))
        self._step_remaps: dict[StepId, StepRemap] = {}
        self._detached_turns: list[StepId] = []
        self._detached_steps: list[StepId] = []
        self._reattached: list[StepId] = []
        self._remap_steps()
        frontier = {
            s: e for s, e in state.frontier.items() if self._step_remaps[s].effect == "kept"
        }
        reattached = {
            s: (state.frontier.get(s) or state.detached_steps[s]) for s in self._reattached
        }
        frontier |= reattached
        displaced = (state.frontier[s] for s in (*self._detached_turns, *self._detached_steps))
        # Wake nodes have no joins: messages start their steps.
        nodes = {name: node for name, node in new.nodes.items() if not node.is_wake_node}
        flow = new.model_copy(update={"nodes": nodes})
        self._joins = JoinRemap(
            old,
            flow,
            state,
            kept=self._kept,
            frontier=frontier,
            displaced=[entry for entry in displaced if not entry.is_detached],
            reattached=reattached.values(),
        )
        if state.is_conversation_idle:
            self._joins.reached.clear()
            self._joins.replaced.clear()
        for step in self._joins.retracted:
            because = "the join of its node is not met any more"
            self._step_remaps[step] = _step_remap(frontier[step], "retracted", because)

    def report(self) -> SwapReport:
        """The report."""
        state, joins = self._state, self._joins
        remap = Remap(
            detached_turns=tuple(self._detached_turns),
            detached=tuple(self._detached_steps),
            reattached=tuple(self._reattached),
            retracted=tuple(joins.retracted),
            reached=self._reached(joins.reached),
            replaced=self._reached(joins.replaced),
            passed=tuple(joins.passed),
            requirements=self._changed_requirements(),
            generations=joins.generations,
        )
        frontier = {
            **joins.frontier,
            **{
                s: e for s, e in state.frontier.items() if self._step_remaps[s].effect == "finishes"
            },
            **{r.step: FrontierStep(step=r.step, node=r.node) for r in self._starts()},
        }
        withdrawn = tuple(self._withdrawn_interrupts(remap))
        return SwapReport(
            graph_version=state.graph_version + 1,
            swap=True,
            added=tuple(n for n in self._new.nodes if n not in self._kept),
            removed=tuple(n for n in self._old.nodes if n not in self._kept),
            kept=tuple(n for n in self._new.nodes if n in self._kept),
            changed=tuple(
                n
                for n in self._new.nodes
                if n in self._kept and self._old.nodes[n] != self._new.nodes[n]
            ),
            steps=(*self._explained_step_remaps(withdrawn), *self._starts()),
            blocked=blocked_nodes(
                self._old, self._new, state, frontier, joins.ahead, joins.routing
            ),
            withdrawn=withdrawn,
            notes=(*self._notes(), *plan_notes(self._old, self._new)),
            remap=remap,
        )

    # -- steps -------------------------------------------------------------------------------

    def _remap_steps(self) -> None:
        """Decides what happens to each step, as far as that follows from its node alone."""
        parents = {entry.parent for entry in self._state.frontier.values()}
        for step, entry in self._state.frontier.items():
            has_turn = entry.turn is not None or entry.parent_or_self in parents
            if entry.is_detached and self._may_reattach(entry):
                self._reattached.append(step)
                self._step_remaps[step] = _step_remap(entry, "returns", f"{entry.node} is back")
            elif not entry.is_detached and entry.node in self._kept:
                self._step_remaps[step] = _step_remap(entry, "kept")
            elif not has_turn:
                self._detached_steps.append(step)
                self._step_remaps[step] = _step_remap(entry, "detached", f"{entry.node} is removed")
            elif self._abandon:
                self._detached_steps.append(step)
                because = f"{entry.node} is removed, and its turn is abandoned"
                self._step_remaps[step] = _step_remap(entry, "abandoned", because)
            else:
                if not entry.is_detached:
                    self._detached_turns.append(step)
                because = f"{entry.node} is removed: the turn runs to its end"
                self._step_remaps[step] = _step_remap(entry, "finishes", because)
        for step, entry in self._state.detached_steps.items():
            if self._may_reattach(entry):
                self._reattached.append(step)
                self._step_remaps[step] = _step_remap(entry, "returns", f"{entry.node} is back")
            else:
                self._step_remaps[step] = _step_remap(entry, "detached", f"{entry.node} is removed")

    def _may_reattach(self, entry: FrontierStep) -> bool:
        detached = self._old.detached_step(entry)
        return detached is not None and self._is_same(detached.node, entry.node)

    def _is_same(self, old: PlanNode | None, name: NodeName) -> bool:
        return is_same(old, self._new.nodes.get(name))

    def _reached(self, names: Iterable[NodeName]) -> tuple[ReachedNode, ...]:
        conditions = [(name, self._new.nodes[name].when) for name in names]
        return tuple(
            ReachedNode(node=name, requirement=render_condition(when) if when else "")
            for name, when in conditions
        )

    def _starts(self) -> Iterator[StepRemap]:
        starts = self._joins.starts
        for number, name in enumerate(starts):
            visits = self._state.visits.get(name, 0) + starts[:number].count(name)
            visits -= self._joins.retracted_count(name)
            because = "it is new" if name not in self._kept else "its join is met"
            yield StepRemap(
                step=step_id(name, visits + 1), node=name, effect="starts", because=because
            )

    def _changed_requirements(self) -> dict[StepId, str]:
        """The new requirements of steps that have not started."""
        requirements: dict[StepId, str] = {}
        for step, entry in self._joins.frontier.items():
            if entry.turn is not None or entry.child_steps is not None or entry.parent:
                continue
            if entry.deadline and not entry.requirement:
                continue  # it waits only for its timer
            detached = self._old.detached_step(entry) if step in self._reattached else None
            before = detached.node if detached else self._old.nodes[entry.node]
            when = self._new.nodes[entry.node].when
            requirement = render_condition(when) if when else ""
            if before.when != when and requirement != entry.requirement:
                requirements[step] = requirement
        return requirements

    # -- interrupts --------------------------------------------------------------------------

    def _withdrawn_interrupts(self, remap: Remap) -> Iterator[InterruptId]:
        """The interrupts that no step waits for any more, or whose question has changed."""
        for asked in self._state.interrupts.values():
            if asked.step is None:
                is_withdrawn = asked.kind == "requirement" and not self._is_still_incomplete(asked)
            elif asked.step in remap.detached:
                is_withdrawn = True
            else:
                is_withdrawn = asked.step in self._joins.frontier and self._is_changed_question(
                    asked, remap
                )
            if is_withdrawn:
                yield asked.id

    def _explained_step_remaps(self, withdrawn: Collection[InterruptId]) -> Iterator[StepRemap]:
        """What happens to the steps, with the reason for those whose question has changed."""
        interrupts = [each for each in self._state.interrupts.values() if each.id in withdrawn]
        changed = {each.step for each in interrupts if each.kind == "ask"}
        for step, remap in self._step_remaps.items():
            if remap.effect == "kept" and step in changed and step in self._joins.frontier:
                yield remap.model_copy(update={"because": ASKED_AGAIN})
            else:
                yield remap

    def _is_still_incomplete(self, asked: Interrupt) -> bool:
        name = NodeName(asked.detail)
        if name not in self._kept or name in self._joins.starts:
            return False
        return bool(missing_sources(self._new, name, self._joins.routing))

    def _is_changed_question(self, asked: Interrupt, remap: Remap) -> bool:
        if asked.step is None or asked.call is not None:
            return False
        step = self._joins.frontier[asked.step]
        old, new = self._old.node_of(step), self._new.nodes[step.node]
        if asked.kind == "ask":
            return (old.ask, old.decide, old.route) != (new.ask, new.decide, new.route)
        if asked.kind != "requirement":
            return False
        return asked.step in remap.requirements or (
            asked.detail == old.for_each and old.for_each != new.for_each
        )

    def _notes(self) -> Iterator[str]:
        for step, entry in self._state.frontier.items():
            handoff = entry.turn.goto if entry.turn is not None else ()
            if entry.child_steps is not None:
                handoff = entry.child_steps.goto
            for lost in lost_targets(entry, handoff, self._new.nodes):
                yield f"{step}: {lost}; the run continues without it"
        for name in self._joins.repeated:
            yield f"{name} does not run again: it has run already"
        for name in self._joins.passed:
            if name not in (*self._joins.repeated, *self._state.routing.passed):
                yield f"{name} does not run: the run has passed it"


def _step_remap(entry: FrontierStep, fate: ChangeEffect, because: str = "") -> StepRemap:
    return StepRemap(
        step=entry.step,
        node=entry.node,
        effect=fate,
        progress=activity_text(entry),
        because=because,
    )


def activity_text(entry: FrontierStep) -> str:
    """What a step does, for people."""
    if entry.status in ("waiting", "interrupted") and (what := step_wait_text(entry)):
        return f"waits {'for ' if entry.requirement else ''}{what}"
    if entry.child_steps is not None:
        return f"running: {entry.child_steps.done} of {entry.child_steps.of} items are done"
    if entry.turn is not None:
        if any(call.status == "interrupted" for call in entry.turn.calls):
            return "asks people"
        tools = [call.tool for call in entry.turn.calls if call.tool]
        return f"running: {', '.join(tools)}" if tools else "running: its model answers"
    texts = {
        "interrupted": "asks people",
        "queued": "waits for an earlier step",
        "ready": "is ready",
    }
    return texts.get(entry.status, entry.status)


def plan_notes(old: GraphPlan, new: GraphPlan) -> Iterator[str]:
    """What changes besides the nodes, for people.

    Models are compared by `vars`: pydantic's comparison and dumps would cost a swap some 100 calls.
    """
    for name, settings in new.agents.items():
        before = old.agents.get(name)
        if before is not None and vars(before) != vars(settings):
            yield from _agent_notes(name, before, settings)
    yield from _name_notes("tool", differences(dict.fromkeys(old.tools), dict.fromkeys(new.tools)))
    yield from _name_notes("flag", differences(dict.fromkeys(old.flags), dict.fromkeys(new.flags)))
    permissions = differences({**old.permissions}, {**new.permissions}, depth=1)
    yield from _permission_notes("may call", permissions, "every agent that has it")
    approvals = differences({**old.approvals}, {**new.approvals}, depth=1)
    yield from _permission_notes("needs an approval to call", approvals, "every agent")
    if vars(old.limits) != vars(new.limits):
        yield "the limits change"
    if vars(old.interrupts) != vars(new.interrupts):
        yield "the settings of interrupts change"
    if old.merge != new.merge:
        yield "the reducers change"


def _agent_notes(name: AgentName, old: PlanAgent, new: PlanAgent) -> Iterator[str]:
    if old.enabled != new.enabled:
        yield f"{name} is switched {'on' if new.enabled else 'off'}"
    fields = [each for each in PlanAgent.model_fields if each not in ("enabled", "shares")]
    changed = [each for each in fields if getattr(old, each) != getattr(new, each)]
    if changed:
        yield f"{name} changes: {', '.join(changed)}"


def _name_notes(what: str, changes: Iterable[Difference]) -> Iterator[str]:
    texts = {"added": "is new", "removed": "is removed"}
    for each in changes:
        if each.kind in texts:
            yield f"the {what} {each.path[0]} {texts[each.kind]}"


def _permission_notes(what: str, changes: Iterable[Difference], every_agent: str) -> Iterator[str]:
    for each in sorted(changes, key=lambda each: each.path):
        agents: Sequence[str] | None = each.new
        if each.kind == "removed" and what != "may call":
            agents = ()
        who = every_agent if agents is None else ", ".join(agents) or "nobody"
        yield f"{who} {what} {each.path[0]}"

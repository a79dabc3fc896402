"""A swap: what another graph does to a run, before it is done and when it is.

    plan_swap(old, new, state) -> SwapReport

Pure: no Temporal and no LangGraph. The report says what becomes of every node and of every step of
the frontier, what is blocked and why; its `remap` is all that `reduce` needs to do it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

from crewlog.definition.conditions import render_condition
from crewlog.errors import CommandRejected
from crewlog.graph.joins import lost_targets, missing_sources
from crewlog.graph.loops import forward_edges
from crewlog.graph.plan import DetachedStep, GraphPlan, PlanAgent, PlanNode
from crewlog.graph.swap.blocked_nodes import BlockedNode, blocked_nodes
from crewlog.graph.swap.join_remap import JoinRemap, has_begun
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

StepFate = Literal[
    "kept", "goes", "leaves", "abandoned", "parked", "returns", "retracted", "starts"
]
"""What becomes of a step: `kept` goes on as it is; `goes` does so in another run; `leaves` ends its
turn, and nothing follows; `abandoned` is cut off; `parked` is kept aside; `returns` was;
`retracted` was reached and must wait again; `starts` is reached by the swap itself."""


ASKED_ANEW = "is asked anew"
"""Why a question is withdrawn whose step is kept: it is another question now."""


class StepRemap(Model):
    """What becomes of a step."""

    step: StepId
    node: NodeName
    fate: StepFate
    doing: str = ""
    """What it does now, for people: `running: 1 call under way`, `waits for backend.ready`."""
    because: str = ""
    """Why, for people."""


class SwapReport(Model):
    """What another graph does to a run."""

    graph_version: int
    """The version that the new graph gets; the one that there is, where it is the same graph."""
    swap: bool
    """Whether the run drains and goes on with another graph; else the change holds at once."""
    added: tuple[NodeName, ...] = ()
    removed: tuple[NodeName, ...] = ()
    kept: tuple[NodeName, ...] = ()
    """Nodes that are the same thing in both: of the same kind, and of the same agent."""
    changed: tuple[NodeName, ...] = ()
    """Kept nodes with other joins, conditions or decisions."""
    steps: tuple[StepRemap, ...] = ()
    """Every step of the frontier, of those kept aside, and those that start."""
    blocked: tuple[BlockedNode, ...] = ()
    withdrawn: tuple[InterruptId, ...] = ()
    """Open questions that nobody waits for any more, or that are asked anew in other words."""
    notes: tuple[str, ...] = ()
    """What else there is to know: agents switched on or off, tools, permissions; new nodes that
    the run has passed already."""
    warnings: tuple[str, ...] = ()
    """What whoever changes may not have meant: that a channel is heard by nobody from then on, or
    that nobody sets what the run is to end by. Each with what to do about it, in a line of its
    own."""
    remap: Remap = Remap()
    topology: ComponentChange | None = None
    """What becomes of the graph of creatures, where it is another one."""
    at_once: bool = False
    """Whether it is in force at once, though nodes come or go: only creatures do."""


def swap_report(
    old: GraphPlan,
    new: GraphPlan,
    state: CrewState,
    *,
    abandon: bool = False,
) -> SwapReport:
    """What going on with `new` instead of `old` does to a run in `state`.

    Args:
        old: The plan that the run has.
        new: The plan that it is to have.
        state: Where it is.
        abandon: Whether steps in mid-turn whose nodes are gone are cut off.
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
        report = _Swap(old, new, state, abandon=abandon).report()
        update = {
            "swap": False,
            "at_once": True,
            "topology": plan_component_change(old, new, state.run),
        }
        return report.model_copy(update=update)
    if (
        state.is_conversation_idle
    ):  # between two turns nothing is under way, and the next one begins anew
        state = state.model_copy(update={"routing": Routing()})
    return _Swap(old, new, state, abandon=abandon).report()


def is_same_graph(old: GraphPlan, new: GraphPlan) -> bool:
    """Whether two plans have the same nodes, ways and creatures: what else they say are rules."""
    return [*old.nodes.items()] == [*new.nodes.items()] and old.topology == new.topology


def is_same_flow(old: GraphPlan, new: GraphPlan) -> bool:
    """Whether two plans have the same nodes and ways but for those where creatures hear."""

    def flow(plan: GraphPlan) -> list[tuple[NodeName, PlanNode]]:
        return [(name, node) for name, node in plan.nodes.items() if not node.hears]

    return flow(old) == flow(new)


def is_same(old: PlanNode | None, new: PlanNode | None) -> bool:
    """Whether two nodes of one name are the same thing: what runs there is the same.

    A phase and a node where its agent hears are two things, though they have one name. Items may
    name more agents than before; where one of them is gone, an item may be its.

    Args:
        old: The one.
        new: The other.
    """
    if old is None or new is None or not {*old.among} <= {*new.among}:
        return False
    what, now = (old.kind, old.agent, old.by, old.hears), (new.kind, new.agent, new.by, new.hears)
    return what == now


def check_wake_nodes(
    old: GraphPlan, new: GraphPlan, state: CrewState, *, again: bool = False
) -> None:
    """Checks that no turn is lost, and no phase, where an agent hears at another node.

    Its turns have the names of the node where it heard: they are not of the new one. And a phase
    whose name such turns have had would count as done.

    Args:
        old: The plan that the run has.
        new: The plan that it is to have.
        state: Where it is.
        again: Whether it goes back to what it began with, whose phases have had their names.

    Raises:
        CommandRejected: one would be.
    """
    for name, node in old.nodes.items():
        if not node.hears or node.agent is None:
            continue
        then = new.nodes.get(name)
        if then is not None and not then.hears and state.visits.get(name) and not again:
            raise CommandRejected(
                f"{name!r} cannot be a phase from now on: it is where {node.agent!r} hears, and "
                "has had turns for that",
                remedy="Give the phase another name: phase: NAME",
            )
        to = new.wake_node_of(node.agent)
        steps = sum(e.node == name and not e.is_detached for e in state.frontier.values())
        if to not in (None, name) and steps:
            several = "s" * (steps > 1)
            raise CommandRejected(
                f"{node.agent!r} would hear at {to!r} and no more at {name!r}, where it has "
                f"{steps} turn{several} waiting or under way",
                remedy="Send the change once it has heard all; or give the phase another name.",
            )


def with_detached_steps(
    old: GraphPlan, new: GraphPlan, frontier: Frontier, parked: Frontier
) -> GraphPlan:
    """A new plan that knows what the visits need which outlive their nodes.

    Args:
        old: The plan that the run had.
        new: The plan that it has from now on.
        frontier: Its steps.
        parked: Its steps that are kept aside.
    """
    detached: dict[StepId, DetachedStep] = {}
    steps = [entry for entry in frontier.values() if entry.is_detached]
    for entry in (*steps, *parked.values()):
        found = old.detached_step(entry) or detached_step(old, entry.node)
        if found is not None:
            detached[entry.parent_or_self] = found
    return new.model_copy(update={"detached_steps": dict(sorted(detached.items()))})


def detached_step(plan: GraphPlan, name: NodeName) -> DetachedStep | None:
    """What a visit to a node needs that outlives it; none where the plan has no such node."""
    node = plan.nodes.get(name)
    if node is None:
        return None
    rules = plan.agents[node.agent] if node.agent else PlanAgent()
    among = {agent: plan.agents[agent] for agent in node.among}
    offered = [*rules.tools, *(tool for each in among.values() for tool in each.tools)]
    tools = {tool: plan.tools[tool] for tool in offered if tool in plan.tools}
    return DetachedStep(
        node=node,
        agent=rules,
        among=among,
        tools=tools,
        artifacts=plan.artifacts,
        definition=plan.definition,
    )


def permissions_after(
    old: GraphPlan, new: GraphPlan, state: CrewState, leaving: Iterable[StepId] = ()
) -> dict[str, tuple[AgentName, ...] | None]:
    """Who may call a tool with the new plan.

    What people have set while the run lived stays, for tools that the two plans say the same of.
    And agents that end a turn, though their nodes are gone, keep what they had until then.
    """
    steps = [state.frontier[step] for step in leaving]
    going = {agent for step in steps for agent in old.node_of(step).agents}
    known = {*old.agents, *going}
    found: dict[str, tuple[AgentName, ...] | None] = {}
    for tool in dict.fromkeys((*new.permissions, *state.tool_permissions)):
        row, now = new.permissions.get(ToolName(tool)), state.tool_permissions.get(tool)
        if row == old.permissions.get(ToolName(tool)) and tool in state.tool_permissions:
            found[tool] = now if now is None else tuple(a for a in now if a in known)
        elif row is not None:
            could = [a for a in sorted(going - {*new.agents}) if now is None or a in now]
            found[tool] = (*row, *(a for a in could if a not in row))
        elif tool in new.permissions:
            found[tool] = None
    return found


class _Swap:
    """The making of a report."""

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
        self._leave: list[StepId] = []
        self._detached_steps: list[StepId] = []
        self._back: list[StepId] = []
        self._place()
        stays = {s: e for s, e in state.frontier.items() if self._step_remaps[s].fate == "kept"}
        stays |= {s: (state.frontier.get(s) or state.detached_steps[s]) for s in self._back}
        displaced: dict[NodeName, int] = {}
        for entry in (state.frontier[s] for s in (*self._leave, *self._detached_steps)):
            displaced[entry.node] = displaced.get(entry.node, 0) + (not has_begun(entry, state))
        # Nothing joins where agents hear: a visit is for a message, and what was a phase is gone.
        nodes = {name: node for name, node in new.nodes.items() if not node.hears}
        flow = new.model_copy(update={"nodes": nodes})
        self._joins = JoinRemap(
            old, flow, state, kept=self._kept, frontier=stays, displaced=displaced
        )
        if state.is_conversation_idle:
            self._joins.reached.clear()
        for step in self._joins.retracted:
            because = "what its node waits for now has not come"
            self._step_remaps[step] = _step_remap(stays[step], "retracted", because)

    def report(self) -> SwapReport:
        """All of it."""
        state, joins = self._state, self._joins
        remap = Remap(
            detached_turns=tuple(self._leave),
            detached=tuple(self._detached_steps),
            reattached=tuple(self._back),
            retracted=tuple(joins.retracted),
            reached=tuple(self._reached()),
            requirements=self._changed_requirements(),
            arrivals=joins.arrivals,
            fired=joins.fired,
            completed_before=joins.base,
        )
        routing = state.routing.model_copy(
            update={
                "arrivals": {**state.routing.arrivals, **remap.arrivals},
                "fired": {**state.routing.fired, **remap.fired},
                "completed_before": {**state.routing.completed_before, **remap.completed_before},
            }
        )
        under_way = {
            **joins.frontier,
            **{s: e for s, e in state.frontier.items() if self._step_remaps[s].fate == "leaves"},
            **{f.step: FrontierStep(step=f.step, node=f.node) for f in self._starts()},
        }
        withdrawn = tuple(self._withdrawn_interrupts(remap, routing))
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
            steps=(*self._told(withdrawn), *self._starts()),
            blocked=blocked_nodes(self._old, self._new, state, under_way, joins.ahead, routing),
            withdrawn=withdrawn,
            notes=(*self._notes(), *plan_notes(self._old, self._new)),
            remap=remap,
        )

    # -- steps -------------------------------------------------------------------------------

    def _place(self) -> None:
        """What becomes of every step, as far as it follows from its node alone."""
        parents = {entry.parent for entry in self._state.frontier.values()}
        for step, entry in self._state.frontier.items():
            comes_back = entry.is_detached and self._may_reattach(entry)
            mid_turn = entry.turn is not None or entry.parent_or_self in parents
            if entry.is_detached and comes_back:
                self._back.append(step)
                self._step_remaps[step] = _step_remap(
                    entry, "returns", f"{entry.node} is there again"
                )
            elif not entry.is_detached and entry.node in self._kept:
                self._step_remaps[step] = _step_remap(entry, "kept")
            elif not mid_turn:
                self._detached_steps.append(step)
                self._step_remaps[step] = _step_remap(entry, "parked", f"{entry.node} is gone")
            elif self._abandon:
                self._detached_steps.append(step)
                because = f"{entry.node} is gone, and its turn is abandoned"
                self._step_remaps[step] = _step_remap(entry, "abandoned", because)
            else:
                if not entry.is_detached:
                    self._leave.append(step)
                because = f"{entry.node} is gone: the turn goes on to its end"
                self._step_remaps[step] = _step_remap(entry, "leaves", because)
        for step, entry in self._state.detached_steps.items():
            if self._may_reattach(entry):
                self._back.append(step)
                self._step_remaps[step] = _step_remap(
                    entry, "returns", f"{entry.node} is there again"
                )
            else:
                self._step_remaps[step] = _step_remap(entry, "parked", f"{entry.node} is gone")

    def _may_reattach(self, entry: FrontierStep) -> bool:
        detached = self._old.detached_step(entry)
        return detached is not None and self._is_same(detached.node, entry.node)

    def _is_same(self, old: PlanNode | None, name: NodeName) -> bool:
        return is_same(old, self._new.nodes.get(name))

    def _reached(self) -> Iterator[ReachedNode]:
        for name in self._joins.reached:
            when = self._new.nodes[name].when
            yield ReachedNode(node=name, requirement=render_condition(when) if when else "")

    def _starts(self) -> Iterator[StepRemap]:
        for number, name in enumerate(self._joins.reached):
            begun = self._state.visits.get(name, 0) + self._joins.reached[:number].count(name)
            begun -= self._joins.retracted_count(name)
            what = "it is new" if name not in self._kept else "what it waits for has come"
            yield StepRemap(step=step_id(name, begun + 1), node=name, fate="starts", because=what)

    def _changed_requirements(self) -> dict[StepId, str]:
        """What visits wait for that have not begun, where their nodes wait for other things now."""
        found: dict[StepId, str] = {}
        for step, entry in self._joins.frontier.items():
            if entry.turn is not None or entry.child_steps is not None or entry.parent:
                continue
            if entry.deadline and not entry.requirement:
                continue  # its timer is set, and it waits for nothing else
            detached = self._old.detached_step(entry) if step in self._back else None
            before = detached.node if detached else self._old.nodes[entry.node]
            when = self._new.nodes[entry.node].when
            requirement = render_condition(when) if when else ""
            if before.when != when and requirement != entry.requirement:
                found[step] = requirement
        return found

    # -- questions ---------------------------------------------------------------------------

    def _withdrawn_interrupts(self, remap: Remap, routing: Routing) -> Iterator[InterruptId]:
        """The questions that nobody waits for any more, or that are others now."""
        for asked in self._state.interrupts.values():
            if asked.step is None:
                gone = asked.kind == "requirement" and not self._is_still_incomplete(asked, routing)
            elif asked.step in remap.detached:
                gone = True
            else:
                gone = asked.step in self._joins.frontier and self._is_changed_question(
                    asked, remap
                )
            if gone:
                yield asked.id

    def _told(self, withdrawn: Collection[InterruptId]) -> Iterator[StepRemap]:
        """The fates; a step that stays and asks something else now is told apart."""
        asked = [each for each in self._state.interrupts.values() if each.id in withdrawn]
        anew = {each.step for each in asked if each.kind == "ask"}
        for step, fate in self._step_remaps.items():
            if fate.fate == "kept" and step in anew and step in self._joins.frontier:
                yield fate.model_copy(update={"because": ASKED_ANEW})
            else:
                yield fate

    def _is_still_incomplete(self, asked: Interrupt, routing: Routing) -> bool:
        name = NodeName(asked.detail)
        if name not in self._kept or name in self._joins.reached:
            return False
        return bool(missing_sources(self._new, name, routing))

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
                yield f"{step}: {lost}; the run goes on as without that"
        for name in self._joins.passed:
            yield f"{name} does not run: the run is beyond it"
        for name in self._joins.repeated:
            yield f"{name} does not run again: it has run already"


def _step_remap(entry: FrontierStep, fate: StepFate, because: str = "") -> StepRemap:
    return StepRemap(
        step=entry.step, node=entry.node, fate=fate, doing=activity_text(entry), because=because
    )


def activity_text(entry: FrontierStep) -> str:
    """What a step does, for people."""
    if entry.status in ("waiting", "interrupted") and (what := step_wait_text(entry)):
        return f"waits {'for ' if entry.requirement else ''}{what}"
    if entry.child_steps is not None:
        return f"running: {entry.child_steps.done} of {entry.child_steps.of} items are done"
    if entry.turn is not None:
        asking = sum(call.status == "interrupted" for call in entry.turn.calls)
        if asking:
            return "asks people"
        tools = [call.tool for call in entry.turn.calls if call.tool]
        return f"running: {', '.join(tools)}" if tools else "running: its model answers"
    said = {
        "interrupted": "asks people",
        "queued": "waits for an earlier visit",
        "ready": "is ready",
    }
    return said.get(entry.status, entry.status)


_SETTINGS = {
    "agents": 2,
    "tools": 1,
    "flags": 1,
    "permissions": 1,
    "approvals": 1,
    "limits": 0,
    "interrupts": 0,
    "merge": 0,
}
"""The settings of a plan besides its nodes, with the number of levels at which they differ."""


def plan_notes(old: GraphPlan, new: GraphPlan) -> Iterator[str]:
    """What changes besides the nodes, for people."""
    before, after = (plan.model_dump(mode="json", include={*_SETTINGS}) for plan in (old, new))
    found = {
        section: list(differences(before[section], after[section], depth=depth))
        for section, depth in _SETTINGS.items()
    }
    yield from _agent_notes(found["agents"])
    yield from _name_notes("tool", found["tools"])
    yield from _name_notes("flag", found["flags"])
    yield from _permission_notes("may call", found["permissions"], "every agent that has it")
    yield from _permission_notes("needs a yes to call", found["approvals"], "every agent")
    if found["limits"]:
        yield "the limits change"
    if found["interrupts"]:
        yield "when people are asked, and for how long, changes"
    if found["merge"]:
        yield "how values are combined changes"


def _agent_notes(found: Iterable[Difference]) -> Iterator[str]:
    """Notes on agents that both plans have."""
    fields = [each for each in found if len(each.path) == 2 and each.path[1] != "shares"]
    for name, changes in groupby(fields, key=lambda each: each.path[0]):
        others: list[str] = []
        for each in changes:
            if each.path[1] == "enabled":
                yield f"{name} is switched {'on' if each.new else 'off'}"
            else:
                others.append(each.path[1])
        if others:
            yield f"{name} changes: {', '.join(others)}"


def _name_notes(what: str, found: Iterable[Difference]) -> Iterator[str]:
    says = {"added": "is new", "removed": "is gone"}
    for each in found:
        if each.kind in says:
            yield f"the {what} {each.path[0]} {says[each.kind]}"


def _permission_notes(what: str, found: Iterable[Difference], everybody: str) -> Iterator[str]:
    for each in sorted(found, key=lambda each: each.path):
        agents: Sequence[str] | None = each.new
        if each.kind == "removed" and what != "may call":
            agents = ()
        who = everybody if agents is None else ", ".join(agents) or "nobody"
        yield f"{who} {what} {each.path[0]}"

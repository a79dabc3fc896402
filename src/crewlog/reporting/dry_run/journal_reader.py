"""Builds the view of a dry run from its journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from crewlog.definition.conditions import (
    Condition,
    facts_in,
    holds,
    render_condition,
    value_of,
)
from crewlog.definition.findings import listed
from crewlog.graph.joins import counts_at, missing_sources
from crewlog.graph.plan import ASK_HUMAN, SKIP, GraphPlan, PlanNode
from crewlog.ids import AgentName, NodeName, RunId, StepId, item_number, node_of, parent_or_self
from crewlog.model import Json
from crewlog.reporting.drawing.labels import ON_ERROR, outgoing_edges
from crewlog.reporting.dry_run.view import (
    ConditionCheckView,
    DryRunEnd,
    DryRunInterruptView,
    DryRunStepView,
    DryRunView,
    IncompleteJoinView,
    UnmetRequirementView,
    UnreachedNodeView,
)
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState, Interrupt


def dry_run_view(
    plan: GraphPlan, entries: Iterable[j.JournalEntry], *, end: DryRunEnd, because: str
) -> DryRunView:
    """The view of a dry run.

    Args:
        plan: The plan.
        entries: The journal of the dry run.
        end: How it ended.
        because: Why it did not complete.
    """
    reader = _JournalReader(plan)
    for entry in entries:
        reader.add(entry)
    return DryRunView(
        crew=plan.crew,
        steps=tuple(_step(each, plan) for each in reader.steps.values()),
        interrupts=tuple(reader.questions),
        unmet_requirements=tuple(reader.unmet.values()),
        unreached_nodes=tuple(_unreached_nodes(plan, reader, end)),
        end=end,
        because=because,
    )


@dataclass
class _Draft:
    """A step while the journal is read."""

    step: StepId
    why: str
    conditions: list[ConditionCheckView] = field(default_factory=list[ConditionCheckView])
    outcome: Literal["done", "skipped", "failed", "open"] = "open"
    because: str = ""
    items: int | None = None
    sets: dict[str, Json] = field(default_factory=dict[str, Json])
    to: tuple[NodeName, ...] = ()
    unfilled: tuple[IncompleteJoinView, ...] = ()


def _step(draft: _Draft, plan: GraphPlan) -> DryRunStepView:
    name = node_of(draft.step)
    node = plan.nodes[name]
    return DryRunStepView(
        step=draft.step,
        node=name,
        kind=node.kind,
        agent=node.agent,
        reason=draft.why,
        conditions=tuple(draft.conditions),
        outcome=draft.outcome,
        because=draft.because,
        items=draft.items,
        values=draft.sets,
        to=draft.to,
        incomplete_joins=draft.unfilled,
    )


class _JournalReader:
    """Reads the journal of a dry run."""

    def __init__(self, plan: GraphPlan) -> None:
        self.plan = plan
        self.state = CrewState(run=RunId("dry-run"))
        self.steps: dict[StepId, _Draft] = {}
        self.questions: list[DryRunInterruptView] = []
        self.unmet: dict[NodeName, UnmetRequirementView] = {}
        self._asked: dict[str, Interrupt] = {}
        self._completed: dict[NodeName, StepId] = {}

    def add(self, entry: j.JournalEntry) -> None:
        """Reads the next entry."""
        before, self.state = self.state, fold(self.state, entry)
        match entry:
            case j.NodesReached():
                self._add_steps(entry, before)
            case j.RequirementMet():
                self._add_check(entry.step, "when", waived=entry.waived)
            case j.StepStarted(parent=None):
                self._add_check(entry.step, "only_if")
            case j.ParentStepStarted():
                self._add_check(entry.step, "only_if")
                self.steps[entry.step].items = entry.of
            case j.RunOutputSet() if entry.by:
                self._add_output(entry.by, entry.flag, entry.value)
            case j.OutputSet():
                self._add_output(entry.agent, f"{entry.agent}.{entry.key}", entry.value)
            case j.StepFailed():
                draft = self.steps[parent_or_self(entry.step)]
                draft.outcome, draft.because = "failed", f"failed: {entry.error}"
            case j.StepCompleted() if not item_number(entry.step):
                self._end_step(entry)
            case j.InterruptRaised():
                self._raise_interrupt(entry.interrupt)
            case j.InterruptAnswered():
                self._answer_interrupt(entry)
            case _:
                pass

    # -- conditions ------------------------------------------------------------------------------

    def check(
        self, condition: Condition, kind: Literal["when", "only_if", "decide"]
    ) -> ConditionCheckView:
        """The result of a condition now, with the values that it uses."""
        outputs = {
            agent: {key: output.value for key, output in found.items()}
            for agent, found in self.state.agent_outputs.items()
        }
        flags = self.state.flags
        return ConditionCheckView(
            kind=kind,
            condition=render_condition(condition),
            holds=holds(condition, flags, outputs),
            values={
                f"{fact.agent}.{fact.name}" if fact.agent else fact.name: value_of(
                    fact, flags, outputs
                )
                for fact in facts_in(condition)
            },
        )

    def _add_check(
        self, step: StepId, kind: Literal["when", "only_if"], *, waived: bool = False
    ) -> None:
        node = self.plan.nodes[node_of(step)]
        condition = node.when if kind == "when" else node.only_if
        # A waived requirement is among the unmet ones.
        if condition is not None and not waived:
            self.steps[step].conditions.append(self.check(condition, kind))

    # -- steps -----------------------------------------------------------------------------------

    def _add_steps(self, entry: j.NodesReached, before: CrewState) -> None:
        new = [s for s in self.state.frontier if s not in before.frontier and not item_number(s)]
        for step in new:
            self.steps[step] = _Draft(step, self._reach_reason(entry, node_of(step)))
        done = self._completed.get(entry.source) if entry.source is not None else None
        if done is None:
            return
        reached = tuple(dict.fromkeys(each.node for each in entry.to))
        draft = self.steps[done]
        draft.to = reached
        draft.unfilled = tuple(
            IncompleteJoinView(
                node=name, missing=missing_sources(self.plan, name, self.state.routing)
            )
            for name in entry.arrived
            if name not in reached
        )
        if not draft.because:
            draft.because = entry.because

    def _reach_reason(self, entry: j.NodesReached, name: NodeName) -> str:
        if entry.source is None:
            if entry.because:
                return f"not all that it waits for came, and {entry.because}"
            return "starts with the run"
        source = self.plan.nodes[entry.source]
        if name in entry.arrived:
            return self._join_reason(entry.source, name)
        if source.decide is not None or source.route is not None:
            return f"{entry.source} sends the run here"
        if source.ask is not None:
            return f"the answer to {entry.source} sends the run here"
        if source.gives_way and source.otherwise == name:
            return f"in the place of {entry.source}"
        if source.stand_in == name:
            return f"in the place of {entry.source}, which failed"
        return f"{entry.source} sends the run here"

    def _join_reason(self, source: NodeName, name: NodeName) -> str:
        join = self.plan.nodes[name].join
        if join is None or len(join.of) == 1:
            return f"{source} is done"
        counts = counts_at(name, join.of, self.state.routing)
        arrived = [s for s, count in counts.items() if count is not None and count > 0]
        kept = [s for s, count in counts.items() if count is None]
        if join.need == 1:
            return f"{source} is done, the first of {listed(join.of)}"
        counted = "" if join.need == len(join.of) else f", {join.need} of {len(join.of)}"
        done = f"{listed(arrived)} {'are' if len(arrived) > 1 else 'is'} done{counted}"
        return f"{done}; {listed(kept)} counts as done" if kept else done

    def _add_output(self, agent: str, name: str, value: Json) -> None:
        for step, entry in self.state.frontier.items():
            node = self.plan.nodes[entry.node]
            if AgentName(agent) in node.agents and entry.status == "running":
                self.steps[parent_or_self(step)].sets[name] = value
                return

    def _end_step(self, entry: j.StepCompleted) -> None:
        draft = self.steps[entry.step]
        name = node_of(entry.step)
        node = self.plan.nodes[name]
        self._completed[name] = entry.step
        failed = draft.outcome == "failed"
        if not failed:
            draft.outcome = "skipped" if entry.skipped else "done"
        if node.decide is not None:
            draft.conditions.append(self.check(node.decide.when, "decide"))
        elif entry.skipped and node.only_if is not None and not draft.conditions:
            check = self.check(node.only_if, "only_if")
            draft.conditions += [] if check.holds else [check]
        if not failed:
            draft.because = entry.because.replace("people said", "the answer is")
        if node.when is not None and node.otherwise != ASK_HUMAN and entry.skipped:
            self._add_blocked_requirement(name, node)

    # -- interrupts ------------------------------------------------------------------------------

    def _raise_interrupt(self, asked: Interrupt) -> None:
        self._asked[asked.id] = asked
        if asked.kind == "requirement" and asked.step is not None:
            name = node_of(asked.step)
            node = self.plan.nodes[name]
            if node.for_each is not None and asked.detail == node.for_each:
                then = "people are asked: look again, skip this, or stop"
                self.unmet[name] = UnmetRequirementView(
                    node=name, requirement=node.for_each, alternative=then
                )
            else:
                self._add_blocked_requirement(name, node)

    def _add_blocked_requirement(self, name: NodeName, node: PlanNode) -> None:
        if node.when is None or name in self.unmet:
            return
        then = {
            ASK_HUMAN: "people are asked: set it, skip this, or stop",
            SKIP: "it is skipped, and what waits for it goes on",
        }.get(node.otherwise, f"{node.otherwise} runs in its place")
        condition = render_condition(node.when)
        self.unmet[name] = UnmetRequirementView(node=name, requirement=condition, alternative=then)
        check = self.check(node.when, "when")
        for step, draft in self.steps.items():
            if node_of(step) == name and draft.outcome == "open" and not check.holds:
                draft.conditions.append(check)

    def _answer_interrupt(self, entry: j.InterruptAnswered) -> None:
        asked = self._asked[entry.interrupt]
        if entry.decision == "withdrawn":
            return
        self.questions.append(
            DryRunInterruptView(
                kind=asked.kind,
                node=node_of(asked.step) if asked.step else None,
                step=asked.step,
                question=asked.question,
                options=asked.options,
                answer=entry.decision,
            )
        )


# -- unreached nodes -------------------------------------------------------------------------------


def _unreached_nodes(
    plan: GraphPlan, reader: _JournalReader, end: DryRunEnd
) -> Iterator[UnreachedNodeView]:
    visited = {node_of(step) for step in reader.steps}
    for name, node in plan.nodes.items():
        if name not in visited:
            yield UnreachedNodeView(
                node=name, reason=_unreached_reason(plan, reader, name, node, end)
            )


def _unreached_reason(
    plan: GraphPlan, reader: _JournalReader, name: NodeName, node: PlanNode, end: DryRunEnd
) -> str:
    visited = {node_of(step) for step in reader.steps}
    done = reader.state.routing.completed
    if node.join is not None:
        never = [source for source in node.join.of if source not in visited]
        unfinished = [s for s in node.join.of if s in visited and not done.get(s, 0)]
        elsewhere = [
            s for s in node.join.of if done.get(s, 0) and _has_not_arrived(reader, s, name)
        ]
        waits = f"waits for {listed(node.join.of)}" if len(node.join.of) > 1 else ""
        parts = [waits] if waits else []
        parts += [f"{each} is never reached" for each in never]
        parts += [f"{each} went elsewhere" for each in elsewhere]
        parts += [f"the run ended at {each}" for each in unfinished]
        return "; ".join(parts) or f"the run {_ENDS[end]} before"
    ways = [
        (source, why)
        for source, other in plan.nodes.items()
        for target, why in outgoing_edges(other, plan.nodes)
        if target == name
    ]
    if not ways:
        return "nothing sends the run here"
    return "; ".join(_unsent_reason(reader, plan, source, why) for source, why in ways)


_ENDS = {"completed": "ended", "failed": "failed", "stopped": "was stopped", "cut": "was cut off"}


def _has_not_arrived(reader: _JournalReader, source: NodeName, target: NodeName) -> bool:
    """Whether a completed node did not arrive at a join."""
    return not counts_at(target, [source], reader.state.routing)[source]


def _unsent_reason(reader: _JournalReader, plan: GraphPlan, source: NodeName, why: str) -> str:
    """Why the run did not take an edge."""
    visits = [each for step, each in reader.steps.items() if node_of(step) == source]
    node = plan.nodes[source]
    if not visits:
        return f"only {source} sends the run here, and is never reached"
    if node.decide is not None and not why.startswith("else"):
        return f"{source} sends the run here only where {render_condition(node.decide.when)}"
    if node.decide is not None:
        return f"{source} sends the run here only when its visits are used up"
    if node.route is not None:
        return f"{source} sends the run here only where {node.route.by} says so"
    if node.ask is not None:
        return f"{source} sends the run here only where people answer {why!r}"
    if node.stand_in is not None and why == ON_ERROR:
        return f"it runs only where {source} fails"
    return f"it runs only in the place of {source}"

"""What a dry run's journal says, told for people: each visit with its reason.

What a dry run tells: visits with their reasons, questions, and what is never reached.

A dry run: the graph routed on an empty state, with the real engine, and nothing called.

Every agent's turn is over at once, says nothing and sets nothing but what is assumed, unless it is
assumed to fail; every question gets its first answer; every wait is over once nothing else goes on.
`crewlog.reporting.dry_run` makes the account from the journal: which node follows which and why,
which questions are asked, which nodes are never reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from crewlog.canonical_json import hash_json
from crewlog.definition.conditions import (
    Condition,
    facts_in,
    holds,
    render_condition,
    value_of,
)
from crewlog.definition.findings import did_you_mean, listed
from crewlog.errors import UsageError
from crewlog.graph.answers import StopAnswer, answer
from crewlog.graph.engine import Engine, Order
from crewlog.graph.joins import unfilled
from crewlog.graph.plan import ASK_HUMAN, SKIP, GraphPlan, PlanNode
from crewlog.ids import AgentName, FlagName, NodeName, RunId, StepId, item_number, node_of, visit_of
from crewlog.model import Json, Model
from crewlog.reporting.drawing import ON_ERROR, sent
from crewlog.state import journal as j
from crewlog.state.calls import CallModelResult, OutputValue, StructuredOutput
from crewlog.state.fold import reduce
from crewlog.state.model import CrewState, Interrupt

End = Literal["completed", "failed", "stopped", "cut"]
"""How a dry run ended; `cut` where it took too many steps."""


class ConditionCheckView(Model):
    """A condition that was looked at, and what it saw."""

    kind: Literal["when", "only_if", "decide"]
    """A requirement, a condition to work at all, or a decision's."""
    condition: str
    """As it is written."""
    holds: bool
    """Whether it held."""
    values: dict[str, Json] = Field(default_factory=dict[str, Json])
    """What its names stood for; null is what nobody has set."""


class IncompleteJoinView(Model):
    """A join that a node arrived at without making it run."""

    node: NodeName
    """The node with the join."""
    missing: tuple[NodeName, ...] = ()
    """What it lacks; empty where it has run already and needs no more."""


class DryRunInterruptView(Model):
    """A question that would be asked, and the answer that the dry run gave."""

    kind: str
    """Why it is asked: `ask`, `requirement`, `limit`, …"""
    node: NodeName | None = None
    """The node that waits for the answer; none for the whole run."""
    step: StepId | None = None
    """The visit that waits for it."""
    question: str
    options: tuple[str, ...]
    answer: str
    """What was answered here: the first option, as a rule."""


class DryRunStepView(Model):
    """A visit to a node."""

    step: StepId
    node: NodeName
    kind: Literal["agent", "decide", "ask", "wait", "route"]
    agent: AgentName | None = None
    why: str
    """Why it was reached."""
    conditions: tuple[ConditionCheckView, ...] = ()
    """The conditions that were looked at, in order."""
    outcome: Literal["done", "skipped", "failed", "open"] = "open"
    """`failed` where it was assumed to fail, `open` where the run ended before it."""
    because: str = ""
    """Why it was skipped, or where a decision or an answer went."""
    items: int | None = None
    """How many items it has a step for, where it has one for each item of a list."""
    sets: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The flags and outputs that it was assumed to set."""
    to: tuple[NodeName, ...] = ()
    """The nodes that follow."""
    unfilled: tuple[IncompleteJoinView, ...] = ()
    """Joins that it arrived at, and that do not run by it."""


class Unmet(Model):
    """A requirement that nothing met."""

    node: NodeName
    requirement: str
    then: str
    """What happens: people are asked, it is skipped, or another node takes its place."""


class Never(Model):
    """A node that was not reached."""

    node: NodeName
    why: str


class DryRun(Model):
    """What a crew does where nobody says or sets anything."""

    crew: str
    flags: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The flags that were assumed."""
    outputs: dict[str, dict[str, Json]] = Field(default_factory=dict[str, dict[str, Json]])
    """The outputs that were assumed."""
    errors: dict[str, str] = Field(default_factory=dict[str, str])
    """The errors with which steps were assumed to fail, by node or by agent."""
    steps: tuple[DryRunStepView, ...] = ()
    """The visits, in the order in which nodes were reached."""
    questions: tuple[DryRunInterruptView, ...] = ()
    """What people would be asked, in order."""
    unmet: tuple[Unmet, ...] = ()
    """Requirements that nothing met."""
    never: tuple[Never, ...] = ()
    """Nodes that were not reached, in the order of the plan."""
    end: End = "completed"
    because: str = ""
    """Why it did not complete."""


def account(
    plan: GraphPlan, entries: Iterable[j.JournalEntry], *, end: End, because: str
) -> DryRun:
    """The dry run that a journal tells."""
    told = _JournalReader(plan)
    for entry in entries:
        told.take(entry)
    return DryRun(
        crew=plan.crew,
        steps=tuple(_step(each, plan) for each in told.steps.values()),
        questions=tuple(told.questions),
        unmet=tuple(told.unmet.values()),
        never=tuple(_never(plan, told, end)),
        end=end,
        because=because,
    )


@dataclass
class _Draft:
    """A visit, as far as it is told."""

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
        why=draft.why,
        conditions=tuple(draft.conditions),
        outcome=draft.outcome,
        because=draft.because,
        items=draft.items,
        sets=draft.sets,
        to=draft.to,
        unfilled=draft.unfilled,
    )


class _JournalReader:
    """Folds a journal, and notes what it says."""

    def __init__(self, plan: GraphPlan) -> None:
        self.plan = plan
        self.state = CrewState(run=RunId("dry-run"))
        self.steps: dict[StepId, _Draft] = {}
        self.questions: list[DryRunInterruptView] = []
        self.unmet: dict[NodeName, Unmet] = {}
        self._asked: dict[str, Interrupt] = {}
        self._completed: dict[NodeName, StepId] = {}

    def take(self, entry: j.JournalEntry) -> None:
        """One more entry."""
        before, self.state = self.state, reduce(self.state, entry)
        match entry:
            case j.NodesReached():
                self._routed(entry, before)
            case j.RequirementMet():
                self._condition(entry.step, "when", waived=entry.waived)
            case j.StepStarted() if not item_number(entry.step):
                self._condition(entry.step, "only_if")
            case j.ParentStepStarted():
                self._condition(entry.step, "only_if")
                self.steps[entry.step].items = entry.of
            case j.RunOutputSet() if entry.by:
                self._set(entry.by, entry.flag, entry.value)
            case j.OutputSet():
                self._set(entry.agent, f"{entry.agent}.{entry.key}", entry.value)
            case j.StepFailed():
                draft = self.steps[visit_of(entry.step)]
                draft.outcome, draft.because = "failed", f"failed: {entry.error}"
            case j.StepCompleted() if not item_number(entry.step):
                self._ended(entry)
            case j.InterruptRaised():
                self._raised(entry.interrupt)
            case j.InterruptAnswered():
                self._answered(entry)
            case _:
                pass

    # -- conditions ------------------------------------------------------------------------------

    def look(
        self, condition: Condition, kind: Literal["when", "only_if", "decide"]
    ) -> ConditionCheckView:
        """A condition with what it sees now."""
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

    def _condition(
        self, step: StepId, kind: Literal["when", "only_if"], *, waived: bool = False
    ) -> None:
        node = self.plan.nodes[node_of(step)]
        condition = node.when if kind == "when" else node.only_if
        # Of one that people waived it is told that nothing met it.
        if condition is not None and not waived:
            self.steps[step].conditions.append(self.look(condition, kind))

    # -- visits ----------------------------------------------------------------------------------

    def _routed(self, entry: j.NodesReached, before: CrewState) -> None:
        new = [s for s in self.state.frontier if s not in before.frontier and not item_number(s)]
        for step in new:
            self.steps[step] = _Draft(step, self._why(entry, node_of(step)))
        done = self._completed.get(entry.source) if entry.source is not None else None
        if done is None:
            return
        reached = tuple(dict.fromkeys(each.node for each in entry.to))
        draft = self.steps[done]
        draft.to = reached
        draft.unfilled = tuple(
            IncompleteJoinView(node=name, missing=unfilled(self.plan, name, self.state.routing))
            for name in entry.arrived
            if name not in reached
        )
        if not draft.because:
            draft.because = entry.because

    def _why(self, entry: j.NodesReached, name: NodeName) -> str:
        if entry.source is None:
            if entry.because:
                return f"not all that it waits for came, and {entry.because}"
            return "starts with the run"
        source = self.plan.nodes[entry.source]
        if name in entry.arrived:
            return self._joined(entry.source, name)
        if source.decide is not None or source.route is not None:
            return f"{entry.source} sends the run here"
        if source.ask is not None:
            return f"the answer to {entry.source} sends the run here"
        if source.gives_way and source.otherwise == name:
            return f"in the place of {entry.source}"
        if source.stand_in == name:
            return f"in the place of {entry.source}, which failed"
        return f"{entry.source} hands over to it"

    def _joined(self, source: NodeName, name: NodeName) -> str:
        join = self.plan.nodes[name].join
        if join is None or len(join.of) == 1:
            return f"{source} is done"
        routing = self.state.routing
        base = routing.base.get(name, ())
        arrived = [s for s in join.of if routing.arrivals.get(name, {}).get(s, 0) > 0]
        kept = [s for s in join.of if s in base]
        if join.need == 1:
            return f"{source} is done, the first of {listed(join.of)}"
        counted = "" if join.need == len(join.of) else f", {join.need} of {len(join.of)}"
        done = f"{listed(arrived)} {'are' if len(arrived) > 1 else 'is'} done{counted}"
        return f"{done}; {listed(kept)} counts as done" if kept else done

    def _set(self, agent: str, name: str, value: Json) -> None:
        for step, entry in self.state.frontier.items():
            node = self.plan.nodes[entry.node]
            if AgentName(agent) in node.agents and entry.status == "running":
                self.steps[visit_of(step)].sets[name] = value
                return

    def _ended(self, entry: j.StepCompleted) -> None:
        draft = self.steps[entry.step]
        name = node_of(entry.step)
        node = self.plan.nodes[name]
        self._completed[name] = entry.step
        failed = draft.outcome == "failed"
        if not failed:
            draft.outcome = "skipped" if entry.skipped else "done"
        if node.decide is not None:
            draft.conditions.append(self.look(node.decide.when, "decide"))
        elif entry.skipped and node.only_if is not None and not draft.conditions:
            looked = self.look(node.only_if, "only_if")
            draft.conditions += [] if looked.holds else [looked]
        if not failed:
            draft.because = entry.because.replace("people said", "the answer is")
        if node.when is not None and node.otherwise != ASK_HUMAN and entry.skipped:
            self._add_blocked_requirement(name, node)

    # -- questions -------------------------------------------------------------------------------

    def _raised(self, asked: Interrupt) -> None:
        self._asked[asked.id] = asked
        if asked.kind == "requirement" and asked.step is not None:
            name = node_of(asked.step)
            node = self.plan.nodes[name]
            if node.for_each is not None and asked.detail == node.for_each:
                then = "people are asked: look again, skip this, or stop"
                self.unmet[name] = Unmet(node=name, requirement=node.for_each, then=then)
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
        self.unmet[name] = Unmet(node=name, requirement=condition, then=then)
        looked = self.look(node.when, "when")
        for step, draft in self.steps.items():
            if node_of(step) == name and draft.outcome == "open" and not looked.holds:
                draft.conditions.append(looked)

    def _answered(self, entry: j.InterruptAnswered) -> None:
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


# -- what is never reached -------------------------------------------------------------------------


def _never(plan: GraphPlan, told: _JournalReader, end: End) -> Iterator[Never]:
    visited = {node_of(step) for step in told.steps}
    for name, node in plan.nodes.items():
        if name not in visited:
            yield Never(node=name, why=_unreached_reason(plan, told, name, node, end))


def _unreached_reason(
    plan: GraphPlan, told: _JournalReader, name: NodeName, node: PlanNode, end: End
) -> str:
    visited = {node_of(step) for step in told.steps}
    done = told.state.routing.done
    if node.join is not None:
        never = [source for source in node.join.of if source not in visited]
        unfinished = [s for s in node.join.of if s in visited and not done.get(s, 0)]
        elsewhere = [s for s in node.join.of if done.get(s, 0) and _left(told, s, name)]
        waits = f"waits for {listed(node.join.of)}" if len(node.join.of) > 1 else ""
        parts = [waits] if waits else []
        parts += [f"{each} is never reached" for each in never]
        parts += [f"{each} went elsewhere" for each in elsewhere]
        parts += [f"the run ended at {each}" for each in unfinished]
        return "; ".join(parts) or f"the run {_ENDS[end]} before"
    ways = [
        (source, why)
        for source, other in plan.nodes.items()
        for target, why in sent(other, plan.nodes)
        if target == name
    ]
    if not ways:
        return "nothing sends the run here"
    return "; ".join(_unsent_reason(told, plan, source, why) for source, why in ways)


_ENDS = {"completed": "ended", "failed": "failed", "stopped": "was stopped", "cut": "was cut off"}


def _left(told: _JournalReader, source: NodeName, target: NodeName) -> bool:
    """Whether a node that is done never arrived at a join."""
    return not told.state.routing.arrivals.get(target, {}).get(source, 0)


def _unsent_reason(told: _JournalReader, plan: GraphPlan, source: NodeName, why: str) -> str:
    """Why a node that could send the run somewhere did not."""
    visits = [each for step, each in told.steps.items() if node_of(step) == source]
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


MOST_STEPS = 200
"""Steps after which a dry run is cut off: what loops so long is seen by then."""

Outputs = Mapping[str, Mapping[str, Json]]
"""Outputs by agent and key."""
ASSUMED = "Assumed"
"""The error type of a step that is assumed to fail."""


async def dry_run(
    plan: GraphPlan,
    *,
    flags: Mapping[str, Json] | None = None,
    outputs: Outputs | None = None,
    errors: Mapping[str, str] | None = None,
    most: int = MOST_STEPS,
) -> DryRun:
    """Routes a plan's graph without calling anything.

    Args:
        plan: The plan.
        flags: Flags that are assumed: those an agent writes are set when its turn ends, others
            at the start.
        outputs: Outputs that are assumed, set when their agents' turns end.
        errors: Errors with which steps are assumed to fail, by their node, or by their agent for
            all of its steps.
        most: After so many steps it is cut off.

    Raises:
        UsageError: where what is assumed is nothing that the crew has.
    """
    drill = _DryRunner(plan, flags or {}, outputs or {}, errors or {})
    end, because = await drill.go(most)
    entries = [j.entry_from_json(data) for data in drill.engine.ledger.entries]
    return account(plan, entries, end=end, because=because).model_copy(
        update={
            "flags": dict(flags or {}),
            "outputs": {agent: dict(found) for agent, found in (outputs or {}).items()},
            "errors": dict(errors or {}),
        }
    )


class _DryRunner:
    """The engine, and what stands in for models and people."""

    engine: Engine

    def __init__(
        self,
        plan: GraphPlan,
        flags: Mapping[str, Json],
        outputs: Outputs,
        errors: Mapping[str, str],
    ) -> None:
        # One turn of a conversation; and the turns of agents that ask no model are over at once, as
        # those of all others: nothing is called, and no step takes any time.
        idle = {name: rules.model_copy(update={"does": ()}) for name, rules in plan.agents.items()}
        nodes = {
            name: node if node.timeout is None else node.model_copy(update={"timeout": None})
            for name, node in plan.nodes.items()
        }
        self.plan = plan.model_copy(update={"conversation": None, "agents": idle, "nodes": nodes})
        self.flags = flags
        self.outputs = outputs
        self.errors = errors
        self._answered: set[tuple[NodeName | None, str]] = set()
        _check(plan, flags, outputs)
        _check_assumed_errors(plan, errors)

    async def go(self, most: int) -> tuple[End, str]:
        """Runs to the end, or to `most` steps; how it ended and why."""
        self.engine = engine = await Engine.begin(
            self.plan, RunId("dry-run"), input_text="", by="", at=0
        )
        written = {flag for rules in self.plan.agents.values() for flag in rules.flags}
        for flag in self.flags:
            if flag not in written:
                engine.record(j.RunOutputSet(flag=FlagName(flag), value=self.flags[flag]))
        while True:
            await engine.settle(())
            order = next(engine.orders(()), None)
            if engine.state.status == "failed":
                return "failed", engine.state.error
            if engine.state.closed:
                return "completed", ""
            if engine.state.steps > most or engine.state.position > most * 20:
                return "cut", f"it goes on after {most} steps"
            if order is not None:
                await self._end_turn(order)
            elif (due := engine.waits.next_deadline()) is not None:
                engine.at = max(engine.at, due)
                engine.waits.rung(due)
            elif engine.state.interrupts:
                asked = next(iter(engine.state.interrupts.values()))
                try:
                    await answer(engine, asked, self._chosen_answer(asked), by="", command=None)
                except StopAnswer:
                    return "stopped", f"the answer to {asked.question!r} ends the run"
            else:
                return "stopped", "nothing is left that could go on"

    async def _end_turn(self, order: Order) -> None:
        """The agent's turn is over: it sets what is assumed, and says nothing; or it fails."""
        agent, rules = order.agent, self.plan.agents[order.agent]
        error = self.errors.get(node_of(order.step), self.errors.get(agent))
        if error is not None:
            await self.engine.fail_step(order.step, order.call.call, error, ASSUMED)
            return
        for flag in rules.flags:
            if flag in self.flags:
                self.engine.record(j.RunOutputSet(flag=flag, value=self.flags[flag], by=agent))
        assumed, said = self.outputs.get(agent, {}), rules.reply.fields if rules.reply else ()
        for key in rules.outputs:
            if key in assumed and key not in said:
                self.engine.record(j.OutputSet(agent=agent, key=key, value=assumed[key]))
        body = {"type": "ai", "content": "", "id": f"{order.step}/{order.call.call}"}
        fields = tuple(OutputValue(key=key, value=assumed[key]) for key in said if key in assumed)
        read = StructuredOutput(outputs=fields) if rules.reply else None
        reply = CallModelResult(body=body, hash=hash_json(body), reply=read)
        await self.engine.turns.apply_model_call(order.step, order.call.call, reply)

    def _chosen_answer(self, asked: Interrupt) -> str:
        """The first option; another one where that would only lead here again.

        It does where it goes to a node and was given before, and where it says to look again for
        a list that nobody sets.
        """
        if asked.kind == "step_failed":
            return "skip"  # it would only fail again
        first, *others = asked.options
        node = self.engine.state.frontier[asked.step].node if asked.step else None
        key = (node, asked.question)
        again = key in self._answered
        self._answered.add(key)
        if first != "again" and not (again and first in self.plan.nodes):
            return first
        on = [option for option in others if option not in self.plan.nodes]
        return next((option for option in on if option != "stop"), on[0] if on else first)


def _check_assumed_errors(plan: GraphPlan, errors: Mapping[str, str]) -> None:
    known = {name: node.agents for name, node in plan.nodes.items() if node.agents}
    for name in errors:
        if name not in known and not any(name in agents for agents in known.values()):
            raise UsageError(
                f"the crew {str(plan.crew)!r} has no step {name!r} that could fail",
                remedy=did_you_mean(name, known, f"Its agents' phases are: {', '.join(known)}."),
            )


def _check(plan: GraphPlan, flags: Mapping[str, Json], outputs: Outputs) -> None:
    known = {*plan.flags} | {flag for rules in plan.agents.values() for flag in rules.flags}
    known |= {node.ask.sets for node in plan.nodes.values() if node.ask and node.ask.sets}
    for flag in flags:
        if flag not in known:
            there = f"Its flags are: {', '.join(sorted(known))}." if known else "It has none."
            raise UsageError(
                f"the crew {str(plan.crew)!r} has no flag {flag!r} that could be assumed",
                remedy=did_you_mean(flag, known, there),
            )
    for agent, found in outputs.items():
        rules = plan.agents.get(AgentName(agent))
        if rules is None:
            raise UsageError(
                f"the crew {str(plan.crew)!r} has no agent {agent!r}",
                remedy=did_you_mean(agent, plan.agents, f"It has: {', '.join(plan.agents)}."),
            )
        for key in found:
            if key not in rules.outputs:
                there = ", ".join(rules.outputs) or "none"
                raise UsageError(
                    f"agent {agent!r} declares no output {key!r}",
                    remedy=did_you_mean(key, rules.outputs, f"It declares: {there}."),
                )

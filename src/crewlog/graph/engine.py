"""The engine: applies what happened to a run and computes what follows, without a server.

It owns the recorder, drives the plan's graph and the graph of the turns, and returns the calls to
make (`pending_calls`). The caller, a workflow or a test, makes the calls and reports the
completions; `at` is the time. There is one applier: a method that applies something ends before
the next one starts.

LangGraph computes which nodes follow a completion, the journal records them (`NodesReached`), and
the fold makes the frontier of that entry. So the journal alone rebuilds the frontier, and the
frontier's routing restores the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from typing_extensions import override

from crewlog.canonical_json import hash_json
from crewlog.definition.conditions import render_condition
from crewlog.definition.model import GROUP_TOOLS
from crewlog.definition.times import duration_words
from crewlog.graph import branches
from crewlog.graph.agents_without_model import AgentsWithoutModel
from crewlog.graph.budgets import Budgets, uses
from crewlog.graph.child_steps import ChildSteps
from crewlog.graph.driver import Target
from crewlog.graph.exchanges import Exchanges
from crewlog.graph.interrupts import shown_output_fields, text_target
from crewlog.graph.joins import (
    branch_outcome,
    dependents,
    is_branch_limit_reached,
    lost_targets,
    missing_sources,
    next_generation,
    owed_arrivals,
)
from crewlog.graph.loops import Joins, Loops
from crewlog.graph.lowering.compiler import compile_plan
from crewlog.graph.outputs import reset_error_output, reset_outputs, start_position
from crewlog.graph.plan import ASK_HUMAN, FAIL, NEXT, SKIP, Ask, GraphPlan, PlanNode, Route
from crewlog.graph.prompt_compilation import NO_PLAN, STEP, PromptCompilation
from crewlog.graph.run_context import CallRequest, RunContext, disabled_reason
from crewlog.graph.state_edit import set_initial_state
from crewlog.graph.timers import TIMEOUT, Timers
from crewlog.graph.turns import Turns, calls_of
from crewlog.graph.wakes import Wakes
from crewlog.ids import (
    PUBLIC,
    CommandId,
    ContentHash,
    NodeName,
    RunId,
    StepId,
)
from crewlog.message_files import FileRef
from crewlog.run_status import EndReason, error_end_reason
from crewlog.state import journal as j
from crewlog.state.calls import PreparedSplitRun
from crewlog.state.carry import PromptCarry
from crewlog.state.excerpt import excerpt
from crewlog.state.fold import routing_after
from crewlog.state.frontier import child_steps_of
from crewlog.state.initial_state import InitialState
from crewlog.state.model import Call, CrewState, FrontierStep
from crewlog.state.recorder import Journal
from crewlog.state.restore import handoff_reason


class Engine(RunContext):
    """A run between two completions.

    Args:
        plan: The run's plan.
        ledger: Its state: empty, or carried here from another execution.
        draft: What a run knows besides its state whose prompt is not compiled and approved yet.
    """

    def __init__(self, plan: GraphPlan, ledger: Journal, draft: PromptCarry | None = None) -> None:
        super().__init__(plan, ledger)
        self.prompt = PromptCompilation(self, draft, self.use, self._start_drafted_crew)
        self.wakes = Wakes(self)
        self.turns = Turns(self, self.wakes, self._end_turn, self.fail_step)
        self.child_steps = ChildSteps(self, self._complete, self._may_start)
        self.agents_without_model = AgentsWithoutModel(
            self, self.turns.apply_model_call, self.fail_step, self.child_steps.item
        )
        self.timers = Timers(self, self._complete, self._give_up_requirement)
        self.budgets = Budgets(self, self.timers)
        self.exchanges = Exchanges(self, self._enter_flow)
        self.pending_plan: GraphPlan | None = None
        """The plan that the run drains for, where a change of the graph was accepted."""
        self.pending_split_runs: tuple[PreparedSplitRun, ...] = ()
        """Of a graph that is about to fall apart: what other runs are to have."""
        self.use(plan)

    def use(self, plan: GraphPlan) -> None:
        """Puts a plan in force. Its graph is the one that the state belongs to."""
        self.plan = plan
        self._driver = compile_plan(plan)
        self._following = dependents(plan)
        self._loops = Loops(plan)

    # -- beginning and restoring -------------------------------------------------------------

    @classmethod
    async def begin(
        cls,
        plan: GraphPlan,
        run: RunId,
        *,
        input_text: str,
        by: str,
        at: int,
        command: CommandId | None = None,
        ledger: Journal | None = None,
        given: InitialState | None = None,
        files: tuple[FileRef, ...] = (),
    ) -> Engine:
        """A new run with a crew.

        Raises:
            UsageError: `given` has a value or message that does not fit the crew.
        """
        engine = cls(plan, ledger or Journal(CrewState(run=run)))
        engine.at = at
        await engine._start_crew(input_text, by=by, command=command, given=given, files=files)
        return engine

    @classmethod
    def begin_with_prompt(
        cls, run: RunId, text: str, draft: PromptCarry, *, registry: str, at: int
    ) -> Engine:
        """A new run with a prompt: its crew starts once people have approved its definition."""
        engine = cls(NO_PLAN, Journal(CrewState(run=run)), draft)
        engine.at = at
        engine.record(
            j.PromptReceived(
                run=run, prompt=hash_json(text), inline=text, registry=registry, by=draft.by
            )
        )
        return engine

    async def _start_drafted_crew(self, draft: PromptCarry) -> None:
        await self._start_crew(draft.input, by=draft.by, command=draft.command, files=draft.files)

    async def _start_crew(
        self,
        input_text: str,
        *,
        by: str,
        command: CommandId | None = None,
        given: InitialState | None = None,
        files: tuple[FileRef, ...] = (),
    ) -> None:
        """Starts the crew of the plan in force.

        The input is the first public message, and the entry nodes become ready. With a command the
        input is the message of that command.
        """
        plan = self.plan
        self.record(
            j.RunStarted(
                run=self.state.run,
                crew=plan.crew,
                definition=plan.definition,
                flags=plan.flags,
                permissions={**plan.permissions},
                coordination_rules=plan.rules,
                by=by,
                started_at=self.state.started_at,
            )
        )
        said: ContentHash | None = None
        if input_text or files:
            said = self.say(
                input_text, by=by, to=PUBLIC, message_id="input", command=command, files=files
            )
        if given is not None:
            set_initial_state(self, given, by=by)
        if not self.exchanges.is_conversation:
            await self._enter_flow()
            if said is not None:
                self.wakes.wake_readers(PUBLIC, said, by)
        elif said is not None:
            await self.exchanges.begin(command or "input", by, said)
        else:
            self.exchanges.wait_for_first_message()

    async def _enter_flow(self) -> None:
        """Reaches the nodes that the flow begins with."""
        if not any(node.entry for node in self.plan.nodes.values()):
            return  # nobody works but who hears
        targets = self._driver.apply(
            "__start__", {"routing": self.state.routing, "outcome": (NEXT,)}
        )
        self.record(j.NodesReached(to=self._reached(targets)))

    @override
    def waits_for_calls(self, step: StepId) -> bool:
        return super().waits_for_calls(step) or (step == STEP and self.prompt.is_active)

    @override
    def fail(self, error: str, end_reason: EndReason = "") -> None:
        """Ends the run without success; of a conversation, only the turn."""
        if self.exchanges.is_conversation:
            self.exchanges.cancel(error, self.withdraw, end_reason or "failed")
        else:
            super().fail(error, end_reason)

    # -- what is to be done -------------------------------------------------------------------

    async def advance(self, in_flight: Collection[tuple[StepId, int]]) -> None:
        """Moves everything that needs no call: conditions, decisions, questions, the end.

        Args:
            in_flight: The calls under way, as step and call number.
        """
        if self.prompt.is_active:
            return  # the calls that compile, and people, move it
        while self.state.status == "running" and (
            not self.state.is_draining or self.is_finishing_detached_turns
        ):
            before = self.state.position
            if self.timers.has_fired_timers:
                await self._fail_timed_out_steps()
            for step in list(self.state.frontier):
                entry = self.state.frontier.get(step)
                if entry is None or not _has_work(entry, in_flight):
                    continue
                if self.state.status == "running" and self._goes(entry):
                    await self._move(entry)
                    await self.agents_without_model.request_calls(step)
                    await self._recheck_calls(step, in_flight)
            if self.state.position == before:
                wanted = [order.call for order in self._wanted_calls(in_flight)]
                if self.budgets.ask(wanted):
                    continue
                if in_flight or wanted or self.state.is_draining:
                    return
                await self._idle()
                if self.state.position == before:
                    return

    @property
    def is_finishing_detached_turns(self) -> bool:
        """Whether the run is to be part of another one once turns are over that end here.

        They are of agents that were removed in the middle of them: nobody takes these over, so
        they alone go on while what is under way lands.
        """
        joining = self.state.pending_merge
        return (
            joining is not None and joining.status == "draining" and bool(self.state.detached_turns)
        )

    def _goes(self, entry: FrontierStep) -> bool:
        """Whether a step's node is not about to leave for another run."""
        if self.state.is_draining:  # it is about to be part of one: only what ends before goes on
            return entry.is_detached
        changing = self.state.pending_change
        return changing is None or not changing.drains(entry.node)

    def pending_calls(self, in_flight: Collection[tuple[StepId, int]]) -> Iterator[CallRequest]:
        """The calls to make now, in the order of the frontier."""
        if self.prompt.is_active:
            yield from self.prompt.pending_calls(in_flight)
            return
        held = self.budgets.exhausted()
        yield from (each for each in self._wanted_calls(in_flight) if not uses(each.call, held))

    def _wanted_calls(self, in_flight: Collection[tuple[StepId, int]]) -> Iterator[CallRequest]:
        """The calls to make now, also those that a budget keeps back."""
        if self.state.status != "running" or (
            self.state.is_draining and not self.is_finishing_detached_turns
        ):
            return
        for step, entry in self.state.frontier.items():
            if entry.status != "running" or entry.turn is None or not _has_work(entry, in_flight):
                continue
            agent = self.agent_of(step)
            if agent is None or not self._goes(entry):
                continue
            regroups = False
            for call in entry.turn.calls:
                if self.plan.graph is not None and call.tool in GROUP_TOOLS:
                    # Each is made for the graph that the one before leads to.
                    if regroups and call.status == "ready":
                        continue
                    regroups = regroups or call.status != "buffered"
                if call.status == "ready" and (step, call.call) not in in_flight:
                    yield CallRequest(step, agent, call)

    # -- how steps end ------------------------------------------------------------------------

    async def apply_call_failure(
        self, step: StepId, number: int, error: str, error_type: str
    ) -> None:
        """Applies a call that failed for good: the agent's `on_error` decides what follows."""
        if step == STEP:
            self.prompt.apply_failure(error, error_type)
        elif self._unapplied_call(step, number) is not None:
            await self.fail_step(step, number, error, error_type)

    def ask_about_unknown_outcome(self, step: StepId, number: int, error: str) -> None:
        """Asks people about a call that began, did not answer, and must not be made again."""
        call = self._unapplied_call(step, number)
        if call is not None:
            self.ask(
                "outcome_unknown",
                f"{call.tool} {call.excerpt} was started and never answered. Did it happen?",
                step=step,
                call=number,
                options=("done", "retry", "stop"),
                detail=error,
                words=True,
            )

    def _unapplied_call(self, step: StepId, number: int) -> Call | None:
        calls = calls_of(self.state.frontier.get(step))
        return next((call for call in calls if call.call == number), None)

    async def fail_step(
        self, step: StepId, number: int | None, error: str, error_type: str, policy: str = ""
    ) -> None:
        """Records that a step cannot go on, and does what `on_error` of its phase or agent says.

        Args:
            step: The step.
            number: Its call that failed; none where the step as a whole failed.
            error: What went wrong, for people.
            error_type: The name of the error's type.
            policy: What is to follow; empty: what `on_error` says of failures.
        """
        agent = self.agent_of(step)
        entry = self.state.frontier[step]
        node = self.plan.node_of(entry)
        rules = self.rules_of(agent, step) if agent else None
        said = self._refusal(step)
        policy = policy or node.on_error or (rules.on_error if rules is not None else "ask")
        kept = {} if policy in ("ask", "fail") else self.child_steps.failure_fields(step, agent)
        if kept and entry.parent:  # errors of child steps make a list
            reset_error_output(self, step)
        self.record(
            j.StepFailed(
                step=step,
                call=number,
                error=error,
                error_type=error_type,
                has_stand_in=policy not in ("ask", "fail") and node.stand_in is not None,
                **kept,
            )
        )
        if policy == "fail":
            if self.exchanges.is_conversation:  # a later turn may look at what it did not say
                reset_outputs(self, step)
            self.fail(f"{step}: {error}{said}", error_end_reason(error_type))
        elif policy != "ask":
            if kept:
                self.child_steps.announce_failure(step, error_type)
            reset_outputs(self, step)
            because = f"failed: {excerpt(error)}"
            if node.stand_in is None:
                await self._complete(step, because=because)
            else:
                await self._start_stand_in(node.stand_in, entry, because=because)
        else:
            self.ask(
                "step_failed",
                f"{step} failed: {excerpt(error, 300)}{said}",
                step=step,
                call=number,
                options=("retry", "skip", "stop"),
                detail=f"{error}{said}",
                limit_reached=error_end_reason(error_type),
            )

    def _refusal(self, step: StepId) -> str:
        """What the model of a step said as it refused, for people; agents are not shown it."""
        entry = self.state.frontier.get(step)
        said = entry.turn.refusal if entry is not None and entry.turn is not None else ""
        return f" The model said: {said}" if said else ""

    async def _start_stand_in(
        self, stand_in: NodeName, failed: FrontierStep, *, because: str
    ) -> None:
        """Completes a failed step, or the parent step of a failed child step, with a stand-in."""
        if failed.parent is not None:
            self._cancel_child_steps(failed.parent)
            reset_outputs(self, failed.parent)
        await self._complete(failed.parent_or_self, outcome=stand_in, because=because)

    async def _fail_timed_out_steps(self) -> None:
        """Fails the steps that have taken as long as their nodes let them."""
        for entry in self.timers.timed_out_steps():
            if self.state.status != "running" or (self.state.is_draining and not entry.is_detached):
                return
            if entry.step not in self.state.frontier:  # an item of a visit that failed just now
                continue
            limit = duration_words(self.plan.node_of(entry).timeout or 0)
            self.withdraw(entry.step)
            error = f"it took longer than its timeout of {limit}"
            await self.fail_step(entry.step, None, error, TIMEOUT)

    async def _end_turn(self, step: StepId, handoff: Sequence[NodeName]) -> None:
        reset_error_output(self, step)
        await self._complete(step, handoff=handoff, because="handed off" if handoff else "")

    # -- moving -------------------------------------------------------------------------------

    async def finish(self, step: StepId, outcome: str, *, because: str) -> None:
        """Ends a step that is no agent's turn, and routes on."""
        await self._complete(step, outcome=outcome, because=because)

    async def skip_step(self, step: StepId, *, because: str) -> None:
        """Ends a step that people skip; what they set since it was reached stays."""
        reset_outputs(self, step)
        await self._complete(step, because=because, skipped=True)

    async def end_redirected_step(self, step: StepId, *, because: str) -> None:
        """Ends a step at once, with those of its items; the run goes where people sent it."""
        self._cancel_child_steps(step)
        if start_position(self, step):
            reset_outputs(self, step)
        await self._complete(step, because=because, skipped=True)

    def _cancel_child_steps(self, parent: StepId) -> None:
        """Cancels the child steps of a step that are not done."""
        for item in child_steps_of(self.state.frontier, parent):
            reset_outputs(self, item)
            self.withdraw(item)
            self.record(j.StepCancelled(step=item))

    async def repeat_branch(self, step: StepId) -> None:
        """Lets a decision whose visits are used up go where it goes, with its visits anew."""
        node = self.state.frontier[step].node
        rule = self.plan.nodes[node].decide
        if rule is not None:
            self.record(j.StepCompleted(step=step, because="people let it go again"))
            await self._route(node, (rule.go,), because="again", loop=True, rearmed=True)

    async def start_incomplete_join(self, node: NodeName) -> None:
        """Starts a join that cannot fill any more, as people decided."""
        self.record(j.NodesReached(to=(j.ReachedNode(node=node),), because="people let it go on"))

    async def _move(self, entry: FrontierStep) -> None:
        if entry.is_detached or self._keeps(self.plan.nodes[entry.node]):
            return
        node = self.plan.nodes[entry.node]
        if entry.status in ("waiting", "ready") and (off := self._switched_off(node)):
            await self._complete(entry.step, because=off, skipped=True)
        elif node.wait is not None and entry.status in ("waiting", "running"):
            await self.timers.continue_wait(entry, node)
        elif entry.status == "waiting" and (node.when is None or self.holds(node.when)):
            self.record(j.RequirementMet(step=entry.step))
        elif entry.status == "waiting":
            await self.timers.limit_requirement(entry, node)
        elif entry.status == "interrupted" and entry.requirement and node.when is not None:
            if self.holds(node.when):  # it came true while people were asked about it
                self.withdraw(entry.step, "requirement")
        elif entry.status == "ready":
            await self._start(entry, node)
        elif entry.status == "running" and entry.child_steps is None:
            await self._continue_step(entry, node)
        elif entry.child_steps is not None and entry.status == "running":
            await self.child_steps.start_child_steps(entry, node)
        elif (
            entry.status == "interrupted"
            and entry.child_steps is None
            and self.child_steps.has_new_list(entry.step, node)
        ):
            self.withdraw(entry.step, "requirement")

    async def _start(self, entry: FrontierStep, node: PlanNode) -> None:
        step = entry.step
        if self._is_at_breakpoint(step, entry.node):
            pass
        elif node.only_if is not None and not self.holds(node.only_if):
            because = f"{render_condition(node.only_if)} does not hold"
            await self._complete(step, because=because, skipped=True)
        elif missing := self._gate_reason(node):
            await self._complete(step, because=missing, skipped=True)
        elif node.kind == "decide":
            await self._decide(step, entry.node)
        elif node.route is not None:
            await self._follow(step, entry.node, node.route)
        elif node.for_each is not None:
            await self.child_steps.start_parent_step(entry, node)
        elif self._is_at_step_limit(step):
            pass
        elif node.wait is not None:
            self.timers.start_wait(entry, node)
        elif node.ask is not None:
            self.record(j.StepStarted(step=step))
            self._ask_people(step, node.ask)
        else:
            composed = self.has_no_model(node.agent)
            self.record(j.StepStarted(step=step, agent=node.agent, without_model=composed))

    def _ask_people(self, step: StepId, asks: Ask) -> None:
        self.ask(
            "ask",
            asks.question,
            step=step,
            options=asks.options,
            flag=asks.sets,
            words=asks.words,
            text_option=text_target(self.plan, asks) or "",
            **(shown_output_fields(asks.shows, self.state.agent_outputs) if asks.shows else {}),
        )

    async def _continue_step(self, entry: FrontierStep, node: PlanNode) -> None:
        """Limits the time of a started step; asks again what a change took back."""
        if node.timeout is not None:
            self.timers.limit_step(entry, node)
        if entry.turn is not None:
            if not entry.turn.calls:
                await self.turns.end(entry.step, entry.turn.goto)
        elif node.ask is not None:
            self._ask_people(entry.step, node.ask)
        elif node.decide is not None:
            await self._decide(entry.step, entry.node)
        elif node.route is not None:
            await self._follow(entry.step, entry.node, node.route)

    async def _recheck_calls(self, step: StepId, in_flight: Collection[tuple[StepId, int]]) -> None:
        """Looks at a turn's calls that are not made yet: what holds for them may have changed."""
        entry = self.state.frontier.get(step)
        if entry is None or entry.status != "running":
            return
        asked = {(q.step, q.call) for q in self.state.interrupts.values()}
        for call in calls_of(entry):
            if call.status == "interrupted" and (step, call.call) not in asked:
                self._ask_again_about_call(step, call)
            elif call.status == "ready" and call.tool and (step, call.call) not in in_flight:
                await self.turns.recheck_call(step, call)

    def _ask_again_about_call(self, step: StepId, call: Call) -> None:
        """Asks once more about a call whose question was taken back with its step."""
        if call.tool is None:
            question = f"{step} stood still when a change took it away. Try again?"
            options = ("retry", "skip", "stop")
            self.ask("step_failed", question, step=step, call=call.call, options=options)
        elif not self.turns.ask_again_for_approval(step, call):
            question = (
                f"{call.tool} {call.excerpt} was left open when a change took {step} away. "
                "Did it happen?"
            )
            self.ask(
                "outcome_unknown",
                question,
                step=step,
                call=call.call,
                options=("done", "retry", "stop"),
                words=True,
            )

    def _may_start(self, step: StepId, node: NodeName) -> bool:
        """Whether a visit may start another step of its items; else people are asked."""
        return not (self._is_at_breakpoint(step, node) or self._is_at_step_limit(step))

    def _is_at_breakpoint(self, step: StepId, node: NodeName) -> bool:
        """Whether people asked to be asked before a node; then they are."""
        breaks = set(self.state.breakpoints) & {node, NodeName("*")}
        if breaks:
            self.ask("manual", f"Go on with {step}?", step=step, options=("go on", "stop"))
        return bool(breaks)

    def _is_at_step_limit(self, step: StepId) -> bool:
        """Whether the run has taken all the steps it may; then people are asked."""
        before = self.state.conversation.steps if self.state.conversation is not None else 0
        if self.state.steps - before < self.plan.limits.steps * (1 + self.state.step_limit_raises):
            return False
        # One question for all that would start: one answer extends the limit once.
        if not any(asked.kind == "limit" for asked in self.state.interrupts.values()):
            what = "turn" if before else "run"
            question = f"The {what} has taken {self.state.steps - before} steps, its limit. Go on?"
            self.ask("limit", question, step=step, options=("go on", "stop"))
        return True

    def _switched_off(self, node: PlanNode) -> str:
        """Why a node is skipped whatever else holds; empty where it is not."""
        if node.agent is None or node.by or self.plan.agents[node.agent].enabled:
            return ""
        return disabled_reason(node.agent)

    def _keeps(self, node: PlanNode) -> bool:
        """Whether what its agent has heard waits until that is switched on."""
        return node.hears and bool(self._switched_off(node))

    def _gate_reason(self, node: PlanNode) -> str:
        """Why a node is skipped that needs tools; empty where its agent may call them all."""
        return (
            ""
            if node.agent is None or node.by
            else self.missing_tool_reason(node.agent, node.needs)
        )

    async def _decide(self, step: StepId, name: NodeName) -> None:
        state = self.state
        outcome, because = branch_outcome(
            self.plan, name, state.routing, state.flags, self.output_values()
        )
        rule = self.plan.nodes[name].decide
        if outcome == ASK_HUMAN and rule is not None:
            question = f"{render_condition(rule.when)}, and the run {because}. What now?"
            options, bound = ("continue", "again", "stop"), "retry_budget_exhausted"
            self.ask("ask", question, step=step, options=options, limit_reached=bound)
            return
        spent = is_branch_limit_reached(self.plan, name, state.routing, because)
        self.record(j.StepCompleted(step=step, because=because, used_up=spent))
        if outcome == FAIL:
            self.fail(f"{name}: {because}", "retry_budget_exhausted" if spent else "")
            return
        taken = rule is not None and outcome == rule.go
        await self._route(name, (outcome,), because=because, loop=taken)

    async def _follow(self, step: StepId, name: NodeName, route: Route) -> None:
        """Goes where an output says, or does what the route says for one that names no way."""
        state = self.state
        since = state.conversation.start_position if state.conversation is not None else 0
        choice = branches.choose_target(
            self.plan, name, state.agent_outputs, state.execution_count, since
        )
        bound: EndReason = "" if choice.used_up is None else "route_limit_reached"
        if choice.refused:
            self.record(
                j.BranchTargetRefused(
                    step=step,
                    by=route.by,
                    because=choice.because,
                    goes=choice.goes,
                    used_up=choice.used_up is not None,
                    tried=choice.used_up,
                )
            )
        if choice.goes == ASK_HUMAN:
            options = branches.branch_answer_options(route)
            self.ask(
                "ask",
                branches.question(name, choice),
                step=step,
                options=options,
                limit_reached=bound,
            )
            return
        self.record(j.StepCompleted(step=step, because=choice.because))
        if choice.goes == FAIL:
            self.fail(f"{name}: {choice.because}", bound)
            return
        await self._route(name, (choice.goes,), because=choice.because)

    async def _idle(self) -> None:
        """Nothing is under way and nothing is ready: the end, or something that cannot come."""
        state = self.state
        if state.interrupts:
            return
        waiting = [e for e in state.frontier.values() if e.status == "waiting"]
        if any(self.plan.nodes[e.node].wait is not None for e in waiting):
            return
        # An alternative is taken alone: what follows from it may be what the others wait for.
        ways = [e for e in waiting if self.plan.nodes[e.node].otherwise != ASK_HUMAN]
        for entry in ways[:1] or waiting:
            await self._give_up_requirement(entry)
        if waiting or (state.frontier and not self.wakes.may_idle()):
            return
        if state.is_conversation_idle:
            await self.exchanges.continue_idle(self.timers.idle_is_over())
            return
        for name in self.plan.nodes:
            missing = missing_sources(self.plan, name, state.routing)
            if missing:
                self.ask(
                    "requirement",
                    f"{name} waits for {' and '.join(missing)}, which will not come. "
                    "Go on without?",
                    options=("go on", "end", "stop"),
                    detail=name,
                )
                return
        if self.exchanges.is_conversation:
            self.exchanges.end()
        elif self.wakes.is_enabled:
            self.wakes.record_idle(self.timers.idle_is_over())
        else:
            self.record(j.RunCompleted())

    async def _give_up_requirement(self, entry: FrontierStep, *, late: bool = False) -> None:
        node = self.plan.nodes[entry.node]
        in_time = f"did not come true within {duration_words(node.within or 0)}"
        if node.otherwise == ASK_HUMAN:
            which = in_time if late else "nothing is left to set"
            self.ask(
                "requirement",
                f"{entry.node} waits for {entry.requirement}, which {which}.",
                step=entry.step,
                options=("set", "skip", "stop"),
                detail=entry.requirement,
            )
            return
        outcome = NEXT if node.otherwise == SKIP else node.otherwise
        because = f"{entry.requirement} {in_time if late else 'cannot come true any more'}"
        await self._complete(entry.step, outcome=outcome, because=because, skipped=True)

    async def _complete(
        self,
        step: StepId,
        *,
        outcome: str = NEXT,
        because: str = "",
        skipped: bool = False,
        handoff: Sequence[NodeName] = (),
    ) -> None:
        entry = self.state.frontier[step]
        node = entry.node
        # Where it was sent may be gone with another graph: then the journal says so.
        lost = "; ".join(lost_targets(entry, handoff, self.plan.nodes))
        because = "; ".join(filter(None, (because, lost)))
        handoff = [target for target in handoff if target in self.plan.nodes]
        self.withdraw(step)
        if entry.parent is not None:
            await self.child_steps.complete_child_step(
                step, entry.parent, because=because, skipped=skipped, handoff=handoff
            )
            return
        if entry.redirect is not None and entry.redirect in self.plan.nodes:
            handoff = (entry.redirect,)
        self.record(j.StepCompleted(step=step, because=because, skipped=skipped))
        if not entry.is_detached and not self.plan.nodes[node].hears:
            taken = (outcome,) if not handoff else ()
            await self._route(node, taken, because=lost, handoff=handoff)
        elif handoff:
            targets = [Target(name) for name in handoff]
            self.record(j.NodesReached(to=self._reached(targets), because=handoff_reason(step)))

    def withdraw(self, step: StepId, kind: str | None = None) -> None:
        """Closes the questions about a step, where nobody waits for their answers any more."""
        for asked in list(self.state.interrupts.values()):
            if asked.step == step and kind in (None, asked.kind):
                self.record(j.InterruptAnswered(interrupt=asked.id, decision="withdrawn"))

    async def _route(
        self,
        node: NodeName,
        outcome: tuple[str, ...],
        *,
        because: str = "",
        loop: bool = False,
        rearmed: bool = False,
        handoff: Sequence[NodeName] = (),
    ) -> None:
        arrived = self._joins_with_arrival(node) if NEXT in outcome else ()
        anew = self._restarted_joins(node, (*outcome, *handoff))
        reset = next_generation(anew, self.state.routing)
        active = [
            entry.node
            for entry in self.state.frontier.values()
            if not entry.parent and not entry.is_detached
        ]
        late = owed_arrivals(self.plan, anew, active)
        routing = routing_after(
            self.state.routing, node, arrived, loop=loop, reset=reset, late=late, rearmed=rearmed
        )
        targets = self._driver.apply(node, {"routing": routing, "outcome": outcome}, goto=handoff)
        self.record(
            j.NodesReached(
                source=node,
                to=self._reached(targets),
                arrived=arrived,
                outcome=outcome or tuple(handoff),
                because=because,
                loop=loop,
                reset=reset,
                late=late,
                loop_reset=rearmed,
                branched=self._counted(node, outcome),
            )
        )

    def _counted(self, node: NodeName, outcome: Sequence[str]) -> tuple[NodeName, ...]:
        """The nodes that a route goes to: how often it does is counted."""
        if self.plan.nodes[node].route is None:
            return ()
        return tuple(NodeName(target) for target in outcome if target in self.plan.nodes)

    def _joins_with_arrival(self, node: NodeName) -> tuple[NodeName, ...]:
        """The joins that count an arrival of a node.

        Besides those that wait for it: joins that did before a change of the graph. They wait for
        it again where the graph becomes what it was, and must know then that it has come.
        """
        following = self._following[node]
        arrivals = self.state.routing.arrivals
        once = (n for n, counts in arrivals.items() if node in counts and n not in following)
        return (*following, *once)

    def _restarted_joins(self, source: NodeName, outcome: Sequence[str]) -> Joins:
        """The joins that begin anew, where the outcome goes back to earlier nodes."""
        anew: Joins = {}
        for target in outcome:
            if target in self.plan.nodes:
                anew.update(self._loops.joins(source, NodeName(target)))
        return anew

    def _reached(self, targets: Sequence[Target]) -> tuple[j.ReachedNode, ...]:
        found: list[j.ReachedNode] = []
        for target in targets:
            when = self.plan.nodes[NodeName(target.node)].when
            requirement = render_condition(when) if when is not None else ""
            found.append(j.ReachedNode(node=NodeName(target.node), requirement=requirement))
        return tuple(found)


def _has_work(entry: FrontierStep, in_flight: Collection[tuple[StepId, int]]) -> bool:
    """Whether a step does anything besides waiting for its calls under way.

    Every completion looks at the whole frontier, so this comes before all other questions.
    """
    if entry.status != "running" or entry.turn is None or not entry.turn.calls:
        return True
    for call in entry.turn.calls:
        if call.status != "ready" or (entry.step, call.call) not in in_flight:
            return True
    return False

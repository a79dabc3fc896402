"""The engine: applies completions and commands to a run, and computes the next calls. No server.

It owns the recorder, drives the plan's graph and the graph of the turns, and returns the calls to
make (`pending_calls`). The caller, a workflow or a test, makes the calls and reports the
completions; `at` is the time. There is one applier: a method that applies something ends before
the next one starts.

LangGraph computes which nodes follow a completion, the journal records them (`NodesReached`), and
the fold makes the frontier from that entry. So the journal alone rebuilds the frontier, and the
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
from crewlog.graph.budgets import Budgets, uses_budget
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
    next_generations,
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
    ANY_NODE,
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


class Engine(RunContext):
    """A run between two completions.

    Args:
        plan: The run's plan.
        journal: Its journal: empty, or carried from the execution before.
        draft: The start of a run whose prompt is not compiled and approved yet.
    """

    def __init__(self, plan: GraphPlan, journal: Journal, draft: PromptCarry | None = None) -> None:
        super().__init__(plan, journal)
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
        """The plan of an accepted change, for which the run drains."""
        self.pending_split_runs: tuple[PreparedSplitRun, ...] = ()
        """The split runs of an accepted change."""
        self.use(plan)

    def use(self, plan: GraphPlan) -> None:
        """Puts a plan in force. The state must belong to its graph."""
        self.plan = plan
        self._driver = compile_plan(plan)
        self._dependents = dependents(plan)
        self._loops = Loops(plan)

    # -- start -------------------------------------------------------------------------------

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
        journal: Journal | None = None,
        initial_state: InitialState | None = None,
        files: tuple[FileRef, ...] = (),
    ) -> Engine:
        """Starts a run with a crew.

        Raises:
            UsageError: the initial state has a value or message that does not fit the crew.
        """
        engine = cls(plan, journal or Journal(CrewState(run=run)))
        engine.at = at
        await engine._start_crew(
            input_text, by=by, command=command, initial_state=initial_state, files=files
        )
        return engine

    @classmethod
    def begin_with_prompt(
        cls, run: RunId, text: str, draft: PromptCarry, *, registry: str, at: int
    ) -> Engine:
        """Starts a run with a prompt: its crew starts once people have approved the definition."""
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
        initial_state: InitialState | None = None,
        files: tuple[FileRef, ...] = (),
    ) -> None:
        """Starts the crew of the plan in force: the run input is its first public message.

        Args:
            input_text: The run input.
            by: The principal who starts it.
            command: The command whose message the run input is, if it is one.
            initial_state: Messages and outputs that the run has before its first step.
            files: The files of the run input.
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
        message: ContentHash | None = None
        if input_text or files:
            message = self.say(
                input_text, by=by, to=PUBLIC, message_id="input", command=command, files=files
            )
        if initial_state is not None:
            set_initial_state(self, initial_state, by=by)
        if not self.exchanges.is_conversation:
            await self._enter_flow()
            if message is not None:
                self.wakes.wake_readers(PUBLIC, message, by)
        elif message is not None:
            await self.exchanges.begin(command or "input", by, message)
        else:
            self.exchanges.wait_for_first_message()

    async def _enter_flow(self) -> None:
        """Reaches the entry points."""
        if not any(node.entry for node in self.plan.nodes.values()):
            return  # all agents are woken by messages
        targets = self._driver.apply(
            "__start__", {"routing": self.state.routing, "outcome": (NEXT,)}
        )
        reached = self._reached_nodes(targets)
        self.record(j.NodesReached(to=reached, arrived=tuple(each.node for each in reached)))

    @override
    def waits_for_calls(self, step: StepId) -> bool:
        return super().waits_for_calls(step) or (step == STEP and self.prompt.is_active)

    @override
    def fail(self, error: str, end_reason: EndReason = "") -> None:
        """Fails the run; in a conversation, only the exchange."""
        if self.exchanges.is_conversation:
            self.exchanges.cancel(error, self.withdraw, end_reason or "failed")
        else:
            super().fail(error, end_reason)

    def stop(self) -> None:
        """Ends a stopping run: its steps are cancelled."""
        info = self.state.status_reason
        because = " ".join(part for part in (info.by, info.reason) if part) if info else ""
        with self.journal.transaction:
            for step in list(self.state.frontier):
                self.record(j.StepCancelled(step=step))
            self.record(j.RunStopped(because=because))

    # -- progress ----------------------------------------------------------------------------

    async def advance(self, in_flight: Collection[tuple[StepId, int]]) -> None:
        """Does everything that needs no call: conditions, branches, interrupts, the end.

        Args:
            in_flight: The calls in flight, as step and call number.
        """
        if self.prompt.is_active:
            return  # it advances by the calls that compile the prompt, and by answers of people
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
                if self.state.status == "running" and self._may_continue(entry):
                    await self._advance_step(entry)
                    await self.agents_without_model.request_calls(step)
                    await self._recheck_calls(step, in_flight)
            if self.state.position == before:
                ready = [request.call for request in self._ready_calls(in_flight)]
                if self.budgets.ask(ready):
                    continue
                if in_flight or ready or self.state.is_draining:
                    return
                await self._end_or_idle()
                if self.state.position == before:
                    return

    @property
    def is_finishing_detached_turns(self) -> bool:
        """Whether the run drains for a run merge, and turns of detached steps still run.

        The surviving run cannot continue these turns, so they run to their end while all other
        steps drain.
        """
        merge = self.state.pending_merge
        return merge is not None and merge.status == "draining" and bool(self.state.detached_turns)

    def _may_continue(self, entry: FrontierStep) -> bool:
        """Whether no run merge and no change drains a step."""
        if self.state.is_draining:  # for a run merge: only detached steps run to their end
            return entry.is_detached
        change = self.state.pending_change
        return change is None or not change.drains(entry.node)

    def pending_calls(self, in_flight: Collection[tuple[StepId, int]]) -> Iterator[CallRequest]:
        """The calls to make now, in the order of the frontier."""
        if self.prompt.is_active:
            yield from self.prompt.pending_calls(in_flight)
            return
        exhausted = self.budgets.exhausted()
        for request in self._ready_calls(in_flight):
            if not uses_budget(request.call, exhausted):
                yield request

    def _ready_calls(self, in_flight: Collection[tuple[StepId, int]]) -> Iterator[CallRequest]:
        """The calls to make now, regardless of budgets."""
        if self.state.status != "running" or (
            self.state.is_draining and not self.is_finishing_detached_turns
        ):
            return
        for step, entry in self.state.frontier.items():
            if entry.status != "running" or entry.turn is None or not _has_work(entry, in_flight):
                continue
            agent = self.agent_of(step)
            if agent is None or not self._may_continue(entry):
                continue
            has_group_call = False
            for call in entry.turn.calls:
                if self.plan.graph is not None and call.tool in GROUP_TOOLS:
                    # A group tool needs the graph that the group call before it leads to.
                    if has_group_call and call.status == "ready":
                        continue
                    has_group_call = has_group_call or call.status != "buffered"
                if call.status == "ready" and (step, call.call) not in in_flight:
                    yield CallRequest(step, agent, call)

    # -- end of steps ------------------------------------------------------------------------

    async def apply_call_failure(
        self, step: StepId, number: int, error: str, error_type: str
    ) -> None:
        """Applies a call that failed after all retries, by the `on_error` of its agent."""
        with self.journal.transaction:
            if step == STEP:
                self.prompt.apply_failure(error, error_type)
            elif self._unapplied_call(step, number) is not None:
                await self.fail_step(step, number, error, error_type)

    def ask_about_unknown_outcome(self, step: StepId, number: int, error: str) -> None:
        """Asks people about a call with an unknown outcome that must not be repeated."""
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
        """Fails a step, and continues by the `on_error` of its phase or agent.

        Args:
            step: The step.
            number: Its call that failed; none if the step as a whole failed.
            error: What went wrong, for people.
            error_type: The name of the error's type.
            policy: A value of `on_error` that overrides theirs.
        """
        with self.journal.transaction:
            agent = self.agent_of(step)
            entry = self.state.frontier[step]
            node = self.plan.node_of(entry)
            rules = self.rules_of(agent, step) if agent else None
            refusal = self._refusal_text(step)
            policy = policy or node.on_error or (rules.on_error if rules is not None else "ask")
            fields = (
                {} if policy in ("ask", "fail") else self.child_steps.failure_fields(step, agent)
            )
            if fields and entry.parent:  # the error output of child steps is a list
                reset_error_output(self, step)
            self.record(
                j.StepFailed(
                    step=step,
                    call=number,
                    error=error,
                    error_type=error_type,
                    has_stand_in=policy not in ("ask", "fail") and node.stand_in is not None,
                    **fields,
                )
            )
            if policy == "fail":
                if self.exchanges.is_conversation:  # a later exchange may read its outputs
                    reset_outputs(self, step)
                self.fail(f"{step}: {error}{refusal}", error_end_reason(error_type))
            elif policy != "ask":
                if fields:
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
                    f"{step} failed: {excerpt(error, 300)}{refusal}",
                    step=step,
                    call=number,
                    options=("retry", "skip", "stop"),
                    detail=f"{error}{refusal}",
                    limit_reached=error_end_reason(error_type),
                )

    def _refusal_text(self, step: StepId) -> str:
        """The refusal of a step's model, for people; agents do not see it."""
        entry = self.state.frontier.get(step)
        refusal = entry.turn.refusal if entry is not None and entry.turn is not None else ""
        return f" The model said: {refusal}" if refusal else ""

    async def _start_stand_in(
        self, stand_in: NodeName, failed: FrontierStep, *, because: str
    ) -> None:
        """Completes a failed step, or the parent step of a failed child step, with a stand-in."""
        if failed.parent is not None:
            self._cancel_child_steps(failed.parent)
            reset_outputs(self, failed.parent)
        await self._complete(failed.parent_or_self, outcome=stand_in, because=because)

    async def _fail_timed_out_steps(self) -> None:
        """Fails the steps whose timeout is over."""
        for entry in self.timers.timed_out_steps():
            if self.state.status != "running" or (self.state.is_draining and not entry.is_detached):
                return
            if entry.step not in self.state.frontier:  # a child step of a step that just failed
                continue
            limit = duration_words(self.plan.node_of(entry).timeout or 0)
            error = f"it took longer than its timeout of {limit}"
            with self.journal.transaction:
                self.withdraw(entry.step)
                await self.fail_step(entry.step, None, error, TIMEOUT)

    async def _end_turn(self, step: StepId, handoff: Sequence[NodeName]) -> None:
        reset_error_output(self, step)
        await self._complete(step, handoff=handoff, because="handed off" if handoff else "")

    # -- steps -------------------------------------------------------------------------------

    async def finish(self, step: StepId, outcome: str, *, because: str) -> None:
        """Completes a step that has no turn, and routes on."""
        await self._complete(step, outcome=outcome, because=because)

    async def skip_step(self, step: StepId, *, because: str) -> None:
        """Skips a step by an answer of people. Outputs that people set since its start stay."""
        with self.journal.transaction:
            reset_outputs(self, step)
            await self._complete(step, because=because, skipped=True)

    async def end_redirected_step(self, step: StepId, *, because: str) -> None:
        """Ends a step and its child steps at once; the run continues at the redirect's target."""
        with self.journal.transaction:
            self._cancel_child_steps(step)
            if start_position(self, step):
                reset_outputs(self, step)
            await self._complete(step, because=because, skipped=True)

    def _cancel_child_steps(self, parent: StepId) -> None:
        """Cancels the child steps of a step that are not done."""
        for child in child_steps_of(self.state.frontier, parent):
            reset_outputs(self, child)
            self.withdraw(child)
            self.record(j.StepCancelled(step=child))

    async def repeat_branch(self, step: StepId) -> None:
        """Follows a branch's edge whose limit is reached, and resets the count."""
        node = self.state.frontier[step].node
        branch = self.plan.nodes[node].decide
        with self.journal.transaction:
            if branch is not None:
                self.record(j.StepCompleted(step=step, because="people repeated it"))
                await self._route(node, (branch.go,), because="again", loop=True, reset_limit=True)

    async def start_incomplete_join(self, node: NodeName) -> None:
        """Starts a join whose missing sources cannot arrive any more, by an answer of people."""
        self.record(j.NodesReached(to=(j.ReachedNode(node=node),), because="people started it"))

    async def _advance_step(self, entry: FrontierStep) -> None:
        if entry.is_detached or self._queues_messages(self.plan.nodes[entry.node]):
            return
        node = self.plan.nodes[entry.node]
        if entry.status in ("waiting", "ready") and (reason := self._disabled_reason(node)):
            await self._complete(entry.step, because=reason, skipped=True)
        elif node.wait is not None and entry.status in ("waiting", "running"):
            await self.timers.continue_wait(entry, node)
        elif entry.status == "waiting" and (node.when is None or self.holds(node.when)):
            self.record(j.RequirementMet(step=entry.step))
        elif entry.status == "waiting":
            await self.timers.limit_requirement(entry, node)
        elif entry.status == "interrupted" and entry.requirement and node.when is not None:
            if self.holds(node.when):  # the requirement was met while the interrupt was open
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
        elif reason := self._gate_reason(node):
            await self._complete(step, because=reason, skipped=True)
        elif node.kind == "decide":
            await self._branch_by_condition(step, entry.node)
        elif node.route is not None:
            await self._branch_by_output(step, entry.node, node.route)
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
            without_model = self.has_no_model(node.agent)
            self.record(j.StepStarted(step=step, agent=node.agent, without_model=without_model))

    def _ask_people(self, step: StepId, ask: Ask) -> None:
        self.ask(
            "ask",
            ask.question,
            step=step,
            options=ask.options,
            flag=ask.sets,
            words=ask.words,
            text_option=text_target(self.plan, ask) or "",
            **(shown_output_fields(ask.shows, self.state.agent_outputs) if ask.shows else {}),
        )

    async def _continue_step(self, entry: FrontierStep, node: PlanNode) -> None:
        """Sets the timeout of a started step; raises its interrupt again if a change closed it."""
        if node.timeout is not None:
            self.timers.start_timeout(entry, node)
        if entry.turn is not None:
            if not entry.turn.calls:
                await self.turns.end(entry.step, entry.turn.goto)
        elif node.ask is not None:
            self._ask_people(entry.step, node.ask)
        elif node.decide is not None:
            await self._branch_by_condition(entry.step, entry.node)
        elif node.route is not None:
            await self._branch_by_output(entry.step, entry.node, node.route)

    async def _recheck_calls(self, step: StepId, in_flight: Collection[tuple[StepId, int]]) -> None:
        """Checks the calls of a turn that have not begun: permissions may have changed."""
        entry = self.state.frontier.get(step)
        if entry is None or entry.status != "running":
            return
        interrupted = {(each.step, each.call) for each in self.state.interrupts.values()}
        for call in calls_of(entry):
            if call.status == "interrupted" and (step, call.call) not in interrupted:
                self._ask_again_about_call(step, call)
            elif call.status == "ready" and call.tool and (step, call.call) not in in_flight:
                await self.turns.recheck_call(step, call)

    def _ask_again_about_call(self, step: StepId, call: Call) -> None:
        """Raises the interrupt of a call again that a change closed with its step."""
        if call.tool is None:
            question = f"A change removed {step} while it waited for an answer. Try again?"
            options = ("retry", "skip", "stop")
            self.ask("step_failed", question, step=step, call=call.call, options=options)
        elif not self.turns.ask_again_for_approval(step, call):
            question = (
                f"{call.tool} {call.excerpt} had an unknown outcome when a change removed {step}. "
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
        """Whether a child step may start; if not, people are asked."""
        return not (self._is_at_breakpoint(step, node) or self._is_at_step_limit(step))

    def _is_at_breakpoint(self, step: StepId, node: NodeName) -> bool:
        """Whether a node has a breakpoint; if so, people are asked."""
        breakpoints = set(self.state.breakpoints) & {node, ANY_NODE}
        if breakpoints:
            self.ask("manual", f"Go on with {step}?", step=step, options=("go on", "stop"))
        return bool(breakpoints)

    def _is_at_step_limit(self, step: StepId) -> bool:
        """Whether the run has reached `limits.steps`; if so, people are asked."""
        before = self.state.conversation.steps if self.state.conversation is not None else 0
        if self.state.steps - before < self.plan.limits.steps * (1 + self.state.step_limit_raises):
            return False
        # One interrupt for all steps that would start: one answer raises the limit once.
        if not any(each.kind == "limit" for each in self.state.interrupts.values()):
            what = "exchange" if before else "run"
            question = f"The {what} has taken {self.state.steps - before} steps, its limit. Go on?"
            self.ask("limit", question, step=step, options=("go on", "stop"))
        return True

    def _disabled_reason(self, node: PlanNode) -> str:
        """Why a node is skipped whose agent is disabled; empty if it is not."""
        if node.agent is None or node.by or self.plan.agents[node.agent].enabled:
            return ""
        return disabled_reason(node.agent)

    def _queues_messages(self, node: PlanNode) -> bool:
        """Whether messages to a node wait until its agent is enabled."""
        return node.is_wake_node and bool(self._disabled_reason(node))

    def _gate_reason(self, node: PlanNode) -> str:
        """Why a node is skipped whose agent may not call a tool of its gate; empty if it may."""
        if node.agent is None or node.by:
            return ""
        return self.missing_tool_reason(node.agent, node.needs)

    async def _branch_by_condition(self, step: StepId, name: NodeName) -> None:
        state = self.state
        outcome, because = branch_outcome(
            self.plan, name, state.routing, state.flags, self.output_values()
        )
        branch = self.plan.nodes[name].decide
        if outcome == ASK_HUMAN and branch is not None:
            question = f"{render_condition(branch.when)}, and the run {because}. What now?"
            options, limit = ("continue", "again", "stop"), "retry_budget_exhausted"
            self.ask("ask", question, step=step, options=options, limit_reached=limit)
            return
        is_used_up = is_branch_limit_reached(self.plan, name, state.routing, because)
        with self.journal.transaction:
            self.record(j.StepCompleted(step=step, because=because, used_up=is_used_up))
            if outcome == FAIL:
                self.fail(f"{name}: {because}", "retry_budget_exhausted" if is_used_up else "")
                return
            loop = branch is not None and outcome == branch.go
            await self._route(name, (outcome,), because=because, loop=loop)

    async def _branch_by_output(self, step: StepId, name: NodeName, route: Route) -> None:
        """Routes to the node that an output names; else by the branch's `else`."""
        state = self.state
        since = state.conversation.start_position if state.conversation is not None else 0
        choice = branches.choose_target(
            self.plan, name, state.agent_outputs, state.execution_count, since
        )
        limit: EndReason = "" if choice.exhausted_target is None else "route_limit_reached"
        if choice.is_refused:
            self.record(
                j.BranchTargetRefused(
                    step=step,
                    by=route.by,
                    because=choice.because,
                    goes=choice.target,
                    used_up=choice.exhausted_target is not None,
                    exhausted_target=choice.exhausted_target,
                )
            )
        if choice.target == ASK_HUMAN:
            options = branches.branch_answer_options(route)
            self.ask(
                "ask",
                branches.branch_question(name, choice),
                step=step,
                options=options,
                limit_reached=limit,
            )
            return
        with self.journal.transaction:
            self.record(j.StepCompleted(step=step, because=choice.because))
            if choice.target == FAIL:
                self.fail(f"{name}: {choice.because}", limit)
                return
            await self._route(name, (choice.target,), because=choice.because)

    async def _end_or_idle(self) -> None:
        """Ends or idles a run without calls and ready steps; asks about what cannot arrive."""
        state = self.state
        if state.interrupts:
            return
        waiting = [e for e in state.frontier.values() if e.status == "waiting"]
        if any(self.plan.nodes[e.node].wait is not None for e in waiting):
            return
        # One alternative at a time: it may lead to what the other steps wait for.
        with_alternative = [e for e in waiting if self.plan.nodes[e.node].otherwise != ASK_HUMAN]
        for entry in with_alternative[:1] or waiting:
            await self._give_up_requirement(entry)
        if waiting or (state.frontier and not self.wakes.may_idle()):
            return
        if state.is_conversation_idle:
            await self.exchanges.continue_idle(self.timers.is_idle_time_over())
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
            self.wakes.record_idle(self.timers.is_idle_time_over())
        else:
            self.record(j.RunCompleted())

    async def _give_up_requirement(self, entry: FrontierStep, *, late: bool = False) -> None:
        node = self.plan.nodes[entry.node]
        late_reason = f"did not come true within {duration_words(node.within or 0)}"
        if node.otherwise == ASK_HUMAN:
            reason = late_reason if late else "nothing is left to set"
            self.ask(
                "requirement",
                f"{entry.node} waits for {entry.requirement}, which {reason}.",
                step=entry.step,
                options=("set", "skip", "stop"),
                detail=entry.requirement,
            )
            return
        outcome = NEXT if node.otherwise == SKIP else node.otherwise
        because = f"{entry.requirement} {late_reason if late else 'cannot come true any more'}"
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
        # A change may have removed targets: the journal records that.
        lost = "; ".join(lost_targets(entry, handoff, self.plan.nodes))
        because = "; ".join(filter(None, (because, lost)))
        handoff = [target for target in handoff if target in self.plan.nodes]
        with self.journal.transaction:
            self.withdraw(step)
            if entry.parent is not None:
                await self.child_steps.complete_child_step(
                    step, entry.parent, because=because, skipped=skipped, handoff=handoff
                )
                return
            if entry.redirect is not None and entry.redirect in self.plan.nodes:
                handoff = (entry.redirect,)
            self.record(j.StepCompleted(step=step, because=because, skipped=skipped))
            if not entry.is_detached and not self.plan.nodes[node].is_wake_node:
                outcomes = (outcome,) if not handoff else ()
                await self._route(node, outcomes, because=lost, handoff=handoff)
            elif handoff:
                nodes = self._reached_nodes([Target(name) for name in handoff])
                self.record(j.NodesReached(to=nodes, because=f"{step} handed off"))

    def withdraw(self, step: StepId, kind: str | None = None) -> None:
        """Closes the interrupts of a step whose answers it does not need any more."""
        for interrupt in list(self.state.interrupts.values()):
            if interrupt.step == step and kind in (None, interrupt.kind):
                self.record(j.InterruptAnswered(interrupt=interrupt.id, decision="withdrawn"))

    async def _route(
        self,
        node: NodeName,
        outcome: tuple[str, ...],
        *,
        because: str = "",
        loop: bool = False,
        reset_limit: bool = False,
        handoff: Sequence[NodeName] = (),
    ) -> None:
        restarted = self._restarted_joins(node, (*outcome, *handoff))
        active = [
            entry.node
            for entry in self.state.frontier.values()
            if not entry.parent and not entry.is_detached
        ]
        generations = next_generations(self.plan, restarted, self.state.routing, active)
        routing = routing_after(
            self.state.routing,
            node,
            is_arrival=NEXT in outcome,
            loop=loop,
            generations=generations,
            rearmed=reset_limit,
        )
        targets = self._driver.apply(node, {"routing": routing, "outcome": outcome}, goto=handoff)
        self.record(
            j.NodesReached(
                source=node,
                to=self._reached_nodes(targets),
                arrived=self._dependents[node] if NEXT in outcome else (),
                outcome=outcome or tuple(handoff),
                because=because,
                loop=loop,
                generations=generations,
                loop_reset=reset_limit,
                branched=self._branch_targets(node, outcome),
            )
        )

    def _branch_targets(self, node: NodeName, outcome: Sequence[str]) -> tuple[NodeName, ...]:
        """The targets of a branch by output, which the state counts."""
        if self.plan.nodes[node].route is None:
            return ()
        return tuple(NodeName(target) for target in outcome if target in self.plan.nodes)

    def _restarted_joins(self, source: NodeName, outcome: Sequence[str]) -> Joins:
        """The joins that start a new generation because the outcome leads back."""
        joins: Joins = {}
        for target in outcome:
            if target in self.plan.nodes:
                joins.update(self._loops.joins(source, NodeName(target)))
        return joins

    def _reached_nodes(self, targets: Sequence[Target]) -> tuple[j.ReachedNode, ...]:
        found: list[j.ReachedNode] = []
        for target in targets:
            when = self.plan.nodes[NodeName(target.node)].when
            requirement = render_condition(when) if when is not None else ""
            found.append(j.ReachedNode(node=NodeName(target.node), requirement=requirement))
        return tuple(found)


def _has_work(entry: FrontierStep, in_flight: Collection[tuple[StepId, int]]) -> bool:
    """Whether a step has more to do than to wait for its calls in flight.

    Every completion checks the whole frontier, so this cheap check comes first.
    """
    if entry.status != "running" or entry.turn is None or not entry.turn.calls:
        return True
    for call in entry.turn.calls:
        if call.status != "ready" or (entry.step, call.call) not in in_flight:
            return True
    return False

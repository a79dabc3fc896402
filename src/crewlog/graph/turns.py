"""Turns of agents: what follows from the result of a model call and of a tool call.

The tool calls of a message run in parallel and are applied in call order: a completion before that
of an earlier call is buffered until the earlier one is applied. So the order of the messages in a
log does not depend on which tool was faster.

A turn is a graph of its own, driven like that of the run:

    model ──(tool calls)──► tool * n ──(all applied)──► model
      └──(none)──► end        └──(a handoff)──► end

The position inside a turn is a `Turn` in the frontier, and each apply gets all of it, so one graph
serves every turn. A turn starts with its model, so the first apply is that of its first message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypedDict, cast

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from crewlog.authority.bindings import arguments_hash
from crewlog.authority.permissions import LIVE_PERMISSION, Decision, authorize_output
from crewlog.canonical_json import hash_json
from crewlog.definition.interrupting import CONFIDENCE
from crewlog.graph import interrupts
from crewlog.graph.agents_without_model import listed_call_result, tool_result_text
from crewlog.graph.artifacts import drop_stale_result, operation_entries
from crewlog.graph.checkpoint_saver import LatestSaver
from crewlog.graph.driver import Driver, graph_cache
from crewlog.graph.final_messages import FinalMessages
from crewlog.graph.outputs import output_entry, record_write
from crewlog.graph.run_context import RunContext
from crewlog.graph.wakes import Wakes
from crewlog.ids import AgentName, FlagName, LogName, NodeName, StepId, private_log
from crewlog.model import Json
from crewlog.run_status import FoundError
from crewlog.state import journal as j
from crewlog.state.calls import (
    CallModelResult,
    CallToolResult,
    MessageOutcome,
    ToolCallDenied,
    ToolCallInvalid,
)
from crewlog.state.excerpt import excerpt, message_excerpt
from crewlog.state.model import Call, FrontierStep, Turn
from crewlog.usage import Usage

EndTurn = Callable[[StepId, Sequence[NodeName]], Awaitable[None]]
"""Ends a turn, with the targets of its handoffs."""
FailTurn = Callable[[StepId, int | None, str, FoundError, str], Awaitable[None]]
"""Fails a turn, with the call, the error, its type, and what follows; empty: as in `on_error`."""


class Turns:
    """The turns of a run."""

    def __init__(
        self, run: RunContext, wakes: Wakes, end_turn: EndTurn, fail_turn: FailTurn
    ) -> None:
        self._run = run
        self._wakes = wakes
        self._end_turn = end_turn
        self._fail_turn = fail_turn
        self._graph = TurnSubgraph()
        self._replies = FinalMessages(run)

    async def apply_model_call(
        self, step: StepId, number: int, result: CallModelResult, *, composed: bool = False
    ) -> None:
        """Applies the message of a model call: its tool calls follow, or the turn ends.

        Args:
            step: The step.
            number: The call.
            result: The message.
            composed: Whether its agent has no model; see `crewlog.graph.agents_without_model`.
        """
        with self._run.journal.transaction:
            await self._apply_model_call(step, number, result, composed=composed)

    async def _apply_model_call(
        self, step: StepId, number: int, result: CallModelResult, *, composed: bool
    ) -> None:
        entry = self._run.state.frontier.get(step)
        agent = self._run.agent_of(step) if entry else None
        model_calls = {c.call for c in calls_of(entry) if c.tool is None}
        if entry is None or entry.turn is None or agent is None or number not in model_calls:
            return
        self._run.journal.learn(result)
        for refused in result.refused_operations:
            self._run.record(
                j.ArtifactOperationsRefused(step=step, agent=agent, **refused.to_json())
            )
        outcome = self._replies.outcome(agent, step, result)
        requested = outcome.calls if outcome.kind == "tool_calls" else ()
        first = entry.turn.next_call
        numbers = await self._graph.apply_message(range(first, first + len(requested)))
        calls = tuple(
            Call(call=n, tool=tool.tool, id=tool.id, message=result.hash, excerpt=tool.excerpt)
            for n, tool in zip(numbers, requested, strict=True)
        )
        faults = self._replies.errors(agent, step, outcome)
        is_final = not calls and not faults
        text_excerpt = message_excerpt(result.body)
        logs = (
            self._final_message_logs(agent, step, bool(text_excerpt))
            if is_final
            else (self._run.step_log(step, agent),)
        )
        if is_final and self._replies.has_undeliverable_items(agent, step, outcome):
            logs = (private_log(agent),)
        self._run.record(
            j.ModelCallCompleted(
                step=step,
                call=number,
                agent=agent,
                ref=_ref(result, logs),
                model=result.model,
                calls=calls,
                usage=Usage() if composed else result.usage,
                excerpt=text_excerpt,
                append=is_final and self._run.has_list_reducer(f"{agent}.text"),
                refused=bool(faults),
                ending=result.ending,
                draft=None if is_final else self._replies.draft(agent, step, result, outcome),
                window=result.window,
                without_model=composed,
                delay=result.delay,
            )
        )
        if faults:
            await self._refuse(step, number, result, outcome, faults)
        elif is_final:
            self._wakes.wake_along_output_wires(agent, result.hash, logs)
            self._replies.apply(step, number, agent, result, outcome)
            await self.end(step, ())
        for call in calls:
            decision = await self._authorize_call(step, agent, call)
            if decision.allowed:
                self._consume_quotas(step, agent, call)
            if decision.outcome == "ask":
                await self._ask_for_approval(step, call, result, decision)

    async def _refuse(
        self,
        step: StepId,
        number: int,
        result: CallModelResult,
        outcome: MessageOutcome,
        faults: tuple[str, ...],
    ) -> None:
        """Repeats a model call whose final message is not valid, or uses the fallback, or fails."""
        agent = self._run.agent_of(step)
        if agent is None:
            return
        match self._replies.reject(step, number, agent, result, outcome, faults):
            case "again":
                await self._check_turn_limit(step)
            case "fallback":
                await self.end(step, ())
            case "fail":
                calls = calls_of(self._run.state.frontier[step])
                error = self._replies.failure_text(agent, step, outcome, faults)
                is_bad = outcome.kind == "unusable"
                error_type: FoundError = "BadReply" if is_bad else "ReplyInvalid"
                policy = self._replies.policy(agent, step, outcome)
                await self._fail_turn(step, calls[-1].call, error, error_type, policy)

    async def apply_tool_call(self, step: StepId, number: int, result: CallToolResult) -> None:
        """Applies the result of a tool call, or buffers it until earlier calls are applied."""
        with self._run.journal.transaction:
            await self._apply_tool_call(step, number, result)

    async def _apply_tool_call(self, step: StepId, number: int, result: CallToolResult) -> None:
        entry = self._run.state.frontier.get(step)
        agent = self._run.agent_of(step) if entry else None
        call = next((c for c in calls_of(entry) if c.call == number), None)
        if entry is None or agent is None or call is None or call.tool is None:
            return
        self._run.journal.learn(result)
        match result.outcome:
            case ToolCallDenied() | ToolCallInvalid(unmade=True):
                self.release_quotas(step, call)
            case _:
                pass
        goto = tuple(node for node in result.returned.goto if node in self._run.plan.nodes)
        entries: list[j.JournalEntry] = [
            j.ToolCallCompleted(
                at=self._run.at,
                step=step,
                call=number,
                agent=agent,
                tool=call.tool,
                ref=_ref(result, (self._run.step_log(step, agent),)),
                ok=result.ok,
                excerpt=message_excerpt(result.body),
                ms=result.ms,
                confidence=self._confidence(step, agent, result),
                goto=goto,
                result=listed_call_result(
                    self._run.rules_of(agent, step), call, tool_result_text(result), ok=result.ok
                ),
                delay=result.delay,
            )
        ]
        entries += self._write_entries(step, number, agent, call.tool, result)
        await self._apply_in_order(step, number, entries)

    async def answer_call(self, step: StepId, call: Call, text: str, *, ok: bool) -> None:
        """Records a result of a tool call that does not run: a refusal, or what people report."""
        agent = self._run.agent_of(step)
        if agent is None:
            return
        body: dict[str, Json] = {
            "type": "tool",
            "content": text,
            "name": call.tool,
            "id": f"{step}/{call.call}",
            "tool_call_id": call.id,
        }
        if not ok:
            body["status"] = "error"
        ref = j.MessageRef(
            body=hash_json(body), logs=(self._run.step_log(step, agent),), inline=body
        )
        completed = j.ToolCallCompleted(
            at=self._run.at,
            step=step,
            call=call.call,
            agent=agent,
            tool=call.tool or "",
            ref=ref,
            ok=ok,
            excerpt=excerpt(text),
            result=listed_call_result(self._run.rules_of(agent, step), call, text, ok=ok),
        )
        await self._apply_in_order(step, call.call, [completed])

    def unanswered_call(self, step: StepId, number: int) -> Call | None:
        """A tool call of a step that has no result; none: it has one, or is not in the step."""
        calls = calls_of(self._run.state.frontier.get(step))
        return next(
            (c for c in calls if c.call == number and c.tool and c.status != "buffered"), None
        )

    async def deny_call(self, step: StepId, call: Call, decision: Decision) -> None:
        """Records that an agent may not make a call, which gets a refusal as its result."""
        agent = self._run.agent_of(step)
        if agent is None:
            return
        self._record_denial(step, agent, call, decision.reason, decision.rule)
        self.release_quotas(step, call)
        await self.answer_call(step, call, f"Refused: {decision.reason}.", ok=False)

    async def _authorize_call(self, step: StepId, agent: AgentName, call: Call) -> Decision:
        """Whether an agent may make a call; if not, the call gets a refusal as its result."""
        tool = call.tool or ""
        decision = self._run.check(agent, tool, step, counted=call.quotas)
        if decision.allowed:
            return decision
        reason = decision.reason
        if decision.rule == LIVE_PERMISSION and (
            why := self._run.live_permission_reason(agent, tool)
        ):
            reason += f": {why}"
        self._record_denial(step, agent, call, reason, decision.rule)
        self.release_quotas(step, call)
        tools = ", ".join(self._run.tools_of(agent, step)) or "none"
        await self.answer_call(
            step, call, f"Refused: {reason}. Tools you may call: {tools}.", ok=False
        )
        return decision

    def _record_denial(
        self, step: StepId, agent: AgentName, call: Call, reason: str, rule: str
    ) -> None:
        entry = self._denial(step, call.call, agent, call.tool or "", reason, rule)
        self._run.record(entry)

    def _consume_quotas(self, step: StepId, agent: AgentName, call: Call) -> None:
        """Counts a call in the quotas of the run."""
        keys = self._run.run_quota_keys(agent, call.tool or "", step)
        if keys:
            self._run.record(j.QuotaConsumed(step=step, call=call.call, quotas=keys))

    def release_quotas(self, step: StepId, call: Call) -> None:
        """Returns a call that does not run to the quotas of the run."""
        if call.quotas:
            self._run.record(j.QuotaReleased(step=step, call=call.call, quotas=call.quotas))

    async def _ask_for_approval(
        self, step: StepId, call: Call, result: CallModelResult, decision: Decision
    ) -> None:
        """Asks people to approve a call; it does not run before they do."""
        tool = call.tool or ""
        args = interrupts.tool_call_arguments(result.body, call.id)
        if args is None:  # nobody can approve arguments that are not JSON: the model is told
            agent = self._run.agent_of(step)
            if agent is not None:
                reason = "its arguments are not valid JSON"
                self._record_denial(step, agent, call, reason, "arguments")
            self.release_quotas(step, call)
            text = f"The arguments of {tool!r} are not valid JSON. Call it again."
            await self.answer_call(step, call, text, ok=False)
            return
        shown, whole = interrupts.shorten_arguments(args)
        self._run.ask(
            "tool_approval",
            interrupts.approval_question(step, tool, call.excerpt),
            step=step,
            call=call.call,
            options=interrupts.OPTIONS,
            detail=interrupts.arguments_text(shown, result.hash, whole=whole),
            words=True,
            tool=tool,
            args=shown,
            message=result.hash,
            arguments=arguments_hash(args),
            **self._reason_fields(step, tool, decision),
        )

    def ask_again_for_approval(self, step: StepId, call: Call) -> bool:
        """Asks for an approval whose interrupt was withdrawn; false: the call needs none."""
        agent = self._run.agent_of(step)
        if agent is None or (call.approved and self._run.check_approval(step, call).allowed):
            return False
        decision = self._run.check(agent, call.tool or "", step, counted=call.quotas)
        if decision.outcome != "ask":
            return False
        self._run.ask(
            "tool_approval",
            interrupts.approval_question(step, call.tool or "", call.excerpt),
            step=step,
            call=call.call,
            options=interrupts.OPTIONS,
            detail=f"The message {call.message} has its arguments, and all of them are approved.",
            words=True,
            tool=call.tool,
            message=call.message,
            call_id=call.id,
            arguments=None if call.edited else call.arguments,
            **self._reason_fields(step, call.tool or "", decision),
        )
        return True

    def _reason_fields(self, step: StepId, tool: str, decision: Decision) -> dict[str, Any]:
        """The fields of an interrupt that say why a call needs an approval."""
        agent = self._run.agent_of(step)
        if agent is None:
            return {}
        plan_tool = self._run.plan.plan_tool_of(self._run.state.frontier.get(step), tool)
        reason = (
            self._run.live_permission_reason(agent, tool)
            if decision.rule == LIVE_PERMISSION
            else ""
        )
        risk, policy = plan_tool.risk if plan_tool else "low", self._run.plan.interrupts
        quotas = self._run.quotas(agent, tool, step)
        return {
            **interrupts.reason_fields(decision, reason, risk, policy.approve_risk),
            "quotas": tuple(map(interrupts.interrupt_quota, quotas)),
        }

    async def recheck_call(self, step: StepId, call: Call) -> None:
        """Authorizes a call again right before it runs: it is refused, or people are asked."""
        agent = self._run.agent_of(step)
        if agent is None:
            return
        decision = await self._authorize_call(step, agent, call)
        if decision.outcome != "ask":
            return
        # People may have set a permission or changed the crew since the message, or the approval
        # may have expired or be one of another run.
        self.ask_again_for_approval(step, call)

    async def end(self, step: StepId, goto: Sequence[NodeName]) -> None:
        """Ends a turn; people are asked first if the confidence of its agent is too low."""
        entry = self._run.state.frontier[step]
        agent = self._run.agent_of(step)
        threshold = self._run.rules_of(agent, step).ask_below if agent else None
        confidence = entry.turn.confidence if entry.turn is not None else None
        if threshold is None or (confidence is not None and confidence >= threshold):
            await self.end_confirmed_turn(step, goto)
            return
        stated = "states no confidence" if confidence is None else f"states {confidence:g}"
        self._run.ask(
            "low_confidence",
            f"{agent} {stated} in {step}; its confidence must be at least {threshold:g}. Go on?",
            step=step,
            options=("go on", "again", "stop"),
            words=True,
        )

    async def end_confirmed_turn(self, step: StepId, goto: Sequence[NodeName]) -> None:
        """Ends a turn whatever the confidence of its agent."""
        await self._end_turn(step, goto)

    def send_to_agent(self, step: StepId, text: str, by: str) -> None:
        """Adds a message of people that only the agent of a step reads."""
        agent = self._run.agent_of(step)
        if agent is not None:
            log = self._run.step_log(step, agent)
            message = f"{step}/{self._run.state.position + 1}"
            self._run.say(text, by=by, to=log, message_id=message)

    def _confidence(self, step: StepId, agent: AgentName, result: CallToolResult) -> float | None:
        """The confidence that a call sets; none: the agent needs none, or the call sets none."""
        settings = self._run.rules_of(agent, step)
        if settings.ask_below is None:
            return None
        outputs = {o.key: o.value for o in result.returned.outputs if o.key in settings.outputs}
        flags = {flag: v for flag, v in result.returned.flags.items() if flag in settings.flags}
        for values in (flags, outputs):
            if CONFIDENCE in values:
                value = values[CONFIDENCE]
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                return float(value) if is_number and 0 <= value <= 1 else 0.0
        return None

    def _write_entries(
        self, step: StepId, number: int, agent: AgentName, tool: str, result: CallToolResult
    ) -> Iterator[j.JournalEntry]:
        """The entries of what a tool wrote, or of a denial where its agent may not write it."""
        settings, writes = self._run.rules_of(agent, step), result.returned
        if isinstance(result.outcome, ToolCallDenied):
            reason, rule = result.outcome.reason, result.outcome.rule
            yield self._denial(step, number, agent, tool, reason, rule)
        reasons = [
            f"there is no node {node!r} to go to"
            for node in writes.goto
            if node not in self._run.plan.nodes
        ]
        for flag, value in writes.flags.items():
            decision = authorize_output("flag", agent, flag, settings.flags)
            if decision.allowed:
                yield j.RunOutputSet(
                    at=self._run.at,
                    flag=FlagName(flag),
                    value=value,
                    by=agent,
                    **self._run.reducer_fields(flag, step),
                )
            else:
                reasons.append(decision.reason)
        for output in writes.outputs:
            decision = authorize_output("output", agent, output.key, settings.outputs)
            if decision.allowed:
                yield output_entry(self._run, step, agent, output, stored=result.stored)
            else:
                reasons.append(decision.reason)
        for i, sent in enumerate(writes.sends, 1):
            decision = authorize_output("channel", agent, sent.channel, settings.send)
            if decision.allowed:
                yield self._wakes.channel_message(f"{step}/{number}/sent{i}", step, agent, sent)
            else:
                reasons.append(decision.reason)
        for reason in reasons:
            yield self._denial(step, number, agent, tool, reason)
        for entry in operation_entries(self._run.plan, step, number, agent, result, self._run.at):
            if isinstance(entry, Decision):
                yield self._denial(step, number, agent, tool, entry.reason)
            else:
                yield entry

    def _denial(
        self,
        step: StepId,
        number: int,
        agent: AgentName,
        tool: str,
        reason: str,
        rule: str = "",
    ) -> j.PermissionDenied:
        return j.PermissionDenied(
            at=self._run.at,
            step=step,
            call=number,
            agent=agent,
            tool=tool,
            reason=reason,
            rule=rule,
        )

    async def _apply_in_order(
        self, step: StepId, number: int, entries: list[j.JournalEntry]
    ) -> None:
        calls = calls_of(self._run.state.frontier.get(step))
        if any(c.call < number and c.tool is not None for c in calls):
            buffered = tuple(map(j.entry_to_json, entries))
            self._run.record(j.CompletionBuffered(step=step, call=number, entries=buffered))
            return
        await self._apply_tool_entries(step, entries)
        while step in self._run.state.frontier:
            first = next((c for c in calls_of(self._run.state.frontier[step]) if c.tool), None)
            if first is None or first.status != "buffered":
                return
            await self._apply_tool_entries(
                step, [j.entry_from_json(data) for data in first.completion]
            )

    async def _apply_tool_entries(self, step: StepId, entries: Sequence[j.JournalEntry]) -> None:
        frontier_step = self._run.state.frontier[step]
        completed, *writes = entries
        turn = frontier_step.turn
        if turn is None or not isinstance(completed, j.ToolCallCompleted):
            return
        goto = turn.goto + completed.goto
        turn = turn.model_copy(update={"returned": turn.returned + 1, "goto": goto})
        model_next = await self._graph.apply_tool_result(turn)
        self._run.journal.record(completed.model_copy(update={"model_next": model_next}))
        for entry in writes:
            if isinstance(entry, j.RunOutputSet | j.OutputSet):
                record_write(self._run, entry, step)
            elif isinstance(entry, j.ArtifactOperationsApplied):
                self._run.journal.record(drop_stale_result(entry, self._run.state))
            else:
                self._run.journal.record(entry)
            if isinstance(entry, j.MessageAdded):
                self._wakes.wake_readers(
                    entry.ref.logs[0], entry.ref.body, entry.by, AgentName(entry.by)
                )
        if model_next:
            await self._check_turn_limit(step)
        elif turn.returned == turn.expected:
            await self.end(step, goto)

    async def _check_turn_limit(self, step: StepId) -> None:
        entry = self._run.state.frontier[step]
        agent = self._run.agent_of(step)
        if entry.turn is None or agent is None:
            return
        settings = self._run.rules_of(agent, step)
        if settings.does:
            return
        limit = settings.max_calls
        # People may let a long turn continue: they are asked every `limit` calls.
        if entry.turn.model_calls > limit and (entry.turn.model_calls - 1) % limit == 0:
            if settings.on_cap == "end":
                logs = self._final_message_logs(agent, step)
                self._replies.end_at_limit(step, agent, logs)
                if entry.turn.draft is not None:
                    self._wakes.wake_along_output_wires(agent, entry.turn.draft.body, logs)
                await self.end(step, entry.turn.goto)
                return
            error = (
                f"the turn of {agent!r} took {limit} model calls and did not end; "
                "raise the agent's max_calls, or make its prompt say when it is done"
            )
            await self._fail_turn(step, entry.turn.calls[-1].call, error, "TurnTooLong", "")

    def _final_message_logs(
        self, agent: AgentName, step: StepId, has_text: bool = True
    ) -> tuple[LogName, ...]:
        """The logs of a final message, with the agent's private log if it reads no other of them.

        A message without text goes along no output wire, so that the agents become idle.
        """
        writes = self._run.writable_logs(agent, step)
        is_readable = not {*writes}.isdisjoint(self._run.readable_logs(agent, step))
        logs = writes if is_readable else (*writes, private_log(agent))
        wires = self._wakes.output_wire_logs(agent) if has_text else ()
        return (*logs, *(log for log in wires if log not in logs)) if wires else logs


def calls_of(entry: FrontierStep | None) -> tuple[Call, ...]:
    """The calls of a step that are not applied yet."""
    return entry.turn.calls if entry is not None and entry.turn is not None else ()


def _ref(result: CallModelResult | CallToolResult, logs: tuple[LogName, ...]) -> j.MessageRef:
    """The message of a result, with its body if the store was unavailable."""
    inline = None if result.stored else result.body
    return j.MessageRef(body=result.hash, logs=logs, inline=inline)


MODEL = "model"
TOOL = "tool"


class TurnState(TypedDict):
    """The LangGraph channels of a turn."""

    calls: tuple[int, ...]
    """The numbers of the tool calls of the last message."""
    returned: int
    """How many of them are applied."""
    handed_off: bool
    """Whether a tool handed off, which ends the turn."""


async def _placeholder(state: TurnState) -> TurnState:
    return state


def _after_model(state: TurnState) -> list[str | Send]:
    return [Send(TOOL, number) for number in state["calls"]] or [END]


def _after_tool(state: TurnState) -> list[str | Send]:
    if state["returned"] < len(state["calls"]):
        return []
    return [END if state["handed_off"] else MODEL]


def _compile_graph(saver: LatestSaver) -> Any:
    graph: StateGraph[TurnState, None, TurnState, TurnState] = StateGraph(TurnState)
    graph.add_node(MODEL, _placeholder)
    graph.add_node(TOOL, _placeholder)
    graph.add_edge(START, MODEL)
    graph.add_conditional_edges(MODEL, _after_model, [TOOL, END])
    graph.add_conditional_edges(TOOL, _after_tool, [MODEL, END])
    return graph.compile(checkpointer=saver, name="turn")


class TurnSubgraph:
    """Drives turns: which calls follow a message, and whether a result is the last one."""

    def __init__(self) -> None:
        routers = {MODEL: _after_model, TOOL: _after_tool}
        self._driver = Driver(_compile_graph, routers, [MODEL, TOOL], graph_cache("turn"))

    async def apply_message(self, calls: Sequence[int]) -> list[int]:
        """Applies the message of a model; returns the tool calls to make; empty: the turn ends."""
        values: TurnState = {"calls": tuple(calls), "returned": 0, "handed_off": False}
        return [cast("int", t.item) for t in self._driver.apply(MODEL, values)]

    async def apply_tool_result(self, turn: Turn) -> bool:
        """Applies a tool result that `turn` counts already; returns whether the model is next."""
        values: TurnState = {
            "calls": tuple(range(turn.next_call - turn.expected, turn.next_call)),
            "returned": turn.returned,
            "handed_off": bool(turn.goto),
        }
        return bool(self._driver.apply(TOOL, values))

"""Agents' turns: what follows from a model's reply and from a tool's result.

Within a turn the calls run in parallel and are applied in call order: a result that comes before
an earlier call's is held, as a fact, until that one is applied. So the order of the messages in
an agent's log depends on what it asked for, and not on which tool was faster.

An agent's turn as a graph of its own: `model ⇄ tools`, driven like the run's.

    model ──(tool calls)──► tool * n ──(all applied)──► model
      └──(none)──► end        └──(a tool handed off)──► end

The position inside a turn is a `Turn` in the frontier, and each apply is given all of it. So one
graph serves every turn. Every turn begins with its model, so beginning one needs no apply: the
first is the model's reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypedDict, cast

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from crewlog.authority.bindings import arguments_hash
from crewlog.authority.permissions import Decision, authorize_output
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
    ToolCallDenied,
    ToolCallInvalid,
)
from crewlog.state.excerpt import excerpt, message_excerpt
from crewlog.state.model import Call, FrontierStep, Turn
from crewlog.usage import Usage

Ended = Callable[[StepId, Sequence[NodeName]], Awaitable[None]]
"""Called when a turn is over, with the nodes that its tools hand off to."""
Failed = Callable[[StepId, int | None, str, FoundError, str], Awaitable[None]]
"""Called when a turn cannot go on, with the call, the error, its type, and what is to follow:
empty, what `on_error` says of failures."""


class Turns:
    """The turns of a run, each at its place in the turn's graph."""

    def __init__(self, run: RunContext, listening: Wakes, ended: Ended, failed: Failed) -> None:
        self._run = run
        self._wakes = listening
        self._ended = ended
        self._failed = failed
        self._graph = TurnSubgraph()
        self._replies = FinalMessages(run)

    async def apply_model_call(
        self, step: StepId, number: int, result: CallModelResult, *, composed: bool = False
    ) -> None:
        """Applies a model's reply: its tool calls follow, or the step is done.

        Args:
            step: The step.
            number: The call.
            result: The reply.
            composed: Whether no model was asked; see `crewlog.graph.agents_without_model`.
        """
        entry = self._run.state.frontier.get(step)
        agent = self._run.agent_of(step) if entry else None
        asking = {c.call for c in calls_of(entry) if c.tool is None}
        if entry is None or entry.turn is None or agent is None or number not in asking:
            return
        self._run.ledger.learn(result)
        for settled in result.refused_operations:
            self._run.record(
                j.ArtifactOperationsRefused(step=step, agent=agent, **settled.to_json())
            )
        first = entry.turn.next_call
        follow = await self._graph.replied(range(first, first + len(result.tools)))
        calls = tuple(
            Call(call=n, tool=asked.tool, id=asked.id, message=result.hash, excerpt=asked.excerpt)
            for n, asked in zip(follow, result.tools, strict=True)
        )
        faults = () if calls else self._replies.errors(agent, step, result)
        final = not calls and not faults
        words = bool(message_excerpt(result.body))
        logs = (
            self._final_message_logs(agent, step, words)
            if final
            else (self._run.step_log(step, agent),)
        )
        if final and self._replies.has_undeliverable_items(agent, step, result):
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
                excerpt=message_excerpt(result.body),
                append=final and self._run.has_list_reducer(f"{agent}.text"),
                refused=bool(faults),
                ending=result.ending,
                draft=None if final else self._replies.draft(agent, step, result),
                window=result.window,
                without_model=composed,
                delay=result.delay,
            )
        )
        if faults:
            await self._refuse(step, number, result, faults)
        elif final:
            self._wakes.wake_along_output_wires(agent, result.hash, logs)
            self._replies.apply(step, number, agent, result)
            await self.end(step, ())
        for call in calls:
            decision = await self._authorize_call(step, agent, call)
            if decision.allowed:
                self._count(step, agent, call)
            if decision.outcome == "ask":
                await self._ask_for_approval(step, call, result, decision)

    async def _refuse(
        self, step: StepId, number: int, result: CallModelResult, faults: tuple[str, ...]
    ) -> None:
        """Has a model try again whose final message cannot be used, or does without."""
        agent = self._run.agent_of(step)
        if agent is None:
            return
        match self._replies.reject(step, number, agent, result, faults):
            case "again":
                await self._check_turn_limit(step)
            case "fallback":
                await self.end(step, ())
            case "fail":
                calls = calls_of(self._run.state.frontier[step])
                error = self._replies.failure_text(agent, step, result, faults)
                bad = self._replies.is_bad(agent, step, result)
                kind: FoundError = "BadReply" if bad else "ReplyInvalid"
                policy = self._replies.policy(agent, step, result)
                await self._failed(step, calls[-1].call, error, kind, policy)

    async def apply_tool_call(self, step: StepId, number: int, result: CallToolResult) -> None:
        """Applies a tool's result in call order: one that comes early is held."""
        entry = self._run.state.frontier.get(step)
        agent = self._run.agent_of(step) if entry else None
        call = next((c for c in calls_of(entry) if c.call == number), None)
        if entry is None or agent is None or call is None or call.tool is None:
            return
        self._run.ledger.learn(result)
        match result.outcome:
            case ToolCallDenied() | ToolCallInvalid(unmade=True):
                self.release_quotas(step, call)
            case _:
                pass
        goto = tuple(node for node in result.returned.goto if node in self._run.plan.nodes)
        facts: list[j.JournalEntry] = [
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
        facts += self._writes(step, number, agent, call.tool, result)
        await self._apply_in_order(step, number, facts)

    async def answer_call(self, step: StepId, call: Call, text: str, *, ok: bool) -> None:
        """Answers a tool call without making it: a refusal, or what people know of its outcome."""
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
        fact = j.ToolCallCompleted(
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
        await self._apply_in_order(step, call.call, [fact])

    def unanswered_call(self, step: StepId, number: int) -> Call | None:
        """A tool call of a step that is not answered yet; none where nobody waits for it."""
        calls = calls_of(self._run.state.frontier.get(step))
        return next(
            (c for c in calls if c.call == number and c.tool and c.status != "buffered"), None
        )

    async def deny_call(self, step: StepId, call: Call, decision: Decision) -> None:
        """Answers a call that its agent may not make after all with a refusal, on record."""
        agent = self._run.agent_of(step)
        if agent is None:
            return
        self._deny(step, agent, call, decision.reason, decision.rule)
        self.release_quotas(step, call)
        await self.answer_call(step, call, f"Refused: {decision.reason}.", ok=False)

    async def _authorize_call(self, step: StepId, agent: AgentName, call: Call) -> Decision:
        """Whether an agent may make a call; where not, the call is answered with a refusal."""
        tool = call.tool or ""
        decision = self._run.check(agent, tool, step, counted=call.quotas)
        if decision.allowed:
            return decision
        reason = decision.reason
        if decision.rule == "ruling" and (said := self._run.live_permission_reason(agent, tool)):
            reason += f": {said}"
        self._deny(step, agent, call, reason, decision.rule)
        self.release_quotas(step, call)
        offered = ", ".join(self._run.tools_of(agent, step)) or "none"
        await self.answer_call(
            step, call, f"Refused: {reason}. Tools you may call: {offered}.", ok=False
        )
        return decision

    def _deny(self, step: StepId, agent: AgentName, call: Call, reason: str, rule: str) -> None:
        self._run.record(
            j.PermissionDenied(
                step=step,
                call=call.call,
                agent=agent,
                tool=call.tool or "",
                reason=reason,
                rule=rule,
            )
        )

    def _count(self, step: StepId, agent: AgentName, call: Call) -> None:
        """Counts a call in the run's quotas, from when it is asked for."""
        keys = self._run.run_quota_keys(agent, call.tool or "", step)
        if keys:
            self._run.record(j.QuotaConsumed(step=step, call=call.call, quotas=keys))

    def release_quotas(self, step: StepId, call: Call) -> None:
        """Takes a call that is not made out of the run's quotas."""
        if call.quotas:
            self._run.record(j.QuotaReleased(step=step, call=call.call, quotas=call.quotas))

    async def _ask_for_approval(
        self, step: StepId, call: Call, result: CallModelResult, decision: Decision
    ) -> None:
        """Asks people about a call whose tool needs that; from then on it is not to be made."""
        tool = call.tool or ""
        args = interrupts.tool_call_arguments(result.body, call.id)
        if args is None:  # arguments that cannot be read are never run: the model is told
            agent = self._run.agent_of(step)
            if agent is not None:
                self._deny(step, agent, call, "its arguments are not valid JSON", "arguments")
            self.release_quotas(step, call)
            say = f"The arguments of {tool!r} are not valid JSON. Call it again."
            await self.answer_call(step, call, say, ok=False)
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
        """Asks about a call whose question was taken back; false where it needs nobody's yes."""
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
        """What a question about a call says of why it is asked."""
        agent = self._run.agent_of(step)
        if agent is None:
            return {}
        rules = self._run.plan.plan_tool_of(self._run.state.frontier.get(step), tool)
        said = self._run.live_permission_reason(agent, tool) if decision.rule == "ruling" else ""
        risk, policy = rules.risk if rules else "low", self._run.plan.interrupts
        counted = self._run.quotas(agent, tool, step)
        return {
            **interrupts.reason_fields(decision, said, risk, policy.approve_risk),
            "quotas": tuple(map(interrupts.interrupt_quota, counted)),
        }

    async def recheck_call(self, step: StepId, call: Call) -> None:
        """Looks at a call again that was allowed when it was asked for, and is not made yet.

        Where it may not be made any more it is refused, and where people must be asked by now, and
        were not, they are.
        """
        agent = self._run.agent_of(step)
        if agent is None:
            return
        decision = await self._authorize_call(step, agent, call)
        if decision.outcome != "ask":
            return
        # A ruling or a change may have come since the model replied; and a yes may be of a step
        # that was taken back, of another run, or have expired.
        self.ask_again_for_approval(step, call)

    async def end(self, step: StepId, goto: Sequence[NodeName]) -> None:
        """Ends a turn that is done; people are asked first where its agent is not sure enough."""
        entry = self._run.state.frontier[step]
        agent = self._run.agent_of(step)
        least = self._run.rules_of(agent, step).ask_below if agent else None
        sure = entry.turn.confidence if entry.turn is not None else None
        if least is None or (sure is not None and sure >= least):
            await self.end_confirmed_turn(step, goto)
            return
        said = "does not say how sure it is" if sure is None else f"is sure by {sure:g}"
        self._run.ask(
            "low_confidence",
            f"{agent} {said} of what it made in {step}; it is to be {least:g}. Go on?",
            step=step,
            options=("go on", "again", "stop"),
            words=True,
        )

    async def end_confirmed_turn(self, step: StepId, goto: Sequence[NodeName]) -> None:
        """Ends a turn that is done, however sure its agent is."""
        await self._ended(step, goto)

    def send_to_agent(self, step: StepId, text: str, by: str) -> None:
        """Says something to the agent of a step, and to nobody else."""
        agent = self._run.agent_of(step)
        if agent is not None:
            log = self._run.step_log(step, agent)
            message = f"{step}/{self._run.state.position + 1}"
            self._run.say(text, by=by, to=log, message_id=message)

    def _confidence(self, step: StepId, agent: AgentName, result: CallToolResult) -> float | None:
        """How sure an agent says by a call that it is, where that is asked for."""
        rules = self._run.rules_of(agent, step)
        if rules.ask_below is None:
            return None
        outputs = {o.key: o.value for o in result.returned.outputs if o.key in rules.outputs}
        flags = {flag: v for flag, v in result.returned.flags.items() if flag in rules.flags}
        for said in (flags, outputs):
            if CONFIDENCE in said:
                value = said[CONFIDENCE]
                number = isinstance(value, int | float) and not isinstance(value, bool)
                return float(value) if number and 0 <= value <= 1 else 0.0
        return None

    def _writes(
        self, step: StepId, number: int, agent: AgentName, tool: str, result: CallToolResult
    ) -> Iterator[j.JournalEntry]:
        """What a tool set, as facts; what its agent may not set is denied."""
        rules, writes = self._run.rules_of(agent, step), result.returned
        if isinstance(result.outcome, ToolCallDenied):
            reason, rule = result.outcome.reason, result.outcome.rule
            yield self._denied(step, number, agent, tool, reason, rule)
        denied = [
            f"there is no node {node!r} to go to"
            for node in writes.goto
            if node not in self._run.plan.nodes
        ]
        for flag, value in writes.flags.items():
            decision = authorize_output("flag", agent, flag, rules.flags)
            if decision.allowed:
                yield j.RunOutputSet(
                    at=self._run.at,
                    flag=FlagName(flag),
                    value=value,
                    by=agent,
                    **self._run.reducer_fields(flag, step),
                )
            else:
                denied.append(decision.reason)
        for output in writes.outputs:
            decision = authorize_output("output", agent, output.key, rules.outputs)
            if decision.allowed:
                yield output_entry(self._run, step, agent, output, stored=result.stored)
            else:
                denied.append(decision.reason)
        for i, sent in enumerate(writes.sends, 1):
            decision = authorize_output("channel", agent, sent.channel, rules.send)
            if decision.allowed:
                yield self._wakes.channel_message(f"{step}/{number}/sent{i}", step, agent, sent)
            else:
                denied.append(decision.reason)
        for reason in denied:
            yield self._denied(step, number, agent, tool, reason)
        for found in operation_entries(self._run.plan, step, number, agent, result, self._run.at):
            if isinstance(found, Decision):
                yield self._denied(step, number, agent, tool, found.reason)
            else:
                yield found

    def _denied(
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

    async def _apply_in_order(self, step: StepId, number: int, facts: list[j.JournalEntry]) -> None:
        calls = calls_of(self._run.state.frontier.get(step))
        if any(c.call < number and c.tool is not None for c in calls):
            held = tuple(j.entry_to_json(fact) for fact in facts)
            self._run.record(j.CompletionBuffered(step=step, call=number, entries=held))
            return
        await self._apply_tool_entries(step, facts)
        while step in self._run.state.frontier:
            first = next((c for c in calls_of(self._run.state.frontier[step]) if c.tool), None)
            if first is None or first.status != "buffered":
                return
            await self._apply_tool_entries(
                step, [j.entry_from_json(data) for data in first.completion]
            )

    async def _apply_tool_entries(self, step: StepId, facts: Sequence[j.JournalEntry]) -> None:
        entry = self._run.state.frontier[step]
        returned, *rest = facts
        if entry.turn is None or not isinstance(returned, j.ToolCallCompleted):
            return
        goto = entry.turn.goto + returned.goto
        turn = entry.turn.model_copy(update={"returned": entry.turn.returned + 1, "goto": goto})
        model_next = await self._graph.returned(turn)
        self._run.ledger.record(returned.model_copy(update={"model_next": model_next}))
        for fact in rest:
            if isinstance(fact, j.RunOutputSet | j.OutputSet):
                record_write(self._run, fact, step)
                continue
            found = fact
            if isinstance(fact, j.ArtifactOperationsApplied):
                found = drop_stale_result(fact, self._run.state)
            self._run.ledger.record(found)
            if isinstance(fact, j.MessageAdded):
                self._wakes.wake_readers(
                    fact.ref.logs[0], fact.ref.body, fact.by, AgentName(fact.by)
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
        rules = self._run.rules_of(agent, step)
        if rules.does:
            return
        most = rules.max_calls
        # Asked once per `most` calls: people may let a long turn go on.
        if entry.turn.model_calls > most and (entry.turn.model_calls - 1) % most == 0:
            if rules.on_cap == "end":
                logs = self._final_message_logs(agent, step)
                self._replies.end_at_limit(step, agent, logs)
                if entry.turn.draft is not None:
                    self._wakes.wake_along_output_wires(agent, entry.turn.draft.body, logs)
                await self.end(step, entry.turn.goto)
                return
            error = (
                f"the turn of {agent!r} took {most} model calls and did not end; "
                "raise the agent's max_calls, or make its prompt say when it is done"
            )
            await self._failed(step, entry.turn.calls[-1].call, error, "TurnTooLong", "")

    def _final_message_logs(
        self, agent: AgentName, step: StepId, words: bool = True
    ) -> tuple[LogName, ...]:
        """Where a final message goes; to the agent's own log too, if it would not see it else.

        One without words goes along no wire: agents that have nothing to say come to rest.
        """
        writes = self._run.writable_logs(agent, step)
        seen = {*writes} & {*self._run.readable_logs(agent, step)}
        logs = writes if seen else (*writes, private_log(agent))
        wired = self._wakes.output_wire_logs(agent) if words else ()
        return (*logs, *(log for log in wired if log not in logs)) if wired else logs


def calls_of(entry: FrontierStep | None) -> tuple[Call, ...]:
    """The calls of a step that are not applied yet."""
    return entry.turn.calls if entry is not None and entry.turn is not None else ()


def _ref(result: CallModelResult | CallToolResult, logs: tuple[LogName, ...]) -> j.MessageRef:
    """The message of a result; its body travels along where the store was away."""
    inline = None if result.stored else result.body
    return j.MessageRef(body=result.hash, logs=logs, inline=inline)


MODEL = "model"
TOOL = "tool"


class TurnState(TypedDict):
    """The channels of a turn."""

    calls: tuple[int, ...]
    """The numbers of the tool calls that the last reply asked for."""
    returned: int
    """How many of them are applied."""
    handed_off: bool
    """Whether a tool sent the run elsewhere, which ends the turn."""


async def _placeholder(state: TurnState) -> TurnState:
    return state


def _after_model(state: TurnState) -> list[str | Send]:
    return [Send(TOOL, number) for number in state["calls"]] or [END]


def _after_tool(state: TurnState) -> list[str | Send]:
    if state["returned"] < len(state["calls"]):
        return []
    return [END if state["handed_off"] else MODEL]


def _compiled(saver: LatestSaver) -> Any:
    graph: StateGraph[TurnState, None, TurnState, TurnState] = StateGraph(TurnState)
    graph.add_node(MODEL, _placeholder)
    graph.add_node(TOOL, _placeholder)
    graph.add_edge(START, MODEL)
    graph.add_conditional_edges(MODEL, _after_model, [TOOL, END])
    graph.add_conditional_edges(TOOL, _after_tool, [MODEL, END])
    return graph.compile(checkpointer=saver, name="turn")


class TurnSubgraph:
    """Drives turns: which calls follow a reply, and whether a result ends the batch."""

    def __init__(self) -> None:
        routers = {MODEL: _after_model, TOOL: _after_tool}
        self._driver = Driver(_compiled, routers, [MODEL, TOOL], graph_cache("turn"))

    async def replied(self, calls: Sequence[int]) -> list[int]:
        """Applies a model's reply; returns the tool calls to make, empty where the turn is over."""
        values: TurnState = {"calls": tuple(calls), "returned": 0, "handed_off": False}
        return [cast("int", t.item) for t in self._driver.apply(MODEL, values)]

    async def returned(self, turn: Turn) -> bool:
        """Applies a tool's result, counted in `turn` already; true where the model is next."""
        values: TurnState = {
            "calls": tuple(range(turn.next_call - turn.expected, turn.next_call)),
            "returned": turn.returned,
            "handed_off": bool(turn.goto),
        }
        return bool(self._driver.apply(TOOL, values))

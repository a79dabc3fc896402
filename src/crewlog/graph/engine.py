"""The engine: what follows from what happened, without a server.

It owns the ledger, drives the plan's graph and the turns' graph, and says which calls are to be
made (`orders`). Whoever runs it (the workflow, or a test) makes the calls and reports how they
ended; time comes in by `at`. All methods that apply something run to their end before the next
one begins: there is one applier.

How the parts stand to each other: LangGraph says which nodes follow a completion, the journal
records it (`Routed`), and `reduce` makes the frontier of it. So the frontier can be rebuilt from
the journal alone, and the graph can be restored from the frontier's routing facts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from crewlog.authority.permissions import check_tool, check_write
from crewlog.definition.conditions import holds, render_condition
from crewlog.graph.compile import compile_plan
from crewlog.graph.driver import Target
from crewlog.graph.plan import ASK_HUMAN, FAIL, NEXT, SKIP, GraphPlan, PlanNode
from crewlog.graph.routing import decide, dependents, level, new_generation
from crewlog.graph.turn import TurnGraph
from crewlog.ids import (
    AgentName,
    FlagName,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
    private_log,
)
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import ModelResult, ToolResult, View
from crewlog.state.hashing import hash_json
from crewlog.state.ledger import Ledger
from crewlog.state.messages import brief
from crewlog.state.model import Call, CrewState, FrontierEntry, Interrupt
from crewlog.state.reduce import route_facts

THREAD = "run"
"""LangGraph's thread of the plan's graph."""


class Order(NamedTuple):
    """A call that is to be made."""

    step: StepId
    agent: AgentName
    call: Call
    """A model call where `call.tool` is none."""


class Engine:
    """A run between two completions."""

    def __init__(self, plan: GraphPlan, ledger: Ledger) -> None:
        self.plan = plan
        self.ledger = ledger
        self.at = 0
        """The time that new entries get, in milliseconds since the epoch."""
        self._driver = compile_plan(plan)
        self._turns = TurnGraph()
        self._following = dependents(plan)

    @property
    def state(self) -> CrewState:
        """The live state."""
        return self.ledger.state

    # -- beginning and restoring -------------------------------------------------------------

    @classmethod
    async def begin(
        cls, plan: GraphPlan, run: RunId, *, input_text: str, by: str, at: int
    ) -> Engine:
        """A new run: what it was asked is the first public message, and its entry nodes are ready."""
        engine = cls(plan, Ledger(CrewState(run=run)))
        engine.at = at
        engine.record(
            j.RunStarted,
            run=run,
            crew=plan.crew,
            definition=plan.definition,
            flags=plan.flags,
            permissions=plan.permissions,
            rules=plan.rules,
            by=by,
        )
        if input_text:
            engine.say(input_text, by=by, to=LogName("public"), message_id="input")
        targets = await engine._driver.apply(THREAD, "__start__", {"outcome": (NEXT,)})
        engine.record(j.Routed, to=engine._reached(targets))
        return engine

    @classmethod
    async def restore(cls, plan: GraphPlan, ledger: Ledger) -> Engine:
        """A run whose state was carried here: the graphs are put where the frontier says."""
        engine = cls(plan, ledger)
        await engine._driver.restore(THREAD, {"routing": ledger.state.routing})
        for step, entry in ledger.state.frontier.items():
            if entry.turn is not None:
                await engine._turns.restore(step, entry.turn)
        return engine

    # -- facts --------------------------------------------------------------------------------

    def record(self, kind: type[Any], **fields: Any) -> Any:
        """Records a fact at the engine's time."""
        return self.ledger.record(kind(at=self.at, **fields))

    def say(
        self, text: str, *, by: str, to: LogName, message_id: str, command: str | None = None
    ) -> None:
        """Adds a message of people to a log."""
        body: dict[str, Json] = {"type": "human", "content": text, "id": message_id}
        if by:
            body["name"] = by
        ref = j.MessageRef(body=hash_json(body), logs=(to,), inline=body)
        self.record(j.MessageAdded, ref=ref, by=by, command=command)

    def ask(
        self,
        kind: str,
        question: str,
        *,
        step: StepId | None = None,
        call: int | None = None,
        options: Sequence[str] = ("approve", "reject"),
        detail: str = "",
        flag: FlagName | None = None,
    ) -> None:
        """Raises an interrupt."""
        self.record(
            j.InterruptRaised,
            interrupt=Interrupt.model_validate(
                {
                    "id": InterruptId(f"i{self.state.asked + 1}"),
                    "kind": kind,
                    "question": question,
                    "step": step,
                    "call": call,
                    "options": tuple(options),
                    "detail": detail,
                    "flag": flag,
                }
            ),
        )

    def fail(self, error: str) -> None:
        """Ends the run without success."""
        self.record(j.RunFailed, error=error)

    # -- what is to be done -------------------------------------------------------------------

    async def settle(self, in_flight: Collection[tuple[StepId, int]]) -> None:
        """Moves everything that needs no call: conditions, decisions, questions, the end.

        Args:
            in_flight: The calls under way, as step and call number.
        """
        while self.state.status == "running":
            before = self.state.position
            for step in list(self.state.frontier):
                entry = self.state.frontier.get(step)
                if entry is not None and self.state.status == "running":
                    await self._move(entry)
            if self.state.position == before:
                if in_flight or any(True for _ in self.orders(in_flight)):
                    return
                await self._idle()
                if self.state.position == before:
                    return

    def orders(self, in_flight: Collection[tuple[StepId, int]]) -> Iterator[Order]:
        """The calls to make now, in the order of the frontier."""
        if self.state.status != "running":
            return
        for step, entry in self.state.frontier.items():
            node = self.plan.nodes[entry.node]
            if entry.status != "running" or entry.turn is None or node.agent is None:
                continue
            for call in entry.turn.calls:
                if call.status == "ready" and (step, call.call) not in in_flight:
                    yield Order(step, node.agent, call)

    def view(self, agent: AgentName) -> View:
        """The logs that an agent may read, each at its head."""
        readable = (*self.plan.agents[agent].reads, private_log(agent))
        logs = self.state.messages
        return View(heads={log: logs[log].head for log in readable if log in logs})

    def tools_of(self, agent: AgentName) -> tuple[str, ...]:
        """The tools that an agent may call now."""
        return tuple(t for t in self.plan.agents[agent].tools if self._check(agent, t).allowed)

    def holds(self, condition: Any) -> bool:
        """Whether a condition holds now."""
        outputs = {
            agent: {key: output.value for key, output in found.items()}
            for agent, found in self.state.agent_outputs.items()
        }
        return holds(condition, self.state.flags, outputs)

    # -- how calls ended ----------------------------------------------------------------------

    async def model_replied(self, step: StepId, number: int, result: ModelResult) -> None:
        """Applies a model's reply: its tool calls follow, or the step is done."""
        entry = self.state.frontier.get(step)
        agent = self.plan.nodes[entry.node].agent if entry else None
        if entry is None or entry.turn is None or agent is None:
            return
        first = entry.turn.next_call
        follow = await self._turns.replied(step, range(first, first + len(result.tools)))
        calls = tuple(
            Call(call=n, tool=asked.tool, id=asked.id, message=result.hash, brief=asked.brief)
            for n, asked in zip(follow, result.tools, strict=True)
        )
        logs = (private_log(agent),) if calls else self._final_logs(agent)
        self.record(
            j.ModelReplied,
            step=step,
            call=number,
            agent=agent,
            ref=j.MessageRef(body=result.hash, logs=logs),
            model=result.model,
            calls=calls,
            usage=result.usage,
            brief=result.brief,
        )
        if not calls:
            await self._complete(step)
        for call in calls:
            await self._refuse_unless_allowed(step, agent, call)

    async def tool_returned(self, step: StepId, number: int, result: ToolResult) -> None:
        """Applies a tool's result in call order: one that comes early is held."""
        entry = self.state.frontier.get(step)
        agent = self.plan.nodes[entry.node].agent if entry else None
        call = next((c for c in _calls(entry) if c.call == number), None)
        if entry is None or agent is None or call is None or call.tool is None:
            return
        goto = tuple(node for node in result.goto if node in self.plan.nodes)
        facts: list[j.JournalEntry] = [
            j.ToolReturned(
                at=self.at,
                step=step,
                call=number,
                agent=agent,
                tool=call.tool,
                ref=j.MessageRef(body=result.hash, logs=(private_log(agent),)),
                ok=result.ok,
                brief=result.brief,
                ms=result.ms,
                goto=goto,
            )
        ]
        facts += self._writes(step, number, agent, call.tool, result)
        await self._tool_done(step, number, facts)

    async def call_failed(self, step: StepId, number: int, error: str, error_type: str) -> None:
        """Applies a call that failed for good: people are asked, or the agent's policy decides."""
        entry = self.state.frontier.get(step)
        call = next((c for c in _calls(entry) if c.call == number), None)
        if entry is None or call is None:
            return
        if error_type == "OutcomeUnknown":
            self.ask(
                "outcome_unknown",
                f"{call.tool} {call.brief} was started and never answered. Did it happen?",
                step=step,
                call=number,
                options=("done", "retry", "stop"),
                detail=error,
            )
            return
        await self.fail_step(step, number, error, error_type)

    async def fail_step(
        self, step: StepId, number: int | None, error: str, error_type: str
    ) -> None:
        """Records that a step cannot go on, and does what its agent's `on_error` says."""
        entry = self.state.frontier[step]
        agent = self.plan.nodes[entry.node].agent
        policy = self.plan.agents[agent].on_error if agent else "ask"
        self.record(j.StepFailed, step=step, call=number, error=error, error_type=error_type)
        if policy == "fail":
            self.fail(f"{step}: {error}")
        elif policy == "continue":
            await self._complete(step, because=f"failed: {brief(error)}")
        else:
            self.ask(
                "step_failed",
                f"{step} failed: {brief(error, 300)}",
                step=step,
                call=number,
                options=("retry", "skip", "stop"),
                detail=error,
            )

    # -- moving -------------------------------------------------------------------------------

    async def finish(
        self, step: StepId, outcome: str, *, because: str, skipped: bool = False
    ) -> None:
        """Ends a step that is no agent's turn, or one that people ended, and routes on."""
        await self._complete(step, outcome=outcome, because=because, skipped=skipped)

    async def again(self, step: StepId) -> None:
        """Lets a decision whose visits are used up go where it goes, with its visits anew."""
        node = self.state.frontier[step].node
        rule = self.plan.nodes[node].decide
        if rule is not None:
            self.record(j.StepCompleted, step=step, because="people let it go again")
            await self._route(node, (rule.go,), because="again", loop=True, rearmed=True)

    async def start_unmet(self, node: NodeName) -> None:
        """Starts a join that cannot fill any more, as people decided."""
        self.record(j.Routed, to=(j.Reached(node=node),), because="people let it go on")

    async def _move(self, entry: FrontierEntry) -> None:
        node = self.plan.nodes[entry.node]
        if entry.status == "waiting" and (node.when is None or self.holds(node.when)):
            self.record(j.ConditionMet, step=entry.step)
        elif entry.status == "ready":
            await self._start(entry, node)

    async def _start(self, entry: FrontierEntry, node: PlanNode) -> None:
        step = entry.step
        breaks = set(self.state.break_before) & {entry.node, NodeName("*")}
        if breaks:
            self.ask("manual", f"Go on with {step}?", step=step, options=("go on", "stop"))
        elif node.only_if is not None and not self.holds(node.only_if):
            because = f"{render_condition(node.only_if)} does not hold"
            await self._complete(step, because=because, skipped=True)
        elif node.kind == "decide":
            await self._decide(step, entry.node)
        elif self.state.steps >= self.plan.limits.steps * (1 + self.state.extensions):
            question = f"The run has taken {self.state.steps} steps, which is its limit. Go on?"
            self.ask("limit", question, step=step, options=("go on", "stop"))
        elif node.ask is not None:
            self.record(j.StepStarted, step=step)
            self.ask(
                "ask",
                node.ask.question,
                step=step,
                options=node.ask.options,
                flag=node.ask.sets,
            )
        else:
            self.record(j.StepStarted, step=step, agent=node.agent)
            await self._turns.begin(step)

    async def _decide(self, step: StepId, name: NodeName) -> None:
        outputs = {
            agent: {key: output.value for key, output in found.items()}
            for agent, found in self.state.agent_outputs.items()
        }
        outcome, because = decide(self.plan, name, self.state.routing, self.state.flags, outputs)
        rule = self.plan.nodes[name].decide
        if outcome == ASK_HUMAN and rule is not None:
            question = f"{render_condition(rule.when)}, and {rule.go} {because}. What now?"
            self.ask("ask", question, step=step, options=("continue", "again", "stop"))
            return
        self.record(j.StepCompleted, step=step, because=because)
        if outcome == FAIL:
            self.fail(f"{name}: {because}")
            return
        taken = rule is not None and outcome == rule.go
        await self._route(name, (outcome,), because=because, loop=taken)

    async def _idle(self) -> None:
        """Nothing is under way and nothing is ready: the end, or something that cannot come."""
        state = self.state
        if state.interrupts:
            return
        waiting = [e for e in state.frontier.values() if e.status == "waiting"]
        for entry in waiting:
            await self._unmet(entry)
        if waiting or state.frontier:
            return
        stuck = next(self._stuck_joins(), None)
        if stuck is None:
            self.record(j.RunCompleted)
            return
        missing = [
            source
            for source in (self.plan.nodes[stuck].join or _NO_JOIN).of
            if not state.routing.arrivals.get(stuck, {}).get(source)
        ]
        self.ask(
            "requirement",
            f"{stuck} waits for {' and '.join(missing)}, which will not come. Go on without?",
            options=("go on", "end", "stop"),
            detail=stuck,
        )

    async def _unmet(self, entry: FrontierEntry) -> None:
        node = self.plan.nodes[entry.node]
        if node.otherwise == ASK_HUMAN:
            self.ask(
                "requirement",
                f"{entry.node} waits for {entry.requirement}, and nothing is left that could set it.",
                step=entry.step,
                options=("set", "skip", "stop"),
                detail=entry.requirement,
            )
            return
        outcome = NEXT if node.otherwise == SKIP else node.otherwise
        because = f"{entry.requirement} cannot come true any more"
        await self._complete(entry.step, outcome=outcome, because=because, skipped=True)

    def _stuck_joins(self) -> Iterator[NodeName]:
        routing = self.state.routing
        answered = {e.detail for e in self.state.interrupts.values() if e.kind == "requirement"}
        for name, node in self.plan.nodes.items():
            arrivals = routing.arrivals.get(name, {})
            base = routing.base.get(name, ())
            if node.join is None or name in answered or self.state.visits.get(name):
                continue
            if any(arrivals.values()) and level(node.join, arrivals, base) == 0:
                yield name

    async def _complete(
        self,
        step: StepId,
        *,
        outcome: str = NEXT,
        because: str = "",
        skipped: bool = False,
        handoff: Sequence[NodeName] = (),
    ) -> None:
        node = self.state.frontier[step].node
        self.record(j.StepCompleted, step=step, because=because, skipped=skipped)
        await self._turns.end(step)
        await self._route(node, (outcome,) if not handoff else (), handoff=handoff)

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
        arrived = self._following[node] if NEXT in outcome else ()
        reset = new_generation(self.plan, node, self.state.routing) if loop else {}
        routing = route_facts(
            self.state.routing, node, arrived, loop=loop, reset=reset, rearmed=rearmed
        )
        targets = await self._driver.apply(
            THREAD, node, {"routing": routing, "outcome": outcome}, goto=handoff
        )
        self.record(
            j.Routed,
            source=node,
            to=self._reached(targets),
            arrived=arrived,
            outcome=outcome or tuple(handoff),
            because=because,
            loop=loop,
            reset=reset,
            rearmed=rearmed,
        )

    def _reached(self, targets: Sequence[Target]) -> tuple[j.Reached, ...]:
        found: list[j.Reached] = []
        for target in targets:
            when = self.plan.nodes[NodeName(target.node)].when
            requirement = render_condition(when) if when is not None else ""
            found.append(
                j.Reached(node=NodeName(target.node), item=target.item, requirement=requirement)
            )
        return tuple(found)

    # -- tools --------------------------------------------------------------------------------

    def _check(self, agent: AgentName, tool: str) -> Any:
        rules = self.plan.agents[agent]
        return check_tool(
            agent,
            tool,
            offered=rules.tools,
            known={*self.plan.tools, *rules.tools},
            permissions=self.state.tool_permissions,
        )

    async def _refuse_unless_allowed(self, step: StepId, agent: AgentName, call: Call) -> None:
        tool = call.tool or ""
        decision = self._check(agent, tool)
        if decision.allowed:
            return
        self.record(
            j.PermissionDenied,
            step=step,
            call=call.call,
            agent=agent,
            tool=tool,
            reason=decision.reason,
        )
        offered = ", ".join(self.tools_of(agent)) or "none"
        await self.answer_call(
            step, call, f"Refused: {decision.reason}. Tools you may call: {offered}.", ok=False
        )

    async def answer_call(self, step: StepId, call: Call, text: str, *, ok: bool) -> None:
        """Answers a tool call without making it: a refusal, or what people know of its outcome."""
        agent = self.plan.nodes[self.state.frontier[step].node].agent
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
        ref = j.MessageRef(body=hash_json(body), logs=(private_log(agent),), inline=body)
        fact = j.ToolReturned(
            at=self.at,
            step=step,
            call=call.call,
            agent=agent,
            tool=call.tool or "",
            ref=ref,
            ok=ok,
            brief=brief(text),
        )
        await self._tool_done(step, call.call, [fact])

    def _writes(
        self, step: StepId, number: int, agent: AgentName, tool: str, result: ToolResult
    ) -> Iterator[j.JournalEntry]:
        """What a tool set, as facts; what its agent may not set is denied."""
        rules = self.plan.agents[agent]
        denied: list[str] = [
            f"there is no node {node!r} to go to"
            for node in result.goto
            if node not in self.plan.nodes
        ]
        for flag, value in result.flags.items():
            decision = check_write("flag", agent, flag, rules.flags)
            if decision.allowed:
                yield j.FlagSet(at=self.at, flag=FlagName(flag), value=value, by=agent)
            else:
                denied.append(decision.reason)
        for output in result.outputs:
            decision = check_write("output", agent, output.key, rules.outputs)
            if decision.allowed:
                yield j.OutputSet(
                    at=self.at, agent=agent, key=output.key, value=output.value, body=output.body
                )
            else:
                denied.append(decision.reason)
        for reason in denied:
            yield j.PermissionDenied(
                at=self.at, step=step, call=number, agent=agent, tool=tool, reason=reason
            )

    async def _tool_done(self, step: StepId, number: int, facts: list[j.JournalEntry]) -> None:
        calls = _calls(self.state.frontier.get(step))
        if any(c.call < number and c.tool is not None for c in calls):
            held = tuple(j.entry_to_json(fact) for fact in facts)
            self.record(j.CallHeld, step=step, call=number, entries=held)
            return
        await self._apply_tool(step, facts)
        while step in self.state.frontier:
            first = next((c for c in _calls(self.state.frontier[step]) if c.tool), None)
            if first is None or first.status != "held":
                return
            await self._apply_tool(step, [j.entry_from_json(data) for data in first.held])

    async def _apply_tool(self, step: StepId, facts: Sequence[j.JournalEntry]) -> None:
        entry = self.state.frontier[step]
        returned, *rest = facts
        if entry.turn is None or not isinstance(returned, j.ToolReturned):
            return
        goto = entry.turn.goto + returned.goto
        turn = entry.turn.model_copy(update={"returned": entry.turn.returned + 1, "goto": goto})
        model_next = await self._turns.returned(step, turn)
        self.ledger.record(returned.model_copy(update={"model_next": model_next}))
        for fact in rest:
            self.ledger.record(fact)
        if model_next:
            await self._check_turn_length(step)
        elif turn.returned == turn.expected:
            await self._complete(step, handoff=goto, because="handed off")

    async def _check_turn_length(self, step: StepId) -> None:
        entry = self.state.frontier[step]
        agent = self.plan.nodes[entry.node].agent
        if entry.turn is None or agent is None:
            return
        most = self.plan.agents[agent].max_calls
        # Asked once per `most` calls: people may let a long turn go on.
        if entry.turn.model_calls > most and (entry.turn.model_calls - 1) % most == 0:
            error = (
                f"the turn of {agent!r} took {most} model calls and did not end; "
                "raise the agent's max_calls, or make its prompt say when it is done"
            )
            await self.fail_step(step, entry.turn.calls[-1].call, error, "TurnTooLong")

    def _final_logs(self, agent: AgentName) -> tuple[LogName, ...]:
        """Where a final message goes: also to the agent's own log, where it would not see it else."""
        rules = self.plan.agents[agent]
        seen = set(rules.writes) & set(rules.reads)
        return rules.writes if seen else (*rules.writes, private_log(agent))


def _calls(entry: FrontierEntry | None) -> tuple[Call, ...]:
    return entry.turn.calls if entry is not None and entry.turn is not None else ()


class _NoJoin:
    of: tuple[NodeName, ...] = ()


_NO_JOIN = _NoJoin()

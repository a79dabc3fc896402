"""Runs a dry run: the engine routes a graph on an empty state, without a call.

Each turn ends at once. It sets only the assumed outputs, unless it is assumed to fail. Each
question gets its first answer. A timer ends when nothing else can continue.
"""

from __future__ import annotations

from collections.abc import Mapping

from crewlog.canonical_json import hash_json
from crewlog.definition.findings import did_you_mean
from crewlog.errors import UsageError
from crewlog.graph.answers import answer
from crewlog.graph.engine import Engine
from crewlog.graph.interrupts import StopAnswer
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import CallRequest
from crewlog.ids import AgentName, FlagName, NodeName, RunId, node_of
from crewlog.model import Json
from crewlog.reporting.dry_run.journal_reader import dry_run_view
from crewlog.reporting.dry_run.view import DryRunEnd, DryRunView
from crewlog.state import journal as j
from crewlog.state.calls import CallModelResult, FinalMessage, OutputValue, StructuredOutput
from crewlog.state.model import Interrupt

STEP_LIMIT = 200
"""Steps after which a dry run ends: more repetitions of a loop say nothing new."""

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
    step_limit: int = STEP_LIMIT,
) -> DryRunView:
    """Routes the graph of a plan without a call of a model or a tool.

    Args:
        plan: The plan.
        flags: The assumed run outputs. One that an agent sets is set at the end of its turn, any
            other at the start.
        outputs: The assumed outputs, set at the end of their agents' turns.
        errors: The assumed errors: by node, or by agent for all steps of it.
        step_limit: The most steps.

    Raises:
        UsageError: the crew has no such run output, agent, output or step.
    """
    runner = _DryRunner(plan, flags or {}, outputs or {}, errors or {})
    end, because = await runner.run(step_limit)
    entries = [j.entry_from_json(data) for data in runner.engine.journal.entries]
    return dry_run_view(plan, entries, end=end, because=because).model_copy(
        update={
            "flags": dict(flags or {}),
            "outputs": {agent: dict(found) for agent, found in (outputs or {}).items()},
            "errors": dict(errors or {}),
        }
    )


class _DryRunner:
    """Drives the engine in the place of models, tools and people."""

    engine: Engine

    def __init__(
        self,
        plan: GraphPlan,
        flags: Mapping[str, Json],
        outputs: Outputs,
        errors: Mapping[str, str],
    ) -> None:
        # One exchange of a conversation. Turns of agents without a model end at once, as all
        # others: no tool is called, and no step takes time.
        idle = {name: rules.model_copy(update={"does": ()}) for name, rules in plan.agents.items()}
        nodes = {
            name: node if node.timeout is None else node.model_copy(update={"timeout": None})
            for name, node in plan.nodes.items()
        }
        self.plan = plan.model_copy(update={"conversation": None, "agents": idle, "nodes": nodes})
        self.flags = flags
        self.outputs = outputs
        self.errors = errors
        self._answers: set[tuple[NodeName | None, str]] = set()
        _check_assumed_outputs(plan, flags, outputs)
        _check_assumed_errors(plan, errors)

    async def run(self, step_limit: int) -> tuple[DryRunEnd, str]:
        """Runs until the end or the step limit.

        Returns:
            How the run ended, and why it did not complete.
        """
        self.engine = engine = await Engine.begin(
            self.plan, RunId("dry-run"), input_text="", by="", at=0
        )
        written = {flag for rules in self.plan.agents.values() for flag in rules.flags}
        for flag in self.flags:
            if flag not in written:
                engine.record(j.RunOutputSet(flag=FlagName(flag), value=self.flags[flag]))
        while True:
            await engine.advance(())
            request = next(engine.pending_calls(()), None)
            if engine.state.status == "failed":
                return "failed", engine.state.error
            if engine.state.is_ended:
                return "completed", ""
            if engine.state.steps > step_limit or engine.state.position > step_limit * 20:
                return "cut", f"it goes on after {step_limit} steps"
            if request is not None:
                await self._end_turn(request)
            elif (due := engine.timers.next_deadline()) is not None:
                engine.at = max(engine.at, due)
                engine.timers.fire(due)
            elif engine.state.interrupts:
                interrupt = next(iter(engine.state.interrupts.values()))
                try:
                    await answer(
                        engine, interrupt, self._chosen_answer(interrupt), by="", command=None
                    )
                except StopAnswer:
                    return "stopped", f"the answer to {interrupt.question!r} ends the run"
            else:
                return "stopped", "nothing is left that could go on"

    async def _end_turn(self, request: CallRequest) -> None:
        """Ends a turn with the assumed outputs and an empty message, or with the assumed error."""
        agent, rules = request.agent, self.plan.agents[request.agent]
        error = self.errors.get(node_of(request.step), self.errors.get(agent))
        if error is not None:
            await self.engine.fail_step(request.step, request.call.call, error, ASSUMED)
            return
        for flag in rules.flags:
            if flag in self.flags:
                self.engine.record(j.RunOutputSet(flag=flag, value=self.flags[flag], by=agent))
        assumed, structured = self.outputs.get(agent, {}), rules.reply.fields if rules.reply else ()
        for key in rules.outputs:
            if key in assumed and key not in structured:
                self.engine.record(j.OutputSet(agent=agent, key=key, value=assumed[key]))
        body = {"type": "ai", "content": "", "id": f"{request.step}/{request.call.call}"}
        fields = tuple(
            OutputValue(key=key, value=assumed[key]) for key in structured if key in assumed
        )
        read = StructuredOutput(outputs=fields) if rules.reply else None
        outcome = FinalMessage(output=read)
        reply = CallModelResult(body=body, hash=hash_json(body), outcome=outcome)
        await self.engine.turns.apply_model_call(request.step, request.call.call, reply)

    def _chosen_answer(self, interrupt: Interrupt) -> str:
        """The first option; another one if that would only repeat the question.

        It repeats if it goes to a node and was the answer before, and if it reads a missing list
        again.
        """
        if interrupt.kind == "step_failed":
            return "skip"  # a retry would fail again
        first, *others = interrupt.options
        node = self.engine.state.frontier[interrupt.step].node if interrupt.step else None
        key = (node, interrupt.question)
        again = key in self._answers
        self._answers.add(key)
        if first != "again" and not (again and first in self.plan.nodes):
            return first
        without_nodes = [option for option in others if option not in self.plan.nodes]
        return next(
            (option for option in without_nodes if option != "stop"),
            without_nodes[0] if without_nodes else first,
        )


def _check_assumed_errors(plan: GraphPlan, errors: Mapping[str, str]) -> None:
    known = {name: node.agents for name, node in plan.nodes.items() if node.agents}
    for name in errors:
        if name not in known and not any(name in agents for agents in known.values()):
            raise UsageError(
                f"the crew {str(plan.crew)!r} has no step {name!r} that could fail",
                remedy=did_you_mean(name, known, f"Its agents' phases are: {', '.join(known)}."),
            )


def _check_assumed_outputs(plan: GraphPlan, flags: Mapping[str, Json], outputs: Outputs) -> None:
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

"""Runs a dry run: the engine routes a graph on an empty state, and nothing is called.

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
from crewlog.reporting.dry_run.journal_reader import account
from crewlog.reporting.dry_run.view import DryRunView, End
from crewlog.state import journal as j
from crewlog.state.calls import CallModelResult, OutputValue, StructuredOutput
from crewlog.state.model import Interrupt

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
) -> DryRunView:
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
            await engine.advance(())
            order = next(engine.pending_calls(()), None)
            if engine.state.status == "failed":
                return "failed", engine.state.error
            if engine.state.is_ended:
                return "completed", ""
            if engine.state.steps > most or engine.state.position > most * 20:
                return "cut", f"it goes on after {most} steps"
            if order is not None:
                await self._end_turn(order)
            elif (due := engine.timers.next_deadline()) is not None:
                engine.at = max(engine.at, due)
                engine.timers.fire(due)
            elif engine.state.interrupts:
                asked = next(iter(engine.state.interrupts.values()))
                try:
                    await answer(engine, asked, self._chosen_answer(asked), by="", command=None)
                except StopAnswer:
                    return "stopped", f"the answer to {asked.question!r} ends the run"
            else:
                return "stopped", "nothing is left that could go on"

    async def _end_turn(self, order: CallRequest) -> None:
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

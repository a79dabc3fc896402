"""What an agent said in an earlier visit, where a later one comes to nothing.

A step that fails and is gone on without, or that people pass over, says nothing of what its agent
is there to say. What an earlier visit set must not pass for it then, or a gate opens on tests that
were not run this time: it is set to null. What the visit itself set before it failed stays, what
its other items set among that, and so do values that `merge` puts together over many steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from crewlog.definition.replies import CAPPED, RESPONSE
from crewlog.graph.facts import RunFacts
from crewlog.graph.plan import PlanAgent
from crewlog.ids import AgentName, StepId, item_number, private_log, visit_of
from crewlog.state import journal as j
from crewlog.state.model import FrontierStep, Output
from crewlog.state.pools import ERROR


def begun(run: RunFacts, step: StepId) -> int:
    """The position at which the visit of a step began; 0 where it has not."""
    entry = run.state.frontier.get(step)
    visit = run.state.frontier.get(visit_of(step)) if item_number(step) else entry
    if visit is not None and visit.mapped is not None:
        return visit.mapped.position
    return entry.turn.began if entry is not None and entry.turn is not None else 0


def unset(run: RunFacts, step: StepId, *, but: Collection[str] = frozenset()) -> None:
    """Sets to null what the agents of a step that comes to nothing said before it began.

    Args:
        run: The run.
        step: The step.
        but: Outputs that are set otherwise.
    """
    entry = run.state.frontier.get(step)
    if entry is None:
        return
    waits = entry.turn is None and entry.mapped is None
    since = entry.reached if waits else begun(run, step)
    for agent in _agents(run, entry):
        rules = run.plan.plan_agent_of(step, agent) if _known(run, step, agent) else None
        for key in _declared_outputs(rules) if rules is not None else ():
            if key not in but and run.plan.merge.get(f"{agent}.{key}", "last") == "last":
                _reset_output(run, step, agent, key, since)


def reset_error_output(run: RunFacts, step: StepId) -> None:
    """Sets to null the error of an earlier visit, where a later one has another outcome."""
    agent = run.agent_of(step)
    if agent is not None:
        _reset_output(run, step, agent, ERROR, begun(run, step))


def is_set(output: Output | None) -> bool:
    """Whether an output has a value, of whatever size."""
    return output is not None and (output.value is not None or bool(output.bodies))


def _agents(run: RunFacts, entry: FrontierStep) -> tuple[AgentName, ...]:
    """The agents of a step; of a visit with a step for each item, all that take one."""
    if entry.turn is None:
        named = entry.mapped.agents if entry.mapped is not None else ()
        return named or run.plan.node_of(entry.step).agents
    agent = run.agent_of(entry.step)
    return () if agent is None else (agent,)


def _declared_outputs(rules: PlanAgent) -> Iterator[str]:
    """The outputs that an agent is there to set."""
    form = (*rules.reply.fields, RESPONSE) if rules.reply is not None else ()
    capped = (CAPPED,) if rules.on_cap == "end" else ()
    yield from dict.fromkeys((*rules.outputs, *form, *capped))


def _known(run: RunFacts, step: StepId, agent: AgentName) -> bool:
    """Whether the rules of an agent are there; a crew may have changed since its step began."""
    return agent in run.plan.agents or visit_of(step) in run.plan.left


def _reset_output(run: RunFacts, step: StepId, agent: AgentName, key: str, since: int) -> None:
    found = run.state.agent_outputs.get(agent, {}).get(key)
    if found is None or not is_set(found) or found.position > since:
        return
    logs = (private_log(agent),) if key == ERROR else run.output_audience(agent, step)
    run.record(j.OutputSet(agent=agent, key=key, logs=logs))

"""An agent's inputs as a call is told of them: references to what is set and it may be given.

What else there is the agent does not learn, not even that it is there. The activity asks once more
who may be given what, by the definition; see `crewlog.activities.inputs`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from crewlog.authority.audiences import may_read_input
from crewlog.definition.context import ARTIFACT, FLAG, WHOLE
from crewlog.graph.run_context import RunContext
from crewlog.ids import PUBLIC, AgentName, FlagName, LogName, StepId
from crewlog.state.agent_inputs import MOST_ELEMENTS, AgentInput, InputValue
from crewlog.state.model import Output


def agent_inputs(run: RunContext, agent: AgentName, step: StepId) -> tuple[AgentInput, ...]:
    """What an agent is given of its inputs, in a step."""
    sources = run.rules_of(agent, step).inputs
    if not sources:
        return ()
    return tuple(_given(run, agent, step, sources))


def _given(
    run: RunContext, agent: AgentName, step: StepId, sources: Collection[str]
) -> Iterator[AgentInput]:
    reads = run.readable_logs(agent, step)

    def may(logs: Collection[LogName]) -> bool:
        return may_read_input(agent, logs, reads=reads, step=step).allowed

    for source in sources:
        if source == WHOLE:
            if run.state.request is not None:
                yield AgentInput(source=source, body=run.state.request, logs=(PUBLIC,))
        elif source.startswith(FLAG):
            flag = FlagName(source.removeprefix(FLAG))
            if flag in run.state.flags:
                yield AgentInput(source=source, value=run.state.flags[flag])
        elif not source.startswith(ARTIFACT):
            maker, _, key = source.partition(".")
            output = run.state.agent_outputs.get(AgentName(maker), {}).get(key)
            if output is None:
                continue
            if output.elements:
                parts = [each for each in output.elements if may(each.logs)]
                yield AgentInput(
                    source=source,
                    elements=tuple(
                        InputValue(value=each.value, body=each.body, logs=each.logs)
                        for each in parts[-MOST_ELEMENTS:]
                    ),
                    of=len(parts) if len(parts) > MOST_ELEMENTS else 0,
                )
            elif maker == agent or may(output.logs):
                yield _whole(source, output)


def _whole(source: str, output: Output) -> AgentInput:
    return AgentInput(source=source, value=output.value, body=output.body, logs=output.logs)

"""The inputs of an agent: references to the values that are set and that it may read.

The agent does not learn that other values exist. The activity checks the references again, by the
definition (`crewlog.activities.inputs`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from crewlog.authority.audiences import may_read_input
from crewlog.definition.context import ARTIFACT, FLAG, WHOLE
from crewlog.graph.run_context import RunContext
from crewlog.ids import PUBLIC, AgentName, FlagName, LogName, StepId
from crewlog.state.agent_inputs import MAX_ELEMENTS, AgentInput, InputValue
from crewlog.state.model import Output


def agent_inputs(run: RunContext, agent: AgentName, step: StepId) -> tuple[AgentInput, ...]:
    """The inputs of an agent in a step."""
    sources = run.rules_of(agent, step).inputs
    if not sources:
        return ()
    return tuple(_readable_inputs(run, agent, step, sources))


def _readable_inputs(
    run: RunContext, agent: AgentName, step: StepId, sources: Collection[str]
) -> Iterator[AgentInput]:
    reads = run.readable_logs(agent, step)

    def may_read(logs: Collection[LogName]) -> bool:
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
            owner, _, key = source.partition(".")
            output = run.state.agent_outputs.get(AgentName(owner), {}).get(key)
            if output is None:
                continue
            if output.elements:
                elements = [each for each in output.elements if may_read(each.logs)]
                yield AgentInput(
                    source=source,
                    elements=tuple(
                        InputValue(value=each.value, body=each.body, logs=each.logs)
                        for each in elements[-MAX_ELEMENTS:]
                    ),
                    of=len(elements) if len(elements) > MAX_ELEMENTS else 0,
                )
            elif owner == agent or may_read(output.logs):
                yield _output_input(source, output)


def _output_input(source: str, output: Output) -> AgentInput:
    return AgentInput(source=source, value=output.value, body=output.body, logs=output.logs)

"""The outputs that an agent may set: those it declares, its reply's fields, and what its turn says.

Conditions, lists for phases, and inputs may name these and `text`, its last final message.
"""

from __future__ import annotations

from collections.abc import Iterable

from crewlog.definition.decisions import reply_outputs
from crewlog.definition.model import AgentDefinition, AgentPhase, CrewDefinition
from crewlog.definition.phases import Phase
from crewlog.definition.replies import CAPPED


def outputs_of(agent: AgentDefinition) -> tuple[str, ...]:
    """The outputs of an agent, however they are set, besides `text`."""
    if agent.reply is None and agent.on_cap == "fail":
        return agent.outputs
    capped = (CAPPED,) if agent.on_cap == "end" else ()
    return tuple(dict.fromkeys((*agent.outputs, *reply_outputs(agent.reply), *capped)))


def keeping_errors(definition: CrewDefinition, found: Iterable[Phase]) -> frozenset[str]:
    """The agents that may have the output `error`: a run continues where a step of them fails.

    Args:
        definition: The crew.
        found: Its phases.
    """
    items = (phase.item for phase in found if isinstance(phase.item, AgentPhase))
    by_phase = (
        name
        for item in items
        if item.on_error == "continue" or item.stand_in is not None
        for name in item.agents
    )
    by_agent = (
        name for name, each in definition.agents.items() if each.on_error.failure == "continue"
    )
    return frozenset((*by_agent, *by_phase))

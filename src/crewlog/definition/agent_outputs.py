"""The outputs that an agent may set: those it declares, its reply's fields, and what its turn says.

Conditions, lists for phases, and inputs may name these and `text`, its last final message.
"""

from __future__ import annotations

from crewlog.definition.decisions import reply_outputs
from crewlog.definition.model import AgentDefinition
from crewlog.definition.replies import CAPPED


def outputs_of(agent: AgentDefinition) -> tuple[str, ...]:
    """The outputs of an agent, however they are set, besides `text`."""
    if agent.reply is None and agent.on_cap == "fail":
        return agent.outputs
    capped = (CAPPED,) if agent.on_cap == "end" else ()
    return tuple(dict.fromkeys((*agent.outputs, *reply_outputs(agent.reply), *capped)))

"""What a question shows besides its words, e.g. a plan, and where words go that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.graph.plan import Ask, GraphPlan
from crewlog.ids import AgentName, NodeName
from crewlog.state.model import Output
from crewlog.state.planned import value_text


def shown_output_fields(name: str, outputs: Mapping[AgentName, Mapping[str, Output]]) -> dict[str, Any]:
    """The fields of a question that shows an output.

    Args:
        name: `agent.output`.
        outputs: All outputs.
    """
    agent, _, key = name.partition(".")
    found = outputs.get(AgentName(agent), {}).get(key)
    if found is None:
        return {"detail": f"{name} was not set"}
    if found.parts:
        return {"detail": value_text([part.value for part in found.parts])}
    if found.body is not None:
        return {"detail": f"the output {name}", "shows": found.body}
    return {"detail": value_text(found.value)}


def text_target(plan: GraphPlan, ask: Ask) -> NodeName | None:
    """The option of a question that other words mean: the one that is an agent's node.

    Args:
        plan: The run's.
        ask: The question.
    """
    if not ask.words or ask.sets is not None:
        return None
    nodes = (plan.nodes.get(NodeName(option)) for option in ask.options)
    told = [NodeName(o) for o, n in zip(ask.options, nodes, strict=True) if n and n.agent]
    return told[0] if len(told) == 1 else None

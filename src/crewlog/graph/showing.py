"""What a question shows besides its words: an output, e.g. the plan that people approve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.ids import AgentName
from crewlog.state.model import Output
from crewlog.state.planned import value_words


def shown(name: str, outputs: Mapping[AgentName, Mapping[str, Output]]) -> dict[str, Any]:
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
        return {"detail": value_words([part.value for part in found.parts])}
    if found.body is not None:
        return {"detail": f"the output {name}", "shows": found.body}
    return {"detail": value_words(found.value)}

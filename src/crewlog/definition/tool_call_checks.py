"""Checks of `does`, the tool calls of an agent without a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from crewlog.canonical_json import canonical
from crewlog.definition.doing import DoneCall, references
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.model import AgentDefinition

_MOST_CALLS = 16
"""Calls of one agent: the plan has them, and every execution carries it."""
_MOST_BYTES = 4096
"""Bytes of their arguments as JSON, all together, for the same reason."""
_OF_MODELS = ("reply", "model", "model_settings", "pattern")
"""The keys that only an agent with a model uses."""


def tool_call_findings(
    agents: Mapping[str, AgentDefinition],
    known: Mapping[str, Any] | tuple[str, ...],
    outputs: Callable[[AgentDefinition], Collection[str]],
) -> Iterator[Finding]:
    """What is wrong with the calls of agents without a model.

    Args:
        agents: The crew's agents.
        known: The tools that there are.
        outputs: The outputs that an agent may set.
    """
    for name, agent in agents.items():
        path: Path = ("agents", name, "does")
        if agent.in_order and not agent.does:
            say = f"agent {name!r} says 'in_order', and has no 'does'"
            yield Finding((*path[:-1], "in_order"), say, "It is about the calls of 'does'.")
        if not agent.does:
            continue
        for key in _OF_MODELS:
            if getattr(agent, key):
                say = f"agent {name!r} has 'does', so it asks no model, and has {key!r}"
                yield Finding((*path[:-1], key), say, "Remove one of the two.", at="key")
        if len(agent.does) > _MOST_CALLS:
            say = f"agent {name!r} makes {len(agent.does)} calls; there can be {_MOST_CALLS}"
            yield Finding(path, say, "Let another agent make the rest.")
        size = len(canonical([call.args for call in agent.does]))
        if size > _MOST_BYTES:
            say = f"the arguments in 'does' of agent {name!r} are {size} bytes, over {_MOST_BYTES}"
            yield Finding(path, say, "Put them into a file that the tool reads.")
        for i, call in enumerate(agent.does):
            yield from _call_faults(name, agent, call, (*path, i, "tool"), known)
            yield from _reference_faults(call, agents, (*path, i, "args"), outputs)


def _call_faults(
    name: str,
    agent: AgentDefinition,
    call: DoneCall,
    path: Path,
    known: Mapping[str, Any] | tuple[str, ...],
) -> Iterator[Finding]:
    own = {"set_flag": bool(agent.writes_flags), "set_output": bool(agent.outputs)}
    if call.tool in own:
        if not own[call.tool]:
            key = "writes_flags" if call.tool == "set_flag" else "outputs"
            say = f"agent {name!r} does {call.tool!r}, and has no {key!r}"
            yield Finding(path, say, f"Name what it may set in its {key!r}.")
    elif call.tool not in known:
        say = f"agent {name!r} does {call.tool!r}, and there is no such tool."
        yield Finding(path, say, did_you_mean(call.tool, known, "Define it under 'tools'."))
    elif call.tool not in (agent.tools or ()):
        say = f"agent {name!r} does {call.tool!r}, which is not among its tools"
        yield Finding(path, say, "Add it to its 'tools', or leave these out.")


def _reference_faults(
    call: DoneCall,
    agents: Mapping[str, AgentDefinition],
    path: Path,
    outputs: Callable[[AgentDefinition], Collection[str]],
) -> Iterator[Finding]:
    for said in references(call.args):
        whose, dot, key = said.partition(".")
        if whose == "item":
            continue
        if not dot or whose not in agents:
            say = f"{{from: {said}}} is neither an item nor an output of an agent."
            near = did_you_mean(whose, agents, "Write {from: agent.output} or {from: item}.")
            yield Finding(path, say, near)
        elif key not in (having := outputs(agents[whose])):
            declared = listed(having) or "none"
            say = f"{{from: {said}}}: agent {whose!r} declares no output {key!r}"
            yield Finding(path, say, f"It declares: {declared}.")

"""`does:`, the calls of an agent that has no model: what is written, and what is wrong with it.

Such an agent's turn is the calls that are named here, by the same permissions, approvals, quotas
and retries as those that a model asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from crewlog.canonical_json import canonical
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.shorthand import whole_of
from crewlog.model import Json, Model

if TYPE_CHECKING:
    from crewlog.definition.model import AgentDefinition

MOST = 16
"""Calls of one agent: the plan has them, and every execution carries it."""
MOST_BYTES = 4096
"""Bytes of their arguments as JSON, all together, for the same reason."""
TOOL_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"


class DoneCall(Model):
    """A call that an agent without a model makes."""

    tool: str = Field(pattern=TOOL_PATTERN)
    """The tool."""
    args: dict[str, Json] = Field(default_factory=dict)
    """Its arguments. In the place of one, `{from: agent.output}` is the value of a small output,
    and `{from: item}` or `{from: item.KEY}` is of the item that the step is for."""


def _whole(value: Any) -> Any:
    """`run_pytest` for `{tool: run_pytest}`."""
    return whole_of(value, "tool", "")


class _OrTool:
    """Lets a call without arguments be written as its tool alone."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(_whole, handler(source))

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": TOOL_PATTERN}, handler(schema)]}


Does = Annotated[DoneCall, _OrTool]
"""A tool's name, or a call in full."""

MODELS_OWN = ("reply", "model", "model_settings", "pattern")
"""What only an agent with a model has a use for."""


def references(args: Json) -> Iterator[str]:
    """What the arguments of a call take from elsewhere: `agent.output`, `item`, `item.KEY`."""
    if (found := reference(args)) is not None:
        yield found
    elif isinstance(args, dict):
        pairs: dict[str, Json] = args  # pyright: ignore[reportUnknownVariableType]
        for value in pairs.values():
            yield from references(value)
    elif isinstance(args, list):
        parts: list[Json] = args  # pyright: ignore[reportUnknownVariableType]
        for value in parts:
            yield from references(value)


def reference(value: Json) -> str | None:
    """`a.found` of `{from: a.found}`; none for any other value."""
    if not isinstance(value, dict):
        return None
    pairs: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
    found = pairs.get("from")
    return found if len(pairs) == 1 and isinstance(found, str) else None


def doing_faults(
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
        for key in MODELS_OWN:
            if getattr(agent, key):
                say = f"agent {name!r} has 'does', so it asks no model, and has {key!r}"
                yield Finding((*path[:-1], key), say, "Remove one of the two.", at="key")
        if len(agent.does) > MOST:
            say = f"agent {name!r} makes {len(agent.does)} calls; there can be {MOST}"
            yield Finding(path, say, "Let another agent make the rest.")
        size = len(canonical([call.args for call in agent.does]))
        if size > MOST_BYTES:
            say = f"the arguments in 'does' of agent {name!r} are {size} bytes, over {MOST_BYTES}"
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

"""`does`: the tool calls of an agent without a model.

Such an agent's turn is the calls that are named here, by the same permissions, approvals, quotas
and retries as those that a model asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from crewlog.definition.shorthand import whole_of
from crewlog.model import Json, Model

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

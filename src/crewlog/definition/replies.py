"""`Reply`: the form of an agent's final message: a decision of the registry, or a JSON Schema.

What a worker reads of such a message, its fields, are outputs of the agent: conditions, routes and
other agents' inputs look at them like at any other. What decisions there are is in
`crewlog.definition.decisions`; the reading itself is in `crewlog.definition.reading`.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from crewlog.definition.shorthand import whole_of
from crewlog.model import Json, Model

DECISION_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"
RESPONSE = "response"
"""The output that is the whole text of a reply that was read."""
VALUE = "value"
"""The output of a reply that is no object, by its schema."""
CAPPED = "capped"
"""The output that says whether a turn ended because it reached the agent's `max_calls`."""


class Reply(Model):
    """What an agent's final message of a turn must be: a decision, or JSON of a schema."""

    decision: Annotated[str, Field(pattern=DECISION_PATTERN)] | None = None
    """A registered decision: `route`, `strategy`, `plan`, `reflection`, `terminate`, `replan`,
    `escalate`, or one of your own."""
    schema_: dict[str, Json] | None = Field(default=None, alias="schema")
    """Or a JSON Schema. The properties of an object are outputs of the agent; what is no object
    is its output `value`."""
    among: tuple[str, ...] = ()
    """The names that a decision's fields may have that name agents; by default every other agent
    of the crew."""
    tries: int = Field(default=3, ge=1, le=20)
    """How often the model is asked in all, where what it says cannot be read; it is told why."""
    fallback: Json = None
    """What counts where no try was any good, e.g. `{next: general}`; by default the step fails."""
    tagged: dict[Annotated[str, Field(min_length=1)], Annotated[str, Field(min_length=1)]] = Field(
        default_factory=dict[str, str]
    )
    """Fields that are lists of objects, each with the key of an object that names whom it is for:
    an agent, several, `group:G`, or `all`. Nobody else is shown it."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.decision is None) == (self.schema_ is None):
            raise ValueError("exactly one of `decision` and `schema` is needed")
        return self

    def without(self, agent: str) -> Reply:
        """The form where an agent has left; where it was the only name, it is left for people."""
        left = tuple(each for each in self.among if each != agent)
        return self.model_copy(update={"among": left}) if left else self


def _decision_of(value: Any) -> Any:
    """`route` for `{decision: route}`."""
    return whole_of(value, "decision", "among")


class _OrDecision:
    """Lets a reply be written as its decision alone."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(_decision_of, handler(source))

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": DECISION_PATTERN}, handler(schema)]}


ReplyForm = Annotated[Reply, _OrDecision]
"""A decision's name, or a reply in full."""

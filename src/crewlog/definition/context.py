"""What a model call is shown, as a definition says it: windows over transcripts, and inputs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from crewlog.model import Json, Model

_NAME = "[A-Za-z][A-Za-z0-9_-]{0,63}"
INPUT_PATTERN = rf"^(input|(flag|artifact):{_NAME}|{_NAME}\.{_NAME})$"
_OUTPUT = re.compile(rf"({_NAME})\.({_NAME})")
WHOLE = "input"
"""As an input: what people asked for, the run's input or the message that its turn answers."""
FLAG = "flag:"
ARTIFACT = "artifact:"
SUMMING = 60.0
"""Seconds that a model may take to sum up what a window leaves out."""
OFF, EXTRACT = "off", "extract"
"""Summaries that no model makes: none, and one of the beginnings of messages."""


def _window_of(value: Any) -> Any:
    """`5` for `{last: 5}`."""
    return {"last": value} if isinstance(value, int) and not isinstance(value, bool) else value


class _OrNumber:
    """Lets a window be written as its number of messages alone."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(_window_of, handler(source))

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 10_000}, handler(schema)]}


class Window(Model):
    """How much of its transcript an agent's model is shown. One that says nothing shows all."""

    last: int | None = Field(default=None, ge=1, le=10_000)
    """Messages from before its turn: the last so many, each with the results of its calls. What
    people said last is shown besides these, and so is all from its turn's first reply on."""
    tokens: int | None = Field(default=None, ge=200, le=10_000_000)
    """Tokens of messages, as they are estimated: from the newest back; what is older is left out,
    also of a long turn."""
    summary: str = OFF
    """What stands for messages that are left out: `off` nothing; `extract` how they begin; a model
    (`PROVIDER:NAME`) its summary of them."""

    @property
    def cuts(self) -> bool:
        """Whether it ever leaves something out."""
        return self.last is not None or self.tokens is not None

    @property
    def model(self) -> str | None:
        """The model that sums up; none where none does."""
        return self.summary if self.cuts and self.summary not in (OFF, EXTRACT) else None


WindowOrNumber = Annotated[Window, _OrNumber]
"""A window, or how many messages it has."""


def _input_of(value: Any) -> Any:
    """`discovery.found` for `{from: discovery.found}`."""
    return {"from": value} if isinstance(value, str) else value


class _OrSource:
    """Lets an input be written as its source alone."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(_input_of, handler(source))

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "pattern": INPUT_PATTERN}, handler(schema)]}


Scalar = str | int | float | bool | None


def _scalars(value: Any) -> Any:
    """A list as a tuple: behind a validator, what is read strictly takes no list for one."""
    if not isinstance(value, dict):
        return value
    given: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
    return {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


class Input(Model):
    """A value of the run that an agent is shown, whatever logs it reads."""

    from_: str = Field(pattern=INPUT_PATTERN, alias="from")
    """`AGENT.OUTPUT`, `flag:NAME`, `artifact:NAME`, or `input`: what people asked for."""
    where: Annotated[dict[str, Scalar | tuple[Scalar, ...]], BeforeValidator(_scalars)] = Field(
        default_factory=dict[str, Scalar | tuple[Scalar, ...]]
    )
    """Of a list of objects: those that have these values; a list of values means one of them."""
    as_: str | None = Field(default=None, alias="as", min_length=1, max_length=100)
    """What it is called in the prompt; by default its source."""

    @property
    def output(self) -> tuple[str, str] | None:
        """The agent and the key, where it is an output."""
        match = _OUTPUT.fullmatch(self.from_)
        return (match[1], match[2]) if match else None

    @property
    def kind(self) -> Literal["input", "flag", "artifact", "output"]:
        """What its source is."""
        if self.from_ == WHOLE:
            return "input"
        if self.from_.startswith(FLAG):
            return "flag"
        return "artifact" if self.from_.startswith(ARTIFACT) else "output"

    @property
    def name(self) -> str:
        """The flag's, or the artifact's name; of any other the source."""
        return self.from_.partition(":")[2] or self.from_

    def takes(self, item: Json) -> bool:
        """Whether an item of a list is one of those that are asked for."""
        if not self.where:
            return True
        if not isinstance(item, dict):
            return False
        fields: dict[str, Json] = item  # pyright: ignore[reportUnknownVariableType]
        return all(key in fields and _is(fields[key], want) for key, want in self.where.items())


def _is(value: Json, wanted: Scalar | tuple[Scalar, ...]) -> bool:
    """Whether a value is the wanted one, or one of them; `1` is not `true`."""
    several = wanted if isinstance(wanted, tuple) else (wanted,)
    return any(type(value) is type(each) and value == each for each in several)


InputOrSource = Annotated[Input, _OrSource]
"""An input, or its source."""

"""Cases: what a stage was given in one step, and what it made of it; a line of a data set each.

    {"run": "flow-7f3a", "step": "builder#2", "stage": "builder", "phase": "builder",
     "input": {"messages": [...]}, "output": {"fields": {...}, "text": "..."}, "ms": 812, ...}

People may edit them: what a case should come to is its `expected`, where it has that, and else the
`output` that was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import Field, ValidationError

from crewlog.canonical_json import hash_json
from crewlog.errors import UsageError
from crewlog.model import Json, Model
from crewlog.usage import Usage
from crewlog.validation_errors import validation_error_text


class StageInput(Model):
    """What a stage was given besides its definition."""

    messages: tuple[dict[str, Json], ...] = ()
    """The messages that it was shown, as it was shown them: what it may read, and of that what its
    window left."""
    item: str = ""
    """What it was shown of the item that the step was for, where it was for one."""
    inputs: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The values of its declared inputs, by where they come from: `discovery.found`, `flag:ok`,
    `input`."""
    artifacts: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The artifacts that it sees, by name, as they were."""

    def same(self, other: StageInput) -> bool:
        """Whether a stage was shown the same, in whichever runs and steps."""
        return self._shown() == other._shown()

    def _shown(self) -> list[Json]:
        said = [{k: v for k, v in body.items() if k != "id"} for body in self.messages]
        item = [{"type": "human", "content": self.item}] if self.item else []
        return [[*said, *item], self.inputs, self.artifacts]


class StageOutput(Model):
    """What a stage made. What is not said is not compared."""

    fields: dict[str, Json] | None = None
    """Its outputs by key; those of a structured reply among them."""
    flags: dict[str, Json] | None = None
    """The flags that it set."""
    artifacts: dict[str, Json] | None = None
    """The artifacts that it changed, by name, as they are after the step."""
    operations: tuple[dict[str, Json], ...] | None = None
    """What its tools did to artifacts, in order. It is for people, and not compared: many ways lead
    to one artifact."""
    text: str | None = None
    """Its final message."""


class Case(Model):
    """A stage's step: what it was given, what came out, and what that took."""

    run: str = ""
    """The run that it is from; empty where somebody has written the case."""
    step: str = ""
    stage: str
    """The agent."""
    phase: str = ""
    """The phase of the flow; by default the agent's own."""
    crew: str = ""
    definition: str = ""
    """The hash of the definition that the run had."""
    input: StageInput = StageInput()
    output: StageOutput = StageOutput()
    expected: StageOutput | None = None
    """What it should come to, where that is not what was recorded."""
    schema_: Json = Field(default=None, alias="schema")
    """A JSON Schema that its fields, or the JSON of its text, must fit."""
    model: str = ""
    usage: Usage = Usage()
    ms: int = 0
    """How long the step took, in milliseconds."""

    @property
    def wanted(self) -> StageOutput:
        """What it should come to."""
        return self.output if self.expected is None else self.expected

    @property
    def name(self) -> str:
        """The case, as people are told of it: the step and its run."""
        return f"{self.step or self.stage} of {self.run}" if self.run else self.step or self.stage

    @property
    def key(self) -> str:
        """What was given to which stage: two cases of one key are tried alike."""
        return hash_json([self.stage, self.phase, self.input.to_json()])[:10]


def lines(cases: Iterable[Case]) -> Iterator[str]:
    """The cases as JSON lines."""
    for case in cases:
        yield json.dumps(case.to_json(), ensure_ascii=False)


def read(file: Path) -> list[Case]:
    """The cases of a file of JSON lines; empty lines are passed over.

    Raises:
        UsageError: the file cannot be read, or a line of it is no case.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {str(file)!r}: {error}",
            remedy="`crewlog dataset RUN --out FILE` makes a data set.",
            place=str(file),
        ) from error
    return [_case(line, file, n) for n, line in enumerate(text.split("\n"), 1) if line.strip()]


def _case(line: str, file: Path, number: int) -> Case:
    place = f"{file}:{number}"
    try:
        return Case.from_json(json.loads(line))
    except ValidationError as error:
        what = validation_error_text(error, "the line")
    except ValueError as error:
        what = f"it is not JSON: {error}"
    raise UsageError(
        f"line {number} is no case: {what}",
        remedy="A line is an object with `stage`, `input` and `output`, as `crewlog dataset` "
        "prints it.",
        place=place,
    )

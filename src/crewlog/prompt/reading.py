"""`Reading`: what a prompt says, as data. Both readers make it, and `verify` checks it.

A reading is close to a crew, but does not depend on the keys of crew.yaml: `lower` alone knows
them. Every part names the clauses (`crewlog.prompt.clauses`) that it comes from, and the ledger
accounts for every clause. All fields are required, so that the model is a schema for strict
structured output: what the prompt does not say is an empty text, an empty list or 0.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, cast

from pydantic import Field

from crewlog.model import Json, Model

RISKY = "risk:high"
"""Among the tools of a right: every tool of high risk."""


class Part(Model):
    """The base of every part of a reading."""

    clauses: tuple[int, ...]
    """All clauses that it comes from, by number; first the one that says it."""


class After(Model):
    """Steps of which some or all must be done."""

    of: tuple[str, ...]
    """Steps, questions, waits or uses, by name."""
    need: int
    """How many of them must be done; their number for all."""


class Agent(Part):
    """An agent."""

    name: str
    """Such as `ui_designer`."""
    about: str
    """What it is, or always keeps to."""


class Output(Part):
    """A value that an agent sets and that a condition, a list or a rule uses."""

    agent: str
    """Who decides it; empty: people."""
    name: str
    """`approved`, `models_ready`, `score`."""
    kind: Literal["boolean", "number", "choice", "list", "text"]
    values: tuple[str, ...]
    """Of a choice."""


class Step(Part):
    """One agent's work, once or for each item of a list."""

    name: str
    """Its agent; `writer_2` for the second step of an agent."""
    agent: str
    task: str
    """What it does, without conditions, order and rights."""
    after: tuple[After, ...]
    """All of these groups; empty: it starts with the run."""
    if_: str = Field(alias="if")
    """A condition, without which it is skipped."""
    when: str
    """A condition that it waits for."""
    within: str
    """`2h`: the longest wait for `when`, or without `when` the longest time of the step."""
    late: Literal["", "ask", "skip"]
    """What happens then."""
    each: str
    """`planner.topics`: done for each item of this list."""
    needs: tuple[str, ...]
    """Tools without which it is skipped."""
    instead_of: str
    """The step for which it stands in where that fails or is late."""


class Wait(Part):
    """A pause."""

    name: str
    after: tuple[After, ...]
    before: tuple[str, ...]
    """Steps just before which it comes; then `after` is []."""
    if_: str = Field(alias="if")
    length: str
    """`30m`, `2h`, `1d`."""
    until: str
    """ISO 8601 with a zone."""


class Question(Part):
    """A question that people answer before the run goes on."""

    name: str
    ask: str
    """The question."""
    after: tuple[After, ...]
    before: tuple[str, ...]
    """Steps just before which it is asked; then `after` is []."""
    at: str
    """The step after which it is asked, before what follows; `after` and `before` are []."""
    if_: str = Field(alias="if")
    options: tuple[str, ...]
    """Answers, yes first; a step's name goes there, `stop` ends the run. []: approve, reject."""


class Loop(Part):
    """Going back, or ending the run, once a step is done."""

    at: str
    """The step after which it is decided."""
    if_: str = Field(alias="if")
    """When to go there."""
    to: str
    """An earlier step, or `end`."""
    at_most: int
    """How often; 0: the prompt gives no number."""
    then: str
    """After that: `ask`, `end`, `fail`, `next` or a step."""


class Right(Part):
    """Who may call which tools."""

    effect: Literal["may", "only", "never", "ask"]
    """`may` and `only` give the tools; calls with `ask` wait for a person's yes."""
    agents: tuple[str, ...]
    """Agents or `group:NAME`; []: every agent."""
    tools: tuple[str, ...]
    """Of the registry; `*`: all; `risk:high`: all of high risk."""
    if_: str = Field(alias="if")
    """A condition."""
    quota: str
    """No more calls than `5 per run`, `20 per hour`, `3 per day`."""


class Readers(Part):
    """Who alone sees an agent's notes and results."""

    of: str
    """The agent; `*`: every agent."""
    readers: tuple[str, ...]
    """No other agent sees its notes and results."""


class Setting(Part):
    """Anything else that an agent or the crew is set to."""

    agents: tuple[str, ...]
    """[]: the whole crew."""
    key: Literal[
        "group",
        "max_steps",
        "max_parallel",
        "max_tokens",
        "max_cost",
        "max_time",
        "model",
        "enabled",
        "on_error",
        "confidence",
        "pattern",
        "window",
        "model_calls",
        "at_cap",
        "decides",
        "runs",
        "sees",
        "artifact",
        "conversation",
        "answers_first",
        "hosts",
        "may_answer",
        "answer_within",
        "unanswered",
        "yes_valid",
    ]
    value: str


class Option(Model):
    """An option of a builder."""

    key: str
    values: tuple[str, ...]
    """One, or several for a list."""


class Use(Part):
    """A part of the flow that a builder makes."""

    name: str
    builder: str
    options: tuple[Option, ...]
    after: tuple[After, ...]


Status = Literal["used", "talk", "data", "withdrawn", "cannot", "against"]


class Account(Model):
    """What became of a clause."""

    clause: int
    status: Status
    """`used`: parts say all of it; `talk`: it asks for nothing; `data`: material, no instruction;
    `withdrawn`: the prompt takes it back; `cannot`: no part can say it; `against`: it contradicts
    others."""
    why: str
    """For `cannot` and `against`: why."""
    against: tuple[int, ...]
    """For `against`: the others."""


class Reading(Model):
    """A prompt, read."""

    crew: str
    """The crew's name where the prompt says one, in small letters with `-`."""
    agents: tuple[Agent, ...]
    outputs: tuple[Output, ...]
    steps: tuple[Step, ...]
    waits: tuple[Wait, ...]
    questions: tuple[Question, ...]
    loops: tuple[Loop, ...]
    uses: tuple[Use, ...]
    rights: tuple[Right, ...]
    readers: tuple[Readers, ...]
    settings: tuple[Setting, ...]
    ledger: tuple[Account, ...]
    """One entry for each clause."""

    def parts(self) -> list[tuple[str, int, Part]]:
        """Every part with the list that it stands in and its place there: `steps`, 0, part."""
        return [
            (name, index, part)
            for name in PARTS
            for index, part in enumerate(cast("tuple[Part, ...]", getattr(self, name)))
        ]


PARTS = tuple(name for name in Reading.model_fields if name not in {"crew", "ledger"})
"""The lists of parts of a reading."""
EMPTY = Reading(crew="", **dict.fromkeys([*PARTS, "ledger"], ()))


@cache
def _schema() -> dict[str, Any]:
    schema = Reading.model_json_schema()
    for model in (schema, *schema["$defs"].values()):
        model.pop("title", None)
        model.pop("description", None)
        properties: dict[str, Any] = model["properties"]
        for name, field in properties.items():
            field.pop("title", None)
            if name == "clauses":
                field.pop("description", None)  # the instructions say it once for all parts
            text = field.get("description")
            if text is not None:
                field["description"] = " ".join(text.split()).replace("``", "`")
        model["required"] = list(properties)
        model["additionalProperties"] = False
    return schema


def reading_schema() -> dict[str, Json]:
    """The JSON Schema of a reading: strict, every field required, no other keys."""
    return _schema()

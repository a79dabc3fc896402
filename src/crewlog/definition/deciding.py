"""The decisions that every crew may use: route, strategy, plan, reflection and more.

Each says in its docstring what the agent is told, and how to read what is not exactly that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, Self, cast

from pydantic import Field, model_validator
from typing_extensions import override

from crewlog.definition.decisions import AgentIn, Decision, decision
from crewlog.definition.findings import listed
from crewlog.definition.lenient import ALSO
from crewlog.model import Json


def _also(*names: str) -> dict[str, Any]:
    """What a field is called as well."""
    return {ALSO: list(names)}


_WHY = _also("reason", "reasoning", "rationale", "because", "why", "explanation")


@decision("route")
class Route(Decision):
    """Who goes on: the agent that is best for what is asked, by what each of them is for."""

    next: AgentIn = Field(
        json_schema_extra=_also("agent", "next_agent", "route", "to", "target", "name")
    )
    """The agent that goes on."""
    instructions: str = Field(default="", json_schema_extra=_also("task", "input", "message"))
    """What it is to do, where that is not plain from what was said."""
    rationale: str = Field(default="", json_schema_extra=_WHY)
    """Why, in a sentence."""


@decision("strategy")
class Strategy(Decision):
    """How to go about it: by a plan whose steps run side by side, or directly."""

    strategy: Literal["plan_then_parallel", "direct_execution"]
    """`plan_then_parallel` for work that has parts; `direct_execution` for one that has none."""
    rationale: str = Field(default="", json_schema_extra=_WHY)
    """Why, in a sentence."""


class PlanStep(Decision):
    """A step of a plan."""

    id: str = Field(min_length=1, max_length=64)
    """A short name of its own, e.g. `backend`."""
    agent: AgentIn = Field(json_schema_extra=_also("assignee", "owner", "who", "worker"))
    """Who does it."""
    task: str = Field(
        min_length=1,
        json_schema_extra=_also("description", "what", "goal", "instructions", "title"),
    )
    """What is to be done."""
    after: tuple[str, ...] = Field(
        default=(), json_schema_extra=_also("depends_on", "dependencies", "requires", "needs")
    )
    """The ids of the steps that must be done before."""


@decision("plan")
class Plan(Decision):
    """Steps, each for one agent; those that wait for none run side by side."""

    steps: tuple[PlanStep, ...] = Field(
        min_length=1, max_length=200, json_schema_extra=_also("plan", "tasks")
    )
    """The steps, in an order in which they could be done."""
    rationale: str = Field(default="", json_schema_extra=_WHY)
    """Why so, in a sentence."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        known: dict[str, tuple[str, ...]] = {}
        for step in self.steps:
            if step.id in known:
                raise ValueError(f"two steps have the id {step.id!r}")
            known[step.id] = step.after
        for id_, after in known.items():
            for each in after:
                if each not in known:
                    raise ValueError(
                        f"step {id_!r} waits for {each!r}, which is no step: there are "
                        f"{listed(list(known))}"
                    )
        if circle := _circle(known):
            raise ValueError(f"the steps {listed(circle)} wait for each other")
        return self

    @classmethod
    @override
    def lenient(cls, said: Json, among: Sequence[str]) -> Json:
        """Steps without ids are numbered, and one agent alone need not be named."""
        if isinstance(said, list):
            said = {"steps": said}  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(said, dict):
            return None
        data = cast("dict[str, Json]", said)
        key = next((key for key in ("steps", "plan", "tasks") if key in data), "steps")
        if not isinstance(data.get(key), list):
            return None
        missing: dict[str, Json] = {"agent": among[0]} if len(among) == 1 else {}
        steps: list[Json] = [
            {"id": str(number), **missing, **cast("dict[str, Json]", step)}
            if isinstance(step, dict)
            else {"id": str(number), **missing, "task": step}
            for number, step in enumerate(cast("list[Json]", data[key]), 1)
        ]
        rest = {name: value for name, value in data.items() if name != key}
        return {**rest, "steps": steps}


def _circle(after: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Steps that wait for each other; empty where there are none."""
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        return [id_ for id_ in after if id_ in error.args[1]]
    return []


class Action(Decision):
    """Work for an agent to do again."""

    target: AgentIn = Field(json_schema_extra=_also("agent", "who"))
    """Who."""
    directive: str = Field(
        min_length=1, json_schema_extra=_also("task", "instructions", "action", "what", "detail")
    )
    """What is to be mended."""


@decision("reflection")
class Reflection(Decision):
    """Whether what was made is good, and who is to mend what where it is not."""

    proceed: bool = Field(json_schema_extra=_also("ok", "good", "approved", "pass", "passed"))
    """Whether it is good enough to go on."""
    actions: tuple[Action, ...] = Field(
        default=(), json_schema_extra=_also("revisions", "fixes", "changes")
    )
    """What is to be mended, and by whom; none where it is good."""


@decision("terminate")
class Terminate(Decision):
    """Whether the goal is reached, and nothing is left to do."""

    done: bool = Field(json_schema_extra=_also("terminate", "finished", "complete", "completed"))
    """Whether it is."""
    confidence: float = Field(ge=0, le=1)
    """How sure you are, from 0 to 1."""
    reason: str = Field(default="", json_schema_extra=_WHY)
    """Why, in a sentence."""


@decision("replan")
class Replan(Decision):
    """Whether the plan must be made anew, since it does not lead to the goal any more."""

    replan: bool
    """Whether it must."""
    reason: str = Field(default="", json_schema_extra=_WHY)
    """Why, in a sentence."""


@decision("escalate")
class Escalate(Decision):
    """Whether people must decide, since you cannot or must not."""

    escalate: bool
    """Whether they must."""
    question: str = ""
    """What they are asked, where they must."""
    reason: str = Field(default="", json_schema_extra=_WHY)
    """Why, in a sentence."""

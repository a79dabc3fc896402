"""A stage alone: the crew of one phase in which an agent works as it does in the whole crew.

Its prompt, tools, outputs and rights are those of the crew, and so is what its model is told, byte
for byte; what other phases would have said before is given to the run. What only matters around a
stage is left out: what comes before and after it, people who are asked whether it is sure, and the
crew's name, by which memories and quotas go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.definition.conditions import parse_condition
from crewlog.definition.context import ARTIFACT, FLAG, WHOLE
from crewlog.definition.expand import expand
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import AgentPhase, AskPhase, CrewDefinition, ErrorPolicy
from crewlog.definition.phases import phases
from crewlog.errors import InvalidDefinition, UsageError
from crewlog.evaluation.cases import Case
from crewlog.ids import AgentName, NodeName, private_log, step_id
from crewlog.model import Json
from crewlog.state.edits import FLAGS, OUTPUTS
from crewlog.wire import InitialMessage, InitialState

SUFFIX = "-eval"
"""What the name of a crew ends with whose run is an evaluation's."""
_LONGEST = 64


def written_out(crew: CrewDefinition) -> CrewDefinition:
    """A crew with its builders and patterns in place.

    Raises:
        InvalidDefinition: a builder cannot be used.
    """
    expanded = expand(crew)
    if expanded.faults:
        raise InvalidDefinition([fault.diagnostic() for fault in expanded.faults])
    return expanded.definition


def alone(
    crew: CrewDefinition,
    stage: str,
    phase: str = "",
    *,
    model: str | None = None,
    artifacts: Mapping[str, Json] | None = None,
) -> CrewDefinition:
    """The crew of one phase, in which a stage works alone.

    Args:
        crew: The crew, with builders and patterns in place.
        stage: The agent.
        phase: Its phase, whose task it has; by default, and where there is none of that name, its
            first one.
        model: Another model for it.
        artifacts: What artifacts are when it begins, by name.

    Raises:
        UsageError: the crew has no such agent.
    """
    if stage not in crew.agents:
        raise UsageError(
            f"the crew {crew.crew!r} has no agent {stage!r}",
            remedy=did_you_mean(stage, crew.agents, f"Its agents: {', '.join(crew.agents)}."),
            place="crewlog eval",
        )
    name, task = _phase_of(crew, stage, phase)
    # What its window left of the transcript is what it is given: nothing is to be cut again.
    changes: dict[str, Any] = {
        "on_error": ErrorPolicy(failure="fail"),
        "ask_below": None,
        "enabled": True,
        "window": None,
    }
    agent = crew.agents[stage]
    agent = agent.model_copy(update=changes | ({"model": model} if model else {}))
    asked = {
        each.item.sets: None
        for each in phases(crew)
        if isinstance(each.item, AskPhase) and each.item.sets is not None
    }
    never = _unused(crew)
    others = tuple(
        AgentPhase(agent=each, phase=f"{never}.{n}", only_if=parse_condition(never))
        for n, each in enumerate(crew.agents)
        if each != stage
    )
    whole: dict[str, Any] = {
        "crew": f"{crew.crew[: _LONGEST - len(SUFFIX)]}{SUFFIX}",
        "agents": {**crew.agents, stage: agent},
        # An agent is in the flow: the others stay, as what it is told may name them, and are
        # passed over.
        "flow": (AgentPhase(agent=stage, phase=name, task=task), *others),
        "conversation": None,
        "window": None,
        "artifacts": {
            name: each.model_copy(update={"initial": artifacts[name]})
            if artifacts and name in artifacts
            else each
            for name, each in crew.artifacts.items()
        },
        # Rules may look at what people would have said.
        "flags": {**asked, **crew.flags, never: False},
    }
    return crew.model_copy(update=whole)


def _phase_of(crew: CrewDefinition, stage: str, wanted: str) -> tuple[str, str | None]:
    """The phase that a stage works in, and what it is to do there."""
    own = {
        each.name: each.item.task
        for each in phases(crew)
        if isinstance(each.item, AgentPhase) and stage in each.item.agents
    }
    if wanted in own:
        return wanted, own[wanted]
    return next(iter(own.items()), (stage, None))


def _unused(crew: CrewDefinition) -> str:
    """A name that no flag of the crew has."""
    name = "never"
    while name in crew.flags or any(name in agent.writes_flags for agent in crew.agents.values()):
        name += "_"
    return name


def given(crew: CrewDefinition, case: Case) -> InitialState:
    """What the run of a case begins with: what the stage was shown, in a log of its own.

    Args:
        crew: The crew of the stage alone.
        case: The case.
    """
    log = private_log(AgentName(case.stage))
    messages = [InitialMessage(body=_nameless(each), log=log) for each in case.input.messages]
    if case.input.item:
        # By its id it is of the step itself, before which the inputs are shown.
        step = step_id(NodeName(phases(crew)[0].name), 1)
        body = {"type": "human", "content": case.input.item, "id": f"{step}/0"}
        messages.append(InitialMessage(body=body, log=log))
    values: dict[str, Json] = {}
    for name, value in case.input.inputs.items():
        if name.startswith(FLAG):
            values[f"{FLAGS}.{name.removeprefix(FLAG)}"] = value
        elif name != WHOLE and not name.startswith(ARTIFACT):
            values[f"{OUTPUTS}.{name}"] = value
    return InitialState(
        messages=tuple(messages),
        request=str(case.input.inputs.get(WHOLE, "")),
        values=values,
        logs=(log,),
    )


def _nameless(body: dict[str, Json]) -> dict[str, Json]:
    """A message without its id, which names a step and a call of the run that it is from."""
    return {key: value for key, value in body.items() if key != "id"}


def acts_on_the_world(crew: CrewDefinition, stage: str) -> list[str]:
    """The tools of a stage whose calls change something outside, by what the crew says of them."""
    agent = crew.agents[stage]
    names = crew.tools if agent.tools is None else [t for t in agent.tools if t in crew.tools]

    def may(tool: str) -> bool:
        allowed = crew.permissions.get(tool)
        return allowed is None or stage in allowed

    return [name for name in names if crew.tools[name].effects == "external" and may(name)]

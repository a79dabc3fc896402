"""The built-in builder `stages`: a supervisor, stages apart from each other, and who answers.

Each stage has a transcript of its own: it reads no log, and is shown what people asked for, what
the supervisor says to it, and the inputs that it declares. So its prompt is the same whatever other
stages there are. What a stage says at the end of its turn goes to the supervisor and the responder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Literal

from pydantic import Field

from crewlog.definition.builders import Builder, Built, Place, register
from crewlog.definition.conditions import AllOf, Condition, Fact, Not
from crewlog.definition.context import WHOLE, Input
from crewlog.definition.context_checks import TEXT
from crewlog.definition.decisions import reply_fields
from crewlog.definition.model import (
    AgentDefinition,
    AgentPhase,
    DecisionPhase,
    FlowItem,
    JoinAny,
    Name,
    RoutePhase,
)
from crewlog.definition.patterns import AMPLE
from crewlog.definition.replies import CAPPED, Reply
from crewlog.ids import PUBLIC, READERS
from crewlog.model import Model

REQUEST, INSTRUCTIONS = "Request", "Instructions"
"""What a stage's inputs are called: what people asked for, and what the supervisor says."""


class Stages(Model):
    """Options of `stages`."""

    supervisor: Name
    """The agent that says which stage is next, by a `route` reply: it is told what each is for."""
    stages: tuple[Name, ...] = Field(min_length=1)
    """The agents that work, in their order."""
    responder: Name
    """The agent that answers people when the work is done, or where no work is needed."""
    hops: Literal["first", "every_hop"] = "first"
    """Who says what comes after a stage: `first`: the supervisor says where to begin, then the
    stages go on in their order; `every_hop`: the supervisor says it after each stage."""
    at_most: int = Field(default=3, ge=1)
    """With `every_hop`: how often each stage is sent to, in a run or in each turn of a
    conversation; beyond that the responder answers with what is there."""
    tries: int = Field(default=3, ge=1, le=20)
    """How often the supervisor is asked in all, where what it says cannot be read."""


def stages(options: Stages, place: Place) -> Built:
    """A supervisor that routes, stages that see only their own work, and a responder."""
    lead, last = options.supervisor, options.responder
    named = (*options.stages, last)
    for i, agent in enumerate((lead, *named)):
        if agent in (lead, *named)[:i]:
            raise ValueError(f"{agent!r} is named twice")
    reply = Reply(decision="route", among=named, tries=options.tries, fallback={"next": last})
    route = f"{lead}.route"
    items: list[FlowItem] = [
        AgentPhase(agent=lead, phase=lead),
        RoutePhase.model_validate(
            {
                "phase": route,
                "route": f"{lead}.next",
                "to": named,
                "else": last,
                "at_most": options.at_most,
                "else_used_up": "next",
            }
        ),
    ]
    ends = {name for name in options.stages if _ends(place.crew.agents.get(name))}
    items += _in_order(options) if options.hops == "first" else _hub(options, lead, ends)
    backs = (f"{stage}.back" for stage in options.stages if stage in ends)
    before = (route, *backs) if options.hops == "every_hop" else (route, options.stages[-1])
    items.append(AgentPhase(agent=last, phase=last, after=JoinAny(any=before)))
    return Built(
        items, replies={lead: reply}, fields=dict(_fields(options, place.crew.agents)), last=last
    )


def _in_order(options: Stages) -> Iterator[FlowItem]:
    before: str = "go"
    for stage in options.stages:
        yield AgentPhase(agent=stage, phase=stage, after=before)
        before = stage


def _ends(agent: AgentDefinition | None) -> bool:
    """Whether a stage ends at its `max_calls` with what is there: unless it says that it fails."""
    return agent is None or not agent.says("on_cap") or agent.on_cap == "end"


def _hub(options: Stages, lead: str, ends: Collection[str]) -> Iterator[FlowItem]:
    for stage in options.stages:
        yield AgentPhase(agent=stage, phase=stage, after="go")
        # The bound is the route's: a stage reports back as often as it was sent to. One that was
        # cut off would be again: the responder tells people what there is.
        again: Condition = Fact(agent=lead, name="next")
        if stage in ends:
            again = AllOf(of=(again, Not(of=Fact(agent=stage, name=CAPPED))))
        fields = {"phase": f"{stage}.back", "if": again, "go": lead}
        bound = {"at_most": options.at_most * AMPLE, "else": "ask_human", "after": stage}
        yield DecisionPhase.model_validate({**fields, **bound})


# -- what the agents are made -------------------------------------------------------------------


def _fields(
    options: Stages, agents: dict[str, AgentDefinition]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the agents are apart by; each counts where an agent does not say otherwise."""
    handed: list[Input] = []
    for name in options.stages:
        # Who asks for its text by name is given that, and reads no more of what it writes.
        asking = (
            other
            for other, agent in agents.items()
            if any(each.from_ == f"{name}.{TEXT}" for each in agent.inputs)
        )
        readers = dict.fromkeys((options.supervisor, options.responder, *asking))
        to = READERS + "+".join(each for each in readers if each != name)
        reply = agents[name].reply if name in agents else None
        tagged = reply.tagged if reply is not None else {}
        handed += (
            Input.model_validate({"from": f"{name}.{key}"})
            for key in (reply_fields(reply) if reply is not None and tagged else ())
            if key not in tagged
        )
        yield (
            name,
            {
                "reads": (),
                "writes": () if tagged else (to,),
                "shares": (PUBLIC,),
                "on_cap": "end",
                "inputs": (
                    Input.model_validate({"from": WHOLE, "as": REQUEST}),
                    Input.model_validate(
                        {"from": f"{options.supervisor}.instructions", "as": INSTRUCTIONS}
                    ),
                ),
            },
        )
    # What a stage hands on apart is in no log: the rest of what it says reaches them by name.
    yield options.supervisor, {"writes": (), "shares": (PUBLIC,), "inputs": tuple(handed)}
    yield options.responder, {"inputs": tuple(handed)}


register(
    Builder(
        "stages", "a supervisor, stages apart from each other, a responder", "flow", Stages, stages
    )
)

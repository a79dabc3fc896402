"""The built-in builder `hub`: a router that sends what is asked to one of several specialists."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from crewlog.definition.builders import Builder, Built, Place, register
from crewlog.definition.conditions import Fact
from crewlog.definition.model import (
    AgentPhase,
    DecisionPhase,
    ErrorPolicy,
    FlowItem,
    JoinAny,
    Name,
    RoutePhase,
)
from crewlog.definition.phases import END, phases
from crewlog.definition.replies import Reply
from crewlog.ids import PUBLIC
from crewlog.model import Model


class Hub(Model):
    """Options of `hub`."""

    router: Name
    """The agent that says who answers, by a `route` reply: it is told what each of them is for."""
    agents: tuple[Name, ...] = ()
    """The specialists; by default every other agent of the crew."""
    fallback: Name | None = None
    """The specialist for what no other is named for, or where the router says nothing of use; by
    default the branch ends."""
    at_most: int = Field(default=1, ge=1)
    """How often each of them is sent to: in a run, or in each turn of a conversation."""
    tries: int = Field(default=3, ge=1, le=20)
    """How often the router is asked in all, where what it says cannot be read."""
    on_error: Literal["ask", "fail", "continue"] | None = None
    """What becomes of a step that fails, where its agent does not say so: by default people are
    asked, and in a conversation the turn goes on, and ends with an answer."""


def hub(options: Hub, place: Place) -> Built:
    """A router, a way to each specialist, and nothing after that: the answer is theirs."""
    router, others = options.router, place.crew.agents
    named = options.agents or tuple(name for name in others if name != router)
    if options.fallback is not None and options.fallback not in named:
        named = (*named, options.fallback)
    if router in named:
        raise ValueError(f"{router!r} cannot send work to itself")
    for i, agent in enumerate(named):
        if agent in named[:i]:
            raise ValueError(f"{agent!r} is named twice")
    if not named:
        raise ValueError(f"there is no agent but {router!r}")
    fields = _fields(options, named, place)
    goes = options.fallback or END
    among = named if goes in named else (*named, END)
    reply = Reply(decision="route", among=among, tries=options.tries, fallback={"next": goes})
    items: list[FlowItem] = [
        AgentPhase(agent=router, phase=router),
        RoutePhase.model_validate(
            {
                "phase": f"{router}.route",
                "route": f"{router}.next",
                "to": named,
                "else": goes,
                "at_most": options.at_most,
            }
        ),
        *(AgentPhase(agent=agent, phase=agent, after="go") for agent in named),
    ]
    if not _is_followed(place):
        return Built(items, replies={router: reply}, fields=fields)
    done = f"{place.phase}.done"
    never = Fact(agent=router, name="text", operator="in", value=[])
    after = {"if": never, "go": END, "after": JoinAny(any=named), "phase": done}
    items.append(DecisionPhase.model_validate(after))
    return Built(items, replies={router: reply}, fields=fields, last=done)


def _fields(options: Hub, named: tuple[str, ...], place: Place) -> dict[str, dict[str, Any]]:
    """What the agents are, where they do not say otherwise.

    The router's reply is no message to the specialists: they answer what people said last. And in
    a conversation one that fails ends its turn with an answer, and not with a question to people
    who may not be there.
    """
    router = options.router
    fields: dict[str, dict[str, Any]] = {router: {"writes": (), "shares": (PUBLIC,)}}
    talks = place.crew.conversation is not None
    for agent in (router, *named):
        does = options.on_error or ("continue" if talks else "ask")
        fields.setdefault(agent, {})["on_error"] = ErrorPolicy(failure=does)
    return fields


def _is_followed(place: Place) -> bool:
    """Whether anything waits for the part; of one inside another part nobody knows."""
    top = phases(place.crew)
    if all(phase.name != place.phase for phase in top):
        return True
    return any(place.phase in phase.sources for phase in top)


register(Builder("hub", "a router and the specialists that it sends work to", "flow", Hub, hub))

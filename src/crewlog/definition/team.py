"""The built-in builder `team`: a plan that agents share, and who is sent to work again."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.definition.builders import Builder, Built, Place, register
from crewlog.definition.conditions import Fact, Not
from crewlog.definition.model import AgentPhase, DecisionPhase, FlowItem, Name
from crewlog.definition.patterns import AMPLE, approved
from crewlog.definition.phases import END
from crewlog.definition.replies import Reply
from crewlog.model import Model

MADE_OVER = "rework"
"""What the phase is called in which those work again whom the reviewer names."""


class Team(Model):
    """Options of `team`."""

    planner: Name
    """The agent that says which steps there are, whose each is, and what it waits for."""
    workers: tuple[Name, ...] = Field(min_length=1)
    """The agents that carry the steps out."""
    at_once: int | None = Field(default=None, ge=1, le=1000)
    """How many steps are under way at a time; by default as many as `limits.parallel`."""
    approve: bool = False
    """Whether people approve the plan first, or have the planner plan anew and say why."""
    checks: tuple[Name, ...] = ()
    """Agents that look at the work before the reviewer, side by side: tests, a compiler."""
    reviewer: Name | None = None
    """The agent that says whether the work is done, and who works again with which directive."""
    rounds: int = Field(default=2, ge=1, le=100)
    """How often it may send workers to work again."""
    otherwise: Literal["next", "ask_human", "end", "fail"] = Field(
        default="ask_human", alias="else"
    )
    """What happens then."""


def team(options: Team, place: Place) -> Built:
    """A planner, workers who share its steps, checks, and who is sent to work again."""
    named = [options.planner, *options.workers, *options.checks]
    named += [options.reviewer] if options.reviewer else []
    for i, agent in enumerate(named):
        if agent in named[:i]:
            raise ValueError(f"{agent!r} is named twice")
    planner, workers, once = options.planner, options.workers, options.at_once
    work = f"{place.phase}.work"
    items: list[FlowItem] = [AgentPhase(agent=planner, phase=planner)]
    if options.approve:
        items = approved(items, planner, place, shows=f"{planner}.steps")
    steps = AgentPhase(
        phase=work, for_each=f"{planner}.steps", by="agent", among=workers, at_once=once
    )
    items.append(steps)
    replies = {planner: Reply(decision="plan", among=workers)}
    look = f"{place.phase}.look"
    if len(options.checks) > 1:  # one place to go back to
        never = _never(planner)
        items.append(DecisionPhase.model_validate({"phase": look, "if": never, "go": END}))
        items.append(tuple(AgentPhase(agent=agent, phase=agent) for agent in options.checks))
    else:
        items += [AgentPhase(agent=agent, phase=agent) for agent in options.checks]
        look = options.checks[0] if options.checks else options.reviewer or ""
    if options.reviewer is None:
        return Built(items, replies=replies)
    reviewer, again = options.reviewer, f"{place.phase}.{MADE_OVER}"
    replies[reviewer] = Reply(decision="reflection", among=workers)
    verdict = f"{reviewer}.verdict"
    refused = Not(of=Fact(agent=reviewer, name="proceed"))
    items += [
        AgentPhase(agent=reviewer, phase=reviewer),
        DecisionPhase.model_validate(
            {
                "phase": verdict,
                "if": refused,
                "go": again,
                "at_most": options.rounds,
                "else": options.otherwise,
            }
        ),
        AgentPhase(
            phase=again,
            after="go",
            for_each=f"{reviewer}.actions",
            by="target",
            among=workers,
            at_once=once,
        ),
    ]
    # From there it always goes back to be looked at: the verdict's bound is the whole budget.
    items.append(
        DecisionPhase.model_validate(
            {
                "phase": f"{again}.done",
                "if": refused,
                "go": look,
                "at_most": options.rounds * AMPLE,
                "else": "ask_human",
            }
        )
    )
    return Built(items, replies=replies, last=verdict)


def _never(agent: str) -> Fact:
    """A condition that never holds: a decision by it is a place to go to, and nothing more."""
    return Fact(agent=agent, name="text", operator="in", value=[])


register(Builder("team", "a plan that agents share, and who works again", "flow", Team, team))

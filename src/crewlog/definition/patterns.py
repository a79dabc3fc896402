"""The built-in builders: parts of flows that people ask for by name, and ways to work in a turn."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.definition.builders import Builder, Built, Place, register
from crewlog.definition.conditions import Fact, Not, parse_condition
from crewlog.definition.model import (
    FOR_EACH_PATTERN,
    AgentPhase,
    AskPhase,
    DecisionPhase,
    FlowItem,
    JoinAny,
    JoinQuorum,
    Name,
)
from crewlog.model import Model


class Supervisor(Model):
    """Options of `supervisor`."""

    supervisor: Name
    """The agent that says who works next, by its output `next`: a worker's name, or `done`."""
    workers: tuple[Name, ...] = Field(min_length=1)
    """The agents it sends work to; each reports back to it."""
    at_most: int = Field(default=10, ge=1)
    """How often it may send work to each of them; then people are asked."""


def supervisor(options: Supervisor, place: Place) -> Built:
    """A hub: the supervisor works, sends one worker, works again, until it says `done`."""
    del place
    lead = options.supervisor
    if lead in options.workers:
        raise ValueError(f"{lead!r} cannot send work to itself")
    if len(set(options.workers)) < len(options.workers):
        raise ValueError("a worker is named twice")
    task = (
        "Decide who works next. Set the output 'next' to one of "
        f"{', '.join(options.workers)}, or to 'done' when nothing is left to do."
    )
    items: list[FlowItem] = [AgentPhase(agent=lead, phase=lead, task=task)]
    for worker in options.workers:
        items.append(AgentPhase(agent=worker, phase=worker, after="go"))
        items.append(
            DecisionPhase.model_validate(
                {
                    "if": Fact(agent=lead, name="next"),
                    "go": lead,
                    "at_most": options.at_most,
                    "else": "ask_human",
                    "after": worker,
                    "phase": f"{worker}.back",
                }
            )
        )
    before = lead
    for worker in options.workers:
        items.append(
            DecisionPhase.model_validate(
                {
                    "if": Fact(agent=lead, name="next", operator="==", value=worker),
                    "go": worker,
                    "at_most": options.at_most,
                    "else": "ask_human",
                    "after": before,
                    "phase": f"{lead}.{worker}",
                }
            )
        )
        before = f"{lead}.{worker}"
    return Built(items, outputs={lead: ("next",)})


class Parallel(Model):
    """Options of `parallel`."""

    agents: tuple[Name, ...] = Field(min_length=1)
    """The agents that start together."""
    then: Name
    """The agent that goes on when enough of them are done."""
    join: Literal["all", "any"] | int = "all"
    """`all`, `any`, or how many of them."""


def parallel(options: Parallel, place: Place) -> list[FlowItem]:
    """Agents side by side, joined by another one."""
    del place
    workers = options.agents
    join: tuple[str, ...] | JoinAny | JoinQuorum = workers
    if options.join == "any":
        join = JoinAny(any=workers)
    elif isinstance(options.join, int):
        if not 1 <= options.join <= len(workers):
            raise ValueError(f"join must be 1 to {len(workers)}, not {options.join}")
        join = JoinQuorum(quorum=options.join, of=workers)
    starts: list[FlowItem] = [AgentPhase(agent=workers[0])]
    starts += [AgentPhase(agent=worker, after=()) for worker in workers[1:]]
    return [*starts, AgentPhase(agent=options.then, after=join)]


class MapReduce(Model):
    """Options of `map_reduce`."""

    over: str = Field(pattern=FOR_EACH_PATTERN)
    """The list, known only at run time: `agent.output`."""
    map: Name
    """The agent that takes each item."""
    reduce: Name
    """The agent that puts the results together."""


def map_reduce(options: MapReduce, place: Place) -> Built:
    """One agent for each item of a list, and one that puts the results together."""
    del place
    maker, _, key = options.over.partition(".")
    items: list[FlowItem] = [
        AgentPhase(agent=options.map, for_each=options.over),
        AgentPhase(agent=options.reduce),
    ]
    return Built(items, outputs={maker: (key,)})


class Pipeline(Model):
    """Options of `pipeline`."""

    agents: tuple[Name, ...] = Field(min_length=1)
    """The agents, one after the other."""


def pipeline(options: Pipeline, place: Place) -> list[FlowItem]:
    """Agents one after the other."""
    del place
    return [AgentPhase(agent=agent) for agent in options.agents]


class Review(Model):
    """Options of `review`."""

    author: Name
    """The agent that works."""
    reviewer: Name
    """The agent that sets the flag."""
    approved: Name = "approved"
    """The flag that ends the loop."""
    rounds: int = Field(default=3, ge=1)
    """How often the author may be sent back."""
    otherwise: Literal["next", "ask_human", "end", "fail"] = Field(
        default="ask_human", alias="else"
    )
    """What happens then."""


def review(options: Review, place: Place) -> Built:
    """An author and a reviewer, until the reviewer approves."""
    del place
    back = DecisionPhase.model_validate(
        {
            "if": Not(of=Fact(agent=options.reviewer, name=options.approved)),
            "go": options.author,
            "at_most": options.rounds,
            "else": options.otherwise,
            "phase": f"{options.reviewer}.verdict",
        }
    )
    items: list[FlowItem] = [
        AgentPhase(agent=options.author),
        AgentPhase(agent=options.reviewer),
        back,
    ]
    return Built(items, flags={options.reviewer: (options.approved,)})


class PlanExecute(Model):
    """Options of `plan_execute`."""

    planner: Name
    """The agent that makes the plan: its output `steps`, a list."""
    executor: Name
    """The agent that carries out each step."""
    approve: bool = False
    """Whether people approve the plan first."""


def plan_execute(options: PlanExecute, place: Place) -> Built:
    """A planner, and an executor for each step of its plan."""
    task = "Make a plan. Set the output 'steps' to the list of its steps, in order."
    items: list[FlowItem] = [AgentPhase(agent=options.planner, task=task)]
    if options.approve:
        ask = f"Carry out the plan of {options.planner}?"
        items.append(AskPhase(ask=ask, phase=f"{place.phase}.approve"))
    items.append(AgentPhase(agent=options.executor, for_each=f"{options.planner}.steps"))
    return Built(items, outputs={options.planner: ("steps",)})


class NoOptions(Model):
    """A pattern without options."""


def planner_executor(options: NoOptions, place: Place) -> list[FlowItem]:
    """The agent plans in one turn, and carries the plan out in another."""
    del options
    agent, name = str(place.agent), place.phase
    work = f"{place.task or 'Do your work.'} Carry out your plan, step by step."
    execute = AgentPhase(agent=agent, phase=f"{name}.execute", task=work)
    if "plan" in place.off:
        return [AgentPhase(agent=agent, phase=name, task=place.task)]
    plan = "First make a plan of short, numbered steps. Do not carry it out yet."
    task = f"{place.task} {plan}" if place.task else plan
    return [AgentPhase(agent=agent, phase=name, task=task), execute]


class ReviewLoop(Model):
    """Options of `review_loop`."""

    rounds: int = Field(default=2, ge=1, le=20)
    """How often the agent may work over what it made."""


def review_loop(options: ReviewLoop, place: Place) -> Built:
    """The agent reviews its own work and works it over until it is content."""
    agent, name = str(place.agent), place.phase
    work = AgentPhase(agent=agent, phase=name, task=place.task)
    if "review" in place.off:
        return Built([work])
    task = (
        "Review what you have just made, as a strict colleague would. Set the output 'content' to "
        "true if nothing must change, else to false, and say what must."
    )
    again = DecisionPhase.model_validate(
        {
            "if": parse_condition(f"not {agent}.content"),
            "go": name,
            "at_most": options.rounds,
            "phase": f"{name}.verdict",
        }
    )
    look = AgentPhase(agent=agent, phase=f"{name}.review", task=task)
    return Built([work, look, again], outputs={agent: ("content",)})


register(
    Builder(
        "supervisor",
        "one agent says who works next, until it is done",
        "flow",
        Supervisor,
        supervisor,
    )
)
register(Builder("parallel", "agents side by side, joined by another", "flow", Parallel, parallel))
register(Builder("map_reduce", "one agent for each item of a list", "flow", MapReduce, map_reduce))
register(Builder("pipeline", "agents one after the other", "flow", Pipeline, pipeline))
register(Builder("review", "an author and a reviewer, until it approves", "flow", Review, review))
register(
    Builder(
        "plan_execute",
        "a planner, and an executor for each step of its plan",
        "flow",
        PlanExecute,
        plan_execute,
    )
)
register(
    Builder(
        "planner_executor",
        "plans in one turn, carries out in another",
        "agent",
        NoOptions,
        planner_executor,
        steps=("plan",),
    )
)
register(
    Builder(
        "review_loop",
        "reviews its own work until it is content",
        "agent",
        ReviewLoop,
        review_loop,
        steps=("review",),
    )
)

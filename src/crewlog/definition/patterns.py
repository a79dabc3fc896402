"""The built-in builders: parts of flows that people ask for by name, and ways to work in a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from crewlog.definition.builders import Builder, Built, NoOptions, Place, register
from crewlog.definition.conditions import Condition, Fact, Not
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
from crewlog.definition.phases import END
from crewlog.model import Model

DONE = "done"
"""What a supervisor says when nothing is left to do."""
UNCLEAR = 3
"""How often a supervisor is asked again who works next, before people are."""
AMPLE = 10
"""How much oftener a way back may be taken than what bounds it, which people may extend."""


def _once(agents: Sequence[str]) -> None:
    for i, agent in enumerate(agents):
        if agent in agents[:i]:
            raise ValueError(f"{agent!r} is named twice")


def _back(
    name: str, condition: Condition, go: str, at_most: int, otherwise: str, after: str | None = None
) -> DecisionPhase:
    """A decision that goes back, so and so often."""
    return DecisionPhase.model_validate(
        {
            "phase": name,
            "if": condition,
            "go": go,
            "at_most": at_most,
            "else": otherwise,
            "after": after,
        }
    )


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
    _once(options.workers)
    task = (
        "Decide who works next. Set the output 'next' to one of "
        f"{', '.join(options.workers)}, or to 'done' when nothing is left to do."
    )
    items: list[FlowItem] = [AgentPhase(agent=lead, phase=lead, task=task)]
    before = lead
    for worker in options.workers:
        sent = Fact(agent=lead, name="next", operator="==", value=worker)
        items.append(
            _back(f"{lead}.{worker}", sent, worker, options.at_most, "ask_human", after=before)
        )
        before = f"{lead}.{worker}"
    # Neither a worker nor `done`: it is asked again, so that a slip does not end the work.
    unclear = Fact(agent=lead, name="next", operator="!=", value=DONE)
    items.append(_back(f"{lead}.again", unclear, lead, UNCLEAR, "ask_human", after=before))
    for worker in options.workers:
        items.append(AgentPhase(agent=worker, phase=worker, after="go"))
        # The bound is the supervisor's: a worker reports back as often as it is sent work.
        reports = Fact(agent=lead, name="next")
        items.append(
            _back(
                f"{worker}.back", reports, lead, options.at_most * AMPLE, "ask_human", after=worker
            )
        )
    return Built(items, outputs={lead: ("next",)}, last=f"{lead}.again")


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
    _once((*workers, options.then))
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
    _once((options.map, options.reduce))
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
    _once(options.agents)
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
    _once((options.author, options.reviewer))
    refused = Not(of=Fact(agent=options.reviewer, name=options.approved))
    name = f"{options.reviewer}.verdict"
    back = _back(name, refused, options.author, options.rounds, options.otherwise)
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
    """Whether people approve the plan first, or have the planner plan anew and say why."""
    in_order: bool = False
    """Whether the steps are carried out one after the other; else side by side."""
    at_most: int = Field(default=50, ge=1)
    """How many steps it takes one after the other; then people are asked."""


def approved(
    items: Sequence[FlowItem], planner: str, place: Place, shows: str | None = None
) -> list[FlowItem]:
    """A planner's phase with the question after it: whether its plan is to be carried out.

    The part begins with a place of its own, so that the planner keeps its name, which is an answer:
    it plans anew then, and words say why.

    Args:
        items: The planner's phase.
        planner: Its agent, and what the phase is called.
        place: Where the part stands.
        shows: What people are shown.
    """
    never = Fact(agent=planner, name="text", operator="in", value=[])
    begin = DecisionPhase.model_validate({"phase": place.phase, "if": never, "go": END})
    question = AskPhase(
        ask=f"Carry out the plan of {planner}?",
        phase=f"{place.phase}.approve",
        shows=shows,
        options=("approve", planner, "reject"),
        words=True,
    )
    return [begin, *items, question]


def plan_execute(options: PlanExecute, place: Place) -> Built:
    """A planner, and an executor for each step of its plan."""
    planner, executor = options.planner, options.executor
    _once((planner, executor))
    task = "Make a plan. Set the output 'steps' to the list of its steps, in order."
    items: list[FlowItem] = [AgentPhase(agent=planner, phase=planner, task=task)]
    if options.approve:
        items = approved(items, planner, place)
    if not options.in_order:
        items.append(AgentPhase(agent=executor, for_each=f"{planner}.steps"))
        return Built(items, outputs={planner: ("steps",)})
    task = (
        "Carry out the next open step of the plan, and no other. Then set the output 'more' to "
        "true if steps are left, else to false."
    )
    more = Fact(agent=executor, name="more")
    items.append(AgentPhase(agent=executor, task=task))
    items.append(_back(f"{executor}.next", more, executor, options.at_most, "ask_human"))
    return Built(items, outputs={planner: ("steps",), executor: ("more",)})


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
    work = AgentPhase(agent=agent, phase=name, task=place.task, for_each=place.for_each)
    if "review" in place.off:
        return Built([work])
    task = (
        "Review what you have just made, as a strict colleague would. Set the output 'content' to "
        "true if nothing must change, else to false, and say what must."
    )
    discontent = Not(of=Fact(agent=agent, name="content"))
    again = _back(f"{name}.verdict", discontent, name, options.rounds, "next")
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

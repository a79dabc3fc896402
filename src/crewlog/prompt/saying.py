"""A definition as what a prompt would have said: its statements, and what no sentence can say.

The way back from `crewlog.prompt.assemble`. It takes the phases in their order and keeps the same
account as the assembly does (who worked last, what comes next waits for), so that a statement says
what a phase waits for only where that does not follow from its place. `crewlog.prompt.english`
makes sentences of the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crewlog.definition import conditions as c
from crewlog.definition.findings import listed
from crewlog.definition.model import (
    AgentPhase,
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    ParallelPhase,
    RoutePhase,
    WaitPhase,
)
from crewlog.definition.model import DecisionPhase as Decision
from crewlog.definition.phases import END, Phase, phases
from crewlog.prompt import ast
from crewlog.prompt.assemble import HELD, negated
from crewlog.prompt.registry import LONGEST_WAIT, Registry
from crewlog.prompt.saying_asks import without_before, without_gates
from crewlog.prompt.saying_waits import without_taken_over
from crewlog.prompt.traits import Told, told_of

_OTHERWISE: dict[str | None, Any] = {
    None: "next",
    "next": "next",
    "ask_human": "ask_human",
    "end": "end",
    "fail": "fail",
}


@dataclass
class Said:
    """What a definition comes to as a prompt."""

    crew: str
    cast: list[str]
    work: list[ast.AnyStatement] = field(default_factory=list[ast.AnyStatement])
    """The order of the work."""
    rules: list[ast.AnyStatement] = field(default_factory=list[ast.AnyStatement])
    """What holds throughout."""
    unsaid: list[str] = field(default_factory=list[str])
    """What no sentence says."""
    unsaid_words: list[str] = field(default_factory=list[str])
    """Texts that come back in other words: prompts, tasks, questions, descriptions."""

    def tree(self) -> ast.PromptAst:
        """The statements as one prompt."""
        head: list[ast.AnyStatement] = [
            ast.CrewName(name=self.crew),
            ast.Cast(agents=tuple(self.cast)),
        ]
        return ast.PromptAst(statements=(*head, *self.work, *self.rules))


def say(definition: CrewDefinition, registry: Registry | None = None) -> Said:
    """What a definition says, as statements.

    Args:
        definition: A valid definition.
        registry: What stands in it need not be said; without one, tools and the crew's model are
            taken as given.
    """
    teller = Teller(definition, registry)
    teller.tell()
    return teller.said


@dataclass(frozen=True)
class Awaited:
    """What a phase waits for."""

    of: frozenset[str] = frozenset[str]()
    need: int = 0

    @classmethod
    def on(cls, phase: Phase) -> Awaited:
        """What a phase waits for."""
        return cls(frozenset(phase.sources), phase.need)

    @classmethod
    def all(cls, names: Iterable[str]) -> Awaited:
        """All of some phases."""
        of = frozenset(names)
        return cls(of, len(of))

    @property
    def every(self) -> bool:
        """Whether it is all of them."""
        return self.need == len(self.of)

    @property
    def join(self) -> Any:
        """`all`, `any` or how many."""
        return "all" if self.every else "any" if self.need == 1 else self.need


class Teller:
    """Says a crew, phase by phase.

    Args:
        definition: A valid definition.
        registry: What need not be said.
    """

    def __init__(self, definition: CrewDefinition, registry: Registry | None) -> None:
        from crewlog.prompt.saying_rules import RulesTeller  # noqa: PLC0415 - they use each other

        self.crew = definition
        self.registry = registry
        self.said = Said(definition.crew, list(definition.agents))
        self.told: dict[str, Told] = {
            name: told_of(name, agent, _own(definition, name), registry)
            for name, agent in definition.agents.items()
        }
        self.writers: dict[str, list[str]] = {}
        for name, agent in definition.agents.items():
            for flag in agent.writes_flags:
                self.writers.setdefault(flag, []).append(name)
        self.flags: dict[str, set[str]] = {name: set() for name in definition.agents}
        """Flags that what is said gives to each agent."""
        self.outputs: dict[str, set[str]] = {name: set() for name in definition.agents}
        self.deciders: dict[str, set[str]] = {}
        """Who decides a fact of that name, in what is said so far."""
        self.done: list[Phase] = []
        self.tail = Awaited()
        self.last: list[Phase] = []
        self.before: list[str] = []
        self.questions: dict[str, Phase] = {}
        """Questions just before a phase, by that phase."""
        self.taken_over: dict[str, Phase] = {}
        """Phases that start only where another gives way to them, by that phase."""
        self.rules = RulesTeller(self)

    def tell(self) -> None:
        """Says everything."""
        self._names()
        found, gated = without_gates(phases(self.crew))
        for agent, below in gated.items():
            self.outputs[agent].add("unsure" if below is None else "confidence")
            self.said.rules.append(ast.Gate(agents=(agent,), below=below))
        found, self.questions = without_before(found)
        found, self.taken_over = without_taken_over(found, {*self.questions})
        for group in _groups(_waits_last(found), self._only_works, self.questions):
            first = group[0].item
            if isinstance(first, AgentPhase):
                self._step(group)
            elif isinstance(first, Decision):
                self._decision(group[0], first)
            elif isinstance(first, AskPhase):
                self._question(group[0], first)
            elif isinstance(first, WaitPhase):
                self._wait(group[0], first)
            elif isinstance(first, RoutePhase):
                self._joined(group[0])
                self.tail = Awaited.all([group[0].name])
                self.unsaid(f"the route by {first.route!r}")
            else:
                self._builder(group[0], first)
            self.done += group
        self.rules.tell()

    def _only_works(self, phase: Phase) -> bool:
        """Whether no more is said of a phase than that its agent works."""
        item = phase.item
        if not isinstance(item, AgentPhase) or item.for_each is not None:
            return False
        if self.told[item.agent].task(item.task):
            return False
        return item.only_if is None and item.within is None

    def unsaid(self, what: str) -> None:
        """Remembers that something cannot be said."""
        if what not in self.said.unsaid:
            self.said.unsaid.append(what)

    # -- names ---------------------------------------------------------------------------------

    def _names(self) -> None:
        """Names of decisions, questions and waits that are not those that they would get."""
        flow = tuple(_unnamed(item) for item in self.crew.flow)
        plain = phases(self.crew.model_copy(update={"flow": flow}))
        for phase, other in zip(phases(self.crew), plain, strict=True):
            if phase.name != other.name:
                self.unsaid(f"the phase's name {phase.name!r}")

    def agents_of(self, phase: Phase) -> list[str]:
        """The agents of a phase; the one that ends a builder's part comes last."""
        item = phase.item
        if isinstance(item, AgentPhase):
            return [*item.agents]
        if isinstance(item, BuilderPhase) and item.use == "supervisor":
            return [*map(str, item.with_.get("workers", ())), str(item.with_.get("supervisor"))]
        return []

    def workers(self) -> list[str]:
        """The agents that worked last, before a wait if there was one."""
        found = list(dict.fromkeys(a for phase in self.last for a in self.agents_of(phase)))
        waited = bool(self.last) and all(isinstance(p.item, WaitPhase) for p in self.last)
        return self.before if waited else found

    def latest(self, phase: str) -> str | None:
        """The agent whose last phase so far is this one."""
        for other in reversed(self.done):
            if other.name == phase:
                names = self.agents_of(other)
                agent = names[-1] if names else None
                return agent if agent and self._last_of(agent) == phase else None
        return None

    def _last_of(self, agent: str) -> str | None:
        return next((p.name for p in reversed(self.done) if agent in self.agents_of(p)), None)

    # -- work ----------------------------------------------------------------------------------

    def _step(self, group: list[Phase]) -> None:
        context = self.workers()
        parts: list[ast.Part] = []
        chain: list[c.Condition] = []
        for phase in group:
            self._ask_before(phase)
            parts.append(self._part(phase, context, chain))
        item = group[0].item
        assert isinstance(item, AgentPhase)  # noqa: S101
        own = [self.agents_of(p) for p in self.last] == [[*item.agents]]
        step = ast.Step(parts=tuple(parts), again=own and len(parts) == 1)
        said = self._waiting(group[0], step, item.when)
        if said is None:
            self.unsaid(f"what {group[0].name!r} waits for")
            said = step
        self.said.work.append(said)
        self.before, self.last = context, group
        self.tail = Awaited.all([p.name for p in group])
        for phase in group:
            self._within(phase)

    def _within(self, phase: Phase) -> None:
        """Says how long a phase waits for what it requires, and what happens then."""
        item = phase.item
        if not isinstance(item, AgentPhase) or item.within is None or item.when is None:
            return
        if item.within > LONGEST_WAIT:
            self.unsaid(f"how long {phase.name!r} waits for '{c.render_condition(item.when)}'")
            return
        instead = self.taken_over.get(phase.name)
        otherwise: Any = item.otherwise or "ask_human"
        part = None
        if instead is not None:
            part, otherwise = self._part(instead, [], []), None
            self.done.append(instead)
            self.tail = Awaited(self.tail.of | {instead.name}, self.tail.need)
        elif otherwise not in HELD:
            return  # `_part` says so
        within = ast.Within(
            wait=item.within, agent=item.agents[0], otherwise=otherwise, takes_over=part
        )
        self.said.work.append(within)

    def _part(self, phase: Phase, context: list[str], chain: list[c.Condition]) -> ast.Part:
        item = phase.item
        assert isinstance(item, AgentPhase)  # noqa: S101
        agent = item.agents[0]
        count = sum(agent in self.agents_of(p) for p in self.done)
        expected = f"{agent}_{count + 1}" if count else agent
        if item.by is not None:
            self.unsaid(f"that the items of {phase.name!r} name their agents")
        if item.at_once is not None:
            self.unsaid(f"how many items of {phase.name!r} are worked on at a time")
        if phase.name != expected:
            self.unsaid(f"the phase's name {phase.name!r}, which would be {expected!r}")
        bounded = item.within is not None and (
            item.otherwise == "skip" or phase.name in self.taken_over
        )
        if item.otherwise not in {None, "ask_human"} and not bounded:
            self.unsaid(f"where {phase.name!r} goes if it can no longer start")
        only_if, otherwise = None, False
        if item.only_if is not None:
            otherwise = bool(chain) and item.only_if == negated(chain)
            if not otherwise:
                only_if = self.condition(item.only_if, context)
                chain.append(item.only_if)
        noun = maker = None
        if item.for_each is not None:
            maker, _, noun = item.for_each.partition(".")
            self.outputs[maker].add(noun)
        return ast.Part(
            agent=agent,
            task=self.told[agent].task(item.task),
            only_if=only_if,
            otherwise=otherwise,
            for_each=noun,
            maker=maker,
            needs=item.needs,
        )

    def _waiting(self, phase: Phase, step: ast.Step, when: c.Condition | None) -> ast.Step | None:
        """The step with what it waits for said, where that can be said."""
        wanted = Awaited.on(phase)
        if when is not None:
            return self._required(wanted, step, when)
        if phase.entry:
            return step.model_copy(update={"start": bool(self.done)})
        if not wanted.of:
            return None
        if wanted == self.tail:
            return step
        after = self.waits(wanted)
        if after is not None:
            return step.model_copy(update={"after": after})
        if wanted.every and self.tail.every and self.tail.of < wanted.of:
            after = self.waits(Awaited.all(wanted.of - self.tail.of))
        return None if after is None else step.model_copy(update={"after": after, "then": True})

    def _required(self, wanted: Awaited, step: ast.Step, when: c.Condition) -> ast.Step | None:
        """A step that waits for something that an agent decides, and so for that agent."""
        ready = self.condition(when, [])
        owners: frozenset[str] = frozenset(
            self._last_of(str(fact.agent)) or "" for fact in ast_facts(ready)
        )
        step = step.model_copy(update={"ready": ready})
        if not wanted.every or any(not name for name in owners):
            return None
        if wanted.of == owners:
            return step
        if self.tail.every and wanted.of == owners | self.tail.of:
            return step.model_copy(update={"then": True})
        after = self.waits(Awaited.all(wanted.of - owners)) if owners < wanted.of else None
        return None if after is None else step.model_copy(update={"after": after})

    def waits(self, wanted: Awaited) -> ast.Waits | None:
        """The words for phases: those that worked last, or their agents by name."""
        if not wanted.of:
            return None
        whole = frozenset(p.name for p in self.last)
        gave_way = any(p.name in self.taken_over for p in self.last)
        if len(self.last) > 1 and wanted.of == whole and not gave_way:
            return ast.Waits(join=wanted.join)
        agents = [self.latest(p.name) for p in self.done if p.name in wanted.of]
        names = tuple(name for name in agents if name is not None)
        if len(names) < len(wanted.of):
            return None
        return ast.Waits(of=names, join=wanted.join)

    def _joined(self, phase: Phase) -> bool:
        """Says what a decision or question waits for, where that is not what was said last."""
        wanted = Awaited.on(phase)
        if wanted == self.tail and not (phase.entry and self.done):
            return True
        waits = self.waits(wanted)
        if waits is None:
            self.unsaid(f"what {phase.name!r} waits for")
            return False
        self.said.work.append(ast.Join(waits=waits))
        return True

    # -- decisions, questions, builders ----------------------------------------------------------

    def _decision(self, phase: Phase, item: Decision) -> None:
        self._joined(phase)
        when = self.condition(item.if_, self.workers())
        self.tail = Awaited.all([phase.name])
        if item.go == END and item.at_most is None:
            self.said.work.append(ast.Stop(condition=when))
            return
        agent = self.latest(item.go)
        if agent is None or item.at_most is None or item.otherwise not in _OTHERWISE:
            self.unsaid(f"where the decision {phase.name!r} goes")
            return
        back = ast.Back(
            condition=when,
            to=agent,
            at_most=item.at_most,
            otherwise=_OTHERWISE[item.otherwise],
        )
        self.said.work.append(back)

    def _question(self, phase: Phase, item: AskPhase) -> None:
        wanted, after = Awaited.on(phase), None
        if wanted != self.tail and len(wanted.of) == 1:
            after = self.latest(next(iter(wanted.of)))
        if after is None:
            self._joined(phase)
        only_if = None if item.only_if is None else self.condition(item.only_if, self.workers())
        self.said.work.append(self._ask(phase, item, after=after, only_if=only_if))
        self.tail = Awaited.all([phase.name])

    def _ask_before(self, phase: Phase) -> None:
        ask = self.questions.get(phase.name)
        if ask is not None:
            item, agent = ask.item, self.agents_of(phase)[0]
            assert isinstance(item, AskPhase)  # noqa: S101
            self.said.work.append(self._ask(ask, item, before=agent))

    def _ask(self, phase: Phase, item: AskPhase, **more: Any) -> ast.Ask:
        reject = None
        if item.options != ("approve", "reject"):
            to = self.latest(item.options[1]) if len(item.options) == 2 else None
            if item.options[0] == "approve" and to is not None:
                reject = to
            else:
                self.unsaid(f"the answers to {phase.name!r}: {listed(item.options, 'or')}")
        if item.sets is not None:
            self.unsaid(f"that the answer to {phase.name!r} sets {item.sets!r}")
        self.said.unsaid_words.append(f"the question {phase.name!r}: {item.ask}")
        return ast.Ask(question=item.ask, reject_to=reject, **more)

    def _wait(self, phase: Phase, item: WaitPhase) -> None:
        if item.wait is not None and item.wait > LONGEST_WAIT:
            self.unsaid(f"so long a wait: {phase.name!r}")
        beside = self._beside(phase)
        if not beside:
            self._joined(phase)
        only_if = None if item.only_if is None else self.condition(item.only_if, self.workers())
        pause = ast.Pause(
            wait=item.wait,
            until=item.wait_until,
            place="beside" if beside else "next",
            only_if=only_if,
        )
        self.said.work.append(pause)
        if beside:
            self.last = [*self.last, phase]
        else:
            self.before, self.last = self.workers(), [phase]
        self.tail = Awaited.all([p.name for p in self.last])

    def _beside(self, phase: Phase) -> bool:
        """Whether a wait begins with the step that was said last, and nothing follows that yet."""
        if not self.last or self.done[-1] is not self.last[-1]:
            return False
        head = self.last[0]
        if isinstance(head.item, AgentPhase) and (head.item.when is not None or head.item.within):
            return False
        alike = Awaited.on(head) == Awaited.on(phase) and head.entry == phase.entry
        return alike and self.tail == Awaited.all([p.name for p in self.last])

    def _builder(self, phase: Phase, item: BuilderPhase) -> None:
        self._joined(phase)
        self.tail = Awaited.all([phase.name])
        count = sum(isinstance(p.item, BuilderPhase) and p.item.use == item.use for p in self.done)
        expected = item.use if not count else f"{item.use}_{count + 1}"
        if item.use != "supervisor":
            self.unsaid(f"the builder {item.use!r}")
            return
        if phase.name != expected:
            self.unsaid(f"the phase's name {phase.name!r}, which would be {expected!r}")
        agents = self.agents_of(phase)
        lead, workers = agents[-1], agents[:-1]
        use = ast.Use(
            use=item.use,
            options={
                "supervisor": lead,
                "workers": workers,
                "at_most": item.with_.get("at_most", 10),
            },
            agents=(lead, *workers),
        )
        self.said.work.append(use)
        self.before, self.last = self.workers(), [phase]

    # -- conditions ----------------------------------------------------------------------------

    def condition(self, said: c.Condition, context: list[str]) -> ast.Cond:
        """A condition as it is said; those who decide are named unless they worked just before."""
        match said:
            case c.Not():
                return ast.Not(of=self.condition(said.of, context))
            case c.AllOf():
                return ast.Both(of=self._several(said.of, context))
            case c.AnyOf():
                return ast.Either(of=self._several(said.of, context))
            case c.Fact():
                return self._fact(said, context)

    def _several(self, parts: Sequence[c.Condition], context: list[str]) -> tuple[ast.Cond, ...]:
        """The parts of a condition; where one names who decides, the others are not left to it."""
        self._plain_parts(parts)
        said = tuple(self.condition(part, context) for part in parts)
        if len({fact.agent for part in said for fact in ast_facts(part)}) > 1:
            return tuple(self.condition(part, []) for part in parts)
        return said

    def _plain_parts(self, parts: Sequence[c.Condition]) -> None:
        """Parts of a condition that English has no words for: it knows no brackets."""
        for part in parts:
            plain = part.of if isinstance(part, c.Not) else part
            compared = isinstance(plain, c.Fact) and plain.operator not in {None, "==", "in"}
            if not isinstance(plain, c.Fact) or (plain is not part and compared):
                self.unsaid(f"the part '{c.render_condition(part)}' of a condition")

    def _fact(self, said: c.Fact, context: list[str]) -> ast.Fact:
        owner = said.agent
        if owner is None:
            writers = self.writers.get(said.name, [])
            owner = writers[0] if len(writers) == 1 else None
        if owner is None:
            self.unsaid(f"who decides {said.name!r}")
        elif said.operator is None:
            if said.name not in self.crew.agents[owner].writes_flags:
                self.unsaid(f"that the output {said.name!r} of {owner!r} is true or false")
            self.flags[owner].add(said.name)
        else:
            if said.name not in self.crew.agents[owner].outputs:
                self.unsaid(f"the comparison of {said.name!r} of {owner!r}")
            self.outputs[owner].add(said.name)
        # Behind a question, `if rejected` would speak of its answer.
        asked = bool(self.done) and isinstance(self.done[-1].item, AskPhase)
        plain = context == [owner] and not (asked and said.name in {"approved", "rejected"})
        deciders = self.deciders.setdefault(said.name, set())
        deciders.add(str(owner))
        return ast.Fact(
            name=said.name,
            operator=said.operator,
            value=said.value,
            agent=None if plain and len(deciders) == 1 else owner,
        )


def ast_facts(said: ast.Cond) -> Iterator[ast.Fact]:
    """Every fact of a condition, in the order said."""
    match said:
        case ast.Fact():
            yield said
        case ast.Not():
            yield from ast_facts(said.of)
        case ast.Both() | ast.Either():
            for part in said.of:
                yield from ast_facts(part)


def _own(definition: CrewDefinition, agent: str) -> int:
    """How many phases an agent has, builders' parts not counted."""
    return sum(
        isinstance(phase.item, AgentPhase) and phase.item.agent == agent
        for phase in phases(definition)
    )


def _unnamed(item: Any) -> Any:
    """A decision, question or wait without the name that it is given; others as they are."""
    if isinstance(item, tuple):
        parts: tuple[Any, ...] = item  # pyright: ignore[reportUnknownVariableType]
        return tuple(_unnamed(part) if isinstance(part, WaitPhase) else part for part in parts)
    if isinstance(item, ParallelPhase):
        return item.model_copy(update={"parallel": _unnamed(item.parallel)})
    if isinstance(item, Decision | WaitPhase):
        return item.model_copy(update={"phase": None})
    if isinstance(item, AskPhase) and not str(item.phase).startswith(("before_", "gate_")):
        return item.model_copy(update={"phase": None})
    return item


def _waits_last(found: Sequence[Phase]) -> list[Phase]:
    """The phases with the waits of each item of the flow behind the agents beside them."""
    items: dict[object, list[Phase]] = {}
    for phase in found:
        items.setdefault(phase.path[:2], []).append(phase)
    return [
        phase
        for item in items.values()
        for phase in sorted(item, key=lambda p: isinstance(p.item, WaitPhase))
    ]


def _groups(
    found: Sequence[Phase],
    only_works: Callable[[Phase], bool],
    questions: Mapping[str, Phase],
) -> Iterator[list[Phase]]:
    """Agents' phases that wait for the same together; everything else by itself.

    What phases require is said of several only where nothing else is. A phase whose question can
    go back to another one comes after it.
    """
    group: list[Phase] = []
    for phase in found:
        item = phase.item
        asked = questions[phase.name].item if phase.name in questions else None
        back = asked.options if isinstance(asked, AskPhase) else ()
        together = (
            bool(group)
            and isinstance(item, AgentPhase)
            and isinstance(head := group[0].item, AgentPhase)
            and Awaited.on(group[0]) == Awaited.on(phase)
            and group[0].entry == phase.entry
            and head.when == item.when
            and (item.when is None or (only_works(group[0]) and only_works(phase)))
            and not any(
                isinstance(p.item, AgentPhase) and (p.item.agent == item.agent or p.name in back)
                for p in group
            )
        )
        if group and not together:
            yield group
            group = []
        group.append(phase)
    if group:
        yield group

"""Lowers a reading to a crew: the only place that knows how crew.yaml writes what a prompt says.

Whatever follows a step follows its loop and the question about it. Readers of an agent's notes are
whitelists, and several of them intersect. A count is never cut to fit. `ask` on a tool gives the
tool together with the approval. What cannot be lowered is a fault with its place in the reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from crewlog.definition import conditions as c
from crewlog.definition.builders import find_builder
from crewlog.definition.conditions import Condition, ConditionSyntaxError, parse_condition
from crewlog.definition.findings import Finding, Path, did_you_mean
from crewlog.definition.model import CrewDefinition, ParallelPhase, parse_duration
from crewlog.definition.reaching import servers_of
from crewlog.definition.validate import all_findings
from crewlog.prompt import reading as r
from crewlog.prompt.agents import Member
from crewlog.prompt.faults import Code, Fault
from crewlog.prompt.flow import Node, Sources, flow_of
from crewlog.prompt.names import fitting_name, with_bare_flags
from crewlog.prompt.registry import LONGEST_WAIT, WAIT_REMEDY, Registry
from crewlog.prompt.rights import Rights
from crewlog.prompt.settings import Settings
from crewlog.prompt.standing import with_standing
from crewlog.prompt.wording import question_text

ASSUMED_ROUNDS = 3
"""How often a loop goes back whose prompt says no number."""
MOST_PHASES = 500
"""Phases of a prompt's crew. The checks of a crew with loops take the square of their number."""
_PHASES = ("steps", "waits", "questions", "loops", "uses")
_ENDS = {"ask": "ask_human", "end": "end", "fail": "fail", "next": "next", "": None}


@dataclass(frozen=True)
class Source:
    """A part of the definition and the clauses that it comes from."""

    what: str
    """The list of the reading: `steps`, `rights`."""
    path: Path
    """Where in the definition: `("flow", 3)`."""
    clauses: tuple[int, ...]


@dataclass
class Lowered:
    """What a reading was lowered to."""

    definition: CrewDefinition | None = None
    faults: list[Fault] = field(default_factory=list[Fault])
    notes: list[Fault] = field(default_factory=list[Fault])
    """What the prompt leaves open and how it was read."""
    sources: list[Source] = field(default_factory=list[Source])


def lower_reading(read: r.Reading, registry: Registry) -> Lowered:
    """Lowers a reading to a crew.

    Args:
        read: The reading, whether or not it was verified.
        registry: What the prompt may use.

    Returns:
        The crew, unless nothing works in it, with every fault that was found on the way.
    """
    return _Lowering(read, registry).run()


class _Lowering:
    """Lowers one reading."""

    def __init__(self, read: r.Reading, registry: Registry) -> None:
        self.read = read
        self.registry = registry
        self.found = Lowered()
        self.members: dict[str, Member] = {}
        self.nodes: dict[str, Node] = {}
        """By the names of the reading."""
        self.follow: dict[str, str] = {}
        """The loop or the question that what follows a phase follows in its place."""
        self.use_of: dict[str, str] = {}
        """The use that an agent works in, by the agent."""
        self.stand_ins: dict[str, str] = {}
        """The step that stands in, by the step that it stands in for."""

    def fault(
        self,
        code: Code,
        message: str,
        remedy: str = "",
        clauses: Sequence[int] = (),
        path: Path = (),
    ) -> None:
        self.found.faults.append(Fault(code, message, remedy, tuple(clauses), path))

    def note(self, message: str, remedy: str = "", clauses: Sequence[int] = ()) -> None:
        self.found.notes.append(Fault("assumed", message, remedy, tuple(clauses)))

    def run(self) -> Lowered:
        count = sum(len(getattr(self.read, kind)) for kind in _PHASES)
        if count > MOST_PHASES:
            say = f"the prompt makes {count:,} phases; a prompt may make {MOST_PHASES}"
            how = "Make several crews of it, or use a step for each item of a list."
            self.fault("too_large", say, how)
            return self.found
        self._members()
        self._outputs()
        settings = Settings(self.read, self.registry, self.members, self.fault, self.note)
        settings.settle_forms()
        for index, step in enumerate(self.read.steps):
            self._step(step, ("steps", index))
        for index, use in enumerate(self.read.uses):
            self._use(use, ("uses", index))
        if not self.nodes:
            say = "the prompt does not say who does what"
            how = "For example: 'The writer drafts the notes, then the checker reviews them.'"
            self.fault("invalid", say, how)
            return self.found
        self._waits_and_questions()
        self._loops()
        self._resolve()
        order = self._ordered()
        self._rename(order)
        rights = Rights(self.read, self.registry, self.members, self.fault)
        rights.settle(tool for node in order for tool in node.needs)
        settings.settle()
        self._build(order, rights, settings)
        return self.found

    # -- agents and what they decide -------------------------------------------------------------

    def _members(self) -> None:
        working = {step.agent for step in self.read.steps} | {
            value for use in self.read.uses for option in use.options for value in option.values
        }
        for index, agent in enumerate(self.read.agents):
            if agent.name not in working:
                say = f"{agent.name!r} does nothing"
                how = f"Say what it does, e.g. 'Then the {agent.name.replace('_', ' ')} …'."
                self.fault("unsound", say, how, agent.clauses, ("agents", index))
                continue
            member = self._member(agent.name, agent.clauses)
            if agent.about:
                member.traits.append(agent.about)
        for step in self.read.steps:
            self._member(step.agent, step.clauses)

    def _member(self, name: str, clauses: tuple[int, ...]) -> Member:
        if name not in self.members:
            offered = self.registry.agents.get(name)
            if offered is None and not self.registry.new_agents:
                how = did_you_mean(name, self.registry.agents, "It offers no new agents.")
                self.fault("not_offered", f"the registry offers no agent {name!r}", how, clauses)
            self.members[name] = Member(name, clauses, offered)
        return self.members[name]

    def _outputs(self) -> None:
        for output in self.read.outputs:
            member = self.members.get(output.agent)
            if member is not None:
                member.decides(output)

    def _condition(self, text: str, clauses: tuple[int, ...], path: Path) -> Condition | None:
        """A condition of which each fact has its agent; none where it makes no sense."""
        if not text:
            return None
        try:
            parsed = parse_condition(text)
        except ConditionSyntaxError:
            return None  # `verify` reports it
        missing: list[str] = []

        def owned(fact: c.Fact) -> c.Fact:
            if fact.agent is not None:
                member = self.members.get(fact.agent)
                if member is None or not member.sets(fact.name):
                    missing.append(f"{fact.agent}.{fact.name}")
                return fact
            owners = [name for name, member in self.members.items() if member.sets(fact.name)]
            people = any(not o.agent and o.name == fact.name for o in self.read.outputs)
            if len(owners) == 1:
                return fact.model_copy(update={"agent": owners[0]})
            if not people:
                missing.append(fact.name)
            return fact

        found = _plain(c.mapped(parsed, owned))
        for name in missing:
            say = f"no earlier step sets {name!r}"
            how = "Add an output with the agent that sets it, and its clauses."
            self.fault("unsound", say, how, clauses, path)
        return found

    # -- phases ----------------------------------------------------------------------------------

    def _add(self, name: str, node: Node, path: Path) -> str:
        """Adds a phase; returns what it is known by here."""
        if name in self.nodes or not name:
            say = f"two phases are called {name!r}" if name else "the phase has no name"
            self.fault(
                "invalid", say, "Give each a name of its own.", node.clauses, (*path, "name")
            )
            name = f"{name or node.kind}#{len(self.nodes)}"
        node.path = path
        self.nodes[name] = node
        return name

    def _step(self, step: r.Step, path: Path) -> None:
        member = self._member(step.agent, step.clauses)
        if step.task:
            member.tasks.append(step.task)
        node = Node(
            step.name, "agent", self._sources(step.after, step.clauses, path), step.clauses,
            agent=step.agent, task=step.task, needs=step.needs,
            only_if=self._condition(step.if_, step.clauses, (*path, "if")),
            when=self._condition(step.when, step.clauses, (*path, "when")),
            for_each=self._each(step, path),
        )  # fmt: skip
        seconds = self._seconds(step.within, step.clauses)
        if step.when:
            node.within = seconds
            node.otherwise = {"ask": "ask_human", "skip": "skip"}.get(step.late)
        else:
            node.timeout = seconds
            node.on_error = {"ask": "ask", "skip": "continue"}.get(step.late)
        name = self._add(step.name, node, path)
        if step.instead_of:
            node.sent = True
            self.stand_ins[step.instead_of] = name

    def _each(self, step: r.Step, path: Path) -> str | None:
        if not step.each:
            return None
        agent, _, name = step.each.rpartition(".")
        owner = self.members.get(agent)
        if owner is None and not agent:
            owner = next((m for m in self.members.values() if m.sets(name)), None)
        if owner is None:
            say = f"no agent makes the list {step.each!r}"
            how = "Add the output, of kind list, with the agent that makes it."
            self.fault("unsound", say, how, step.clauses, (*path, "each"))
            return None
        owner.makes_list(name)
        return f"{owner.name}.{name}"

    def _seconds(self, text: str, clauses: tuple[int, ...]) -> float | None:
        if not text:
            return None
        try:
            seconds = parse_duration(text)
        except ValueError:
            return None  # `verify` reports it
        if seconds > LONGEST_WAIT:
            self.fault(
                "not_offered", f"{text} is longer than prompts may wait", WAIT_REMEDY, clauses
            )
            return None
        return seconds

    def _use(self, use: r.Use, path: Path) -> None:
        builder = self._builder(use.builder, "flow", use.clauses, path)
        options: dict[str, Any] = {}
        agents: list[str] = []
        for option in use.options:
            for value in option.values:
                if any(agent.name == value for agent in self.read.agents):
                    self._member(value, use.clauses)
                    agents.append(value)
                    self.use_of.setdefault(value, use.name or use.builder)
            options[option.key] = _option(option, builder)
        node = Node(
            use.name, "use", self._sources(use.after, use.clauses, path), use.clauses,
            agents=tuple(agents), fields={"use": use.builder, "with_": options},
        )  # fmt: skip
        if builder is not None:
            self._add(use.name or use.builder, node, path)

    def _builder(
        self, name: str, kind: Literal["flow", "agent"], clauses: tuple[int, ...], path: Path
    ) -> Any:
        offered = self.registry.builders
        if offered is not None and name not in offered:
            there = f"It offers: {', '.join(offered)}." if offered else "It offers none."
            say = f"the registry does not offer the builder {name!r} to prompts"
            self.fault("not_offered", say, there, clauses, path)
            return None
        try:
            builder = find_builder(name)
        except LookupError as error:
            self.fault("invalid", f"no builder is called {name!r}", str(error), clauses, path)
            return None
        if builder.kind != kind:
            where = "an agent" if builder.kind == "agent" else "the flow"
            self.fault("invalid", f"the builder {name!r} is for {where}", "", clauses, path)
            return None
        return builder

    def _sources(self, after: Sequence[r.After], clauses: tuple[int, ...], path: Path) -> Sources:
        """What a phase waits for: several groups are all needed, so only one may be of some."""
        partial = [group for group in after if group.need < len(group.of)]
        if not partial:
            return Sources.all([name for group in after for name in group.of])
        if len(after) > 1:
            say = "a phase waits for some of one group, or for all of several, and not for both"
            how = "Let it wait for one group, or put a step between."
            self.fault("invalid", say, how, clauses, (*path, "after"))
        return Sources(list(dict.fromkeys(partial[0].of)), partial[0].need)

    def _waits_and_questions(self) -> None:
        before: list[tuple[int, str, tuple[str, ...]]] = []
        for index, wait in enumerate(self.read.waits):
            path: Path = ("waits", index)
            fields: dict[str, Any] = (
                {"wait_until": wait.until}
                if wait.until
                else {"wait": self._seconds(wait.length, wait.clauses)}
            )
            node = Node(
                wait.name, "wait", self._sources(wait.after, wait.clauses, path), wait.clauses,
                only_if=self._condition(wait.if_, wait.clauses, (*path, "if")), fields=fields,
            )  # fmt: skip
            before.append((0, self._add(wait.name, node, path), wait.before))
        for index, question in enumerate(self.read.questions):
            path = ("questions", index)
            ask: dict[str, Any] = {"ask": question_text(question.ask)}
            if question.options:
                ask["options"] = question.options
            node = Node(
                question.name, "ask",
                self._sources(question.after, question.clauses, path), question.clauses,
                only_if=self._condition(question.if_, question.clauses, (*path, "if")),
                fields=ask,
            )  # fmt: skip
            if question.at:
                node.gate = True
                node.sources = Sources.all([question.at])
            before.append((1, self._add(question.name, node, path), question.before))
        for _, name, targets in sorted(before, key=lambda each: -each[0]):
            self._put_before(name, targets)

    def _put_before(self, name: str, targets: tuple[str, ...]) -> None:
        """Puts a wait or a question just before steps: it waits for what they waited for.

        A step that follows another of them has one of its own.
        """
        node = self.nodes[name]
        there: list[str] = []
        later: list[str] = []
        for place, target in enumerate(targets):
            if target not in self.nodes:
                self._unknown(target, node.clauses, (*node.path, "before", place))
            elif self._follows(target, targets):
                later.append(target)
            else:
                there.append(target)
        for target in later:
            copy = replace(node, sources=Sources(), fields=dict(node.fields))
            self._put_just_before(self._add(f"{name}#{target}", copy, node.path), [target])
        if there:
            self._put_just_before(name, there)

    def _follows(self, step: str, others: Sequence[str]) -> bool:
        """Whether a step comes after one of some others, directly or through more steps."""
        if len(others) < 2:
            return False
        seen: set[str] = set()
        ahead = [*self.nodes[step].sources.of]
        while ahead:
            name = ahead.pop()
            if name not in seen and name in self.nodes:
                seen.add(name)
                ahead += self.nodes[name].sources.of
        return bool(seen & {*others} - {step})

    def _put_just_before(self, name: str, targets: Sequence[str]) -> None:
        node = self.nodes[name]
        there = [self.nodes[target] for target in targets]
        node.sources = Sources.all([s for target in there for s in target.sources.of])
        if len(there) == 1:
            node.sources.need = there[0].sources.need
            node.only_if = node.only_if or there[0].only_if
        node.sent = all(target.sent for target in there)
        if not node.sent and any(target.sent for target in there):
            say = f"{name!r} comes before a step that stands in and before one that does not"
            how = "Say it once for each of the two."
            self.fault("invalid", say, how, node.clauses)
        node.fields["before"] = targets[0]
        for each in there:
            each.sent = False
            each.sources = Sources.all([name])

    def _unknown(self, name: str, clauses: tuple[int, ...], path: Path) -> None:
        there = [each for each in self.nodes if "#" not in each]
        how = did_you_mean(name, there, f"There are: {', '.join(there[:20])}.")
        self.fault("invalid", f"there is no step {name!r}", how, clauses, path)

    def _loops(self) -> None:
        for index, loop in enumerate(self.read.loops):
            path: Path = ("loops", index)
            inside = self.use_of.get(loop.to)  # a builder calls phases as their agents are called
            there = {"end", *self.nodes, *([loop.to] if inside else [])}
            known = [name for name in (loop.at, loop.to) if name not in there]
            for name in known:
                self._unknown(name, loop.clauses, (*path, "at" if name == loop.at else "to"))
            when = self._condition(loop.if_, loop.clauses, (*path, "if"))
            if loop.at == "end":
                say = "nothing is decided after the end"
                how = "Name the step after which it is decided."
                self.fault("invalid", say, how, loop.clauses, (*path, "at"))
            if known or loop.at == "end":
                continue
            if when is None:
                if not loop.if_:
                    say = "the loop has no condition"
                    self.fault("unsound", say, "Say when it goes back.", loop.clauses, path)
                continue
            fields: dict[str, Any] = {"if_": when, "go": loop.to}
            then = loop.then
            if loop.to != "end":
                fields["at_most"] = loop.at_most or ASSUMED_ROUNDS
                if not loop.at_most:
                    then = then or "ask"
                    self.note(
                        f"the prompt states no bound for going back to {loop.to}: "
                        f"{ASSUMED_ROUNDS} times is assumed",
                        f"Say it, e.g. 'at most {ASSUMED_ROUNDS} times, otherwise ask me'.",
                        loop.clauses,
                    )
            otherwise = _ENDS.get(then, then)
            if otherwise is not None and otherwise != "next":
                if then not in _ENDS and then not in self.nodes:
                    self._unknown(then, loop.clauses, (*path, "then"))
                    continue
                fields["otherwise"] = otherwise
            name = f"#loop{index}"
            self._add(
                name,
                Node(name, "decide", Sources.all([loop.at]), loop.clauses, fields=fields),
                path,
            )

    # -- what follows what -----------------------------------------------------------------------

    def _resolve(self) -> None:
        """Puts loops, questions about steps and stand-ins where what follows a step finds them."""
        self._check_sources()
        behind: dict[str, list[tuple[bool, tuple[int, ...], str]]] = {}
        for name, node in self.nodes.items():
            if node.gate or name.startswith("#loop"):
                if not node.sources.of:
                    continue  # `_check_sources` has reported that its step is missing
                behind.setdefault(node.sources.of[0], []).append(
                    (not node.gate, node.clauses[:1], name)
                )
        for last, chain in behind.items():
            for _, _, name in sorted(chain):
                self.nodes[name].sources = Sources.all([last])
                self.follow[last] = name
                last = name
        own = set(self.follow.values())
        for name, node in self.nodes.items():
            if name not in own:
                node.sources.of = [self._end_of(source) for source in node.sources.of]
        self._check_policies()
        self._stand_in()

    def _end_of(self, name: str) -> str:
        """The phase that what follows a phase waits for: the last of its loops and questions."""
        while name in self.follow:
            name = self.follow[name]
        return name

    def _check_sources(self) -> None:
        for node in self.nodes.values():
            node.sources.of = [
                s if s in self.nodes else self.use_of.get(s, s) for s in node.sources.of
            ]
            for source in [s for s in node.sources.of if s not in self.nodes]:
                self._unknown(source, node.clauses, (*node.path, "at" if node.gate else "after"))
                node.sources.of.remove(source)
            node.sources.need = min(node.sources.need, len(node.sources.of))

    def _stand_in(self) -> None:
        """Lets what follows a step follow the step that stands in for it, too: one of the two."""
        for name, stand_in in self.stand_ins.items():
            late = self.nodes.get(name)
            if late is None:
                path = (*self.nodes[stand_in].path, "instead_of")
                self._unknown(name, self.nodes[stand_in].clauses, path)
                continue
            self._give_way(late, self._begin_of(stand_in))
            member = self.members.get(self.nodes[stand_in].agent)
            if member is not None and not any(member.tasks) and late.task:
                member.tasks.append(late.task)  # `the archive takes over`
                self.nodes[stand_in].task = late.task
            end, other = self._end_of(name), self._end_of(stand_in)
            for node in self.nodes.values():
                of = node.sources.of
                if node.name == stand_in or end not in of or self.nodes.get(end) is node:
                    continue
                if other in of:
                    if node.sources.need == len(of):
                        node.sources.need -= 1
                elif node is not self.nodes[other]:
                    node.sources = Sources([*of, other], node.sources.need)

    def _check_policies(self) -> None:
        """Finds a step that fails and is late by two policies: the one for failures is for both."""
        for setting in self.read.settings:
            for node in self.nodes.values() if setting.key == "on_error" else ():
                late = node.on_error in {"ask", "continue"} and node.agent in setting.agents
                if late and node.on_error != setting.value:
                    say = f"{node.name!r} has two policies for a failure, which a late step is, too"
                    how = "Say one of them."
                    self.fault("invalid", say, how, (*node.clauses, *setting.clauses))

    def _give_way(self, late: Node, begin: str) -> None:
        """Has a phase name what runs in its place: where it cannot start, or where it fails."""
        if late.when is not None:
            late.otherwise = begin
            return
        said = {
            setting.value
            for setting in self.read.settings
            if setting.key == "on_error" and late.agent in setting.agents
        } | {late.on_error or ""}
        if said - {""}:
            say = (
                f"two things are said to happen where {late.name!r} fails or takes too long: "
                f"{', '.join(sorted(said - {''}))}, and another step takes over"
            )
            how = "Say one of them: a step that takes too long fails."
            self.fault("invalid", say, how, late.clauses)
        late.on_error = begin

    def _begin_of(self, name: str) -> str:
        """The phase at which a stand-in begins: what is put before it, or itself."""
        before = self.nodes[name].sources.of
        while len(before) == 1 and self.nodes[before[0]].sent:
            name = before[0]
            before = self.nodes[name].sources.of
        return name

    def _ordered(self) -> list[Node]:
        """The phases in an order in which each comes after what it waits for, else as said."""
        position = {name: i for i, name in enumerate(self.nodes)}

        def rank(name: str) -> tuple[int, int]:
            clauses = self.nodes[name].clauses
            return (clauses[0] if clauses else 0, position[name])

        waiting = {
            name: {s for s in node.sources.of if s in self.nodes}
            for name, node in self.nodes.items()
        }
        for late, stand_in in self.stand_ins.items():
            if late in self.nodes:
                waiting[self._begin_of(stand_in)].add(late)
        order: list[str] = []
        sorter = TopologicalSorter(waiting)
        with suppress(CycleError):  # those outside of it have an order
            sorter.prepare()
        ready = sorted(sorter.get_ready(), key=rank)
        while ready:
            name = self._next(order[-1] if order else "", ready)
            ready.remove(name)
            order.append(name)
            sorter.done(name)
            ready = sorted([*ready, *sorter.get_ready()], key=rank)
        if len(order) < len(self.nodes):
            stuck = [name for name in self.nodes if name not in order]
            clauses = tuple(dict.fromkeys(n for s in stuck for n in self.nodes[s].clauses))
            named = [name for name in stuck if not name.startswith("#")]
            say = f"{', '.join(named[:6])} wait for each other"
            how = "A step that comes again is a loop with a bound, or a second step: 'writer_2'."
            self.fault("unsound", say, how, clauses)
            order += stuck
        self._names_in_order = order
        return [self.nodes[name] for name in order]

    def _next(self, last: str, ready: list[str]) -> str:
        """What is written after a phase: what is beside it, what belongs to it, else as said."""
        if last:
            before = self.nodes[last].sources
            beside = (n for n in ready if self.nodes[n].sources.same(before))
            found = next((n for n in beside if before.of and not self.nodes[n].gate), None)
            found = found or next((n for n in ready if self.follow.get(last) == n), None)
            if found is not None:
                return found
        return ready[0]

    def _rename(self, order: list[Node]) -> None:  # noqa: C901 - a case for each kind
        """Gives every phase the name that it has in the definition."""
        names: dict[str, str] = {}
        taken: set[str] = set()
        counts: Counter[str] = Counter()

        def free(base: str) -> str:
            name = fitting_name(base)
            number = 1
            while name in taken:
                number += 1
                name = fitting_name(f"{base}_{number}")
            taken.add(name)
            return name

        for node in order:  # a builder calls the phases of its agents as they are called
            for agent in node.agents if node.kind == "use" else ():
                counts[agent] += not counts[agent]
                taken.add(agent)
        late: list[tuple[str, Node]] = []
        for old, node in zip(self._names_in_order, order, strict=True):
            if node.kind == "agent":
                counts[node.agent] += 1
                base = (
                    node.agent if counts[node.agent] == 1 else f"{node.agent}_{counts[node.agent]}"
                )
                names[old] = free(base)
                node.named = counts[node.agent] > 1
            elif node.kind == "use":
                names[old] = free(str(node.fields["use"]))
                node.named = names[old] != node.fields["use"]
            else:
                late.append((old, node))
        for old, node in late:
            if before := node.fields.pop("before", None):
                names[old] = free(f"before_{names[before]}")
                node.named = True
            elif node.gate and {*node.sources.of} & {*node.fields.get("options", ())}:
                names[old] = free(f"gate_{names.get(node.sources.of[0], node.sources.of[0])}")
                node.named = True
            elif node.kind == "decide":
                names[old] = free(
                    "after_" + ("_".join(names.get(s, s) for s in node.sources.of) or "start")
                )
            else:
                counts[node.kind] += 1
                names[old] = free(f"{node.kind}_{counts[node.kind]}")
        for old, node in zip(self._names_in_order, order, strict=True):
            node.name = names[old]
            node.sources.of = [names[s] for s in node.sources.of]
            node.otherwise = names.get(str(node.otherwise), node.otherwise)
            node.on_error = names.get(str(node.on_error), node.on_error)
            for key in ("go", "otherwise"):
                if key in node.fields:
                    node.fields[key] = names.get(str(node.fields[key]), node.fields[key])
            if "options" in node.fields:
                node.fields["options"] = tuple(names.get(o, o) for o in node.fields["options"])
        self.names = names

    # -- the definition --------------------------------------------------------------------------

    def _build(self, order: list[Node], rights: Rights, settings: Settings) -> None:
        phases = Counter(node.agent for node in order if node.kind == "agent")
        apart = {
            name
            for name, member in self.members.items()
            if phases[name] > 1 or member.offered is not None
        }
        for node in order:
            if node.kind == "agent" and node.agent not in apart:
                node.task = ""
        tools = {
            name: self.registry.tools[name].definition().model_copy(update=update)
            for name, update in rights.tools.items()
        }
        try:
            items, places = flow_of(order, tasks=bool(apart))
            definition = CrewDefinition(
                crew=self.read.crew or "crew",
                model=settings.model or self.registry.model,
                agents={
                    name: m.definition(tasks_apart=name in apart)
                    for name, m in self.members.items()
                },
                tools=tools,
                mcp=servers_of((tool.run for tool in tools.values()), self.registry.mcp),
                flow=tuple(items),
                permissions=rights.permissions,
                approvals=rights.approvals,
                groups=rights.groups,
                rules=rights.rules,
                logs=rights.logs,
                flags={
                    o.name: False for o in self.read.outputs if not o.agent and o.kind == "boolean"
                },
                approval=self.registry.approval,
                **settings.fields,
            )
        except ValueError as error:
            self.fault("invalid", f"the prompt makes no crew: {error}")
            return
        own = with_bare_flags(definition)
        definition = with_standing(own, self.registry.groups, self.registry.rules)
        rights.place_rules([definition.rules.index(rule) for rule in own.rules])
        definition = self._merged(definition)
        self.found.definition = definition
        self._trace(order, places, rights, settings, definition)

    def _merged(self, definition: CrewDefinition) -> CrewDefinition:
        """The definition with a reducer for each key that several steps may set at once."""
        found = all_findings(definition)
        keys = dict.fromkeys(each.key for each in found if each.key)
        for key in keys:
            clauses = next((m.clauses for n, m in self.members.items() if key.startswith(n)), ())
            say = (
                f"several steps may set {key!r} at the same time: the last one is assumed to count"
            )
            self.note(say, f"In crew.yaml, merge: {{{key}: append}} would make a list.", clauses)
        self._findings = [each for each in found if not each.key and not _is_excepted(each)]
        return definition.model_copy(update={"merge": dict.fromkeys(keys, "last")})

    def _trace(
        self,
        order: list[Node],
        places: dict[str, tuple[int, ...]],
        rights: Rights,
        settings: Settings,
        definition: CrewDefinition,
    ) -> None:
        """Where every part of the definition comes from; then the definition's own findings."""
        add = self.found.sources.append
        for name, member in self.members.items():
            add(Source("agents", ("agents", name), member.clauses))
        for node in order:
            kind = {"agent": "steps", "decide": "loops", "ask": "questions", "wait": "waits"}
            path = _path(definition, places[node.name])
            add(Source(kind.get(node.kind, "uses"), path, node.clauses))
        self.found.sources += (Source(*each) for each in (*rights.sources, *settings.sources))
        for finding in self._findings:
            self._finding(finding)

    def _finding(self, finding: Finding) -> None:
        clauses = _clauses_for(finding.path, self.found.sources)
        remedy = finding.remedy
        if finding.path[:1] == ("agents",) and finding.path[-1:] == ("model",):
            clauses, remedy = (), "Name one: --model, or `model:` in the registry."
        wrong = finding.unsound or finding.severity == "error"
        code: Code = "unsound" if finding.unsound else "invalid"
        put = self.found.faults if wrong else self.found.notes
        put.append(Fault(code, finding.message, remedy, clauses))


def _plain(condition: Condition) -> Condition:
    """`not a and not b` as `not (a or b)`: the other case of several is written in one way."""
    if isinstance(condition, c.AllOf):
        parts = tuple(map(_plain, condition.of))
        if len(parts) > 1 and all(isinstance(part, c.Not) for part in parts):
            return c.Not(of=c.AnyOf(of=tuple(p.of for p in parts if isinstance(p, c.Not))))
        return c.AllOf(of=parts)
    if isinstance(condition, c.AnyOf):
        return c.AnyOf(of=tuple(map(_plain, condition.of)))
    if isinstance(condition, c.Not) and isinstance(condition.of, c.Not):
        return _plain(condition.of.of)
    return condition


def _path(definition: CrewDefinition, place: tuple[int, ...]) -> Path:
    """Where in the definition a phase stands; the parts of a block are counted below zero."""
    item = definition.flow[place[0]]
    if len(place) == 1:
        return ("flow", place[0])
    if isinstance(item, ParallelPhase):
        return ("flow", place[0], "parallel", -1 - place[1] if place[1] < 0 else place[1])
    return ("flow", *place)


def _option(option: r.Option, builder: Any) -> Any:
    """A builder's option: a list where its model has one, else one value."""
    fields: dict[str, Any] = {} if builder is None else builder.options.model_fields
    field_ = fields.get(option.key) or next(
        (f for f in fields.values() if f.alias == option.key), None
    )
    values = [_scalar(value) for value in option.values]
    if field_ is not None and "tuple" in str(field_.annotation):
        return values
    return values[0] if len(values) == 1 else values


def _scalar(text: str) -> Any:
    if text.lstrip("-").isdigit():
        return int(text)
    return {"true": True, "false": False}.get(text.casefold(), text)


def _clauses_for(path: Path, sources: Iterable[Source]) -> tuple[int, ...]:
    """The clauses of the part of the definition that shares the longest path with a place."""
    best = 1
    clauses: tuple[int, ...] = ()
    for source in sources:
        shared = 0
        for mine, theirs in zip(source.path, path, strict=False):
            if mine != theirs:
                break
            shared += 1
        if shared > best:
            best, clauses = shared, source.clauses
    return clauses


def _is_excepted(finding: Finding) -> bool:
    """Whether it is the warning that an agent has a tool which it may not call."""
    of_agents = finding.path[:1] == ("agents",) and finding.path[2:3] == ("tools",)
    return of_agents and finding.severity == "warning"

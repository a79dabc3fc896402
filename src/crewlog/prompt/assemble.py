"""AST to draft: what follows from what a prompt says.

The statements are taken in order. Work comes after the work said just before it, unless it says
what it waits for; a condition is decided by the agent that it names, else by the one that worked
just before. Everything that is assumed, refused or contradictory is a remark with its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from crewlog.definition import conditions as c
from crewlog.definition.builders import find_builder
from crewlog.definition.findings import did_you_mean, listed, suggestion
from crewlog.definition.model import PatternUse
from crewlog.definition.times import duration_words
from crewlog.model import Json
from crewlog.prompt import ast, phrases
from crewlog.prompt.ast import Words
from crewlog.prompt.authority import Authority
from crewlog.prompt.crew import Member, speaks_of
from crewlog.prompt.deciders import Deciders
from crewlog.prompt.draft import Node, Sources
from crewlog.prompt.registry import LONGEST_WAIT, WAIT_REMEDY, Registry
from crewlog.prompt.remarks import Remarks
from crewlog.prompt.ruling import Ruling
from crewlog.prompt.shaping import Shaping
from crewlog.prompt.wording import question_text

ASSUMED_ROUNDS = 3
"""How often a loop goes back whose prompt says no bound."""
HELD = ("ask_human", "skip")
"""What happens in the place of a step besides another phase."""
SHAPES = ("hub", "stages", "team")
"""Builders of whole crews: what is said of their agents before is their part in it."""
OF_AGENT = "@"
"""The mark of a source that is an agent's phase, still to be found."""


class Assembly:
    """Takes statements in order and makes the draft of a crew.

    Args:
        registry: What the prompt may use.
        remarks: Where everything is said that people should know.
    """

    def __init__(self, registry: Registry, remarks: Remarks) -> None:
        self.registry = registry
        self.remarks = remarks
        self.crew = "crew"
        self.members: dict[str, Member] = {}
        self.nodes: list[Node] = []
        self.tail = Sources()
        self.last: list[Node] = []
        """The block of work said last."""
        self.before: list[str] = []
        """The agents that worked before that block."""
        self.chain: list[c.Condition] = []
        """The conditions of the branches said last, for "otherwise"."""
        self.gates: list[ast.Gate] = []
        self.questions: list[tuple[ast.Ask, int]] = []
        self.pauses: list[tuple[ast.Pause, c.Condition | None, int]] = []
        """Waits just before an agent works."""
        self.bounds: list[tuple[ast.Within, c.Condition]] = []
        """How long steps wait that are not said yet."""
        self.skips: list[tuple[str, c.Condition, int]] = []
        self.cast: list[str] = []
        self.limits: dict[str, tuple[int, tuple[Words, ...]]] = {}
        self.model: str | None = None
        self.authority = Authority(self)
        self.ruling = Ruling(self)
        self.shaping = Shaping(self)
        self.deciders = Deciders(self)
        self._blocks = 0
        self._ids = 0
        self._handlers: dict[str, Callable[[Any], None]] = {
            "crew": self._crew,
            "cast": self._cast,
            "trait": self._trait,
            "step": self._step,
            "back": self._back,
            "stop": self._stop,
            "skip": self._skip,
            "switch": self._switch,
            "ask": self._ask,
            "ask_tool": self.authority.ask_tool,
            "gate": self._gate,
            "allow": self.authority.allow,
            "deny": self.authority.deny,
            "sees": self.authority.sees,
            "inside": self._inside,
            "use": self._use,
            "conversation": self.shaping.conversation,
            "window": self.shaping.window,
            "cap": self.shaping.cap,
            "artifact": self.shaping.artifact,
            "decides": self.deciders.decides,
            "does": self.deciders.does,
            "shown": self.shaping.shown,
            "on_error": self._on_error,
            "limit": self._limit,
            "model": self._model,
            "join": self._join,
            "pause": self._pause,
            "within": self._within,
            "rule": self.ruling.rule,
            "group": self.ruling.group,
            "budget": self.ruling.budget,
            "unanswered": self.ruling.unanswered,
            "answers": self.ruling.answers,
            "yes": self.ruling.yes,
            "risk": self.ruling.risk,
            "sure": self.ruling.sure,
            "reach": self.ruling.reach,
        }

    def take(self, statement: ast.AnyStatement) -> None:
        """Takes the next statement."""
        self._handlers[statement.kind](statement)

    # -- agents --------------------------------------------------------------------------------

    def member(self, name: str, words: tuple[Words, ...]) -> Member:
        """The agent of that name, introduced where it is new."""
        if name not in self.members:
            self.members[name] = Member(name, words[:1], self.registry.agents.get(name))
        return self.members[name]

    def workers(self) -> list[str]:
        """The agents that worked last, before a wait if there was one."""
        found = list(dict.fromkeys(a for node in self.last for a in agents_of(node)))
        waited = bool(self.last) and all(node.kind == "wait" for node in self.last)
        return self.before if waited else found

    def phases_of(self, agent: str) -> list[Node]:
        """The phases of an agent, in order; a builder's part counts for each of its agents."""
        return [node for node in self.nodes if agent in agents_of(node)]

    def _crew(self, said: ast.CrewName) -> None:
        self.crew = said.name or self.crew

    def _cast(self, said: ast.Cast) -> None:
        for name in said.agents:
            self.member(name, said.words)
            self.cast.append(name)

    def _trait(self, said: ast.Trait) -> None:
        for name in said.agents:
            self.member(name, said.words).traits.append(said.text)
        if not said.agents:
            self.authority.for_all(said)

    # -- work ----------------------------------------------------------------------------------

    def _step(self, said: ast.Step) -> None:
        if self._goes_on(said):
            for part in said.parts:
                self._add(part, said.words)
            return
        branch = said.parts[0].otherwise
        beside = said.place == "beside" and bool(self.last) and not self._decided(said)
        context = self.before if beside else self.workers()
        if not beside:
            self._blocks += 1
            if not branch:
                self.chain = []
        sources = self.last[0].sources if beside else self._waits(said)
        made: list[Node] = []
        for part in said.parts:
            node = self._work(part, said, sources, context, decided=self._decided(said))
            made.append(node)
        if said.ready is not None:
            self._require(said, made, context)
        if not beside:
            self.before, self.last = context, []
        self.last = [*self.last, *made]
        self.tail = Sources.all([node.name for node in self.last])

    def _goes_on(self, said: ast.Step) -> bool:
        """Whether a step only says more of what its agents are doing anyway."""
        plain = all(ast.Part(agent=part.agent, task=part.task) == part for part in said.parts)
        rules = (said.again, said.after, said.ready, said.start)
        working = [name for node in self.last for name in _at_work(node)]
        return (
            plain
            and not any(rules)
            and {part.agent for part in said.parts} <= {*working}
            and len({*working}) == len(working)
            and self.tail.same(Sources.all([node.name for node in self.last]))
        )

    def _add(self, part: ast.Part, words: tuple[Words, ...]) -> None:
        """Adds to the task of an agent that is at work; it is now the one spoken of last."""
        node = next(node for node in self.last if part.agent in _at_work(node))
        self.last = [*(other for other in self.last if other is not node), node]
        if part.task:
            if node.kind == "agent":
                node.task = f"{node.task} {part.task}".strip()
            self.members[part.agent].tasks.append(part.task)
            self._describe(part.agent, part.task, node.fields.get("use"))
        node.words = (*node.words, *words)

    def _decided(self, said: ast.Step) -> bool:
        """Whether "otherwise" is what a decision just before leaves: the way on."""
        head = self.nodes[-1] if self.nodes else None
        return said.parts[0].otherwise and head is not None and head.kind == "decide"

    def _work(
        self,
        part: ast.Part,
        said: ast.Step,
        sources: Sources,
        context: list[str],
        *,
        decided: bool,
    ) -> Node:
        member = self.member(part.agent, said.words)
        if part.task:
            member.tasks.append(part.task)
        only_if: c.Condition | None = None
        if part.otherwise and not decided:
            only_if = negated(self.chain)
        elif part.only_if is not None:
            only_if = self.condition(part.only_if, context, said.words)
            self.chain.append(only_if)
        count = len(self.phases_of(part.agent))
        name = part.agent if not count else f"{part.agent}_{count + 1}"
        node = Node(
            name,
            "agent",
            Sources(list(sources.of), sources.need),
            said.words,
            self._blocks,
            agent=part.agent,
            task=part.task,
            only_if=only_if,
            needs=tuple(part.needs),
            for_each=self._list(part, said, context) if part.for_each else None,
            named=bool(count),
        )
        self.nodes.append(node)
        return node

    def _list(self, part: ast.Part, said: ast.Step, context: list[str]) -> str | None:
        """The output that a step for each item takes its items from."""
        noun = part.for_each or ""
        maker = part.maker or speaks_of(self.members.values(), noun, context)
        if maker is None or (maker == part.agent and part.maker is None):
            maker = context[-1] if context else None
        if maker is None:
            self.remarks.error(
                "invalid",
                f"nobody is said to make the list of {noun}",
                said.words,
                f"Say it first, e.g. 'The planner lists the {noun}.'",
            )
            return None
        owner = self.member(maker, said.words)
        owner.outputs.setdefault(noun, [])
        if noun not in owner.lists:
            owner.lists.append(noun)
        return f"{maker}.{noun}"

    def _waits(self, said: ast.Step) -> Sources:
        if said.start:
            return Sources()
        if said.after is None:
            return Sources(list(self.tail.of), self.tail.need)
        sources = self._named(said.after)
        return self.tail.plus(sources) if said.then else sources

    def _named(self, waits: ast.Waits) -> Sources:
        """The sources that the words name: agents, or the block before."""
        of = [f"{OF_AGENT}{name}" for name in waits.of]
        if not of and waits.join == "all" and self._gave_way():
            return Sources(list(self.tail.of), self.tail.need)
        if not of:
            of = [node.name for node in self.last] or list(self.tail.of)
        need = {"all": len(of), "any": 1}.get(str(waits.join), waits.join)
        return Sources(of, min(int(need), len(of)))

    def _require(self, said: ast.Step, made: list[Node], context: list[str]) -> None:
        """What a step waits for besides agents: it waits for those who decide it, too."""
        if said.ready is None:
            return
        when = self.condition(said.ready, context, said.words, requirement=True)
        owners = [f"{OF_AGENT}{fact.agent}" for fact in c.facts_in(when) if fact.agent]
        for node in made:
            node.when = when
            if said.after is not None or said.then:
                node.sources = node.sources.plus(Sources.all(owners))
            else:
                node.sources = Sources.all(owners)

    def _join(self, said: ast.Join) -> None:
        sources = self._named(said.waits)
        self.tail = sources

    def _gave_way(self) -> bool:
        """Whether one of those who worked last may be replaced by another agent."""
        return any(node.otherwise not in {None, *HELD} for node in self.last)

    # -- waits ---------------------------------------------------------------------------------

    def _pause(self, said: ast.Pause) -> None:
        if said.wait is not None and self._too_long(said.wait, said.words):
            return
        only_if = None
        if said.only_if is not None:
            only_if = self.condition(said.only_if, self.workers(), said.words)
        if said.before is not None:
            self.member(said.before, said.words)
            self.pauses.append((said, only_if, len(self.nodes)))
            return
        beside = said.place == "beside" and bool(self.last)
        if not beside:
            self._blocks += 1
            self.chain = []
        if only_if is not None:
            self.chain.append(only_if)
        sources = self.last[0].sources if beside else self.tail
        if said.after is not None:
            named = self._named(said.after)
            sources = sources.plus(named) if said.then else named
        node = self.wait(said, only_if, Sources(list(sources.of), sources.need), self._blocks)
        self.nodes.append(node)
        if beside:
            self.last = [*self.last, node]
        else:
            self.before, self.last = self.workers(), [node]
        self.tail = Sources.all([each.name for each in self.last])

    def wait(
        self, said: ast.Pause, only_if: c.Condition | None, sources: Sources, block: int
    ) -> Node:
        """The phase of a wait."""
        fields = {"wait": said.wait} if said.wait is not None else {"wait_until": said.until}
        name = self._fresh("wait")
        return Node(name, "wait", sources, said.words, block, only_if=only_if, fields=fields)

    def _too_long(self, seconds: float, words: tuple[Words, ...]) -> bool:
        """Whether a prompt may not wait so long; then that is said."""
        if seconds <= LONGEST_WAIT:
            return False
        say = f"{duration_words(seconds)} is longer than prompts may wait"
        self.remarks.error("not_offered", say, words, WAIT_REMEDY)
        return True

    def _within(self, said: ast.Within) -> None:
        """How long a step waits for its requirement, and what happens then."""
        if self._too_long(said.wait, said.words):
            return
        waiting = [node for node in self.nodes if self._requires(node, said)]
        if waiting:
            self._bound(waiting, said)
            return
        if said.ready is None or said.agent is None:
            say = f"{said.agent!r} waits for nothing, so it cannot stop waiting"
            if said.ready is not None:
                say = "no step waits for this, so none can stop waiting"
            remedy = "Say first who waits, e.g. 'Once the models are ready, the writer starts.'"
            self.remarks.error("invalid", say, said.words, remedy)
            return
        self.member(said.agent, said.words)
        when = self.condition(said.ready, self.workers(), said.words, requirement=True)
        self.bounds.append((said, when))

    def _requires(self, node: Node, said: ast.Within) -> bool:
        if node.when is None or (said.agent is not None and node.agent != said.agent):
            return False
        return said.ready is None or _same(said.ready, node.when)

    def bound_late(self) -> None:
        """Bounds of steps that are said after them, or that require nothing else."""
        for said, when in self.bounds:
            free = [node for node in self.phases_of(str(said.agent)) if node.when is None]
            if not free:
                say = f"{said.agent!r} has no step that could wait"
                self.remarks.error("invalid", say, said.words, f"Say what {said.agent} does.")
                continue
            free[-1].when = when
            self._bound(free[-1:], said)

    def _bound(self, waiting: list[Node], said: ast.Within) -> None:
        otherwise: str | None = said.otherwise
        if said.takes_over is not None:
            otherwise = self._takes_over(waiting, said, said.takes_over)
            if otherwise is None:
                return
        for node in waiting:
            known = (node.within, node.otherwise)
            if node.within is not None and known != (said.wait, otherwise):
                say = f"two things are said about how long {node.name!r} waits"
                self.contradiction(say, (*said.words, *node.words))
            node.within, node.otherwise = said.wait, otherwise
            node.words = (*node.words, *said.words)

    def _takes_over(self, waiting: list[Node], said: ast.Within, part: ast.Part) -> str | None:
        """The phase that a step gives way to; it starts only then."""
        if len(waiting) > 1 or self.phases_of(part.agent) or part.agent == waiting[0].agent:
            say = f"{part.agent!r} cannot take over here"
            remedy = "One agent can take over from one other, and it has no step of its own before."
            self.remarks.error("invalid", say, said.words, remedy)
            return None
        member = self.member(part.agent, said.words)
        if part.task:
            member.tasks.append(part.task)
        self._blocks += 1
        node = Node(
            part.agent,
            "agent",
            Sources(),
            said.words,
            self._blocks,
            agent=part.agent,
            task=part.task,
            sent=True,
        )
        self.nodes.append(node)
        if waiting[0].name in self.tail.of:  # one of the two is done, never both
            self.tail = Sources([*self.tail.of, node.name], self.tail.need)
        return node.name

    # -- decisions and questions ---------------------------------------------------------------

    def _fresh(self, kind: str) -> str:
        self._ids += 1
        return f"#{kind}{self._ids}"

    def _put(self, node: Node) -> None:
        self.nodes.append(node)
        self.tail = Sources.all([node.name])

    def _back(self, said: ast.Back) -> None:
        when = self.condition(said.condition, self.workers(), said.words)
        target = self._target(said)
        if target is None:
            return
        at_most, otherwise = said.at_most, said.otherwise
        if at_most is None:
            at_most, otherwise = ASSUMED_ROUNDS, otherwise or "ask_human"
            self.remarks.warning(
                "assumed",
                f"no bound is said for going back to {target}: {ASSUMED_ROUNDS} times is assumed",
                said.words,
                f"Say it, e.g. 'at most {ASSUMED_ROUNDS} times, otherwise ask me'.",
            )
        fields: dict[str, Any] = {"if_": when, "go": target, "at_most": at_most}
        if otherwise not in {None, "next"}:
            fields["otherwise"] = otherwise
        self._decide(fields, said.words)
        self.chain = [when]

    def _target(self, said: ast.Back) -> str | None:
        """The phase that a loop goes back to."""
        names = [said.to] if said.to else list(said.group)
        for name in names:
            self.member(name, said.words)
        found = [self.phases_of(name)[-1] for name in names if self.phases_of(name)]
        if found:
            first = min(found, key=self.nodes.index)
            beside = [node.agent for node in found if node.block == first.block]
            if len(beside) > 1:
                self.remarks.error(
                    "not_understood",
                    f"a loop goes back to one agent, and {listed(beside)} work side by side",
                    said.words,
                    "Name the agent that works before them, or let each have a loop of its own.",
                )
                return None
            return said.to if first.kind == "use" and said.to else first.name
        if names:
            self.remarks.error(
                "invalid",
                f"{listed(names)} did not work before: there is nothing to go back to",
                said.words,
                "Say first what it does.",
            )
            return None
        worked = [node for node in self.nodes if node.kind == "agent"]
        if not worked:
            say = "there is nothing yet that could be repeated"
            self.remarks.error("invalid", say, said.words, "Say first who does what.")
            return None
        target = worked[-2] if len(worked) > 1 else worked[-1]
        self.remarks.warning(
            "assumed",
            f"it is not said who repeats: {target.name} is assumed",
            said.words,
            f"Say it, e.g. 'back to the {target.agent.replace('_', ' ')}'.",
        )
        return target.name

    def _decide(self, fields: dict[str, Any], words: tuple[Words, ...]) -> None:
        self._blocks += 1
        sources = Sources(list(self.tail.of), self.tail.need)
        name = self._fresh("decide")
        self._put(Node(name, "decide", sources, words, self._blocks, fields=fields))

    def _stop(self, said: ast.Stop) -> None:
        if said.condition is None:
            otherwise = negated(self.chain)
            if otherwise is None:
                say = "the prompt says 'stop' without a condition"
                self.remarks.error("invalid", say, said.words, "Say when, e.g. 'if it is spam'.")
                return
            when = otherwise
        else:
            when = self.condition(said.condition, self.workers(), said.words)
        self._decide({"if_": when, "go": "end"}, said.words)
        self.chain = [when]

    def _skip(self, said: ast.Skip) -> None:
        self.member(said.agent, said.words)
        worked = self.phases_of(said.agent)
        context = self.workers()
        if worked and said.agent in context:
            context = self.before
        when = self.condition(said.condition, context, said.words)
        self.skips.append((said.agent, c.Not(of=when), len(self.nodes)))
        self.note(said.agent, f"skipped if {c.render_condition(when)}", said.words)

    def _switch(self, said: ast.Switch) -> None:
        for name in said.agents:
            state = "on" if said.enabled else "off"
            self.setting(name, "enabled", said.enabled, f"switched {state}", said.words)

    def _ask(self, said: ast.Ask) -> None:
        if said.before is not None:
            self.member(said.before, said.words)
            self.questions.append((said, len(self.nodes)))
            return
        only_if: c.Condition | None = None
        if said.otherwise:
            only_if = negated(self.chain)
        elif said.only_if is not None:
            only_if = self.condition(said.only_if, self.workers(), said.words)
            self.chain = [*self.chain, only_if]
        self._blocks += 1
        sources = Sources(list(self.tail.of), self.tail.need)
        if said.after:
            sources = Sources.all([f"{OF_AGENT}{said.after}"])
        node = Node(
            self._fresh("ask"),
            "ask",
            sources,
            said.words,
            self._blocks,
            only_if=only_if,
            fields=self.question(said),
        )
        self._put(node)

    def question(self, said: ast.Ask) -> dict[str, Any]:
        """The fields of a question."""
        case = phrases.condition(said.only_if) if said.only_if is not None else ""
        fields: dict[str, Any] = {"ask": question_text(said.question, case)}
        if said.options:
            fields["options"] = said.options
        if said.reject_to is not None:
            self.member(said.reject_to, said.words)
            fields["options"] = ("approve", f"{OF_AGENT}{said.reject_to}")
        return fields

    def _gate(self, said: ast.Gate) -> None:
        others = self.deciders.sure(said) if said.agents else ()
        if others or not said.agents:
            self.gates.append(said.model_copy(update={"agents": others}))

    # -- settings ------------------------------------------------------------------------------

    def note(self, agent: str, text: str, words: tuple[Words, ...]) -> None:
        """Remembers where something about an agent is said."""
        self.members[agent].settings.append((text, words))

    def setting(
        self, agent: str, key: str, value: Any, text: str, words: tuple[Words, ...]
    ) -> None:
        """Sets a field of an agent, unless the registry says otherwise; two values are a fault."""
        member = self.member(agent, words)
        if self.fixed(agent, key, value, words):
            return
        if key in member.fields and member.fields[key] != value:
            first = next((w for said, w in member.settings if said.startswith(f"{key}:")), ())
            self.contradiction(f"two things are said about {key} of {agent!r}", (*words, *first))
        member.fields[key] = value
        member.settings.append((f"{key}: {text}", words))

    def fixed(self, agent: str, key: str, value: Any, words: tuple[Words, ...]) -> bool:
        """Whether the registry says otherwise of its own agent; then that holds, and is said."""
        offered = self.members[agent].offered
        if offered is None or key not in offered.model_fields_set:
            return False
        known = getattr(offered, key)
        if known == value or (key == "enabled" and not value):  # less is always possible
            return False
        say = f"the registry sets {key!r} of its agent {agent!r}, and a prompt cannot change it"
        self.remarks.error("not_offered", say, words, "Leave it out, or change the registry.")
        return True

    def contradiction(self, say: str, words: Sequence[Words]) -> None:
        """Two sentences that cannot both hold; both places are named."""
        places = listed(self.remarks.place(w) for w in sorted(words, key=lambda w: w.start))
        self.remarks.error("contradiction", f"{say}: {places}", words, "Keep one of the two.")

    def at_odds(self, say: str, words: Sequence[Words], remedy: str) -> None:
        """Two sentences of which the stricter holds; both places are named."""
        places = listed(self.remarks.place(w) for w in sorted(words, key=lambda w: w.start))
        self.remarks.warning("contradiction", f"{say}: {places}", words, remedy)

    def _inside(self, said: ast.Inside) -> None:
        if not self._may_build(said.use, "agent", said.words):
            return
        member = self.member(said.agent, said.words)
        pattern = PatternUse.model_validate({"use": said.use, "with": dict(said.options)})
        if self.fixed(said.agent, "pattern", pattern, said.words):
            return
        member.fields["pattern"] = pattern
        self.note(said.agent, f"works by {said.use}", said.words)

    def _may_build(self, name: str, kind: str, words: tuple[Words, ...]) -> bool:
        offered = self.registry.builders
        if offered is not None and name not in offered:
            there = f"It offers: {', '.join(offered)}." if offered else "It offers none."
            say = f"the registry does not offer the builder {name!r} to prompts"
            self.remarks.error("not_offered", say, words, there)
            return False
        try:
            builder = find_builder(name)
        except LookupError as error:
            self.remarks.error("invalid", f"no builder is called {name!r}", words, str(error))
            return False
        if builder.kind != kind:
            where = "an agent" if builder.kind == "agent" else "the flow"
            self.remarks.error("invalid", f"the builder {name!r} is for {where}", words)
            return False
        return True

    def _use(self, said: ast.Use) -> None:
        if not self._may_build(said.use, "flow", said.words):
            return
        for name in said.agents:
            self.member(name, said.words)
        self._take_in(said)
        self._blocks += 1
        count = sum(node.fields.get("use") == said.use for node in self.nodes)
        name = said.use if not count else f"{said.use}_{count + 1}"
        node = Node(
            name,
            "use",
            Sources(list(self.tail.of), self.tail.need),
            said.words,
            self._blocks,
            agents=said.agents,
            fields={"use": said.use, "with_": dict(said.options)},
            named=bool(count),
        )
        self.before, self.last = self.workers(), [node]
        self._put(node)

    def _take_in(self, said: ast.Use) -> None:
        """Takes what agents do who were spoken of before a shape as their part in it.

        `Billing answers questions about invoices. … The router sends each message to billing or …`
        """
        shapes = said.use in SHAPES and bool(self.nodes)
        if not shapes or not all(_plain(node) and node.agent in said.agents for node in self.nodes):
            return
        for node in self.nodes:
            self._describe(node.agent, node.task, said.use)
        self.nodes.clear()
        self.last, self.before, self.tail = [], [], Sources()

    def _describe(self, agent: str, task: str, use: Any) -> None:
        """Says what an agent is for where a router chooses by it."""
        fields = self.members[agent].fields
        if use == "hub" and task and "description" not in fields:
            fields["description"] = phrases.sentence(task)

    def _on_error(self, said: ast.OnError) -> None:
        for name in said.agents or list(self.members):
            self.setting(name, "on_error", said.policy, said.policy, said.words)

    def _limit(self, said: ast.Limit) -> None:
        known = self.limits.get(said.what)
        if known is not None and known[0] != said.most:
            say = f"two bounds are said for {said.what}: {known[0]} and {said.most}"
            self.contradiction(say, (*known[1], *said.words))
        most = getattr(self.registry.limits, said.what)
        if said.most > most:
            say = f"{said.most:,} {said.what} are more than the registry's {most:,}, which holds"
            self.remarks.warning("not_offered", say, said.words)
        self.limits[said.what] = (min(said.most, most), said.words)

    def _model(self, said: ast.UseModel) -> None:
        offered = [m for m in (self.registry.model, *self.registry.models) if m]
        wanted = said.model.strip().strip("`'\"").casefold()
        fits = [m for m in offered if wanted in {m.casefold(), m.partition(":")[2].casefold()}]
        if not fits:
            near = suggestion(said.model, offered)
            there = f"It offers: {', '.join(offered)}." if offered else "It offers none."
            self.remarks.error(
                "not_offered",
                f"the registry does not offer the model {said.model!r}",
                said.words,
                did_you_mean(said.model, offered, there) if near else there,
            )
            return
        if not said.agents:
            self.model = fits[0]
        for name in said.agents:
            self.setting(name, "model", fits[0], fits[0], said.words)

    # -- conditions ----------------------------------------------------------------------------

    def condition(
        self,
        said: ast.Cond,
        context: list[str],
        words: tuple[Words, ...],
        *,
        requirement: bool = False,
    ) -> c.Condition:
        """A condition with those who decide it, who get what they must be able to set.

        Args:
            said: The condition as it was said.
            context: The agents that worked just before.
            words: Where it was said.
            requirement: Whether it is waited for: then whoever's task speaks of the thing decides.
        """
        match said:
            case ast.Not():
                inner = self.condition(said.of, context, words, requirement=requirement)
                return inner.of if isinstance(inner, c.Not) else c.Not(of=inner)
            case ast.Both() | ast.Either():
                parts = tuple(
                    self.condition(part, context, words, requirement=requirement)
                    for part in said.of
                )
                return c.AllOf(of=parts) if isinstance(said, ast.Both) else c.AnyOf(of=parts)
            case ast.Fact():
                return self._fact(said, context, words, requirement)

    def _fact(
        self, said: ast.Fact, context: list[str], words: tuple[Words, ...], requirement: bool
    ) -> c.Condition:
        meant = self.deciders.meant(said, words)
        if meant is not None:
            return meant
        said = self._as_before(said)
        owner = said.agent
        if owner is None and not requirement:
            owner = self._decided_before(said)
        if owner is None and (requirement or len(context) > 1):
            among = self.members.values() if requirement else map(self.members.__getitem__, context)
            owner = speaks_of(among, said.about, context)
        if owner is None and context:
            owner = context[-1]
        if owner is None:
            self.remarks.error(
                "invalid",
                f"nobody has worked yet who could say whether {said.name!r} holds",
                words,
                "Name the agent that decides it, e.g. 'if the triager says that …'.",
            )
            return c.Fact(name=said.name, operator=said.operator, value=said.value)
        member = self.member(owner, words)
        if said.operator is None:
            if said.name not in member.flags and said.name not in member.outputs:
                member.flags.append(said.name)
        else:
            value: Json = said.value
            values: list[Json] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
            member.outputs.setdefault(said.name, []).extend(values)
        return c.Fact(agent=owner, name=said.name, operator=said.operator, value=said.value)

    def _as_before(self, said: ast.Fact) -> ast.Fact:
        """`If the intent is booking, … If it is a cancellation, …` asks for the intent again."""
        asked = c.facts_in(self.chain[-1]) if said.name == "kind" and self.chain else ()
        known = next((fact for fact in asked if fact.operator == "=="), None)
        if known is None or said.operator != "==" or said.agent not in {None, known.agent}:
            return said
        return said.model_copy(update={"name": known.name, "agent": known.agent})

    def _decided_before(self, said: ast.Fact) -> str | None:
        """Who decides what the branch said just before hangs on, where it is asked once more."""
        waits = [node.only_if for node in self.last if node.kind == "wait"]
        said_last = [*self.chain, *(when for when in waits if when is not None)]
        known = [fact for when in said_last for fact in c.facts_in(when)]
        return next((fact.agent for fact in known if fact.name == said.name), None)


def negated(conditions: Sequence[c.Condition]) -> c.Condition | None:
    """What holds where none of some conditions does; none where there are none."""
    if not conditions:
        return None
    if len(conditions) > 1:
        return c.Not(of=c.AnyOf(of=tuple(conditions)))
    return conditions[0].of if isinstance(conditions[0], c.Not) else c.Not(of=conditions[0])


def _same(said: ast.Cond, when: c.Condition) -> bool:
    """Whether words may mean a condition that was said before: `they are not ready`."""
    match said, when:
        case ast.Fact(), c.Fact():
            name = said.name == when.name or (
                not said.about and when.name.endswith(f"_{said.name}") and said.operator is None
            )
            value = (said.operator, said.value) == (when.operator, when.value)
            return name and value and said.agent in {None, when.agent}
        case ast.Not(), c.Not():
            return _same(said.of, when.of)
        case ast.Both(), c.AllOf():
            return len(said.of) == len(when.of) and all(map(_same, said.of, when.of))
        case ast.Either(), c.AnyOf():
            return len(said.of) == len(when.of) and all(map(_same, said.of, when.of))
        case _:
            return False


def _plain(node: Node) -> bool:
    """Whether a phase is a turn that nothing else is said of."""
    bare = Node(node.name, "agent", node.sources, node.words, node.block)
    bare.agent, bare.agents, bare.task = node.agent, node.agents, node.task
    bare.named = node.named
    return node == bare


def _at_work(node: Node) -> tuple[str, ...]:
    """The agents of whom more may be said while a phase is the last: of a part, all that it has."""
    return node.agents if node.kind == "use" else (node.agent,)


def agents_of(node: Node) -> Iterator[str]:
    """The agents that work in a phase; the one that ends a builder's part comes last."""
    if node.kind == "agent":
        yield node.agent
    elif node.kind == "use":
        yield from (*node.agents[1:], *node.agents[:1])

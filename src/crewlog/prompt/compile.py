"""`compile_prompt`: a prompt to a definition, with its provenance and everything to know about it.

Deterministic and offline: the grammar reads. `crewlog.prompt.llm` is the other reader.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from crewlog.authority.rules import rule_words
from crewlog.authority.rules import rules_of as call_rules
from crewlog.definition.conditions import AllOf, Condition, Fact, Not
from crewlog.definition.findings import Finding, Path, listed
from crewlog.definition.model import (
    CrewDefinition,
    ParallelPhase,
    Rule,
)
from crewlog.definition.reaching import servers_of
from crewlog.definition.validate import all_findings
from crewlog.graph.lower import lower_checked, requirements, rules_of
from crewlog.graph.plan import GraphPlan
from crewlog.prompt.assemble import OF_AGENT, Assembly, agents_of
from crewlog.prompt.ast import Ask, PromptAst, Words
from crewlog.prompt.authority import Granted
from crewlog.prompt.compiled import CompiledPrompt, Provenance, Remark, What
from crewlog.prompt.draft import Node, Sources, flow_of
from crewlog.prompt.names import fitting_name, with_bare_flags
from crewlog.prompt.registry import Registry
from crewlog.prompt.remarks import Remarks
from crewlog.prompt.standing import with_standing

LARGEST_PROMPT = 200_000
"""Characters of a prompt."""
_HALF_CHARACTERS = re.compile(r"[\ud800-\udfff]")
"""Lone surrogates, which no file and no message can hold."""
_LONGEST_NAME = 64


def compile_prompt(
    text: str,
    registry: Registry | None = None,
    *,
    file: str = "prompt",
    previous: CrewDefinition | None = None,
) -> CompiledPrompt:
    """Compiles a prompt with the grammar.

    Args:
        text: The prompt: plain English, or Markdown.
        registry: What it may use; by default no tools, and no model.
        file: What to call it in messages.
        previous: The crew of an earlier version of the prompt: what did not change keeps its names.

    Returns:
        What was understood. It never raises: what is wrong is in `remarks`.
    """
    from crewlog.prompt.grammar import read  # noqa: PLC0415 - its tables are only needed here

    offered = registry or Registry()
    text = _HALF_CHARACTERS.sub("\ufffd", text)
    found = unreadable(text, file)
    if found is not None:
        return found
    reading = read(text, offered, file)
    return compiled(
        text, reading.ast, offered, file=file, remarks=reading.remarks, previous=previous
    )


def unreadable(text: str, file: str) -> CompiledPrompt | None:
    """What is said of a prompt that no reader looks at: an empty one, one that is too large."""
    remarks = Remarks(text, file)
    if not text.strip():
        remarks.error(
            "empty",
            "the prompt is empty",
            (),
            "Say who does what, e.g. 'The writer drafts the notes, then the checker reviews them.'",
        )
    elif len(text) > LARGEST_PROMPT:
        remarks.error(
            "too_large",
            f"the prompt has {len(text):,} characters; at most {LARGEST_PROMPT:,} are read",
            (),
            "A prompt says who works with whom; give the material itself as the run's input.",
        )
    else:
        return None
    return CompiledPrompt(text, file, "grammar", PromptAst(), None, remarks.all())


def compiled(
    text: str,
    tree: PromptAst,
    registry: Registry,
    *,
    file: str = "prompt",
    reader: Literal["grammar", "llm"] = "grammar",
    remarks: Sequence[Remark] = (),
    previous: CrewDefinition | None = None,
    rounds: int = 0,
) -> CompiledPrompt:
    """Makes a definition of what a reader understood.

    Args:
        text: The prompt.
        tree: What it says.
        registry: What it may use.
        file: What to call it in messages.
        reader: Who read it.
        remarks: What the reader remarked.
        previous: The crew of an earlier version of the prompt.
        rounds: How often a model had to repair what it read.
    """
    said = Remarks(text, file)
    crew = Assembly(registry, said)
    for statement in tree.statements:
        crew.take(statement)
    finish = _Finish(crew, registry, said)
    definition, provenance = finish.definition()
    plan = finish.plan
    if definition is not None and previous is not None:
        from crewlog.prompt.edits import keep_names  # noqa: PLC0415 - only for edits

        definition = keep_names(previous, definition)
        plan = lower_checked(definition) if plan is not None else None
    found = tuple(
        sorted((*remarks, *said.all()), key=lambda r: r.words[0].start if r.words else -1)
    )
    sound = plan is not None and not any(remark.error for remark in found)
    needs = tuple(requirements(plan)) if sound and plan is not None else ()
    return CompiledPrompt(text, file, reader, tree, definition, found, provenance, needs, rounds)


class _Finish:
    """Turns a draft into a definition: sources, gates, names, the flow, and what was said where."""

    def __init__(self, crew: Assembly, registry: Registry, remarks: Remarks) -> None:
        self.crew = crew
        self.registry = registry
        self.remarks = remarks
        self.nodes = crew.nodes
        self.findings: list[Finding] = []
        """What is found in the definition; looked for once, since it takes the longest."""
        self.ruled: tuple[Rule, ...] = ()
        """The rules that the prompt says, as the definition has them."""
        self.plan: GraphPlan | None = None
        """The plan of a definition without errors."""

    def definition(self) -> tuple[CrewDefinition | None, tuple[Provenance, ...]]:
        self._take_cast()
        if not self.crew.members:
            self.nodes.clear()  # questions and waits with nobody who works
        if not self.nodes:
            if not self.remarks.all():
                self.remarks.error(
                    "invalid",
                    "the prompt does not say who does what",
                    (),
                    "For example: 'The writer drafts the notes, then the checker reviews them.'",
                )
            return None, ()
        self._skip()
        self.crew.bound_late()
        self._find_sources()
        self._put_waits_and_questions()
        self._gates()
        self.crew.deciders.tell()
        granted = self.crew.authority.settle()
        self._leave_out_idle()
        self._name()
        tasks = self._tasks()
        items, places = flow_of(self.nodes, tasks=bool(tasks))
        try:
            definition = self._build(items, granted, tasks)
        except ValueError as error:
            self.remarks.error("invalid", f"the prompt makes no crew: {error}")
            return None, ()
        if not any(each.severity == "error" for each in self.findings):
            self.plan = lower_checked(definition)
        provenance = self._provenance(definition, granted, places)
        self._tell(provenance)
        return definition, provenance

    # -- the draft, finished -------------------------------------------------------------------

    def _take_cast(self) -> None:
        """Agents that are only introduced work in the order in which they are named."""
        if self.nodes:
            return
        for name in dict.fromkeys(self.crew.cast):
            sources = Sources.all([self.nodes[-1].name] if self.nodes else [])
            words = self.crew.members[name].words
            self.nodes.append(Node(name, "agent", sources, words, len(self.nodes), agent=name))

    def _skip(self) -> None:
        for agent, only_if, at in self.crew.skips:
            phases = self.crew.phases_of(agent)
            later = [node for node in phases if self.nodes.index(node) >= at]
            for node in (later or phases)[:1]:
                if node.only_if is None or node.only_if == only_if:
                    node.only_if = only_if
                else:
                    node.only_if = AllOf(of=(node.only_if, only_if))

    def _find_sources(self) -> None:
        for i, node in enumerate(self.nodes):
            found: list[str] = []
            for source in node.sources.of:
                if source.startswith(OF_AGENT):
                    name = self._phase_of(source[len(OF_AGENT) :], i, node)
                    if name is not None and name != node.name:
                        found.append(name)
                else:
                    found.append(source)
            every = node.sources.need >= len(node.sources.of)
            of = list(dict.fromkeys(found))
            node.sources = Sources(of, len(of) if every else min(node.sources.need, len(of)))

    def _phase_of(self, agent: str, before: int, node: Node) -> str | None:
        """The phase of an agent that is meant: the last one before, or else the first one."""
        phases = self.crew.phases_of(agent)
        if not phases:
            say = f"{node.name!r} waits for {agent!r}, which is not said to do anything"
            self.remarks.error("invalid", say, node.words, f"Say what {agent} does.")
            return None
        earlier = [phase for phase in phases if self.nodes.index(phase) < before]
        return (earlier[-1] if earlier else phases[0]).name

    def _put_waits_and_questions(self) -> None:
        """Those that are said to come before a phase; a wait comes before its question."""
        waits = [
            (said, only_if, self._target(str(said.before), at, "it is waited", said.words))
            for said, only_if, at in self.crew.pauses
        ]
        questions = [
            (said, self._target(str(said.before), at, "a question is asked", said.words))
            for said, at in self.crew.questions
        ]
        for pause, only_if, target in waits:
            if target is not None:
                block = -1 - len(self.nodes)
                node = self.crew.wait(pause, only_if or target.only_if, target.sources, block)
                self._insert_before(node, target)
        for ask, target in questions:
            if target is not None:
                self._put_before(ask, target)

    def _target(self, agent: str, at: int, what: str, words: tuple[Words, ...]) -> Node | None:
        """The phase of an agent before which something happens, said when there were `at` nodes."""
        phases = self.crew.phases_of(agent)
        if not phases:
            say = f"{what} before {agent!r}, which does nothing"
            self.remarks.error("invalid", say, words, f"Say what {agent} does.")
            return None
        later = [node for node in phases if self.nodes.index(node) >= at]
        return later[0] if later and len(phases) > 1 else phases[0]

    def _insert_before(self, node: Node, target: Node) -> None:
        """Puts a phase before another, in whose place it starts."""
        node.sent, target.sent = target.sent, False
        for other in self.nodes:
            if node.sent and other.otherwise == target.name:
                other.otherwise = node.name
        target.sources = Sources.all([node.name])
        first = next(i for i, each in enumerate(self.nodes) if each.block == target.block)
        self.nodes.insert(first, node)

    def _put_before(self, said: Ask, target: Node) -> None:
        name = fitting_name(f"before_{target.name}")
        if any(node.name == name for node in self.nodes):
            return  # said twice
        fields = self.crew.question(said)
        ask = Node(
            name,
            "ask",
            target.sources,
            said.words,
            -1 - len(self.nodes),
            only_if=target.only_if,
            fields=fields,
            named=True,
        )
        self._insert_before(ask, target)

    def _gates(self) -> None:
        gated: dict[str, str] = {}
        for gate in self.crew.gates:
            agents = gate.agents or tuple(
                dict.fromkeys(a for node in self.nodes for a in agents_of(node))
            )
            for agent in agents:
                member = self.crew.member(agent, gate.words)
                key = "unsure" if gate.below is None else "confidence"
                member.outputs.setdefault(key, [] if gate.below is None else [gate.below])
                only_if: Condition = Fact(agent=agent, name="unsure")
                if gate.below is not None:
                    sure = Fact(agent=agent, name=key, operator=">=", value=gate.below)
                    only_if = Not(of=sure)
                for node in self.crew.phases_of(agent):
                    if node.kind == "agent" and node.name not in gated:
                        gated[node.name] = f"gate_{node.name}"
                        self._put_gate(node, only_if, gate.words)
        for node in self.nodes:
            if not node.gate:
                of = [gated.get(name, name) for name in node.sources.of]
                node.sources = Sources(of, node.sources.need)

    def _put_gate(self, target: Node, only_if: Condition, words: tuple[Words, ...]) -> None:
        who = target.agent.replace("_", " ")
        ask = Node(
            fitting_name(f"gate_{target.name}"),
            "ask",
            Sources.all([target.name]),
            words,
            target.block,
            only_if=only_if,
            fields={
                "ask": f"The {who} is unsure. Go on?",
                "options": ("go on", target.name, "stop"),
            },
            named=True,
            gate=True,
        )
        block = [i for i, node in enumerate(self.nodes) if node.block == target.block]
        self.nodes.insert(block[-1] + 1, ask)

    def _leave_out_idle(self) -> None:
        """Agents that are spoken of and never work are left out, and that is said."""
        working = {agent for node in self.nodes for agent in agents_of(node)}
        for name in [name for name in self.crew.members if name not in working]:
            member = self.crew.members.pop(name)
            self.remarks.warning(
                "unused",
                f"{name!r} is spoken of, but not said to do anything: it is left out",
                member.words,
                f"Say what it does, e.g. 'Then the {name.replace('_', ' ')} …'.",
            )

    def _name(self) -> None:
        """Names decisions and questions as the flow will, where nothing is said."""
        names: dict[str, str] = {}
        taken = {node.name for node in self.nodes if not node.name.startswith("#")}
        questions = waits = 0
        for node in self.nodes:
            node.sources.of = [names.get(name, name) for name in node.sources.of]
        for node in self.nodes:
            node.sources.of = [names.get(name, name) for name in node.sources.of]
            if not node.name.startswith("#"):
                continue
            if node.kind == "ask":
                questions += 1
                base = f"ask_{questions}"
            elif node.kind == "wait":
                waits += 1
                base = f"wait_{waits}"
            else:
                base = "after_" + ("_".join(node.sources.of) or "start")
            name, count = base[:64], 1
            while name in taken:
                count += 1
                name = f"{base[:60]}_{count}"
            taken.add(name)
            names[node.name] = name
            node.name = name
        for node in self.nodes:
            node.sources.of = [names.get(name, name) for name in node.sources.of]
            node.otherwise = names.get(str(node.otherwise), node.otherwise)
            options: Sequence[str] = node.fields.get("options", ())
            if options:
                node.fields["options"] = tuple(self._option(option, node) for option in options)

    def _option(self, option: str, node: Node) -> str:
        if not option.startswith(OF_AGENT):
            return option
        found = self._phase_of(option[len(OF_AGENT) :], self.nodes.index(node), node)
        return found or "reject"

    def _tasks(self) -> set[str]:
        """The agents whose phases have their own tasks: those with several, or the registry's."""
        found: set[str] = set()
        phases = Counter(node.agent for node in self.nodes if node.kind == "agent")
        for name, member in self.crew.members.items():
            if phases[name] > 1 or member.offered is not None:
                found.add(name)
        for node in self.nodes:
            if node.kind == "agent" and node.agent not in found:
                node.task = ""
        return found

    # -- the definition ------------------------------------------------------------------------

    def _build(
        self, items: Sequence[Any], granted: Granted, tasks: Iterable[str]
    ) -> CrewDefinition:
        crew = self.crew
        apart = set(tasks)
        agents = {name: m.definition(name in apart) for name, m in crew.members.items()}
        gone = {*crew.members}
        offered = self.registry.tools
        limits = self.registry.limits.model_copy(
            update={
                what: most
                for what, (most, _) in (*crew.limits.items(), *crew.ruling.budgets.items())
            }
        )
        tools = {tool: offered[tool].definition() for tool in crew.authority.used(granted)}
        for tool, hosts in crew.ruling.hosts.items():
            tools[tool] = tools[tool].model_copy(update={"hosts": hosts})
        definition = CrewDefinition(
            crew=crew.crew,
            model=crew.model or self.registry.model,
            agents=agents,
            tools=tools,
            mcp=servers_of((tool.run for tool in tools.values()), self.registry.mcp),
            flow=tuple(items),
            permissions={
                tool: tuple(name for name in named if name in gone)
                for tool, named in granted.permissions.items()
            },
            approvals={
                tool: named if named is None else tuple(name for name in named if name in gone)
                for tool, named in granted.approvals.items()
            },
            groups={
                group: tuple(name for name in named if name in gone)
                for group, named in crew.ruling.groups.items()
            },
            rules=tuple(crew.ruling.rules),
            flags=dict(crew.ruling.flags),
            logs={
                log: said.model_copy(
                    update={"readers": tuple(n for n in said.readers or () if n in gone)}
                )
                for log, said in granted.logs.items()
                if log in gone
            },
            interrupts=crew.ruling.interrupts(),
            limits=limits,
            approval=self.registry.approval,
            **crew.shaping.fields(),
        )
        definition = with_bare_flags(definition)
        self.ruled = definition.rules
        definition = with_standing(definition, self.registry.groups, self.registry.rules)
        return self._with_merges(definition)

    def _with_merges(self, definition: CrewDefinition) -> CrewDefinition:
        """The definition with a rule for each key that several steps may set at once."""
        found = all_findings(definition)
        unruled = dict.fromkeys(each.key for each in found if each.key)
        # A rule mends exactly the fault that asks for it. And that somebody may call what a group
        # may, and is then excepted, is how people say it: what contradicts itself is told apart.
        self.findings = [each for each in found if not each.key and not _is_excepted(each)]
        for key in unruled:
            words = next((m.words for n, m in self.crew.members.items() if key.startswith(n)), ())
            self.remarks.warning(
                "assumed",
                f"several steps may set {key!r} at the same time: the last one is assumed to count",
                words,
                f"In the definition, merge: {{{key}: append}} would make a list of them.",
            )
        return definition.model_copy(update={"merge": dict.fromkeys(unruled, "last")})

    def _provenance(
        self,
        definition: CrewDefinition,
        granted: Granted,
        places: dict[str, tuple[int, ...]],
    ) -> tuple[Provenance, ...]:
        found: list[Provenance] = []
        for name, member in self.crew.members.items():
            path: Path = ("agents", name)
            if member.words:
                found.append(Provenance("agent", name, path, member.words))
            for text, words in member.settings:
                seen = text.startswith(("reads:", "writes:"))
                what: What = "visibility" if seen else "setting"
                found.append(Provenance(what, f"{name} {text}", path, words))
        nodes = self.plan.nodes.items() if self.plan is not None else ()
        rules = {str(name): "; ".join(rules_of(name, node)) for name, node in nodes}
        for node in self.nodes:
            path = _path(definition, places[node.name])
            text = rules.get(node.name, node.name)
            if node.kind == "decide":
                found.append(Provenance("decision", text, path, node.words))
            elif node.kind == "ask":
                found.append(
                    Provenance("gate" if node.gate else "question", text, path, node.words)
                )
            else:
                found.append(Provenance("phase", node.name, path, node.words))
                if node.sources.of or node.when is not None:
                    found.append(Provenance("dependency", text, path, node.words))
        for tool, words in granted.words.items():
            text = _rights(tool, definition)
            key = "permissions" if tool in definition.permissions else "tools"
            found.append(Provenance("permission", text, (key, tool), words))
        found += self._of_rules(definition)
        ruling = self.crew.ruling
        for bound, (most, words) in (*self.crew.limits.items(), *ruling.budgets.items()):
            found.append(Provenance("limit", f"{bound}: {most:g}", ("limits", bound), words))
        return tuple(found)

    def _of_rules(self, definition: CrewDefinition) -> Iterator[Provenance]:
        """The rules over calls, the groups, and what is said of questions."""
        ruling = self.crew.ruling
        calls = {rule.place: rule_words(rule) for rule in call_rules(definition)}
        for rule, said in zip(self.ruled, ruling.places, strict=True):
            if rule in definition.rules:
                at = definition.rules.index(rule)
                yield Provenance("permission", calls.get(at, ""), ("rules", at), said)
        for text, path, words in (*ruling.settings(), *self.crew.shaping.settings()):
            yield Provenance("setting", text, path, words)

    def _tell(self, provenance: Sequence[Provenance]) -> None:
        for finding in self.findings:
            words = _words_for(finding, provenance)
            remedy = finding.remedy
            if finding.path[:1] == ("agents",) and finding.path[-1:] == ("model",):
                words, remedy = (), "Name one: --model, or `model:` in the registry."
            elif finding.path[:1] == ("tools",) and finding.severity == "warning":
                remedy = "Say who may use it, or leave it out."
            put = self.remarks.error if finding.severity == "error" else self.remarks.warning
            put("invalid", finding.message, words, remedy)


def _words_for(finding: Finding, provenance: Sequence[Provenance]) -> tuple[Words, ...]:
    """Where the prompt says what a finding is about: the longest path that they share."""
    best = 0
    words: tuple[Words, ...] = ()
    for part in provenance:
        shared = 0
        for a, b in zip(part.path, finding.path, strict=False):
            if a != b:
                break
            shared += 1
        if shared > best:
            best, words = shared, part.words
    return words if best > 1 else ()


def _path(definition: CrewDefinition, place: tuple[int, ...]) -> Path:
    item = definition.flow[place[0]]
    if len(place) == 1:
        return ("flow", place[0])
    if isinstance(item, ParallelPhase):
        return ("flow", place[0], "parallel", -1 - place[1] if place[1] < 0 else place[1])
    return ("flow", *place)


def _rights(tool: str, definition: CrewDefinition) -> str:
    having = [
        name for name, agent in definition.agents.items() if agent.tools and tool in agent.tools
    ]
    allowed = definition.permissions.get(tool)
    if allowed is not None:
        having = [name for name in having if name in allowed]
    text = f"{tool}: {listed(having) if having else 'nobody'}"
    if tool in definition.approvals:
        whom = definition.approvals[tool]
        text += ", after approval" if whom is None else f", after approval for {listed(whom)}"
    return text


def _is_excepted(finding: Finding) -> bool:
    """Whether it is the warning that an agent has a tool which it may not call."""
    of_agents = finding.path[:1] == ("agents",) and finding.path[2:3] == ("tools",)
    return of_agents and finding.severity == "warning"

"""What the clauses of a prompt became in its crew: a line for each part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from crewlog.authority.authority_text import interrupt_lines
from crewlog.authority.permissions import definition_permissions, permission_text
from crewlog.definition.builders import find_builder
from crewlog.definition.conditions import Condition, Not, render_condition
from crewlog.definition.findings import Path, listed
from crewlog.definition.model import (
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    DecisionPhase,
    PatternUse,
    WaitPhase,
)
from crewlog.definition.phases import ASK_HUMAN, END, FAIL, NEXT, Phase, PhaseItem, phases
from crewlog.definition.times import duration_words
from crewlog.graph.lowering.coordination_rules import node_rules
from crewlog.graph.lowering.plans import lower_validated
from crewlog.prompt import reading as r
from crewlog.prompt.names import crew_name

if TYPE_CHECKING:
    from crewlog.prompt.clauses import Clause
    from crewlog.prompt.compiled import CompiledPrompt
    from crewlog.prompt.reading import Status

_LIMITS = {
    "steps": "max steps {:,}",
    "parallel": "max parallel steps {:,}",
    "tokens": "max tokens {:,}",
    "cost": "max cost ${:g}",
}
_AFTER_THAT = {
    ASK_HUMAN: ", then ask people",
    END: ", then end the run",
    FAIL: ", then fail the run",
    NEXT: ", then go on",
}
_ON_ERROR = {
    "ask": "ask people",
    "fail": "the run fails",
    "continue": "the run goes on",
}
_DECIDES = {"boolean": "yes or no", "number": "a number", "list": "a list", "text": "a text"}


@dataclass(frozen=True)
class ClauseAccount:
    """A clause and what became of it."""

    clause: Clause
    line: int
    column: int
    status: Status | Literal["open"]
    """The status in the ledger; `open`: the ledger has no entry for it."""
    why: str
    parts: tuple[str, ...]
    """What it became in the crew, a line for each part."""


def clause_accounts(compiled: CompiledPrompt) -> tuple[ClauseAccount, ...]:
    """Every clause with what became of it."""
    ledger = {entry.clause: entry for entry in compiled.reading.ledger}
    lines = part_lines(compiled)
    found: list[ClauseAccount] = []
    for clause in compiled.clauses:
        entry = ledger.get(clause.number)
        status: Status | Literal["open"] = "open" if entry is None else entry.status
        if clause.is_pasted:
            status = "data"
        elif clause.kind == "heading" and entry is None:
            status = "used" if compiled.reading.crew and clause.number == 1 else "talk"
        line, column = compiled.clauses.place(clause.span.start)
        why = entry.why if entry is not None else ""
        found.append(ClauseAccount(clause, line, column, status, why, lines.get(clause.number, ())))
    return tuple(found)


def part_lines(compiled: CompiledPrompt) -> dict[int, tuple[str, ...]]:
    """The parts that each clause became, by its number.

    A part stands at the clause that states it. A clause that only adds to a part of another clause
    shows that part where it has no part of its own.

    Args:
        compiled: The prompt; without a definition its clauses became nothing.
    """
    definition = compiled.definition
    if definition is None:
        return {}
    told = _Told(definition, compiled.reading, runs=compiled.partial)
    found: dict[int, dict[str, None]] = {}
    added: dict[int, dict[str, None]] = {}
    for source in compiled.sources:
        for line in told.lines(source.path):
            for number in source.clauses:
                into = found if number == source.clauses[0] else added
                into.setdefault(number, {})[line] = None
    for output in compiled.reading.outputs:
        for number in output.clauses[:1]:
            (found if number in found else added).setdefault(number, {})[_output(output)] = None
    _add_readers(compiled.reading, definition, found)
    named = _named(compiled)
    for clause in compiled.clauses:
        if clause.number not in found:
            lines = added.get(clause.number) or named.get(clause.number)
            if lines:
                found[clause.number] = lines
    return {number: tuple(lines) for number, lines in found.items()}


class _Told:
    """Writes the parts of one definition in words."""

    def __init__(self, definition: CrewDefinition, reading: r.Reading, *, runs: bool) -> None:
        self.definition = definition
        self.reading = reading
        self.phases = {phase.path: phase for phase in phases(definition)}
        self.by_name = {phase.name: phase for phase in self.phases.values()}
        nodes = lower_validated(definition).nodes if runs else {}
        self.rules = {str(name): "; ".join(node_rules(name, node)) for name, node in nodes.items()}
        for phase in self.phases.values():
            instead = getattr(phase.item, "on_error", None)
            if instead in self.rules and instead in self.by_name:
                self.rules[instead] = f"{instead} runs instead where {phase.name} fails"
        self.calls = {
            rule.place: permission_text(rule) for rule in definition_permissions(definition)
        }

    def lines(self, path: Path) -> Iterator[str]:  # noqa: C901 - a case for each part
        """The lines of a part of the definition; none for a part that another part includes."""
        match path:
            case ("flow", *_):
                if path in self.phases:
                    yield self._phase(self.phases[path])
            case (("tools" | "permissions" | "approvals"), str() as tool):
                yield self._tool(tool)
            case ("rules", int() as place):
                if place in self.calls:
                    yield self.calls[place]
            case ("agents", str() as agent, str() as key):
                if line := self._of_agent(agent, key):
                    yield line
            case ("groups", str() as name):
                yield f"group {name}: {listed(self.definition.groups.get(name, ()))}"
            case ("limits", str() as key):
                yield self._limit(key)
            case ("interrupts",):
                yield from (
                    f"people: {text}" for text in interrupt_lines(self.definition.interrupts)
                )
            case ("conversation",):
                yield from self._conversation()
            case ("artifacts", str() as name):
                writers = self.definition.artifacts[name].writers or ()
                yield f"artifact {name}" + (f", changed by {listed(writers)}" if writers else "")
            case ("model",):
                yield f"model of the crew: {self.definition.model}"
            case ("window",):
                yield f"every agent: {_window(self.definition.window)}"
            case _:
                if path[:1] != ("agents",):
                    yield ".".join(map(str, path))

    # -- the flow --------------------------------------------------------------------------------

    def _phase(self, phase: Phase) -> str:
        match phase.item:
            case DecisionPhase() as item:
                return self._decision(phase, item)
            case BuilderPhase() as item:
                return _builder(phase, item)
            case _:
                return self.rules.get(phase.name) or self._refused(phase)

    def _decision(self, phase: Phase, item: DecisionPhase) -> str:
        """`loop after checker: back to writer unless approved, at most 3 times`."""
        after = listed(self._behind(phase)) or "the start"
        condition = _condition(item.if_)
        if item.go == END:
            return f"after {after}: end the run {condition}"
        known = list(self.by_name)
        back = item.go in known and known.index(item.go) < known.index(phase.name)
        text = f"loop after {after}: back to" if back else f"after {after}: go to"
        text += f" {item.go} {condition}"
        if item.at_most is None:
            return text
        otherwise = item.otherwise or NEXT
        return text + _times(item.at_most) + _AFTER_THAT.get(otherwise, f", then {otherwise}")

    def _behind(self, phase: Phase) -> list[str]:
        """The steps that a decision follows, past the decisions between."""
        found: dict[str, None] = {}
        for name in phase.sources:
            source = self.by_name.get(name)
            if source is not None and isinstance(source.item, DecisionPhase):
                found.update(dict.fromkeys(self._behind(source)))
            else:
                found[name] = None
        return list(found)

    def _refused(self, phase: Phase) -> str:
        """A phase of a crew without a plan: the phases that it waits for."""
        match phase.item:
            case AskPhase() as item:
                what = f" and asks people: {listed(item.options, 'or')}"
            case WaitPhase():
                what = " and pauses"
            case _:
                what = ""
        what += _conditions(phase.item)
        if phase.sources:
            some = f"{phase.need} of " if phase.need < len(phase.sources) else ""
            return f"{phase.name} waits for {some}{listed(phase.sources)}{what}"
        starts = "starts with the run" if phase.entry else "starts where another step sends the run"
        return f"{phase.name} {starts}{what}"

    # -- rights and settings ---------------------------------------------------------------------

    def _tool(self, tool: str) -> str:
        agents = self.definition.agents.items()
        having = [name for name, agent in agents if agent.tools and tool in agent.tools]
        allowed = self.definition.permissions.get(tool)
        if allowed is not None:
            having = [name for name in having if name in allowed]
        text = f"{tool}: {listed(having) if having else 'no agent'}"
        if tool in self.definition.approvals:
            whom = self.definition.approvals[tool]
            text += ", after approval" if whom is None else f", after approval for {listed(whom)}"
        return text

    def _limit(self, key: str) -> str:
        value = getattr(self.definition.limits, key)
        if key == "wall":
            return f"max time {duration_words(value)}"
        return _LIMITS.get(key, f"max {key} {{}}").format(value)

    def _conversation(self) -> Iterator[str]:
        talk = self.definition.conversation
        if talk is None:
            return
        yield "conversation" + (
            f", ends after {duration_words(talk.idle)} idle" if talk.idle else ""
        )
        if talk.respond:
            yield f"conversation: {listed(talk.respond)} may answer first"

    def _of_agent(self, name: str, key: str) -> str:  # noqa: C901 - a case for each key
        data: dict[str, Any] = self.definition.agents[name].to_json()
        value: Any = data.get(key)
        match key:
            case "writes":
                return ""  # the readers of its notes are told by their own part
            case "enabled":
                return f"agent {name}: " + ("switched off" if value is False else "switched on")
            case "on_error":
                return f"agent {name}: if it fails, {_ON_ERROR.get(str(value), value)}"
            case "ask_below":
                return f"agent {name}: ask people where its confidence is below {value:g}"
            case "max_calls":
                return f"agent {name}: at most {value} model calls a turn"
            case "on_cap":
                ends = "its turn ends" if value == "end" else "its step fails"
                return f"agent {name}: {ends} after its last model call"
            case "window":
                return f"agent {name}: {_window(self.definition.agents[name].window)}"
            case "reply":
                reply = self.definition.agents[name].reply
                return f"agent {name}: its reply decides" + (
                    f" ({reply.decision})" if reply else ""
                )
            case "does":
                tools = [call.tool for call in self.definition.agents[name].does]
                return f"agent {name}: runs {listed(tools)}, without a model"
            case "inputs":
                inputs = [str(each.from_) for each in self.definition.agents[name].inputs or ()]
                return f"agent {name}: sees {listed(inputs) or 'nothing'}"
            case "reads":
                logs = self.definition.agents[name].reads
                return f"agent {name}: reads {listed(logs) or 'no notes'}"
            case "pattern":
                return f"agent {name}: {_pattern(value)}"
            case _:
                return f"agent {name}: {key.replace('_', ' ')} {_text(value)}"


def _builder(phase: Phase, item: BuilderPhase) -> str:
    """`supervisor lead: workers writer and editor; at most 10 times`."""
    options = dict(item.with_)
    try:
        fields = find_builder(item.use).options.model_validate(options)
    except (LookupError, ValueError):
        pass  # it is a fault; the line has what the prompt says
    else:
        said = set(options)
        bounds = fields.model_dump(mode="json", by_alias=True, include={"at_most", "rounds"})
        options |= {key: value for key, value in bounds.items() if key not in said}
    head = next(iter(options), "")
    text = f"{item.use} {_text(options.pop(head))}" if head else item.use
    told = [line for key, value in options.items() if (line := _option(key, value))]
    named = "" if phase.name == item.use else f" ({phase.name})"
    return f"{text}{named}" + (f": {'; '.join(told)}" if told else "")


def _option(key: str, value: Any) -> str:
    match key:
        case "at_most" | "rounds":
            return _times(int(value)).removeprefix(", ")
        case "at_once":
            return f"{value} at a time" if value else ""
        case "approve":
            return "people approve the plan" if value else ""
        case _:
            return f"{key.replace('_', ' ')} {_text(value)}" if value else ""


def _condition(condition: Condition) -> str:
    if isinstance(condition, Not):
        return f"unless {render_condition(condition.of)}"
    return f"if {render_condition(condition)}"


def _conditions(item: PhaseItem) -> str:
    """`, when backend.models_ready, only if approved`."""
    parts = [
        f", {words} {render_condition(condition)}"
        for words, key in (("when", "when"), ("only if", "only_if"))
        if (condition := getattr(item, key, None)) is not None
    ]
    needs = getattr(item, "needs", ())
    return "".join(parts) + (f", only with {listed(needs)}" if needs else "")


def _times(most: int) -> str:
    return ", at most once" if most == 1 else f", at most {most} times"


def _pattern(value: Any) -> str:
    pattern = PatternUse(use=value) if isinstance(value, str) else PatternUse.model_validate(value)
    match pattern.use:
        case "planner_executor":
            return "plans first, then does its task"
        case "review_loop":
            rounds = pattern.with_.get("rounds")
            return "reviews its own work" + (_times(rounds) if isinstance(rounds, int) else "")
        case _:
            return f"works by {pattern.use}"


def _window(window: Any) -> str:
    last = getattr(window, "last", window)
    return f"sees the last {last} messages" if last else f"sees {window}"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        several: list[Any] = [*value]  # pyright: ignore[reportUnknownArgumentType]
        return listed(map(str, several)) or "nothing"
    if isinstance(value, dict):
        pairs: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return ", ".join(_text(each) for each in pairs.values())
    return str(value)


# -- what no source of the definition has ---------------------------------------------------------


def _add_readers(
    reading: r.Reading, definition: CrewDefinition, found: dict[int, dict[str, None]]
) -> None:
    """Adds the readers of notes, in the words of the prompt instead of those of the logs."""
    for view in reading.readers:
        if not view.clauses:
            continue
        if view.of != "*":
            only = listed(view.readers)
            line = f"notes of {view.of}: " + (
                f"read by {only} alone" if only else "read by no agent"
            )
        else:
            readers = [
                name
                for each in view.readers
                for name in (each, *definition.groups.get(each.removeprefix("group:"), ()))
            ]
            blind = [name for name in definition.agents if name not in readers]
            line = f"agent {listed(blind)}: sees no notes of other agents" if blind else ""
        if line:
            found.setdefault(view.clauses[0], {})[line] = None


def _named(compiled: CompiledPrompt) -> dict[int, dict[str, None]]:
    """The agents, their traits and outputs and the crew's name, by the clauses that state them."""
    reading = compiled.reading
    unused = {entry.clause for entry in reading.ledger if entry.status != "used"}
    found: dict[int, dict[str, None]] = {}
    for clause in compiled.clauses:
        if clause.number in unused:
            continue
        agents = [agent for agent in reading.agents if clause.number in agent.clauses]
        outputs = [each for each in reading.outputs if each.clauses[:1] == (clause.number,)]
        lines: list[str] = []
        if reading.crew and _names_crew(clause, reading.crew):
            lines.append(f"crew {reading.crew}")
        if len(agents) > 1:
            lines.append(f"agents {', '.join(agent.name for agent in agents)}")
        else:
            lines += [_output(output) for output in outputs]
            lines += [] if outputs else [_agent(agent, clause) for agent in agents]
        if lines:
            found[clause.number] = dict.fromkeys(lines)
    return found


def _names_crew(clause: Clause, crew: str) -> bool:
    if clause.is_pasted:
        return False
    words = re.sub(
        r"^\s*(?:the\s+)?crew\s*(?::|is called|is named)\s*", "", clause.text, flags=re.IGNORECASE
    )
    return crew_name(words.rstrip(".")) == crew


def _agent(agent: r.Agent, clause: Clause) -> str:
    """`agent writer: is concise`: of several traits those that the clause has."""
    said = " ".join(clause.text.casefold().split())
    traits = [each for each in agent.about.split(". ") if each]
    here = [each for each in traits if each.rstrip(".").casefold() in said] or traits
    return f"agent {agent.name}" + (f": {'; '.join(here)}" if here else "")


def _output(output: r.Output) -> str:
    who = output.agent or "people"
    kind = listed(output.values, "or") if output.values else _DECIDES.get(output.kind, output.kind)
    verb = "decide" if not output.agent else "decides"
    return f"{who} {verb} {output.name}: {kind}"

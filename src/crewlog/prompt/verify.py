"""Checks a reading against its prompt: a reading of the forms reader or of a model.

Two ways. From the parts to the text, here: names, numbers and tools of a part stand in its clauses.
From the text to the parts (`ledger`, `obligations`): every clause is accounted for, and a clause
that obliges (`only`, `ask me`, `at most`, …) is the source of a part that says so, never of a task
alone. `sequence` and `polarity` hold order and conditions against the words for them. What is talk,
data or withdrawn grants nothing, and quoted text obliges to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from crewlog.definition.conditions import (
    Condition,
    ConditionSyntaxError,
    facts_in,
    parse_condition,
)
from crewlog.definition.findings import Path, did_you_mean, listed
from crewlog.definition.model import EVERY_TOOL, GROUP, parse_duration
from crewlog.definition.quotas import parse_quota
from crewlog.prompt import reading as r
from crewlog.prompt.clauses import Clauses
from crewlog.prompt.contradictions import check_contradictions
from crewlog.prompt.faults import Fault
from crewlog.prompt.ledger import check_ledger
from crewlog.prompt.obligations import COUNTS, DURATIONS, check_clause
from crewlog.prompt.polarity import check_polarity
from crewlog.prompt.proof import NAMES, NEGATION, NOBODY_ELSE, Piece, Proof, Source
from crewlog.prompt.registry import Registry
from crewlog.prompt.sequence import BESIDE, check_sequence, sources_before
from crewlog.prompt.vocabulary import (
    MONTHS,
    OBLIGING,
    durations_in,
    in_order,
    nouns_of,
    numbers_in,
    obligations,
    one_of,
    stems_of,
    words_of,
)

_EVERYONE = one_of(
    "every everyone everybody all any anyone anybody each both nobody no_one they we crew team"
)
_ONE_IS_ENOUGH = one_of(
    r"any either whoever whichever (?:one|first)_(?:\w+_)?(?:is|has|finishes|will_do)"
)
_RELATIVE = re.compile(r"(?:and\s+)?(?:who|which|it|they|she|he)\b", re.IGNORECASE)
_EACH = one_of("each every per one_by_one all")
_AGAIN = one_of(r"again over repeat\w* redo\w* revis\w* back")
_ANY_TOOL = r"\b(?:tools?|anything|everything|nothing|calls?)"
_STANDING_NAMES = frozenset({"confidence", "unsure", "kind", "passed", "done", "text", "approved"})
"""Outputs that may be called so whatever words the prompt has for them."""
_NAME_THEM = "Name the agent as the prompt does, or add the clause that names it."


def verify(clauses: Clauses, read: r.Reading, registry: Registry) -> list[Fault]:
    """Everything in a reading that its prompt does not say, and all that the prompt says besides.

    Args:
        clauses: The prompt.
        read: The reading.
        registry: What the prompt may use.
    """
    proof = Proof(clauses, read, registry)
    for name, index, part in read.parts():
        check = _Check(proof, part, (name, index))
        if check.has_clauses():
            check.run()
    check_sequence(proof)
    _check_outputs(proof)
    check_ledger(proof)
    for source in proof.sources.values():
        if source.clause.kind == "heading":
            _check_heading(proof, source)
        if proof.status.get(source.number) == "used" and not source.clause.is_pasted:
            check_clause(proof, source)
            check_polarity(proof, source)
    check_contradictions(proof)
    return proof.faults


def _check_heading(proof: Proof, source: Source) -> None:
    """Finds a heading with words that oblige: what stands below it would not be bound by them."""
    text = source.text
    found = next((found for kind, found in obligations(text) if kind != "sight"), None)
    found = found or NEGATION.search(text) or BESIDE.search(text)
    if found is not None:
        say = f"is a heading and says {found.group().strip()!r}: a heading binds nothing"
        proof.demand(source, say, "Say it in a sentence.")


@dataclass
class _Check:
    """Holds one part against its clauses."""

    proof: Proof
    part: Any
    path: Path

    def lacks(self, what: str, remedy: str, *key: str | int) -> None:
        say = f"the clauses {listed(map(str, self.part.clauses))} {what}"
        self.fault("not_stated", say, remedy, *key)

    def fault(self, code: Any, say: str, remedy: str, *key: str | int) -> None:
        self.proof.fault(code, say, remedy, self.part.clauses, (*self.path, *key))

    @cached_property
    def text(self) -> str:
        return self.proof.text(self.part)

    def has_clauses(self) -> bool:
        """Whether a part has clauses that can grant something; their sources get the part."""
        proof, numbers = self.proof, self.part.clauses
        known = [number for number in numbers if number in proof.sources]
        if len(known) < len(numbers) or not known:
            strange = listed(str(n) for n in numbers if n not in proof.sources)
            say = f"there is no such clause: {strange}" if numbers else "the part names no clause"
            how = f"Name the clauses that it comes from, from 1 to {len(proof.sources)}."
            proof.fault("not_stated", say, how, known, self.path)
            return False
        pasted = [n for n in known if proof.sources[n].clause.is_pasted]
        if pasted:
            say = f"clause {listed(map(str, pasted))} is pasted text, which creates nothing"
            how = "Leave the part out, or take it from clauses that the prompt itself says."
            self.fault("not_stated", say, how)
            return False
        piece = Piece(self.part)
        for number in known:
            proof.sources[number].pieces.append(piece)
        found = {proof.status.get(n) for n in known}
        idle = found & {"talk", "data", "withdrawn"}
        if idle and not found & {"used", "against"}:
            how = listed(sorted(map(str, idle)))
            say = f"the ledger has its clauses as {how}: they grant nothing"
            how = "Leave the part out, or account for the clauses as used."
            self.fault("not_stated", say, how)
            return False
        return True

    def run(self) -> None:
        match part := self.part:
            case r.Agent():
                self.agent(part.name, "name")
                self.free(part.about, "about")
            case r.Output():
                self.output(part)
            case r.Step():
                self.agent(part.agent, "agent")
                self.free(part.task, "task")
                self.condition(part.if_, "if")
                self.condition(part.when, "when")
                self.duration(part.within, "within")
                self.tools(part.needs, "needs")
                self.quorums(part.after)
                if part.each and not _EACH.search(self.text):
                    self.lacks("do not say that it is done for each", "Leave `each` empty.", "each")
            case r.Wait() | r.Question():
                self.condition(part.if_, "if")
                if isinstance(part, r.Wait):
                    self.duration(part.length, "length")
                    self.time(part.until)
                self.quorums(part.after)
                self.before(part.before)
            case r.Loop():
                self.condition(part.if_, "if")
                self.loop(part)
            case r.Right():
                self.right(part)
            case r.Readers():
                self.readers(part)
            case r.Setting():
                self.setting(part)
            case _:
                self.options(part)

    # -- agents ----------------------------------------------------------------------------------

    def agent(self, name: str, *key: str | int, near: bool = True) -> None:
        proof = self.proof
        if name.startswith(GROUP):
            settings = {each.value for each in proof.read.settings if each.key == "group"}
            if name.removeprefix(GROUP) not in settings | set(proof.registry.groups):
                self.fault("unknown_agent", f"there is no group {name!r}", "", *key)
        elif not proof.knows(name):
            self.unknown(name, "List it under `agents`, or leave it out.", *key)
        elif not proof.is_named(name, self.part, near=near):
            self.lacks(f"do not name {name!r}", _NAME_THEM, *key)

    def unknown(self, name: str, remedy: str, *key: str | int) -> None:
        hint = did_you_mean(name, self.proof.agents, remedy)
        self.fault("unknown_agent", f"there is no agent {name!r}", hint, *key)

    def output(self, part: r.Output) -> None:
        if part.agent and not self.proof.knows(part.agent):
            self.unknown(part.agent, "", "agent")
        around = self.proof.stems_around(part)
        near = any(_is_near(word, around) for word in stems_of(part.name))
        if not near and part.name not in _STANDING_NAMES:
            how = "Call the output by the prompt's words."
            self.lacks(f"do not mention {part.name!r}", how, "name")

    def before(self, steps: Iterable[str]) -> None:
        first = self.after_before()
        for index, step in enumerate(steps):
            agent = self.proof.agent_of_step.get(step, "")
            named = not agent or self.proof.is_named(agent, self.part)
            if not named or (agent and first and agent not in first):
                how = "Name the step that the clause names, or add the clause that names it."
                self.lacks(f"do not name {agent!r}", how, "before", index)

    def after_before(self) -> set[str]:
        """The agents of the steps that the words for a pause or a question stand next to.

        They stand behind `before`; else behind the comma after the words (`with my approval, the
        mailer …`); else before the words (`the mailer mails it once I agree`).
        """
        found: set[str] = set()
        for number in self.part.clauses:
            source = self.proof.sources[number]
            _, before, rest = source.text.partition("before ")
            asks = OBLIGING["consent"].search(source.text)
            comma = asks and re.match(r"[^,;:]{0,40},", source.text[asks.end() :])
            if before:
                found |= self.proof.first_named(nouns_of(" ".join(rest.split()[:8])))
            elif asks and comma:
                behind = source.text[asks.end() + comma.end() :]
                found |= self.proof.first_named(nouns_of(behind))
            if asks and not found:
                found |= self.proof.named_until(source, asks.start())
        return found

    def free(self, text: str, key: str) -> None:
        """Holds a free text, which an agent is given, against the words of the clauses."""
        words = [word for word in words_of(text) if len(word) > 3]
        around = self.proof.stems_around(self.part) if words else set[str]()
        strange = [word for word in words if not stems_of(word) <= around]
        if len(strange) > 2 and len(strange) > len(words) / 2:
            say = f"do not say {' '.join(strange[:6])!r}"
            self.lacks(say, "Take the words of the clauses.", key)

    def loop(self, part: r.Loop) -> None:
        if part.at_most:
            self.number(part.at_most, "at_most")
        agents = self.proof.agent_of_step
        here = max(self.proof.sources[number].clause.sentence for number in part.clauses)
        own = self.proof.sources.get(self.proof.clause_of_step.get(part.at, 0))
        if own is not None and own.clause.sentence > here:
            how = "Name the step that worked before the clause that sends the run back."
            self.lacks(f"come before {part.at!r} works", how, "at")
        inside = part.to in agents and part.at in agents
        if inside and part.to not in {part.at, *sources_before(self.proof, part.at)}:
            say = f"{part.to!r} does not come before {part.at!r}: the loop does not go back"
            self.fault("invalid", say, "Name an earlier step, or 'end'.", "to")
        agent = agents.get(part.to, "")
        if agent and not self.proof.is_named(agent, part) and not _AGAIN.search(self.text):
            how = "Name the step that the prompt goes back to."
            self.lacks(f"do not send the run back to {agent!r}", how, "to")

    def readers(self, part: r.Readers) -> None:
        if part.of != "*":
            self.agent(part.of, "of")
        barred = self.proof.barred(part)
        for index, agent in enumerate(part.readers):
            if agent in barred:
                self.lacks(f"bar {agent!r} from it", "Leave it out.", "readers", index)
            elif not barred:
                self.agent(agent, "readers", index, near=False)
            elif not self.proof.knows(agent):
                say = f"there is no agent {agent!r}"
                self.fault("unknown_agent", say, "", "readers", index)

    def options(self, part: r.Use) -> None:
        for index, option in enumerate(part.options):
            for place, value in enumerate(option.values):
                key = ("options", index, "values", place)
                if value in self.proof.agents:
                    if not self.proof.is_named(value, part):
                        self.lacks(f"do not name {value!r}", "", *key)
                elif value.isdecimal():
                    self.number(int(value), *key)

    # -- conditions, numbers, times --------------------------------------------------------------

    def condition(self, text: str, key: str) -> None:
        if not text:
            return
        try:
            condition = parse_condition(text)
        except ConditionSyntaxError as error:
            how = "Write it like 'not checker.approved' or 'checker.score < 0.8'."
            self.fault("invalid", f"{text!r} is no condition: {error}", how, key)
            return
        stated = numbers_in(self.text)
        for value in _values(condition):
            if isinstance(value, bool) or value is None:
                continue
            if isinstance(value, int | float):
                if float(value) not in stated and round(value * 100, 6) not in stated:
                    self.no_number(f"{value:g}", key)
                continue
            stems = self.proof.stems_around(self.part) | self.decided(condition)
            if not all(_is_near(word, stems) for word in stems_of(str(value))):
                how = "Use the prompt's own word for the value."
                self.lacks(f"do not say {value!r}", how, key)

    def decided(self, condition: Condition) -> set[str]:
        """The stems of the clauses that say what the agents of a condition's facts decide."""
        wanted = {(fact.agent or "", fact.name) for fact in facts_in(condition)}
        sources = self.proof.sources
        return {
            word
            for output in self.proof.read.outputs
            if wanted & {(output.agent, output.name), ("", output.name)}
            for n in output.clauses
            if n in sources
            for word in sources[n].stem_set
        }

    def no_number(self, number: str, *key: str | int) -> None:
        how = "Take the number from the prompt, or leave it out (0 or empty)."
        self.lacks(f"do not say {number}", how, *key)

    def number(self, value: float, *key: str | int) -> None:
        if value not in numbers_in(self.text):
            self.no_number(f"{value:g}", *key)

    def duration(self, text: str, key: str) -> None:
        if not text:
            return
        try:
            seconds = parse_duration(text)
        except ValueError as error:
            self.fault("invalid", f"{key}: {error}", "", key)
            return
        if not any(abs(seconds - said) < 0.5 for said in durations_in(self.text)):
            self.no_number(text, key)

    def time(self, text: str) -> None:
        """Holds the date and the hour of a wait against its clauses."""
        if not text:
            return
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            how = "Write it like '2026-12-01T09:00:00Z'."
            self.fault("invalid", f"{text!r} is no time", how, "until")
            return
        said, words = numbers_in(self.text), words_of(self.text)
        month = at.month in said or any(w.startswith(MONTHS[at.month - 1]) for w in words)
        hour = at.hour in {0, 12} or bool({at.hour, at.hour % 12} & said)
        if not (month and hour and {at.day, at.year} <= said):
            self.no_number(text, "until")

    def quorums(self, after: Iterable[r.After]) -> None:
        for index, group in enumerate(after):
            every = len(group.of)
            if not 1 <= group.need <= every:
                say = f"{group.need} of {every} steps cannot be done"
                self.fault("invalid", say, f"From 1 to {every}.", "after", index, "need")
            elif group.need < every and not self.is_enough(group.need):
                how = f"All of them: {every}. Or name the clause that says it."
                self.lacks(f"do not say that {group.need} are enough", how, "after", index, "need")

    def is_enough(self, need: int) -> bool:
        """Whether the clauses say a quorum, or the part follows a step and its stand-in."""
        if need > 1:
            counted = numbers_in(re.sub(r"\bboth\b", " ", self.text, flags=re.IGNORECASE))
            return need in counted or "majority" in self.text.casefold()
        some = OBLIGING["quorum"].search(self.text)
        if some is not None and not any(n > 1 for n in numbers_in(some.group())):
            return True
        stand_ins = {step.name for step in self.proof.read.steps if step.instead_of}
        follows = any(name in stand_ins for group in self.part.after for name in group.of)
        return follows or _ONE_IS_ENOUGH.search(self.text) is not None

    # -- tools and rights ------------------------------------------------------------------------

    def tools(self, tools: Iterable[str], key: str) -> None:
        sources = [self.proof.sources[n] for n in self.part.clauses]
        stems = [word for source in sources for word in source.stems]
        for index, tool in enumerate(tools):
            phrases = self.proof.tool_phrases.get(tool)
            if tool in (EVERY_TOOL, r.RISKY):
                word = "risk" if tool == r.RISKY else _ANY_TOOL
                if not re.search(word, self.text, re.IGNORECASE):
                    self.lacks(f"do not mention {tool!r}", "Name the tools.", key, index)
            elif phrases is None:
                names = sorted(self.proof.tool_phrases)
                there = f"It offers {listed(names[:12])}." if names else "It offers no tools."
                say, hint = (
                    f"the registry offers no tool {tool!r}",
                    did_you_mean(tool, names, there),
                )
                self.fault("unknown_tool", say, hint, key, index)
            elif not any(
                in_order(phrase, stems) or (len(phrase) > 1 and {*phrase} <= {*stems})
                for phrase in phrases
            ):
                how = "Leave the tool out, or add the clause that names it."
                self.lacks(f"do not name the tool {tool!r}", how, key, index)

    def right(self, part: r.Right) -> None:
        for index, agent in enumerate(part.agents):
            self.agent(agent, "agents", index, near=False)
        self.tools(part.tools, "tools")
        gives = part.effect in {"may", "only"} and not _EVERYONE.search(self.text)
        if gives:
            self.given(part)
            self.turned(part)
        self.condition(part.if_, "if")
        if not part.tools:
            self.fault("invalid", "the right names no tool", f"Name tools, or {EVERY_TOOL!r}.")
        if part.effect == "may" and not part.if_ and NOBODY_ELSE.search(self.text):
            self.lacks("say that no other agent may use it", "Write `only`.", "effect")
        if gives and not part.agents:
            self.lacks("do not give it to every agent", "Name the agents.", "agents")
        if part.quota:
            try:
                count = int(parse_quota(part.quota).split()[0])
            except ValueError as error:
                self.fault("invalid", str(error), "", "quota")
            else:
                self.number(count, "quota")
                unit = part.quota.split()[-1]
                if not re.search(_UNITS.get(unit, ""), self.text, re.IGNORECASE):
                    self.lacks(f"do not say `per {unit}`", "Take the clauses' own unit.", "quota")

    def turned(self, part: r.Right) -> None:
        """Finds a tool that a right gives, and that the clause names behind a negation."""
        for index, tool in enumerate(part.tools):
            for words in (tool, *self.proof.tool_words(tool)):
                named = r"[\s_-]+".join(map(re.escape, re.split(r"[\s_-]+", words)))
                denied = rf"\b(?:no|not|nor|without|except)\s+(?:the\s+)?{named}\b"
                if re.search(denied, self.text, re.IGNORECASE):
                    self.lacks(f"give {tool!r}, but deny it", "Leave the tool out.", "tools", index)
                    break

    def given(self, part: r.Right) -> None:
        """Finds agents that a right gives a tool which its sentence gives to another agent."""
        for index, agent in enumerate(part.agents):
            for tool in part.tools if agent in self.proof.agents else ():
                near = self.holders(tool)
                if near and agent not in near and not self.proof.is_in_range(agent, part):
                    how = "Leave the agent out, or add the clause that gives it the tool."
                    what = f"give {tool!r} to {listed(sorted(near))} and not to {agent!r}"
                    self.lacks(what, how, "agents", index)

    def holders(self, tool: str) -> set[str]:
        """The agents that a sentence names next to a tool: before it, or behind `by` or `to`."""
        found: set[str] = set()
        if tool not in self.proof.registry.tools:
            return found
        words = (tool, tool.replace("_", " "), *self.proof.registry.tools[tool].words)
        pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
        for number in self.part.clauses:
            source = self.proof.sources[number]
            for match in pattern.finditer(source.text):
                by = re.search(r"\b(?:by|to|for)\s", source.text[match.end() :], re.IGNORECASE)
                if by is not None:
                    behind = source.text[match.end() + by.end() :]
                    found |= self.proof.first_named(nouns_of(behind))
                found |= self.proof.named_until(source, match.start())
                if _RELATIVE.match(source.text):
                    found |= self.proof.named_until(source, 0)
        return found

    # -- settings --------------------------------------------------------------------------------

    def setting(self, part: r.Setting) -> None:
        for index, agent in enumerate(part.agents):
            self.agent(agent, "agents", index)
        words = _WORDS_OF.get((part.key, part.value)) or _WORDS_OF.get((part.key, ""))
        if words and not words.search(self.text):
            say = f"do not say that {part.key} is {part.value!r}"
            self.lacks(say, "Take the clauses' own words.", "value")
        if part.key in {"may_answer", "unanswered"}:
            self.people(part)
        if part.key in DURATIONS and part.value:
            self.duration(part.value, "value")
        elif part.key in COUNTS:
            try:
                value = float(part.value)
            except ValueError:
                self.fault("invalid", f"{part.value!r} is no number", "", "value")
                return
            if round(value * 100, 6) not in numbers_in(self.text):
                self.number(value, "value")

    def people(self, part: r.Setting) -> None:
        """People who may answer, or to whom a question is escalated, stand in the clauses."""
        said = part.value.partition(":")[2] if part.key == "unanswered" else part.value
        names = [name.strip() for name in said.split(",") if name.strip()]
        if part.key == "may_answer" and not names:
            self.fault("invalid", "no person who may answer is named", "Name the people.")
        around = self.proof.stems_around(part)
        for name in names:
            if not stems_of(name) <= around:
                self.lacks(f"do not name {name!r}", "Name people as the prompt does.", "value")


_UNITS = {"run": r"\brun", "hour": r"hour", "day": r"\bday|daily", "minute": r"minute"}
_WORDS_OF = {
    ("on_error", "continue"): one_of(
        r"continues? go(?:es)?_on carry carries without skip\w* ignore\w* anyway regardless "
        r"proceed\w* move\w*_on keep\w*"
    ),
    ("on_error", "fail"): one_of(
        r"stop\w* fail\w* end\w* abort\w* halt\w* cancel\w* quit\w* give\w*_up"
    ),
    ("on_error", "ask"): one_of(r"ask\w* me us human person people tell check_with"),
    ("enabled", "false"): re.compile(
        r"\b(?:off|out|disabled?|not|without|skip\w*|paused?|benched?)\b|n't\b", re.IGNORECASE
    ),
    ("enabled", "true"): one_of("on back enabled? again active"),
    ("max_steps", ""): one_of("steps?"),
    ("max_tokens", ""): one_of("tokens?"),
    ("max_cost", ""): re.compile(
        r"[$€£]|\b(?:dollars?|euros?|usd|bucks?|cents?|costs?|spend\w*|budget|money)\b",
        re.IGNORECASE,
    ),
}
"""Words of which one stands where a setting has a value: by its key and value."""


def _check_outputs(proof: Proof) -> None:
    """Finds outputs of agents that no condition, list or setting uses: a condition is missing."""
    parts = [part for _, _, part in proof.read.parts()]
    texts = [getattr(part, key, "") for part in parts for key in ("if_", "when", "each")]
    texts += [setting.value for setting in proof.read.settings]
    used = {name for text in texts for name in NAMES.findall(text)}
    for index, output in enumerate(proof.read.outputs):
        if output.agent and output.name not in used | _STANDING_NAMES:
            say = f"no condition, list or setting uses the output {output.name!r}"
            how = "Add the condition that its clauses state, or leave the output out."
            proof.fault("obligation", say, how, output.clauses, ("outputs", index))


def _is_near(word: str, stems: set[str]) -> bool:
    """Whether a stem is among others, or begins as one of them does."""
    return word in stems or (len(word) >= 4 and any(each[:4] == word[:4] for each in stems))


def _values(condition: Condition) -> Iterator[Any]:
    """What the facts of a condition are compared with."""
    for fact in facts_in(condition):
        if fact.operator is not None:
            values: Any = fact.value
            yield from values if isinstance(values, list) else [values]

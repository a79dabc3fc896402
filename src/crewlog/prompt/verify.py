"""Holds a reading against its prompt, whoever made it: the forms reader or a model.

Two ways. From the parts to the text: names, numbers and tools of a part stand in its clauses. From
the text to the parts: every clause is accounted for, and a clause that obliges (`only`, `ask me`,
`at most`, …) is the source of a part that says so, never of a task alone. What is talk, data or
withdrawn grants nothing, and what stands in quotation marks obliges nobody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice
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
from crewlog.prompt.clauses import Clause, Clauses
from crewlog.prompt.faults import Code, Fault
from crewlog.prompt.registry import Registry
from crewlog.prompt.vocabulary import (
    durations_in,
    in_order,
    names_agent,
    noun,
    numbers_in,
    obligations,
    phrase_stems,
    stem,
    words_of,
)

RISKY = "risk:high"
"""Among the tools of a right: every tool of high risk."""
_PRONOUN = re.compile(
    r"\b(?:it|its|itself|they|them|their|she|he|her|him|his|both|all|each|this|that|these|those|one"
    r"|ones|who|which|everyone|everybody|either|neither|again|also|too)\b",
    re.IGNORECASE,
)
_EVERYONE = re.compile(
    r"\b(?:every|everyone|everybody|all|any|anyone|anybody|each|both|nobody|no\s+one|they|we|crew"
    r"|team)\b",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:no|not|wait|scratch|forget|actually|instead|rather|correction|sorry|strike|ignore"
    r"|take\s+that\s+back|changed?\s+my\s+mind|on\s+second\s+thought)\b",
    re.IGNORECASE,
)
_SIGHT = re.compile(
    r"\b(?:sees?|seeing|shown|reads?|looks?\s+at|blind|notes?|work|knows?|private|confidential)\b",
    re.IGNORECASE,
)
_IF = re.compile(r"\b(?:if|unless|until|in\s+case|provided|should\s+the)\b", re.IGNORECASE)
_SEEN_BY = re.compile(r"\b(?:seen|read|shown|visible|kept)\s+(?:by|to|from)\b", re.IGNORECASE)
_NEGATION = re.compile(
    r"\b(?:never|not|n't|mustn't|can't|cannot|mayn't|shan't|nobody|no\s+one|nothing|blind)\b|n't\b",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:done|finish(?:es|ed)?|ready|back|complete[sd]?|agree[sd]?|approve[sd]?|there|first"
    r"|enough|succeed[sd]?|in)\b",
    re.IGNORECASE,
)
_WHETHER = re.compile(
    r"\b(?:sees?|checks?|notes?|says?|tells?|asks?|decides?|knows?|wonders?|verif(?:y|ies)|tests?"
    r"|finds?\s+out|looks?)\s+(?:\w+\s+){0,2}if\b",
    re.IGNORECASE,
)
_EXCLUSIVE_RIGHT = re.compile(
    r"\bonly\s+(?!if\b|when\b|after\b|once\b|then\b|for\b|until\b|where\b)[\w\s,'-]{1,80}?"
    r"\b(?:may|can|sees?|gets?|allowed|uses?|has|have)\b"
    r"|\b(?:nobody|no\s+one)\s+(?:but|else|except)\b",
    re.IGNORECASE,
)
_RANGE = re.compile(
    r"\b([a-z]|\d{1,3})\s*(?:to|through|until|-|–|—|\.\.\.?)\s*(?:\w+\s+){0,2}([a-z]|\d{1,3})\b",  # noqa: RUF001
    re.IGNORECASE,
)
_STANDING_NAMES = frozenset({"confidence", "unsure", "kind", "passed", "done", "text", "approved"})
"""Outputs that may be called so whatever words the prompt has for them."""
_NAMES = re.compile(r"[A-Za-z][\w-]*")
_FREE = {"task", "about", "ask", "value"}
"""Fields that hold the prompt's own words."""


def verify(clauses: Clauses, read: r.Reading, registry: Registry) -> list[Fault]:
    """Everything in a reading that its prompt does not say, and all that the prompt says besides.

    Args:
        clauses: The prompt.
        read: The reading.
        registry: What the prompt may use.
    """
    verifier = _Verifier(clauses, read, registry)
    verifier.run()
    return verifier.faults


@dataclass
class _Source:
    """A clause with what is looked for in it."""

    clause: Clause
    parts: list[tuple[str, int, r.Part]] = field(default_factory=list["tuple[str, int, r.Part]"])

    @cached_property
    def stems(self) -> list[str]:
        return [stem(word) for word in words_of(self.clause.text)]

    @cached_property
    def stem_set(self) -> set[str]:
        return set(self.stems)

    @cached_property
    def nouns(self) -> list[str]:
        return [noun(word) for word in words_of(self.clause.text)]

    @cached_property
    def unquoted_nouns(self) -> list[str]:
        return [noun(word) for word in words_of(self.clause.unquoted)]

    @cached_property
    def unquoted_stems(self) -> list[str]:
        return [stem(word) for word in words_of(self.clause.unquoted)]


class _Verifier:
    """Verifies one reading."""

    def __init__(self, clauses: Clauses, read: r.Reading, registry: Registry) -> None:
        self.clauses = clauses
        self.read = read
        self.registry = registry
        self.faults: list[Fault] = []
        self.sources = {clause.number: _Source(clause) for clause in clauses}
        self.status = {entry.clause: entry.status for entry in read.ledger}
        self.agents = {agent.name for agent in read.agents} | {step.agent for step in read.steps}
        named = {setting.value for setting in read.settings if setting.key == "group"}
        self.stand_ins = {step.name for step in read.steps if step.instead_of}
        self.agent_of_step = {step.name: step.agent for step in read.steps}
        self.groups = named | set(registry.groups)
        self.facts: dict[tuple[str, int], tuple[set[str], set[str]]] = {}
        self.tool_phrases = {
            name: [phrase_stems(name), *(phrase_stems(words) for words in tool.words)]
            for name, tool in registry.tools.items()
        }

    def run(self) -> None:
        for name, index, part in self.read.parts():
            if self._clauses_of(part, (name, index)):
                self._part(name, part, (name, index))
        self._ledger()
        for source in self.sources.values():
            if self.status.get(source.clause.number) == "used":
                self._clause(source)
        self._contradictions()

    def fault(
        self,
        code: Code,
        message: str,
        remedy: str = "",
        clauses: Sequence[int] = (),
        path: Path = (),
    ) -> None:
        self.faults.append(Fault(code, message, remedy, tuple(clauses), path))

    # -- from the parts to the text --------------------------------------------------------------

    def _clauses_of(self, part: r.Part, path: Path) -> bool:
        known = [number for number in part.clauses if number in self.sources]
        if len(known) < len(part.clauses) or not known:
            say = "the part names no clause" if not part.clauses else "there is no such clause"
            at = listed(str(n) for n in part.clauses if n not in self.sources)
            remedy = f"Name the clauses that it comes from, from 1 to {len(self.clauses)}."
            self.fault("not_stated", f"{say}{f': {at}' if at else ''}", remedy, known, path)
            return False
        pasted = [n for n in known if self.sources[n].clause.is_pasted]
        if pasted:
            say = f"clause {listed(map(str, pasted))} is pasted text, which creates nothing"
            remedy = "Leave the part out, or take it from clauses that the prompt itself says."
            self.fault("not_stated", say, remedy, known, path)
            return False
        for number in known:
            self.sources[number].parts.append((str(path[0]), int(path[1]), part))
        idle = {self.status.get(n) for n in known} & {"talk", "data", "withdrawn"}
        if idle and not any(self.status.get(n) in {"used", "against"} for n in known):
            how = listed(sorted(map(str, idle)))
            say = f"the ledger has its clauses as {how}: they grant nothing"
            remedy = "Leave the part out, or account for the clauses as used."
            self.fault("not_stated", say, remedy, known, path)
            return False
        return True

    def _part(self, name: str, part: r.Part, path: Path) -> None:
        match part:
            case r.Agent():
                self._agent(part.name, part, path, "name")
            case r.Output():
                self._output(part, path)
            case r.Step():
                self._agent(part.agent, part, path, "agent")
                self._conditions(part, path, "if_", "when")
                self._duration(part.within, part, path, "within")
                self._tools(part.needs, part, path, "needs")
                self._quorums(part.after, part, path)
                self._list(part, path)
            case r.Wait():
                self._conditions(part, path, "if_")
                self._duration(part.length, part, path, "length")
                self._quorums(part.after, part, path)
            case r.Question():
                self._conditions(part, path, "if_")
                self._quorums(part.after, part, path)
            case r.Loop():
                self._loop(part, path)
            case r.Right():
                self._right(part, path)
            case r.Readers():
                self._readers(part, path)
            case r.Setting():
                self._setting(part, path)
            case r.Use():
                self._use(part, path)
            case _:
                raise AssertionError(name)

    def _text(self, part: r.Part) -> str:
        return " ".join(self.sources[n].clause.text for n in part.clauses)

    def _stems(self, part: r.Part) -> set[str]:
        return _union(self.sources[n].stem_set for n in part.clauses)

    def _around(self, part: r.Part) -> set[str]:
        """The stems of a part's clauses, and of the one before where a word points there."""
        return _union(self.sources[n].stem_set for n in self._clauses_around(part))

    def _clauses_around(self, part: r.Part) -> list[int]:
        found = list(part.clauses)
        for number in part.clauses:
            before = number - 1
            while before in self.sources and self.sources[before].clause.kind == "heading":
                before -= 1
            if before in self.sources and _PRONOUN.search(self.sources[number].clause.text):
                found.append(before)
        return found

    def _named(self, name: str, part: r.Part, *, near: bool = True) -> bool:
        """Whether the clauses of a part name an agent."""
        numbers = self._clauses_around(part) if near else part.clauses
        if names_agent({noun for n in numbers for noun in self.sources[n].nouns}, name):
            return True
        stems = self._around(part) if near else self._stems(part)
        offered = self.registry.agents.get(name)
        if offered is not None and any(
            set(phrase_stems(words)) <= stems for words in offered.words
        ):
            return True
        return self._in_range(name, part)

    def _in_range(self, name: str, part: r.Part) -> bool:
        """Whether a name is one of `checker A to checker E`, or of `three reviewers`."""
        base, _, last = name.replace("-", "_").rpartition("_")
        around = {noun for n in self._clauses_around(part) for noun in self.sources[n].nouns}
        if not base or not names_agent(around, base):
            return False
        text = self._text(part)
        for first, final in _RANGE.findall(text):
            if first.isdigit() and final.isdigit() and last.isdigit():
                return int(first) <= int(last) <= int(final)
            single = last.isalpha() and len(last) == 1
            if single and first.lower() <= last.lower() <= final.lower():
                return True
        place = int(last) if last.isdigit() else ord(last.lower()) - 96 if len(last) == 1 else 0
        return 0 < place <= max((n for n in numbers_in(text) if n < 1000), default=0)

    def _agent(
        self,
        name: str,
        part: r.Part,
        path: Path,
        key: str,
        index: int | None = None,
        *,
        near: bool = True,
    ) -> None:
        where: Path = (*path, key) if index is None else (*path, key, index)
        if name.startswith(GROUP):
            if name.removeprefix(GROUP) not in self.groups:
                self.fault("unknown_agent", f"there is no group {name!r}", "", part.clauses, where)
            return
        if name not in self.agents and name not in self.registry.agents:
            hint = did_you_mean(name, self.agents, "List it under `agents`, or leave it out.")
            self.fault("unknown_agent", f"there is no agent {name!r}", hint, part.clauses, where)
        elif not self._named(name, part, near=near):
            say = f"the clauses {_numbers(part.clauses)} do not name {name!r}"
            remedy = "Name the agent as the prompt does, or add the clause that names it."
            self.fault("not_stated", say, remedy, part.clauses, where)

    def _output(self, part: r.Output, path: Path) -> None:
        if part.agent and part.agent not in self.agents and part.agent not in self.registry.agents:
            hint = did_you_mean(part.agent, self.agents, "")
            say = f"there is no agent {part.agent!r}"
            self.fault("unknown_agent", say, hint, part.clauses, (*path, "agent"))
        around = self._around(part)
        words = [stem(word) for word in words_of(part.name.replace("_", " "))]
        near = any(word in around or _alike(word, around) for word in words)
        if not near and part.name not in _STANDING_NAMES:
            say = f"the clauses {_numbers(part.clauses)} do not speak of {part.name!r}"
            remedy = "Call the output by the prompt's words."
            self.fault("not_stated", say, remedy, part.clauses, (*path, "name"))

    def _conditions(self, part: Any, path: Path, *keys: str) -> None:
        for key in keys:
            text: str = getattr(part, key)
            if text:
                self._condition(text, part, (*path, key.rstrip("_")))

    def _condition(self, text: str, part: r.Part, path: Path) -> None:
        try:
            condition = parse_condition(text)
        except ConditionSyntaxError as error:
            remedy = "Write it like 'not checker.approved' or 'checker.score < 0.8'."
            self.fault("invalid", f"{text!r} is no condition: {error}", remedy, part.clauses, path)
            return
        stated = numbers_in(self._text(part))
        for value in _values(condition):
            if isinstance(value, bool) or value is None:
                continue
            if isinstance(value, int | float):
                if float(value) not in stated and round(value * 100, 6) not in stated:
                    self._no_number(f"{value:g}", part, path)
            elif not _worded(str(value), self._around(part) | self._decided(condition)):
                say = f"the clauses {_numbers(part.clauses)} do not say {value!r}"
                remedy = "Use the prompt's own word for the value."
                self.fault("not_stated", say, remedy, part.clauses, path)

    def _decided(self, condition: Condition) -> set[str]:
        """The stems of the clauses that say what the agents of a condition's facts decide."""
        wanted = {(fact.agent or "", fact.name) for fact in facts_in(condition)}
        found: set[str] = set()
        for output in self.read.outputs:
            if wanted & {(output.agent, output.name), ("", output.name)}:
                known = (self.sources[n] for n in output.clauses if n in self.sources)
                found = found.union(*(source.stem_set for source in known))
        return found

    def _no_number(self, number: str, part: r.Part, path: Path) -> None:
        say = f"the clauses {_numbers(part.clauses)} do not say {number}"
        remedy = "Take the number from the prompt, or leave it out (0 or empty)."
        self.fault("not_stated", say, remedy, part.clauses, path)

    def _number(self, value: float, part: r.Part, path: Path) -> None:
        if value not in numbers_in(self._text(part)):
            self._no_number(f"{value:g}", part, path)

    def _duration(self, text: str, part: r.Part, path: Path, key: str) -> None:
        if not text:
            return
        try:
            seconds = parse_duration(text)
        except ValueError as error:
            self.fault("invalid", f"{key}: {error}", "", part.clauses, (*path, key))
            return
        if not any(abs(seconds - said) < 0.5 for said in durations_in(self._text(part))):
            self._no_number(text, part, (*path, key))

    def _quorums(self, after: Iterable[r.After], part: r.Part, path: Path) -> None:
        text = self._text(part)
        for index, group in enumerate(after):
            where: Path = (*path, "after", index, "need")
            if not 1 <= group.need <= len(group.of):
                say = f"{group.need} of {len(group.of)} steps cannot be done"
                self.fault("invalid", say, f"From 1 to {len(group.of)}.", part.clauses, where)
            elif group.need < len(group.of) and not self._counts(group.need, text, part):
                say = (
                    f"the clauses {_numbers(part.clauses)} do not say that {group.need} are enough"
                )
                remedy = f"All of them: {len(group.of)}. Or name the clause that says it."
                self.fault("not_stated", say, remedy, part.clauses, where)

    def _counts(self, need: int, text: str, part: r.Part) -> bool:
        if need == 1:
            return bool(
                re.search(r"\b(?:any|either|one|first|whoever|whichever)\b", text, re.IGNORECASE)
            ) or (isinstance(part, r.Step | r.Question | r.Wait) and self._after_stand_in(part))
        return need in numbers_in(text) or "majority" in text.casefold()

    def _after_stand_in(self, part: r.Step | r.Question | r.Wait) -> bool:
        """Whether a part follows a step and its stand-in, or branches of which one is taken."""
        return any(name in self.stand_ins for group in part.after for name in group.of)

    def _list(self, part: r.Step, path: Path) -> None:
        if part.each and not re.search(
            r"\b(?:each|every|per|one\s+by\s+one|all)\b", self._text(part), re.IGNORECASE
        ):
            say = f"the clauses {_numbers(part.clauses)} do not say that it is done for each"
            self.fault("not_stated", say, "Leave `each` empty.", part.clauses, (*path, "each"))

    def _loop(self, part: r.Loop, path: Path) -> None:
        self._conditions(part, path, "if_")
        if part.at_most:
            self._number(part.at_most, part, (*path, "at_most"))
        agent = self._agent_of(part.to)
        repeats = re.search(
            r"\b(?:again|over|repeat\w*|redo\w*|revis\w*|back)\b", self._text(part), re.IGNORECASE
        )
        if agent and not self._named(agent, part) and not repeats:
            say = f"the clauses {_numbers(part.clauses)} do not send the run back to {agent!r}"
            remedy = "Name the step that the prompt goes back to."
            self.fault("not_stated", say, remedy, part.clauses, (*path, "to"))

    def _agent_of(self, step: str) -> str:
        """The agent of a step, by name; empty for what is none."""
        return self.agent_of_step.get(step, "")

    def _tools(self, tools: Iterable[str], part: r.Part, path: Path, key: str) -> None:
        stems = [word for n in part.clauses for word in self.sources[n].stems]
        for index, tool in enumerate(tools):
            where: Path = (*path, key, index)
            if tool in (EVERY_TOOL, RISKY):
                word = (
                    r"risk" if tool == RISKY else r"\b(?:tools?|anything|everything|nothing|calls?)"
                )
                if not re.search(word, self._text(part), re.IGNORECASE):
                    say = f"the clauses {_numbers(part.clauses)} do not speak of {tool!r}"
                    self.fault("not_stated", say, "Name the tools.", part.clauses, where)
            elif tool not in self.tool_phrases:
                self._unknown_tool(tool, part, where)
            elif not any(_said(phrase, stems) for phrase in self.tool_phrases[tool]):
                say = f"the clauses {_numbers(part.clauses)} do not name the tool {tool!r}"
                remedy = "Leave the tool out, or add the clause that names it."
                self.fault("not_stated", say, remedy, part.clauses, where)

    def _unknown_tool(self, tool: str, part: r.Part, path: Path) -> None:
        names = sorted(self.tool_phrases)
        there = f"It offers {listed(names[:12])}." if names else "It offers no tools."
        hint = did_you_mean(tool, names, there)
        say = f"the registry offers no tool {tool!r}"
        self.fault("unknown_tool", say, hint, part.clauses, path)

    def _right(self, part: r.Right, path: Path) -> None:
        for index, agent in enumerate(part.agents):
            self._agent(agent, part, path, "agents", index, near=False)
        self._tools(part.tools, part, path, "tools")
        self._conditions(part, path, "if_")
        if not part.tools:
            say = "the right names no tool"
            self.fault("invalid", say, f"Name tools, or {EVERY_TOOL!r}.", part.clauses, path)
        gives = part.effect in {"may", "only"}
        if gives and not part.agents and not _EVERYONE.search(self._text(part)):
            say = f"the clauses {_numbers(part.clauses)} do not give it to every agent"
            self.fault("not_stated", say, "Name the agents.", part.clauses, (*path, "agents"))
        if part.quota:
            try:
                count = int(parse_quota(part.quota).split()[0])
            except ValueError as error:
                self.fault("invalid", str(error), "", part.clauses, (*path, "quota"))
            else:
                self._number(count, part, (*path, "quota"))

    def _readers(self, part: r.Readers, path: Path) -> None:
        if part.of != "*":
            self._agent(part.of, part, path, "of")
        barred = self._barred(part)
        for index, agent in enumerate(part.readers):
            where: Path = (*path, "readers", index)
            if agent in barred:
                say = f"the clauses {_numbers(part.clauses)} bar {agent!r} from it"
                self.fault("not_stated", say, "Leave it out.", part.clauses, where)
            elif barred:
                if agent not in self.agents and agent not in self.registry.agents:
                    say = f"there is no agent {agent!r}"
                    self.fault("unknown_agent", say, "", part.clauses, where)
            else:
                self._agent(agent, part, path, "readers", index, near=False)

    def _barred(self, part: r.Part) -> set[str]:
        """The agents that the clauses of a part say may not see something."""
        found: set[str] = set()
        for number in part.clauses:
            clause = self.sources[number].clause
            negation = _NEGATION.search(clause.unquoted)
            if negation is None or not _SIGHT.search(clause.unquoted):
                continue
            if re.search(
                r"\b(?:nobody|no\s+one)\s+(?:but|else|except)", clause.unquoted, re.IGNORECASE
            ):
                continue
            said = clause.unquoted[: negation.start()]
            if by := _SEEN_BY.search(clause.unquoted):
                said = clause.unquoted[by.end() :]
            named = self._last_named([noun(word) for word in words_of(said)])
            if not named and (not said.strip() or _PRONOUN.search(said)):
                named = self._subject_before(number)
            found |= named
        return found

    def _last_named(self, nouns: Sequence[str]) -> set[str]:
        """The agent that some words name last, with those that `and` joins to it."""
        near = {agent for each in set(nouns) for agent in self._agents_by_noun.get(each, ())}
        ends: dict[str, int] = {}
        for agent in near:
            name = _nouns(agent)
            places = [i for i in range(len(nouns)) if list(nouns[i : i + len(name)]) == name]
            if places:
                ends[agent] = places[-1] + len(name)
        last = max(ends.values(), default=0)
        found: set[str] = set()
        for agent, end in sorted(ends.items(), key=lambda each: -each[1]):
            if last - end > 2:
                break
            found.add(agent)
            last = end - len(_nouns(agent))
        return found

    def _subject_before(self, number: int) -> set[str]:
        before = self.sources.get(number - 1)
        if before is None:
            return set()
        return {agent for agent in self.agents if _said(_nouns(agent), before.nouns[:8])}

    def _setting(self, part: r.Setting, path: Path) -> None:
        for index, agent in enumerate(part.agents):
            self._agent(agent, part, path, "agents", index)
        if part.key in _DURATIONS and part.value:
            self._duration(part.value, part, path, "value")
        elif part.key in _COUNTS:
            try:
                value = float(part.value)
            except ValueError:
                say = f"{part.value!r} is no number"
                self.fault("invalid", say, "", part.clauses, (*path, "value"))
                return
            if round(value * 100, 6) not in numbers_in(self._text(part)):
                self._number(value, part, (*path, "value"))

    def _use(self, part: r.Use, path: Path) -> None:
        for index, option in enumerate(part.options):
            for place, value in enumerate(option.values):
                where: Path = (*path, "options", index, "values", place)
                if value in self.agents:
                    if not self._named(value, part):
                        say = f"the clauses {_numbers(part.clauses)} do not name {value!r}"
                        self.fault("not_stated", say, "", part.clauses, where)
                elif value.isdigit():
                    self._number(int(value), part, where)

    # -- the ledger ------------------------------------------------------------------------------

    def _ledger(self) -> None:
        seen: set[int] = set()
        for index, entry in enumerate(self.read.ledger):
            path: Path = ("ledger", index)
            if entry.clause not in self.sources:
                say = f"there is no clause {entry.clause}"
                self.fault("invalid", say, f"They are 1 to {len(self.clauses)}.", (), path)
                continue
            if entry.clause in seen:
                say = f"clause {entry.clause} is in the ledger twice"
                self.fault("invalid", say, "Account for it once.", (entry.clause,), path)
            seen.add(entry.clause)
            self._entry(entry, path)
        for number, source in self.sources.items():
            if number not in seen and source.clause.kind in {"sentence", "item"}:
                say = f"clause {number} is not accounted for: {_short(source.clause.text)}"
                self.fault("not_understood", say, "Account for it in the ledger.", (number,))

    def _entry(self, entry: r.Account, path: Path) -> None:
        source = self.sources[entry.clause]
        text = source.clause.unquoted
        if source.clause.kind in {"pasted", "heading"}:
            return
        here: tuple[int, ...] = (entry.clause,)
        match entry.status:
            case "used":
                if not source.parts and not self._names_crew(source):
                    say = f"clause {entry.clause} is used by no part: {_short(source.clause.text)}"
                    remedy = "Make the part that it says, or account for it otherwise."
                    self.fault("not_understood", say, remedy, here, path)
            case "talk" | "data":
                for kind, found in obligations(text):
                    if kind == "consent" or (kind in _BINDING and self._is_about_crew(source)):
                        say = (
                            f"clause {entry.clause} is accounted for as {entry.status}, and it "
                            f"obliges: {found.group()!r}"
                        )
                        remedy = "Make the part that it says, or account for it as `cannot`."
                        self.fault("obligation", say, remedy, here, path)
                        break
            case "withdrawn":
                later = (
                    self.sources[n].clause.unquoted
                    for n in (
                        entry.clause,
                        *range(entry.clause + 1, min(entry.clause + 12, len(self.clauses)) + 1),
                    )
                )
                if not any(_CORRECTION.search(each) for each in later):
                    say = f"nothing takes clause {entry.clause} back"
                    self.fault("not_stated", say, "Account for it as used.", here, path)
            case "cannot" | "against":
                why = f": {entry.why}" if entry.why else ""
                code: Code = "not_understood" if entry.status == "cannot" else "contradiction"
                said = "no part can say this" if entry.status == "cannot" else "this contradicts "
                if entry.status == "against":
                    said += (
                        f"clause {listed(map(str, entry.against))}" if entry.against else "others"
                    )
                    known = (n for n in entry.against if n in self.sources)
                    here = (entry.clause, *known)
                self.fault(
                    code, f"{said}{why}", "Say it in other words, or leave it out.", here, path
                )

    def _names_crew(self, source: _Source) -> bool:
        """Whether a clause only says what the crew is called."""
        return bool(self.read.crew) and source.clause.text.casefold().startswith("crew")

    def _is_about_crew(self, source: _Source) -> bool:
        """Whether a clause names an agent or a tool, or speaks of the run itself."""
        stems = source.unquoted_stems
        if self._agents_in(source):
            return True
        return any(_said(each, stems) for phrases in self.tool_phrases.values() for each in phrases)

    # -- from the text to the parts --------------------------------------------------------------

    def _clause(self, source: _Source) -> None:
        if source.clause.is_pasted:
            return
        number = source.clause.number
        for kind, found in obligations(source.clause.unquoted):
            if self._obliges(kind, source) and not self._met(kind, source):
                words = found.group().strip()
                say = f"clause {number} says {words!r}, and no part says {_NEEDS[kind]}"
                remedy = "Make that part from this clause, or account for the clause as `cannot`."
                self.fault("obligation", say, remedy, (number,))
        self._mentioned(source)

    def _obliges(self, kind: str, source: _Source) -> bool:
        """Whether words oblige in this clause: some do only together with others."""
        text = source.clause.unquoted
        match kind:
            case "quorum":
                return bool(_DONE.search(text))
            case "condition":
                return not _WHETHER.search(text)
            case "sight":
                limits = bool(_NEGATION.search(text)) or "only" in words_of(text)
                return limits and bool(self._agents_in(source))
            case "forbidden" | "exclusive":
                return self._is_about_others(source)
            case _:
                return True

    def _is_about_others(self, source: _Source) -> bool:
        """Whether a clause is about a tool, about agents that see, or about several agents."""
        stems = source.unquoted_stems
        if any(_said(each, stems) for phrases in self.tool_phrases.values() for each in phrases):
            return True
        named = len(self._agents_in(source))
        return named > 1 or (named == 1 and bool(_EXCLUSIVE_RIGHT.search(source.clause.unquoted)))

    @cached_property
    def _agents_by_noun(self) -> dict[str, list[str]]:
        """The agents by the first noun of their names, so that a clause is looked at once."""
        found: dict[str, list[str]] = {}
        for agent in self.agents:
            for first in _nouns(agent)[:1]:
                found.setdefault(first, []).append(agent)
        return found

    def _agents_in(self, source: _Source) -> list[str]:
        """The agents that a clause names outside quotation marks."""
        nouns = source.unquoted_nouns
        near = {agent for each in set(nouns) for agent in self._agents_by_noun.get(each, ())}
        return sorted(agent for agent in near if _said(_nouns(agent), nouns))

    def _met(self, kind: str, source: _Source) -> bool:
        return any(_MEETS[kind](part, source) for _, _, part in source.parts)

    def _facts(self, kind: str, index: int, part: r.Part) -> tuple[set[str], set[str]]:
        """The names that a part has in its structure, and the nouns of its free texts."""
        if (kind, index) not in self.facts:
            names, texts = _facts_of(part)
            nouns = {noun(word) for word in words_of(" ".join(texts))}
            self.facts[kind, index] = (names, nouns)
        return self.facts[kind, index]

    def _mentioned(self, source: _Source) -> None:
        """Agents, tools and numbers that a clause says, and none of its parts has."""
        number = source.clause.number
        dumped = [self._facts(kind, index, part) for kind, index, part in source.parts]
        texts = _union(nouns for _, nouns in dumped)
        names = _union(found for found, _ in dumped)
        owned = names | {self.agent_of_step[name] for name in names if name in self.agent_of_step}
        for _, _, part in source.parts:
            if isinstance(part, r.Readers):
                owned |= self._barred(part)
        for agent in self._agents_in(source):
            if agent not in owned and not names_agent(texts, agent):
                say = f"clause {number} names {agent!r}, and none of its parts does"
                remedy = "Make the part that it says of this agent from this clause, too."
                self.fault("obligation", say, remedy, (number,))
        for tool in self.tool_phrases:
            # By its name: people also say the words of a tool and mean no tool.
            if tool not in names and "_" in tool and tool in source.clause.unquoted:
                say = f"clause {number} names the tool {tool!r}, and none of its parts does"
                self.fault("obligation", say, "Make the right that it says.", (number,))
        if re.search(r"\d", source.clause.unquoted):
            said = {
                float(n.group().replace(",", "")) for n in _DIGITS.finditer(source.clause.unquoted)
            }
            has = _numbers_of(part for _, _, part in source.parts)
            for value in sorted(said - has):
                if round(value / 100, 6) not in has:
                    say = f"clause {number} says {value:g}, and none of its parts does"
                    self.fault("obligation", say, "Make the part that has it.", (number,))

    # -- contradictions --------------------------------------------------------------------------

    def _contradictions(self) -> None:
        by_tool: dict[str, dict[tuple[str, frozenset[str]], r.Right]] = {}
        for right in self.read.rights:
            if not right.if_ and not right.quota:
                for tool in right.tools:
                    key = (right.effect, frozenset(right.agents))
                    by_tool.setdefault(tool, {}).setdefault(key, right)
        for tool, rights in by_tool.items():
            for one, other in islice(combinations(rights.values(), 2), _MOST_PAIRS):
                why = _at_odds(one, other)
                if why:
                    both = tuple(dict.fromkeys((*one.clauses, *other.clauses)))
                    self.fault("contradiction", f"{why} {tool!r}", "Keep one of the two.", both)
        self._bounds()

    def _bounds(self) -> None:
        known: dict[str, r.Setting] = {}
        for setting in self.read.settings:
            if setting.key in _LIMITS:
                first = known.setdefault(setting.key, setting)
                if first.value != setting.value:
                    say = (
                        f"two bounds are said for {setting.key}: {first.value} and {setting.value}"
                    )
                    both = (*first.clauses, *setting.clauses)
                    self.fault("contradiction", say, "Keep one of the two.", both)


_DURATIONS = frozenset({"answer_within", "yes_valid", "conversation", "max_time"})
"""Settings that are durations."""
_COUNTS = frozenset(
    {"window", "model_calls", "confidence", "max_steps", "max_parallel", "max_tokens", "max_cost"}
)
"""Settings that are numbers."""
_LIMITS = frozenset({"max_steps", "max_parallel", "max_tokens", "max_cost", "max_time"})
_MOST_PAIRS = 10_000
"""Pairs of rights to one tool that are held against each other."""
_BINDING = frozenset({"exclusive", "forbidden", "return", "bound", "quorum"})
"""Kinds that talk cannot have where it names an agent or a tool."""
_DIGITS = re.compile(r"(?<![\w.])\d{1,3}(?:,\d{3})+(?![\w])|(?<![\w.])\d+(?:\.\d+)?(?![\w-]|\.\d)")
_NEEDS = {
    "consent": "that people are asked",
    "exclusive": "that it is nobody else",
    "forbidden": "that it is refused",
    "condition": "on what condition",
    "return": "where the run goes back to",
    "bound": "the bound",
    "quorum": "how many are enough",
    "stand_in": "what comes in its place",
    "time_limit": "how long it may take",
    "pause": "how long it is waited",
    "sight": "who sees it",
    "each": "that it is done for each",
}


def _conditional(part: r.Part) -> bool:
    return bool(getattr(part, "if_", "") or getattr(part, "when", ""))


def _asks(part: r.Part, source: _Source) -> bool:
    match part:
        case r.Question():
            return True
        case r.Right():
            return part.effect == "ask"
        case r.Loop():
            return part.then == "ask"
        case r.Step():
            return part.late == "ask"
        case r.Setting():
            return part.key in {
                "confidence",
                "may_answer",
                "answer_within",
                "unanswered",
                "yes_valid",
            } or (part.key in {"on_error", "decides", "pattern"} and "ask" in part.value)
        case r.Output():
            return not part.agent
        case r.Use():
            return any(option.key == "approve" for option in part.options)
        case _:
            return False


def _excludes(part: r.Part, source: _Source) -> bool:
    if isinstance(part, r.Right):
        return part.effect in {"only", "never"} or bool(part.if_)
    if isinstance(part, r.Readers | r.Question):
        return True
    if _EXCLUSIVE_RIGHT.search(source.clause.unquoted):
        return isinstance(part, r.Setting) and part.key in {"may_answer", "sees", "hosts", "runs"}
    if isinstance(part, r.Step) and part.needs:
        return True
    return _conditional(part) or isinstance(part, r.Setting | r.Loop | r.Use | r.Wait)


def _forbids(part: r.Part, source: _Source) -> bool:
    if isinstance(part, r.Right):
        return part.effect in {"never", "only", "ask"} or bool(part.if_)
    if isinstance(part, r.Setting):
        return part.key in {
            "sees",
            "hosts",
            "may_answer",
            "enabled",
            "confidence",
            "runs",
            *_LIMITS,
        }
    return isinstance(part, r.Readers | r.Question) or _conditional(part)


def _bounds(part: r.Part, source: _Source) -> bool:
    match part:
        case r.Loop():
            return part.at_most > 0
        case r.Right():
            return bool(part.quota)
        case r.Use() | r.Wait():
            return True
        case r.Setting():
            return part.key in {"pattern", "answer_within", *_COUNTS, *_LIMITS}
        case r.Step():
            return bool(part.within)
        case _:
            return False


def _some(part: r.Part, source: _Source) -> bool:
    after: tuple[r.After, ...] = getattr(part, "after", ())
    return any(group.need < len(group.of) for group in after) or isinstance(part, r.Use)


_MEETS: dict[str, Callable[[r.Part, _Source], bool]] = {
    "consent": _asks,
    "exclusive": _excludes,
    "forbidden": _forbids,
    "condition": lambda part, source: (
        _conditional(part)
        or (not _IF.search(source.clause.unquoted) and isinstance(part, r.Readers | r.Right))
        or isinstance(part, r.Loop | r.Use)
        or (isinstance(part, r.Step) and bool(part.needs or part.instead_of or part.within))
        or (isinstance(part, r.Question) and bool(part.options or part.at or part.before))
        or (isinstance(part, r.Setting) and part.key not in {"model", "window"})
        or (isinstance(part, r.Right) and part.effect in {"ask", "never"})
    ),
    "return": lambda part, _: (
        isinstance(part, r.Loop | r.Use)
        or (isinstance(part, r.Question) and len(part.options) > 1)
        or (isinstance(part, r.Setting) and part.key == "pattern")
    ),
    "bound": _bounds,
    "quorum": _some,
    "stand_in": lambda part, _: (
        isinstance(part, r.Loop | r.Use)
        or _conditional(part)
        or (isinstance(part, r.Step) and bool(part.instead_of or part.late))
        or (isinstance(part, r.Setting) and part.key in {"on_error", "unanswered", "at_cap"})
    ),
    "time_limit": lambda part, _: (
        (isinstance(part, r.Step) and bool(part.within))
        or (isinstance(part, r.Setting) and part.key in _DURATIONS)
        or (isinstance(part, r.Right) and bool(part.quota))
    ),
    "pause": lambda part, _: (
        isinstance(part, r.Wait) or (isinstance(part, r.Step) and bool(part.within))
    ),
    "sight": lambda part, _: (
        isinstance(part, r.Readers | r.Question | r.Right)
        or (isinstance(part, r.Setting) and part.key in {"sees", "window"})
    ),
    "each": lambda part, _: (
        (isinstance(part, r.Step) and bool(part.each))
        or isinstance(part, r.Use | r.Output)
        or (isinstance(part, r.Right) and bool(part.quota))
        or (isinstance(part, r.Setting) and part.key in {"pattern", "runs"})
    ),
}


def _at_odds(one: r.Right, other: r.Right) -> str:
    """Why two rights cannot both hold; empty where they can."""
    effects = {one.effect, other.effect}
    mine, theirs = set(one.agents), set(other.agents)
    if effects == {"only"}:
        return "two clauses say who alone may use" if mine != theirs else ""
    if effects == {"only", "may"}:
        only, may = (mine, theirs) if one.effect == "only" else (theirs, mine)
        beyond = may - only if may else {"every agent"}
        return f"{listed(sorted(beyond))} is given what others alone may use:" if beyond else ""
    if "never" in effects and effects & {"may", "only"} and len(effects) == 2:
        never, may = (mine, theirs) if one.effect == "never" else (theirs, mine)
        both = may & never
        if both:
            return f"{listed(sorted(both))} may and may not use"
        if not never:
            return "somebody and nobody may use"
    return ""


def _union(sets: Iterable[set[str]]) -> set[str]:
    found: set[str] = set()
    for each in sets:
        found |= each
    return found


def _numbers(clauses: Iterable[int]) -> str:
    return listed(map(str, clauses))


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


def _nouns(name: str) -> list[str]:
    return [noun(word) for word in words_of(name.replace("_", " "))]


def _said(phrase: Sequence[str], stems: Sequence[str]) -> bool:
    return bool(phrase) and in_order(phrase, stems)


def _alike(word: str, stems: Iterable[str]) -> bool:
    return len(word) >= 4 and any(each[:4] == word[:4] for each in stems)


def _worded(value: str, stems: set[str]) -> bool:
    parts = [stem(word) for word in words_of(value.replace("_", " "))]
    return all(part in stems or _alike(part, stems) for part in parts)


def _values(condition: Condition) -> Iterator[Any]:
    for fact in facts_in(condition):
        if fact.operator is None:
            continue
        values: Any = fact.value
        yield from values if isinstance(values, list) else [values]


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The values inside a part, each with the name of its field."""
    if isinstance(value, dict):
        found: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        for name, inner in found.items():
            yield from _leaves(inner, name)
    elif isinstance(value, tuple):
        several: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        for inner in several:
            yield from _leaves(inner, key)
    else:
        yield key, value


def _facts_of(part: r.Part) -> tuple[set[str], list[str]]:
    """The names that a part has in its structure, and its free texts."""
    names: set[str] = set()
    texts: list[str] = []
    for key, value in _leaves(part.model_dump(exclude={"clauses"})):
        if key in _FREE:
            texts.append(str(value))
        elif isinstance(value, str):
            names.update(_NAMES.findall(value))
    return names, texts


def _numbers_of(parts: Iterable[r.Part]) -> set[float]:
    """The numbers that parts have, durations in each of their units."""
    found: set[float] = set()
    for part in parts:
        for _, value in _leaves(part.model_dump(exclude={"clauses"})):
            if isinstance(value, int | float):
                found.add(float(value))
                continue
            found.update(numbers_in(value))
            try:
                seconds = parse_duration(value)
            except ValueError:
                continue
            found.update(seconds / unit for unit in (1, 60, 3600, 86_400, 604_800))
    return found

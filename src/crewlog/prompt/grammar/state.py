"""What the reader knows while it reads: what was said so far, and of whom."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from crewlog.definition.text import Source, Span
from crewlog.prompt.ast import AnyStatement, Cond, Not, Step, Words
from crewlog.prompt.compiled import Code, Remark
from crewlog.prompt.grammar.conditions import Reading
from crewlog.prompt.grammar.groups import shared
from crewlog.prompt.grammar.mentions import Roster
from crewlog.prompt.grammar.named_groups import NamedGroups
from crewlog.prompt.grammar.outsiders import instead_of, outsider
from crewlog.prompt.grammar.phrase import Phrase, Unit, agents_in, tools_in
from crewlog.prompt.grammar.remedies import remedy
from crewlog.prompt.registry import Registry

_OFTEN = re.compile(
    r" (?:(?:at least |more than |exactly |only )?(?:once|twice|thrice)|[a-z0-9]+ times"
    r"|(?:for )?(?:the|a) (?:second|third|fourth|fifth|nth|last) time|again and again|repeatedly)"
    r"(?: in a row| in succession| running| over)?$"
)
"""`The tests fail twice`: whoever decides says what is so now, and not for the how manyth time."""

_RECENT = 12
"""Statements back to which `both` may speak of who worked."""


class Places:
    """Lines and columns of a text, found once for all."""

    def __init__(self, text: str, file: str) -> None:
        self.source = Source(text, file)

    def span(self, start: int, end: int) -> Span:
        """The span of a stretch."""
        return self.source.span(start, end)


@dataclass(frozen=True, slots=True)
class Timed:
    """A duration or time that a sentence speaks of, and how."""

    seconds: float | None = None
    until: str = ""
    """With its zone, in ISO 8601; empty with `seconds`."""
    assumed: tuple[str, ...] = ()
    """What is not said and was taken as something."""
    why: str = ""
    """Why it is nothing that can be waited for."""
    leads: bool = False
    """It stands with a clause (`after two hours, …`), and so under the same condition."""
    trails: bool = False
    """It stands behind that clause: `… two hours later`."""
    since: bool = False
    """Whom it is counted from follows: `two hours after the writer finishes`."""
    before: str = ""
    """The agent that waits, where nothing else is said of it."""
    agent: str | None = None
    """Of a bound: who waits at most so long; none where the bound stands in a condition."""


@dataclass(slots=True)
class State:
    """The reader's memory."""

    text: str
    places: Places
    registry: Registry
    roster: Roster
    statements: list[AnyStatement] = field(default_factory=list[AnyStatement])
    remarks: list[Remark] = field(default_factory=list[Remark])
    subject: tuple[str, ...] = ()
    """Who `it`, `she` and `they` are."""
    worked: tuple[str, ...] = ()
    """The agents of the step before."""
    effort: int = 0
    """What reading has cost so far."""
    turns: int = 0
    """How often agents worked."""
    ever: set[str] = field(default_factory=set[str])
    """Every agent that has worked."""
    tools: tuple[str, ...] = ()
    """The tools spoken of last."""
    branches: list[Cond] = field(default_factory=list[Cond])
    """The conditions to which `otherwise` is the opposite."""
    begun: int = 0
    """How many statements there were when the sentence began."""
    needs: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Tools that agents need whose step is not said yet."""
    waiting_needs: dict[str, tuple[Words, ...]] = field(
        default_factory=dict[str, tuple[Words, ...]]
    )
    """Where these stand."""
    glued: list[Phrase] = field(default_factory=list[Phrase])
    """Words that were added to a task, having no meaning of their own."""
    labelled: bool = False
    """The sentence began with an agent's name and a colon."""
    described: bool = False
    """So it did, with an article: `The lawyer: thorough and dry.` says what it is."""
    touched: bool = False
    """The sentence changed a statement that was made before."""
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    """What agents do before whom people are asked."""
    addressed: tuple[str, ...] = ()
    """Who `you` is."""
    section: str = ""
    """The heading that the sentence stands under."""
    units: list[Unit] = field(default_factory=list[Unit])
    """The sentences read so far, with their mentions."""
    groups: NamedGroups = field(default_factory=NamedGroups)
    """The groups of agents, by the numbers that stand for them."""
    times: list[Timed] = field(default_factory=list[Timed])
    """Durations and times, by the numbers that stand for them."""
    told_times: list[Words] = field(default_factory=list[Words])
    """Times that nothing waits for."""
    models: tuple[str, ...] = ()
    """The registry's models, by the numbers that stand for them."""

    def say(self, statement: AnyStatement) -> bool:
        """Adds a statement."""
        self.statements.append(statement)
        return True

    def replace(self, at: int, **changes: object) -> bool:
        """Changes a statement that was made before, by words that follow it."""
        self.statements[at] = self.statements[at].model_copy(update=changes)
        self.touched = True
        return True

    def last(self, *kinds: str, sentence: bool = False) -> int | None:
        """The last statement if it is of one of these kinds; of the sentence, if asked for."""
        low = self.begun if sentence else 0
        for at in range(len(self.statements) - 1, low - 1, -1):
            if self.statements[at].kind in kinds:
                return at
            if self.statements[at].kind not in {"allow", "trait", "deny"}:
                return None
        return None

    def names(self, text: str) -> tuple[str, ...]:
        """The agents that a phrase names."""
        return tuple(dict.fromkeys(self.roster.agent(n) for n in agents_in(text)))

    def tool_names(self, text: str) -> tuple[str, ...]:
        """The tools that a phrase names."""
        return tuple(dict.fromkeys(self.roster.tools[n] for n in tools_in(text)))

    def raw(self, phrase: Phrase) -> str:
        """A phrase in the prompt's own words."""
        if not phrase:
            return ""
        words = phrase.words
        return " ".join(self.text[words.start : words.end].split()).strip(" ,;:–—-")

    def condition(self, text: str) -> Cond | None:
        """The condition that words say; none where they count how often: no flag holds that."""
        if _OFTEN.search(text):
            return None
        subject = self.subject[0] if len(self.subject) == 1 else None
        group = shared(text, self.worked, self._recent(), self.subject)
        if group is None:
            return Reading(self.roster, subject).condition(text)
        if not group.clear:
            return None
        marks = [f"@{self.roster.agents.index(name)}" for name in group.agents]
        condition = Reading(self.roster, subject).condition(group.spelled(marks))
        if condition is not None and group.quantifier in {"none", "not all"}:
            return Not(of=condition)
        return condition

    def _recent(self) -> list[str]:
        """Who worked in the last steps, the last one last."""
        steps = [s for s in self.statements[-_RECENT:] if isinstance(s, Step)]
        return [part.agent for step in steps for part in step.parts]

    def remark(
        self,
        code: Code,
        message: str,
        words: Sequence[Words],
        remedy: str = "",
        severity: Literal["error", "warning"] = "warning",
    ) -> None:
        """Adds a remark about words of the prompt."""
        first = words[0]
        span = self.places.span(first.start, first.end)
        diagnostic = self.places.source.diagnostic(message, span, remedy)
        self.remarks.append(Remark(code, severity, diagnostic, tuple(words)))

    def place(self, words: Words) -> str:
        """`line 3, column 7`."""
        span = self.places.span(words.start, words.end)
        return f"line {span.line}, column {span.column}"

    def not_understood(self, words: Words) -> None:
        """Reports words that are in no statement."""
        said = self.shown(words)
        who = outsider(self.text[words.start : words.end])
        if who and who not in self.roster.keys:
            say = f"{said!r} says nothing that a crew can do: {who!r} is taken for people"
            self.remark("not_understood", say, [words], instead_of(who))
            return
        say = f"{said!r} says nothing that a crew can do"
        self.remark("not_understood", say, [words], self._remedy(words))

    def _remedy(self, words: Words) -> str:
        """What may be said instead of words."""
        first = bisect_left(self.units, words.start, key=_start)
        inside = self.units[first : bisect_left(self.units, words.end, key=_start)]
        named = " ".join(unit.text for unit in inside if unit.text[0] in "@#$")
        said = self.text[words.start : words.end]
        return remedy(said, self.names(named), self.tool_names(named))

    def too_long(self, words: Words, what: str, longest: int) -> None:
        """Reports a sentence or clause that is not tried."""
        self.remark(
            "not_understood",
            f"this {what} is too long to be read: {self.shown(words)!r}",
            [words],
            f"Split it: a {what} has at most {longest} words, and a list at most 200 names.",
        )

    def step(self, step: Step) -> bool:
        """Adds a step, and remembers who worked."""
        named = tuple(dict.fromkeys(part.agent for part in step.parts))
        parts = tuple(
            p.model_copy(update={"needs": (*p.needs, *self.needs.pop(p.agent, ()))})
            for p in step.parts
        )
        self.statements.append(step.model_copy(update={"parts": parts}))
        self.turns += len(parts)
        self.worked, self.subject = self._at_work(step, named), named
        self.ever.update(named)
        return True

    def _at_work(self, step: Step, named: tuple[str, ...]) -> tuple[str, ...]:
        """Who works side by side once a step is said: `Meanwhile, the editor …` is one more."""
        more = step.place == "beside" or {*named} <= {*self.worked}
        if not more or step.again or step.after is not None or step.ready is not None:
            return named
        return tuple(dict.fromkeys((*self.worked, *named)))

    def shown(self, words: Words) -> str:
        """Words of the prompt, for a message."""
        text = " ".join(self.text[words.start : words.end].split())
        return text if len(text) <= 60 else f"{text[:57]}…"


def _start(unit: Unit) -> int:
    return unit.start

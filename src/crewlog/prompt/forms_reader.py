"""The offline reader: clauses that match the forms make a reading, deterministically.

A clause matches one form as a whole, or it is a fault that names the nearest form. Nothing is
guessed: a name that may end at several places, a condition that nobody decides and words that
oblige inside a task are faults, too. `verify` holds the reading against the prompt afterwards.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from crewlog.definition import conditions as c
from crewlog.definition.findings import listed
from crewlog.definition.model import NAME_PATTERN
from crewlog.definition.times import parse_time
from crewlog.prompt import reading as r
from crewlog.prompt.clauses import Clause, Clauses
from crewlog.prompt.conditions import Said, read_condition
from crewlog.prompt.faults import Fault
from crewlog.prompt.forms import FORMS, Form
from crewlog.prompt.names import crew_name, plain
from crewlog.prompt.nouns import EVERYONE, Names, Subject, does_things, names_in, words
from crewlog.prompt.registry import Registry
from crewlog.prompt.verify import RISKY
from crewlog.prompt.vocabulary import (
    NUMBERS,
    durations_in,
    in_order,
    obligations,
    phrase_stems,
    stem,
    words_of,
)

LONGEST_CLAUSE = 600
"""Characters of a clause that a form may have."""
_LEADS = re.compile(
    r"(?:(?P<then>first(?: of all)?|to begin with|then|next|finally|lastly|afterwards|after that"
    r"|and then|and finally|and|at the end|in the end|at last|later|again)|(?P<plain>also|oh|so|now"
    r"|please|well|but|moreover|besides|in addition))\b[,:]?\s+",
    re.IGNORECASE,
)
_CONTRACTIONS = (
    (r"\b(it|that|he|she|what|who|there|here)'s\b", r"\1 is"),
    (r"\b(we|you|they)'ve got\b", r"\1 have got"),
    (r"\b(i|we|you|they)'ve\b", r"\1 have"),
    (r"\b(we|you|they)'re\b", r"\1 are"),
    (r"\bi'm\b", "I am"),
    (r"\bcan't\b", "can not"),
    (r"\bwon't\b", "will not"),
    (r"\b(do|does|did|is|are|was|were|has|have|must|should|may|would|could)n't\b", r"\1 not"),
    (r"\blet's\b", "let us"),
)
_THEN = {
    "ask": r"(?:please )?(?:ask|consult|tell) (?:me|us|a human)|it is my call|I decide",
    "end": r"(?:we |the run |just )?(?:gives? up|stops?|ends?|forget it)(?: there| here)?",
    "fail": r"(?:the run )?fails?",
    "next": r"(?:we |the run |just )?(?:go(?:es)? on|continues?|carry on|carries on|move on|moves on)",
}
_REST = re.compile(
    r"\b(?:works?|goes|go|starts?|begins?|does its part|takes? over)\b(?:\s+(?:in parallel"
    r"|at the same time|side by side|simultaneously|at once))?",
    re.IGNORECASE,
)
_BESIDE = re.compile(
    r",?\s*\b(?:in parallel|at the same time|side by side|simultaneously|at once|concurrently)\b,?",
    re.IGNORECASE,
)
_JOINTS = re.compile(
    r"(?P<word>,\s*and\s+|,\s*while\s+|,\s*but\s+|,\s*then\s+|,\s+|\s+and\s+|\s+while\s+|:\s+)",
    re.IGNORECASE,
)
_RELATIVE = re.compile(r"\b(?:which|who|whom|whose)\b", re.IGNORECASE)
_PRONOUNS = re.compile(
    r"(?:it|they|he|she|both|both of them|all of them|each of them|all three|these|those)\s+",
    re.IGNORECASE,
)
_TALK = re.compile(
    r"(?:hi|hello|hey|dear \w+|good (?:morning|day|luck)|(?:many )?thanks?(?: you)?(?: a lot| very much"
    r"| in advance| to (?:all of )?you(?: all)?| to everyone)?|cheers|regards|kind regards|best|ok|okay|bye|please|welcome)"
    r"(?:[ ,]+(?:there|everyone|all|team|folks|you))*",
    re.IGNORECASE,
)
_STARTS = re.compile(
    r"(?:only\s+(?!if\b|when\b|after\b|once\b)|ask\s+me\s+before\b|(?:nobody|no\s+one)\s+(?!else)|every(?:one|body)\s+(?:may|can)\b"
    r"|I\s+approve\b|(?:with\s+)?no\s+more\s+than\s+\w+\s+at\s+a\s+time|[\w-]+_[\w-]+\s+needs\s+my\b)",
    re.IGNORECASE,
)
"""Words that begin another right or question in the same clause."""
_OF_AGENT = re.compile(
    r"(?:may|can|has|uses|should|must|reviews its own|is switched|works only if|only if|may not)\b",
    re.IGNORECASE,
)
"""Words behind an agent that say a right, a setting or a trait."""
_SAME = re.compile(
    r"(?:may|can)\s+(?!be\b)|uses\s+the\s+model\b|works\s+only\s+if\b|is\s+switched\b|reviews\s+its\s+own\b|should\b"
    r"|only\s+if\s+\w+\s+is\s+available",
    re.IGNORECASE,
)
"""Words that say more of the same agent."""
_WHOLE = re.compile(
    r"\b(?:may|can|has|have|uses?|should|must|needs?|ask\s+me|at\s+most|no\s+more|is|are)\b",
    re.IGNORECASE,
)
_PASSIVE = re.compile(
    r"(?P<what>.+?)\s+(?:is|are)\s+(?:then\s+)?(?P<done>(?:\w+\s+){0,2}?\w+)\s+by\s+(?P<agent>(?:the|an?)\s.+|[A-Z].*)",
    re.IGNORECASE,
)
_CARRIES = re.compile(r"then\s+carr(?:y|ies)\s+the\s+plan\s+out$", re.IGNORECASE)
_NO_WORK = re.compile(
    r"(?:is|are|was|were|has|have|had|will|would|may|might|can|cannot|could|must|should|shall|never|always|only"
    r"|do|does|did|needs?|wants?|gets?\s+to)\b",
    re.IGNORECASE,
)
"""Words behind an agent that say no work of it."""
_BINDS = re.compile(
    r"\b(?:may|must|can|use|uses|call|calls|see|sees|send|sends|contact|access|deploy|publish|delete|allowed)\b",
    re.IGNORECASE,
)
_PERIODS = ("run", "hour", "day")
_POSSESSIVE = re.compile(r"^(?P<owner>.+?)(?:'s|s')\s+(?P<rest>.+)$")


@dataclass
class _Part:
    """One agent's share of a step."""

    agent: str
    task: str
    tools: tuple[str, ...] = ()
    beside: bool = False
    """Whether it works beside the part before."""
    adds: bool = False
    """Whether it only says more of what its agent is doing anyway."""


@dataclass
class _Step:
    """A step that is being made."""

    name: str
    agent: str
    task: str
    clauses: list[int]
    after: list[r.After] = field(default_factory=list[r.After])
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


class _Unmatched(Exception):
    """A form does not match after all; the text says why, where that helps."""


@dataclass(frozen=True)
class FormsReading:
    """What the forms make of a prompt."""

    reading: r.Reading
    faults: tuple[Fault, ...]
    """Clauses that match no form, each with its hint."""


def read_forms(clauses: Clauses, registry: Registry) -> FormsReading:
    """Reads a prompt with the forms.

    Args:
        clauses: The prompt.
        registry: What it may use.
    """
    return _FormsReader(clauses, registry).run()


class _FormsReader:
    """Reads one prompt."""

    def __init__(self, clauses: Clauses, registry: Registry) -> None:
        self.clauses = clauses
        self.registry = registry
        self.names = Names(registry)
        self.faults: list[Fault] = []
        self.status: dict[int, r.Status] = {}
        self.crew = ""
        self.agents: dict[str, tuple[list[int], list[str]]] = {}
        """What is said of each agent: the clauses, and what it is."""
        self.outputs: dict[tuple[str, str], r.Output] = {}
        self.steps: dict[str, _Step] = {}
        self.parts: dict[str, list[r.Part]] = {name: [] for name in r.PARTS}
        self.last: list[str] = []
        """The steps of the block said last."""
        self.tail: list[r.After] = []
        """What the next step waits for."""
        self.before: list[str] = []
        """The agents that worked before that block."""
        self.spoken: list[str] = []
        """The agents that were spoken of last: what `it` and `they` are."""
        self.chain: list[c.Condition] = []
        """The conditions of the branches said last, for `otherwise`."""
        self.pending: list[tuple[str, str, int, int]] = []
        """Questions before an agent's step: list, name, agent and how many steps there were."""
        self.cast: list[str] = []
        self.number = 0
        """The clause that is read."""
        self.again = False
        """Whether a word says that it is a new step: `then`."""
        self.said_then = False
        self.counts: Counter[str] = Counter()
        """How many steps each agent has."""
        self.also: tuple[int, ...] = ()
        """The next clause, where it is read together with this one."""
        self.tentative = ""
        """The step that only a question before it has spoken of so far."""
        self.tool_phrases = [
            (phrase_stems(said), name)
            for name, tool in registry.tools.items()
            for said in (name, *tool.words)
        ]

    def run(self) -> FormsReading:
        texts = {clause.number: _normal(clause) for clause in self.clauses}
        names_in((t for n, t in texts.items() if not self.clauses[n].is_pasted), self.names)
        self._introduce(texts)
        for clause in self.clauses:
            self.number = clause.number
            following = texts.get(clause.number + 1, "")
            if clause.number in self.status:
                continue  # it was read with the clause before
            if _CARRIES.match(following) and re.search(
                r"\bplans?\s+first$", texts[clause.number], re.IGNORECASE
            ):
                self.also = (clause.number + 1,)
                self._clause(clause, f"{texts[clause.number]}, {following}")
                self.also = ()
                self.status[clause.number + 1] = self.status.get(clause.number, "cannot")
                continue
            self._clause(clause, texts[clause.number])
        self._finish()
        return FormsReading(self._reading(), tuple(self.faults))

    def _introduce(self, texts: dict[int, str]) -> None:
        """Learns the names of agents that a sentence lists, and that begin clauses."""
        cast = next(form for form in FORMS if form.name == "agents")
        for clause in self.clauses:
            if clause.kind in {"pasted", "heading"} or len(clause.text) > LONGEST_CLAUSE:
                continue
            text = texts[clause.number]
            for regex in cast.regexes:
                if found := regex.fullmatch(text):
                    for name in _list(found["names"]):
                        self.names.roles[self.names.add(name)] += 2
            text, _ = self._leads(text)
            found_subject = self.names.subject(text)
            if found_subject is not None and len(found_subject.names) == 1:
                at = len(text) - len(found_subject.rest)
                said = text[:at].strip()
                if found_subject.rest and said.casefold() not in EVERYONE:
                    self.names.roles[self.names.add(said)] += 1 + _is_proper(said)

    # -- clauses ---------------------------------------------------------------------------------

    def _clause(self, clause: Clause, text: str) -> None:
        if clause.is_pasted:
            return
        if clause.kind == "heading":
            if not self.crew and clause.number == 1:
                self.crew = crew_name(clause.text)
            return
        if _TALK.fullmatch(text):
            self.status[clause.number] = "talk"
            return
        if len(clause.text) > LONGEST_CLAUSE:
            self._unread(clause, f"the clause has {len(clause.text)} characters", "Split it.")
            return
        why = ""
        for piece in self._pieces(text):
            said, then = self._leads(piece)
            self.again, self.said_then = then, then
            why = self._match(said)
            if why:
                break
        else:
            self.status[clause.number] = "used"
            return
        nearest = self._nearest(text)
        example = f" The nearest form: {nearest.examples[0]!r}" if nearest else ""
        self._unread(clause, why or "no form matches this clause", f"Say it in a form.{example}")

    def _match(self, text: str) -> str:
        """Takes the form that a text matches as a whole; why it matches none, else an empty text."""
        why = "no form matches this clause"
        specific = ""
        for form in FORMS:
            for regex in form.regexes:
                found = regex.fullmatch(text)
                if found is None:
                    continue
                try:
                    getattr(self, f"take_{form.name}")(found)
                except _Unmatched as error:
                    specific = specific or str(error)
                    continue
                return ""
        return specific or why

    def _pieces(self, text: str) -> list[str]:
        """A clause cut where another right or question begins: `… , but only the layouter may …`."""
        if bracket := re.search(
            r"\s*\((?P<more>(?:it|they|he|she)\s+(?:may|can)\s[^()]*)\)$", text
        ):
            return [text[: bracket.start()], bracket["more"]]
        found: list[str] = []
        at = 0
        for joint in re.finditer(r",?\s+(?:and|but)\s+|,\s+", text):
            if joint.start() <= at:
                continue
            right = text[joint.end() :]
            left = text[at : joint.start()]
            if not _WHOLE.search(left) and self.names.subject(self._leads(left)[0]) is None:
                continue  # `the writer and the checker may …`
            if _STARTS.match(right) or self._starts_right(right):
                found.append(left)
                at = joint.end()
            elif _SAME.match(right):
                found.append(left)
                text = f"{text[: joint.end()]}it {right}"
                at = joint.end()
        return [*found, text[at:]]

    def _starts_right(self, text: str) -> bool:
        """Whether a text begins with an agent of which a right, a setting or a trait is said."""
        subject = self.names.subject(text)
        return (
            subject is not None
            and not subject.unclear
            and _OF_AGENT.match(subject.rest) is not None
        )

    def _unread(self, clause: Clause, why: str, how: str) -> None:
        self.faults.append(Fault("not_understood", why, how, (clause.number,)))

    def _nearest(self, text: str) -> Form | None:
        """The form whose fixed words the clause has most of."""
        said = set(words_of(text))
        scored = [
            (len(form.keywords & said) / (len(form.keywords) ** 0.5), -i, form)
            for i, form in enumerate(FORMS)
            if form.keywords & said
        ]
        return max(scored)[2] if scored else FORMS[-1]

    def _leads(self, text: str) -> tuple[str, bool]:
        """A text without the words that only lead to it, and whether these say that it is later."""
        then = False
        while found := _LEADS.match(text):
            then = then or found["then"] is not None
            text = text[found.end() :]
        if found := re.search(r"\s+(?:then|again|afterwards|too|as well)$", text, re.IGNORECASE):
            then = then or "then" in found.group() or "again" in found.group()
            text = text[: found.start()]
        return text, then

    # -- slots -----------------------------------------------------------------------------------

    def _agents(self, text: str) -> list[str]:
        """The agents of a slot: known names, everyone, or who was spoken of last."""
        text = text.strip()
        folded = re.sub(r"^(?:the|all of the)\s+", "", text.casefold())
        if folded.replace(" ", "_") in EVERYONE or re.fullmatch(
            r"(?:every|each|all|any)(?: of the)? agents?", folded
        ):
            return []
        if _PRONOUNS.fullmatch(f"{folded} "):
            if not self.spoken:
                raise _Unmatched(f"it is not clear who {text!r} is")
            return list(self.spoken)
        found: list[str] = []
        for each in _list(text):
            name = self.names.name_of(each)
            if not name:
                short = re.fullmatch(
                    r"(?:the|an?)\s+[\w'-]+(?:\s+[\w'-]+)?", each.strip(), re.IGNORECASE
                )
                last = each.split()[-1]
                if (short and (does_things(last) or len(each.split()) == 2)) or re.fullmatch(
                    r"[A-Z][\w-]*", each.strip()
                ):
                    name = self.names.add(each)
            if not name:
                raise _Unmatched(f"{each.strip()!r} is no agent that this reader knows")
            found.append(name)
        if not found:
            raise _Unmatched("no agent is named")
        return list(dict.fromkeys(found))

    def _is_known(self, agent: str) -> bool:
        """Whether a name is certainly that of an agent."""
        doer = does_things(agent.rpartition("_")[2])
        return (
            doer
            or agent in self.registry.agents
            or agent in self.agents
            or self.names.roles[agent] > 1
        )

    def _agent(self, text: str) -> str:
        found = self._agents(text)
        if len(found) != 1:
            raise _Unmatched(f"{text.strip()!r} is not one agent")
        return found[0]

    def _tools(self, text: str) -> list[str]:
        """The tools of a slot, by name, by the words of the name or by the registry's words."""
        found: list[str] = []
        for each in _list(
            re.sub(r"^(?:the tools?|both)\s+", "", text.strip(), flags=re.IGNORECASE)
        ):
            tool = self._tool(each)
            if not tool:
                raise _Unmatched(f"the registry offers no tool for {each.strip()!r}")
            found.append(tool)
        if not found:
            raise _Unmatched("no tool is named")
        return list(dict.fromkeys(found))

    def _tool(self, text: str) -> str:
        plain_text = text.strip().strip("`'\"")
        if plain_text in self.registry.tools:
            return plain_text
        said = phrase_stems(plain_text)
        exact = [name for phrase, name in self.tool_phrases if phrase == said]
        if exact:
            return exact[0]
        near = {name for phrase, name in self.tool_phrases if phrase and set(phrase) == set(said)}
        return near.pop() if len(near) == 1 else ""

    def _bound(self, text: str | None) -> int:
        """`at most 3 times`, `twice at most` as a number; 0 where nothing is said."""
        if not text:
            return 0
        said = [word for word in words_of(text) if NUMBERS.get(word) is not None or word.isdigit()]
        if len(said) != 1:
            raise _Unmatched(f"{text!r} is no bound")
        return self._count(said[0])

    def _count(self, text: str) -> int:
        word = text.strip().casefold()
        number = NUMBERS.get(word)
        if number is None and word.replace(",", "").isdigit():
            number = float(word.replace(",", ""))
        if number is None or number != int(number) or number < 1:
            raise _Unmatched(f"{text!r} is no number")
        return int(number)

    def _duration(self, text: str) -> str:
        said = durations_in(text)
        rest = re.sub(r"[\w.,/ -]+", "", text)
        if not said or rest.strip():
            raise _Unmatched(f"{text!r} is no duration")
        return _short_duration(max(said))

    def _outcome(self, text: str) -> str:
        for outcome, pattern in _THEN.items():
            if re.fullmatch(pattern, text.strip(), re.IGNORECASE):
                return outcome
        raise _Unmatched(f"{text!r} is nothing that can come then")

    # -- conditions ------------------------------------------------------------------------------

    def _condition(
        self, text: str, *, negated: bool = False, requirement: bool = False
    ) -> c.Condition:
        """A condition of which each fact has the agent that decides it; its outputs are declared."""
        said = read_condition(text, self._agent_of)
        if said is None:
            raise _Unmatched(f"{text!r} is no condition that this reader knows")
        found = self._decided(said, requirement=requirement)
        if not negated:
            return found
        return found.of if isinstance(found, c.Not) else c.Not(of=found)

    def _agent_of(self, text: str) -> str:
        """The agent of some words in a condition; `she` is who was spoken of last."""
        if text.strip().casefold() in {"it", "she", "he"} and len(self.spoken) == 1:
            return self.spoken[0]
        return self.names.name_of(text)

    def _decided(self, said: Said, *, requirement: bool) -> c.Condition:
        match said.kind:
            case "not":
                inner = self._decided(said.of[0], requirement=requirement)
                return inner.of if isinstance(inner, c.Not) else c.Not(of=inner)
            case "all" | "any":
                parts = tuple(self._decided(each, requirement=requirement) for each in said.of)
                return c.AllOf(of=parts) if said.kind == "all" else c.AnyOf(of=parts)
            case _:
                return self._fact(said, requirement=requirement)

    def _fact(self, said: Said, *, requirement: bool) -> c.Fact:
        name = said.name
        if name == "kind" and self.chain and said.operator == "==":
            asked = next((f for f in c.facts_in(self.chain[-1]) if f.operator == "=="), None)
            name = asked.name if asked is not None else name
        owner = said.agent or self._owner(name, said.about, requirement=requirement)
        kind: Literal["boolean", "number", "choice"] = "boolean"
        if said.operator is not None:
            kind = "choice" if isinstance(said.value, str) else "number"
        self._output(owner, name, kind, said.value if kind == "choice" else None)
        return c.Fact(agent=owner, name=name, operator=said.operator, value=said.value)

    def _owner(self, name: str, about: str, *, requirement: bool) -> str:
        chained = [fact for when in self.chain for fact in c.facts_in(when) if fact.name == name]
        if chained and chained[-1].agent and not requirement:
            return chained[-1].agent
        workers = self._workers()
        among = list(self._working()) if requirement else workers
        speaking = [agent for agent in among if about and self._speaks_of(agent, about)]
        if speaking and (requirement or len(workers) > 1):
            near = [agent for agent in speaking if agent in workers]
            return (near or speaking)[0]
        if not workers:
            raise _Unmatched(f"nobody has worked yet who could decide {name!r}")
        return workers[-1]

    def _working(self) -> dict[str, None]:
        """The agents that have steps, or a part in a shape."""
        found = dict.fromkeys(step.agent for step in self.steps.values())
        uses = [use for use in self.parts["uses"] if isinstance(use, r.Use)]
        named = (v for use in uses for option in use.options for v in option.values)
        return {**dict.fromkeys(v for v in named if v in self.agents), **found}

    def _speaks_of(self, agent: str, about: str) -> bool:
        wanted = {stem(word) for word in words_of(about)}
        tasks = " ".join(step.task for step in self.steps.values() if step.agent == agent)
        return bool(wanted) and wanted <= {stem(word) for word in words_of(tasks)}

    def _output(
        self,
        agent: str,
        name: str,
        kind: Literal["boolean", "number", "choice", "list"],
        value: Any = None,
    ) -> None:
        known = self.outputs.get((agent, name))
        values = known.values if known is not None else ()
        if value is not None and value not in values:
            values = (*values, str(value))
        clauses = (*(known.clauses if known is not None else ()), self.number)
        clauses = tuple(dict.fromkeys((*self._first_clause(agent), *clauses)))
        self.outputs[agent, name] = r.Output(
            clauses=clauses, agent=agent, name=name, kind=kind, values=values
        )

    def _first_clause(self, agent: str) -> list[int]:
        if agent in self.agents:
            return self.agents[agent][0][:1]
        none: list[int] = []
        return next((s.clauses[:1] for s in self.steps.values() if s.agent == agent), none)

    # -- steps -----------------------------------------------------------------------------------

    def _passive(self, found: re.Match[str]) -> list[_Part]:
        """The part of `the accounts are examined by the accountant`."""
        task = f"{found['what']}: {found['done']}"
        self._guard(task)
        agents: list[_Part] = []
        text = _BESIDE.sub(" ", found["agent"]).strip()
        with_tools = re.match(r"(?P<agent>.+?)(?P<with>\s+(?:with|using)\s+(?P<tools>.+))?$", text)
        tools: tuple[str, ...] = ()
        if with_tools is not None and with_tools["tools"]:
            tools, text = tuple(self._tools(with_tools["tools"])), with_tools["agent"]
        for joint in re.finditer(r",?\s+and\s+|,\s+", text):
            right = text[joint.end() :]
            if _PASSIVE.fullmatch(right) or ((s := self.names.subject(right)) and s.rest):
                rest = self._phrases(right, adds=False)
                return [_Part(self._agent(text[: joint.start()]), task, tools), *rest]
        for each in self._agents(text):
            agents.append(_Part(each, task, tools, beside=bool(agents)))
        if not agents:
            raise _Unmatched("no agent is named")
        return agents

    def _phrases(self, text: str, *, adds: bool = True, bare: bool = False) -> list[_Part]:
        """The parts of `the writer drafts the notes and the checker reviews them`."""
        text, then = self._leads(text.strip())
        self.again = self.again or then
        if passive := _PASSIVE.fullmatch(text):
            return self._passive(passive)
        subject = self._subject(text, adds=adds, bare=bare)
        for each in _list(text[: len(text) - len(subject.rest)]):
            if _is_proper(each):
                self.names.roles[self.names.name_of(each) or self.names.add(each)] += 1
        if _NO_WORK.match(subject.rest):
            raise _Unmatched("this says what is or may be, and not what an agent does")
        for name in subject.names:
            self._check_role(name)
            self.names.known.setdefault(tuple(name.split("_")), name)
        task, rest, beside = self._split(subject.rest)
        is_pronoun = bool(_PRONOUNS.match(text))
        tools = self._tools_in(task)
        self._guard(task)
        found = [
            _Part(name, _task(task), tools, beside=i > 0, adds=is_pronoun)
            for i, name in enumerate(subject.names)
        ]
        if rest:
            more = self._phrases(rest, adds=False)
            more[0].beside = beside
            found += more
        return found

    def _subject(self, text: str, *, adds: bool, bare: bool) -> Subject:
        """Who works in a text, with what follows the name."""
        found = self.names.subject(text, bare=bare)
        if found is not None and found.unclear:
            said = listed([repr(each) for each in found.unclear], "or")
            raise _Unmatched(f"it is not clear where the agent's name ends: {said}")
        if found is not None:
            return Subject(found.names, re.sub(r"^to\s+", "", found.rest)) if bare else found
        found = self._pronoun(text) if adds else None
        everyone = re.match(r"(?:all|every|each)(?: of the)? agents?\s+|(?:they|both) ", text)
        if found is None and everyone is not None and self.cast_only():
            found = Subject(tuple(self.cast), text[everyone.end() :])
        if found is None:
            raise _Unmatched("it is not clear who works here")
        return found

    def _check_role(self, name: str) -> None:
        """Refuses a name that may be a thing: `a claim comes in`."""
        offered = name in self.registry.agents
        doer = does_things(name.rpartition("_")[2])
        if not offered and not doer and self.names.roles[name] < 2 and name not in self.agents:
            raise _Unmatched(f"it is not clear whether {name!r} is an agent; list it: 'Agents: …'")

    def _pronoun(self, text: str) -> Subject | None:
        found = _PRONOUNS.match(text)
        if found is None or not self.spoken:
            return None
        return Subject(tuple(self.spoken), text[found.end() :])

    def _split(self, text: str) -> tuple[str, str, bool]:
        """A task, what another agent does, and whether it does so beside it."""
        for joint in _JOINTS.finditer(text):
            right, _ = self._leads(text[joint.end() :])
            if not re.match(r"(?:the|an?|our|your|each)\s|[A-Z]", right):
                continue
            if passive := _PASSIVE.fullmatch(right):
                del passive
                return (
                    text[: joint.start()].strip(" ,"),
                    text[joint.end() :],
                    "while" in joint["word"].casefold(),
                )
            subject = self.names.subject(right)
            if subject is None or joint.start() == 0:
                continue
            if subject.unclear:
                said = listed([repr(each) for each in subject.unclear], "or")
                raise _Unmatched(f"it is not clear where the agent's name ends: {said}")
            said_name = right[: len(right) - len(subject.rest)].strip()
            known = bool(self.names.name_of(said_name)) or len(subject.names) > 1
            last = words(said_name)[-1].text if words(said_name) else ""
            if known or does_things(last):
                beside = "while" in joint["word"].casefold()
                if re.match(
                    r"(?:meanwhile|in parallel|at the same time)",
                    text[joint.end() :],
                    re.IGNORECASE,
                ):
                    beside = True
                return text[: joint.start()].strip(" ,"), text[joint.end() :], beside
            if len(words(subject.rest)) < 2:
                continue  # `the screens and the data models`
            raise _Unmatched(
                f"it is not clear whether {said_name!r} is an agent; say it in a sentence of its own"
            )
        return text.strip(), "", False

    def _guard(self, task: str) -> None:
        """Refuses a task that has an obligation in it, or another agent's work."""
        for kind, found in obligations(task):
            if kind in {"sight", "stand_in", "each", "pause"}:
                continue
            if kind in {"forbidden", "exclusive"} and not (
                _BINDS.search(task) or self.names.mentioned(task) or self._tool_words(task)
            ):
                continue
            if kind == "quorum" and not re.search(r"\b(?:done|ready|back|finish\w*)\b", task):
                continue
            if (
                kind == "condition"
                and found.group().casefold() == "if"
                and re.search(
                    r"\b(?:see|sees|check|checks|say|says|decide|decides|tell|tells)\s+(?:\w+\s+)?if\b",
                    task,
                )
            ):
                continue
            if kind == "bound" and re.fullmatch(r"\w+\s+times", found.group(), re.IGNORECASE):
                continue
            raise _Unmatched(f"{found.group().strip()!r} obliges, and stands inside a task")
        relative = _RELATIVE.search(task)
        if relative is not None and self.names.mentioned(task[relative.end() :]):
            raise _Unmatched("another agent works in the middle of this sentence")
        if "(" in task and (
            self.names.mentioned(task[task.index("(") :])
            or self._tools_named(task[task.index("(") :])
        ):
            raise _Unmatched("the words in brackets say more")

    def _tools_in(self, task: str) -> tuple[str, ...]:
        """The tools of `… with search_logs` and `… using read_metrics`."""
        found = re.search(
            r"(?:^|,?\s+)(?:with|using|by means of)\s+(?P<tools>.+)$", task, re.IGNORECASE
        ) or re.match(r"(?:uses?|calls?)\s+(?P<tools>.+?)\s+(?:to|for)\s", task, re.IGNORECASE)
        if found is None:
            return ()
        try:
            return tuple(self._tools(found["tools"]))
        except _Unmatched:
            if self._tools_named(found["tools"]):
                raise
            return ()

    def _tool_words(self, text: str) -> bool:
        """Whether a text has the words of a tool."""
        said = [stem(word) for word in words_of(text)]
        return any(in_order(phrase, said) for phrase, _ in self.tool_phrases if phrase)

    def _tools_named(self, text: str) -> bool:
        return any(tool in text for tool in self.registry.tools)

    def _put(
        self,
        parts: Sequence[_Part],
        *,
        place: Literal["next", "beside"] = "next",
        after: list[r.After] | None = None,
        only_if: c.Condition | None = None,
        fields: dict[str, Any] | None = None,
    ) -> list[_Step]:
        """Adds the steps of a clause: the first block, then one for each part that comes later."""
        made: list[_Step] = []
        blocks: list[list[_Part]] = []
        for part in parts:
            if part.beside and blocks:
                blocks[-1].append(part)
            else:
                blocks.append([part])
        for i, block in enumerate(blocks):
            first = i == 0
            plain_block = only_if is None and after is None and not fields
            if plain_block and place == "next" and self._goes_on(block, again=self.again and first):
                self._add(block)
                continue
            beside = first and place == "beside" and bool(self.last)
            if not beside:
                self.before = self._workers()
                sources = list(self.tail) if after is None or not first else after
            else:
                sources = list(self.steps[self.last[0]].after)
            names: list[str] = []
            for part in block:
                step = self._new(part, sources)
                if only_if is not None and first:
                    step.fields["if"] = c.render_condition(only_if)
                step.fields.update(fields or {} if first else {})
                names.append(step.name)
                made.append(step)
            self.last = [*self.last, *names] if beside else names
            self.tail = [r.After(of=tuple(self.last), need=len(self.last))]
            if only_if is None and not beside:
                self.chain = []
            self.spoken = list(dict.fromkeys(self.steps[name].agent for name in names))
        return made

    def _goes_on(self, block: Sequence[_Part], *, again: bool) -> bool:
        """Whether a sentence only says more of what its agents are doing anyway."""
        working = [self.steps[name].agent for name in self.last if name in self.steps]
        return (
            not again
            and {part.agent for part in block} <= set(working)
            and len(set(working)) == len(working)
            and self.tail == [r.After(of=tuple(self.last), need=len(self.last))]
        )

    def _add(self, block: Sequence[_Part]) -> None:
        for part in block:
            step = next(self.steps[n] for n in self.last if self.steps[n].agent == part.agent)
            step.task = (
                f"{step.task}. {part.task}" if part.task and step.task else step.task or part.task
            )
            if self.number not in step.clauses:
                step.clauses.append(self.number)
            self._give(part)
        self.spoken = list(dict.fromkeys(part.agent for part in block))

    def _new(self, part: _Part, sources: list[r.After]) -> _Step:
        known = self.steps.get(self.tentative)
        if known is not None and known.agent == part.agent:
            self._forget(known)
            if sources == [r.After(of=(known.name,), need=1)]:
                sources = known.after
        self.counts[part.agent] += 1
        count = self.counts[part.agent]
        name = part.agent if count == 1 else f"{part.agent}_{count}"
        step = _Step(name, part.agent, part.task, [self.number], list(sources))
        self.steps[name] = step
        self._speak(part.agent)
        self._give(part)
        return step

    def _forget(self, step: _Step) -> None:
        """Takes a step back that only a question spoke of: what waited for it waits for its sources."""
        del self.steps[step.name]
        self.counts[step.agent] -= 1
        self.tentative = ""
        for other in self.steps.values():
            if any(step.name in group.of for group in other.after):
                other.after = [g for g in other.after if step.name not in g.of] + step.after
        if any(step.name in group.of for group in self.tail):
            self.tail = [g for g in self.tail if step.name not in g.of] + step.after

    def _give(self, part: _Part) -> None:
        if part.tools:
            self._right("may", [part.agent], part.tools)

    def _speak(self, agent: str) -> None:
        clauses, _ = self.agents.setdefault(agent, ([], []))
        if self.number not in clauses:
            clauses.append(self.number)

    def _workers(self) -> list[str]:
        found = [self.steps[name].agent for name in self.last if name in self.steps]
        uses = [
            part
            for part in self.parts["uses"]
            if isinstance(part, r.Use) and part.name in self.last
        ]
        found += [v for use in uses for o in use.options for v in o.values if v in self.agents][:1]
        return list(dict.fromkeys(found)) or self.before

    def _latest(self, agent: str) -> str:
        """The latest step of an agent."""
        found = [name for name, step in self.steps.items() if step.agent == agent]
        if not found:
            raise _Unmatched(f"{agent!r} has not worked before")
        return found[-1]

    def _all_of(self, text: str) -> list[str]:
        return self._agents(text) or list(self._working())

    def _spoken_of(self, agents: Iterable[str]) -> tuple[int, ...]:
        """This clause, and the one that names whom a pronoun in it means."""
        named = self.names.mentioned(_normal(self.clauses[self.number]))
        first = [n for a in agents if a not in named for n in self._first_clause(a)]
        return tuple(dict.fromkeys((self.number, *self.also, *first)))

    def _right(
        self, effect: Literal["may", "only", "never", "ask"], agents: Sequence[str],
        tools: Sequence[str], *, condition: str = "", quota: str = "",
    ) -> None:  # fmt: skip
        for agent in agents:
            self._speak(agent)
        self.parts["rights"].append(
            r.Right.model_validate(
                {
                    "clauses": self._spoken_of(agents), "effect": effect, "agents": tuple(agents),
                    "tools": tuple(tools), "if": condition, "quota": quota,
                }
            )
        )  # fmt: skip

    def _setting(self, agents: Sequence[str], key: str, value: str) -> None:
        for agent in agents:
            self._speak(agent)
        clauses = self._spoken_of(agents)
        self.parts["settings"].append(
            r.Setting.model_validate(
                {"clauses": clauses, "agents": tuple(agents), "key": key, "value": value}
            )
        )

    # -- forms: who works ------------------------------------------------------------------------

    def take_crew(self, found: re.Match[str]) -> None:
        self.crew = crew_name(found["name"])

    def take_agents(self, found: re.Match[str]) -> None:
        names = [self.names.add(each) for each in _list(found["names"])]
        if not all(names):
            raise _Unmatched("these are no names of agents")
        for name in names:
            self._speak(name)
        self.cast += names

    def take_step(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        if slots.get("what") is not None:
            raise _Unmatched("")
        bare = slots.get("bare")
        parts = self._phrases(bare or found["step"], adds=bare is None, bare=bare is not None)
        beside = bool(_BESIDE.search(parts[0].task)) and len({p.agent for p in parts}) > 1
        if beside:
            for part in parts[1:]:
                part.beside = part.beside or part.task == parts[0].task
        self._put(self._side_by_side(parts))

    def take_then(self, found: re.Match[str]) -> None:
        outcome = self._is_outcome(found["then"])
        if not outcome:
            raise _Unmatched("")
        self._loop_end(outcome)

    @staticmethod
    def _side_by_side(parts: list[_Part]) -> list[_Part]:
        for part in parts:
            part.task = _BESIDE.sub(" ", part.task).strip(" ,")
        return parts

    def take_parallel(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        second = self._phrases(found["second"], adds=False)
        if slots.get("first") is None:
            if not self.last:
                raise _Unmatched("nobody works yet whom this could be beside")
            self._put(self._side_by_side(second[:1]), place="beside")
            self._put(second[1:])
            return
        first = self._phrases(found["first"], adds=False)
        second[0].beside = True
        self.again = True
        self._put(self._side_by_side([*first, *second]))

    def take_each(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        if slots.get("items") is not None:
            noun, maker = plain(found["items"]), self._agent(found["maker"])
        else:
            noun, maker = _plural(plain(found["item"])), ""
        if not re.fullmatch(NAME_PATTERN, noun):
            raise _Unmatched("it is not clear what the list is of")
        parts = self._phrases(found["step"], adds=False)
        if not maker:
            speaking = [a for a in self._working() if self._speaks_of(a, noun.replace("_", " "))]
            workers = self._workers()
            if not speaking and not workers:
                raise _Unmatched(f"nobody makes the list of {noun}")
            maker = next((a for a in speaking if a in workers), (speaking or workers[-1:])[0])
        self._output(maker, noun, "list")
        self._put(parts, fields={"each": f"{maker}.{noun}"})

    def take_if_step(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        text = found["step"]
        condition = slots.get("condition")
        if condition is None:
            if not self.chain:
                raise _Unmatched(
                    "there is no condition before that this could be the other case of"
                )
            when: c.Condition = _negated(self.chain)
            if outcome := self._is_outcome(text):
                self._loop_end(outcome)
                return
            parts = self._take_over(text)
            self._put(parts, place="beside", only_if=when)
            return
        negated = found.group().casefold().startswith("unless")
        parts = self._take_over(text)
        if not self._is_branch():
            self.chain = []
        before = list(self.chain)
        when = self._condition(condition, negated=negated)
        branch = bool(before) and _same_fact(before[-1], when)
        self._put(parts, place="beside" if branch else "next", only_if=when)
        self.chain = [*(before if branch else []), when]

    def _is_branch(self) -> bool:
        """Whether the steps said last are a branch of a choice."""
        return any(
            "if" in self.steps[name].fields for name in self.last if name in self.steps
        ) and (self.tail == [r.After(of=tuple(self.last), need=len(self.last))])

    def _take_over(self, text: str) -> list[_Part]:
        if elliptic := re.fullmatch(r"(?P<who>(?:the|an?)\s.+?)\s+does(?: so| it)?", text):
            return [_Part(self._agent(elliptic["who"]), "takes it")]
        return self._phrases(text, adds=False)

    def _is_outcome(self, text: str) -> str:
        try:
            return self._outcome(text)
        except _Unmatched:
            return ""

    def _loop_end(self, outcome: str) -> None:
        loops = self.parts["loops"]
        if not loops or not isinstance(loops[-1], r.Loop) or loops[-1].then:
            raise _Unmatched("there is no loop before that this could end")
        last = loops[-1]
        clauses = tuple(dict.fromkeys((*last.clauses, self.number)))
        loops[-1] = last.model_copy(update={"then": outcome, "clauses": clauses})

    # -- forms: order ----------------------------------------------------------------------------

    def take_after(self, found: re.Match[str]) -> None:
        done = found["done"].strip()
        parts = self._phrases(found["step"], adds=False)
        groups, when = self._done(done)
        for part in parts[:1]:
            part.beside = False
        fields: dict[str, Any] = {"when": when} if when else {}
        if self.said_then:
            groups = [*self.tail, *groups]
        self._put(self._side_by_side(parts), after=groups, fields=fields)

    def _done(self, text: str) -> tuple[list[r.After], str]:
        """What `both are done`, `the writer finishes`, `the models are ready` wait for."""
        done = r"(?:is|are|has|have|has been|have been)?\s*(?:both |all )?(?:done|finished|complete|finish|finishes|back|ready)"
        if re.fullmatch(
            rf"(?:both|all|they|all of them|both of them|all (?:of )?(?:that|this|it)|all \w+|everything)(?:'s)?\s+{done}",
            text, re.IGNORECASE,
        ):  # fmt: skip
            return self._block(len(self.last)), ""
        some = re.fullmatch(
            rf"(?:the first|(?P<count>one|either|any|two|three|four|\d+))(?: of (?:them|these|the \w+))?\s+{done}",
            text, re.IGNORECASE,
        )  # fmt: skip
        if some is not None:
            count = (some["count"] or "one").casefold()
            need = 1 if count in {"one", "either", "any"} else self._count(count)
            return self._block(need), ""
        who = re.fullmatch(rf"(?P<agents>.+?)\s+{done}", text, re.IGNORECASE)
        if who is not None and not re.search(r"'s\s+\w+$", who["agents"]):
            named = [self.names.name_of(each) for each in _list(who["agents"])]
            if all(named):
                steps = tuple(self._latest(name) for name in named)
                return [r.After(of=steps, need=len(steps))], ""
        condition = self._condition(text, requirement=True)
        owners = [f.agent for f in c.facts_in(condition) if f.agent]
        steps = tuple(dict.fromkeys(self._latest(owner) for owner in owners))
        return [r.After(of=steps, need=len(steps))], c.render_condition(condition)

    def _block(self, need: int) -> list[r.After]:
        if (
            not self.last
            or need > len(self.last)
            or (need < 2 and len(self.last) < 2 and need != len(self.last))
        ):
            raise _Unmatched("it is not clear who is meant")
        return [r.After(of=tuple(self.last), need=need)]

    def take_late(self, found: re.Match[str]) -> None:
        within = self._duration(found["duration"])
        slots = found.groupdict()
        waiting = [step for step in self.steps.values() if step.fields.get("when")]
        if slots.get("agent"):
            agent = self._agent(found["agent"])
            waiting = [step for step in waiting if step.agent == agent]
        if slots.get("condition"):
            when = self._condition(found["condition"], requirement=True)
            ready = when.of if isinstance(when, c.Not) else when
            waiting = [s for s in waiting if s.fields["when"] == c.render_condition(ready)]
        if len(waiting) != 1:
            raise _Unmatched("no step waits for this, or several do")
        step = waiting[0]
        self._late(step, found["late"], within)

    def _late(self, step: _Step, text: str, within: str) -> None:
        if re.fullmatch(r"ask (?:me|a human)", text, re.IGNORECASE):
            step.fields["late"] = "ask"
        elif skip := re.fullmatch(r"skip (?P<agent>.+)", text, re.IGNORECASE):
            if skip["agent"].casefold() != "it" and self._agent(skip["agent"]) != step.agent:
                raise _Unmatched("another step waits")
            step.fields["late"] = "skip"
        else:
            self._instead(step, text)
        step.fields["within"] = within
        step.clauses.append(self.number)

    def _instead(self, step: _Step, text: str) -> None:
        """`the archive takes over`: a step that stands in for another."""
        text = re.sub(r"^(?:use|have|let)\s+", "", text)
        text = re.sub(r"\s+instead$", "", text)
        parts = self._phrases(
            text if self.names.subject(text) else f"{text} takes over", adds=False
        )
        if len(parts) != 1:
            raise _Unmatched("one agent can stand in for one other")
        tail, last = self.tail, self.last
        made = self._new(parts[0], [])
        made.fields["instead_of"] = step.name
        made.clauses = [self.number]
        self.tail, self.last = tail, last

    def take_wait(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        name = f"wait_{len(self.parts['waits']) + 1}"
        length, until = "", ""
        if slots.get("duration"):
            length = self._duration(found["duration"])
        else:
            try:
                until = parse_time(found["time"])
            except ValueError as error:
                raise _Unmatched(f"{found['time']!r} is no time: {error}") from None
        parts = self._phrases(found["step"], adds=False) if slots.get("step") else []
        self._add_part(
            "waits",
            r.Wait,
            name=name,
            after=tuple(self.tail),
            before=(),
            length=length,
            until=until,
            **{"if": ""},
        )
        self.before, self.last = self._workers(), [name]
        self.tail = [r.After(of=(name,), need=1)]
        if parts:
            self.again = True
            self._put(parts)

    def _add_part(self, where: str, model: type[r.Part], **fields: Any) -> None:
        clauses = fields.pop("clauses", (self.number,))
        self.parts[where].append(model.model_validate({"clauses": clauses, **fields}))

    # -- forms: loops and ends -------------------------------------------------------------------

    def take_back(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        at_most = self._bound(slots.get("bound"))
        then = self._outcome(slots["then"]) if slots.get("then") else ""
        if slots.get("agents"):
            agents = self._agents(found["agents"])
            steps = [self._latest(agent) for agent in agents]
            to = min(steps, key=list(self.steps).index)
            condition = self._condition(found["condition"], negated=True)
        else:
            agent = self._agent(found["agent"])
            negated = bool(re.search(r"\bunless\b", found.group(), re.IGNORECASE))
            to = self._latest(agent)
            condition = self._condition(found["condition"], negated=negated)
        if not self.last or self.last[-1] not in self.steps:
            raise _Unmatched("nobody works just before")
        owners = [f.agent for f in c.facts_in(condition) if f.agent]
        at = next((n for n in reversed(self.last) if self.steps[n].agent in owners), self.last[-1])
        self._loop(at, condition, to, at_most, then)

    def _loop(self, at: str, condition: c.Condition, to: str, at_most: int, then: str) -> None:
        clauses = tuple(dict.fromkeys((self.number, *self.steps[at].clauses[-1:])))
        self._add_part(
            "loops", r.Loop, clauses=clauses, at=at, to=to, at_most=at_most, then=then,
            **{"if": c.render_condition(condition)},
        )  # fmt: skip
        self.chain = [condition]

    def take_stop(self, found: re.Match[str]) -> None:
        text = found.groupdict().get("condition")
        if text is None:
            if not self.chain:
                raise _Unmatched("there is no condition before")
            loops = self.parts["loops"]
            if loops and isinstance(loops[-1], r.Loop) and not loops[-1].then:
                self._loop_end("end")
                return
            condition: c.Condition = _negated(self.chain)
        else:
            negated = found.group().casefold().startswith("unless")
            condition = self._condition(text, negated=negated)
        if not self.last:
            raise _Unmatched("nobody works just before")
        self._loop(self.last[-1], condition, "end", 0, "")

    def take_skip(self, found: re.Match[str]) -> None:
        agent = self._agent(found["agent"])
        negated = bool(re.search(r"\bunless\b", found.group(), re.IGNORECASE))
        workers = self._workers()
        if workers == [agent] and self.before:
            last, self.last = self.last, []
            condition = self._condition(found["condition"], negated=not negated)
            self.last = last
        else:
            condition = self._condition(found["condition"], negated=not negated)
        self.pending.append(("skip", c.render_condition(condition), self.number, len(self.steps)))
        self.pending[-1] = ("skip:" + agent, *self.pending[-1][1:])

    # -- forms: people ---------------------------------------------------------------------------

    def take_ask_before(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        text = found["step"]
        if self._tools_named(text):
            raise _Unmatched("a tool is named here")
        parts = self._phrases(text, adds=False)
        what = slots.get("what")
        ask = f"Approve {what}?" if what else f"{text[:1].upper()}{text[1:]}. Go on?"
        if len(parts) != 1:
            raise _Unmatched("the question comes before one step")
        worked = any(step.agent == parts[0].agent for step in self.steps.values())
        if "only after I have" in found.group() or "subject to" in found.group():
            self._put(parts)
        elif not worked and not (self.cast_only() and parts[0].agent in self.cast):
            self.again = True
            made = self._put(parts)
            self.tentative = made[0].name
        name = f"question_{len(self.parts['questions']) + 1}"
        self._add_part(
            "questions", r.Question, name=name, ask=ask, after=(), before=(), at="", options=(),
            **{"if": ""},
        )  # fmt: skip
        self._speak(parts[-1].agent)
        self.pending.append((f"ask:{parts[-1].agent}", name, self.number, len(self.steps)))

    def cast_only(self) -> bool:
        """Whether agents are only listed so far, so that their order follows from the list."""
        return bool(self.cast) and not self.steps

    def take_rejected(self, found: re.Match[str]) -> None:
        questions = self.parts["questions"]
        if not questions or not isinstance(questions[-1], r.Question):
            raise _Unmatched("there is no question before")
        agent = self._agent(found["agent"])
        last = questions[-1]
        update = {
            "options": ("approve", self._latest(agent)),
            "clauses": tuple(dict.fromkeys((*last.clauses, self.number))),
        }
        questions[-1] = last.model_copy(update=update)

    def take_ask(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        text, question = slots.get("condition"), slots.get("question") or ""
        if question and not re.match(
            r"(?:whether|if|which|what|who|how|about)\b", question, re.IGNORECASE
        ):
            raise _Unmatched("say what is asked: 'Ask me whether …'")
        otherwise = found.group().casefold().startswith("otherwise")
        only_if = ""
        if otherwise:
            loops = self.parts["loops"]
            if loops and isinstance(loops[-1], r.Loop) and not loops[-1].then:
                self._loop_end("ask")
                return
            if not self.chain:
                raise _Unmatched("there is no condition before")
            only_if = c.render_condition(_negated(self.chain))
        elif text is not None:
            if re.search(r"\bconfiden(?:ce|t)\b|\bsure\b", text, re.IGNORECASE):
                raise _Unmatched("say it as: 'If its confidence is below 70 %, ask me.'")
            negated = found.group().casefold().startswith("unless")
            condition = self._condition(text, negated=negated)
            self.chain = [*self.chain, condition]
            only_if = c.render_condition(condition)
        asked = f"{text[:1].upper()}{text[1:]}. Go on?" if text and not question else question
        name = f"question_{len(self.parts['questions']) + 1}"
        self._add_part(
            "questions", r.Question, name=name, ask=asked or "Go on?", after=tuple(self.tail),
            before=(), at="", options=(), **{"if": only_if},
        )  # fmt: skip
        self.tail = [r.After(of=(name,), need=1)]

    def take_unsure(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        said = slots.get("agents") or slots.get("agent")
        if said and _PRONOUNS.fullmatch(f"{said.strip()} "):
            said = None
        agents = self._all_of(said) if said else []
        everyone = bool(said) and not self._agents(str(said))
        if not said:
            agents = self._workers()[-1:] if slots.get("percent") else []
            everyone = not agents
        percent = slots.get("percent")
        pending = f"gate:{'' if everyone else ','.join(agents)}"
        value = ""
        if percent is not None:
            number = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%|percent|per cent)?", percent.strip())
            if number is None:
                raise _Unmatched(f"{percent!r} is no number")
            fraction = float(number[1]) / (100 if number[2] or float(number[1]) > 1 else 1)
            value = f"{fraction:g}"
        self.pending.append((pending, value, self.number, len(self.steps)))

    def take_ask_tool(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        if slots.get("tools") is None:
            self._right("ask", [], [RISKY])
            return
        agents = self._agents(found["agents"]) if slots.get("agents") else []
        self._right("ask", agents, self._tools(found["tools"]))

    def take_people(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        if slots.get("people"):
            if any(self.names.name_of(each) for each in _list(found["people"])):
                raise _Unmatched("agents do not answer")
            self._setting([], "may_answer", ", ".join(_list(found["people"])))
        elif slots.get("default"):
            default = re.fullmatch(
                r"(reject|stop)(?: it| the run)?|escalate(?: it)? to (\w+)",
                found["default"],
                re.IGNORECASE,
            )
            if default is None:
                raise _Unmatched("it is not clear what happens then")
            value = default[1].casefold() if default[1] else f"escalate:{default[2]}"
            self._setting([], "answer_within", self._duration(found["duration"]))
            self._setting([], "unanswered", value)
        else:
            self._setting([], "yes_valid", self._duration(found["duration"]))

    # -- forms: rights and sight -----------------------------------------------------------------

    def take_tools(self, found: re.Match[str]) -> None:
        both = found.groupdict().get("both")
        if both is None:
            agents, tools = self._agents(found["agents"]), self._tools(found["tools"])
        else:
            agents, tools = self._agents_and_tools(both)
        self._right("may", agents, tools)
        self.spoken = agents or self.spoken

    def _agents_and_tools(self, text: str) -> tuple[list[str], list[str]]:
        """The agents and the tools of `the scout web_search`."""
        for gap in re.finditer(r"\s+(?:use\s+)?", text):
            try:
                return self._agents(text[: gap.start()]), self._tools(text[gap.end() :])
            except _Unmatched:
                continue
        raise _Unmatched("it is not clear who is given what")

    def take_only(self, found: re.Match[str]) -> None:
        agents = self._agents(found["agents"])
        self._right("only", agents, self._tools(found["tools"]))
        self.spoken = agents or self.spoken

    def take_never(self, found: re.Match[str]) -> None:
        said = found.groupdict().get("agents")
        tools = self._tools(found["tools"])
        agents = self._agents(said) if said else []
        self._right("never", agents, tools)
        self.spoken = agents or self.spoken

    def take_rule(self, found: re.Match[str]) -> None:
        said = found.groupdict().get("agents")
        tools = self._tools(found["tools"])
        agents = self._agents(said) if said else []
        negated = bool(re.search(r"\bunless\b", found.group(), re.IGNORECASE))
        condition = self._condition(found["condition"], requirement=True)
        text = c.render_condition(condition)
        if said is None:
            self._right("never", [], tools, condition=c.render_condition(_negated([condition])))
        else:
            if negated:
                text = c.render_condition(_negated([condition]))
            self._right("may", agents, tools, condition=text)

    def take_quota(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        period = found["period"].strip().casefold()
        if period not in _PERIODS:
            raise _Unmatched(f"calls are counted per {listed(_PERIODS, 'or')}")
        tools = self._tools(found["tools"])
        if slots.get("agents"):
            count = self._bound(found["bound"])
            self._right("may", self._agents(found["agents"]), tools, quota=f"{count} per {period}")
        else:
            self._right("never", [], tools, quota=f"{self._count(found['number'])} per {period}")

    def take_needs(self, found: re.Match[str]) -> None:
        tools = self._tools(found["tools"])
        for agent in self._agents(found["agents"]):
            self.pending.append((f"needs:{agent}", ",".join(tools), self.number, len(self.steps)))

    def take_sight(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        agents = self._agents(found["agents"])
        if slots.get("owner") is None:
            self.pending.append((f"blind:{','.join(agents)}", "", self.number, 0))
            return
        owner = self._agent(found["owner"])
        hidden = not found.group().casefold().startswith("only")
        self.pending.append(
            (f"readers:{owner}", f"{'-' if hidden else ''}{','.join(agents)}", self.number, 0)
        )

    # -- forms: settings -------------------------------------------------------------------------

    def take_model(self, found: re.Match[str]) -> None:
        said = found.groupdict().get("agents")
        self._setting(self._agents(said) if said else [], "model", found["model"])

    def take_inside(self, found: re.Match[str]) -> None:
        agent = self._agent(found["agent"])
        bound = found.groupdict().get("bound")
        value = "planner_executor" if bound is None else f"review_loop:{self._bound(bound)}"
        self._setting([agent], "pattern", value)

    def take_switch(self, found: re.Match[str]) -> None:
        off = re.search(r"switched\s+off", found.group(), re.IGNORECASE)
        self._setting(self._agents(found["agents"]), "enabled", "false" if off else "true")

    def take_on_error(self, found: re.Match[str]) -> None:
        agent = self._agent(found["agent"])
        text = found["error"].strip()
        within = found.groupdict().get("duration")
        policy = ""
        if re.fullmatch(
            r"(?:just )?(?:continue|go on|carry on)(?: without (?:it|them))?", text, re.IGNORECASE
        ):
            policy = "continue"
        elif re.fullmatch(r"(?:the run )?(?:stop|stops|fail|fails)", text, re.IGNORECASE):
            policy = "fail"
        elif re.fullmatch(r"ask (?:me|a human)", text, re.IGNORECASE):
            policy = "ask"
        if policy and within is None:
            self._setting([agent], "on_error", policy)
            return
        step = self.steps[self._latest(agent)]
        if within is not None:
            self._late(
                step,
                text if not policy else {"ask": "ask me"}.get(policy, "skip it"),
                self._duration(within),
            )
        else:
            self._instead(step, text)

    def take_limit(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        text = found.group().casefold()
        if slots.get("duration"):
            self._setting([], "max_time", self._duration(found["duration"]))
            return
        key = (
            "max_parallel"
            if text.endswith("at a time") and not slots.get("number2")
            else "max_steps"
        )
        key = "max_cost" if "dollar" in text else "max_tokens" if "token" in text else key
        self._setting([], key, str(self._count(found["number"])))
        if slots.get("number2"):
            self._setting([], "max_parallel", str(self._count(found["number2"])))

    def take_trait(self, found: re.Match[str]) -> None:
        agents = self._agents(found["agents"])
        text = found["text"]
        strange = [agent for agent in agents if not self._is_known(agent)]
        if strange:
            raise _Unmatched(
                f"it is not clear whether {strange[0]!r} is an agent; list it: 'Agents: …'"
            )
        if re.search(r"\b(?:done|ready|finished|by|approved|rejected)\b", text) and not re.search(
            r"\b(?:should|must|needs to|has to)\b", found.group(), re.IGNORECASE
        ):
            raise _Unmatched("this is no trait")
        self._guard(text)
        said = found.group()[found.start("agents") + len(found["agents"]) - found.start() :].strip()
        for agent in agents or list(self._working()):
            self._speak(agent)
            self.agents[agent][1].append(said)
        self.spoken = agents or self.spoken

    # -- forms: shapes ---------------------------------------------------------------------------

    def take_builder(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        lead = self._agent(found["lead"])
        names = [self.names.add(each) for each in _list(found["names"])]
        if not all(names) or lead in names:
            raise _Unmatched("these are no names of agents")
        text = found.group()
        options: dict[str, tuple[str, ...]]
        if "works next" in text:
            builder, options = "supervisor", {"supervisor": (lead,), "workers": tuple(names)}
            if bound := self._bound(slots.get("bound")):
                options["at_most"] = (str(bound),)
        elif "each message" in text:
            builder, options = "hub", {"router": (lead,), "agents": tuple(names)}
            self._setting([], "conversation", "")
        elif "which of" in text:
            builder, options = "stages", {"supervisor": (lead,), "stages": tuple(names)}
        else:
            builder, options = "team", {"planner": (lead,), "workers": tuple(names)}
            if slots.get("number"):
                options["at_once"] = (str(self._count(found["number"])),)
        for name in (lead, *names):
            self._speak(name)
        self._shape(builder, options, {lead, *names})

    def _shape(self, builder: str, options: dict[str, tuple[str, ...]], agents: set[str]) -> None:
        """Adds a shape; what was said of its agents before is their part in it."""
        described = [step for step in self.steps.values() if step.agent in agents]
        if len(described) == len(self.steps):
            for step in described:
                clauses, about = self.agents[step.agent]
                clauses += [n for n in step.clauses if n not in clauses]
                about.append(step.task)
            self.steps.clear()
            self.counts.clear()
            self.tail, self.last = [], []
        name = builder if not self.parts["uses"] else f"{builder}_{len(self.parts['uses']) + 1}"
        self._add_part(
            "uses", r.Use, name=name, builder=builder, after=tuple(self.tail),
            options=tuple(r.Option(key=key, values=values) for key, values in options.items()),
        )  # fmt: skip
        self.before, self.last = self._workers(), [name]
        self.tail = [r.After(of=(name,), need=1)]
        self.spoken = [n for key, values in options.items() if key != "at_most" for n in values][1:]

    def take_builder_more(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        uses = self.parts["uses"]
        if not uses or not isinstance(uses[-1], r.Use):
            raise _Unmatched("there is no shape before")
        use = uses[-1]
        more: dict[str, tuple[str, ...]] = {}
        if slots.get("fallback"):
            more["fallback"] = (self._agent(found["fallback"]),)
        elif slots.get("responder"):
            more["responder"] = (self.names.add(found["responder"]),)
        elif slots.get("what"):
            more["approve"] = ("true",)
        elif slots.get("checks"):
            more["checks"] = tuple(self.names.add(each) for each in _list(found["checks"]))
        elif slots.get("reviewer"):
            more["reviewer"] = (self._agent(found["reviewer"]),)
        wanted = {"fallback": "hub", "responder": "stages"}.get(next(iter(more), ""), "team")
        if not more:
            wanted, more = "hub", {"at_most": (str(self._bound(found["bound"])),)}
        elif "reviewer" in more and slots.get("bound"):
            more["rounds"] = (str(self._bound(found["bound"])),)
        if use.builder != wanted or not all(all(values) for values in more.values()):
            raise _Unmatched("this does not belong to the shape before")
        for key in ("fallback", "responder", "checks", "reviewer"):
            for name in more.get(key, ()):
                self._speak(name)
        options = {option.key: option.values for option in use.options} | more
        uses[-1] = use.model_copy(
            update={
                "options": tuple(r.Option(key=key, values=v) for key, v in options.items()),
                "clauses": (*use.clauses, self.number),
            }
        )

    def take_conversation(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        if slots.get("agent"):
            agents = [self._agent(found["agent"]), *self._agents(found["others"])]
            self._setting(agents, "answers_first", "")
        elif "apology" in found.group():
            uses = self.parts["uses"]
            if not any(isinstance(use, r.Use) and use.builder == "hub" for use in uses):
                raise _Unmatched("nobody answers people here")
            self._setting([], "conversation", "")
        else:
            value = self._duration(found["duration"]) if slots.get("duration") else ""
            self._setting([], "conversation", value)

    def take_turn(self, found: re.Match[str]) -> None:
        slots = found.groupdict()
        if slots.get("agent"):
            agent = self._agent(found["agent"])
            self._put([_Part(agent, found.group()[found.end("agent") - found.start() :].strip())])
            self._setting([agent], "decides", "terminate")
            return
        if not slots.get("agents"):
            last = self.parts["settings"][-1:]
            if not last or not isinstance(last[0], r.Setting) or last[0].key != "model_calls":
                raise _Unmatched("nothing before says how often a model is called")
            self._setting(list(last[0].agents), "at_cap", "end")
            return
        agents = self._agents(found["agents"])
        if slots.get("number"):
            self._setting(agents, "window", str(self._count(found["number"])))
        elif slots.get("bound"):
            self._setting(agents, "model_calls", str(self._bound(found["bound"])))
        elif slots.get("artifact"):
            self._setting(agents, "artifact", plain(found["artifact"]))
        else:
            self._setting(agents, "runs", ", ".join(self._tools(found["tools"])))
        self.spoken = agents or self.spoken

    def take_group(self, found: re.Match[str]) -> None:
        name = plain(found["group"])
        agents = [self._agent(each) for each in _list(found["names"])]
        self._setting(agents, "group", name)

    # -- the end ---------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Puts in place what may be said before or after the steps that it is about."""
        if self.cast and not self.steps:
            for name in dict.fromkeys(self.cast):
                self.number = self.agents[name][0][0]
                self.again = True
                self._put([_Part(name, "")])
        for what, value, number, at in self.pending:
            self.number = number
            kind, _, agent = what.partition(":")
            try:
                getattr(self, f"_finish_{kind}")(agent, value, at)
            except _Unmatched as error:
                self.status.pop(number, None)
                self._unread(self.clauses[number], str(error), "Say first what the agent does.")

    def _step_of(self, agent: str, at: int) -> _Step:
        """The step of an agent that is meant by what was said when there were `at` steps."""
        steps = [(i, step) for i, step in enumerate(self.steps.values()) if step.agent == agent]
        if not steps:
            raise _Unmatched(f"{agent!r} does nothing")
        later = [step for i, step in steps if i >= at]
        return later[0] if later else steps[-1][1] if len(steps) == 1 else steps[0][1]

    def _finish_skip(self, agent: str, value: str, at: int) -> None:
        step = self._step_of(agent, at)
        known = step.fields.get("if")
        step.fields["if"] = f"({known}) and ({value})" if known else value
        step.clauses.append(self.number)

    def _finish_needs(self, agent: str, value: str, at: int) -> None:
        step = self._step_of(agent, 0)
        step.fields["needs"] = tuple(value.split(","))
        step.clauses.append(self.number)

    def _finish_ask(self, agent: str, value: str, at: int) -> None:
        step = self._step_of(agent, at)
        questions = self.parts["questions"]
        for i, question in enumerate(questions):
            if isinstance(question, r.Question) and question.name == value:
                questions[i] = question.model_copy(update={"before": (step.name,)})

    def _finish_gate(self, agent: str, value: str, at: int) -> None:
        agents = agent.split(",") if agent else list(self._working())
        for name in agents:
            step = self._step_of(name, 0)
            output = "confidence" if value else "unsure"
            self._output(name, output, "number" if value else "boolean")
            condition = f"not {name}.confidence >= {value}" if value else f"{name}.unsure"
            steps = [s for s in self.steps.values() if s.agent == name]
            for each in steps or [step]:
                self._add_part(
                    "questions", r.Question, name=f"question_{len(self.parts['questions']) + 1}",
                    clauses=tuple(dict.fromkeys((self.number, *each.clauses[:1]))),
                    ask=f"The {name.replace('_', ' ')} is unsure. Go on?", after=(), before=(),
                    at=each.name, options=("go on", each.name, "stop"), **{"if": condition},
                )  # fmt: skip

    def _finish_blind(self, agent: str, value: str, at: int) -> None:
        for name in agent.split(","):
            readers = tuple(other for other in self._working() if other != name)
            self._add_part("readers", r.Readers, of="*", readers=readers)

    def _finish_readers(self, agent: str, value: str, at: int) -> None:
        named = value.lstrip("-").split(",")
        if value.startswith("-"):
            named = [n for n in self._working() if n not in named and n != agent]
        self._add_part("readers", r.Readers, of=agent, readers=tuple(named))

    def _reading(self) -> r.Reading:
        steps = tuple(
            r.Step.model_validate(
                {
                    "clauses": tuple(dict.fromkeys(step.clauses)), "name": step.name,
                    "agent": step.agent, "task": step.task, "after": tuple(step.after), "if": "",
                    "when": "", "within": "", "late": "", "each": "", "needs": (), "instead_of": "",
                    **step.fields,
                }
            )
            for step in self.steps.values()
        )  # fmt: skip
        agents = tuple(
            r.Agent(clauses=tuple(clauses), name=name, about=". ".join(about))
            for name, (clauses, about) in self.agents.items()
        )
        ledger = tuple(
            r.Account(
                clause=clause.number,
                status=self.status.get(clause.number, "cannot"),
                why="",
                against=(),
            )
            for clause in self.clauses
            if clause.number in self.status
        )
        lists = {name: tuple(parts) for name, parts in self.parts.items()}
        lists |= {"agents": agents, "steps": steps, "outputs": tuple(self.outputs.values())}
        return r.Reading.model_validate({"crew": self.crew, **lists, "ledger": ledger})


def _normal(clause: Clause) -> str:
    """A clause without contractions, marks at its end and emphasis."""
    text = clause.text.replace("’", "'").replace("‘", "'")
    text = re.sub(r"\*{1,2}|(?<!\w)_|_(?!\w)", "", text)
    text = re.sub(
        r"\s*\(((?:at most|no more than|max)[^()]*|[^()]*\b(?:at most|max|tops))\)",
        r", \1",
        text,
        flags=re.IGNORECASE,
    )
    for pattern, instead in _CONTRACTIONS:
        text = re.sub(pattern, instead, text, flags=re.IGNORECASE)
    return text.strip().rstrip(".;:!…,").strip()


def _is_proper(said: str) -> int:
    """1 for a name with a capital and without an article: `Audio`; of a sentence's first word, too."""
    return int(re.fullmatch(r"[A-Z][\w-]*(?: [A-Z][\w-]*)*", said.strip()) is not None)


def _list(text: str) -> list[str]:
    """The items of `a, b and c`."""
    parts = re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+|\s*&\s*", text.strip())
    return [re.sub(r"^both\s+", "", part) for part in parts if part.strip()]


def _task(text: str) -> str:
    text = " ".join(text.split()).strip(" ,")
    return "" if _REST.fullmatch(text) else text


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in set("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


def _short_duration(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _negated(conditions: Sequence[c.Condition]) -> c.Condition:
    """What holds where none of some conditions does."""
    if len(conditions) > 1:
        return c.Not(of=c.AnyOf(of=tuple(conditions)))
    return conditions[0].of if isinstance(conditions[0], c.Not) else c.Not(of=conditions[0])


def _same_fact(one: c.Condition, other: c.Condition) -> bool:
    """Whether two conditions ask for the same output: then they are branches of one choice."""
    first, second = list(c.facts_in(one)), list(c.facts_in(other))
    if len(first) != 1 or len(second) != 1:
        return False
    return (first[0].agent, first[0].name) == (second[0].agent, second[0].name)

"""The offline reader: clauses that match the forms make a reading, deterministically.

A clause matches one form as a whole, or it is a fault that names the nearest form. Nothing is
guessed: a name that may end at several places, a condition that no agent decides and words that
oblige inside a task are faults, too. `verify` holds the reading against the prompt afterwards.

    Draft (what was said so far) → SlotReader → PhraseReader → StepForms, QuestionForms, …
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from crewlog.prompt import reading as r
from crewlog.prompt.clauses import Clause, Clauses
from crewlog.prompt.draft import Share, Unmatched
from crewlog.prompt.faults import Fault
from crewlog.prompt.forms import FORMS, matches, nearest
from crewlog.prompt.names import agent_name, crew_name
from crewlog.prompt.nouns import EVERYONE, names_in
from crewlog.prompt.phrases import is_proper
from crewlog.prompt.question_forms import QuestionForms
from crewlog.prompt.registry import Registry
from crewlog.prompt.right_forms import RightForms
from crewlog.prompt.setting_forms import SettingForms
from crewlog.prompt.slots import Slots, items
from crewlog.prompt.step_forms import StepForms

LONGEST_CLAUSE = 600
"""Characters of a clause that a form may have."""
_CONTRACTIONS = tuple(
    (re.compile(said, re.IGNORECASE), full)
    for said, full in (
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
)
_MARKS = re.compile(r"\*{1,2}|(?<!\w)_|_(?!\w)")
_BOUND_IN_BRACKETS = re.compile(
    r"\s*\(((?:at most|no more than|max)[^()]*|[^()]*\b(?:at most|max|tops))\)", re.IGNORECASE
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
    r"(?:may|can|has|uses|should|must|reviews its own|is switched|works only if|only if)\b",
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
_BRACKET = re.compile(r"\s*\((?P<more>(?:it|they|he|she)\s+(?:may|can)\s[^()]*)\)$")
_CARRIES = re.compile(r"then\s+carr(?:y|ies)\s+the\s+plan\s+out$", re.IGNORECASE)
_PLANS = re.compile(r"\bplans?\s+first$", re.IGNORECASE)
_NO_FORM = "no form matches this sentence"


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


_NOTHING = re.compile(r"\b(?:nothing|none|neither|nor)\b(?!\s+(?:else|but|of)\b)", re.IGNORECASE)


class _FormsReader(StepForms, QuestionForms, RightForms, SettingForms):
    """Reads one prompt."""

    def __init__(self, clauses: Clauses, registry: Registry) -> None:
        super().__init__(registry)
        self.clauses = clauses
        self.faults: list[Fault] = []
        self.status: dict[int, r.Status] = {}
        self.unlisted: dict[int, str] = {}
        """For the place of a fault the noun that would be an agent if the prompt listed it."""

    def run(self) -> FormsReading:
        sentences = [each for each in self.clauses.sentences if not each[0].is_pasted]
        texts = [_normal(self.clauses.text[e[0].span.start : e[-1].span.end]) for e in sentences]
        names_in(texts, self.names)
        self._introduce(sentences, texts)
        skip = False
        for place, sentence in enumerate(sentences):
            if skip:
                skip = False
                continue
            self.here, self.text = tuple(clause.number for clause in sentence), texts[place]
            following = texts[place + 1] if place + 1 < len(texts) else ""
            if _CARRIES.match(following) and _PLANS.search(self.text):
                self.text += f", {following}"
                self.here += tuple(clause.number for clause in sentences[place + 1])
                skip = True
            self._sentence(sentence[0])
        self._finish()
        self._list_agents()
        ledger = [
            r.Account(clause=clause.number, status=self.status[clause.number], why="", against=())
            for clause in self.clauses
            if clause.number in self.status
        ]
        return FormsReading(self.reading(ledger), tuple(self.faults))

    def _introduce(self, sentences: Sequence[Sequence[Clause]], texts: Sequence[str]) -> None:
        """Learns the names of agents that a sentence lists, and that begin sentences."""
        cast = next(form for form in FORMS if form.name == "agents")
        for sentence, whole in zip(sentences, texts, strict=True):
            if sentence[0].kind == "heading" or len(whole) > LONGEST_CLAUSE:
                continue
            for regex in cast.regexes:
                if found := regex.fullmatch(whole):
                    for name in items(found["names"]):
                        self.names.roles[self.names.add(name)] += 2
            text, _ = self._leads(whole)
            subject = self.names.subject(text)
            if subject is not None and len(subject.names) == 1 and subject.rest:
                said = text[: len(text) - len(subject.rest)].strip()
                if said.casefold() not in EVERYONE:
                    self.names.roles[self.names.add(said)] += 1 + is_proper(said)

    # -- sentences -------------------------------------------------------------------------------

    def _sentence(self, first: Clause) -> None:
        if first.kind == "heading":
            if not self.crew and first.number == 1:
                self.crew = crew_name(first.text)
            return
        if self.text[:1] in "`\"'“‘«":
            self._unread("quoted words make nothing", "Write them without quotation marks.")
            return
        if found := _NOTHING.search(self.text):
            self._unread(f"{found.group()!r} turns the sentence round", "Say what happens instead.")
            return
        if _TALK.fullmatch(self.text):
            self.status.update(dict.fromkeys(self.here, "talk"))
            return
        if len(self.text) > LONGEST_CLAUSE:
            self._unread(f"the sentence has {len(self.text)} characters", "Split it.")
            return
        for piece in self._pieces(self.text):
            said, then = self._leads(piece)
            self.again = self.said_then = then
            if why := self._match(said):
                example = nearest(self.text)[1]
                known = example.rstrip(".").casefold() == self.text.casefold()
                self._unread(
                    why,
                    "Say first what it is about."
                    if known
                    else f"Say it in a form. The nearest: {example!r}",
                )
                return
        self.status.update(dict.fromkeys(self.here, "used"))

    def _match(self, text: str) -> str:
        """Takes the form that a text matches as a whole; why it matches none, else an empty text."""
        whys: list[Unmatched] = []
        for form, found in matches(text):
            try:
                getattr(self, f"take_{form.name}")(Slots(found))
            except Unmatched as error:
                whys.append(error)
                continue
            return ""
        why = next((error for error in whys if not error.weak), None)
        if why is None:
            return _NO_FORM
        if why.unlisted:
            self.unlisted[len(self.faults)] = why.unlisted
        return str(why)

    def _pieces(self, text: str) -> list[str]:
        """A clause cut where another right or question begins: `… , but only the layouter may …`."""
        if bracket := _BRACKET.search(text):
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
        """Whether a text begins with an agent and a right, a setting or a trait of it."""
        subject = self.names.subject(text)
        return subject is not None and not subject.unclear and bool(_OF_AGENT.match(subject.rest))

    def _unread(self, why: str, how: str) -> None:
        self.faults.append(Fault("not_understood", why, how, self.here))

    def _list_agents(self) -> None:
        """Writes the list of agents that the prompt lacks into the remedies."""
        names = dict.fromkeys((*self.agents, *map(agent_name, self.unlisted.values())))
        said = ", ".join(name.replace("_", " ") for name in names)
        for place in self.unlisted:
            remedy = f"If it is one, list the agents in a sentence of its own: 'Agents: {said}.'"
            self.faults[place] = replace(self.faults[place], remedy=remedy)

    def _finish(self) -> None:
        """Puts in place what may be said before or after the steps that it is about."""
        if self._cast_only():
            for name in dict.fromkeys(self.cast):
                self.here = (self.agents[name][0][0],)
                self.again = True
                self._put([Share(name, "")])
        for here, put in self.pending:
            self.here = here
            try:
                put()
            except Unmatched as error:
                for number in here:
                    self.status.pop(number, None)
                self._unread(str(error), "Say first what the agent does.")


def _normal(text: str) -> str:
    """A sentence with single spaces, and without contractions, marks at its end and emphasis."""
    text = " ".join(text.split()).replace("’", "'").replace("‘", "'")
    text = _MARKS.sub("", text)
    if "(" in text:
        text = _BOUND_IN_BRACKETS.sub(r", \1", text)
    if "'" in text:
        for pattern, instead in _CONTRACTIONS:
            text = pattern.sub(instead, text)
    return text.strip().rstrip(".;:!…,").strip()

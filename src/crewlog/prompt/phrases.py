"""Phrases that say who does what: `the writer drafts the notes and the checker reviews them`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crewlog.definition.findings import listed
from crewlog.prompt.draft import Share, Unmatched
from crewlog.prompt.nouns import Subject, does_things, words
from crewlog.prompt.slots import PRONOUNS, SlotReader, items
from crewlog.prompt.vocabulary import in_order, obligations, one_of, stem, words_of

_LEADS = re.compile(
    r"(?:(?P<then>first(?: of all)?|to begin with|then|next|finally|lastly|afterwards|after that"
    r"|and then|and finally|and|at the end|in the end|at last|later|again)|(?P<plain>also|oh|so|now"
    r"|please|well|but|moreover|besides|in addition))\b[,:]?\s+",
    re.IGNORECASE,
)
_LATER = re.compile(r"\s+(?:then|again|afterwards|too|as well)$", re.IGNORECASE)
_TO_AGAIN = re.compile(r"\bto\s+[\w' -]+\s+again$", re.IGNORECASE)
_REST = re.compile(
    r"\b(?:works?|goes|go|starts?|begins?|does its part|takes? over)\b(?:\s+(?:in parallel"
    r"|at the same time|side by side|simultaneously|at once))?",
    re.IGNORECASE,
)
BESIDE = re.compile(
    r",?\s*\b(?:in parallel|at the same time|side by side|simultaneously|at once|concurrently)\b,?",
    re.IGNORECASE,
)
_JOINTS = re.compile(
    r"(?P<word>,\s*and\s+|,\s*while\s+|,\s*but\s+|,\s*then\s+|,\s+|\s+and\s+|\s+while\s+|:\s+)",
    re.IGNORECASE,
)
_MEANWHILE = re.compile(r"(?:meanwhile|in parallel|at the same time)", re.IGNORECASE)
_RELATIVE = one_of("which who whom whose")
_PASSIVE = re.compile(
    r"(?P<what>.+?)\s+(?:is|are)\s+(?:then\s+)?(?P<done>(?:\w+\s+){0,2}?\w+)\s+by\s+(?P<agent>(?:the|an?)\s.+|[A-Z].*)",
    re.IGNORECASE,
)
_NO_WORK = re.compile(
    r"(?:is|are|was|were|has|have|had|will|would|may|might|can|cannot|could|must|should|shall|never|always|only"
    r"|do|does|did|needs?|wants?|gets?\s+to)\b",
    re.IGNORECASE,
)
"""Words behind an agent that say no work of it."""
_BINDS = one_of(
    "may must can use uses call calls see sees send sends contact access deploy publish delete allowed"
)
_WHETHER = re.compile(
    r"\b(?:see|sees|check|checks|say|says|decide|decides|tell|tells)\s+(?:\w+\s+)?if\b"
)
_DONE = re.compile(r"\b(?:done|ready|back|finish\w*)\b")
_WITH_TOOLS = re.compile(r"(?:^|,?\s+)(?:with|using|by means of)\s+(?P<tools>.+)$", re.IGNORECASE)
_USES = re.compile(r"(?:uses?|calls?)\s+(?P<tools>.+?)\s+(?:to|for)\s", re.IGNORECASE)


_STRAY = re.compile(
    r"\b(?:not|no|none|nothing|nobody|never|neither|nor|without|cannot|except|unless|until|till"
    r"|before|when|whenever|(?<!at\s)once|assuming|given|provided|instead|between|me|boss|refuses?"
    r"|to\s+[\w' -]+\s+again|every\s+(?:second|minute|hour|day|week|month|year)\w*|or\s+(?:the|an?)"
    r"|(?:in\s+parallel|at\s+the\s+same\s+time)\s+(?:with|as)"
    r"|in\s+turn|one\s+after\s+the\s+other)\b|n't\b|\bI\b|\?|\bafter\s+(?!that\b)",
    re.IGNORECASE,
)
"""Words that turn, order or bind what stands beside them: in a task they would be lost."""
_PEOPLE = re.compile(r"\b(?:me|boss)\b|\bI\b|\?")
_IDLE = re.compile(
    r"(?:\b(?:not|never|no\s+longer)\b|n't\b).*\b(?:work|run|start|act|needed|used|take\s+part)\b"
    r"|\b(?:first|last|before|after|when|once|until|unless|out|off)\b",
    re.IGNORECASE,
)
"""Words of a trait that say whether or when an agent works."""
_RELATIVE_SAYS = re.compile(r"\b(?:that|who|whom|which|whose)\b", re.IGNORECASE)


class PhraseReader(SlotReader):
    """A draft that reads who does what."""

    def _leads(self, text: str) -> tuple[str, bool]:
        """A text without the words that only lead to it, and whether these say that it is later."""
        then = False
        while found := _LEADS.match(text):
            then = then or found["then"] is not None
            text = text[found.end() :]
        if (found := _LATER.search(text)) and not _TO_AGAIN.search(text):
            then = then or "then" in found.group() or "again" in found.group()
            text = text[: found.start()]
        return text, then

    def _phrases(self, text: str, *, adds: bool = False, bare: bool = False) -> list[Share]:
        """Who does what in a text.

        Args:
            text: The text.
            adds: Whether `it` and `they` may work in it.
            bare: Whether its verb has no ending: `have the scout find …`.
        """
        text, then = self._leads(text.strip())
        self.again = self.again or then
        if passive := _PASSIVE.fullmatch(text):
            return self._passive(passive)
        subject = self._subject(text, adds=adds, bare=bare)
        proper = [each for each in items(text[: len(text) - len(subject.rest)]) if is_proper(each)]
        for each in proper:  # a sentence's first word has a capital anyway
            certain = len(proper) > 1 or each.isupper()
            self.names.roles[self.names.name_of(each) or self.names.add(each)] += 1 + certain
        if _NO_WORK.match(subject.rest):
            raise Unmatched("this says what is or may be, and not what an agent does")
        self._check_known(subject.names)
        for name in subject.names:
            self.names.known.setdefault(tuple(name.split("_")), name)
        task, rest, beside = self._split(subject.rest)
        tools = self._tools_in(task)
        self._guard(task)
        found = [Share(name, _task(task), tools, i > 0) for i, name in enumerate(subject.names)]
        if rest:
            more = self._phrases(rest)
            more[0].beside = beside
            found += more
        return found

    def _passive(self, found: re.Match[str]) -> list[Share]:
        """Who does what in `the accounts are examined by the accountant`."""
        task = f"{found['what']}: {found['done']}"
        self._guard(task)
        text = BESIDE.sub(" ", found["agent"]).strip()
        tools: tuple[str, ...] = ()
        if with_tools := re.search(r"(?<=.)\s+(?:with|using)\s+(?P<tools>.+)$", text):
            tools, text = tuple(self._tools(with_tools["tools"])), text[: with_tools.start()]
        for joint in re.finditer(r",?\s+and\s+|,\s+", text):
            right = text[joint.end() :]
            if _PASSIVE.fullmatch(right) or ((s := self.names.subject(right)) and s.rest):
                return [
                    Share(self._agent(text[: joint.start()]), task, tools), *self._phrases(right)
                ]  # fmt: skip
        agents = self._agents(text)
        if not agents:
            raise Unmatched("no agent is named")
        return [Share(agent, task, tools, i > 0) for i, agent in enumerate(agents)]

    def _subject(self, text: str, *, adds: bool, bare: bool) -> Subject:
        """Who works in a text, with what follows the name."""
        found = self.names.subject(text, bare=bare)
        if found is not None:
            _check_clear(found)
            return Subject(found.names, re.sub(r"^to\s+", "", found.rest)) if bare else found
        pronoun = PRONOUNS.match(text)
        if adds and pronoun and self.spoken:
            return Subject(tuple(self.spoken), text[pronoun.end() :])
        everyone = re.match(r"(?:all|every|each)(?: of the)? agents?\s+|(?:they|both) ", text)
        if everyone is not None and self._cast_only():
            return Subject(tuple(self.cast), text[everyone.end() :])
        raise Unmatched("it is not clear who works here")

    def _split(self, text: str) -> tuple[str, str, bool]:
        """A task, what another agent does, and whether it does so beside it."""
        for joint in _JOINTS.finditer(text):
            behind = text[joint.end() :]
            right, _ = self._leads(behind)
            if not re.match(r"(?:the|an?|our|your|each)\s|[A-Z]", right):
                continue
            beside = "while" in joint["word"].casefold()
            if not _PASSIVE.fullmatch(right):
                subject = self.names.subject(right)
                if subject is None or joint.start() == 0:
                    continue
                _check_clear(subject)
                said = right[: len(right) - len(subject.rest)].strip()
                last = words(said)[-1].text if words(said) else ""
                known = self.names.name_of(said) or len(subject.names) > 1
                if not known and not does_things(last):
                    if len(words(subject.rest)) < 2:
                        continue  # `the screens and the data models`
                    raise Unmatched(f"it is not clear whether {said!r} is an agent", unlisted=said)
                beside = beside or _MEANWHILE.match(behind) is not None
            return text[: joint.start()].strip(" ,"), behind, beside
        return text.strip(), "", False

    def _guard(self, task: str, *, trait: bool = False) -> None:
        """Refuses a task that has an obligation in it, or another agent's work.

        Args:
            task: The task.
            trait: Whether it says how an agent works: `never sound bored` is no order to it.
        """
        for kind, found in obligations(task):
            said = found.group().strip()
            match kind:
                case "sight" | "stand_in" | "each" | "pause":
                    binds = False
                case "forbidden" | "exclusive":
                    mentions = self.names.mentioned(task) or self._has_tool_words(task)
                    binds = bool(_BINDS.search(task) or mentions)
                case "quorum":
                    binds = bool(_DONE.search(task))
                case "condition":
                    binds = said.casefold() != "if" or not _WHETHER.search(task)
                case "bound":
                    binds = not re.fullmatch(r"\w+\s+times", said, re.IGNORECASE)
                case _:
                    binds = True
            if binds:
                raise Unmatched(f"no form reads the rule {said!r} inside a task")
        plain, _, rest = _RELATIVE_SAYS.sub("\0", task, count=1).partition("\0")
        if self.names.mentioned(rest) and not _RELATIVE.search(task):
            raise Unmatched("another agent works in the middle of this sentence")
        stray = _PEOPLE.search(task) if trait else _STRAY.search(plain) or _PEOPLE.search(rest)
        stray = stray or (_IDLE.search(task) if trait else None)
        if stray:
            raise Unmatched(f"{stray.group()!r} says more than a task; say it in a form of its own")
        relative = _RELATIVE.search(task)
        if relative is not None and self.names.mentioned(task[relative.end() :]):
            raise Unmatched("another agent works in the middle of this sentence")
        _, _, bracket = task.partition("(")
        if bracket and (self.names.mentioned(bracket) or self._names_tool(bracket)):
            raise Unmatched("the words in brackets say more")

    def _tools_in(self, task: str) -> tuple[str, ...]:
        """The tools of `… with search_logs` and `… using read_metrics`."""
        found = _WITH_TOOLS.search(task) or _USES.match(task)
        if found is None:
            return ()
        try:
            return tuple(self._tools(found["tools"]))
        except Unmatched:
            if self._names_tool(found["tools"]):
                raise
            return ()

    def _has_tool_words(self, text: str) -> bool:
        said = [stem(word) for word in words_of(text)]
        return any(in_order(phrase, said) for phrase, _ in self.tool_phrases)

    def _names_tool(self, text: str) -> bool:
        return any(tool in text for tool in self.registry.tools)


def side_by_side(shares: Sequence[Share]) -> Sequence[Share]:
    """Shares without the words that say that they work side by side."""
    for share in shares:
        share.task = BESIDE.sub(" ", share.task).strip(" ,")
    return shares


def is_proper(said: str) -> bool:
    """Whether this is a name with capitals and without an article: `Audio`, or any first word."""
    return re.fullmatch(r"[A-Z][\w-]*(?: [A-Z][\w-]*)*", said.strip()) is not None


def _check_clear(subject: Subject) -> None:
    """Refuses agents whose name may end at several places."""
    if subject.unclear:
        said = listed([repr(each) for each in subject.unclear], "or")
        raise Unmatched(f"it is not clear where the agent's name ends: {said}")


def _task(text: str) -> str:
    text = " ".join(text.split()).strip(" ,")
    return "" if _REST.fullmatch(text) else text

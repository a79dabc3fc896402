"""Sentences about groups, budgets, who answers and when, how sure an agent is, what tools may reach.

Each is read as a whole or not at all, before the sentence is cut into clauses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from crewlog.definition.reaching import parse_host
from crewlog.prompt.ast import (
    Allow,
    Answers,
    AnyStatement,
    AskTool,
    Budget,
    Group,
    Reach,
    Risk,
    Sees,
    Step,
    Sure,
    Unanswered,
    Words,
    Yes,
)
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.moves import ways
from crewlog.prompt.grammar.named_groups import SIGN
from crewlog.prompt.grammar.phrase import Unit, number
from crewlog.prompt.grammar.reading import Reading
from crewlog.prompt.grammar.sentences import Sentence
from crewlog.prompt.grammar.times import lapse_at

_NAME = re.compile(r"[A-Za-z][\w.-]{0,62}\w|[A-Za-z]")
_NO_PERSON = word_set(
    "i me we us you he she it they them who which nobody somebody someone anyone anybody everyone "
    "everybody people person human humans a an the and or agents agent one"
)
_NOBODY = ways("nobody|no one|no-one|noone|no person|none of us|none of them")
_ANSWERS = ways("answers|has answered|replies|responds|reacts|answer|reply")
ABOUT = {
    "ask": "a question of the flow",
    "requirement": "what cannot come true",
    "step_failed": "a failed step",
    "outcome_unknown": "an unknown outcome",
    "tool_approval": "a call",
    "low_confidence": "low confidence",
    "limit": "a limit",
    "budget": "a budget",
    "manual": "what people ask for",
}
"""Kinds of questions, as they are said."""
_ABOUT = {tuple(words.split()): kind for kind, words in ABOUT.items()} | {
    ("an", "approval"): "tool_approval",
    ("the", "call"): "tool_approval",
}
_REJECT = ways(
    "reject|reject it|reject them|it is rejected|they are rejected|it counts as rejected"
)
_STOP = ways("stop|stop it|stop the run|end|end the run|the run stops|the run ends|give up")
_ESCALATE = ways("escalate to|escalate it to|hand it to|pass it to|pass it on to|it goes to")
_AT_MOST = ways("at most|no more than|not more than|up to|a maximum of")
_WHO = ways("the run|the crew|this run|the whole run|a run|the crew 's runs|we")
_SPEND = word_set("spend spends use uses cost costs")
_TAKE = word_set("take takes last lasts run runs")
_MODAL = ways("may|can|must|should|will|is to|is allowed to")
_DOLLARS = word_set("dollars dollar usd bucks")
_OVERALL = ways("in total|in all|altogether|overall|per run|in a run|all in all")
_MARK = re.compile(r"\$\s?$")
_VERB = word_set("use uses call calls run runs invoke invokes")
_SEES = word_set("see sees read reads")
_NOUNS = word_set("notes work output results result report reports draft drafts findings")
_PERSONS = ways(
    "a person 's yes|a person 's approval|my yes|my approval|a yes|approval|a human 's yes"
)

Found = list[AnyStatement] | None


def apart(sentence: Sentence) -> bool:
    """Whether a sentence speaks of people, groups or hosts by name: no agent is found in it."""
    words = [token.text for token in sentence.tokens]
    text = " ".join(words)
    if words[:1] == ["only"] and "answer" in words[-3:] and {*words} & {"may", "can"}:
        return words[1] not in _NO_PERSON
    if words[:2] in (["if", "nobody"], ["if", "no"]) and "within" in words:
        return bool({*words} & {"answers", "replies", "responds", "answered", "reacts"})
    if words[:1] == ["ask"] and "before" in words[2:6] and _NAME.fullmatch(words[1]):
        return words[1] not in _NO_PERSON
    if " reach only " in text or " only reach " in text:
        return True
    return any(word[:1] == SIGN and word != SIGN for word in words) and _declares(words)


def _declares(words: Sequence[str]) -> bool:
    return bool(
        {*words} & {"has", "contains", "includes", "comprises", "consists", "form", "forms"}
    )


class Terms(Reading):
    """Reads one sentence."""

    def read(self) -> Found:
        """What it says; none where it is no sentence of this kind, or not understood as a whole."""
        forms: tuple[Callable[[], Found], ...] = (
            self.group,
            self._budget,
            self._unanswered,
            self._answers,
            self._asked,
            self._yes,
            self._risk,
            self._sure,
            self._reach,
            self._sight,
        )
        for form in forms:
            self.scan.at = 0
            made = form()
            if made is not None:
                return made
        return None

    def _over(self) -> bool:
        return not self.scan.word

    def _raw(self, unit: Unit) -> str:
        return self.state.text[unit.start : unit.end]

    # -- groups ----------------------------------------------------------------------------------

    def group(self) -> Found:
        """`The group desk has the writer and the checker`, `… form the desk group`."""
        scan = self.scan
        agents: tuple[str, ...] = ()
        if scan.word[:1] == SIGN:
            name = self.mentioned_group()
            if scan.word == "(":
                scan.at += 1
                agents = self._agents()
                closed, follows = scan.rest[:1] == [")"], scan.rest[1:2]
                if not closed or follows not in (["form"], ["forms"], ["make"]):
                    return None
                scan.at += 2
                if not scan.takes(ways("a group|one group|the group")):
                    return None
            elif scan.word in {"has", "contains", "includes", "comprises", ":"}:
                scan.at += 1
                agents = self._agents()
            elif scan.takes(ways("consists of|is made of|is made up of")):
                agents = self._agents()
        else:
            agents = self._agents()
            if not agents or scan.word not in {"form", "forms", "make", "makes"}:
                return None
            scan.at += 1
            if scan.word[:1] != SIGN:
                return None
            name = self.mentioned_group()
        if not agents:
            return None
        made: list[AnyStatement] = [Group(name=name, agents=agents, words=self.words)]
        if self._over():
            return made
        behind = Words(start=self.units[scan.at].start, end=self.units[-1].end)
        more = self._only_they(agents)
        if more is None:
            say = f"{self.state.shown(behind)!r} is no rule about the group {name!r}"
            remedy = "Say whose: 'Only the X group sees the Y's notes.'"
            self.state.remark("not_understood", say, [behind], remedy, severity="error")
        return [*made, *(more or ())]

    def _only_they(self, agents: tuple[str, ...]) -> Found:
        """`…; only they see the writer's notes`, `…, and only they may use lookup`."""
        scan = self.scan
        scan.over({";", ",", "and"})
        if not scan.takes(ways("only they|they alone")):
            return None
        if scan.takes(ways("may use|can use|may call|can call")):
            tools = self.state.tool_names(" ".join(scan.rest))
            if not tools or {w for w in scan.rest if w[0] not in "#$"} - {",", "and", "the"}:
                return None
            return [Allow(agents=agents, tools=tools, only=True, words=self.words)]
        return self._seen(agents)

    def _sight(self) -> Found:
        """`Only the desk group sees the writer's notes`."""
        scan = self.scan
        if not scan.takes(ways("only")) or scan.word[:1] != SIGN:
            return None
        agents = self.state.groups.members.get(self.mentioned_group(), ())
        return self._seen(agents) if agents else None

    def _seen(self, agents: tuple[str, ...]) -> Found:
        scan = self.scan
        scan.takes(ways("may|can"))
        if scan.word not in _SEES:
            return None
        scan.at += 1
        whose = self.state.names(scan.word)
        named = list(scan.rest[1:])
        if not whose and scan.word == "the" and len(named) == 1:
            whose = self._makers(named[0])
        elif len(named) != 2 or named[0] != "'s" or named[1] not in _NOUNS:
            return None
        if not whose:
            return None
        return [Sees(agents=agents, whose=whose, words=self.words)]

    def _makers(self, noun: str) -> tuple[str, ...]:
        """The one agent whose work so far speaks of a thing: `the notes`."""
        steps = [said for said in self.state.statements if isinstance(said, Step)]
        parts = [part for step in steps for part in step.parts]
        found = {part.agent for part in parts if noun in part.task.lower().split()}
        return tuple(found) if len(found) == 1 else ()

    def _agents(self) -> tuple[str, ...]:
        return self.state.names(" ".join(self.scan.agents()))

    # -- budgets ---------------------------------------------------------------------------------

    def _budget(self) -> Found:
        """`The run spends at most 2 dollars`, `Spend no more than 50,000 tokens`."""
        scan = self.scan
        named = scan.takes(_WHO)
        scan.takes(_MODAL)
        negated = scan.takes(ways("not|never"))
        verb = scan.word
        takes = named and verb in _TAKE
        if verb not in _SPEND and not takes:
            return None
        scan.at += 1
        if takes:
            scan.takes(ways("for"))
        if not (scan.takes(ways("more than")) if negated else scan.takes(_AT_MOST)):
            return None
        made: list[AnyStatement] = []
        while True:
            found = self._amount(takes=takes)
            if found is None:
                return None
            made.append(found)
            scan.takes(_OVERALL)
            if self._over():
                return made
            if not scan.takes(ways(", and|, or|,|and|or")):
                return None

    def _amount(self, *, takes: bool) -> Budget | None:
        scan = self.scan
        if not takes:
            most = number(scan.word) if scan.word else None
            unit = scan.rest[1] if len(scan.rest) > 1 else ""
            dollar = bool(_MARK.search(self.state.text[: self.units[scan.at].start])) if most else 0
            if most is not None and (unit in _DOLLARS or dollar) and most > 0:
                scan.at += 1 + (unit in _DOLLARS)
                return Budget(cost=most, words=self.words)
            if most is not None and unit in {"tokens", "token"} and most == int(most) and most >= 1:
                scan.at += 2
                return Budget(tokens=int(most), words=self.words)
        seconds = self._lapse()
        return None if seconds is None else Budget(wall=seconds, words=self.words)

    def _lapse(self) -> float | None:
        found = lapse_at(self.scan.words, self.scan.at) if self.scan.word else None
        if found is None or not found.seconds:
            return None
        self.scan.at = found.end
        return found.seconds

    # -- people ----------------------------------------------------------------------------------

    def _unanswered(self) -> Found:
        """`If nobody answers within a day, escalate to the boss`."""
        scan = self.scan
        then = self._then() if scan.word != "if" else None
        if not scan.takes(ways("if")) or not scan.takes(_NOBODY) or not scan.takes(_ANSWERS):
            return None
        about = None
        if scan.takes(ways("about|on|to")):
            way = next((w for w in _ABOUT if tuple(scan.rest[: len(w)]) == w), None)
            if way is None:
                return None
            about = _ABOUT[way]
            scan.at += len(way)
        if not scan.takes(ways("within|in")) or (seconds := self._lapse()) is None:
            return None
        if then is None:
            scan.over({",", "then"})
            then = self._then()
        if then is None or not self._over():
            return None
        return [
            Unanswered.model_validate(
                {"wait": seconds, "about": about, "words": self.words, **then}
            )
        ]

    def _then(self) -> dict[str, str] | None:
        scan = self.scan
        if scan.takes(_REJECT):
            return {"otherwise": "reject"}
        if scan.takes(_STOP):
            return {"otherwise": "stop"}
        if not scan.takes(_ESCALATE):
            return None
        scan.over({"the"})
        name = self._person()
        return None if name is None else {"otherwise": "escalate", "escalate_to": name}

    def _person(self) -> str | None:
        """A person's name, as it is written."""
        scan = self.scan
        if not scan.word or scan.word in _NO_PERSON:
            return None
        raw = self._raw(self.units[scan.at])
        if scan.word[0] in "@#$&~" or not _NAME.fullmatch(raw):
            return None
        scan.at += 1
        return raw

    def _people(self) -> tuple[str, ...]:
        found: list[str] = []
        while (name := self._person()) is not None:
            found.append(name)
            if not self.scan.takes(ways(", and|, or|,|and|or")):
                break
        return tuple(dict.fromkeys(found))

    def _answers(self) -> Found:
        """`Only ana and bob may answer`."""
        scan = self.scan
        if not scan.takes(ways("only")) or not (people := self._people()):
            return None
        if not scan.takes(ways("may answer|can answer|are to answer|is to answer")):
            return None
        scan.takes(ways("questions|the questions|a question|any question"))
        return [Answers(people=people, words=self.words)] if self._over() else None

    def _asked(self) -> Found:
        """`Ask ana before anyone publishes`: she is the one who may answer, too."""
        scan = self.scan
        if not scan.takes(ways("ask")) or not (people := self._people()):
            return None
        if not scan.takes(ways("before")):
            return None
        agents: tuple[str, ...] = ()
        if not scan.takes(ways("anyone|anybody|any agent|somebody|someone|it is|they are")):
            agents = self._agents()
            if not agents:
                return None
        verb = scan.word in _VERB
        scan.at += verb
        tools = self.state.tool_names(" ".join(scan.rest))
        if not tools or {w for w in scan.rest if w[0] not in "#$"} - {",", "and", "or", "the"}:
            return None
        self.state.remark(
            "assumed",
            f"only {' and '.join(people)} may answer, whatever is asked",
            list(self.words),
            "Say who else may, e.g. 'Only ana and bob may answer.'",
        )
        asked = AskTool(tools=tools, agents=agents, words=self.words)
        return [asked, Answers(people=people, words=self.words)]

    def _yes(self) -> Found:
        """`A yes holds for 10 minutes`."""
        scan = self.scan
        if not scan.takes(ways("a yes|an approval|my yes|a person 's yes")):
            return None
        if not scan.takes(ways("holds for|is valid for|counts for|lasts|holds|is good for")):
            return None
        seconds = self._lapse()
        return [Yes(wait=seconds, words=self.words)] if seconds and self._over() else None

    def _risk(self) -> Found:
        """`Calls of tools of high risk wait for a person's yes`."""
        scan = self.scan
        if not scan.takes(ways("calls of|every call of|each call of|any call of|calls to")):
            return None
        if scan.takes(
            ways("tools of high risk|a tool of high risk|high-risk tools|a high-risk tool")
        ):
            least = "high"
        elif scan.takes(
            ways("tools of any risk|tools of low risk or higher|tools whatever their risk")
        ):
            least = "low"
        else:
            return None
        waits = scan.takes(ways("wait for|waits for|need|needs|require|requires"))
        if not waits or not scan.takes(_PERSONS) or not self._over():
            return None
        return [Risk.model_validate({"least": least, "words": self.words})]

    def _sure(self) -> Found:
        """`The writer must be at least 80 % sure of its work`."""
        scan = self.scan
        agents = self._agents()
        if not agents or not scan.takes(ways("must be at least|has to be at least")):
            return None
        least = number(scan.word) if scan.word else None
        scan.at += 1
        if scan.takes(ways("%|percent|per cent")) and least is not None:
            least /= 100
        if least is None or not 0 < least <= 1 or not scan.takes(ways("sure|certain|confident")):
            return None
        scan.takes(ways("of its work|of their work|of it|of what it says|of its answer"))
        scan.takes(
            ways(", else ask me|, or ask me|, otherwise ask me|; otherwise ask me|else ask me")
        )
        return [Sure(agents=agents, least=least, words=self.words)] if self._over() else None

    # -- reach -----------------------------------------------------------------------------------

    def _reach(self) -> Found:
        """`The tool fetch may reach only example.com and the subdomains of example.org`."""
        scan = self.scan
        scan.over({"the", "tool", "tools"})
        named: list[str] = []
        while scan.word[:1] and scan.word[0] in "#$":
            named += self.state.tool_names(scan.word)
            scan.at += 1
            scan.over({",", "and", "tool", "the"})
        if not named or not scan.takes(_MODAL):
            return None
        if not scan.takes(ways("reach only|only reach|reach nothing but|reach no host but")):
            return None
        hosts: list[str] = []
        while scan.word:
            sub = scan.takes(ways("the subdomains of|subdomains of|any subdomain of"))
            raw = self._raw(self.units[scan.at]) if scan.word else ""
            host = f"*.{raw.lower()}" if sub else raw.lower()
            if not _is_host(host):
                return None
            hosts.append(host)
            scan.at += 1
            if not scan.takes(ways(", and|, or|,|and|or")):
                break
        if not hosts or not self._over():
            return None
        return [Reach(tools=tuple(named), hosts=tuple(dict.fromkeys(hosts)), words=self.words)]


def _is_host(text: str) -> bool:
    """Whether a word is a host's name or address, and no word of English."""
    if "." not in text.removeprefix("*."):
        return False
    try:
        return "/" not in text and parse_host(text).port is None
    except ValueError:
        return False


def asks_whom(units: list[Unit]) -> list[Unit]:
    """`Ask before any risky tool` with whom: `me`."""
    texts = [unit.text for unit in units[:2]]
    if texts == ["ask", "before"]:
        at = units[0].end
        return [units[0], Unit("me", at, at), *units[1:]]
    return units

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
from crewlog.prompt.grammar.moves import Scan, ways
from crewlog.prompt.grammar.named_groups import SIGN
from crewlog.prompt.grammar.phrase import Unit, number
from crewlog.prompt.grammar.reading import NAME, NO_PERSON, Reading
from crewlog.prompt.grammar.sentences import Sentence

_NOBODY = ways("nobody|no one|no-one|noone|no person|none of us|none of them")
_ANSWERS = ways("answers|has answered|replies|responds|reacts|answer|reply|respond|react")
_ANSWERING = word_set(
    "answers replies responds answered reacts answer reply respond response react"
)
_UNANSWERED = ways(
    "no answer comes|there is no answer|there is no reply|no reply comes|there is no response|"
    "i do not answer|i do not reply|i do not respond|i have not answered|we do not answer|"
    "i do not react|no one has answered|we do not reply|nobody has answered|nobody has replied"
)
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
    "reject|reject it|reject them|it is rejected|they are rejected|it counts as rejected|"
    "treat it as a no|treat it as rejected|treat that as a no|take it as a no|count it as a no|"
    "take that as a no|that means no|it means no|that is a no|it is a no|the answer is no|it counts as a no|"
    "that counts as a no|treat it as a rejection|consider it rejected|refuse it|refuse the call|"
    "reject the call|the call is rejected|the call is refused|are rejected|count as rejected|count as a no"
)
_STOP = ways(
    "stop|stop it|stop the run|end|end the run|the run stops|the run ends|give up|stop the run|stop them|"
    "stop everything|abort|abort the run"
)
_ESCALATE = ways(
    "escalate to|escalate it to|hand it to|pass it to|pass it on to|it goes to|ask|it is escalated to|"
    "go to|are escalated to|the question goes to|escalate the question to|forward it to"
)
_AT_MOST = ways("at most|no more than|not more than|up to|a maximum of")
_WHO = ways("the run|the crew|this run|the whole run|a run|the crew 's runs|we|the whole thing")
_SPEND = word_set("spend spends use uses cost costs")
_TAKE = word_set("take takes last lasts run runs")
_MODAL = ways("may|can|must|should|will|is to|is allowed to")
_DOLLARS = word_set("dollars dollar usd bucks")
_OVERALL = ways("in total|in all|altogether|overall|per run|in a run|all in all")
_MARK = re.compile(r"\$\s?$")
_VERB = word_set("use uses call calls run runs invoke invokes")
_SEES = word_set("see sees read reads")
_SEES_ONLY = ways("sees only|only sees|see only|only see|reads only|only reads|read only|only read")
_NOUNS = word_set("notes work output results result report reports draft drafts findings")
_PERSONS = ways(
    "a person 's yes|a person 's approval|my yes|my approval|a yes|approval|a human 's yes"
)
_A_YES = ways(
    "a yes|an approval|my yes|a person 's yes|approvals|every approval|each approval|my approval|any yes|"
    "my approvals|any approval|every yes|each yes"
)
_HOLDS = ways(
    "holds for|is valid for|counts for|lasts|holds|is good for|hold for|are valid for|are good for|last|"
    "expires after|expire after|expires in|expire in|lapses after|lapse after|runs out after|"
    "run out after|is only valid for|are only valid for|holds only for|expires within|holds for only"
)
_LASTS = ways(
    "has to be done|must be done|has to be finished|must be finished|must finish|has to finish|"
    "must be over|has to be over|must end|has to end|must be complete|is to be done|should be done"
)
_NEVER = ways("do not|never")
_REACH_ONLY = ways(
    "reach only|only reach|reach nothing but|reach no host but|only visit|visit only|only contact|"
    "contact only|only access|access only|only talk to|talk only to|only connect to|connect only to|"
    "visit nothing but|access nothing but|only go to|go only to|only call|only fetch from|only open"
)

Found = list[AnyStatement] | None


def apart(sentence: Sentence) -> bool:
    """Whether a sentence speaks of people, groups or hosts by name: no agent is found in it."""
    words = [token.text for token in sentence.tokens]
    text = " ".join(words)
    if words[:1] == ["only"] and "answer" in words[-3:] and {*words} & {"may", "can"}:
        return words[1] not in NO_PERSON
    if words[:1] in (["if"], ["when"]) and words[1:2] in (["nobody"], ["no"], ["i"]):
        return bool({*words} & {"within", "in", "for"}) and bool({*words} & _ANSWERING)
    if words[:1] == ["unanswered"] or words[:3] in (
        ["questions", "go", "to"],
        ["all", "questions", "go"],
    ):
        return True
    if _approve_calls(words):
        return True
    if words[:1] == ["ask"] and "before" in words[2:6] and NAME.fullmatch(words[1]):
        return words[1] not in NO_PERSON
    if " reach only " in text or " only reach " in text:
        return True
    return any(word[:1] == SIGN and word != SIGN for word in words) and _declares(words)


def _approve_calls(words: Sequence[str]) -> bool:
    """`Ana or Ben must approve every call of publish`: people, who are called by their names."""
    verb = next((at for at, word in enumerate(words) if word in _APPROVE), 0)
    before = [w for w in words[:verb] if w not in {",", "or", "and", "must", "has", "have", "to"}]
    calls = {*words[verb + 1 : verb + 5]} & {"every", "each", "any", "all", "calls", "call", "uses"}
    return 0 < len(before) <= 4 and bool(calls) and not {*before} & NO_PERSON


_APPROVE = word_set("approve approves confirm confirms authorise authorises okay okays sign signs")


def _declares(words: Sequence[str]) -> bool:
    return bool(
        {*words} & {"has", "contains", "includes", "comprises", "consists", "form", "forms", "are"}
    )


class Terms(Reading):
    """Reads one sentence."""

    def read(self) -> Found:
        """What it says; none where it is no sentence of this kind, or not understood as a whole."""
        forms: tuple[Callable[[], Found], ...] = (
            self.group,
            self._budget,
            self._spent,
            self._unanswered,
            self._answers,
            self._asked,
            self._yes,
            self._risk,
            self._sure,
            self._reach,
            self._sight,
            self._own_work,
            self._between,
            self._shows,
            self._hidden,
        )
        for form in forms:
            self.scan.at = 0
            made = form()
            if made is not None:
                return made
        return None

    # -- groups ----------------------------------------------------------------------------------

    def group(self) -> Found:
        """`The group desk has the writer and the checker`, `… form the desk group`."""
        scan = self.scan
        agents: tuple[str, ...] = ()
        if scan.word[:1] == SIGN:
            name = self.mentioned_group()
            if scan.word == "(":
                scan.at += 1
                agents = self.agents()
                closed, follows = scan.rest[:1] == [")"], scan.rest[1:2]
                if not closed or follows not in (["form"], ["forms"], ["make"]):
                    return None
                scan.at += 2
                if not scan.takes(ways("a group|one group|the group")):
                    return None
            elif scan.word in {"has", "contains", "includes", "comprises", ":"}:
                scan.at += 1
                agents = self.agents()
            elif scan.takes(ways("consists of|is made of|is made up of")):
                agents = self.agents()
        else:
            agents = self.agents()
            if not agents or not scan.takes(ways("form|forms|make|makes|are|make up")):
                return None
            if scan.word[:1] != SIGN:
                return None
            name = self.mentioned_group()
        if not agents:
            return None
        made: list[AnyStatement] = [Group(name=name, agents=agents, words=self.words)]
        if self.over():
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

    def _own_work(self) -> Found:
        """`The researcher sees only its own work`."""
        scan = self.scan
        agents = self.agents()
        scan.takes(ways("may|can|must|should"))
        if not agents or not scan.takes(_SEES_ONLY) or not scan.takes(ways("its own|their own")):
            return None
        if scan.word not in _NOUNS or len(scan.rest) > 1:
            return None
        return [Sees(agents=agents, hidden=True, words=self.words)]

    def _between(self) -> Found:
        """`What the writer says stays between the writer and the checker`."""
        scan = self.scan
        if scan.takes(ways("what")):
            whose = self.agents()
            if scan.word not in {"says", "writes", "say", "write", "reports", "finds"}:
                return None
        else:
            whose = self.agents()
            if not scan.takes(ways("'s")) or scan.word not in _NOUNS:
                return None
        scan.at += 1
        if not scan.takes(
            ways("stays between|stay between|remains between|is between|remain between")
        ):
            return None
        agents = self.agents()
        others = tuple(name for name in agents if name not in whose)
        if len(whose) != 1 or whose[0] not in agents or not others or not self.over():
            return None
        return [Sees(agents=others, whose=whose, words=self.words)]

    def _shows(self) -> Found:
        """`The writer may not show its notes to the researcher`."""
        scan = self.scan
        whose = self.agents()
        scan.takes(_MODAL)
        if not whose or not scan.takes(ways("not|never")):
            return None
        if not scan.takes(ways("show|give|pass|reveal|disclose|hand")):
            return None
        if not scan.takes(ways("its|their|any of its")) or not scan.word.isalpha():
            return None
        scan.at += 1
        agents = self.agents() if scan.takes(ways("to")) else ()
        if not agents or {*agents} & {*whose} or not self.over():
            return None
        return [Sees(agents=agents, whose=whose, hidden=True, words=self.words)]

    def _hidden(self) -> Found:
        """`The writer may not see the researcher's facts`, `Hide the researcher's facts from …`."""
        scan = self.scan
        if scan.takes(ways("hide|conceal|keep|withhold")):
            whose = self._thing_of()
            agents = self.agents() if scan.takes(ways("from|away from|hidden from")) else ()
        else:
            agents = self.agents()
            scan.takes(_MODAL)
            if not agents or not scan.takes(ways("not|never")):
                return None
            if scan.word not in {"see", "read"}:
                return None
            scan.at += 1
            whose = self._thing_of()
        if not agents or not whose or {*agents} & {*whose} or not self.over():
            return None
        return [Sees(agents=agents, whose=whose, hidden=True, words=self.words)]

    def _thing_of(self) -> tuple[str, ...]:
        """Reads `the researcher's facts`: whose they are."""
        scan = self.scan
        whose = self.agents()
        if not whose or not scan.takes(ways("'s")):
            return ()
        if not scan.word.isalpha() or scan.word in {"eyes", "mind", "memory", "tools"}:
            return ()
        scan.at += 1
        return whose

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

    # -- budgets ---------------------------------------------------------------------------------

    def _budget(self) -> Found:
        """`The run spends at most 2 dollars`, `Spend no more than 50,000 tokens`."""
        scan = self.scan
        if scan.takes(
            ways("budget :|the budget is|the run 's budget is|our budget is|the whole budget is")
        ):
            return self._amounts(takes=False)
        named = scan.takes(_WHO)
        if named and scan.takes(_LASTS):
            return self._amounts(takes=True) if scan.takes(ways("within|in")) else None
        negated = not named and scan.takes(_NEVER)
        if not negated:
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
            behind = not negated and scan.words[-2:] == ["at", "most"]
            if not behind:
                return None
            self.scan = Scan(scan.words[:-2])
            self.scan.at = scan.at
        return self._amounts(takes=takes)

    def _spent(self) -> Found:
        """`Stop if it costs more than 3 dollars`: there, people are asked."""
        scan = self.scan
        if not scan.takes(_STOP) or not scan.takes(ways("if|when|once|as soon as")):
            return None
        if not scan.takes(_WHO) and not scan.takes(ways("it|this|everything")):
            return None
        if not scan.takes(ways("costs|has cost|uses|has used|spends|has spent|cost|takes|lasts")):
            return None
        takes = scan.words[scan.at - 1] in {"takes", "lasts"}
        if not scan.takes(ways("more than|over|longer than")):
            return None
        made = self._amounts(takes=takes)
        if made is not None:
            say = "where a budget is used up the run stops and asks people"
            self.state.remark("assumed", say, list(self.words), "Let them answer 'stop'.")
        return made

    def _amounts(self, *, takes: bool) -> Found:
        scan = self.scan
        made: list[AnyStatement] = []
        while True:
            found = self._amount(takes=takes)
            if found is None:
                return None
            made.append(found)
            scan.takes(_OVERALL)
            if self.over():
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
            if most is not None and unit in {"cents", "cent"} and most > 0:
                scan.at += 2
                return Budget(cost=round(most / 100, 6), words=self.words)
            if most is not None and unit in {"tokens", "token"} and most == int(most) and most >= 1:
                scan.at += 2
                return Budget(tokens=int(most), words=self.words)
        seconds = self.lapse()
        return None if seconds is None else Budget(wall=seconds, words=self.words)

    # -- people ----------------------------------------------------------------------------------

    def _unanswered(self) -> Found:
        """`If nobody answers within a day, escalate to the boss`."""
        scan = self.scan
        then = self._then() if scan.word not in {"if", "when"} else None
        if not scan.takes(ways("if|when")):
            return None if then is not None else self._left_open()
        known = scan.takes(_UNANSWERED) or (scan.takes(_NOBODY) and scan.takes(_ANSWERS))
        if not known:
            return None
        about = None
        if scan.takes(ways("about|on|to")):
            way = next((w for w in _ABOUT if tuple(scan.rest[: len(w)]) == w), None)
            if way is None:
                return None
            about = _ABOUT[way]
            scan.at += len(way)
        if not scan.takes(ways("within|in|for")) or (seconds := self.lapse()) is None:
            return None
        if then is None:
            scan.over({",", "then"})
            then = self._then()
        if then is None or not self.over():
            return None
        return [
            Unanswered.model_validate(
                {"wait": seconds, "about": about, "words": self.words, **then}
            )
        ]

    def _left_open(self) -> Found:
        """`Unanswered questions are rejected after two hours`."""
        scan = self.scan
        if not scan.takes(
            ways("unanswered questions|unanswered approvals|questions nobody answers")
        ):
            return None
        if (then := self._then()) is None or not scan.takes(ways("after")):
            return None
        seconds = self.lapse()
        if seconds is None or not self.over():
            return None
        return [Unanswered.model_validate({"wait": seconds, "words": self.words, **then})]

    def _then(self) -> dict[str, str] | None:
        scan = self.scan
        if scan.takes(_REJECT):
            return {"otherwise": "reject"}
        if scan.takes(_STOP):
            return {"otherwise": "stop"}
        if not scan.takes(_ESCALATE):
            return None
        scan.over({"the"})
        name = self.person()
        scan.takes(ways("instead"))
        return None if name is None else {"otherwise": "escalate", "escalate_to": name}

    def _answers(self) -> Found:
        """`Only ana and bob may answer`, `Questions go to ana and bob`."""
        scan = self.scan
        if scan.takes(ways("questions go to|all questions go to|every question goes to")):
            people = self.people()
            scan.takes(ways("only|alone"))
            return [Answers(people=people, words=self.words)] if people and self.over() else None
        if not scan.takes(ways("only")) or not (people := self.people()):
            return None
        if not scan.takes(ways("may answer|can answer|are to answer|is to answer")):
            return None
        scan.takes(ways("questions|the questions|a question|any question"))
        return [Answers(people=people, words=self.words)] if self.over() else None

    def _asked(self) -> Found:
        """`Ask ana before anyone publishes`: she is the one who may answer, too."""
        scan = self.scan
        if not scan.takes(ways("ask")) or not (people := self.people()):
            return None
        if not scan.takes(ways("before")):
            return None
        agents: tuple[str, ...] = ()
        if not scan.takes(ways("anyone|anybody|any agent|somebody|someone|it is|they are")):
            agents = self.agents()
            if not agents:
                return None
        verb = scan.word in _VERB
        scan.at += verb
        tools = self.state.tool_names(" ".join(scan.rest))
        if not tools or {w for w in scan.rest if w[0] not in "#$"} - {",", "and", "or", "the"}:
            return None
        self.only_these(people)
        asked = AskTool(tools=tools, agents=agents, words=self.words)
        return [asked, Answers(people=people, words=self.words)]

    def _yes(self) -> Found:
        """`A yes holds for 10 minutes`, `Approvals expire after an hour`."""
        scan = self.scan
        if not scan.takes(_A_YES) or not scan.takes(_HOLDS):
            return None
        seconds = self.lapse()
        scan.takes(ways("only|at most"))
        return [Yes(wait=seconds, words=self.words)] if seconds and self.over() else None

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
        if not waits or not scan.takes(_PERSONS) or not self.over():
            return None
        return [Risk.model_validate({"least": least, "words": self.words})]

    def _sure(self) -> Found:
        """`The writer must be at least 80 % sure of its work`."""
        scan = self.scan
        agents = self.agents()
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
        return [Sure(agents=agents, least=least, words=self.words)] if self.over() else None

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
        only = scan.takes(_REACH_ONLY)
        if not only and not scan.takes(ways("reach|visit|access|contact|connect to|talk to")):
            return None
        hosts: list[str] = []
        while scan.word:
            sub = scan.takes(ways("the subdomains of|subdomains of|any subdomain of"))
            raw = self.raw(self.units[scan.at]) if scan.word else ""
            host = f"*.{raw.lower()}" if sub else raw.lower()
            if not _is_host(host):
                return None
            hosts.append(host)
            scan.at += 1
            if not scan.takes(ways(", and|, or|,|and|or")):
                break
        only = only or scan.takes(ways("only|and nothing else|and no other host|alone"))
        if not only or not hosts or not self.over():
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

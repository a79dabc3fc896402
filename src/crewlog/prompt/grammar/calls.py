"""Sentences that rule over calls of tools: how many, never, under which condition, by which group.

`The researcher may use search at most 5 times per run`, `Only publish if the review was approved`,
`Nobody may ever call publish`, `Ask me before the writer calls publish if the amount is above 50`.
A sentence is read as a whole or not at all: a bound that is not understood must not leave the right
without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from crewlog.prompt.ast import Allow, AnyStatement, Cond, Deny, Fact, Not, Rule, Words
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.moves import Scan, ways
from crewlog.prompt.grammar.named_groups import SIGN
from crewlog.prompt.grammar.phrase import Unit, number
from crewlog.prompt.grammar.reading import Reading
from crewlog.prompt.grammar.state import State

MOST = 999_999_999
"""Calls that a quota can count."""
_NOBODY = ways("nobody|no one|no-one|noone|no agent|none of the agents|none of them")
_ALL = ways("everyone|everybody|every agent|all agents|each agent|anyone|any agent|all of them")
_OF_GROUP = ways(
    "in|of|everyone in|everybody in|anyone in|agents in|agents of|the agents in|the agents of|"
    "members of|the members of|every agent in|every agent of"
)
_MAY = ways("may|can|could|is allowed to|are allowed to|is permitted to|are permitted to")
_MUST = ways("must|should|shall|will|may|can|could|is allowed to|are allowed to|do|does|is|are")
_NOT = ways("not ever|never|not|no longer")
_USE = word_set("use uses call calls run runs invoke invokes")
_CALL = word_set("call calls invoke invokes")
_USED = word_set("used called run invoked")
_ANY_TOOL = ways("any tool|any tools|tools|a tool|every tool|all tools|any tool at all")
AT_MOST = ways(
    "at most|no more than|not more than|up to|at the most|a maximum of|maximally|no more often than|"
    "max|max.|maximum|maximum of"
)
_MORE = ways("more than|more often than")
_TIMES = word_set("times time calls call")
COUNTS = {"once": 1, "twice": 2, "thrice": 3}
_PER = ways(
    "per|a|an|each|every|in a|in an|in one|in any|in each|in every|in any one|in a single|in this|"
    "in the|within a|within an|within one|during a|during one"
)
_WINDOWS = {"run": "run", "hour": "hour", "day": "day"}
_SPANS = word_set(
    "run hour day week month minute second year quarter session turn step call weekday night"
)
"""What calls may be meant to be counted in, also where they cannot be."""
_NO_AGENTS = word_set("people person persons human humans somebody someone user users i we")
_BLOCKED = ways(
    "is blocked|is forbidden|is locked|is off limits|is off-limits|is prohibited|is not allowed|"
    "is disabled|is closed|is barred|is banned|are blocked|are forbidden|are not allowed|is taboo|"
    "stays blocked|remains blocked|stays locked|is not permitted|are off limits"
)
_CONSENT = word_set("approval consent okay ok permission yes sign-off go-ahead blessing agreement")
_NO_MORE = ways(
    ", not more|, no more|, and not more|, and no more|and no more|and not more|at most|at the most|"
    "maximum|at maximum|not more|no more|, at most|only|, but not more|but not more"
)
_ONCE_PER = {"hourly": "hour", "daily": "day"}
_TOGETHER = ways("together|in total|in all|altogether|all together|taken together|ever")
_ALTOGETHER = ways("together ,|in total ,|altogether ,|in all ,|taken together ,")
_IF = ways("if|when|where|in case|provided|provided that|whenever")
_WHILE = ways("while|as long as|so long as|whilst")
_UNLESS = ways("unless|until|except if|except when|except where|till|unless and until")
_ONCE = ways("once|after|as soon as")
_WAIT = ways(
    "wait for|waits for|need|needs|require|requires|must wait for|must have|have to wait for"
)
_YES = ways(
    "a person 's yes|a person 's approval|my yes|my approval|a yes|approval|an approval|"
    "a human 's yes|a human 's approval|my ok|our yes|our approval"
)
_ASK = ways(
    "ask me|ask us|ask a human|ask a person|ask people|ask somebody|ask someone|ask the user"
)


@dataclass(slots=True)
class Call:
    """A sentence about calls, as far as it is read."""

    agents: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    nobody: bool = False
    only: bool = False
    """Nobody else may: `only the desk group`."""
    may: bool = False
    gives: bool = False
    """It is said of agents that they may, or do."""
    negated: bool = False
    ever: bool = False
    """`Never call`, `may ever call`: a rule that no right lifts."""
    only_if: bool = False
    """`May only use it …`: there is to be a condition or a bound."""
    tools: tuple[str, ...] = ()
    every_tool: bool = False
    bounds: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """How many calls in which window; each counts by itself."""
    each: bool = False
    """It is said of every agent by itself, and calls are counted together."""
    obliged: bool = False
    """A number is said of them without a word that makes it a bound: `must call it twice a day`."""
    more: bool = False
    """`More than`: the bound of what may not be."""
    condition: Cond | None = None
    people_set: tuple[str, ...] = ()
    bare: list[Unit] = field(default_factory=list[Unit])
    """Where no window is said."""


class Calls(Reading):
    """Reads one sentence."""

    def __init__(self, state: State, units: Sequence[Unit]) -> None:
        super().__init__(state, units)
        self.call = Call()
        self.fronted = False
        """Whether a condition leads the sentence."""

    def read(self) -> list[AnyStatement] | None:
        """What it says; none where it is no sentence of this kind, or not understood as a whole."""
        if not self._mentions():
            return None
        front = self._fronted()
        self.fronted = front > 0
        forms = (
            self._waits,
            self._asks,
            self._blocked,
            self._passive,
            self._ordered,
            self._said,
        )
        for form in forms:
            self.scan.at = front
            kept = (self.call.condition, self.call.people_set)
            self.call = Call(condition=kept[0], people_set=kept[1])
            made = form()
            if made is not None:
                return made
        return None

    def _mentions(self) -> bool:
        words = self.scan.words
        tools = any(word[0] in "#$" for word in words)
        return tools or any(word in {"tool", "tools"} for word in words)

    # -- the parts -------------------------------------------------------------------------------

    def _fronted(self) -> int:
        """The place behind a condition that leads the sentence: `Unless approved, nobody may …`."""
        words = self.scan.words
        self.scan.at = 0
        if self.scan.takes(ways("without")) and self._approval():
            self.scan.over({","})
            return self.scan.at
        if "," not in words:
            return 0
        self.scan.at = 0
        if self.scan.takes(_ALTOGETHER):
            return self.scan.at
        end = words.index(",")
        self.scan.at = 0
        negated = self._opener(positive=False)
        if negated is None or not self._facts(words[self.scan.at : end], negate=negated):
            return 0
        return end + 1

    def _opener(self, *, positive: bool) -> bool | None:
        """Whether the condition behind the word at hand is negated for the rule; none: no opener.

        `Only if` and `while` of what may be done forbid it where the condition does not hold.
        """
        if self.scan.takes(_UNLESS):
            return not positive
        if any(self.scan.takes(words) for words in (_IF, _WHILE, _ONCE)):
            return positive
        return None

    def _facts(self, words: Sequence[str], *, negate: bool) -> bool:
        """Reads a condition; it is kept as the rule needs it."""
        if not words or any(word[0] in "#$&" for word in words) or {*words} & _NO_AGENTS:
            return False  # what people decide is asked, and no flag of an agent
        made = _set_by_people(words)
        fact = made.of if isinstance(made, Not) else made
        people = (fact.name,) if isinstance(fact, Fact) else ()
        if made is None:
            made = self.state.condition(" ".join(words))
        if made is None or self.call.condition is not None:
            return False
        if negate:
            made = made.of if isinstance(made, Not) else Not(of=made)
        self.call.condition, self.call.people_set = made, people
        return True

    def _subject(self) -> bool:
        """Reads who calls."""
        call, scan = self.call, self.scan
        if scan.takes(_NOBODY):
            call.nobody = True
            if scan.word in {"in", "of"} and scan.rest[1:2] and scan.rest[1][0] == SIGN:
                scan.at += 1
                call.groups = (self.mentioned_group(),)
            return True
        call.only = scan.takes(ways("only"))
        call.each = not call.only and scan.word in {"each", "every"}
        if scan.takes(_ALL) and scan.word not in {"in", "of", "but", "except"}:
            return not call.only
        agents: list[str] = []
        groups: list[str] = []
        while scan.word:
            before = scan.at
            scan.takes(_OF_GROUP)
            if scan.word[:1] == SIGN:
                groups.append(self.mentioned_group())
            elif scan.at == before and scan.word[:1] == "@":
                agents += self.state.names(scan.word)
                scan.at += 1
            else:
                scan.at = before
                break
            if not self._joined("@&"):
                break
        call.agents, call.groups = tuple(dict.fromkeys(agents)), tuple(dict.fromkeys(groups))
        return bool(agents or groups)

    def _joined(self, signs: str) -> bool:
        """Reads what joins two mentions, where another one follows."""
        scan, at = self.scan, self.scan.at
        scan.over({",", "and", "or", "nor", "the", "tool", "tools", "both"})
        begin = scan.at
        ahead = SIGN in signs and scan.takes(_OF_GROUP) and scan.word[:1] == SIGN
        scan.at = begin
        if begin > at and (ahead or (scan.word and scan.word[0] in signs)):
            return True
        scan.at = at
        return False

    def _tools(self) -> bool:
        """Reads the tools."""
        scan = self.scan
        if scan.takes(_ANY_TOOL):
            self.call.every_tool = True
            return True
        scan.over({"the", "tool", "tools"})
        named: list[str] = []
        while scan.word[:1] and scan.word[0] in "#$":
            named += self.state.tool_names(scan.word)
            scan.at += 1
            if not self._joined("#$"):
                break
        scan.over({"tool", "tools"})
        self.call.tools = tuple(dict.fromkeys(named))
        return bool(named)

    def _bound(self) -> bool:
        """Reads `at most 5 times per run`; of what may be done, `5 times per run` says the same."""
        call, scan, at = self.call, self.scan, self.scan.at
        more = scan.takes(_MORE)
        bounded = more or scan.takes(AT_MOST)
        if not bounded and scan.word == "only" and self._counts(1):
            bounded = True
            scan.at += 1
        start = scan.at
        if not bounded and not (self._counts(0) and (call.may or scan.word in COUNTS)):
            return False
        if scan.word in COUNTS:
            most: float | None = COUNTS[scan.word]
            scan.at += 1
        else:
            most = number(scan.word) if scan.word else None
            scan.at += 1
            if scan.word not in _TIMES:
                scan.at = at
                return False
            scan.at += 1
        per = self.window()
        if per is None or (not per and not bounded):
            scan.at = at
            return False
        if not per:
            call.bare = list(self.units[start : scan.at])
        windows = [each for _, each in call.bounds]
        known = bool(windows) and (more != call.more or (per or "run") in windows)
        if known or most is None or most != int(most) or not 1 <= most <= MOST:
            scan.at = at
            return False
        call.bounds.append((int(most), per or "run"))
        call.more = more
        call.obliged = call.obliged or not (scan.takes(_NO_MORE) or bounded or call.may)
        return True

    def _counts(self, ahead: int) -> bool:
        """Whether `once`, `5 times` stands so many words ahead."""
        words = [*self.scan.rest[ahead : ahead + 2], "", ""]
        return words[0] in COUNTS or (number(words[0]) is not None and words[1] in _TIMES)

    def window(self) -> str | None:
        """Reads `per run`: in what is counted; empty where nothing is said, none for what cannot be."""
        scan = self.scan
        if scan.word in _ONCE_PER:
            scan.at += 1
            return _ONCE_PER[scan.words[scan.at - 1]]
        if not scan.takes(_PER):
            return ""
        scan.at += 1
        return _WINDOWS.get(scan.words[scan.at - 1]) if scan.at <= len(scan.words) else None

    def _tail(self, *, positive: bool) -> bool:
        """Reads bounds and conditions to the end of the sentence."""
        scan = self.scan
        while scan.word:
            before = scan.at
            scan.over({",", "and", "but", ":", "–"})
            if scan.takes(_TOGETHER) or self._bound():
                continue
            only = scan.takes(ways("only"))
            self.call.only_if = self.call.only_if or only
            if scan.word == ("with" if only else "without") and only == positive:
                scan.at += 1
                if self._approval():
                    continue
                scan.at = before
                return False
            negate = self._opener(positive=positive)
            if negate is None:
                scan.at = before
                return False
            words = list(scan.rest)
            scan.at = len(scan.words)
            if not self._facts(words, negate=negate):
                return False
        return True

    def _approval(self) -> bool:
        """Reads `the checker's approval`, without which it may not be."""
        scan = self.scan
        if scan.takes(ways("the approval of|the consent of|approval by|approval from|approval of")):
            agents = scan.agents()
        else:
            agents = scan.agents()
            if not scan.takes(ways("'s")) or scan.word not in _CONSENT:
                return False
            scan.at += 1
        if len(agents) != 1:
            return False
        return self._facts([agents[0], "approves", "it"], negate=True)

    # -- the forms -------------------------------------------------------------------------------

    def _said(self) -> list[AnyStatement] | None:
        """`The writer may use publish at most twice per run`, `Nobody may ever call it`."""
        call, scan = self.call, self.scan
        if not self._subject():
            return None
        scan.takes(_TOGETHER)
        begin = scan.at
        call.may = scan.takes(_MAY)
        must = not call.may and scan.takes(_MUST)
        self._adverbs()
        self._bound()
        verb = scan.word if scan.word in _USE else ""
        act = not verb and scan.at == begin and scan.word[:1] == "$"
        if verb:
            scan.at += 1
        elif scan.at == begin and not act:
            return None
        finite = scan.at == begin + 1 and verb.endswith("s")
        if scan.takes(ways("only")):
            call.only_if = True
        if not self._tools():
            return None
        call.negated = call.negated != call.nobody
        if call.negated and call.nobody and self._twice_negated():
            return None
        positive = not call.negated
        if not self._tail(positive=positive):
            return None
        if act and not (call.nobody if call.condition else call.bounds):
            return None  # what it does, and not what it may
        counted = (must or act) and call.bounds and not call.condition and not call.obliged
        if positive and not (call.may or finite or counted):
            return None
        call.gives = positive and not call.nobody and (call.may or finite)
        return self._made(never=verb in _CALL)

    def _twice_negated(self) -> bool:
        """`Nobody may not use it`, which may mean two things."""
        return any(word in {"not", "never"} for word in self.scan.words[: self.scan.at])

    def _adverbs(self) -> None:
        call, scan = self.call, self.scan
        while scan.word:
            if scan.takes(_NOT):
                call.negated = not call.negated
                call.ever = call.ever or scan.words[scan.at - 1] in {"never", "ever"}
            elif scan.takes(ways("ever")):
                call.ever = True
            elif scan.takes(ways("only")):
                call.only_if = True
            elif scan.takes(ways("be allowed to|together|be")):
                pass
            else:
                return

    def _ordered(self) -> list[AnyStatement] | None:
        """`Only publish if …`, `Use publish only while …`, `Never call publish unless …`."""
        call, scan = self.call, self.scan
        call.only_if = scan.takes(ways("only"))
        if not call.only_if and scan.takes(ways("never|do not ever|do not")):
            call.negated = True
            call.ever = scan.words[scan.at - 1] in {"never", "ever"}
        verb = scan.word if scan.word in _USE else ""
        scan.at += bool(verb)
        if not self._tools() or not self._tail(positive=not call.negated):
            return None
        if not call.negated and not call.only_if and not call.bounds:
            return None
        if not call.negated and call.condition is None and not call.bounds:
            return None
        return self._made(never=verb in _CALL)

    def _passive(self) -> list[AnyStatement] | None:
        """`Publish may be called at most 3 times per run`, `It must not be used by … if …`."""
        call, scan = self.call, self.scan
        if not self._tools():
            return None
        call.may = scan.takes(_MAY)
        if not call.may and not scan.takes(_MUST):
            return None
        self._adverbs()
        if scan.words[scan.at - 1] != "be" or scan.word not in _USED:
            return None
        verb = scan.word
        scan.at += 1
        if scan.takes(ways("by")) and not self._subject():
            return None
        if call.nobody or call.only:
            return None
        if not self._tail(positive=not call.negated):
            return None
        call.may = False  # said of the tool, it gives nothing to anybody
        if not call.negated and not call.bounds and not call.only_if:
            return None
        return self._made(never=verb in {"called", "invoked"})

    def _blocked(self) -> list[AnyStatement] | None:
        """`Publish is blocked until the checker approves it`."""
        scan = self.scan
        scan.takes(ways("calls of|calls to|any call of|every call of|the use of|use of"))
        if not self._tools() or not scan.takes(_BLOCKED):
            return None
        if scan.takes(ways("for")) and (not self._subject() or self.call.nobody or self.call.only):
            return None
        self.call.negated = True
        if not self._tail(positive=False) or self.call.bounds or self.call.condition is None:
            return None
        return [self._rule("never")]

    def _waits(self) -> list[AnyStatement] | None:
        """`Calls of publish by the writer wait for a person's yes if …`."""
        scan = self.scan
        if not scan.takes(ways("calls of|calls to|every call of|every call to|each call of")):
            return None
        if not self._tools() or (scan.takes(ways("by")) and not self._subject()):
            return None
        if self.call.nobody or self.call.only:
            return None
        if not scan.takes(_WAIT) or not scan.takes(_YES) or not self._tail(positive=False):
            return None
        if self.call.more or len(self.call.bounds) > 1:
            return []
        return [self._rule("ask", *self.call.bounds)]

    def _asks(self) -> list[AnyStatement] | None:
        """`Ask me before the writer calls publish if the amount is above 50`."""
        call, scan = self.call, self.scan
        if not scan.takes(_ASK) or not scan.takes(ways("before")) or not self._subject():
            return None
        if scan.word not in _USE or call.nobody or call.only:
            return None
        scan.at += 1
        if not self._tools() or not self._tail(positive=False):
            return None
        if call.condition is None or call.more or len(call.bounds) > 1:
            return None
        return [self._rule("ask", *call.bounds)]

    # -- what it comes to ------------------------------------------------------------------------

    def _made(self, *, never: bool) -> list[AnyStatement] | None:
        call = self.call
        if call.more != (call.negated and bool(call.bounds)):
            return None  # "may use it more than 3 times", "may not use it at most 3 times"
        if call.each and call.bounds:
            return None  # a rule counts the calls of all together
        made: list[AnyStatement] = []
        positive = not call.negated
        if positive and call.condition is not None and (self.fronted or not call.only_if):
            return None  # a right is given for always, or not at all
        if positive and call.gives and not call.every_tool:
            made += self._given()
        if call.bounds:
            forbids = call.condition if positive else None
            call.condition = None if positive else call.condition
            made += [self._rule("count", bound) for bound in call.bounds]
            if forbids is not None:
                call.condition = forbids
                made.append(self._rule("never"))
        elif (
            call.condition is not None
            or (call.negated and call.ever and never)
            or (call.negated and call.groups)
        ):
            made.append(self._rule("never"))
        elif not (call.groups and made):
            return None  # said without condition and bound: other rules read it
        return made or None

    def _given(self) -> list[AnyStatement]:
        """The right, with the agents of groups by their names."""
        call = self.call
        agents = list(call.agents)
        for group in call.groups:
            agents += self.state.groups.members.get(group, ())
        if call.groups and not agents:
            return [Deny(tools=call.tools, words=self.words)] if call.only else []
        named = tuple(dict.fromkeys(agents))
        return [Allow(agents=named, tools=call.tools, only=call.only, words=self.words)]

    def _rule(self, do: str, bound: tuple[int, str] | None = None) -> Rule:
        call = self.call
        if call.bare:
            words = Words(start=call.bare[0].start, end=call.bare[-1].end)
            say = f"{self.state.shown(words)!r} does not say in what: a run is assumed"
            self.state.remark("assumed", say, [words], "Say 'per run', 'per hour' or 'per day'.")
        whose = {} if call.nobody and not call.groups else {"agents": call.agents}
        return Rule.model_validate(
            {
                "do": do,
                "tools": call.tools,
                "groups": call.groups,
                "condition": call.condition,
                "people_set": call.people_set,
                "most": None if bound is None else bound[0],
                "per": None if bound is None else bound[1],
                "words": self.words,
                **whose,
            }
        )


def _set_by_people(words: Sequence[str]) -> Cond | None:
    """`'open' is set`, `the flag open is not set`: what people set."""
    said = [word for word in words if word not in {"the", "flag", "'", '"'}]
    if len(said) == 3 and said[1:] == ["is", "set"] and said[0].isidentifier():
        return Fact(name=said[0])
    if len(said) == 4 and said[1:] == ["is", "not", "set"] and said[0].isidentifier():
        return Not(of=Fact(name=said[0]))
    return None


def unbounded(units: Sequence[Unit]) -> bool:
    """Whether a right to tools is bounded by words that were not understood.

    Such a sentence gives nothing: `The writer may use publish at most 3 times per week`.
    """
    words = [unit.text for unit in units]
    tools = [at for at, word in enumerate(words) if word[0] in "#$"]
    return any(_bounds(words, at, tools) for at in range(len(words))) if tools else False


def _bounds(words: Sequence[str], at: int, tools: Sequence[int]) -> bool:
    """Whether a bound of calls begins at a word."""
    scan = Scan(words)
    scan.at = at
    before = [i for i in tools if i < at]
    between = words[before[-1] + 1 : at] if before else ()
    if scan.takes(_ONLY_IF):
        # `Only if T is available` is what a step needs, and `only after I agree` a question.
        rest = {*scan.rest}
        return bool(before) and not between and max(tools) < at and not rest & _PEOPLE
    if scan.word in _TIMES:
        scan.at += 1
        right = {*words[: before[0]]} & {"may", "can", "could", "allowed"} if before else set[str]()
        if (right and len(between) == 1) or (before and scan.word == "per"):
            return True
        return bool(before) and scan.takes(_PER) and scan.word in _SPANS
    if not (scan.takes(AT_MOST) or scan.takes(_MORE)):
        return False
    if before and len(between) <= _NEAR and not {*between} & _BREAKS:
        return True
    counted = (scan.rest[1:2] != [] and scan.rest[1] in _TIMES) or scan.word in COUNTS
    scan.at += 1 if scan.word in COUNTS else 2
    window = scan.word in _ONCE_PER or (scan.takes(_PER) and scan.word in _SPANS)
    near = bool(before) and {*between} <= {",", "tool", "tools", "(", "but"}
    return counted and (near or window)


_ONLY_IF = ways("only if|only when|only while|only after|only once|only as long as")
_PEOPLE = word_set("i me we us my our human humans person people user boss somebody someone")
_NEAR = 3
"""Words that may stand between a tool and its bound."""
_BREAKS = word_set(", ; . and then or but back ( ) –")

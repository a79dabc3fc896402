"""A sentence in segments: clauses and the parts of clauses that can mean something by themselves.

Cut at `;`, `:`, dashes, arrows and brackets, and at commas and `and` where something begins that
opens a clause; before `if`, `unless`, `once` … and before bounds, with or without a comma. What is
cut too finely is put together again by the rules, which read windows of several segments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from crewlog.prompt.grammar.leads import lead_at
from crewlog.prompt.grammar.lexicon import VERBS, third_person, verb_base
from crewlog.prompt.grammar.moves import MOVED, MOVES
from crewlog.prompt.grammar.phrase import BOUNDED, PAUSE, Phrase, Unit, pattern

_BASE = "|".join(sorted((re.escape(v) for v in VERBS), key=len, reverse=True))
_AUX = r"is|are|was|has|have|had|may|can|could|must|should|will|shall|does|do|might|needs?|would|never|goes|go|'s"
_VERBISH = rf"(?:{_AUX}|[a-z][a-z-]*[a-z]s|{_BASE})"
_NO_VERB = r"(?!(?:with|without|of|for|to|in|on|at|from|by|or|and|as|who|that|which|while|if|unless|until|once|when|before|after|so|but|then|only|alone|(?:the )?same|via|using|whose)\b)"

SUBORDINATE = re.compile(
    r"(?:if|unless|in case|in the event that|in the event|on condition that|provided that|provided|providing|assuming|(?<!at )once|now that|when|whenever|as soon as|as long as|until|till|"
    r"while|whilst|after(?= (?!that\b|this\b|which\b|it all\b))|before|should(?= (?:@[0-9]+|it|this|that|they|he|she|i|we|the|any|anything|my|one|two|all|both) )|for each|for every|"
    r"whoever|the moment|as often as)(?: |$)"
)
BOUND = pattern(
    r"(?:but |and |with )?(?:but )?(?:at (?:the )?most|at the very most|no more than|not more than|"
    r"never more than|up to|max(?:imum)?|a maximum of|maximally|limited to|a limit of|with at most)"
    r"(?: of)? {N}\b(?: (?:times?|rounds?|attempts?|tries|goes|loops?|iterations?|passes|cycles?|repetitions?|revisions?|more times|turns))?(?: (?:in all|in total|altogether|each|overall))?|"
    r"{N} (?:times?|rounds?|attempts?|tries|goes|loops?|iterations?|passes)(?: is)? "
    r"(?:at (?:the )?most|max(?:imum)?|tops|only|in total)|(?:once|twice|thrice) (?:at (?:the )?most|max|tops)\b"
)
_PASSIVE = pattern(
    r"(?!@)(?:[^@,;:()]{1,90}?)(?:is|are|gets?|be) (?:[^@,;:()]{1,60}? )?by (?:{A}|both|either)(?: |$)"
)
_OPENER = pattern(
    rf"(?:{{A}} (?:, )?(?:{{ADV}} (?:, )?)*(?:{_VERBISH}|again|only (?:if|when|once)|not)(?: |$)"
    rf"|@[0-9]+(?:(?: ,| and| or|, and) @[0-9]+)+ (?:{{ADV}} )*{_NO_VERB}[a-z]"
    rf"|@[0-9]+ (?:{{ADV}} )*\$[0-9]"
    rf"|{{A}} alone "
    rf"|{{A}} (?:, )?who |@[0-9]+ 's turn|only {{A}}|nobody|no one|no agent"
    rf"|(?:it|he|she|they|we|you|i|both|these|both of them|this|that|that one|this one|the two|all three|the three|neither|neither of them|none of them) "
    rf"(?:{{ADV}} )*(?:{_VERBISH})(?: |$)"
    r"|(?:hands|passes|sends|forwards) (?:it |them |this |everything |the [a-z]+ )?(?:on |off |over |straight |down )?to @"
    r"|not (?:before|until|till|unless|without) "
    r"|(?:ask|asks|asking|check|consult|get|request) (?:{ME}|with me|my|for)\b|(?:go|goes|going|send|sends|hand|hands|"
    r"kick|kicks|return|returns|bounce|bounces|throw|throws|give|gives|start|starts|loop|loops) (?:it |them |this |that |things |the [a-z]+ |straight |right )?"
    r"(?:back|over|again)|back to|return to|returns? (?:it )?to|retry|repeat|start over|restart|redo"
    r"|(?:we |you )?(?:stop|end|finish|quit|abort|give up|fail|continue|carry on|go on|move on|proceed|skip)(?: |$)"
    r"|(?:wait|hold on|let|have|hand|pass|send|leave|forward)(?: |$)|otherwise|or else|else|failing that"
    r"|(?:everyone|everybody|every agent|all agents|all of them|each of them|none of them) "
    r"|{T} (?:may|can|must|needs?|requires?|is|should|only)\b|(?:my|your) (?:approval|ok|okay|go-ahead)"
    r"|(?:next|then|last|finally|after that) (?:comes|up|is)|followed by|next {A}|comes? {A}|in parallel"
    r"|at the same time|meanwhile|simultaneously|i (?:approve|want|need|have|would|must|say|get)\b|use {T}"
    r"|turn (?:off|on)|switch)"
)
_ONE_MORE = re.compile(
    r"@[0-9]+ (?:says (?:that )?(?:it|this|that|the [a-z]+) (?:is|was|are)|"
    r"(?:approves|rejects|does not (?:approve|reject)) it) |"
    r"@[0-9]+ 's (?!turn\b)(?:[a-z][a-z-]* ){1,4}|it (?:is|was) (?:not )?"
    r"(?!sent\b|passed\b|handed\b|given\b|back\b|to\b|the\b|@)[a-z]"
)
"""One more thing that a condition asks for."""
_FAR = 9
"""How many words a subject may have before its verb."""
_HELPING = frozenset(
    [
        "is",
        "are",
        "was",
        "has",
        "have",
        "may",
        "can",
        "must",
        "should",
        "will",
        "shall",
        "gets",
        "needs",
    ]
)
_DETERMINERS = frozenset(
    [
        "the",
        "a",
        "an",
        "its",
        "his",
        "her",
        "their",
        "our",
        "my",
        "your",
        "this",
        "that",
        "these",
        "those",
    ]
)
_SEPARATORS = frozenset([";", ":", "(", ")", "–", "->"])
_GIVEN_TO = re.compile(
    r"(?:each|every) [^@,;:()]{1,40} (?:goes|is (?:handed|given|passed|sent)|gets (?:handed|passed|sent)) "
    r"(?:[^@,;:()]{1,20} )?to @"
)
_DONE_BY = re.compile(r"[a-z-]+(?:ed|en|wn|lt|ut|ad|ent|ld) (?:[^@,;:()]{1,40} )?by @")
_LINKS = frozenset([",", "and", "but", "or", "so", "then", "yet", "plus", "also", "oh"])
_ANYONE = frozenset(
    ["anyone", "anybody", "nobody", "no-one", "one", "everyone", "everybody", "none", "nothing"]
)
"""What `but` leaves somebody out of."""
_COMPLETE = re.compile(
    rf"(?:^| )(?:@[0-9]+|it|he|she|they|both|we|you|i|to|[a-z]+) (?:[a-z-]+ )*?(?:{_VERBISH})(?: |$)"
)
_SUBORDINATORS = re.compile(
    r"(?:^|(?<= ))(?:if|unless|once|when|whenever|as soon as|until|while|after|before|should) "
)
_JOINED = frozenset(
    ["even", "as", "only", "not", "repeat", "wait", "waits", "just", "what", "whether"]
)

_PAIRED = frozenset(["both", "either", "neither", "all"])
"""What belongs to the agents behind it: `if both reviewers approve`."""


@dataclass(slots=True)
class Segment:
    """Part of a sentence."""

    phrase: Phrase
    separator: str
    """The sign or word before it; empty where there is none."""
    begin: int = 0
    end: int = 0
    """Its units in the sentence."""
    marks: set[str] = field(default_factory=set[str])
    """What the words that lead it say: `then`, `first`, `beside`, `start`, `otherwise`."""


def segments(units: Sequence[Unit]) -> list[Segment]:
    """The segments of a marked sentence, in order."""
    return _Cutter(units).cut()


class _Cutter:
    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = units
        self.whole = Phrase(units)
        self.at: list[int] = []
        place = 0
        for unit in units:
            self.at.append(place)
            place += len(unit.text) + 1
        self.out: list[Segment] = []
        self.begin = 0
        self.separator = ""

    def cut(self) -> list[Segment]:
        i = 0
        while i < len(self.units):
            word = self.units[i].text
            if word[0] in (PAUSE, BOUNDED):
                self._close_timed(i)
                i += 1
            elif word in _SEPARATORS:
                self._close(i, i + 1, word)
                i += 1
            elif (
                i > self.begin
                and word in _LINKS
                and not self._called(i)
                and not (word == "but" and self.units[i - 1].text in _ANYONE)
                and (after := self._opens(i))
            ):
                self._close(i, i + 1 if word == "," else i, word)
                i = after
            elif i > self.begin and self._bare(i):
                self._close(i, i, "")
                i += 1
            else:
                i += 1
        self._close(len(self.units), len(self.units), "")
        return self.out

    def _close(self, end: int, begin: int, separator: str) -> None:
        if end > self.begin:
            phrase = Phrase(self.units[self.begin : end])
            self.out.append(Segment(phrase, self.separator, self.begin, end))
            self.separator = ""
        self.begin = begin
        self.separator = separator or self.separator

    def _close_timed(self, i: int) -> None:
        """A wait is a segment by itself; a bound (`^`) ends that of its condition."""
        if self.units[i].text[0] == PAUSE:
            links = i
            while links > self.begin and self.units[links - 1].text in _LINKS:
                links -= 1
            if links > self.begin:
                self._close(links, links, "")
        comma = i + 1 < len(self.units) and self.units[i + 1].text == ","
        self._close(i + 1, i + 1 + comma, "," if comma else "")

    def _text(self, begin: int, end: int) -> str:
        return " ".join(u.text for u in self.units[begin:end])

    def _opens(self, i: int) -> int:
        """Where the clause that the links at `i` lead to begins; 0 where none does."""
        place = self.at[i]
        only_and = True
        while said := lead_at(self.whole.text, place):
            only_and = only_and and said in {"and", "or", ","}
            place += len(said) + 1
        after = self._unit_at(place)
        if after >= len(self.units):
            return 0
        text = self.whole.text
        if SUBORDINATE.match(text, place) or BOUND.match(text, place):
            return after
        if only_and and self.units[i].text in {"and", "or"} and self._in_condition(place):
            return 0
        if _OPENER.match(text, place):
            if (
                self.units[after].text.startswith(("@", "$", "#"))
                and only_and
                and not self._complete(i)
            ):
                return 0
            return after
        if _PASSIVE.match(text, place) and self._complete(i):
            return after
        if (
            self._fronted()
            and self.units[i].text == ","
            and self._speaks(after)
            and self._complete(i)
        ):
            return after
        if _GIVEN_TO.match(text, place) and self._complete(i):
            return after
        if _DONE_BY.match(text, place) and " by @" in self._text(self.begin, i):
            return after
        return 0 if only_and or not self._agent_at(after) else after

    def _in_condition(self, place: int) -> bool:
        """Whether the condition at hand goes on: `if it is late and the tester's score is low`."""
        return _ONE_MORE.match(self.whole.text, place) is not None and self._fronted()

    def _fronted(self) -> bool:
        """Whether the segment at hand is a condition that stands before its clause."""
        begin = self.begin
        text = self.whole.text
        place = self.at[begin]
        while said := lead_at(text, place):
            place += len(said) + 1
        return SUBORDINATE.match(text, place) is not None

    def _speaks(self, begin: int) -> bool:
        """Whether the words up to the next comma have a verb: no part of a list."""
        for i in range(begin, min(len(self.units), begin + _FAR)):
            word = self.units[i].text
            if word in _SEPARATORS or word == ",":
                return False
            verb = word in _HELPING or third_person(word) or word in MOVED
            if verb and i > begin and self.units[i - 1].text not in _DETERMINERS:
                return True
        return False

    def _called(self, i: int) -> bool:
        """`Mediator, you should …`."""
        return (
            i == self.begin + 1
            and self.units[self.begin].text.startswith("@")
            and self._text(i, i + 2) == ", you"
        )

    @staticmethod
    def _leads_back(word: str) -> bool:
        """Whether `back` belongs to the verb before it: `goes back to`, `is back with`."""
        moves = word in MOVED or verb_base(word) in MOVES
        return moves or word in {"is", "it", "them", "straight", "right", "be", "this", "way"}

    def _agent_at(self, i: int) -> bool:
        return i < len(self.units) and self.units[i].text.startswith("@")

    def _unit_at(self, place: int) -> int:
        low, high = 0, len(self.at)
        while low < high:
            middle = (low + high) // 2
            if self.at[middle] < place:
                low = middle + 1
            else:
                high = middle
        return low

    def _complete(self, i: int) -> bool:
        """Whether what stands before `i` already has its verb."""
        text = self._text(self.begin, i)
        if "@" not in text and re.match(
            r"(?:as|to|in order to|given|based on|using) (?!soon)", text
        ):
            return False  # `as a former judge, the editor …`
        if re.match(r"(?:[a-z]+ )?for (?:each|every) |should ", text):
            return True
        for lead in _SUBORDINATORS.finditer(text):
            text = text[lead.end() :] if not lead.start() else text
        later = [m.end() for m in _SUBORDINATORS.finditer(text)]
        if later and text[later[-1] :].startswith("@"):
            text = text[later[-1] :]
        if re.match(r"@[0-9]+ (?:[a-z]+ly )?\$[0-9]", text):
            return True  # `the tester runs the tests`
        single = " " not in text and not text.startswith("@")
        return single or _COMPLETE.search(text) is not None

    def _bare(self, i: int) -> bool:
        """Whether something begins at `i` without a sign or link before it."""
        place, text = self.at[i], self.whole.text
        before = self.units[i - 1].text
        bound = BOUND.match(text, self.at[self.begin])
        if before in _JOINED or (bound is not None and place < bound.end()):
            return False
        if BOUND.match(text, place):
            return True
        word = self.units[i].text
        if SUBORDINATE.match(text, place):
            return before not in {"and", "but", ",", "then", "so", "or"} or word not in {
                "after",
                "before",
            }
        if word == "otherwise" or text.startswith("in parallel to", place):
            return True
        fronted = SUBORDINATE.match(self._text(self.begin, i))
        if fronted is None:
            fronted = re.match(
                r"(?:(?:and|then|but|so|oh|also) )+" + SUBORDINATE.pattern,
                self._text(self.begin, i),
            )
        if (
            fronted is None
            or before in {"and", "or", ",", "not", "the", "by", "of", *_PAIRED}
            or i - self.begin < 2
        ):
            return False
        if word not in {
            "it",
            "ask",
            "just",
            "stop",
            "skip",
            "back",
            "go",
            "return",
            "continue",
            "then",
            "the",
            "we",
            "you",
            "give",
            "start",
        } and not word.startswith("@"):
            return False
        place = self.at[i] + (len(word) + 1 if word in {"just", "then"} else 0)
        rest = self._text(self.begin, i)
        if word == "back" and self._leads_back(before):
            return False
        if word == "it" and not re.match(
            r"it (?:goes|is back|should|has|must|is (?:sent|passed|handed))",
            text[place : place + 30],
        ):
            return False
        return (
            _OPENER.match(text, place) is not None
            and self._complete(i)
            and not rest.endswith((" of", " by"))
        )

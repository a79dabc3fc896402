"""Waits for a time, found before a sentence is taken apart: each becomes one unit.

`Wait two hours`, `two hours later`, `wait until 2026-12-01 09:00 UTC` become `¤0`; `within two
hours`, said of a condition, becomes `^0`. What speaks of a wait and says no time that can be waited
for (`wait until tomorrow`) is reported here. Durations of anything else are left as they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from crewlog.prompt.ast import Words
from crewlog.prompt.grammar.lexicon import word_set
from crewlog.prompt.grammar.phrase import BOUNDED, PAUSE, Unit
from crewlog.prompt.grammar.segments import SUBORDINATE, Segment
from crewlog.prompt.grammar.state import State, Timed
from crewlog.prompt.grammar.times import ZONED, lapse_at, moment_at

_SPEAKS = re.compile(
    r"\b(?:sec|secs|seconds?|min|mins|minutes?|hours?|hrs?|days?|weeks?|fortnights?|months?|years?|"
    r"while|bit|moment|[0-9.,]+(?:s|sec|min|m|h|hr|hrs|d)|[0-9]{4}-[0-9]{2}-[0-9]{2}\w*|"
    r"(?:wait|waits|pause|pauses|hold|holds|sleep|sleeps|nothing|nobody|no one)\b.* (?:until|till|before|for)|"
    r"(?:at|from|before) [0-9]{1,2}|jan\w*|feb\w*|mar\w*|apr\w*|may|june?|july?|aug\w*|sep\w*|oct\w*|nov\w*|dec\w*)\b"
)
"""Whether a sentence may speak of a wait at all."""
_AUX = (
    r"(?:(?:then|should|must|will|shall|has to|have to|need to|needs to|just|simply|can|first|now|"
    r"all|both|also|again|is to|are to|do|only|please|next) )*"
)
_SUBJECT = (
    r"(?:(?:let us|we|you|everyone|everybody|all of them|they|both|the crew|the whole crew|the run|"
    r"the whole run|it|the process|everything) )?"
)
_WAIT = r"(?:waits?|pauses?|holds? on|holds? off|holds?|sleeps?|rests?|stands? by|idles?)"
_BREAK = r"(?:pause|break|wait|delay|rest|gap|interval|waiting time)"
_PASSED = r"(?:have passed|has passed|have gone by|has gone by|have elapsed|has elapsed|are over|is over|are up|is up|have gone)"
_ENDS = frozenset(
    ["", ",", ";", ":", "–", "(", ")", "->", "and", "but", "then", "before", "if", "unless", "when"]
    + ["once", "otherwise", "or", "so", "after", "in", "as"]
)
"""What may follow a wait."""
_AFTERWARDS = frozenset(["", ",", ";", ":", "–", "(", ")", "->", "and", "but", "then", "or"])
_OPENS = frozenset(
    ["", ",", ";", ":", "–", "(", ")", "->", "and", "but", "then", "next", "so", "finally", "first"]
    + ["meanwhile", "afterwards", "that", "otherwise", "else", "now", "also", "just", "please", "or"]
    + ["lastly", "only", "later", "again", "parallel", "time", "if_so", "case", "not"]
)
"""What may stand before words that open a clause."""
_NOT_OF = word_set("of in on for per at from with without to each every ago old long or a an")
"""What makes another thing of `after two hours`: `of silence`."""
_GOES_ON = re.compile(
    r"before (?:(?:we|you|it|the crew|the run|everyone) )?(?:going on|go on|goes on|continuing|continues?|moving on|"
    r"moves? on|proceeding|proceeds?|carrying on|carry on|carries on|the next step|the next steps)(?= (?:,|;|and|$)|$)"
)
_CLOCK = (
    r"(?:(?:at|about|around|exactly|the|next|this|on|early|late|it is|half past|quarter past) )*"
    r"(?:[0-9]{1,2}(?: : [0-9]{2})+(?: (?:am|pm|a.m|p.m))?(?: (?:utc|gmt|cet|cest|est|pst))?|[0-9]{1,2} ?(?:am|pm|a.m|p.m|o'clock)|"
    r"[0-9]{1,2}\.[0-9]{2}|[0-9]{1,2} (?:january|february|march|april|may|june|july|august|september|october|november|december)(?: at [0-9: ]+)?|"
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december) [0-9]{1,2}(?: at [0-9: ]+)?|"
    r"noon|midnight|midday|tomorrow|tonight|morning|afternoon|evening|night|dawn|dusk|sunrise|sunset|weekend|week|month|year|day|"
    r"quarter|hour|monday|tuesday|wednesday|thursday|friday|saturday|sunday|christmas|easter|lunch|lunchtime|dinner|"
    r"january|february|march|april|june|july|august|september|october|november|december|spring|summer|autumn|winter)"
    r"(?: (?:morning|afternoon|evening|night|noon|at [0-9: ]+(?:am|pm)?|after that|local time|sharp))*"
)
_FRONTED_CLOCK = (
    r"(?:at|from|not before|by) (?:exactly |about |around )?(?:[0-9]{1,2}(?: : [0-9]{2})+(?: (?:am|pm|a.m|p.m))?(?: (?:utc|gmt|cet|cest|est|pst))?"
    r"|[0-9]{1,2} (?:am|pm|a.m|p.m|o'clock)|[0-9]{1,2}(?:am|pm)|noon|midnight|midday)(?: (?:tomorrow|sharp|local time|on [a-z]+day))*"
)
_STOPPING = word_set("stop stops give gives fail fails abort aborts end ends quit quits expire expires")


@dataclass(slots=True)
class _Word:
    """A unit, or the units of a duration or time."""

    text: str
    units: Sequence[Unit]


_Read = Callable[["_Rewriter", re.Match[str]], "list[Unit] | None"]


def timed(state: State, units: Sequence[Unit]) -> list[Unit]:
    """A sentence with one unit for each wait; others stay as they are."""
    if not _SPEAKS.search(" ".join(unit.text for unit in units)):
        return [*units]
    return _Rewriter(state, _words(state, units)).units()


def _words(state: State, units: Sequence[Unit]) -> list[_Word]:
    """Units, and in their place durations (`¤`), times (`§`) and what says neither (`¥`)."""
    texts = [unit.text for unit in units]
    out: list[_Word] = []
    at = 0
    while at < len(units):
        moment = moment_at(state.text, units, at)
        lapse = lapse_at(texts, at) if moment is None else None
        end = at + 1
        text = texts[at]
        if moment is not None:
            end = moment.end
            state.times.append(
                Timed(until=moment.time, assumed=moment.assumed, why=moment.why or "")
            )
            text = f"{'§' if moment.time else '¥'}{len(state.times) - 1}"
        elif lapse is not None:
            end = lapse.end
            why = "" if lapse.seconds is not None else _VAGUE
            state.times.append(Timed(seconds=lapse.seconds, why=why))
            text = f"{'¥' if why else '¤'}{len(state.times) - 1}"
        out.append(_Word(text, units[at:end]))
        at = end
    return out


_VAGUE = "this is no time that can be waited for: say how long, e.g. '2 hours', or until when"
_MORE = "more is said of it than how long, or until when"
_NO_DATE = "this is no time that can be waited for: say the date and the time"


class _Rewriter:
    """Finds the waits of one sentence."""

    def __init__(self, state: State, words: list[_Word]) -> None:
        self.state = state
        self.words = words
        self.text = " ".join(word.text for word in words)
        self.at: list[int] = []
        place = 0
        for word in words:
            self.at.append(place)
            place += len(word.text) + 1

    def units(self) -> list[Unit]:
        """The units of the sentence with its waits."""
        made: dict[int, tuple[int, list[Unit]]] = {}
        taken: set[int] = set()
        for pattern, read in _RULES:
            for found in pattern.finditer(self.text):
                first, last = self._range(found)
                if not taken & {*range(first, last)}:
                    units = read(self, found)
                    if units is not None:
                        made[first] = (last, units)
                        taken |= {*range(first, last)}
        out: list[Unit] = []
        at = 0
        while at < len(self.words):
            if at in made:
                at, units = made[at]
                out += units
            else:
                out += self._left(self.words[at])
                at += 1
        return out

    def _left(self, word: _Word) -> list[Unit]:
        """The units of what is no wait; a time is one, whatever signs it is written with."""
        time = self.state.times[int(word.text[1:])] if word.text[:1] in {"§"} else None
        if time is None:
            return [*word.units]
        start, end = word.units[0].start, word.units[-1].end
        if _DAY not in time.assumed:
            self.state.told_times.append(Words(start=start, end=end))
        return [Unit(time.until[:10], start, end)]

    def _range(self, found: re.Match[str]) -> tuple[int, int]:
        return self.index(found.start()), self.index(found.end() + 1)

    def index(self, place: int) -> int:
        """The word that begins at a place of the text, or behind it."""
        return next((i for i, at in enumerate(self.at) if at >= place), len(self.words))

    def before(self, found: re.Match[str]) -> str:
        """The word before a match."""
        first = self.index(found.start())
        return self.words[first - 1].text if first else ""

    def after(self, found: re.Match[str]) -> str:
        """The word behind a match."""
        last = self.index(found.end() + 1)
        return self.words[last].text if last < len(self.words) else ""

    def clause(self, found: re.Match[str]) -> str:
        """What stands before a match since the last sign."""
        return re.split(r" ?[;:–()] ?| ?, ", self.text[: found.start()])[-1]

    def clause_before(self, found: re.Match[str]) -> str:
        """What stands before a match, commas and all."""
        return re.split(r"[;:()]", self.text[: found.start()])[-1]

    def opens(self, found: re.Match[str]) -> bool:
        """Whether a clause begins at a match."""
        return self.before(found) in _OPENS

    def unit(self, found: re.Match[str], sign: str, time: Timed) -> Unit:
        """One unit in the place of a match."""
        first, last = self._range(found)
        start = self.words[first].units[0].start
        end = self.words[last - 1].units[-1].end
        self.state.times.append(time)
        for what in time.assumed:
            words = Words(start=start, end=end)
            said = self.state.shown(words)
            say = f"{said!r} does not say the {_MISSING[what]}: {what} is assumed"
            self.state.remark("assumed", say, [words], f"Say it {ZONED}.")
        return Unit(f"{sign}{len(self.state.times) - 1}", start, end)

    def time(self, found: re.Match[str], **more: object) -> Timed:
        """The duration or time of a match, with what is said of it."""
        known = self.state.times[int(found["time"][1:])]
        return replace(known, **more)  # type: ignore[arg-type]

    def agent(self, found: re.Match[str]) -> list[Unit]:
        """The agent whom a match names."""
        return [*self.words[self.index(found.start("who"))].units] if found["who"] else []

    def report(self, found: re.Match[str]) -> None:
        """Says that a wait cannot be waited for."""
        first, last = self._range(found)
        start = self.words[first].units[0].start
        words = Words(start=start, end=self.words[last - 1].units[-1].end)
        marked = next((w.text for w in self.words[first:last] if w.text[0] in "¥§¤"), "")
        told = self.state.times[int(marked[1:])].why if marked else ""
        said = any(w.text[0] in "§¤" for w in self.words[first:last])
        why = told or (_MORE if said else _NO_DATE)
        say = f"{self.state.shown(words)!r} cannot be waited for: {why}"
        self.state.remark("not_understood", say, [words], f"Say 'wait 2 hours', or a time {ZONED}.")


_DAY = "the beginning of the day"
_MISSING = {"UTC": "zone", _DAY: "time of day"}


# -- how long a condition is waited for --------------------------------------------------------------


def _agent_bound(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`The painter waits for that at most two hours`."""
    if self.after(found) not in _ENDS:
        return None
    who = self.agent(found)
    named = who[0].text if who and who[0].text.startswith("@") else "it"
    return [self.unit(found, BOUNDED, self.time(found, agent=named))]


_IF = re.compile(r"(?:(?<= )|^)(?:if|unless|in case|should (?=@|the |it |they )) ?.*$")


def _condition_bound(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`If the models are not ready within two hours`."""
    opened = _IF.search(self.clause(found))
    late = opened is not None and re.search(r"(?:^| )(?:not|unless)(?: |$)", opened[0])
    if opened is None or not (found["sure"] or late):
        return None
    return [self.unit(found, BOUNDED, self.time(found))]


def _deadline(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`If the models are not ready by 2026-12-01`: a step waits so long and not until then."""
    if _IF.search(self.clause(found)) is None:
        return None
    why = "say how long from when it is waited for, e.g. 'within 2 hours'"
    return [self.unit(found, BOUNDED, Timed(why=why))]


# -- waits -------------------------------------------------------------------------------------------


def _waits(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`Wait two hours`, `a pause of two hours`, `wait until 2026-12-01 09:00 UTC`."""
    conditioned = SUBORDINATE.match(self.clause(found)) is not None
    if self.after(found) not in _ENDS or not (self.opens(found) or conditioned):
        return None
    return [self.unit(found, PAUSE, self.time(found, assumed=_assumed(self, found)))]


def _assumed(self: _Rewriter, found: re.Match[str]) -> tuple[str, ...]:
    return self.state.times[int(found["time"][1:])].assumed


_AND = re.compile(
    r"(?: ,)?(?: (?:and only then|and then|and|then|before (?:it|he|she|they)))+ (?=[a-z$])(?!@|the |it )"
)


def _agent_waits(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`The publisher waits two hours and then posts it`."""
    who, after = self.agent(found), self.after(found)
    if after not in _ENDS:
        return None
    pause = self.unit(found, PAUSE, self.time(found, assumed=_assumed(self, found)))
    if (more := _AND.match(self.text, found.end())) is not None:
        last = self.index(more.end())
        self.words[self.index(found.end() + 1) : last] = [
            _Word("\0", []) for _ in range(self.index(found.end() + 1), last)
        ]
        return [pause, *who]
    if after == "before" and self.text[found.end() :].split()[1:2] != []:
        verb = self.text[found.end() :].split()[1]
        if verb.endswith("ing"):
            place = self.index(found.end() + 1)
            at = self.words[place].units[0]
            self.words[place] = _Word("\0", [Unit("is", at.start, at.end)])
            return [pause, *who]
        return None
    if after == "after":
        return None
    known = self.state.times[-1]
    self.state.times[-1] = replace(known, before=self.state.names(who[0].text)[0])
    return [pause]


def _leads(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`After two hours, …`, `… two hours later`."""
    after = self.after(found)
    time = self.time(found, leads=True, assumed=_assumed(self, found))
    behind = after in {"", ";", ")"} and "@" in self.clause_before(found)
    if self.opens(found) and not behind:
        return None if after in _NOT_OF else [self.unit(found, PAUSE, time)]
    return _trails(self, found, time)


def _trails(self: _Rewriter, found: re.Match[str], time: Timed) -> list[Unit] | None:
    clause = self.clause(found).split()
    if self.after(found) not in _AFTERWARDS or {*clause} & _STOPPING:
        return None
    if SUBORDINATE.match(" ".join(clause)) and "@" not in " ".join(clause):
        return None
    return [self.unit(found, PAUSE, replace(time, trails=True))]


def _fronted_only(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`In two hours, the writer …`, `on 1 December 2026 at 9:00 UTC the writer …`."""
    after = self.after(found)
    follows = after in {",", "then", "the", "have", "start", "let", "it", "we", ""} or after[:1] in "@$"
    alone = not after and self.index(found.start()) > 0 and self.before(found) not in {",", "and"}
    if not self.opens(found) or not follows or alone:
        return None
    time = self.time(found, leads=True, assumed=_assumed(self, found))
    return [self.unit(found, PAUSE, time)]


def _since(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`Two hours after the writer finishes, …`."""
    trails = not self.opens(found)
    last = self.index(found.end() + 1)
    word = self.words[last - 1].units
    place = self.index(found.start("time"))
    start, end = self.words[self.index(found.start())].units[0], self.words[place].units[-1]
    self.state.times.append(self.time(found, leads=True, since=True, trails=trails))
    unit = Unit(f"{PAUSE}{len(self.state.times) - 1}", start.start, end.end)
    return [unit, *word]


def _starts(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`The publisher starts at 2026-12-01 09:00 UTC`."""
    if self.after(found) not in _AFTERWARDS:
        return None
    time = self.time(found, assumed=_assumed(self, found))
    return [self.unit(found, PAUSE, time), *self.agent(found)]


# -- what cannot be waited for -------------------------------------------------------------------------


def _unclear(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`Wait until tomorrow`, `wait a few minutes`, `wait two hours for the editor`."""
    if not self.opens(found) and not found["who"]:
        return None
    self.report(found)
    return self.agent(found) if _AND.match(self.text, found.end()) else []


def _unclear_lead(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`At 9:00, …`, `after two months …`."""
    after = self.after(found)
    if not self.opens(found) or not (after in {",", "then", "the", ""} or after[:1] == "@"):
        return None
    self.report(found)
    return []


_BOUNDED = r"(?:at most|at the most|at the very most|no longer than|not longer than|no more than|not more than|up to|a maximum of|max|maximally|for at most)"
_FOR_THAT = r"(?: for (?:that|it|this|them|these))?"
_ANY = r"(?P<time>¤[0-9]+)"
_WHEN = r"(?P<time>§[0-9]+)"
_NOT_BEFORE = r"(?:not before|no earlier than|not earlier than|no sooner than|not until|only after|only from)"
_LONG_ANY = rf"(?:for )?(?:(?:another|a|the|a further|exactly|at least|up) )*{_ANY}(?: (?:long|more|longer|first|there|here|in between))?"
_WHO = r"(?P<who>@[0-9]+)"
_LEAD_D = (
    rf"(?:exactly |only )?after (?:(?:another|a further|the|waiting|waiting for|a {_BREAK} of|a) )*{_ANY}(?: {_BREAK})?(?: {_PASSED})?(?: of waiting)?(?: at the earliest)?"
)
_RULES: list[tuple[re.Pattern[str], _Read]] = [
    (re.compile(rf"(?<![^ ])(?:but )?(?P<who>@[0-9]+|it|he|she) {_AUX}waits?{_FOR_THAT} (?:for )?{_BOUNDED} {_ANY}{_FOR_THAT}(?= |$)"), _agent_bound),
    (re.compile(rf"(?<![^ ])(?:(?P<sure>within) (?:the next |at most )?|after |in |for ){_ANY}(?: at most| at the latest)?(?= |$)"), _condition_bound),
    (re.compile(rf"(?<![^ ])(?:by|before|until) {_WHEN}(?= |$)"), _deadline),
    (re.compile(rf"(?<![^ ]){_SUBJECT}{_AUX}{_WAIT} {_LONG_ANY}(?: {_GOES_ON.pattern})?(?= |$)"), _waits),
    (re.compile(rf"(?<![^ ])(?:(?:then|there|is|comes|follows|make|makes|take|takes|insert|add|with|have|put in|leave|leaves|let there be|we|you) )*(?:(?:a|another|the) )?(?:{_BREAK} of {_ANY})(?= |$)"), _waits),
    (re.compile(rf"(?<![^ ])(?:(?:then|there|is|comes|follows|make|makes|take|takes|insert|add|have|put in|we|you) )+(?:(?:a|another|the) )?(?:{_ANY} {_BREAK})(?= |$)"), _waits),
    (re.compile(rf"(?<![^ ])(?:let|allow|leave|give it) (?:another )?{_ANY}(?: (?:to )?(?:pass|go by|elapse))?(?= |$)"), _waits),
    (re.compile(rf"(?<![^ ])(?:another )?{_ANY} (?:pass|passes|go by|goes by|elapse)(?: first)?(?= |$)"), _waits),
    (re.compile(rf"(?<![^ ]){_SUBJECT}{_AUX}{_WAIT} (?:until|till|for|up to) {_WHEN}(?= |$)"), _waits),
    (re.compile(rf"(?<![^ ])(?:until|till) {_WHEN} (?:, )?{_SUBJECT}{_AUX}{_WAIT}(?= |$)"), _waits),
    (re.compile(rf"(?<![^ ])(?:nothing|nobody|no one) (?:else )?(?:happens|starts|works|moves|runs|is done|goes on) (?:until|till|before) {_WHEN}(?= |$)"), _waits),
    (re.compile(rf"(?<![^ ]){_WHO} {_AUX}{_WAIT} {_LONG_ANY}(?= |$)"), _agent_waits),
    (re.compile(rf"(?<![^ ]){_WHO} {_AUX}{_WAIT} (?:until|till|for) {_WHEN}(?= |$)"), _agent_waits),
    (re.compile(rf"(?<![^ ]){_ANY} after(?= (?:@[0-9]|both|all|they|the [a-z]+ (?:is|are|has|have)))"), _since),
    (re.compile(rf"(?<![^ ]){_LEAD_D}(?= |$)"), _leads),
    (re.compile(rf"(?<![^ ])(?:another )?{_ANY} (?:later on|later|afterwards|after that|after this|after which)(?= |$)"), _leads),
    (re.compile(rf"(?<![^ ])(?:once|when|as soon as) (?:another |the )?{_ANY} {_PASSED}(?= |$)"), _leads),
    (re.compile(rf"(?<![^ ])with a (?:further )?(?:{_BREAK} of {_ANY})(?= |$)"), _leads),
    (re.compile(rf"(?<![^ ]){_WHO} {_AUX}(?:starts?|begins?|goes|go|runs?|acts?|continues?|comes? in|takes over|(?:is|are) to start)(?: (?:work|working|only|to work|its work|right|exactly))* (?:at|on|from|only on|only at|{_NOT_BEFORE}) {_WHEN}(?= |$)"), _starts),
    (re.compile(rf"(?<![^ ])(?:at|on|from|as of|as from|only on|only at|once it is|when it is|after|{_NOT_BEFORE}) {_WHEN}(?: at the earliest| or later)?(?= |$)"), _fronted_only),
    (re.compile(rf"(?<![^ ])(?:but )?(?:{_NOT_BEFORE} {_WHEN})(?= |$)"), _leads),
    (re.compile(rf"(?<![^ ])in {_ANY}(?= |$)"), _fronted_only),
    (re.compile(rf"(?<![^ ])(?:(?P<who>@[0-9]+) )?{_SUBJECT}{_AUX}{_WAIT} (?:until |till |for |about |around |roughly |at most |up to |no longer than |exactly |another |some )*(?:[¤§¥][0-9]+)[^,;:()]*?(?= (?:,|;|:|\)|and @|then )|$)"), _unclear),
    (re.compile(rf"(?<![^ ])(?:(?P<who>@[0-9]+) )?{_SUBJECT}{_AUX}(?:{_WAIT}|(?:nothing|nobody) (?:happens|starts)) (?:until|till|before) {_CLOCK}(?= (?:,|;|:|\)|and|then|before|the)|$)"), _unclear),
    (re.compile(rf"(?<![^ ])(?:after (?:another )?¥[0-9]+|¥[0-9]+ later|(?:on|at) ¥[0-9]+)(?= |$)"), _unclear_lead),
    (re.compile(rf"(?<![^ ]){_FRONTED_CLOCK}(?= |$)"), _unclear_lead),
]


# -- segments ----------------------------------------------------------------------------------------


def is_timed(segment: Segment) -> bool:
    """Whether a segment is a wait, or a condition that is waited for so long."""
    return segment.phrase.units[-1].text[0] in (PAUSE, BOUNDED)


def in_order(parts: list[Segment], times: Sequence[Timed]) -> list[Segment]:
    """Segments with a wait behind a clause before that clause, and a bound before what it leads to."""
    out = [*parts]
    at = 0
    while at < len(out):
        if at and is_timed(out[at]):
            mark = out[at].phrase.units[-1].text
            time = times[int(mark[1:])]
            if mark[0] == PAUSE and time.trails:
                size = 1 + (time.since and at + 1 < len(out))
                to = at - 1
                while to and SUBORDINATE.match(out[to].phrase.text):
                    to -= 1
                out[to : at + size] = [*out[at : at + size], *out[to:at]]
                at += size - 1
            elif mark[0] == BOUNDED and at + 1 == len(out) and time.agent is None:
                out[at - 1 :] = [out[at], out[at - 1]]
        at += 1
    return out

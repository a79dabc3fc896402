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
from crewlog.prompt.grammar import pause_ways as ways
from crewlog.prompt.grammar.phrase import BOUNDED, PAUSE, Unit
from crewlog.prompt.grammar.segments import SUBORDINATE, Segment
from crewlog.prompt.grammar.state import State, Timed
from crewlog.prompt.grammar.times import ZONED, lapse_at, moment_at


@dataclass(slots=True)
class _Word:
    """A unit, or the units of a duration or time."""

    text: str
    units: Sequence[Unit]


_Read = Callable[["_Rewriter", re.Match[str]], "list[Unit] | None"]


def timed(state: State, units: Sequence[Unit]) -> list[Unit]:
    """A sentence with one unit for each wait; others stay as they are."""
    if not ways.SPEAKS.search(" ".join(unit.text for unit in units)):
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
        self.instead: dict[int, list[Unit]] = {}
        """What stands in the place of words, by their numbers."""
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
                out += self.instead[at] if at in self.instead else self._left(self.words[at])
                at += 1
        return out

    def _left(self, word: _Word) -> list[Unit]:
        """The units of what is no wait; a time is one, whatever signs it is written with."""
        time = self.state.times[int(word.text[1:])] if word.text[:1] == "§" else None
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
        return self.before(found) in ways.OPENS

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
        """The agents whom a match names."""
        if not found["who"]:
            return []
        first, last = self.index(found.start("who")), self.index(found.end("who") + 1)
        return [unit for word in self.words[first:last] for unit in word.units]

    def moved(self, found: re.Match[str], to: int) -> list[Unit]:
        """Those agents in front of the word that they do."""
        place = self.words[to].units[0].start if to < len(self.words) else None
        who = self.agent(found)
        return who if place is None else [Unit(unit.text, place, place) for unit in who]

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
    if self.after(found) not in ways.ENDS:
        return None
    who = self.agent(found)
    named = who[0].text if who and who[0].text.startswith("@") else "it"
    return [self.unit(found, BOUNDED, self.time(found, agent=named))]


def _condition_bound(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`If the models are not ready within two hours`."""
    opened = ways.IF.search(self.clause(found))
    late = opened is not None and ways.LATE.search(opened[0])
    if opened is None or not (found["sure"] or late):
        return None
    return [self.unit(found, BOUNDED, self.time(found))]


def _deadline(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`If the models are not ready by 2026-12-01`: a step waits so long and not until then."""
    opened = ways.IF.search(self.clause(found))
    if opened is None or ways.LATE.search(opened[0]) is None:
        return None
    why = "Say how long from when it is waited for, e.g. 'within 2 hours'."
    return [self.unit(found, BOUNDED, Timed(why=why))]


# -- waits -------------------------------------------------------------------------------------------


def _waits(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`Wait two hours`, `a pause of two hours`, `wait until 2026-12-01 09:00 UTC`."""
    conditioned = SUBORDINATE.match(self.clause(found)) is not None
    if self.after(found) not in ways.ENDS or not (self.opens(found) or conditioned):
        return None
    return [self.unit(found, PAUSE, self.time(found, assumed=_assumed(self, found)))]


def _assumed(self: _Rewriter, found: re.Match[str]) -> tuple[str, ...]:
    return self.state.times[int(found["time"][1:])].assumed


def _agent_waits(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`The publisher waits two hours and then posts it`, `… before posting it`."""
    after, follows = self.after(found), self.index(found.end() + 1)
    more = ways.AND_DOES.match(self.text, found.end())
    posting = after == "before" and self.text[self.at[follows] :].split()[1:2]
    if after not in ways.ENDS or after == "after" or (after == "before" and not (more or posting)):
        return None
    if more is None and posting and not posting[0].endswith("ing"):
        return None
    if more is None and not posting and len(self.state.names(found["who"])) > 1:
        return None
    pause = self.unit(found, PAUSE, self.time(found, assumed=_assumed(self, found)))
    if more is not None:
        does = self.index(more.end())
        self.instead.update({at: [] for at in range(follows, does)})
        return [pause, *self.moved(found, does)]
    if posting:
        at = self.words[follows + 1].units[0].start
        self.instead[follows] = [Unit("is", at, at)]
        return [pause, *self.moved(found, follows + 1)]
    (who,) = self.state.names(found["who"])
    self.state.times[-1] = replace(self.state.times[-1], before=who)
    return [pause]


def _leads(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`After two hours, …`, `… two hours later`."""
    after = self.after(found)
    time = self.time(found, leads=True, assumed=_assumed(self, found))
    behind = after in {"", ";", ")"} and "@" in self.clause_before(found)
    if self.opens(found) and not behind:
        return None if after in ways.NOT_OF else [self.unit(found, PAUSE, time)]
    return _trails(self, found, time)


def _trails(self: _Rewriter, found: re.Match[str], time: Timed) -> list[Unit] | None:
    clause = self.clause(found).split()
    if self.after(found) not in ways.AFTERWARDS or {*clause} & (ways.STOPPING | ways.RIGHTS):
        return None
    if SUBORDINATE.match(" ".join(clause)) and "@" not in " ".join(clause):
        return None
    return [self.unit(found, PAUSE, replace(time, trails=True))]


def _fronted(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`In two hours, the writer …`, `on 1 December 2026 at 9:00 UTC the writer …`."""
    after = self.after(found)
    follows = (
        after in {",", "then", "the", "have", "start", "let", "it", "we", ""} or after[:1] in "@$"
    )
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
    if self.after(found) not in ways.AFTERWARDS:
        return None
    time = self.time(found, assumed=_assumed(self, found))
    return [self.unit(found, PAUSE, time), *self.agent(found)]


# -- what cannot be waited for -------------------------------------------------------------------------


def _unclear(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`Wait until tomorrow`, `wait a few minutes`, `wait two hours for the editor`."""
    if not self.opens(found) and not found["who"]:
        return None
    self.report(found)
    more = ways.AND_DOES.match(self.text, found.end())
    if more is None or not found["who"]:
        return []
    does = self.index(more.end())
    self.instead.update({at: [] for at in range(self.index(found.end() + 1), does)})
    return self.moved(found, does)


def _unclear_lead(self: _Rewriter, found: re.Match[str]) -> list[Unit] | None:
    """`At 9:00, …`, `after two months …`."""
    after = self.after(found)
    if not self.opens(found) or not (after in {",", "then", "the", ""} or after[:1] == "@"):
        return None
    self.report(found)
    return []


_RULES: list[tuple[re.Pattern[str], _Read]] = [
    (ways.AGENT_BOUND, _agent_bound),
    (ways.CONDITION_BOUND, _condition_bound),
    (ways.DEADLINE, _deadline),
    (ways.AFTER, _leads),
    *((way, _waits) for way in ways.WAITS),
    *((way, _agent_waits) for way in ways.AGENT_WAITS),
    (ways.SINCE, _since),
    *((way, _leads) for way in ways.LEADS),
    (ways.STARTS, _starts),
    *((way, _fronted) for way in ways.FRONTED),
    *((way, _unclear) for way in ways.UNCLEAR),
    *((way, _unclear_lead) for way in ways.UNCLEAR_LEADS),
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

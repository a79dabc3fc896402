"""Windows: which groups of a transcript a model gets, and what summaries stand for.

Without a summary, the window has the last groups. With summaries, a group is left out only if they
cover it. They cover a log from its beginning in chunks of `CHUNK` messages. So all agents that read
a log share its summaries, whatever their windows are, and prompts begin the same until the next
chunk is full. What no chunk covers yet is shown; if there are too many tokens, its beginning is.

A summary is made of one log, so it reveals nothing of another log. If a transcript hides a part of
a log, such as the messages about other items, no summary covers the log from there on.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from crewlog.activities.transcripts import Said, Spot, Transcript
from crewlog.definition.context import OFF, Window
from crewlog.ids import ContentHash, LogName, StepId

CHUNK = 8
"""The messages that each further summary of a log covers."""
MOST_UNCOVERED = 2 * CHUNK
"""The most groups, the newest, that are shown besides the window since no chunk covers them."""
CHARACTERS = 4
"""Characters of a token, as an estimate."""
STEADY = 4
"""The number of parts of a window in tokens: its beginning moves by one part at a time."""
_SHORTEST = 200
"""The length to which a text that does not fit is cut, in characters."""


class Chain(list[tuple[int, ContentHash]]):
    """Positions and bodies of a log, oldest first. It only ever grows."""

    def __init__(self, links: Iterable[tuple[int, ContentHash]] = ()) -> None:
        super().__init__(links)
        self.heads: list[ContentHash] = []
        """The log's head after each. Where logs were joined, no head says how far both are: there
        it is the one that the log would have, had all been said in it from the beginning."""

    def until(self, length: int) -> Chain:
        """The first `length` links, for a log that continues differently."""
        other = Chain(self[:length])
        other.heads = self.heads[:length]
        return other


@dataclass(frozen=True)
class Log:
    """A log of a view: the first `length` links of a chain."""

    chain: Chain
    length: int


@dataclass(frozen=True)
class SummarizedPrefix:
    """The beginning of a log that a summary stands for."""

    log: LogName
    chain: Chain
    length: int
    """Its number of messages: a multiple of `CHUNK`."""
    messages: Mapping[ContentHash, BaseMessage]
    """The messages of all logs of the run, by body."""

    @property
    def head(self) -> ContentHash:
        """The head of the log at its end."""
        return self.chain.heads[self.length - 1]

    def said(self, start: int, end: int) -> list[BaseMessage]:
        """Some of its messages."""
        return [self.messages[body] for _, body in self.chain[start:end]]


@dataclass(frozen=True)
class Cut:
    """The part of a transcript that a window shows."""

    shown: list[BaseMessage]
    """The messages that are shown, in order."""
    left_out: int = 0
    """The number of groups that are left out."""
    earlier: tuple[Said, ...] = ()
    """What was said right before each reply of the agent's own among these, where it was asked,
    with who said it: `tool` or `people`."""
    covered: tuple[SummarizedPrefix, ...] = ()
    """The beginnings of logs for which summaries stand, the public one first."""
    gap: tuple[BaseMessage, ...] = ()
    """Messages that are left out though no summary is to stand for them: their beginnings do."""
    untold: int = 0
    """Groups before these of which there are too many: their number stands for them."""
    summed_up: int = 0
    """The number of left-out groups that summaries cover."""


def cut(
    transcript: Transcript,
    logs: Mapping[LogName, Log],
    messages: Mapping[ContentHash, BaseMessage],
    window: Window,
    step: StepId,
    *,
    script: str = "",
) -> Cut:
    """Returns the part of a transcript that a window shows.

    Args:
        transcript: The whole transcript of the agent.
        logs: Its logs.
        messages: Their messages, by body.
        window: The window.
        step: The step; the messages of the agent in it are its present turn.
        script: The agent, if its model is a script, which counts all earlier messages.
    """
    total = len(transcript)
    present = transcript.spots.own.get(step, total)
    asked = _people_said_last(transcript, present)
    forced = _by_tokens(transcript, window.tokens) if window.tokens is not None else 0
    first = 0 if window.last is None else present - window.last
    if asked is not None and asked >= first:
        first -= 1  # the request is shown, too
    start = max(forced, first)
    if start <= 0:
        return Cut(_fitted(transcript, 0, total, window))
    pinned = asked if asked is not None and asked < start else None
    covered, uncovered = (
        ((), []) if window.summary == OFF else _coverage(transcript, logs, messages, start)
    )
    open_ = [i for i in uncovered if i != pinned]
    newest = open_[-MOST_UNCOVERED:]
    kept = {i for i in newest if i >= forced}
    # The beginnings of what is neither shown nor summed up, as far as that is not too long.
    gap = [i for i in open_ if i not in kept]
    told = gap[-MOST_UNCOVERED:]
    before = sorted(kept if pinned is None else {*kept, pinned})
    shown = [
        _shortened(each, window.tokens * CHARACTERS // 2) if window.tokens is not None else each
        for i in before
        for each in transcript.group(i)
    ]
    left_out = start - len(before)
    return Cut(
        shown=shown + _fitted(transcript, start, total, window),
        left_out=left_out,
        earlier=tuple(_earlier(transcript, start, before, script)) if script else (),
        covered=covered,
        gap=tuple(each for i in told for each in transcript.group(i)),
        untold=len(gap) - len(told),
        summed_up=left_out - len({*uncovered} - {*before}) if covered else 0,
    )


def _people_said_last(transcript: Transcript, present: int) -> int | None:
    """The last group of people's before the present turn: what is asked."""
    people = transcript.spots.people
    at = bisect_left(people, present)
    return people[at - 1] if at else None


def _earlier(
    transcript: Transcript, start: int, shown: Collection[int], agent: str
) -> Iterator[Said]:
    known = transcript.spots.before
    for i in range(len(known), start):
        before = known[i - 1][1] if i else ("people", "")
        found: list[Said] = []
        for message in transcript.group(i):
            if isinstance(message, AIMessage) and message.name == agent:
                found.append(before)
            before = ("tool" if isinstance(message, ToolMessage) else "people", message.text)
        known.append((tuple(found), before))
    for i in range(start):
        if i not in shown:
            yield from known[i][0]


# -- tokens -----------------------------------------------------------------------------------


def _by_tokens(transcript: Transcript, most: int) -> int:
    """The first group that is shown where all that are shown have so many tokens at most.

    It moves by a part of them at a time: while it stays, prompts begin the same.
    """
    sums = _sums(transcript)
    total = len(sums) - 1
    if sums[total] <= most:
        return 0
    fits = bisect_left(sums, sums[total] - most)
    part = max(1, most // STEADY)
    steady = next((i for i in range(fits, total) if sums[i] // part > sums[i - 1] // part), fits)
    return min(steady, total - 1)


def _sums(transcript: Transcript) -> list[int]:
    sums = transcript.spots.sums
    for i in range(len(sums) - 1, len(transcript)):
        sums.append(sums[i] + sum(map(tokens_of, transcript.group(i))))
    return sums


def tokens_of(message: BaseMessage) -> int:
    """Estimates the tokens of a message by its characters."""
    content: Any = message.content  # pyright: ignore[reportUnknownMemberType]
    said = content if isinstance(content, str) else json.dumps(content, default=str)
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return 1 + (len(said) + (len(json.dumps(calls, default=str)) if calls else 0)) // CHARACTERS


def _fitted(transcript: Transcript, start: int, total: int, window: Window) -> list[BaseMessage]:
    """The groups from one on; a last one that alone is too long has its texts cut."""
    groups = [transcript.group(i) for i in range(start, total)]
    if window.tokens is not None and len(groups) == 1:
        tokens = [tokens_of(each) for each in groups[0]]
        if sum(tokens) > window.tokens:
            most = max(_SHORTEST, window.tokens * CHARACTERS // len(tokens))
            return [_shortened(each, most) for each in groups[0]]
    return [each for group in groups for each in group]


def _shortened(message: BaseMessage, most: int) -> BaseMessage:
    content: Any = message.content  # pyright: ignore[reportUnknownMemberType]
    if not isinstance(content, str) or len(content) <= most:
        return message
    text = f"{content[:most]}\n[Cut here: {len(content):,} characters in all.]"
    return message.model_copy(update={"content": text})


# -- what summaries stand for -----------------------------------------------------------------


def _coverage(
    transcript: Transcript,
    logs: Mapping[LogName, Log],
    messages: Mapping[ContentHash, BaseMessage],
    start: int,
) -> tuple[tuple[SummarizedPrefix, ...], list[int]]:
    """The beginnings that summaries stand for, and the groups before `start` that none covers."""
    spots = transcript.spots
    after: Spot = (spots.first[-1][0] + 1, ContentHash(""))
    end = spots.first[start] if start < len(transcript) else after
    end = min(end, *spots.hidden[:1]) if spots.hidden else end
    covered: list[SummarizedPrefix] = []
    for log in sorted(logs, key=lambda name: (name != "public", name)):
        found = logs[log]
        before = bisect_left(found.chain, end, 0, found.length)
        if length := before - before % CHUNK:
            covered.append(SummarizedPrefix(log, found.chain, length, messages))
    ends = {each.log: each.length for each in covered}
    # A group's results may come late, after the first message that is shown.
    open_spots = {
        spot for name, log in logs.items() for spot in log.chain[ends.get(name, 0) : log.length]
    }
    uncovered = {
        spots.of[spot]
        for spot in open_spots
        if spot in spots.of and not any(_has(each, spot) for each in covered)
    }
    return tuple(covered), sorted(i for i in uncovered if i < start)


def _has(covered: SummarizedPrefix, spot: Spot) -> bool:
    at = bisect_left(covered.chain, spot, 0, covered.length)
    return at < covered.length and covered.chain[at] == spot

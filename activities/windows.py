"""Windows: which groups of a transcript a model gets, and which ones summaries replace.

Without a summary, the window has the last groups. With summaries, a group is left out only if they
cover it. They cover a log from its beginning in chunks of `CHUNK` messages. So all agents that read
a log share its summaries, whatever their windows are, and prompts begin the same until the next
chunk is full. What no chunk covers yet is shown; if there are too many tokens, its beginning is.

A summary is made of one log, so it reveals nothing of another log. If a transcript hides a part of
a log, such as the messages about other items, no summary covers the log from there on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from crewlog.activities.transcripts import AttributedText, MessageKey, Transcript, truncate_text
from crewlog.activities.usage import CHARACTERS_PER_TOKEN, estimate_tokens
from crewlog.definition.context import OFF, Window
from crewlog.ids import ContentHash, LogName, StepId

CHUNK = 8
"""The messages that each further summary of a log covers."""
MOST_UNCOVERED = 2 * CHUNK
"""The most groups, the newest, that are shown besides the window since no chunk covers them."""
WINDOW_PARTS = 4
"""The number of parts of a window in tokens: its beginning moves by one part at a time."""
_SHORTEST = 200
"""The length to which a text that does not fit is truncated, in characters."""


class Chain(list[tuple[int, ContentHash]]):
    """Positions and bodies of a log, oldest first. It only ever grows."""

    def __init__(self, links: Iterable[tuple[int, ContentHash]] = ()) -> None:
        super().__init__(links)
        self.heads: list[ContentHash] = []
        """The head of the log after each link. After a run merge, no stored head covers the links
        of both logs: then it is the head that one log with all these links would have."""

    def prefix(self, length: int) -> Chain:
        """Returns the first `length` links, for a log that continues differently."""
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
    """The prefix of a log that a summary replaces."""

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

    def read_messages(self, start: int, end: int) -> list[BaseMessage]:
        """Returns a slice of its messages."""
        return [self.messages[body] for _, body in self.chain[start:end]]


@dataclass(frozen=True)
class TrimmedTranscript:
    """The part of a transcript that a window shows."""

    messages: list[BaseMessage]
    """The messages that the window shows, in order."""
    omitted_groups: int = 0
    """The number of groups that it leaves out."""
    preceding_texts: tuple[AttributedText, ...] = ()
    """The text before each omitted message of the agent, if a script needs it."""
    prefixes: tuple[SummarizedPrefix, ...] = ()
    """The prefixes of logs that summaries replace, the public log first."""
    gap: tuple[BaseMessage, ...] = ()
    """Omitted messages that no summary covers: the model gets an excerpt of each."""
    unlisted_groups: int = 0
    """The number of groups before the gap: the model gets only this number."""
    summarized_groups: int = 0
    """The number of omitted groups that summaries cover."""


def trim_transcript(
    transcript: Transcript,
    logs: Mapping[LogName, Log],
    messages: Mapping[ContentHash, BaseMessage],
    window: Window,
    step: StepId,
    *,
    script: str = "",
) -> TrimmedTranscript:
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
    present = transcript.index.first_group_of_step.get(step, total)
    request = _find_last_user_group(transcript, present)
    forced = _by_tokens(transcript, window.tokens) if window.tokens is not None else 0
    first = 0 if window.last is None else present - window.last
    if request is not None and request >= first:
        first -= 1  # the request is shown, too
    start = max(forced, first)
    if start <= 0:
        return TrimmedTranscript(_fit_groups(transcript, 0, total, window))
    pinned = request if request is not None and request < start else None
    covered, uncovered = (
        ((), []) if window.summary == OFF else _find_prefixes(transcript, logs, messages, start)
    )
    open_ = [i for i in uncovered if i != pinned]
    newest = open_[-MOST_UNCOVERED:]
    kept = {i for i in newest if i >= forced}
    gap = [i for i in open_ if i not in kept]
    listed = gap[-MOST_UNCOVERED:]
    before = sorted(kept if pinned is None else {*kept, pinned})
    shown = [
        _truncate(each, window.tokens * CHARACTERS_PER_TOKEN // 2)
        if window.tokens is not None
        else each
        for i in before
        for each in transcript.group(i)
    ]
    omitted = start - len(before)
    return TrimmedTranscript(
        messages=shown + _fit_groups(transcript, start, total, window),
        omitted_groups=omitted,
        preceding_texts=tuple(_preceding_texts(transcript, start, before, script))
        if script
        else (),
        prefixes=covered,
        gap=tuple(each for i in listed for each in transcript.group(i)),
        unlisted_groups=len(gap) - len(listed),
        summarized_groups=omitted - len({*uncovered} - {*before}) if covered else 0,
    )


def _find_last_user_group(transcript: Transcript, present: int) -> int | None:
    """Returns the last group of users before the present turn: the request."""
    groups = transcript.index.user_groups
    at = bisect_left(groups, present)
    return groups[at - 1] if at else None


def _preceding_texts(
    transcript: Transcript, start: int, shown: Collection[int], agent: str
) -> Iterator[AttributedText]:
    """Yields the text before each message of the agent in the groups that are not shown."""
    known = transcript.index.preceding_texts
    for i in range(len(known), start):
        before = known[i - 1][1] if i else ("people", "")
        found: list[AttributedText] = []
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
    """Returns the first group of a window that has at most `most` tokens.

    It moves by one part of the window at a time, so that most prompts begin the same.
    """
    sums = _sums(transcript)
    total = len(sums) - 1
    if sums[total] <= most:
        return 0
    fits = bisect_left(sums, sums[total] - most)
    part = max(1, most // WINDOW_PARTS)
    steady = next((i for i in range(fits, total) if sums[i] // part > sums[i - 1] // part), fits)
    return min(steady, total - 1)


def _sums(transcript: Transcript) -> list[int]:
    sums = transcript.index.token_sums
    for i in range(len(sums) - 1, len(transcript)):
        sums.append(sums[i] + estimate_tokens(transcript.group(i)))
    return sums


def _fit_groups(
    transcript: Transcript, start: int, total: int, window: Window
) -> list[BaseMessage]:
    """Returns the groups from `start`; if the only one is too long, its texts are truncated."""
    groups = [transcript.group(i) for i in range(start, total)]
    most, only = window.tokens, groups[0] if len(groups) == 1 else []
    if most is not None and estimate_tokens(only) > most:
        longest = max(_SHORTEST, most * CHARACTERS_PER_TOKEN // len(only))
        return [_truncate(each, longest) for each in only]
    return [each for group in groups for each in group]


def _truncate(message: BaseMessage, most: int) -> BaseMessage:
    content: Any = message.content  # pyright: ignore[reportUnknownMemberType]
    if not isinstance(content, str) or len(content) <= most:
        return message
    return message.model_copy(update={"content": truncate_text(content, most)})


# -- summarized prefixes ----------------------------------------------------------------------


def _find_prefixes(
    transcript: Transcript,
    logs: Mapping[LogName, Log],
    messages: Mapping[ContentHash, BaseMessage],
    start: int,
) -> tuple[tuple[SummarizedPrefix, ...], list[int]]:
    """Returns the prefixes that summaries cover, and the other groups before `start`."""
    index = transcript.index
    after: MessageKey = (index.first_keys[-1][0] + 1, ContentHash(""))
    end = index.first_keys[start] if start < len(transcript) else after
    end = min(end, *index.hidden_keys[:1]) if index.hidden_keys else end
    covered: list[SummarizedPrefix] = []
    for log in sorted(logs, key=lambda name: (name != "public", name)):
        found = logs[log]
        before = bisect_left(found.chain, end, 0, found.length)
        if length := before - before % CHUNK:
            covered.append(SummarizedPrefix(log, found.chain, length, messages))
    ends = {each.log: each.length for each in covered}
    # A group's results may come late, after the first message that the window shows.
    open_keys = {
        key for name, log in logs.items() for key in log.chain[ends.get(name, 0) : log.length]
    }
    uncovered = {
        index.group_of[key]
        for key in open_keys
        if key in index.group_of and not any(_has(each, key) for each in covered)
    }
    return tuple(covered), sorted(i for i in uncovered if i < start)


def _has(prefix: SummarizedPrefix, key: MessageKey) -> bool:
    at = bisect_left(prefix.chain, key, 0, prefix.length)
    return at < prefix.length and prefix.chain[at] == key

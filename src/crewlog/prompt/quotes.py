"""A prompt as quotes see it: where words stand, what they name, which of them nobody quoted."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property

from crewlog.prompt.ast import Words
from crewlog.prompt.names import plain

_WORD = re.compile(r"[^\W_]+(?:['\u2019.,:/_-][^\W_]+)*")
_PLAIN_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(
    r"(?<=[.!?;])[\"')\]\u201d\u2019]*\s+(?=\S)|\n\s*\n|\n(?=\s*(?:[-*+\u2022#]|\d+[.)])\s)"
)
LONGEST_GAP = 4
"""Words in a row that a sentence may have outside of all quotes: `and after that`."""
_STEM = 4
"""Letters that two forms of a word share: `drafts`, `drafted`."""
_SHORT = 3
"""Words up to this length are in every text."""
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        "about accept after ahead approval approve approved been before confirm continue does from "
        "going have into made make next okay please result results shall should step that them "
        "these they this those want what when where which will with work your",
    )
)
"""Words that a question may be made of besides the prompt's own."""


class Prompt:
    """A prompt's text with its words."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _words(self) -> list[tuple[int, int]]:
        return [match.span() for match in _WORD.finditer(self.text)]

    @cached_property
    def _plain(self) -> str:
        # Piece by piece: `plain` cuts what is longer than a name.
        return "_".join(filter(None, (plain(m[0]) for m in _PLAIN_WORD.finditer(self.text))))

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(_stem(word) for word in self._plain.split("_"))

    def flat(self, words: Words) -> str:
        """A stretch in one line."""
        return " ".join(self.text[words.start : words.end].split())

    def find(self, quote: str, after: int = 0) -> Words | None:
        """Where the prompt says a quote: whole words, spaces and line breaks being alike.

        Args:
            quote: The words.
            after: The place that is meant by a quote that occurs more than once: the first at or
                behind it, else the first of all.
        """
        if not _PLAIN_WORD.search(quote):
            return None
        pattern = re.compile(r"\s+".join(re.escape(part) for part in quote.split()))
        found: Words | None = None
        for match in pattern.finditer(self.text):
            if not self._whole(match.start(), match.end()):
                continue
            words = Words(start=match.start(), end=match.end())
            if words.start >= after:
                return words
            found = found or words
        return found

    def _whole(self, start: int, end: int) -> bool:
        before, behind = self.text[start - 1 : start], self.text[end : end + 1]
        return not (
            (before.isalnum() and self.text[start].isalnum())
            or (behind.isalnum() and self.text[end - 1].isalnum())
        )

    def names(self, name: str) -> bool:
        """Whether some words make this name: `ui_designer` of "UI/UX designers" does not."""
        found = f"_{self._plain}_"
        ends = ("", "s", "es")
        forms = [f"_{name}{end}_" for end in ends]
        if name.endswith("y"):
            forms.append(f"_{name[:-1]}ies_")
        if name.startswith("agent_"):  # names that begin with a digit have it before them
            forms.append(f"_{name.removeprefix('agent_')}_")
        return any(form in found for form in forms)

    def speaks(self, words: str) -> bool:
        """Whether all of some words are said, in whatever form and order."""
        return all(
            _stem(word) in self._stems
            for word in plain_words(words)
            if len(word) > _SHORT or words.isalnum()
        )

    def strange(self, text: str) -> list[str]:
        """Words of a text that the prompt has in no form; at most five."""
        found = [
            word
            for word in plain_words(text)
            if len(word) > _SHORT and word not in _FILLERS and _stem(word) not in self._stems
        ]
        return list(dict.fromkeys(found))[:5]

    def uncovered(self, quotes: Sequence[Words]) -> Iterator[Words]:
        """Sentences that no quote touches, and longer stretches of sentences outside of all."""
        covered = _merged(quotes)
        for start, end in self._sentences():
            words = self._within(start, end)
            free = [w for w in words if not _inside(w, covered)]
            if not any(char.isalpha() for char in self.text[start:end]):
                continue  # a list's number
            if free and start and self.text.startswith("#", start) and len(words) <= LONGEST_GAP:
                continue  # a heading further down only says what comes
            if words and len(free) == len(words):
                yield Words(start=words[0][0], end=self._end(words[-1][1], end))
                continue
            for run in _runs(words, free):
                if len(run) > LONGEST_GAP:
                    yield Words(start=run[0][0], end=run[-1][1])

    def _end(self, last: int, end: int) -> int:
        """The end of a sentence with its full stop."""
        stop = re.compile(r"[.!?]").match(self.text, last, end)
        return stop.end() if stop else last

    def _within(self, start: int, end: int) -> list[tuple[int, int]]:
        first = bisect_left(self._words, (start, 0))
        return self._words[first : bisect_left(self._words, (end, 0))]

    def _sentences(self) -> Iterator[tuple[int, int]]:
        start = 0
        for match in _SENTENCE_END.finditer(self.text):
            if match.end() > start:
                yield start, match.end()
                start = match.end()
        if start < len(self.text):
            yield start, len(self.text)


def plain_words(text: str) -> list[str]:
    """The words of a text as names have them."""
    return [word for m in _PLAIN_WORD.finditer(text) for word in plain(m[0]).split("_") if word]


def _stem(word: str) -> str:
    return word[:_STEM]


def _merged(quotes: Sequence[Words]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted((q.start, q.end) for q in quotes):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _inside(word: tuple[int, int], covered: Sequence[tuple[int, int]]) -> bool:
    at = bisect_left(covered, (word[0] + 1, 0)) - 1
    return at >= 0 and word[0] < covered[at][1]


def _runs(
    words: Sequence[tuple[int, int]], free: Sequence[tuple[int, int]]
) -> Iterator[list[tuple[int, int]]]:
    left, run = set(free), list[tuple[int, int]]()
    for word in words:
        if word in left:
            run.append(word)
        elif run:
            yield run
            run = []
    if run:
        yield run

"""Remarks: what is said of a prompt, at its place in the text."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.definition.text import Source, Span
from crewlog.prompt.ast import Words
from crewlog.prompt.compiled import Code, Remark


class Remarks:
    """Collects remarks on a text.

    Args:
        text: The prompt.
        file: What it is called in messages.
    """

    def __init__(self, text: str, file: str) -> None:
        self._source = Source(text, file)
        self._found: list[Remark] = []

    def error(self, code: Code, say: str, words: Sequence[Words] = (), remedy: str = "") -> None:
        """Something that keeps the definition from running."""
        self._found.append(self._remark(code, say, tuple(words), remedy, error=True))

    def warning(self, code: Code, say: str, words: Sequence[Words] = (), remedy: str = "") -> None:
        """Something that people should look at."""
        self._found.append(self._remark(code, say, tuple(words), remedy, error=False))

    def span(self, words: Words) -> Span:
        """A stretch with its line and column."""
        text = self._source.text
        start = min(words.start, max(len(text) - 1, 0))
        return self._source.span(start, max(words.end, start + 1))

    def place(self, words: Words) -> str:
        """`line 3, column 7`."""
        span = self.span(words)
        return f"line {span.line}, column {span.column}"

    def all(self) -> tuple[Remark, ...]:
        """Everything said, in the order of the prompt."""
        return tuple(sorted(self._found, key=lambda r: r.words[0].start if r.words else -1))

    def _remark(
        self, code: Code, say: str, words: tuple[Words, ...], remedy: str, *, error: bool
    ) -> Remark:
        at = words[0] if words else Words(start=0, end=1)
        diagnostic = self._source.diagnostic(say, self.span(at), remedy)
        return Remark(code, "error" if error else "warning", diagnostic, words)

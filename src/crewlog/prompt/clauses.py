"""Clauses: a prompt cut into numbered pieces, each with its place, and with what is quoted in it.

A clause is the smallest piece of a prompt that a reader must account for: a sentence, an item of a
list, a heading, or a part of a sentence that a semicolon, a dash, brackets or a word like "then",
"otherwise" or "unless" sets apart. Quoted and pasted text
is marked by code, before any reader sees it: it may be a name or a value, and it never obliges,
grants or creates anything.

| text | what it is |
| --- | --- |
| a line that begins with `>`, a code fence, an HTML comment, all below a line of dashes | pasted |
| words in quotation marks or backticks | quoted: a part of its clause |
| a line that begins with `#` | a heading |
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["sentence", "item", "heading", "pasted"]


@dataclass(frozen=True)
class Span:
    """Characters of the prompt, from 0; the end is not included."""

    start: int
    end: int


@dataclass(frozen=True)
class Clause:
    """A numbered piece of a prompt."""

    number: int
    """From 1, in the order of the text."""
    span: Span
    kind: Kind
    sentence: int
    """The number of the first clause of its sentence."""
    text: str
    """The words, with single spaces; the marks of a list or a heading are left out."""
    quoted: tuple[Span, ...] = ()
    """What stands in quotation marks or backticks, as places in `text`."""

    @property
    def is_pasted(self) -> bool:
        """Whether the clause is pasted text: data, whatever it says."""
        return self.kind == "pasted"

    @cached_property
    def unquoted(self) -> str:
        """The words outside quotation marks: only these oblige; a quotation becomes `""`."""
        parts: list[str] = []
        at = 0
        for span in self.quoted:
            parts += [self.text[at : span.start], '""']
            at = span.end
        return "".join([*parts, self.text[at:]])


@dataclass(frozen=True)
class Clauses:
    """A prompt, cut into clauses."""

    text: str
    clauses: tuple[Clause, ...]

    def __iter__(self) -> Iterator[Clause]:
        return iter(self.clauses)

    def __len__(self) -> int:
        return len(self.clauses)

    def __getitem__(self, number: int) -> Clause:
        """The clause of a number.

        Raises:
            KeyError: no clause has this number.
        """
        if not 1 <= number <= len(self.clauses):
            raise KeyError(number)
        return self.clauses[number - 1]

    @cached_property
    def sentences(self) -> tuple[tuple[Clause, ...], ...]:
        """The clauses by their sentences, in order."""
        found: dict[int, list[Clause]] = {}
        for clause in self.clauses:
            found.setdefault(clause.sentence, []).append(clause)
        return tuple(map(tuple, found.values()))

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def place(self, offset: int) -> tuple[int, int]:
        """The line and the column of a character, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1


_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_DASHES = re.compile(r"[ \t]*-{3,}.*")
_QUOTE = re.compile(r"[ \t]*>")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+(?=\S)")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+(?=\S)")
_LONGEST_TITLE = 100


def cut(text: str) -> Clauses:
    """Cuts a prompt into clauses, in time that grows linearly with its length.

    Args:
        text: The prompt: plain English or Markdown.
    """
    clauses: list[Clause] = []
    for kind, block in _blocks(text):
        whole = [block] if kind in {"pasted", "heading"} else _sentences(text, block)
        for sentence in whole:
            first = len(clauses) + 1
            parts = [sentence] if kind in {"pasted", "heading"} else _parts(text, sentence)
            for part in parts:
                trimmed = _trimmed(text, part)
                if trimmed is None:
                    continue
                words, quoted = _flat(text, trimmed)
                if kind == "pasted":
                    quoted = ()
                elif not any(map(str.isalnum, words)):
                    continue
                number = len(clauses) + 1
                clauses.append(Clause(number, trimmed, kind, first, words, quoted))
    return Clauses(text, tuple(clauses))


def _trimmed(text: str, span: Span) -> Span | None:
    part = text[span.start : span.end]
    start = span.start + len(part) - len(part.lstrip())
    end = span.end - (len(part) - len(part.rstrip()))
    return Span(start, end) if start < end else None


# -- blocks ----------------------------------------------------------------------------------------


def _blocks(text: str) -> Iterator[tuple[Kind, Span]]:
    """Paragraphs, items, headings and pasted text, in order; one pass over the lines."""
    kind: Kind = "sentence"
    start = at = 0  # where the open paragraph or item begins, and where the scan stands
    said = False
    while at < len(text):
        end = _line_end(text, at)
        line = text[at:end]
        if _is_underline(text, start, at, line):
            yield "heading", Span(start, at)
            kind, start, at = "sentence", end, end
            continue
        comment = line.find("<!--")
        pasted = _pasted_end(text, at, end, said=said)
        if pasted is None and comment >= 0:
            # A comment may begin within a line: the text before it belongs to the prompt.
            yield kind, Span(start, at + comment)
            close = text.find("-->", at + comment)
            after = len(text) if close < 0 else close + 3
            yield "pasted", Span(at + comment, after)
            said = said or bool(line[:comment].strip())
            kind, start, at = "sentence", after, after
            continue
        if pasted is not None:
            yield kind, Span(start, at)
            yield "pasted", Span(at, pasted)
            kind, start, at = "sentence", pasted, pasted
            continue
        said = said or bool(line.strip())
        heading, item = _HEADING.match(line), _ITEM.match(line)
        if heading is not None:
            yield kind, Span(start, at)
            yield "heading", Span(at + heading.end(), end)
            kind, start = "sentence", end
        elif item is not None or not line.strip():
            yield kind, Span(start, at)
            kind = "sentence" if item is None else "item"
            start = at if item is None else at + item.end()
        at = end
    yield kind, Span(start, len(text))


def _is_underline(text: str, start: int, at: int, line: str) -> bool:
    """Whether a line of dashes underlines a title: the first line of the prompt, and no sentence.

    Anywhere else a line of dashes begins pasted text, also directly below a sentence.
    """
    title = text[:at].strip() if start < at and at <= _LONGEST_TITLE else ""
    if not title or "\n" in title or set(line.strip()) != {"-"} or len(line.strip()) < 3:
        return False
    return title[-1].isalnum() and len(title.split()) <= 8 and text[at - 2 : at] != "\n\n"


def _line_end(text: str, at: int) -> int:
    """Where the next line begins."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _pasted_end(text: str, at: int, end: int, *, said: bool) -> int | None:
    """Where the pasted text ends that begins with this line; none where the line is no pasted text."""
    line = text[at:end]
    if _DASHES.fullmatch(line.rstrip()):
        if said:
            return len(text)
        close = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE).search(text, end)
        return end if close is None else close.end()  # front matter
    if fence := _FENCE.match(line):
        closing = re.compile(rf"^[ \t]*{fence[1][0]}{{{len(fence[1])},}}[ \t]*$", re.MULTILINE)
        found = closing.search(text, end)
        return len(text) if found is None else found.end()
    if not _QUOTE.match(line):
        return None
    while end < len(text) and _QUOTE.match(text, end):
        end = _line_end(text, end)
    return end


# -- sentences -------------------------------------------------------------------------------------

_END = re.compile(
    r"""(?P<stop>[.!?…]+)(?P<close>[)\]"'”’»]*)(?=\s|\Z)   # the end of a sentence
      | ;(?=\s)
      | (?P<then>,?\s+and\s+then\b|,\s+then\b)             # a new step in the same sentence
      | (?P<open>["“«`]|(?<![\w])['‘])                     # a quotation begins
    """,
    re.VERBOSE,
)
_MARK = re.compile(r"[\"“«`]|(?<!\w)['‘]")
_CLOSING = {'"': '"', "“": "”", "«": "»", "`": "`", "'": "'", "‘": "’"}
_LONGEST_QUOTE = 2_000
"""Characters of a quotation; a mark without its partner opens none."""
_LONGEST_SINGLE = 200
"""The same between single marks, which are apostrophes more often."""
_SHORT = re.compile(
    r"\b(?:e\.g|i\.e|etc|vs|cf|approx|max|min|no|nr|mr|mrs|ms|dr|prof|st|inc|ltd|dept|fig|a\.m|p\.m)\.$",
    re.IGNORECASE,
)
"""Words that end with a full stop which ends no sentence."""


def _sentences(text: str, span: Span) -> Iterator[Span]:
    """The sentences of a paragraph or an item."""
    start = at = span.start
    while found := _END.search(text, at, span.end):
        at = found.end()
        if found["open"]:
            at = _quotation_end(text, found.start(), span.end) or at
        elif found["then"]:
            if text[start : found.start()].strip():
                yield Span(start, found.start())
                start = found.start() + len(found["then"]) - len("then")
        elif found["stop"] and _goes_on(text, found, span.end):
            continue
        else:
            yield Span(start, at)
            start = at
    yield Span(start, span.end)


_PART = re.compile(
    r"""(?P<dash>(?<!\s)\s+(?:[—–]|--+)\s+|(?<!\s)\s*—\s*)
      | (?P<open>\()(?=[^()\n]*\s[^()\n]*\s[^()\n]*\))   # brackets with three words or more
      | ,\s+(?=(?:and\s+|but\s+|so\s+)?(?:otherwise|or\s+else|if|unless|once|until|while|meanwhile|which|who
          |after\s+that|afterwards|finally|only|ask\s+me|nobody|no\s+one|when|whenever)\b)
      | ,\s+(?=but\b)
      | ,\s+(?=and\s+(?:the|an?|I|we)\s)
      | (?<!\s)\s+(?=and\s+(?:meanwhile|finally|otherwise|if|unless|only|ask\s+me|nobody)\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Where a part of a sentence begins that must be accounted for by itself."""
_ENUMERATION = re.compile(r",\s+(?:the|an?)\s+[\w' -]{1,40}$", re.IGNORECASE)


def _parts(text: str, span: Span) -> Iterator[Span]:
    """The parts of a sentence; what stands in quotation marks is not cut."""
    quoted = deque(_quotations(text, span))
    start = at = span.start
    while found := _PART.search(text, at, span.end):
        at = found.end()
        while quoted and quoted[0].end <= found.start():
            quoted.popleft()
        if quoted and quoted[0].start < found.start():
            at = quoted[0].end
            continue
        if found["open"]:
            close = text.index(")", found.end()) + 1
            yield Span(start, found.start())
            yield Span(found.start(), close)
            start = at = close
        elif not _ENUMERATION.search(text, max(start, found.start() - 60), found.start()):
            yield Span(start, found.start())
            start = found.end()
    yield Span(start, span.end)


def _quotations(text: str, span: Span) -> list[Span]:
    """The quotations of a sentence."""
    found: list[Span] = []
    for mark in _MARK.finditer(text, span.start, span.end):
        if found and mark.start() < found[-1].end:
            continue
        close = _quotation_end(text, mark.start(), span.end)
        if close is not None:
            found.append(Span(mark.start(), close))
    return found


def _goes_on(text: str, found: re.Match[str], end: int) -> bool:
    """Whether a full stop is that of an abbreviation, or of a number at the start of a line."""
    before = text[max(0, found.start() - 12) : found.start() + 1]
    if found["stop"] != "." or not _SHORT.search(before):
        return False
    after = text[found.end() : min(end, found.end() + 8)].lstrip()
    return bool(after) and not after[0].isupper()


def _quotation_end(text: str, at: int, end: int) -> int | None:
    """Where a quotation ends that begins with a mark; none where its partner is missing."""
    mark = _CLOSING[text[at]]
    limit = min(end, at + (_LONGEST_SINGLE if mark in "'’" else _LONGEST_QUOTE))
    close = text.find(mark, at + 1, limit)
    for _ in range(8):
        if mark not in "'’" or not 0 <= close < end - 1 or not text[close + 1].isalnum():
            break
        close = text.find(mark, close + 1, limit)  # an apostrophe: don't
    else:
        return None
    if close <= at + 1 or "\n\n" in text[at:close]:
        return None
    return close + 1


def _flat(text: str, span: Span) -> tuple[str, tuple[Span, ...]]:
    """The words with single spaces, and where in them the quotations stand."""
    parts: list[str] = []
    quoted: list[Span] = []
    length = 0

    def add(start: int, end: int) -> None:
        nonlocal length
        part = re.sub(r"\s+", " ", text[start:end])
        if parts and parts[-1].endswith(" "):
            part = part.removeprefix(" ")
        parts.append(part)
        length += len(part)

    at = span.start
    for quotation in _quotations(text, span):
        add(at, quotation.start)
        before = length
        add(quotation.start, quotation.end)
        quoted.append(Span(before, length))
        at = quotation.end
    add(at, span.end)
    return "".join(parts), tuple(quoted)

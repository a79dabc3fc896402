"""A prompt as blocks, sentences and tokens, each token with its place in the prompt as it stands.

Markdown is structure and no words: a heading names what follows it, an item of a list is a
sentence or several, emphasis is nothing. Contractions come apart (`isn't` is `is not`), so that
the grammar has one way to say each thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from crewlog.prompt.grammar.contractions import stands_for
from crewlog.prompt.names import plain

_LONGEST_SECTION = 200
"""Characters of a heading that say what is below it."""

_HEADING = re.compile(r"[ \t]{0,3}(#{1,6})[ \t]+(?![ \t])")
_ITEM = re.compile(r"[ \t]*(?:[-*•‣–+]|\(?[0-9]{1,3}[.)]|\(?[a-z]\)|[Ss]tep [0-9]{1,2}[.:)])[ \t]+")
_RULE = re.compile(r"[ \t]*[-=*_#~]{2,}[ \t]*$")
_LABEL = re.compile(r"[ \t]*[*_`]{0,2}[A-Z][\w&'’ -]{0,40}[*_`]{0,2}:[*_`]{0,2}(?:[ \t]|$)")
_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_TOKEN = re.compile(
    r"(?P<arrow>-{1,3}>|={1,3}>|[→⇒⟶➜➔])"
    r"|(?P<abbreviation>(?:e\.g|i\.e|etc|vs|approx|incl|resp)\.(?=[\s,;)])"
    r"|[aApP]\.[mM]\.(?=\s+(?:[a-z(+]|UTC|GMT|[CEMPW]E?[SD]?T\b)|[,;)])"
    r"|(?:[Mm]ax|[Mm]in|[Cc]a|[Aa]pprox)\.(?=\s+(?:[0-9]|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty)))"
    r"|(?P<number>[0-9]+(?:[.,][0-9]+)*(?![\w-]))"
    r"|(?P<word>[^\W_](?:\w|['’-](?=\w)|[.:](?=[^\W_]))*)"
    r"|(?P<dots>\.{2,}|…)"
    r"|(?P<end>[.!?]+)"
    r"|(?P<dash>[–—]|-{2,}|(?<=\s)-(?=\s))"
    r"|(?P<compare><=|>=|==|!=|[<>=≤≥≠])"
    r"|(?P<sign>[,;:()\[\]{}&%+])"
)
_SIGNS = {"[": "(", "]": ")", "{": "(", "}": ")", "&": "and", "+": "and", "≤": "<=", "≥": ">="}
_WHOLE = {
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "won't": ("will", "not"),
    "shan't": ("shall", "not"),
    "ain't": ("is", "not"),
    "dont": ("do", "not"),
    "doesnt": ("does", "not"),
    "isnt": ("is", "not"),
    "cant": ("can", "not"),
    "wanna": ("want", "to"),
    "gonna": ("going", "to"),
    "gotta": ("have", "to"),
    "let's": ("let", "us"),
    "em": ("them",),
    "pls": ("please",),
    "plz": ("please",),
    "w/": ("with",),
    "someone's": ("someone", "is"),
}
_IS = frozenset(
    [
        "it",
        "he",
        "she",
        "that",
        "there",
        "what",
        "who",
        "whoever",
        "here",
        "everything",
        "everyone",
        "nobody",
        "this",
        "where",
        "how",
        "which",
        "one",
        "somebody",
        "something",
        "nothing",
    ]
)
_ENDINGS = {"re": "are", "ve": "have", "ll": "will", "d": "would", "m": "am"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word or sign, in small letters and without contractions, and where it stands."""

    text: str
    start: int
    end: int
    key: str = ""
    """As part of a name: `fact_checker` of `Fact-checker`."""
    capital: bool = False
    shouted: bool = False
    """All in capitals: `QA`."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens between two full stops, and the structure they stand in."""

    tokens: tuple[Token, ...]
    kind: Literal["heading", "item", "text"] = "text"
    level: int = 0
    """Of a heading."""
    section: str = ""
    """The heading above, in small letters."""
    first: bool = True
    """Whether it begins its block."""
    end: str = ""
    """The sign that ends it."""

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.tokens[0].start

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.tokens[-1].end


@dataclass(slots=True)
class _Block:
    kind: Literal["heading", "item", "text"]
    start: int
    end: int
    level: int = 0
    section: str = ""


@dataclass(slots=True)
class _Lines:
    text: str
    blocks: list[_Block] = field(default_factory=list[_Block])
    open: bool = False
    section: str = ""

    def add(self, start: int, end: int) -> None:
        line = self.text[start:end]
        if not line.strip() or _RULE.match(line):
            self.open = False
        elif (heading := _HEADING.match(line)) is not None:
            level = len(heading[1])
            said = line[heading.end() :].rstrip(" \t").rstrip("#").rstrip(" \t")
            begin = start + heading.end()
            self.blocks.append(_Block("heading", begin, begin + len(said), level))
            self.section = plain(said[:_LONGEST_SECTION]).replace("_", " ")
            self.open = False
        elif (item := _ITEM.match(line)) is not None:
            self.blocks.append(_Block("item", start + item.end(), end, 0, self.section))
            self.open = True
        elif self.open and not _LABEL.match(line):
            self.blocks[-1].end = end
        else:
            self.blocks.append(_Block("text", start, end, 0, self.section))
            self.open = True


def sentences(text: str) -> list[Sentence]:
    """The sentences of a prompt, in order."""
    lines = _Lines(text)
    start = 0
    for found in _BREAK.finditer(text):
        lines.add(start, found.start())
        start = found.end()
    lines.add(start, len(text))
    return [s for block in lines.blocks for s in _of_block(text, block)]


def _of_block(text: str, block: _Block) -> Iterator[Sentence]:
    gathered: list[Token] = []
    first = True
    for token, kind in _tokens(text, block.start, block.end):
        ends = kind in {"end", "dots"}
        if not ends:
            gathered.append(token)
        if gathered and ends:
            yield _sentence(block, gathered, first, token.text if ends else "")
            gathered, first = [], False
    if gathered:
        yield _sentence(block, gathered, first, "")


def _sentence(block: _Block, tokens: list[Token], first: bool, end: str) -> Sentence:
    said = [token.text for token in tokens]
    for at, word in enumerate(said):
        if word == "'s" and at:
            tokens[at] = replace(tokens[at], text=(meant := stands_for(said, at)), key=plain(meant))
    return Sentence(tuple(tokens), block.kind, block.level, block.section, first, end)


def _tokens(text: str, start: int, end: int) -> Iterator[tuple[Token, str]]:
    for found in _TOKEN.finditer(text, start, end):
        kind = found.lastgroup or ""
        written, at = found[0], found.start()
        if kind == "word":
            for token in _word(written, at):
                yield token, kind
        elif kind == "arrow":
            yield Token("->", at, found.end()), kind
        elif kind == "dash":
            yield Token("–", at, found.end()), kind
        elif kind == "abbreviation":
            yield Token(written.lower().rstrip("."), at, found.end()), kind
        else:
            yield Token(_SIGNS.get(written, written), at, found.end()), kind


def _word(written: str, at: int) -> Iterator[Token]:
    low = written.lower().replace("’", "'")
    capital = written[:1].isupper()
    end = at + len(written)
    head, mark, tail = low.rpartition("'")
    parts: tuple[str, ...]
    if low in _WHOLE:
        parts = _WHOLE[low]
    elif low.endswith("n't") and low != "n't":
        parts = (low[:-3], "not")
    elif mark and tail == "s":
        parts = (head, "is" if head in _IS else "'s")
    elif mark and tail in _ENDINGS:
        parts = (head, _ENDINGS[tail])
    else:
        parts = (low,)
    if len(parts) == 1:
        shouted = len(written) > 1 and written.isupper()
        yield Token(parts[0], at, end, plain(parts[0]), capital, shouted)
        return
    middle = at + min(len(parts[0]), len(written) - 1)
    shouted = middle - at > 1 and written[: middle - at].isupper()
    yield Token(parts[0], at, middle, plain(parts[0]), capital, shouted)
    yield Token(parts[1], middle, end, plain(parts[1]))

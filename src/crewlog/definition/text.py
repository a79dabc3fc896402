"""YAML and JSON text to plain data, with the place of every key and value.

The text is hostile until shown otherwise, so nothing is ever constructed: the parser's events are
folded into a tree without recursion, tags are refused, and size, depth and what aliases expand to
are bounded before any data is made. Scalars follow YAML 1.2's core schema: `yes`, `no` and `on`
are texts. `NaN` and infinities are refused, because JSON has no such numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from crewlog.definition.findings import Path
from crewlog.errors import Diagnostic, InvalidDefinition
from crewlog.model import Json

LARGEST_TEXT = 2_000_000
"""Bytes of a file."""
LARGEST_TREE = 100_000
"""Keys and values, aliases expanded."""
LARGEST_EXPANSION = 4_000_000
"""Characters of all values, aliases expanded."""
DEEPEST = 40
"""Lists and mappings inside each other."""
_WIDEST_EXCERPT = 92

_INDENT = re.compile(r"[ \t]*")
_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_INT = re.compile(r"[-+]?[0-9]+")
_OTHER_INT = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_A_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
}
_TAB_OUTSIDE_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"|\t', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the text: offsets from 0, line and column from 1."""

    start: int
    end: int
    line: int
    column: int


@dataclass(slots=True)
class Node:
    """A scalar, list or mapping of the text."""

    kind: Literal["scalar", "list", "mapping"]
    span: Span
    value: str = ""
    style: str | None = None
    """None for a plain scalar, else its quote or block sign."""
    parts: list[Node] = field(default_factory=list["Node"])
    """A list's items; a mapping's keys and values in turn."""
    count: int = 1
    weight: int = 1
    height: int = 0


class Source:
    """A text with its name; makes diagnostics that point into it."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file

    def diagnostic(self, message: str, span: Span, remedy: str = "", path: Path = ()) -> Diagnostic:
        """A diagnostic that underlines the first line of a span."""
        begin = span.start - (span.column - 1)
        far = min(len(self.text), span.start + 2 * _WIDEST_EXCERPT)  # lines may be very long
        stop = _BREAK.search(self.text, span.start, far)
        length = (stop.start() if stop else far) - begin
        caret = span.column - 1
        indent = first = _INDENT.match(self.text, begin, span.start).end() - begin  # type: ignore[union-attr]
        if length - first > _WIDEST_EXCERPT and caret - first > _WIDEST_EXCERPT // 2:
            first = caret - _WIDEST_EXCERPT // 3
        excerpt = self.text[begin + first : begin + min(first + _WIDEST_EXCERPT, length)]
        lead = "…" if first > indent else ""
        tail = "…" if first + _WIDEST_EXCERPT < length else ""
        shown = "".join(c if c.isprintable() else " " for c in excerpt).rstrip()
        return Diagnostic(
            message=message,
            path=path,
            remedy=remedy,
            file=self.file,
            line=span.line,
            column=span.column,
            length=max(1, min(span.end - span.start, len(shown) - (caret - first))),
            excerpt=f"{lead}{shown}{tail}" if shown else "",
            caret=caret - first + 1 + len(lead),
        )

    def fail(self, message: str, span: Span, remedy: str = "") -> InvalidDefinition:
        """The error of one diagnostic, to be raised."""
        return InvalidDefinition([self.diagnostic(message, span, remedy)], more_may_follow=True)

    def at_offset(self, offset: int) -> Span:
        """The span of one character."""
        return self.span(offset, offset + 1)

    def span(self, start: int, end: int) -> Span:
        """The span of a stretch."""
        line = bisect_right(self._lines, start)
        return Span(start, end, line, start - self._lines[line - 1] + 1)

    @cached_property
    def _lines(self) -> list[int]:
        """Where each line begins."""
        return [0, *(found.end() for found in _BREAK.finditer(self.text))]


CREWS_BEGIN = "It begins with 'crew: NAME'; then come its agents."


def read_tree(source: Source, begins: str = CREWS_BEGIN) -> Node:
    """The text's one document as a tree; `begins` is how such a text begins, as a remedy.

    Raises:
        InvalidDefinition: for what is not YAML, is too large or too deep, or uses tags.
    """
    start = Span(0, 1, 1, 1)
    text = source.text
    if len(text) > LARGEST_TEXT:
        raise source.fail(
            f"the text has {len(text):,} characters; at most {LARGEST_TEXT:,} are read", start
        )
    if text.lstrip("\ufeff \t\r\n").startswith("{"):  # JSON may indent with tabs, YAML may not
        text = _TAB_OUTSIDE_TEXT.sub(lambda m: " " if m[0] == "\t" else m[0], text)
    try:
        root = _fold(source, YAML(typ="safe", pure=True).parse(text))
    except ReaderError as error:
        position = cast("int", error.position)
        span = source.at_offset(min(position, len(text)))
        character = text[span.start : span.end]
        raise source.fail(
            f"the character {character!r} is not allowed in YAML", span, "Is this a text file?"
        ) from None
    except MarkedYAMLError as error:
        raise _syntax_error(source, error) from None
    except (YAMLError, RecursionError, ValueError, IndexError, AttributeError, TypeError) as error:
        # The last four: what the scanner lets slip on broken escapes, directives and tags.
        message = " ".join(str(error).split()) or type(error).__name__
        raise source.fail(f"the text is not YAML: {message}", start) from None
    if root is None:
        raise source.fail("the text is empty", start, begins)
    return root


def _syntax_error(source: Source, error: Any) -> InvalidDefinition:
    mark = error.problem_mark or error.context_mark
    problem = " ".join(str(error.problem or error.context or "the text is not YAML").split())
    if mark is None:
        return source.fail(f"not YAML: {problem}", Span(0, 1, 1, 1))
    span = Span(mark.index, mark.index + 1, mark.line + 1, mark.column + 1)
    remedy = _remedy(problem, _line_at(source.text, span.start))
    if source.text[span.start : span.end] == "\t" or "\\t" in problem:
        problem, remedy = "a tab cannot indent YAML", "Indent with spaces."
    elif "anchor" in problem or "alias" in problem:
        remedy = "A text that begins with '&' or '*' needs quotes."
    elif error.context_mark is not None and error.context_mark.line != mark.line:
        context = " ".join(str(error.context or "").split())
        problem = f"{problem} ({context} that begins in line {error.context_mark.line + 1})"
    return source.fail(f"not YAML: {problem}", span, remedy)


def _remedy(problem: str, line: str) -> str:
    """What to do about a fault of the syntax, by the parser's words and the line that it is in."""
    alone = re.fullmatch(r"\s*(- )?[\w-]+:\s*", line)  # a key with nothing beside it
    if re.search(r"expected <block end>, but found '(<block|-|\?)", problem) or (
        "mapping values are not allowed" in problem and alone
    ):
        return "Items of one list, and keys of one mapping, begin in the same column."
    if "could not find expected ':'" in problem:
        return "A line is 'key: value' or '- item'; a text of several lines begins with 'key: |'."
    if bracket := re.search(r"expected ',' or '([]}])'", problem):
        return f"Close what is open with '{bracket[1]}'; put texts that contain ': ' in quotes."
    return "Put texts that contain ': ', ' #', '{', '[' or quotes in quotes."


def _line_at(text: str, offset: int) -> str:
    begin = text.rfind("\n", 0, offset) + 1
    return text[begin:].partition("\n")[0]


def _fold(source: Source, events: Iterator[Any]) -> Node | None:
    """Builds the tree from events, checking the bounds at every step."""
    stack: list[Node] = []
    anchors: dict[str, Node] = {}
    names: list[str | None] = []
    root: Node | None = None
    for event in events:
        kind = type(event).__name__
        node: Node | None = None
        if kind == "DocumentStartEvent" and root is not None:
            raise source.fail("a second document begins here", _span(event), "Write one per file.")
        if kind in {"SequenceEndEvent", "MappingEndEvent"}:
            node = stack.pop()
            node.span = Span(
                node.span.start, event.end_mark.index, node.span.line, node.span.column
            )
            name = names.pop()
        elif kind == "AliasEvent":
            node, name = anchors.get(event.anchor), None
            if node is None:
                raise source.fail(f"no anchor '&{event.anchor}' before this alias", _span(event))
        elif kind == "ScalarEvent":
            _refuse_tag(source, event)
            value = event.value
            node = Node("scalar", _span(event), value, event.style, weight=1 + len(value))
            name = event.anchor
        elif kind in {"SequenceStartEvent", "MappingStartEvent"}:
            _refuse_tag(source, event)
            stack.append(Node("list" if kind[0] == "S" else "mapping", _span(event)))
            names.append(event.anchor)
            if len(stack) > DEEPEST:
                raise source.fail(f"more than {DEEPEST} levels inside each other", _span(event))
            continue
        else:
            continue
        if name:
            anchors[name] = node
        if not stack:
            root = node
            continue
        _put(stack[-1], node)
        _check_bounds(source, stack, _span(event))
    return root


def _put(parent: Node, node: Node) -> None:
    parent.parts.append(node)
    parent.count += node.count
    parent.weight += node.weight
    parent.height = max(parent.height, node.height + 1)


def _check_bounds(source: Source, stack: list[Node], span: Span) -> None:
    # Open collections are not yet counted in their parents, so the whole is the sum of the open.
    if sum(node.count for node in stack) > LARGEST_TREE:
        raise source.fail(f"more than {LARGEST_TREE:,} values, aliases counted", span)
    if sum(node.weight for node in stack) > LARGEST_EXPANSION:
        raise source.fail("aliases make this text too large", span, "Write it with fewer aliases.")
    if len(stack) + stack[-1].height > DEEPEST:
        raise source.fail(f"more than {DEEPEST} levels inside each other", span)


def _refuse_tag(source: Source, event: Any) -> None:
    if event.tag is not None:
        raise source.fail(
            f"the tag {str(event.tag)[:60]!r} is not allowed: a crew is plain data",
            _span(event),
            "Leave the tag out; a text that begins with '!' needs quotes.",
        )


def _span(event: Any) -> Span:
    start, end = event.start_mark, event.end_mark
    return Span(start.index, end.index, start.line + 1, start.column + 1)


@dataclass
class Document:
    """A text's data, and the node of every key and value by its path."""

    source: Source
    data: Json = None
    values: dict[Path, Node] = field(default_factory=dict[Path, Node])
    keys: dict[Path, Node] = field(default_factory=dict[Path, Node])
    faults: list[Diagnostic] = field(default_factory=list[Diagnostic])
    """What the data could not take: duplicate keys, keys that are not text, odd numbers."""


def read_document(text: str, file: str, begins: str = CREWS_BEGIN) -> Document:
    """Reads a text to data and places; `begins` is how such a text begins, as a remedy.

    Raises:
        InvalidDefinition: where the text is not YAML at all, or beyond the bounds.
    """
    source = Source(text, file)
    document = Document(source)
    document.data = _build(document, read_tree(source, begins), ())
    return document


def _build(document: Document, node: Node, path: Path) -> Json:
    document.values[path] = node
    if node.kind == "list":
        return [_build(document, part, (*path, i)) for i, part in enumerate(node.parts)]
    if node.kind == "scalar":
        return _scalar(document, node, path)
    out: dict[str, Json] = {}
    for key, value in zip(node.parts[::2], node.parts[1::2], strict=True):
        name = _key(document, key, path)
        if name is None:
            continue
        place = (*path, name)
        if name in out:
            first = document.keys[place].span
            fault = f"the key {name!r} is written twice: in line {first.line} and here"
            document.faults.append(
                document.source.diagnostic(fault, key.span, "Keep one of the two.", place)
            )
            continue
        document.keys[place] = key
        out[name] = _build(document, value, place)
    return out


def _key(document: Document, key: Node, path: Path) -> str | None:
    if key.kind == "scalar":
        value = _scalar(document, key, path) if key.style is None else _text(document, key, path)
        if isinstance(value, str) and (value != "<<" or key.style is not None):
            return value
        if value == "<<":
            fault, remedy = "merge keys ('<<') are not YAML 1.2", "Write the keys out."
        else:
            fault, remedy = f"the key {key.value!r} is not a text", "Put it in quotes."
    else:
        fault, remedy = f"a {key.kind} cannot be a key", "A text with '{' or '[' needs quotes."
    document.faults.append(document.source.diagnostic(fault, key.span, remedy, path))
    return None


def _scalar(document: Document, node: Node, path: Path) -> Json:
    value = node.value
    if node.style is not None:
        return _text(document, node, path)
    if value in _WORDS:
        return _WORDS[value]
    number: int | float | None = None
    if len(value) <= 400:
        if _INT.fullmatch(value):
            number = int(value)
        elif _OTHER_INT.fullmatch(value):
            number = int(value[2:], 8 if value[1] == "o" else 16)
        elif _FLOAT.fullmatch(value):
            number = float(value)
    if number is None and not _NOT_A_NUMBER.fullmatch(value):
        return _text(document, node, path)
    if number is None or abs(number) >= (2**63 if isinstance(number, int) else float("inf")):
        fault = f"the number {value[:30]} does not fit"
        document.faults.append(
            document.source.diagnostic(fault, node.span, "Put it in quotes to make it text.", path)
        )
        return 0
    return number


def _text(document: Document, node: Node, path: Path) -> str:
    try:  # JSON spells a character beyond the basic plane as two escapes
        return node.value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        fault = "the text has half a character (a lone surrogate)"
        document.faults.append(document.source.diagnostic(fault, node.span, "", path))
        return ""

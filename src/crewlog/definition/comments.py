"""Comments of a crew's file, taken over into the file that replaces it.

A comment belongs to the key or the item that begins in its line, else to the next one below it.
In the new text it stands at the same key; an item of a list is found again by its value, or by its
first word. Where the key is gone, the comment stands above the nearest key around it. No comment
is dropped.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from crewlog.definition.findings import Path
from crewlog.definition.text import Document, Node, read_document
from crewlog.definition.write import is_list, is_mapping
from crewlog.model import Json

_COMMENT = re.compile(r"(?:^|(?<=[ \t]))#.*", re.MULTILINE)


@dataclass(frozen=True)
class _Comment:
    text: str
    start: int
    """Its offset in the text."""
    line: int
    """From 1."""
    alone: bool
    """Whether nothing stands before it in its line."""


def with_comments(new: str, old: str) -> str:
    """A YAML text with the comments of the text that it replaces.

    Args:
        new: The new text, without comments of its own.
        old: The text that it replaces.

    Returns:
        The new text with a line, or an end of a line, for each comment.
    """
    before, after = read_document(old, "old"), read_document(new, "new")
    owners = _Owners(before)
    lines = {path: node.span.line for path, node in _nodes(after)}
    above: dict[int, list[str]] = defaultdict(list)
    behind: dict[int, list[str]] = defaultdict(list)
    new_lines = new.splitlines()
    for comment in _comments(before):
        owner = owners.of(comment)
        if owner is None:
            above[len(new_lines) + 1].append(comment.text)
            continue
        path = _moved(owner, before.data, after.data)
        there = len(path) == len(owner) and path in lines
        while path and path not in lines:
            path = path[:-1]
        where = behind if there and not comment.alone else above
        where[lines.get(path, 1)].append(comment.text)
    out: list[str] = []
    for number, line in enumerate(new_lines, 1):
        indent = line[: len(line) - len(line.lstrip())]
        out += [f"{indent}{text}" for text in above[number]]
        out.append("  ".join([line, *behind[number]]))
    return "".join(f"{line}\n" for line in (*out, *above[len(new_lines) + 1]))


def _nodes(document: Document) -> Iterator[tuple[Path, Node]]:
    """The node that each key or item begins with."""
    for path, node in document.values.items():
        if path:
            yield path, document.keys.get(path, node)


def _comments(document: Document) -> Iterator[_Comment]:
    """The comments of a text, in its order; a `#` within a value is none."""
    text = document.source.text
    scalars = sorted(
        (node.span.start, node.span.end)
        for node in (*document.values.values(), *document.keys.values())
        if node.kind == "scalar"
    )
    begins = [begin for begin, _ in scalars]
    end = 0
    while found := _COMMENT.search(text, end):
        at, end = found.span()
        before = bisect_right(begins, at) - 1
        if before >= 0 and at < scalars[before][1] and not _heads_block(text, begins[before], at):
            end = scalars[before][1]
            continue
        line = document.source.at_offset(at).line
        alone = not text[text.rfind("\n", 0, at) + 1 : at].strip()
        yield _Comment(found.group().rstrip(), at, line, alone)


def _heads_block(text: str, begin: int, at: int) -> bool:
    """Whether a comment stands behind the sign of a block scalar: `key: |  # why`."""
    return text[begin] in "|>" and "\n" not in text[begin:at]


class _Owners:
    """Finds what a comment of a text belongs to."""

    def __init__(self, document: Document) -> None:
        places = sorted(_nodes(document), key=lambda each: (each[1].span.start, len(each[0])))
        self._paths = [path for path, _ in places]
        self._starts = [node.span.start for _, node in places]
        self._lines = [node.span.line for _, node in places]

    def of(self, comment: _Comment) -> Path | None:
        """The first key or item of its line, or the next one below; None at the end."""
        if comment.alone:
            at = bisect_left(self._starts, comment.start)
            return self._paths[at] if at < len(self._paths) else None
        at = bisect_left(self._lines, comment.line)
        if at == len(self._lines) or self._lines[at] != comment.line:
            at -= 1  # the end of something that begins further up
        return self._paths[max(at, 0)] if self._paths else None


def _moved(path: Path, before: Json, after: Json) -> Path:
    """Where a path of the old data is in the new, as far as it is there."""
    found: list[str | int] = []
    for part in path:
        if is_mapping(before) and is_mapping(after) and part in after:
            before, after = before[str(part)], after[str(part)]
            found.append(part)
        elif is_list(before) and is_list(after):
            place = _same_item(before, int(part), after)
            if place is None:
                break
            before, after = before[int(part)], after[place]
            found.append(place)
        else:
            break
    return tuple(found)


def _same_item(before: list[Json], index: int, after: list[Json]) -> int | None:
    """The place of an item in another list: of the same value, else of the same first word."""
    first_words = [_first_word(item) for item in before], [_first_word(item) for item in after]
    for olds, news in ((before, after), first_words):
        wanted = olds[index]
        nth = olds[:index].count(wanted)
        places = [place for place, item in enumerate(news) if item == wanted]
        if nth < len(places):
            return places[nth]
    return None


def _first_word(item: Json) -> Json:
    while item:
        if is_mapping(item):
            item = next(iter(item.values()))
        elif is_list(item):
            item = item[0]
        else:
            break
    return item

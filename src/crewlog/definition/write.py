r"""Writes a definition as YAML that people like to read, and that loads to the same definition.

What is short stands in one line (`writer: {prompt: Write notes., tools: [write_file]}`), what is
long in a block; texts of several lines and long sentences are block scalars. A text is plain where
nothing could be read into it, else in quotes. Only what differs from its default is written.

The reader is YAML 1.2's core schema (`crewlog.definition.text`), so `yes` and `on` are plain texts;
they are quoted all the same, for the sake of other readers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from crewlog.definition.model import CrewDefinition
from crewlog.definition.times import duration_words
from crewlog.model import Json, Model

WIDTH = 104
_LONGEST_INLINE = 80
"""Characters of a text that may stand in a line with others."""
_LONGEST_KEY = 120
"""YAML has another spelling for keys that are longer than its parsers look ahead."""
_WIDEST_KEY = 24
"""The values of keys up to here are aligned."""
_INDENT = "  "
_SECTIONS = frozenset({"agents", "tools", "flow", "permissions", "approvals", "flags"}) | {
    "groups",
    "artifacts",
    "logs",
    "mcp",
}
"""Keys at the top whose entries have a line each, however short they are together."""

_PLAIN = re.compile(r"\w(?:[^\s:]|:(?=[\w/])|[ ](?=[^\s#]))*")
"""Texts that no reader takes for anything else, but for `_TAKEN`: a colon within a word, as in
`my_tools:write_file`, is not one that separates."""
_SEPARATES_INLINE = re.compile(r"[,\[\]{}?]")
_TAKEN = re.compile(
    r"(?i:true|false|null|yes|no|on|off)|[\d.,eE_+:-]*\d[\d.,eE_+:-]*|0[xob]\w*|\d{4}-\d.*"
)
"""What some reader takes for a number, a date, true, false or nothing."""
DURATIONS = frozenset(
    {
        "timeout",
        "heartbeat",
        "first",
        "longest",
        "half_life",
        "wait",
        "within",
        "wall",
        "expires",
        "valid",
    }
)
"""Keys whose values are seconds."""
_FREE = frozenset({"model_settings", "with", "flags", "schema", "initial"})
"""Keys below which data is people's own: numbers there stay as they are."""


def to_yaml(definition: CrewDefinition) -> str:
    """The definition as YAML; `load_definition` makes the same definition of it."""
    return yaml_of(definition)


def yaml_of(written: Model) -> str:
    """Whatever people write (a crew, a registry) as YAML that reads back to it."""
    return "".join(f"{line}\n" for line in _top(_eased(written.to_json()))) or "{}\n"


def _top(data: Mapping[str, Json]) -> Iterator[str]:
    for key, value in data.items():
        if key in _SECTIONS and value and is_mapping(value):
            yield f"{key}:"
            yield from _entries(value, 1)
        elif key == "flow" and value and is_list(value):
            yield f"{key}:"
            for item in value:
                yield from _item(item, 1)
        else:
            yield from _entry(key, value, 0)


def _entries(mapping: Mapping[str, Json], depth: int) -> Iterator[str]:
    """The entries of a section; where each has one line, they are aligned like a table."""
    inline = [key for key, value in mapping.items() if is_mapping(value) and value]
    width = max((len(_key(key)) for key in inline), default=0)
    table = width <= _WIDEST_KEY and all(
        _fits(mapping[key], width + 2 + len(_INDENT) * depth) for key in inline
    )
    for key, value in mapping.items():
        yield from _entry(key, value, depth, pad=width if key in inline and table else 0)


def _entry(key: str, value: Json, depth: int, pad: int = 0) -> Iterator[str]:
    lead = _INDENT * depth
    spelled = _key(key)
    if len(spelled) > _LONGEST_KEY:
        yield f"{lead}? {spelled}"
        head = f"{lead}:"
    else:
        head = f"{lead}{spelled}:"
    gap = " " * max(1, pad - len(spelled) + 1)
    yield from _after(head, gap, value, depth)


def _item(value: Json, depth: int) -> Iterator[str]:
    yield from _after(f"{_INDENT * depth}-", " ", value, depth)


def _after(head: str, gap: str, value: Json, depth: int) -> Iterator[str]:
    """A value behind its key or dash."""
    if isinstance(value, str):
        first, *rest = _text(value, len(head) + len(gap))
        yield f"{head}{gap}{first}"
        yield from (f"{_INDENT * (depth + 1)}{line}" if line else "" for line in rest)
    elif not value or _fits(value, len(head) + len(gap)):
        yield f"{head}{gap}{_inline(value)}"
    elif is_mapping(value):
        yield from _block(head, [_entry(k, v, depth + 1) for k, v in value.items()], depth)
    elif is_list(value):
        yield from _block(head, [_item(part, depth + 1) for part in value], depth)
    else:
        yield f"{head}{gap}{_inline(value)}"


def _block(head: str, parts: list[Iterator[str]], depth: int) -> Iterator[str]:
    """Parts below their key; the first stands behind a dash."""
    lines = [line for part in parts for line in part]
    if head.endswith("-"):
        inner = len(_INDENT) * (depth + 1)
        yield f"{head} {lines[0][inner:]}"
        lines = lines[1:]
    else:
        yield head
    yield from lines


def _fits(value: Json, used: int) -> bool:
    return _short(value) and used + len(_inline(value)) <= WIDTH


def _short(value: Json) -> bool:
    """Whether a value may stand in one line: no long text, no text of several lines."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_INLINE and "\n" not in value
    if is_list(value):
        return all(_short(part) for part in value)
    if is_mapping(value):
        return all(len(key) <= _LONGEST_KEY and _short(part) for key, part in value.items())
    return True


def _inline(value: Json) -> str:
    if is_mapping(value):
        return "{" + ", ".join(f"{_key(k)}: {_inline(v)}" for k, v in value.items()) + "}"
    if is_list(value):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return _scalar(value, inline=True)


def _key(key: str) -> str:
    return _scalar(key, inline=True)


def _scalar(value: Json, *, inline: bool) -> str:
    if not isinstance(value, str):
        return json.dumps(value)  # numbers, true, false and null are spelled alike
    if (
        _PLAIN.fullmatch(value)
        and not _TAKEN.fullmatch(value)
        and not value.endswith((" ", ":"))
        and not (inline and _SEPARATES_INLINE.search(value))
        and value.isprintable()
    ):
        return value
    return _quoted(value)


def _quoted(value: str) -> str:
    if value.isprintable() and ('"' in value or "\\" in value) and "'" not in value:
        return f"'{value}'"
    return "".join(
        c if c.isprintable() else _escape(c) for c in json.dumps(value, ensure_ascii=False)
    )


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _text(value: str, used: int) -> list[str]:
    """A text behind its key: in the line, or its lines below, which the caller indents."""
    if "\n" in value and _is_block(value):
        body = value.rstrip("\n")
        ends = len(value) - len(body)
        sign = "-" if ends == 0 else "" if ends == 1 else "+"
        shift = str(len(_INDENT)) if value[0] in " \n" else ""
        return [f"|{shift}{sign}", *body.split("\n"), *[""] * max(0, ends - 1)]
    spelled = _scalar(value, inline=False)
    if len(spelled) + used > WIDTH and len(value) > _LONGEST_INLINE and _is_foldable(value):
        return [">-", *_folded(value)]
    return [spelled]


def _is_block(value: str) -> bool:
    lines = value.split("\n")
    return bool(value.strip("\n")) and all(
        line.isprintable() and (not line or not line.isspace()) for line in lines
    )


def _is_foldable(value: str) -> bool:
    return value.isprintable() and value == value.strip(" ")


def _folded(value: str) -> list[str]:
    """Lines that are joined by one space again."""
    lines = [""]
    for word in re.split(r"(?<=\S) (?=\S)", value):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > 100 - 12:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


def _eased(data: Json, key: str = "") -> Json:
    """The data with durations as people write them; people's own data as it is."""
    if is_mapping(data):
        return {k: v if k in _FREE else _eased(v, k) for k, v in data.items()}
    if is_list(data):
        return [_eased(part) for part in data]
    if isinstance(data, float) and data.is_integer() and abs(data) < 1e15:
        return duration_words(data) if key in DURATIONS else int(data)
    return data


def is_list(value: Json) -> TypeGuard[list[Json]]:
    """Whether data is a list."""
    return isinstance(value, list)


def is_mapping(value: Json) -> TypeGuard[dict[str, Json]]:
    """Whether data is a mapping."""
    return isinstance(value, dict)

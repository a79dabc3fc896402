"""Differences with the texts that they are about: in a row where they are short, else line by line.

state        ~ ok           false → true
definition   ~ agent writer prompt
- You write.
+ You write short sentences.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from crewlog.cli.screen import Part, Screen, plain_lines
from crewlog.content_blocks import content_text
from crewlog.message_files import files_of
from crewlog.model import Json

if TYPE_CHECKING:
    from crewlog.client import Client
    from crewlog.ids import ContentHash
    from crewlog.reporting.diff.state import StateDiff

LONGEST = 60
"""Characters of a value that stand in a row, of each side."""
CONTEXT = 2
"""Lines around a difference that are shown, too."""
_STYLES = {"+": "green", "-": "red", "@": "dim"}


@dataclass(frozen=True)
class Told:
    """A row, and the lines that belong to it."""

    row: list[Part]
    lines: tuple[Part, ...] = ()


def tell(screen: Screen, found: Iterable[Told], indent: int = 0) -> None:
    """Prints rows in columns, each with its lines under it."""
    rows: list[list[Part]] = []

    def flush() -> None:
        if rows:
            screen.rows([""] * len(rows[0]), rows)
            rows.clear()

    for each in found:
        rows.append([" " * (indent - 3), *each.row] if indent else each.row)
        if each.lines:
            flush()
        for line in each.lines:
            screen.line(" " * (indent + 5), line)
    flush()


def is_long(*values: Json) -> bool:
    """Whether values are told line by line, and not in a row."""
    return any(len(text) > LONGEST or "\n" in text for text in map(_text, values))


def lines_between(old: Json, new: Json) -> tuple[Part, ...]:
    """The lines that differ between two values, with some around them; null is no line at all."""
    before, after = _lines(old), _lines(new)
    everything = CONTEXT if before and after else max(len(before), len(after))
    _, _, *found = [*unified_diff(before, after, lineterm="", n=everything)] or ["", ""]
    first = 0 if len([line for line in found if line.startswith("@@")]) > 1 else 1
    return tuple(_line(line) for line in found[first:])


def _line(line: str) -> Part:
    sign = line[:1]
    if line.startswith("@@"):
        return ("…", "dim")
    return (f"{sign} {line[1:]}".rstrip(), _STYLES.get(sign, ""))


def _lines(value: Json) -> list[str]:
    return [] if value is None else plain_lines(_text(value)).splitlines() or [""]


def _text(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and any(isinstance(each, str) and "\n" in each for each in value):  # pyright: ignore[reportUnknownVariableType]
        return "\n".join(map(_text, value))  # pyright: ignore[reportUnknownArgumentType]
    return json.dumps(value, ensure_ascii=False, indent=2)


# -- bodies --------------------------------------------------------------------------------------

Bodies = Mapping[Any, Json]
"""What is too large to be in a state, by its hash."""


async def bodies_of(client: Client, differences: Iterable[StateDiff]) -> Bodies:
    """The bodies that differences name; without those that the store does not have.

    Raises:
        StoreUnavailable: the store is away, which has them.
    """
    values = [v for each in differences for c in each.changes for v in (c.old, c.new)]
    return await stored(client, {*hashes_in(values)})


async def bodies_in_brief(client: Client, differences: Iterable[StateDiff]) -> Bodies | None:
    """The same for rows, which can do without: none where the store is away."""
    from crewlog.errors import StoreUnavailable  # noqa: PLC0415

    try:
        return await bodies_of(client, differences)
    except StoreUnavailable:
        return None


async def stored(client: Client, wanted: Iterable[ContentHash]) -> Bodies:
    """What the store has of these bodies.

    Raises:
        StoreUnavailable: the store is away.
    """
    from crewlog.errors import StoreIncomplete  # noqa: PLC0415

    hashes = [*wanted]
    if not hashes:
        return {}
    store = await client.store()
    try:
        return await store.get_bodies(hashes)
    except StoreIncomplete:
        bodies: dict[Any, Json] = {}
        for hash_ in hashes:
            with suppress(StoreIncomplete):
                bodies |= await store.get_bodies([hash_])
        return bodies


def hashes_in(values: Sequence[Json]) -> Iterator[ContentHash]:
    """The bodies that values are, or that their parts are."""
    for value in values:
        if is_body(value):
            yield value["body"]
        elif isinstance(value, list):
            yield from hashes_in(value)  # pyright: ignore[reportUnknownArgumentType]


def is_body(value: Json) -> bool:
    """Whether a value stands for a body: `{"body": hash}`."""
    return isinstance(value, dict) and [*value] == ["body"]  # pyright: ignore[reportUnknownArgumentType]


def with_texts(value: Json, bodies: Bodies) -> Json:
    """A value with the texts of its bodies, or with what the store does not have."""
    if isinstance(value, list):
        return [with_texts(each, bodies) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if not is_body(value):
        return value
    body = bodies.get(value["body"], f"({value['body']} is not in the store)")
    content: Json = body.get("content", body) if isinstance(body, dict) else body  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return content_text(content) if files_of({"content": content}) else content  # pyright: ignore[reportUnknownVariableType]

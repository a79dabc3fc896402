"""The hashes that a journal entry refers to: of bodies, of definitions, and the heads of logs.

A field that holds such a hash has the type `ContentHash`. So what to read of each kind of entry is
found once, from the types. Entries are read as JSON, as they are stored: most kinds have no hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from crewlog.ids import ContentHash
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.model import Call, CrewState

_Reader = Callable[[Any, set[ContentHash]], None]
"""Adds the hashes in a JSON value to a set."""

EMBEDDED: Mapping[tuple[type[BaseModel], str], Any] = {
    (j.RunForked, "state"): CrewState,
    (j.RunRolledBack, "state"): CrewState,
    (j.RunReopened, "state"): CrewState,
    (j.RunMerged, "merged_state"): CrewState,
    (j.CompletionBuffered, "entries"): tuple[j.JournalEntry, ...],
    (Call, "completion"): tuple[j.JournalEntry, ...],
}
"""The fields that are declared as plain JSON and have the hashes of another type."""


def find_references(entries: Iterable[Mapping[str, Json]]) -> set[ContentHash]:
    """The hashes that entries refer to.

    Args:
        entries: The entries in JSON.
    """
    found: set[ContentHash] = set()
    for entry in entries:
        if (read := _ENTRY_READERS.get(entry["kind"])) is not None:
            read(entry, found)
    return found


def _read_entry(entry: Mapping[str, Json], found: set[ContentHash]) -> None:
    found |= find_references([entry])


def _read_hash(value: ContentHash, found: set[ContentHash]) -> None:
    if value:
        found.add(value)


def _reader(annotation: Any) -> _Reader | None:
    """The reader of a type; None if it has no hash."""
    if annotation is ContentHash:
        return _read_hash
    if annotation is j.JournalEntry:
        return _read_entry
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _reader(arguments[0])
    if origin in (Union, UnionType):
        readers = [read for each in arguments if (read := _reader(each)) is not None]
        if len(readers) > 1:
            raise TypeError(f"the hashes of {annotation!r} depend on which of the types it is")
        return readers[0] if readers else None  # null values are not read
    if origin is tuple and (read := _reader(arguments[0])) is not None:
        return _each(read)
    if origin is dict and (read := _reader(arguments[1])) is not None:
        return _each_value(read)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model_reader(annotation)
    return None


def _each(read: _Reader) -> _Reader:
    def read_each(values: Any, found: set[ContentHash]) -> None:
        for value in values:
            if value is not None:
                read(value, found)

    return read_each


def _each_value(read: _Reader) -> _Reader:
    def read_each_value(values: Any, found: set[ContentHash]) -> None:
        for value in values.values():
            read(value, found)

    return read_each_value


@cache
def _model_reader(model: type[BaseModel]) -> _Reader | None:
    readers = {
        name: read
        for name, info in model.model_fields.items()
        if (read := _reader(EMBEDDED.get((model, name), info.annotation))) is not None
    }
    if not readers:
        return None
    hashes = [name for name, read in readers.items() if read is _read_hash]
    others = [(name, read) for name, read in readers.items() if read is not _read_hash]

    def read_model(value: Any, found: set[ContentHash]) -> None:
        for name in hashes:
            if part := value.get(name):
                found.add(part)
        for name, read in others:
            if (part := value.get(name)) is not None:
                read(part, found)

    return read_model


_ENTRY_READERS: Mapping[str, _Reader] = {
    model.__name__: read
    for model in get_args(get_args(j.JournalEntry)[0])
    if (read := _model_reader(model)) is not None
}
"""The readers of entries by kind; kinds without hashes have none."""

"""Encodes journal entries as events.

An event is a journal entry with its run and position. `Event` has the entry as a model, for Python;
`EventView` has it as JSON, for other clients. The encoder is pure: the command line, an HTTP API
and telemetry encode the same events from the same journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from crewlog.errors import UsageError
from crewlog.ids import RunId
from crewlog.model import Json, Model
from crewlog.state.journal import JournalEntry, entry_from_json, entry_to_json


@dataclass(frozen=True, slots=True)
class Event:
    """A journal entry at its position."""

    position: int
    """From 1, without gaps; in a fork from the position after its checkpoint. To follow a run after
    this event, pass it as `after`."""
    at: int
    """Milliseconds since the epoch, by the workflow's clock."""
    entry: JournalEntry
    run: RunId

    def __str__(self) -> str:
        """`17 StepStarted step='writer#1' agent='writer'`: the fields that differ from defaults."""
        data = {key: value for key, value in self.entry.to_json().items() if key != "at"}
        words = " ".join(f"{key}={value!r}" for key, value in data.items())
        return f"{self.position} {self.entry.kind} {words}".rstrip()


class EventView(Model):
    """An event as JSON."""

    run: RunId
    position: int
    """The position in the run's journal, from 1: a cursor after which a client reads on."""
    at: int
    """Milliseconds since the epoch, by the workflow's clock."""
    kind: str
    """The kind of the entry: `StepCompleted`."""
    entry: dict[str, Json]
    """The entry, as `JournalEntry.json` describes it, without fields that have their default."""


def event_view(event: Event) -> EventView:
    """The event as JSON."""
    return EventView(
        run=event.run,
        position=event.position,
        at=event.at,
        kind=event.entry.kind,
        entry=entry_to_json(event.entry),
    )


def event_of(run: RunId, position: int, entry: Mapping[str, Json]) -> Event:
    """The event of a journal entry that is JSON.

    Raises:
        UsageError: a newer version of Crewlog wrote the entry.
    """
    try:
        found = entry_from_json(entry)
    except ValidationError as error:
        raise UsageError(
            f"position {position} of the run {run!r} holds a {entry.get('kind')!r} that this "
            "version of Crewlog cannot read",
            remedy="Use the version of the run's workers, or a newer one.",
        ) from error
    return Event(position, found.at, found, run)

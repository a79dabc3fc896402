"""Outputs of agents, and the lists that several steps add to."""

from __future__ import annotations

from crewlog.ids import ContentHash, LogName
from crewlog.model import Json, Model
from crewlog.state.item_specs import ItemSpec, ListSpec

ElementPosition = tuple[int, int]
"""The position of a value in a list that several steps add to: a journal position and an item
number. The value of a child step has the position of the list and the number of its item; any other
value has its own position and 0."""


class ListElement(Model):
    """A value in a list that several steps add to."""

    value: Json = None
    """The value, if its JSON has at most 256 bytes."""
    body: ContentHash | None = None
    """The body of a larger value, or the message whose text is the value."""
    position: ElementPosition
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it; empty: `public`."""
    spec: ItemSpec | None = None
    """Of a large value: the agents and dependencies that it names as an item."""


class Output(Model):
    """An output of an agent: a small value itself, or the body that holds it."""

    value: Json = None
    """The value, if its JSON has at most 256 bytes: conditions read it."""
    body: ContentHash | None = None
    """The body of a larger value, or the message whose text is the value."""
    position: int
    """The journal position that set it."""
    items: int | None = None
    """The number of items of the list in the body, if a node has a child step for each."""
    spec: ListSpec | None = None
    """The agents and dependencies that those items name."""
    elements: tuple[ListElement, ...] = ()
    """The values of a list that several steps add to, in order."""
    logs: tuple[LogName, ...] = ()
    """The logs that its agent wrote to when it was set; their readers may see it. Empty:
    `public`."""

    @property
    def bodies(self) -> tuple[ContentHash, ...]:
        """The bodies that hold it."""
        return tuple(
            h for h in (self.body, *(each.body for each in self.elements)) if h is not None
        )

"""Items of a list, and the progress of their child steps."""

from __future__ import annotations

from crewlog.ids import AgentName, ContentHash, LogName, NodeName, StepId
from crewlog.model import Json, Model
from crewlog.state.model.output import ListElement


class Item(Model):
    """An item of a list that a node handles in a child step."""

    number: int
    """Its number, from 1."""
    of: int
    """The number of items."""
    value: Json = None
    """The item, if the list is small."""
    list_body: ContentHash | None = None
    """The body that holds the list."""
    body: ContentHash | None = None
    """The body that holds the item alone."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it; empty: no log restricts it."""
    is_withheld: bool = False
    """Whether its agent may not see it: then the activity does not read it."""


class ChildStepProgress(Model):
    """The progress of a parent step."""

    of: int
    """The number of items."""
    started: int = 0
    """The number of items whose child steps have started."""
    done: int = 0
    """The number of items whose child steps are completed."""
    position: int = 0
    """The journal position of the list: it orders what the child steps set."""
    items: Json = None
    """The list, if it is small."""
    list_body: ContentHash | None = None
    """The body of a larger list."""
    elements: tuple[ListElement, ...] = ()
    """The items, if several steps made the list."""
    goto: tuple[NodeName, ...] = ()
    """The nodes that its child steps hand off to: the run goes there once all items are done."""
    former_steps: tuple[StepId, ...] = ()
    """The former ids of the parent step, from before a rollback or a run merge."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see the list, as of the output."""
    agents: tuple[AgentName, ...] = ()
    """The agents that items name; empty if they name none."""
    owners: tuple[int, ...] = ()
    """By item: the index of its agent in `agents`, from 0."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: the numbers of the items that it waits for, packed, see `crewlog.state.item_specs`.
    Empty if no item waits for another."""
    unstarted: tuple[int, ...] = ()
    """The numbers of the items that are not started; only kept if items wait for others."""
    failed: int = 0
    """The number of items whose child steps failed while the run continued."""
    skipped: int = 0
    """The number of items whose child steps were skipped."""

    def agent(self, number: int) -> AgentName | None:
        """The agent that an item names; none if items name no agents."""
        return self.agents[self.owners[number - 1]] if self.owners else None

    def item(self, number: int) -> Item:
        """The item with a number."""
        if self.elements:
            at = self.elements[number - 1]
            return Item(number=number, of=self.of, value=at.value, body=at.body, logs=at.logs)
        if self.list_body is not None:
            return Item(number=number, of=self.of, list_body=self.list_body, logs=self.logs)
        return Item(number=number, of=self.of, value=self.items[number - 1], logs=self.logs)

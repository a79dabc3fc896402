"""What an agent may read."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from crewlog.ids import ContentHash, LogName, StepId
from crewlog.model import Model


class View(Model):
    """The logs that an agent may read, each at a head. The activity hydrates it to messages."""

    heads: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """The logs that have messages, by name. In activities' inputs, a head that follows from the
    batch is left empty."""
    former_steps: tuple[StepId, ...] = ()
    """Of an item's step: the names that its visit had before, where the run went back to it. What
    was said under them is its own."""
    after: tuple[int, ...] = ()
    """Of an item's step: the items of its visit that it waited for. What its agent said of them is
    shown, as what somebody else said."""
    former_names: dict[LogName, tuple[LogName, ...]] = Field(
        default_factory=dict[LogName, tuple[LogName, ...]]
    )
    """The names that a log had before, where its channel or its agent was renamed: each of the same
    kind. It may begin where a log of such a name does."""

    def without(self, which: Callable[[LogName], bool]) -> View:
        """The view without some logs."""
        if not any(map(which, self.heads)):
            return self
        heads = {log: head for log, head in self.heads.items() if not which(log)}
        return self.model_copy(update={"heads": heads})

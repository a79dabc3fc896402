"""The logs that an agent may read."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from crewlog.ids import ContentHash, LogName, StepId
from crewlog.model import Model


class View(Model):
    """The logs that an agent may read, each at a head. The activity hydrates it to messages."""

    heads: dict[LogName, ContentHash] = Field(default_factory=dict[LogName, ContentHash])
    """The heads of the logs that have messages, by log. In the inputs of activities, a head that
    follows from the batch is empty."""
    former_steps: tuple[StepId, ...] = ()
    """Of a child step: the former ids of its parent step, from before a rollback or a run merge.
    Its agent reads what was written under them as its own."""
    after: tuple[int, ...] = ()
    """Of a child step: the numbers of the items that its item waits for. Its agent reads their
    messages as those of another agent."""
    former_names: dict[LogName, tuple[LogName, ...]] = Field(
        default_factory=dict[LogName, tuple[LogName, ...]]
    )
    """The former names of a log whose channel or agent was renamed. The log may begin with the
    messages of a log of such a name."""

    def without(self, which: Callable[[LogName], bool]) -> View:
        """The view without the logs that `which` selects."""
        if not any(map(which, self.heads)):
            return self
        heads = {log: head for log, head in self.heads.items() if not which(log)}
        return self.model_copy(update={"heads": heads})

"""What there is already when a run begins, where it does not begin with nothing.

A stage that is tried alone is given the messages that it was shown in the crew, and the values that
its inputs are made of: the model then sees what it saw there.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from crewlog.errors import NotPermitted
from crewlog.ids import LogName
from crewlog.model import Json, Model


class InitialMessage(Model):
    """A message that a log has when the run begins."""

    body: dict[str, Json]
    """The message: `type` (`human`, `ai`, `tool`), `content`, and what else it has, as a run's
    journal has the messages of people."""
    log: LogName = LogName("public")
    """The log that it is in."""


_OWN = frozenset({"type", "content", "id", "name"})
"""What a message of people has."""
_HOW = (
    "Give it messages of the type `human`, without a name or with your own. `crewlog eval` gives a "
    "stage what agents and tools said: give it a copy of the crew's file without `policy`, or "
    "cases without `messages`."
)


class InitialState(Model):
    """What a run begins with besides its input."""

    messages: tuple[InitialMessage, ...] = ()
    """Messages, in order; they come after the input."""
    request: str = ""
    """What people asked for, for agents that have it as an input; by default the run's input. It is
    in no log that an agent reads."""
    values: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Values by path, as of `edit_state`: `flags.NAME`, `outputs.AGENT.KEY`."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see the outputs among these; by default those of who makes them.
    """

    @property
    def named_logs(self) -> Iterator[tuple[str, LogName]]:
        """The logs that it names, each with where it does."""
        yield from ((f"given.messages[{n}]", each.log) for n, each in enumerate(self.messages))
        yield from (("given.logs", log) for log in self.logs)

    def check_senders(self, by: str) -> None:
        """Checks that nothing is said in the name of somebody else: it would be taken for theirs.

        Args:
            by: Who gives it, which is proven.

        Raises:
            NotPermitted: something is, which nobody has signed who said it.
        """
        for number, message in enumerate(self.messages):
            if told := _sender_error(by, message.body):
                raise NotPermitted(
                    "the crew's policy requires signed commands, and "
                    f"given.messages[{number}] {told}: {by!r} cannot sign for that",
                    remedy=_HOW,
                )


def _sender_error(who: str, body: dict[str, Json]) -> str:
    """Why a message is not one that a person says; empty where it is."""
    if body.get("type") != "human":
        return f"is a message of the type {body.get('type')!r}, which no person says"
    if body.get("name") not in (None, "", who):
        return f"is said by {body['name']!r}"
    others = sorted(body.keys() - _OWN)
    return f"has {', '.join(others)}, which no message of people has" if others else ""

"""What a run starts with besides its input.

An evaluation gives a stage the messages and the inputs that it had in the crew.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from crewlog.errors import NotPermitted
from crewlog.ids import LogName
from crewlog.model import Json, Model


class InitialMessage(Model):
    """A message that a log has when the run starts."""

    body: dict[str, Json]
    """The message: `type` (`human`, `ai`, `tool`), `content`, and further fields, as in the
    journal."""
    log: LogName = LogName("public")


_OWN = frozenset({"type", "content", "id", "name"})
"""The fields of a message of people."""
_HOW = (
    "Give it messages of the type `human`, without a name or with your own. `crewlog eval` gives a "
    "stage what agents and tools said: give it a copy of the crew's file without `policy`, or "
    "cases without `messages`."
)


class InitialState(Model):
    """What a run starts with besides its input."""

    messages: tuple[InitialMessage, ...] = ()
    """Messages, in order; they come after the input."""
    request: str = ""
    """The request of people, for agents with the input `input`; by default the run input. It is in
    no log that an agent reads."""
    values: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Values by path, as of `edit_state`: `flags.NAME`, `outputs.AGENT.KEY`."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see the outputs among these; by default the logs of their
    agents."""

    @property
    def named_logs(self) -> Iterator[tuple[str, LogName]]:
        """The logs that it names, each with its place."""
        yield from (
            (f"initial_state.messages[{n}]", each.log) for n, each in enumerate(self.messages)
        )
        yield from (("initial_state.logs", log) for log in self.logs)

    def check_senders(self, by: str) -> None:
        """Checks that every message is of the principal who gives it.

        Args:
            by: The principal.

        Raises:
            NotPermitted: a message is of somebody else, whose signature it does not have.
        """
        for number, message in enumerate(self.messages):
            if error := _sender_error(by, message.body):
                raise NotPermitted(
                    "the crew's policy requires signed commands, and "
                    f"initial_state.messages[{number}] {error}: {by!r} cannot sign for that",
                    remedy=_HOW,
                )


def _sender_error(principal: str, body: dict[str, Json]) -> str:
    """Why a message is not one of this principal; empty if it is."""
    if body.get("type") != "human":
        return f"is a message of the type {body.get('type')!r}, which no person says"
    if body.get("name") not in (None, "", principal):
        return f"is said by {body['name']!r}"
    further = sorted(body.keys() - _OWN)
    return f"has {', '.join(further)}, which no message of people has" if further else ""

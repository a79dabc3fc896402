"""What people do to a live run by hand, besides answering and pausing.

They put values into its state, send it elsewhere, say who may call a tool, and name checkpoints.
All but `tag` are updates: they return when the run has applied them, exactly once, whatever happens
on the way. A command that is sent again with the same id has no second effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from crewlog.ids import CommandId
from crewlog.model import Json
from crewlog.wire import Command, CommandResult, EditState, Redirect, SetPermission, TagCommand

C = TypeVar("C", bound=Command)


class ByHand(ABC):
    """The part of a run's client that changes where the run is, and not its graph."""

    @abstractmethod
    def _made(self, kind: type[C], by: str | None, id: str | None, /, **fields: Json) -> C: ...

    @abstractmethod
    async def _update(self, name: str, command: Command) -> CommandResult: ...

    @abstractmethod
    async def _tag(self, command: TagCommand) -> CommandId: ...

    async def edit_state(
        self,
        values: Mapping[str, Json] | None = None,
        delete: Iterable[str] = (),
        *,
        reason: str = "",
        by: str | None = None,
        id: str | None = None,
    ) -> CommandResult:
        """Puts values into the state, all of them or none.

        Args:
            values: By path: `flags.NAME`, `outputs.AGENT.KEY`, `shared.NAME` or
                `private.AUDIENCE.NAME`.
            delete: Paths to take away.
            reason: Why, for the journal.
            by: Who edits; by default the system's user.
            id: The command's id, to repeat a command whose outcome is not known.

        Raises:
            UsageError: neither names anything.
            CommandRejected: a path is not known, or cannot take its value.
        """
        fields: dict[str, Json] = {"set": dict(values or {}), "delete": tuple(delete)}
        command = self._made(EditState, by, id, reason=reason, **fields)
        return await self._update("edit_state", command)

    async def redirect(
        self,
        node: str,
        step: str | None = None,
        *,
        cut: bool = False,
        reason: str = "",
        by: str | None = None,
        id: str | None = None,
    ) -> CommandResult:
        """Sends the run to a node in the place of what follows a step.

        A step that has not begun, or that asks people, ends now. One that is at work goes on to its
        end first.

        Args:
            node: Where it goes.
            step: The step; may be left out where only one is not done.
            cut: Whether a step that is at work ends now, and its calls are cancelled.
            reason: Why, for the journal.
            by: Who sends it; by default the system's user.
            id: The command's id.

        Raises:
            CommandRejected: there is no such node or step, or the step is not named.
        """
        command = self._made(Redirect, by, id, reason=reason, node=node, step=step, cut=cut)
        return await self._update("redirect", command)

    async def set_permission(
        self,
        tool: str,
        agents: Sequence[str] | None,
        *,
        reason: str = "",
        by: str | None = None,
        id: str | None = None,
    ) -> CommandResult:
        """Says who may call a tool, from the next call on.

        Args:
            tool: The tool.
            agents: Who may; none: every agent that has it; empty: nobody.
            reason: Why, for the journal.
            by: Who says it; by default the system's user.
            id: The command's id.

        Raises:
            CommandRejected: the crew has no such tool or agent.
        """
        named = None if agents is None else tuple(agents)
        command = self._made(SetPermission, by, id, reason=reason, tool=tool, agents=named)
        return await self._update("set_permission", command)

    async def tag(
        self, checkpoint: int, tag: str, *, by: str | None = None, id: str | None = None
    ) -> CommandId:
        """Gives a checkpoint a name; one that another has moves. A signal, as `pause` is.

        Raises:
            UsageError: the position is no checkpoint, or the name cannot be one.
        """
        return await self._tag(self._made(TagCommand, by, id, checkpoint=checkpoint, tag=tag))

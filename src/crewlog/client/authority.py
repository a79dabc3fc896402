"""Who may do what in a run, and who did: the part of a run's client that asks and sets it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from typing import Literal, TypeVar

from crewlog.definition.findings import did_you_mean
from crewlog.errors import UsageError
from crewlog.ids import AgentName, RunId
from crewlog.model import Json
from crewlog.reporting.audit.auditor import Auditor
from crewlog.reporting.audit.view import AuditFilter, AuditKind, AuditRecord
from crewlog.reporting.events.view import event_of
from crewlog.wire import (
    Command,
    CommandResult,
    JournalPage,
    PermissionsPage,
    PermissionsQuery,
    PermissionView,
    SetPermission,
)

C = TypeVar("C", bound=Command)
PAGE = 1000
"""Journal entries that are read at a time."""


class Authority(ABC):
    """The part of a run's client that is about authority."""

    id: RunId
    """The run's id."""

    @abstractmethod
    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage:
        """A part of the journal."""

    @abstractmethod
    def _made(self, kind: type[C], by: str | None, id: str | None, /, **fields: Json) -> C: ...

    @abstractmethod
    async def _update(self, name: str, command: Command) -> CommandResult: ...

    @abstractmethod
    async def _matrix(self, asked: PermissionsQuery) -> PermissionsPage: ...

    async def permissions(
        self, agents: Sequence[str] = (), tools: Sequence[str] = (), *, checks: bool = False
    ) -> PermissionsPage:
        """Who may call which tool now, and why: all cells of the matrix that are asked for.

        A run that has ended, or that no worker answers for, is read from the store.

        Args:
            agents: The agents; none: all of them.
            tools: The tools; none: all of them.
            checks: Whether each cell has every rule that was looked at.

        Raises:
            UsageError: the run has no such agent or tool.
            RunNotFound: there is no such run.
            StoreUnavailable: only the store could tell, and it is away.
        """
        cells: list[PermissionView] = []
        while True:
            page = await self._matrix(
                PermissionsQuery(
                    agents=tuple(agents),
                    tools=tuple(tools),
                    checks=checks,
                    after=len(cells),
                    limit=PAGE,
                )
            )
            self._check_names(page, agents, tools)
            cells += page.cells
            if not page.cells or len(cells) >= page.total:
                return page.model_copy(update={"cells": tuple(cells)})

    def _check_names(
        self, page: PermissionsPage, agents: Sequence[str], tools: Sequence[str]
    ) -> None:
        for kind, named, known in (("agent", agents, page.agents), ("tool", tools, page.tools)):
            for name in named:
                if (
                    kind == "agent"
                    and (home := page.remote_agents.get(AgentName(name))) is not None
                ):
                    raise UsageError(
                        f"{name!r} lives in {home!r} since the graph was split",
                        remedy=f"Name that run: {home}",
                        place=f"run {self.id!r}",
                    )
                if name not in known:
                    say = f"{kind.capitalize()}s: {', '.join(known) or 'none'}."
                    raise UsageError(
                        f"there is no {kind} {name!r} in the run {self.id!r}",
                        remedy=did_you_mean(name, known, say),
                        place=f"run {self.id!r}",
                    )

    async def why(self, agent: str, tool: str) -> PermissionView:
        """Why an agent may call a tool, or may not: with every rule that was looked at.

        Raises:
            UsageError: the run has no such agent or tool.
        """
        return (await self.permissions([agent], [tool], checks=True)).cells[0]

    async def rule(
        self,
        agent: str,
        tool: str,
        do: Literal["allow", "ask", "deny", "inherit"],
        *,
        reason: str = "",
        by: str | None = None,
        graph_version: int | None = None,
        id: str | None = None,
    ) -> CommandResult:
        """Rules of an agent's calls of a tool, from the next call on: in the definition's place.

        `allow`, `ask_first`, `deny` and `inherit` are short for it.

        Args:
            agent: The agent; `*`: every one that has the tool.
            tool: The tool.
            do: `inherit` takes back what was ruled.
            reason: Why, for the journal.
            by: Who rules; by default the system's user.
            graph_version: The version that it was decided for: where the run has another one, it
                refuses. None: any.
            id: The command's id, to repeat a command whose outcome is not known.

        Raises:
            CommandRejected: the crew has no such tool or agent, or the run has ended.
            ChangeConflict: the run has another graph.
        """
        command = self._made(
            SetPermission,
            by,
            id,
            reason=reason,
            tool=tool,
            agent=agent,
            do=do,
            graph_version=graph_version,
        )
        return await self._update("set_permission", command)

    async def allow(
        self, agent: str, tool: str, *, reason: str = "", by: str | None = None
    ) -> CommandResult:
        """Lets an agent call a tool of the crew; see `rule`."""
        return await self.rule(agent, tool, "allow", reason=reason, by=by)

    async def ask_first(
        self, agent: str, tool: str, *, reason: str = "", by: str | None = None
    ) -> CommandResult:
        """Makes each call wait for a person's yes; see `rule`."""
        return await self.rule(agent, tool, "ask", reason=reason, by=by)

    async def deny(
        self, agent: str, tool: str, *, reason: str = "", by: str | None = None
    ) -> CommandResult:
        """Lets an agent not call a tool; see `rule`."""
        return await self.rule(agent, tool, "deny", reason=reason, by=by)

    async def inherit(
        self, agent: str, tool: str, *, reason: str = "", by: str | None = None
    ) -> CommandResult:
        """Takes back what was ruled: what the definition says holds again; see `rule`."""
        return await self.rule(agent, tool, "inherit", reason=reason, by=by)

    async def disable_tool(
        self, tool: str, *, reason: str = "", by: str | None = None
    ) -> CommandResult:
        """Switches a tool off for every agent; see `rule`."""
        return await self.rule("*", tool, "deny", reason=reason, by=by)

    async def enable_tool(
        self, tool: str, *, reason: str = "", by: str | None = None
    ) -> CommandResult:
        """Switches a tool on again: what the definition says holds; see `rule`."""
        return await self.rule("*", tool, "inherit", reason=reason, by=by)

    async def audit(
        self,
        *,
        agent: str = "",
        tool: str = "",
        kinds: Sequence[AuditKind] = (),
        outcome: str = "",
        since: int = 0,
    ) -> AsyncGenerator[AuditRecord]:
        """What was checked, called, asked, decided, commanded and refused until now, in order.

        It is made of the journal, page by page: it takes no more memory for a long run, and a run
        that has ended is read from the store.

        Args:
            agent: Only what is about this agent, or was said by somebody of this name.
            tool: Only what is about this tool.
            kinds: Only these kinds: `check`, `call`, `question`, `decision`, `command`, `refusal`.
            outcome: Only this outcome, e.g. `denied`.
            since: Only from this time on, in milliseconds since the epoch.

        Raises:
            RunNotFound: there is no such run.
            StoreUnavailable: older entries are needed, and the store is away.
            StoreIncomplete: the store lacks some of them.
        """
        wanted = AuditFilter(
            agent=agent, tool=tool, kinds=tuple(kinds), outcome=outcome, since=since
        )
        audit, after = Auditor(), 0
        while True:
            page = await self.journal(after, PAGE)
            for item in page.entries:
                event = event_of(self.id, item.position, item.data)
                for record in audit.add(event.position, event.entry):
                    if wanted.matches(record):
                        yield record
                after = item.position
            if not page.entries or after >= page.position:
                break
        for record in filter(wanted.matches, audit.flush()):
            yield record

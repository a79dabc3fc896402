"""Who may do what in a run, and who did: the part of a run's client that asks and sets it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence

from crewlog.client.events import event_of
from crewlog.ids import RunId
from crewlog.state.audit import Audit
from crewlog.state.audit_records import AuditFilter, AuditKind, AuditRecord
from crewlog.wire import JournalPage

PAGE = 1000
"""Journal entries that are read at a time."""


class Authority(ABC):
    """The part of a run's client that is about authority."""

    id: RunId
    """The run's id."""

    @abstractmethod
    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage:
        """A part of the journal."""

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
        audit, after = Audit(), 0
        while True:
            page = await self.journal(after, PAGE)
            for item in page.entries:
                event = event_of(self.id, item)
                for record in audit.take(event.position, event.entry):
                    if wanted.wants(record):
                        yield record
                after = item.position
            if not page.entries or after >= page.position:
                break
        for record in filter(wanted.wants, audit.settle()):
            yield record

"""The audit records of a whole journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crewlog.reporting.audit.auditor import Auditor
from crewlog.reporting.audit.view import AuditFilter, AuditRecord
from crewlog.state import journal as j


def audit_records(
    entries: Iterable[tuple[int, j.JournalEntry]], only: AuditFilter | None = None
) -> Iterator[AuditRecord]:
    """The audit records of a journal, each entry with its position."""
    auditor, selected = Auditor(), only or AuditFilter()
    for position, entry in entries:
        yield from filter(selected.matches, auditor.add(position, entry))
    yield from filter(selected.matches, auditor.flush())

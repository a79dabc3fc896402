"""An audit as typed records, and the filter that selects them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from crewlog.ids import RunId
from crewlog.model import Model

AuditKind = Literal["check", "call", "question", "decision", "command", "refusal"]


class AuditRecord(Model):
    """A check, a call, an interrupt, a decision, a command or a refusal."""

    position: int
    """The position of its entry in the journal."""
    at: int = 0
    """When, in milliseconds since the epoch."""
    kind: AuditKind
    """`check`: whether an agent may call a tool. `call`: a tool call with its result. `question`:
    an interrupt. `decision`: an answer, or a decision about a definition. `command`: a command that
    was applied. `refusal`: a command that was refused."""
    principal: str = ""
    """The agent, or the principal of a decision or command; empty: the run itself, or unknown."""
    action: str
    """The tool, the kind of the interrupt, or the name of the command on the wire."""
    outcome: str
    """Of a check `allowed`, `asked` or `denied`; of a call `returned` or `failed`; of a question
    `asked`; of a decision the answer; of a command `applied`, `in force` or `failed`; `refused`."""
    reason: str = ""
    """Why, for people."""
    rule: str = ""
    """Of a denied or asked check: the permission that decided: `rules[1]`."""
    detail: str = ""
    """An excerpt of the arguments of a call, or the content of a command."""
    agent: str = ""
    """The agent of the call."""
    tool: str = ""
    """The tool."""
    step: str = ""
    """The step."""
    call: int | None = None
    """The number of the call in the step."""
    interrupt: str = ""
    """The id of the interrupt."""
    command: str = ""
    """The id of the command."""


class AuditRecordView(AuditRecord):
    """An audit record as a client reads it. An audit is a stream of them, one JSON line each."""

    run: RunId
    time: str
    """`at` in ISO 8601, in UTC."""


def audit_record_view(run: RunId, record: AuditRecord) -> AuditRecordView:
    """The view of a record of a run's audit."""
    time = datetime.fromtimestamp(record.at / 1000, UTC).isoformat()
    return AuditRecordView(run=run, time=time, **dict(record))


class AuditFilter(Model):
    """Selects audit records; an empty field selects all."""

    agent: str = ""
    """Only records about calls of this agent, or by a principal of this name."""
    tool: str = ""
    """Only records about this tool."""
    kinds: tuple[AuditKind, ...] = ()
    """Only these kinds."""
    since: int = 0
    """Only records from this time on, in milliseconds since the epoch."""
    outcome: str = ""
    """Only this outcome."""

    def matches(self, record: AuditRecord) -> bool:
        """Whether the filter selects a record."""
        return (
            (not self.agent or self.agent in (record.agent, record.principal))
            and (not self.tool or record.tool == self.tool)
            and (not self.kinds or record.kind in self.kinds)
            and (not self.outcome or record.outcome == self.outcome)
            and record.at >= self.since
        )

"""An audit as typed records, and the filter that selects them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from crewlog.ids import RunId
from crewlog.model import Model

AuditKind = Literal["check", "call", "question", "decision", "command", "refusal"]


class AuditRecord(Model):
    """One thing that was checked, done, asked, decided, commanded or refused."""

    position: int
    """The journal position of the entry that says it."""
    at: int = 0
    """When, in milliseconds since the epoch."""
    kind: AuditKind
    """`check`: whether an agent may call a tool. `call`: a call that was made. `question`: people
    were asked. `decision`: people answered, or approved a definition. `command`: it was applied.
    `refusal`: it was not."""
    who: str = ""
    """The agent, or the person who decided or commanded; empty: the run, or nobody said it."""
    what: str
    """The tool, the kind of question, or the command's name on the wire."""
    outcome: str
    """Of a check `allowed`, `asked` or `denied`; of a call `returned` or `failed`; of a question
    `asked`; of a decision the answer; of a command `applied`, `in force` or `failed`; `refused`."""
    reason: str = ""
    """Why, in words."""
    rule: str = ""
    """Of a denied or asked check: what decided, as `rules[1]`."""
    detail: str = ""
    """What about: the start of a call's arguments, what a command asked for."""
    agent: str = ""
    """The agent whose call it is about."""
    tool: str = ""
    """The tool that it is about."""
    step: str = ""
    """The step."""
    call: int | None = None
    """The call of the step."""
    interrupt: str = ""
    """The question."""
    command: str = ""
    """The command's id."""


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
    """Which records are wanted; what is left out does not narrow."""

    agent: str = ""
    """Only what is about this agent's calls, or said by somebody of this name."""
    tool: str = ""
    """Only what is about this tool."""
    kinds: tuple[AuditKind, ...] = ()
    """Only these kinds."""
    since: int = 0
    """Only from this time on, in milliseconds since the epoch."""
    outcome: str = ""
    """Only this outcome."""

    def wants(self, record: AuditRecord) -> bool:
        """Whether a record is wanted."""
        return (
            (not self.agent or self.agent in (record.agent, record.who))
            and (not self.tool or record.tool == self.tool)
            and (not self.kinds or record.kind in self.kinds)
            and (not self.outcome or record.outcome == self.outcome)
            and record.at >= self.since
        )

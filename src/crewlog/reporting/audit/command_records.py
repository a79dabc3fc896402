"""The audit records of commands and of decisions about a definition."""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.definition.findings import listed
from crewlog.reporting.audit.view import AuditKind, AuditRecord
from crewlog.state import journal as j
from crewlog.state.excerpt import sentences
from crewlog.state.live_permissions import permission_description

_COMMANDS: dict[type[j.Entry], str] = {
    j.MessageAdded: "message",
    j.MessageQueued: "message",
    j.BreakpointSet: "interrupt",
    j.Paused: "pause",
    j.RunResumed: "resume",
    j.StopRequested: "stop",
    j.ChangeAccepted: "change",
    j.DefinitionChanged: "change",
    j.ComponentChanged: "change",
    j.MergeRequested: "change",
    j.ToolPermissionSet: "set_permission",
    j.AgentPermissionSet: "set_permission",
    j.StateEdited: "edit_state",
    j.StepRedirected: "redirect",
    j.CheckpointTagged: "tag",
    j.RunRolledBack: "rollback",
    j.RunStarted: "start",
    j.PromptReceived: "start",
    j.RunForked: "fork",
    j.RunReopened: "reopen",
}
"""The command by its entry."""


def command_records(position: int, entry: j.JournalEntry) -> Iterator[AuditRecord]:
    """The records of a command, or of a decision about a definition.

    Args:
        position: The position of the entry.
        entry: Any entry; without a command it makes no record.
    """
    match entry:
        case j.CommandRejected():
            refusal = _record(
                position, entry, "refusal", entry.name, "refused",
                reason=sentences(entry.reason), detail=entry.answer_excerpt,
            )  # fmt: skip
            yield refusal.model_copy(update={"interrupt": entry.interrupt})
        case j.DefinitionApproved():
            yield _record(
                position, entry, "decision", "approval", "approve", detail=entry.definition
            )
        case j.DefinitionRejected():
            yield _record(
                position, entry, "decision", "approval", "reject", detail=entry.definition
            )
        case j.DefinitionEdited():
            yield _record(position, entry, "decision", "approval", "edit", detail=entry.definition)
        case j.GraphSwapped() | j.RunMerged():
            detail = f"graph v{entry.graph_version}: {entry.what}"
            yield _record(position, entry, "command", "change", "in force", detail=detail)
        case j.SwapFailed():
            detail = f"graph v{entry.graph_version}"
            yield _record(
                position, entry, "command", "change", "failed", detail=detail, reason=entry.error
            )
        case j.MergeFailed():
            detail = f"run merge with {entry.other}"
            yield _record(
                position, entry, "command", "change", "failed", detail=detail, reason=entry.reason
            )
        case j.RunEndedByMerge():
            detail = f"run merge with {entry.run}"
            yield _record(position, entry, "command", "change", "in force", detail=detail)
        case j.MessageAdded() if entry.command is None:
            return  # the run input: the start has a record
        case j.MessageQueued() if entry.command is None:
            return  # of a rollback, which has a record
        case _:
            name = _COMMANDS.get(type(entry), "")
            # An entry that is not in the table is of a command if it has the id of one.
            if name or getattr(entry, "command", None):
                name = name or entry.kind
                yield _record(position, entry, "command", name, "applied", detail=_detail(entry))


def _record(
    position: int,
    entry: j.JournalEntry,
    kind: AuditKind,
    what: str,
    outcome: str,
    *,
    detail: str = "",
    reason: str = "",
) -> AuditRecord:
    """The record of a command."""
    return AuditRecord(
        position=position,
        at=entry.at,
        kind=kind,
        principal=str(getattr(entry, "by", "")),
        action=what,
        outcome=outcome,
        reason=reason or str(getattr(entry, "reason", "")),
        detail=detail,
        tool=str(getattr(entry, "tool", "")),
        agent=str(getattr(entry, "agent", "")),
        command=str(getattr(entry, "command", None) or ""),
    )


def _detail(entry: j.JournalEntry) -> str:
    """The content of a command, in a line."""
    match entry:
        case j.ToolPermissionSet():
            if entry.agents is None:
                return f"every agent that has {entry.tool} may call it"
            return f"{listed(entry.agents) if entry.agents else 'nobody'} may call {entry.tool}"
        case j.AgentPermissionSet():
            return permission_description(entry.tool, entry.agent, entry.do)
        case j.ChangeAccepted():
            return f"to graph v{entry.graph_version}: {entry.what}"
        case j.DefinitionChanged() | j.ComponentChanged() | j.MergeRequested():
            return entry.what
        case j.StateEdited():
            return ", ".join(f"{'– ' if e.delete else ''}{e.path}" for e in entry.edits)  # noqa: RUF001
        case j.MessageAdded() | j.MessageQueued():
            return f"to {', '.join(entry.ref.logs)}"
        case j.RunStarted():
            return f"crew {entry.crew}"
        case j.BreakpointSet():
            return f"before {'the next step' if entry.node == '*' else entry.node}"
        case j.StepRedirected():
            return f"{entry.step} goes to {entry.node}"
        case j.CheckpointTagged():
            return f"@{entry.checkpoint} is called {entry.tag}"
        case _:
            return _checkpoint_detail(entry)


def _checkpoint_detail(entry: j.JournalEntry) -> str:
    """The checkpoint that a command names; empty if it names none."""
    match entry:
        case j.RunRolledBack() | j.RunReopened():
            return f"to @{entry.to}"
        case j.RunForked():
            return f"from {entry.source}@{entry.checkpoint or entry.to}"
        case _:
            return ""

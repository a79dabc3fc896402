"""Builds audit records from a journal: checks, calls, interrupts, decisions, commands, refusals.

The auditor reads one entry at a time, so that a client can audit a long run page by page. The
journal has no entry for an allowed call: it follows from the tool calls of the AI message and from
the next entries. The denials and interrupts of an AI message follow it directly, in the order of
its calls. So a call is allowed if an entry follows that does not deny it and does not ask about it.
Its record comes after that entry and has the position of the AI message. Likewise, if a worker
denies a call, the journal has a failed call and then the denial.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from crewlog.authority.permissions import LIVE_PERMISSION
from crewlog.ids import StepId
from crewlog.model import Json
from crewlog.reporting.audit.command_records import command_records
from crewlog.reporting.audit.permission_history import PermissionHistory
from crewlog.reporting.audit.view import AuditKind, AuditRecord
from crewlog.state import journal as j
from crewlog.state.body_metadata import argument_changes, edited_arguments_excerpt
from crewlog.state.excerpt import excerpt
from crewlog.state.model import Call, Interrupt

Key = tuple[StepId, int]
"""A call: its step, and its number within the step."""
LONGEST_FAILURE = 500
"""Characters of the reason for which a call failed."""


class Auditor:
    """Builds audit records from the entries of a journal.

    Its memory is limited by the pending calls and the open interrupts of the run.
    """

    def __init__(self) -> None:
        self._last_message: tuple[j.ModelCallCompleted, int, list[Call]] | None = None
        """The last AI message, its position, and its calls that may remaining be denied."""
        self._calls: dict[Key, tuple[str, str, str]] = {}
        """Agent, tool and excerpt of the arguments of each call without a result."""
        self._edited_arguments: dict[Key, str] = {}
        """Excerpt of the arguments with which people replaced those of a call."""
        self._denied: set[Key] = set()
        """Denied calls whose result is not in the journal yet."""
        self._interrupts: dict[str, Interrupt] = {}
        """The open interrupts."""
        self._last_failure: AuditRecord | None = None
        """The record of the last call if it failed: the next entry may say that it was denied."""
        self._permissions = PermissionHistory()

    def add(self, position: int, entry: j.JournalEntry) -> list[AuditRecord]:
        """The records that an entry completes.

        Args:
            position: The position of the entry.
            entry: The entry.
        """
        found = [
            *self._failed_call(entry),
            *self._allowed_calls(entry),
            *self._records(position, entry),
        ]
        if isinstance(entry, j.ModelCallCompleted) and entry.calls:
            self._last_message = (entry, position, list(entry.calls))
            for call in entry.calls:
                self._calls[entry.step, call.call] = (entry.agent, call.tool or "", call.excerpt)
        return found

    def flush(self) -> list[AuditRecord]:
        """The records that depend on the next entry, as if none follows."""
        return [*self._failed_call(None), *self._allowed_calls(None)]

    def _failed_call(self, entry: j.JournalEntry | None) -> Iterator[AuditRecord]:
        """The record of the last failed call, unless this entry says that it was denied."""
        failure, self._last_failure = self._last_failure, None
        if failure is None:
            return
        call = (entry.step, entry.call) if isinstance(entry, j.PermissionDenied) else None
        if call != (failure.step, failure.call):
            yield failure

    def _allowed_calls(self, entry: j.JournalEntry | None) -> Iterator[AuditRecord]:
        """The records of the calls of the last AI message that are allowed, as this entry shows."""
        if self._last_message is None or isinstance(entry, j.QuotaConsumed | j.QuotaReleased):
            return  # a call is counted in its quotas before its interrupt
        reply, position, calls = self._last_message
        number = _checked_call(entry, reply.step, {call.call for call in calls})
        for call in calls:
            if number is None or call.call < number:
                yield self._check(reply, position, call)
        remaining = [call for call in calls if number is not None and call.call > number]
        self._last_message = (reply, position, remaining) if remaining else None

    def _check(self, reply: j.ModelCallCompleted, position: int, call: Call) -> AuditRecord:
        tool = call.tool or ""
        return AuditRecord(
            position=position,
            at=reply.at,
            kind="check",
            principal=reply.agent,
            action=tool,
            outcome="allowed",
            reason=self._permissions.allow_reason(reply.agent, tool),
            detail=call.excerpt,
            agent=reply.agent,
            tool=tool,
            step=reply.step,
            call=call.call,
        )

    def _records(self, position: int, entry: j.JournalEntry) -> Iterator[AuditRecord]:
        match entry:
            case j.PermissionDenied():
                key = (entry.step, entry.call)
                if key in self._calls:  # else a value that a call set was refused
                    self._denied.add(key)
                denied = _call_record(position, entry, "check", "denied", entry.reason)
                yield denied.model_copy(update={"detail": self._arguments(key)})
            case j.ToolCallCompleted():
                key = (entry.step, entry.call)
                if key not in self._denied:
                    outcome, reason = ("returned", "") if entry.ok else ("failed", _failure(entry))
                    record = _call_record(position, entry, "call", outcome, reason)
                    record = record.model_copy(update={"detail": self._arguments(key)})
                    if entry.ok:
                        yield record
                    else:
                        self._last_failure = record
                self._calls.pop(key, None)
                self._edited_arguments.pop(key, None)
                self._denied.discard(key)
            case j.InterruptRaised():
                yield from self._interrupt_records(position, entry)
            case j.InterruptAnswered():
                yield self._decision(position, entry)
            case _:
                self._track(position, entry)
                yield from command_records(position, entry)

    def _interrupt_records(self, position: int, entry: j.InterruptRaised) -> Iterator[AuditRecord]:
        asked = entry.interrupt
        self._interrupts[asked.id] = asked
        if asked.kind == "tool_approval":  # a repeated one is about the original arguments
            self._edited_arguments.pop(_key(asked), None)
        fields = self._call_fields(asked)
        record = AuditRecord(
            position=position,
            at=entry.at,
            kind="question",
            action=asked.kind,
            outcome="asked",
            reason=asked.question,
            interrupt=asked.id,
            **fields,
        )
        if asked.kind == "tool_approval":
            reason = asked.reason
            if asked.rule == LIVE_PERMISSION:  # the journal has the principal and the position
                reason = self._permissions.ask_reason(record.agent, asked.tool) or reason
            check = {
                "kind": "check",
                "principal": record.agent,
                "action": asked.tool,
                "reason": reason,
                "rule": asked.rule,
            }
            yield record.model_copy(update=check)
        yield record

    def _decision(self, position: int, entry: j.InterruptAnswered) -> AuditRecord:
        asked = self._interrupts.pop(entry.interrupt, None)
        if asked is not None and asked.kind == "tool_approval" and entry.decision == asked.refusal:
            # The result that follows in the journal is the refusal: the tool was not called.
            self._denied.add(_key(asked))
        if asked is not None and isinstance(entry.inline, dict):
            args: dict[str, Json] = entry.inline  # pyright: ignore[reportUnknownVariableType]
            self._edited_arguments[_key(asked)] = edited_arguments_excerpt(args, asked.args)
        fields = self._call_fields(asked) if asked is not None else {}
        if asked is not None and (edit := argument_changes(entry.inline, asked.args)):
            fields["detail"] = edit  # these are the arguments of the call
        return AuditRecord(
            position=position,
            at=entry.at,
            kind="decision",
            principal=entry.by,
            action=asked.kind if asked is not None else "",
            outcome=entry.decision,
            reason=entry.reason,
            interrupt=entry.interrupt,
            command=entry.command or "",
            **fields,
        )

    def _call_fields(self, asked: Interrupt) -> dict[str, Any]:
        """The fields of a record about the call of an interrupt."""
        agent, tool, _ = self._calls.get(_key(asked), ("", asked.tool, ""))
        return {
            "step": asked.step or "",
            "call": asked.call,
            "agent": agent,
            "tool": asked.tool or tool,
            "detail": self._arguments(_key(asked)),
        }

    def _arguments(self, key: Key) -> str:
        """An excerpt of the arguments with which a call is made."""
        *_, arguments = self._calls.get(key, ("", "", ""))
        return self._edited_arguments.get(key, arguments)

    def _track(self, position: int, entry: j.JournalEntry) -> None:
        self._permissions.add(position, entry)
        if isinstance(entry, j.RunRolledBack):  # it withdraws the calls and interrupts
            self._calls, self._denied, self._interrupts = {}, set(), {}
            self._edited_arguments = {}


def _key(asked: Interrupt) -> Key:
    """The call of an interrupt."""
    return asked.step or StepId(""), asked.call or 0


def _checked_call(
    entry: j.JournalEntry | None, step: StepId, open_calls: Collection[int]
) -> int | None:
    """The call of an AI message that an entry denies or asks about; none if it does neither.

    After a denial, the journal has the result that the model reads. The result of an open call
    means that the call was made, and so that all calls of its AI message were checked.
    """
    match entry:
        case j.PermissionDenied() if entry.step == step:
            return entry.call
        case j.ToolCallCompleted() | j.CompletionBuffered() if (
            entry.step == step and entry.call not in open_calls
        ):
            return entry.call
        case j.InterruptRaised(interrupt=asked) if asked.kind == "tool_approval":
            return asked.call if asked.step == step else None
        case _:
            return None


def _failure(entry: j.ToolCallCompleted) -> str:
    """Why a call failed: the whole text if the journal has it, else an excerpt."""
    body = entry.ref.inline
    content: Any = body.get("content") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return excerpt(content, LONGEST_FAILURE) if isinstance(content, str) else entry.excerpt


def _call_record(
    position: int,
    entry: j.PermissionDenied | j.ToolCallCompleted,
    kind: AuditKind,
    outcome: str,
    reason: str,
) -> AuditRecord:
    return AuditRecord(
        position=position,
        at=entry.at,
        kind=kind,
        principal=entry.agent,
        action=entry.tool,
        outcome=outcome,
        reason=reason,
        agent=entry.agent,
        tool=entry.tool,
        step=entry.step,
        call=entry.call,
        rule=entry.rule if isinstance(entry, j.PermissionDenied) else "",
    )

"""Folds a journal to audit records: checks, calls, questions, decisions, commands and refusals.

The fold takes entry by entry, so that a long run is audited page by page. Nothing is journaled for
it: that a call was allowed follows from the tool calls of its AI message and from the next entries.
The refusals and questions of an AI message stand right behind it, in the order of its calls. So a
call is allowed once an entry follows that is not about it, and its record comes one entry later
than the AI message, with the position of that message. In the same way a call that a worker refused
to make is recorded as a failed call, and the refusal follows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from crewlog.ids import StepId
from crewlog.model import Json
from crewlog.reporting.audit.command_records import command_records
from crewlog.reporting.audit.permission_history import PermissionHistory
from crewlog.reporting.audit.view import AuditFilter, AuditKind, AuditRecord
from crewlog.state import journal as j
from crewlog.state.body_metadata import argument_changes, edited_arguments_excerpt
from crewlog.state.excerpt import excerpt
from crewlog.state.model import Call, Interrupt

Key = tuple[StepId, int]
"""A call: its step, and its number there."""
LONGEST_FAILURE = 500
"""Characters of why a call failed."""


class Auditor:
    """Makes audit records of journal entries, as these come.

    What it remembers is bounded by what is under way in the run.
    """

    def __init__(self) -> None:
        self._asked: tuple[j.ModelCallCompleted, int, list[Call]] | None = None
        """The last reply, its position, and those of its calls that nothing was said of yet."""
        self._calls: dict[Key, tuple[str, str, str]] = {}
        """The agent, the tool and the start of the arguments of each call that is not answered."""
        self._edited: dict[Key, str] = {}
        """The start of the arguments that people gave one of these calls: they are what runs."""
        self._refused: set[Key] = set()
        """Calls that were refused, where the model has not been told so yet."""
        self._questions: dict[str, Interrupt] = {}
        """The open questions."""
        self._failed: AuditRecord | None = None
        """The last call, where it failed: perhaps it was refused, and not made."""
        self._grants = PermissionHistory()

    def take(self, position: int, entry: j.JournalEntry) -> list[AuditRecord]:
        """The records that an entry makes, after those that were waiting for it."""
        found = [*self._made(entry), *self._allowed(entry), *self._records(position, entry)]
        if isinstance(entry, j.ModelCallCompleted) and entry.calls:
            self._asked = (entry, position, list(entry.calls))
            for call in entry.calls:
                self._calls[entry.step, call.call] = (entry.agent, call.tool or "", call.excerpt)
        return found

    def settle(self) -> list[AuditRecord]:
        """What was waiting for a next entry, where there is none yet."""
        return [*self._made(None), *self._allowed(None)]

    def _made(self, entry: j.JournalEntry | None) -> Iterator[AuditRecord]:
        """The call that failed last, where this entry does not say that it was refused."""
        held, self._failed = self._failed, None
        if held is None:
            return
        call = (entry.step, entry.call) if isinstance(entry, j.PermissionDenied) else None
        if call != (held.step, held.call):
            yield held

    def _allowed(self, entry: j.JournalEntry | None) -> Iterator[AuditRecord]:
        """The calls of the last reply that are allowed, as this entry shows."""
        if self._asked is None or isinstance(entry, j.QuotaConsumed | j.QuotaReleased):
            return  # a call is counted before people are asked about it
        reply, position, calls = self._asked
        number = _judged_call(entry, reply.step, {call.call for call in calls})
        for call in calls:
            if number is None or call.call < number:
                yield self._check(reply, position, call)
        still = [call for call in calls if number is not None and call.call > number]
        self._asked = (reply, position, still) if still else None

    def _check(self, reply: j.ModelCallCompleted, position: int, call: Call) -> AuditRecord:
        tool = call.tool or ""
        return AuditRecord(
            position=position,
            at=reply.at,
            kind="check",
            who=reply.agent,
            what=tool,
            outcome="allowed",
            reason=self._grants.why(reply.agent, tool),
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
                if key in self._calls:  # else it was made, and what it set was refused
                    self._refused.add(key)
                denied = _called(position, entry, "check", "denied", entry.reason)
                yield denied.model_copy(update={"detail": self._brief(key)})
            case j.ToolCallCompleted():
                key = (entry.step, entry.call)
                if key not in self._refused:
                    outcome, reason = ("returned", "") if entry.ok else ("failed", _failure(entry))
                    called = _called(position, entry, "call", outcome, reason)
                    called = called.model_copy(update={"detail": self._brief(key)})
                    if entry.ok:
                        yield called
                    else:
                        self._failed = called
                self._calls.pop(key, None)
                self._edited.pop(key, None)
                self._refused.discard(key)
            case j.InterruptRaised():
                yield from self._question(position, entry)
            case j.InterruptAnswered():
                yield self._answer(position, entry)
            case _:
                self._learn(position, entry)
                yield from command_records(position, entry)

    def _question(self, position: int, entry: j.InterruptRaised) -> Iterator[AuditRecord]:
        asked = entry.interrupt
        self._questions[asked.id] = asked
        if asked.kind == "tool_approval":  # once more: it is about what the message says again
            self._edited.pop(_key(asked), None)
        about = self._about(asked)
        record = AuditRecord(
            position=position,
            at=entry.at,
            kind="question",
            what=asked.kind,
            outcome="asked",
            reason=asked.question,
            interrupt=asked.id,
            **about,
        )
        if asked.kind == "tool_approval":
            why = asked.reason
            if asked.rule == "ruling":  # the journal has who ruled, and where
                why = self._grants.ask_reason(record.agent, asked.tool) or why
            of = {"who": record.agent, "what": asked.tool, "reason": why, "rule": asked.rule}
            changed = {"kind": "check", **of}
            yield record.model_copy(update=changed)
        yield record

    def _answer(self, position: int, entry: j.InterruptAnswered) -> AuditRecord:
        asked = self._questions.pop(entry.interrupt, None)
        if asked is not None and asked.kind == "tool_approval" and entry.decision == asked.refusal:
            # The model is told of it as of a result, and nothing was called.
            self._refused.add(_key(asked))
        if asked is not None and isinstance(entry.inline, dict):
            args: dict[str, Json] = entry.inline  # pyright: ignore[reportUnknownVariableType]
            self._edited[_key(asked)] = edited_arguments_excerpt(args, asked.args)
        about = self._about(asked) if asked is not None else {}
        if asked is not None and (edit := argument_changes(entry.inline, asked.args)):
            about["detail"] = edit  # it is what runs, and not what was asked for
        return AuditRecord(
            position=position,
            at=entry.at,
            kind="decision",
            who=entry.by,
            what=asked.kind if asked is not None else "",
            outcome=entry.decision,
            reason=entry.reason,
            interrupt=entry.interrupt,
            command=entry.command or "",
            **about,
        )

    def _about(self, asked: Interrupt) -> dict[str, Any]:
        """What a record says of the call that a question is about."""
        agent, tool, _ = self._calls.get(_key(asked), ("", asked.tool, ""))
        about = {"step": asked.step or "", "call": asked.call, "agent": agent}
        return {**about, "tool": asked.tool or tool, "detail": self._brief(_key(asked))}

    def _brief(self, key: Key) -> str:
        """The start of a call's arguments, as it is made."""
        *_, asked = self._calls.get(key, ("", "", ""))
        return self._edited.get(key, asked)

    def _learn(self, position: int, entry: j.JournalEntry) -> None:
        self._grants.learn(position, entry)
        if isinstance(entry, j.RunRolledBack):  # its calls and questions are withdrawn
            self._calls, self._refused, self._questions = {}, set(), {}
            self._edited = {}


def _key(asked: Interrupt) -> Key:
    """The call that a question is about."""
    return asked.step or StepId(""), asked.call or 0


def _judged_call(entry: j.JournalEntry | None, step: StepId, open_: Collection[int]) -> int | None:
    """The call of a reply that an entry refuses, or asks about; none where it does neither.

    A refusal is followed by what the model is told of it. The result of a call that nothing was
    said of is none: it was made, so all calls of its reply have been judged.
    """
    match entry:
        case j.PermissionDenied() if entry.step == step:
            return entry.call
        case j.ToolCallCompleted() | j.CompletionBuffered() if (
            entry.step == step and entry.call not in open_
        ):
            return entry.call
        case j.InterruptRaised(interrupt=asked) if asked.kind == "tool_approval":
            return asked.call if asked.step == step else None
        case _:
            return None


def _failure(entry: j.ToolCallCompleted) -> str:
    """Why a call failed: whole where the journal has it, as of what the run itself answers."""
    body = entry.ref.inline
    said: Any = body.get("content") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return excerpt(said, LONGEST_FAILURE) if isinstance(said, str) else entry.excerpt


def _called(
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
        who=entry.agent,
        what=entry.tool,
        outcome=outcome,
        reason=reason,
        agent=entry.agent,
        tool=entry.tool,
        step=entry.step,
        call=entry.call,
        rule=entry.rule if isinstance(entry, j.PermissionDenied) else "",
    )


def audit_records(
    entries: Iterable[tuple[int, j.JournalEntry]], wanted: AuditFilter | None = None
) -> Iterator[AuditRecord]:
    """The records of a whole journal, or those of them that are wanted."""
    audit, keep = Auditor(), wanted or AuditFilter()
    for position, entry in entries:
        yield from filter(keep.wants, audit.take(position, entry))
    yield from filter(keep.wants, audit.settle())

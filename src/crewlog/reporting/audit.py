"""The audit of a run: who was allowed what, who decided, who commanded, and what was refused.

A pure fold of the journal, entry by entry, so that a long run is audited page by page. Nothing is
journaled for it: that a call was allowed follows from what its reply asked for and from what came
next. The refusals and the questions of a reply stand right behind it, in the order of its calls.
So a call is allowed once an entry follows that is not about it, and its record comes one entry
later than the reply, with the reply's position. In the same way a call that a worker refused to
make stands as an error that the model was told, and behind it the refusal.

What an audit says: its records, and which of them are wanted.

Commands and decisions in an audit: who did what to the run, from what it left in the journal.

Why a call was allowed, as far as a journal says it: permissions and rulings at that place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal

from crewlog.authority.permissions import (
    EVERYONE,
    Rulings,
    with_live_permission,
    without_milder_permissions,
)
from crewlog.definition.findings import listed
from crewlog.ids import StepId
from crewlog.model import Json, Model
from crewlog.state import journal as j
from crewlog.state.body_metadata import argument_changes, edited_arguments_excerpt
from crewlog.state.excerpt import brief, sentences
from crewlog.state.live_permissions import permission_description
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
                self._calls[entry.step, call.call] = (entry.agent, call.tool or "", call.brief)
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
            detail=call.brief,
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
            why = asked.why
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
    return brief(said, LONGEST_FAILURE) if isinstance(said, str) else entry.brief


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


_COMMANDS: dict[type[j.Fact], str] = {
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
"""What people or programs do to a run, by what it leaves in the journal."""


def command_records(position: int, entry: j.JournalEntry) -> Iterator[AuditRecord]:
    """The record of a command that was applied or refused, or of a decision about a definition."""
    match entry:
        case j.CommandRejected():
            refusal = _by(
                position, entry, "refusal", entry.name, "refused",
                reason=sentences(entry.reason), detail=entry.tried,
            )  # fmt: skip
            yield refusal.model_copy(update={"interrupt": entry.interrupt})
        case j.DefinitionApproved():
            yield _by(position, entry, "decision", "approval", "approve", detail=entry.definition)
        case j.DefinitionRejected():
            yield _by(position, entry, "decision", "approval", "reject", detail=entry.definition)
        case j.DefinitionEdited():
            yield _by(position, entry, "decision", "approval", "edit", detail=entry.definition)
        case j.GraphSwapped() | j.RunMerged():
            words = f"graph v{entry.graph_version}: {entry.what}"
            yield _by(position, entry, "command", "change", "in force", detail=words)
        case j.SwapFailed():
            words = f"graph v{entry.graph_version}"
            yield _by(
                position, entry, "command", "change", "failed", detail=words, reason=entry.error
            )
        case j.MergeFailed():
            words = f"one graph with {entry.other}"
            yield _by(
                position, entry, "command", "change", "failed", detail=words, reason=entry.why
            )
        case j.RunEndedByMerge():
            words = f"one graph with {entry.run}"
            yield _by(position, entry, "command", "change", "in force", detail=words)
        case j.MessageAdded() if entry.command is None:
            return  # the input: that the run was started says it
        case j.MessageQueued() if entry.command is None:
            return  # the rollback has a record of its own
        case _:
            name = _COMMANDS.get(type(entry), "")
            # A kind that the table leaves out is a command's too, where it has a command's id.
            if name or getattr(entry, "command", None):
                name = name or entry.kind
                yield _by(position, entry, "command", name, "applied", detail=_detail(entry))


def _by(
    position: int,
    entry: j.JournalEntry,
    kind: AuditKind,
    what: str,
    outcome: str,
    *,
    detail: str = "",
    reason: str = "",
) -> AuditRecord:
    """A record of what somebody did to the run."""
    return AuditRecord(
        position=position,
        at=entry.at,
        kind=kind,
        who=str(getattr(entry, "by", "")),
        what=what,
        outcome=outcome,
        reason=reason or str(getattr(entry, "reason", "")),
        detail=detail,
        tool=str(getattr(entry, "tool", "")),
        agent=str(getattr(entry, "agent", "")),
        command=str(getattr(entry, "command", None) or ""),
    )


def _detail(entry: j.JournalEntry) -> str:
    """What a command asked for, in a line."""
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
            return _back(entry)


def _back(entry: j.JournalEntry) -> str:
    """Where a run was taken, or what it came from."""
    match entry:
        case j.RunRolledBack() | j.RunReopened():
            return f"to @{entry.to}"
        case j.RunForked():
            return f"from {entry.source}@{entry.checkpoint or entry.to}"
        case _:
            return ""


class PermissionHistory:
    """Who may call what, entry by entry, with who said so at run time."""

    def __init__(self) -> None:
        self._permissions: dict[str, tuple[str, ...] | None] = {}
        self._rulings: Rulings = {}
        self._said: dict[tuple[str, str], str] = {}
        """Who ruled, and where, by tool and agent; permissions have no agent."""

    def why(self, agent: str, tool: str) -> str:
        """Why an agent's call of a tool is allowed."""
        row = self._rulings.get(tool, {})
        for whom in (agent, EVERYONE):
            if row.get(whom) == "allow":
                return f"people allowed {agent!r} to call {tool!r}{self._where(tool, whom)}"
        if self._permissions.get(tool) is not None:
            return f"permissions let {agent!r} call {tool!r}{self._where(tool, '')}"
        return f"{tool!r} is among the tools of {agent!r}{self._where(tool, '')}"

    def ask_reason(self, agent: str, tool: str) -> str:
        """Which ruling has people asked about an agent's call; empty where the journal has none."""
        row = self._rulings.get(tool, {})
        whom = agent if agent in row else EVERYONE  # its own ruling counts, as in every check
        if row.get(whom) == "ask":
            where = self._where(tool, whom)
            return f"people want to be asked before {agent!r} calls {tool!r}{where}"
        return ""

    def _where(self, tool: str, agent: str) -> str:
        said = self._said.get((tool, agent))
        return f": {said}" if said else ""

    def learn(self, position: int, entry: j.JournalEntry) -> None:
        """Keeps what an entry says of that."""
        match entry:
            case j.RunStarted() | j.GraphReplacement() | j.DefinitionChanged():
                self._permissions = dict(entry.permissions)
            case j.ToolPermissionSet():
                self._permissions[entry.tool] = entry.agents
                self._rulings = without_milder_permissions(self._rulings, entry.tool, entry.agents)
                self._note(position, entry, "")
            case j.AgentPermissionSet():
                self._rulings = with_live_permission(
                    self._rulings, entry.tool, entry.agent, entry.do
                )
                self._note(position, entry, entry.agent)
            case j.RunRolledBack() | j.RunForked() | j.RunReopened():
                self._permissions = dict(entry.state.get("tool_permissions") or {})
                self._rulings = dict(entry.state.get("rulings") or {})
            case _:
                pass

    def _note(
        self, position: int, entry: j.ToolPermissionSet | j.AgentPermissionSet, agent: str
    ) -> None:
        by = f" by {entry.by}" if entry.by else ""
        why = f": {entry.reason}" if entry.reason else ""
        self._said[entry.tool, agent] = f"set at run time{by} (position {position}){why}"

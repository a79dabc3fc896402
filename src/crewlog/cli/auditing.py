"""`audit`: what was checked, decided, commanded and refused in a run."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug, RunArgument
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from crewlog.cli.screen import Part, Screen
    from crewlog.reporting.audit.view import AuditFilter, AuditKind, AuditRecord

_INDENT = 13
"""Columns before what a line says."""
_STYLES = {
    "denied": "red",
    "refused": "red",
    "failed": "yellow",
    "asked": "yellow",
    "reject": "red",
    "approve": "green",
}
_VERBS = {
    "start": "started it",
    "message": "said something",
    "interrupt": "wants to be asked",
    "pause": "paused it",
    "resume": "let it go on",
    "stop": "stopped it",
    "change": "changed it",
    "set_permission": "ruled",
    "answer": "answered",
    "ask": "asked it",
    "edit_state": "edited its state",
    "redirect": "redirected it",
    "tag": "named a checkpoint",
    "rollback": "took it back",
    "fork": "forked it",
    "reopen": "took it up again",
}
"""Commands, as what was done."""
_GLYPHS = {
    ("check", "allowed"): ("✓", "green"),
    ("check", "denied"): ("✗", "red"),
    ("check", "asked"): ("?", "yellow"),
    ("call", "returned"): ("⚙", ""),
    ("call", "failed"): ("⚙", "yellow"),
    ("question", "asked"): ("?", "yellow"),
    ("refusal", "refused"): ("✗", "red"),
}


@app.command(rich_help_panel="Authority")
def audit(
    run: RunArgument,
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="Only what is about this agent, or was said by somebody of this name.",
            show_default=False,
        ),
    ] = "",
    tool: Annotated[
        str,
        typer.Option("--tool", metavar="NAME", help="Only this tool.", show_default=False),
    ] = "",
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="Only check, call, question, decision, command or refusal; may be repeated.",
            show_default=False,
        ),
    ] = None,
    outcome: Annotated[
        str,
        typer.Option(
            "--outcome",
            metavar="WORD",
            help="Only this outcome: allowed, asked, denied, refused, approve, …",
            show_default=False,
        ),
    ] = "",
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only from then on: 10m (ago), or 2026-12-01T09:00:00+01:00.",
            show_default=False,
        ),
    ] = "",
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Every check, decision and command of a run: who, when, how it ended and why.

    With --json it is a record a line, to be kept or searched elsewhere. Nothing is written for it:
    it follows from the journal, also of runs that have ended.
    """
    from crewlog.reporting.audit.view import AuditFilter  # noqa: PLC0415

    kinds: tuple[AuditKind, ...] = tuple(_kind(each) for each in kind or ())
    wanted = AuditFilter(agent=agent, tool=tool, kinds=kinds, outcome=outcome, since=when(since))
    return go(_audit(run, wanted, as_json=as_json), debug=debug)


def _kind(given: str) -> AuditKind:
    """A kind as it is typed.

    Raises:
        UsageError: there is no such kind.
    """
    from crewlog.definition.findings import did_you_mean  # noqa: PLC0415
    from crewlog.reporting.audit.view import AuditKind  # noqa: PLC0415

    known: tuple[AuditKind, ...] = get_args(AuditKind)
    for kind in known:
        if given in (kind, f"{kind}s"):
            return kind
    raise UsageError(
        f"there is no kind {given!r} in an audit",
        remedy=did_you_mean(given, known, f"Kinds: {', '.join(known)}."),
        place="crewlog audit",
    )


def when(text: str) -> int:
    """A time as it is typed, in milliseconds since the epoch; 0 where none is.

    Raises:
        UsageError: it is neither a duration nor a time with its zone.
    """
    from crewlog.definition.model import parse_duration  # noqa: PLC0415
    from crewlog.definition.times import parse_time  # noqa: PLC0415

    if not text:
        return 0
    try:
        return int((datetime.now().astimezone().timestamp() - parse_duration(text)) * 1000)
    except ValueError:
        pass
    try:
        return int(datetime.fromisoformat(parse_time(text)).timestamp() * 1000)
    except ValueError as error:
        raise UsageError(
            f"--since {text!r} is no time",
            remedy="Say how long ago, as 10m, 2h or 1d, or when: 2026-12-01T09:00:00+01:00.",
            place="crewlog audit",
        ) from error


async def _audit(run_id: str, wanted: AuditFilter, *, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.ids import RunId  # noqa: PLC0415
    from crewlog.reporting.audit.view import audit_record_view  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    counted: Counter[tuple[str, str]] = Counter()
    day = ""
    async with connected(screen, both=True) as client:
        found = client.run(run_id).audit(
            agent=wanted.agent,
            tool=wanted.tool,
            kinds=wanted.kinds,
            outcome=wanted.outcome,
            since=wanted.since,
        )
        async for record in found:
            counted[record.kind, record.outcome] += 1
            if as_json:
                view = audit_record_view(RunId(run_id), record)
                screen.record(view.model_dump(mode="json"))
                continue
            at = datetime.fromtimestamp(record.at / 1000).astimezone()
            if (date := f"{at:%Y-%m-%d %Z}") != day:
                day = date
                screen.line((f"  {day}", "dim"))
            show_record(screen, at, record)
    if not as_json:
        screen.line()
        screen.line("  ", _summary(counted) or ("nothing of the kind is on record", "dim"))
    return exits.OK


def show_record(screen: Screen, at: datetime, record: AuditRecord) -> None:
    """A line of the audit; long reasons go on below."""
    glyph, style = _GLYPHS.get(
        (record.kind, record.outcome), ("●", _STYLES.get(record.outcome, ""))
    )
    head: list[Part] = [(f"  {at:%H:%M:%S}", "dim"), " ", (glyph, style or "bold"), " "]
    screen.wrapped(head, said(record), indent=_INDENT)


def said(record: AuditRecord) -> str:
    """What a record says, for people."""
    from crewlog.cli.screen import plain  # noqa: PLC0415
    from crewlog.cli.timeline import sentences  # noqa: PLC0415

    who = plain(record.principal)
    detail = plain(record.detail)
    reason = sentences(record.reason)
    at = f" in {record.step}" if record.step else ""
    why = f" ({reason})" if reason else ""
    because = f": {reason}" if reason else ""
    because = because.replace(": Refused: ", ": ", 1)  # as the model is told it
    about = f" {detail}" if detail else ""
    what = plain(record.action)
    match record.kind:
        case "check":
            verb = {"allowed": "may call", "asked": "must wait with", "denied": "may not call"}
            return f"{who}{at} {verb.get(record.outcome, record.outcome)} {what}{about}{because}"
        case "call":
            return f"{who}{at} called {what}{about}: {record.outcome}{why}"
        case "question":
            return f"{record.interrupt} asks{at}{because}"
        case "decision":
            about = f" ({plain(record.tool)}{at})" if record.tool else ""
            asked = f" to {record.interrupt}" if record.interrupt else ""
            edited = f": {detail}" if record.outcome == "edit" and record.tool and detail else ""
            return f"{who or 'nobody'} said {plain(record.outcome)}{asked}{about}{edited}{why}"
        case "refusal":
            to = f" to {plain(record.interrupt)}" if record.interrupt else ""
            tried = f" ({detail})" if detail else ""
            return f"{who or 'somebody'}'s {what}{to}{tried} was refused{because}"
        case _:
            about = f": {detail}" if detail else ""
            if record.outcome != "applied":
                return f"the change is {record.outcome}{f' ({who})' if who else ''}{about}{why}"
            return f"{who or 'somebody'} {_VERBS.get(what, what)}{about}{why}"


def _summary(counted: Counter[tuple[str, str]]) -> str:
    """`12 checks: 8 allowed, 1 asked, 3 denied · 4 commands · 1 refusal`."""
    from crewlog.cli.screen import counted as of  # noqa: PLC0415
    from crewlog.reporting.audit.view import AuditKind  # noqa: PLC0415

    parts: list[str] = []
    for kind in get_args(AuditKind):
        outcomes = {outcome: n for (k, outcome), n in counted.items() if k == kind}
        if not outcomes:
            continue
        inner = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
        told = f": {inner}" if kind in ("check", "call") else ""
        parts.append(f"{of(sum(outcomes.values()), kind)}{told}")
    return " · ".join(parts)

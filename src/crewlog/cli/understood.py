"""Shows the result of a prompt, clause by clause, to people and to programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from crewlog.cli.problems import excerpt
from crewlog.cli.screen import Part, Screen, counted, plain
from crewlog.definition.content import definition_hash
from crewlog.prompt.explaining import ClauseAccount, clause_accounts
from crewlog.reporting.explanation import ClauseView
from crewlog.state.excerpt import shortened

if TYPE_CHECKING:
    from crewlog.definition.model import CrewDefinition
    from crewlog.prompt.compiled import CompiledPrompt, Remark

CODES = {
    "empty": "empty",
    "too_large": "too large",
    "not_understood": "not understood",
    "not_stated": "not stated",
    "obligation": "obligation",
    "contradiction": "contradiction",
    "unknown_agent": "unknown agent",
    "unknown_tool": "unknown tool",
    "not_offered": "not offered",
    "unsound": "unsound",
    "invalid": "invalid",
    "model_failed": "model failed",
    "assumed": "assumed",
}
"""The kinds of remarks, in words."""
_STATUS = {
    "talk": "talk",
    "data": "data",
    "withdrawn": "withdrawn",
    "cannot": "not understood",
    "against": "contradiction",
    "open": "not understood",
}
"""The words for the status of a clause without a part."""
_LABEL = 18
"""Columns of the labels, the indent included."""
_LINE = 6
"""Columns of the line numbers."""
_LONGEST_QUOTE = 300
_NARROW = 60
"""Columns from which a remark stands beside its label."""


def show_understood(
    screen: Screen, compiled: CompiledPrompt, *, words: bool = False, faults: bool = False
) -> None:
    """Shows every clause with its parts or the reason, the graph, requirements and notes.

    Args:
        screen: The screen.
        compiled: The prompt.
        words: Whether talk and pasted text are shown; else they are counted.
        faults: Whether faults are shown, too, where no error reports them.
    """
    _head(screen, compiled)
    folded: Counter[str] = Counter()
    for account in clause_accounts(compiled):
        if account.status in {"talk", "data"} and not words:
            folded[account.status] += account.clause.kind != "heading"
        else:
            _clause(screen, account)
    for status, count in folded.items():
        if count:
            say = f"{counted(count, 'clause')} of {status}, not shown: --words"
            screen.line((" " * _LINE, ""), (say, "dim"))
    _graph(screen, compiled)
    if compiled.requirements:
        screen.line("")
        for number, text in enumerate(compiled.requirements):
            head: list[Part] = [("" if number else "  requires").ljust(_LABEL)]
            screen.wrapped(head, plain(text), indent=_LABEL)
    show_remarks(screen, compiled, faults=faults)


def _clause(screen: Screen, account: ClauseAccount) -> None:
    """Shows the words of a clause, and its parts below them."""
    quote = shortened(plain(account.clause.text), _LONGEST_QUOTE)
    head: list[Part] = [(f"{account.line}".rjust(_LINE - 2) + "  ", "dim")]
    used = account.status == "used"
    style = "" if used else "yellow" if account.status in {"cannot", "against", "open"} else "dim"
    screen.wrapped(head, f"“{quote}”", indent=_LINE, style=style)
    for line in account.parts:
        screen.wrapped([" " * _LINE, ("→ ", "dim")], plain(line), indent=_LINE + 2, style="cyan")
    if not used:
        why = _STATUS[account.status] + (f": {plain(account.why)}" if account.why else "")
        screen.wrapped([" " * _LINE, ("→ ", "dim")], why, indent=_LINE + 2, style=style)


def show_remarks(screen: Screen, compiled: CompiledPrompt, *, faults: bool = False) -> None:
    """Shows the notes and, where it is asked for, the faults."""
    for remark in compiled.remarks:
        if faults or not remark.error:
            screen.line("")
            _remark(screen, remark)


def _head(screen: Screen, compiled: CompiledPrompt) -> None:
    definition = compiled.definition
    if definition is None:
        return
    from crewlog.graph.lowering.plans import lower  # noqa: PLC0415

    parts = [counted(len(definition.agents), "agent")]
    if compiled.partial:
        parts.append(counted(len(lower(definition).nodes), "node"))
    parts.append("read by a model" if compiled.reader == "model" else "read by the forms")
    address = str(compiled.hash) if compiled.ok else "not understood as a whole"
    pieces = [(plain(definition.crew), "bold"), *((part, "") for part in parts)]
    pieces.append((address, "cyan" if compiled.ok else "bold red"))
    _joined(screen, ("  crew ", "dim"), pieces)
    screen.line("")


def _joined(screen: Screen, head: tuple[str, str], pieces: Sequence[tuple[str, str]]) -> None:
    """Shows pieces with dots between them, in lines that break at the dots only."""
    line: list[Part] = [head]
    taken = cell_len(head[0])
    for number, (text, style) in enumerate(pieces):
        dot = " · " if number else ""
        more = 2 if number + 1 < len(pieces) else 0  # the dot after it
        if number and taken + cell_len(dot + text) + more > screen.width:
            screen.line(*line, (dot, "dim"))
            line = ["  "]
            taken, dot = 2, ""
        line += [(dot, "dim"), (text, style)]
        taken += cell_len(dot + text)
    screen.line(*line)


def _graph(screen: Screen, compiled: CompiledPrompt) -> None:
    if compiled.definition is None or not compiled.partial:
        return
    from crewlog.cli.pictures import show_picture  # noqa: PLC0415
    from crewlog.graph.lowering.plans import lower  # noqa: PLC0415

    screen.line("")
    show_picture(screen, lower(compiled.definition))


# -- remarks ---------------------------------------------------------------------------------------


def _remark(screen: Screen, remark: Remark) -> None:
    label = CODES.get(remark.code, remark.code)
    if remark.code == "invalid" and not remark.error:
        label = "warning"  # the crew can run
    found = remark.diagnostic
    style = "red" if remark.error else "yellow"
    head: list[Part] = [(f"  {label}".ljust(_LABEL), style)]
    indent = _LABEL
    if screen.width < _NARROW:  # the label stands above
        screen.line(*head)
        indent = _LINE
        head = [" " * indent]
    if found.line:
        head.append((f"{plain(found.place)}  ", "bold"))
    screen.wrapped(head, plain(found.message), indent=indent)
    for line, shown in excerpt(found, screen.width - indent, "yellow"):
        screen.line(" " * indent, (line, shown))
    if found.remedy:
        screen.wrapped([" " * indent], plain(found.remedy), indent=indent)


def summary_of(compiled: CompiledPrompt) -> str:
    """`understood whole`, or the number of faults."""
    return counted(len(compiled.faults), "fault") if compiled.faults else "understood whole"


# -- for programs ----------------------------------------------------------------------------------


def as_json(compiled: CompiledPrompt) -> dict[str, Any]:
    """A compiled prompt as a document."""
    definition = compiled.definition
    return {
        "ok": compiled.ok,
        "understood": compiled.understood,
        "reader": compiled.reader,
        "file": compiled.file,
        "crew": None if definition is None else definition.crew,
        "hash": compiled.hash,
        "definition": None if definition is None else definition.to_json(),
        "requirements": list(compiled.requirements),
        "remarks": remarks_json(compiled),
        "clauses": [
            clause_view(each).model_dump(mode="json") for each in clause_accounts(compiled)
        ],
    }


def clause_view(account: ClauseAccount) -> ClauseView:
    """A clause with its status and its parts."""
    clause = account.clause
    return ClauseView(
        clause=clause.number,
        line=account.line,
        column=account.column,
        start=clause.span.start,
        end=clause.span.end,
        text=clause.text,
        kind=clause.kind,
        status=account.status,
        reason=account.why,
        parts=account.parts,
    )


def approval_json(compiled: CompiledPrompt, approved: CrewDefinition) -> dict[str, Any]:
    """The approval as an event, which comes before `started`."""
    address = definition_hash(approved)
    return {
        "event": "approved",
        "crew": approved.crew,
        "hash": address,
        "edited": address != compiled.hash,
        "understood": compiled.understood,
    }


def remarks_json(compiled: CompiledPrompt) -> list[dict[str, Any]]:
    """Faults and notes as data, in the order of the prompt."""
    return [_remark_json(each) for each in compiled.remarks]


def _remark_json(remark: Remark) -> dict[str, Any]:
    found = remark.diagnostic
    return {
        "code": remark.code,
        "severity": remark.severity,
        "message": found.message,
        "remedy": found.remedy,
        "place": found.place,
        "line": found.line,
        "column": found.column,
        "length": found.length,
        "clauses": list(remark.clauses),
    }

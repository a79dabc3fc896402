"""What was understood of a prompt, as people and programs see it: each part beside its words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from crewlog.cli.screen import Part, Screen, counted, plain, plain_lines
from crewlog.definition.content import definition_hash
from crewlog.definition.model import AgentPhase, CrewDefinition, ParallelPhase
from crewlog.prompt.ast import Words
from crewlog.state.brief import shortened

if TYPE_CHECKING:
    from crewlog.errors import Diagnostic
    from crewlog.prompt.compiled import CompiledPrompt, Provenance, Remark

LABELS = {
    "agent": "agents",
    "phase": "phases",
    "dependency": "dependency",
    "decision": "decision",
    "question": "question",
    "gate": "gate",
    "permission": "permission",
    "visibility": "visibility",
    "limit": "limit",
    "setting": "setting",
}
"""The parts, in the order in which they are shown."""
CODES = {
    "empty": "empty",
    "too_large": "too large",
    "not_understood": "not understood",
    "read_as_words": "read as words",
    "assumed": "assumed",
    "unknown_agent": "unknown agent",
    "unknown_tool": "unknown tool",
    "not_offered": "not offered",
    "contradiction": "contradiction",
    "unused": "unused",
    "invalid": "invalid",
    "model_failed": "model failed",
}
"""The kinds of remarks, in words."""
_LABEL = 18
"""Columns of the labels, the indent included."""
_WIDEST = 110
_LONGEST_QUOTE = 300
_DASH = "–"  # noqa: RUF001 - from one number to another


@dataclass
class _Row:
    """A part of the crew and where it was said."""

    text: str
    words: list[Words] = field(default_factory=list["Words"])
    after: str = "→"
    """Of a phase: `→` where it comes after what stands before it, `·` where it says itself when."""


def show_understood(screen: Screen, compiled: CompiledPrompt, *, words: bool = False) -> None:
    """The parts, grouped and aligned; the graph; requirements; what to know besides.

    Args:
        screen: Where to.
        compiled: The prompt.
        words: Whether the words of each part are quoted.
    """
    _head(screen, compiled)
    groups = _groups(compiled)
    column = _column(screen, compiled, groups)
    for label, rows in groups:
        chained = _chain(rows, column) if label == LABELS["phase"] else rows
        for number, row in enumerate(chained):
            _row(screen, "" if number else label, row.text, column, _where(compiled, row.words))
            if words:
                _quoted(screen, compiled, row.words)
    _graph(screen, compiled)
    if compiled.requirements:
        screen.line("")
        for number, text in enumerate(compiled.requirements):
            _row(screen, "" if number else "requires", plain(text), column, "")
    show_remarks(screen, compiled)


def _column(screen: Screen, compiled: CompiledPrompt, groups: list[tuple[str, list[_Row]]]) -> int:
    """How wide the parts' texts may be, so that their words stand in one column."""
    rows = [row for label, found in groups for row in found if label != LABELS["phase"]]
    rows += [row for label, found in groups if label == LABELS["phase"] for row in _chain(found)]
    last = max((len(_where(compiled, row.words)) for row in rows), default=0)
    room = min(screen.width, _WIDEST) - _LABEL - last - 2
    return max(20, min(room, max((len(row.text) for row in rows), default=0)))


def show_remarks(screen: Screen, compiled: CompiledPrompt) -> None:
    """What to know besides: what was assumed, and what was not understood."""
    for remark in compiled.remarks:
        if not remark.error:
            screen.line("")
            _remark(screen, remark)


def _head(screen: Screen, compiled: CompiledPrompt) -> None:
    definition = compiled.definition
    if definition is None:
        return
    from crewlog.graph.lower import lower  # noqa: PLC0415

    parts = [counted(len(definition.agents), "agent")]
    if compiled.ok:
        parts.append(counted(len(lower(definition).nodes), "node"))
    head: list[Part] = [("  crew ", "dim"), (plain(definition.crew), "bold"), (" · ", "dim")]
    head += [" · ".join(parts), (" · ", "dim")]
    address = str(compiled.hash) if compiled.ok else "not to be run"
    screen.wrapped(head, address, indent=2, style="cyan" if compiled.ok else "bold red")
    screen.line("")


def _graph(screen: Screen, compiled: CompiledPrompt) -> None:
    if compiled.definition is None or not compiled.ok:
        return
    from crewlog.cli.pictures import show_picture  # noqa: PLC0415
    from crewlog.graph.lower import lower  # noqa: PLC0415

    screen.line("")
    plan = lower(compiled.definition)
    show_picture(screen, plan)


def _groups(compiled: CompiledPrompt) -> list[tuple[str, list[_Row]]]:
    found: list[tuple[str, list[_Row]]] = []
    for what, label in LABELS.items():
        mine = [each for each in compiled.provenance if each.what == what]
        if what == "agent" and _said_by_phases(mine, compiled.provenance):
            continue
        if what == "dependency":
            mine = [each for each in mine if _is_own(compiled, each) or _counts(compiled, each)]
        if what == "phase":
            rows = _phases(compiled, mine)
        else:
            rows = [_Row(_text(each), list(each.words)) for each in mine]
        if rows:
            found.append((label, rows))
    return found


def _text(part: Provenance) -> str:
    """A part in a line. Of a decision or a question, what it waits for is the graph's to tell."""
    text = plain(part.text)
    if part.what in {"decision", "question", "gate"}:
        return text.rpartition("; ")[2]
    return text


def _is_own(compiled: CompiledPrompt, part: Provenance) -> bool:
    """Whether a phase says itself what it waits for, or on what condition it works."""
    if compiled.definition is None:
        return True
    item = compiled.definition.flow[int(part.path[1])]
    if isinstance(item, ParallelPhase) and item.after is not None:
        return True
    inner: Any = item.parallel if isinstance(item, ParallelPhase) else item
    found = cast("Any", inner)[int(part.path[-1])] if isinstance(inner, tuple) else inner
    if not isinstance(found, AgentPhase):
        return False
    return bool(
        found.after is not None or found.when or found.only_if or found.for_each or found.needs
    )


def _counts(compiled: CompiledPrompt, part: Provenance) -> bool:
    """Whether a phase waits for some of those before it and not for all."""
    flow = compiled.definition.flow if compiled.definition is not None else ()
    place = int(part.path[1])
    before = flow[place - 1] if 0 < place <= len(flow) else None
    return isinstance(before, ParallelPhase) and before.join != "all"


def _said_by_phases(agents: Sequence[Provenance], every: Sequence[Provenance]) -> bool:
    """Whether the phases name all agents already, so that a line of them says nothing more."""
    phases = " ".join(each.text for each in every if each.what == "phase").split()
    named = {word.strip(",:()+") for word in phases}
    return all(each.text in named for each in agents)


def _phases(compiled: CompiledPrompt, parts: Sequence[Provenance]) -> list[_Row]:
    """The items of the flow that are phases, in order; those side by side as `a + b`."""
    rows: dict[int, _Row] = {}
    for part in parts:
        place = int(part.path[1])
        row = rows.setdefault(place, _Row("", [], "·" if _is_own(compiled, part) else "→"))
        row.text = f"{row.text} + {plain(part.text)}" if row.text else plain(part.text)
        row.words += part.words
    return [rows[place] for place in sorted(rows)]


def _chain(rows: Sequence[_Row], room: int = 10_000) -> list[_Row]:
    """The phases as a chain, `a + b → c`, in as few lines as there is room for."""
    lines: list[_Row] = []
    for row in rows:
        more = f"{lines[-1].text} {row.after} {row.text}" if lines else row.text
        if lines and len(more) <= room:
            lines[-1].text = more
            lines[-1].words.extend(row.words)
        else:
            text = f"{row.after} {row.text}" if lines else row.text
            lines.append(_Row(text, list(row.words)))
    return lines


def _row(screen: Screen, label: str, text: str, column: int, where: str) -> None:
    """Label, text and words, aligned; a long text goes on beneath itself."""
    lines = _wrap(text, column) if screen.has_edge else [text]
    for number, line in enumerate(lines):
        parts: list[Part] = [("  " + (label if number == 0 else "")).ljust(_LABEL), line]
        if number == 0 and where:
            parts.append((" " * max(2, column - len(line) + 2) + where, "dim"))
        parts[0] = (str(parts[0]), "bold")
        screen.line(*parts, crop=True)


def _wrap(text: str, room: int) -> list[str]:
    if len(text) <= room:
        return [text]
    return textwrap.wrap(text, room, subsequent_indent="  ", break_on_hyphens=False) or [text]


def _where(compiled: CompiledPrompt, words: Iterable[Words]) -> str:
    """`line 3`, `lines 1-2, 5`; nothing where a part is not said anywhere."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(compiled.lines_of(each) for each in words):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    if not merged:
        return ""
    shown = [f"{first}{_DASH}{last}" if first != last else str(first) for first, last in merged[:2]]
    more = ", …" if len(merged) > 2 else ""
    only = len(merged) == 1 and merged[0][0] == merged[0][1]
    return f"{'line' if only else 'lines'} {', '.join(shown)}{more}"


def _quoted(screen: Screen, compiled: CompiledPrompt, words: Iterable[Words]) -> None:
    for each in _in_order(words):
        text = shortened(plain(compiled.text[each.start : each.end]), _LONGEST_QUOTE)
        screen.wrapped([" " * _LABEL], f"“{text}”", indent=_LABEL, style="dim italic")


def _in_order(words: Iterable[Words]) -> list[Words]:
    """Each stretch once, without those inside others."""
    found: list[Words] = []
    for each in sorted(words, key=lambda w: (w.start, -w.end)):
        if not found or each.end > found[-1].end:
            found.append(each)
    return found


# -- remarks ---------------------------------------------------------------------------------------


def _remark(screen: Screen, remark: Remark) -> None:
    label = CODES.get(remark.code, remark.code)
    if remark.code == "invalid" and not remark.error:
        label = "warning"  # it may run as it is
    style = "bold yellow" if remark.code == "not_understood" else "yellow"
    found = remark.diagnostic
    head: list[Part] = [(f"  {label}".ljust(_LABEL), style)]
    if len(label) + 2 >= _LABEL:
        head.append(" ")
    if found.line:
        head.append((f"{plain(found.place)}  ", "bold"))
    screen.wrapped(head, plain(found.message), indent=_LABEL)
    for line, shown in excerpt(found, screen.width - _LABEL):
        screen.line(" " * _LABEL, (line, shown))
    if found.remedy:
        screen.wrapped([" " * _LABEL], plain(found.remedy), indent=_LABEL)


def excerpt(found: Diagnostic, room: int) -> list[tuple[str, str]]:
    """The source line and what is underlined, as lines with their styles, as wide as `room`."""
    if not found.excerpt:
        return []
    line = plain_lines(found.excerpt)
    caret = (found.caret or found.column) - 1
    first = 0
    if len(line) > room:
        first = max(0, min(caret - room // 4, len(line) - room + 1))
        cut = line[first : first + room - (1 if first else 0)]
        line = ("…" if first else "") + cut
        line = line if len(line) < room else line[: room - 1] + "…"
        caret -= first - (1 if first else 0)
    length = max(1, min(found.length, len(line) - caret))
    return [(line, "dim"), (" " * caret + "^" * length, "bold yellow")]


def summary_of(compiled: CompiledPrompt) -> str:
    """`understood whole`, or how much was not: for a line."""
    missed = sum(1 for each in compiled.remarks if each.code == "not_understood")
    errors = sum(1 for each in compiled.remarks if each.error)
    if errors:
        return counted(errors, "error")
    return f"{counted(missed, 'part')} not understood" if missed else "understood whole"


# -- for programs ----------------------------------------------------------------------------------


def as_json(compiled: CompiledPrompt) -> dict[str, Any]:
    """A compiled prompt as a document; its keys are stable."""
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
        "provenance": [provenance_json(compiled, each) for each in compiled.provenance],
    }


def approval_json(compiled: CompiledPrompt, approved: CrewDefinition) -> dict[str, Any]:
    """What was approved, as an event before `started`."""
    address = definition_hash(approved)
    return {
        "event": "approved",
        "crew": approved.crew,
        "hash": address,
        "edited": address != compiled.hash,
        "understood": compiled.understood,
    }


def provenance_json(compiled: CompiledPrompt, part: Provenance) -> dict[str, Any]:
    """A part and its words as data."""
    return {
        "what": part.what,
        "text": part.text,
        "path": list(part.path),
        "words": [_words_json(compiled, words) for words in part.words],
    }


def remarks_json(compiled: CompiledPrompt) -> list[dict[str, Any]]:
    """Errors and warnings as data, in the order of the prompt."""
    return [_remark_json(compiled, each) for each in compiled.remarks]


def _remark_json(compiled: CompiledPrompt, remark: Remark) -> dict[str, Any]:
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
        "words": [_words_json(compiled, words) for words in remark.words],
    }


def _words_json(compiled: CompiledPrompt, words: Words) -> dict[str, Any]:
    first, last = compiled.words_of(words)
    return {
        "start": words.start,
        "end": words.end,
        "first": first,
        "last": last,
        "text": compiled.text[words.start : words.end],
    }

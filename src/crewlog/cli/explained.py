"""A node explained on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from crewlog.cli.screen import Part, Screen, plain, plain_lines
from crewlog.ids import private_log
from crewlog.prompt.explaining import ClauseAccount, clause_accounts

if TYPE_CHECKING:
    from crewlog.prompt.compiled import CompiledPrompt
    from crewlog.reporting.explanation import EdgeView, ExplanationView, ToolAccessView

_LABEL = 15
_EFFECTS = {
    "read": "reads only",
    "write": "writes",
    "external": "acts on the world",
    "state": "",
}
_REPEAT = {
    "safe": "repeated freely",
    "keyed": "repeated under one key",
    "never": "never repeated",
}


def origin(compiled: CompiledPrompt, found: ExplanationView) -> list[ClauseAccount]:
    """The clauses that a node comes from: its own, its agent's and those of its rights."""
    mine = tuple(found.path)
    agents = {("agents", str(each)) for each in (found.agent, *found.item_agents) if each}
    tools = {str(each.tool) for each in found.tools if each.is_allowed}
    numbers = {
        number
        for source in compiled.sources
        if source.path == mine
        or source.path[:2] in agents
        or (source.what == "rights" and source.path and str(source.path[-1]) in tools)
        for number in source.clauses
    }
    return [each for each in clause_accounts(compiled) if each.clause.number in numbers]


def show_explanation(
    screen: Screen, found: ExplanationView, compiled: CompiledPrompt | None = None
) -> None:
    """All that there is to say of a node."""
    who = f"agent {found.agent}" if found.agent else f"agents {', '.join(found.item_agents)}"
    kind = {
        "agent": who,
        "decide": "decision",
        "route": "route",
        "ask": "question to people",
        "wait": "wait",
    }
    head: list[Part] = [("  crew ", "dim"), plain(found.crew), (" · node ", "dim")]
    head += [(plain(found.node), "bold"), (" · ", "dim")]
    screen.wrapped(head, plain(kind[found.kind]), indent=2, style="dim")
    if found.description:
        screen.paragraph(found.description, style="dim")
    screen.line("")
    if compiled is not None:
        _words(screen, compiled, found)
    _rows(screen, "made by", [found.part] if found.part else [])
    _rows(screen, "waits for", [_waits(found), *found.conditions])
    _rows(screen, "sent here by", [_sender(way) for way in found.incoming_edges])
    if found.question is not None:
        _rows(screen, "asks", [f"{found.question} [{' / '.join(found.options)}]"])
    _rows(screen, "may follow", [_follower(way) for way in found.outgoing_edges])
    if found.agent is None:
        return
    screen.line("")
    _rows(screen, "task", [found.task] if found.task else [])
    _rows(screen, "prompt", [found.prompt] if found.prompt else [])
    _rows(screen, "model", [found.model] if found.model else [])
    _rows(screen, "does in order" if found.in_order else "does", found.tool_calls)
    _rows(screen, "works by", [found.pattern] if found.pattern else [])
    screen.line("")
    _rows(screen, "reads", [", ".join(found.reads)])
    _rows(screen, "writes", [", ".join((*found.writes, private_log(found.agent)))])
    _rows(screen, "sees", [", ".join(found.readable_artifacts)] if found.readable_artifacts else [])
    _rows(
        screen, "changes", [", ".join(found.writable_artifacts)] if found.writable_artifacts else []
    )
    _rows(screen, "groups", [", ".join(found.groups)] if found.groups else [])
    _rows(screen, "rules", found.rules)
    _rows(screen, "bounded", found.restrictions)
    _rows(screen, "sets", [_sets(found)] if found.flags or found.outputs else [])
    _tools(screen, "may call", [each for each in found.tools if each.is_allowed])
    _tools(screen, "may not call", [each for each in found.tools if not each.is_allowed])
    screen.line("")
    from crewlog.graph.lowering.coordination_rules import on_error_text  # noqa: PLC0415 - slow to import

    limits = found.limits
    bounds = (
        "no model is asked"
        if found.tool_calls
        else f"{limits['max_calls']} model calls a turn, {limits['timeout']:g} s each, "
        f"{limits['attempts']} tries"
    )
    _rows(screen, "limits", [bounds, f"when it fails, {on_error_text(limits['on_error'])}"])
    if not limits["enabled"]:
        _rows(screen, "off", ["switched off: its phases are skipped"])


def _words(screen: Screen, compiled: CompiledPrompt, found: ExplanationView) -> None:
    rows = [f"“{plain(each.clause.text)}”" for each in origin(compiled, found)]
    _rows(screen, "in the prompt", rows or ["not said: it follows from the rest"])


def _waits(found: ExplanationView) -> str:
    names = [plain(each) for each in found.sources]
    if not names:
        return (
            "nothing: the run starts with it" if found.is_entry_point else "nothing: it is sent to"
        )
    if found.need == len(names):
        return " and ".join(names) if len(names) < 3 else f"all of {', '.join(names)}"
    if found.need == 1:
        return f"the first of {', '.join(names)}"
    return f"{found.need} of {', '.join(names)}"


def _sender(way: EdgeView) -> str:
    return f"{way.to}, where {way.condition}" if way.condition else way.to


def _follower(way: EdgeView) -> str:
    to = "the end" if way.to == "end" else way.to
    where = f", where {way.condition}" if way.condition else ""
    return f"{to}{where}" + (f", {way.join}" if way.join else "")


def _sets(found: ExplanationView) -> str:
    parts: list[str] = []
    if found.flags:
        parts.append(f"flags {', '.join(found.flags)}")
    if found.outputs:
        parts.append(f"outputs {', '.join(found.outputs)}")
    return "; ".join(parts)


def _tools(screen: Screen, label: str, tools: Sequence[ToolAccessView]) -> None:
    width = max((len(each.tool) for each in tools), default=0)
    for number, each in enumerate(tools):
        head: list[Part] = [
            ((f"  {'' if number else label}").ljust(_LABEL + 2), "bold"),
            plain(each.tool).ljust(width) + "  ",
        ]
        notes = [each.reason]
        if each.is_allowed and each.effects in _EFFECTS and _EFFECTS[each.effects]:
            notes.append(_EFFECTS[each.effects])
        if each.is_allowed and each.retry_mode:
            notes.append(_REPEAT.get(each.retry_mode, each.retry_mode))
        if each.risk == "high":
            notes.append("high risk")
        if each.needs_approval:
            head.append(("waits for approval; ", "yellow"))
        indent = min(_LABEL + 4 + width, screen.width // 2)
        screen.wrapped(head, plain("; ".join(notes)), indent=indent, style="dim")
    if not tools and label == "may call":
        _rows(screen, label, ["no tool"])


def _rows(screen: Screen, label: str, rows: Sequence[str]) -> None:
    for number, row in enumerate(rows):
        first, *others = plain_lines(row).strip().splitlines() or [""]
        head = [((f"  {'' if number else label}").ljust(_LABEL + 2), "bold")]
        screen.wrapped(head, first.strip(), indent=_LABEL + 2)
        for line in others:
            screen.wrapped([" " * (_LABEL + 2)], line.strip(), indent=_LABEL + 2)

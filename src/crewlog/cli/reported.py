"""The page of `crewlog report`, for a terminal and as Markdown.

What models, tools and people said is shown beside what the run says: on a terminal without control
characters, in Markdown in code, where nothing of it is rendered.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from crewlog.cli.screen import Part, Screen, clock, counted, lasted, money, plain
from crewlog.definition.replies import RESPONSE
from crewlog.ids import ContentHash, child_step_id
from crewlog.model import Json
from crewlog.reporting.report.view import (
    DecisionReport,
    ExchangeReport,
    ItemListReport,
    ReportView,
    StepReport,
    Value,
)
from crewlog.state.checkpoints import EXCHANGE_PREFIX
from crewlog.state.excerpt import excerpt, fenced, sentences
from crewlog.state.value_text import planned_item
from crewlog.usage import Usage

_STATUSES = {
    "completed": ("✓", "green"),
    "skipped": ("∅", "dim"),
    "cancelled": ("■", "yellow"),
    "undone": ("↶", "yellow"),
    "running": ("●", "cyan"),
}
_KINDS = {
    "reply": ("◆", ""),
    "refused": ("✗", "red"),
    "route": ("→", "magenta"),
    "person": ("?", "green"),
    "denied": ("⊘", "red"),
    "conflict": ("≠", "yellow"),
    "change": ("✎", "yellow"),
}
_OURS = re.compile(r"[✓∅■↶●◌◆✗→?⊘≠✎]|[\d:.]+( s)?")
"""Signs and times, in which nothing could be rendered."""
_ITEMS = 12
"""Items of a step that are shown one by one."""
_LONGEST = 1200
"""Characters of a text that are shown."""
_CELL = 160
"""Characters of a value in a row."""
_WORD = 24
"""Characters of a value that stands beside its step."""
_JSON = re.compile(r"(\w+) = [\[{].*", re.DOTALL)
"""The first list or object in the words about a reply, and what is left of them."""
_EXCHANGES = 20
"""The number of exchanges that are shown: the last ones."""
_WHOLE = "crewlog report {run} --json"


def show_report(screen: Screen, found: ReportView) -> None:
    """A run's report, for a terminal."""
    title: list[Part] = [
        ("  crew ", "dim"),
        plain(found.crew or "?"),
        (" · run ", "dim"),
        (plain(found.run), "bold"),
        (" · ", "dim"),
    ]
    screen.wrapped(title, _head(found), indent=4, style="dim")
    if found.error:
        said = excerpt(sentences(found.error), _CELL)
        screen.line(("  ✗ ", "red"), (plain(said), "red"), crop=True)
    _text(screen, "asked for", _said(found.input))
    if not found.exchanges:
        by = f"result, by {plain(found.summary_agent)}{_acceptance(found.summary_ending)}"
        _text(screen, by, _said(found.summary, None))
    for each in found.exchanges[:-_EXCHANGES][:1]:
        more = len(found.exchanges) - _EXCHANGES
        screen.line("")
        earlier = f"  {counted(more, 'exchange')} from exchange {each.exchange} on, and the last:"
        screen.line((earlier, "dim"))
    for each in found.exchanges[-_EXCHANGES:]:
        _text(screen, *_exchange(each))
    for plan in found.item_lists:
        _part(screen, f"plan {plan.source} · {plan.step} · {_counts(plan)}", _planned(plan))
    _part(screen, "steps", _steps(found))
    _part(screen, "decisions", _decisions(found))
    _part(screen, "agents", _agents(found))
    _part(screen, "results", _results(found))
    _part(screen, "artifacts", _artifacts(found))
    _part(screen, "errors", _errors(found))
    _part(screen, "still open", _open(found))
    for merged in found.merged_runs:
        screen.line("")
        screen.line((f"  merged into {plain(found.run)}:", "dim"))
        show_report(screen, merged)
    screen.line("")
    screen.line(
        ("  Look     ", "dim"), _WHOLE.format(run=found.run), ("   all of it, whole", "dim")
    )


def _part(screen: Screen, title: str, rows: Iterable[list[Part]]) -> None:
    listed = list(rows)
    if not listed:
        return
    screen.line("")
    screen.line((f"  {title}", "bold"))
    width = max(len(row) for row in listed)
    rows = [[*row, *[""] * (width - len(row))] for row in listed]
    screen.rows([""] * width, rows, folds=True)


def _text(screen: Screen, title: str, text: str) -> None:
    if text == "":
        return
    screen.line("")
    screen.line((f"  {title}", "bold"))
    screen.paragraph(text, indent=4)


def _exchange(each: ExchangeReport) -> tuple[str, str]:
    """The title of an exchange, and its message and response."""
    who = f", answered by {plain(each.agent)}" if each.agent else ""
    lines = [f"> {brief_lines(plain(_said(each.message)), _CELL)}"]
    answer = _said(each.response) or ("" if each.end_position else "(goes on)")
    error = [f"✗ {plain(excerpt(each.error, _CELL))}"] if each.error else []
    return f"{EXCHANGE_PREFIX}{each.exchange}{who}", "\n".join([*lines, answer, *error])


def _said(value: Value, most: int | None = _LONGEST) -> str:
    """A value as a text, its start or all of it; what nobody has got is named by its hash."""
    plainly = value.plain
    if plainly is None:
        return f"(body {value.body})" if value.body else ""
    text = plainly if isinstance(plainly, str) else _json(plainly)
    return text if most is None else brief_lines(text, most)


def brief_lines(text: str, most: int) -> str:
    """The start of a text with its lines; how much there is more is said."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _head(found: ReportView) -> str:
    took = lasted(found.started_at, found.ended_at or None)
    done = found.step_count  # as `run` and `ps` count them
    return " · ".join(filter(None, [found.status, took, counted(done, "step"), _used(found.usage)]))


def _used(used: Usage) -> str:
    said = [counted(used.calls, "model call"), counted(used.tool_calls, "tool call")]
    if tokens := used.input_tokens + used.output_tokens:
        said.append(counted(tokens, "token"))
    return " · ".join([*said, *filter(None, [money(used.cost)])])


def _counts(plan: ItemListReport) -> str:
    done = sum(status == "completed" for status in plan.statuses)
    return f"{done} of {plan.item_count} done"


def _planned(plan: ItemListReport) -> Iterator[list[Part]]:
    items = _items(plan)
    for number, status in enumerate(plan.statuses, 1):
        item = items[number - 1] if number <= len(items) else None
        said = planned_item(item)
        yield [
            _glyph(status),
            (plain(said.id or child_step_id(plan.step, number)), "bold"),
            (plain(said.who), "cyan"),
            plain(excerpt(said.what, _CELL)),
        ]


def _items(plan: ItemListReport) -> list[Json]:
    found = plan.items.plain
    return found if isinstance(found, list) else []  # pyright: ignore[reportUnknownVariableType]


def _glyph(status: str) -> Part:
    glyph, style = _STATUSES.get(status, ("◌", "yellow"))
    return (glyph, style)


def _steps(found: ReportView) -> Iterator[list[Part]]:
    for step in found.steps:
        yield _step(found, step, "")
        for item in step.items[:_ITEMS]:
            yield _step(found, item, "  ")
        if (more := len(step.items) - _ITEMS) > 0:
            yield ["", "", (f"  and {counted(more, 'more item')}", "dim")]


def _step(found: ReportView, step: StepReport, pad: str) -> list[Part]:
    """A step: what it called, and what it set; the values that last are told as results."""
    own = f"{step.agent or ''}."
    sets = ", ".join(
        _set(key.removeprefix(own), value)
        for key, value in step.values.items()
        if _own(key) and value.plain != ""
    )
    called = ", ".join(
        f"{tool} ({count})" if count > 1 else tool for tool, count in Counter(step.tools).items()
    )
    ended = _acceptance(step.accepted_ending).strip(" ()")
    notes = filter(None, [step.because, ended, "; ".join(step.errors), called, sets])
    return [
        (clock(step.started_at - found.started_at) if step.started_at else "", "dim"),
        _glyph(step.status),
        (f"{pad}{plain(step.step)}", "bold" if not pad else ""),
        (plain(step.agent) if step.agent and str(step.agent) != step.node else "", "cyan"),
        (lasted(0, step.ms) if step.ms else "", "dim"),
        plain(excerpt(" · ".join(notes), _CELL)),
    ]


def _decisions(found: ReportView) -> Iterator[list[Part]]:
    for each in found.decisions:
        glyph, style = _KINDS[each.kind]
        yield [
            (clock(each.at - found.started_at), "dim"),
            (glyph, style),
            (plain(each.by), "cyan"),
            plain(_decided(each)),
        ]


def _decided(each: DecisionReport) -> str:
    what = _JSON.sub(r"\1 = …", each.decision) if each.kind == "reply" else each.decision
    return f"{what}{f' ({each.reason})' if each.reason else ''}"


def _agents(found: ReportView) -> Iterator[list[Part]]:
    for name, agent in found.agents.items():
        keys = ", ".join(key.partition(".")[2] or key for key in agent.values if _own(key))
        made = ", ".join(
            f"{counted(count, 'operation')} on {key}" for key, count in agent.artifacts.items()
        )
        wrong = counted(agent.errors, "error") if agent.errors else ""
        yield [
            (plain(name), "cyan"),
            counted(agent.steps, "step"),
            (_used(agent.usage), "dim"),
            (wrong, "red"),
            plain("; ".join(filter(None, [made, f"sets {keys}" if keys else ""]))),
        ]


def _results(found: ReportView) -> Iterator[list[Part]]:
    for name, outputs in found.outputs.items():
        for key, value in outputs.items():
            full = f"{name}.{key}"
            if (
                not _own(key) or value == found.summary
            ):  # its fields say the same, or it stands above
                continue
            above = any(plan.source == full and plan.items == value for plan in found.item_lists)
            yield [(plain(full), "cyan"), "the plan above" if above else plain(_short(value))]
    for flag, value in found.flags.items():
        yield [(plain(flag), "yellow"), plain(excerpt(_line(value), _CELL))]


def _artifacts(found: ReportView) -> Iterator[list[Part]]:
    for name, made in found.artifacts.items():
        refused = f", {made.refused_operations} refused" if made.refused_operations else ""
        yield [
            (plain(name), "cyan"),
            counted(made.versions, "change"),
            f"{counted(made.operations, 'operation')}{refused}",
            (plain(", ".join(made.agents)), "dim"),
        ]


def _acceptance(ending: str) -> str:
    """That a reply counts though it is no good answer: ` (cut, accepted)`."""
    return f" ({ending}, accepted)" if ending else ""


def _open(found: ReportView) -> Iterator[list[Part]]:
    for each in found.interrupts:
        answer = f"answer: {each.answer_command}" if each.answer_command else ""
        yield [("?", "yellow"), (plain(each.id), "bold"), plain(each.question), answer]


def _errors(found: ReportView) -> Iterator[list[Part]]:
    for each in found.errors:
        yield [
            ("✗", "red"),
            (plain(each.step or "run"), "bold"),
            (plain(each.type), "dim"),
            plain(excerpt(sentences(each.error), _CELL)),
        ]


def _own(key: str) -> bool:
    """Whether an output says something of its own: a reply's text says what its fields say."""
    return key.rpartition(".")[2] != RESPONSE


def _set(key: str, value: Value) -> str:
    """What a step has set: the value where it is a word, say, else its name alone."""
    said = _short(value)
    return f"{key} = {said}" if len(said) <= _WORD else key


def _short(value: Value) -> str:
    if value.plain is None and value.body is not None:
        return f"(body {ContentHash(value.body)[:8]}…)"
    return excerpt(_line(value.plain), _CELL)


def _line(value: Any) -> str:
    return value if isinstance(value, str) and value else _json(value)


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- Markdown -------------------------------------------------------------------------------------


def in_markdown(found: ReportView) -> Iterator[str]:
    """The report as Markdown, line by line."""
    yield f"# Report: {fenced(found.crew or 'crew')}, run {fenced(found.run)}"
    yield ""
    yield f"{_head(found)}."
    if found.error:
        yield from ["", f"**It failed:** {fenced(excerpt(sentences(found.error), _LONGEST))}"]
    yield from _quoted("Asked for", _said(found.input))
    by = f"Result, by {fenced(found.summary_agent)}" if found.summary_agent else "Result"
    by += _acceptance(found.summary_ending)
    if not found.exchanges:
        yield from _quoted(by, _said(found.summary, None))
    for each in found.exchanges[-_EXCHANGES:]:
        title, text = _exchange(each)
        yield from _quoted(title[0].upper() + title[1:], text)
    for plan in found.item_lists:
        title = f"Plan {fenced(plan.source)}: {_counts(plan)}"
        yield from _table(title, ("", "step", "agent", "task"), _planned(plan))
    yield from _table("Steps", ("at", "", "step", "agent", "took", ""), _steps(found))
    yield from _table("Decisions", ("at", "", "who", "what"), _decisions(found))
    header = ("agent", "steps", "usage", "errors", "what it made and set")
    yield from _table("Agents", header, _agents(found))
    yield from _table("Results", ("what", "value"), _results(found))
    yield from _table("Artifacts", ("artifact", "changes", "operations", "by"), _artifacts(found))
    yield from _table("Errors", ("", "step", "type", "error"), _errors(found))
    yield from _table("Still open", ("", "id", "question", "answer"), _open(found))
    for merged in found.merged_runs:
        yield from ["", "---", "", f"Merged into {fenced(found.run)}:", ""]
        yield from in_markdown(merged)
    yield from ["", f"All of it, whole: {fenced(_WHOLE.format(run=found.run))}"]


def _quoted(title: str, text: str) -> Iterator[str]:
    if not text:
        return
    longest = max(
        (len(run) for run in text.replace("`", " `").split(" ") if set(run) == {"`"}), default=0
    )
    fence = "`" * max(3, longest + 1)
    while fence in text:
        fence += "`"
    yield from ["", f"## {title}", "", f"{fence}text", *plain_text(text).split("\n"), fence]


def plain_text(text: str) -> str:
    """A text with its lines, and without control characters."""
    return "\n".join(plain(line) for line in text.splitlines())


def _table(title: str, header: tuple[str, ...], rows: Iterable[list[Part]]) -> Iterator[str]:
    listed = [[_cell(part) for part in row] for row in rows]
    if not listed:
        return
    yield from ["", f"## {title}", "", f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    for row in listed:
        cells = [*row, *[""] * (len(header) - len(row))]
        yield f"| {' | '.join(cells)} |"


def _cell(part: Part) -> str:
    text = (part if isinstance(part, str) else part[0]).strip()
    return text if _OURS.fullmatch(text) else fenced(text).replace("|", "\\|")

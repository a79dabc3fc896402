"""The page of `crewlog trace`, and of its `--diff`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from crewlog.cli.delays import pending_cause, pending_words
from crewlog.cli.differing import state_rows
from crewlog.cli.screen import Part, Screen, clock, counted, lasted, money, plain, plain_lines
from crewlog.cli.sight import Sight
from crewlog.cli.timeline import Timeline
from crewlog.content_blocks import content_text
from crewlog.ids import StepId, item_number
from crewlog.message_files import files_of
from crewlog.model import Json
from crewlog.reporting.diff.state import StateDiff
from crewlog.reporting.events.view import EventView
from crewlog.reporting.trace.comparison import trace_diff
from crewlog.reporting.trace.view import (
    CallTrace,
    InterruptTrace,
    PendingCall,
    StepPair,
    StepTrace,
    TraceView,
    body_of,
)
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CallDelay
from crewlog.usage import Usage

_STATUSES: dict[str, tuple[str, str]] = {
    "completed": ("✓", "green"),
    "skipped": ("∅", "dim"),
    "cancelled": ("■", "yellow"),
    "detached": ("⏏", "yellow"),
    "undone": ("↶", "yellow"),
    "running": ("●", "cyan"),
    "reached": ("◌", "yellow"),
}
SHOWN_MS = 1000
"""Milliseconds in a queue from which on they are told."""
_ITEMS = 8
"""Items of a visit that are shown without `--full`."""


@dataclass
class Traced:
    """The trace of a run, with the options of the command."""

    sight: Sight
    trace: TraceView
    bodies: Mapping[Any, Json] = field(default_factory=dict[Any, Json])

    def pending(self, step: StepId, call: int) -> PendingCall | None:
        """What a call in flight waits for, if it waits or is retried."""
        found = self.sight.pending
        return next((each for each in found if (each.step, each.call) == (step, call)), None)


def show_trace(screen: Screen, found: Traced, *, full: bool) -> None:
    """A run's trace: header, then steps and events in the order in which they began.

    The traces of merged runs follow.
    """
    _show(screen, found, found.sight.status, full=full)


def _show(screen: Screen, found: Traced, status: str, *, full: bool) -> None:
    trace = found.trace
    _head(screen, trace, status)
    depths = _depths(trace)
    things: list[StepTrace | EventView] = [*trace.steps, *trace.events]
    for each in sorted(things, key=_begun):
        if isinstance(each, EventView):
            _event(screen, trace, each)
        else:
            _step(screen, found, each, depth=depths.get(each.node, 0), full=full)
    for asked in trace.interrupts:
        screen.line(*_question(asked, trace.started_at, 0), crop=True)
    if trace.error:
        screen.line("")
        screen.line(("  ✗ ", "red"), plain(trace.error))
    for merged in trace.merged_runs:
        screen.line("")
        screen.line((f"  merged into {plain(trace.run)}:", "dim"))
        _show(screen, replace(found, trace=merged), merged.status, full=full)


def _begun(each: StepTrace | EventView) -> tuple[int, int]:
    if isinstance(each, EventView):
        return (each.at, each.position)
    return (each.started_at or each.reached_at, each.start_position or each.position)


def _head(screen: Screen, trace: TraceView, status: str) -> None:
    took = lasted(trace.started_at, trace.ended_at)
    steps = [step for step in trace.all_steps() if step.started_at is not None]
    used = sum((step.usage for step in trace.steps), Usage())
    screen.line(
        ("  crew ", "dim"),
        plain(trace.crew or "?"),
        (" · run ", "dim"),
        (plain(trace.run), "bold"),
        (f" · {status}{f' · {took}' if took else ''}", "dim"),
        (f" · {counted(len(steps), 'step')} · {_used(used)}", "dim"),
    )
    screen.line("")


def _used(used: Usage) -> str:
    said = [counted(used.calls, "model call"), counted(used.tool_calls, "tool call")]
    if tokens := used.input_tokens + used.output_tokens:
        said.append(counted(tokens, "token"))
    return " · ".join([*said, *filter(None, [money(used.cost)])])


def _depths(trace: TraceView) -> dict[str, int]:
    """How deep each node is in parts of the graph that are there: `writer.reviewer` in `writer`."""
    nodes = {step.node for step in trace.steps}
    found: dict[str, int] = {}
    for step in sorted(trace.steps, key=lambda s: s.node.count(".")):
        found[step.node] = (
            found.get(step.pattern_agent, 0) + 1 if step.pattern_agent in nodes else 0
        )
    return found


def _event(screen: Screen, trace: TraceView, event: EventView) -> None:
    """What the timeline says of it: the same words in both."""
    line = Timeline()
    line.started = trace.started_at
    rows = [*line.feed(entry_from_json(event.entry)), *line.settle()]
    for row in rows:
        where = f"{row.node}: " if row.node else ""
        screen.line(
            (f"  {clock(row.at):>5}  ", "dim"),
            (f"{row.glyph} ", row.style),
            (f"{where}{row.text}", row.style),
            (f"  @{event.position}", "dim"),
            crop=True,
        )


# -- a step -----------------------------------------------------------------------------------


def _step(
    screen: Screen,
    found: Traced,
    step: StepTrace,
    *,
    depth: int,
    full: bool,
    pooled: bool = False,
) -> None:
    start = found.trace.started_at
    glyph, style = _STATUSES[step.status]
    pad = "  " * depth
    began = step.started_at if step.started_at is not None else step.reached_at
    took = lasted(began, step.ended_at) if step.started_at is not None else ""
    screen.line(
        (f"  {clock(began - start):>5}  ", "dim"),
        pad,
        (f"{glyph} ", style),
        (plain(step.step), "bold"),
        *_about(step, pooled=pooled),
        (f"  {took}" if took else "", ""),
        (f"  {_reads(step)}" if step.reads else "", "dim"),
        (f"  @{step.checkpoint}" if step.checkpoint else "", "dim"),
        crop=True,
    )
    for line in _inside(found, step):
        screen.line("         ", pad, "  ", *line, crop=not full)
    if full:
        _contents(screen, found, step, pad)
    shown = step.items if full else step.items[:_ITEMS]
    pooled = len({item.agent for item in step.items}) > 1
    for item in shown:
        _step(screen, found, item, depth=depth + 1, full=full, pooled=pooled)
    if len(step.items) > len(shown):
        more = counted(len(step.items) - len(shown), "more item")
        screen.line("         ", pad, ("  " + f"… {more}: --full shows them", "dim"))
    _changes(screen, step, full=full)


def _about(step: StepTrace, *, pooled: bool) -> Iterator[Part]:
    other = step.agent is not None and str(step.agent) != step.node
    if other and (pooled or not item_number(step.step)):
        yield f"  {plain(str(step.agent))}"
    if step.item_count:
        yield f"  {counted(step.item_count, 'item')}"
    if step.retries:
        yield (f"  tried again {counted(step.retries, 'time')}", "yellow")
    if step.accepted_ending:
        yield (f"  {step.accepted_ending}, accepted", "yellow")
    if step.status != "completed":
        yield (f"  {step.status}", _STATUSES[step.status][1])
    if step.requirement and step.started_at is None and step.ended_at is None:
        yield (f"  for {plain(step.requirement)}", "yellow")


def _reads(step: StepTrace) -> str:
    return "read " + ", ".join(f"{plain(log)} {count}" for log, count in step.reads.items())


def _inside(found: Traced, step: StepTrace) -> Iterator[list[Part]]:
    """What happened in a step: calls, questions, errors, what it set, where it went."""
    start = found.trace.started_at
    lines: list[tuple[int, list[Part]]] = []
    for call in step.calls:
        pending = found.pending(step.step, call.call) if call.ok is None else None
        lines.append((call.scheduled_at, _call(call, start, pending)))
        lines.extend((call.scheduled_at, _error(error, indent=6)) for error in call.errors)
        if pending is not None and (cause := pending_cause(pending)):
            lines.append((call.scheduled_at, _error(cause, indent=6)))
    lines += [(asked.raised_at, _question(asked, start, 2)) for asked in step.interrupts]
    yield from (line for _, line in sorted(lines, key=lambda pair: pair[0]))
    yield from (_error(error) for error in step.errors)
    for name, value in step.values.items():
        yield [("= ", "yellow"), f"{plain(name)} = {_is(found, step, value)}"]
    if step.next_nodes or step.because:
        goes = ", ".join(step.next_nodes)
        why = f"{': ' if goes else ''}{plain(step.because)}" if step.because else ""
        yield [("→ ", "magenta"), f"{goes}{why}"]


def _error(text: str, indent: int = 0) -> list[Part]:
    return [(f"{' ' * indent}✗ ", "red"), (_first(text), "red")]


def _call(call: CallTrace, start: int, pending: PendingCall | None) -> list[Part]:
    glyph = "…" if call.ok is None else "✓" if call.ok else "✗"
    style = "cyan" if call.ok is None else "" if call.ok else "red"
    name = plain(call.tool or _answerer(call))
    parts: list[Part] = [
        (f"{clock(call.scheduled_at - start):>5} ", "dim"),
        (f"{glyph} ", style),
        ("⚙ " if call.tool else "", ""),
        (name, "bold" if call.tool else ""),
    ]
    if call.arguments:
        parts.append(f" {plain(call.arguments)}")
    if call.ms is not None:
        parts.append((f"  {_ms(call.ms)}", "dim"))
    if call.delay is not None:
        parts.append((f"  {_delay(call.delay)}", "yellow"))
    if pending is not None:
        parts.append((f"  {pending_words(pending)}", "yellow"))
    tokens = f"{call.usage.input_tokens:,} → {call.usage.output_tokens:,} tokens"
    if call.usage.input_tokens or call.usage.output_tokens:
        parts.append((f"  {tokens}", "dim"))
    if call.retries:
        parts.append((f"  tried again {counted(call.retries, 'time')}", "yellow"))
    if call.denial_reason:
        parts.append((f"  ⊘ {plain(call.denial_reason)}", "red"))
    elif call.result:
        parts.append(f"  {plain(call.result)}")
    return parts


def _answerer(call: CallTrace) -> str:
    """Who answers what is no call of a tool."""
    return "result" if call.without_model else f"model {call.model}".rstrip()


def _delay(delay: CallDelay) -> str:
    """`after 4.2 s of retries (attempt 3) and 1.5 s in the queue`: none of it is the call's own."""
    retries = f"{_ms(delay.retries_ms)} of retries (attempt {delay.attempts})"
    found = [retries] if delay.attempts > 1 else []
    if delay.queue_ms >= SHOWN_MS:
        found.append(f"{_ms(delay.queue_ms)} in the queue")
    return f"after {' and '.join(found)}"


def _ms(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def _question(asked: InterruptTrace, start: int, indent: int) -> list[Part]:
    waited = lasted(asked.raised_at, asked.answered_at)
    answer = f"  {asked.decision}{f' by {asked.by}' if asked.by else ''} after {waited}"
    return [
        (f"{' ' * (2 - indent)}{clock(asked.raised_at - start):>5} ", "dim"),
        (f"? {plain(asked.id)} {plain(asked.question)}", "yellow"),
        (
            plain(answer) and f"  {plain(answer)}" if asked.answered_at is not None else "  open",
            "green",
        ),
    ]


def _contents(screen: Screen, found: Traced, step: StepTrace, pad: str) -> None:
    """Whole arguments and results of a step's calls."""
    indent = 13 + len(pad)
    for call in step.calls:
        title = f"{call.call} {call.tool or ('result' if call.without_model else 'model')}"
        if (arguments := _arguments(found, step, call)) is not None:
            screen.line(" " * (indent - 2), (f"{plain(title)} was given", "dim"))
            screen.paragraph(json.dumps(arguments, ensure_ascii=False, indent=1), indent=indent)
        body = found.bodies.get(call.body) if call.body else None
        if body is not None and (text := _text(body)):
            screen.line(" " * (indent - 2), (f"{plain(title)} said", "dim"))
            screen.paragraph(plain_lines(text), indent=indent)


def _arguments(found: Traced, step: StepTrace, call: CallTrace) -> Json:
    """What a tool was given, from the message that asks for it."""
    body: Any = found.bodies.get(call.message) if call.message else None
    if not isinstance(body, dict):
        return None
    asked: list[Any] = [*body.get("tool_calls", ()), *body.get("invalid_tool_calls", ())]
    batch = [c for c in step.calls if c.message == call.message]
    at = batch.index(call)
    return asked[at].get("args") if at < len(asked) else None


def _text(body: Json) -> str:
    content: Json = body.get("content", body) if isinstance(body, dict) else body  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(content, str):
        return content
    files = isinstance(body, dict) and files_of(body)  # pyright: ignore[reportUnknownArgumentType]
    return content_text(content, "\n") if files else json.dumps(content, ensure_ascii=False)


def _changes(screen: Screen, step: StepTrace, *, full: bool) -> None:
    if step.changes:
        changed = StateDiff(changes=step.changes)
        rows = state_rows(changed, full=full, whole=not screen.tty)
        screen.rows(("", "", "", ""), [["       ", *row] for row in rows])


def _value(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return plain(text)


def _is(found: Traced | None, step: StepTrace, value: Json) -> str:
    """A value that was set; a large one by its text, where that is there, or by its start."""
    body = body_of(value)
    if not body:
        return _value(value)
    whole = found.bodies.get(body) if found is not None else None
    if whole is not None:
        return _value(" ".join(_text(whole).split()))
    said = next((call.result for call in step.calls if call.body == body and call.result), "")
    return _value(said) if said else "(long: --full shows it)"


def _first(text: str) -> str:
    return plain(next(iter(text.splitlines()), ""))


# -- two runs ---------------------------------------------------------------------------------


def show_parting(screen: Screen, one: Traced, two: Traced, *, full: bool) -> None:
    """Two runs side by side: where they part, and what is otherwise from there on."""
    ours, theirs = plain(one.sight.run), plain(two.sight.run)
    screen.line("  ", (f"{ours} | {theirs}", "bold"))
    screen.line("")
    found = trace_diff(one.trace, two.trace)
    pairs = found.steps
    rows: list[list[Part]] = []
    same = 0
    for pair in pairs:
        if not pair.differences:
            same += 1
            if not full:
                continue
        rows.append(_pair(pair))
        if pair.differences and pair.one and pair.other:
            rows += [["", ("  " + name, "dim"), text] for name, text in _ways(pair)]
    if found.first_difference is None:
        screen.line("  the same ", (f"in {counted(same, 'step')}", "dim"))
        return
    screen.line("  they part at ", (plain(found.first_difference), "bold yellow"))
    screen.line(f"  {counted(same, 'step')} the same", ("" if full else ", not shown", "dim"))
    screen.line("")
    screen.rows(("", "", f"{ours} | {theirs}"), rows)


def _pair(pair: StepPair) -> list[Part]:
    if pair.one is None or pair.other is None:
        side = "the second" if pair.one is None else "the first"
        return [("±", "yellow"), (plain(pair.step), "bold"), f"only in {side}"]
    sides = " | ".join(
        f"{each.status} {lasted(each.started_at or each.reached_at, each.ended_at)}".strip()
        for each in (pair.one, pair.other)
    )
    sign: Part = ("~", "yellow") if pair.differences else ("=", "dim")
    return [sign, (plain(pair.step), "bold" if pair.differences else "dim"), (sides, "dim")]


def _ways(pair: StepPair) -> Iterator[tuple[str, str]]:
    for name in pair.differences:
        sides = [_side(name, each) for each in (pair.one, pair.other) if each is not None]
        yield name.replace("_", " "), " | ".join(sides)


def _side(name: str, step: StepTrace) -> str:
    match name:
        case "calls":
            tools = [f"{call.tool} {call.arguments}".strip() for call in step.calls if call.tool]
            asked = sum(c.tool is None and not c.without_model for c in step.calls)
            said = f"{asked} of a model"
            return ", ".join([said, *map(plain, tools)])
        case "results":
            last = next((c for c in reversed(step.calls) if c.ended_at is not None), None)
            return _value(last.result) if last else "none"
        case "answers":
            return (
                ", ".join(f"{a.id} {plain(a.decision) or 'open'}" for a in step.interrupts)
                or "none"
            )
        case "errors":
            found = [*step.errors, *(e for call in step.calls for e in call.errors)]
            return ", ".join(_first(each) for each in found) or "none"
        case "values":
            return (
                ", ".join(f"{plain(k)} = {_is(None, step, v)}" for k, v in step.values.items())
                or "nothing"
            )
        case "next_nodes":
            return ", ".join(step.next_nodes) or "nowhere"
        case _:
            return plain(
                {"status": step.status, "agent": step.agent, "items": step.item_count}.get(name, "")
            )

"""The page of `crewlog show`, and the lines of `crewlog log`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from crewlog.cli.delays import pending_words, tell_pending
from crewlog.cli.ending import artifacts_in, bound_part, look, used, workspace_of
from crewlog.cli.hands import assigned
from crewlog.cli.layers import recipe_of, show_layers
from crewlog.cli.pictures import show_picture
from crewlog.cli.presence import tell_stalled
from crewlog.cli.questions import answer_line, show_question
from crewlog.cli.screen import Part, Screen, clock, counted, lasted, plain, plain_lines, short_path
from crewlog.cli.sight import Sight
from crewlog.cli.timeline import sentences
from crewlog.cli.told_breaks import breaks_of
from crewlog.client import Client, Run
from crewlog.content_blocks import content_text, file_label, file_labels, is_file
from crewlog.definition.replies import RESPONSE
from crewlog.errors import CrewlogError
from crewlog.graph.timers import step_wait_text
from crewlog.model import Json
from crewlog.state.excerpt import shortened
from crewlog.state.frontier import item_agent, items_description
from crewlog.state.journal import MessageAdded, entry_from_json
from crewlog.state.model import CrewState, Output
from crewlog.state.model import ListElement as OutputPart
from crewlog.wire import EntryView

STYLES = {
    "completed": "bold green",
    "merged": "bold green",
    "running": "bold cyan",
    "failed": "bold red",
}
_BEGINNING = 20
"""Entries of a journal among which the input of its run is."""
_LONGEST = 8
"""Lines of an output that are shown."""


async def show_run(screen: Screen, client: Client, sight: Sight) -> None:
    """A run as a page: header, graph, what it does, questions, results, where to look."""
    state = sight.state
    screen.line(
        ("  crew ", "dim"),
        plain(state.crew or (sight.plan.crew if sight.plan else "") or "?"),
        (" · run ", "dim"),
        (sight.run, "bold"),
        (f" · graph v{state.graph_version} · ", "dim"),
        (sight.status, STYLES.get(sight.status, "bold yellow")),
        bound_part(state.end_reason),
    )
    screen.line("")
    if sight.plan:
        show_picture(screen, sight.plan, sight.statuses)
        screen.line("")
    if sight.prompt is not None and not state.definition:
        screen.line("  ", ("prompt:", "bold"))
        screen.paragraph(plain_lines(sight.prompt).strip(), indent=4)
        screen.line("")
    show_layers(screen, await recipe_of(client, state), state)
    _facts(screen, sight, await _given(client.run(sight.run)))
    for each in await breaks_of(client.run(sight.run), state):
        screen.line("  ", ("· ", "yellow"), each.words)
    show_frontier(screen, sight)
    for stalled in sight.stalled:
        tell_stalled(screen, sight.run, stalled)
    for question in sight.questions:
        show_question(screen, question, sight.run)
        screen.line("    ", *answer_line(sight.run, question))
    await _outputs(screen, client, sight)
    directory = assigned(sight.queue).directory if sight.queue else None
    found = workspace_of(sight.run, directory) if directory else None
    screen.line("")
    if found:
        screen.line(("  Files    ", "dim"), f"{short_path(found[0])} ({counted(found[1], 'file')})")
    look(screen, client.run(sight.run), f"crewlog log {sight.run}")


async def _given(run: Run) -> str:
    """The names of the files that a run was started with; empty where it had none."""
    with suppress(CrewlogError):  # they are a part of the picture, and no more
        for item in (await run.journal(0, _BEGINNING)).entries:
            entry = entry_from_json(item.data)
            if isinstance(entry, MessageAdded) and (names := file_labels(entry.ref.inline)):
                return names
    return ""


def _facts(screen: Screen, sight: Sight, given: str) -> None:
    state = sight.state
    began = datetime.fromtimestamp(state.started_at / 1000).astimezone()
    when = began.strftime("%Y-%m-%d %H:%M:%S")
    if sight.ended:
        when += f", took {lasted(state.started_at, sight.ended)}"
    rows: list[list[Part]] = [[("started", "dim"), when]]
    if given:
        rows.append([("files", "dim"), plain(given)])
    rows.append([("used", "dim"), used(state.total_usage, state.steps)])
    if sight.wait_reason and (sight.status == "paused" or not sight.questions):
        waits = plain(sight.wait_reason)
        if sight.wait_reason in sight.failures.values():
            waits = waits.partition(": ")[0].removeprefix("waits for ")
        rows.append([("waits for", "dim"), (waits, "yellow")])
    rows += _made(state)
    if state.error:
        rows.append([("error", "dim"), (plain(state.error), "red")])
    if state.tags:
        tags = ", ".join(f"{plain(tag)} = @{position}" for tag, position in state.tags.items())
        rows.append([("checkpoints", "dim"), tags])
    if state.execution > 1:
        rows.append([("execution", "dim"), str(state.execution)])
    if sight.at is not None:
        rows.append([("as of", "dim"), (f"position {sight.at}", "dim")])
    elif not sight.live:
        note = "no worker answers; this is what the store has"
        if sight.over:
            note = "ended from outside; more was not recorded"
        rows.append([("as of", "dim"), (f"position {state.position}: {note}", "dim")])
    screen.rows(("", ""), rows)


def _made(state: CrewState) -> Iterator[list[Part]]:
    """What the agents have set and built."""
    if state.flags:
        flags = ", ".join(f"{name} = {_short(value)}" for name, value in state.flags.items())
        yield [("flags", "dim"), plain(flags)]
    if changed := artifacts_in(state):
        yield [("artifacts", "dim"), changed]


def show_frontier(screen: Screen, sight: Sight) -> None:
    """The steps that are not done, and what each of them does or waits for."""
    if sight.over:
        return
    asked = {question.step for question in sight.questions}
    rows: list[list[Part]] = []
    for entry in sight.state.frontier.values():
        if entry.step in asked:
            continue  # the question says it
        doing = (sight.calls or {}).get(entry.step, ())
        what = ", ".join(plain(each) for each in doing) or plain(step_wait_text(entry))
        if lacks := sight.failures.get(entry.step):
            what = plain(lacks).partition(": ")[0]
        elif call := next((each for each in sight.pending if each.step == entry.step), None):
            what = f"{what}{', ' if what else ''}{pending_words(call)}"
        if entry.is_detached:
            what = f"{what}{', ' if what else ''}its node is gone: its turn ends, nothing follows"
        if entry.child_steps is not None and not what:
            what = items_description(entry.child_steps)
        agent = item_agent(sight.state, entry.step)
        name = plain(f"{entry.step} ({agent})" if agent else entry.step)
        rows.append([name, (entry.status, "cyan"), (what, "dim")])
    rows += [
        [plain(step), ("kept aside", "yellow"), ("its node is gone", "dim")]
        for step in sight.state.detached_steps
    ]
    if rows:
        screen.line("")
        screen.rows(("", "", ""), rows)
    for step, lacks in sight.failures.items():
        if step not in asked:  # the question says it
            tell_lack(screen, step, lacks)
    for call in sight.pending:
        tell_pending(screen, call)


def tell_lack(screen: Screen, step: str, lacks: str) -> None:
    """That a step waits for its tool, whole: what is lacking and what to do."""
    screen.wrapped(["  ", ("! ", "bold yellow")], f"{plain(step)} {plain(lacks)}", indent=4)


async def _outputs(screen: Screen, client: Client, sight: Sight) -> None:
    outputs = sight.state.agent_outputs
    if not outputs:
        return
    wanted = {body for found in outputs.values() for o in found.values() for body in o.bodies}
    try:
        bodies = await (await client.store()).get_bodies(wanted) if wanted else {}
    except CrewlogError:
        bodies = {}
    screen.line("")
    for agent, found in outputs.items():
        for key, output in found.items():
            if key == RESPONSE and "text" in found:
                continue  # a reply's text is its agent's last
            text = _text(output, bodies)
            title = plain(agent) if key == "text" else f"{plain(agent)}.{plain(key)}"
            lines = plain_lines(text).strip().splitlines() or ["(nothing)"]
            if len(lines) == 1 and len(title) + len(lines[0]) + 6 <= min(screen.width, 100):
                screen.line("  ", (f"{title}:  ", "bold"), lines[0])
                continue
            screen.line("  ", (f"{title}:", "bold"))
            screen.paragraph("\n".join(lines[:_LONGEST]), indent=4)
            if len(lines) > _LONGEST:
                screen.line((f"    … {counted(len(lines) - _LONGEST, 'more line')}", "dim"))


def _text(output: Output | OutputPart, bodies: dict[Any, Json]) -> str:
    if isinstance(output, Output) and output.elements:
        return "\n".join(_text(part, bodies) for part in output.elements)
    if output.body is None:
        return output.value if isinstance(output.value, str) else _json(output.value)
    body = bodies.get(output.body)
    if isinstance(body, dict):
        message: dict[str, Any] = body  # pyright: ignore[reportUnknownVariableType]
        return content_text(message.get("content", message), "\n")
    return "(not in the store)" if body is None else _json(body)


def _short(value: Json) -> str:
    return shortened(plain(value if isinstance(value, str) else _json(value)), 60)


def _json(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def journal_line(item: EntryView, start: int) -> list[Part]:
    """An entry as a line: position, time, kind, and what differs from the defaults."""
    kind = str(item.data.get("kind", "?"))
    at = int(item.data.get("at", start) or start)
    node, words = facts_in_words(item.data)
    return [
        (f"{item.position:>5}  {clock(at - start):>5}  ", "dim"),
        (f"{kind:<17} ", "cyan" if node else "bold"),
        (f"{node:<16}  " if node else "", ""),
        words,
    ]


def facts_in_words(entry: Mapping[str, Json]) -> tuple[str, str]:
    """Where an entry happened, and what it says besides its kind and time, shortened."""
    data: dict[str, Json] = {k: v for k, v in entry.items() if k not in ("kind", "at")}
    if entry.get("kind") == "CommandRejected":
        data["reason"] = sentences(str(data.get("reason", "")))
    node = str(data.pop("step", "") or data.get("agent", "") or "")
    if isinstance(state := data.get("state"), dict):
        # The whole state, which `--json` prints.
        data["state"] = f"of position {data.get('to')}, graph v{state.get('graph_version', 1)}"  # pyright: ignore[reportUnknownMemberType]
    if isinstance(remap := data.get("remap"), dict):
        data["remap"] = {name: value for name, value in remap.items() if value}  # pyright: ignore[reportUnknownVariableType]
    words = "  ".join(f"{key}={_compact(value, said=key == 'ref')}" for key, value in data.items())
    return plain(node), plain(words)[:400]


def _compact(value: Json, *, said: bool) -> str:
    if said and is_file(value):  # in a message: the same in a value is data
        return plain(file_label(value))
    if isinstance(value, dict):
        found: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
        inner = ", ".join(f"{key}: {_compact(part, said=said)}" for key, part in found.items())
        return "{" + inner + "}"
    if isinstance(value, list):
        parts: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        return "[" + ", ".join(_compact(part, said=said) for part in parts) + "]"
    text = plain(value) if isinstance(value, str) else str(value)
    return shortened(text, 80)

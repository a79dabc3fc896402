"""How a run's end is shown: what it did, what it made, and where to look."""

from __future__ import annotations

import os
from pathlib import Path

from crewlog import tool_call
from crewlog.cli.screen import Part, Screen, clock, counted, money, plain, plain_lines, short_path
from crewlog.client import Run
from crewlog.ids import ARTIFACT, RunId, is_artifact
from crewlog.run_status import BOUNDS, EndReason
from crewlog.state.model import CrewState
from crewlog.usage import Usage
from crewlog.wire import RunResult

WORDS = {
    "completed": ("done", "bold green"),
    "merged": ("merged", "bold green"),
    "stopped": ("stopped", "bold yellow"),
}


def used(usage: Usage, steps: int) -> str:
    """`5 steps · 11 tool calls asked for · 9,412 tokens · $0.004`.

    Those that were refused are among them: what was made, the audit counts.
    """
    parts = [counted(steps, "step")]
    if usage.tool_calls:
        parts.append(f"{counted(usage.tool_calls, 'tool call')} asked for")
    tokens = usage.input_tokens + usage.output_tokens
    if tokens:
        parts.append(counted(tokens, "token"))
    return " · ".join(filter(None, [*parts, money(usage.cost)]))


def summary(result: RunResult, at: int) -> list[Part]:
    """The last line of the timeline."""
    word, style = WORDS.get(result.status, (result.status, "bold"))
    bound = bound_part(result.end_reason)
    total = used(result.total, result.steps)
    return [(f"  {clock(at)}  ", "dim"), (word, style), bound, "  ", total]


def bound_part(end_reason: EndReason) -> Part:
    """The bound that a run came to and did not get past, as programs call it, where it did."""
    return (f" · {end_reason}", "yellow") if end_reason in BOUNDS else ""


def workspace_of(run: str, directory: Path) -> tuple[Path, int] | None:
    """The run's folder and how many files it has, where there is one on this machine."""
    root = directory / os.environ.get("CREWLOG_WORKSPACE", "workspace")
    folder = tool_call.workspace_of(root, RunId(run))
    try:
        files = sum(1 for file in folder.rglob("*") if file.is_file())
    except OSError:
        return None
    return (folder, files) if files else None


def artifacts_in(state: CrewState) -> str:
    """The artifacts that somebody has changed: `workflow (12 calls)`."""
    return ", ".join(
        f"{plain(log.removeprefix(ARTIFACT))} ({counted(at.length, 'call')})"
        for log, at in state.messages.items()
        if is_artifact(log)
    )


def _artifacts(screen: Screen, result: RunResult) -> None:
    """What the crew has built, and where to look at it."""
    for name, found in result.artifacts.items():
        word: Part = "" if found.valid is None else ("✓ valid", "green")
        word = ("✗ not valid", "red") if found.valid is False else word
        left = f", {found.missed:,} left out" if found.missed else ""
        did = f"{counted(found.applied, 'operation')} of {counted(found.calls, 'call')}{left}"
        screen.line(("  Artifact ", "dim"), plain(name), (f"  {did}  ", "dim"), word)
        screen.line("           ", f"crewlog artifact {result.run} {name}")


def last_words(result: RunResult) -> str:
    """What the last agent said, or the root of a graph: the result in words."""
    texts = [found.get("text") for found in result.outputs.values()]
    said = [text for text in texts if isinstance(text, str) and text.strip()]
    return said[-1] if said else ""


def show_end(screen: Screen, run: Run, result: RunResult, directory: Path | None) -> None:
    """What the last agent said, whole: it is what the run was for; and where the rest is."""
    found = workspace_of(run.id, directory) if directory else None
    said = plain_lines(last_words(result)).strip().splitlines()
    screen.line("")
    if len(said) == 1:
        screen.wrapped([("  Result   ", "dim")], said[0], indent=11)
    elif said:
        screen.line(("  Result", "dim"))
        screen.paragraph("\n".join(said), indent=4)
    if found:
        folder, files = found
        screen.line(("  Files    ", "dim"), f"{short_path(folder)} ({counted(files, 'file')})")
    _artifacts(screen, result)
    if result.is_idle:
        screen.line(("  Go on    ", "dim"), f"crewlog resume {run.id}")
    look(screen, run, f"crewlog report {run.id}")


def look(screen: Screen, run: Run, command: str = "") -> None:
    """Where to look at a run."""
    command = command or f"crewlog show {run.id}"
    url = run.url or ""
    if len(command) + len(url) + 16 <= screen.width:
        screen.line(("  Look     ", "dim"), command, (f"     {url}", "dim"))
        return
    screen.line(("  Look     ", "dim"), command)
    if url:
        # Never cropped: it is there to be clicked.
        screen.out.print(f"           {url}", style="dim", soft_wrap=True)

"""`crewlog rebuild`: what it does, and what it made."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from crewlog.cli import exits
from crewlog.cli.screen import Screen, counted, plain
from crewlog.cli.services import connected
from crewlog.client import RebuildReport
from crewlog.client.histories import Tell

_SHOWN = 5
"""Things of a kind that are named; the rest is counted."""


async def rebuild_run(run: str, *, replace: bool, as_json: bool) -> int:
    """Makes a run's rows again, and tells what was made and what could not be."""
    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        with _telling(screen) as tell:
            report = await client.run(run).rebuild(replace=replace, tell=tell)
    if as_json:
        screen.document({**report.model_dump(mode="json"), "whole": report.whole})
    else:
        _show(screen, report)
    return exits.OK if report.whole else exits.AWAY


@contextmanager
def _telling(screen: Screen) -> Generator[Tell]:
    """A moving line at a terminal, and nothing elsewhere."""
    if not screen.tty:
        yield lambda _: None
        return
    with screen.out.status("reading histories", spinner="dots", spinner_style="cyan") as status:
        yield lambda text: status.update(plain(text))


def _show(screen: Screen, report: RebuildReport) -> None:
    sign = ("✓", "green") if report.whole else ("!", "yellow")
    screen.line(
        sign,
        f" {report.run}: {counted(report.positions, 'journal position')}, "
        f"{counted(report.bodies, 'message')} and "
        f"{counted(report.snapshots, 'snapshot')} "
        f"from {counted(len(report.executions), 'execution')}",
    )
    if report.replaced_after is not None:
        screen.line(("  ", "dim"), f"rows after position {report.replaced_after} were replaced")
    for left in report.left_out:
        which = _positions(left.first, left.last)
        text = f"left out: {which} of the execution {left.execution}: {plain(left.why)}"
        screen.wrapped(["  "], text, indent=4)
    for text in _shortfalls(report):
        screen.wrapped(["  ", ("! ", "yellow")], text, indent=4)


def _shortfalls(report: RebuildReport) -> Iterator[str]:
    """What is not as it was, and why."""
    for gap in report.missing:
        yield f"missing: {_positions(gap.first, gap.last)}"
    if report.absent:
        yield f"the server does not have the executions any more: {_names(report.absent)}"
    if report.apart:
        yield (
            "left out, because nothing says that they belong to the run: the executions "
            f"{_names(report.apart)}"
        )
    if report.lacking:
        yield (
            f"lacking: {counted(len(report.lacking), 'message or definition')} that entries name: "
            f"{_names(report.lacking)}. The definition comes back with `crewlog register FILE`, if "
            "the file is what it was."
        )
    if report.tail == "unknown":
        yield (
            f"no worker answered: what the run recorded after position {report.position}, if "
            "anything, is stored when it goes on"
        )
    for problem in report.problems[:_SHOWN]:
        yield f"not read: {plain(problem)}"
    if len(report.problems) > _SHOWN:
        yield f"not read: {len(report.problems) - _SHOWN} more; --json has all"


def _positions(first: int, last: int) -> str:
    return f"journal positions {first} to {last}" if last > first else f"journal position {first}"


def _names(names: tuple[str, ...]) -> str:
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{rest}"

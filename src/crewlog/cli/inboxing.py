"""`inbox`: what runs ask people, over all runs."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug

if TYPE_CHECKING:
    from crewlog.cli.screen import Part, Screen
    from crewlog.client import Client
    from crewlog.reporting.inbox import InboxInterruptView

TALK = "Talk"
MOST = 200
"""Runs that are looked through for what they wait for."""
WAITS = "waits for "
"""How it begins where calls wait that have not begun: not so a timer, or a conversation."""
PAUSE = 1.0
"""Seconds between two looks of `--watch`."""


@app.command(rich_help_panel=TALK)
def inbox(
    mine: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="NAME",
            help="Only what this person may answer.",
            show_default=False,
        ),
    ] = "",
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on, and tell what is asked and answered.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """The open questions of all runs, oldest first: since when, who may answer, until when.

    Behind them, the runs that wait for something else that people see to: a worker, a server of
    tools, an approval of its tools, the store. With --json it is a question a line, in LangChain's
    human-in-the-loop shape.
    """
    return go(_inbox(mine, watch=watch, as_json=as_json), debug=debug)


async def _inbox(mine: str, *, watch: bool, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, counted  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    shown: dict[tuple[str, str], InboxInterruptView] = {}
    waits: dict[str, str] = {}
    async with connected(screen, both=True) as client:
        while True:
            every = await client.inbox()
            found = {
                (str(each.run), str(each.id)): each
                for each in every
                if not mine or not each.to or mine in each.to
            }
            for key, each in found.items():
                if key not in shown:
                    _show(screen, each, as_json=as_json)
            for run, number in [key for key in shown if key not in found]:
                if as_json:
                    screen.record({"event": "closed", "run": run, "id": number})
                else:
                    screen.line("  ", ("✓ ", "green"), f"{run} {number} is not open any more")
            shown = found
            asked = {run for run, _ in found}
            waits = await _told_of(client, asked, waits, screen)
            if not watch:
                break
            await asyncio.sleep(PAUSE)
    if not as_json:
        told = counted(len(shown), "question") if shown else "nothing is asked"
        if more := others(every, len(shown), mine):
            told += f" {'for' if shown else 'of'} {mine}; {more}"
        screen.line()
        screen.line("  ", (told, "dim"))
    return exits.OK


async def _told_of(
    client: Client, asked: Collection[str], told: Mapping[str, str], screen: Screen
) -> dict[str, str]:
    """Tells which runs wait for something that nobody is asked, and were not told to before."""
    from crewlog.cli.screen import plain  # noqa: PLC0415
    from crewlog.errors import TemporalUnavailable  # noqa: PLC0415

    try:
        runs = await client.list(statuses=("waiting",), limit=MOST, pending=True)
    except TemporalUnavailable:
        return {**told}  # the questions are in the store, which is there
    found = {
        str(each.run): each.wait_reason
        for each in runs
        if each.run not in asked and each.wait_reason.startswith(WAITS)
    }
    for run, why in found.items():
        if told.get(run) == why:
            continue
        if screen.as_json:
            screen.record({"event": "waiting", "run": run, "wait_reason": why})
            continue
        screen.line("")
        screen.line("  ", (plain(run), "bold"))
        screen.wrapped(["  ", ("! ", "bold yellow")], plain(why), indent=4)
    return found


def others(every: Sequence[InboxInterruptView], shown: int, mine: str) -> str:
    """Whom the questions are asked of that `--for` leaves out; empty where it leaves out none.

    Args:
        every: All open questions.
        shown: How many of them are shown.
        mine: The name behind `--for`.
    """
    from crewlog.cli.screen import counted, plain  # noqa: PLC0415
    from crewlog.definition.findings import listed  # noqa: PLC0415

    if not (left := len(every) - shown):
        return ""
    people = sorted({name for each in every for name in each.to if name != mine})
    verb = "is" if left == 1 else "are"
    return f"{counted(left, 'question')} {verb} asked of others: {plain(listed(people))}"


def answerer(to: Sequence[str], user: str) -> str:
    """` --by ana`, where others are asked than who types it; empty: not needed.

    Args:
        to: Whom the question is asked of; none: everyone.
        user: Who types, by default.
    """
    return f" --by {shlex.quote(to[0])}" if to and user not in to else ""


def _show(screen: Screen, each: InboxInterruptView, *, as_json: bool) -> None:
    from crewlog.cli.questions import answer_command, whom  # noqa: PLC0415
    from crewlog.cli.screen import ago, plain  # noqa: PLC0415
    from crewlog.client.approvals import MCP_APPROVAL  # noqa: PLC0415
    from crewlog.client.session import system_user  # noqa: PLC0415
    from crewlog.graph.interrupts import reason_text  # noqa: PLC0415

    if as_json:
        screen.record({"event": "open", **each.model_dump(mode="json")})
        return
    told = [*([ago(each.raised_at)] if each.raised_at else []), *whom(each)]
    screen.line("")
    run: Part = (plain(each.run), "bold")
    screen.line("  ", run, f"  {each.id}  ", (plain(" · ".join(told)), "dim"))
    screen.line("  ", ("? ", "bold yellow"), plain(each.question))
    if because := reason_text(each.reason, each.risk, each.rule):
        screen.paragraph(f"because {because}", style="dim", indent=4)
    if each.exhausted_quota:
        screen.paragraph(each.exhausted_quota, style="yellow", indent=4)
    if each.kind == MCP_APPROVAL:  # no answer to the run approves it: the detail says what does
        screen.paragraph(each.detail, style="dim", indent=4)
    by = answerer(each.to, system_user())
    screen.line("    ", ("answer:  ", "dim"), answer_command(each.run, each), by)

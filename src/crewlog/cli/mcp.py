"""`mcp list`, `show`, `approve`: what a crew's servers offer, and what of it a person approved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import Grouped, app, go
from crewlog.cli.options import AsJson, By, Debug
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from crewlog.authority.signatures import SignedApproval
    from crewlog.cli.screen import Part, Screen
    from crewlog.client import Client
    from crewlog.definition.model import CrewDefinition
    from crewlog.definition.policy import Policy
    from crewlog.mcp_servers.descriptions import ApprovedDescription, ToolDescription
    from crewlog.model import Json
    from crewlog.store.protocol import Store

NOT_OFFERED = "not offered by the server"
"""The state of a tool that a crew takes from a server that does not have it."""
_COLORS = {"approved": "green", NOT_OFFERED: "red"}
mcp = typer.Typer(
    name="mcp",
    cls=Grouped,
    help="Tools of MCP servers: what they say of themselves, and what of it is approved.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(mcp, rich_help_panel="Crews")

_File = Annotated[
    Path, typer.Argument(metavar="FILE", help="The crew's YAML or JSON file.", show_default=False)
]
_Server = Annotated[
    str | None,
    typer.Argument(metavar="[SERVER]", help="One of its servers.", show_default=False),
]
_Tool = Annotated[
    str | None,
    typer.Argument(metavar="[TOOL]", help="One of the server's tools.", show_default=False),
]


@dataclass
class _Offered:
    """A tool of a server, and what became of it."""

    server: str
    source: str
    tool: ToolDescription
    called: str
    """Its name in the crew; empty where the crew does not have it."""
    pinned: str | None
    """The hash that the definition approves."""
    approved: str | None
    """The hash that counts."""
    by: str = ""
    """Who approved it with a signature that counts by the crew's policy."""
    before: ApprovedDescription | None = None
    """What it said when it was approved; none where it says the same, or the store has no text of
    that approval."""

    offered: bool = True
    """Whether the server has the tool: else only the crew names it."""

    @property
    def state(self) -> str:
        if not self.offered:
            return NOT_OFFERED
        if self.tool.fault:
            return "cannot be used"
        if self.approved is None:
            return "new"
        return "approved" if self.approved == self.tool.hash else "changed"

    def to_json(self) -> dict[str, Json]:
        return {
            "server": self.server,
            "tool": self.tool.name,
            "name": self.called or None,
            "state": self.state,
            "fault": self.tool.fault or None,
            "hash": self.tool.hash,
            "approved": self.approved,
            "by": self.by or None,
            "description": self.tool.description,
            "arguments": self.tool.schema,
            "before": self.before.to_json() if self.before and self.state == "changed" else None,
        }


@mcp.command("list")
def list_(
    file: _File, server: _Server = None, as_json: AsJson = False, debug: Debug = False
) -> int:
    """List the tools of a crew's MCP servers, and whether what they say is approved."""
    return go(_look(file, server, None, whole=False, as_json=as_json), debug=debug)


@mcp.command()
def show(
    file: _File,
    server: _Server = None,
    tool: _Tool = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show what tools of MCP servers say of themselves: all that a model would be told."""
    return go(_look(file, server, tool, whole=True, as_json=as_json), debug=debug)


@mcp.command()
def approve(
    file: _File,
    server: _Server = None,
    tool: _Tool = None,
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="DIGEST",
            help="Only if the tool still has this hash, as `show` prints it.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    by: By = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Approve what the crew's tools of MCP servers say of themselves now.

    Should one say anything else later, it is blocked until it is approved anew. Tools that the crew
    does not have are not approved along with the others.
    """
    if digest is not None and tool is None:
        raise UsageError(
            "--digest goes with one tool", remedy="crewlog mcp approve FILE SERVER TOOL"
        )
    found = _approve(file, server, tool, digest, yes=yes, by=by, as_json=as_json)
    return go(found, debug=debug)


async def _look(
    file: Path, server: str | None, tool: str | None, *, whole: bool, as_json: bool
) -> int:
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        found = await _offered(file, await client.store(), server, tool)
    if as_json:
        screen.document({"tools": [each.to_json() for each in found]})
    elif whole:
        for each in found:
            _told(screen, each)
    else:
        rows: list[list[Part]] = [
            [
                plain(each.server),
                plain(each.tool.name),
                (plain(each.called) or "not in the crew", "" if each.called else "dim"),
                (
                    f"{each.state} by {plain(each.by)}" if each.by else each.state,
                    _COLORS.get(each.state, "yellow"),
                ),
            ]
            for each in found
        ]
        screen.rows(["server", "tool", "in the crew", ""], rows)
    return exits.OK


async def _approve(
    file: Path,
    server: str | None,
    tool: str | None,
    digest: str | None,
    *,
    yes: bool,
    by: str | None,
    as_json: bool,
) -> int:
    from crewlog.cli.screen import Screen, counted, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.client.approvals import approve_tool  # noqa: PLC0415
    from crewlog.definition.load import load_file  # noqa: PLC0415
    from crewlog.mcp_servers.descriptions import approved_description  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        store = await client.store()
        found = await _offered(file, store, server, tool)
        new = [each for each in found if each.called and each.state in ("new", "changed")]
        if digest is not None and found[0].tool.hash != digest:
            raise UsageError(
                f"the tool {found[0].tool.name!r} has another hash now: {found[0].tool.hash}",
                remedy="Look at it again: crewlog mcp show.",
            )
        if pinned := [each for each in new if each.pinned]:
            raise UsageError(
                f"the tool {pinned[0].called!r} is approved in the definition, by another hash",
                remedy="Correct its 'approved' there, or leave it out.",
            )
        if new and not yes:
            if not screen.asks:
                raise UsageError("nobody is there to be asked", remedy="Look, then say --yes.")
            for each in new:
                _told(screen, each)
            screen.note(f"Approve {counted(len(new), 'tool')}? [y/N] ")
            if (await asyncio.to_thread(input)).strip().lower() not in {"y", "yes"}:
                return exits.USAGE
        for each in new:
            each.by = await approve_tool(
                client,
                load_file(file).policy,
                each.source,
                each.tool.name,
                each.tool.hash,
                by=by or client.user,
                told=approved_description(each.tool).to_text(),
            )
        waiting = await _waiting(client, found)
    if as_json:
        runs = [{"run": run, "polled": polls} for run, polls in waiting.items()]
        screen.document({"approved": [each.to_json() for each in new], "runs": runs})
    for each in new:
        screen.line(("approved  ", "green"), plain(each.called), (f"  {each.tool.hash}", "dim"))
    if not new:
        screen.line(
            "nothing is new: every tool of the crew is approved as it is, or cannot be used"
        )
    _tell_waiting(screen, waiting)
    return exits.OK


def _tell_waiting(screen: Screen, waiting: Mapping[str, bool]) -> None:
    """How the runs go on that waited for an approval."""
    from crewlog.cli.screen import plain  # noqa: PLC0415

    for run, polls in waiting.items():
        name: Part = (plain(run), "bold")
        if polls:
            screen.line("  ", name, " waits for this, and goes on within ten seconds")
        else:
            screen.line(
                "  ", name, f" waits for this, and has no worker: crewlog watch {plain(run)}"
            )


async def _waiting(client: Client, found: Sequence[_Offered]) -> dict[str, bool]:
    """The runs that asked for an approval there is now, and whether a worker polls for each."""
    from crewlog.cli.background import polled  # noqa: PLC0415
    from crewlog.client.approvals import asked_tool  # noqa: PLC0415
    from crewlog.errors import RunNotFound  # noqa: PLC0415

    tools = {(each.source, each.tool.name) for each in found}
    store = await client.store()
    runs: dict[str, bool] = {}
    for asked in await client.inbox():
        if asked.approved_at and await asked_tool(store, asked.run, asked) in tools:
            with suppress(RunNotFound):
                queue = (await client.gateway.describe(asked.run)).task_queue
                runs[asked.run] = await polled(client, queue)
    return runs


def _told(screen: Screen, each: _Offered) -> None:
    """All that a model would be told of a tool, safe to look at."""
    from crewlog.cli.screen import plain, plain_lines  # noqa: PLC0415
    from crewlog.mcp_servers.descriptions import approved_description  # noqa: PLC0415

    name = f" as {plain(each.called)}" if each.called else ", not in the crew"
    screen.line((plain(each.tool.name), "bold"), f" of {plain(each.server)}{name}: {each.state}")
    if each.tool.fault:
        screen.line("  ", (plain(each.tool.fault), "yellow"))
    if not each.offered:
        return
    screen.line("  ", (f"hash {each.tool.hash}", "dim"))
    if each.approved not in (None, each.tool.hash):
        screen.line("  ", (f"approved is {each.approved}", "yellow"))
    for line in plain_lines(approved_description(each.tool).text()).splitlines():
        screen.line(f"    {line}")
    if each.state == "changed":
        _told_change(screen, each)


def _told_change(screen: Screen, each: _Offered) -> None:
    """What a tool says otherwise than when it was approved."""
    from crewlog.cli.texts import lines_between  # noqa: PLC0415
    from crewlog.mcp_servers.descriptions import approved_description  # noqa: PLC0415

    if each.before is None:
        screen.line("  ", ("what it said when it was approved was not kept", "dim"))
        return
    changed = lines_between(each.before.text(), approved_description(each.tool).text())
    if not changed:
        said = "a model is told the same: its title differs, or what is cut or not shown"
        screen.line("  ", (said, "yellow"))
        return
    screen.line("  ", ("since it was approved:", "yellow"))
    for line in changed:
        screen.line("    ", line)


async def _offered(
    file: Path, store: Store, server: str | None, tool: str | None
) -> list[_Offered]:
    """The tools of a crew's servers, those of the crew first."""
    from crewlog.definition.findings import did_you_mean  # noqa: PLC0415
    from crewlog.definition.load import load_file  # noqa: PLC0415
    from crewlog.mcp_servers.sessions import Sessions  # noqa: PLC0415

    crew = load_file(file)
    if not crew.mcp:
        raise UsageError(f"{str(file)!r} has no MCP servers", remedy="Name some under 'mcp:'.")
    if server is not None and server not in crew.mcp:
        remedy = did_you_mean(server, crew.mcp, f"There are: {', '.join(crew.mcp)}.")
        raise UsageError(f"the crew has no MCP server {server!r}", remedy=remedy)
    found: list[_Offered] = []
    sessions = Sessions()
    try:
        for name in [server] if server is not None else crew.mcp:
            spec = crew.mcp[name]
            approved = await store.list_approved_tools(spec.source)
            tools = (await sessions.of(name, spec).list_tools()).values()
            made = [_one(crew, name, each, approved.get(each.name)) for each in tools]
            made += _not_offered(crew, name, {each.name for each in tools})
            if crew.policy is not None and crew.policy.signed:
                _proven(
                    [each for each in made if each.offered],
                    crew.policy,
                    await store.list_signed_approvals(spec.source),
                )
            if any(each.state == "changed" for each in made):
                _remembered(made, await store.list_approved_descriptions(spec.source))
            found += made
    finally:
        await sessions.close()
    if tool is not None:
        names = [each.tool.name for each in found] + [each.called for each in found]
        found = [each for each in found if tool in (each.tool.name, each.called)]
        if not found:
            remedy = did_you_mean(tool, filter(None, names), "`crewlog mcp list` says what it has.")
            raise UsageError(f"the MCP server {server!r} has no tool {tool!r}", remedy=remedy)
    return sorted(found, key=lambda each: not each.called)


def _remembered(found: list[_Offered], kept: dict[str, str]) -> None:
    """Notes what changed tools said when they were approved, where it was just that."""
    from crewlog.mcp_servers.descriptions import parse_approved_description  # noqa: PLC0415

    for each in found:
        if each.state != "changed" or each.tool.name not in kept:
            continue
        words = parse_approved_description(kept[each.tool.name])
        if words.hash == each.approved:  # else the definition or a signature approves another one
            each.before = words


def _proven(found: list[_Offered], policy: Policy, proofs: Sequence[SignedApproval]) -> None:
    """Leaves approved what somebody approved who may, by a signed policy."""
    from crewlog.authority.principals import approver  # noqa: PLC0415 - slow, and few are signed

    for each in found:
        hash_, at = each.tool.hash, int(time.time() * 1000)
        each.by = approver(policy, proofs, each.tool.name, hash_, at=at)
        if each.pinned is None:
            # The newest are first: that is what people have seen last.
            known = [proof.hash for proof in proofs if proof.tool == each.tool.name]
            older = next((other for other in known if other != hash_), None)
            each.approved = hash_ if each.by else older


def _one(
    crew: CrewDefinition, server: str, tool: ToolDescription, approved: str | None
) -> _Offered:
    run = f"mcp:{server}/{tool.name}"
    called = next((name for name, each in crew.tools.items() if each.run == run), "")
    pinned = crew.tools[called].approved if called else None
    return _Offered(server, crew.mcp[server].source, tool, called, pinned, pinned or approved)


def _not_offered(crew: CrewDefinition, server: str, offered: Collection[str]) -> list[_Offered]:
    """The crew's tools of a server that the server does not have."""
    from crewlog.definition.findings import did_you_mean  # noqa: PLC0415
    from crewlog.definition.reaching import mcp_tool  # noqa: PLC0415
    from crewlog.mcp_servers.descriptions import ToolDescription  # noqa: PLC0415

    found: list[_Offered] = []
    for called, definition in crew.tools.items():
        of, remote = mcp_tool(definition.run) or ("", "")
        if of != server or remote in offered:
            continue
        hint = did_you_mean(remote, offered)
        fault = f"the server {server!r} does not offer it. {hint}".rstrip()
        tool = ToolDescription(remote, "", {}, "", fault)
        source = crew.mcp[server].source
        found.append(_Offered(server, source, tool, called, None, None, offered=False))
    return found

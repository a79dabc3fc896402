"""`memory list`, `read`, `write`, `forget`, `delete`: what crews remember beyond one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import Grouped, app, go
from crewlog.cli.options import AsJson, By, Debug
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from crewlog.cli.screen import Screen
    from crewlog.store.memories import Memory

memory = typer.Typer(
    name="memory",
    cls=Grouped,
    help="What crews remember beyond one run: list, read, write, forget, delete.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(memory, rich_help_panel="Crews")

Crew = Annotated[str, typer.Argument(metavar="CREW", help="The crew's name.", show_default=False)]
_SCOPE = "public, agent:NAME or group:NAME"
Scope = Annotated[str, typer.Argument(metavar="SCOPE", help=f"{_SCOPE}.", show_default=False)]
SomeScope = Annotated[
    str | None,
    typer.Argument(metavar="SCOPE", help=f"{_SCOPE}. Default: all.", show_default=False),
]


@memory.command("list")
def list_(
    crew: Annotated[
        str | None,
        typer.Argument(metavar="CREW", help="The crew's name. Default: all.", show_default=False),
    ] = None,
    scope: SomeScope = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="How many.")] = 100,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List a crew's memories, the newest first; without a crew, all scopes that have some."""
    return go(_list(crew, scope, limit, as_json=as_json), debug=debug)


async def _list(crew: str | None, scope: str | None, limit: int, *, as_json: bool) -> int:
    from crewlog.cli.screen import Part, Screen, ago, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        if crew is None:
            found = await client.memory.scopes()
            if as_json:
                screen.document({"scopes": [each.model_dump(mode="json") for each in found]})
                return exits.OK
            rows: list[list[Part]] = [
                [plain(each.crew), plain(each.scope), f"{each.count:,}", ago(each.newest)]
                for each in found
            ]
            _rows(screen, ("crew", "scope", "memories", "newest"), rows)
            return exits.OK
        memories = await client.memory.newest(crew, scope, limit=limit)
    if as_json:
        screen.document({"memories": [each.model_dump(mode="json") for each in memories]})
    else:
        lines: list[list[Part]] = [
            [plain(m.scope), plain(m.key), plain(m.author.name), ago(m.at), plain(m.text)]
            for m in memories
        ]
        _rows(screen, ("scope", "key", "author", "written", "text"), lines)
    return exits.OK


def _rows(screen: Screen, header: tuple[str, ...], rows: list[list[str | tuple[str, str]]]) -> None:
    if rows:
        screen.rows(header, rows)
    else:
        screen.line("Nothing is remembered.")


@memory.command()
def read(
    crew: Crew,
    query: Annotated[
        str,
        typer.Argument(metavar="QUERY", help="What to look for; empty: the newest."),
    ] = "",
    scope: Annotated[
        str | None,
        typer.Option(
            "--scope", metavar="SCOPE", help=f"{_SCOPE}. Default: all.", show_default=False
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=50, help="How many.")] = 5,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Search what a crew remembers: the best first."""
    return go(_read(crew, scope, query, limit, as_json=as_json), debug=debug)


async def _read(crew: str, scope: str | None, query: str, limit: int, *, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        found = await client.memory.read(crew, scope, query, limit=limit)
    if as_json:
        screen.document(found.model_dump(mode="json"))
        return exits.OK
    for each in found.memories:
        _tell(screen, each)
    if not found.memories:
        screen.line("Nothing is remembered of that.")
    if found.note:
        screen.note(("▸ ", "green"), found.note)
    return exits.OK


def _tell(screen: Screen, each: Memory) -> None:
    from crewlog.cli.screen import ago, plain, plain_lines  # noqa: PLC0415

    where = f" · {plain(each.author.run)} {plain(each.author.step)}" if each.author.run else ""
    screen.line(
        plain(each.scope),
        " ",
        (plain(each.key), "bold"),
        (f"  {plain(each.author.name)} · {ago(each.at)}{where}", "dim"),
    )
    screen.block(plain_lines(each.text))


@memory.command()
def write(
    crew: Crew,
    scope: Scope,
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT …", help="What to remember.", show_default=False)
    ],
    key: Annotated[
        str,
        typer.Option(
            "--key", metavar="KEY", help="Its name; replaces what had it.", show_default=False
        ),
    ] = "",
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="DURATION", help="How long: 12h, 30d.", show_default=False),
    ] = None,
    by: By = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Write into what a crew remembers."""
    if key and len(texts) > 1:
        raise UsageError("--key goes with one text")
    return go(_write(crew, scope, texts, key, keep, by, as_json=as_json), debug=debug)


async def _write(
    crew: str,
    scope: str,
    texts: list[str],
    key: str,
    keep: str | None,
    by: str | None,
    *,
    as_json: bool,
) -> int:
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.store.memories import LONGEST_KEY, NewMemory  # noqa: PLC0415

    seconds = None if keep is None else _seconds("--keep", keep)
    if len(key) > LONGEST_KEY or not all(texts):
        raise UsageError(f"a text has a character at least, and a key {LONGEST_KEY} at most")
    screen = Screen(as_json=as_json)
    given = [NewMemory(text=text, key=key, keep=seconds) for text in texts]
    async with connected(screen, both=True) as client:
        kept = await client.memory.write(crew, scope, given, by=by)
    if as_json:
        screen.document({"memories": [each.model_dump(mode="json") for each in kept]})
    else:
        for each in kept:
            screen.line(("✓", "green"), f" kept in {plain(scope)}: {plain(each.key)}")
    return exits.OK


@memory.command()
def forget(
    crew: Crew,
    scope: SomeScope = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Of this key.", show_default=False)
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="That this run wrote.", show_default=False),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="STEP", help="That this step wrote.", show_default=False),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Written so long ago: 12h, 30d.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Remove memories for good: by scope, key, run, step or age; all that is said must hold."""
    if (scope, key, run, step, older_than) == (None,) * 5:
        raise UsageError(
            "say what is to be forgotten",
            remedy="Name a scope, --key, --run or --older-than; `crewlog memory delete` removes "
            "everything of a crew.",
        )
    return go(_forget(crew, scope, key, run, step, older_than, as_json=as_json), debug=debug)


async def _forget(
    crew: str,
    scope: str | None,
    key: str | None,
    run: str | None,
    step: str | None,
    older_than: str | None,
    *,
    as_json: bool,
) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    seconds = None if older_than is None else _seconds("--older-than", older_than)
    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        gone = await client.memory.forget(
            crew, scope, key=key, run=run, step=step, older_than=seconds
        )
    _gone(screen, gone)
    return exits.OK


@memory.command()
def delete(
    crew: Crew,
    yes: Annotated[bool, typer.Option("--yes", help="It is meant. It cannot be undone.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Remove everything that a crew remembers, for good."""
    if not yes:
        raise UsageError(
            f"everything that the crew {crew!r} remembers would be removed",
            remedy=f"`crewlog memory list {crew}` shows it; with --yes it is removed.",
        )
    return go(_delete(crew, as_json=as_json), debug=debug)


async def _delete(crew: str, *, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        gone = await client.memory.delete(crew)
    _gone(screen, gone)
    return exits.OK


def _gone(screen: Screen, count: int) -> None:
    if screen.as_json:
        screen.document({"forgotten": count})
    else:
        if not count:
            screen.line(("–", "dim"), " nothing was removed: no memory is like that")  # noqa: RUF001
            return
        what = "memory" if count == 1 else "memories"
        screen.line(("✓", "green"), f" {count:,} {what} removed")


def _seconds(option: str, text: str) -> float:
    from crewlog.definition.model import parse_duration  # noqa: PLC0415

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}", remedy="e.g. 30d") from None

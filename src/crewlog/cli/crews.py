"""`crews list`, `show`, `add`, `diff`, `who`: what is registered, and who can do what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import Grouped, app, go
from crewlog.cli.options import AsJson, Debug
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from crewlog.definition.capabilities import Offer

crews = typer.Typer(
    name="crews",
    cls=Grouped,
    help="Registered crews and registries: list, add, compare them; who can do what.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(crews, rich_help_panel="Crews")

_NAME = "NAME or NAME@VERSION of a crew or registry, REGISTRY/NAME of a part"


@crews.command("list")
def list_(
    all_versions: Annotated[
        bool, typer.Option("--all-versions", "-a", help="Every version, not the newest alone.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List the registered crews and registries."""
    return go(_list(all_versions=all_versions, as_json=as_json), debug=debug)


async def _list(*, all_versions: bool, as_json: bool) -> int:
    from crewlog.cli.catalogued import crew_json, list_catalog, registry_json  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        found = await client.catalog.crews(all_versions=all_versions)
        registries = await client.catalog.registries(all_versions=all_versions)
        if as_json:
            screen.document(
                {
                    "crews": [crew_json(each) for each in found],
                    "registries": [registry_json(each) for each in registries],
                }
            )
        else:
            list_catalog(screen, found, registries)
    return exits.OK


@crews.command()
def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME[@VERSION]", help=f"{_NAME}.", show_default=False)
    ],
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="The definition as YAML: the file it could be.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show a crew: its graph, agents with their tools, permissions, where its parts come from.

    Also a registry (press), or a part of one (press/write_file).
    """
    if as_yaml and as_json:
        raise UsageError("--yaml and --json are two formats", remedy="Choose one of them.")
    return go(_show(name, as_yaml=as_yaml, as_json=as_json), debug=debug)


async def _show(name: str, *, as_yaml: bool, as_json: bool) -> int:
    from crewlog.cli.catalogued import show_found  # noqa: PLC0415
    from crewlog.cli.finding import find  # noqa: PLC0415
    from crewlog.cli.screen import Screen, write  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.definition.write import yaml_of  # noqa: PLC0415

    screen = Screen(as_json=as_json or as_yaml)
    async with connected(screen, both=True) as client:
        found = await find(client.catalog, name)
        if as_yaml:
            write(yaml_of(found.content).rstrip("\n"))
        elif as_json:
            versions = [
                each.version for each in await client.catalog.history(found.kind, found.name)
            ]
            reference = found.reference.model_dump(mode="json")
            screen.document({**reference, "versions": versions, "content": found.data})
        else:
            await show_found(screen, client.catalog, found)
    return exits.OK


@crews.command()
def add(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A crew's or a registry's YAML or JSON file.", show_default=False
        ),
    ],
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Register a crew's or a registry's file: a new version, unless nothing changed."""
    return go(_add(file, as_json=as_json), debug=debug)


async def _add(file: Path, *, as_json: bool) -> int:
    from crewlog.cli.catalogued import tell_crew, tell_registry  # noqa: PLC0415
    from crewlog.cli.files import is_registry, load_crew  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.prompt.registry_file import load_registry_file  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    if is_registry(file):
        registry = load_registry_file(file)  # faults need no server
        async with connected(screen, both=True) as client:
            tell_registry(screen, await client.catalog.add_registry(registry), registry)
        return exits.OK
    definition = load_crew(file)
    async with connected(screen, both=True) as client:
        tell_crew(screen, await client.catalog.add_crew(definition))
    return exits.OK


@crews.command()
def remove(
    name: Annotated[str, typer.Argument(help="The crew's name.", show_default=False)],
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Take a crew from the list, in all its versions; runs that have it go on."""
    return go(_remove(name, as_json=as_json), debug=debug)


async def _remove(name: str, *, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, counted, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        gone = await client.catalog.remove_crew(name)
    if as_json:
        screen.document({"crew": name, "versions": gone})
    screen.line(("✓ ", "green"), f"{plain(name)} is removed: {counted(gone, 'version')}")
    return exits.OK


@crews.command()
def default(
    name: Annotated[
        str | None,
        typer.Argument(help="The crew; without it, say which it is.", show_default=False),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="No crew is the default any more.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Say or choose the crew that `crewlog run` runs where none is named."""
    if none and name is not None:
        raise UsageError(
            "--none does not go with a crew's name",
            remedy="Leave one of the two out.",
            place="crewlog crews default",
        )
    return go(_default(name, none=none, as_json=as_json), debug=debug)


async def _default(name: str | None, *, none: bool, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        if name is not None or none:
            await client.catalog.set_default_crew(name)
        chosen = await client.catalog.default_crew()
    if as_json:
        screen.document({"default": chosen})
    elif chosen is None:
        screen.line("No crew is the default. ", ("Choose one: crewlog crews default NAME", "dim"))
    else:
        screen.line(plain(chosen), (" is the default crew", "dim"))
    return exits.OK


@crews.command()
def diff(
    old: Annotated[
        str, typer.Argument(metavar="A", help=f"A file; or {_NAME}.", show_default=False)
    ],
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="[B]",
            help="The same. By default A itself, compared with the version before it.",
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Say what differs between two crews, registries or parts: from A to B.

    Exits with 0 whether they differ or not; --json has it as "same".
    """
    return go(_diff(old, new, as_json=as_json), debug=debug)


async def _diff(old: str, new: str | None, *, as_json: bool) -> int:
    from contextlib import AsyncExitStack  # noqa: PLC0415

    from crewlog.cli.catalogued import show_diff  # noqa: PLC0415
    from crewlog.cli.finding import find, is_file, load, predecessor  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.definition.diff import diff_models  # noqa: PLC0415
    from crewlog.reporting.diff.view import DefinitionDiffView  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with AsyncExitStack() as stack:
        if new is not None and is_file(old) and is_file(new):
            one, other = load(old), load(new)  # needs no server
        else:
            client = await stack.enter_async_context(connected(screen, both=True))
            # Files first: their faults are told whatever is registered.
            loaded = {name: load(name) for name in (old, new) if name and is_file(name)}
            one = loaded.get(old) or await find(client.catalog, old)
            if new is None:
                one, other = await predecessor(client.catalog, one), one
            else:
                other = loaded.get(new) or await find(client.catalog, new)
    if one.kind != other.kind:
        raise UsageError(
            f"{one.label} is a {one.kind}, and {other.label} a {other.kind}",
            remedy="Compare two of one kind; `crew:NAME` and `registry:NAME` say which is meant.",
        )
    found = diff_models(one.content, other.content)
    if as_json:
        view = DefinitionDiffView(
            same=not found, old=one.reference, new=other.reference, changes=found.changes
        )
        screen.document(view.model_dump(mode="json"))
    else:
        show_diff(screen, one, other, found)
    return exits.OK


@crews.command()
def who(
    word: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOOL|KEY|LOG]",
            help="A tool, a flag, an output (checker.score), or a log (public, group:G). "
            "Default: all tools.",
            show_default=False,
        ),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--in",
            metavar="FILE",
            help="Ask this crew's or registry's file instead; may be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Say who can call a tool, who sets a flag or output and who needs it, who reads a log.

    Over all registered crews and registries, each in its newest version.
    """
    return go(_who(word, files or [], as_json=as_json), debug=debug)


async def _who(word: str | None, files: list[Path], *, as_json: bool) -> int:
    from crewlog.cli.catalogued import answer_json, show_answer, show_tools  # noqa: PLC0415
    from crewlog.cli.finding import load  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.definition.capabilities import idle_tools, who  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    if files:
        offers = [load(str(file)).offer for file in files]
    else:
        async with connected(screen, both=True) as client:
            offers = await client.catalog.offers()
    if word is None:
        if as_json:
            screen.document(answer_json(None, offers, idle_tools(offers)))
        else:
            show_tools(screen, offers)
        return exits.OK
    found = who(word, offers)
    if not found:
        found = [each for each in idle_tools(offers) if each.what == word]
        if not found:
            raise nobody(word, offers)
    if as_json:
        screen.document(answer_json(word, offers, found))
    else:
        show_answer(screen, word, found)
    return exits.OK


def nobody(word: str, offers: Sequence[Offer]) -> UsageError:
    """The error for a word that nobody can do anything with."""
    from crewlog.definition.capabilities import known_words  # noqa: PLC0415
    from crewlog.definition.findings import did_you_mean  # noqa: PLC0415

    if not offers:
        return UsageError(
            "nothing is registered yet", remedy="Add a crew or a registry: crewlog crews add FILE"
        )
    return UsageError(
        f"no crew and no registry has a tool, flag, output or log {word!r}",
        remedy=did_you_mean(word, known_words(offers), "`crewlog crews who` lists all tools."),
    )

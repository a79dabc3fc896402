"""`init`, `validate`, `schema`, `register`: a crew's files."""

from __future__ import annotations

import re
import shlex
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.compiling import RegistryOption
from crewlog.cli.options import AsJson, Assume, Debug, DryRunOption
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

FILES = "Crews"
TEMPLATE = "project"
File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A crew's YAML or JSON file.", show_default=False)
]


@app.command(rich_help_panel=FILES)
def init(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The directory; it is made if need be.", show_default=False
        ),
    ],
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Even if it is not empty; files of the same names are replaced."
        ),
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Begin a crew: a crew file, its tools, a script for an offline model, and a test.

    All of it works as it is: `crewlog run crew.yaml` and `pytest` in that directory.
    """
    del debug
    from crewlog.cli.screen import Screen, plain, short_path  # noqa: PLC0415
    from crewlog.definition.schema import schema_text  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    _check_empty(directory, force=force)
    name = re.sub(r"[^a-z0-9]+", "-", directory.resolve().name.lower()).strip("-") or "crew"
    name = name if name[0].isalpha() else f"crew-{name}"
    files = {path: text.replace("{{crew}}", name[:60]) for path, text in _templates().items()}
    files["crew.schema.json"] = schema_text()
    try:
        for path, text in files.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the directory cannot be written: {error.strerror}",
            remedy="Choose another one, or change its permissions.",
            place=str(error.filename or directory),
        ) from error
    if as_json:
        screen.document(
            {"directory": str(directory.resolve()), "crew": name, "files": sorted(files)}
        )
        return exits.OK
    where = short_path(directory.resolve())
    screen.line("  crew ", (plain(name), "bold"), f" in {plain(where)}")
    screen.line("")
    screen.rows(("", ""), [[path, (_ABOUT.get(path, ""), "dim")] for path in files])
    screen.line("")
    quoted = f"~/{shlex.quote(where[2:])}" if where.startswith("~/") else shlex.quote(where)
    enter = f"cd {quoted} && " if where != "." else ""
    screen.line(("  Next     ", "dim"), f'{enter}crewlog run crew.yaml --input "v2.1..HEAD"')
    screen.line(("           ", "dim"), "pytest")
    return exits.OK


_ABOUT = {
    "crew.yaml": "who works on what, in which order",
    "prompt.md": "the same in words: crewlog compile prompt.md",
    "registry.yaml": "what the words may use",
    "my_tools.py": "what the agents may do",
    "notes.script.yaml": "what the model says while you are offline",
    "test_crew.py": "the whole crew as a test",
    "README.md": "how to go on",
    ".gitignore": "what the crew writes",
    "pytest.ini": "how tests run",
    "crew.schema.json": "completion and checks in your editor",
}


def _check_empty(directory: Path, *, force: bool) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(
            f"{str(directory)!r} is a file", remedy="Name a directory.", place=str(directory)
        )
    if directory.is_dir() and not force and any(directory.iterdir()):
        raise UsageError(
            f"the directory {str(directory)!r} is not empty",
            remedy="Choose another one, or use --force: files of the same names are replaced.",
            place=str(directory),
        )


def _templates() -> dict[str, str]:
    root = resources.files("crewlog.cli") / "templates" / TEMPLATE
    order = list(_ABOUT)
    found = {
        _target(each): each.read_text(encoding="utf-8") for each in root.iterdir() if each.is_file()
    }
    return {
        name: found[name]
        for name in sorted(found, key=lambda n: order.index(n) if n in order else 99)
    }


def _target(file: Traversable) -> str:
    """The name in the project: a hidden file would not be packaged."""
    return ".gitignore" if file.name == "gitignore" else file.name


@app.command(rich_help_panel=FILES)
def validate(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A crew's or a registry's YAML or JSON file, or a prompt (.md, .txt).",
            show_default=False,
        ),
    ],
    registry: RegistryOption = None,
    dry_run: DryRunOption = False,
    assume: Assume = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Check a crew, a registry or a prompt; all faults with their place, reason and remedy."""
    del debug
    from crewlog.cli.checking import check_crew, check_prompt, check_registry  # noqa: PLC0415
    from crewlog.cli.compiling import is_prompt  # noqa: PLC0415
    from crewlog.cli.files import is_registry  # noqa: PLC0415
    from crewlog.cli.prompts import wanted  # noqa: PLC0415

    assumed = wanted(assume, dry_run=dry_run)
    if is_prompt(file):
        return check_prompt(file, registry, assumed, as_json=as_json)
    if is_registry(Path(file)):
        return check_registry(file, as_json=as_json)
    return check_crew(file, assumed, as_json=as_json)


@app.command(rich_help_panel=FILES)
def schema(
    what: Annotated[
        str,
        typer.Argument(
            metavar="[crew|registry|reading]",
            help="What of: crew files, registry files, or what a reader makes of a prompt.",
            show_default=False,
        ),
    ] = "crew",
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Print a JSON Schema: of crew files, of registries, or of a prompt that was read."""
    del as_json, debug
    from crewlog.cli.checking import schema_of  # noqa: PLC0415
    from crewlog.cli.screen import write  # noqa: PLC0415

    write(schema_of(what).rstrip("\n"))
    return exits.OK


@app.command(rich_help_panel=FILES)
def register(file: File, as_json: AsJson = False, debug: Debug = False) -> int:
    """Register a crew under its name, so that any language can start it by the name."""
    return go(_register(file, as_json=as_json), debug=debug)


async def _register(file: Path, *, as_json: bool) -> int:
    from crewlog.cli.files import load_crew  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    definition = load_crew(file)
    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        row = await client.register(definition)
        if as_json:
            screen.document(row)
        else:
            screen.line(
                ("✓ ", "green"),
                (row.name, "bold"),
                f" version {row.version}",
                ("     start it: ", "dim"),
                f"crewlog run {row.name}",
            )
    return exits.OK

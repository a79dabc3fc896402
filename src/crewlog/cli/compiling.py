"""Prompts on the command line: where their text comes from, what they may use, compiling them."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli.files import is_there
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from crewlog.definition.model import CrewDefinition
    from crewlog.prompt.compiled import CompiledPrompt
    from crewlog.prompt.registry import Registry

PROMPT_SUFFIXES = (".md", ".txt")
REGISTRY_FILE = "registry.yaml"
STDIN = "-"
NAMELESS = "prompt"
"""What a prompt is called that stands in no file."""

READERS = ("auto", "forms", "model")
RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="FILE|NAME",
        help="What the prompt may use: a registry's file, or a registered one's name. Default: "
        f"{REGISTRY_FILE} beside the prompt or here, else nothing.",
        show_default=False,
    ),
]
ReaderOption = Annotated[
    str,
    typer.Option(
        "--reader",
        metavar="auto|forms|model",
        help="Who reads it: the documented sentence forms, a model, or (auto) a model where one is "
        "configured, else the forms.",
    ),
]


AllowPartial = Annotated[
    bool,
    typer.Option(
        "--allow-partial",
        help="Show and write the crew also where not everything is understood; a person must "
        "approve it before it runs.",
    ),
]


def is_prompt(argument: str) -> bool:
    """Whether an argument means a prompt: a file of prose, prose itself, or standard input."""
    if argument == STDIN or argument.lower().endswith(PROMPT_SUFFIXES):
        return True
    return any(c.isspace() for c in argument.strip()) and not is_there(argument)


@dataclass(frozen=True)
class Source:
    """A prompt's text and where it stands."""

    text: str
    file: str
    """What it is called in messages."""
    path: Path | None = None
    """Its file, if it has one."""


def read_source(argument: str) -> Source:
    """The prompt that an argument means.

    Raises:
        UsageError: it cannot be read, or is something else.
    """
    if argument == STDIN:
        return Source(decoded(sys.stdin.buffer.read(), "standard input"), "standard input")
    path = Path(argument)
    if argument.lower().endswith(PROMPT_SUFFIXES) or (
        not any(c.isspace() for c in argument) and argument
    ):
        return Source(_read(path), argument, path)
    if is_there(argument):  # a name with spaces
        return Source(_read(path), argument, path)
    if not argument.strip():
        raise UsageError(
            "the prompt is empty",
            remedy='Give a file (crew.md), or the prose itself in quotes ("The writer …").',
        )
    return Source(argument, NAMELESS)


def _read(path: Path) -> str:
    if path.suffix.lower() in {".yaml", ".yml", ".json"}:
        raise UsageError(
            f"{str(path)!r} is a crew's file and no prompt",
            remedy=f"`crewlog validate {path}` checks it; a prompt is prose, in .md or .txt.",
        )
    try:
        return decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(
            f"cannot read {str(path)!r}: {error.strerror or error}",
            remedy="Give a file of prose (.md, .txt), or the prose itself in quotes.",
        ) from None


def text_of_input(given: str) -> str:
    """What a crew is asked: what was given on the command line, or standard input for `-`.

    Raises:
        UsageError: it is not UTF-8.
    """
    if given == STDIN:
        return decoded(sys.stdin.buffer.read(), "standard input", "input").replace("\r\n", "\n")
    return decoded(os.fsencode(given), "the input", "input")


def decoded(raw: bytes, name: str, what: str = "prompt") -> str:
    """Bytes of a file, a pipe or an argument as text.

    Raises:
        UsageError: they are not UTF-8.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(
            f"the byte 0x{raw[error.start]:02x} in line {line} is not UTF-8",
            remedy=f"Save the {what} as UTF-8 text.",
            place=name,
        ) from None


@dataclass(frozen=True)
class Offer:
    """A registry and where it was found."""

    registry: Registry
    path: Path | None = None
    """Its file; none for an empty one, and for one by name."""
    name: str = ""
    """What was asked for, or found."""


def find_offer(named: str | None, source: Source | None = None, model: str | None = None) -> Offer:
    """The registry that a prompt is compiled with.

    Args:
        named: A file, or the name of a registered one; none looks beside the prompt and here.
        source: The prompt.
        model: The model of crews, instead of the registry's.

    Raises:
        UsageError: there is none of that name.
        InvalidDefinition: it has faults.
    """
    offer = _find(named, source)
    return Offer(offer.registry.with_model(model or ""), offer.path, offer.name)


def _find(named: str | None, source: Source | None) -> Offer:
    from crewlog.cli.files import is_file  # noqa: PLC0415
    from crewlog.prompt.registry import Registry  # noqa: PLC0415
    from crewlog.prompt.registry_file import load_registry_file  # noqa: PLC0415

    if named is not None and not is_file(named):
        return _registered(named)
    if named is not None:
        return Offer(load_registry_file(Path(named)), Path(named), named)
    beside = source.path.parent if source is not None and source.path is not None else None
    for directory in (beside, Path()):
        if directory is not None and (directory / REGISTRY_FILE).is_file():
            path = directory / REGISTRY_FILE
            return Offer(load_registry_file(path), path, str(path))
    return Offer(Registry())


def _registered(name: str) -> Offer:
    """A registry of the store, by its name or `NAME@VERSION`.

    Raises:
        UsageError: there is none of that name.
    """
    from crewlog.cli.app import go  # noqa: PLC0415
    from crewlog.prompt.registry import Registry  # noqa: PLC0415

    kept: list[Registry] = []

    async def ask() -> int:
        from crewlog.cli.finding import find  # noqa: PLC0415
        from crewlog.cli.screen import Screen  # noqa: PLC0415
        from crewlog.cli.services import connected  # noqa: PLC0415

        # Standard output is the prompt's, and may be read by a program.
        async with connected(Screen(as_json=True), both=True) as client:
            content = (await find(client.catalog, f"registry:{name}")).content
            if isinstance(content, Registry):
                kept.append(content)
        return 0

    go(ask())
    if not kept:  # a signal ended the search
        raise KeyboardInterrupt
    return Offer(kept[0], name=name)


def compiled(
    source: Source,
    offer: Offer,
    *,
    reader: str = "auto",
    previous: CrewDefinition | None = None,
    as_json: bool = False,
) -> CompiledPrompt:
    """A prompt, compiled.

    Args:
        source: The prompt.
        offer: What it may use.
        reader: Who is to read it.
        previous: The crew of an earlier version of the prompt.
        as_json: Whether a program listens, which is told nothing but JSON.

    Raises:
        UsageError: there is no such reader.
        ModelError: a model was to read it, and cannot be asked.
    """
    from crewlog.cli.reading import read  # noqa: PLC0415

    if reader not in READERS:
        raise UsageError(
            f"there is no reader {reader!r}", remedy=f"The readers are: {', '.join(READERS)}."
        )
    return read(
        source.text,
        offer.registry,
        file=source.file,
        reader=reader,  # type: ignore[arg-type]
        previous=previous,
        directory=code_directory(source, offer),
        as_json=as_json,
    )


def code_directory(source: Source, offer: Offer) -> Path:
    """Where the modules of a prompt's tools are: beside what offers them."""
    for path in (offer.path, source.path):
        if path is not None:
            return path.resolve().parent
    return Path.cwd()

"""`file`: the bytes of a file that a message has by its hash."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug
from crewlog.errors import UsageError

LOOK = "Look"


@app.command(rich_help_panel=LOOK)
def file(
    sha256: Annotated[
        str,
        typer.Argument(
            metavar="HASH",
            help="The file's hash, or how it begins: sha256:ab12cd34ef56.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="PATH", help="Where to; by default to standard output."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Fetch a file of a message: an image that a model made, say."""
    return go(_fetch(sha256, out, as_json=as_json), debug=debug)


async def _fetch(start: str, out: Path | None, *, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    if out is None and (as_json or sys.stdout.isatty()):
        raise UsageError(
            "a file's bytes are for a program and not for a screen",
            remedy="Say where to: --out PATH, or pipe it.",
            place="crewlog file",
        )
    async with connected(screen) as client:
        store = client.files()
        sha256 = await store.find(start)
        data = await store.get(sha256)
    if out is None:
        sys.stdout.buffer.write(data)
        return exits.OK
    _write(out, data)
    if as_json:
        screen.document({"sha256": sha256, "size": len(data), "path": str(out)})
    else:
        screen.line(("✓ ", "green"), f"{len(data):,} bytes to {out}")
    return exits.OK


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"{str(path)!r} cannot be written: {error.strerror}",
            remedy="Say another --out.",
            place="crewlog file",
        ) from error

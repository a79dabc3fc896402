"""`encryption`: keys, what they encrypt, and a codec server."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import Grouped, app, go
from crewlog.cli.options import AsJson, Debug
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from crewlog.client import Client
    from crewlog.encryption.keys import KeyFile

encryption = typer.Typer(
    name="encryption",
    cls=Grouped,
    help="Keys that histories and rows are encrypted with: make, rotate, retire and look at them.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(encryption, rich_help_panel="Authority")

KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        help="The key file. Default: CREWLOG_ENCRYPTION_KEYS.",
        show_default=False,
    ),
]


@encryption.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The key file to be made.")],
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Make a key file with one key, which only its owner can read. It replaces none."""
    del debug
    from crewlog.cli.screen import Screen, short_path  # noqa: PLC0415
    from crewlog.encryption.keys import (  # noqa: PLC0415
        ACCEPT_PLAIN,
        KEYS,
        new_key_file,
        write_keys,
    )

    if path.exists():
        raise UsageError(
            f"there is a file {str(path)!r} already",
            remedy="`crewlog encryption rotate` gives a key file a new key.",
        )
    file = new_key_file()
    try:
        write_keys(path, file)
    except OSError as error:
        raise UsageError(
            f"the key file cannot be written: {error.strerror}", place=str(path)
        ) from None
    screen = Screen(as_json=as_json)
    if as_json:
        screen.document({"path": str(path), "key": file.current})
        return exits.OK
    screen.line(("✓ ", "green"), f"{short_path(path)} has one key, {file.current}")
    screen.note("  Turn encryption on for workers, clients and commands alike:")
    screen.note(f"  export {KEYS}={path.absolute()}")
    screen.note(
        f"  Over a store that has rows: with {ACCEPT_PLAIN}=true, until these are encrypted"
    )
    screen.note("  by `crewlog encryption reencrypt`.")
    screen.note("  Keep a copy elsewhere: without the key, nothing can be read again.")
    return exits.OK


@encryption.command()
def status(keys: KeyFileOption = None, as_json: AsJson = False, debug: Debug = False) -> int:
    """Say which keys there are, and how many open runs and rows need each."""
    return go(_status(keys, as_json=as_json), debug=debug)


async def _status(path: Path | None, *, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.encryption.keys import ACCEPT_PLAIN, read_keys  # noqa: PLC0415

    screen, where = Screen(as_json=as_json), _path(path)
    file = read_keys(where)
    async with connected(screen, both=True, allow_unreadable=True) as client:
        runs, rows = await _uses(client)
    ids = list(dict.fromkeys([*file.ids, *file.retired, *runs, *rows]))
    found = [
        {
            "key": each,
            "state": _state(file, each),
            "runs": len(runs.get(each, ())),
            "rows": rows.get(each, 0),
        }
        for each in ids
    ]
    if as_json:
        screen.document({"path": str(where), "keys": found})
        return exits.OK
    screen.rows(
        ("key", "", "open runs", "texts in the store"),
        [
            (str(each["key"]) or "none", str(each["state"]), str(each["runs"]), f"{each['rows']:,}")
            for each in found
        ],
    )
    if plain := runs.get(""):
        screen.note(
            f"  What is not encrypted is needed by {_named(plain)}: until they have ended, keep "
            f"{ACCEPT_PLAIN}=true."
        )
    return exits.OK


def _state(file: KeyFile, key: str) -> str:
    if key == file.current:
        return "current"
    if key in file.retired:
        return "retired"
    if not key:
        return "not encrypted"
    return "reads" if key in file.ids else "not in the file"


@encryption.command()
def rotate(
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare",
            help="Only add the key, for machines with copies of the file: every one must have it "
            "before the first writes with it.",
        ),
    ] = False,
    keys: KeyFileOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Write with a new key from now on; old ones go on reading. Nothing is started anew."""
    del debug
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.encryption.keys import change_keys  # noqa: PLC0415

    where = _path(keys)

    def rotated(file: KeyFile) -> KeyFile:
        if prepare and file.prepared:
            raise UsageError(
                f"the key {file.prepared!r} is prepared already",
                remedy="Once every machine has the file: `crewlog encryption rotate`.",
            )
        return file.rotate(prepare=prepare)

    changed = change_keys(where, rotated)
    key = changed.prepared if prepare else changed.current
    screen = Screen(as_json=as_json)
    if as_json:
        screen.document({"path": str(where), "key": key, "current": changed.current})
        return exits.OK
    what = "can be read with" if prepare else "is written with"
    screen.line(("✓ ", "green"), f"what is encrypted from now on {what} the key {key}")
    if prepare:
        screen.note("  Copy the file to every machine, then: `crewlog encryption rotate`.")
    return exits.OK


@encryption.command()
def retire(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key's id.", show_default=False)],
    unknown: Annotated[
        bool,
        typer.Option(
            "--unknown",
            help="A key that the file does not have: whatever names it is refused from now on.",
        ),
    ] = False,
    keys: KeyFileOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Take a key away for good. Refused while open runs, schedules or rows need it."""
    return go(_retire(key, _path(keys), unknown=unknown, as_json=as_json), debug=debug)


async def _retire(key: str, where: Path, *, unknown: bool, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.encryption.keys import change_keys, read_keys  # noqa: PLC0415

    screen, file = Screen(as_json=as_json), read_keys(where)
    _check_given(file, key, where, unknown=unknown)
    if not unknown:
        async with connected(screen, both=True, allow_unreadable=True) as client:
            await asyncio.sleep(_unsettled(where))
            runs, rows = await _uses(client)
        _check_unused(key, runs.get(key, []), rows.get(key, 0))

    def retired(now: KeyFile) -> KeyFile:
        _check_given(now, key, where, unknown=unknown)  # it may be another file than before
        return now.retire(key)

    change_keys(where, retired)
    if as_json:
        screen.document({"path": str(where), "retired": key})
        return exits.OK
    screen.line(("✓ ", "green"), f"the key {key} is retired: what it encrypts is refused")
    screen.note("  Histories of runs that have ended with it can be read no more; rows still are.")
    return exits.OK


def _check_given(file: KeyFile, key: str, where: Path, *, unknown: bool) -> None:
    if key in file.retired:
        raise UsageError(f"the key {key!r} is retired already", place=str(where))
    if not key.isdecimal() or int(key) >= 2**32:
        raise UsageError(f"{key!r} is no id of a key", remedy="It is a number below 2^32.")
    if unknown == (key in file.ids):
        raise UsageError(
            f"the key {key!r} is {'' if unknown else 'not '}in the key file",
            remedy=f"Its keys: {', '.join(file.ids)}.",
            place=str(where),
        )
    if key == file.current:
        raise UsageError(
            f"the key {key!r} is the current one",
            remedy="First `crewlog encryption rotate`, then `crewlog encryption reencrypt`.",
        )


def _unsettled(where: Path) -> float:
    """Seconds until every process has read the file: until then it may write with another key."""
    from crewlog.encryption.keys import RELOAD_INTERVAL  # noqa: PLC0415

    changed = where.stat().st_mtime
    return min(max(changed + 3 * RELOAD_INTERVAL - time.time(), 0), 3 * RELOAD_INTERVAL)


def _check_unused(key: str, runs: list[str], rows: int) -> None:
    if runs:
        raise UsageError(
            f"the key {key!r} is needed by open runs: {_named(runs)}",
            remedy="Wait until they have ended, or continued as new; a schedule is made anew.",
        )
    if rows:
        raise UsageError(
            f"the key {key!r} is needed by {rows:,} texts in the store",
            remedy="`crewlog encryption reencrypt` encrypts them with the current key.",
        )


def _named(runs: list[str]) -> str:
    return ", ".join(runs[:3]) + (f" and {len(runs) - 3} more" if len(runs) > 3 else "")


@encryption.command()
def add(
    copy: Annotated[
        Path, typer.Argument(metavar="FILE", help="Another key file.", show_default=False)
    ],
    key: Annotated[
        str,
        typer.Argument(
            metavar="[KEY]",
            help="Only the key with this id, even if it is retired. Default: all that are not.",
            show_default=False,
        ),
    ] = "",
    keys: KeyFileOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Take keys of another key file, to read with: a copy, or that of another machine."""
    del debug
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.encryption.keys import change_keys, read_keys  # noqa: PLC0415

    where, other = _path(keys), read_keys(copy)
    if key and key not in other.ids:
        raise UsageError(
            f"the key {key!r} is not in the file",
            remedy=f"Its keys: {', '.join(other.ids)}.",
            place=str(copy),
        )
    taken: list[str] = []

    def added(file: KeyFile) -> KeyFile:
        wanted = {key} if key else {*other.ids} - {*file.retired}
        taken.extend(each for each in other.ids if each in wanted - {*file.ids})
        return file.add(other, taken)

    change_keys(where, added)
    screen = Screen(as_json=as_json)
    if as_json:
        screen.document({"path": str(where), "added": taken})
        return exits.OK
    told = f"can read with {', '.join(taken)}" if taken else "has them all already"
    screen.line(("✓ ", "green"), f"{where} {told}")
    return exits.OK


@encryption.command()
def reencrypt(as_json: AsJson = False, debug: Debug = False) -> int:
    """Encrypt the store's rows with the current key: those of older keys, and plain ones.

    Plain rows need CREWLOG_ENCRYPTION_ACCEPT_PLAIN=true. Runs go on meanwhile.
    """
    return go(_reencrypt(as_json=as_json), debug=debug)


async def _reencrypt(*, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.store.reencryption import reencrypt as encrypt  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    _path(None)  # where encryption is off, that is said first
    async with connected(screen, both=True) as client:
        count = await encrypt(await client.store(), lambda text: screen.note(f"  {text}"))
    if as_json:
        screen.document({"texts": count})
    else:
        texts = "1 text is" if count == 1 else f"{count:,} texts are"
        screen.line(("✓ ", "green"), f"{texts} encrypted with the current key")
    return exits.OK


@encryption.command()
def serve(
    port: Annotated[int, typer.Option("--port", help="Where it listens, on this machine.")] = 8235,
    origin: Annotated[
        str | None,
        typer.Option(
            "--origin",
            metavar="URL",
            help="The web UI's origin. Default: that of the server in use.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Decrypt what Temporal's web UI shows, until Ctrl-C.

    Its token is in CREWLOG_CODEC_TOKEN, else made anew.
    """
    from crewlog.cli.decoding import serve_pages  # noqa: PLC0415

    return go(serve_pages(_path(None), port, origin, as_json=as_json), debug=debug)


def _path(given: Path | None) -> Path:
    from crewlog.encryption.keys import KEYS  # noqa: PLC0415

    named = given or os.environ.get(KEYS)
    if not named:
        raise UsageError(
            "there is no key file: encryption is off",
            remedy=f"`crewlog encryption init FILE` makes one; {KEYS}=FILE turns encryption on.",
        )
    return Path(named).expanduser()


async def _uses(client: Client) -> tuple[dict[str, list[str]], dict[str, int]]:
    """What needs each key: open runs, and how many texts in the store."""
    from crewlog.client.key_uses import open_runs  # noqa: PLC0415
    from crewlog.payload_storage.settings import PayloadSettings  # noqa: PLC0415
    from crewlog.store.reencryption import key_uses  # noqa: PLC0415

    folder = PayloadSettings().payloads.expanduser()
    return await open_runs(client.temporal, folder), await key_uses(await client.store())

"""`keys make`, `list`, `show`: the keys that commands are signed with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import Grouped, app
from crewlog.cli.options import AsJson, Debug

if TYPE_CHECKING:
    from crewlog.cli.screen import Screen
    from crewlog.client.keys import Key
    from crewlog.model import Json

keys = typer.Typer(
    name="keys",
    cls=Grouped,
    help="Keys that sign your commands, for crews whose policy takes signed ones only.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(keys, rich_help_panel="Surroundings")

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The key's name.", show_default=False)
]


@keys.command()
def make(name: NameArgument, as_json: AsJson = False, debug: Debug = False) -> int:
    """Make a key, and print what a crew's policy says of it.

    The private half stays in a file that only you may read.
    """
    from crewlog.client import keys as found  # noqa: PLC0415 - slow

    return _tell(found.make(name), as_json=as_json, made=True)


@keys.command()
def show(name: NameArgument, as_json: AsJson = False, debug: Debug = False) -> int:
    """Print what a crew's policy says of a key; NAME may be a file."""
    from crewlog.client import keys as found  # noqa: PLC0415

    return _tell(found.load(name), as_json=as_json)


@keys.command("list")
def list_(as_json: AsJson = False, debug: Debug = False) -> int:
    """List the keys, and say which one signs."""
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.client import keys as found  # noqa: PLC0415
    from crewlog.client.key_folder import VARIABLE, folder  # noqa: PLC0415
    from crewlog.client.session import system_user  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    signs = found.chosen(system_user())
    known = [found.load(name) for name in found.names()]
    if signs is not None and all(key.path != signs.path for key in known):
        known.append(signs)
    if as_json:
        screen.document({"keys": [_data(key) | {"signs": _is(key, signs)} for key in known]})
    elif not known:
        screen.note(f"No keys in {folder()}. `crewlog keys make NAME` makes one.")
    else:
        rows = [[k.name, k.public, "signs" if _is(k, signs) else ""] for k in known]
        screen.rows(["key", "public", ""], rows)
        if signs is None:
            screen.note(f"None of them signs: {VARIABLE} chooses one.")
    return exits.OK


def _is(key: Key, signs: Key | None) -> bool:
    return signs is not None and key.path == signs.path


def _data(key: Key) -> dict[str, Json]:
    return {"name": key.name, "key": key.public, "file": str(key.path)}


def _tell(key: Key, *, as_json: bool, made: bool = False) -> int:
    from crewlog.cli.screen import Screen, write  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    if as_json:
        screen.document(_data(key))
        return exits.OK
    for line in policy_lines(key):
        write(line)
    if made:
        _explain(screen, key)
    return exits.OK


def policy_lines(key: Key) -> list[str]:
    """What a crew's policy says of a key, as YAML to paste and cut down."""
    return [
        "policy:",
        "  mode: signed",
        "  principals:",
        f'    {key.name}: {{key: "{key.public}", rights: [view, answer, operate, change, grant]}}',
    ]


def _explain(screen: Screen, key: Key) -> None:
    screen.note(f"The private key is {key.path}. Whoever has it can command in its name.")

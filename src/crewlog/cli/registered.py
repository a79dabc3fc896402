"""`builders`, `decisions`: what crews can use by name, of Crewlog and of installed packages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

    from crewlog.cli.screen import Part
    from crewlog.model import Json

FILES = "Crews"
_OWN = "crewlog"
_USE = {"flow": "in the flow", "agent": "as an agent's pattern"}

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="One of them, with all that is said to it.", show_default=False
    ),
]


@app.command(rich_help_panel=FILES)
def builders(name: Name = None, as_json: AsJson = False, debug: Debug = False) -> int:
    """List the builders that crews can use: parts of flows, and patterns of agents."""
    return go(_builders(name, as_json=as_json), debug=debug)


@app.command(rich_help_panel=FILES)
def decisions(name: Name = None, as_json: AsJson = False, debug: Debug = False) -> int:
    """List the decisions that agents can reply with, and their fields."""
    return go(_decisions(name, as_json=as_json), debug=debug)


async def _builders(name: str | None, *, as_json: bool) -> int:
    from crewlog.definition.builders import builders, find_builder  # noqa: PLC0415

    found = list(builders().values()) if name is None else [_named(find_builder, name, "builder")]
    rows: list[dict[str, Json]] = [
        {
            "name": each.name,
            "kind": each.kind,
            "about": "" if each.broken else each.about,
            "options": _fields(each.options),
            "steps": list(each.steps),
            # The function, not the model of its options: several may share that.
            "package": "?" if each.broken else each.expand.__module__.partition(".")[0],
            "broken": each.broken,
        }
        for each in found
    ]
    return _told("builder", "option", rows, one=name is not None, as_json=as_json)


async def _decisions(name: str | None, *, as_json: bool) -> int:
    from crewlog.definition.decisions import decisions, find_decision  # noqa: PLC0415

    found = list(decisions().values())
    if name is not None:
        found = [_named(find_decision, name, "decision")]
    rows: list[dict[str, Json]] = [
        {
            "name": each.name,
            "about": "" if each.broken else each.about,
            "fields": _fields(each.model),
            "package": "?" if each.broken else each.model.__module__.partition(".")[0],
            "broken": each.broken,
        }
        for each in found
    ]
    return _told("decision", "field", rows, one=name is not None, as_json=as_json)


def _named(find: Any, name: str, what: str) -> Any:
    """The one of a name.

    Raises:
        UsageError: there is none.
    """
    from crewlog.errors import UsageError  # noqa: PLC0415

    try:
        return find(name)
    except LookupError as error:
        raise UsageError(
            f"no {what} is called {name!r}", remedy=str(error), place=f"crewlog {what}s"
        ) from None


def _fields(model: type[BaseModel]) -> list[dict[str, Json]]:
    """The fields of a model as people write them: name, need, default, words."""
    schema: Mapping[str, Any] = model.model_json_schema(by_alias=True)
    needed = schema.get("required", ())
    models: Mapping[str, Any] = schema.get("$defs", {})
    return [
        {
            "name": name,
            "required": name in needed,
            "default": field.get("default"),
            "about": field.get("description", ""),
            "each": _keys(field, models),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _keys(field: Mapping[str, Any], models: Mapping[str, Any]) -> list[str]:
    """The keys of a list's items, where these are objects."""
    model = str(field.get("items", {}).get("$ref", "")).rpartition("/")[2]
    return list(models.get(model, {}).get("properties", {}))


def _told(noun: str, part: str, rows: list[dict[str, Json]], *, one: bool, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.definition.findings import listed  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    if as_json:
        screen.document(rows[0] if one else {f"{noun}s": rows})
        return exits.OK
    if not one:
        # Two columns of which the last is folded: what one of them is for is never cropped.
        widest = max(len(str(row["name"])) for row in rows)
        for row in rows:
            head: list[Part] = ["  ", (f"{plain(row['name']):<{widest}}", "bold"), "   "]
            style = "red" if row["broken"] else ""
            screen.wrapped(head, _about(row), indent=widest + 5, style=style)
        screen.line("")
        screen.line(("  Look     ", "dim"), f"crewlog {noun}s {rows[0]['name']}")
        return exits.OK
    (row,) = rows
    screen.line("  ", (plain(row["name"]), "bold"), ("".join(_where(row)), "dim"))
    screen.wrapped(["  "], _about(row), indent=2, style="red" if row["broken"] else "")
    fields = row[f"{part}s"]
    for number, each in enumerate(fields):
        if not number:
            screen.line("")
        value = "required" if each["required"] else _default(each["default"])
        screen.line("  ", (plain(each["name"]), "cyan"), (f"  {value}", "dim"))
        if each["about"]:
            keys = f" Each has {listed(each['each'])}." if each["each"] else ""
            screen.wrapped(["      "], plain(each["about"] + keys), indent=6)
    if steps := row.get("steps"):
        screen.line("")
        screen.line(("  steps that can be switched off  ", "dim"), ", ".join(map(plain, steps)))
    return exits.OK


def _default(value: Json) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)


def _about(row: Mapping[str, Json]) -> str:
    from crewlog.cli.screen import plain  # noqa: PLC0415

    package = "" if row["package"] in (_OWN, "?") else f" (of {row['package']})"
    return plain(row["broken"] or f"{row['about']}{package}")


def _where(row: Mapping[str, Json]) -> Iterator[str]:
    if "kind" in row and not row["broken"]:
        yield f"   {_USE[row['kind']]}"

"""The JSON Schemas of the wire contract and the views: `python -m crewlog.client.schemas [DIR]`.

`docs/schemas/` has one file for each model of the wire contract, and `index.json`: the models that
the start, the signals, the updates and the queries take and give. `docs/schemas/reporting/` has one
for each view model. A test fails if the files are out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import cast

from pydantic import TypeAdapter

from crewlog import wire
from crewlog.errors import UsageError
from crewlog.model import Json, Model
from crewlog.reporting.views import VIEWS
from crewlog.state.journal import JournalEntry

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DIRECTORY = Path("docs/schemas")

_ARGUMENTS: list[type[Model]] = [
    wire.StartRun,
    *(command.content for command in wire.COMMANDS.values()),
    *(query.argument for query in wire.QUERIES.values() if query.argument),
]
_RESULTS: list[type[Model]] = [
    wire.RunResult,
    *(command.result for command in wire.COMMANDS.values() if command.result),
    *(query.result for query in wire.QUERIES.values()),
]
TAKES: dict[str, type[Model]] = {model.__name__: model for model in _ARGUMENTS}
GIVES: dict[str, type[Model]] = {model.__name__: model for model in _RESULTS}
REPORTING = "reporting"
"""The folder with the schemas of the view models."""


def _handler(
    takes: type[Model] | None, gives: type[Model] | None, *, many: bool = False
) -> dict[str, Json]:
    models = {"takes": takes, "gives": gives}
    names = {key: model.__name__ for key, model in models.items() if model is not None}
    return {**names, "many": True} if many else {**names}


INDEX: dict[str, dict[str, dict[str, Json]]] = {
    "start": {wire.WORKFLOW_TYPE: _handler(wire.StartRun, wire.RunResult)},
    "signals": {name: _handler(wire.COMMANDS[name].content, None) for name in wire.SIGNALS},
    "updates": {
        name: _handler(wire.COMMANDS[name].content, wire.COMMANDS[name].result)
        for name in wire.UPDATES
    },
    "queries": {
        name: _handler(query.argument, query.result, many=query.is_list)
        for name, query in wire.QUERIES.items()
    },
}


def schemas() -> dict[str, dict[str, Json]]:
    """The content of every schema file by its path without `.json`."""
    # What clients send is checked as it comes in; what they get, as it goes out.
    found = {
        name: model.model_json_schema(mode="validation", by_alias=True)
        for name, model in TAKES.items()
    }
    answers = GIVES | {f"{REPORTING}/{name}": model for name, model in VIEWS.items()}
    found |= {
        name: _open(model.model_json_schema(mode="serialization", by_alias=True))
        for name, model in answers.items()
    }
    entry: TypeAdapter[JournalEntry] = TypeAdapter(JournalEntry)
    found["JournalEntry"] = _open(entry.json_schema(by_alias=True)) | {"title": "JournalEntry"}
    return {
        **{name: {"$schema": DIALECT, **schema} for name, schema in found.items()},
        "index": INDEX,
    }


def _open(schema: dict[str, Json]) -> dict[str, Json]:
    """The schema of an answer: a newer version may add fields, so others than ours are allowed."""

    def opened(value: Json) -> Json:
        if isinstance(value, dict):
            return {
                key: opened(item)
                for key, item in value.items()  # pyright: ignore[reportUnknownVariableType]
                if not (key == "additionalProperties" and item is False)
            }
        if isinstance(value, list):
            return [opened(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return value

    return cast("dict[str, Json]", opened(schema))


def files() -> dict[str, str]:
    """The text of every schema file by its path."""
    return {
        f"{name}.json": json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for name, schema in schemas().items()
    }


def write(directory: Path = DIRECTORY) -> None:
    """Writes the files, and removes those of models that are no more.

    Raises:
        UsageError: it is no folder for schemas: nothing is written there, and nothing removed.
    """
    _check_folder(directory)
    if (directory / REPORTING).is_dir():
        _check_folder(directory / REPORTING)
    (directory / REPORTING).mkdir(parents=True, exist_ok=True)
    new = files()
    for old in directory.rglob("*.json"):
        if old.relative_to(directory).as_posix() not in new:
            old.unlink()
    for name, text in new.items():
        (directory / name).write_text(text, encoding="utf-8")


def _check_folder(directory: Path) -> None:
    """Checks that a folder has nothing but schemas, or may be made.

    Raises:
        UsageError: it is another one: what is in it would be removed.
    """
    remedy = "Name a folder that has nothing but schemas, or a new one in a folder that there is."
    if not directory.exists():
        if not directory.absolute().parent.is_dir():
            raise UsageError(f"there is no folder in which '{directory}' could be", remedy=remedy)
        return
    if not directory.is_dir():
        raise UsageError(f"'{directory}' is a file", remedy=remedy)
    for each in sorted(directory.iterdir()):
        if not _is_ours(each) and not (each.name == REPORTING and each.is_dir()):
            raise UsageError(f"'{directory}' has '{each.name}', which is no schema", remedy=remedy)


def _is_ours(file: Path) -> bool:
    """Whether a file may be one that `write` made, now or when there was such a model."""
    if file.suffix != ".json" or not file.is_file():
        return False
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return False
    if not isinstance(data, dict):
        return False
    return {*INDEX} <= {*data} if file.name == "index.json" else data.get("$schema") == DIALECT  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType]


def main(arguments: list[str]) -> int:
    """Writes the files into the folder that is named, by default `docs/schemas`; the exit code.

    Args:
        arguments: What was typed.
    """
    parser = argparse.ArgumentParser(
        prog="python -m crewlog.client.schemas",
        description="Writes the JSON Schemas of the wire contract.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "directory", nargs="?", type=Path, default=DIRECTORY, help=f"by default {DIRECTORY}"
    )
    try:
        write(parser.parse_args(arguments).directory)
    except UsageError as error:
        sys.stderr.write(f"{error.message}\n{error.remedy}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

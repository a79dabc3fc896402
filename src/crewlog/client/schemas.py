"""The JSON Schemas of the wire contract: `python -m crewlog.client.schemas [DIRECTORY]`.

`docs/schemas/` holds them, one file for each model, and `index.json`, which says which start,
signal, update and query takes and gives what. A test fails where the files are out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import TypeAdapter

from crewlog import wire
from crewlog.model import Json, Model
from crewlog.state.journal import JournalEntry
from crewlog.state.model import CrewState

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DIRECTORY = Path("docs/schemas")

TAKES: dict[str, type[Model]] = {
    "StartRun": wire.StartRun,
    "Command": wire.Command,
    "InterruptCommand": wire.InterruptCommand,
    "MessageCommand": wire.MessageCommand,
    "Respond": wire.Respond,
    "AskRun": wire.AskRun,
    "Page": wire.Page,
    "TagCommand": wire.TagCommand,
    "Change": wire.Change,
    "EditState": wire.EditState,
    "Redirect": wire.Redirect,
    "Rollback": wire.Rollback,
    "SetPermission": wire.SetPermission,
    "PermissionsQuery": wire.PermissionsQuery,
}
GIVES: dict[str, type[Model]] = {
    "RunResult": wire.RunResult,
    "Accepted": wire.Accepted,
    "Changed": wire.Changed,
    "RunView": wire.RunView,
    "CrewState": CrewState,
    "GraphView": wire.GraphView,
    "InterruptView": wire.InterruptView,
    "JournalPage": wire.JournalPage,
    "CheckpointPage": wire.CheckpointPage,
    "PermissionsPage": wire.PermissionsPage,
    "ConversationView": wire.ConversationView,
}
INDEX: dict[str, dict[str, dict[str, Json]]] = {
    "start": {wire.WORKFLOW_TYPE: {"takes": "StartRun", "gives": "RunResult"}},
    "signals": {
        "pause": {"takes": "Command"},
        "resume": {"takes": "Command"},
        "stop": {"takes": "Command"},
        "interrupt": {"takes": "InterruptCommand"},
        "message": {"takes": "MessageCommand"},
        "tag": {"takes": "TagCommand"},
    },
    "updates": {
        "ask": {"takes": "AskRun", "gives": "RunResult"},
        "respond": {"takes": "Respond", "gives": "Accepted"},
        "change": {"takes": "Change", "gives": "Changed"},
        "edit_state": {"takes": "EditState", "gives": "Accepted"},
        "redirect": {"takes": "Redirect", "gives": "Accepted"},
        "rollback": {"takes": "Rollback", "gives": "Accepted"},
        "set_permission": {"takes": "SetPermission", "gives": "Accepted"},
    },
    "queries": {
        "status": {"gives": "RunView"},
        "state": {"gives": "CrewState"},
        "graph": {"gives": "GraphView"},
        "interrupts": {"gives": "InterruptView", "many": True},
        "journal": {"takes": "Page", "gives": "JournalPage"},
        "checkpoints": {"takes": "Page", "gives": "CheckpointPage"},
        "permissions": {"takes": "PermissionsQuery", "gives": "PermissionsPage"},
        "conversation": {"gives": "ConversationView"},
    },
}


def schemas() -> dict[str, dict[str, Json]]:
    """Every schema file's content by its name without `.json`."""
    # What clients send is checked as it comes in; what they get, as it goes out.
    found = {
        name: model.model_json_schema(mode="validation", by_alias=True)
        for name, model in TAKES.items()
    }
    found |= {name: _open(model.model_json_schema(by_alias=True)) for name, model in GIVES.items()}
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

    return {key: opened(value) for key, value in schema.items()}


def files() -> dict[str, str]:
    """The text of every schema file by its file name."""
    return {
        f"{name}.json": json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for name, schema in schemas().items()
    }


def write(directory: Path = DIRECTORY) -> None:
    """Writes the files, and removes those of models that are no more."""
    directory.mkdir(parents=True, exist_ok=True)
    new = files()
    for old in directory.glob("*.json"):
        if old.name not in new:
            old.unlink()
    for name, text in new.items():
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else DIRECTORY)

"""`docs/wire.md` and `docs/schemas/` say what the models say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from crewlog import wire
from crewlog.client.schemas import INDEX, TAKES, files, schemas

SCHEMAS = schemas()
DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "wire.md").read_text(encoding="utf-8")
COMMAND = re.compile(
    r"temporal workflow (start|signal|update execute|query)\b((?:[^\n]*\\\n)*[^\n]*)"
)


def examples() -> list[tuple[str, str, Any]]:
    """Kind, name and input of each command in the page."""
    found: list[tuple[str, str, Any]] = []
    for kind, rest in COMMAND.findall(TEXT):
        name = re.search(r"--(?:name|type) (\w+)", rest)
        content = re.search(r"--input '(.*)'", rest)
        assert name
        found.append((kind, name[1], json.loads(content[1]) if content else None))
    return found


def test_the_schemas_are_up_to_date() -> None:
    folder = DOCS / "schemas"
    found = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.json")
    }
    assert found == files(), "run `python -m crewlog.client.schemas`"


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name != "index"])
def test_the_schemas_are_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_the_index_and_the_page_name_everything() -> None:
    assert set(INDEX["signals"]) == set(wire.SIGNALS)
    assert set(INDEX["updates"]) == set(wire.UPDATES)
    assert set(INDEX["queries"]) == set(wire.QUERIES)
    shown = {(kind, name) for kind, name, _ in examples()}
    assert {name for kind, name in shown if kind == "signal"} == set(wire.SIGNALS)
    assert {name for kind, name in shown if kind == "update execute"} == set(wire.UPDATES)
    assert {name for kind, name in shown if kind == "query"} == set(wire.QUERIES)


@pytest.mark.parametrize(("kind", "name", "content"), examples())
def test_every_command_in_the_page_is_valid(kind: str, name: str, content: Any) -> None:
    section = {
        "start": "start",
        "signal": "signals",
        "update execute": "updates",
        "query": "queries",
    }
    takes = INDEX[section[kind]][name].get("takes")
    if content is None:
        assert takes in {None, "Page"}
        return
    jsonschema.validate(content, SCHEMAS[takes])
    if kind == "update execute":
        assert f"--update-id {content['id']}" in TEXT


def excerpt(schema: Any) -> Any:
    """The schema of an excerpt: no field is required, and no other field is allowed."""
    if isinstance(schema, list):
        return [excerpt(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: excerpt(value) for key, value in schema.items() if key != "required"}
    if "properties" in schema:
        found["additionalProperties"] = False
    return found


@pytest.mark.parametrize("content", re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL))
def test_every_answer_in_the_page_is_valid(content: str) -> None:
    data = json.loads(content)
    for one in data if isinstance(data, list) else [data]:
        names = [
            name
            for name in (
                "RunResult",
                "CommandResult",
                "ChangeResult",
                "InterruptView",
                "JournalPage",
            )
            if jsonschema.Draft202012Validator(excerpt(SCHEMAS[name])).is_valid(one)
        ]
        assert names
        for item in one.get("entries", ()):
            jsonschema.validate(item["data"], SCHEMAS["JournalEntry"])


def test_all_fields_that_can_be_sent_are_in_the_page() -> None:
    for model in (*TAKES.values(), wire.ForkSource):
        for field in model.model_fields:
            assert f"`{field}`" in TEXT

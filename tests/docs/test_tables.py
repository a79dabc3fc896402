"""Tables of the documentation have what the models have: every key, and its default."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from crewlog.definition import model as definition
from crewlog.definition.artifacts import ArtifactDefinition, Scratch
from crewlog.prompt.registry import Registry
from crewlog.run_status import RunStatus
from crewlog.state.journal import JournalEntry
from crewlog.state.model import Interrupt
from crewlog.testing.script_file import Entry, Script
from crewlog.tool_call import ToolCall
from crewlog.wire import SEARCH_ATTRIBUTES
from crewlog.workers.settings import WorkerSettings

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| (`[^|]+) \| (?:([^|]*) \| )?([^|]*) \|$", re.MULTILINE)

MODELS: list[tuple[str, str, type[BaseModel]]] = [
    ("definition.md", "## The crew", definition.CrewDefinition),
    ("definition.md", "## Agents", definition.AgentDefinition),
    ("definition.md", "## Tools", definition.ToolDefinition),
    ("definition.md", "### Retry", definition.Retry),
    ("definition.md", "### Turns", definition.AgentPhase),
    ("definition.md", "### Parallel items", definition.ParallelPhase),
    ("definition.md", "### Decisions", definition.DecisionPhase),
    ("definition.md", "### Questions", definition.AskPhase),
    ("definition.md", "### Waits", definition.WaitPhase),
    ("definition.md", "### Routes", definition.RoutePhase),
    ("definition.md", "## Conversations", definition.Conversation),
    ("definition.md", "## Creatures and channels", definition.GraphPolicy),
    ("definition.md", "### Builders", definition.BuilderPhase),
    ("definition.md", "### Patterns", definition.PatternUse),
    ("definition.md", "## Rules", definition.Rule),
    ("definition.md", "## Limits", definition.Limits),
    ("definition.md", "## Groups and logs", definition.LogDefinition),
    ("definition.md", "## Artifacts", ArtifactDefinition),
    ("definition.md", "## Scratch notes", Scratch),
    ("definition.md", "## Memory", definition.MemoryPolicy),
    ("registry.md", "## A registry's file", Registry),
    ("models.md", "| key | default |", Script),
    ("models.md", "| key of an entry |", Entry),
]


def _table(page: str, after: str) -> dict[str, str]:
    """The first table with defaults after a text: its keys and defaults."""
    text = (DOCS / page).read_text()
    part = text[text.index(after) :]
    part = part[part.index("| default |") :]
    return {m[1].strip("`"): (m[2] or "").strip() for m in ROW.finditer(part.split("\n\n")[0])}


def _shown(value: Any) -> str:
    if isinstance(value, BaseModel) and isinstance(value.model_dump(), str):
        return str(value.model_dump())  # it may be written as a word
    if isinstance(value, bool | str):
        return json.dumps(value).strip('"')
    if isinstance(value, int | float):
        return f"{value:g}" if value < 1e5 else str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"  # pyright: ignore
    return "{}" if value == {} else "–"  # noqa: RUF001 - as the tables have it


@pytest.mark.parametrize(("page", "head", "model"), MODELS, ids=lambda x: getattr(x, "__name__", x))
def test_every_key_is_there_with_its_default(page: str, head: str, model: type[BaseModel]) -> None:
    table = _table(page, head)
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    assert list(table) == list(fields)
    for key, field in fields.items():
        if field.is_required():
            assert table[key] == "required", key
        elif table[key].startswith("`") and field.default is not None:
            assert (
                table[key]
                == f"`{_shown(field.get_default(call_default_factory=True, validated_data={}))}`"
            ), key


def test_every_setting_of_a_worker_is_there_with_its_default() -> None:
    table = _table("operations.md", "## Workers")
    # In any order: some fields are inherited, and the table has them where they are looked for.
    assert set(table) == {f"CREWLOG_{name.upper()}" for name in WorkerSettings.model_fields}
    for name, field in WorkerSettings.model_fields.items():
        if field.default_factory is None:
            value = field.default
            shown = str(value) if isinstance(value, Path) else _shown(value)
            assert table[f"CREWLOG_{name.upper()}"] == f"`{shown}`", name


def test_every_field_of_a_tools_call_is_told() -> None:
    text = (DOCS / "tools.md").read_text()
    part = text[text.index("## The current call") : text.index("## What a tool returns")]
    names = [n for n in vars(ToolCall) if not n.startswith("_")]
    fields = [n for n in ToolCall.__dataclass_fields__ if n not in ("beat", "stop")]
    for name in {*names, *fields} - {"beat", "stop"}:
        assert re.search(rf"`{name}\b", part), name


def test_every_search_attribute_status_and_question_is_told() -> None:
    operations = (DOCS / "operations.md").read_text()
    for name in SEARCH_ATTRIBUTES:
        assert f"| `{name}` |" in operations
    concepts = (DOCS / "concepts.md").read_text()
    for status in _words(RunStatus):
        assert f"`{status}`" in concepts
    for kind in _words(Interrupt.model_fields["kind"].annotation):
        assert f"| `{kind}` |" in concepts


def _words(kind: Any) -> tuple[str, ...]:
    found: tuple[str, ...] = kind.__args__
    return found


def test_journal_entries_that_are_named_exist() -> None:
    kinds = {kind.__name__ for kind in JournalEntry.__origin__.__args__}  # type: ignore[attr-defined]
    for page in [*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md")]:
        text = page.read_text()
        if page.name == "concepts.md":  # its last column has the names that are not used any more
            text = "\n".join(line.rpartition(" | ")[0] or line for line in text.splitlines())
        for name in re.findall(r"`([A-Z]\w+(?:Completed|Buffered|Rejected|Denied|Reached))`", text):
            assert name in kinds, f"{page.name} names {name}"


def test_variables_that_are_named_are_read_somewhere() -> None:
    root = DOCS.parent
    code = "\n".join(
        path.read_text()
        for folder in ("src/crewlog", "activities", "workers", "tests")
        for path in (root / folder).rglob("*.py")
    )
    settings: Mapping[str, object] = WorkerSettings.model_fields
    for page in [root / "README.md", root / "CONTRIBUTING.md", *DOCS.glob("*.md")]:
        for name in set(re.findall(r"\bCREWLOG_[A-Z_]+\b", page.read_text())):
            known = name.removeprefix("CREWLOG_").lower() in settings or f'"{name}"' in code
            assert known, f"{page.name} names {name}"

"""Builders and decisions: those that are registered are told, with what can be said to them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crewlog.definition.builders import Builder, builders
from crewlog.definition.decisions import decisions
from crewlog.definition.expand import expand
from crewlog.definition.load import load_definition

DOCS = Path(__file__).parents[2] / "docs"
OURS = {
    name: each
    for name, each in builders().items()
    if each.options.__module__.startswith("crewlog.definition.")
}


def _part(page: str, after: str, before: str) -> str:
    text = (DOCS / page).read_text()
    begin = text.index(after)
    return text[begin : text.index(before, begin + len(after))]


def _options(builder: Builder) -> list[str]:
    return [field.alias or name for name, field in builder.options.model_fields.items()]


def _told(page: str) -> dict[str, str]:
    """The builders that a page tells of, and the text about each."""
    if page == "builders.md":
        text = _part(page, "## In the flow", "## Your own")
        heads = list(re.finditer(r"^\*\*`(\w+)`\*\*", text, re.MULTILINE))
        ends = [head.start() for head in heads[1:]] + [len(text)]
        return {head[1]: text[head.start() : end] for head, end in zip(heads, ends, strict=True)}
    rows: dict[str, str] = {}
    for head, end in (("| builder | makes |", "\n\n"), ("| pattern | the agent |", "\n\n")):
        for row in _part(page, head, end).splitlines()[2:]:
            rows[row.split("`")[1]] = row
    return rows


@pytest.mark.parametrize("page", ["builders.md", "definition.md"])
def test_every_builder_is_told_with_its_options_and_steps(page: str) -> None:
    told = _told(page)
    assert set(told) == set(OURS)
    for name, builder in OURS.items():
        for word in (*_options(builder), *builder.steps):
            assert f"`{word}`" in told[name], f"{page} does not tell of {word!r} of {name!r}"


@pytest.mark.parametrize("name", OURS)
def test_every_builder_has_an_example_that_uses_it(name: str) -> None:
    (yaml,) = re.findall(
        r"^```yaml\n(.*?)^```$", _told("builders.md")[name], re.MULTILINE | re.DOTALL
    )
    crew = load_definition(yaml)
    assert re.search(rf"(use|pattern): {name}\b", yaml)
    assert not expand(crew).faults


def test_every_decision_is_told_with_its_fields() -> None:
    part = _part("definition.md", "## Replies", "## Tools")
    for name, decision in decisions().items():
        if decision.model.__module__ != "crewlog.definition.deciding":
            continue
        (row,) = (line for line in part.splitlines() if line.startswith(f"| `{name}`"))
        for field in decision.fields:
            assert f"`{field}`" in row, f"{name}.{field}"

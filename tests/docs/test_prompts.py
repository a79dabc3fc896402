"""The prompts that the documentation shows compile to the YAML that it shows beneath them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from crewlog.definition.load import load_data
from crewlog.graph.lowering.plans import lower
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.forms import FORMS
from crewlog.prompt.registry import Registry

PAGE = Path(__file__).parents[2] / "docs" / "prompts.md"
EXAMPLE = re.compile(r"```prompt\n(.*?)```\n+```yaml\n(.*?)```", re.DOTALL)
TOOLS = {"write_file": ["write files"], "deploy": [], "search_web": ["search the web"]}
REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "tools": {name: {"run": "my_tools:run", "words": words} for name, words in TOOLS.items()},
    }
)


@pytest.mark.parametrize(("prompt", "yaml"), EXAMPLE.findall(PAGE.read_text()))
def test_a_prompt_compiles_to_what_is_shown(prompt: str, yaml: str) -> None:
    found = compile_prompt(prompt, REGISTRY)
    assert not found.remarks, [remark.diagnostic.render() for remark in found.remarks]
    assert found.definition is not None
    made = found.definition.to_json()
    shown: dict[str, Any] = YAML(typ="safe", pure=True).load(yaml)
    expected = lower(load_data({**made, "crew": "crew", **shown}))
    assert lower(found.definition).model_dump() == expected.model_dump() | {
        "definition": lower(found.definition).definition
    }


def test_there_are_examples() -> None:
    assert len(EXAMPLE.findall(PAGE.read_text())) >= 4


def test_the_table_of_forms_is_the_parsers_own() -> None:
    shown = PAGE.read_text().partition("<!-- forms -->\n")[2].partition("\n<!-- /forms -->")[0]
    rows = ["| what it says | examples |", "| --- | --- |"]
    rows += [f"| {form.title} | {'<br>'.join(form.examples)} |" for form in FORMS]
    assert shown == (table := "\n".join(rows)), f"docs/prompts.md needs this table:\n{table}"

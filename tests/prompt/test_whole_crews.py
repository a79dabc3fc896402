"""Crews in the words of strangers: what is not read is told, and nothing is guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.grammar.sentences import sentences
from crewlog.prompt.registry import Registry

CASES: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("whole_crews.yaml").read_text()
)
REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "tools": {
            name: {"run": "x:y", "effects": "write"} for name in ("run_pytest", "lint", "add_node")
        },
    }
)
_ids = {"ids": [case["prompt"][:40] for case in CASES]}


@pytest.mark.parametrize("case", CASES, **_ids)
def test_what_is_not_read_is_told(case: dict[str, Any]) -> None:
    text = case["prompt"]
    found = compile_prompt(text, REGISTRY)
    words = [w for remark in found.remarks for w in remark.words]
    for told in case["told"]:
        start = text.index(told)
        assert any(w.start < start + len(told) and w.end > start for w in words), told
    flow = [] if found.definition is None else found.definition.to_json()["flow"]
    assert flow == case["flow"]


@pytest.mark.parametrize("case", CASES, **_ids)
def test_every_sentence_is_in_a_statement_or_in_a_remark(case: dict[str, Any]) -> None:
    text = case["prompt"]
    found = compile_prompt(text, REGISTRY)
    words = [w for said in found.ast.statements for w in said.words]
    words += [w for remark in found.remarks for w in remark.words]
    for sentence in sentences(text):
        inside = [w for w in words if w.start < sentence.stop and w.end > sentence.start]
        assert inside, text[sentence.start : sentence.stop]

"""What the definition's own English says is read back as the same definition."""

from __future__ import annotations

import pytest
from tests.corpus.cases import Case, cases, differences, meaning

from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.english import to_english
from crewlog.prompt.registry import Registry


@pytest.mark.parametrize("case", list(cases()), ids=lambda c: c.name)
def test_rendered_english_is_read_back(case: Case) -> None:
    registry = Registry.model_validate(case.registry)
    made = compile_prompt(to_english(case.expected, registry), registry)
    assert made.definition is not None
    assert not differences(meaning(case.expected), meaning(made.definition))

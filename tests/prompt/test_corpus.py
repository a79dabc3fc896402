"""How much of the corpus the grammar reads exactly, and that it drops nothing in silence."""

from __future__ import annotations

import re

import pytest
from tests.corpus.cases import Case, cases, differences, meaning, other_words

from crewlog.errors import InvalidDefinition
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.grammar import read
from crewlog.prompt.grammar.sentences import sentences
from crewlog.prompt.registry import Registry

ALL = list(cases())
OTHERS = list(other_words())
_named = {"ids": [c.name for c in [*ALL, *OTHERS]]}


def _compiled(case: Case) -> CompiledPrompt:
    return compile_prompt(case.prompt, Registry.model_validate(case.registry))


def _faults(case: Case) -> list[str]:
    made = _compiled(case)
    errors = [f"{r.code}: {r.diagnostic.message}" for r in made.remarks if r.error]
    if made.definition is None:
        return errors or ["no definition"]
    try:
        return errors + differences(meaning(case.expected), meaning(made.definition))
    except InvalidDefinition as error:
        return [*errors, str(error)]


@pytest.mark.parametrize(("kind", "least"), [("controlled", 0.9), ("free", 0.1)])
def test_prompts_come_out_exactly(kind: str, least: float) -> None:
    of_kind = [case for case in ALL if case.kind == kind]
    failing = {case.name: faults[0] for case in of_kind if (faults := _faults(case))}
    exact = len(of_kind) - len(failing)
    report = "\n".join(f"  {name}: {fault}" for name, fault in failing.items())
    assert exact >= least * len(of_kind), f"{exact} of {len(of_kind)} exact\n{report}"


def test_the_words_of_other_people_come_out_exactly() -> None:
    failing = {case.name: faults[0] for case in OTHERS if (faults := _faults(case))}
    report = "\n".join(f"  {name}: {fault}" for name, fault in failing.items())
    assert len(failing) <= 0.1 * len(OTHERS), f"{len(OTHERS) - len(failing)} exact\n{report}"


@pytest.mark.parametrize("case", ALL, ids=[c.name for c in ALL])
def test_what_cannot_be_understood_is_reported(case: Case) -> None:
    reading = read(case.prompt, Registry.model_validate(case.registry))
    missed = [r for r in reading.remarks if r.code == "not_understood"]
    for words in case.not_understood:
        found = re.search(r"\s+".join(map(re.escape, words.split())), case.prompt)
        assert found, words
        start, end = found.span()
        overlaps = [w for r in missed for w in r.words if w.start < end and w.end > start]
        assert overlaps, f"{words!r} was dropped in silence"


@pytest.mark.parametrize("case", [*ALL, *OTHERS], **_named)
def test_every_sentence_is_in_a_statement_or_in_a_remark(case: Case) -> None:
    reading = read(case.prompt, Registry.model_validate(case.registry))
    words = [w for s in reading.ast.statements for w in s.words]
    words += [w for r in reading.remarks for w in r.words]
    for sentence in sentences(case.prompt):
        if sentence.kind == "heading":
            continue
        covered = any(w.start < sentence.stop and w.end > sentence.start for w in words)
        assert covered, case.prompt[sentence.start : sentence.stop]

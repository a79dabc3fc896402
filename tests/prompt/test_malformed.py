"""Damaged prompts and definitions: every one is answered, none crashes, none hangs.

`CREWLOG_MALFORMED=5000` damages that many of each, in minutes; `-rP` shows the slowest.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.corpus.cases import cases
from tests.prompt.mutations import Mutator

from crewlog.definition.load import load_definition
from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.registry import Registry
from pace import cpu, paced

COUNT = int(os.environ.get("CREWLOG_MALFORMED", "600"))
CHUNKS = 10
LONGEST = float(os.environ.get("CREWLOG_MALFORMED_SECONDS", "5"))
"""Seconds of the processor that one text may take; far more than any needs."""
ROOT = Path(__file__).parents[2]


@functools.cache
def _prompts() -> tuple[tuple[str, ...], tuple[Registry, ...]]:
    found = list(cases())
    registries = {
        case.file.parent: Registry.model_validate(
            {k: v for k, v in case.registry.items() if k in Registry.model_fields}
        )
        for case in found
    }
    return tuple(case.prompt for case in found), tuple(registries.values())


@functools.cache
def _definitions() -> tuple[str, ...]:
    texts = [file.read_text("utf-8") for file in sorted(ROOT.glob("examples/**/*.yaml"))]
    crews = [json.dumps(case.expected.to_json(), indent=1) for case in cases()]
    return (*texts, *crews)


def _hammer(seed: int, texts: tuple[str, ...], take: Callable[[str], None]) -> tuple[float, int]:
    """The slowest one's seconds and seed."""
    slowest = (0.0, 0)
    for number in range(seed, COUNT, CHUNKS):
        text = Mutator(number, texts).one()
        try:
            slowest = max(slowest, (cpu(lambda text=text: take(text)), number))
        except Exception as error:
            raise AssertionError(f"seed {number}: {type(error).__name__}: {error}") from error
    if slowest[0] > LONGEST:  # a busy machine, or a text that is hard to read?
        text = Mutator(slowest[1], texts).one()
        slowest = (min(paced(lambda: take(text)) for _ in range(2)), slowest[1])
    return slowest


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_damaged_prompts_are_answered(chunk: int) -> None:
    texts, registries = _prompts()

    def take(text: str) -> None:
        compiled = compile_prompt(text, registries[len(text) % len(registries)])
        assert compiled.definition is not None or any(r.error for r in compiled.remarks)
        for remark in compiled.remarks:
            assert remark.diagnostic.render()
        assert compiled.ok == (not any(r.error for r in compiled.remarks))

    slowest, seed = _hammer(chunk, texts, take)
    sys.stdout.write(f"slowest: {slowest:.3f} s, seed {seed}\n")
    assert slowest < LONGEST, f"seed {seed} took {slowest:.1f} s"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_damaged_definitions_are_answered(chunk: int) -> None:
    def take(text: str) -> None:
        with contextlib.suppress(InvalidDefinition):
            assert isinstance(load_definition(text), CrewDefinition)

    slowest, seed = _hammer(chunk, _definitions(), take)
    sys.stdout.write(f"slowest: {slowest:.3f} s, seed {seed}\n")
    assert slowest < LONGEST, f"seed {seed} took {slowest:.1f} s"

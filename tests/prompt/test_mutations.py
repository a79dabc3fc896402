"""Mutations of honest readings: how many the verifier notices, and how often it errs."""

from __future__ import annotations

import pytest
from tests.corpus.mutations import MUTATIONS, PAGE, count, with_tables

NOTICED = 0.95
ALARMS = 0.02


def test_the_verifier_notices_mutations() -> None:
    found = count()
    assert set(found.counted) == set(MUTATIONS), "each kind occurs"
    assert found.noticed.total() >= NOTICED * found.counted.total(), "\n".join(found.missed)


@pytest.mark.parametrize("what", MUTATIONS)
def test_it_notices_most_mutations_of_every_kind(what: str) -> None:
    found = count()
    missed = [each for each in found.missed if each.endswith(what)]
    assert found.noticed[what] >= 0.85 * found.counted[what], missed


def test_it_seldom_reports_honest_parts() -> None:
    found = count()
    assert len(found.alarms) <= ALARMS * found.parts, found.alarms


def test_the_docs_have_these_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "python -m tests.corpus.mutations"

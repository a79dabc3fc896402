"""A bounded right that `and` joins to something else, and bounds in a tool's own words."""

from __future__ import annotations

import pytest
from tests.prompt.test_people_at_work import read


@pytest.mark.parametrize(
    ("text", "tools", "quota"),
    [
        ("The clerk serves and may use refund at most 5 times per day.", ["refund"], "5 per day"),
        (
            "The clerk serves. The clerk may use drop at most 4 times per run, and may save notes.",
            ["drop", "save"],
            "4 per run",
        ),
        (
            "The clerk serves with save. Nobody may save notes more than 3 times per day.",
            ["save"],
            "3 per day",
        ),
    ],
)
def test_reads_the_bound(text: str, tools: list[str], quota: str) -> None:
    found = read(text)
    assert found.definition is not None
    assert found.understood, [each.diagnostic.render() for each in found.remarks]
    made = found.definition.to_json()
    assert made["flow"] == ["clerk"]
    assert sorted(made["agents"]["clerk"]["tools"]) == tools
    assert [rule["quota"] for rule in made["rules"]] == [quota]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (
            "The clerk serves, then the manager helps and may use refund at most 5 times per day.",
            "more than 5 times per day",
        ),
        ("The clerk may use refund at most 7 times per week.", "'The clerk must not call refund"),
    ],
)
def test_what_is_not_read_gives_nothing_and_has_a_remedy(text: str, remedy: str) -> None:
    found = read(f"{text} The clerk serves.")
    (said,) = [r.diagnostic.remedy for r in found.remarks if r.code == "not_understood" and r.error]
    assert remedy in said
    assert not [s for s in found.ast.statements if s.kind in {"allow", "rule"}]

"""The glossary has one word for each concept, and one concept for each word."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "concepts.md").read_text()
HEAD = "| term | meaning | source | replaces |\n| --- | --- | --- | --- |\n"
AREAS = (
    "Runs and executions",
    "Graph",
    "State and journal",
    "Messages",
    "Agents and tools",
    "People and authority",
    "Definition and prompts",
    "Storage",
    "Operations",
    "Reporting",
)
FEWEST = 75
NOTHING = "–"  # noqa: RUF001 - as the tables have it
REPLACED = re.compile(r"(?P<name>`[^`]+`|[^,`(]+?)(?: \((?P<where>[^)]+)\))?")
"""A replaced name; with `where` in parentheses only that use of it is replaced."""


class Term(NamedTuple):
    """A row of a table of terms."""

    name: str
    meaning: str
    source: str
    replaces: str

    @property
    def replaced(self) -> list[tuple[str, str]]:
        """The names that it replaces, each with the place in parentheses behind it."""
        if self.replaces == NOTHING:
            return []
        found = [REPLACED.fullmatch(each) for each in self.replaces.split(", ")]
        assert all(found), f"{self.name}: {self.replaces}"
        return [(match["name"], match["where"] or "") for match in found if match]


def _section(title: str) -> str:
    part = PAGE[PAGE.index(f"\n## {title}\n") :]
    return part.split("\n## ")[1]


def _rows(table: str) -> list[list[str]]:
    return [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]


def _terms(area: str) -> list[Term]:
    section = _section(area)
    assert section.count(HEAD) == 1, area
    rows = _rows(section[section.index(HEAD) + len(HEAD) :])
    return [Term(*(value.strip() for value in row)) for row in rows]


TERMS = [term for area in AREAS for term in _terms(area)]
NAMES = {term.name for term in TERMS}


def _plain(name: str) -> str:
    return name.strip("`").lower()


def _unqualified() -> Iterator[tuple[Term, str]]:
    """The names that are replaced wherever they stand, each with the term that replaces it."""
    for term in TERMS:
        for name, where in term.replaced:
            if not where:
                yield term, name


def test_there_are_enough_terms() -> None:
    assert len(TERMS) >= FEWEST


def test_every_table_of_terms_is_an_area_of_the_test() -> None:
    assert PAGE.count("| term | meaning |") == len(AREAS)


@pytest.mark.parametrize("area", AREAS)
def test_terms_of_a_table_are_sorted(area: str) -> None:
    names = [term.name.lower() for term in _terms(area)]
    assert names == sorted(names)


def test_no_term_stands_twice() -> None:
    counts = Counter(term.name.lower() for term in TERMS)
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_term_has_a_meaning() -> None:
    for term in TERMS:
        assert re.fullmatch(r"[A-Z].+\.", term.meaning), term.name
        assert term.replaces, term.name


def test_every_source_is_one_of_the_list() -> None:
    match = re.search(r"^Sources: ([^.]+)\.", PAGE, re.MULTILINE)
    assert match
    known = set(re.split(r",\s+", match[1]))
    used = {(term.name, each.split(":")[0]) for term in TERMS for each in term.source.split("; ")}
    assert [(name, source) for name, source in sorted(used) if source not in known] == []
    assert known == {source for _, source in used}


def test_no_term_is_a_replaced_name() -> None:
    assert [name for _, name in _unqualified() if _plain(name) in NAMES] == []


def test_a_name_is_replaced_by_one_term() -> None:
    by_name: dict[str, set[str]] = {}
    for term, name in _unqualified():
        by_name.setdefault(_plain(name), set()).add(term.name)
    assert {name: terms for name, terms in by_name.items() if len(terms) > 1} == {}


def test_meanings_use_no_replaced_word() -> None:
    words = {name for _, name in _unqualified() if not name.startswith("`")}
    tables = _section("What a run's status says") + _section("What people are asked")
    texts = {**{term.name: term.meaning for term in TERMS}, "the last tables": tables}
    for where, text in texts.items():
        prose = re.sub(r"`[^`]*`", "", text).lower()
        found = [word for word in words if re.search(rf"\b{re.escape(word)}\b", prose)]
        assert found == [], where


def test_fixed_names_are_names_of_the_code() -> None:
    code = "\n".join(
        path.read_text()
        for folder in ("src/crewlog", "workflows", "activities")
        for path in (ROOT / folder).rglob("*.py")
    )
    rows = _rows(_section("Fixed names"))[2:]
    assert len(rows) >= 10
    for row in rows:
        for name in re.findall(r"`([^`]+)`", row[0]):
            assert name in code, name

"""What was measured, in costs.json, in calls.json and in a table; and the bounds that follow.

`costs.json` has the figures of each unit. `calls.json` has how often each unit calls which Python
function: of the functions that are called most, and for all others of a file together. It says what
rose where a cost is above its bound.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.costs.measure import Cost
from tests.costs.units import UNITS, Unit

from bench.report import on_page

HERE = Path(__file__).parent
COSTS, CALLS = HERE / "costs.json", HERE / "calls.json"
PAGE = HERE.parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- costs -->", "<!-- /costs -->"
"""Where the page has the table."""
AGAIN = "make costs COSTS=--write"

FIGURES = {
    "history_bytes": "bytes of history",
    "events": "events",
    "workflow_tasks": "workflow tasks",
    "round_trips": "round trips to the store",
    "serialisations": "serialisations",
    "validations": "validations",
    "calls": "Python calls",
}
MARGIN = 1.03
"""By how much a cost may exceed what was measured."""
SLACK = {"events": 0.05, "workflow_tasks": 0.05, "round_trips": 0.05}
"""What is added where a unit has only a few: one in twenty units."""
LIBRARIES = ("temporalio", "langgraph", "langchain-core", "pydantic")
MOST = 100
"""How many functions of a unit have calls of their own in calls.json."""
RISES = 10

Costs = dict[str, Cost]
"""By the names of units."""


def versions() -> dict[str, str]:
    """The versions on which costs depend."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"python": python, **{name: version(name) for name in LIBRARIES}}


def stored() -> dict[str, Any]:
    """What costs.json has: `commit`, `versions`, and `costs` by unit and figure."""
    found: dict[str, Any] = json.loads(COSTS.read_text())
    return found


def write(costs: Costs, commit: str) -> None:
    """Writes both files and the table of the page."""
    figures = {
        unit: {name: round(cost.figures[name], 2) for name in FIGURES}
        for unit, cost in costs.items()
    }
    found = {"commit": commit, "versions": versions(), "costs": figures}
    COSTS.write_text(json.dumps(found, indent=1) + "\n")
    CALLS.write_text(
        json.dumps({unit: most_called(cost.functions) for unit, cost in costs.items()}, indent=1)
        + "\n"
    )
    PAGE.write_text(on_page(PAGE.read_text(), markdown(found), BEGIN, END))


def bound(unit: str, figure: str) -> float:
    """What a unit may cost."""
    value: float = stored()["costs"][unit][figure]
    return value * MARGIN + SLACK.get(figure, 0.0)


def exceeded(unit: str, cost: Cost) -> list[str]:
    """The figures of a cost that are above the bounds of a unit."""
    return [name for name in FIGURES if cost.figures[name] > bound(unit, name)]


def fallen(unit: str, cost: Cost) -> list[str]:
    """The figures of a cost that are so far below costs.json that a rise could hide behind it."""
    return [name for name in FIGURES if cost.figures[name] < _floor(unit, name)]


def _floor(unit: str, figure: str) -> float:
    value: float = stored()["costs"][unit][figure]
    return value / MARGIN - SLACK.get(figure, 0.0)


def most_called(functions: Mapping[str, float]) -> dict[str, float]:
    """The calls of the functions that are called most; of the others, those of their files."""
    ordered = sorted(functions.items(), key=lambda item: (-item[1], item[0]))
    return _grouped(functions, {name for name, _ in ordered[:MOST]})


def _grouped(functions: Mapping[str, float], named: set[str]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for name, calls in functions.items():
        found[name if name in named else f"{name.partition(':')[0]}:*"] += calls
    rounded = {name: round(calls, 1) for name, calls in found.items()}
    return {name: calls for name, calls in sorted(rounded.items()) if calls}


def rises(unit: str, functions: Mapping[str, float]) -> list[str]:
    """The functions whose calls rose most, each as a line; `file:*` is all others of a file."""
    before: dict[str, float] = json.loads(CALLS.read_text())[unit]
    now = _grouped(functions, before.keys() & functions.keys())
    grown = {
        name: now.get(name, 0.0) - before.get(name, 0.0) for name in before.keys() | now.keys()
    }
    most = sorted(grown, key=lambda name: (-grown[name], name))[:RISES]
    return [
        f"{grown[name]:+8.1f}  {name} ({before.get(name, 0.0):g}, now {now.get(name, 0.0):g})"
        for name in most
        if grown[name] > 0
    ]


def failure(unit: Unit, figure: str, cost: Cost) -> str:
    """What a test says about a cost above its bound."""
    found = stored()
    lines = rises(unit.name, cost.functions)
    return (
        f"{unit.name} ({unit.what}) costs {cost.figures[figure]:,.2f} {FIGURES[figure]}; "
        f"the bound is {bound(unit.name, figure):,.2f}, since commit {found['commit']} had "
        f"{found['costs'][unit.name][figure]:,.2f}. Make it cheaper; or, if what costs more is "
        f"worth it, measure again with `{AGAIN}` and say why in the commit message. "
        + ("Calls that rose most, per unit:\n" + "\n".join(lines) if lines else "No calls rose.")
    )


def rows(costs: Mapping[str, Mapping[str, float]]) -> list[tuple[str, ...]]:
    """The table, its head first."""
    return [
        ("unit", *FIGURES.values(), "what it is"),
        *(
            (unit.name, *(f"{costs[unit.name][name]:,.5g}" for name in FIGURES), unit.what)
            for unit in UNITS
        ),
    ]


def changes(costs: Mapping[str, Mapping[str, float]]) -> list[tuple[str, ...]]:
    """By how much each cost differs from costs.json, as a table; its head first."""
    try:
        before: dict[str, dict[str, float]] = stored()["costs"]
    except (FileNotFoundError, ValueError):  # as where two branches have written it
        before = {}

    def change(unit: str, name: str) -> str:
        was, now = before.get(unit, {}).get(name, 0.0), costs[unit][name]
        return f"{now / was - 1:+.1%}" if was else "new" if now else "0"

    return [
        ("since costs.json", *FIGURES.values()),
        *((unit, *(change(unit, name) for name in FIGURES)) for unit in costs),
    ]


def markdown(found: Mapping[str, Any]) -> str:
    """The table of a page, from what costs.json has."""
    head, *body = rows(found["costs"])
    table = [head, ("---", *("---:" for _ in FIGURES), "---")]
    table += [(f"`{unit}`", *cells) for unit, *cells in body]
    on = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
    return f"Measured at commit `{found['commit']}`: {on}.\n\n{lines}"

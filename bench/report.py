"""What there is to report: the table, and one flat JSON object.

A row is a name of `bench.specs` with its median, and with more under a prefix and the same name:
`spread_`, `low_` and `high_` (quartiles), `least_` and `most_` (the interval of the median, where
there are rounds enough), `n_` (rounds), `commit_` (at which commit it was measured) and `load_`
(the load average before). Where something could not be measured its value is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.commits import cases_of
from bench.pairs import Figure
from bench.specs import CASE_OF, NAMES, SPECS, Value

Flat = dict[str, Value]
PREFIXES = ("", "spread_", "low_", "high_", "least_", "most_", "n_", "commit_", "load_")
"""What a row has, each followed by its name."""


def flat(figures: Iterable[Figure], case: str) -> Flat:
    """The figures of a case as one flat object.

    Raises:
        KeyError: a figure has a name that is not among those of the case.
    """
    found: Flat = {}
    for item in figures:
        if CASE_OF.get(item.name) != case:
            raise KeyError(f"the case {case!r} has no row {item.name!r} in bench/specs.py")
        low, high = item.quartiles
        found[item.name] = _short(item.median)
        found[f"spread_{item.name}"] = _short(item.spread)
        found[f"low_{item.name}"] = _short(low)
        found[f"high_{item.name}"] = _short(high)
        if item.interval is not None:
            least, most = item.interval
            found[f"least_{item.name}"] = _short(least)
            found[f"most_{item.name}"] = _short(most)
        found[f"n_{item.name}"] = len(item.values)
    return found


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def derive(found: Flat) -> None:
    """Adds what follows from several figures, where they are all there."""
    steps = [v for n in (10, 100, 1000) if isinstance(v := found.get(f"step_ms_{n}"), int | float)]
    if len(steps) == 3:
        found["step_ms_apart"] = _short(max(steps) / min(steps))
    first, last = (found.get(f"history_bytes_per_step_{n}") for n in (10, 1000))
    if isinstance(first, int | float) and isinstance(last, int | float):
        found["history_growth"] = _short(last / first)


def stamp(found: Flat, commit: str, load: float) -> None:
    """Adds the commit and the load average before to each row that has a value."""
    for name in NAMES:
        if found.get(name) is not None:
            found[f"commit_{name}"] = commit
            found[f"load_{name}"] = round(load, 2)


def by_commit(found: Mapping[str, Value]) -> dict[str, list[str]]:
    """The names of the rows that have a value, by their commit; "" where a row has none."""
    rows: dict[str, list[str]] = {}
    for name in NAMES:
        if found.get(name) is not None:
            rows.setdefault(str(found.get(f"commit_{name}") or ""), []).append(name)
    return rows


def complete(found: Flat) -> Flat:
    """All names in their order, null where there is no value; then whatever else there is."""
    whole: Flat = {name: found.get(name) for name in NAMES}
    return {**whole, **{name: v for name, v in found.items() if name not in whole}}


MACHINE = (
    *("cpus", "processor", "python", "temporalio", "langgraph", "temporal_server", "postgres"),
)
"""What all figures of a file were measured on."""


class OtherMachineError(Exception):
    """A file has figures of another machine, or of other versions."""


def merged(path: Path, found: Flat, cases: Sequence[str]) -> Flat:
    """What a file has, with the rows of these cases in the place of those before.

    Raises:
        OtherMachineError: the file was measured on another machine, or with other versions.
    """
    before: Flat = json.loads(path.read_text()) if path.exists() else {}
    if before and (other := [name for name in MACHINE if before.get(name) != found.get(name)]):
        differences = ", ".join(f"{name} {before.get(name)}, now {found[name]}" for name in other)
        raise OtherMachineError(
            f"{path} was measured on another machine or with other versions ({differences}): "
            f"measure all of it again"
        )
    old = {f"{prefix}{name}" for name in NAMES if CASE_OF[name] in cases for prefix in PREFIXES}
    kept = {name: value for name, value in before.items() if name not in old}
    return complete({**kept, **found})


def write(path: Path, found: Flat) -> None:
    """Writes the object as JSON, one name a line."""
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


HEAD = ("name", "median", "quartiles", "target", "", "95 %", "what it is")


def lines(found: Flat) -> list[tuple[str, ...]]:
    """The rows of the table, one for each name that has a value."""
    rows: list[tuple[str, ...]] = []
    for spec in SPECS:
        if spec.name not in found:
            continue
        value = found[spec.name]
        low, high = found.get(f"low_{spec.name}"), found.get(f"high_{spec.name}")
        least, most = found.get(f"least_{spec.name}"), found.get(f"most_{spec.name}")
        rows.append(
            (
                spec.name,
                _shown(value),
                "" if low is None or high is None else f"{low:.4g} … {high:.4g}",
                spec.target.text if spec.target else "",
                spec.target.verdict(found) if spec.target else "",
                "" if least is None or most is None else f"{least:.4g} … {most:.4g}",
                spec.what,
            )
        )
    return rows


def _shown(value: Value) -> str:
    if value is None:
        return "–"  # noqa: RUF001 - a dash
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def conditions(found: Flat) -> str:
    """At which commit and on what it was measured, in a line."""
    loads = _range(found, "load_") or "not noted"
    machine = [
        f"{found.get('cpus')} CPUs",
        f"Python {found.get('python')}",
        f"temporalio {found.get('temporalio')}",
        f"langgraph {found.get('langgraph')}",
    ]
    if found.get("processor") is not None:
        machine[0] += f" ({found['processor']})"
        machine.append(f"Temporal server {found.get('temporal_server')}")
        machine.append(f"PostgreSQL {found.get('postgres')}")
    return (
        f"{_commits(found)}; {', '.join(machine)}; {_range(found, 'n_') or 'no'} rounds; "
        f"load average before: {loads}."
    )


def _range(found: Flat, prefix: str) -> str:
    values = [v for name in NAMES if isinstance(v := found.get(prefix + name), int | float)]
    ends = [min(values), max(values)] if values else []
    return " to ".join(str(value) for value in dict.fromkeys(ends))


def _commits(found: Flat) -> str:
    rows = by_commit(found)
    if len(rows) == 1:
        return f"Measured at commit {_commit(*rows)}"
    parts = [f"{_commit(commit)} ({', '.join(cases_of(names))})" for commit, names in rows.items()]
    return f"Measured at several commits: {', '.join(parts)}"


def _commit(commit: str) -> str:
    return f"`{commit}`" if commit else "unknown"


def text(found: Flat) -> str:
    """The table for a terminal."""
    return columns([HEAD, *lines(found)])


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines with columns; the first row is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def markdown(found: Flat) -> str:
    """The table for a page."""
    rows = [HEAD, tuple("---" for _ in HEAD), *(_coded(row) for row in lines(found))]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{conditions(found)}\n\n{table}"


BEGIN, END = "<!-- table -->", "<!-- /table -->"
"""Where a page has the table."""


def on_page(page: str, table: str, begin: str = BEGIN, end: str = END) -> str:
    """A page with a table in its place.

    Args:
        page: The page.
        table: The table.
        begin: The comment before the table.
        end: The comment behind it.

    Raises:
        ValueError: the page does not say where the table is.
    """
    before, begins, rest = page.partition(begin)
    _, ends, after = rest.partition(end)
    if not begins or not ends:
        raise ValueError(f"the page has no {begin} … {end}")
    return f"{before}{begin}\n{table}\n{end}{after}"


def _coded(row: tuple[str, ...]) -> tuple[str, ...]:
    return (f"`{row[0]}`", *row[1:])

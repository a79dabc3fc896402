"""Step ids are put together and taken apart in `crewlog.ids` alone.

Code is searched for what can be recognized without types: the separator `#`, and string methods of
what is called `step`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWNER = "src/crewlog/ids.py"
OTHER_NAMES = {
    "src/crewlog/prompt/lower.py": "names of a reading's phases, which `#` and a number make unique"
}
"""Modules that use `#` for something else, with what."""
DIRECTORIES = ("src", "activities", "workflows", "workers")
SPLITS = {"partition", "rpartition", "split", "rsplit", "find", "rfind", "index", "rindex"}
PREFIXES = {"startswith", "endswith", "removeprefix", "removesuffix", "replace"}


def is_text(node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def is_step(node: ast.AST) -> bool:
    """Whether an expression is a variable or a field `step`, or `StepId(…)`."""
    match node:
        case ast.Name(id="step") | ast.Attribute(attr="step"):
            return True
        case ast.Call(func=ast.Name(id="StepId" | "str"), args=[each]):
            return is_step(each)
        case _:
            return False


def joins_parts(parts: list[ast.expr]) -> bool:
    """Whether an f-string makes a step's id or its beginning: `{…}#`, or `{step}.{…}`."""
    pairs = [(a, b) for a, b in pairwise(parts) if is_value(a)]
    if any(is_text(separator, "#") for _, separator in pairs):
        return True
    return any(
        is_text(separator, ".") and is_step(before.value) and is_value(after)
        for before, separator, after in zip(parts, parts[1:], parts[2:], strict=False)
        if isinstance(before, ast.FormattedValue)
    )


def is_value(part: ast.AST) -> bool:
    return isinstance(part, ast.FormattedValue)


def is_surgery(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=method), args=[first, *_]):
            if method in SPLITS and (is_text(first, "#") or is_step(value)):
                return True
            return method in PREFIXES and is_step(value)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            return is_text(left, "#") or (is_text(left, ".") and is_step(right))
        case ast.JoinedStr(values=parts):
            return joins_parts(parts)
        case _:
            return False


def surgery(source: str) -> Iterator[int]:
    """The lines of a module that take a step's id apart, or put one together."""
    for node in ast.walk(ast.parse(source)):
        if is_surgery(node):
            yield node.lineno  # type: ignore[attr-defined]


def test_only_the_owner_takes_step_ids_apart() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for directory in DIRECTORIES
        for path in sorted((ROOT / directory).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in {OWNER, *OTHER_NAMES}
        for line in surgery(path.read_text())
    ]
    assert found == [], f"use the functions of {OWNER}, or the fields of the step's entry"


def test_a_listed_module_uses_the_separator() -> None:
    for name in OTHER_NAMES:
        assert [*surgery((ROOT / name).read_text())], f"{name} need not be listed"


@pytest.mark.parametrize(
    "source",
    [
        "node = step.rpartition('#')[0]",
        "node = name.split('#', 1)[0]",
        "is_child = '.' in entry.step",
        "is_step = '#' in name",
        "step = f'{node}#{visit}'",
        "begun = name.startswith(f'{node}#')",
        "child = f'{step}.{item}'",
        "is_child = step.startswith(parent)",
        "number = str(step).split('.')[-1]",
    ],
)
def test_surgery_is_found(source: str) -> None:
    assert [*surgery(source)] == [1]


@pytest.mark.parametrize(
    "source",
    [
        "line.startswith('#')",
        "f' #{number}'",
        "f'{step}/{call}'",
        "f'it waits for {step}.'",
        "name.partition('.')",
        "a in step",
    ],
)
def test_other_strings_are_no_surgery(source: str) -> None:
    assert [*surgery(source)] == []

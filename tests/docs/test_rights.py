"""The page about principals has the tables of rights."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from crewlog.authority.rights import COMMANDS, DEFINITION, TOUCHES
from crewlog.definition.policy import Right

PAGE = (Path(__file__).parents[2] / "docs" / "authority" / "principals.md").read_text()


def command_rows() -> list[str]:
    names = {
        right: [f"`{n}`" for n, each in COMMANDS.items() if each == right]
        for right in get_args(Right)
    }
    return [f"| `{right}` | {', '.join(found)} |" for right, found in names.items() if found]


def definition_rows() -> list[str]:
    paths: dict[str, list[str]] = {}
    for pattern, rule in DEFINITION.items():
        paths.setdefault(rule.text, []).append(f"`{pattern}`")
    return [f"| {text} | {', '.join(found)} |" for text, found in paths.items()]


def test_the_page_has_the_right_of_each_command() -> None:
    assert "\n".join(command_rows()) in PAGE


def test_the_page_has_the_right_for_all_that_commands_touch() -> None:
    for kind, right in TOUCHES.items():
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{kind}`:")]
        assert row.endswith(f"| `{right}` |")


def test_the_page_has_each_rule_of_the_definition() -> None:
    assert "\n".join(definition_rows()) in PAGE

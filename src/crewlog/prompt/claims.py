"""What a model's statement claims, and neither the prompt nor the registry says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from crewlog.definition.builders import find_builder
from crewlog.definition.findings import suggestion
from crewlog.model import Json, Model
from crewlog.prompt import ast
from crewlog.prompt.ast import AnyStatement
from crewlog.prompt.claims_of_rules import claims_of_rules
from crewlog.prompt.names import agent_name
from crewlog.prompt.quotes import Prompt
from crewlog.prompt.registry import Registry

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
Path = tuple[str | int, ...]
Claim = tuple[Path, str, str]
_AGENTS = {
    *("agents", "agent", "group", "to", "before", "after", "whose", "reject_to", "maker", "of"),
    "respond",
}
"""Fields that hold agents' names, in statements and in their parts."""


def claims(said: AnyStatement, prompt: Prompt, registry: Registry) -> Iterator[Claim]:
    """What a statement claims and neither the prompt nor the registry says."""
    for path, name in _agents(said):
        if problem := _agent_problem(name, prompt, registry):
            yield path, *problem
    for path, name in _tools(said):
        if name not in registry.tools and not prompt.names(name):
            near = suggestion(name, registry.tools)
            yield (
                path,
                f"there is no tool {name!r}",
                f"Did you mean {near!r}?" if near else "Use the registry's names of tools.",
            )
    if isinstance(said, ast.Allow):
        yield from _grants(said, prompt, registry)
    for path, name in _facts(said):
        if not _NAME.fullmatch(name):
            yield (
                path,
                f"{name!r} is no name",
                "Small letters and digits with `_`, e.g. `approved`.",
            )
    for path, fact in _models(said):
        if isinstance(fact, ast.Fact) and not _comparable(fact.value):
            say = "a fact is compared with a number, a word, or a list of these"
            yield (*path, "value"), say, ""
    yield from _options(said, prompt, registry)
    yield from claims_of_rules(said, prompt, registry)
    for path, text in _texts(said):
        if strange := prompt.strange(text):
            yield (
                path,
                f"{short(text)} has words that the prompt does not have: {', '.join(strange)}",
                "Use the prompt's words.",
            )


def _agent_problem(name: str, prompt: Prompt, registry: Registry) -> tuple[str, str] | None:
    if name in registry.agents:
        return None
    right = agent_name(name.replace("_", " "))
    if right != name or not name:
        hint = f"Write {right!r}." if right else "Agents are called by their noun."
        return f"{name!r} is no agent's name", hint
    if not prompt.names(name):
        near = suggestion(name, registry.agents)
        hint = f"Did you mean {near!r}?" if near else "Call agents by the prompt's own nouns."
        return f"the prompt speaks of no agent {name!r}", hint
    return None


def _grants(said: ast.Allow, prompt: Prompt, registry: Registry) -> Iterator[Claim]:
    """Tools that a statement gives without quoting words that name them."""
    quoted = " ".join(prompt.text[w.start : w.end] for w in said.words)
    for index, tool in enumerate(said.tools):
        offered = registry.tools.get(tool)
        spoken = (tool, *(offered.words if offered else ()))
        if offered and said.words and not any(Prompt(quoted).speaks(words) for words in spoken):
            yield (
                ("tools", index),
                f"the quotes do not name the tool {tool!r}",
                "Quote the words that name it, too; give no tool that the prompt does not give.",
            )


def _options(said: AnyStatement, prompt: Prompt, registry: Registry) -> Iterator[Claim]:
    """What a builder is told, whatever its options are: words and names of prompt and registry.

    A builder's own options say which of these are agents, flags and tasks; what they are not told
    here in other words than the prompt has, they cannot do.
    """
    if not isinstance(said, ast.Use | ast.Inside):
        return
    known = {*registry.agents, *registry.tools, *_words_of(said.use)}
    for path, text in _strings(said.options, ("options",)):
        if text in known:
            continue
        if strange := [word for word in prompt.strange(text) if word not in known]:
            yield (
                path,
                f"{short(text)} has words that the prompt does not have: {', '.join(strange)}",
                "Use the prompt's words and names.",
            )


def _words_of(builder: str) -> set[str]:
    """What a builder's options are called, and the words that they choose from."""
    try:
        schema: Any = find_builder(builder).options.model_json_schema()
    except LookupError:
        return set()
    found: set[str] = set()
    ready: list[Any] = [schema]
    while ready:
        node = ready.pop()
        if isinstance(node, dict):
            fields: dict[str, Any] = node  # pyright: ignore[reportUnknownVariableType]
            found.update(str(key) for key in fields.get("properties", ()))
            found.update(str(value) for value in fields.get("enum", ()))
            found.update(str(fields[key]) for key in ("const", "default") if key in fields)
            ready += fields.values()
        elif isinstance(node, list):
            ready += node  # pyright: ignore[reportUnknownArgumentType]
    return found


def _strings(value: Json, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        named: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
        for key, part in named.items():
            yield (*path, key), key
            yield from _strings(part, (*path, key))
    elif isinstance(value, list):
        parts: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        for index, part in enumerate(parts):
            yield from _strings(part, (*path, index))


def _agents(node: Model) -> Iterator[tuple[Path, str]]:
    for path, key, value in _fields(node):
        # `of` of a condition holds conditions, and is walked as such.
        if key in _AGENTS and isinstance(value, str):
            yield path, value


def _tools(said: AnyStatement) -> Iterator[tuple[Path, str]]:
    for path, key, value in _fields(said):
        if key in {"tools", "needs"} and isinstance(value, str):
            yield path, value


def _facts(said: AnyStatement) -> Iterator[tuple[Path, str]]:
    for path, key, value in _fields(said):
        if (key == "for_each" or (key == "name" and path != ("name",))) and isinstance(value, str):
            yield path, value


def _texts(said: AnyStatement) -> Iterator[tuple[Path, str]]:
    for path, key, value in _fields(said):
        if key in {"task", "text", "question"} and isinstance(value, str):
            yield path, value


def _comparable(value: Json) -> bool:
    if isinstance(value, list):
        items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        return all(not isinstance(item, list | dict) for item in items)
    return not isinstance(value, dict)


def _models(node: Any, path: Path = ()) -> Iterator[tuple[Path, Model]]:
    """A statement and every model in it, with their paths."""
    if isinstance(node, Model):
        yield path, node
        for key in type(node).model_fields:
            yield from _models(getattr(node, key), (*path, key))
    elif isinstance(node, tuple):
        items: tuple[Any, ...] = node  # pyright: ignore[reportUnknownVariableType]
        for index, item in enumerate(items):
            yield from _models(item, (*path, index))


def _fields(node: Model, path: Path = ()) -> Iterator[tuple[Path, str, Any]]:
    """Every text in a statement, with its path and its field; models in it are walked."""
    for key in type(node).model_fields:
        yield from _values(getattr(node, key), (*path, key), key)


def _values(value: Any, path: Path, key: str) -> Iterator[tuple[Path, str, Any]]:
    if isinstance(value, Model):
        yield from _fields(value, path)
    elif isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        for index, item in enumerate(items):
            yield from _values(item, (*path, index), key)
    elif isinstance(value, str):
        yield path, key, value


def short(text: str) -> str:
    """A text of anybody, quoted, in one line that is not too long."""
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 160 else f"{flat[:159]}…")

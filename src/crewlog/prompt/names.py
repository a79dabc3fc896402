"""Words to names: agents, flags, outputs and crews get their names from the words of the prompt."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from hashlib import sha256
from typing import Any

from crewlog.definition import conditions as c
from crewlog.definition.model import (
    AgentPhase,
    AskPhase,
    CrewDefinition,
    DecisionPhase,
    ParallelPhase,
    RoutePhase,
    WaitPhase,
)

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_ARTICLES = re.compile(
    r"^(?:the|a|an|our|your|my|each|every|another|one|this|that|their|its)\s+", re.IGNORECASE
)
LONGEST = 60
_LONGEST_PHASE = 64


def plain(text: str) -> str:
    """Small letters, digits and single `_`; letters with accents lose them."""
    folded = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")
    return _NOT_IN_NAMES.sub("_", folded.lower()).strip("_")[:LONGEST].strip("_")


def agent_name(words: str) -> str:
    """`the UI designer` is `ui_designer`, `the Audio agent` is `audio`.

    Empty where the words hold no letter that a name can begin with.
    """
    text = words.strip()
    while (found := _ARTICLES.match(text)) is not None:
        text = text[found.end() :]
    name = plain(text)
    for last in ("_agents", "_agent"):
        if name.endswith(last) and len(name) > len(last):
            name = name[: -len(last)]
    return name if name[:1].isalpha() else f"agent_{name}" if name else ""


def crew_name(words: str) -> str:
    """`Release notes` is `release-notes`."""
    name = plain(words).replace("_", "-")
    return name if name[:1].isalpha() else ""


def fitting_name(name: str) -> str:
    """A phase's name no longer than names may be, and another for another."""
    if len(name) <= _LONGEST_PHASE:
        return name
    return f"{name[: _LONGEST_PHASE - 9]}_{sha256(name.encode()).hexdigest()[:8]}"


def with_bare_flags(definition: CrewDefinition) -> CrewDefinition:
    """The crew in which a flag that one agent alone writes stands without it, but for `when`."""
    writers: dict[str, list[str]] = {}
    for name, agent in definition.agents.items():
        for flag in agent.writes_flags:
            writers.setdefault(flag, []).append(name)
    sole = {flag for flag, names in writers.items() if len(names) == 1}

    def mended(item: Any) -> Any:
        if isinstance(item, tuple):
            parts: tuple[Any, ...] = item  # pyright: ignore[reportUnknownVariableType]
            return tuple(mended(part) for part in parts)
        if isinstance(item, ParallelPhase):
            return item.model_copy(update={"parallel": mended(item.parallel)})
        if isinstance(item, DecisionPhase):
            return item.model_copy(update={"if_": _bare(item.if_, sole)})
        phases = AgentPhase | AskPhase | WaitPhase | RoutePhase
        if isinstance(item, phases) and item.only_if is not None:
            return item.model_copy(update={"only_if": _bare(item.only_if, sole)})
        return item

    rules = tuple(
        rule if rule.if_ is None else rule.model_copy(update={"if_": _bare(rule.if_, sole)})
        for rule in definition.rules
    )
    flow = tuple(mended(item) for item in definition.flow)
    return definition.model_copy(update={"flow": flow, "rules": rules})


def _bare(condition: c.Condition, sole: Collection[str]) -> c.Condition:
    def bare(fact: c.Fact) -> c.Fact:
        if fact.operator is None and fact.name in sole:
            return fact.model_copy(update={"agent": None})
        return fact

    return c.mapped(condition, bare)

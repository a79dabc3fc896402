"""The node types that a workflow can be built of, read from `catalogue.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.json")
_WORD = re.compile(r"[a-z0-9]+")
_SAID_OFTEN = frozenset(
    ["a", "an", "and", "by", "each", "every", "for", "from", "in", "into", "it", "of", "on", "or"]
)
"""Words that tell no type from another."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a node type."""

    kind: str
    """`text`, `number`, `boolean`, `list`, `json`, `choice`, or `expression`: a text that may name
    other nodes' results."""
    about: str
    """What it is."""
    required: bool = False
    """Whether a node must have it."""
    default: Any = None
    """What it is where a node says nothing."""
    options: tuple[str, ...] = ()
    """What a choice may be."""


@dataclass(frozen=True)
class NodeType:
    """A kind of node."""

    type: str
    """Its name: `message.slack_post`."""
    title: str
    """What people call it."""
    group: str
    """What it belongs to: `trigger`, `flow`, `data`, …"""
    about: str
    """What it does."""
    inputs: tuple[str, ...]
    """Where connections may end."""
    outputs: tuple[str, ...]
    """Where connections may begin."""
    trigger: bool = False
    """Whether a workflow can begin with it."""
    credentials: str = ""
    """Which credentials it needs; with `?` where it can do without. Empty: none."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])
    """Its parameters by name."""

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters that a node must have."""
        return tuple(name for name, each in self.parameters.items() if each.required)

    @property
    def line(self) -> str:
        """The type in a line, as a search shows it."""
        return f"{self.type}: {self.title}. {self.about}"

    @property
    def ports(self) -> str:
        """Its inputs and outputs in a line, as one who connects nodes needs them."""
        ends = ", ".join(self.inputs) or "none: it begins a workflow"
        return f"{self.type}: inputs {ends}; outputs {', '.join(self.outputs) or 'none'}"

    @property
    def manual(self) -> str:
        """The type with its parameters, as one who sets them needs it."""
        lines = [f"{self.type}: {self.title}"]
        for name, each in self.parameters.items():
            kind = "|".join(each.options) or each.kind
            must = ", required" if each.required else ""
            preset = "" if each.default is None else f", default {json.dumps(each.default)}"
            lines.append(f"  {name} ({kind}{must}{preset}): {each.about}")
        if self.credentials:
            lines.append(f"  credentials: {self.credentials}")
        return "\n".join(lines)


@cache
def catalogue() -> Mapping[str, NodeType]:
    """All types by name."""
    found: dict[str, NodeType] = {}
    for type_, each in json.loads(FILE.read_text(encoding="utf-8"))["nodes"].items():
        needs = each.get("credentials")
        found[type_] = NodeType(
            type=type_,
            title=each["title"],
            group=each["group"],
            about=each["about"],
            inputs=tuple(each["inputs"]),
            outputs=tuple(each["outputs"]),
            trigger=each.get("trigger", False),
            credentials=needs["kind"] + ("" if needs["required"] else "?") if needs else "",
            parameters={
                name: Parameter(**{**given, "options": tuple(given.get("options", ()))})
                for name, given in each["parameters"].items()
            },
        )
    return found


def search(words: str, group: str = "", most: int = 6) -> list[NodeType]:
    """The types that fit some words best, the best first.

    Args:
        words: What the node is to do.
        group: Only types of it; empty: all.
        most: How many at most.
    """
    wanted = _stems(words)
    scored = [
        (_score(each, wanted), each)
        for each in catalogue().values()
        if not group or each.group == group
    ]
    scored = [found for found in scored if found[0] or not wanted]
    return [each for _, each in sorted(scored, key=lambda s: (-s[0], s[1].type))][:most]


def groups() -> list[str]:
    """The groups, in the order of the catalogue."""
    return list(dict.fromkeys(each.group for each in catalogue().values()))


def _score(found: NodeType, wanted: Collection[str]) -> int:
    name, title, about = (_stems(text) for text in (found.type, found.title, found.about))
    return sum(3 * (word in name) + 2 * (word in title) + (word in about) for word in wanted)


def _stems(text: str) -> frozenset[str]:
    """The words of a text without their commonest endings."""
    words = (word for word in _WORD.findall(text.lower()) if word not in _SAID_OFTEN)
    return frozenset(re.sub(r"(?<=\w{3})(ing|ed|es|s)$", "", word) for word in words)

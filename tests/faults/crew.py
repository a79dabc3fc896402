"""The crew that faults are done to: 20 steps with all that may go wrong, and what it must come to.

    planner → [a, b, c] → merge → back to a (4 times) → closer → publisher

Three lanes in parallel, each with a batch of calls in parallel (one of each `retry`, and a local
one), a join that begins anew in each round of a decision's loop, and continue-as-new in the middle
of it all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROUNDS = 4
"""How often the whole crew goes back."""
KINDS = {"look": "safe", "deposit": "keyed", "send": "never", "peek": "safe"}
"""The tools, and how they are repeated."""
LOCAL = "peek"
"""The tool that runs within the run's own worker."""
_MANY = {"attempts": 100, "first": 0.05, "longest": 2}
"""Tries enough: that they run out is not what is tested here."""


@dataclass(frozen=True)
class Expected:
    """What a run of a crew must come to, whatever happens on the way."""

    steps: frozenset[str]
    """The ids of all its steps."""
    decisions: frozenset[str] = frozenset()
    """Those that are decisions."""
    items: dict[str, frozenset[str]] = field(default_factory=dict)
    """What each tool must have done, once."""


@dataclass(frozen=True)
class FaultCrew:
    """A crew and what a run of it must come to."""

    definition: dict[str, Any]
    expected: Expected


def make_crew(
    folder: Path,
    *,
    rounds: int = ROUNDS,
    lanes: Sequence[str] = ("a", "b", "c"),
    events: int = 90,
    heartbeat: float = 2.0,
) -> FaultCrew:
    """Writes the script into `folder` and returns the crew.

    Args:
        folder: Where workers can read it.
        rounds: How often the decision goes back to the first lane.
        lanes: The agents side by side; the first of them is gone back to.
        events: The events after which a run continues as new.
        heartbeat: Seconds after which a silent worker is taken for dead.
    """
    items: dict[str, set[str]] = {kind: set() for kind in KINDS}

    def calls(prefix: str, *kinds: str) -> dict[str, Any]:
        for kind in kinds:
            items[kind].add(f"{prefix}-{kind}")
        return {
            "text": "",
            "tool_calls": [{"tool": k, "args": {"item": f"{prefix}-{k}"}} for k in kinds],
        }

    agents: dict[str, list[dict[str, Any]]] = {
        "planner": [calls("planner", "look"), {"text": "planned"}],
        "merge": [{"text": f"again {n}"} for n in range(rounds + 1)],
        "closer": [calls("closer", "deposit"), {"text": "closed"}],
        "publisher": [{"text": "published"}],
    }
    for lane in lanes:
        visits = rounds + 1 if lane == lanes[0] else 1
        agents[lane] = [
            entry
            for n in range(1, visits + 1)
            for entry in (calls(f"{lane}{n}", *KINDS), {"text": f"{lane} {n}"})
        ]
    script = folder / f"faults-{rounds}-{len(lanes)}.json"
    script.write_text(json.dumps({"agents": agents, "delay": 0.02}))
    decisions = frozenset(f"after_merge#{n}" for n in range(1, rounds + 2))
    steps = {f"{node}#{n}" for node in (lanes[0], "merge") for n in range(1, rounds + 2)}
    steps |= {f"{node}#1" for node in (*lanes, "planner", "closer", "publisher")}
    definition = {
        "crew": "faults",
        "model": f"scripted:{script}",
        "agents": {
            name: {
                "prompt": f"You are {name}.",
                # What a lane reads is its own: the others' messages come in any order.
                "reads": [] if name in lanes else ["public"],
                "heartbeat": heartbeat,
                "retry": _MANY,
            }
            for name in agents
        },
        "tools": {
            kind: {
                "run": f"faults.deeds:{kind}",
                "effects": "read" if retry == "safe" else "external",
                "placed": "local" if kind == LOCAL else "activity",
                "retry": retry,
                "heartbeat": heartbeat,
                "policy": _MANY,
            }
            for kind, retry in KINDS.items()
        },
        "flow": [
            "planner",
            list(lanes),
            "merge",
            {"if": "not good", "go": lanes[0], "at_most": rounds},
            "closer",
            "publisher",
        ],
        "flags": {"good": False},
        "limits": {"events": events},
    }
    kinds = {kind: frozenset(found) for kind, found in items.items()}
    return FaultCrew(definition, Expected(decisions | steps, decisions, kinds))

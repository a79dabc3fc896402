"""Readings of prompts as a model says them: what scripted models answer who read a prompt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from crewlog.prompt.reading import EMPTY

Said = tuple[str, str, Sequence[int]]
"""An agent, what it does, and the clauses that say so."""


def reading(
    steps: Iterable[Said], *, of: int, talk: Sequence[int] = (), **more: Any
) -> dict[str, Any]:
    """A reading of agents that work one after the other.

    Args:
        steps: Who does what.
        of: How many clauses the prompt has; all of them are accounted for.
        talk: Those that ask for nothing.
        more: Its other parts.
    """
    agents: dict[str, Any] = {}
    found: list[dict[str, Any]] = []
    for agent, task, clauses in steps:
        agents.setdefault(agent, {"clauses": list(clauses), "name": agent, "about": ""})
        after = [{"of": [found[-1]["name"]], "need": 1}] if found else []
        found.append(
            {
                "clauses": list(clauses),
                "name": agent,
                "agent": agent,
                "task": task,
                "after": after,
                **dict.fromkeys(("if", "when", "within", "late", "each", "instead_of"), ""),
                "needs": [],
            }
        )
    ledger = [
        {"clause": n, "status": "talk" if n in talk else "used", "why": "", "against": []}
        for n in range(1, of + 1)
    ]
    empty: dict[str, Any] = EMPTY.model_dump(mode="json", by_alias=True)
    return {**empty, "agents": [*agents.values()], "steps": found, "ledger": ledger, **more}


def reply(*steps: Said, of: int, **more: Any) -> str:
    """The same as a model answers it."""
    return json.dumps(reading(steps, of=of, **more))

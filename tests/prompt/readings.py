"""A prompt, a registry, and a reading of it that holds, for the tests of the LLM reader."""

from __future__ import annotations

import copy
from typing import Any

from crewlog.prompt.registry import Registry

PROMPT = """\
# Release notes

The collector gathers the changes, then the writer drafts the notes.
The checker reviews; unless approved, ask me. Only the writer may
write files. Make it snappy.
"""
REGISTRY = Registry.model_validate(
    {
        "registry": "notes",
        "model": "scripted:x",
        "tools": {
            "write_file": {"run": "tools:write", "effects": "write", "words": ["write files"]},
            "deploy": {"run": "tools:deploy", "description": "Puts it online.", "risk": "high"},
        },
    }
)
GOOD: dict[str, Any] = {
    "statements": [
        {"kind": "crew", "name": "release-notes", "quotes": ["# Release notes"]},
        {
            "kind": "step",
            "quotes": ["The collector gathers the changes"],
            "parts": [{"agent": "collector", "task": "gathers the changes"}],
        },
        {
            "kind": "step",
            "quotes": ["then the writer drafts the notes."],
            "parts": [{"agent": "writer", "task": "drafts the notes"}],
        },
        {
            "kind": "allow",
            "agents": ["writer"],
            "tools": ["write_file"],
            "only": True,
            "quotes": ["Only the writer may write files"],
        },
        {"kind": "step", "quotes": ["The checker reviews"], "parts": [{"agent": "checker"}]},
        {
            "kind": "ask",
            "quotes": ["unless approved, ask me."],
            "question": "Approved?",
            "only_if": {"kind": "not", "of": {"kind": "fact", "name": "approved"}},
        },
    ],
    "not_understood": ["Make it snappy."],
}


def changed(index: int, **fields: Any) -> dict[str, Any]:
    """The good reading with one statement changed."""
    data = copy.deepcopy(GOOD)
    data["statements"][index] |= fields
    return data

"""What journal entries about artifacts say, in words for people."""

from __future__ import annotations

from crewlog.state import journal as j
from crewlog.state.brief import brief


def operations_description(entry: j.ArtifactOperationsApplied | j.ArtifactOperationsRefused) -> str:
    """`workflow: 3 operations, 1 left out (2: remove '/nodes/b': there is no 'b')`."""
    why = f" ({brief(entry.why[0], 160)})" if entry.why else ""
    left = f"{entry.refused} left out{why}" if entry.refused else ""
    if isinstance(entry, j.ArtifactOperationsRefused):
        return f"{entry.artifact}: of call {entry.call}, {left}"
    count = f"{entry.count} {'operation' if entry.count == 1 else 'operations'}"
    return f"{entry.artifact}: {count}" + (f", {left}" if left else "")

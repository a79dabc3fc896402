"""Who sees an artifact and who may change it: asked of views, and where operations land.

An artifact's audience is its own: it says itself who reads and who writes it, whatever an agent
lists under `reads` and `writes`. So a stage that reads no log can still work on the artifact.
"""

from __future__ import annotations

from collections.abc import Collection

from crewlog.authority.permissions import Decision


def authorize_artifact(
    does: str, agent: str, name: str, allowed: Collection[str] | None, *, known: bool = True
) -> Decision:
    """Whether an agent may see or change an artifact.

    Args:
        does: `see` or `change`, for the reason.
        agent: The agent.
        name: The artifact.
        allowed: Who may; none: every agent.
        known: Whether there is such an artifact.
    """
    if not known:
        return Decision(allowed=False, reason=f"there is no artifact {name!r}")
    if allowed is None or agent in allowed:
        return Decision(allowed=True, reason=f"{agent!r} may {does} the artifact {name!r}")
    return Decision(allowed=False, reason=f"{agent!r} may not {does} the artifact {name!r}")

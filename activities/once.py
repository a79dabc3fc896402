"""A signed start is used once: who can read it, in a history or a web UI, can send it again."""

from __future__ import annotations

from crewlog.definition.policy import Policy
from crewlog.errors import NotPermitted
from crewlog.state.calls import StartUse
from crewlog.store.protocol import Store


async def use_start(use: StartUse | None, policy: Policy | None, store: Store) -> None:
    """Notes for good which execution a start is used by.

    The note is nobody's rows: it is there still when the run was deleted or replaced.

    Args:
        use: The start, and who uses it; none: it carries no proof, which is judged elsewhere.
        policy: The policy that asks for proofs; an open one asks for none.
        store: Where it is noted.

    Raises:
        NotPermitted: another execution has used it.
    """
    if use is None or policy is None or not policy.signed:
        return
    # No key of a call is like this one: those go with their run.
    if await store.claim(f"start:{use.start}", use.execution) != use.execution:
        raise NotPermitted(
            "the crew's policy takes signed commands only, and this start was used before",
            remedy="Start it again by a client that has the key: each signature is for one start.",
        )

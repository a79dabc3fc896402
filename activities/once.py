"""Starts and commands that are used once: who can read one, in a history, can send it again.

Run ids are used again once a run is deleted. So the notes outlive deletions.
"""

from __future__ import annotations

from temporalio import activity

from crewlog.authority.principals import standing
from crewlog.authority.proof import START
from crewlog.definition.policy import Policy
from crewlog.errors import NotPermitted
from crewlog.ids import RunId
from crewlog.state.calls import RecordUse, SignedStart
from crewlog.store.protocol import Store
from crewlog.wire import StartRun


async def record_use(task: RecordUse, store: Store) -> bool:
    """Notes for good what a run uses; false where another one has used it."""
    return await store.claim(f"once:{task.used}", task.owner) == task.owner


async def record_start(use: SignedStart, policy: Policy | None, run: RunId, store: Store) -> bool:
    """Notes for good which execution a start is used by.

    The note is nobody's rows: it is there still when the run was deleted or replaced.

    Args:
        use: The start, and who uses it.
        policy: The policy that asks for proofs; an open one asks for none.
        run: The run that is started.
        store: Where it is noted.

    Returns:
        Whether the policy lets the start in; nothing is noted of one that it does not.

    Raises:
        NotPermitted: another execution has used it.
    """
    if policy is None or not policy.signed:
        return True
    proof = StartRun.model_validate(use.content).proof if use.content else None
    place = activity.info().workflow_namespace or ""
    if not standing(policy, START, use.content, proof, run=run, at=use.at, namespace=place).allowed:
        return False
    # No key of a call is like this one: those go with their run.
    if await store.claim(f"start:{use.start}", use.execution) != use.execution:
        raise NotPermitted(
            "the crew's policy takes signed commands only, and this start was used before",
            remedy="Start it again by a client that has the key: each signature is for one start.",
        )
    return True

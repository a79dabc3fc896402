"""Approving what tools of MCP servers say of themselves, as the principal that one is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from crewlog.authority.proof import APPROVE, Proof, SignedApproval
from crewlog.definition.policy import Policy
from crewlog.errors import NotPermitted

if TYPE_CHECKING:
    from crewlog.client.client import Client


async def approve_tool(
    client: Client,
    policy: Policy | None,
    source: str,
    tool: str,
    digest: str,
    *,
    by: str,
    told: str,
) -> str:
    """Keeps that somebody approves a tool of a server; signed, where there is a key.

    Args:
        client: The client.
        policy: The policy of the crew that it is approved for.
        source: The server, as `McpServer.source` names it.
        tool: The tool's name there.
        digest: Of all that the tool says of itself.
        by: Who approves it, where nothing proves that.
        told: What the tool says of itself, for people who look at it once it has changed.

    Returns:
        Who approved it.

    Raises:
        NotPermitted: the policy is signed, and who signs has not the right `grant`.
        StoreUnavailable: the store is away.
    """
    from crewlog.authority.approving import (  # noqa: PLC0415 - slow, and few have servers
        EVERY_CREW,
        approval_content,
        approver,
    )

    at = int(time.time() * 1000)
    content = approval_content(source, tool, digest)
    signed = client.signed(EVERY_CREW, APPROVE, content)
    made: SignedApproval | None = None
    if "proof" in signed:
        proof = Proof.from_json(signed["proof"])
        made = SignedApproval(source=source, tool=tool, digest=digest, by=by, at=at, proof=proof)
    if policy is not None and policy.signed:
        by = approver(policy, [made] if made else [], tool, digest, at=at)
        if not by:
            raise NotPermitted(
                f"the crew's policy lets those approve {tool!r} who have the right 'grant', and "
                + ("the key that signs is none of theirs" if made else "nothing signs this"),
                remedy="Sign it with the key of one of them: `crewlog keys list` has yours, "
                "CREWLOG_KEY chooses one.",
            )
    store = await client.store()
    if made is not None:
        await store.prove_approval(made.model_copy(update={"by": by}))
    await store.approve_tool(source, tool, digest, by, at, told)
    return by

"""Whose approval of a server's tool counts: under a signed policy, that of who may grant.

Approvals are kept in the store, beside all runs. Where a crew's policy is signed, one counts only
with the signature of somebody who has `grant` by that policy, over the server, the tool, and the
digest of all that it says of itself: so it is not enough to reach the store.
"""

from __future__ import annotations

from collections.abc import Iterable

from crewlog.authority.principals import verify
from crewlog.authority.proof import APPROVE, EVERYWHERE, SignedApproval
from crewlog.definition.policy import Policy
from crewlog.model import Json

EVERY_CREW = "mcp"
"""What stands in the place of a run's id: an approval is of no run."""


def approval_content(source: str, tool: str, digest: str) -> dict[str, Json]:
    """What the signature of an approval is over, besides its expiry.

    Args:
        source: The server.
        tool: The tool's name there.
        digest: Of all that the tool says of itself.
    """
    return {"id": digest, "source": source, "tool": tool}


def approver(
    policy: Policy, approvals: Iterable[SignedApproval], tool: str, digest: str, *, at: int
) -> str:
    """The principal who approved a tool as it is, and may; empty: nobody.

    Args:
        policy: The crew's.
        approvals: Those of the tool's server, as the store has them.
        tool: The tool's name there.
        digest: Of all that the tool says of itself by now.
        at: When, in milliseconds since the epoch.
    """
    granting = {
        each.key: name for name, each in policy.principals.items() if "grant" in each.rights
    }
    for each in approvals:
        proof = each.proof
        if (each.tool, each.digest) != (tool, digest) or proof.expires <= at:
            continue
        content = approval_content(each.source, tool, digest)
        if proof.key in granting and verify(proof, EVERY_CREW, APPROVE, content, EVERYWHERE):
            return granting[proof.key]
    return ""

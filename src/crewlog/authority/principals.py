"""Who commands: what a command's signature is over, whose it is, and what that principal may do.

What is signed is seven lines of text, joined by line feeds, without one at the end:

    crewlog-command-v1
    <namespace>
    <run>
    <name: `pause`, `change`, `start`, …>
    <the command's id>
    <expiry, in milliseconds since 1970>
    <SHA-256, in hex, of the command's content>

The content is all of the command as it is sent but its `proof`, as RFC 8785 spells JSON. So nothing
that a command says can be said otherwise, left out or added, and it holds for one run, under one
name, once (a run has one outcome for each id), and for a time. Temporal's own `identity` is what a
client says of itself, and is not looked at.

An approval of a server's tool is signed in the same way. It holds in every namespace, so its second
line is empty. No namespace has an empty name: no approval fits a command to a run.

Whose approval of a server's tool counts: under a signed policy, that of who may grant.

Approvals are kept in the store, beside all runs. Where a crew's policy is signed, one counts only
with the signature of somebody who has `grant` by that policy, over the server, the tool, and the
digest of all that it says of itself: so it is not enough to reach the store.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from crewlog.authority.signatures import APPROVE, EVERYWHERE, SCHEDULE, START, Proof, SignedApproval
from crewlog.definition.policy import Policy, Principal, Right, public_key_bytes
from crewlog.model import Json, Model

VERSION = "crewlog-command-v1"
"""The first line of what is signed."""
UNVERIFIED = "unverified"
"""What stands before the name that an unproven command gives itself; no principal's name has a
space in it."""

_LONGEST_NAME = 100
"""Characters that are kept of the name which an unproven command gives itself."""
_OF_A_SCHEDULE = re.compile(r"(.+)-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""The id of a run that a schedule starts: its own, and the time."""

RIGHT_OF: Mapping[str, Right] = {
    START: "operate",
    SCHEDULE: "operate",
    "ask": "operate",
    "pause": "operate",
    "resume": "operate",
    "stop": "operate",
    "interrupt": "operate",
    "message": "operate",
    "tag": "operate",
    "edit_state": "operate",
    "redirect": "operate",
    "rollback": "operate",
    "respond": "answer",
    "change": "change",
    "set_permission": "grant",
}
"""The right that each command needs; any other name needs `grant`."""


def needed_right(name: str, content: Mapping[str, Json]) -> Right:
    """The right that a command needs.

    Args:
        name: Its name as it was sent, or `START`.
        content: Its content: an `ask` that says nothing only waits for the result.
    """
    if name == "ask" and not content.get("text"):
        return "view"
    return RIGHT_OF.get(name, "grant")


class Standing(Model):
    """Who a command is of, and whether that is proven and enough."""

    allowed: bool
    reason: str
    """Why, for people; names the policy, and the right or the proof that lacks."""
    remedy: str = ""
    """What the sender can do about a refusal."""
    principal: str = ""
    """Who commands: of a signed policy the principal whose signature it is, proven; with an open
    one, and of a refusal that comes before that, who the sender says to be."""
    proven: bool = False
    """Whether the signature is that principal's."""
    rights: tuple[Right, ...] = ()
    """What that principal may do; empty in an open policy, which asks nobody for a right."""


def content_hash(content: Mapping[str, Json]) -> str:
    """SHA-256 of a command's content, in hex.

    Args:
        content: The command as it is sent; its `proof` is left aside.

    Raises:
        ValueError: it has a number or a text that RFC 8785 cannot spell.
    """
    said = {key: value for key, value in content.items() if key != "proof"}
    return hashlib.sha256(rfc8785.dumps(said)).hexdigest()


def signed_text(
    run: str, name: str, expires: int, content: Mapping[str, Json], namespace: str
) -> bytes:
    """The text that a command's signature is over.

    Args:
        run: The run's id.
        name: The command's name, or `START`.
        expires: Until when it holds, in milliseconds since 1970.
        content: The command as it is sent.
        namespace: The run's namespace; empty for an approval, which is of no run.

    Raises:
        ValueError: RFC 8785 cannot spell its content, or its id has a line break.
    """
    command = content.get("command" if name in (START, SCHEDULE) else "id", "")
    lines = (VERSION, namespace, run, name, command, str(expires), content_hash(content))
    if any(not isinstance(line, str) or "\n" in line for line in lines):
        raise ValueError("a run's and a command's id are texts of one line")
    return "\n".join(lines).encode()


def standing(
    policy: Policy | None,
    name: str,
    content: Mapping[str, Json],
    proof: Proof | None,
    *,
    run: str,
    at: int,
    namespace: str,
) -> Standing:
    """Who a command is of, and whether that principal may give it.

    Args:
        policy: The policy in force; none: open.
        name: The command's name as it was sent, or `START`.
        content: The command as it was sent.
        proof: Its proof.
        run: The run that it came to.
        at: When it came, in milliseconds since 1970.
        namespace: The run's.
    """
    claimed = content.get("by")
    said = claimed[:_LONGEST_NAME] if isinstance(claimed, str) else ""
    if policy is None or not policy.signed:
        return Standing(allowed=True, reason="the crew's policy is open", principal=said)
    proven = _proven(policy, name, content, proof, run=run, at=at, namespace=namespace)
    if isinstance(proven, str):
        who = f", which says that it is of {said!r}," if said else ""
        return Standing(
            allowed=False,
            reason=f"the crew's policy takes signed commands only, and this {name}{who} {proven}",
            remedy=_HOW,
            principal=f"{UNVERIFIED} {said}".rstrip(),
        )
    who, principal = proven
    return holds(who, principal.rights, needed_right(name, content), name)


_HOW = (
    "Sign it with the key of a principal of the crew: `crewlog keys list` has yours, CREWLOG_KEY "
    "chooses one, docs/authority/principals.md says how."
)

_GRANTER = "who has 'grant' "


def holds(who: str, rights: tuple[Right, ...], needed: Right, what: str) -> Standing:
    """Whether a proven principal has a right.

    Args:
        who: The principal.
        rights: What the policy gives it.
        needed: The right that is needed.
        what: What for: a command's name, or what it would do.
    """
    allowed = needed in rights
    has = ", ".join(rights) or "none"
    return Standing(
        allowed=allowed,
        reason=f"{who!r} has the right {needed!r} by the crew's policy"
        if allowed
        else f"{who!r} has not the right {needed!r} that {what} needs; the crew's policy gives: "
        f"{has}",
        remedy=""
        if allowed
        else f"Somebody with the right {needed!r} can do it, or "
        f"{'' if needed == 'grant' else _GRANTER}can give it to {who!r}: change the crew's policy.",
        principal=who,
        proven=True,
        rights=rights,
    )


def _proven(
    policy: Policy,
    name: str,
    content: Mapping[str, Json],
    proof: Proof | None,
    *,
    run: str,
    at: int,
    namespace: str,
) -> tuple[str, Principal] | str:
    """The principal whose signature a command has, or what is wrong with the proof."""
    if proof is None:
        return "has no signature"
    whose = [(who, each) for who, each in policy.principals.items() if each.key == proof.key]
    if not whose:
        return f"is signed with the key {proof.key!r}, which no principal has"
    if proof.expires <= at:
        return f"has a signature that expired {(at - proof.expires) / 1000:.0f} s before it came"
    if not _fits(proof, run, name, content, namespace):
        return (
            f"has a signature that does not fit: it is of another run than {run!r} in "
            f"{namespace!r}, of another command, or of another content"
        )
    return whose[0]


def _fits(proof: Proof, run: str, name: str, content: Mapping[str, Json], namespace: str) -> bool:
    """Whether it is the signature of this command, or of the schedule that starts the run.

    A schedule signs once for all of its runs.
    """
    if verify(proof, run, name, content, namespace):
        return True
    of = _OF_A_SCHEDULE.fullmatch(run) if name == START else None
    return of is not None and verify(proof, of[1], SCHEDULE, content, namespace)


def signature_hash(
    proof: Proof, run: str, name: str, content: Mapping[str, Json], namespace: str
) -> str:
    """What a signed command is known by, however its signature is spelt; empty where none holds.

    Args:
        proof: Its proof.
        run: The run's id: what a schedule signs once is another start for each of its runs.
        name: The command's name, or `START`.
        content: The command as it was sent.
        namespace: The run's.
    """
    try:
        text = signed_text(run, name, proof.expires, content, namespace)
    except ValueError:
        return ""
    return hashlib.sha256(b"\0".join((public_key_bytes(proof.key), text))).hexdigest()


def verify(proof: Proof, run: str, name: str, content: Mapping[str, Json], namespace: str) -> bool:
    """Whether the signature is one of the proof's key over exactly this command to this run."""
    try:
        signature = base64.b64decode(proof.signature, validate=True)
        text = signed_text(run, name, proof.expires, content, namespace)
        Ed25519PublicKey.from_public_bytes(public_key_bytes(proof.key)).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


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

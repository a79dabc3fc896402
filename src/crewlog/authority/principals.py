"""Authentication and authorization of commands by their signatures.

The signed text has seven lines, joined by line feeds, without one at the end:

    crewlog-command-v1
    <namespace>
    <run>
    <name: `pause`, `change`, `start`, …>
    <the id of the command>
    <expiry, in milliseconds since 1970>
    <SHA-256, in hex, of the content of the command>

The content is the whole command as it is sent, without its `proof`, in the JSON of RFC 8785. So no
part of a command can be changed, left out or added. A signature is valid for one run and one name,
until it expires, and once, since a run records one outcome for each id. Temporal's own `identity`
is set by the client and is not used.

The approval of a tool of an MCP server is signed in the same way. It is valid in every namespace,
so its second line is empty. No namespace has an empty name: no approval can pass for a command.

Approvals are stored outside of runs. Under a signed policy one counts only with the signature of a
principal that has `grant`, over the server, the tool and the hash of its description: access to the
store is not enough.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from crewlog.authority.rights import needed_right
from crewlog.authority.signatures import (
    APPROVE,
    EVERYWHERE,
    SCHEDULE,
    START,
    Signature,
    SignedApproval,
)
from crewlog.definition.policy import Policy, Principal, Right, public_key_bytes
from crewlog.model import Json, Model

VERSION = "crewlog-command-v1"
"""The first line of the signed content."""
UNVERIFIED = "unverified"
"""Prefix of the name that an unauthenticated command gives itself. No principal has a space in its
name."""

_LONGEST_NAME = 100
"""Characters that are kept of the name that an unauthenticated command gives itself."""
_OF_A_SCHEDULE = re.compile(r"(.+)-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""The id of a run that a schedule starts: the id of the schedule, and the time."""


class CommandAuthorization(Model):
    """The sender of a command, and whether it may give the command."""

    allowed: bool
    reason: str
    """Why, for people; names the policy, and the missing right or signature."""
    remedy: str = ""
    """The remedy for the sender of a rejected command."""
    principal: str = ""
    """The sender. With a signed policy, the principal of the signature; with an open policy, or
    without a valid signature, the name that the sender gives itself."""
    verified: bool = False
    """Whether the signature is that of the principal."""
    rights: tuple[Right, ...] = ()
    """The rights of the principal; empty with an open policy, which needs none."""


def content_hash(content: Mapping[str, Json]) -> str:
    """SHA-256 of a command's content, in hex.

    Args:
        content: The command as it is sent; its `proof` is not part of it.

    Raises:
        ValueError: RFC 8785 cannot represent one of its numbers or texts.
    """
    signed = {key: value for key, value in content.items() if key != "proof"}
    return hashlib.sha256(rfc8785.dumps(signed)).hexdigest()


def signed_text(
    run: str, name: str, expires: int, content: Mapping[str, Json], namespace: str
) -> bytes:
    """The text that the signature of a command covers.

    Args:
        run: The run's id.
        name: The command's name, or `START`.
        expires: When the signature expires, in milliseconds since the epoch.
        content: The command as it is sent.
        namespace: The namespace of the run; empty for an approval.

    Raises:
        ValueError: RFC 8785 cannot represent its content, or an id has a line break.
    """
    command = content.get("command" if name in (START, SCHEDULE) else "id", "")
    lines = (VERSION, namespace, run, name, command, str(expires), content_hash(content))
    if any(not isinstance(line, str) or "\n" in line for line in lines):
        raise ValueError("the ids of a run and a command must be texts of one line")
    return "\n".join(lines).encode()


def authorize_command(
    policy: Policy | None,
    name: str,
    content: Mapping[str, Json],
    signature: Signature | None,
    *,
    run: str,
    at: int,
    namespace: str,
) -> CommandAuthorization:
    """Authenticates the sender of a command, and authorizes the command.

    Args:
        policy: The policy in force; None: open.
        name: The command's name as it was sent, or `START`.
        content: The command as it was sent.
        signature: Its signature.
        run: The run that received it.
        at: When it was received, in milliseconds since the epoch.
        namespace: The namespace of the run.
    """
    if policy is None or not policy.signed:
        return CommandAuthorization(
            allowed=True, reason="the crew's policy is open", principal=_claimed_sender(content)
        )
    result = _authenticate(policy, name, content, signature, run=run, at=at, namespace=namespace)
    if isinstance(result, str):
        return _unauthenticated(name, content, result)
    principal_name, principal = result
    return authorize_right(principal_name, principal.rights, needed_right(name, content), name)


def authorize_at(
    checked: CommandAuthorization,
    name: str,
    content: Mapping[str, Json],
    signature: Signature | None,
    at: int,
) -> CommandAuthorization:
    """The authorization of a signed command whose time of arrival is known now.

    Args:
        checked: The authorization without an expiry: the signature is verified.
        name: The command's name as it was sent.
        content: The command as it was sent.
        signature: Its signature.
        at: When it was received, in milliseconds since the epoch.
    """
    if signature is None or not (fault := _expiry_fault(signature, at)):
        return checked
    return _unauthenticated(name, content, fault)


def _claimed_sender(content: Mapping[str, Json]) -> str:
    by = content.get("by")
    return by[:_LONGEST_NAME] if isinstance(by, str) else ""


def _unauthenticated(name: str, content: Mapping[str, Json], fault: str) -> CommandAuthorization:
    sender = _claimed_sender(content)
    claim = f", which claims to be from {sender!r}," if sender else ""
    return CommandAuthorization(
        allowed=False,
        reason=f"the crew's policy requires signed commands, and this {name}{claim} {fault}",
        remedy=_SIGN,
        principal=f"{UNVERIFIED} {sender}".rstrip(),
    )


def _expiry_fault(signature: Signature, at: int) -> str:
    if signature.expires > at:
        return ""
    return f"has a signature that expired {(at - signature.expires) / 1000:.0f} s before it arrived"


_SIGN = (
    "Sign it with the key of a principal of the crew: `crewlog keys list` lists your keys, "
    "CREWLOG_KEY chooses one, see docs/authority/principals.md."
)

_GRANTER = "with 'grant' "


def authorize_right(
    principal: str, rights: tuple[Right, ...], right: Right, action: str
) -> CommandAuthorization:
    """Whether an authenticated principal has a right.

    Args:
        principal: The principal.
        rights: Its rights by the policy.
        right: The required right.
        action: The command, or its effect, that needs the right.
    """
    allowed = right in rights
    granted = ", ".join(rights) or "none"
    return CommandAuthorization(
        allowed=allowed,
        reason=f"{principal!r} has the right {right!r} by the crew's policy"
        if allowed
        else f"{action} needs the right {right!r}, which {principal!r} does not have; "
        f"the crew's policy gives: {granted}",
        remedy=""
        if allowed
        else f"A principal with the right {right!r} can do it, or "
        f"{'' if right == 'grant' else _GRANTER}can give it to {principal!r}: change the policy.",
        principal=principal,
        verified=True,
        rights=rights,
    )


def _authenticate(
    policy: Policy,
    name: str,
    content: Mapping[str, Json],
    signature: Signature | None,
    *,
    run: str,
    at: int,
    namespace: str,
) -> tuple[str, Principal] | str:
    """The principal that signed a command, or a phrase that says why the signature is not valid."""
    if signature is None:
        return "has no signature"
    owners = [each for each in policy.principals.items() if each[1].key == signature.key]
    if not owners:
        return f"is signed with the key {signature.key!r}, which no principal has"
    if fault := _expiry_fault(signature, at):
        return fault
    if not _is_signature_of(signature, run, name, content, namespace):
        return (
            f"has a signature that does not fit: it is for another run than {run!r} in "
            f"{namespace!r}, for another command, or for other content"
        )
    return owners[0]


def _is_signature_of(
    signature: Signature, run: str, name: str, content: Mapping[str, Json], namespace: str
) -> bool:
    """Whether a signature is for this command, or for the schedule that starts the run.

    A schedule has one signature for all of its runs.
    """
    if verify(signature, run, name, content, namespace):
        return True
    match = _OF_A_SCHEDULE.fullmatch(run) if name == START else None
    return match is not None and verify(signature, match[1], SCHEDULE, content, namespace)


def signature_hash(
    signature: Signature, run: str, name: str, content: Mapping[str, Json], namespace: str
) -> str:
    """The hash of what a signature covers, whatever its encoding; empty if it is invalid.

    Args:
        signature: The signature.
        run: The id of the run: one signature of a schedule starts many runs.
        name: The command's name, or `START`.
        content: The command as it was sent.
        namespace: The namespace of the run.
    """
    try:
        text = signed_text(run, name, signature.expires, content, namespace)
    except ValueError:
        return ""
    return hashlib.sha256(b"\0".join((public_key_bytes(signature.key), text))).hexdigest()


def verify(
    signature: Signature, run: str, name: str, content: Mapping[str, Json], namespace: str
) -> bool:
    """Whether a signature is valid for exactly this command to this run."""
    try:
        data = base64.b64decode(signature.signature, validate=True)
        text = signed_text(run, name, signature.expires, content, namespace)
        Ed25519PublicKey.from_public_bytes(public_key_bytes(signature.key)).verify(data, text)
    except (InvalidSignature, ValueError):
        return False
    return True


EVERY_CREW = "mcp"
"""Instead of the id of a run: an approval belongs to no run."""


def approval_content(source: str, tool: str, description_hash: str) -> dict[str, Json]:
    """The content that the signature of an approval covers.

    Args:
        source: The server.
        tool: The tool's name there.
        description_hash: The hash of its description.
    """
    return {"id": description_hash, "source": source, "tool": tool}


def approver(
    policy: Policy,
    approvals: Iterable[SignedApproval],
    tool: str,
    description_hash: str,
    *,
    at: int,
) -> str:
    """The principal with the right `grant` that approved the current description of a tool, or "".

    Args:
        policy: The policy of the crew.
        approvals: The approvals of the server, from the store.
        tool: The tool's name there.
        description_hash: The hash of its description now.
        at: The time, in milliseconds since the epoch.
    """
    granting = {
        each.key: name for name, each in policy.principals.items() if "grant" in each.rights
    }
    for each in approvals:
        signature = each.signature
        if (each.tool, each.hash) != (tool, description_hash) or signature.expires <= at:
            continue
        content = approval_content(each.source, tool, description_hash)
        if signature.key in granting and verify(
            signature, EVERY_CREW, APPROVE, content, EVERYWHERE
        ):
            return granting[signature.key]
    return ""

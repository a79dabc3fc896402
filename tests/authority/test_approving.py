"""Whose approvals of servers' tools count under a signed policy."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from crewlog.authority.principals import EVERY_CREW, approval_content, approver, signed_text
from crewlog.authority.signatures import APPROVE, EVERYWHERE, Signature, SignedApproval
from crewlog.definition.policy import Policy

KEYS = {n: Ed25519PrivateKey.from_private_bytes(bytes([i] * 32)) for i, n in enumerate("abe")}
NOW, LATER = 1_800_000_000_000, 1_800_000_000_001


def public(name: str) -> str:
    raw = KEYS[name].public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return f"ed25519:{base64.b64encode(raw).decode()}"


POLICY = Policy.from_json(
    {
        "mode": "signed",
        "principals": {
            "ada": {"key": public("a"), "rights": ["grant"]},
            "bob": {"key": public("b"), "rights": ["view", "answer", "operate", "change"]},
        },
    }
)


def approval(by: str = "a", **other: Any) -> SignedApproval:
    """An approval of `add` as `D`, by the key of somebody; then some of it is said otherwise."""
    text = signed_text(EVERY_CREW, APPROVE, LATER, approval_content("S", "add", "D"), EVERYWHERE)
    proof = Signature(
        key=public(by), expires=LATER, signature=base64.b64encode(KEYS[by].sign(text)).decode()
    )
    made = SignedApproval(source="S", tool="add", hash="D", by="ada", at=NOW, signature=proof)
    return made.model_copy(update=other)


@pytest.mark.parametrize(
    ("given", "who"),
    [
        ([approval()], "ada"),
        ([approval("e"), approval("b"), approval()], "ada"),
        ([], ""),
        ([approval("b")], ""),
        ([approval("e")], ""),
        ([approval(source="T")], ""),
        ([approval(tool="sub")], ""),
        ([approval(hash="E")], ""),
        (
            [
                approval(
                    "b", signature=approval("b").signature.model_copy(update={"key": public("a")})
                )
            ],
            "",
        ),
        ([approval(signature=approval().signature.model_copy(update={"expires": LATER + 1}))], ""),
    ],
)
def test_only_a_signature_of_who_may_grant_counts(given: list[SignedApproval], who: str) -> None:
    assert approver(POLICY, given, "add", "D", at=NOW) == who


def test_an_approval_ends_with_its_time_and_with_its_right() -> None:
    assert not approver(POLICY, [approval()], "add", "D", at=LATER)
    assert not approver(Policy(), [approval()], "add", "D", at=NOW)


def test_what_is_signed_for_another_tool_does_not_count() -> None:
    for tool, digest in (("sub", "D"), ("add", "E")):
        given = [approval(tool=tool, hash=digest)]
        assert not approver(POLICY, given, tool, digest, at=NOW)

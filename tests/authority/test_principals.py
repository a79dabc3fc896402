"""Whose command it is: what a signature is over, and that nothing else fits it."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from crewlog.authority.principals import (
    EVERY_CREW,
    CommandAuthorization,
    authorize_command,
    authorize_right,
    content_hash,
    signed_text,
)
from crewlog.authority.rights import COMMANDS as RIGHTS_OF_COMMANDS
from crewlog.authority.signatures import APPROVE, EVERYWHERE, SCHEDULE, START, Signature
from crewlog.definition.policy import Policy, Right, public_key_bytes
from crewlog.model import Model
from crewlog.wire import COMMANDS, SIGNALS, UPDATES, AskRun, ForkSource, StartRun

ADA, BOB, EVE = (Ed25519PrivateKey.from_private_bytes(bytes([n] * 32)) for n in (1, 2, 3))
RUN, NOW = "music-7f3a", 1_800_000_000_000
PRIME = 2**255 - 19
EIGHTH = 55188659117513257062467267217118295137698188065244968500265048394206261417927
"""The y of two of the points of order eight of the curve."""
PAUSE: dict[str, Any] = {"id": "c-1", "by": "whoever", "reason": "a look"}


def public(key: Ed25519PrivateKey) -> str:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return f"ed25519:{base64.b64encode(raw).decode()}"


POLICY = Policy.from_json(
    {
        "mode": "signed",
        "principals": {
            "ada": {"key": public(ADA), "rights": list(get_args(Right))},
            "bob": {"key": public(BOB), "rights": ["answer"]},
        },
    }
)


def proof(
    content: dict[str, Any],
    name: str = "pause",
    *,
    run: str = RUN,
    key: Ed25519PrivateKey = ADA,
    expires: int = NOW + 1,
    namespace: str = "default",
) -> Signature:
    signature = key.sign(signed_text(run, name, expires, content, namespace))
    return Signature(
        key=public(key), expires=expires, signature=base64.b64encode(signature).decode()
    )


def look(
    content: dict[str, Any], given: Signature | None, name: str = "pause", **how: Any
) -> CommandAuthorization:
    return authorize_command(
        POLICY, name, content, given, **{"run": RUN, "at": NOW, "namespace": "default", **how}
    )


def test_a_signed_command_is_its_principals() -> None:
    found = look(PAUSE, proof(PAUSE))
    assert found.allowed
    assert found.verified
    assert found.principal == "ada"  # and not who it says


def test_a_signature_is_good_in_one_namespace() -> None:
    for namespace in ("staging", ""):
        found = look(PAUSE, proof(PAUSE, namespace=namespace))
        assert not found.allowed
        assert f"it is for another run than {RUN!r} in 'default'" in found.reason


def test_a_signature_over_the_lines_without_a_namespace_is_not_taken() -> None:
    lines = signed_text(RUN, "pause", NOW + 1, PAUSE, "default").split(b"\n")
    assert lines[1] == b"default"
    signature = base64.b64encode(ADA.sign(b"\n".join(lines[:1] + lines[2:]))).decode()
    found = look(PAUSE, proof(PAUSE).model_copy(update={"signature": signature}))
    assert not found.allowed
    assert "does not fit" in found.reason


def test_the_approval_of_a_tool_is_no_command_to_a_run() -> None:
    approval = proof(PAUSE, APPROVE, run=EVERY_CREW, namespace=EVERYWHERE)
    assert not look(PAUSE, approval, APPROVE, run=EVERY_CREW).allowed


@pytest.mark.parametrize("policy", [None, Policy()])
def test_an_open_policy_asks_nobody(policy: Policy | None) -> None:
    found = authorize_command(policy, "pause", PAUSE, None, run=RUN, at=NOW, namespace="default")
    assert found.allowed
    assert not found.verified
    assert found.principal == "whoever"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "has no signature"),
        (proof(PAUSE, expires=NOW), "expired"),
        (proof(PAUSE, expires=NOW - 90_000), "expired 90 s before it arrived"),
        (proof(PAUSE, run="music-7f3b"), "does not fit"),
        (proof(PAUSE, "resume"), "does not fit"),
        (proof(PAUSE, key=EVE), "which no principal has"),
        (proof({**PAUSE, "reason": ""}), "does not fit"),
        (proof({**PAUSE, "id": "c-2"}), "does not fit"),
        (proof(PAUSE).model_copy(update={"key": public(BOB)}), "does not fit"),
        (proof(PAUSE).model_copy(update={"expires": NOW + 2}), "does not fit"),
        (proof(PAUSE).model_copy(update={"signature": ""}), "does not fit"),
        (proof(PAUSE).model_copy(update={"signature": "no base64"}), "does not fit"),
        (Signature(key="ed25519:", expires=NOW + 1, signature=""), "which no principal has"),
    ],
)
def test_what_proves_nothing_is_refused(given: Signature | None, why: str) -> None:
    found = look(PAUSE, given)
    assert not found.allowed
    assert not found.verified
    assert why in found.reason
    assert found.principal == "unverified whoever"
    assert "CREWLOG_KEY" in found.remedy


def test_a_right_that_lacks_is_told_with_those_there_are() -> None:
    found = look(PAUSE, proof(PAUSE, key=BOB))
    assert not found.allowed
    assert found.principal == "bob"
    assert "pause needs the right 'operate', which 'bob' does not have" in found.reason
    assert "gives: answer" in found.reason
    assert look(PAUSE, proof(PAUSE, "answer", key=BOB), "answer").allowed


def test_a_schedule_is_signed_once_for_all_of_its_runs() -> None:
    start = {"crew": "notes", "input": "x"}
    given_proof = proof(start, SCHEDULE, run="nightly")
    runs = {
        "nightly-2026-11-22T05:00:00Z": True,
        "nightly": False,
        "nightly-2026-11-22T05:00:00Z-x": False,
        "weekly-2026-11-22T05:00:00Z": False,
    }
    for run, allowed in runs.items():
        assert look(start, given_proof, START, run=run).allowed is allowed
    assert not look({"id": "c"}, proof({"id": "c"}, SCHEDULE, run="r"), "stop", run="r").allowed


def test_a_long_name_is_cut_where_nobody_proves_it() -> None:
    assert len(look({"id": "c", "by": "x" * 10_000}, None).principal) < 200


def test_every_command_has_its_right_and_others_need_the_highest() -> None:
    assert set(RIGHTS_OF_COMMANDS) == {*SIGNALS, *UPDATES, START, SCHEDULE}
    nothing: dict[str, Any] = {"id": "x"}
    assert not look(nothing, proof(nothing, "unheard_of", key=BOB), "unheard_of").allowed


@pytest.mark.parametrize(
    "model",
    [StartRun, ForkSource, AskRun, *dict.fromkeys(each.content for each in COMMANDS.values())],
)
def test_each_field_of_each_command_is_signed(model: type[Model]) -> None:
    """Whatever a build adds to commands is under the signature: nothing but the proof is not."""
    said = {name: "x" for name in model.model_fields if name != "proof"}
    whole = content_hash(said)
    for name in said:
        assert content_hash({**said, name: "y"}) != whole, name
        assert content_hash({k: v for k, v in said.items() if k != name}) != whole, name
    assert content_hash({**said, "proof": "x"}) == whole


@given(st.integers(0, 511))
def test_no_signature_with_a_flipped_bit_holds(bit: int) -> None:
    good = proof(PAUSE)
    raw = bytearray(base64.b64decode(good.signature))
    raw[bit // 8] ^= 1 << bit % 8
    bad = good.model_copy(update={"signature": base64.b64encode(raw).decode()})
    assert not look(PAUSE, bad).allowed


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-1e9, 1e9)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda each: st.lists(each) | st.dictionaries(st.text(st.characters(codec="ascii")), each),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["prompt", "expect", "dry_run", "by", "set"]), JSON), JSON)
def test_each_word_of_the_content_counts(content: dict[str, Any], other: Any) -> None:
    said = {"id": "c-1", **content}
    given_proof = proof(said, "change")
    carried = json.loads(json.dumps({**said, "proof": given_proof.to_json()}))
    assert look(carried, given_proof, "change").allowed
    for key in ("reason", *content):
        changed = {**said, key: other}
        same = key in said and content_hash(changed) == content_hash(said)
        assert look(changed, given_proof, "change").allowed is same
        if key in said:
            without = {k: v for k, v in said.items() if k != key}
            assert not look(without, given_proof, "change").allowed


@pytest.mark.parametrize("content", [{"id": "a\nb"}, {"id": "x", "n": 2**60}, {"id": "\ud800"}])
def test_what_cannot_be_spelled_is_not_signed(content: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"line|exceeds|codepoints|range"):
        signed_text(RUN, "pause", NOW, content, "default")
    assert not look(content, proof(PAUSE)).allowed


@pytest.mark.parametrize(
    ("principals", "why"),
    [
        ({}, "no principal has the right 'grant'"),
        ({"ada": {"key": public(ADA), "rights": ["change"]}}, "no principal has the right 'grant'"),
        (
            {n: {"key": public(ADA), "rights": ["grant"]} for n in ("ada", "bob")},
            "'ada' and 'bob' have the same key",
        ),
        ({"ada": {"key": "ed25519:AAAA", "rights": ["grant"]}}, "a key is"),
        ({"ada": {"key": public(ADA).rstrip("="), "rights": ["grant"]}}, "a key is"),
        ({"ada": {"key": public(ADA), "rights": ["all"]}}, "'view', 'answer', 'operate'"),
        ({"a da": {"key": public(ADA), "rights": ["grant"]}}, "pattern"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(principals: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Policy.from_json({"mode": "signed", "principals": principals})


VECTOR: dict[str, Any] = json.loads((Path(__file__).parent / "signed_command.json").read_text())


def test_the_documented_example_is_what_is_signed() -> None:
    given = Signature.from_json(VECTOR["proof"])
    text = signed_text(
        VECTOR["run"], VECTOR["name"], given.expires, VECTOR["content"], VECTOR["namespace"]
    )
    assert text.decode() == VECTOR["text"]
    assert VECTOR["text"].endswith(hashlib.sha256(VECTOR["spelled"].encode()).hexdigest())
    key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(VECTOR["private"]))
    assert given.key == public(key)
    assert base64.b64encode(key.sign(text)).decode() == given.signature  # Ed25519 has no chance
    page = (Path(__file__).parents[2] / "docs" / "wire.md").read_text()
    for part in (VECTOR["text"], VECTOR["spelled"], given.key, given.signature):
        assert part in page


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_openssl_verifies_the_documented_example(tmp_path: Path) -> None:
    raw = base64.b64decode(VECTOR["proof"]["key"].removeprefix("ed25519:"))
    # RFC 8410: what stands before the 32 bytes of a public key in its DER form.
    (tmp_path / "key.der").write_bytes(bytes.fromhex("302a300506032b6570032100") + raw)
    (tmp_path / "text").write_bytes(VECTOR["text"].encode())
    (tmp_path / "signature").write_bytes(base64.b64decode(VECTOR["proof"]["signature"]))
    how = "openssl pkeyutl -verify -pubin -keyform DER -rawin"
    files = "-inkey key.der -in text -sigfile signature"
    told = subprocess.run(
        [*how.split(), *files.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    (tmp_path / "text").write_bytes(VECTOR["text"].encode() + b"\n")
    other = subprocess.run([*how.split(), *files.split()], cwd=tmp_path, check=False)
    assert other.returncode != 0


def test_a_refusal_names_the_right_to_grant_once() -> None:
    found = authorize_right("ben", ("change",), "grant", "the change")
    assert found.remedy.count("grant") == 1
    other = authorize_right("ben", ("change",), "answer", "answer")
    assert other.remedy.count("grant") == 1


@pytest.mark.parametrize(
    "y",
    [0, 1, PRIME - 1, PRIME, PRIME + 1, EIGHTH, PRIME - EIGHTH, 1 + 2**255, EIGHTH + 2**255],
)
def test_a_key_with_which_anybody_could_sign_is_none(y: int) -> None:
    key = "ed25519:" + base64.b64encode(y.to_bytes(32, "little")).decode()
    with pytest.raises(ValueError, match="no key that anybody has"):
        public_key_bytes(key)

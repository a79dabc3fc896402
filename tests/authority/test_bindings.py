"""A yes holds for one call with its arguments, by one person, until its time: for nothing else."""

from __future__ import annotations

import random
from typing import Any

import pytest

from crewlog.authority.bindings import Binding, arguments_hash, check_binding
from crewlog.canonical_json import hash_json

HUNTS = 20_000


def some(rng: random.Random) -> Binding:
    def text(prefix: str) -> str:
        return f"{prefix}{rng.randrange(4)}"

    return Binding.model_validate(
        {
            "run": text("run-"),
            "interrupt": text("i"),
            "step": f"{text('a')}#{rng.randrange(1, 4)}",
            "call": rng.randrange(1, 5),
            "tool": text("tool_"),
            "id": text("call_"),
            "message": hash_json(["message", rng.randrange(4)]),
            "arguments": rng.choice([None, arguments_hash({"n": rng.randrange(4)})]),
            "edited": rng.random() < 0.3,
            "by": text("person_"),
            "until": rng.choice([0, 1_000, 2_000]),
        }
    )


def test_a_yes_holds_for_its_call() -> None:
    rng = random.Random(1)  # noqa: S311
    for _ in range(2_000):
        binding = some(rng)
        assert check_binding(binding.hash, binding, at=1_000).allowed


def test_no_forged_replayed_or_retargeted_yes_is_accepted() -> None:
    """Whatever else a call says of itself than what was sealed, its yes does not hold."""
    rng = random.Random(2)  # noqa: S311
    refused = 0
    for _ in range(HUNTS):
        sealed, tried = some(rng), some(rng)
        if rng.random() < 0.6:  # all but one part is as it was
            field = rng.choice([*Binding.model_fields])
            tried = sealed.model_copy(update={field: getattr(tried, field)})
        if tried == sealed:
            continue
        refused += 1
        decision = check_binding(sealed.hash, tried, at=500)
        assert not decision.allowed, (sealed, tried)
        assert tried.interrupt in decision.reason
    assert refused > HUNTS * 0.6


def flipped(hash_: str, rng: random.Random) -> str:
    at = rng.randrange(len(hash_))
    return hash_[:at] + rng.choice([c for c in "abcXYZ019-_" if c != hash_[at]]) + hash_[at + 1 :]


def test_no_damaged_seal_is_accepted() -> None:
    rng = random.Random(3)  # noqa: S311
    for _ in range(HUNTS // 4):
        binding = some(rng)
        hash_ = rng.choice(
            [flipped(binding.hash, rng), "", binding.hash[:-1], binding.hash + "A", "\u00e9"]
        )
        assert not check_binding(hash_, binding, at=0).allowed


@pytest.mark.parametrize(("at", "holds"), [(0, True), (1_000, True), (1_001, False)])
def test_a_yes_expires(at: int, holds: bool) -> None:
    binding = some(random.Random(4)).model_copy(update={"until": 1_000})  # noqa: S311
    decision = check_binding(binding.hash, binding, at=at)
    assert decision.allowed is holds
    assert holds or "has expired" in decision.reason


def test_no_question_no_yes() -> None:
    binding = some(random.Random(5)).model_copy(update={"interrupt": ""})  # noqa: S311
    assert "has no approval" in check_binding(binding.hash, binding, at=0).reason


def test_parts_do_not_run_into_each_other() -> None:
    base = some(random.Random(6))  # noqa: S311
    one: dict[str, Any] = {"step": "a#1", "tool": "b"}
    other: dict[str, Any] = {"step": "a#", "tool": "1b"}
    hashes = {base.model_copy(update=parts).hash for parts in (one, other)}
    assert len(hashes) == 2

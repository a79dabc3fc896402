"""Which signals a run only counts, and after how many it yields."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from crewlog.authority.principals import signed_text
from crewlog.encryption.codec import FILE_MISSING, give_up, refused_payload
from crewlog.errors import DecryptionFailed, NotPermitted
from crewlog.graph.engine import Engine
from crewlog.ids import RESERVED
from crewlog.workflows import authorization
from crewlog.workflows.commands.effects import apply_command
from crewlog.workflows.commands.queue import InvalidPayload, QueuedCommand, UndecodedPayload
from crewlog.workflows.commands.unauthenticated_signals import (
    BYTES_PER_WORK,
    MAX_REJECTIONS,
    PARSE_WORK,
    WORK_PER_PAUSE,
    UnauthenticatedSignals,
    signal_work,
)
from graph.crews import plan_of
from graph.simulation import RUN, Simulation, final

JSON = {"encoding": b"json/plain"}


def came(*payloads: Payload) -> QueuedCommand:
    return QueuedCommand("pause", UndecodedPayload("", [RawValue(each) for each in payloads]))


def weighed(incoming: QueuedCommand) -> int:
    return signal_work(incoming, is_limited=True)


def test_counting_a_signal_is_cheap() -> None:
    bare = Payload(metadata=JSON, data=b'{"id": "p"}')
    assert weighed(came(bare)) == 1
    assert signal_work(came(bare), is_limited=False) == PARSE_WORK
    assert weighed(came()) == weighed(came(bare, bare)) == 1
    for name in (b'"proof"', rb'"\u0070roof"'):
        signed = Payload(
            metadata=JSON, data=b'{"id": "p", ' + name + b": 1" + b" " * 10 * BYTES_PER_WORK
        )
        assert weighed(came(signed)) == PARSE_WORK + 10


@pytest.mark.parametrize("content", [b"{}", b'{"proof": "' + b"x" * 10_000])
def test_other_settings_give_the_same_result(content: bytes) -> None:
    """Else a replay would rest elsewhere than the history says."""
    refused = came(refused_payload(DecryptionFailed("it came without encryption")))
    assert weighed(refused) == PARSE_WORK
    # A payload outside the history that was given up, with its file away and back.
    away = QueuedCommand("pause", InvalidPayload(FILE_MISSING))
    back = came(give_up(Payload(metadata=JSON, data=content)))
    assert weighed(away) == weighed(back)


KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = "ed25519:" + base64.b64encode(KEY.public_key().public_bytes_raw()).decode()
POLICY = {"mode": "signed", "principals": {"ada": {"key": PUBLIC, "rights": ["operate", "grant"]}}}
PAUSE = {"id": "p", "by": "ada"}
WRONG: dict[str, Any] = {"id": "p", "no": "command"}


def proven(content: dict[str, Any]) -> dict[str, Any]:
    signature = base64.b64encode(KEY.sign(signed_text(RUN, "pause", 2**50, content, ""))).decode()
    return {**content, "proof": {"key": PUBLIC, "expires": 2**50, "signature": signature}}


async def after_many(*, signed: bool) -> tuple[UnauthenticatedSignals, Engine]:
    """What counts in an execution that has refused as many signals one by one as it does."""
    plan = plan_of(["a"], **({"policy": POLICY} if signed else {}))
    engine = (await Simulation.begin(plan, final)).engine
    strangers = UnauthenticatedSignals()
    for _ in range(MAX_REJECTIONS):
        incoming = QueuedCommand("pause", dict(WRONG))
        assert not strangers.count(engine, incoming)
        assert not strangers.count_undecoded(engine, came(Payload(metadata=JSON, data=b"{}")))
        await apply_command(engine, incoming)
        strangers.add_rejection(incoming)
    return strangers, engine


@pytest.mark.parametrize(
    ("signed", "data", "counted"),
    [
        (True, PAUSE, True),
        (True, {**proven(PAUSE), "id": "other"}, True),
        (True, WRONG, True),
        (True, proven(PAUSE), False),
        (True, proven(WRONG), False),  # it has a name
        (True, {**PAUSE, "id": f"{RESERVED}1"}, False),
        (False, PAUSE, False),
        (False, WRONG, True),
        (False, {**PAUSE, "id": f"{RESERVED}1"}, False),
    ],
)
async def test_unauthenticated_signals_are_counted_after_the_first(
    signed: bool, data: dict[str, Any], counted: bool
) -> None:
    strangers, engine = await after_many(signed=signed)
    before = engine.state.position
    incoming = QueuedCommand("pause", data)
    with suppress(NotPermitted):
        authorization.check(engine, incoming)
    assert strangers.count(engine, incoming) is counted
    assert (incoming.outcome is not None, strangers.unrecorded) == (counted, int(counted))
    assert not strangers.count(engine, QueuedCommand("pause", data, arrived_at=1)), (
        "an update is answered"
    )
    assert engine.state.position == before
    strangers.record(engine)
    assert engine.state.position == before + counted


@pytest.mark.parametrize("signed", [True, False])
async def test_a_signal_without_a_signature_is_not_read(signed: bool) -> None:
    strangers, engine = await after_many(signed=signed)
    assert strangers.count_undecoded(engine, came(Payload(metadata=JSON, data=b"{}"))) is signed
    assert strangers.unrecorded == signed
    named = came(Payload(metadata=JSON, data=b'{"proof": 1}'))
    assert not strangers.count_undecoded(engine, named)


async def test_the_loop_yields_after_some_work() -> None:
    incoming = QueuedCommand("pause", PAUSE)
    strangers = UnauthenticatedSignals()
    rested = [strangers.must_pause(incoming) for _ in range(2 * WORK_PER_PAUSE // PARSE_WORK)]
    assert [at for at, rests in enumerate(rested, 1) if rests] == [
        WORK_PER_PAUSE // PARSE_WORK,
        len(rested),
    ]

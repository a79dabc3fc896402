"""How many signals a run takes before it rests: the same number in every replay."""

from __future__ import annotations

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from crewlog.encryption.codec import PLAIN_MARK, give_up, lost, refused
from crewlog.workflows.inbox import Incoming, Unread, Unreadable
from crewlog.workflows.strangers import BYTES, READING, work

JSON = {"encoding": b"json/plain"}


def came(*payloads: Payload) -> Incoming:
    return Incoming("pause", Unread("", [RawValue(each) for each in payloads]))


def weighed(incoming: Incoming, *, encrypted: bool = False) -> int:
    return work(incoming, many=True, encrypted=encrypted)


def test_what_is_only_counted_is_little_work() -> None:
    bare = Payload(metadata=JSON, data=b'{"id": "p"}')
    assert weighed(came(bare)) == 1
    assert work(came(bare), many=False, encrypted=False) == READING
    assert weighed(came()) == weighed(came(bare, bare)) == 1
    for name in (b'"proof"', rb'"\u0070roof"'):
        signed = Payload(metadata=JSON, data=b'{"id": "p", ' + name + b": 1" + b" " * 10 * BYTES)
        assert weighed(came(signed)) == READING + 10


@pytest.mark.parametrize("content", [b"{}", b'{"proof": "' + b"x" * 10_000])
def test_a_worker_with_other_settings_finds_the_same(content: bytes) -> None:
    """Else a replay would rest elsewhere than the history says."""
    plain = Payload(metadata={**JSON, PLAIN_MARK: b"1"}, data=content)
    seen = [came(plain), came(refused("it came without encryption", plain=True))]
    assert len({weighed(each, encrypted=True) for each in seen}) == 1
    # A run that was begun without encryption: before that was turned on, and since.
    assert weighed(came(Payload(metadata=JSON, data=content))) == weighed(came(plain))
    # A payload outside the history that was given up, with its file away and back.
    away = Incoming("pause", Unreadable(lost("file").metadata["encoding"].decode()))
    back = came(give_up(Payload(metadata=JSON, data=content)))
    assert weighed(away) == weighed(back)

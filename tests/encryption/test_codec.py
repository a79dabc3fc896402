"""The payload codec: what opens, and all that must not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    WorkflowSerializationContext,
)
from temporalio.exceptions import ApplicationError

from crewlog.encryption import purposes
from crewlog.encryption.codec import (
    NOT_ENCRYPTED,
    ORIGIN,
    PLACE,
    REFUSED,
    encrypt_for,
    error_of,
    is_not_encrypted,
    is_refused,
    purpose_of,
    set_purpose,
    was_encrypted,
)
from crewlog.encryption.keys import Keyring, change_keys, key_of, new_key_file
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing, NotEncrypted, UsageError
from crewlog.payload_storage.converter import data_converter
from crewlog.payload_storage.external_storage import DirectoryDriver

SECRET = "the canary sings at dawn"


def converter(
    tmp_path: Path, keys: Keyring | None, workflow: str = "run-1", namespace: str = "default"
) -> DataConverter:
    whole = data_converter(tmp_path / "payloads", keys=keys)
    return whole.with_context(WorkflowSerializationContext(namespace, workflow))


async def test_what_is_encrypted_opens_and_shows_nothing(tmp_path: Path, keys: Keyring) -> None:
    ours = converter(tmp_path, keys)
    [payload] = await ours.encode([{"text": SECRET}])
    assert SECRET.encode() not in payload.SerializeToString()
    assert b"json" not in payload.SerializeToString()
    assert await ours.decode([payload]) == [{"text": SECRET}]
    [again] = await ours.encode([{"text": SECRET}])
    assert again.data != payload.data


def activity(tmp_path: Path, keys: Keyring, id: str, kind: str = "call_tool") -> DataConverter:
    context = ActivitySerializationContext("default", id, kind, "q", "run-1", "CrewRun", False)
    return data_converter(tmp_path / "payloads", keys=keys).with_context(context)


async def test_an_activity_reads_its_own_input_and_no_other(tmp_path: Path, keys: Keyring) -> None:
    """A worker that takes workflow tasks could schedule a call with an earlier input."""
    codec = converter(tmp_path, keys).payload_codec
    assert codec is not None
    plain = Payload(metadata={"encoding": b"json/plain"}, data=b'"x"')
    set_purpose(plain, purposes.call("call_tool", "5"))
    [payload] = await codec.encode([plain])
    assert await activity(tmp_path, keys, "5").decode([payload]) == ["x"]
    for other in (activity(tmp_path, keys, "6"), activity(tmp_path, keys, "5", "call_model")):
        with pytest.raises(ApplicationError, match="was read elsewhere"):
            await other.decode([payload])
    [unnamed] = await converter(tmp_path, keys).encode(["x"])
    with pytest.raises(ApplicationError, match="was read elsewhere"):
        await activity(tmp_path, keys, "5").decode([unnamed])


async def test_a_payload_names_its_purpose(tmp_path: Path, keys: Keyring) -> None:
    with encrypt_for(purposes.signal("pause")):
        [payload] = await converter(tmp_path, keys).encode(["x"])
    codec = converter(tmp_path, keys).payload_codec
    assert codec is not None
    [decoded] = await codec.decode([payload])
    assert purpose_of(decoded) == ("signal", "pause")
    assert payload.metadata[PLACE] == b'["default","run-1","signal","pause"]'
    payload.metadata[PLACE] = b'["default","run-1","signal","stop"]'
    assert is_refused((await codec.decode([payload]))[0])
    [answer] = await activity(tmp_path, keys, "5").encode(["x"])
    assert purpose_of((await codec.decode([answer]))[0]) == ("result", "call_tool", "5")


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


async def test_no_flipped_bit_goes_unseen(tmp_path: Path, keys: Keyring) -> None:
    """Every byte of the content, and of every piece of metadata."""
    ours = converter(tmp_path, keys)
    [payload] = await ours.encode([{"text": SECRET}])
    seen = 0
    for at in range(len(payload.data)):
        bad = Payload(metadata=payload.metadata, data=flipped(payload.data, at))
        with pytest.raises((ApplicationError, EncryptionKeyMissing)):
            await ours.decode([bad])
        seen += 1
    for name, value in payload.metadata.items():
        for at in range(len(value)):
            metadata = {**payload.metadata, name: flipped(value, at)}
            bad = Payload(metadata=metadata, data=payload.data)
            with pytest.raises((ApplicationError, DecryptionFailed, EncryptionKeyMissing)):
                await ours.decode([bad])
            seen += 1
    for cut in (0, 1, 11, 12, len(payload.data) - 1):
        bad = Payload(metadata=payload.metadata, data=payload.data[:cut])
        with pytest.raises(ApplicationError, match="changed since it was encrypted"):
            await ours.decode([bad])
    assert seen > 100


@pytest.mark.parametrize(
    ("workflow", "namespace"), [("run-2", "default"), ("run-1", "other"), ("", "default")]
)
async def test_a_payload_of_another_run_is_refused(
    tmp_path: Path, keys: Keyring, workflow: str, namespace: str
) -> None:
    [payload] = await converter(tmp_path, keys).encode(["x"])
    there = converter(tmp_path, keys, workflow, namespace)
    with pytest.raises(ApplicationError, match="was read elsewhere") as refused:
        await there.decode([payload])
    assert refused.value.type == "DecryptionFailed"
    assert refused.value.non_retryable
    # Nor does it help to say that it is for the other run.
    payload.metadata[PLACE] = f'["{namespace}","{workflow}"]'.encode()
    with pytest.raises(ApplicationError, match="changed since it was encrypted"):
        await there.decode([payload])


async def test_a_payload_bound_to_nothing_is_no_run_s(tmp_path: Path, keys: Keyring) -> None:
    free = data_converter(tmp_path / "payloads", keys=keys)
    [payload] = await free.encode(["x"])
    assert await free.decode([payload]) == ["x"]
    with pytest.raises(ApplicationError, match="was read elsewhere"):
        await converter(tmp_path, keys).decode([payload])


DUE = "nightly-2026-12-01T02:00:00Z"


async def test_a_schedule_s_payload_is_that_of_its_runs_and_of_no_others(
    tmp_path: Path, keys: Keyring
) -> None:
    with encrypt_for(purposes.SCHEDULE):
        [payload] = await converter(tmp_path, keys, "nightly").encode(["x"])
    due = converter(tmp_path, keys, DUE)
    assert await due.decode([payload]) == ["x"]
    for other in ("nightly", "nightly-2", "nightly-2026-12-01", "night", f"my-{DUE}"):
        with pytest.raises(ApplicationError, match=r"nightly\",\"schedule.* elsewhere"):
            await converter(tmp_path, keys, other).decode([payload])
    # It says that it is a schedule's to the run, which takes it for its start alone.
    assert due.payload_codec is not None
    assert purpose_of((await due.payload_codec.decode([payload]))[0]) == purposes.SCHEDULE
    call = ActivitySerializationContext("default", "1", "call", "q", DUE, "CrewRun", False)
    there = data_converter(tmp_path / "payloads", keys=keys).with_context(call)
    with pytest.raises(ApplicationError, match="elsewhere"):
        await there.decode([payload])


async def test_a_run_s_payload_is_no_schedule_s(tmp_path: Path, keys: Keyring) -> None:
    """Whoever may start runs, and has no key, makes up the id of the other run."""
    [payload] = await converter(tmp_path, keys, "nightly").encode(["x"])
    due = converter(tmp_path, keys, DUE)
    with pytest.raises(ApplicationError, match=r"nightly.* elsewhere"):
        await due.decode([payload])
    payload.metadata[PLACE] = b'["default","nightly","schedule"]'
    with pytest.raises(ApplicationError, match="changed since it was encrypted"):
        await due.decode([payload])


async def test_a_wrong_key_is_a_missing_one(
    tmp_path: Path, keys: Keyring, other_keys: Keyring
) -> None:
    [payload] = await converter(tmp_path, keys).encode(["x"])
    with pytest.raises(EncryptionKeyMissing, match=key_of(payload.data)):
        await converter(tmp_path, other_keys).decode([payload])
    with pytest.raises(EncryptionKeyMissing, match="has no keys"):
        await converter(tmp_path, None).decode([payload])


async def test_what_is_plain_is_refused_unless_it_is_accepted(
    tmp_path: Path, keys: Keyring, key_path: Path
) -> None:
    [plain] = await converter(tmp_path, None).encode(["x"])
    with pytest.raises(NotEncrypted, match="came without encryption"):
        await converter(tmp_path, keys).decode([plain])
    codec = converter(tmp_path, keys).payload_codec
    assert codec is not None
    assert is_not_encrypted((await codec.decode([plain]))[0])

    lenient = converter(tmp_path, Keyring(key_path, accept_plain=True))
    assert await lenient.decode([plain]) == ["x"]
    assert lenient.payload_codec is not None
    plain.metadata[ORIGIN] = b"x" * 17 + b'["default","run-1","start"]'  # a client says so
    assert not was_encrypted((await lenient.payload_codec.decode([plain]))[0])
    [encrypted] = await lenient.encode(["x"])
    assert was_encrypted((await lenient.payload_codec.decode([encrypted]))[0])


async def test_keys_are_rotated_while_a_process_goes_on(
    tmp_path: Path, keys: Keyring, key_path: Path, rotated: Callable[[], str]
) -> None:
    slow = converter(tmp_path, keys)
    [before] = await slow.encode(["old"])
    new = rotated()
    [after] = await converter(tmp_path, Keyring(key_path)).encode(["new"])
    assert key_of(after.data) == new
    assert await slow.decode([before, after]) == ["old", "new"]
    [own] = await slow.encode(["own"])
    assert key_of(own.data) == new


async def test_values_of_a_retired_key_are_refused_for_good(
    tmp_path: Path, keys: Keyring, key_path: Path, other_keys: Keyring
) -> None:
    [forged] = await converter(tmp_path, other_keys).encode(["x"])
    with pytest.raises(EncryptionKeyMissing, match="--unknown"):
        await converter(tmp_path, keys).decode([forged])
    change_keys(key_path, lambda file: file.retire(other_keys.current))
    with pytest.raises(ApplicationError, match="retired key"):
        await converter(tmp_path, keys).decode([forged])


async def test_large_payloads_lie_encrypted_beside_the_history(
    tmp_path: Path, keys: Keyring
) -> None:
    small = data_converter(tmp_path / "payloads", 1000, keys=keys)
    ours = small.with_context(WorkflowSerializationContext("default", "run-1"))
    [claim] = await ours.encode([SECRET * 100])
    files = [each for each in (tmp_path / "payloads").rglob("*") if each.is_file()]
    assert len(files) == 1
    assert SECRET.encode() not in files[0].read_bytes()
    assert await ours.decode([claim]) == [SECRET * 100]
    there = small.with_context(WorkflowSerializationContext("default", "run-2"))
    with pytest.raises(ApplicationError, match="was read elsewhere"):
        await there.decode([claim])


async def test_failures_tell_nothing(tmp_path: Path, keys: Keyring) -> None:
    ours, failure = converter(tmp_path, keys), Failure()
    try:
        try:
            raise ValueError(SECRET)
        except ValueError as cause:
            raise ApplicationError(SECRET, SECRET, type="ToolFailed") from cause
    except ApplicationError as error:
        await ours.encode_failure(error, failure)
    assert SECRET.encode() not in failure.SerializeToString()
    assert b"ValueError(" not in failure.SerializeToString()
    told: Any = await ours.decode_failure(failure)
    assert (told.message, told.details, told.type) == (SECRET, (SECRET,), "ToolFailed")
    assert str(told.cause.message) == SECRET


async def test_a_failure_that_is_about_keys_says_so_to_who_has_none(
    tmp_path: Path, keys: Keyring
) -> None:
    ours = converter(tmp_path, keys)
    for error, told in (
        (EncryptionKeyMissing("this process has no key 'K'", place="/keys.json"), True),
        (NotEncrypted(f"a payload is refused: {NOT_ENCRYPTED}"), True),
        (DecryptionFailed("a row of the store is refused: it was changed (memory 'tea')"), False),
    ):
        failure = Failure()
        await ours.encode_failure(error, failure)
        assert (failure.message == error.message) == told
        assert b"/keys.json" not in failure.SerializeToString()
        assert b"tea" not in failure.SerializeToString()


async def test_a_failure_is_as_small_as_the_server_keeps_it(tmp_path: Path, keys: Keyring) -> None:
    def deep(levels: int) -> None:
        if levels % 2:  # another line than its caller's, else the trace counts them
            deep(levels - 1)
        if levels:
            deep(levels - 1)
        raise OSError("the very first cause")

    ours, failure = converter(tmp_path, keys), Failure()
    error: BaseException | None = None
    for _ in range(3):
        try:
            try:
                deep(60) if error is None else deep(0)
            except OSError as cause:
                raise ApplicationError("it is away", "place", "remedy") from (error or cause)
        except ApplicationError as caught:
            error = caught
    assert error is not None
    await ours.encode_failure(error, failure)
    assert failure.ByteSize() < 4096
    told: Any = await ours.decode_failure(failure)
    assert told.message == "it is away"
    first = told.cause.cause.cause
    assert first.message == "the very first cause"
    assert 'raise OSError("the very first cause")' in first.failure.stack_trace


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_file_that_others_can_read_is_refused(key_path: Path, mode: int) -> None:
    key_path.chmod(mode)
    with pytest.raises(UsageError, match="is readable by others"):
        Keyring(key_path)


def test_a_bad_key_file_says_what_is_wrong_and_never_what_is_there(tmp_path: Path) -> None:
    path, text = tmp_path / "keys", new_key_file().to_json()
    secret = new_key_file().entries[0]["keyData"]["value"]
    for wrong in (
        "",
        "{}",
        "[]",
        "null",
        '{"primaryKeyId": 1, "key": []}',
        '{"primaryKeyId": "CANARY", "key": 3}',
        text.replace('"primaryKeyId": ', '"primaryKeyId": 1'),
        text.replace("AesGcmKey", secret),
        disabled := text.replace("ENABLED", "DISABLED"),
        text.replace('"TINK"', '"RAW"'),
    ):
        path.write_text(wrong)
        path.chmod(0o600)
        why = "the primary key '[0-9]+' is not enabled" if wrong == disabled else "no key file"
        with pytest.raises(UsageError, match=why) as error:
            Keyring(path)
        assert secret not in str(error.value)
        assert error.value.__cause__ is None
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        Keyring(tmp_path / "nothing")


def test_a_file_that_is_gone_for_a_moment_changes_nothing(keys: Keyring, key_path: Path) -> None:
    data = keys.encrypt(b"x", b"y")
    key_path.unlink()
    keys._checked_at = 0
    assert keys.decrypt(data, b"y") == b"x"
    with pytest.raises(EncryptionKeyMissing):
        keys.decrypt(b"\1\0\0\0\1" + data[5:], b"y")


@pytest.mark.parametrize(
    "told", [b"[" * 100_000, b"\xff", b"[]", b"{", b'{"plain": ' + b"9" * 9999]
)
def test_what_strangers_say_of_a_refusal_harms_nobody(told: bytes) -> None:
    payload = Payload(metadata={"encoding": REFUSED}, data=told)

    assert not is_not_encrypted(payload)
    assert error_of(payload).message == "it is not readable"


@pytest.mark.parametrize("name", ["/dev/zero", "../../secret", "", "A" * 64, "a" * 64 + "\n"])
async def test_a_claim_that_a_stranger_made_names_no_file(tmp_path: Path, name: str) -> None:
    claims = [StorageDriverClaim(claim_data={"sha256": name}), StorageDriverClaim(claim_data={})]
    driver = DirectoryDriver(tmp_path)
    context = StorageDriverRetrieveContext()

    for found in await driver.retrieve(context, claims):
        assert is_refused(found)

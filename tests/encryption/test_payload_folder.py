"""The payload folder: what becomes of a reference whose file is not there."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from crewlog.encryption.codec import (
    error_of,
    is_given_up,
    is_unavailable,
    missing_file,
    refused_payload,
)
from crewlog.encryption.keys import Keyring, change_keys, read_keys
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing, StoreIncomplete
from crewlog.payload_storage.converter import data_converter
from crewlog.payload_storage.external_storage import DirectoryDriver, request_payload

LARGE = "x" * 300_000


async def read(driver: DirectoryDriver, claim: StorageDriverClaim) -> Payload:
    [found] = await driver.retrieve(StorageDriverRetrieveContext(), [claim])
    return found


async def written(driver: DirectoryDriver, text: bytes) -> StorageDriverClaim:
    payload = Payload(metadata={"encoding": b"json/plain"}, data=text)
    [claim] = await driver.store(StorageDriverStoreContext(), [payload])
    return claim


async def test_what_is_given_up_stays_given_up(tmp_path: Path) -> None:
    driver = DirectoryDriver(tmp_path)
    claim = await written(driver, b"1")
    key = claim.claim_data["sha256"]
    file = tmp_path / key[:2] / key
    data = file.read_bytes()
    file.unlink()
    found = await read(driver, claim)
    for _ in range(2):  # nobody has asked for it as a command: it is waited for
        assert is_unavailable(found)
        assert not is_given_up(found)
        found = await read(driver, claim)
    request_payload(missing_file(found))
    assert is_given_up(await read(driver, claim))
    file.write_bytes(data)
    found = await read(DirectoryDriver(tmp_path), claim)
    assert is_given_up(found)
    assert found.data == b"1"  # a result is read all the same
    again = await written(driver, b"1")  # who writes it later is not refused for a stranger
    assert again != claim
    found = await read(driver, again)
    assert found.data == b"1"
    assert not is_given_up(found)


async def test_what_comes_in_time_is_taken(tmp_path: Path) -> None:
    driver = DirectoryDriver(tmp_path)
    claim = await written(driver, b"1")
    key = claim.claim_data["sha256"]
    file = tmp_path / key[:2] / key
    data = file.read_bytes()
    file.write_bytes(b"damaged")
    request_payload(str(file))
    file.write_bytes(data)
    assert not is_given_up(await read(driver, claim))


async def test_nothing_is_given_up_for_a_folder_that_is_away(tmp_path: Path) -> None:
    folder = tmp_path / "payloads"
    folder.mkdir()
    driver = DirectoryDriver(folder)
    claim = await written(driver, b"1")
    folder.rename(tmp_path / "mounted")
    found = await read(driver, claim)
    request_payload(missing_file(found))  # there is no folder to note it in
    assert not is_given_up(await read(driver, claim))
    folder.mkdir()
    request_payload(missing_file(found))
    assert not is_given_up(await read(driver, claim))
    shutil.rmtree(folder)
    (tmp_path / "mounted").rename(folder)
    found = await read(driver, claim)
    assert found.data == b"1"
    assert not is_given_up(found)


async def test_a_folder_that_nobody_has_written_to_yet(tmp_path: Path) -> None:
    driver = DirectoryDriver(tmp_path / "not" / "yet")
    claim = StorageDriverClaim(claim_data={"sha256": "0" * 64})
    request_payload(missing_file(await read(driver, claim)))
    assert is_given_up(await read(driver, claim))


@pytest.mark.parametrize("encrypted", [False, True])
async def test_whoever_needs_what_is_lost_waits(
    tmp_path: Path, keys: Keyring, encrypted: bool
) -> None:
    converter: DataConverter = data_converter(tmp_path, keys=keys if encrypted else None)
    payloads = await converter.encode([LARGE])
    assert await converter.decode(payloads) == [LARGE]
    shutil.rmtree(tmp_path)
    with pytest.raises(StoreIncomplete, match="is missing or damaged") as told:
        await converter.decode(payloads)
    assert "CREWLOG_PAYLOADS" in told.value.remedy


async def test_only_this_process_says_that_something_is_lost() -> None:
    assert not is_unavailable(Payload(metadata={"encoding": b"crewlog/lost"}, data=b"/etc/passwd"))
    assert not is_given_up(Payload(metadata={"crewlog-given-up": b"1"}))
    assert not is_unavailable(refused_payload(DecryptionFailed("x")))


async def asked(payload: Payload, folder: Path, keys: Keyring | None) -> Payload:
    """What a worker reads of an encrypted command, once a run has asked for its key."""
    driver = DirectoryDriver(folder, keys)
    claim = driver.keyless_claim(payload)
    assert claim is not None
    first = await read(driver, claim)
    assert is_unavailable(first)
    assert not is_given_up(first)
    request_payload(missing_file(first))
    return await read(driver, claim)


async def test_a_command_whose_key_is_unknown_is_given_up_for_good(
    tmp_path: Path, keys: Keyring, key_path: Path, other_keys: Keyring
) -> None:
    sender = data_converter(tmp_path, keys=other_keys)
    payload, later = await sender.encode(["x", "y"])
    found = await asked(payload, tmp_path, keys)
    assert is_given_up(found)
    error = error_of(found)
    assert isinstance(error, EncryptionKeyMissing)
    assert f"no key '{other_keys.current}'" in error.message
    assert error.place == str(key_path)
    late = read_keys(other_keys.path)
    change_keys(key_path, lambda file: file.add(late, late.ids))
    driver = DirectoryDriver(tmp_path, Keyring(key_path))
    claim = driver.keyless_claim(payload)  # another worker, and each replay
    assert claim is not None
    assert is_given_up(await read(driver, claim))
    assert driver.keyless_claim(later) is None  # what else has that key is read
    assert (
        driver.keyless_claim((await data_converter(tmp_path, keys=keys).encode(["z"]))[0]) is None
    )


async def test_a_key_that_comes_in_time_is_taken(
    tmp_path: Path, keys: Keyring, key_path: Path, other_keys: Keyring
) -> None:
    [payload] = await data_converter(tmp_path, keys=other_keys).encode(["x"])
    driver = DirectoryDriver(tmp_path, keys)
    claim = driver.keyless_claim(payload)
    assert claim is not None
    request_payload(missing_file(await read(driver, claim)))
    late = read_keys(other_keys.path)
    change_keys(key_path, lambda file: file.add(late, late.ids))
    assert not is_given_up(await read(driver, claim))
    assert driver.keyless_claim(payload) is None


@pytest.mark.parametrize("data", [b"", b"x", b"\1\0\0\0\1", b"\1" * 200])
async def test_without_keys_what_says_that_it_is_encrypted_is_given_up(
    tmp_path: Path, data: bytes
) -> None:
    payload = Payload(metadata={"encoding": b"binary/encrypted"}, data=data)
    assert is_given_up(await asked(payload, tmp_path, None))
    with pytest.raises(EncryptionKeyMissing, match="this process has no keys"):
        await data_converter(tmp_path, keys=None).decode([payload])


async def test_nobody_else_has_a_payload_given_up(
    tmp_path: Path, keys: Keyring, key_path: Path
) -> None:
    """A reference may say whatever its sender likes."""
    [payload] = await data_converter(tmp_path, keys=keys).encode(["x"])
    digest = hashlib.sha256(payload.SerializeToString(deterministic=True)).hexdigest()
    driver = DirectoryDriver(tmp_path, keys)
    claim = StorageDriverClaim(claim_data={"sha256": digest, "key": keys.current, "by": ""})
    request_payload(missing_file(await read(driver, claim)))
    await read(driver, claim)
    assert DirectoryDriver(tmp_path, Keyring(key_path)).keyless_claim(payload) is None

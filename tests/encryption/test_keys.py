"""The key file: what is wrong with it is said, and no change of it loses another one's key."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from crewlog.encryption import keys as keys_module
from crewlog.encryption.keys import (
    KeyFile,
    Keyring,
    associated_data,
    change_keys,
    new_key,
    read_keys,
    write_keys,
)
from crewlog.errors import DecryptionFailed, UsageError


def test_keys_that_are_added_at_once_are_all_there(key_path: Path) -> None:
    first = read_keys(key_path).current
    new = [new_key(at) for at in range(8)]
    together = threading.Barrier(len(new))

    def add(index: int) -> None:
        def changed(file: KeyFile) -> KeyFile:
            return file.model_copy(update={"keys": (*file.keys, new[index])})

        together.wait()
        change_keys(key_path, changed)

    threads = [threading.Thread(target=add, args=(index,)) for index in range(len(new))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.id for each in read_keys(key_path).keys} == {first, *(each.id for each in new)}


@pytest.mark.parametrize(
    "parts", [(), ("a",), ("a", "b"), ('"],["', "\\", "\n"), ("ü€🜁", "\ud800")]
)
def test_what_a_value_is_bound_to_is_json_as_it_always_was(parts: tuple[str, ...]) -> None:
    # What is stored opens with these very bytes only.
    known = json.dumps(["row", *parts], ensure_ascii=True, separators=(",", ":")).encode()
    assert associated_data("row", *parts) == known


def test_a_link_leads_to_the_key_file_still(key_path: Path, tmp_path: Path) -> None:
    link, new = tmp_path / "link.json", new_key(2)
    link.symlink_to(key_path)
    change_keys(link, lambda file: file.model_copy(update={"keys": (*file.keys, new)}))
    assert link.is_symlink()
    assert read_keys(key_path).keys[-1] == new


def test_a_key_is_not_there_and_retired(key_path: Path) -> None:
    file = read_keys(key_path)
    write_keys(key_path, file.model_copy(update={"retired": (file.current,)}))
    with pytest.raises(UsageError, match=f"the key '{file.current}' is both in"):
        read_keys(key_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_said(key_path: Path) -> None:
    key_path.parent.chmod(0o500)
    try:
        with pytest.raises(UsageError, match="the key file cannot be written"):
            change_keys(key_path, lambda file: file)
    finally:
        key_path.parent.chmod(0o700)


@pytest.mark.parametrize("kept", [0, 1, 40, -3])
def test_a_file_that_was_cut_off_is_said_and_the_keys_at_hand_go_on(
    key_path: Path, keys: Keyring, kept: int
) -> None:
    text = key_path.read_text().rstrip()
    secret = read_keys(key_path).keys[0].key
    key_path.write_text(text[:kept])
    with pytest.raises(UsageError, match="no key file") as error:
        read_keys(key_path)
    assert secret[:10] not in str(error.value)
    keys._checked_at = 0  # type: ignore[attr-defined]
    key, data = keys.encrypt(b"text", b"here")
    assert keys.decrypt(key, data, b"here") == b"text"


def test_why_a_key_opens_nothing_is_told_as_the_file_has_it(key_path: Path, keys: Keyring) -> None:
    key, data = keys.encrypt(b"text", b"")
    assert (keys.key_problem(key), keys.key_problem("AAAAAAAAAAAA")) == ("", "unknown")
    new = new_key(2)
    write_keys(key_path, KeyFile(keys=(new,), current=new.id, retired=(key,)))
    assert keys.key_problem(new.id) == ""
    assert keys.key_problem(key) == "retired"
    with pytest.raises(DecryptionFailed, match="retired key"):
        keys.decrypt(key, data, b"")


def test_a_key_that_was_retired_opens_nothing_where_nothing_is_sealed(
    key_path: Path, keys: Keyring
) -> None:
    """A codec server opens alone, and meets no key that it does not know."""
    key, data = keys.encrypt(b"text", b"")
    assert keys.decrypt(key, data, b"") == b"text"
    new = new_key(2)
    write_keys(key_path, KeyFile(keys=(new,), current=new.id, retired=(key,)))
    keys._checked_at = 0  # type: ignore[attr-defined]
    with pytest.raises(DecryptionFailed, match="retired key"):
        keys.decrypt(key, data, b"")


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(
    key_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, there = new_key(2), read_keys(key_path)

    def replaced(path: Path) -> KeyFile:
        found = read_keys(path)
        write_keys(path, KeyFile(keys=(*there.keys, new), current=new.id))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(keys_module, "read_keys", replaced)
        ring = Keyring(key_path)
    assert ring.current == there.current
    assert ring.key_problem(new.id) == ""
    assert ring.current == new.id

"""The key file: what is wrong with it is said, and no change of it loses another one's key."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from crewlog.encryption import keys as keys_module
from crewlog.encryption.keys import (
    KeyFile,
    Keyring,
    change_keys,
    json_list,
    new_key_file,
    read_keys,
    write_keys,
)
from crewlog.errors import DecryptionFailed, UsageError


def test_keys_that_are_added_at_once_are_all_there(key_path: Path) -> None:
    first = read_keys(key_path).current
    new = [new_key_file() for _ in range(8)]
    together = threading.Barrier(len(new))

    def add(index: int) -> None:
        def changed(file: KeyFile) -> KeyFile:
            return file.add(new[index], new[index].ids)

        together.wait()
        change_keys(key_path, changed)

    threads = [threading.Thread(target=add, args=(index,)) for index in range(len(new))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {*read_keys(key_path).ids} == {first, *(each.current for each in new)}


@pytest.mark.parametrize(
    "parts", [(), ("a",), ("a", "b"), ('"],["', "\\", "\n"), ("ü€🜁", "\ud800")]
)
def test_json_list_writes_what_json_writes(parts: tuple[str, ...]) -> None:
    assert json_list(parts) == json.dumps(parts, separators=(",", ":"))


def test_a_link_leads_to_the_key_file_still(key_path: Path, tmp_path: Path) -> None:
    link, old = tmp_path / "link.json", read_keys(key_path)
    link.symlink_to(key_path)
    new = change_keys(link, lambda file: file.rotate())
    assert link.is_symlink()
    assert read_keys(key_path) == new != old


def test_a_key_set_of_tink_is_a_key_file(key_path: Path, keys: Keyring) -> None:
    """Other programs that use Tink, such as tinkey, read and change it."""
    import tink
    from tink import aead, json_proto_keyset_format, secret_key_access

    handle = json_proto_keyset_format.parse(key_path.read_text(), secret_key_access.TOKEN)
    cipher = handle.primitive(aead.Aead)
    assert cipher.decrypt(keys.encrypt(b"text", b"here"), b"here") == b"text"
    made = tink.new_keyset_handle(aead.aead_key_templates.AES256_GCM)
    key_path.write_text(json_proto_keyset_format.serialize(made, secret_key_access.TOKEN))
    assert read_keys(key_path).current == str(made.keyset_info().primary_key_id)


def test_a_prepared_key_becomes_current_later(key_path: Path) -> None:
    file = read_keys(key_path)
    prepared = file.rotate(prepare=True)
    assert prepared.current == file.current
    assert prepared.ids == [file.current, prepared.prepared]
    other = new_key_file()
    assert prepared.add(other, other.ids).rotate().current == prepared.prepared
    assert prepared.retire(prepared.prepared).prepared == ""


@pytest.mark.parametrize("status", ["DISABLED", "DESTROYED"])
def test_rotation_skips_a_disabled_key_after_the_prepared_one(key_path: Path, status: str) -> None:
    """`tinkey add-key` and `tinkey disable-key` leave one at the end."""
    prepared = change_keys(key_path, lambda file: file.rotate(prepare=True))
    unused = {**new_key_file().entries[0], "status": status}
    write_keys(key_path, KeyFile(prepared.current, (*prepared.entries, unused)))
    rotated = change_keys(key_path, lambda file: file.rotate())
    assert rotated.current == prepared.prepared == Keyring(key_path).current
    again = change_keys(key_path, lambda file: file.rotate())
    assert again.current not in (prepared.current, prepared.prepared, str(unused["keyId"]))
    assert Keyring(key_path).current == again.current


def test_a_key_set_that_cannot_be_loaded_replaces_no_file(key_path: Path) -> None:
    file, text = read_keys(key_path), key_path.read_text()
    broken = KeyFile(file.current, ({**file.entries[0], "keyData": {"value": "AAAA"}},))
    cases: tuple[tuple[KeyFile, str], ...] = (
        (file.retire(file.current), f"cannot be loaded: the primary key '{file.current}' is not"),
        (broken, "cannot be loaded: this is no key file"),
    )
    for changed, message in cases:
        with pytest.raises(UsageError, match=message) as error:
            change_keys(key_path, lambda _, changed=changed: changed)
        assert error.value.place == str(key_path)
        assert "Nothing was changed" in error.value.remedy
    assert key_path.read_text() == text
    assert list(key_path.parent.glob(".*.draft")) == []


def test_a_file_whose_primary_key_is_disabled_is_refused_with_its_id(key_path: Path) -> None:
    keyset = json.loads(key_path.read_text())
    keyset["key"][0]["status"] = "DISABLED"
    key_path.write_text(json.dumps(keyset))
    with pytest.raises(UsageError, match=f"primary key '{keyset['primaryKeyId']}' is not enabled"):
        read_keys(key_path)


def test_a_retired_key_is_destroyed_until_it_is_added_again(key_path: Path) -> None:
    file = read_keys(key_path)
    retired = file.rotate().retire(file.current)
    assert retired.retired == [file.current]
    assert file.entries[0]["keyData"]["value"] not in retired.to_json()
    added = retired.add(file, file.ids)
    assert (added.retired, added.ids[0]) == ([], file.current)


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
    secret = read_keys(key_path).entries[0]["keyData"]["value"]
    key_path.write_text(text[:kept])
    with pytest.raises(UsageError, match="no key file") as error:
        read_keys(key_path)
    assert secret[:10] not in str(error.value)
    keys._checked_at = 0  # type: ignore[attr-defined]
    assert keys.decrypt(keys.encrypt(b"text", b"here"), b"here") == b"text"


def test_why_a_key_opens_nothing_is_told_as_the_file_has_it(key_path: Path, keys: Keyring) -> None:
    data, key = keys.encrypt(b"text", b""), keys.current
    assert (keys.key_problem(key), keys.key_problem("1")) == ("", "unknown")
    new = change_keys(key_path, lambda file: file.rotate().retire(key))
    assert keys.key_problem(new.current) == ""
    assert keys.key_problem(key) == "retired"
    with pytest.raises(DecryptionFailed, match="retired key"):
        keys.decrypt(data, b"")


def test_a_key_that_was_retired_opens_nothing_where_nothing_is_sealed(
    key_path: Path, keys: Keyring
) -> None:
    """A codec server opens alone, and meets no key that it does not know."""
    data, key = keys.encrypt(b"text", b""), keys.current
    assert keys.decrypt(data, b"") == b"text"
    change_keys(key_path, lambda file: file.rotate().retire(key))
    keys._checked_at = 0  # type: ignore[attr-defined]
    with pytest.raises(DecryptionFailed, match="retired key"):
        keys.decrypt(data, b"")


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(
    key_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, load = read_keys(key_path), keys_module._load
    new = there.rotate()

    def replaced(path: Path) -> tuple[KeyFile, Any]:
        found = load(path)
        if path == key_path:  # not the draft
            write_keys(path, new)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(keys_module, "_load", replaced)
        ring = Keyring(key_path)
    assert ring.current == there.current
    assert ring.key_problem(new.current) == ""
    assert ring.current == new.current

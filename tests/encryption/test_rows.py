"""Rows of the store: what opens, and what does not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from crewlog.encryption.keys import Keyring
from crewlog.encryption.rows import PREFIX, RowCipher
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing

TEXT = '{"say":"the canary sings \ud83d"}'


def test_a_text_opens_where_it_stands_and_nowhere_else(keys: Keyring) -> None:
    cipher = RowCipher(keys, "default")
    kept = cipher.encrypt(TEXT, "body", "hash")
    assert kept.startswith(PREFIX)
    assert "canary" not in kept
    assert cipher.decrypt(kept, "body", "hash") == TEXT
    assert cipher.encrypt(TEXT, "body", "hash") != kept
    for other in (("body", "hash2"), ("definition", "hash"), ("body", "ha", "sh"), ("body",)):
        with pytest.raises(DecryptionFailed, match="changed or moved"):
            cipher.decrypt(kept, *other)
    with pytest.raises(DecryptionFailed, match="changed or moved"):
        RowCipher(keys, "other").decrypt(kept, "body", "hash")


def test_no_changed_character_goes_unseen(keys: Keyring) -> None:
    cipher = RowCipher(keys, "default")
    # 75 bytes, with key id, nonce and tag: no bit of its last character is left over.
    kept = cipher.encrypt("x" * 42, "entry", "run", "1", "d")
    for at in range(len(kept)):
        bad = kept[:at] + ("A" if kept[at] != "A" else "B") + kept[at + 1 :]
        with pytest.raises((DecryptionFailed, EncryptionKeyMissing)):
            cipher.decrypt(bad, "entry", "run", "1", "d")
    with pytest.raises(DecryptionFailed):
        cipher.decrypt(f"{PREFIX}{keys.current}:AAAA", "entry", "run", "1", "d")


def test_plain_rows_and_rows_of_other_keys(
    keys: Keyring, other_keys: Keyring, key_path: Path
) -> None:
    cipher = RowCipher(keys, "default")
    kept = cipher.encrypt(TEXT, "body", "hash")
    with pytest.raises(EncryptionKeyMissing):
        RowCipher(other_keys, "default").decrypt(kept, "body", "hash")
    with pytest.raises(EncryptionKeyMissing, match="has no keys"):
        RowCipher(None, "default").decrypt(kept, "body", "hash")
    with pytest.raises(DecryptionFailed, match="not encrypted"):
        cipher.decrypt(TEXT, "body", "hash")
    assert (
        RowCipher(Keyring(key_path, accept_plain=True), "x").decrypt(TEXT, "body", "hash") == TEXT
    )
    off = RowCipher(None, "default")
    assert off.decrypt(off.encrypt(TEXT, "body", "hash"), "body", "hash") == TEXT


def test_words_are_found_by_whoever_has_the_key_they_were_kept_with(
    keys: Keyring, rotated: Callable[[], str]
) -> None:
    cipher = RowCipher(keys, "default")
    [kept] = cipher.word_codes(["canary"])
    assert "canary" not in kept
    assert kept in cipher.search_word_codes(["bird", "canary"])
    assert kept not in cipher.search_word_codes(["canaries"])
    rotated()
    keys._checked_at = 0
    assert cipher.word_codes(["canary"]) != [kept]
    assert kept in cipher.search_word_codes(["canary"])

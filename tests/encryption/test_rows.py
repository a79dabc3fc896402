"""Rows of the store: what opens, and what does not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from crewlog.encryption.keys import Keyring
from crewlog.encryption.rows import PREFIX, RowCipher
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing

TEXT = '{"say":"the canary sings \ud83d"}'


def test_a_text_opens_where_it_stands_and_nowhere_else(keys: Keyring) -> None:
    seal = RowCipher(keys, "default")
    kept = seal.seal(TEXT, "body", "hash")
    assert kept.startswith(PREFIX)
    assert "canary" not in kept
    assert seal.open(kept, "body", "hash") == TEXT
    assert seal.seal(TEXT, "body", "hash") != kept
    for other in (("body", "hash2"), ("definition", "hash"), ("body", "ha", "sh"), ("body",)):
        with pytest.raises(DecryptionFailed, match="changed or moved"):
            seal.open(kept, *other)
    with pytest.raises(DecryptionFailed, match="changed or moved"):
        RowCipher(keys, "other").open(kept, "body", "hash")


def test_no_changed_character_goes_unseen(keys: Keyring) -> None:
    seal = RowCipher(keys, "default")
    # 69 bytes, with nonce and tag: no bit of its last character is left over.
    kept = seal.seal("x" * 41, "entry", "run", "1", "d")
    for at in range(len(kept)):
        bad = kept[:at] + ("A" if kept[at] != "A" else "B") + kept[at + 1 :]
        with pytest.raises((DecryptionFailed, EncryptionKeyMissing)):
            seal.open(bad, "entry", "run", "1", "d")
    with pytest.raises(DecryptionFailed):
        seal.open(f"{PREFIX}{keys.current}:", "entry", "run", "1", "d")


def test_plain_rows_and_rows_of_other_keys(
    keys: Keyring, other_keys: Keyring, key_path: Path
) -> None:
    seal = RowCipher(keys, "default")
    kept = seal.seal(TEXT, "body", "hash")
    with pytest.raises(EncryptionKeyMissing):
        RowCipher(other_keys, "default").open(kept, "body", "hash")
    with pytest.raises(EncryptionKeyMissing, match="has no keys"):
        RowCipher(None, "default").open(kept, "body", "hash")
    with pytest.raises(DecryptionFailed, match="not encrypted"):
        seal.open(TEXT, "body", "hash")
    assert RowCipher(Keyring(key_path, accept_plain=True), "x").open(TEXT, "body", "hash") == TEXT
    off = RowCipher(None, "default")
    assert off.open(off.seal(TEXT, "body", "hash"), "body", "hash") == TEXT


def test_words_are_found_by_whoever_has_the_key_they_were_kept_with(
    keys: Keyring, rotated: Callable[[], str]
) -> None:
    seal = RowCipher(keys, "default")
    [kept] = seal.words(["canary"])
    assert "canary" not in kept
    assert kept in seal.search_word_codes(["bird", "canary"])
    assert kept not in seal.search_word_codes(["canaries"])
    rotated()
    keys._looked = 0
    assert seal.words(["canary"]) != [kept]
    assert kept in seal.search_word_codes(["canary"])

"""Keys for the tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from crewlog.encryption.keys import KeyFile, Keyring, new_key, write_keys


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    """A key file with one key."""
    path = tmp_path / "keys.json"
    key = new_key(1)
    write_keys(path, KeyFile(keys=(key,), current=key.id))
    return path


@pytest.fixture
def keys(key_path: Path) -> Keyring:
    return Keyring(key_path)


@pytest.fixture
def other_keys(tmp_path: Path) -> Keyring:
    """A key file that has nothing in common with `keys`."""
    path = tmp_path / "other.json"
    key = new_key(2)
    write_keys(path, KeyFile(keys=(key,), current=key.id))
    return Keyring(path)


@pytest.fixture
def rotated(key_path: Path) -> Callable[[], str]:
    """Puts a new current key into the file of `keys`, and tells its id."""

    def rotate() -> str:
        from crewlog.encryption.keys import read_keys

        old, new = read_keys(key_path), new_key(3)
        write_keys(key_path, KeyFile(keys=(*old.keys, new), current=new.id, retired=old.retired))
        return new.id

    return rotate

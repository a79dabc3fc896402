"""Keys for the tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from crewlog.encryption.keys import Keyring, change_keys, new_key_file, write_keys


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    """A key file with one key."""
    path = tmp_path / "keys.json"
    write_keys(path, new_key_file())
    return path


@pytest.fixture
def keys(key_path: Path) -> Keyring:
    return Keyring(key_path)


@pytest.fixture
def other_keys(tmp_path: Path) -> Keyring:
    """A key file that has nothing in common with `keys`."""
    path = tmp_path / "other.json"
    write_keys(path, new_key_file())
    return Keyring(path)


@pytest.fixture
def rotated(key_path: Path) -> Callable[[], str]:
    """Puts a new current key into the file of `keys`, and tells its id."""

    def rotate() -> str:
        return change_keys(key_path, lambda file: file.rotate()).current

    return rotate

"""`keys`: private keys are files that only their owner reads, and the right one signs."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import get_args

import pytest

from crewlog.cli.main import run_cli
from crewlog.client import keys
from crewlog.definition.policy import Policy, Right
from crewlog.errors import UsageError


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("CREWLOG_KEY", raising=False)
    return tmp_path / "crewlog" / "keys"


def test_a_key_is_made_and_told_as_a_policy_has_it(
    where: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["keys", "make", "ada"]) == 0
    path = where / "ada.pem"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    from ruamel.yaml import YAML

    told = capsys.readouterr()
    policy = Policy.from_json(YAML(typ="safe").load(told.out)["policy"])
    assert policy.signed
    assert policy.principals["ada"].rights == get_args(Right)
    assert policy.principals["ada"].key == keys.load("ada").public
    private = path.read_text().splitlines()[1]
    assert private not in told.out + told.err
    assert run_cli(["keys", "make", "ada"]) == 2
    assert "there is a key 'ada' already" in capsys.readouterr().err


def test_the_one_key_signs_or_the_users_or_the_chosen_one(
    where: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert keys.chosen("bob") is None
    ada, bob = keys.make("ada"), None
    assert (keys.chosen("bob") or ada).name == "ada"
    bob = keys.make("bob")
    assert (keys.chosen("bob") or ada).name == "bob"
    assert keys.chosen("eve") is None
    monkeypatch.setenv("CREWLOG_KEY", str(ada.path))
    assert (keys.chosen("bob") or bob).name == "ada"
    assert run_cli(["keys", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["keys"]
    assert [(each["name"], each["signs"]) for each in listed] == [("ada", True), ("bob", False)]
    monkeypatch.setenv("CREWLOG_KEY", "off")
    assert keys.chosen("bob") is None


def test_what_is_no_safe_key_is_refused(where: Path) -> None:
    path = keys.make("ada").path
    path.chmod(0o640)
    with pytest.raises(UsageError, match="may be read by others") as refused:
        keys.load("ada")
    assert refused.value.remedy == f"chmod 600 {path}"
    path.chmod(0o600)
    path.write_text("nothing")
    with pytest.raises(UsageError, match="no Ed25519 private key"):
        keys.load("ada")
    with pytest.raises(UsageError, match="there is no key 'eve'") as missing:
        keys.load("eve")
    assert "Keys: ada." in missing.value.remedy
    for name in ("../ada", "a/b", "", "a b"):
        with pytest.raises(UsageError, match="cannot be a key's name"):
            keys.make(name)


def test_what_cannot_be_spelled_is_not_signed(where: Path) -> None:
    with pytest.raises(UsageError, match="cannot be signed"):
        keys.make("ada").signed("r", "edit_state", {"id": "x", "set": {"shared.n": 2**60}}, "")

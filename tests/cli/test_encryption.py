"""`crewlog encryption`: keys are made, rotated and retired, rows encrypted again, pages served."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from google.protobuf.json_format import MessageToDict
from temporalio.api.common.v1 import Payloads
from temporalio.converter import WorkflowSerializationContext

from crewlog.dev.paths import Home
from crewlog.dev.services import Services
from crewlog.encryption.codec import EncryptionCodec
from crewlog.encryption.keys import ACCEPT_PLAIN, KEYS, Keyring, read_keys
from crewlog.ids import RunId
from crewlog.payload_storage.converter import data_converter
from crewlog.store import PostgresStore

from .conftest import LIMIT, Cli, Done

ORIGIN = "http://localhost:8233"


@pytest.fixture(scope="module")
def sealed(project: Path) -> Iterator[Cli]:
    """Commands with a home of their own, where everything is encrypted, and a worker."""
    home = Path(tempfile.mkdtemp(prefix="clenc-"))  # short: sockets have short paths
    cli = Cli(home, project)
    try:
        assert cli("encryption", "init", str(home / "keys.json")).code == 0
        cli.env[KEYS] = str(home / "keys.json")
        up = cli("dev", "--detach", "--json")
        assert up.code == 0, up.err
        yield cli
    finally:
        cli("dev", "--stop")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Commands that need no servers, and no keys of anybody's."""
    return Cli(tmp_path / "home", tmp_path)


def keys_of(cli: Cli) -> dict[str, dict[str, Any]]:
    done = cli("encryption", "status", "--json")
    assert done.code == 0, done.err
    return {each["key"]: each for each in done.records[0]["keys"]}


def until(command: Callable[[], Done], what: Callable[[Done], bool]) -> Done:
    """What a command says once the server has heard of what was done before."""
    limit = time.monotonic() + LIMIT
    while not what(done := command()):
        assert time.monotonic() < limit, done
    return done


def test_a_key_is_rotated_and_retired_once_nothing_needs_it(sealed: Cli) -> None:
    path = Path(sealed.env[KEYS])
    old = read_keys(path).current
    assert sealed("memory", "write", "sealed", "public", "Tea at five.", "--key", "tea").code == 0
    assert sealed("run", "two.yaml", "--id", "early").code == 0
    assert sealed("run", "ask.yaml", "--id", "waits", "--detach").code == 0
    until(lambda: sealed("show", "waits", "--json"), lambda done: '"i1"' in done.out)
    found = keys_of(sealed)
    assert found.keys() == {old}
    assert (found[old]["state"], found[old]["runs"]) == ("current", 1)
    assert found[old]["rows"] > 3
    shown = sealed("encryption", "status")
    assert shown.out.split()[:4] == ["key", "open", "runs", "texts"]
    assert shown.out.splitlines()[1].split()[:3] == [old, "current", "1"]

    refused = sealed("encryption", "retire", old)
    assert refused.code == 2
    assert "is the current one" in refused.err

    copy = path.with_name("copy.json")
    shutil.copy(path, copy)
    done = sealed("encryption", "rotate", "--json")
    new = done.records[0]["key"]
    assert (read_keys(path).current, done.records[0]["current"]) == (new, new)
    assert keys_of(sealed)[old]["state"] == "reads"
    refused = sealed("encryption", "retire", old)
    assert refused.code == 2
    assert f"the key '{old}' is needed by open runs: waits" in refused.err
    assert read_keys(path).ids == [old, new]

    # The worker was not started anew: it reads with both, and writes with the new one.
    ended = sealed("answer", "waits", "i1", "publish", "--json")
    assert ended.code == 0, ended.err
    refused = until(
        lambda: sealed("encryption", "retire", old), lambda done: "open runs" not in done.err
    )
    assert refused.code == 2
    assert "texts in the store" in refused.err
    assert "crewlog encryption reencrypt" in refused.err
    done = sealed("encryption", "reencrypt")
    assert done.code == 0, done.err
    assert "texts are encrypted with the current key" in done.out
    assert sealed("encryption", "reencrypt", "--json").records == [{"texts": 0}]
    done = sealed("encryption", "retire", old)
    assert done.code == 0, done.err
    assert f"✓ the key {old} is retired" in done.out
    found = keys_of(sealed)
    assert {key: each["state"] for key, each in found.items()} == {new: "current", old: "retired"}
    assert (found[old]["runs"], found[old]["rows"]) == (0, 0)

    # A run that has ended is told by the store; what needs its history says which key it lacks.
    for command in ("log", "audit", "checkpoints", "watch", "show", "trace"):
        told = sealed(command, "waits")
        assert told.code == 0, (command, told)
    assert "publish" in sealed("log", "waits").out
    refused = sealed("pause", "waits")
    assert (refused.code, "has ended (completed)" in refused.err) == (2, True)
    part = sealed("rebuild", "waits", "--replace")
    assert (part.code, f"the retired key '{old}'" in part.out) == (5, True)
    refused = sealed("rebuild", "early", "--replace")
    assert refused.code == 5
    assert f"encrypted with the key '{old}', which is retired (event 1:" in refused.err
    assert "Nothing was changed" in refused.err
    assert "RunCompleted" in sealed("log", "early").out
    added = sealed("encryption", "add", str(copy), old, "--json")
    assert added.records[0]["added"] == [old]
    assert read_keys(path).current == new
    rebuilt = until(lambda: sealed("rebuild", "waits"), lambda done: done.code == 0)
    assert "not read" not in rebuilt.out

    told = sealed("memory", "read", "sealed", "tea", "--json").records[0]
    assert [(each["key"], each["text"]) for each in told["memories"]] == [("tea", "Tea at five.")]


@pytest.fixture
def over_plain_rows(sealed: Cli) -> Cli:
    """Commands whose database is another one, with a plain row."""
    import asyncio

    address = next(
        each.address
        for each in Services(Home.at(Path(sealed.env["CREWLOG_HOME"]))).records()
        if each.name == "postgres"
    )

    async def fill() -> str:
        connection = await asyncpg.connect(address)
        await connection.execute("CREATE DATABASE had_plain_rows")
        await connection.close()
        head, question, query = address.partition("?")
        url = f"{head.rpartition('/')[0]}/had_plain_rows{question}{query}"
        store = await PostgresStore.connect(url, max_size=1)
        await store.put_definition(RunId("r"), {"crew": "plain"})
        await store.close()
        return url

    cli = Cli(Path(sealed.env["CREWLOG_HOME"]), sealed.cwd)
    cli.env |= {KEYS: sealed.env[KEYS], "DATABASE_URL": asyncio.run(fill())}
    return cli


def test_a_store_with_plain_rows_is_refused_before_anything_begins(over_plain_rows: Cli) -> None:
    cli = over_plain_rows
    for command in (
        ("run", "two.yaml"),
        ("run", "two.yaml", "--task-queue", "elsewhere"),
        ("worker",),
        ("encryption", "reencrypt"),
    ):
        refused = cli(*command)
        assert refused.code == 5, (command, refused)
        assert "the store has rows that are not encrypted" in refused.err
        assert "Set CREWLOG_ENCRYPTION_ACCEPT_PLAIN=true" in refused.err
        assert "crewlog encryption reencrypt" in refused.err
    assert keys_of(cli)[""]["rows"] == 1
    looked = cli("doctor")
    assert (looked.code, "Ready" in looked.out) == (5, False)
    assert "not encrypted" in looked.out
    cli.env[ACCEPT_PLAIN] = "true"
    assert cli("encryption", "reencrypt", "--json").records == [{"texts": 1}]
    assert f"on, and {ACCEPT_PLAIN} lets" in cli("doctor").out
    del cli.env[ACCEPT_PLAIN]
    assert cli("encryption", "reencrypt", "--json").records == [{"texts": 0}]
    assert "has no plain rows" in cli("doctor").out
    cli.env.pop(KEYS)
    refused = cli("run", "two.yaml")
    assert refused.code == 5
    assert "this process has no keys" in refused.err


def test_an_unknown_key_is_refused_for_good(sealed: Cli) -> None:
    refused = sealed("encryption", "retire", "123")
    assert refused.code == 2
    assert "the key '123' is not in the key file" in refused.err
    refused = sealed("encryption", "retire", "no-number", "--unknown")
    assert (refused.code, "'no-number' is no id of a key" in refused.err) == (2, True)
    current = read_keys(Path(sealed.env[KEYS])).current
    refused = sealed("encryption", "retire", current, "--unknown")
    assert refused.code == 2
    assert f"the key '{current}' is in the key file" in refused.err
    done = sealed("encryption", "retire", "123", "--unknown", "--json")
    assert done.records[0]["retired"] == "123"
    assert keys_of(sealed)["123"]["state"] == "retired"


def test_pages_are_served_to_who_has_the_token(sealed: Cli, tmp_path: Path) -> None:
    serving = sealed.start("encryption", "serve", "--port", "0", "--origin", ORIGIN, "--json")
    assert serving.stdout is not None
    try:
        told = json.loads(serving.stdout.readline())
        assert told["origin"] == ORIGIN
        url = f"{told['endpoint']}/decode"
        good = {"Authorization": f"Bearer {told['token']}", "Origin": ORIGIN}
        body = encrypted(Path(sealed.env[KEYS]), tmp_path)
        found = httpx.post(url, json=body, headers=good)
        assert found.status_code == 200
        assert found.headers["access-control-allow-origin"] == ORIGIN
        assert found.json()["payloads"][0]["data"] == "eyJzYXkiOiJoZWxsbyJ9"  # {"say":"hello"}
        asks = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
        before = httpx.options(url, headers=asks)
        assert before.status_code == 200
        assert "Authorization" in before.headers["access-control-allow-headers"]
        for headers, status in (
            ({"Origin": ORIGIN}, 401),
            (good | {"Authorization": "Bearer guessed"}, 401),
            (good | {"Origin": "https://evil.example"}, 403),
        ):
            refused = httpx.post(url, json=body, headers=headers)
            assert refused.status_code == status
    finally:
        serving.send_signal(signal.SIGINT)
        out, err = serving.communicate(timeout=LIMIT)
    assert (serving.returncode, out, "Traceback" in err) == (130, "", False)


def test_the_command_of_temporal_sends_an_encrypted_signal(sealed: Cli) -> None:
    assert sealed("run", "ask.yaml", "--id", "signalled", "--detach").code == 0
    until(lambda: sealed("show", "signalled", "--json"), lambda done: '"i1"' in done.out)
    services = Services(Home.at(Path(sealed.env["CREWLOG_HOME"]))).records()
    (address,) = (each.address for each in services if each.name == "temporal")
    serving = sealed.start("encryption", "serve", "--port", "0", "--origin", ORIGIN, "--json")
    assert serving.stdout is not None
    try:
        told = json.loads(serving.stdout.readline())
        subprocess.run(
            [
                *(str(Path(sys.executable).with_name("temporal")), "workflow", "signal"),
                *("--address", address, "-w", "signalled", "--name", "pause"),
                *("--input", '{"id": "p1"}', "--codec-endpoint", told["endpoint"]),
                *("--codec-auth", f"Bearer {told['token']}"),
                *("--codec-header", "X-Crewlog-Run=signalled"),
                *("--codec-header", "X-Crewlog-Purpose=signal pause"),
            ],
            check=True,
            timeout=LIMIT,
        )
    finally:
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=LIMIT)
    until(lambda: sealed("show", "signalled", "--json"), lambda done: '"paused"' in done.out)
    assert sealed("stop", "signalled").code == 0


def encrypted(path: Path, folder: Path) -> dict[str, Any]:
    """What the web UI sends of a run's history."""
    import asyncio

    codec = data_converter(folder, keys=Keyring(path)).with_context(
        WorkflowSerializationContext("default", "run-1")
    )
    assert isinstance(codec.payload_codec, EncryptionCodec)
    return MessageToDict(Payloads(payloads=asyncio.run(codec.encode([{"say": "hello"}]))))


def test_a_port_that_is_taken_is_said(sealed: Cli) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = sealed("encryption", "serve", "--port", port, "--origin", ORIGIN)
    assert done.code == 2
    assert f"the port {port} cannot be had" in done.err


def test_a_key_file_is_made_once_and_for_its_owner_alone(cli: Cli, tmp_path: Path) -> None:
    done = cli("encryption", "init", "keys.json")
    path = tmp_path / "keys.json"
    assert (done.code, stat.S_IMODE(path.stat().st_mode)) == (0, 0o600)
    file = read_keys(path)
    assert f"has one key, {file.current}" in done.out
    assert f"export {KEYS}={path}" in done.out + done.err
    assert file.entries[0]["keyData"]["value"] not in done.out + done.err
    refused = cli("encryption", "init", "keys.json")
    assert refused.code == 2
    assert "there is a file 'keys.json' already" in refused.err
    assert read_keys(path) == file


def test_a_key_is_prepared_on_all_machines_before_it_writes(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    cli("encryption", "init", str(path))
    first = read_keys(path).current
    prepared = cli("encryption", "rotate", "--prepare", "--keys", str(path), "--json").records[0]
    assert prepared["current"] == read_keys(path).current == first
    again = cli("encryption", "rotate", "--prepare", "--keys", str(path))
    assert again.code == 2
    assert "is prepared already" in again.err
    done = cli("encryption", "rotate", "--keys", str(path))
    assert done.code == 0
    assert read_keys(path).current == prepared["key"]
    assert len(read_keys(path).ids) == 2
    assert cli("encryption", "rotate", "--keys", str(path)).code == 0
    assert len(read_keys(path).ids) == 3


@pytest.mark.parametrize("command", ["status", "rotate", "serve", "reencrypt", "retire"])
def test_without_a_key_file_it_says_so(
    home: Path, tmp_path: Path, served: dict[str, Any], command: str
) -> None:
    cli = Cli(home, tmp_path)
    cli.env.pop(KEYS, None)
    done = cli("encryption", command, *(["KEY"] if command == "retire" else []))
    assert done.code == 2
    assert "encryption is off" in done.err


def test_a_key_file_that_others_can_read_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    cli("encryption", "init", str(path))
    path.chmod(0o644)
    for command in ("status", "rotate"):
        done = cli("encryption", command, "--keys", str(path))
        assert done.code == 2
        assert f"chmod 600 {path}" in done.err

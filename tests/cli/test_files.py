"""Files in and out of a run, through the command line: images, documents, audio."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dialects import Said, Service, serving

from .conftest import Cli

pytestmark = pytest.mark.server
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n% a document with nothing in it\n%%EOF\n"
MADE = PNG + b"made by a model"
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt "


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as found:
        yield found


@pytest.fixture
def cli(home: Path, tmp_path: Path, service: Service) -> Cli:
    found = Cli(home, tmp_path)
    found.env |= {"OPENAI_API_KEY": "a-good-key", "OPENAI_BASE_URL": f"{service.url}/v1"}
    settings = {"use_responses_api": True}
    agent = {"prompt": "P.", "tools": [], "model_settings": settings}
    crew = {
        "crew": "studio",
        "model": "openai:gpt-5-mini",
        "agents": {"artist": agent, "critic": agent},
    }
    (tmp_path / "crew.yaml").write_text(json.dumps(crew))
    (tmp_path / "dot.png").write_bytes(PNG)
    (tmp_path / "page.pdf").write_bytes(PDF)
    return found


def test_files_go_in_and_out_of_a_run_by_their_hashes(
    cli: Cli, service: Service, home: Path
) -> None:
    run = f"studio-{uuid4().hex[:6]}"
    service.next += [Said("Here it is.", image=encoded(MADE)), Said("I like it.")]
    files = ("--file", "dot.png", "--file", "page.pdf")
    done = cli("run", "crew.yaml", "-i", "Draw it anew.", *files, "--id", run)
    assert done.code == 0, done.err + done.out
    artist, critic = (json.dumps(asked.body) for asked in service.asked)
    assert encoded(PNG) in artist
    assert encoded(PDF) in artist
    assert "page.pdf" in artist
    assert encoded(MADE) in critic, "others are shown what a model made"

    digest = hashlib.sha256(MADE).hexdigest()
    shown = re.search(r"Here it is. \[image/png 85 B sha256:(\w+)", done.out)
    assert shown is not None
    assert digest.startswith(shown[1])
    given = r"\[image/png dot.png 70 B sha256:\w+…\] \[application/pdf page.pdf 4\d B sha256:\w+…\]"
    assert re.search(rf"» \w+: {given}", done.out), done.out
    assert re.search(rf"files +{given}", cli("show", run).out)
    told = cli("log", run)
    assert "[image/png dot.png 70 B sha256:" in told.out, told.out
    assert "[application/pdf page.pdf" in told.out
    found: list[Any] = cli("log", run, "--json").records
    blocks = [block for record in found for block in _files(record)]
    assert {block["mime_type"] for block in blocks} == {"image/png", "application/pdf"}
    text = json.dumps(found) + cli("show", run, "--json").out
    databases = [each for each in home.rglob("*") if ".db" in each.name and each.is_file()]
    assert databases
    for data in (PNG, PDF, MADE):
        assert encoded(data) not in text
        assert not any(encoded(data).encode() in each.read_bytes() for each in databases)

    fetched = cli("file", f"sha256:{shown[1]}", "--out", "made.png")
    assert fetched.code == 0, fetched.err
    assert (cli.cwd / "made.png").read_bytes() == MADE
    absent = cli("file", "sha256:0123456789ab", "--out", "none.png")
    assert absent.code == 2
    assert "no files have a hash that starts with '0123456789ab'" in absent.err


def _files(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "sha256" in value:
            yield value
        for each in value.values():
            yield from _files(each)
    elif isinstance(value, list):
        for each in value:
            yield from _files(each)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("large.png", PNG * 100, "has 7,000 bytes, and the files of messages may have 1,000"),
        ("none.png", None, "cannot be read: No such file"),
        ("what.zzz", b"what", "the type of the file 'what.zzz' is unknown"),
    ],
)
def test_a_file_that_cannot_be_taken_starts_no_run(
    cli: Cli, name: str, data: bytes | None, said: str
) -> None:
    if data is not None:
        (cli.cwd / name).write_bytes(data)
    run = f"none-{uuid4().hex[:6]}"
    done = cli("run", "crew.yaml", "--file", name, "--id", run, CREWLOG_LARGEST_FILE="1000")
    assert done.code == 2, done.out
    assert said in done.err
    assert run not in cli("ps", "--all").out


def test_a_message_has_files(crewlog: Cli, tmp_path: Path) -> None:
    run = f"asker-{uuid4().hex[:6]}"
    assert crewlog("run", "ask.yaml", "-d", "--id", run).code == 0
    sound = tmp_path / "sound.wav"
    sound.write_bytes(WAV)
    done = crewlog("message", run, "Hear this.", "--file", str(sound))
    assert done.code == 0, done.err
    assert "[audio/wav sound.wav 16 B sha256:" in crewlog("log", run).out
    crewlog("stop", run)

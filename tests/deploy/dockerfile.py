"""Reads a Dockerfile and its .dockerignore as far as ours go."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """One stage of a build: its instructions in order, as name and words."""

    base: str
    name: str = ""
    steps: list[tuple[str, str]] = field(default_factory=list)

    def of(self, name: str) -> list[str]:
        """What the instructions of that name say."""
        return [text for step, text in self.steps if step == name]

    @property
    def environment(self) -> dict[str, str]:
        """What its ENV instructions set, as written."""
        pairs = (word.split("=", 1) for text in self.of("ENV") for word in shlex.split(text))
        return {key: value for key, value in pairs}  # noqa: C416 - pairs of a generator of lists

    def command(self) -> list[str]:
        """The words of its CMD."""
        words: list[str] = json.loads(self.of("CMD")[-1])
        return words


def read_dockerfile(path: Path) -> list[Stage]:
    """The stages of a Dockerfile."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    stages: list[Stage] = []
    for line in filter(str.strip, text.splitlines()):
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            stages.append(Stage(base, alias))
        else:
            stages[-1].steps.append((name, rest.strip()))
    return stages


class DockerIgnore:
    """Which files of a context reach the builder: the last pattern that matches decides."""

    def __init__(self, path: Path) -> None:
        lines = [line.strip() for line in path.read_text().splitlines()]
        self.patterns = [line for line in lines if line and not line.startswith("#")]

    def ignores(self, path: str) -> bool:
        """Whether a path, relative to the context, stays out."""
        ignored = False
        for pattern in self.patterns:
            if _matches(pattern.lstrip("!").strip("/"), path):
                ignored = not pattern.startswith("!")
        return ignored


def _matches(pattern: str, path: str) -> bool:
    parts = path.split("/")
    heads = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    if pattern.startswith("**/"):
        return any(fnmatch.fnmatchcase(part, pattern[3:]) for part in parts)
    return any(
        fnmatch.fnmatchcase(head, pattern) and head.count("/") == pattern.count("/")
        for head in heads
    )


def copy_into(context: Path, sources: list[str], target: Path, ignore: DockerIgnore) -> None:
    """What COPY does: files, or what is in folders, without what is ignored; links stay links."""
    for source in sources:
        found = context / source
        assert found.exists(), f"COPY names {source!r}, which is not there"
        assert not ignore.ignores(source.strip("/")), f"{source!r} does not reach the builder"
        if found.is_file():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, target / found.name)
            continue
        for file in sorted(found.rglob("*")):
            relative = file.relative_to(context).as_posix()
            # Links to folders are copied as links, and not followed.
            inside_link = any(p.is_symlink() for p in file.parents if p != context)
            if inside_link or ignore.ignores(relative):
                continue
            place = target / file.relative_to(found)
            if file.is_symlink() or file.is_file():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, place, follow_symlinks=False)

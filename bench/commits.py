"""At which commit a figure was measured, and when a page may show it.

A figure belongs to the commit that was checked out, so figures are written from a work tree only
where the measured files have no uncommitted changes. A page shows figures of one commit. That
commit is in the history of the commit that adds the figures, or its measured files are the same:
figures are measured at one commit and added by a later one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from bench.specs import CASE_OF, SPECS_OF

ROOT = Path(__file__).parents[1]
FIGURES = "bench/latest.json"
MEASURED = (
    *("src", "workflows", "activities", "workers", "bench", "examples/workflow_builder"),
    *("pyproject.toml", "uv.lock", f":(exclude){FIGURES}", ":(exclude)bench/specs.py"),
)
"""The files that decide what a figure is, as Git path specifications: not the limits and words of
the table."""


class CommitError(Exception):
    """The figures have no commit, or not the one that is needed."""


def git(*arguments: str, root: Path = ROOT) -> str:
    """The output of a Git command, without the last line break.

    Raises:
        CommitError: Git is not installed, or the command failed.
    """
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise CommitError("git is not installed: install it") from error
    except subprocess.CalledProcessError as error:
        command = " ".join(["git", *arguments])
        raise CommitError(f"{root}: `{command}` failed: {error.stderr.strip()}") from error
    return done.stdout.rstrip("\n")


def short_hash(commit: str = "HEAD", root: Path = ROOT) -> str:
    """The short hash of a commit.

    Raises:
        CommitError: the repository has no such commit.
    """
    name = f"{commit}^{{commit}}"
    try:
        return git("rev-parse", "--verify", "--short=8", "--end-of-options", name, root=root)
    except CommitError as error:
        raise CommitError(f"there is no commit {commit!r}; is it fetched? {error}") from error


def uncommitted(files: Sequence[str] = MEASURED, root: Path = ROOT) -> list[str]:
    """The files, as Git path specifications, that differ from HEAD, new files included."""
    found = git("status", "--porcelain", "--untracked-files=all", "--", *files, root=root)
    return [line[3:] for line in found.splitlines()]


def measured_commit(root: Path = ROOT) -> str:
    """The commit at which figures are measured now.

    Raises:
        CommitError: measured files have uncommitted changes.
    """
    if changed := uncommitted(root=root):
        shown = ", ".join(changed[:5]) + (", …" if len(changed) > 5 else "")
        raise CommitError(
            f"{root}: {len(changed)} measured files have uncommitted changes ({shown}), so the "
            f"figures would belong to no commit: commit the changes, or measure without --out"
        )
    return short_hash(root=root)


def check_page(rows: Mapping[str, Sequence[str]], file: Path, root: Path = ROOT) -> None:
    """Checks that a page may show these rows.

    Args:
        rows: The names of the rows by their commit; "" is the commit of rows without one.
        file: Where they are.
        root: The repository.

    Raises:
        CommitError: the rows are of several commits, or of a commit that is not in the history
            of HEAD and whose measured files are different.
    """
    head = short_hash(root=root)
    if len(rows) != 1 or "" in rows:
        listed = "".join(
            f"\n  {commit or 'no commit'}: the rows of {', '.join(cases_of(names))}"
            for commit, names in rows.items()
        )
        raise CommitError(
            f"{file} has rows of {len(rows)} commits, and a page has rows of one:{listed}\n"
            f"measure those again that are not of {head}: {_command(rows, head, file)}"
        )
    [commit] = rows
    if not _belongs(commit, root):
        raise CommitError(
            f"{file} was measured at {commit}, and {head} differs from it in what is measured: "
            f"measure again: {_command(rows, head, file)}"
        )


def cases_of(names: Collection[str]) -> list[str]:
    """The cases that measure these rows, in their order."""
    found = {CASE_OF[name] for name in names}
    return [case for case in SPECS_OF if case in found]


def _belongs(commit: str, root: Path) -> bool:
    """Whether what is measured is the same in a commit as in HEAD."""
    try:
        return not git("diff", "--name-only", commit, "HEAD", "--", *MEASURED, root=root)
    except CommitError:
        return False


def _command(rows: Mapping[str, Sequence[str]], head: str, file: Path) -> str:
    """The command that measures the rows of other commits."""
    cases = cases_of([name for commit, names in rows.items() if commit != head for name in names])
    only = [f"--only {','.join(cases)}"] if len(cases) < len(SPECS_OF) else []
    out = [f"--out {file}"] if only or file.resolve() != ROOT / FIGURES else []
    options = " ".join([*only, *out])
    return f'make bench BENCH="{options}"' if options else "make bench"

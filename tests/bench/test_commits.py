"""Figures are written from a clean work tree, and a page shows those of one commit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import commits, report

FILE = Path(commits.FIGURES)


class Repository:
    """A small repository with a measured file, a page and figures."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "--quiet", "--initial-branch=main")
        self.first = self.commit("first", **{"src/a.py": "1", "docs/page.md": "1"})

    def git(self, *words: str) -> str:
        settings = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
        done = subprocess.run(
            ["git", *settings, *words], cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(self, message: str, **files: str) -> str:
        self.write(**files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return commits.short_hash(root=self.root)

    def check(self, rows: dict[str, list[str]]) -> None:
        commits.check_page(rows, FILE, self.root)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_clean_work_tree_measures_its_commit(repository: Repository) -> None:
    assert commits.measured_commit(repository.root) == repository.first
    assert len(repository.first) >= 8


@pytest.mark.parametrize("name", ["src/a.py", "src/new.py", "bench/steps.py", "uv.lock"])
def test_changed_measured_files_have_no_commit(repository: Repository, name: str) -> None:
    repository.write(**{name: "2"})
    with pytest.raises(
        commits.CommitError, match=rf"1 measured files .* \({name}\).*: commit the changes"
    ):
        commits.measured_commit(repository.root)


@pytest.mark.parametrize("name", ["docs/page.md", "tests/bench/test_a.py", commits.FIGURES])
def test_pages_tests_and_figures_may_change(repository: Repository, name: str) -> None:
    repository.write(**{name: "2"})
    assert commits.measured_commit(repository.root) == repository.first


def test_without_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    with pytest.raises(commits.CommitError, match="not a git repository"):
        commits.measured_commit(tmp_path)


def test_a_later_commit_adds_the_figures_of_the_measured_one(repository: Repository) -> None:
    rows = {repository.first: ["step_ms_10", "tool_ms"]}
    repository.check(rows)
    repository.commit("Add figures", **{commits.FIGURES: "{}", "docs/page.md": "2"})
    repository.check(rows)
    repository.commit("Change the product", **{"src/a.py": "2"})
    with pytest.raises(commits.CommitError, match=f"measured at {repository.first}, and "):
        repository.check(rows)


def test_an_amended_commit_keeps_its_figures_while_measured_files_are_equal(
    repository: Repository,
) -> None:
    measured = repository.commit("Say it", **{"src/a.py": "2"})
    repository.git("commit", "--quiet", "--amend", "--message=Say it better")
    repository.check({measured: ["tool_ms"]})
    repository.write(**{"src/a.py": "3"})
    repository.git("commit", "--quiet", "--all", "--amend", "--message=Do something else")
    with pytest.raises(commits.CommitError, match=f"measured at {measured}, and "):
        repository.check({measured: ["tool_ms"]})


def test_an_unknown_commit_is_refused(repository: Repository) -> None:
    with pytest.raises(commits.CommitError, match="measured at 12345678, and "):
        repository.check({"12345678": ["tool_ms"]})
    with pytest.raises(commits.CommitError, match="there is no commit '12345678'"):
        commits.short_hash("12345678", repository.root)


def test_rows_of_several_commits_are_refused_with_the_command_for_the_old_ones(
    repository: Repository,
) -> None:
    head = repository.commit("second", **{"src/a.py": "2"})
    rows = {repository.first: ["tool_ms", "fanout_ms_32"], head: ["step_ms_10", "step_ms_100"]}
    with pytest.raises(commits.CommitError) as refused:
        repository.check(rows)
    again = 'make bench BENCH="--only fanout,tools --out bench/latest.json"'
    assert str(refused.value).splitlines() == [
        "bench/latest.json has rows of 2 commits, and a page has rows of one:",
        f"  {repository.first}: the rows of fanout, tools",
        f"  {head}: the rows of steps",
        f"measure those again that are not of {head}: {again}",
    ]


def test_rows_without_a_commit_are_refused(repository: Repository) -> None:
    with pytest.raises(commits.CommitError, match="no commit: the rows of tools"):
        repository.check({"": ["tool_ms"]})


def test_all_cases_are_measured_again_by_the_whole_run(repository: Repository) -> None:
    old = {"12345678": ["step_ms_10"], "87654321": list(report.NAMES)}
    with pytest.raises(commits.CommitError, match=r": make bench$"):
        commits.check_page(old, commits.ROOT / FILE, repository.root)


def test_a_refused_page_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "some.json", tmp_path / "page.md"
    page.write_text(f"{report.BEGIN}\n{report.END}\n")
    found: report.Flat = {"step_ms_10": 10.0, "tool_ms": 15.0}
    report.stamp(found, commits.short_hash(), 0)
    report.write(file, {**found, "commit_tool_ms": "12345678"})
    words = ["--table", str(file), "--page", str(page)]
    assert command.main(words) == 1
    assert f"{file} has rows of 2 commits" in capsys.readouterr().err
    assert page.read_text() == f"{report.BEGIN}\n{report.END}\n"
    report.write(file, found)
    assert command.main(words) == 0
    assert f"Measured at commit `{commits.short_hash()}`" in page.read_text()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commits before and after a measurement that is made up; the case `fanout` fails."""
    found = ["aaaaaaaa", "aaaaaaaa"]

    async def measure(names: list[str], _pairs: int) -> tuple[report.Flat, list[str]]:
        figures: report.Flat = {"step_ms_10": 9.0} if "steps" in names else {}
        return {**figures, "cpus": 2}, [name for name in names if name == "fanout"]

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(commits, "measured_commit", lambda: found.pop(0))
    return found


def written(path: Path) -> dict[str, object]:
    return {k: v for k, v in json.loads(path.read_text()).items() if v is not None}


@pytest.mark.usefixtures("measured")
def test_a_part_stores_its_rows_with_their_commit(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    report.write(path, {"tool_ms": 15.0, "commit_tool_ms": "12345678", "cpus": 2})
    assert command.main(["--only", "steps", "--out", str(path)]) == 0
    found = written(path)
    assert (found["step_ms_10"], found["commit_step_ms_10"]) == (9, "aaaaaaaa")
    assert (found["tool_ms"], found["commit_tool_ms"]) == (15, "12345678")


@pytest.mark.usefixtures("measured")
def test_a_case_that_fails_leaves_its_old_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.json"
    report.write(path, {"fanout_ms_32": 80.0, "step_ms_10": 8.0, "cpus": 2})
    assert command.main(["--only", "steps,fanout", "--out", str(path)]) == 1
    assert "error: fanout failed; measure again: --only fanout" in capsys.readouterr().err
    assert (written(path)["fanout_ms_32"], written(path)["step_ms_10"]) == (80, 9)


def test_a_commit_during_the_measurement_discards_it(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured[1] = "bbbbbbbb"
    path = tmp_path / "some.json"
    assert command.main(["--only", "steps", "--out", str(path)]) == 1
    assert "was at aaaaaaaa before the measurement and is at bbbbbbbb" in capsys.readouterr().err
    assert not path.exists()


def test_nothing_is_measured_for_a_file_where_measured_files_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async def measure(_names: list[str], _pairs: int) -> None:
        raise AssertionError

    monkeypatch.setattr(command, "measure", measure)
    monkeypatch.setattr(commits, "uncommitted", lambda **_: ["src/a.py"])
    assert command.main(["--only", "steps", "--out", str(tmp_path / "some.json")]) == 1
    assert "1 measured files have uncommitted changes (src/a.py)" in capsys.readouterr().err

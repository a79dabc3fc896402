"""A prompt is run only as a person approved it; at a terminal, with an editor of theirs."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from covers import covers

from .conftest import Cli, environment
from .terminal import Terminal

PROMPT = """\
# Release notes

The collector gathers the changes, then the writer drafts notes. The checker
reviews; unless approved, back to the writer, at most 3 times, otherwise ask me.
Only the writer may write files.
"""
PARTIAL = f"{PROMPT}Make it snappy.\n"
"""One sentence of it is in no form."""
REGISTRY = """\
registry: notes
model: scripted:notes.script.yaml
approval: {approval}
tools:
  write_file: {{run: "notes_tools:write_file", effects: write, words: [write files]}}
"""
SCRIPT = """\
agents:
  checker:
    - tool_calls: [{tool: set_flag, args: {flag: approved, value: true}}]
    - text: fine
  "*": [{text: ok}]
"""
TOOLS = 'def write_file(path: str, text: str) -> str:\n    "Write a file."\n    return path\n'
HASH = re.compile(r"[\w-]{27}")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A directory with a prompt, a registry and the code of its tool."""
    return made(tmp_path)


def made(root: Path, approval: str = "understood") -> Path:
    (root / "notes.md").write_text(PROMPT)
    (root / "registry.yaml").write_text(REGISTRY.format(approval=approval))
    (root / "notes.script.yaml").write_text(SCRIPT)
    (root / "notes_tools.py").write_text(TOOLS)
    return root


def editor(root: Path, *edits: str) -> str:
    """An editor that makes one edit each time it is opened: Python that changes `text`."""
    script = root / "edit.py"
    script.write_text(
        f"#!{sys.executable}\n"
        "import sys, pathlib\n"
        f"edits = {list(edits)!r}\n"
        f"count = pathlib.Path({str(root / 'count')!r})\n"
        "done = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(done + 1))\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "names = {'text': file.read_text()}\n"
        "exec(edits[done], names)\n"
        "file.write_text(names['text'])\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def at_terminal(root: Path, *arguments: str, width: int = 100, **env: str) -> Terminal:
    """`crewlog run notes.md` at a terminal; its home is never used where nothing is approved."""
    return Terminal(
        "run",
        "notes.md",
        *arguments,
        cwd=root,
        env={**environment(root / "home"), **env},
        width=width,
    )


def test_a_no_starts_nothing_and_leaves_the_prompt_alone(notes: Path) -> None:
    terminal = at_terminal(notes)
    shown = terminal.expect("1 approve   2 edit   3 reject")
    assert re.search(r"“The collector gathers the changes”\n +→ collector starts with", shown)
    assert "→ write_file: writer" in shown
    assert "collector ── writer ── checker" in shown
    assert "not approved → writer (≤ 3), else" in shown
    assert HASH.search(shown.partition("Run this crew?")[2])
    terminal.type("maybe")
    terminal.expect("Type one of: approve, edit, reject.")
    terminal.type("3")
    terminal.expect("Why?")
    terminal.type("too early")
    terminal.expect("rejected: too early. Nothing was started.")
    assert terminal.end() == 6
    assert (notes / "notes.md").read_text() == PROMPT
    assert not (notes / "home").exists()


def test_nobody_at_the_terminal_is_a_no(notes: Path) -> None:
    terminal = at_terminal(notes)
    terminal.expect("3 reject")
    terminal.hang_up()
    terminal.expect("Nothing was started.")
    assert terminal.end() == 6


def test_an_interrupt_at_the_question_says_that_nothing_was_started(notes: Path) -> None:
    terminal = at_terminal(notes)
    terminal.expect("3 reject")
    terminal.expect("› ")  # noqa: RUF001
    terminal.interrupt()
    told = terminal.expect("Nothing was started.")
    assert told.removeprefix("    › ").startswith("\n")  # noqa: RUF001 - it may be drawn twice
    assert terminal.end() == 130
    assert not (notes / "home").exists()


def test_an_edit_shows_all_its_faults_and_may_be_mended(notes: Path) -> None:
    broken = "text = text.replace('writer', 'wrter', 1).replace('not approved', 'not aproved')"
    mended = (
        "text = text.replace('wrter', 'writer').replace('not aproved', 'not approved')"
        ".replace('at_most: 3', 'at_most: 5')"
    )
    terminal = at_terminal(notes, EDITOR=editor(notes, broken, mended))
    first = terminal.expect("3 reject").partition("Run this crew?")[2]
    terminal.type("edit")
    faults = terminal.expect("1 edit   2 drop")
    assert "Did you mean 'approved'?" in faults
    assert len(re.findall(r"^crew\.yaml:\d+:\d+  ", faults, re.MULTILINE)) >= 2
    terminal.type("1")
    shown = terminal.expect("3 reject")
    assert re.search(r"^  -.*at_most: 3", shown, re.MULTILINE)
    assert re.search(r"^  \+.*at_most: 5", shown, re.MULTILINE)
    assert "wrter" not in shown
    second = shown.partition("Run this crew?")[2]
    assert HASH.search(first)[0] != HASH.search(second)[0]  # type: ignore[index]
    terminal.type("r")
    terminal.expect("Why?")
    terminal.type("")
    terminal.expect("rejected. Nothing was started.")
    assert terminal.end() == 6
    assert (notes / "notes.md").read_text() == PROMPT


def test_an_edit_may_use_no_more_than_the_registry_offers(notes: Path) -> None:
    """Another tool, another code of a tool, another agent's right: as for the prompt."""
    registry = (notes / "registry.yaml").read_text()
    (notes / "registry.yaml").write_text(registry.replace("effects", "grant: [writer], effects"))
    wider = (
        "import re\n"
        "text = text.replace('tools: []', 'tools: [write_file]')\n"
        "text = re.sub(r'write_file: \\[writer\\]', 'write_file: [writer, checker]', text)\n"
        "text = re.sub(r'(\\ntools:\\n)', r'\\1  erase: {run: \"os:remove\"}\\n', text)\n"
    )
    terminal = at_terminal(notes, EDITOR=editor(notes, wider, "assert 'os:remove' in text"))
    terminal.expect("3 reject")
    terminal.type("edit")
    faults = terminal.expect("1 edit   2 drop")
    assert "the registry offers no tool 'erase'" in faults
    assert "'write_file' may not be given to 'checker'" in faults
    terminal.type("1")
    again = terminal.expect("1 edit   2 drop")
    assert "the registry offers no tool 'erase'" in again
    terminal.type("2")
    terminal.expect("3 reject")
    terminal.hang_up()
    assert "kept in" not in terminal.expect("Nothing was started.")
    assert terminal.end() == 6


@pytest.mark.parametrize("how", ["hang_up", "interrupt"])
def test_an_edit_is_never_lost(notes: Path, how: str) -> None:
    terminal = at_terminal(notes, EDITOR=editor(notes, "text += '# typed for an hour\\nflow: ['"))
    terminal.expect("3 reject")
    terminal.type("edit")
    terminal.expect("2 drop")
    getattr(terminal, how)()
    terminal.expect("Your edit is kept in ")
    terminal.end()
    kept = re.search(r"kept in (/\S+crew\.yaml)", terminal.text)
    assert kept is not None
    assert Path(kept[1]).read_text().endswith("# typed for an hour\nflow: [")


def test_what_an_editor_leaves_that_is_no_text_is_kept_too(notes: Path) -> None:
    spoiled = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_bytes(b'\\xff'); sys.exit()"
    terminal = at_terminal(notes, EDITOR=editor(notes, spoiled, "pass"))
    terminal.expect("3 reject")
    terminal.type("edit")
    assert "is not UTF-8" in terminal.expect("2 drop")
    terminal.hang_up()
    terminal.expect("Your edit is kept in ")
    assert terminal.end() == 6


def test_an_edit_with_faults_may_be_dropped(notes: Path) -> None:
    terminal = at_terminal(notes, VISUAL=editor(notes, "text = 'crew: ['", "pass"))
    first = HASH.search(terminal.expect("3 reject").partition("Run this crew?")[2])
    terminal.type("2")
    terminal.expect("2 drop")
    terminal.type("drop")
    again = HASH.search(terminal.expect("3 reject"))
    assert first is not None
    assert again is not None
    assert first[0] == again[0]
    terminal.type("edit")
    terminal.expect("Nothing was changed.")
    terminal.type("reject")
    terminal.expect("Why?")
    terminal.hang_up()
    assert terminal.end() == 6


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-editor-here --wait", "the editor 'no-such-editor-here' cannot be started"),
        ("code '--wait", "EDITOR cannot be read: No closing quotation"),
    ],
)
def test_an_editor_that_cannot_be_used_is_told_and_it_is_asked_again(
    notes: Path, command: str, message: str
) -> None:
    terminal = at_terminal(notes, EDITOR=command)
    terminal.expect("3 reject")
    terminal.type("edit")
    terminal.expect(message)
    terminal.expect("3 reject")
    terminal.hang_up()
    terminal.expect("Nothing was started.")
    assert terminal.end() == 6


def test_an_approval_is_readable_in_a_narrow_terminal(notes: Path) -> None:
    terminal = at_terminal(notes, width=60)
    shown = terminal.expect("3 reject")
    assert max(len(line) for line in shown.splitlines()) <= 60
    assert "\x1b[" in terminal.raw
    terminal.hang_up()
    assert terminal.end() == 6


def test_nobody_is_asked_where_there_is_no_terminal(tmp_path: Path) -> None:
    crewlog = Cli(tmp_path / "home", made(tmp_path))
    done = crewlog("run", "notes.md")
    assert done.code == 2
    assert "needs a person's approval, and this is no terminal" in done.err
    assert "approve it in advance: --yes" in done.err
    assert "collector ── writer ── checker" in done.out
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("approval", "prompt", "why"),
    [
        ("required", PROMPT, "`approval: required`: a person must approve it, always"),
        (
            "understood",
            PARTIAL,
            "`approval: understood`, and not everything in the prompt was understood",
        ),
    ],
)
def test_yes_is_refused_where_the_policy_says_so(
    tmp_path: Path, approval: str, prompt: str, why: str
) -> None:
    crewlog = Cli(tmp_path / "home", made(tmp_path, approval))
    (tmp_path / "notes.md").write_text(prompt)
    done = crewlog("run", "notes.md", "--yes", "--allow-partial")
    assert done.code == 2
    assert "--yes does not approve this crew" in done.err
    assert why in done.err
    assert not (tmp_path / "home").exists()


def test_a_crew_of_a_part_of_a_prompt_is_approved_by_nobody_in_advance(tmp_path: Path) -> None:
    crewlog = Cli(tmp_path / "home", made(tmp_path, "understood"))
    (tmp_path / "notes.md").write_text(PARTIAL)
    done = crewlog("run", "notes.md", "--allow-partial")
    assert done.code == 2
    assert "needs a person's approval, and this is no terminal" in done.err
    assert "--yes" not in done.err
    assert not (tmp_path / "home").exists()


def test_at_a_terminal_people_are_asked_about_a_part_of_a_prompt(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "notes.md").write_text(PARTIAL)
    terminal = at_terminal(root, "--allow-partial", "--yes")
    shown = terminal.expect("--yes does not approve this crew")
    assert "not understood as a whole" in shown
    assert re.search(r"“Make it snappy\.”\n +→ not understood", shown)
    asked = terminal.expect("3 reject").partition("Run this crew?")[2]
    assert HASH.search(asked)
    terminal.type("reject")
    terminal.expect("Why?")
    terminal.type("say the tone in a form")
    terminal.expect("rejected: say the tone in a form. Nothing was started.")
    assert terminal.end() == 6
    assert not (root / "home").exists()


def test_at_a_terminal_a_refused_yes_is_asked_about(tmp_path: Path) -> None:
    terminal = at_terminal(made(tmp_path, "required"), "--yes")
    terminal.expect("--yes does not approve this crew")
    terminal.expect("3 reject")
    terminal.hang_up()
    assert terminal.end() == 6


@pytest.mark.parametrize(
    ("sentence", "place", "message"),
    [
        ("The writer uses the model gpt-9.", "notes.md:6:1", "'gpt-9'"),
        ("Make it snappy.", "notes.md:6:1", "Say it in a form"),
    ],
)
def test_nothing_runs_with_faults(tmp_path: Path, sentence: str, place: str, message: str) -> None:
    crewlog = Cli(tmp_path / "home", made(tmp_path, "understood"))
    (tmp_path / "notes.md").write_text(f"{PROMPT}{sentence}\n")
    done = crewlog("run", "notes.md", "--yes")
    assert done.code == 2
    assert place in done.err
    assert message in done.err
    assert f"“{sentence}”" in done.out
    assert not (tmp_path / "home").exists()


def test_at_a_terminal_nobody_is_asked_about_faults(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "notes.md").write_text(PARTIAL)
    terminal = at_terminal(root)
    terminal.expect("notes.md:6:1")
    assert terminal.end() == 2
    assert "Run this crew?" not in terminal.text


@pytest.mark.server
@covers("C30")
def test_what_was_approved_is_what_runs(home: Path, tmp_path: Path) -> None:
    root = made(tmp_path, "required")
    run = f"notes-{uuid4().hex[:6]}"
    edit = editor(root, "text = text.replace('at_most: 3', 'at_most: 5')")
    terminal = Terminal(
        *("run", "notes.md", "--input", "v2.1", "--id", run),
        cwd=root,
        env={**environment(home), "EDITOR": edit},
    )
    terminal.expect("3 reject")
    terminal.type("edit")
    asked = HASH.search(terminal.expect("3 reject").partition("Run this crew?")[2])
    terminal.type("approve")
    terminal.expect("done  3 steps")
    assert terminal.end() == 0
    assert asked is not None
    entry = Cli(home, root)("log", run, "--limit", "1", "--json").records[0]["entry"]
    assert entry["kind"] == "RunStarted"
    assert entry["definition"] == asked[0]


@pytest.mark.server
def test_yes_runs_what_was_understood_whole(home: Path, tmp_path: Path) -> None:
    root = made(tmp_path)
    crewlog = Cli(home, root)
    run = f"notes-{uuid4().hex[:6]}"
    done = crewlog("run", "notes.md", "--yes", "--id", run, "--json")
    assert done.code == 0, done.err
    approved, started, *_, result = done.records
    assert (approved["event"], approved["edited"]) == ("approved", False)
    assert (started["event"], result["status"]) == ("started", "completed")
    entry = crewlog("log", run, "--limit", "1", "--json").records[0]["entry"]
    assert entry["definition"] == approved["hash"]


@pytest.mark.server
def test_a_written_part_of_a_prompt_runs_only_after_a_yes(home: Path, tmp_path: Path) -> None:
    root = made(tmp_path, "understood")
    (root / "notes.md").write_text(PARTIAL)
    crewlog = Cli(home, root)
    done = crewlog("compile", "notes.md", "--allow-partial", "--out", "crew.yaml")
    assert done.code == 0, done.err
    refused = crewlog("run", "crew.yaml", "--yes")
    assert (refused.code, "--yes has no effect" in refused.err) == (2, True)
    runs = [f"notes-{uuid4().hex[:6]}" for _ in range(2)]
    for run, answer, code in zip(runs, ("reject", "approve"), (6, 0), strict=True):
        waits = crewlog("run", "crew.yaml", "--id", run)
        assert waits.code == 3, waits.err
        assert "not understood as a whole (1 fault). Run the crew?" in waits.out
        assert "crewlog answer" in waits.out
        assert "collector" not in str(crewlog("trace", run, "--json").records[0]["steps"])
        assert crewlog("answer", run, answer).code == code
    steps = str(crewlog("trace", runs[0], "--json").records[0]["steps"])
    assert "collector" not in steps


@pytest.mark.server
def test_a_registered_registry_is_found_by_its_name(home: Path, tmp_path: Path) -> None:
    root = made(tmp_path)
    crewlog = Cli(home, root)
    assert crewlog("dev", "--detach", "--no-worker").code == 0
    program = (
        "import asyncio, crewlog\n"
        "async def main():\n"
        "    async with await crewlog.connect() as c:\n"
        "        await c.register_registry('registry.yaml')\n"
        "asyncio.run(main())\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=crewlog.env, check=True, timeout=100
    )
    (root / "registry.yaml").unlink()
    found = crewlog("compile", "notes.md", "--registry", "notes", "--json")
    assert found.code == 0, found.err
    assert list(found.records[0]["definition"]["tools"]) == ["write_file"]
    missing = crewlog("compile", "notes.md", "--registry", "ntes")
    assert missing.code == 2
    assert "'ntes'" in missing.err

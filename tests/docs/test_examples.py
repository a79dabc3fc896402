"""What the documentation shows works: crews are loaded and lowered, Python runs, links lead."""

from __future__ import annotations

import ast
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from crewlog.cli import main as cli
from crewlog.definition.load import load_definition
from crewlog.definition.model import (
    AgentDefinition,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    DecisionPhase,
    JoinAny,
    JoinQuorum,
    ParallelPhase,
    PatternUse,
    ToolDefinition,
    WaitPhase,
)
from crewlog.errors import NotInAllowlist
from crewlog.graph.lowering.plans import lower
from crewlog.ids import AgentName, CallKey, RunId, StepId, ToolName
from crewlog.prompt.registry_file import load_registry
from crewlog.testing.script_file import read_script
from crewlog.tool_call import ToolCall, calling, current_call

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").glob("*/README.md"),
    ]
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PHASES = (
    AgentPhase,
    AskPhase,
    BuilderPhase,
    DecisionPhase,
    JoinAny,
    JoinQuorum,
    ParallelPhase,
    WaitPhase,
)
SHOWN_ELSEWHERE = {"max_calls", "heartbeat", "approval"}
"""Keys that need no example: the tables say all there is."""
LINK = re.compile(r"\]\(([^)\s]+)\)")


def _blocks(language: str, start: str = "") -> list[object]:
    found: list[object] = []
    for page in PAGES:
        text = page.read_text()
        for match in FENCE.finditer(text):
            if match[1] == language and match[2].startswith(start):
                line = text.count("\n", 0, match.start()) + 2
                found.append(
                    pytest.param(page, match[2], id=f"{page.relative_to(ROOT)}:{line}")
                )  # fmt: skip
    return found


@pytest.mark.parametrize(("page", "text"), _blocks("yaml", "crew:"))
def test_crews_are_crews(page: Path, text: str) -> None:
    plan = lower(load_definition(text, str(page)))
    assert plan.nodes


@pytest.mark.parametrize(("page", "text"), _blocks("yaml", "registry:"))
def test_registries_are_registries(page: Path, text: str) -> None:
    assert load_registry(text, str(page)).tools


def test_there_are_examples_of_everything_in_the_reference() -> None:
    pages = (ROOT / "docs" / "definition.md", *sorted((ROOT / "docs" / "authority").glob("*.md")))
    text = "\n".join(page.read_text() for page in pages)
    shown = "".join(m[2] for m in FENCE.finditer(text) if m[2].startswith("crew:"))
    for model in (*PHASES, AgentDefinition, CrewDefinition, PatternUse, ToolDefinition):
        for name, field in model.model_fields.items():
            key = field.alias or name
            if key not in SHOWN_ELSEWHERE:
                assert re.search(rf"\b{key}:\s", shown), key


@pytest.mark.parametrize(("page", "text"), _blocks("yaml", "agents:"))
def test_scripts_are_scripts(page: Path, text: str, tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    file.write_text(text)
    assert read_script(file).agents, page


@pytest.mark.parametrize(("page", "text"), _blocks("python"))
def test_python_is_python_and_imports_what_there_is(page: Path, text: str) -> None:
    tree = ast.parse(text, str(page))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), str(page), "exec"), {})  # noqa: S102 - our own pages


def test_the_tool_and_its_test_do_what_the_page_says(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "tools.md").read_text()
    space: dict[str, object] = {}
    for match in FENCE.finditer(text):
        if match[1] == "python":
            exec(match[2], space)  # noqa: S102 - our own page
    space["test_it_writes"](tmp_path)  # type: ignore[operator]
    assert (tmp_path / "notes" / "a.md").read_text() == "text"
    command = space["hand_over"]("all of it", finished=True)  # type: ignore[operator]
    assert command.goto == "reviewer"
    assert set(command.update) == {"flags", "outputs"}
    assert callable(current_call)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if target.startswith(("http:", "https:")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            heads = re.findall(r"^#+ (.+)$", FENCE.sub("", file.read_text()), re.MULTILINE)
            assert anchor in {_anchor(head) for head in heads}, f"{page.name} links to {target}"


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    linked = {target.partition("#")[0] for target in LINK.findall(index)}
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    decisions = {page for page in pages if page.startswith("decisions/")}
    assert pages - decisions - {"README.md"} <= linked


def test_files_that_an_example_lists_are_there() -> None:
    for page in (ROOT / "examples").glob("*/README.md"):
        for row in re.findall(r"^\| (`[^|]+`) \|", page.read_text(), re.MULTILINE):
            for name in re.findall(r"`([\w.-]+\.\w+|[\w.-]+/)`", row):
                assert (page.parent / name).exists(), f"{page} lists {name}"


def _anchor(head: str) -> str:
    return re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")


def test_pictures_are_pictures() -> None:
    for file in (ROOT / "docs" / "images").glob("*.svg"):
        assert ET.parse(file).getroot().tag.endswith("svg")  # noqa: S314 - our own file


def test_commands_that_are_shown_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run_cli(["--help"]) == 0
    known = set(re.findall(r"^[│ ]+([a-z-]+) {2}", capsys.readouterr().out, re.MULTILINE))
    assert {"run", "init", "ps"} <= known
    for page in PAGES:
        text = page.read_text()
        shown = set(re.findall(r"`crewlog ([a-z][a-z-]*)[^`]*`", text))
        for match in FENCE.finditer(text):
            shown |= set(re.findall(r"(?:^|  )crewlog ([a-z][a-z-]*)", match[2], re.MULTILINE))
        assert shown <= known, f"{page.name} shows {shown - known}"


def test_pages_name_no_place_of_a_machine() -> None:
    for page in [*PAGES, *(ROOT / "deploy").glob("*")]:
        if page.is_file():
            found = re.search(
                r"/(work|root|home/\w+)/|pypi\.org|ghcr\.io|\bissue \d", page.read_text()
            )
            assert found is None, f"{page.name}: {found and found[0]}"


def test_the_tools_of_authority_do_what_their_pages_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space: dict[str, Any] = {}
    for page in ("reach.md", "secrets.md"):
        for match in FENCE.finditer((ROOT / "docs" / "authority" / page).read_text()):
            if match[1] == "python":
                exec(match[2], space)  # noqa: S102 - our own page
    call = ToolCall(
        run=RunId("r"),
        step=StepId("a#1"),
        call=1,
        key=CallKey("r/a#1/1"),
        agent=AgentName("a"),
        tool=ToolName("t"),
        workspace=tmp_path,
        paths=("notes/",),
        hosts=("api.example.com",),
        secrets={"GITHUB": "env:GITHUB_TOKEN"},
    )
    monkeypatch.setenv("GITHUB_TOKEN", "a-token-of-length")
    with calling(call):
        assert space["save"]("notes/a.md", "text") == "notes/a.md is saved"
        with pytest.raises(NotInAllowlist):
            space["save"]("../a.md", "text")
        with pytest.raises(NotInAllowlist):
            space["fetch"]("http://169.254.169.254/")
        assert space["open_issue"]("title") is None
    assert (tmp_path / "notes" / "a.md").read_text() == "text"

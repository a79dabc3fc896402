"""What `crewlog run FILE` looks at before it starts a worker of its own, and `validate` at all."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from crewlog.activities.chat_models import ModelFactory
from crewlog.cli import preflight
from crewlog.cli.main import run_cli
from crewlog.cli.preflight import Place, check_worker_can, findable, scripted_note
from crewlog.definition.load import load_file
from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition, ModelRequestRejected
from crewlog.model import Json
from crewlog.providers import provider_problems

CREW = """\
crew: bad
model: openai:gpt-5-mini
agents:
  first: {prompt: P., tools: [t]}
  second: {prompt: P., tools: [u], model: "scripted:nope.yaml"}
tools:
  t: {run: my_tool:go, effects: read}
  u: {run: far.away:go, effects: read, queue: elsewhere}
"""


def test_everything_that_is_missing_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = tmp_path / "crew.yaml"
    file.write_text(CREW)
    (tmp_path / "my_tools.py").write_text("raise SystemExit('imported')")
    crew = load_file(file)
    with pytest.raises(InvalidDefinition) as caught:
        check_worker_can(crew, tmp_path, file)
    found = {(each.line, each.message) for each in caught.value.diagnostics}
    assert {line for line, _ in found} == {2, 5, 7}
    assert "Did you mean 'my_tools'?" in {each.remedy for each in caught.value.diagnostics}

    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (tmp_path / "my_tool.py").write_text("raise SystemExit('imported')")
    (tmp_path / "nope.yaml").write_text("")
    check_worker_can(crew, tmp_path, file)
    assert "my_tool" not in sys.modules
    assert scripted_note(crew) == "▸ model: scripted (nope.yaml)"


def lacking(tmp_path: Path, data: dict[str, Any]) -> dict[Place, str]:
    """What a worker here lacks for a crew, by place."""
    crew = CrewDefinition.from_json({"crew": "c", "model": "openai:m", **data})
    try:
        check_worker_can(crew, tmp_path)
    except InvalidDefinition as error:
        return {each.path: each.message for each in error.diagnostics}
    return {}


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.endswith(("_API_KEY", "_KEY_UNSET")):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_keys")
def test_secrets_that_are_not_set_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"api_key": "env:TEAM_KEY_UNSET", "default_headers": {"x": "env:X_KEY_UNSET"}}
    server = {"url": "https://mcp.example", "headers": {"Authorization": "env:MCP_KEY_UNSET"}}
    tools = {
        "find": {"run": "mcp:docs/find", "effects": "read"},
        "here": {"run": "os:listdir", "secrets": {"A": "env:A_KEY_UNSET"}, "effects": "read"},
        "far": {
            "run": "far:go",
            "queue": "far",
            "secrets": {"B": "env:B_KEY_UNSET"},
            "effects": "read",
        },
    }
    data = {
        "agents": {"a": {"prompt": "P.", "tools": [*tools], "model_settings": settings}},
        "tools": tools,
        "mcp": {"docs": server},
    }
    crew = CrewDefinition.from_json({"crew": "c", "model": "openai:m", **data})
    with pytest.raises(InvalidDefinition) as caught:
        check_worker_can(crew, tmp_path)
    told = " ".join(each.message for each in caught.value.diagnostics)
    assert all(f"'env:{name}_KEY_UNSET' is not set" in told for name in ("TEAM", "X", "MCP", "A"))
    assert "B_KEY" not in told, "the workers of its queue have it"
    for name in ("TEAM", "X", "MCP", "A"):
        monkeypatch.setenv(f"{name}_KEY_UNSET", "a-long-secret")
    check_worker_can(crew, tmp_path)


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize(
    ("window", "own", "lack"),
    [
        ("openai:m2", {}, None),
        ("openai:m", {}, None),
        ("anthropic:m", {}, ("window", "summary")),
        ("openai:m2", {"base_url": "http://team"}, ("window", "summary")),
    ],
)
def test_a_summary_needs_what_it_is_reached_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    window: str,
    own: dict[str, str],
    lack: Place | None,
) -> None:
    """Its settings are those with which it is called; see `summary_settings`."""
    monkeypatch.setenv("TEAM_KEY", "a-long-secret")
    agent = {"prompt": "P.", "model_settings": {"api_key": "env:TEAM_KEY", **own}}
    data = {"agents": {"a": agent}, "window": {"last": 20, "summary": window}}
    assert [*lacking(tmp_path, data)] == ([] if lack is None else [lack])


BLUE: dict[str, Json] = {"default_headers": {"X-Team": "blue"}}
BEARER: dict[str, Json] = {"default_headers": {"Authorization": "Bearer env"}}
KEY: Json = "a-long-secret"


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize(
    ("model", "settings", "enough"),
    [
        ("openai:m", {}, False),
        ("openai:m", BLUE, False),
        ("openai:m", BEARER, False),
        ("openai:m", {"vertexai": True}, False),
        ("openai:m", {"anthropic_api_key": KEY}, False),
        ("openai:m", {"api_key": ""}, False),
        ("openai:m", {"api_key": KEY}, True),
        ("openai:m", {"openai_api_key": KEY}, True),
        ("anthropic:m", BLUE, False),
        ("anthropic:m", BEARER, True),
        ("anthropic:m", {"anthropic_api_key": KEY}, True),
        ("google_genai:m", {"google_api_key": KEY}, True),
        ("google_genai:m", BLUE, False),
    ],
)
async def test_a_worker_is_said_to_lack_a_key_where_it_cannot_make_the_model(
    model: str, settings: dict[str, Json], enough: bool
) -> None:
    lacks = provider_problems(model, settings)
    assert (not lacks) is enough
    made = ModelFactory().get(model, settings, 30.0)
    if enough:
        assert await made
        return
    with pytest.raises(ModelRequestRejected) as refused:
        await made
    assert [refused.value.message] == [lack.message for lack in lacks]


def test_modules_are_found_without_being_run(tmp_path: Path) -> None:
    package = tmp_path / "kit" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "kit" / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "tools.py").write_text("")
    paths = [str(tmp_path), *sys.path]
    assert findable("kit.inner.tools", paths)
    assert findable("os.path", paths)
    assert findable("sys", paths)
    assert not findable("kit.outer", paths)
    assert "kit" not in sys.modules


CODE = """\
crew: c
model: scripted:said.yaml
agents:
  first: {prompt: P., tools: []}
tools:
  fine: {run: "beside:fine", effects: read}
  slip: {run: "beside:fien", effects: read}
  value: {run: "beside:VALUE", effects: read}
  kind: {run: "beside:Kind", effects: read}
  argument: {run: "beside:fine", effects: read, checks: {wat: {maximum: 1}}}
  far: {run: "nowhere:x", effects: read, queue: elsewhere}
  absent: {run: "besides:fine", effects: read}
  broken: {run: "broken:x", effects: read}
  group: {run: "group:x", effects: read}
"""
BESIDE = '''
print("said at import")
VALUE = 7
class Kind: ...
def fine(what: int) -> str:
    """Is fine."""
    return ""
'''


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "beside.py").write_text(BESIDE)
    (folder / "said.yaml").write_text("agents: {first: [{text: hi}]}\n")
    return folder


def faults(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[int, tuple[str, str]]:
    """What `crewlog validate` finds, by line."""
    assert run_cli(["validate", str(file), "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    return {each["line"]: (each["message"], each["remedy"]) for each in error["diagnostics"]}


def test_validate_tells_what_a_worker_could_not_import_or_call(
    code: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (code / "crew.yaml").write_text(CODE)
    (code / "broken.py").write_text("import no_such_thing\n")
    (code / "group.py").write_text("raise ExceptionGroup('in tasks', [KeyError('x')])\n")
    found = faults(code / "crew.yaml", capsys)
    told = {
        7: ("the module 'beside' has no 'fien'", "Did you mean 'fine'?"),
        8: ("'beside:VALUE' is 7, not a function", "Name a function"),
        9: ("'beside:Kind' is the class 'Kind', not a function", "Name a function"),
        10: ("the tool 'argument' has no argument 'wat'", "Did you mean 'what'?"),
        12: ("names the module 'besides', which is not there", "Did you mean 'beside'?"),
        13: ("it imports 'no_such_thing', which is not installed", "Install 'no_such_thing'"),
        14: ("the module 'group' cannot be imported: KeyError: 'x'", "Correct the module"),
    }
    assert list(found) == [*told]
    for line, (message, remedy) in told.items():
        assert message in found[line][0]
        assert remedy in found[line][1]
        assert "crewlog change" not in found[line][1]


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("import os\nos._exit(0)\n", "to import it ends its process"),
        ("import time\ntime.sleep(100)\n", "to import it does not end within"),
    ],
)
def test_a_module_that_ends_or_holds_its_process_is_named(
    module: str,
    told: str,
    code: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preflight, "IMPORT_SECONDS", 20.0)
    text = [*CODE.splitlines()[:6], '  worst: {run: "worst:x", effects: read}']
    (code / "crew.yaml").write_text("\n".join(text) + "\n")
    (code / "worst.py").write_text(module)
    ((line, (message, _)),) = faults(code / "crew.yaml", capsys).items()
    assert (line, told in message) == (7, True)


def test_a_script_is_read_and_a_crew_whose_code_is_there_is_valid(
    code: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (code / "crew.yaml").write_text("\n".join(CODE.splitlines()[:6]) + "\n")
    assert run_cli(["validate", "code/crew.yaml"]) == 0
    assert "said at import" not in capsys.readouterr().out
    (code / "said.yaml").write_text("agents: {first: [{txt: hi}]}\n")
    ((line, (message, _)),) = faults(code / "crew.yaml", capsys).items()
    assert (line, "txt" in message) == (2, True)
    (code / "said.yaml").unlink()
    ((line, (message, _)),) = faults(code / "crew.yaml", capsys).items()
    assert (line, "there is no script" in message) == (2, True)

"""`crewlog_local` in a project of a user's, whichever way it runs its tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from crewlog.client import Endpoints
from crewlog.errors import RunFailed, UsageError
from crewlog.testing import CrewlogLocal, scripted
from crewlog.testing.local import SHARED
from shared import LIMIT

CREW = """\
crew: release-notes
model: openai:gpt-5-mini
agents:
  collector: {prompt: Collect.}
  writer: {prompt: Write., tools: [shout]}
  checker: {prompt: Check., writes_flags: [approved]}
tools:
  shout: {run: my_tools:shout, effects: read}
flow:
  - collector
  - writer
  - checker
  - {if: not approved, go: writer, at_most: 3, else: ask_human}
"""
SCRIPT = """\
agents:
  collector: [{text: Three changes.}]
  writer:
    - {tool_calls: [{tool: shout, args: {text: notes}}]}
    - {text: Done.}
  checker:
    - {tool_calls: [{tool: set_flag, args: {flag: approved, value: true}}]}
    - {text: All true.}
"""
TOOLS = "def shout(text: str) -> str:\n    'Shouts.'\n    return text.upper()\n"
TEST = """\
import pytest
from crewlog.testing import scripted

{mark}
async def test_notes(crewlog_local):
    run = await crewlog_local.run(
        "crew.yaml", input="v2.1..HEAD", model=scripted("notes.script.yaml"), timeout=100
    )
    assert run.steps == ["collector", "writer", "checker"]
    assert run.flags["approved"] is True
    assert run.outputs["writer"]["text"] == "Done."
    tools = [e.entry for e in run.journal if e.entry.kind == "ToolCallCompleted"]
    assert any("NOTES" in each.excerpt for each in tools)
    assert run.state.is_ended
"""


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("auto", ""),
        ("strict", ""),
        (
            "strict",
            "asyncio_default_fixture_loop_scope=session\nasyncio_default_test_loop_scope=session",
        ),
    ],
)
def test_in_a_project(
    pytester: pytest.Pytester,
    server: Endpoints,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    options: str,
) -> None:
    monkeypatch.setenv(SHARED, server.address)
    pytester.makefile(".yaml", crew=CREW)
    (pytester.path / "notes.script.yaml").write_text(SCRIPT)
    pytester.makepyfile(my_tools=TOOLS)
    mark = "@pytest.mark.asyncio" if mode == "strict" else ""
    pytester.makepyfile(test_notes=TEST.format(mark=mark))
    pytester.makeini(f"[pytest]\nasyncio_mode={mode}\n{options}")
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", timeout=200)
    result.assert_outcomes(passed=1)


def test_the_plugin_loads_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import sys\n"
        "def test_it():\n"
        "    assert not {'temporalio', 'langchain_core'} & set(sys.modules)"
    )
    # LangSmith's own plugin is none of ours.
    result = pytester.runpytest_subprocess("-q", "-p", "no:langsmith_plugin", timeout=200)
    result.assert_outcomes(passed=1)


async def test_a_run_that_waits_for_people_says_so(
    crewlog_local: CrewlogLocal,
) -> None:
    model = scripted({"agents": {"*": [{"text": "fine"}]}})
    crew = {"crew": "ask", "agents": {"a": {"prompt": "A."}}, "flow": ["a", {"ask": "Publish?"}]}
    with pytest.raises(UsageError, match=r"waits for people: i1: Publish\?"):
        await crewlog_local.run(crew, model=model, timeout=LIMIT)
    run = await crewlog_local.start(crew, model=model, timeout=LIMIT)
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    await run.answer("i1", "approve")
    finished = await crewlog_local.finished(run)
    assert finished.steps == ["a"]
    assert finished.nodes == ["a", "ask_1"]


async def test_a_registered_crew_with_another_model(crewlog_local: CrewlogLocal) -> None:
    client = await crewlog_local.client()
    await client.register({"crew": "one", "model": "openai:x", "agents": {"a": {"prompt": "A."}}})
    run = await crewlog_local.run("one", model=scripted({"agents": {"a": [{"text": "hi"}]}}))
    assert run.outputs == {"a": {"text": "hi"}}
    crew = {"crew": "two", "agents": {"a": {"prompt": "A.", "on_error": "fail"}}}
    refusing = scripted({"agents": {"a": [{"fail": "refused", "times": 99}]}})
    with pytest.raises(RunFailed):
        await crewlog_local.run(crew, model=refusing)


async def test_a_server_of_its_own(tmp_path: Path) -> None:
    async with CrewlogLocal() as local:
        model = scripted({"agents": {"a": [{"text": "hi"}]}})
        run = await local.run({"crew": "one", "agents": {"a": {"prompt": "A."}}}, model=model)
        assert run.steps == ["a"]
        root = local.workspace.parent
    assert not root.exists()

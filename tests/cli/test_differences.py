"""What differs between two checkpoints, as people read it: settings, prompts, whole texts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crewlog.cli.differing import definition_told, graph_rows, state_told
from crewlog.cli.screen import Screen
from crewlog.cli.texts import bodies_of, lines_between, tell
from crewlog.definition.diff import diff
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.reporting.diff.plan import plan_diff
from crewlog.reporting.diff.state import StateChange, StateDiff

OLD = "You write the report.\nBe polite.\nSay what was tested.\nEnd with a summary."
NEW = "You write the report.\nBe brief.\nSay what was tested.\nEnd with a summary."


def crew(prompt: str, **more: Any) -> CrewDefinition:
    agents: dict[str, Any] = {
        "writer": {"prompt": prompt, "tools": []},
        "editor": {"prompt": "Edit.", "tools": []},
    }
    return load_data(
        {
            "crew": "notes",
            "model": "scripted:s",
            "agents": agents,
            "flow": ["writer", "editor"],
            **more,
        }
    )


def shown(capsys: Any, told: Any) -> list[str]:
    tell(Screen(), told)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_the_prompt_that_differs_is_named_with_its_agent(capsys: Any) -> None:
    found = diff(crew(OLD), crew(NEW, limits={"steps": 9}, model="openai:gpt-5"))
    out = shown(capsys, definition_told(found.changes))
    (line,) = [line for line in out if "writer" in line]
    assert "~ agent writer" in line
    assert "Be polite." in line
    assert "Be brief." in line
    assert any("~ limit steps" in line and line.endswith("→ 9") for line in out)
    assert any("model" in line and line.endswith("scripted:s → openai:gpt-5") for line in out)
    assert not any("editor" in line for line in out)


def test_in_full_a_prompt_is_told_line_by_line(capsys: Any) -> None:
    out = shown(capsys, definition_told(diff(crew(OLD), crew(NEW)).changes, full=True))
    assert out[0].split() == ["definition", "~", "agent", "writer", "prompt"]
    assert [line.strip() for line in out[1:]] == [
        "You write the report.",
        "- Be polite.",
        "+ Be brief.",
        "Say what was tested.",
        "End with a summary.",
    ]


def test_what_the_graph_says_is_not_said_twice() -> None:
    old, new = crew(OLD), crew(OLD, flow=["editor", "writer"])
    assert definition_told(diff(old, new).changes) == []
    assert graph_rows(plan_diff(lower(old), lower(new)), rules=False)
    task = crew(OLD, flow=[{"agent": "writer", "task": "Write it."}, "editor"])
    (told,) = definition_told(diff(old, task).changes)
    assert "task" in str(told.row[-1])


async def test_bodies_are_told_by_what_they_say(capsys: Any) -> None:
    texts = {"h1": {"type": "ai", "content": OLD}, "h2": NEW}

    async def store() -> Any:
        async def get_bodies(wanted: set[str]) -> dict[str, Any]:
            return {name: texts[name] for name in wanted if name in texts}

        return SimpleNamespace(get_bodies=get_bodies)

    found = StateDiff(
        changes=(
            StateChange(section="flags", name="ok", kind="changed", old=False, new=True),
            StateChange(
                section="outputs",
                name="writer.text",
                kind="changed",
                old={"body": "h1"},
                new={"body": "h2"},
            ),
            StateChange(
                section="outputs", name="editor.parts", kind="added", new=[{"body": "h2"}, "x"]
            ),
            StateChange(section="outputs", name="lost.text", kind="added", new={"body": "gone"}),
        )
    )
    client: Any = SimpleNamespace(store=store)
    bodies = await bodies_of(client, [found])
    assert set(bodies) == {"h1", "h2"}
    out = shown(capsys, state_told(found, full=True, bodies=bodies))
    assert out[0].split() == ["flags", "~", "ok", "false", "→", "true"]
    assert "- Be polite." in out[3]
    assert "+ Be brief." in out[4]
    assert "     + Be brief." in out[8:]
    assert out[-1].endswith("+ lost.text   (gone is not in the store)")
    short = shown(capsys, state_told(found))
    assert any("body h1… → body h2…" in line for line in short)


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (None, "a\nb", ["+ a", "+ b"]),
        ("a\nb", None, ["- a", "- b"]),
        ("a", "", ["- a", "+"]),
        (["a"], ["a", "b"], ["  [", '-   "a"', '+   "a",', '+   "b"', "  ]"]),
        ("\x1b[2Ja", "b", ["- [2Ja", "+ b"]),
    ],
)
def test_lines(old: Any, new: Any, lines: list[str]) -> None:
    assert [part[0] for part in lines_between(old, new)] == lines


def test_far_away_lines_are_left_out() -> None:
    old = "\n".join(map(str, range(40)))
    new = old.replace("\n3\n", "\nthree\n").replace("\n33\n", "\nmany\n")
    told = [part[0] for part in lines_between(old, new)]
    assert told.count("…") == 2
    assert "  20" not in told
    assert {"- 3", "+ three", "- 33", "+ many"} <= set(told)

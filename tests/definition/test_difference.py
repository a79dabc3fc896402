"""A change in a line: what it does, without what only follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.difference import summary
from crewlog.definition.load import load_data
from definition.test_operations import FLUTTER, NOTES, add, after, edit_phase, remove
from graph.crews import crew


def edit(name: str, **fields: Any) -> dict[str, Any]:
    return {"op": "edit_agent", "name": name, "set": fields}


POND = {
    "crew": "pond",
    "model": "openai:x",
    "agents": {name: {"prompt": "p", "listen": ["x"]} for name in ("ann", "bob", "cid")},
}
TOOLS = crew(["ui", "backend"], {"ui": {"tools": []}}, tools={"old": {"run": "m:f"}})
MOCK = {"op": "add_tool", "name": "mock_generator", "tool": {"run": "m:f"}, "agents": ["ui"]}


@pytest.mark.parametrize(
    ("base", "operations", "line"),
    [
        (TOOLS, [remove("backend"), MOCK], "removes backend; adds mock_generator for ui"),
        (
            FLUTTER,
            [remove("backend")],
            "removes backend",
        ),
        (FLUTTER, [add("tester", before=["aggregator"])], "adds tester"),
        (FLUTTER, [{"op": "disable_agent", "name": "ui"}], "disables ui"),
        (NOTES, [edit("writer", prompt="q", timeout=5)], "edits writer (prompt, timeout)"),
        (NOTES, [edit_phase("writer", task="Draft.")], "edits the phase writer (task)"),
        (
            NOTES,
            [edit_phase("publisher", after=["writer"])],
            "phase publisher: waits for after_checker → writer",
        ),
        (
            TOOLS,
            [{"op": "set_permission", "tool": "old", "agents": []}],
            "permission to call old: every agent that lists it → nobody",
        ),
        (TOOLS, [{"op": "remove_tool", "name": "old"}], "removes the tool old"),
        (
            NOTES,
            [{"op": "add_phase", "phase": {"ask": "Sure?", "phase": "sure"}}],
            "adds the phase sure",
        ),
        (
            TOOLS,
            [{"op": "edit_tool", "name": "old", "set": {"effects": "read"}}],
            "edits the tool old (effects)",
        ),
        (NOTES, [{"op": "edit_crew", "set": {"limits": {"steps": 9}}}], "limit steps 10000 → 9"),
        (NOTES, [], "changes nothing"),
    ],
)
def test_a_change_in_a_line(base: Any, operations: list[dict[str, Any]], line: str) -> None:
    assert summary(base, after(base, *operations)) == line


def test_a_long_line_says_how_much_more_there_is() -> None:
    base = crew([f"agent_with_a_long_name_{i}" for i in range(20)])
    changed = after(base, *(edit(name, prompt="q") for name in base.agents))
    line = summary(base, changed)
    assert len(line) < 200
    assert line.endswith("; and 16 more")
    whole = summary(base, changed, longest=None)
    assert all(f"edits {name} (prompt)" in whole for name in base.agents)


def test_who_lives_in_another_run_is_not_removed() -> None:
    agents = {name: {"prompt": "p", "listen": ["x"], "send": ["x"]} for name in ("ann", "bob")}
    data = {"crew": "t", "model": "openai:x", "graph": {"root": "ann"}}
    more = dict.fromkeys(("cid", "dan"), agents["ann"])
    old = load_data({**data, "agents": {**agents, **more}})
    assert old.graph is not None
    away = old.graph.model_copy(update={"away": {"dan": "elsewhere"}})
    old = old.model_copy(update={"graph": away})
    told = summary(old, load_data({**data, "agents": agents}))
    assert told == "removes cid; forgets dan, who left before"


@pytest.mark.parametrize("graph", [None, {}, {"queue": 9}])
def test_where_agents_live_is_told_in_words(graph: Any) -> None:
    """Who comes back is named; who stays in another run, or went on from there, is no change."""

    def where(**away: str) -> Any:
        said = None if graph is None and not away else {**(graph or {}), "away": away}
        return load_data({**POND, **({} if said is None else {"graph": said})})

    assert summary(where(ann="r-1", bob="r-1"), where()) == "brings ann and bob back"
    assert summary(where(ann="r-1", bob="r-1"), where(ann="r-2")) == "brings bob back"
    assert summary(where(ann="r-1"), where(ann="r-2")) == "changes nothing"
    left = {name: agent for name, agent in POND["agents"].items() if name != "ann"}
    gone = load_data({**POND, "agents": left, **({} if graph is None else {"graph": graph})})
    assert summary(where(ann="r-1"), gone) == "forgets ann, who left before"

"""Operations of tools: stored or refused; and which agents see which artifacts."""

from __future__ import annotations

from typing import Any

import pytest
from activity_kit import crew
from langchain_core.messages import AIMessage, ToolMessage
from temporalio.exceptions import ApplicationError

from crewlog.activities.artifacts import (
    InvalidOperations,
    build_artifact_changes,
    find_denials,
    find_refused_operations,
    parse_operations,
    with_refused_operations,
)
from crewlog.canonical_json import hash_json
from crewlog.definition.load import load_data
from crewlog.errors import ToolFailed, UsageError
from crewlog.ids import AgentName, CallKey, ContentHash, RunId, StepId, ToolName
from crewlog.operations import add, artifact_update, expect, merge, remove, replace
from crewlog.state.artifacts import (
    MAX_CALL_BYTES,
    MAX_OPERATIONS,
    apply_operations,
    initial_content,
    operations_body,
)
from crewlog.state.calls import CallTool, View
from crewlog.state.logs import empty_log_head
from crewlog.tool_call import ToolCall, calling

CREW = load_data(
    {
        "crew": "t",
        "model": "scripted:x",
        "agents": {"a": {"prompt": "A", "scratch": {}}, "b": {"prompt": "B"}},
        "artifacts": {"doc": {"writers": ["a"], "initial": {"n": []}}},
    }
)


def task(agent: str = "a", **more: Any) -> CallTool:
    return CallTool(
        run=RunId("r"),
        step=StepId(f"{agent}#1"),
        call=2,
        agent=AgentName(agent),
        definition=ContentHash("d"),
        tool=ToolName("t"),
        id="c",
        message=ContentHash("m"),
        **more,
    )


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"op": "add"}, "they are a dict, not a list"),
        ([1], "number 1 is a int"),
        ([{"op": "move", "from": "/a", "path": "/b"}], "number 1 has unknown keys: from"),
        ([{"op": "copy", "path": "/b"}], "is 'copy', none of add"),
        ([{"op": "add", "path": 3, "value": 1}], "a path or an artifact that is not a text"),
        ([{"op": "add", "path": "/a"}], "number 1 has no value"),
        ([{"op": "add", "path": "/a", "value": float("nan")}], "is not JSON"),
        ([{"op": "add", "path": "/a", "value": object()}], "is not JSON"),
        ([{"op": "add", "path": "/a", "value": deep(150)}], "nested deeper than 100"),
        ([{"op": "remove", "path": "/a"}] * (MAX_OPERATIONS + 1), "more than 1,000"),
        ([{"op": "add", "path": "/a", "value": "x" * MAX_CALL_BYTES}], "bytes"),
    ],
)
def test_invalid_operations_are_errors(given: Any, why: str) -> None:
    with pytest.raises(InvalidOperations, match="the tool 't' ran, but its operations") as caught:
        parse_operations("t", given)
    assert why in caught.value.message


def test_operations_are_stored_as_plain_json() -> None:
    given = [add("/a\ud800", {"b": ("x", 1)}), remove("/a", artifact="doc")]
    assert parse_operations("t", given) == [
        {"op": "add", "path": "/a\ufffd", "value": {"b": ["x", 1]}},
        {"op": "remove", "path": "/a", "artifact": "doc"},
    ]


def test_operations_are_tried_on_the_agents_artifacts_only() -> None:
    given = parse_operations("t", [add("/n/-", 1), remove("/x"), expect("/n", []), merge("/y", {})])
    seen = {"doc": initial_content({"n": []})}
    (change,) = build_artifact_changes(task(), CREW, given, seen)
    assert (change.count, change.refused) == (4, 3)
    assert change.base == empty_log_head(RunId("r"), "artifact:doc")  # type: ignore[arg-type]
    assert change.content["initial"] == {"n": []}
    blind = task(view=View(heads={}))
    (change,) = build_artifact_changes(blind, CREW, given, {})
    assert (change.base, change.refused, change.reasons) == ("", 0, ())
    head = ContentHash("h" * 27)
    later = task(view=View(heads={"artifact:doc": head}))  # type: ignore[dict-item]
    (change,) = build_artifact_changes(later, CREW, given, seen)
    assert change.base == head
    assert "initial" not in change.content


def test_a_denied_change_is_reported_before_the_run_checks_it() -> None:
    changes = build_artifact_changes(task("b"), CREW, parse_operations("t", [replace("", {})]), {})
    assert find_denials(CREW, "b", changes) == ["'b' may not change the artifact 'doc'"]
    notes = parse_operations(
        "t", [add("/-", 1, artifact="a.notes"), add("/x", 1, artifact="c.notes")]
    )
    assert find_denials(CREW, "b", build_artifact_changes(task("b"), CREW, notes, {})) == [
        "'b' may not change the artifact 'a.notes'",
        "there is no artifact 'c.notes'",
    ]
    assert find_denials(CREW, "a", build_artifact_changes(task("a"), CREW, notes[:1], {})) == []


def test_an_operation_without_artifact_needs_a_single_artifact() -> None:
    two = CREW.model_copy(update={"artifacts": {**CREW.artifacts, "other": CREW.artifacts["doc"]}})
    with pytest.raises(InvalidOperations, match="doc, other, and it names none"):
        build_artifact_changes(task(), two, parse_operations("t", [remove("/a")]), {})


def test_only_the_message_of_the_call_names_refused_operations() -> None:
    ops = [{"op": "remove", "path": f"/{n}"} for n in range(7)]
    seen = {"doc": apply_operations(initial_content({}), operations_body("a#1/2", "a", ops))}
    mine = ToolMessage("Done.", tool_call_id="c", id="a#1/2")
    blocks = ToolMessage([{"type": "text", "text": "x"}], tool_call_id="c", id="a#1/2")
    other = ToolMessage("Done.", tool_call_id="c", id="a#1/3")
    said = AIMessage("hello", id="a#1/2")
    found = with_refused_operations([mine, other, said, blocks], seen)
    assert found[1:3] == [other, said]
    assert mine.content == "Done."
    assert "- 1: remove '/0': there is no '0'" in str(found[0].content)
    assert "- and 2 more" in str(found[0].content)
    assert len(found[3].content) == 2
    (one,) = find_refused_operations("a#1", [2, 3], seen)
    assert (one.call, one.refused, len(one.reasons)) == (2, 7, 5)


def test_a_tool_gets_a_copy_of_its_agents_artifacts(tmp_path: Any) -> None:
    call = ToolCall(
        run=RunId("r"),
        step=StepId("a#1"),
        call=2,
        key=CallKey("k"),
        id="c",
        agent=AgentName("a"),
        tool=ToolName("t"),
        workspace=tmp_path,
        artifacts={"doc": {"n": [{"x": 1}]}},
    )
    found = call.artifact("doc", "/n/0")
    found["x"] = 2
    assert call.artifact("doc") == {"n": [{"x": 1}]}
    with pytest.raises(ToolFailed, match="sees no artifact 'other'"):
        call.artifact("other")
    with pytest.raises(ToolFailed, match="has nothing at '/n/7'"):
        call.artifact("doc", "/n/7")
    with calling(call):
        command = artifact_update(add("/a", 1), said="Yes.", flags={"ok": True})
    assert command.update["operations"] == [{"op": "add", "path": "/a", "value": 1}]  # type: ignore[index]
    assert command.update["flags"] == {"ok": True}  # type: ignore[index]
    with pytest.raises(UsageError):
        artifact_update()


SUM = {"a": 1, "b": 2}


async def test_a_view_with_an_unreadable_artifact_is_refused(tool_call: Any) -> None:
    hidden = crew(artifacts={"doc": {"readers": ["writer"]}})
    view = View.model_validate({"heads": {"artifact:doc": hash_json("head")}})
    with pytest.raises(ApplicationError, match="may not see the artifact 'doc'") as caught:
        await tool_call("add", SUM, crew=hidden, view=view)
    assert caught.value.type == "LogAccessDenied"
    with pytest.raises(ApplicationError, match="there is no artifact 'doc'"):
        await tool_call("add", SUM, view=view)
    assert (await tool_call("add", SUM, crew=hidden)).ok


@pytest.mark.parametrize("other", ["private:writer", "artifact:hidden"])
async def test_the_head_of_another_log_is_refused(tool_call: Any, log: Any, other: str) -> None:
    log.says("a secret", other)
    batch = log.batch()
    seen = crew(artifacts={"doc": {}, "hidden": {"readers": []}})
    view = View.model_validate({"heads": {"artifact:doc": log.heads[other]}})
    with pytest.raises(ApplicationError, match=f"is one of '{other}'") as caught:
        await tool_call("add", SUM, crew=seen, view=view, batch=batch)
    assert caught.value.type == "LogAccessDenied"

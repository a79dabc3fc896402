"""The builder's tools, each called as a run calls it."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from crewlog.ids import AgentName, CallKey, RunId, StepId, ToolName
from crewlog.state.artifacts import apply_operations as applied
from crewlog.state.artifacts import initial_content
from crewlog.tool_call import ToolCall, calling

from .conftest import Inside

FOUND = [{"type": "trigger.schedule", "reason": "starts"}, {"type": "flow.if", "reason": "decides"}]
DAILY = {"type": "trigger.schedule", "parameters": {"rule": "days"}}


@pytest.fixture
def tools(inside: Inside) -> ModuleType:
    return inside("workflow_builder", "tools")[0]


def call(workflow: Any = None, **more: Any) -> ToolCall:
    return ToolCall(
        run=RunId("r"),
        step=StepId("builder#1"),
        call=1,
        key=CallKey("k"),
        id="c1",
        agent=AgentName("builder"),
        tool=ToolName("t"),
        workspace=Path(),
        artifacts={"workflow": workflow or {"nodes": {}, "connections": {}}},
        **more,
    )


def done(workflow: Any, command: Any) -> Any:
    """The workflow after what a tool returned."""
    body = {"id": "builder#1/1", "operations": command.update["operations"]}
    content = applied(initial_content(workflow), body)
    assert not content.left_out
    return content.value


def test_what_tools_return_builds_a_workflow(tools: ModuleType) -> None:
    workflow: Any = {"nodes": {}, "connections": {}}
    for name, arguments in (
        ("add_node", ("Daily", "trigger.schedule")),
        ("add_node", ("Rain a b", "flow.if")),
        ("connect_nodes", ("Daily", "Rain a b")),
        ("set_parameters", ("Daily", {"rule": "days", "at": "07:00"})),
        ("set_parameters", ("Daily", {"at": None})),
    ):
        with calling(call(workflow)):
            workflow = done(workflow, getattr(tools, name)(*arguments))
    assert workflow["nodes"]["Daily"] == DAILY
    assert list(workflow["connections"]) == ["Daily:main->Rain a b:main"]
    with calling(call(workflow)):
        workflow = done(workflow, tools.remove_node("Rain a b"))
    assert workflow == {"nodes": {"Daily": DAILY}, "connections": {}}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("add_node", ("Daily", "trigger.shedule"), "Did you mean trigger.schedule"),
        ("add_node", ("There", "flow.if"), "there is a node 'There' already"),
        ("add_node", ("a/b", "flow.if"), "is no name"),
        ("connect_nodes", ("There", "There", "rain"), "has no output 'rain'; it has: main"),
        ("set_parameters", ("There", {"evry": 1}), "has no parameter 'evry'"),
        ("set_parameters", ("There", {"rule": "yearly"}), "It is one of: minutes"),
        ("set_parameters", ("Away", {}), "there is no node 'Away'; there are: There"),
        ("search_nodes", ("mail", "nothing"), "there is no group 'nothing'"),
    ],
)
def test_a_wrong_call_is_told_what_to_do(
    tools: ModuleType, name: str, arguments: tuple[Any, ...], said: str
) -> None:
    there = {"nodes": {"There": DAILY}, "connections": {}}
    with calling(call(there)), pytest.raises(ValueError, match=said):
        getattr(tools, name)(*arguments)


def test_each_stage_sees_its_part_of_the_catalogue(tools: ModuleType) -> None:
    used = {"nodes": {"Daily": DAILY}, "connections": {}}
    with calling(call(used, inputs={"discovery.found": FOUND}, declared=("discovery.found",))):
        assert "dev.jira_issue" in tools.search_nodes("jira")
        assert "every (number" in tools.node_details(["trigger.schedule"])
        assert tools.discovered_details().splitlines() == [
            "trigger.schedule: inputs none: it begins a workflow; outputs main",
            "flow.if: inputs main; outputs true, false",
        ]
        assert "flow.if" not in tools.used_details()
        assert "rule (minutes|hours|days|weeks|cron, required)" in tools.used_details()
        with pytest.raises(ValueError, match="was not discovered for this workflow"):
            tools.add_node("Ask", "dev.jira_issue")

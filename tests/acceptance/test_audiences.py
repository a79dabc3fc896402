"""Who sees what, on the real server: every model's input is searched for what is for others."""

from __future__ import annotations

import json
import re

from covers import covers
from crewlog.definition.operations import EditAgent, EditCrew
from crewlog.wire import WORKFLOW_TYPE

from .harness import LIMIT, RUN_LIMIT, SHARED, Site, calls, tool, until

MARK = re.compile(r"<<([a-z0-9 -]+)>>")


@covers("C21", "C22", "C23")
async def test_no_model_is_given_what_is_for_others_also_after_a_change(crews: Site) -> None:
    finds = calls(
        ("echo", {"text": "<<work>>"}),
        ("set_output", {"key": "finds", "value": ["<<item 1>>", "<<item 2>>"]}),
        text="<<aside>>",
    )
    crew = crews.crew(
        {
            "scout": [finds, {"text": "<<found>>"}],
            "analyst": [{"text": "<<weighed>>"}, {"text": "<<weighed again>>"}],
            "helper": [{"text": "<<helped>>"}],
            "keeper": [calls(("gate", {"name": "g"})), {"text": "<<kept>>"}],
            "author": [{"text": "<<written>>"}],
        },
        rules={
            "scout": {"writes": ["group:g"], "outputs": ["finds"]},
            "analyst": {"writes": ["channel:board"]},
            "helper": {"writes": ["readers:scout+author"], "reads": ["group:g"]},
        },
        tools={"echo": tool("echo"), "gate": tool("gate")},
        groups={"g": ["scout", "analyst", "helper"]},
        logs={"board": {"readers": ["author"], "writers": ["analyst"]}},
        flow=[
            "scout",
            "analyst",
            {"agent": "helper", "for_each": "scout.finds"},
            "keeper",
            {"agent": "analyst", "phase": "again"},
            "author",
        ],
    )
    run = await crews.start(crew, "<<go>>")
    await until(lambda: crews.ledger(run, "start", tool="gate"), "the tool")
    await run.message("<<whisper>>", to="readers:keeper+author")
    await run.change(operations=[EditCrew(set={"groups": {"g": ["scout", "helper"]}})])
    crews.open_gate(run, "g")
    result = await run.result(LIMIT)
    assert result.status == "completed"
    seen: dict[str, set[str]] = {}
    for prompt in crews.prompted(run):
        seen[prompt["step"]] = {*MARK.findall(json.dumps(prompt["messages"]))}
    assert seen == {
        "scout#1": {"go", "aside", "work", "item 1", "item 2"},
        "analyst#1": {"go", "found"},
        "helper#1.1": {"found", "item 1"},
        "helper#1.2": {"found", "item 2"},
        "keeper#1": {"go", "whisper"},
        "again#1": {"go", "kept", "weighed"},
        "author#1": {"go", "kept", "weighed", "weighed again", "helped", "whisper"},
    }


async def test_a_call_that_waited_for_a_worker_is_shown_what_its_agent_may_read_by_then(
    crews: Site,
) -> None:
    crew = crews.crew({"a": [{"text": "A"}]}, flow=["a"])
    given = {"crew": crew, "input": "<<go>>", "by": "test", "queue": "later"}
    await crews.temporal.start_workflow(
        WORKFLOW_TYPE, given, id="late", task_queue=SHARED, execution_timeout=RUN_LIMIT
    )
    run = crews.client().run("late")
    crews.runs.append(run)
    await run.wait_until(lambda view: bool(view.frontier and view.frontier[0].calls), LIMIT)
    await run.change(operations=[EditAgent(name="a", set={"reads": []})])
    await crews.start_worker("later")
    try:
        assert (await run.result(LIMIT)).outputs["a"]["text"] == "A"
    finally:
        crews.end_workers("later")
    (prompt,) = crews.prompted(run)
    assert MARK.findall(json.dumps(prompt["messages"])) == []
    journal = await crews.entries(run)
    assert [e.kind for e in journal if e.kind in ("StepFailed", "ModelCallCompleted")] == [
        "ModelCallCompleted"
    ]

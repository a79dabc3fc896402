"""Who sees what, on the real server: every model's input is searched for what is for others."""

from __future__ import annotations

import json
import re

from crewlog.definition.operations import EditCrew

from .harness import LIMIT, Site, calls, tool, until

MARK = re.compile(r"<<([a-z0-9 -]+)>>")


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

"""Data sets of runs, and stages tried alone on them, on the real server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from covers import covers
from crewlog.canonical_json import hash_json
from crewlog.client import Run
from crewlog.definition.load import load_data
from crewlog.errors import UsageError
from crewlog.evaluation import (
    Case,
    Plan,
    StageOutput,
    Verdict,
    dataset,
    evaluate,
    exact,
    written_out,
)
from crewlog.usage import Usage

from .harness import Site, calls, tool

SAID = {
    "fine": False,
    "why": "no end",
    "notes": [{"to": "writer", "text": "shorter"}, {"to": "scout", "text": "look again"}],
}
VERDICT = {
    "type": "object",
    "properties": {
        "fine": {"type": "boolean"},
        "why": {"type": "string"},
        "notes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"to": {"type": "string"}, "text": {"type": "string"}},
            },
        },
    },
    "required": ["fine", "why"],
}


def whole(site: Site) -> dict[str, Any]:
    """A crew with groups, items, inputs, windows, replies of a form, artifacts and a loop."""
    found = calls(("set_output", {"key": "finds", "value": ["one", "two " * 100]}))
    adds = {"artifact": "page", "op": "add", "path": "/title", "value": "Two"}
    crew = site.crew(
        {
            "scout": [calls(("echo", {"text": "work"})), found, {"text": "I found two."}],
            "helper": [{"text": "helped"}],
            "writer": [
                calls(("change", {"operations": [adds], "after": ""})),
                {"text": "draft 1"},
                calls(("set_flag", {"flag": "good", "value": True})),
                {"text": "draft 2"},
            ],
            "critic": [{"text": f"I say: {json.dumps(SAID)}"}],
        },
        rules={
            "scout": {"writes": ["group:g"], "outputs": ["finds"]},
            "helper": {"writes": ["group:g"], "inputs": ["scout.finds", "input"]},
            "writer": {
                "writes_flags": ["good"],
                "window": {"last": 1, "summary": "extract"},
                "inputs": ["critic.why", "critic.notes", "flag:good", "artifact:page"],
            },
            "critic": {
                "reply": {"schema": VERDICT, "tagged": {"notes": "to"}},
                "reads": [],
                "writes": [],
                "shares": ["readers:writer"],
                "inputs": ["writer.text"],
            },
        },
        tools={"echo": tool("echo"), "change": {**tool("change"), "run": "building:change"}},
        groups={"g": ["scout", "helper"]},
        artifacts={"page": {"initial": {"parts": []}, "writers": ["writer"]}},
        flags={"good": False},
    )
    crew["flow"] = [
        "scout",
        {"agent": "helper", "for_each": "scout.finds", "task": "Look at it."},
        "writer",
        {"if": "good", "go": "end"},
        "critic",
        {"if": "not good", "go": "writer", "at_most": 2},
    ]
    return crew


def told(messages: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    """What a model is told by messages: their kinds, texts and calls."""
    return [
        (m["type"], m["content"], [(c.get("name", c.get("tool")), c["args"]) for c in calls_])
        for m in messages
        for calls_ in [m.get("tool_calls", ())]
    ]


def shown(site: Site, run: Run, step: str) -> list[tuple[str, str, Any]]:
    """What the first call of a step was shown of what was said."""
    first = next(p for p in site.prompted(run) if p["step"] == step and p["call"] == 1)
    besides = ("It is your turn", "Your item (", "What you are given:")
    said = [m for m in first["messages"][1:] if not m["content"].startswith(besides)]
    return told(said)


@covers("C91")
async def test_a_case_has_what_its_stage_was_shown_and_what_it_made(crews: Site) -> None:
    run, _ = await crews.finish(whole(crews))
    cases = await dataset(crews.client(), run.id)
    by_step = {case.step: case for case in cases}
    assert [case.step for case in cases if case.stage != "helper"] == [
        "scout#1", "writer#1", "critic#1", "writer#2",
    ]  # fmt: skip
    assert {"helper#1.1", "helper#1.2"} <= {*by_step}
    for case in cases:
        assert told([*case.input.messages]) == shown(crews, run, case.step), case.step
    scout = by_step["scout#1"]
    assert scout.output.fields == {"finds": ["one", "two " * 100]}
    assert (scout.output.text, scout.usage.calls, scout.usage.tool_calls) == ("I found two.", 3, 2)
    first, second = by_step["writer#1"], by_step["writer#2"]
    assert second.output.flags == {"good": True}
    writer = [m["content"] for m in second.input.messages]
    assert not any("found" in each or "helped" in each for each in writer), "it is for the group"
    page = {"parts": [], "title": "Two"}
    assert first.input.artifacts == {"page": {"parts": []}}
    assert first.output.artifacts == second.input.artifacts == {"page": page}
    assert [each["path"] for each in first.output.operations or ()] == ["/title"]
    assert second.input.inputs == {
        "critic.why": "no end",
        "critic.notes": [{"to": "writer", "text": "shorter"}],
        "flag:good": False,
        "artifact:page": page,
    }
    critic = by_step["critic#1"]
    assert critic.output.fields == SAID
    assert (critic.input.messages, critic.input.inputs) == ((), {"writer.text": "draft 1"})
    item = by_step["helper#1.2"].input
    assert item.item == f"Your item (2 of 2): {'two ' * 100}"
    assert item.inputs == {"scout.finds": ["one", "two " * 100], "input": "go"}
    again = Case.from_json(scout.to_json())
    assert again == scout
    assert [c.step for c in await dataset(crews.client(), run.id, ["critic"])] == ["critic#1"]
    with pytest.raises(UsageError, match="no agent 'critc' took a turn") as refused:
        await dataset(crews.client(), run.id, ["critc"])
    assert "Did you mean 'critic'?" in refused.value.remedy


async def compared(case: Case, got: StageOutput, _run: str) -> tuple[Verdict, Usage]:
    return exact(case, got), Usage()


def prompted(site: Site, run: Run, step: str) -> str:
    """The hash of what the first call of a step was given: all messages, and the tools."""
    first = next(p for p in site.prompted(run) if p["step"] == step and p["call"] == 1)
    return hash_json([first["messages"], first["tools"]])


@covers("C90", "C91")
async def test_a_stage_alone_is_told_what_it_was_told_in_the_crew(crews: Site) -> None:
    """Byte for byte; and what it makes of it is compared."""
    data = whole(crews)
    run, _ = await crews.finish(data)
    client = crews.client()
    cases = await dataset(client, run.id)
    plan = Plan(
        id=f"eval-{run.id}",
        crew=written_out(load_data(data)),
        cases=dict(enumerate(cases, 1)),
        models=[None],
        compare=compared,
    )
    report = await evaluate(client, plan)
    assert [t.outcome for t in report.trials] == ["passed"] * len(cases), report.trials
    assert all(trial.same for trial in report.trials)
    for case, trial in zip(cases, report.trials, strict=True):
        alone = client.run(trial.run)
        assert prompted(crews, alone, f"{case.phase}#1") == prompted(crews, run, case.step)

"""What people wrote and no prompt can say stands when a prompt changes a run on the real server."""

from __future__ import annotations

from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import AddAgent, RemoveAgent
from crewlog.errors import ChangeConflict, CommandRejected
from crewlog.ids import ContentHash

from .harness import Site, calls, tool
from .test_change import at_gate, cut, outputs

PROMPT = (
    "The collector gathers the changes, then the writer drafts the notes, "
    "then the checker reviews them."
)
KEPT: dict[str, Any] = {
    "groups": {"desk": ["collector", "writer"]},
    "logs": {"facts": {"readers": ["writer"], "writers": ["collector"]}},
    "rules": [{"tool": "gate", "agents": ["group:desk"], "quota": "5 per run"}],
    "flags": {"urgent": True},
    "timezone": "Europe/Berlin",
    "interrupts": {"people": ["ana"], "approve_risk": "high"},
    "checkpoints": {"keep_last": 7},
    "memory": {"write": {"public": ["writer"]}},
    "limits": {"tokens": 90_000, "steps": 70},
}


async def test_a_prompt_takes_nothing_that_people_wrote(crews: Site) -> None:
    crew = crews.crew(
        {
            "collector": [calls(("gate", {"name": "g"})), {"text": "C"}],
            "writer": [{"text": "W"}],
            "checker": [{"text": "fine"}],
        },
        tools={"gate": tool("gate") | {"paths": ["notes/"]}},
    )
    crew = cut(crew, "collector", "writer") | KEPT
    crew["agents"]["writer"]["max_calls"] = 3
    run = await at_gate(crews, crew)
    renamed = PROMPT.replace("the writer", "the author")
    with pytest.raises(CommandRejected) as caught:
        await run.change(prompt=renamed, reader="forms")
    assert "group desk: \u2013 writer would be lost" in str(caught.value)
    assert "the prompt has author and checker as new, and no writer" in str(caught.value)
    told = await run.change(prompt=PROMPT, reader="forms", dry_run=True)
    await run.change(prompt=PROMPT, reader="forms", expect=told.definition, wait=False)
    crews.open_gate(run, "g")
    await run.result()
    found: dict[str, Any] = await crews.store.get_definition(ContentHash(told.definition))
    assert found["agents"].keys() == {"collector", "writer", "checker"}
    for key, value in KEPT.items():
        assert found[key] == value, key
    assert found["agents"]["writer"]["max_calls"] == 3
    assert found["tools"]["gate"]["paths"] == ["notes/"]


async def with_a_lawyer(crews: Site, after: str) -> Run:
    """A paused run, to which an agent was added after another one."""
    crew = crews.crew(
        {
            "collector": [calls(("gate", {"name": "g"})), {"text": "C"}],
            "writer": [{"text": "W"}],
            "checker": [{"text": "fine"}],
            "lawyer": [{"text": "legal"}],
        },
        tools={"gate": tool("gate")},
    )
    run = await at_gate(crews, cut(crew, "collector", "writer"))
    await run.pause()
    lawyer = AddAgent(name="lawyer", agent={"prompt": "Find risks."}, phase={"after": after})
    await run.change(operations=[lawyer], wait=False)
    crews.open_gate(run, "g")
    await run.wait_until(lambda view: view.graph_version == 2)
    return run


@covers("C118")
async def test_each_prompt_keeps_who_joined_while_the_run_lives(crews: Site) -> None:
    run = await with_a_lawyer(crews, "collector")
    first = await run.change(prompt=PROMPT, reader="forms")
    assert first.report is not None
    assert (first.report.added, first.report.removed) == (("checker",), ())
    short = "The collector gathers the changes, then the writer drafts the notes."
    second = await run.change(prompt=short, reader="forms")
    assert second.report is not None
    assert (second.report.added, second.report.removed) == ((), ("checker",))
    await run.resume()
    assert await outputs(run) == {"collector": "C", "writer": "W", "lawyer": "legal"}


async def test_a_prompt_that_leaves_no_place_for_them_is_a_conflict(crews: Site) -> None:
    run = await with_a_lawyer(crews, "writer")
    with pytest.raises(ChangeConflict, match="'lawyer' was added after 'writer'"):
        await run.change(prompt="The collector gathers the changes.", reader="forms")
    await run.change(operations=[RemoveAgent(name="lawyer")])
    await run.change(prompt="The collector gathers the changes.", reader="forms")
    await run.resume()
    assert (await outputs(run)).keys() == {"collector"}

"""What people wrote and no prompt can say stands when a prompt changes a run on the real server."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import CommandRejected
from crewlog.ids import ContentHash

from .harness import Site, calls, tool
from .test_change import at_gate, cut

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

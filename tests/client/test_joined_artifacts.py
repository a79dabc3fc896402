"""An artifact that two runs changed side by side, once they are one."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.client.artifacts import artifacts_of
from crewlog.ids import AgentName, ContentHash, RunId, StepId, artifact_log
from crewlog.reporting.wire_views import entry_view
from crewlog.state import journal as j
from crewlog.state.artifacts import operations_body
from crewlog.store import InMemoryStore, Store
from crewlog.wire import JournalPage
from store.branches import Branch

LOG = artifact_log("doc")


class OneCrew(InMemoryStore):
    """A store in which every definition is the same."""

    async def get_definition(self, hash_: ContentHash) -> dict[str, Any]:
        agents = {"ann": {"prompt": "p"}}
        artifacts = {"doc": {"initial": {}}}
        return {"crew": "band", "model": "m", "agents": agents, "artifacts": artifacts}


class Reads:
    """A run whose store has the entries up to a position, and which tells the rest itself."""

    def __init__(self, store: Store, branch: Branch, entries: list[dict[str, Any]]) -> None:
        self.id = branch.run
        self._store = store
        self._items = tuple(
            entry_view(position, entry)
            for position, entry in enumerate(entries, branch.position - len(entries) + 1)
        )

    async def open_store(self) -> Store:
        return self._store

    async def position_of(self, at: int | str) -> int:
        return int(at)

    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage:
        return JournalPage(entries=tuple(i for i in self._items if i.position > after)[:limit])


def change(branch: Branch, call: int, path: str) -> ContentHash:
    operation = {"op": "add", "path": path, "value": str(branch.run)}
    step, agent = StepId("ann#1"), AgentName("ann")
    body = operations_body(f"{step}/{call}", agent, [operation], None)
    ref = j.MessageRef(body=hash_json(body), logs=(LOG,), inline=body)
    branch.add(
        j.ArtifactOperationsApplied(
            step=step, call=call, agent=agent, artifact="doc", ref=ref, count=1
        )
    )
    return ref.body


@pytest.mark.parametrize("told", [True, False], ids=["stored", "told by the run"])
@pytest.mark.parametrize("stays", [0, 1])
async def test_people_are_shown_what_agents_are(told: bool, stays: int) -> None:
    """The operations of both in the order of their positions, those of before once."""
    store = OneCrew()
    one = Branch(RunId("r"))
    change(one, 1, "/both")
    await one.stored(store)
    two = Branch(RunId("other"), one)
    for each, call in ((one, 2), (two, 3)):
        change(each, call, "/last")
        change(each, call + 10, f"/{each.run}")
        await each.stored(store)
    keeper, goer = (one, two) if stays == 0 else (two, one)
    keeper.joins(goer)
    change(keeper, 20, "/after")
    left = list(keeper.pending)
    if told:
        await keeper.stored(store)
    (found,) = await artifacts_of(Reads(store, keeper, [] if told else left), ["doc"])
    assert (found.calls, found.applied, found.missed) == (6, 6, 0)
    assert found.content == {
        "both": "r",
        "last": "other",
        "after": keeper.run,
        "r": "r",
        "other": "other",
    }

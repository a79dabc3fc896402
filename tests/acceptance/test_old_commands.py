"""A command's id holds for a run's whole life: also where the run remembers it no more."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from crewlog.errors import CommandConflict, CommandRejected
from crewlog.ids import CommandId

from .harness import LIMIT, Site
from .test_change import cut, gated

MANY = 260


async def test_an_old_id_has_no_second_effect(crews: Site) -> None:
    """Neither in the same execution nor in the next one; and its outcome is told again."""
    crew = cut(gated(crews), {"ask": "Begin?"}, "b")
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await run.message("pay now", id="one")
    first = await run.edit_state({"shared.x": 1}, id="edit")
    with pytest.raises(CommandRejected) as refused:
        await run.edit_state({"nowhere": 1}, id="refused")
    for group in range(0, MANY, 20):
        await asyncio.gather(*(run.message(".", id=f"x{n}") for n in range(group, group + 20)))
    await run.wait_until(lambda view: view.position > MANY, LIMIT)
    state = await run.state()
    assert not {"one", "edit", "refused"} & set(state.commands)

    async def again() -> None:
        await run.message("pay now", id="one")
        repeated = await run.edit_state({"shared.x": 1}, id="edit")
        assert repeated.position == first.position
        with pytest.raises(CommandRejected) as anew:
            await run.edit_state({"nowhere": 1}, id="refused")
        assert refused.value.message in anew.value.message
        with pytest.raises(CommandConflict):
            await run.edit_state({"shared.x": 2}, id="edit")

    await again()
    found = await run.outcome(CommandId("one"))
    assert found is not None
    assert found.ok
    await run.change(definition=cut(gated(crews), {"ask": "Begin?"}, "b", "c"))
    await again()
    await run.answer("i1", "approve")
    await run.result(LIMIT)
    entries = await crews.entries(run, "MessageAdded", "StateEdited")
    counted = Counter(entry.command for entry in entries if entry.command)
    assert set(counted.values()) == {1}
    assert counted["one"] == counted["edit"] == 1
    assert len(counted) == MANY + 2

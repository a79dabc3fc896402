"""Tags that come as bare signals, of positions that the execution does not have itself."""

from __future__ import annotations

import asyncio

from .harness import LIMIT, Site


async def test_a_tag_of_an_older_position_is_looked_up(crews: Site) -> None:
    crew = crews.crew({"a": [{"text": "A"}], "b": [{"text": "B"}]}, flow=["a", {"ask": "Go?"}, "b"])
    run = await crews.start(crew)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (place,) = (c.position for c in (await run.checkpoints()).checkpoints if c.step == "a#1")
    await run.change(remove=["b"])
    await run.wait_until(lambda view: view.graph_version == 2, LIMIT)
    assert (await run.state()).execution == 2
    gateway = crews.client().gateway
    for number, (checkpoint, tag) in enumerate([(place - 1, "none"), (place, "good")]):
        content = {"id": f"t{number}", "checkpoint": checkpoint, "tag": tag}
        await gateway.signal(run.id, "tag", content)

    async with asyncio.timeout(LIMIT):
        while "t1" not in (state := await run.state()).commands:  # noqa: ASYNC110 - by its query
            await asyncio.sleep(0.05)
    assert state.tags == {"good": place}
    assert not state.commands["t0"].ok
    assert f"{run.id}@{place}" in state.commands["t0"].detail
    (question,) = await run.interrupts()
    await run.answer(question.id, "approve")
    assert (await run.result(LIMIT)).status == "completed"
    assert (await run.rebuild()).whole

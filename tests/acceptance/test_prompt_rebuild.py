"""`Run.rebuild` of runs that were started with a prompt: with a crew, without one yet, or never."""

from __future__ import annotations

from typing import Any

from .harness import LIMIT, Site
from .test_prompt_runs import asked, begun, definition_of
from .test_rebuild import (
    QUEUE,
    assert_same,
    at_rest,
    db,
    drop,
    dump,
    is_whole,
    lose,
    rebuilt_by_command,
    worker,
)

__all__ = ["db"]


async def test_rows_of_a_run_that_waits_for_approval(site: Site, db: Any) -> None:
    await worker(site)
    run = await begun(site, {"text": "no"}, {"text": "no"}, queue=QUEUE)
    await run.wait_until(lambda view: view.position >= 3, LIMIT)
    await run.stop()
    await run.result(LIMIT)
    run = await begun(site, queue=QUEUE)
    edited = definition_of(await asked(run))
    edited["limits"] = {"events": 50}
    await run.edit("i1", edited)
    question = await asked(run, 2)
    await run.message("kept", id="m1")
    number, execution = 0, 1
    while execution == 1:  # a last round in the second one: its facts are in the run's row
        number, execution = number + 1, (await run.status()).execution
        await run.pause(id=f"p{number}")
        await run.wait_until(lambda view: view.status == "paused", LIMIT)
        await run.resume(id=f"r{number}")
        await run.wait_until(lambda view: view.status == "waiting", LIMIT)
    await at_rest(site, run)
    before = await dump(db)
    assert [row["crew"] for row in before["runs"]] == [None, None]
    await lose(db)
    for each in site.runs:
        assert is_whole(await each.rebuild())
    assert_same(await dump(db), before)

    await worker(site)
    assert (await asked(run, 2)) == question
    await run.answer("i2", "approve", about=question.hash)
    assert (await run.result(LIMIT)).outputs["writer"]["text"] == "W"
    after = await dump(db)
    await drop(db)
    for each in site.runs:
        assert is_whole(await rebuilt_by_command(site, each))
    assert_same(await dump(db), after)

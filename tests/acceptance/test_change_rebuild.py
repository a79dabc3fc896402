"""`Run.rebuild` of a run that was changed while it lived: nothing is lost at the swaps."""

from __future__ import annotations

from typing import Any

from crewlog.definition.operations import EditAgent

from .harness import LIMIT, Site, calls
from .test_change import at_gate, cut, gated
from .test_creatures import living
from .test_rebuild import (
    QUEUE,
    assert_same,
    assert_same_once_more,
    at_rest,
    db,
    dump,
    is_whole,
    lose,
    worker,
)

__all__ = ["db"]


async def test_rows_are_the_same_again_after_swaps(site: Site, db: Any) -> None:
    await worker(site)
    crew = gated(site)
    ask = {"ask": "Begin?"}
    run = await at_gate(site, cut(crew, "a", ask, "b"), queue=QUEUE)
    # A dry run and a refused change make a definition each, and nothing of the run.
    await run.change(definition=cut(crew, "a", ask, ["b", "c"]), dry_run=True)
    accepted = await run.change(definition=cut(crew, "a", ask, "b", "c"), wait=False)
    site.open_gate(run, "g")
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    # Nothing is under way: it leaves at once, and carries what it has not stored.
    await run.change(operations=[EditAgent(name="b", set={"prompt": "You are terse."})])
    await run.change(definition=cut(crew, "a", ask, "c"))
    await run.pause()  # a fact of the new execution is in the run's row
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    await at_rest(site, run)
    before = await dump(db)
    await lose(db)
    site.end_workers(QUEUE)
    report = await run.rebuild()
    assert is_whole(report)
    assert_same(await dump(db), before)

    await worker(site)
    await run.resume()
    await run.answer("i1", "approve")
    assert (await run.result(LIMIT)).outputs["c"]["text"] == "C"
    swapped = await site.entries(run, "GraphSwapped")
    assert [e.graph_version for e in swapped] == list(range(2, len(swapped) + 2))
    assert swapped[0].definition == accepted.definition
    await assert_same_once_more(site, db, run)


async def test_rows_are_the_same_again_after_agents_changed_their_graph(
    site: Site, db: Any
) -> None:
    await worker(site)
    crew = living(
        site,
        {
            "root": [
                calls(
                    ("group_add_node", {"name": "w", "prompt": "Work.", "wires": ["root"]}),
                    ("group_wire", {"name": "root", "to": "w"}),
                    ("group_remove_node", {"name": "nobody"}),
                ),
                {"text": "Go."},
                {"text": ""},
            ],
            "w": [{"text": "Done."}],
        },
        {},
        root="root",
        ends_on=["over"],
    )
    crew["flags"] = {"over": False}
    del crew["agents"]["w"]
    run = await site.start(crew, "Begin.", queue=QUEUE)
    await run.wait_until(lambda view: view.is_idle and view.steps == 3, LIMIT)
    await run.pause()  # the run's row tells how far it is where one of its facts is in it
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    await at_rest(site, run)
    before = await dump(db)
    await lose(db)
    site.end_workers(QUEUE)
    report = await run.rebuild()
    assert is_whole(report)
    assert_same(await dump(db), before)
    await worker(site)
    await run.edit_state({"flags.over": True})
    await run.resume()
    await run.result(LIMIT)
    assert [e.graph_version for e in await site.entries(run, "ComponentChanged")] == [2, 3]
    await assert_same_once_more(site, db, run)

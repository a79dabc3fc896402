"""`Run.rebuild` where executions under the run's id are none of it, and where the store is lost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from crewlog.errors import NotPermitted
from crewlog.ids import RunId

from .harness import Site
from .test_principals import folder
from .test_strangers import ended, forged, refused, simple, worker

__all__ = ["folder", "worker"]


@pytest.mark.usefixtures("worker")
async def test_a_strangers_execution_is_not_what_the_run_was(crews: Site, folder: Path) -> None:
    signed, other = simple(crews, folder)
    await crews.store.put_definition(RunId("other"), other)
    run = await ended(crews, folder, signed)
    journal, known = await crews.journal(run), await crews.store.accepted_executions(run.id)
    carry = await forged(other, run.id, journal[-1][0] - 1, by="ada")
    await refused(crews, "Stranger", run.id, "", carry)
    report = await run.rebuild(replace=True)
    assert (report.replaced_after, set(report.executions)) == (None, known)
    assert report.apart, "what was passed over is named"
    assert await crews.journal(run) == journal
    # With the store lost, it is what the server says of each: what it was at first, and where.
    await crews.store.delete([run.id], int(time.time() * 1000))
    assert not await crews.store.accepted_executions(run.id)
    assert set((await run.rebuild()).executions) == known
    assert await crews.journal(run) == journal
    assert await crews.store.accepted_executions(run.id) == known
    carry = await forged(other, run.id, journal[-1][0], by="ada")
    assert "does not belong to the run" in await refused(crews, "Stranger", run.id, "", carry)
    # Where nothing that the server has is known, nothing is believed.
    await crews.store.accept_executions(run.id, ["gone"], replace=True)
    with pytest.raises(NotPermitted, match="known to be the run's"):
        await run.rebuild(replace=True)
    assert await crews.journal(run) == journal


async def test_an_open_run_has_no_notes(crews: Site) -> None:
    run, _ = await crews.finish(crews.crew({"a": [{"text": "A"}]}))
    assert (await run.rebuild()).whole
    assert not await crews.store.accepted_executions(run.id)

import asyncio, pytest, sys
from client import crews
from client.test_events import events_of
from conftest import LIMIT, Lab
@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("i", range(40))
async def test_a_terminated_run_ends_the_events(lab: Lab, i) -> None:
    run = await lab.start(crews.asking())
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    reading = asyncio.create_task(events_of(run))
    await run.terminate("enough")
    events = await reading
    assert events[-1].entry.kind not in {"RunCompleted", "RunStopped", "RunFailed"}
    assert [e.position for e in events] == list(range(1, len(events) + 1))

"""Replay: events a second, of a run of 300 steps, of the engine and of the bare workflow.

Both histories are replayed by turns in one fresh process: the engine's by the runner of its
workers, the bare one's in the SDK's sandbox, and once more by the engine's runner, which is faster.
"""

from __future__ import annotations

from functools import partial

from temporalio.client import WorkflowHistory

from bench.cases import Bench
from bench.crews import ring
from bench.history import events_of
from bench.pairs import Figure, figure, ratio, rounds
from bench.peers import bare

STEPS = 300
"""Below the events after which a run continues as new: the history is one execution's."""


async def run(bench: Bench, steps: int = STEPS) -> list[Figure]:
    """The engine and a bare workflow."""
    site = bench.site
    engine = await site.start_crew(await site.register(ring(steps)))
    await engine.result()
    floor = await site.start(await site.peer("bare"), bare.TYPE, bare.Order(steps=steps))
    await floor.result()
    lengths: dict[str, int] = {}
    paths: list[str] = []
    for name, handle in {"engine": engine, "bare": floor}.items():
        events = await events_of(site, handle)
        lengths[name] = len(events)
        path = site.root / f"{handle.id}.json"
        path.write_text(WorkflowHistory(handle.id, events).to_json())
        paths.append(str(path))
    peer = await site.spawn("replayer", "bench.peers.replayer", *paths)
    try:

        async def rate(name: str) -> float:
            answer = await peer.ask({"do": name})
            return float(lengths[name.partition(" ")[0]] / answer["seconds"])

        found = await rounds(
            {name: partial(rate, name) for name in ("engine", "bare", "bare by our runner")},
            bench.pairs,
            told=bench.told("replay", "events/s"),
        )
    finally:
        await peer.end()
    return [
        figure("replay_events_per_s", found["engine"]),
        ratio("replay_vs_bare", found["engine"], found["bare"]),
        ratio("replay_vs_bare_same_sandbox", found["engine"], found["bare by our runner"]),
    ]

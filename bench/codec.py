"""Encryption on and off: the same run of 100 steps, on the same servers.

Each side has a database, a worker and a folder of its own, and every message is one that neither
has had before: so both store every message, and one of them encrypts it. What a run sends through
the server is encrypted where it is sent and decrypted where it comes in. A row of the journal is
encrypted where it is stored; nothing here reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.cases import Bench
from bench.crews import ring
from bench.history import IS_STEP, StepCost, events_of, step_cost
from bench.pairs import Figure, Sample, compared, figure, ratios
from bench.site import beside
from crewlog.encryption.keys import new_key_file, write_keys

if TYPE_CHECKING:
    from bench.site import Site

STEPS = 100


async def run(bench: Bench) -> Sequence[Figure]:
    """Measures both in turns."""
    path = bench.site.root / "keys.json"
    write_keys(path, new_key_file())
    sizes: list[float] = []
    async with (
        beside(bench.site, "bench_plain") as plain,
        beside(bench.site, "bench_sealed", path) as sealed,
    ):

        async def off() -> Sample:
            return (await _measured(plain))[0]

        async def on() -> Sample:
            sample, cost = await _measured(sealed)
            sizes.append(cost.bytes)
            return sample

        found = await compared(
            {"on": on, "off": off},
            "off",
            bench.pairs,
            told=bench.told("codec"),
            refused=bench.refused("codec"),
        )
    return [
        *ratios("codec_on_vs_off", found["on"], found["off"]),
        figure("codec_history_bytes_per_step", sizes),
    ]


async def _measured(site: Site) -> tuple[Sample, StepCost]:
    worker = await site.peer("engine")
    name, before = await site.register(ring(STEPS, "bench:new")), worker.used_ms()
    handle = await site.start_crew(name)
    await handle.result()
    used = worker.used_ms(since=before)
    cost = step_cost(await events_of(site, handle), IS_STEP["engine"], STEPS)
    return Sample(cost.ms, used), cost

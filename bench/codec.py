"""Encryption on and off: the same run of 100 steps, on the same servers, by a worker of each.

Rows that the plain worker stored have the same hashes, and are not stored again; so both workers
encrypt, or not, and send the same texts, and the encrypted one accepts the plain rows it finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from temporalio.client import Client as TemporalClient

from bench.cases import Bench
from bench.crews import ring
from bench.history import IS_STEP, StepCost, events_of, step_cost
from bench.pairs import Figure, figure, ratio, rounds
from crewlog.encryption.keys import ACCEPT_PLAIN, KEYS, KeyFile, Keyring, new_key, write_keys
from crewlog.payloads import data_converter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from bench.site import Site

STEPS = 100


async def run(bench: Bench) -> Sequence[Figure]:
    """Measures both in turns."""
    async with encrypted(bench.site) as sealed:

        async def off() -> StepCost:
            return await _cost(bench.site)

        async def on() -> StepCost:
            return await _cost(sealed)

        tell = bench.told("codec")

        def told(number: int, results: Mapping[str, StepCost]) -> None:
            tell(number, {name: cost.ms for name, cost in results.items()})

        found = await rounds({"on": on, "off": off}, bench.pairs, warm=1, told=told)
    return [
        ratio("codec_on_vs_off", [c.ms for c in found["on"]], [c.ms for c in found["off"]]),
        figure("codec_history_bytes_per_step", [c.bytes for c in found["on"]]),
    ]


async def _cost(site: Site) -> StepCost:
    handle = await site.start_crew(await site.register(ring(STEPS)))
    await handle.result()
    return step_cost(await events_of(site, handle), IS_STEP["engine"], STEPS)


@asynccontextmanager
async def encrypted(site: Site) -> AsyncGenerator[Site]:
    """The same servers, with a worker and a client that encrypt."""
    path, key = site.root / "keys.json", new_key(0)
    write_keys(path, KeyFile(keys=(key,), current=key.id))
    keys = Keyring(path, accept_plain=True)
    temporal = await TemporalClient.connect(
        site.environ["TEMPORAL_ADDRESS"],
        namespace=site.environ["TEMPORAL_NAMESPACE"],
        data_converter=data_converter(site.root / "payloads", keys=keys),
    )
    environ = {**site.environ, KEYS: str(path), ACCEPT_PLAIN: "true"}
    # Its crews are registered by the plain store: a name is all that a start carries.
    sealed = replace(site, temporal=temporal, environ=environ, peers={})
    try:
        yield sealed
    finally:
        for peer in sealed.peers.values():
            await peer.end()

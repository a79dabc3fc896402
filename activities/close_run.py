"""The end of a run: the last of its journal is stored, and what its result shows is fetched."""

from __future__ import annotations

from crewlog.activities.writing import append
from crewlog.model import Json
from crewlog.state.calls import EndRun, EndRunResult
from crewlog.state.journal import Batch
from crewlog.state.messages import is_message, message_from_json
from crewlog.store.protocol import Snapshot, Store

LONGEST_OUTPUT = 64 * 1024
"""Characters of an output in a run's result; the store and the journal have the whole."""


async def close_run(
    input: EndRun, batch: Batch, store: Store, built: dict[str, dict[str, Json]]
) -> EndRunResult:
    """Stores the input's batch, given whole, and the state; returns the outputs that it names."""
    if batch.entries:
        await append(store, input.run, batch)
        await store.put_snapshot(input.run, Snapshot(position=batch.last, state=input.state))
    bodies = await store.get_bodies(input.outputs) if input.outputs else {}
    outputs = {hash_: _shown(body) for hash_, body in bodies.items()}
    return EndRunResult(outputs=outputs, artifacts=built)


def _shown(body: Json) -> Json:
    value = str(message_from_json(body).text) if is_message(body) else body
    if isinstance(value, str) and len(value) > LONGEST_OUTPUT:
        return f"{value[:LONGEST_OUTPUT]}… ({len(value)} characters; the store has them all)"
    return value

"""Tokens of a crew of stages by those of one agent that has all tools and all context.

Both do the same work, and it is checked that the same workflow stands at the end. The monolith has
the whole catalogue before it and so need not search; a second one searches instead, as the stages
do. Tokens are what the runs count, as of every scripted model: a quarter of the characters of all
messages; the tools' own descriptions are not among them, of which the monolith has more. Nothing
varies: one round is enough.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ruamel.yaml import YAML

from bench.cases import Bench
from bench.pairs import Figure, figure
from bench.site import ROOT, Peer
from crewlog.usage import Usage

FOLDER = ROOT / "examples" / "workflow_builder"
REQUEST = (
    "Every morning at seven, look up the weather in Kyiv. If it rains, mail ana@example.org a "
    "friendly line about it. Note every day in a sheet."
)
LIMIT = 60.0


async def run(bench: Bench) -> list[Figure]:
    """Runs all three, once each."""
    site = bench.site
    worker = await site.spawn("stages", "bench.peers.worker", "engine", folder=FOLDER)
    try:
        stages, built = await _done(bench, worker, "crew.yaml")
        monolith, same = await _done(bench, worker, "monolith.yaml")
        searching, also = await _done(
            bench, worker, "monolith.yaml", model="scripted:searching.script.yaml"
        )
    finally:
        await worker.end()
    assert built["nodes"]
    assert built == same == also, "the crews did not build the same workflow"
    return [
        figure("stage_tokens_vs_monolith", [_tokens(stages) / _tokens(monolith)]),
        figure("stage_call_tokens_vs_monolith", [_a_call(stages) / _a_call(monolith)]),
        figure("stage_tokens_vs_searching_monolith", [_tokens(stages) / _tokens(searching)]),
        figure("stage_call_tokens_vs_searching_monolith", [_a_call(stages) / _a_call(searching)]),
        figure("stage_tokens", [_tokens(stages)]),
        figure("stage_call_tokens", [_a_call(stages)]),
        figure("monolith_tokens", [_tokens(monolith)]),
        figure("monolith_call_tokens", [_a_call(monolith)]),
    ]


async def _done(
    bench: Bench, worker: Peer, file: str, model: str | None = None
) -> tuple[Usage, dict[str, Any]]:
    """What a crew used for the request, and the workflow that it built."""
    crew: dict[str, Any] = YAML(typ="safe").load(FOLDER / file)
    given = crew if model is None else {**crew, "model": model}
    client = bench.site.client(worker.queue)
    run = await client.start(given, REQUEST, execution_timeout=timedelta(seconds=LIMIT))
    result = await run.result(LIMIT)
    workflow: dict[str, Any] = (await run.artifact("workflow")).content
    return result.total, workflow


def _tokens(used: Usage) -> int:
    return used.input_tokens + used.output_tokens


def _a_call(used: Usage) -> float:
    return _tokens(used) / used.calls

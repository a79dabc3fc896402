"""Sequential steps: time, events and bytes of one, at 10, 100 and 1,000 messages.

A run of N steps is a ring of ten agents that is gone around N/10 times, one model call each, so
that the transcript which every agent reads grows to N messages of 400 bytes. The bare workflow
schedules N activities; the plugin and plain LangGraph have the same ring as a `StateGraph`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import fmean

from bench.cases import Bench
from bench.crews import ring
from bench.history import IS_STEP, StepCost, events_of, step_cost
from bench.pairs import Figure, figure, ratio, rounds
from bench.peers import bare

SIZES = (10, 100, 1000)
BESIDE = (10, 100)
"""Sizes at which the plugin runs. It sends the whole transcript with every step: 1,000 steps would
be some 230 MB of history, and the server ends a run at 50 MB."""
REPEATS = {10: 3}
"""Runs of a system in a round: short ones are repeated."""
PLUGIN_TYPE = "PluginRun"

Measure = Callable[[], Awaitable[StepCost]]


async def run(bench: Bench, sizes: Sequence[int] = SIZES) -> list[Figure]:
    """All sizes, beside all peers."""
    figures: list[Figure] = []
    for steps in sizes:
        figures += await beside_bare(bench, steps)
        if steps == 100:
            figures += await beside_tuned(bench, steps)
        if steps in BESIDE:
            figures += await beside(bench, steps, "plugin")
            figures += await beside(bench, steps, "plain")
        else:
            figures += await plain_alone(bench, steps)
    return figures


async def beside_bare(bench: Bench, steps: int) -> list[Figure]:
    """The engine and a bare workflow."""
    found = await _rounds(bench, steps, "bare")
    ours, theirs = found["engine"], found["bare"]
    figures = [
        figure(f"step_ms_{steps}", [c.ms for c in ours]),
        figure(f"bare_step_ms_{steps}", [c.ms for c in theirs]),
        ratio(f"step_vs_bare_{steps}", [c.ms for c in ours], [c.ms for c in theirs]),
        figure(f"history_bytes_per_step_{steps}", [c.bytes for c in ours]),
    ]
    if steps == 100:
        figures.append(figure("events_per_step", [c.events for c in ours]))
        figures.append(figure("bare_history_bytes_per_step_100", [c.bytes for c in theirs]))
    if steps == 1000:
        figures.append(figure("events_per_step_1000", [c.events for c in ours]))
    return figures


async def beside_tuned(bench: Bench, steps: int) -> list[Figure]:
    """The engine and a bare workflow in a process like its own."""
    found = await _rounds(bench, steps, "tuned")
    ours, theirs = found["engine"], found["tuned"]
    name = f"step_vs_bare_{steps}_same_process"
    return [ratio(name, [c.ms for c in ours], [c.ms for c in theirs])]


async def beside(bench: Bench, steps: int, peer: str) -> list[Figure]:
    """The engine and another system; how long the engine takes is told by `beside_bare`."""
    found = await _rounds(bench, steps, peer)
    ours, theirs = found["engine"], found[peer]
    figures = [
        figure(f"{peer}_step_ms_{steps}", [c.ms for c in theirs]),
        ratio(f"step_vs_{peer}_{steps}", [c.ms for c in ours], [c.ms for c in theirs]),
    ]
    if peer == "plugin" and steps == 100:
        figures.append(figure("plugin_history_bytes_per_step_100", [c.bytes for c in theirs]))
    return figures


async def plain_alone(bench: Bench, steps: int) -> list[Figure]:
    """Plain LangGraph where no ratio is taken."""
    measure = measures(bench, steps)["plain"]
    found = await rounds({"plain": measure}, bench.pairs, warm=0)
    return [figure(f"plain_step_ms_{steps}", [c.ms for c in found["plain"]])]


async def _rounds(bench: Bench, steps: int, peer: str) -> dict[str, list[StepCost]]:
    made = measures(bench, steps)
    tell = bench.told(f"steps {steps}")

    def told(number: int, results: Mapping[str, StepCost]) -> None:
        tell(number, {name: cost.ms for name, cost in results.items()})

    if steps > 100:  # a long run to warm up would be minutes
        short = measures(bench, 100)
        await rounds({name: short[name] for name in ("engine", peer)}, 1, warm=0)
    systems = {name: made[name] for name in ("engine", peer)}
    return await rounds(systems, bench.pairs, warm=0 if steps > 100 else 1, told=told)


def measures(bench: Bench, steps: int) -> dict[str, Measure]:
    """How each system's runs of so many steps are measured."""
    site = bench.site

    async def workflow(name: str, kind: str, argument: object) -> StepCost:
        handle = await site.start(await site.peer(name), kind, argument)
        await handle.result()
        return step_cost(await events_of(site, handle), IS_STEP[name], steps)

    async def engine() -> StepCost:
        handle = await site.start_crew(await site.register(ring(steps)))
        await handle.result()
        return step_cost(await events_of(site, handle), IS_STEP["engine"], steps)

    async def floor() -> StepCost:
        return await workflow("bare", bare.TYPE, bare.Order(steps=steps))

    async def tuned() -> StepCost:
        return await workflow("tuned", bare.TYPE, bare.Order(steps=steps))

    async def plugin() -> StepCost:
        return await workflow("plugin", PLUGIN_TYPE, steps)

    async def plain() -> StepCost:
        peer = await site.plain()
        answer = await peer.ask({"do": "steps", "steps": steps})
        return StepCost(answer["seconds"] * 1000 / steps, 0, 0, steps)

    once = {"engine": engine, "bare": floor, "tuned": tuned, "plugin": plugin, "plain": plain}
    return {name: _repeated(one, REPEATS.get(steps, 1)) for name, one in once.items()}


def _repeated(measure: Measure, times: int) -> Measure:
    async def several() -> StepCost:
        costs = [await measure() for _ in range(times)]
        return StepCost(
            ms=fmean(c.ms for c in costs),
            events=fmean(c.events for c in costs),
            bytes=fmean(c.bytes for c in costs),
            steps=costs[0].steps,
        )

    return several

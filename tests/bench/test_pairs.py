"""Rounds are interleaved, their order turns around, and figures are what they are said to be."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable

import pytest

from bench import quiet
from bench.pairs import MOST, Disturbed, Sample, compared, figure, ratio, ratios, rounds


async def test_rounds_run_by_turns_and_what_warms_up_does_not_count() -> None:
    ran: list[str] = []
    told: list[tuple[int, dict[str, int]]] = []

    def system(name: str) -> Callable[[], Awaitable[int]]:
        async def run() -> int:
            ran.append(name)
            return len(ran)

        return run

    found = await rounds(
        {"a": system("a"), "b": system("b")},
        3,
        warm=1,
        told=lambda number, results: told.append((number, dict(results))),
    )
    assert "".join(ran) == "baabbaab"
    assert found == {"a": [3, 6, 7], "b": [4, 5, 8]}
    assert told == [(1, {"a": 3, "b": 4}), (2, {"a": 6, "b": 5}), (3, {"a": 7, "b": 8})]


def test_a_ratio_is_taken_within_each_round() -> None:
    # The ratio of the medians would be 1.
    found = ratio("x", [1, 2, 30], [2, 1, 10])
    assert found.values == (0.5, 2, 3)
    assert found.median == 2


def test_quartiles() -> None:
    found = figure("x", [5, 1, 3, 2, 4])
    assert found.median == 3
    assert found.quartiles == (2, 4)
    assert found.spread == 2
    assert figure("x", [7]).quartiles == (7, 7)


def test_rounds_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio("x", [1, 2], [1])
    with pytest.raises(ValueError, match="'x' has no values"):
        figure("x", [])


def test_the_interval_of_a_median() -> None:
    assert figure("x", range(5)).interval is None
    # Of six values the outermost: both on one side of the median is one chance in 32.
    assert figure("x", range(6)).interval == (0, 5)
    assert figure("x", range(10)).interval == (1, 8)
    assert figure("x", [*range(100)][::-1]).interval == (39, 60)


def systems(on: Iterable[float], off: float = 10) -> dict[str, Callable[[], Awaitable[Sample]]]:
    """One that always takes the same, and one that takes these, then the last of them."""
    left = list(on)

    async def first() -> Sample:
        return Sample(left.pop(0) if len(left) > 1 else left[0], 4)

    async def second() -> Sample:
        return Sample(off, 2)

    return {"on": first, "off": second}


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "look", lambda: None)


@pytest.mark.usefixtures("at_rest")
async def test_a_comparison_ends_when_it_is_known_well_enough() -> None:
    sure = await compared(systems([10.2]), "off", 10)
    assert len(sure["on"]) == len(sure["off"]) == 10
    assert [f.name for f in ratios("x", sure["on"], sure["off"])] == ["x", "x_cpu"]
    assert [f.median for f in ratios("x", sure["on"], sure["off"])] == [1.02, 2]
    wide = await compared(systems([9, 12] * 1000), "off", 10)
    assert len(wide["on"]) == 10 * MOST


@pytest.mark.usefixtures("at_rest")
async def test_a_round_with_a_result_far_above_the_others_does_not_count() -> None:
    found = await compared(systems([10, 10, 10, 16, 10.2]), "off", 10)
    assert max(one.ms for one in found["on"]) == 10.2
    assert len(found["off"]) == 10


async def test_a_round_that_others_disturb_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = ["busy", "", "busy", *[""] * 100]
    monkeypatch.setattr(quiet, "look", lambda: None)

    def disturbed(_before: object, _after: object) -> str:
        return reasons.pop(0) if reasons else "others are at work"

    monkeypatch.setattr(quiet, "disturbed", disturbed)
    told, refused = list[int](), list[str]()
    await compared(
        systems([10.2]),
        "off",
        10,
        told=lambda number, _: told.append(number),
        refused=refused.append,
    )
    assert told == list(range(1, 11))
    assert refused == ["busy", "busy"]
    reasons.clear()
    with pytest.raises(Disturbed, match=r"only 0 of 100 rounds count.*others are at work"):
        await compared(systems([10]), "off", 10)


def looked(at: float, busy: float, stolen: float = 0, **ours: float) -> quiet.Look:
    return quiet.Look(at, busy, stolen, {int(pid[1:]): used for pid, used in ours.items()})


def test_what_was_busy_and_is_not_ours_were_others() -> None:
    before = looked(0, 100, p1=50)
    assert quiet.disturbed(before, looked(10, 108, p1=57, p2=1)) == ""
    assert "others kept 0.30 processors" in quiet.disturbed(before, looked(10, 111, p1=57, p2=1))
    stolen = 10 * (os.cpu_count() or 1)
    assert "kept 50% of" in quiet.disturbed(before, looked(10, 100, stolen * 0.5, p1=50))
    assert quiet.disturbed(None, before) == ""


@pytest.mark.skipif(quiet.look() is None, reason="the system does not say")
async def test_the_clock_of_a_process_that_is_below_this_one() -> None:
    process = await asyncio.create_subprocess_exec("sleep", "10")
    try:
        found = quiet.look()
        assert found is not None
        assert {os.getpid(), process.pid} <= set(found.ours)
        assert abs(found.ours[os.getpid()] - time.process_time()) < 5
        assert found.ours[process.pid] < 1
    finally:
        process.kill()
        await process.wait()
    assert quiet.used(process.pid) is None

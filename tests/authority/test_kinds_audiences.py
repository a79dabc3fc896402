"""Hand-offs, pools, calls without models, artifacts, notes and conversations tell nobody more."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from authority.audience_world import World
from authority.kinds_world import Worker, hunt
from crewlog.activities import artifacts as folding
from crewlog.authority.permissions import Decision
from crewlog.definition.audiences import Audiences
from crewlog.graph import (
    addressed_items,
    agents_without_model,
    artifacts,
    final_messages,
    run_context,
)
from crewlog.graph.artifacts import artifact_heads
from crewlog.graph.exchanges import Exchanges
from crewlog.graph.final_messages import FinalMessages
from crewlog.graph.run_context import RunContext
from crewlog.ids import PUBLIC

HUNTS = int(os.environ.get("CREWLOG_KINDS_HUNTS", "24"))
"""Random crews that run; 1,000 take three minutes."""
RUNS_OF_A_STORE = 100


def wrong(world: World) -> list[Any]:
    return [*world.leaks, *(each for each in world.refusals if "view" in each)]


async def test_random_crews_of_all_kinds_tell_nobody_what_is_for_others(tmp_path: Path) -> None:
    counts: dict[str, int] = {}
    worker = Worker(tmp_path)
    for seed in range(HUNTS):
        if seed % RUNS_OF_A_STORE == 0:
            worker = Worker(tmp_path)
        world = await hunt(seed, worker, changes=bool(seed % 3))
        assert not wrong(world), (seed, wrong(world)[:3])
        for what, count in world.counts.items():
            counts[what] = counts.get(what, 0) + count
    assert counts["looks"] > 8 * HUNTS
    kinds = ("items", "notes handed on", "passed on", "scribble", "note", "notes", "peek", "turns")
    assert all(counts.get(each) for each in (*kinds, "cases", "swaps", "rollback")), counts


async def test_a_step_that_was_shown_nothing_is_no_case_of_a_data_set(tmp_path: Path) -> None:
    """Its item is for others, and the run went on without it: the other steps are cases."""
    world = await hunt(69, Worker(tmp_path), changes=False)
    assert world.counts["LogAccessDenied"]
    assert world.counts["cases"]


def _yes(*_: Any, **__: Any) -> Decision:
    return Decision(allowed=True, reason="")


def _passes_on_what_it_may_not_see(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(agents_without_model, "may_see_item", _yes)


def _hands_on_to_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        addressed_items,
        "_audience",
        lambda run, step, agent, item: run.output_audience(agent, step),
    )


def _response_has_all_items(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(final_messages, "private_log", lambda _: PUBLIC)


def _old_replies_are_said(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FinalMessages, "has_undeliverable_items", lambda *_: False)


def _artifacts_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(artifacts, "authorize_artifact", _yes)
    patch.setattr(folding, "authorize_artifact", _yes)
    patch.setattr(Audiences, "artifact_readers", lambda self, _: tuple(self._crew.agents))


def _left_steps_see_new_artifacts(patch: pytest.MonkeyPatch) -> None:
    def as_now(plan: Any, state: Any, agent: Any, step: Any = None) -> Any:
        del step
        return artifact_heads(plan, state, agent)

    patch.setattr(run_context, "artifact_heads", as_now)


def _late_outputs_shared_as_then(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunContext, "output_audience", lambda self, *who: self.rules_of(*who).shares)


def _apology_says_why(patch: pytest.MonkeyPatch) -> None:
    end, apology, why = Exchanges.end, Exchanges._apology, [""]  # pyright: ignore

    def ended(self: Exchanges, error: str = "", *more: Any) -> None:
        why[0] = error
        end(self, error, *more)

    patch.setattr(Exchanges, "end", ended)
    patch.setattr(
        Exchanges, "_apology", lambda *of: {**apology(*of), "content": f"Sorry: {why[0]}"}
    )


@pytest.mark.parametrize(
    ("mutate", "seed"),
    [
        (_passes_on_what_it_may_not_see, 7),
        (_hands_on_to_all, 7),
        (_response_has_all_items, 3),
        (_old_replies_are_said, 157),
        (_artifacts_for_all, 3),
        (_left_steps_see_new_artifacts, 575),
        (_late_outputs_shared_as_then, 116),
        (_apology_says_why, 4),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
async def test_the_hunt_sees_a_check_that_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mutate: Callable[[pytest.MonkeyPatch], None],
    seed: int,
) -> None:
    """And where it is there, the same crew has nothing wrong: the mutation alone is seen."""

    async def found(seed: int) -> bool:
        return bool(wrong(await hunt(seed, Worker(tmp_path), changes=bool(seed % 3))))

    mutate(monkeypatch)
    for other in range(seed, seed + 60):
        if await found(other):
            monkeypatch.undo()
            assert not await found(other)
            return
    pytest.fail("nothing was seen")

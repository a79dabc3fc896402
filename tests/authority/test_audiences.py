"""Nothing that is said in a run is shown to an agent that may not see it, whatever happens."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from authority.audience_world import Worker, World, glance, hunt
from crewlog.activities import hydrator, view_reader
from crewlog.activities.log_roots import LogRoots
from crewlog.authority import audiences as authority
from crewlog.authority.audiences import may_read, may_see_item, may_write
from crewlog.authority.permissions import Decision
from crewlog.definition.audiences import Audiences
from crewlog.graph import run_context
from crewlog.graph.run_context import RunContext
from crewlog.graph.turns import Turns
from crewlog.ids import PUBLIC, AgentName, LogName, StepId
from graph.crews import crew

LAYOUTS = int(os.environ.get("CREWLOG_AUDIENCE_LAYOUTS", "100"))
"""Random crews to look at, each as another one afterwards; 10,000 take some minutes."""
HUNTS = int(os.environ.get("CREWLOG_AUDIENCE_HUNTS", "40"))
"""Random crews that run, with random models, tools and people; 1,000 take two minutes."""
RUNS_OF_A_STORE = 100
ANN, STEP = AgentName("ann"), StepId("ann#1.2")


def wrong(world: World) -> list[Any]:
    """What is wrong in a run: marks of others, and views that the worker had to refuse."""
    return [*world.leaks, *(each for each in world.refusals if "view" in each)]


async def test_random_layouts_show_everybody_what_is_for_them_and_nothing_else(
    tmp_path: Path,
) -> None:
    """What is said in every log, as it is, after a change, and after going back or in a fork."""
    worker, looks = Worker(tmp_path), 0
    for seed in range(LAYOUTS):
        if seed % RUNS_OF_A_STORE == 0:
            worker = Worker(tmp_path)
        world = await glance(seed, worker)
        assert not wrong(world), (seed, wrong(world)[:3])
        looks += world.counts["looks"]
    assert looks > 6 * LAYOUTS


async def test_random_crews_show_nobody_what_is_for_others(tmp_path: Path) -> None:
    """Static layouts, and layouts that change while people roll back, fork and restart workers."""
    counts: dict[str, int] = {}
    worker = Worker(tmp_path)
    for seed in range(HUNTS):
        if seed % RUNS_OF_A_STORE == 0:
            worker = Worker(tmp_path)
        world = await hunt(seed, worker, changes=bool(seed % 3))
        assert not wrong(world), (seed, wrong(world)[:3])
        for what, count in world.counts.items():
            counts[what] = counts.get(what, 0) + count
    assert counts["looks"] > 5 * HUNTS
    assert all(counts[what] for what in ("items", "change", "rollback", "fork", "message", "swaps"))


def _yes(*_: Any, **__: Any) -> Decision:
    return Decision(allowed=True, reason="")


async def _proven(*_: Any) -> bool:
    return True


def _no_view_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunContext, "readable_logs", lambda self, *_: tuple(self.state.messages))


def _no_check_at_all(patch: pytest.MonkeyPatch) -> None:
    _no_view_check(patch)
    patch.setattr(view_reader, "may_read", _yes)
    patch.setattr(LogRoots, "has_root", _proven)


def _left_steps_read_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunContext, "readable_logs", lambda self, *who: self.rules_of(*who).reads)


def _left_steps_write_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunContext, "writable_logs", lambda self, *who: self.rules_of(*who).writes)


def _items_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(run_context, "may_read_input", _yes)
    patch.setattr(view_reader, "may_read_input", _yes)


def _outputs_without_audience(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunContext, "output_audience", lambda *_: ())


def _final_messages_public(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Turns, "_final_message_logs", lambda *_: (PUBLIC,))


def _work_public(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunContext, "step_log", lambda *_: PUBLIC)


def _open(kind: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A kind of log that is for all who list it, whatever the crew says."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        named = Audiences.named
        patch.setattr(
            Audiences,
            "named",
            lambda self, log, **more: None if log.startswith(kind) else named(self, log, **more),
        )

    return mutate


def _deaf_agents_read(patch: pytest.MonkeyPatch) -> None:
    def no_reader(self: Audiences, agent: str, log: str) -> str:
        named = self.named(log)
        listed = self._crew.agents[agent].reads if agent in self._crew.agents else ()
        return "" if (log in listed if named is None else agent in named) else "no"

    patch.setattr(Audiences, "no_reader", no_reader)


def _lost_logs_stay_in_memory(patch: pytest.MonkeyPatch) -> None:
    def find_new_messages(self: Any, view: Any) -> Any:
        new: set[Any] = set()
        for log, at in view.items():
            before = self.log_heads.get(log)
            if before and (before.chain is not at.chain or before.length > at.length):
                return None
            new.update(at.chain[before.length if before else 0 : at.length])
        found = sorted(new)
        return None if found and found[0][0] <= self.position else found

    patch.setattr(hydrator._ViewTranscript, "find_new_messages", find_new_messages)


@pytest.mark.parametrize(
    ("mutate", "seed"),
    [
        (_no_view_check, 0),
        (_no_check_at_all, 0),
        (_left_steps_read_on, 38),
        (_left_steps_write_on, 3323),
        (_items_for_all, 3),
        (_outputs_without_audience, 3),
        (_final_messages_public, 0),
        (_work_public, 0),
        (_open("group:"), 3),
        (_open("channel:"), 29),
        (_deaf_agents_read, 13),
        (_lost_logs_stay_in_memory, 20),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
async def test_the_hunt_sees_a_check_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutate: Any, seed: int
) -> None:
    assert not wrong(await hunt(seed, Worker(tmp_path)))
    mutate(monkeypatch)
    found: list[Any] = []
    for other in (seed, *range(seed, seed + 150)):
        found = wrong(await hunt(other, Worker(tmp_path)))
        if found:
            break
    assert found


@pytest.mark.parametrize(
    ("log", "reads", "allowed"),
    [
        ("public", ["public"], True),
        ("public", ["group:g"], False),
        ("private:ann", [], True),
        ("private:bob", ["public"], False),
        ("private:ann#1.2", [], True),
        ("private:ann#1.3", ["public"], False),
        ("readers:bob+ann", ["public"], True),
        ("readers:bob+ann", [], False),
        ("readers:bob+anna", ["public"], False),
    ],
)
def test_who_may_read_a_log(log: str, reads: list[LogName], allowed: bool) -> None:
    decision = may_read(ANN, LogName(log), reads=reads, step=STEP)
    assert decision.allowed == allowed
    assert "ann" in decision.reason


def test_who_may_write_to_a_log_and_see_what_is_for_its_readers() -> None:
    group, other = LogName("group:g"), LogName("group:h")
    assert may_write(ANN, group, writes=[group]).allowed
    assert not may_write(ANN, other, writes=[group]).allowed
    assert may_see_item(ANN, (), reads=[]).allowed
    assert may_see_item(ANN, (other, group), reads=[group]).allowed
    assert may_see_item(ANN, (other, PUBLIC), reads=[]).allowed
    refused = may_see_item(ANN, (other, group), reads=[PUBLIC])
    assert not refused.allowed
    assert refused.reason == "it is for readers of group:h or group:g, and 'ann' reads none"
    assert authority.may_see_item is may_see_item


def test_what_a_crew_says_of_its_logs() -> None:
    definition = crew(
        ["ann", "bob", "cid", "deaf"],
        {
            "ann": {"writes": ["group:g", "channel:board"]},
            "bob": {"reads": ["channel:open"], "writes": ["readers:ann+deaf"]},
            "cid": {"writes": ["channel:open"]},
            "deaf": {"reads": []},
        },
        groups={"g": ["ann", "bob", "deaf"]},
        logs={"board": {"readers": ["group:g"], "writers": ["ann"]}},
    )
    audiences = Audiences(definition)
    assert {name: audiences.reads(name) for name in definition.agents} == {
        "ann": ("public", "group:g", "channel:board", "readers:ann+deaf"),
        "bob": ("channel:open", "group:g", "channel:board"),
        "cid": ("public",),
        "deaf": (),
    }
    assert audiences.readers("channel:board") == ("ann", "bob")
    assert audiences.no_reader("cid", "group:g") == "'group:g' is read by ann, bob and deaf alone"
    assert audiences.no_reader("cid", "private:ann") == "'private:ann' is read by ann alone"
    assert audiences.no_writer("bob", "channel:board")
    assert audiences.no_writer("cid", "public") == "'cid' does not list 'public' under 'writes'"
    assert audiences.no_reader("eve", "public") == "there is no agent 'eve'"

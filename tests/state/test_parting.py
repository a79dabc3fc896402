"""Parting: every visit, question and log of a run is in one of the two, and none is in both."""

from __future__ import annotations

import random
from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.ids import (
    AgentName,
    CommandId,
    ContentHash,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
)
from crewlog.model import Json
from crewlog.state.model import (
    Call,
    CommandOutcome,
    CrewState,
    FrontierStep,
    Idle,
    Interrupt,
    InterruptAnswer,
    LogHead,
    MergeOutcome,
    PendingChange,
    PendingMerge,
    Routing,
    SourceRun,
    StatusReason,
    Turn,
    WakingMessage,
)
from crewlog.state.split import (
    SplitContents,
    original_run_changes,
    split_run_state,
    split_source_run_id,
)
from crewlog.usage import Usage

NAMES = tuple(map(AgentName, ("a", "b", "c", "d")))


def entry(step: str, rng: random.Random) -> FrontierStep:
    node = step.partition("#")[0]
    turn = Turn(calls=(Call(call=2, tool="t"),), next_call=3, start_position=4)
    heard = WakingMessage(log=LogName("channel:x"), body=hash_json(step))
    running = rng.random() < 0.5
    return FrontierStep(
        step=StepId(step),
        node=NodeName(node),
        status="running" if running else "queued",
        turn=turn if running else None,
        waking_message=heard,
    )


def world(seed: int) -> tuple[CrewState, SplitContents]:
    rng = random.Random(seed)  # noqa: S311 - the same in every run of the test
    frontier = {
        StepId(step): entry(step, rng)
        for name in NAMES
        for step in (f"{name}#{n}" for n in range(1, rng.randint(1, 4)))
    }
    steps = list(frontier)
    asked = {
        InterruptId(f"i{n}"): Interrupt(
            id=InterruptId(f"i{n}"),
            kind="step_failed",
            question="?",
            step=rng.choice([*steps, None]) if steps else None,
        )
        for n in range(1, 4)
    }
    logs = ["public", "group:g", "channel:x", "channel:y", "artifact:doc", "readers:a+c"]
    logs += [f"private:{name}" for name in NAMES]
    state = CrewState(
        run=RunId("r"),
        position=40,
        graph_version=3,
        frontier=frontier,
        detached_steps={StepId("a#9"): entry("a#9", rng), StepId("d#9"): entry("d#9", rng)},
        interrupts=asked,
        visits={NodeName(name): 5 for name in NAMES},
        messages={LogName(log): LogHead(head=hash_json(log), length=3) for log in logs},
        quotas={"k": 2},
        flags={},
        added_budgets={"tokens": 5.0},
        usage={NAMES[0]: Usage(calls=3)},
        tags={"good": 3},
        interrupt_count=7,
    )
    gone = tuple(sorted(rng.sample(NAMES, rng.randint(1, 3))))
    share = SplitContents(agents=gone, nodes=tuple(map(NodeName, gone)), channels=("y",))
    return state, share


@pytest.mark.parametrize("seed", range(60))
def test_what_goes_and_what_stays_is_all_there_was(seed: int) -> None:
    state, share = world(seed)
    goes = split_run_state(state, RunId("r.1"), share, state.definition, ())
    stays = state.model_copy(update=original_run_changes(state, share))
    assert goes.visits == dict.fromkeys(share.nodes, 5)
    assert stays.visits == state.visits, "who comes back goes on with its numbers"
    for part in ("frontier", "detached_steps", "interrupts"):
        one, other, both = (getattr(each, part) for each in (goes, stays, state))
        assert not one.keys() & other.keys(), part
        assert {**one, **other} == both, part
    assert all(e.node in share.nodes for e in goes.frontier.values())
    assert all(q.step is None or q.step in stays.frontier for q in stays.interrupts.values())
    assert CrewState.from_json(goes.to_json()) == goes


@pytest.mark.parametrize("seed", range(20))
def test_nobody_gets_a_log_of_others(seed: int) -> None:
    state, share = world(seed)
    goes, gone = split_run_state(state, RunId("r.1"), share, state.definition, ()), {*share.agents}
    assert {log for log in goes.messages if log.startswith("private:")} == {
        f"private:{name}" for name in gone
    }
    assert ("readers:a+c" in goes.messages) == bool(gone & {"a", "c"})
    assert "channel:x" not in goes.messages
    stays = state.model_copy(update=original_run_changes(state, share))
    assert not {f"private:{name}" for name in gone} & {*stays.messages}
    assert "channel:y" not in stays.messages
    for common in ("public", "group:g", "artifact:doc"):
        assert goes.messages[LogName(common)] == stays.messages[LogName(common)]


def test_nobody_may_do_more_in_two_runs_than_in_one() -> None:
    state, share = world(1)
    goes = split_run_state(state, RunId("r.1"), share, state.definition, ())
    kept: dict[str, Json] = {
        "quotas": {"k": 2},
        "added_budgets": {"tokens": 5.0},
        "interrupt_count": 7,
    }
    assert {name: getattr(goes, name) for name in kept} == kept
    assert goes.usage == state.usage
    assert (goes.tags, goes.commands) == ({}, {})
    assert (goes.run, goes.position, goes.graph_version, goes.execution) == ("r.1", 40, 1, 1)


def test_a_part_has_no_commands_of_the_run_that_it_leaves() -> None:
    """A command's id is one in each run: what was told that one was not told this one."""
    state, share = world(1)
    known = {CommandId("c"): CommandOutcome(position=3)}
    state = state.model_copy(update={"commands": known, "older_commands": "AAAA"})
    goes = split_run_state(state, RunId("r.1"), share, state.definition, ())
    assert (goes.commands, goes.older_commands) == ({}, CrewState(run=goes.run).older_commands)


DIVIDED = {"frontier", "detached_steps", "interrupts", "visits", "messages"}
"""What goes with those whose it is."""
OLD: dict[str, Any] = {
    "run": RunId("r"),
    "graph_version": 3,
    "execution": 4,
    "status": "paused",
    "pending_change": PendingChange(command="c", graph_version=4, definition=ContentHash("d")),
    "rollback_floor": 8,
    "execution_trace": LogHead(head=ContentHash("h"), length=40),
    "execution_count": {NodeName("a"): 2},
    "routing": Routing(completed={NodeName("a"): 2}),
    "status_reason": StatusReason(),
    "breakpoints": (NodeName("a"),),
    "commands": {"c": CommandOutcome(position=3)},
    "older_commands": "AAAA",
    "answers": {InterruptId("i9"): InterruptAnswer(decision="approve")},
    "tags": {"good": 3},
    "idle": Idle(),
    "pending_merge": PendingMerge(
        merge="m", other=RunId("s"), status="requested", requester=RunId("r"), position=7
    ),
    "merges": {"n": MergeOutcome(outcome="merged", other=RunId("t"), position=5)},
    "merged_runs": {RunId("t"): ()},
}
"""What of the run that they leave is nothing to those who go."""


def test_those_who_go_begin_anew_but_for_what_is_theirs_or_of_all() -> None:
    state, share = world(1)
    state = state.model_copy(update=OLD)
    fresh = CrewState(run=RunId("r.1"))
    goes = split_run_state(state, fresh.run, share, state.definition, ())
    for name in CrewState.model_fields:
        if name in OLD:
            assert getattr(state, name) != getattr(fresh, name), name
            assert getattr(goes, name) == getattr(fresh, name), name
        elif name not in DIVIDED:
            assert getattr(goes, name) == getattr(state, name), name


@pytest.mark.parametrize(
    ("source", "run"),
    [
        (None, ""),
        (SourceRun(run=RunId("q"), position=3), ""),
        (SourceRun(run=RunId("q"), position=3, split="c"), "q"),
    ],
    ids=["began", "forked", "parted"],
)
def test_a_run_parted_from_another_one_only_by_a_split(source: SourceRun | None, run: str) -> None:
    assert split_source_run_id(CrewState(run=RunId("r"), source=source)) == run

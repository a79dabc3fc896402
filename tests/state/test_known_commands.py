"""What a state knows of its commands: the newest in full, the ids of all others in few bytes."""

from __future__ import annotations

import json

import pytest

from crewlog.ids import RESERVED, CommandId, RunId
from crewlog.state import journal as j
from crewlog.state.command_outcomes import (
    DETAIL_LENGTH,
    MAX_OUTCOMES_BYTES,
    OUTCOMES_KEPT,
    may_be_older,
    outcome_of,
)
from crewlog.state.fold import fold
from crewlog.state.model import CommandOutcome, CrewState
from crewlog.state.restore import fork_state

EMPTY = CrewState(run=RunId("r"))


def paused(state: CrewState, *commands: str) -> CrewState:
    for command in commands:
        state = fold(state, j.Paused(command=CommandId(command), command_hash="d" * 12))
    return state


def refused(state: CrewState, *commands: str, reason: str = "no") -> CrewState:
    for command in commands:
        entry = j.CommandRejected(name="x", reason=reason, command=CommandId(command))
        state = fold(state, entry)
    return state


def test_the_newest_are_kept_in_full_and_the_ids_of_the_others_are_known() -> None:
    state = refused(paused(EMPTY, *(f"c{n}" for n in range(1000))), "last")
    kept = {CommandId(f"c{n}") for n in range(990, 1000)} | {"last"}
    assert kept <= set(state.commands)
    assert len(state.commands) <= OUTCOMES_KEPT
    assert state.commands[CommandId("last")].detail == "no"
    assert not state.commands[CommandId("last")].ok
    assert state.commands[CommandId("c999")].position == 1000
    gone = [f"c{n}" for n in range(1000) if f"c{n}" not in state.commands]
    assert len(gone) >= 900
    assert all(may_be_older(state.older_commands, command) for command in gone)


@pytest.mark.parametrize(("known", "most"), [(1_000, 3), (4_000, 60)])
def test_few_new_ids_seem_old(known: int, most: int) -> None:
    """One in 10,000 after 1,000 commands, one in 50 after 5,000: then the journal is asked."""
    state = paused(EMPTY, *(f"c{n}" for n in range(known)))
    assert sum(may_be_older(state.older_commands, f"new {n}") for n in range(2_000)) <= most


def test_a_run_with_few_commands_pays_nothing() -> None:
    state = paused(EMPTY, *(f"c{n}" for n in range(20)))
    assert state.older_commands == ""
    assert "older_commands" not in state.to_json()
    assert not may_be_older(state.older_commands, "c1")


@pytest.mark.parametrize("letter", ["x", "é", "😀", '"', "\ud83d"])
def test_they_are_bounded_by_bytes(letter: str) -> None:
    """Also with ids of 200 letters, and reasons of 2,000."""
    state = EMPTY
    for n in range(150):
        state = refused(state, f"{n:03}{letter * 197}", reason=letter * 2_000)
        (last,) = [each for each in state.commands if each.startswith(f"{n:03}")]
        assert len(state.commands[last].detail) <= DETAIL_LENGTH
    told = {key: value.to_json() for key, value in state.commands.items()}
    size = len(json.dumps(told, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    assert size <= 1.1 * MAX_OUTCOMES_BYTES
    assert len(state.older_commands) == 6_828


def test_the_runs_own_commands_stay() -> None:
    """Whether Temporal's cancel stopped a run is looked at when it ends."""
    own = f"{RESERVED}cancel"
    state = paused(EMPTY, own, *(f"c{n}" for n in range(300)))
    assert state.commands[CommandId(own)].position == 1
    assert not may_be_older(state.older_commands, own)


def test_what_an_older_build_kept_is_made_smaller_with_the_next_command() -> None:
    kept = {CommandId(f"c{n}"): CommandOutcome(position=n + 1) for n in range(1000)}
    state = paused(EMPTY.model_copy(update={"commands": kept}), "next")
    assert len(state.commands) <= OUTCOMES_KEPT
    assert "next" in state.commands
    assert all(n in state.commands or may_be_older(state.older_commands, n) for n in kept)


def test_a_fork_has_none_of_its_sources() -> None:
    state = paused(EMPTY, *(f"c{n}" for n in range(300)))
    assert fork_state(state, RunId("other")).state.older_commands == ""


def test_the_journal_tells_the_same_outcome_as_the_state() -> None:
    entry = j.CommandRejected(
        name="x", reason="why " * 100, command=CommandId("c"), command_hash="d", error_type="Other"
    )
    state = fold(EMPTY, entry)
    assert outcome_of(j.entry_from_json(j.entry_to_json(entry)), 1) == state.commands["c"]

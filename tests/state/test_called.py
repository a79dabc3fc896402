"""What is still said to a run that was taken in: to whom that goes, where names are others."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.ids import CommandId, ContentHash, CrewName, RunId, merge_id
from crewlog.state import journal as j
from crewlog.state.components import Rename
from crewlog.state.fold import fold, fold_journal
from crewlog.state.model import CrewState, MergeOutcome, PendingMerge
from crewlog.state.run_merge.protocol import find_outcome, recall
from crewlog.state.run_merge.renames import (
    RENAMES_SHOWN,
    renamed_log,
    renames_description,
    successive_renames,
)

A, B = RunId("a"), RunId("b")


def new(kind: Any, was: str, now: str) -> Rename:
    return Rename(kind=kind, run=B, was=was, now=now)


RENAMED = (
    new("agent", "ann", "ann-2"),
    new("channel", "x", "x-2"),
    new("channel", "ann", "said"),
    new("group", "x", "crew"),
)


@pytest.mark.parametrize(
    ("log", "meant"),
    [
        ("channel:x", "channel:x-2"),
        ("channel:ann", "channel:said"),
        ("channel:y", "channel:y"),
        ("private:ann", "private:ann-2"),
        ("private:x", "private:x"),
        ("group:x", "group:crew"),
        ("group:ann", "group:ann"),
        ("readers:ann+bob", "readers:ann-2+bob"),
        ("public", "public"),
        ("x", "x"),  # no log at all: the run that stays refuses it
    ],
)
def test_a_log_is_the_one_that_was_meant(log: str, meant: str) -> None:
    assert renamed_log(log, RENAMED) == meant
    assert renamed_log(log, ()) == log


def test_of_merges_one_after_the_other_each_counts() -> None:
    then = (new("channel", "x-2", "x-3"), new("channel", "y", "y-2"), new("channel", "x", "x-4"))
    both = successive_renames(RENAMED, then)
    for log in ("channel:x", "channel:y", "channel:ann", "private:ann", "group:x", "public"):
        assert renamed_log(log, both) == renamed_log(renamed_log(log, RENAMED), then)
    assert renamed_log("channel:x", both) == "channel:x-3", "x is the other run's own by then"
    assert successive_renames((), then) == then
    assert successive_renames(RENAMED, ()) == RENAMED


def test_people_are_told_what_is_called_otherwise() -> None:
    assert renames_description(()) == ""
    assert renames_description(RENAMED[:2]) == (
        "its agent 'ann' is named 'ann-2' there, its channel 'x' is named 'x-2' there"
    )
    many = tuple(new("channel", f"c{n}", f"d{n}") for n in range(RENAMES_SHOWN + 2))
    assert renames_description(many).count("is named") == RENAMES_SHOWN
    assert renames_description(many).endswith("2 more have new names there")


def test_a_run_keeps_what_the_other_one_calls_otherwise() -> None:
    """The other run's journal says it, and what was looked at there tells it."""
    op = merge_id(A, CommandId("x"))
    start = j.RunStarted(at=5, run=B, crew=CrewName("t"), definition=ContentHash("d"))
    mine = PendingMerge(
        merge=op,
        other=A,
        status="frozen",
        at=7,
        other_position=2,
        other_started_at=5,
        position=2,
        frozen_position=4,
        requester=A,
    )
    own = fold_journal(B, [start]).model_copy(update={"pending_merge": mine})
    outcome = MergeOutcome(
        outcome="merged", other=B, position=9, merged_position=4, merged_started_at=5
    )
    there = CrewState(run=A, started_at=5, position=9, merges={op: outcome})
    renamed = outcome.model_copy(update={"renames": RENAMED})
    entry = find_outcome(own, recall(there, op, renamed))
    assert isinstance(entry, j.RunEndedByMerge)
    ended = fold(own, entry.model_copy(update={"at": 8}))
    assert (ended.surviving_run, ended.surviving_run_renames) == (A, RENAMED)
    assert CrewState.from_json(ended.to_json()).surviving_run_renames == RENAMED
    assert (own.surviving_run_renames, there.surviving_run_renames) == ((), ())

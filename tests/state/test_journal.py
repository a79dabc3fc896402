"""Entries as JSON, and what a few of them do by themselves."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from crewlog.ids import AgentName, FlagName, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.fold import fold, fold_at_positions, fold_journal
from crewlog.state.fold.handlers import HANDLERS
from crewlog.state.model import CrewState
from graph.simulation import as_json, crew_run

EMPTY = CrewState(run=RunId("r"))


async def test_every_entry_comes_back_as_it_was() -> None:
    for seed in range(20):
        for data in (await crew_run(seed)).journal:
            entry = j.entry_from_json(json.loads(json.dumps(data)))
            assert json.dumps(j.entry_to_json(entry)) == json.dumps(data)
            assert entry.kind == data["kind"]


@pytest.mark.parametrize("value", [True, 1, 1.0, False, 0, None, "", [], {}, [True, 1]])
def test_values_are_not_taken_for_defaults(value: Any) -> None:
    for entry in (
        j.RunOutputSet(flag=FlagName("ok"), value=value),
        j.OutputSet(agent="a", key="k", value=value),  # type: ignore[arg-type]
    ):
        data = json.loads(json.dumps(j.entry_to_json(entry)))
        back = j.entry_from_json(data)
        assert repr(back) == repr(entry)
        assert as_json(fold_journal(EMPTY.run, [back])) == as_json(fold_journal(EMPTY.run, [entry]))


@pytest.mark.parametrize(
    "data",
    [{"kind": "Nonsense"}, {"kind": "RunFailed"}, {"kind": "RunCompleted", "x": 1}, [], None],
)
def test_what_is_no_entry_is_refused(data: Any) -> None:
    with pytest.raises(ValidationError):
        j.entry_from_json(data)


async def test_reducing_changes_no_state_before() -> None:
    for seed in range(10):
        sim = await crew_run(seed)
        state = EMPTY.model_copy(update={"run": RunId("sim")})
        for data in sim.journal:
            before = as_json(state)
            after = fold(state, j.entry_from_json(data))
            assert as_json(state) == before
            state = after


async def test_entries_about_steps_that_are_gone_change_only_the_position() -> None:
    gone = StepId("gone#1")
    kept = {"position", "execution_trace"}
    for entry in (
        j.StepCompleted(step=gone),
        j.StepFailed(step=gone, error="x"),
        j.StepRetried(step=gone),
        j.RequirementMet(step=gone),
        j.CompletionBuffered(step=gone, call=1, entries=()),
        j.StepCancelled(step=gone),
    ):
        after = fold(EMPTY, entry)
        assert after.model_dump(exclude=kept) == EMPTY.model_dump(exclude=kept)
        assert after.position == 1


def test_equal_traces_mean_equal_journals() -> None:
    one, other = j.RunFailed(error="a"), j.RunFailed(error="b")
    heads = {
        fold_journal(EMPTY.run, found).execution_trace.head
        for found in ([one], [other], [one, other], [other, one], [one, one])
    }
    assert len(heads) == 5


def _entry_kinds(base: type[j.Entry] = j.Entry) -> set[str]:
    """The names of the subclasses of `Entry` in `state/journal/` that have a kind."""
    kinds: set[str] = set()
    for each in base.__subclasses__():
        if "kind" in each.model_fields and each.__module__.startswith(j.__name__):
            kinds.add(each.__name__)
        kinds |= _entry_kinds(each)
    return kinds


KINDS = {kind.__name__ for kind in get_args(get_args(j.JournalEntry)[0])}


def test_every_entry_kind_is_in_the_union() -> None:
    assert _entry_kinds() == KINDS


def test_every_entry_kind_without_a_handler_changes_no_field_of_the_state() -> None:
    """Their message, their command and the trace are folded for every kind."""
    assert KINDS - {kind.__name__ for kind in HANDLERS} == {
        "AddressedItemUndelivered",
        "ArtifactOperationsRefused",
        "CommandRejected",
        "DefinitionRejected",
        "LogsMerged",
        "PermissionDenied",
    }


def test_entries_of_a_step_fold_in_a_journal_with_gaps() -> None:
    """Its start may be in the gap; see `fold_at_positions`."""
    step = StepId("a#1")
    entries = (
        j.TurnLimitReached(step=step, agent=AgentName("a"), calls=1),
        j.StepFailed(
            step=step, call=1, agent=AgentName("a"), error="e", error_type="BudgetExceeded"
        ),
        j.BranchTargetRefused(
            step=step, by="a.next", because="its limit is reached", goes="end", used_up=True
        ),
    )
    for entry in entries:
        state = fold_at_positions(EMPTY, [(7, entry)])
        assert (state.position, state.frontier) == (7, {})

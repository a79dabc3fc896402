"""The hashes that journal entries refer to are found by the types of their fields."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import BaseModel

from crewlog.canonical_json import hash_json
from crewlog.ids import PUBLIC, AgentName, ContentHash, CrewName, InterruptId, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.model import Call, CrewState, Draft, Interrupt
from crewlog.state.references import EMBEDDED, find_references

A, B, C = (hash_json(name) for name in "abc")
STEP, ANN = StepId("a#1"), AgentName("ann")
WITHOUT_HASHES = {
    "ChildStepProgress.items",
    "CrewState.flags",
    "CrewState.private_context",
    "CrewState.shared_context",
    "ComponentChanged.flags",
    "DefinitionChanged.flags",
    "Draft.inline",
    "Edit.inline",
    "Edit.value",
    "ExchangeStarted.flags",
    "GraphSwapped.flags",
    "Interrupt.args",
    "InterruptAnswered.inline",
    "ListElement.value",
    "MergeAccepted.operation",
    "MergeAccepted.request",
    "MergeRequested.operation",
    "MergeRequested.request",
    "MessageRef.inline",
    "Output.value",
    "OutputSet.inline",
    "OutputSet.value",
    "PendingMerge.operation",
    "PendingMerge.request",
    "RunMerged.flags",
    "RunOutputSet.value",
    "RunStarted.flags",
}
"""The fields of plain JSON that are values, and refer to no content."""


def json_fields(model: type[BaseModel], seen: set[type[BaseModel]]) -> set[str]:
    """The fields of plain JSON of a model and of the models in it."""
    if model in seen:
        return set()
    seen.add(model)
    found: set[str] = set()
    for name, info in model.model_fields.items():
        types = [info.annotation]
        while types:
            each = types.pop()
            types += get_args(each)
            if each is Any:
                found.add(f"{model.__name__}.{name}")
            elif isinstance(each, type) and issubclass(each, BaseModel):
                found |= json_fields(each, seen)
    return found


def test_each_field_of_plain_json_is_embedded_or_has_no_hashes() -> None:
    seen: set[type[BaseModel]] = set()
    found = json_fields(CrewState, seen)
    for model in get_args(get_args(j.JournalEntry)[0]):
        found |= json_fields(model, seen)
    embedded = {f"{model.__name__}.{name}" for model, name in EMBEDDED}
    assert embedded <= found
    assert found - embedded == WITHOUT_HASHES


@pytest.mark.parametrize(
    ("entry", "hashes"),
    [
        (j.StepStarted(step=STEP, agent=ANN), set()),
        (j.MessageAdded(ref=j.MessageRef(body=A, logs=(PUBLIC,), inline={"body": C})), {A}),
        (
            j.ModelCallCompleted(
                step=STEP,
                call=1,
                agent=ANN,
                ref=j.MessageRef(body=A, logs=()),
                calls=(Call(call=2, tool="t", message=B),),
                draft=Draft(body=C),
            ),
            {A, B, C},
        ),
        (j.StateEdited(edits=(j.Edit(path="outputs.ann.x", body=A, value=B),)), {A}),
        (
            j.InterruptRaised(
                interrupt=Interrupt(
                    id=InterruptId("i1"), kind="ask", question="?", shows=A, args=[B]
                )
            ),
            {A},
        ),
        (j.RunStarted(run=RunId("r"), crew=CrewName("c"), definition=ContentHash("")), set()),
        (
            j.CompletionBuffered(
                step=STEP,
                call=2,
                entries=(
                    j.entry_to_json(j.OutputSet(agent=ANN, key="x", body=A)),
                    j.entry_to_json(j.StepCompleted(step=STEP)),
                ),
            ),
            {A},
        ),
        (
            j.LogsMerged(merged_logs=(j.LogMerge(log=PUBLIC, one=A, two=B),)),
            {A, B},
        ),
    ],
)
def test_hashes_of_an_entry(entry: j.JournalEntry, hashes: set[ContentHash]) -> None:
    assert find_references([j.entry_to_json(entry)]) == hashes

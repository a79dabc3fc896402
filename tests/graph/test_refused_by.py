"""A refusal says whose command it was, as far as the command says that."""

from __future__ import annotations

from typing import Any

import pytest

from audit_records import audit_records
from crewlog.cli.auditing import said
from crewlog.state import journal as j
from crewlog.workflows.commands.effects import apply_command
from crewlog.workflows.commands.queue import QueuedCommand
from graph.crews import plan_of
from graph.simulation import Simulation, final

NOT_POSSIBLE: dict[str, Any] = {"id": "c1", "by": "ben", "node": "nowhere"}


async def refused(data: Any, name: str = "interrupt") -> j.CommandRejected:
    sim = await Simulation.begin(plan_of(["a"]), final)
    await apply_command(sim.engine, QueuedCommand(name, data))
    entry = j.entry_from_json(sim.journal[-1])
    assert isinstance(entry, j.CommandRejected)
    return entry


@pytest.mark.parametrize(
    ("data", "by"),
    [
        (NOT_POSSIBLE, "ben"),
        ({"by": "ben", "no": "id"}, "ben"),
        ({**NOT_POSSIBLE, "by": "b" * 999}, "b" * 200),
        ({**NOT_POSSIBLE, "by": 7}, ""),
        ({**NOT_POSSIBLE, "by": ""}, ""),
        ({"id": "c1", "node": "nowhere"}, ""),
        ("ben", ""),
    ],
)
async def test_who_it_says(data: Any, by: str) -> None:
    assert (await refused(data)).by == by


async def test_a_signal_that_there_is_not() -> None:
    assert (await refused({"id": "d1", "by": "ben"}, "dance")).by == "ben"


async def test_the_audit_names_them() -> None:
    entry = await refused(NOT_POSSIBLE)
    (record,) = [each for each in audit_records([(1, entry)]) if each.kind == "refusal"]
    assert (record.principal, record.action, record.outcome) == ("ben", "interrupt", "refused")


EDIT: dict[str, Any] = {
    "id": "c1",
    "by": "ana",
    "interrupt": "i7",
    "decisions": [
        {"type": "edit", "edited_action": {"name": "refund", "args": {"to": "kim", "euros": 900}}}
    ],
}


async def test_a_refused_answer_says_to_what_it_was_and_what_it_said() -> None:
    entry = await refused(EDIT, "answer")
    assert (entry.interrupt, entry.answer_excerpt) == ("i7", "edit kim 900")
    (record,) = audit_records([(1, entry)])
    assert (record.interrupt, record.detail) == ("i7", "edit kim 900")
    assert "\n" not in record.reason
    told = said(record)
    assert told.startswith("ana's answer to i7 (edit kim 900) was refused: ")
    words = {"decisions": [{"type": "respond", "message": "w" * 500}]}
    assert len((await refused({**EDIT, **words}, "answer")).answer_excerpt) == 120


@pytest.mark.parametrize(
    ("data", "name"), [(NOT_POSSIBLE, "interrupt"), ({**EDIT, "decisions": []}, "answer")]
)
async def test_a_refusal_of_what_is_no_answer_names_no_question(data: Any, name: str) -> None:
    entry = await refused(data, name)
    assert (entry.interrupt, entry.answer_excerpt) == ("", "")

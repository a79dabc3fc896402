"""Ids of commands: the same command again has no second effect, another one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import CommandConflict, CommandRejected
from crewlog.state import journal as j
from crewlog.state.calls import PrepareChangeResult
from crewlog.state.carry import Carry, read_carry
from crewlog.state.model import CommandOutcome, CrewState
from crewlog.usage import Usage
from crewlog.wire import (
    Answer,
    Change,
    Command,
    EditState,
    MessageCommand,
    Redirect,
)
from crewlog.workflows.commands.effects import apply_command
from crewlog.workflows.commands.queue import Applied, QueuedCommand, RefusedCommand
from graph.crews import plan_of
from graph.simulation import Simulation, final

Content = dict[str, Any]
MESSAGE: Content = {"text": "Hello"}
EDIT: Content = {"set": {"flags.ok": True}}


async def running() -> Simulation:
    sim = await Simulation.begin(plan_of(["a", "b", "c"]), final)
    await sim.settle()
    return sim


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (("message", MESSAGE), ("message", {"text": "Bye"})),
        (("message", MESSAGE), ("message", {**MESSAGE, "to": "private:a"})),
        (("pause", {}), ("stop", {})),
        (("pause", {}), ("edit_state", EDIT)),
        (("edit_state", EDIT), ("edit_state", {"set": {"flags.ok": 1}})),
        (("edit_state", EDIT), ("edit_state", {**EDIT, "delete": ["flags.x"]})),
        (("redirect", {"node": "c"}), ("redirect", {"node": "c", "cut": True})),
        (("redirect", {"node": "nowhere"}), ("redirect", {"node": "c"})),
    ],
)
async def test_another_command_under_a_used_id_is_a_conflict(
    first: tuple[str, Content], other: tuple[str, Content]
) -> None:
    sim = await running()
    await sim.command(first[0], id="x", **first[1])
    known = sim.state.commands["x"]
    before = sim.state.model_dump(exclude={"position", "execution_trace"})
    refused = await sim.command(other[0], id="x", **other[1])
    assert isinstance(refused.error, CommandConflict)
    assert "the id 'x' was used for another command" in refused.error.message
    assert refused.error.remedy
    assert sim.state.commands["x"] == known
    assert sim.state.model_dump(exclude={"position", "execution_trace"}) == before
    told = [e for e in sim.engine.journal.entries if e["kind"] == "CommandRejected"][-1]
    assert (told["error_type"], "command" in told) == ("CommandConflict", False)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("message", MESSAGE),
        ("pause", {}),
        ("edit_state", EDIT),
        ("redirect", {"node": "c"}),
    ],
)
async def test_the_same_one_again_has_the_same_outcome(name: str, content: Content) -> None:
    """Also where somebody else sends it, for another reason, or spells a default out."""
    sim = await running()
    first = await sim.command(name, id="x", **content)
    position = sim.state.position
    assert isinstance(first.outcome, Applied)
    spelled = {"message": {"to": "public"}, "redirect": {"cut": False, "step": None}}
    for more in ({}, {"by": "ana", "reason": "again"}, spelled.get(name, {})):
        again = await sim.command(name, id="x", **{**content, **more})
        assert isinstance(again.outcome, Applied)
        assert (again.outcome.result.position, again.outcome.result.hash) == (
            first.outcome.result.position,
            first.outcome.result.hash,
        )
    assert sim.state.position == position


async def test_a_refusal_is_repeated_to_who_repeats_and_a_conflict_to_others() -> None:
    sim = await running()
    refused = await sim.command("redirect", id="x", node="nowhere")
    again = await sim.command("redirect", id="x", node="nowhere")
    assert type(again.error) is CommandRejected
    assert refused.command_hash == again.command_hash
    assert isinstance((await sim.command("pause", id="x")).error, CommandConflict)


async def test_an_outcome_without_a_digest_is_anybodys() -> None:
    """Older workers kept none: such an id means what it meant to them."""
    sim = await running()
    sim.engine.record(j.Paused(by="ana", command="old"))
    again = await sim.command("message", id="old", text="Hello")
    assert again.error is None
    assert isinstance(again.outcome, Applied)
    assert (again.outcome.result.detail, again.outcome.result.hash) == ("applied before", "")


async def test_it_is_known_in_the_next_execution_and_costs_little() -> None:
    sim = await running()
    for i in range(30):
        await sim.command("message", id=f"m{i}", text="Hello " * 200)
    carried = Carry(plan=sim.engine.plan.to_json(), state=sim.state.to_json()).to_json()
    state = CrewState.from_json(read_carry(carried).state)
    assert state.commands == sim.state.commands
    assert len({outcome.hash for outcome in state.commands.values()}) == 1
    (digest,) = {outcome.hash for outcome in state.commands.values()}
    assert len(digest) == 12


def test_a_digest_is_of_what_a_command_asks_for() -> None:
    def of(kind: type[Command], name: str, **said: Any) -> str:
        return kind.model_validate({"id": "x", **said}).content_hash(name)

    remove, disable = ([{"op": op, "name": "a"}] for op in ("remove_agent", "disable_agent"))
    answer = {"interrupt": "i1", "decisions": [{"type": "approve"}]}
    same = [
        (of(Change, "change", operations=remove), of(Change, "change", operations=remove, **more))
        for more in ({"graph_version": 3}, {"expect": "h"}, {"dry_run": True}, {"by": "ana"})
    ]
    same.append((of(Answer, "answer", **answer), of(Answer, "answer", **answer, hash="h")))
    assert all(one == other for one, other in same)
    different = [
        of(Change, "change", operations=remove),
        of(Change, "change", operations=disable),
        of(Change, "change", operations=remove, running="abandon"),
        of(Change, "change", operations=[*remove, *disable]),
        of(Change, "change", prompt="The writer writes."),
        of(Answer, "answer", **answer),
        of(EditState, "edit_state", set={"flags.ok": 1}),
        of(EditState, "edit_state", set={"flags.ok": True}),
        of(Redirect, "redirect", node="a"),
        of(Command, "pause"),
        of(Command, "resume"),
        of(MessageCommand, "message", text="a"),
    ]
    assert len({*different}) == len(different)


def test_a_kept_digest_is_compared_and_a_missing_one_is_not() -> None:
    assert CommandOutcome(hash="a").is_duplicate("a")
    assert not CommandOutcome(hash="a").is_duplicate("b")
    assert CommandOutcome().is_duplicate("b")


async def test_a_rejected_change_is_one_transaction_with_its_usage() -> None:
    sim = await running()
    content = {"id": "c1", "by": "ana", "prompt": "Add a reviewer."}
    incoming = QueuedCommand("change", content, is_update=True)
    incoming.rounds = [PrepareChangeResult(usage=Usage(calls=1)), PrepareChangeResult()]
    incoming.preparation = RefusedCommand(CommandRejected("the prompt makes no crew"))
    await apply_command(sim.engine, incoming)
    first = sim.state.position - 2
    *read, rejected = sim.journal[first - 1 :]
    assert [each["kind"] for each in read] == ["PromptRead", "PromptRead"]
    assert rejected["kind"] == "CommandRejected"
    assert [each.get("transaction") for each in (*read, rejected)] == [None, first, first]

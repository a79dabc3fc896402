"""A run before it has a crew, without a server: what is asked, approved, and folded."""

from __future__ import annotations

import pytest

from crewlog.canonical_json import hash_json
from crewlog.definition.load import load_data
from crewlog.errors import ApprovalMismatch, CommandRejected, InternalError
from crewlog.graph.engine import Engine
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.graph.prompt_compilation import (
    CHECK,
    INVALID,
    NO_PLAN,
    STEP,
    check_answer_hash,
)
from crewlog.ids import CommandId, RunId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.batch_codec import pack, unpack
from crewlog.state.calls import CompilePromptResult, PrepareRunResult
from crewlog.state.carry import Carry, PromptCarry, read_carry
from crewlog.state.fold import fold_journal
from crewlog.state.model import CrewState, Interrupt, PromptDiagnostic
from crewlog.state.recorder import Journal
from crewlog.usage import Usage

RUN = RunId("notes-1")
TEXT = "The writer drafts, then the critic reads."
CREW: dict[str, Json] = {
    "crew": "notes",
    "model": "scripted:x",
    "agents": {"writer": {"prompt": "Write."}, "critic": {"prompt": "Read."}},
}
REMARK = PromptDiagnostic(code="assumed", message="at most 3 times is assumed", line=1, column=5)


def begun() -> Engine:
    draft = PromptCarry(input="go", by="ana", model="scripted:x")
    return Engine.begin_with_prompt(RUN, TEXT, draft, registry="ours", at=1000)


def opened(data: dict[str, Json]) -> PrepareRunResult:
    definition = load_data(data)
    return PrepareRunResult(definition=definition.to_json(), plan=lower(definition).to_json())


def compiled(**more: Json) -> CompilePromptResult:
    definition = load_data(CREW).to_json()
    return CompilePromptResult(
        reader="model", definition=definition, diagnostics=(REMARK,), at=1, **more
    )


def asking() -> tuple[Engine, Interrupt]:
    draft = begun()
    draft.prompt.apply_result(compiled(reply="{}", usage=Usage(calls=1, input_tokens=5)))
    draft.prompt.ask_for_approval(opened(CREW))
    (asked,) = draft.state.interrupts.values()
    return draft, asked


def answer(draft: Engine, asked: Interrupt, decision: str, reason: str = "") -> None:
    draft.prompt.answer(asked, decision, by="bo", command=CommandId("c1"), reason=reason)


def assert_folds(draft: Engine) -> None:
    entries = [j.entry_from_json(data) for data in draft.journal.entries]
    assert fold_journal(RUN, entries) == draft.state
    assert CrewState.from_json(draft.state.to_json()) == draft.state
    batch = j.Batch(first=1, entries=tuple(draft.journal.entries))
    assert unpack(pack(batch, {}), {}) == batch


async def test_one_call_is_made_at_a_time() -> None:
    draft = begun()
    (order,) = draft.pending_calls(())
    assert order.call.tool is None
    assert not list(draft.pending_calls({(order.step, order.call.call)}))
    assert draft.prompt.compile_input().replies == ()
    draft.prompt.apply_result(CompilePromptResult(reply="no", errors=1, again=True, at=1))
    (order,) = draft.pending_calls(())
    assert order.call.call == 2
    assert draft.prompt.compile_input().replies == ("no",)
    draft.prompt.apply_result(compiled(reply="yes"))
    (order,) = draft.pending_calls(())
    assert order.call.tool == CHECK
    assert draft.plan is NO_PLAN
    draft.prompt.ask_for_approval(opened(CREW))
    assert not list(draft.pending_calls(()))
    assert_folds(draft)


async def test_what_is_approved_is_the_hash_and_it_alone_begins() -> None:
    draft, asked = asking()
    assert asked.kind == "approval"
    assert asked.hash == hash_json(draft.prompt.definition) == draft.plan.definition
    assert str(asked.hash) in asked.detail
    assert "1:5  at most 3 times is assumed" in asked.detail
    assert not draft.prompt.is_ready
    answer(draft, asked, "approve")
    assert draft.prompt.is_ready
    draft.at = 5000
    await draft.prompt.start_crew()
    started = draft.journal.entries[-3]
    assert (started["kind"], started["started_at"], started["definition"]) == (
        "RunStarted",
        1000,
        asked.hash,
    )
    assert draft.state.started_at == 1000
    assert list(draft.state.frontier) == ["writer#1"]
    assert draft.state.prompt is not None
    assert draft.state.prompt.approved == asked.hash
    assert_folds(draft)


async def test_a_plan_of_another_definition_never_begins() -> None:
    draft, asked = asking()
    answer(draft, asked, "approve")
    other = opened({**CREW, "description": "another"})
    draft.plan = GraphPlan.from_json(other.plan)
    with pytest.raises(InternalError, match="people approved"):
        await draft.prompt.start_crew()
    draft, asked = asking()
    answer(draft, asked, "approve")
    assert draft.prompt.draft is not None
    draft.prompt.draft = draft.prompt.draft.model_copy(update={"definition": other.definition})
    with pytest.raises(InternalError, match="people approved"):
        await draft.prompt.start_crew()


def test_an_edit_raises_another_question_about_another_hash() -> None:
    draft, asked = asking()
    new = draft.prompt.edit(
        asked, opened({**CREW, "description": "x"}), by="bo", command=CommandId("e1")
    )
    (second,) = draft.state.interrupts.values()
    assert (second.id, second.hash) == ("i2", new)
    assert new != asked.hash
    assert draft.state.prompt is not None
    assert (draft.state.prompt.edited, draft.state.prompt.definition) == (True, new)
    with pytest.raises(ApprovalMismatch, match=f"about the definition {new}"):
        check_answer_hash(second, str(asked.hash))
    check_answer_hash(second, "")
    assert_folds(draft)


def test_a_rejection_stops_the_run() -> None:
    draft, asked = asking()
    with pytest.raises(CommandRejected, match="'maybe' is no answer"):
        answer(draft, asked, "maybe")
    answer(draft, asked, "reject", "not now")
    assert (draft.state.status, draft.state.interrupts) == ("stopped", {})
    assert draft.journal.entries[-1]["because"] == "bo rejected the crew: not now"
    assert_folds(draft)


def test_an_error_fails_the_run_with_every_remark() -> None:
    draft = begun()
    bad = PromptDiagnostic(
        code="unknown_tool", severity="error", message="no tool", line=1, column=9
    )
    draft.prompt.apply_result(CompilePromptResult(reader="forms", diagnostics=(REMARK, bad), at=1))
    assert (draft.state.status, draft.state.error_type) == ("failed", INVALID)
    assert "1:5  at most 3" in draft.state.error
    assert "1:9  no tool" in draft.state.error
    assert_folds(draft)


async def test_a_call_that_failed_is_made_again_when_people_say_so() -> None:
    draft = begun()
    (order,) = draft.pending_calls(())
    await draft.apply_call_failure(order.step, 1, "no key", "ModelRequestRejected")
    assert not list(draft.pending_calls(()))
    (asked,) = draft.state.interrupts.values()
    answer(draft, asked, "retry")
    (order,) = draft.pending_calls(())
    assert order.call.attempt == 2
    await draft.apply_call_failure(order.step, 1, "no registry 'x'", "InvalidDefinition")
    assert draft.state.error_type == INVALID


async def test_people_may_let_the_forms_read_where_the_model_cannot_be_asked() -> None:
    draft = begun()
    draft.prompt.apply_result(CompilePromptResult(reply="no", errors=1, again=True, at=1))
    await draft.apply_call_failure(STEP, 2, "no key", "ModelRequestRejected")
    (asked,) = draft.state.interrupts.values()
    assert asked.options == ("retry", "forms", "stop")
    answer(draft, asked, "forms")
    assert (draft.prompt.compile_input().reader, draft.prompt.compile_input().replies) == (
        "forms",
        (),
    )
    (order,) = draft.pending_calls(())
    assert order.call.tool is None


def test_nothing_is_called_while_the_run_is_paused() -> None:
    draft = begun()
    draft.record(j.Paused())
    assert not list(draft.pending_calls(()))
    draft, asked = asking()
    draft.record(j.Paused())
    answer(draft, asked, "approve")
    assert not draft.prompt.is_ready
    draft.record(j.RunResumed())
    assert draft.prompt.is_ready


async def test_it_is_carried_with_an_open_question() -> None:
    draft, asked = asking()
    data = Carry(
        plan=draft.plan.to_json(), state=draft.state.to_json(), prompt=draft.prompt.draft
    ).to_json()
    carry = read_carry(data)
    assert carry.prompt is not None
    state = CrewState.from_json(carry.state)
    again = Engine(GraphPlan.from_json(carry.plan), Journal(state), carry.prompt)
    assert not list(again.pending_calls(()))
    answer(again, asked, "approve")
    await again.prompt.start_crew()
    assert again.state.definition == asked.hash

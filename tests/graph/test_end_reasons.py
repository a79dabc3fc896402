"""Why a run ended is a word: programs tell a bound that was reached from an approval."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from crewlog import errors
from crewlog.run_status import BOUNDS, OF_ERRORS, FoundError
from crewlog.state.calls import OutputValue
from crewlog.usage import Usage
from graph.crews import plan_of
from graph.simulation import Failure, Replies, Simulation, folded, returns, run, says
from graph.test_routes import setting

ACT = {"act": {"run": "m:f"}}
ROUTER: dict[str, Any] = {"router": {"outputs": ["next"]}}


def back(otherwise: str | None = None) -> list[Any]:
    more = {} if otherwise is None else {"else": otherwise}
    return ["a", {"if": "not ok", "go": "a", "at_most": 1, **more}, "b"]


def ends(sim: Simulation) -> tuple[str, str]:
    (last,) = [e for k in ("Completed", "Stopped", "Failed") for e in sim.facts(f"Run{k}")]
    defaults = {"RunCompleted": "completed", "RunStopped": "stopped", "RunFailed": "failed"}
    assert last.get("end_reason", defaults[last["kind"]]) == sim.state.end_reason
    assert folded(sim.journal) == sim.state
    return sim.state.status, sim.state.end_reason


@pytest.mark.parametrize(
    ("otherwise", "end"),
    [
        (None, ("completed", "retry_budget_exhausted")),
        ("end", ("completed", "retry_budget_exhausted")),
        ("b", ("completed", "retry_budget_exhausted")),
        ("fail", ("failed", "retry_budget_exhausted")),
    ],
)
async def test_a_loop_at_its_bound_is_told_from_one_that_is_content(
    otherwise: str | None, end: tuple[str, str]
) -> None:
    assert ends(await run(plan_of(back(otherwise)))) == end
    content = await run(plan_of(back(otherwise), flags={"ok": True}))
    assert ends(content) == ("completed", "completed")
    assert content.state.warning == ""


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        ("stop", ("stopped", "retry_budget_exhausted")),
        ("continue", ("completed", "completed")),
    ],
)
async def test_people_let_a_loop_pass_its_bound_or_end_there(
    answer: str, end: tuple[str, str]
) -> None:
    sim = await run(plan_of(back("ask_human")))
    await sim.answer(answer)
    await sim.run()
    assert ends(sim) == end


@pytest.mark.parametrize(
    ("limits", "answer", "end"),
    [
        ({"steps": 1}, "stop", ("stopped", "step_limit_reached")),
        ({"tokens": 1}, "stop", ("stopped", "budget_exhausted")),
        ({"steps": 2}, "go on", ("completed", "completed")),
    ],
)
async def test_a_run_that_is_allowed_no_more_says_which_limit(
    limits: dict[str, int], answer: str, end: tuple[str, str]
) -> None:
    used = says("A", usage=Usage(input_tokens=9, calls=1))
    sim = await run(plan_of(["a", "b", "c"], limits=limits), Replies({"a#1": [used]}))
    await sim.answer(answer)
    await sim.run()
    assert ends(sim) == end


@pytest.mark.parametrize("beyond", ["end", "next", "fail"])
async def test_a_route_at_its_bound(beyond: str) -> None:
    flow: list[Any] = [
        "router",
        {"route": "router.next", "to": ["a"], "at_most": 1, "else_used_up": beyond},
        {"agent": "a", "after": "go"},
        {"if": "router.next", "go": "router", "at_most": 9, "after": "a"},
    ]
    sim = await run(plan_of(flow, ROUTER), setting("a"))
    status = "failed" if beyond == "fail" else "completed"
    assert ends(sim) == (status, "route_limit_reached")


async def test_a_turn_that_is_cut_off_and_one_that_is_tried_again() -> None:
    cut = {"a": {"max_calls": 1, "on_cap": "end"}}
    script = Replies({"a#1": [says("half", "act")]}, {"act": returns()})
    sim = await run(plan_of(["a", "b"], cut, tools=ACT), script)
    assert ends(sim) == ("completed", "call_limit_reached")
    again = await run(plan_of(back(), cut, tools=ACT, flags={"ok": False}), script)
    assert again.state.end_reason == "retry_budget_exhausted"


async def test_what_fails_by_no_bound_only_failed() -> None:
    broken = Replies({"a#1": [Failure("broke")]})
    sim = await run(plan_of(["a"], {"a": {"on_error": "fail"}}), broken)
    assert ends(sim) == ("failed", "failed")
    assert ends(await run(plan_of(["a", "b"]))) == ("completed", "completed")


def test_every_type_of_error_of_a_step_says_which_bound_it_is() -> None:
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    calls = {each.__name__ for each in found if issubclass(each, errors.StepError)}
    assert {*OF_ERRORS} == calls | {*get_args(FoundError)}
    assert {*OF_ERRORS.values()} - {""} <= BOUNDS


GONE_ON = "The run went on without a#1, which failed: "


@pytest.mark.parametrize(
    ("reply", "error", "reason"),
    [
        (says("half", ending="cut"), "BadReply", "reply_tries_exhausted"),
        (Failure("broke", "ModelRequestRejected"), "ModelRequestRejected", "completed"),
        (says("half", "act"), "TurnTooLong", "call_limit_reached"),
    ],
)
async def test_a_run_says_without_which_step_it_went_on(
    reply: Any, error: str, reason: str
) -> None:
    agents = {"a": {"on_error": "continue", "max_calls": 1 if error == "TurnTooLong" else 5}}
    script = Replies({"a#1": [reply] * 3}, {"act": returns()})
    sim = await run(plan_of(["a", "b"], agents, tools=ACT), script)
    assert ends(sim) == ("completed", reason)
    assert sim.state.warning == f"{GONE_ON}{error}."
    failing = {"a": {**agents["a"], "on_error": "fail"}}
    sim = await run(plan_of(["a", "b"], failing, tools=ACT), Replies({"a#1": [reply] * 3}))
    assert ends(sim) == ("failed", "failed" if reason == "completed" else reason)


async def test_a_step_that_a_stand_in_replaces_is_no_warning() -> None:
    flow: list[Any] = [
        {"agent": "a", "on_error": "c"},
        {"agent": "c", "after": "go"},
        {"agent": "b", "after": {"any": ["a", "c"]}},
    ]
    sim = await run(plan_of(flow), Replies({"a#1": [Failure("broke")]}))
    assert ends(sim) == ("completed", "completed")
    assert (sim.ran(), sim.state.warning) == (["a#1", "c#1", "b#1"], "")


async def test_an_item_that_came_to_a_bound_counts_while_others_begin() -> None:
    made = OutputValue(key="things", value=[1, 2])
    agents: dict[str, Any] = {"a": {"outputs": ["things"]}, "b": {"on_error": "continue"}}
    flow: list[Any] = ["a", {"agent": "b", "for_each": "a.things", "at_once": 1}]
    listing = says("", "set_output")
    script = Replies(
        {"a#1": [listing], "b#1.1": [says("half", ending="cut")] * 3},
        {"set_output": returns(outputs=(made,))},
    )
    sim = await run(plan_of(flow, agents), script)
    assert ends(sim) == ("completed", "reply_tries_exhausted")

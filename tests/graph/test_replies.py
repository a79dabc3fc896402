"""Replies of a form, without a server: tries, fallbacks, questions, and turns that are capped."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crewlog.canonical_json import hash_json
from crewlog.cli.timeline import Timeline
from crewlog.definition.model import CrewDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan, PlanStructuredOutput
from crewlog.graph.run_context import CallRequest
from crewlog.reporting.dry_run.runner import dry_run
from crewlog.reporting.trace.builder import run_trace
from crewlog.state import journal as j
from crewlog.state.calls import (
    CallModelResult,
    FinalMessage,
    FinalMessageInvalid,
    OutputValue,
    StructuredOutput,
)
from crewlog.state.drafts import draft_text
from crewlog.state.model import CrewState
from graph.other_plans import other_plan
from graph.simulation import (
    Failure,
    Outcome,
    RandomScript,
    Replies,
    Simulation,
    as_json,
    dice,
    folded,
    random_plan,
    returns,
    says,
)

GOOD = StructuredOutput(
    outputs=(
        OutputValue(key="next", value="billing"),
        OutputValue(key="instructions", value=""),
        OutputValue(key="rationale", value="money"),
    )
)


def plan(
    reply: dict[str, Any] | None, *, only_if: str = "router.next == 'billing'", **more: Any
) -> GraphPlan:
    form = {"decision": "route", "among": ["billing"], **reply} if reply is not None else None
    router = {"prompt": "Route.", "tools": ["look"], "reply": form, **more}
    return lower(
        CrewDefinition.model_validate(
            {
                "crew": "hub",
                "model": "scripted:none",
                "agents": {"router": router, "billing": {"prompt": "Bill."}},
                "tools": {"look": {"run": "a:b", "effects": "read"}},
                "flow": ["router", {"agent": "billing", "only_if": only_if}],
            }
        )
    )


def bad(fault: str = "'next' is missing") -> CallModelResult:
    return says("I do not know.", errors=(fault,))


def good(**more: Any) -> CallModelResult:
    return says('{"next": "billing"}', reply=GOOD, **more)


async def run(given_plan: GraphPlan, *replies: Any, seed: int = 1) -> Simulation:
    sim = await Simulation.begin(given_plan, Replies({"router#1": replies}), seed=seed)
    await sim.run()
    return sim


def outputs(sim: Simulation, agent: str = "router") -> dict[str, Any]:
    found = sim.state.agent_outputs.get(agent, {})
    return {key: o.value if o.body is None else o.body for key, o in found.items()}


def tried(sim: Simulation) -> list[tuple[int, int]]:
    return [(each["attempt"], each["of"]) for each in sim.facts("StructuredOutputRejected")]


async def test_a_reply_sets_its_fields_and_conditions_see_them() -> None:
    sim = await run(plan({}), good())
    assert sim.state.status == "completed"
    assert sim.ran() == ["router#1", "billing#1"]
    found = outputs(sim)
    assert found.pop("response") == found.pop("text")
    assert found == {"next": "billing", "instructions": "", "rationale": "money"}
    (taken,) = sim.facts("StructuredOutputParsed")
    assert taken["excerpt"] == "next = billing, rationale = money"


async def test_garbage_twice_and_then_good() -> None:
    sim = await run(plan({}), bad("it is empty"), bad(), good())
    assert sim.state.status == "completed"
    assert tried(sim) == [(1, 3), (2, 3)]
    assert sim.facts("StructuredOutputParsed")[0]["attempt"] == 3
    told = [each["ref"]["inline"]["content"] for each in sim.facts("StructuredOutputRejected")]
    assert "- it is empty" in told[0]
    assert "- 'next' is missing" in told[1]
    assert sim.state.usage["router"].calls == 0 or sim.state.usage["router"].calls == 3  # type: ignore[index]
    logs = [each["ref"]["logs"] for each in sim.facts("ModelCallCompleted")[:3]]
    assert logs == [["private:router"], ["private:router"], ["public"]]


async def test_after_the_last_try_the_fallback_counts() -> None:
    sim = await run(plan({"fallback": {"next": "billing"}}), bad(), bad(), bad())
    assert sim.state.status == "completed"
    assert tried(sim) == [(1, 3), (2, 3), (3, 3)]
    assert sim.facts("StructuredOutputParsed")[0]["how"] == "fallback"
    assert outputs(sim)["next"] == "billing"
    assert "text" not in outputs(sim), "what nobody could read is no text for others"
    assert sim.ran() == ["router#1", "billing#1"]


async def test_without_a_fallback_people_are_asked_and_retry_tries_as_often_again() -> None:
    sim = await run(plan({"tries": 2}), bad(), bad(), bad(), good())
    asked = sim.asked()
    assert asked.kind == "step_failed"
    assert "asked 2 times: 'next' is missing" in asked.question
    assert sim.facts("StepFailed")[0]["error_type"] == "ReplyInvalid"
    await sim.answer("retry")
    await sim.run()
    assert sim.state.status == "completed"
    assert tried(sim) == [(1, 2), (2, 2), (1, 2)]


async def test_whoever_is_asked_is_told_what_was_wrong_with_each_try() -> None:
    sim = await run(plan({}), bad("it is empty"), bad(), bad("there is no JSON"), bad(), good())
    told = "(1) it is empty; (2) 'next' is missing; (3) there is no JSON"
    assert told in sim.asked().question
    await sim.answer("retry")
    await sim.run()
    assert sim.state.status == "completed"
    assert not [e for e in sim.state.frontier.values() if e.turn is not None and e.turn.faults]


@pytest.mark.parametrize(("policy", "status"), [("continue", "completed"), ("fail", "failed")])
async def test_the_policy_of_errors_holds(policy: str, status: str) -> None:
    sim = await run(plan({"tries": 1}, on_error=policy), bad())
    assert sim.state.status == status


async def test_a_field_that_is_left_out_is_not_that_of_the_visit_before() -> None:
    schema = {"type": "object", "properties": {"score": {}, "note": {}}}
    crew = {
        "crew": "c",
        "model": "scripted:none",
        "agents": {"judge": {"prompt": "Judge.", "reply": {"schema": schema}}},
        "flow": ["judge", {"if": "judge.score < 1", "go": "judge", "at_most": 1}],
    }

    def read(**fields: Any) -> CallModelResult:
        found = tuple(OutputValue(key=key, value=value) for key, value in fields.items())
        return says("{}", reply=StructuredOutput(outputs=found))

    script = Replies({"judge#1": [read(score=0, note="weak")], "judge#2": [read(score=1)]})
    sim = await Simulation.begin(lower(CrewDefinition.model_validate(crew)), script)
    await sim.run()
    found = outputs(sim, "judge")
    assert (found["score"], found["note"]) == (1, None)


async def test_confidence_in_a_reply_counts() -> None:
    form = {"decision": "terminate", "among": []}
    unsure = StructuredOutput(outputs=(OutputValue(key="confidence", value=0.3),))
    sim = await run(plan(form, only_if="router.done", ask_below=0.5), says("{}", reply=unsure))
    assert sim.asked().kind == "low_confidence"
    assert "states 0.3" in sim.asked().question


async def test_thinking_once_more_begins_the_tries_anew() -> None:
    form = {"decision": "terminate", "among": [], "tries": 2}
    unsure = says("{}", reply=StructuredOutput(outputs=(OutputValue(key="confidence", value=0.3),)))
    sure = says("{}", reply=StructuredOutput(outputs=(OutputValue(key="confidence", value=1),)))
    crew = plan(form, only_if="router.done", ask_below=0.5)
    sim = await run(crew, bad(), unsure, bad(), sure)
    await sim.answer("again")
    await sim.run()
    assert sim.state.status == "completed"
    assert tried(sim) == [(1, 2), (1, 2)]


# -- turns that are capped --------------------------------------------------------------------


def looking(text: str = "") -> CallModelResult:
    return says(text, "look")


async def test_a_capped_turn_ends_with_its_last_text() -> None:
    capped = plan(None, only_if="not router.capped", max_calls=2, on_cap="end")
    sim = await run(capped, looking("Half of it."), looking())
    assert sim.state.status == "completed"
    assert sim.ran() == ["router#1"]
    (fact,) = sim.facts("TurnLimitReached")
    assert fact["calls"] == 2
    reply = sim.facts("ModelCallCompleted")[0]
    said = reply["draft"]["body"]
    assert said == hash_json(draft_text(looking("Half of it.").body)) != reply["ref"]["body"]
    assert fact["ref"] == {"body": said, "logs": ["public"]}
    assert outputs(sim) == {"capped": True, "text": said}
    assert [call for _, call, _ in sim.made] == [1, 2, 3, 4], "and no third model call"


async def test_the_text_of_a_capped_turn_travels_while_the_store_is_away() -> None:
    capped = plan(None, only_if="not router.capped", max_calls=1, on_cap="end")
    sim = await run(capped, says("Half of it.", "look", stored=False))
    (fact,) = sim.facts("TurnLimitReached")
    assert fact["ref"]["inline"] == {"type": "ai", "content": "Half of it."}
    assert hash_json(fact["ref"]["inline"]) == fact["ref"]["body"]


ENDINGS = ["cut", "withheld", "empty", "unknown"]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_capped_turn_does_not_end_with_a_bad_reply(ending: Any) -> None:
    capped = plan(None, only_if="not router.capped", max_calls=2, on_cap="end")
    half = says("Half of", ending=ending)
    sim = await run(capped, half, half, half)
    assert "asked 2 times" in sim.asked().question
    assert sim.facts("StepFailed")[0]["error_type"] == "BadReply"
    assert tried(sim) == [(1, 3), (2, 2)]
    assert (sim.facts("TurnLimitReached"), outputs(sim)) == ([], {})


@pytest.mark.parametrize(("policy", "status"), [("ask", "waiting"), ("fail", "failed")])
async def test_a_bad_reply_at_the_cap_follows_its_policy(policy: str, status: str) -> None:
    on_error = {"failure": "continue", "bad_reply": policy}
    capped = plan(None, only_if="router.capped", max_calls=1, on_cap="end", on_error=on_error)
    sim = await run(capped, says("Half of", ending="cut"))
    assert sim.state.status == ("running" if status == "waiting" else status)
    assert len(sim.state.interrupts) == (status == "waiting")


async def test_a_capped_turn_with_an_accepted_reply_has_its_text() -> None:
    on_error = {"bad_reply": "accept"}
    capped = plan(None, only_if="router.capped", max_calls=1, on_cap="end", on_error=on_error)
    half = says("Half of", ending="cut")
    sim = await run(capped, half)
    assert (sim.state.status, outputs(sim)) == ("completed", {"text": half.hash})


async def test_a_capped_turn_ends_with_the_text_before_a_bad_reply() -> None:
    capped = plan(None, only_if="not router.capped", max_calls=2, on_cap="end")
    sim = await run(capped, looking("Half of it."), says("And", ending="cut"))
    assert sim.state.status == "completed"
    assert outputs(sim)["text"] == hash_json(draft_text(looking("Half of it.").body))


async def test_the_fallback_counts_at_the_cap_and_a_bad_reply_is_no_response() -> None:
    capped = plan({"fallback": {"next": "billing"}}, max_calls=1, on_cap="end")
    sim = await run(capped, says("Half of", ending="withheld"))
    assert sim.state.status == "completed"
    found = outputs(sim)
    assert (found["next"], found["capped"], found.get("response")) == ("billing", True, None)


async def test_an_accepted_reply_that_is_not_of_its_form_is_told_why() -> None:
    crew = plan({"tries": 1}, on_error={"bad_reply": "accept"})
    sim = await run(crew, says("Half of", ending="cut", errors=("there is no JSON",)))
    (failed,) = sim.facts("StepFailed")
    assert failed["error_type"] == "ReplyInvalid"
    assert "there is no JSON" in failed["error"]
    assert "bad_reply" not in failed["error"], "it is that already"
    read = await run(crew, good(ending="cut"))
    assert (read.state.status, outputs(read)["next"]) == ("completed", "billing")


async def test_a_capped_turn_with_a_form_takes_the_fallback_or_sets_nothing() -> None:
    for fallback, expected in ((None, None), ({"next": "billing"}, "billing")):
        form = {"fallback": fallback} if fallback else {}
        sim = await run(plan(form, max_calls=1, on_cap="end"), looking())
        assert sim.state.status == "completed"
        assert outputs(sim).get("next") == expected
        assert outputs(sim)["capped"] is True


async def test_the_next_visit_that_is_not_capped_says_so() -> None:
    crew = {
        "crew": "c",
        "model": "scripted:none",
        "agents": {"w": {"prompt": "w", "tools": ["look"], "max_calls": 1, "on_cap": "end"}},
        "tools": {"look": {"run": "a:b", "effects": "read"}},
        "flow": ["w", {"if": "w.capped", "go": "w", "at_most": 2}],
    }
    sim = await Simulation.begin(
        lower(CrewDefinition.model_validate(crew)), Replies({"w#1": [looking()]})
    )
    await sim.run()
    assert sim.ran() == ["w#1", "w#2"]
    assert outputs(sim, "w")["capped"] is False


# -- whatever comes -----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    made=st.lists(st.sampled_from(["good", "bad", "none", "look", "broken"]), max_size=12),
    tries=st.integers(1, 4),
    fallback=st.booleans(),
    on_cap=st.sampled_from(["fail", "end"]),
    max_calls=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
@example(made=[], tries=1, fallback=False, on_cap="fail", max_calls=1, seed=52)
async def test_no_reply_kills_a_run_and_every_try_is_in_the_journal(
    made: list[str], tries: int, fallback: bool, on_cap: str, max_calls: int, seed: int
) -> None:
    kinds = {
        "good": good(),
        "bad": bad(),
        "none": says("of a worker that read nothing"),
        "look": looking("So far."),
        "broken": Failure("it broke"),
    }
    form = {"tries": tries} | ({"fallback": {"next": "billing"}} if fallback else {})
    script = Replies(
        {"router#1": [kinds[each] for each in made] + [good()] * 9}, {"look": returns()}
    )
    sim = await Simulation.begin(
        plan(form, on_cap=on_cap, max_calls=max_calls),
        script,
        seed=seed,
        people=True,
        restore_at=lambda drain: drain % 2 == 0,
    )
    await sim.run()
    assert sim.state.is_ended
    assert sim.state.status in ("completed", "stopped")
    # People may go back: then the router has a second step.
    replies = [each for each in sim.facts("ModelCallCompleted") if each["agent"] == "router"]
    refused = [(each["step"], each["call"]) for each in sim.facts("StructuredOutputRejected")]
    marked = [(each["step"], each["call"]) for each in replies if each.get("refused")]
    assert refused == marked, "each reply that was refused, once"
    for fact in sim.facts("StructuredOutputRejected"):
        assert 1 <= fact["attempt"] <= tries


# -- where people look --------------------------------------------------------------------------


async def test_a_dry_run_assumes_fields() -> None:
    found = await dry_run(plan({}), outputs={"router": {"next": "billing"}})
    assert [step.node for step in found.steps if step.outcome == "done"] == ["router", "billing"]
    found = await dry_run(plan({}))
    assert [step.node for step in found.steps if step.outcome == "done"] == ["router"]


async def test_the_timeline_and_the_trace_tell_of_tries() -> None:
    sim = await run(plan({"tries": 2, "fallback": {"next": "billing"}}), bad(), bad())
    entries = [j.entry_from_json(each) for each in sim.journal]
    timeline = Timeline(["router", "billing"])
    rows = [f"{r.node} {r.glyph} {r.text}" for e in entries for r in timeline.feed(e)]
    assert "router ✗ reply 1 of 2 cannot be used: 'next' is missing" in rows
    assert "router ≈ the fallback counts: next = billing" in rows
    assert not any("response" in row for row in rows)
    step = run_trace(enumerate(entries, 1)).steps[0]
    assert [(call.call, call.ok) for call in step.calls] == [(1, False), (2, False)]
    assert step.calls[0].errors == ["'next' is missing"]
    assert step.values["router.next"] == "billing"


class Speaking(RandomScript):
    """Outcomes at random, where final messages are read, are not, or come of no reader at all."""

    def __call__(self, order: CallRequest) -> Outcome:
        made = super().__call__(order)
        if not isinstance(made, CallModelResult) or not isinstance(made.outcome, FinalMessage):
            return made
        rng = dice(f"{self.seed}/{order.step}/{order.call.call}/{order.call.attempt}/said")
        if rng.random() < 0.5:
            errors = ("it is nothing",) * rng.randint(0, 3)
            outcome = FinalMessageInvalid(errors=errors) if errors else FinalMessage()
            return made.model_copy(update={"outcome": outcome})
        large = OutputValue(key="list", body=hash_json(LARGE), content=LARGE)
        fields = rng.sample([OutputValue(key="score", value=rng.choice([0, 0.5, None])), large], 1)
        output = StructuredOutput(how="lenient", outputs=tuple(fields))
        return made.model_copy(update={"outcome": FinalMessage(output=output)})


LARGE = ["x" * 100] * 3


def with_forms(rng: random.Random, crew: GraphPlan) -> GraphPlan:
    """A plan whose agents mostly have forms, and may be capped."""
    agents = {}
    for name, rules in crew.agents.items():
        fallback = rng.choice([None, {"score": 1, "list": LARGE}])
        form = PlanStructuredOutput(
            tries=rng.randint(1, 3), fields=("score", "list"), fallback=fallback
        )
        update = {
            "reply": form if rng.random() < 0.8 else None,
            "on_cap": rng.choice(["end", "end", "fail"]),
            "max_calls": rng.choice([1, 2, 25]),
            "ask_below": rng.choice([None, None, 0.5]),
        }
        agents[name] = rules.model_copy(update=update)
    return crew.model_copy(update={"agents": agents})


async def test_forms_hold_in_crews_at_random_with_people_and_changes() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(40):
        rng = dice(f"forms {seed}")
        crew = with_forms(rng, random_plan(rng))
        sim = await Simulation.begin(
            crew,
            Speaking(crew, seed),
            seed=seed,
            people=True,
            other=lambda r, p: other_plan(r, with_forms(r, p)),
            restore_at=lambda drain: drain % 2 == 0,
        )
        await sim.run()
        assert sim.state.is_ended
        assert as_json(folded(sim.journal)) == as_json(sim.state)
        assert CrewState.from_json(sim.state.to_json()) == sim.state
        kinds.update(entry["kind"] for entry in sim.journal)
        kinds.update(entry.get("how", "json") for entry in sim.facts("StructuredOutputParsed"))
        kinds.update(entry.get("error_type", "") for entry in sim.facts("StepFailed"))
    wanted = {
        "StructuredOutputParsed",
        "StructuredOutputRejected",
        "TurnLimitReached",
        "lenient",
        "fallback",
        "ReplyInvalid",
    }
    assert min(kinds[kind] for kind in {*wanted, "GraphSwapped"}) >= 5, kinds

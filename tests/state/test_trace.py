"""The execution trace: what it says follows from the journal."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from crewlog.graph.run_context import CallRequest
from crewlog.ids import AgentName, LogName, StepId, item_number
from crewlog.reporting.diff.state import state_diff
from crewlog.reporting.trace.builder import run_trace
from crewlog.reporting.trace.comparison import trace_diff
from crewlog.reporting.trace.step_changes import changes_by_position, changes_by_step
from crewlog.reporting.trace.view import StepTrace, TraceView
from crewlog.state import journal as j
from crewlog.state.calls import OutputValue
from crewlog.state.journal import entry_from_json
from crewlog.state.restore import recorded_state
from graph.crews import plan_of
from graph.simulation import RUN, Failure, Outcome, Replies, Simulation, crew_run, returns, says

TOOLS = {name: {"run": "m:f"} for name in ("read", "act")}
READS = {AgentName("a"): [LogName("public")], AgentName("b"): [LogName("public")]}


def entries(sim: Simulation) -> list[tuple[int, Any]]:
    return [(n, entry_from_json(data)) for n, data in enumerate(sim.journal, 1)]


def traced(sim: Simulation) -> TraceView:
    return run_trace(entries(sim), READS)


def step(trace: TraceView, name: str) -> StepTrace:
    (found,) = [each for each in trace.all_steps() if each.step == name]
    return found


async def test_a_step_with_its_calls_inputs_and_outputs() -> None:
    plan = plan_of(["a", "b"], {"a": {"tools": ["read", "act"], "outputs": ["score"]}}, tools=TOOLS)
    script = Replies(
        {"a#1": [says("", "read", "act", "secret", usage={"calls": 1, "input_tokens": 7})]},
        {
            "read": returns("text", ms=12, outputs=(OutputValue(key="score", value=3),)),
            "act": returns("oops", ok=False),
        },
    )
    sim = await (await Simulation.begin(plan, script)).run()
    trace = traced(sim)
    assert (trace.run, trace.crew, trace.status) == ("sim", "t", "completed")
    a, b = trace.steps
    assert (a.status, a.agent, a.next_nodes, a.values) == ("completed", "a", ("b",), {"a.score": 3})
    assert (a.reads, b.reads) == ({"public": 1}, {"public": 2})
    assert [(c.tool, c.ok, c.ms) for c in a.calls[1:4]] == [
        ("read", True, 12),
        ("act", False, 0),
        ("secret", False, 0),
    ]
    assert a.calls[0].usage.input_tokens == 7
    assert a.calls[3].denial_reason
    assert [c.tool for c in a.calls] == [None, "read", "act", "secret", None]
    assert a.calls[4].result == "a#1 is done"
    assert (a.usage.input_tokens, a.usage.tool_calls) == (7, 3)
    assert a.started_at is not None
    assert a.ended_at is not None
    assert a.reached_at <= a.started_at < a.ended_at == b.reached_at
    assert sim.journal[(a.checkpoint or 0) - 1]["kind"] == "StepCompleted"


async def test_questions_errors_and_retries() -> None:
    tries: list[CallRequest] = []

    def script(order: CallRequest) -> Outcome:
        tries.append(order)
        return Failure("broke") if len(tries) == 1 else says("done")

    sim = await (await Simulation.begin(plan_of(["a"]), script)).run()
    sim.engine.at += 500
    await sim.answer("retry")
    await sim.run()
    a = step(traced(sim), "a#1")
    (asked,) = a.interrupts
    assert (asked.kind, asked.decision, asked.by) == ("step_failed", "retry", "eve")
    assert asked.answered_at is not None
    assert asked.answered_at - asked.raised_at >= 500
    assert (a.calls[0].errors, a.calls[0].retries, a.retries) == (["broke"], 1, 1)
    assert (a.calls[0].ok, a.status) == (True, "completed")
    assert a.calls[0].ms is not None
    assert a.calls[0].ms < 500, "what people took to answer is not the model's time"


async def test_items_are_nested_in_their_visit() -> None:
    plan = plan_of(["a", {"agent": "b", "for_each": "a.list"}], {"a": {"outputs": ["list"]}})
    listed = returns(outputs=(OutputValue(key="list", value=[1, 2]),))
    script = Replies({"a#1": [says("", "set_output")]}, {"set_output": listed})
    trace = traced(await (await Simulation.begin(plan, script)).run())
    assert [s.step for s in trace.steps] == ["a#1", "b#1"]
    visit = trace.steps[1]
    assert (visit.item_count, visit.status) == (2, "completed")
    assert [(i.step, i.status, len(i.calls)) for i in visit.items] == [
        ("b#1.1", "completed", 1),
        ("b#1.2", "completed", 1),
    ]


async def test_what_people_did_is_an_event_and_a_cut_step_is_skipped() -> None:
    sim = await Simulation.begin(plan_of(["a", "b"]))
    await sim.settle()
    sim.launch()
    await sim.command("edit_state", set={"flags.ok": True})
    await sim.command("redirect", node="b", cut=True)
    await sim.run()
    trace = traced(sim)
    assert [event.kind for event in trace.events] == ["StateEdited", "StepRedirected"]
    a = step(trace, "a#1")
    assert (a.status, a.because, a.next_nodes) == ("skipped", "redirected to b by eve", ("b",))
    assert a.calls[0].ok is None


async def test_a_rollback_begins_what_it_brings_back_anew() -> None:
    sim = await (await Simulation.begin(plan_of(["a", "b"]))).run()
    found = entries(sim)
    at = next(n for n, e in found if isinstance(e, j.StepStarted) and e.step == "b#1")
    then = next(s for s in sim.engine.journal.states if s.position == at)  # type: ignore[attr-defined]
    kept = recorded_state(then, "rollback")
    back = j.RunRolledBack(at=90, to=at, state=kept)
    again = [e for n, e in found if n > at]
    trace = run_trace([*enumerate([*(e for _, e in found), back, *again], 1)])
    assert [(s.step, s.status) for s in trace.steps] == [
        ("a#1", "completed"),
        ("b#1", "completed"),
        ("b#1", "completed"),
    ]
    assert (trace.steps[2].started_at, trace.steps[2].agent) == (90, "b")
    assert [event.kind for event in trace.events] == ["RunRolledBack"]
    assert trace.status == "completed"


async def test_a_call_that_was_retried_before_a_rollback_is_timed_from_that() -> None:
    sim = await (await Simulation.begin(plan_of(["a"]))).run()
    found = entries(sim)
    at = next(n for n, e in found if isinstance(e, j.StepStarted))
    then = next(s for s in sim.engine.journal.states if s.position == at)  # type: ignore[attr-defined]
    kept = recorded_state(then, "rollback")
    retried = j.StepRetried(at=20, step=StepId("a#1"), call=1)
    back = j.RunRolledBack(at=90, to=at, state=kept)
    reply = next(e for _, e in found if isinstance(e, j.ModelCallCompleted))
    began = [e for n, e in found if n <= at]
    trace = run_trace(enumerate([*began, retried, back, reply.model_copy(update={"at": 95})], 1))
    assert [call.ms for call in trace.steps[-1].calls] == [5]


async def test_every_step_and_call_of_random_runs_is_there_once() -> None:
    for seed in range(25):
        sim = await crew_run(seed)
        trace = run_trace(entries(sim))
        ids = [s.step for s in trace.all_steps()]
        assert len(set(ids)) == len(ids)
        assert {s.step for s in trace.all_steps() if item_number(s.step)} == {
            e["step"] for e in sim.facts("StepStarted") if item_number(e["step"])
        }
        ended = {e["step"]: e for e in [*sim.facts("StepCompleted"), *sim.facts("StepCancelled")]}
        assert {s.step for s in trace.all_steps() if s.ended_at is not None} == set(ended)
        answered = {
            (e["step"], e["call"])
            for e in [*sim.facts("ModelCallCompleted"), *sim.facts("ToolCallCompleted")]
            if not (e.get("without_model") and e.get("calls"))  # nobody was asked
        }
        calls = [(s.step, c.call) for s in trace.all_steps() for c in s.calls]
        assert len(set(calls)) == len(calls)
        assert answered == {
            (s.step, c.call) for s in trace.all_steps() for c in s.calls if c.ended_at is not None
        }
        asked = [a.id for s in trace.all_steps() for a in s.interrupts] + [
            a.id for a in trace.interrupts
        ]
        assert len(asked) == len(sim.facts("InterruptRaised"))
        assert trace.status == sim.state.status


async def test_what_each_step_changed() -> None:
    plan = plan_of([["a", "b"], "c"], {"a": {"writes_flags": ["ok"]}})
    script = Replies({"a#1": [says("", "set_flag")]}, {"set_flag": returns(flags={"ok": True})})
    sim = await Simulation.begin(plan, script)
    await sim.settle()
    sim.launch()
    await sim.finish("b#1", "a#1", "a#1", "a#1", "c#1")
    found = changes_by_step(RUN, entries(sim))
    changed = {(c.section, c.name): (c.kind, c.old, c.new) for c in found[StepId("a#1")].changes}
    assert changed["flags", "ok"] == ("changed", False, True)
    assert changed["frontier", "a#1"][0] == "removed"
    assert changed["frontier", "c#1"] == ("added", None, "ready")
    assert changed["done", "a"] == ("added", None, 1)
    assert ("done", "b") not in changed
    assert changed["outputs", "a.text"][0] == "added"
    assert {c.name for c in found[StepId("b#1")].under("done")} == {"b"}


async def test_what_was_changed_between_checkpoints_adds_up() -> None:
    for seed in range(6):
        sim = await crew_run(seed)
        found = entries(sim)
        ends = [n for n, e in found if isinstance(e, j.StepCompleted)]
        states = {s.position: s for s in sim.engine.journal.states}  # type: ignore[attr-defined]
        told = changes_by_position(RUN, found, ends)
        assert list(told) == ends
        for before, after in pairwise(ends):
            assert told[after] == state_diff(states[before], states[after])


async def test_two_runs_part_where_the_first_step_differs() -> None:
    plan = plan_of(["a", "b", "c"], {"b": {"tools": ["read"]}}, tools=TOOLS)
    one = traced(await (await Simulation.begin(plan)).run())
    two = traced(await (await Simulation.begin(plan)).run())
    assert [pair.differences for pair in trace_diff(one, two).steps] == [(), (), ()]
    script = Replies({"b#1": [says("", "read"), says("other")]})
    three = traced(await (await Simulation.begin(plan, script)).run())
    pairs = trace_diff(one, three).steps
    assert [(p.step, p.differences) for p in pairs] == [
        ("a#1", ()),
        ("b#1", ("calls", "results")),
        ("c#1", ()),
    ]
    four = await Simulation.begin(plan)
    await four.command("redirect", node="c", step="a#1")
    last = trace_diff(one, traced(await four.run())).steps
    assert [(p.step, p.other is None) for p in last] == [
        ("a#1", False),
        ("b#1", True),
        ("c#1", False),
    ]


async def test_a_fork_begins_with_what_it_was_forked_from() -> None:
    sim = await Simulation.begin(plan_of(["a", "b"]))
    await sim.settle()
    sim.launch()
    await sim.finish("a#1")
    base = sim.state
    kept = {key: value for key, value in base.to_json().items() if key != "run"}
    forked = j.RunForked(at=7, run=RUN, source=RUN, to=base.position, state=kept)
    trace = run_trace([(base.position + 1, forked)])
    assert [(s.step, s.status) for s in trace.steps] == [("b#1", "running")]
    assert (trace.run, trace.crew, trace.started_at) == ("sim", "t", 7)

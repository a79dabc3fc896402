"""The trace of a run that was stopped while it asked, and taken up again."""

from __future__ import annotations

from crewlog.graph.restore import reopen
from crewlog.ids import InterruptId
from crewlog.reporting.trace.builder import run_trace
from crewlog.state.fold import fold_at_positions, fold_journal
from crewlog.state.journal import entry_from_json
from crewlog.state.recorder import Journal
from crewlog.state.restore import reopen_point
from graph.crews import plan_of
from graph.simulation import RUN, Simulation


async def test_the_question_is_open_again_where_it_was_asked() -> None:
    plan = plan_of(["a", {"ask": "On?", "phase": "gate"}, "b"])
    sim = await (await Simulation.begin(plan)).run()
    asked_at = sim.engine.at
    sim.engine.at += 700
    await sim.command("stop")
    await sim.run()
    assert sim.state.status == "stopped"
    entries = [entry_from_json(data) for data in sim.journal]
    (gate,) = [step for step in run_trace(enumerate(entries, 1)).steps if step.node == "gate"]
    (left,) = gate.interrupts
    assert (left.decision, left.answered_at) == ("withdrawn", gate.ended_at)

    found = reopen_point(RUN, list(enumerate(entries, 1)))
    then = fold_at_positions(fold_journal(RUN, entries[: found.position]), found.later_entries)
    journal = Journal(sim.state)
    reopen(plan, journal, then, found, by="ana", at=9_000)
    entries += [entry_from_json(data) for data in journal.entries]
    trace = run_trace(enumerate(entries, 1))
    first, again = (step for step in trace.steps if step.step == "gate#1")
    assert [(q.id, q.decision) for q in first.interrupts] == [("i1", "withdrawn")]
    (question,) = again.interrupts
    assert (question.id, question.question) == (InterruptId("i1"), "On?")
    assert (question.answered_at, question.raised_at) == (None, asked_at)
    assert (trace.status, trace.interrupts) == ("running", [])

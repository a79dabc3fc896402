"""The audit finds what is wrong: a check that cannot fail shows nothing.

The evidence of a run that came out right is doctored, in one way each time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from crewlog.state.journal import InterruptRaised
from crewlog.state.model import Interrupt

from .audit import Evidence, Findings, audit
from .crew import FaultCrew, make_crew
from .ledger import Call, Effect
from .report import FROZEN, Report, table
from .stand import Stand
from .writers import Log, Reading, check_log, read_log, writing_crew

LIMIT = 90.0


@pytest.fixture(scope="module")
async def sound(stand: Stand) -> tuple[Evidence, FaultCrew, Log]:
    """The evidence of a run that nothing was done to, and the log of another one."""
    fleet = stand.fleet("sound", 1)
    await fleet.open()
    try:
        client = stand.client("sound")
        crew = make_crew(stand.site.root, rounds=1, lanes=("a", "b"))
        run = await client.start(crew.definition, id="sound-1")
        other = await client.start(writing_crew(stand.site.root, 3).definition, id="sound-2")
        ended, wrote = await run.result(LIMIT), await other.result(LIMIT)
        evidence = await stand.evidence(run, ended.status)
        log = await read_log(stand, other, await stand.evidence(other, wrote.status))
    finally:
        await fleet.close()
    return evidence, crew, log


def test_a_sound_run_has_no_violation(sound: tuple[Evidence, FaultCrew, Log]) -> None:
    evidence, crew, log = sound
    found = audit(evidence, crew.expected)
    assert found.violations == []
    assert (found.finished, found.lost, found.folds_unequal) == (1, 0, 0)
    assert found.steps_applied == found.steps_expected == len(crew.expected.steps)
    assert set(evidence.states) == {"the workflow's state", "the stored state"}
    assert check_log(log, 3) == []


def lost(evidence: Evidence) -> Evidence:
    return replace(evidence, ended="did not end", journal=evidence.journal[:-1])


def without_entry(evidence: Evidence) -> Evidence:
    return replace(evidence, journal=[*evidence.journal[:5], *evidence.journal[6:]])


def another_state(evidence: Evidence) -> Evidence:
    state = evidence.states["the stored state"]
    other = state.model_copy(update={"steps": state.steps + 1})
    return replace(evidence, states={**evidence.states, "the stored state": other})


def no_state(evidence: Evidence) -> Evidence:
    return replace(evidence, states={})


def step_twice(evidence: Evidence) -> Evidence:
    return _again(evidence, "StepCompleted")


def result_twice(evidence: Evidence) -> Evidence:
    return _again(evidence, "ToolCallCompleted")


def _again(evidence: Evidence, kind: str) -> Evidence:
    last = len(evidence.journal)
    entry = next(e for _, e in evidence.journal if e.kind == kind)
    [*most, (_, end)] = evidence.journal
    return replace(evidence, journal=[*most, (last, entry), (last + 1, end)])


def asked(evidence: Evidence) -> Evidence:
    question = Interrupt.model_validate({"id": "i9", "kind": "step_failed", "question": "Retry?"})
    [*most, (last, end)] = evidence.journal
    return replace(
        evidence, journal=[*most, (last, InterruptRaised(interrupt=question)), (last + 1, end)]
    )


def result_lost(evidence: Evidence) -> Evidence:
    extra = replace(evidence.completions[0], activity="99", step="merge#9", call=1)
    return replace(evidence, completions=[*evidence.completions, extra])


def result_from_nowhere(evidence: Evidence) -> Evidence:
    kept = [c for c in evidence.completions if c.step != "merge#1"]
    return replace(evidence, completions=kept)


def keyed_twice(evidence: Evidence) -> Evidence:
    first = evidence.deposits[0]
    other = Effect(first.run, first.item, f"{first.key}-b")
    return replace(evidence, deposits=[*evidence.deposits, other])


def keyed_lost(evidence: Evidence) -> Evidence:
    return replace(evidence, deposits=evidence.deposits[1:])


def never_twice(evidence: Evidence) -> Evidence:
    return replace(evidence, sent=[*evidence.sent, evidence.sent[0]])


def never_lost(evidence: Evidence) -> Evidence:
    return replace(evidence, sent=evidence.sent[1:])


def shared_key(evidence: Evidence) -> Evidence:
    return replace(evidence, clashes=["k for a1-deposit and b1-deposit"])


def another_key(evidence: Evidence) -> Evidence:
    first = evidence.tries[0]
    other = replace(first, key="another", attempt=2)
    return replace(evidence, tries=[*evidence.tries, other])


def executed_twice(evidence: Evidence) -> Evidence:
    once = next(t for t in evidence.tries if t.tool == "deposit")
    return replace(evidence, tries=[*evidence.tries, once])


def executed_out_of_nowhere(evidence: Evidence) -> Evidence:
    first = evidence.tries[0]
    return replace(evidence, tries=[*evidence.tries, replace(first, activity_attempt=2)])


DOCTORED: list[tuple[Callable[[Evidence], Evidence], str, str]] = [
    (lost, "lost", "lost: it did not end"),
    (without_entry, "folds_unequal", "gap before 7"),
    (another_state, "folds_unequal", "differs from the stored state in steps"),
    (no_state, "folds_unequal", "nobody holds a state"),
    (step_twice, "steps_twice", "was completed 2 times"),
    (result_twice, "steps_twice", "was applied 2 times"),
    (asked, "", r"it asked people \(step_failed\)"),
    (result_lost, "", "taken by the server and never applied"),
    (result_from_nowhere, "", "no activity had it"),
    (keyed_twice, "keyed_doubled", "happened 2 times"),
    (keyed_lost, "", "is lost"),
    (never_twice, "never_doubled", "happened 2 times"),
    (never_lost, "", "is lost"),
    (shared_key, "", "shared an idempotency key"),
    (another_key, "", "tried under several keys"),
    (executed_twice, "repeated", "executed 2 times in 1 begun attempts"),
    (executed_out_of_nowhere, "repeated", "executed 1 times in 0 begun attempts"),
]


@pytest.mark.parametrize(
    ("doctor", "counted", "said"), DOCTORED, ids=[d[0].__name__ for d in DOCTORED]
)
def test_a_violation_is_found(
    sound: tuple[Evidence, FaultCrew, Log],
    doctor: Callable[[Evidence], Evidence],
    counted: str,
    said: str,
) -> None:
    evidence, crew, _ = sound
    found = audit(doctor(evidence), crew.expected)
    text = "\n".join(found.violations)
    assert re.search(said, text), text
    if counted:
        assert getattr(found, counted) == 1
    report = Report("doctored", 1, findings=found)
    assert "VIOLATION" in table([report])
    assert report.to_json()["violations"]


def test_late_results_are_counted(sound: tuple[Evidence, FaultCrew, Log]) -> None:
    evidence, crew, _ = sound
    done = evidence.completions[0]
    late = Call(evidence.run, done.execution, done.activity, done.attempt + 1, "", "return", 1)
    found = audit(replace(evidence, calls=[*evidence.calls, late]), crew.expected)
    assert (found.late_refused, found.violations) == (1, [])


def test_an_attempt_more_may_execute_its_tool_once_more(
    sound: tuple[Evidence, FaultCrew, Log],
) -> None:
    evidence, crew, _ = sound
    once = next(t for t in evidence.tries if t.tool == "deposit")
    call = Call(evidence.run, once.execution, once.activity, 2, "call_tool", "begin", 1)
    again = replace(once, attempt=2, activity_attempt=2)
    more = replace(evidence, tries=[*evidence.tries, again], calls=[*evidence.calls, call])
    found = audit(more, crew.expected)
    assert (found.repeated, found.violations) == (1, [])


@pytest.mark.parametrize(("frozen", "refused", "wrong"), [(0, 0, 0), (2, 1, 0), (2, 0, 1)])
def test_calls_that_were_frozen_must_come_too_late(frozen: int, refused: int, wrong: int) -> None:
    report = Report("frozen", 1, findings=Findings(late_refused=refused), notes={FROZEN: frozen})
    assert len(report.all_violations) == wrong
    assert ("VIOLATION 2 calls were frozen" in table([report])) is bool(wrong)


def test_findings_add_up(sound: tuple[Evidence, FaultCrew, Log]) -> None:
    evidence, crew, _ = sound
    whole = Findings()
    whole.add(audit(evidence, crew.expected))
    whole.add(audit(never_twice(evidence), crew.expected))
    assert (whole.runs, whole.finished, whole.never_doubled) == (2, 2, 1)
    assert len(whole.violations) == 1


def test_a_forked_log_is_found(sound: tuple[Evidence, FaultCrew, Log]) -> None:
    log = sound[2]
    forked = replace(log, successors=log.successors + Counter([log.links[0].head]))
    assert any("links continue" in text for text in check_log(forked, 3))


def test_a_log_with_a_gap_is_found(sound: tuple[Evidence, FaultCrew, Log]) -> None:
    log = sound[2]
    text = "\n".join(check_log(replace(log, links=[*log.links[:2], *log.links[3:]]), 3))
    assert "the chain breaks before" in text
    assert "the chain and the journal have other messages" in text


def test_readers_that_see_another_order_are_found(
    sound: tuple[Evidence, FaultCrew, Log],
) -> None:
    log = sound[2]
    first, *rest = log.readings
    swapped = Reading("the client", [*first.texts[1::-1], *first.texts[2:]])
    assert check_log(replace(log, readings=[first, swapped, *rest[1:]]), 3) == [
        "the client reads another order than the chain in the store"
    ]
    assert any("none of the chain" in t for t in check_log(replace(log, views=["other"]), 3))

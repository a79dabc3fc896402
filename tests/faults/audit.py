"""Whether runs came out right: what the ledger, the journals and the histories say, held together.

`audit` is pure: it is given the evidence of one run and says every violation in words. Tests give
it doctored evidence, since a check that cannot fail shows nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from crewlog.ids import RunId
from crewlog.state.fold import fold
from crewlog.state.journal import JournalEntry, RunMerged
from crewlog.state.model import CrewState

from .crew import LOCAL, Expected
from .ledger import Call, Effect, Try

UNKNOWN = frozenset({"outcome_unknown"})
"""The questions that a run may ask because of a fault: nobody else can know the answer."""


@dataclass(frozen=True)
class Completion:
    """An activity that the server has taken the result of."""

    execution: str
    activity: str
    name: str
    step: str
    """The step whose call it was; empty for what only stores."""
    call: int
    attempt: int
    view: dict[str, str] = field(default_factory=dict)
    """The heads of the logs that the call was given."""


@dataclass(frozen=True)
class Evidence:
    """All that is known of one run."""

    run: str
    ended: str
    """`completed`, or what else became of it."""
    journal: Sequence[tuple[int, JournalEntry]]
    """From the store alone, with positions."""
    states: dict[str, CrewState]
    """Whole states that others hold, by who: the store's snapshot, the workflow itself."""
    tries: Sequence[Try]
    deposits: Sequence[Effect]
    clashes: Sequence[str]
    sent: Sequence[Effect]
    completions: Sequence[Completion]
    """From the histories of all executions."""
    calls: Sequence[Call]
    """What workers began and returned."""
    executions: int = 1


@dataclass
class Findings:
    """What an audit found; counts add up over runs."""

    runs: int = 0
    finished: int = 0
    lost: int = 0
    steps_expected: int = 0
    steps_applied: int = 0
    steps_twice: int = 0
    """Steps, and results of calls, that were applied more than once."""
    keyed_expected: int = 0
    keyed_done: int = 0
    keyed_doubled: int = 0
    never_expected: int = 0
    never_done: int = 0
    never_doubled: int = 0
    repeated: int = 0
    """Tries of tools beyond the first one: what retries and replays tried to do again."""
    late_refused: int = 0
    """Results that a worker returned, and that the server did not take."""
    folds_unequal: int = 0
    executions: int = 0
    questions: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                self.questions.update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


def audit(evidence: Evidence, expected: Expected, *, may_ask: frozenset[str] = UNKNOWN) -> Findings:
    """What is right and wrong with a run.

    Args:
        evidence: What is known of it.
        expected: What it must have come to.
        may_ask: The kinds of questions that it may have asked people.
    """
    found = Findings(runs=1, executions=evidence.executions)
    wrong: list[str] = []
    wrong += _end(evidence, found)
    wrong += _steps(evidence, expected, found)
    wrong += check_results(evidence, found)
    wrong += _effects(evidence, expected, found)
    wrong += _fold(evidence, found)
    wrong += _questions(evidence, may_ask, found)
    found.violations = [f"{evidence.run}: {text}" for text in wrong]
    return found


def _entries(evidence: Evidence, *kinds: str) -> Iterator[Any]:
    return (entry for _, entry in evidence.journal if entry.kind in kinds)


def _end(evidence: Evidence, found: Findings) -> Iterator[str]:
    last = evidence.journal[-1][1].kind if evidence.journal else "nothing"
    if evidence.ended == "completed" and last == "RunCompleted":
        found.finished = 1
        return
    found.lost = 1
    yield f"lost: it {evidence.ended}, and its journal ends with {last}"


def _steps(evidence: Evidence, expected: Expected, found: Findings) -> Iterator[str]:
    started = Counter(str(e.step) for e in _entries(evidence, "StepStarted"))
    done = Counter(str(e.step) for e in _entries(evidence, "StepCompleted"))
    found.steps_expected = len(expected.steps)
    found.steps_applied = sum(done.values())
    # A decision takes no time: it completes without having started.
    turns = expected.steps - expected.decisions
    for what, counts, wanted in (("started", started, turns), ("completed", done, expected.steps)):
        for step, count in counts.items():
            if count > 1:
                found.steps_twice += 1
                yield f"the step {step} was {what} {count} times"
        if missing := sorted(wanted - counts.keys()):
            yield f"not {what}: {', '.join(missing)}"
        if strange := sorted(counts.keys() - wanted):
            yield f"{what}, and nobody expected it: {', '.join(strange)}"


def check_results(evidence: Evidence, found: Findings) -> Iterator[str]:
    """Every result that the server took is applied once, and nothing else is."""
    applied = Counter(
        (str(e.step), int(e.call))
        for e in _entries(evidence, "ModelCallCompleted", "ToolCallCompleted")
    )
    taken = Counter((c.step, c.call) for c in evidence.completions if c.step)
    by_people = _answered_done(evidence)
    # The result of a local call comes with a workflow task, and not with an activity's end.
    local = {
        (str(e.step), int(e.call))
        for e in _entries(evidence, "ToolCallCompleted")
        if e.tool == LOCAL
    }
    for (step, call), count in applied.items():
        if count > 1:
            found.steps_twice += 1
            yield f"the result of {step}/{call} was applied {count} times"
        if not taken[step, call] and (step, call) not in by_people | local:
            yield f"the result of {step}/{call} was applied, and no activity had it"
    for (step, call), count in taken.items():
        if not applied[step, call]:
            yield f"the result of {step}/{call} was taken by the server and never applied"
        if count > 1:
            yield f"the call {step}/{call} was completed by {count} activities"
    accepted = {(c.execution, c.activity): c.attempt for c in evidence.completions}
    for call in evidence.calls:
        key = (call.execution, call.activity)
        if call.event == "return" and key in accepted and accepted[key] != call.attempt:
            found.late_refused += 1


def _answered_done(evidence: Evidence) -> set[tuple[str, int]]:
    """The calls of which people said that they were done."""
    asked = {e.interrupt.id: e.interrupt for e in _entries(evidence, "InterruptRaised")}
    return {
        (str(asked[e.interrupt].step), asked[e.interrupt].call or 0)
        for e in _entries(evidence, "InterruptAnswered")
        if e.decision == "done"
    }


def _effects(evidence: Evidence, expected: Expected, found: Findings) -> Iterator[str]:
    begun = Counter(t.item for t in evidence.tries)
    found.repeated = sum(count - 1 for count in begun.values())
    wanted = expected.items
    looks = wanted.get("look", frozenset()) | wanted.get(LOCAL, frozenset())
    for item in sorted(looks - begun.keys()):
        yield f"the tool never began {item}"
    keyed = Counter(e.item for e in evidence.deposits)
    never = Counter(e.item for e in evidence.sent)
    found.keyed_expected, found.keyed_done = len(wanted.get("deposit", ())), len(keyed)
    found.never_expected, found.never_done = len(wanted.get("send", ())), len(never)
    found.keyed_doubled = sum(count > 1 for count in keyed.values())
    found.never_doubled = sum(count > 1 for count in never.values())
    yield from _each_once(evidence.deposits, wanted.get("deposit", frozenset()))
    yield from _each_once(evidence.sent, wanted.get("send", frozenset()))
    yield from _keys(evidence)
    yield from _executions(evidence)


def _executions(evidence: Evidence) -> Iterator[str]:
    """A tool runs once in each attempt of its activity that a worker began, and not more."""
    begun = Counter(
        (c.execution, c.activity, c.attempt) for c in evidence.calls if c.event == "begin"
    )
    ran = Counter((t.execution, t.activity, t.activity_attempt, t.item) for t in evidence.tries)
    for (*attempt, item), count in ran.items():
        if count > (most := begun[attempt[0], attempt[1], attempt[2]]):
            yield f"{item} was executed {count} times in {most} begun attempts of its call"


def _each_once(effects: Sequence[Effect], wanted: frozenset[str]) -> Iterator[str]:
    counts = Counter(e.item for e in effects)
    for item, count in counts.items():
        if count > 1:
            keys = ", ".join(e.key for e in effects if e.item == item)
            yield f"the effect {item} happened {count} times, under the keys {keys}"
        if item not in wanted:
            yield f"the effect {item} happened, and nobody expected it"
    for item in sorted(wanted - counts.keys()):
        yield f"the effect {item} is lost"


def _keys(evidence: Evidence) -> Iterator[str]:
    for clash in evidence.clashes:
        yield f"two calls shared an idempotency key: {clash}"
    keys_of: dict[str, set[str]] = {}
    for one in evidence.tries:
        keys_of.setdefault(one.item, set()).add(one.key)
    for item, used in keys_of.items():
        if len(used) > 1:
            yield f"{item} was tried under several keys: {', '.join(sorted(used))}"


def _fold(evidence: Evidence, found: Findings) -> Iterator[str]:
    wrong = list(fold_differences(evidence))
    found.folds_unequal = int(bool(wrong))
    yield from wrong


def fold_differences(evidence: Evidence) -> Iterator[str]:
    """Where the journal has a gap, or folds to another state than those that others hold."""
    state = CrewState(run=RunId(evidence.run))
    for position, entry in evidence.journal:
        before = state.position
        if isinstance(entry, RunMerged):  # it is behind the positions of both journals
            before = max(before, position - 1)
        if position != before + 1:
            yield f"the journal has a gap before {position}"
            return
        state = fold(state, entry)
    for who, other in evidence.states.items():
        names = [n for n in CrewState.model_fields if getattr(state, n) != getattr(other, n)]
        if names:
            yield f"folding the journal differs from {who} in {', '.join(names)}"
    if not evidence.states:
        yield "nobody holds a state that the fold could be compared with"


def _questions(evidence: Evidence, may_ask: frozenset[str], found: Findings) -> Iterator[str]:
    for entry in _entries(evidence, "InterruptRaised"):
        asked = entry.interrupt
        found.questions[asked.kind] += 1
        if asked.kind not in may_ask:
            yield f"it asked people ({asked.kind}): {asked.question} {asked.detail}"

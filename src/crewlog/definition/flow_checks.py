"""Checks of the flow's order: names of phases, joins, loops that end, phases that can start."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.model import (
    POLICIES,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    DecisionPhase,
    RoutePhase,
    WaitPhase,
)
from crewlog.definition.order import Endless, Order
from crewlog.definition.phases import (
    ASK_HUMAN,
    END,
    FAIL,
    NEXT,
    SKIP,
    Edge,
    Phase,
    edges,
)


def flow_findings(found: list[Phase], order: Order, agents: Collection[str]) -> Iterator[Finding]:
    """Everything that is wrong with the order of a flow."""
    yield from _joins(found, agents)
    yield from _targets(found, agents)
    for cycle in order.waits:
        yield _waits_for_itself(cycle, found)
    for endless in order.endless:
        if endless.way.source == endless.way.target and endless.way.key == "on_error":
            continue  # `_stand_in` says so
        yield _endless(endless, found)
    if len({phase.name for phase in found}) == len(found):
        yield from _unreachable(found, edges(found), order.stuck)


def _joins(found: list[Phase], agents: Collection[str]) -> Iterator[Finding]:
    names = {phase.name for phase in found}
    seen: set[Path] = set()
    for phase in found:
        path = after_path(phase)
        for i, source in enumerate(phase.sources):
            if phase.explicit and source not in names and (*path, source) not in seen:
                seen.add((*path, source))
                say = f"{phase.name!r} waits for the phase {source!r}, which is not in the flow."
                yield Finding(path, say, _phase_remedy(source, found, agents), word=source)
            if phase.explicit and source in phase.sources[:i] and (*path, i) not in seen:
                seen.add((*path, i))
                say = f"{phase.name!r} waits for {source!r} twice"
                yield Finding(path, say, "Name it once.", word=source)
        if phase.need > len(phase.sources) and path not in seen:
            seen.add(path)
            count = len(phase.sources)
            say = f"{phase.name!r} waits for {phase.need} of {count} phases: it would wait for ever"
            yield Finding(path, say, f"At most {count} can be done.")


def after_path(phase: Phase) -> Path:
    """Where it says what a phase waits for."""
    if phase.item.after is None and len(phase.path) > 2 and phase.path[2] == "parallel":
        return (*phase.path[:2], "after")  # the block's, which its parts share
    return (*phase.path, "after")


def _targets(found: list[Phase], agents: Collection[str]) -> Iterator[Finding]:
    names = {phase.name: phase for phase in found}
    for phase in found:
        item = phase.item
        if isinstance(item, BuilderPhase | WaitPhase):
            continue
        if isinstance(item, AskPhase):
            yield from _answers(phase, item, found)
            continue
        if isinstance(item, RoutePhase):
            words: tuple[str, ...] = (END, NEXT, ASK_HUMAN, FAIL)
            for i, to in enumerate(item.to):
                if to not in names:
                    yield _bad_target(phase, "to", to, found, agents, (), at=i)
        elif isinstance(item, DecisionPhase):
            words = (NEXT, ASK_HUMAN, END, FAIL)
            if item.go not in names and item.go != END:
                yield _bad_target(phase, "go", item.go, found, agents, (END,))
            if item.otherwise is not None and item.at_most is None:
                say = "'else' says where to go once 'at_most' is used up, and there is no 'at_most'"
                remedy = (
                    "Where the condition does not hold, the run goes on to the next item by itself."
                )
                yield Finding((*phase.path, "else"), say, remedy, at="key")
        else:
            words = (SKIP, ASK_HUMAN)
            yield from _unbounded(phase, item)
            yield from _stand_in(phase, item, names, agents)
        if item.otherwise is not None and item.otherwise not in (*names, *words):
            yield _bad_target(phase, "else", item.otherwise, found, agents, words)


def _unbounded(phase: Phase, item: AgentPhase) -> Iterator[Finding]:
    if item.otherwise is not None and not item.gives_way:
        say = "'else' says where to go if 'when' can no longer hold, and there is no 'when'"
        yield Finding((*phase.path, "else"), say, "Add 'when', or remove it.", at="key")
    if item.within is not None and item.when is None:
        say = "'within' says how long 'when' is waited for, and there is no 'when'"
        remedy = "Add 'when'. To wait before the phase, add an item: {wait: 2h}."
        yield Finding((*phase.path, "within"), say, remedy, at="key")


_POLICY_OF = {ASK_HUMAN: "ask", SKIP: "continue", NEXT: "continue", END: "fail"}
"""What `on_error` says for what other keys say by these words."""


def _stand_in(
    phase: Phase, item: AgentPhase, there: Mapping[str, Phase], agents: Collection[str]
) -> Iterator[Finding]:
    """What is wrong with the phase that runs where a step fails."""
    path = (*phase.path, "on_error")
    if item.stand_in is None:
        return
    target = there.get(item.stand_in)
    if item.stand_in in _POLICY_OF:
        say = f"'on_error' of {phase.name!r} cannot be {item.stand_in!r}"
        remedy = f"Write on_error: {_POLICY_OF[item.stand_in]}, or name a phase."
        yield Finding(path, say, remedy)
    elif target is None:
        yield _bad_target(phase, "on_error", item.stand_in, [*there.values()], agents, POLICIES)
    elif target.name == phase.name:
        say = (
            f"'on_error' of {phase.name!r} names the phase itself, which cannot stand in for itself"
        )
        remedy = "To repeat calls that fail, set the agent's 'retry'; or name another phase."
        yield Finding(path, say, remedy)
    elif target.entry or target.sources:
        waits = f"waits for {listed(target.sources)}" if target.sources else "starts with the run"
        say = f"'on_error' of {phase.name!r} names the phase {target.name!r}, which {waits}"
        remedy = f"Add 'after: go' to {target.name}: then it starts only where it stands in."
        yield Finding(path, say, remedy)


def _answers(phase: Phase, item: AskPhase, found: list[Phase]) -> Iterator[Finding]:
    told = {each.name for each in found if isinstance(each.item, AgentPhase) and each.item.agent}
    if item.words and item.sets is None and len(told & {*item.options}) != 1:
        say = "nothing says who takes the words of this question"
        remedy = "Add 'sets: NAME', a flag, or let one of the options be the phase of an agent."
        yield Finding((*phase.path, "words"), say, remedy)
    if not item.options:
        yield Finding((*phase.path, "options"), "a question needs at least one answer to choose")


def _bad_target(
    phase: Phase,
    key: str,
    target: str,
    found: list[Phase],
    agents: Collection[str],
    words: tuple[str, ...],
    at: int | None = None,
) -> Finding:
    say = f"{key!r} of {phase.name!r} names the phase {target!r}, which is not in the flow."
    path = (*phase.path, key) if at is None else (*phase.path, key, at)
    return Finding(path, say, _phase_remedy(target, found, agents, words))


def _phase_remedy(
    name: str, found: list[Phase], agents: Collection[str], words: tuple[str, ...] = ()
) -> str:
    called = [p.name for p in found if isinstance(p.item, AgentPhase) and name in p.item.agents]
    if name in agents and called:
        return f"The agent {name!r} has the phase {called[0]!r}."
    known = [*(phase.name for phase in found), *words]
    return did_you_mean(name, known, "Phases are the items of 'flow:', by their names.")


def _waits_for_itself(cycle: list[str], found: list[Phase]) -> Finding:
    by_name = {phase.name: phase for phase in found}
    first = cycle.index(next(name for name in by_name if name in cycle))
    cycle = cycle[first:] + cycle[:first]
    blamed = next((by_name[n] for n in cycle if by_name[n].explicit), by_name[cycle[0]])
    say = f"the phases wait for each other, so none can start: {_round(cycle)}"
    remedy = "To repeat phases, use {if: …, go: …, at_most: …} instead of 'after'."
    # What leads back into the cycle is looked at once its phases have an order.
    return Finding(after_path(blamed), say, remedy, hides=True)


def _endless(endless: Endless, found: list[Phase]) -> Finding:
    back, around = endless.way, _round(endless.around)
    phase = next(phase for phase in found if phase.name == back.source)
    if back.key == "go":
        say = f"{phase.name!r} goes back to {back.target!r} without a bound: {around}"
        remedy = "Add 'at_most', e.g. at_most: 3, and 'else' for what happens then."
    else:
        say = (
            f"{back.key!r} of {phase.name!r} goes back to {back.target!r} without a bound: {around}"
        )
        remedy = "Go on to a later phase, to 'ask_human' or to the end."
        if back.key == "on_error":
            remedy = "Name a phase from which the run does not come back here, or 'ask'."
    return Finding((*phase.path, back.key), say, remedy)


def _round(cycle: list[str]) -> str:
    shown = cycle if len(cycle) <= 8 else [*cycle[:6], "…", cycle[-1]]
    return " → ".join([*shown, cycle[0]])


def _unreachable(found: list[Phase], ways: list[Edge], stuck: set[str]) -> Iterator[Finding]:
    """Phases that nothing starts: neither the run, nor enough of their sources, nor a way there.

    What only phases lead to that wait for each other is told with these.
    """
    started = _started(found, ways, stuck)
    for phase in found:
        if phase.name in started or phase.need > len(phase.sources):
            continue
        sources = [s for s in phase.sources if s not in started]
        if sources:  # report where it begins
            continue
        say = f"nothing ever starts the phase {phase.name!r}"
        remedy = (
            "Name it in a 'go', an 'else', an 'on_error' or an answer, or say what it comes "
            "'after'."
        )
        yield Finding((*phase.path, "after"), say, remedy)


def _started(found: list[Phase], ways: list[Edge], stuck: set[str]) -> set[str]:
    """The phases that something starts; each is looked at once for each way to it."""
    names = {phase.name for phase in found}
    follows: dict[str, list[str]] = {}
    sends: dict[str, list[str]] = {}
    for way in ways:
        (follows if way.key == "after" else sends).setdefault(way.source, []).append(way.target)
    lacking = {
        phase.name: phase.need - sum(source not in names for source in phase.sources)
        for phase in found
        if phase.sources
    }
    started: set[str] = set()
    ready = [p.name for p in found if p.entry or p.name in stuck or lacking.get(p.name, 1) <= 0]
    while ready:
        name = ready.pop()
        if name in started:
            continue
        started.add(name)
        ready += sends.get(name, ())
        for target in follows.get(name, ()):
            lacking[target] -= 1
            if lacking[target] <= 0:
                ready.append(target)
    return started

"""What a change or a rollback does to a run, in words and in the timeline's memory.

Forked          from music-7f3a@12 by ana
ChangeAccepted  changes to graph v2 by ana: backend is removed; what is under way ends first
GraphSwapped    graph v1 → v2 by ana: backend is removed
                backend   its node is gone: its turn goes on to its end
MergeRequested      asks music-2 to be one graph by ana: connect a to b over c
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crewlog.cli.screen import plain
from crewlog.definition.findings import listed
from crewlog.ids import NodeName, StepId, node_of
from crewlog.state import journal as j
from crewlog.state.model import CrewState
from crewlog.state.run_merge.surviving_state import dropped_steps

STATEFUL = j.RunRolledBack | j.RunForked | j.RunReopened
"""Facts that bring a whole state."""


@dataclass(frozen=True)
class Told:
    """A line of the timeline, without its time."""

    glyph: str
    text: str
    style: str = ""
    node: str = ""


def state_of(entry: STATEFUL) -> CrewState:
    """The state that the run goes on with; what this version does not know of it is left out."""
    return CrewState.model_validate({"run": "", **entry.state}, extra="ignore")


def told(entry: j.Entry, version: int) -> list[Told]:
    """What such a fact is to people; nothing where it is none of these.

    Args:
        entry: The fact.
        version: The graph's version until now.
    """
    match entry:
        case j.ChangeAccepted() | j.GraphReplacement() | j.SwapFailed() | j.DefinitionChanged():
            return list(_change(entry, version))
        case j.RunRolledBack() | j.RunForked() | j.RunReopened() | j.LogsMerged():
            return list(_return(entry, version))
        case _:
            return list(_merge(entry))


def _merge(entry: j.Entry) -> Iterator[Told]:
    match entry:
        case j.MergeRequested():
            text = f"asks {plain(entry.other)} to be one graph{_by(entry.by)}{_what(entry.what)}"
            yield Told("⋈", f"{text}{_why(entry.reason)}", "bold yellow")
        case j.MergeAccepted():
            joins = "becomes part of that run, once all under way has landed"
            then = joins if entry.status == "draining" else "takes that run in"
            text = f"agrees with {plain(entry.other)} to be one graph: {then}"
            yield Told("⋈", text, "bold yellow")
        case j.MergeFrozen():
            yield Told("⋈", f"waits to be taken in by {plain(entry.other)}", "bold yellow")
        case j.MergeFailed():
            text = f"does not become one graph with {plain(entry.other)}: {_first(entry.reason)}"
            yield Told("✗", text, "bold red")
        case j.RunEndedByMerge():
            text = f"is part of {plain(entry.run)} from its position {entry.position} on"
            yield Told("⋈", text, "bold green")
            for each in entry.renames:
                text = f"the {each.kind} {plain(each.was)} is called {plain(each.now)} there"
                yield Told("⋈", text, "green")
        case _:
            return


def _change(entry: j.Entry, version: int) -> Iterator[Told]:
    match entry:
        case j.ChangeAccepted():
            ends = "turns are cut off" if entry.abandon else "what is under way ends first"
            text = f"changes to graph v{entry.graph_version}{_by(entry.by)}{_what(entry.what)}"
            yield Told("⇄", f"{text}{_why(entry.reason)}; {ends}", "bold yellow")
        case j.GraphReplacement():
            text = f"graph v{version} → v{entry.graph_version}{_by(entry.by)}{_what(entry.what)}"
            yield Told("⇄", text, "bold green")
            if isinstance(entry, j.RunMerged):
                yield from _taken_in(entry)
            if isinstance(entry, j.ComponentChanged):
                yield from _graphs(entry)
            yield from _remapped(entry.remap)
        case j.SwapFailed():
            text = f"graph v{entry.graph_version} did not come about: {_first(entry.error)}"
            yield Told("✗", f"{text}; the run goes on with v{version}", "bold red")
        case j.DefinitionChanged():
            what = plain(entry.what) or "its rules"
            text = f"changed{_by(entry.by)}: {what}{_why(entry.reason)}"
            yield Told("⇄", f"{text}; it holds from the next step on", "green")
        case _:
            return


def _taken_in(entry: j.RunMerged) -> Iterator[Told]:
    who = ", ".join(map(plain, entry.merged_agents)) or "nobody"
    yield Told("⋈", f"{plain(entry.merged_run)} is part of this run: {who} came", "bold green")
    for each in entry.renames:
        text = f"the {each.kind} {plain(each.was)} of {plain(each.run)} is called "
        yield Told("⋈", f"{text}{plain(each.now)} here", "green")
    if dropped := dropped_steps(entry):
        turns = listed(map(plain, dropped))
        text = f"{turns} of {plain(entry.merged_run)} did not come: who had them was removed "
        text += "there before"
        yield Told("⋈", text, "yellow")


def _graphs(entry: j.ComponentChanged) -> Iterator[Told]:
    new = listed(map(plain, entry.new_graph_ids))
    if entry.change == "split":
        yield Told("⑂", f"the graph parts into {new}", "bold green")
    elif entry.change == "merge":
        old = listed(map(plain, entry.old_graph_ids))
        yield Told("⋈", f"{old} are one graph now: {new}", "bold green")


def _remapped(remap: j.Remap) -> Iterator[Told]:
    for step in remap.detached_turns:
        yield _of(step, "⇥", "its node is gone: the turn goes on to its end, nothing follows")
    for step in remap.detached:
        yield _of(step, "∥", "its node is gone: kept aside until it comes back")
    for step in remap.reattached:
        yield _of(step, "↩", "its node is back: goes on")
    for step in remap.retracted:
        yield _of(step, "◌", "must wait again")
    for step, requirement in remap.requirements.items():
        yield _of(step, "◌", f"waits for {plain(requirement)}" if requirement else "waits no more")
    for reached in remap.reached:
        waits = f", waits for {plain(reached.requirement)}" if reached.requirement else ""
        yield Told("→", f"starts with the new graph{waits}", "yellow", reached.node)


def _of(step: StepId, glyph: str, text: str) -> Told:
    return Told(glyph, text, "yellow", node_of(step))


def _return(entry: j.Entry, version: int) -> Iterator[Told]:
    match entry:
        case j.RunRolledBack():
            text = f"back to checkpoint {entry.to}{_by(entry.by)}{_why(entry.reason)}"
            yield Told("↶", f"{text}{_graph(entry.state, version)}", "bold yellow")
        case j.RunForked():
            how = "parted" if entry.split else "forked"
            text = f"{how} from {entry.source}@{entry.checkpoint or entry.to}{_by(entry.by)}"
            yield Told("⑂", text, "bold green")
        case j.RunReopened():
            text = f"taken up again at {entry.to}{_by(entry.by)}{_why(entry.reason)}"
            text += _graph(entry.state, version)
            yield Told("▶", text, "bold green")
        case j.LogsMerged():
            logs = ", ".join(dict.fromkeys(plain(join.log) for join in entry.merged_logs))
            runs = ", ".join(map(plain, entry.parents))
            yield Told("⋈", f"took in the logs of {runs}: {logs or 'none'}", "bold green")
        case _:
            return


def _graph(state: Mapping[str, Any], version: int) -> str:
    """`, with graph v1`: of a return to another graph than the last."""
    goes_on = state.get("graph_version", 1)
    return f", with graph v{goes_on}" if version and goes_on != version else ""


def requirements_after(entry: j.GraphReplacement, before: Mapping[str, str]) -> dict[str, str]:
    """What nodes wait for after a swap, by what they waited for before it."""
    remap = entry.remap
    waiting = dict(before)
    for step in (*remap.detached, *remap.retracted):
        waiting.pop(node_of(step), None)
    found: dict[NodeName, str] = {node_of(s): r for s, r in remap.requirements.items()}
    found |= {reached.node: reached.requirement for reached in remap.reached}
    for node, requirement in found.items():
        if requirement:
            waiting[node] = requirement
        else:
            waiting.pop(node, None)
    return waiting


def _by(who: str) -> str:
    return f" by {plain(who)}" if who else ""


def _what(what: str) -> str:
    return f": {plain(what)}" if what else ""


def _why(reason: str) -> str:
    return f" ({plain(reason)})" if reason else ""


def _first(text: str) -> str:
    return next(iter(plain(line) for line in text.splitlines() if line.strip()), "")

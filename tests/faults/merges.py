"""Run merges under kills: in each merge a worker is killed at one step, on either side.

Each merge has two runs of its own, on two task queues with workers of their own: `coordinators` has
the run that survives, `merged` the other one. Both are in the middle of a tool call when the merge
is requested. Several merges are under way at once, so that a kill meets the others, too, wherever
they are. Some merges fail, since people pause the coordinator meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from acceptance.accounts import Accounts
from acceptance.scenarios import bug_in
from crewlog.cli.look import read_with_merged_runs
from crewlog.cli.tracing import load_trace
from crewlog.client import Client, Run
from crewlog.definition.operations import Connect
from crewlog.errors import (
    ChangeConflict,
    CommandRejected,
    CrewlogError,
    ServiceError,
    WorkerMissing,
)
from crewlog.ids import AgentName, CommandId, RunId
from crewlog.state.model import CommandOutcome

from .audit import Evidence, Findings, check_results, fold_differences
from .drill import Tell
from .fleet import Fleet
from .report import Report
from .stand import Stand

T = TypeVar("T")
Side = Literal["coordinator", "merged"]

COORDINATOR = {
    "ann": {"listen": ["x"], "send": ["y"]},
    "bob": {"listen": ["y"]},
    "cid": {"listen": ["y"]},
}
MERGED = {"dan": {"listen": ["x"], "send": ["z"]}, "eve": {"listen": ["z"]}}
"""The agents of the two runs. Both runs have a channel `x`: the merge renames one of them."""
HOLDERS: dict[Side, str] = {"coordinator": "ann", "merged": "dan"}
"""The agents that are in a tool call when the merge is requested."""
MESSAGES = 5
"""The most messages that an agent gets."""
LIMIT = 240.0
"""Seconds for a merge and all that follows from it; a hanging run takes longer than that."""
PAUSE = 0.1
"""Seconds between two reads of a run."""
TRIES = 3
"""How often a step is tried whose order was lost with a worker that was killed for another one."""


@dataclass(frozen=True)
class Step:
    """A step of a merge at which a worker is killed."""

    requester: Side
    """The run that gets the command."""
    side: Side
    """The run whose worker is killed."""
    point: str
    passage: int = 1
    fails: bool = False
    """Whether the coordinator is paused while the other run drains: then the merge fails."""

    def __str__(self) -> str:
        what = "requests a merge that fails" if self.fails else "requests"
        return f"{self.requester} {what}, {self.side} at {self.point}/{self.passage}"


def _steps() -> tuple[Step, ...]:
    def around(*names: str) -> list[str]:
        return [f"{name}.{end}" for name in names for end in ("before", "after")]

    def within(*names: str) -> list[str]:
        return [f"{name}.{end}" for name in names for end in ("begin", "end")]

    request = [*within("preview_merge"), *around("MergeRequested"), *within("ask_other_run")]
    answer = ["request_merge.received", *within("read_other_run"), *around("MergeAccepted")]
    decide = [*within("prepare_merge"), *around("RunMerged", "notification")]
    drain = ["effect.after", "call_tool.end", *around("MergeFrozen")]
    end = [*around("RunEndedByMerge"), *within("end_run")]
    passed: list[tuple[Side, Side, list[str]]] = [
        ("coordinator", "coordinator", [*request, *decide]),
        ("coordinator", "merged", [*answer, *drain, "notify_merge.received", *end]),
        ("merged", "merged", [*request, *answer, *drain, "notify_merge.received", *end]),
        ("merged", "coordinator", [*answer, *within("ask_other_run"), *decide]),
    ]
    found = [Step(who, side, point) for who, side, points in passed for point in points]
    # The merged run reads the request first, and then the outcome.
    found += [
        Step(who, "merged", point, 2) for who in HOLDERS for point in within("read_other_run")
    ]
    for who in HOLDERS:
        fail = around("MergeFailed", "notification")
        learn = ["notify_merge.received", *around("MergeFailed")]
        found += [Step(who, "coordinator", point, fails=True) for point in fail]
        found += [Step(who, "merged", point, fails=True) for point in learn]
        found += [Step(who, "merged", point, 2, fails=True) for point in within("read_other_run")]
    return tuple(found)


STEPS = _steps()
"""All steps of a merge, for each of the two runs as the one that gets the command."""


def choose_steps(count: int) -> list[Step]:
    """Steps that are spread over all of them."""
    return [STEPS[n * len(STEPS) // count] for n in range(count)]


def merge_crew(folder: Path, agents: dict[str, dict[str, Any]], events: int) -> dict[str, Any]:
    """A crew of agents with channels; the first agent calls a tool in its first turn.

    Args:
        folder: Where workers can read the script.
        agents: The agents' channels.
        events: The events after which the run continues as new.
    """
    script = folder / "merges.json"
    if not script.exists():
        names = [*COORDINATOR, *MERGED]
        says: dict[str, list[Any]] = {
            name: [{"text": f"{name} {n}"} for n in range(MESSAGES)] for name in names
        }
        for name in HOLDERS.values():
            call = {"text": "", "tool_calls": [{"tool": "hold", "args": {"item": name}}]}
            says[name].insert(0, call)
        script.write_text(json.dumps({"agents": says}))
    many = {"attempts": 100, "first": 0.05, "longest": 2}
    return {
        "crew": "merges",
        "model": f"scripted:{script}",
        "agents": {
            name: {"prompt": f"You are {name}.", "heartbeat": 2, "retry": many, **channels}
            for name, channels in agents.items()
        },
        "tools": {
            "hold": {
                "run": "faults.deeds:hold",
                "effects": "external",
                "retry": "keyed",
                "heartbeat": 2,
                "policy": many,
            }
        },
        "graph": {},
        "limits": {"events": events},
    }


@dataclass
class MergeEvidence:
    """All that is known of two runs after one of them was to be merged into the other."""

    coordinator: Evidence
    merged: Evidence
    answer: str
    """The error that the command was answered with; empty for none."""
    messages: Sequence[str]
    """The ids of the messages that were sent."""
    turns: dict[str, int]
    """How many turns each agent must have had."""
    log: Sequence[tuple[str, int]]
    """What `crewlog log` shows of the surviving run; else of both, one after the other."""
    trace: Counter[str]
    """How often `crewlog trace` shows each completed step."""
    agents: dict[str, frozenset[str]]
    """The agents of each run that was open in the end."""


def audit_merge(found: MergeEvidence, findings: Findings) -> list[str]:
    """What is wrong with two runs after a merge; counts go to `findings`."""
    both = (found.coordinator, found.merged)
    wrong = [*_outcome(found), *_turns(found, findings), *_messages(found)]
    for each in both:
        wrong += [f"{each.run}: {text}" for text in check_results(each, findings)]
        differences = [f"{each.run}: {text}" for text in fold_differences(each)]
        findings.folds_unequal += bool(differences)
        findings.executions += each.executions
        wrong += differences
    wrong += _shown(found)
    wrong += _effects(found, findings)
    return wrong


def _kinds(evidence: Evidence, *kinds: str) -> list[tuple[int, Any]]:
    return [(at, entry) for at, entry in evidence.journal if entry.kind in kinds]


def is_merged(found: MergeEvidence) -> bool:
    """Whether the coordinator's journal says that the runs are merged."""
    return bool(_kinds(found.coordinator, "RunMerged"))


def _outcome(found: MergeEvidence) -> list[str]:
    """Both runs have recorded one outcome, the same one, and each agent is in one open run."""
    coordinator, merged = found.coordinator, found.merged
    wanted = {coordinator.run: frozenset((*COORDINATOR, *MERGED))}
    if is_merged(found):
        wrong = _success(found)
    else:
        wrong = _failure(found)
        wanted = {coordinator.run: frozenset(COORDINATOR), merged.run: frozenset(MERGED)}
    if found.agents != wanted:
        wrong.append(f"the open runs have the agents {found.agents}, not {wanted}")
    ends = (coordinator.ended, merged.ended)
    if ends != ("stopped", "merged" if is_merged(found) else "stopped"):
        wrong.append(f"the runs ended as {ends}")
    return wrong


def _success(found: MergeEvidence) -> list[str]:
    """Each journal has the merge once, and the merged run recorded nothing after it."""
    merged, ended = _kinds(found.coordinator, "RunMerged"), _kinds(found.merged, "RunEndedByMerge")
    if len(merged) > 1 or len(ended) != 1:
        return [f"{len(merged)} times RunMerged, {len(ended)} times RunEndedByMerge"]
    (at, entry), (_, end) = merged[0], ended[0]
    wrong: list[str] = []
    if (end.run, end.position, end.merge) != (found.coordinator.run, at, entry.merge):
        wrong.append(f"RunEndedByMerge is of another merge: {end}")
    if found.merged.journal[-1][1] is not end:
        wrong.append("the merged run recorded something after its end")
    return wrong


TYPED = (ChangeConflict.__name__, CommandRejected.__name__)


def _failure(found: MergeEvidence) -> list[str]:
    """A merge that failed has told why, to the client and in both journals, once in each."""
    wrong: list[str] = []
    name, _, why = found.answer.partition(": ")
    if name not in TYPED or bug_in(why):
        wrong.append(f"the merge failed, and the command was answered with {found.answer!r}")
    for each in (found.coordinator, found.merged):
        entered = {e.merge for _, e in _kinds(each, "MergeRequested", "MergeAccepted")}
        failed = Counter(e.merge for _, e in _kinds(each, "MergeFailed"))
        if failed != dict.fromkeys(entered, 1):
            wrong.append(f"{each.run} entered {entered}, and of these failed {dict(failed)}")
        wrong += [
            f"{each.run}: {e.reason}" for _, e in _kinds(each, "MergeFailed") if bug_in(e.reason)
        ]
    return wrong


def _turns(found: MergeEvidence, findings: Findings) -> list[str]:
    """Each turn was started once and completed once, in one of the two runs."""
    wrong: list[str] = []
    steps = {f"{name}#{n + 1}" for name, count in found.turns.items() for n in range(count)}
    findings.steps_expected += len(steps)
    for kind in ("StepStarted", "StepCompleted"):
        counts = Counter(
            str(e.step) for each in (found.coordinator, found.merged) for _, e in _kinds(each, kind)
        )
        twice = sorted(step for step, count in counts.items() if count > 1)
        findings.steps_twice += len(twice)
        if kind == "StepCompleted":
            findings.steps_applied += counts.total()
        if twice:
            wrong.append(f"twice {kind}: {', '.join(twice)}")
        if counts.keys() != steps:
            wrong.append(f"{kind} differs by {sorted(counts.keys() ^ steps)}")
    return wrong


def _messages(found: MergeEvidence) -> list[str]:
    counts = Counter(
        str(e.command)
        for each in (found.coordinator, found.merged)
        for _, e in _kinds(each, "MessageAdded", "CommandRejected")
        if e.command in found.messages
    )
    differing = sorted(set(found.messages) ^ counts.keys())
    twice = sorted(name for name, count in counts.items() if count > 1)
    return [
        *([f"the messages {twice} were added twice"] if twice else []),
        *([f"the messages {differing} were not added"] if differing else []),
    ]


def _shown(found: MergeEvidence) -> list[str]:
    """`log` and `trace` show each event of both journals, and each turn, once."""
    wrong: list[str] = []
    wanted = Counter(
        (str(each.run), at) for each in (found.coordinator, found.merged) for at, _ in each.journal
    )
    if (shown := Counter(found.log)) != wanted:
        lost, doubled = wanted - shown, shown - wanted
        wrong.append(f"`crewlog log` lacks {dict(lost)}, and has once too often {dict(doubled)}")
    steps = Counter(
        str(e.step)
        for each in (found.coordinator, found.merged)
        for _, e in _kinds(each, "StepCompleted")
    )
    if found.trace != steps:
        differing = {k: (found.trace[k], steps[k]) for k in found.trace | steps}
        differing = {k: pair for k, pair in differing.items() if pair[0] != pair[1]}
        wrong.append(f"`crewlog trace` shows other turns than the journals have: {differing}")
    return wrong


def _effects(found: MergeEvidence, findings: Findings) -> list[str]:
    """Each holder's tool call had its effect once, under one key."""
    both = (found.coordinator, found.merged)
    wrong = [f"two calls shared an idempotency key: {c}" for each in both for c in each.clashes]
    done = Counter(e.item for each in both for e in each.deposits)
    tries = [one for each in both for one in each.tries]
    findings.keyed_expected += len(HOLDERS)
    findings.keyed_done += len(done)
    findings.keyed_doubled += sum(count > 1 for count in done.values())
    findings.repeated += len(tries) - len({one.item for one in tries})
    if done != dict.fromkeys(HOLDERS.values(), 1):
        wrong.append(f"the tools' effects are {dict(done)}")
    keys = {one.item: {t.key for t in tries if t.item == one.item} for one in tries}
    wrong += [f"{item} was tried as {sorted(used)}" for item, used in keys.items() if len(used) > 1]
    return wrong


@dataclass
class MergePlay:
    """One merge: two runs, a command that connects them, and a kill.

    Args:
        drill: The drill.
        number: The merge's number in it.
        step: Where a worker is killed.
    """

    drill: MergeDrill
    number: int
    step: Step
    runs: dict[Side, Run] = field(init=False)
    messages: dict[str, str] = field(default_factory=dict[str, str])
    """The ids of the messages, and the agents that have a turn for them."""
    _sides: dict[str, Side] = field(default_factory=dict[str, Side])
    """The ids of the messages, and the run that each was sent to."""
    answer: str = ""

    async def play(self) -> MergeEvidence:
        """Plays it to the end of both runs; returns what is known of them then."""
        await self._start()
        await self._hold()
        step, points = self.step, self.drill.fleets[self.step.side].points
        run = self.runs[step.side].id
        points.order(step.point, passage=step.passage, run=run)
        releasing = asyncio.create_task(self._spoil() if step.fails else self._release())
        changing = asyncio.create_task(self._change())
        try:
            await self._say("during", {"coordinator": "channel:x", "merged": "channel:x"})
            await changing
            await self._say("queued", {side: f"private:{who}" for side, who in HOLDERS.items()})
        finally:
            releasing.cancel()
            changing.cancel()
            if step.fails:
                await again(lambda: self.runs["coordinator"].resume(by="drill"))
            for side, name in HOLDERS.items():
                self.drill.stand.ledger.release(self.runs[side].id, name)
        await self._until(self._is_out_of_merges, "the end of the merge in both runs")
        await self._say_to_all()
        await self._until(self._is_at_rest, "the end of all turns")
        points.withdraw(run)
        return await self._evidence(await self._stop())

    def was_killed(self) -> bool:
        """Whether a worker was killed at the step."""
        run = self.runs[self.step.side].id
        halts = self.drill.stand.ledger.halts()
        return any((halt.run, halt.point) == (run, self.step.point) for halt in halts)

    # -- what happens ------------------------------------------------------------------------

    async def _start(self) -> None:
        drill = self.drill
        events = drill.rng.choice((60, 1000))
        agents: dict[Side, dict[str, Any]] = {"coordinator": COORDINATOR, "merged": MERGED}
        self.runs = {
            side: await again(
                lambda side=side: drill.clients[side].start(
                    merge_crew(drill.stand.site.root, agents[side], events),
                    "",
                    id=f"{drill.name}-{self.number}-{side}",
                    by="drill",
                )
            )
            for side in HOLDERS
        }
        for run in self.runs.values():
            await run.wait_until(lambda view: view.is_idle, LIMIT)

    async def _hold(self) -> None:
        """Waits until the holders are in their tool calls."""
        await self._say("work", {side: f"private:{who}" for side, who in HOLDERS.items()})
        for side in HOLDERS:
            run = self.runs[side].id
            await self._until(lambda run=run: self._has_begun(run), "the tool call")

    async def _has_begun(self, run: str) -> bool:
        return bool(self.drill.stand.ledger.tries(run))

    async def _say(self, name: str, logs: dict[Side, str]) -> None:
        """Sends a message to a log of each run, for the holder of that run."""
        for side, log in logs.items():
            await self._message(side, f"{name}-{HOLDERS[side]}", log, HOLDERS[side])

    async def _say_to_all(self) -> None:
        """Sends a message to each agent, by the id of the run that it began in."""
        for side, agents in (("coordinator", COORDINATOR), ("merged", MERGED)):
            for name in agents:
                await self._message(side, f"after-{name}", f"private:{name}", name)

    async def _message(self, side: Side, name: str, log: str, agent: str) -> None:
        command = f"{self.drill.name}-{self.number}-{name}"
        self.messages[command], self._sides[command] = agent, side
        run = self.runs[side]
        await again(lambda: run.message(name, to=log, by="drill", id=command))

    async def _change(self) -> None:
        """Sends the command that connects the two runs, until there is an answer."""
        one, other = self.runs[self.step.requester], self._other(self.step.requester)
        names = (AgentName("ann"), AgentName("dan"))
        sender, listener = names if self.step.requester == "coordinator" else names[::-1]
        tie = Connect(sender=sender, listener=listener, channel="tie", other=RunId(other.id))
        command = f"{self.drill.name}-{self.number}-tie"
        try:
            async with asyncio.timeout(LIMIT):
                await again(lambda: one.change(operations=[tie], by="drill", id=command))
        except TimeoutError as error:
            raise TimeoutError(f"the merge has no outcome within {LIMIT:g} s") from error
        except CrewlogError as error:
            self.answer = f"{type(error).__name__}: {error}"

    def _other(self, side: Side) -> Run:
        return self.runs["merged" if side == "coordinator" else "coordinator"]

    async def _release(self) -> None:
        """Lets the tool calls end: in the run that drains, and then in the coordinator."""
        for side, kinds in (
            ("merged", ("MergeAccepted", "MergeFailed")),
            ("coordinator", ("RunMerged", "MergeFailed")),
        ):
            await self._stored(side, *kinds)
            self.drill.stand.ledger.release(self.runs[side].id, HOLDERS[side])

    async def _spoil(self) -> None:
        """Pauses the coordinator while the other run drains."""
        await self._stored("merged", "MergeAccepted", "MergeFailed")
        await again(lambda: self.runs["coordinator"].pause(by="drill"))

    async def _stored(self, side: Side, *kinds: str) -> None:
        """Waits until the journal of a run has an entry of one of these kinds."""
        store, run = self.drill.stand.site.store, RunId(self.runs[side].id)
        while True:
            rows = await store.read_journal(run, 0)
            if any(row.entry["kind"] in kinds for row in rows):
                return
            await asyncio.sleep(PAUSE)

    # -- the end -----------------------------------------------------------------------------

    async def _until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        try:
            async with asyncio.timeout(LIMIT):
                while not await condition():  # noqa: ASYNC110 - runs and the store tell
                    await asyncio.sleep(PAUSE)
        except TimeoutError as error:
            raise TimeoutError(f"{what} did not come within {LIMIT:g} s") from error

    async def _is_out_of_merges(self) -> bool:
        states = [await again(run.state) for run in self.runs.values()]
        return all(state.pending_merge is None for state in states)

    async def _is_at_rest(self) -> bool:
        """Whether all messages were applied, and all turns that follow from them have ended."""
        for command in self.messages:
            if await again(lambda command=command: self._outcome_of(command)) is None:
                return False
        views = [await again(run.status) for run in self.runs.values()]
        return all(
            view.status == "merged" or (view.is_idle and not view.frontier) for view in views
        )

    async def _outcome_of(self, command: str) -> CommandOutcome | None:
        return await self.runs[self._sides[command]].outcome(CommandId(command))

    async def _stop(self) -> dict[str, frozenset[str]]:
        """Stops the open runs; returns the agents of each of them."""
        found: dict[str, frozenset[str]] = {}
        for run in self.runs.values():
            if (await again(run.status)).status == "merged":
                continue
            component = (await again(run.graph)).plan["component"]
            found[run.id] = frozenset(component["agents"])
            await again(run.stop)
        return found

    # -- evidence ----------------------------------------------------------------------------

    async def _evidence(self, agents: dict[str, frozenset[str]]) -> MergeEvidence:
        stand = self.drill.stand
        ended: dict[Side, str] = {
            side: (await run.result(LIMIT)).status for side, run in self.runs.items()
        }
        found = {
            side: await again(lambda run=run, end=ended[side]: stand.evidence(run, end))
            for side, run in self.runs.items()
        }
        shown = [run for side, run in self.runs.items() if ended[side] != "merged"]
        log: list[tuple[str, int]] = []
        trace: Counter[str] = Counter()
        for run in shown:
            log += [(of, item.position) async for of, item in read_with_merged_runs(run)]
            traced = (await load_trace(self.drill.clients["coordinator"], run.id, None)).trace
            for each in (traced, *traced.merged_runs):
                trace.update(str(s.step) for s in each.all_steps() if s.status == "completed")
        return MergeEvidence(
            found["coordinator"],
            found["merged"],
            self.answer,
            [*self.messages],
            Counter(self.messages.values()),
            log,
            trace,
            agents,
        )

    async def check_accounts(self) -> list[str]:
        """Follows each agent, message and turn through both journals; what is lost or doubled."""
        accounts = Accounts(self.drill.stand.site.store)
        await accounts.read([RunId(run.id) for run in self.runs.values()])
        try:
            await accounts.settle()
            accounts.check_turns()
            accounts.check_creatures()
            accounts.check_lineage()
        except AssertionError as error:
            return [str(error)]
        return []


async def again(call: Callable[[], Awaitable[T]]) -> T:
    """Calls until a worker and the server answer: a worker that was killed is missed for a time."""
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            return await call()
        except (WorkerMissing, ServiceError):
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(PAUSE)


class MergeDrill:
    """Merges under kills.

    Args:
        stand: The services.
        name: The scenario's name; runs and task queues are named after it.
        seed: The order of the steps follows from it.
        steps: The steps, one for each merge.
        at_once: How many merges are under way at a time.
        workers: How many workers each of the two task queues has.
        tell: Gets a line of progress.
    """

    def __init__(
        self,
        stand: Stand,
        name: str,
        seed: int,
        steps: Sequence[Step],
        *,
        at_once: int = 6,
        workers: int = 2,
        tell: Tell = lambda _: None,
    ) -> None:
        self.stand = stand
        self.name = f"{name}-{seed}"
        self.rng = random.Random(f"{name}/{seed}")  # noqa: S311 - repeatable, not secret
        self.report = Report(name, seed)
        queues: dict[Side, str] = {side: f"{self.name}-{side}" for side in HOLDERS}
        self.fleets: dict[Side, Fleet] = {
            side: stand.fleet(queue, workers) for side, queue in queues.items()
        }
        self.clients: dict[Side, Client] = {
            side: stand.client(queue) for side, queue in queues.items()
        }
        self._steps = [*steps]
        self._at_once = at_once
        self._tell = tell
        self._number = 0
        self._outcomes: Counter[str] = Counter()
        self._killed: Counter[str] = Counter()
        self.evidence: list[MergeEvidence] = []
        """What is known of each merge."""

    async def perform(self) -> Report:
        """Plays a merge for each step, and audits each of them."""
        begun = time.monotonic()
        await asyncio.gather(*(fleet.open() for fleet in self.fleets.values()))
        self.rng.shuffle(self._steps)
        room = asyncio.Semaphore(self._at_once)
        try:
            await asyncio.gather(*(self._play(step, room) for step in self._steps))
        finally:
            await asyncio.gather(*(fleet.close() for fleet in self.fleets.values()))
        report = self.report
        for side, fleet in self.fleets.items():
            report.violations += fleet.deserters
            for point, count in fleet.kills.items():
                report.faults[f"kill {side} {point}"] += count
        report.notes |= {
            "merges": self._number,
            "with their own kill": self._killed.total(),
            "outcomes": dict(self._outcomes),
        }
        report.seconds = time.monotonic() - begun
        return report

    async def _play(self, step: Step, room: asyncio.Semaphore) -> None:
        """Plays merges until a worker was killed at the step."""
        for _ in range(TRIES):
            async with room:
                self._number += 1
                play = MergePlay(self, self._number, step)
                await self._one(play)
            if play.was_killed():
                self._killed[str(step)] += 1
                return
        self.report.violations.append(f"no worker was killed: {step}")

    async def _one(self, play: MergePlay) -> None:
        findings = self.report.findings
        findings.runs += 2
        where = f"merge {play.number} ({play.step})"
        try:
            found = await play.play()
            self.evidence.append(found)
            wrong = audit_merge(found, findings)
            wrong += await play.check_accounts()
        except Exception as error:
            findings.lost += 2
            await self._give_up(play)
            findings.violations.append(f"{where}: {error!r}")
            self._outcomes["not audited"] += 1
            return
        findings.finished += 2
        findings.violations += [f"{where}: {text}" for text in wrong]
        outcome = "merged" if is_merged(found) else f"failed with {found.answer.split(':')[0]}"
        self._outcomes[outcome] += 1
        told = f"; answered {found.answer}" if found.answer else ""
        self._tell(f"{where}: {outcome}{told}{'; WRONG' if wrong else ''}")

    async def _give_up(self, play: MergePlay) -> None:
        for run in play.runs.values():
            with suppress(CrewlogError):
                await run.terminate("the drill is over")

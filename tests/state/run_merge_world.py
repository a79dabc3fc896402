"""A simulated world of runs that merge, without a server.

Each run has its live states and, up to some position, what the store has of them. All that a run
knows of another one is a stored state that it loaded at some time, by one read after the other.
Updates, answers and signals are data of a run: so each of them may be lost, repeated, delayed or
forged. A simple merge replaces the real one: the surviving run gets the agents of the merged run,
each with the amount of work that the merged run had done.

`random_faults` makes a schedule in which anything goes wrong, `World.settle` continues without
faults, `explore` tries each order of events up to a depth.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from crewlog.errors import CrewlogError
from crewlog.ids import CommandId, ContentHash, RunId
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState, MergeOutcome, PendingMerge
from crewlog.state.run_merge import protocol
from crewlog.state.run_merge.protocol import NextEntry, Refusal, RunSize

NO_HASH = ContentHash("-")
LIMITS = {
    "requested": protocol.REQUEST_TIMEOUT,
    "draining": protocol.DRAIN_TIMEOUT,
    "coordinating": protocol.FREEZE_TIMEOUT,
}
"""Milliseconds that each status may last."""
SETTLE_TIMEOUT = (
    protocol.REQUEST_TIMEOUT + protocol.FREEZE_TIMEOUT + protocol.DRAIN_TIMEOUT
) + 2 * protocol.READ_INTERVAL
"""Milliseconds after the last fault in which each merge ends."""


class Update(NamedTuple):
    """An update that asks a run to coordinate, or to freeze. The last two fields find the activity
    that waits for the answer."""

    sender: RunId
    merge: str
    generation: int
    position: int
    """The position at which the sender entered the merge; 0: the update is forged."""


class Preparation(NamedTuple):
    """A merge that the coordinator prepares."""

    merge: str
    entered_at: int
    """The position at which the coordinator entered it."""
    state: CrewState | None
    """The stored state of the other run at the position at which it froze."""


Result = Literal["accepted"] | int | Refusal
"""The request is accepted, the run froze at a position, or why it refuses."""


class Answer(NamedTuple):
    """The answer to an update."""

    update: Update
    result: Result


class Read(NamedTuple):
    """The result of a read of another run."""

    merge: str
    update: Update | None
    """The update that it answers; none: the run reads its coordinator."""
    state: CrewState | None
    gone: bool = False
    recalled: bool = False


class Message(NamedTuple):
    """What is sent once a position is stored; a text is a signal that confirms that merge."""

    position: int
    to: RunId
    content: Update | Answer | str


class InvariantError(AssertionError):
    """An invariant of the protocol is broken."""


def size_of(state: CrewState) -> RunSize:
    return RunSize(len(state.flags), any(name.endswith("flow") for name in state.flags))


class Run:
    """A run, with what is stored of it.

    Args:
        name: The id.
        agents: The number of its agents.
        has_flow: Whether it has a flow.
        at: When it starts, in milliseconds since the epoch.
    """

    def __init__(self, name: str, agents: int, *, has_flow: bool, at: int) -> None:
        self.name = RunId(name)
        self.generation = 0
        """How many runs have had the id."""
        self.start(at, agents, has_flow=has_flow)

    def start(self, at: int, agents: int, *, has_flow: bool) -> None:
        """Starts the run, or another one with its id."""
        self.generation += 1
        names = [f"{self.name}{self.generation}.{number}" for number in range(agents)]
        names[-1] += ".flow" if has_flow else ""
        first = CrewState(run=self.name, started_at=at, flags=dict.fromkeys(names, 0))
        self.history = [first]
        self.stored = 0
        """The index in `history` of the last stored state."""
        self.drained_at = 0
        """When the calls in flight complete."""
        self.is_terminated = False
        self.updates: list[Update] = []
        self.answers: list[Answer] = []
        self.read: Read | None = None
        """The result of the read in flight. A slow read has an old state."""
        self.forget()

    def forget(self) -> None:
        """Forgets all that only the process of the run has."""
        if self.read is not None and self.read.update is not None:
            self.updates.append(self.read.update)
        self.read = None
        self.read_at = 0
        self.must_read = self.is_frozen
        """Whether the outcome may be stored: it was confirmed, or the process is new."""
        self.asked: tuple[str, str] = ("", "")
        """The merge and the status in which the process has asked the other run."""
        self.requested: Update | None = None
        """The last update that the run has sent."""
        self.is_requesting = False
        """Whether an activity waits for its answer."""
        self.waiting: list[Update] = []
        """The updates that are answered when the run is frozen."""
        self.prepared: Preparation | None = None
        """The result of the preparation in flight."""
        self.outbox: list[Message] = []

    @property
    def live(self) -> CrewState:
        return self.history[-1]

    @property
    def stored_state(self) -> CrewState | None:
        return self.history[self.stored] if self.stored else None

    @property
    def is_behind(self) -> bool:
        """Whether entries are not stored."""
        return self.stored < len(self.history) - 1

    @property
    def is_open(self) -> bool:
        return not (self.live.is_ended or self.is_terminated)

    @property
    def pending(self) -> PendingMerge | None:
        return self.live.pending_merge

    @property
    def is_frozen(self) -> bool:
        return self.pending is not None and self.pending.status == "frozen"

    def state_at(self, position: int) -> CrewState | None:
        """The stored state at a position."""
        stored = self.history[: self.stored + 1]
        return next((state for state in stored if state.position == position), None)


class World:
    """Some runs and a clock. A wrong protocol is a subclass that overrides a rule.

    Args:
        runs: The runs.
    """

    def __init__(self, runs: list[Run]) -> None:
        self.runs = {run.name: run for run in runs}
        self.now = 1_000_000
        self.counts: Counter[str] = Counter()
        self.deleted: set[str] = set()
        """The agents of runs whose id another run has now."""

    # -- the rules ---------------------------------------------------------------------------

    def answer_request(
        self, own: CrewState, other: CrewState | None, merge: str
    ) -> Refusal | tuple[NextEntry, ...]:
        return protocol.answer_request(own, other, merge, self.now, size_of(own))

    def next_entry(self, own: CrewState, *, has_drained: bool) -> Any:
        return protocol.next_entry(own, self.now, has_drained=has_drained)

    def may_merge(self, own: CrewState, merge: str) -> bool:
        return protocol.may_merge(own, merge)

    def is_frozen_for(self, own: CrewState, prepared: Preparation) -> bool:
        other = prepared.state
        return other is not None and protocol.is_frozen_for(
            other, own.run, prepared.merge, prepared.entered_at, own.started_at
        )

    def find_outcome(self, own: CrewState, read: Read) -> Any:
        return protocol.find_outcome(own, read.state, gone=read.gone, recalled=read.recalled)

    def may_answer(self, own: PendingMerge) -> bool:
        """Whether a run that was asked to freeze answers now."""
        return own.status == "frozen"

    # -- entries -----------------------------------------------------------------------------

    def record(self, run: Run, entry: j.JournalEntry) -> None:
        kind = type(entry).__name__
        if run.is_frozen and not isinstance(
            entry, j.MergeFailed | j.RunEndedByMerge | j.StopRequested
        ):
            raise InvariantError(f"{run.name} is frozen and records {kind}")
        if isinstance(entry, j.MergeFrozen) and self.now < run.drained_at:
            raise InvariantError(f"{run.name} freezes with calls in flight")
        self.put(run, fold(run.live, entry.model_copy(update={"at": self.now}), entry_hash=NO_HASH))
        self.counts[kind] += 1

    def put(self, run: Run, state: CrewState) -> None:
        before = run.pending
        run.history.append(state)
        self.check(run)
        if (
            before is not None
            and before.status == "coordinating"
            and (run.pending is None or run.pending.merge != before.merge)
        ):
            self.send(run, before.other, before.merge)

    def store(self, run: Run, entries: int = 1_000) -> None:
        """Stores entries, then sends what waits for them."""
        run.stored = min(run.stored + entries, len(run.history) - 1)
        position = run.history[run.stored].position
        ready = [each for each in run.outbox if each.position <= position]
        run.outbox = [each for each in run.outbox if each.position > position]
        for each in ready:
            self.deliver(run, each)

    def deliver(self, run: Run, message: Message) -> None:
        other, content = self.runs.get(message.to), message.content
        is_open = other is not None and other.is_open
        if isinstance(content, Update) and not is_open:
            run.answers.append(Answer(content, Refusal(f"{message.to!r} is not open")))
        elif other is None or not is_open:
            return
        elif isinstance(content, Update):
            other.updates.append(content)
        elif isinstance(content, str):
            other.must_read |= other.pending is not None and other.pending.merge == content
        elif content.update.generation == other.generation:
            other.answers.append(content)

    def send(self, run: Run, to: RunId, content: Update | Answer | str) -> None:
        """Sends a message once all entries of now are stored."""
        run.outbox.append(Message(run.live.position, to, content))
        if not run.is_behind:
            self.store(run)

    # -- one step of a run -------------------------------------------------------------------

    def advance(self, run: Run) -> None:
        """What a run does at each step, after anything else."""
        if not run.is_open:
            return
        entry = self.next_entry(run.live, has_drained=self.now >= run.drained_at)
        if entry is not None:
            self.record(run, entry)
        mine = run.pending
        if mine is not None and mine.status != "frozen" and self.now >= mine.deadline:
            raise InvariantError(f"{run.name} is {mine.status} after its deadline")
        if run.is_open:
            self.follow_up(run)

    def follow_up(self, run: Run) -> None:
        """Sends the update of a new merge, and answers the updates that wait."""
        mine = run.pending
        if run.requested is not None and (mine is None or mine.merge != run.requested.merge):
            run.requested, run.is_requesting, run.prepared = None, False, None
        if (
            mine is not None
            and mine.status in ("requested", "coordinating")
            and run.asked != (mine.merge, mine.status)
        ):
            update = Update(run.name, mine.merge, run.generation, mine.position)
            run.asked = (mine.merge, mine.status)
            run.requested, run.is_requesting, run.prepared = update, True, None
            self.send(run, mine.other, update)
        for updates in (run.waiting, run.updates):
            for update in updates[:]:
                if (result := self.find_answer(run, update)) is not None:
                    self.reply(run, update, result)
                    updates.remove(update)

    def find_answer(self, run: Run, update: Update) -> Result | None:
        """The answer to an update by the state of the run alone; none: it must read or wait."""
        mine, outcome = run.pending, run.live.merges.get(update.merge)
        if mine is not None and mine.merge == update.merge:
            if mine.status == "coordinating":
                return "accepted"
            return mine.frozen_position or run.live.position if self.may_answer(mine) else None
        if outcome is not None:
            return Refusal(outcome.reason, outcome.may_retry)
        return Refusal("the merge has failed") if update in run.waiting else None

    def request(
        self, run: Run, other: RunId, *, survives: bool | None = None, command: str = ""
    ) -> bool:
        """A command requests a merge; returns whether the run may request it.

        Args:
            run: The run.
            other: The other run.
            survives: Whether the run takes itself for the surviving one; none: as the sizes say.
            command: The command; empty: a new one.
        """
        self.advance(run)
        size, theirs = size_of(run.live), self.runs.get(other)
        if survives is None and theirs is not None:
            survives = is_larger(run.live, theirs.live)
        try:
            entry = protocol.merge_request(
                run.live,
                other,
                CommandId(command or f"c{len(run.live.commands)}"),
                survives=bool(survives),
                at=self.now,
                operation=None,
                what="",
                size=size,
            )
        except CrewlogError:
            return False
        self.record(run, entry)
        self.follow_up(run)
        return True

    def resend(self, run: Run) -> None:
        """The activity that waits for an answer sends its update again."""
        is_unsent = any(each.content == run.requested for each in run.outbox)
        if (
            run.is_requesting
            and not is_unsent
            and run.requested is not None
            and run.pending is not None
        ):
            self.deliver(run, Message(0, run.pending.other, run.requested))

    def load(self, run: Run, which: int = 0, *, keep: bool = False) -> None:
        """A run that gets an update reads the stored state of the run that the update names."""
        self.advance(run)
        if run.read is None and run.updates:
            which %= len(run.updates)
            update = run.updates[which] if keep else run.updates.pop(which)
            other = self.runs.get(update.sender)
            run.read = Read(update.merge, update, self.load_state(other, update.merge))

    def load_state(self, other: Run | None, merge: str) -> CrewState | None:
        state = other.stored_state if other is not None else None
        return protocol.state_for_merge(state, merge) if state is not None else None

    def answer(self, run: Run, update: Update, state: CrewState | None) -> None:
        """A run decides by the state that it has read about an update."""
        result = self.answer_request(run.live, state, update.merge)
        if isinstance(result, Refusal):
            self.reply(run, update, result)
            return
        for entry in result:
            self.record(run, entry)
        run.waiting.append(update)

    def reply(self, run: Run, update: Update, result: Result) -> None:
        self.send(run, update.sender, Answer(update, result))

    def receive(self, run: Run, which: int = 0, *, keep: bool = False) -> None:
        """A run gets the answer to its update."""
        update, result = run.answers[which] if keep else run.answers.pop(which)
        mine = run.pending
        if mine is None or run.requested != update or not run.is_requesting:
            return
        run.is_requesting = False
        if isinstance(result, Refusal):
            self.fail(run, result)
        elif isinstance(result, int) and mine.status == "coordinating":
            other = self.runs.get(mine.other)
            state = other.state_at(result) if other is not None else None
            run.prepared = Preparation(mine.merge, mine.position, state)
        self.advance(run)

    def fail(self, run: Run, refusal: Refusal) -> None:
        """A run gives its merge up."""
        entry = protocol.merge_failed(run.live, refusal)
        if entry is not None:
            self.record(run, entry)
            self.follow_up(run)

    def time_out(self, run: Run) -> None:
        """The update of a run, or its preparation, times out."""
        if run.is_requesting or run.prepared is not None:
            run.is_requesting, run.prepared = False, None
            self.fail(run, Refusal("an activity timed out", may_retry=True))

    def merge(self, run: Run) -> None:
        """The preparation completes: the coordinator records the merge if it may."""
        prepared, run.prepared = run.prepared, None
        if prepared is None:
            return
        own, other = run.live, prepared.state
        if not self.is_frozen_for(own, prepared):
            self.fail(run, Refusal("the other run is not frozen for this merge"))
        elif self.may_merge(own, prepared.merge):
            assert other is not None
            position = max(own.position, other.position) + 1
            outcome = MergeOutcome(
                outcome="merged",
                other=other.run,
                position=position,
                merged_position=other.position,
                merged_started_at=other.started_at,
            )
            flags = {name: count + other.steps for name, count in other.flags.items()}
            changes = {
                "position": position,
                "flags": {**own.flags, **flags},
                **protocol.outcome_changes(own, prepared.merge, outcome),
            }
            self.put(run, own.model_copy(update=changes))
            self.counts["RunMerged"] += 1
        self.advance(run)

    def read(self, run: Run, *, sure: bool = True, recall: bool = False) -> None:
        """A run reads the stored state of its coordinator.

        Args:
            run: The run.
            sure: Whether the coordinator is known to be open; else the server is asked.
            recall: Whether its journal is searched for the outcome.
        """
        if run.read is not None:
            return
        run.must_read = False
        mine = run.pending
        if mine is None or mine.status == "coordinating":
            return
        run.read_at = self.now
        other, gone = self.runs.get(mine.other), False
        if not sure and (other is None or (other.is_terminated and not other.live.is_ended)):
            gone = True
            if other is not None:
                del other.history[other.stored + 1 :]  # the store refuses the rest
        state = self.load_state(other, mine.merge)
        if recall and state is not None and other is not None:
            state = protocol.recall(state, mine.merge, self.find_merged(other, mine))
        run.read = Read(mine.merge, None, state, gone=gone, recalled=recall)

    def find_merged(self, run: Run, mine: PendingMerge) -> MergeOutcome | None:
        """The outcome by `RunMerged` in a run's stored journal, behind the start of a round."""
        for state in run.history[: run.stored + 1]:
            outcome = state.merges.get(mine.merge)
            if (
                outcome is not None
                and outcome.outcome == "merged"
                and outcome.position > mine.other_position
            ):
                return outcome
        return None

    def apply(self, run: Run) -> None:
        """A read completes: a run decides by its result."""
        read, run.read = run.read, None
        if read is None:
            return
        mine = run.pending
        if mine is not None and mine.merge == read.merge:
            entry = self.find_outcome(run.live, read)
            if entry == "recall":
                self.read(run, sure=False, recall=True)
            elif entry is not None:
                self.check_outcome(run, entry)
                self.record(run, entry)
        if read.update is not None and run.is_open:
            self.answer(run, read.update, read.state)
        self.advance(run)

    def fail_read(self, run: Run) -> None:
        """The read in flight fails."""
        read, run.read = run.read, None
        if read is not None and read.update is not None:
            self.reply(
                run,
                read.update,
                Refusal("it cannot read the state of the other run", may_retry=True),
            )

    def next_read_at(self, run: Run) -> int | None:
        """When the timer of a merge fires."""
        mine = run.pending
        if not run.is_open or mine is None or (run.read is not None and run.is_frozen):
            return None
        return protocol.next_read_at(run.live, max(run.read_at, mine.at))

    def fire_timer(self, run: Run) -> None:
        timer = self.next_read_at(run)
        if run.is_frozen and timer is not None and timer <= self.now:
            self.read(run, sure=False)
        self.advance(run)

    # -- what people do ----------------------------------------------------------------------

    def work(self, run: Run) -> None:
        """A run records something that has nothing to do with a merge."""
        if run.is_open and not run.is_frozen:
            changes = {"position": run.live.position + 1, "steps": run.live.steps + 1}
            self.put(run, run.live.model_copy(update=changes))

    def call(self, run: Run, duration: int) -> None:
        """A run starts a call, in milliseconds."""
        self.advance(run)
        if run.is_open and not run.live.is_draining:
            run.drained_at = max(run.drained_at, self.now + duration)

    def pause(self, run: Run) -> None:
        """People pause a run, or resume it."""
        if not run.is_frozen and run.live.status in ("running", "paused"):
            is_paused = run.live.status == "paused"
            self.record(run, j.RunResumed() if is_paused else j.Paused())

    def stop(self, run: Run) -> None:
        """People stop a run; at the second time it has stopped."""
        if run.live.status in ("running", "paused"):
            self.record(run, j.StopRequested())
        elif run.live.status == "stopping":
            self.end(run, j.RunStopped())

    def end(self, run: Run, entry: j.RunCompleted | j.RunStopped) -> None:
        """A run ends by itself; its merge fails first."""
        if not run.is_frozen and run.is_open:
            self.fail(run, Refusal(f"{run.name!r} ended first"))
            self.record(run, entry)

    # -- what happens to runs ----------------------------------------------------------------

    def crash(self, run: Run) -> None:
        """What was decided and not stored is decided anew."""
        del run.history[run.stored + 1 :]
        run.forget()
        if run.stored == 0:
            self.work(run)
        self.check(run)

    def terminate(self, run: Run) -> None:
        """A run ends from outside. The store may still get what it has recorded."""
        run.forget()
        run.is_terminated = True
        run.updates, run.answers, run.must_read = [], [], False

    def reopen(self, run: Run) -> None:
        """A terminated run continues from its stored state, except for a frozen one."""
        if not run.is_terminated or not run.stored:
            return
        del run.history[run.stored + 1 :]
        if run.live.is_ended or run.is_frozen:
            return
        run.is_terminated = False
        self.fail(run, Refusal(f"{run.name!r} was terminated"))
        self.store(run)

    def replace(self, run: Run) -> None:
        """Another run gets the id of one that is not open, and whose journal is deleted.

        Except where a frozen run would need the journal: of a run that became part of a third one.
        """
        if run.is_open or (run.live.status == "merged" and self.has_frozen_run(run)):
            return
        if run.live.status != "merged":
            self.deleted |= run.live.flags.keys()
        self.now += 1
        run.start(self.now, len(run.live.flags), has_flow=False)
        self.work(run)

    def has_frozen_run(self, run: Run) -> bool:
        """Whether a frozen run waits for the outcome of a run."""
        return any(
            each.is_frozen and each.pending is not None and each.pending.other == run.name
            for each in self.runs.values()
        )

    # -- the invariants ----------------------------------------------------------------------

    def check(self, changed: Run) -> None:
        """No agent is in two open runs, and no status lasts too long."""
        owners: dict[str, RunId] = {}
        for run in self.runs.values():
            if run.is_open and not run.is_frozen:
                for name in run.live.flags:
                    if name in owners:
                        raise InvariantError(f"{name} is in {owners[name]} and in {run.name}")
                    owners[name] = run.name
        mine = changed.pending
        if (
            mine is not None
            and mine.status != "frozen"
            and mine.deadline > mine.at + LIMITS[mine.status]
        ):
            raise InvariantError(f"{changed.name} is {mine.status} for too long: {mine}")

    def check_outcome(self, run: Run, entry: j.RunEndedByMerge | j.MergeFailed) -> None:
        """An outcome is that of the stored journal of the coordinator.

        A merged run is in the surviving run as it was when it froze. A frozen run continues only if
        the coordinator cannot merge it any more.
        """
        mine = run.pending
        assert mine is not None
        other = self.runs.get(mine.other)
        if other is None or other.history[0].started_at != mine.other_started_at:
            return  # its journal is deleted
        if isinstance(entry, j.RunEndedByMerge):
            merged = other.state_at(entry.position)
            frozen = run.state_at(mine.frozen_position)
            if merged is None or frozen is None:
                raise InvariantError(f"{run.name} ends by a merge that is not stored")
            flags = {name: count + frozen.steps for name, count in frozen.flags.items()}
            if not flags.items() <= merged.flags.items():
                raise InvariantError(f"{run.name} is not in {other.name} as it froze: {flags}")
        elif mine.status == "frozen":
            state = other.history[other.stored]
            theirs = state.pending_merge
            is_refused = other.is_terminated and not other.is_behind
            if (
                theirs is not None
                and (theirs.merge, theirs.position) == (mine.merge, mine.other_position)
                and not (state.is_ended or is_refused)
            ):
                raise InvariantError(f"{run.name} is frozen and gives up before {other.name}")

    def check_none_lost(self) -> None:
        """Each agent is in a run that was not merged into another one."""
        runs = self.runs.values()
        owned = {name for run in runs if run.live.status != "merged" for name in run.live.flags}
        lost = {name for run in runs for name in run.live.flags} - owned - self.deleted
        if lost:
            raise InvariantError(f"{sorted(lost)} are in no run")

    # -- without faults ----------------------------------------------------------------------

    def serve(self, run: Run) -> None:
        """A run does all that it can do now."""
        while run.is_open and (run.read or run.must_read or run.updates or run.answers):
            if run.read is not None:
                self.apply(run)
            elif run.must_read:
                self.read(run)
            elif run.updates:
                self.load(run)
            else:
                self.receive(run)
        if run.is_open:
            self.advance(run)
            if run.prepared is not None:
                self.merge(run)
            if run.live.status == "stopping":
                self.stop(run)
        self.store(run)

    def is_busy(self, run: Run) -> bool:
        work = run.read or run.must_read or run.updates or run.answers or run.prepared
        return run.is_behind or bool(run.outbox) or (run.is_open and bool(work))

    def settle(self) -> None:
        """Continues without faults until no merge is pending.

        Raises:
            InvariantError: one still is after `SETTLE_TIMEOUT` and the last interval of a frozen
                run, or an invariant is broken.
        """
        for run in self.runs.values():
            self.advance(run)
            self.resend(run)
        timers = [self.next_read_at(run) or 0 for run in self.runs.values() if run.is_frozen]
        limit = max([self.now, *timers]) + SETTLE_TIMEOUT
        while True:
            self._rest()
            merging = [run for run in self.runs.values() if run.is_open and run.pending is not None]
            if not merging:
                break
            if self.now > limit:
                raise InvariantError(f"still merging: {[run.pending for run in merging]}")
            times = [at for run in merging if (at := self.next_read_at(run)) is not None]
            times += [run.drained_at for run in merging if run.drained_at > self.now]
            self.now = max(min(times), self.now + 1)
            for run in merging:
                timer = self.next_read_at(run)
                if timer is not None and timer <= self.now:
                    self.fire_timer(run)
                self.advance(run)
        for run in self.runs.values():
            self.check(run)
        self.check_none_lost()

    def _rest(self) -> None:
        """Lets all runs do all that they can do now."""
        for run in self.runs.values():
            self.serve(run)
        rounds = 0
        while busy := [run for run in self.runs.values() if self.is_busy(run)]:
            rounds += 1
            if rounds > 1_000:
                raise InvariantError("the runs exchange messages forever")
            for run in busy:
                self.serve(run)


def is_larger(own: CrewState, other: CrewState) -> bool:
    """Whether a run survives the merge with another one."""
    one, two = size_of(own), size_of(other)
    return (one.has_flow, one.agents, other.run) > (two.has_flow, two.agents, own.run)


# -- random schedules ------------------------------------------------------------------------


def random_faults(
    world: World, rng: random.Random, steps: int, *, with_deaths: bool, longest: int
) -> None:
    """Lets events happen in any order, with faults.

    Args:
        world: The runs.
        rng: Decides what happens.
        steps: The number of events.
        with_deaths: Whether runs crash, end, or are terminated.
        longest: The most milliseconds that pass at once.
    """
    runs = list(world.runs.values())
    for _ in range(steps):
        run, dice = rng.choice(runs), rng.random()
        if not run.is_open:
            _after_the_end(world, run, rng)
        elif with_deaths and dice < 0.07:
            _harm(world, run, rng)
        elif dice < 0.25:
            _disturb(world, run, rng, longest)
        else:
            proceed(world, run, rng)


def _after_the_end(world: World, run: Run, rng: random.Random) -> None:
    dice = rng.random()
    if dice < 0.15 and run.is_behind and not run.is_terminated:
        world.crash(run)
    elif run.is_behind:
        world.store(run, rng.randrange(1, 4))
    elif dice < 0.25 and run.is_terminated:
        world.reopen(run)
    elif dice < 0.4:
        world.replace(run)


def _harm(world: World, run: Run, rng: random.Random) -> None:
    dice = rng.random()
    if dice < 0.6:
        world.crash(run)
    elif dice < 0.8:
        world.terminate(run)
    elif dice < 0.85:
        world.end(run, j.RunCompleted())
    else:
        world.stop(run)


def _disturb(world: World, run: Run, rng: random.Random, longest: int) -> None:
    """People do something, time passes, or a message is lost or forged."""
    dice = rng.random()
    other = rng.choice(list(world.runs))
    if dice < 0.15 and other != run.name:
        survives = rng.random() < 0.5 if rng.random() < 0.1 else None
        world.request(run, other, survives=survives)
    elif dice < 0.4:
        world.now += rng.randrange(1, longest)
    elif dice < 0.55:
        world.work(run)
    elif dice < 0.6:
        world.call(run, rng.randrange(longest * 2))
    elif dice < 0.65:
        world.pause(run)
    elif dice < 0.7:
        world.time_out(run)
    elif dice < 0.8:
        _forge(world, run, rng)
    elif dice < 0.83:
        world.fail_read(run)
    elif dice < 0.86:
        run.must_read = False  # the signal is lost
    else:
        lists = [each for each in (run.updates, run.answers) if each]
        if lists:
            chosen: list[Any] = rng.choice(lists)
            del chosen[rng.randrange(len(chosen))]


def _forge(world: World, run: Run, rng: random.Random) -> None:
    """A client sends a run an update or a signal."""
    if rng.random() < 0.3:
        run.must_read = run.pending is not None
        return
    sender = rng.choice(list(world.runs.values()))
    merges = [*sender.live.merges, *run.live.merges]
    merges += [each.pending.merge for each in (sender, run) if each.pending is not None]
    if merges:
        run.updates.append(Update(sender.name, rng.choice(merges), 0, 0))


def proceed(world: World, run: Run, rng: random.Random) -> None:
    """A run does something that it would do anyway, perhaps twice."""
    keep = rng.random() < 0.2
    actions: list[Callable[[], None]] = []
    if run.read is not None:
        actions.append(lambda: world.apply(run))
    elif run.must_read:
        actions.append(lambda: world.read(run))
    if run.read is None and run.updates:
        actions.append(lambda: world.load(run, rng.randrange(len(run.updates)), keep=keep))
    if run.answers:
        actions.append(lambda: world.receive(run, rng.randrange(len(run.answers)), keep=keep))
    if run.prepared is not None:
        actions.append(lambda: world.merge(run))
    if run.is_behind:
        actions.append(lambda: world.store(run, rng.randrange(1, 4)))
    if run.is_requesting and rng.random() < 0.2:
        actions.append(lambda: world.resend(run))
    timer = world.next_read_at(run)
    if timer is not None and timer <= world.now:
        actions.append(lambda: world.fire_timer(run))
    if run.pending is not None:
        actions.append(lambda: world.advance(run))
    if actions:
        rng.choice(actions)()


# -- each order of events --------------------------------------------------------------------


def copy_world(world: World) -> World:
    """The same world, to continue in another way."""
    other = object.__new__(type(world))
    other.__dict__ = {**world.__dict__, "counts": Counter(), "deleted": set(world.deleted)}
    other.runs = {}
    for name, run in world.runs.items():
        twin = other.runs[name] = object.__new__(Run)
        twin.__dict__ = {k: v[:] if isinstance(v, list) else v for k, v in run.__dict__.items()}
    return other


def fingerprint(world: World) -> Any:
    """What a world is: two that are equal continue alike."""
    return world.now, tuple(
        (
            repr(run.pending),
            repr(run.live.merges),
            run.live.status,
            run.live.position,
            run.generation,
            run.stored,
            run.is_terminated,
            run.asked,
            run.requested,
            run.is_requesting,
            run.prepared and (run.prepared[:2], _version(run.prepared.state)),
            run.read_at,
            run.must_read,
            run.read and (run.read[:2], _version(run.read.state), run.read[3:]),
            tuple(run.updates),
            tuple(run.answers),
            tuple(run.waiting),
            tuple(run.outbox),
        )
        for run in world.runs.values()
    )


def _version(state: CrewState | None) -> tuple[int, int] | None:
    return (state.started_at, state.position) if state is not None else None


Event = tuple[str, Callable[[World, Run], None], RunId]


def events(world: World, *, with_faults: bool = True, with_deaths: bool = True) -> Iterator[Event]:
    """Each event that may happen next: its name, what happens, and in which run."""
    for run in world.runs.values():
        if run.is_behind:
            yield "store", lambda w, r: w.store(r, 1), run.name
        if run.is_open:
            yield from _own_events(world, run)
        if with_faults and run.is_open:
            yield from _faults(run)
        if with_deaths:
            yield from _deaths(run)
    timers = [at for run in world.runs.values() if (at := world.next_read_at(run))]
    later = [at for at in timers if at > world.now]
    if later:
        yield "wait", lambda w, _: setattr(w, "now", min(later)), next(iter(world.runs))


def _own_events(world: World, run: Run) -> Iterator[Event]:
    for which in range(len(run.answers)):
        yield "receive", lambda w, r, n=which: w.receive(r, n), run.name
    if run.read is not None:
        yield "apply", lambda w, r: w.apply(r), run.name
    elif run.must_read:
        yield "read", lambda w, r: w.read(r), run.name
    if run.read is None and run.updates:
        yield "load", lambda w, r: w.load(r), run.name
    if run.prepared:
        yield "merge", lambda w, r: w.merge(r), run.name
    timer = world.next_read_at(run)
    if timer is not None and timer <= world.now:
        yield "fire timer", lambda w, r: w.fire_timer(r), run.name


def _faults(run: Run) -> Iterator[Event]:
    if run.updates:
        yield "lose", lambda _, r: r.updates.__delitem__(0), run.name
    if run.is_requesting and not run.answers:
        yield "time out", lambda w, r: w.time_out(r), run.name
        yield "resend", lambda w, r: w.resend(r), run.name


def _deaths(run: Run) -> Iterator[Event]:
    if run.is_open:
        yield "terminate", lambda w, r: w.terminate(r), run.name
    if run.is_behind and not run.is_terminated:
        yield "crash", lambda w, r: w.crash(r), run.name
    if run.is_terminated:
        yield "reopen", lambda w, r: w.reopen(r), run.name
        yield "replace", lambda w, r: w.replace(r), run.name


def explore(world: World, depth: int, *, with_faults: bool, with_deaths: bool) -> int:
    """Tries each order of events up to a depth, and settles each world; returns their number."""
    level, known = [world], {fingerprint(world)}
    for _ in range(depth):
        following: list[World] = []
        for each in level:
            for _, event, name in events(each, with_faults=with_faults, with_deaths=with_deaths):
                other = copy_world(each)
                event(other, other.runs[name])
                if (found := fingerprint(other)) not in known:
                    known.add(found)
                    following.append(other)
        level = following
    for each in level:
        each.settle()
    return len(known)

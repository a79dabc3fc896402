"""Runs that become one, without a server: what may get lost does, and what may come late, too.

Each run has its state as it is and, behind that, what the store has of it. All that a run knows of
another one is a stored state that it loaded some time ago. The union is a stand-in: the creatures
of the other run become its own, with how much that one had done.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from crewlog.errors import CrewlogError
from crewlog.ids import CommandId, ContentHash, RunId
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState, MergeOutcome
from crewlog.state.run_merge import protocol
from crewlog.state.run_merge.protocol import Move

NONE = ContentHash("-")
LIMITS = {
    "requested": protocol.REQUEST_TIMEOUT,
    "draining": protocol.DRAIN_TIMEOUT,
    "surviving": protocol.OFFER_TIMEOUT,
}
SETTLES = protocol.REQUEST_TIMEOUT + protocol.OFFER_TIMEOUT + 5 * protocol.READ_INTERVAL
"""Milliseconds after which no run is in a merge, where nothing goes wrong any more."""
NextMove = Callable[..., Move | None]


class Look(NamedTuple):
    """A run's state as it was stored when another one looked."""

    op: str
    run: RunId
    state: CrewState | None
    gone: bool


class Run:
    """A run, with what is stored of it."""

    def __init__(self, name: str, size: int, *, flow: bool, at: int) -> None:
        self.name = RunId(name)
        self.size, self.flow = size, flow
        self.generation = 0
        self.begin(at)

    def begin(self, at: int) -> None:
        """Begins, or begins anew under the id of one that is forgotten."""
        self.generation += 1
        born = {f"{self.name}{self.generation}": 0}
        first = CrewState(run=self.name, started_at=at, position=0, flags=born)
        self.history = [first]
        """The state at each position."""
        self.stored = 0
        """The position up to which it is stored."""
        self.gone = False
        self.looked = 0
        self.lands = 0
        """When all that is under way has landed."""
        self.uniting: Look | None = None
        self.looks: list[Look] = []
        self.heard: list[tuple[str, RunId]] = []
        """Hints that came: the merge, and who gave it."""
        self.telling: list[tuple[int, RunId, str]] = []
        """Hints that are given once that position is stored: to whom, of which merge."""

    @property
    def live(self) -> CrewState:
        return self.history[-1]

    @property
    def at_work(self) -> bool:
        return not (self.live.is_ended or self.gone)

    @property
    def offered(self) -> bool:
        mine = self.live.pending_merge
        return mine is not None and mine.status == "offered"

    def put(self, state: CrewState) -> None:
        self.history.append(state)


class Broken(AssertionError):
    """What must not be."""


class World:
    """Some runs, a clock, and what goes wrong.

    Args:
        runs: The runs.
        next_move: What follows for a run.
    """

    def __init__(self, runs: list[Run], next_move: NextMove = protocol.next_move) -> None:
        self.runs = {run.name: run for run in runs}
        self.now = 1_000_000
        self.next_move = next_move
        self.merged = 0
        self.asked = 0
        self.counts: dict[str, int] = {}

    # -- what runs do ------------------------------------------------------------------------

    def record(self, run: Run, entry: j.JournalEntry) -> None:
        before, kind = run.live, type(entry).__name__
        if run.offered and not isinstance(
            entry, j.MergeFailed | j.RunEndedByMerge | j.StopRequested
        ):
            raise Broken(f"{run.name} records {kind} though it has offered itself")
        if isinstance(entry, j.MergeOffered) and self.now < run.lands:
            raise Broken(f"{run.name} offers itself while calls are under way")
        run.put(fold(before, entry.model_copy(update={"at": self.now}), entry_hash=NONE))
        self.counts[kind] = self.counts.get(kind, 0) + 1
        joins = isinstance(entry, j.MergeAccepted) and entry.status == "draining"
        if joins and run.lands < self.now:
            run.lands = self.now
        self.check()

    def ask(self, run: Run, other: RunId) -> bool:
        self.asked += 1
        try:
            request = protocol.merge_request(
                run.live,
                other,
                CommandId(f"c{self.asked}"),
                at=self.now,
                operation=None,
                what="",
                agents=run.size,
                has_flow=run.flow,
            )
        except CrewlogError:
            return False
        self.record(run, request)
        run.looked = self.now
        self.tell(run, other, request.merge)
        return True

    def tell(self, run: Run, to: RunId, op: str) -> None:
        """Gives a hint, once all of now is stored."""
        run.telling.append((run.live.position, to, op))

    def flush(self, run: Run, facts: int = 1_000) -> None:
        run.stored = min(run.stored + facts, len(run.history) - 1)
        position = run.history[run.stored].position
        told = [each for each in run.telling if each[0] <= position]
        run.telling = [each for each in run.telling if each[0] > position]
        for _, to, op in told:
            if to in self.runs and self.runs[to].at_work:
                self.runs[to].heard.append((op, run.name))

    def look(self, run: Run, op: str, hinted: RunId) -> None:
        """Loads what is stored of the other run; what follows is said later."""
        to = protocol.run_to_read(run.live, op, hinted)
        other = self.runs.get(to)
        if other is None or other is run:
            run.looks.append(Look(op, to, None, gone=other is None))
        else:
            state = other.history[other.stored] if other.stored else None
            run.looks.append(Look(op, to, state, other.gone))

    def hear(self, run: Run, which: int = 0, *, keep: bool = False) -> None:
        op, hinted = run.heard[which] if keep else run.heard.pop(which)
        self.look(run, op, hinted)

    def due(self, run: Run) -> int | None:
        return protocol.next_read_at(run.live, run.looked) if run.at_work else None

    def ring(self, run: Run) -> None:
        """The timer of a run in a merge rings."""
        mine = run.live.pending_merge
        if mine is not None:
            run.looked = self.now
            self.look(run, mine.merge, mine.other)
            if protocol.is_request_pending(run.live):
                self.tell(run, mine.other, mine.merge)

    def decide(self, run: Run, which: int = 0, moves: int = 4, *, keep: bool = False) -> None:
        """Does what follows from a look."""
        look = run.looks[which] if keep else run.looks.pop(which)
        seen, recalled = look.state, False
        for _ in range(moves):
            move = self.next_move(
                run.live,
                protocol.state_for_merge(seen, look.op) if seen is not None else None,
                look.op,
                self.now,
                has_drained=self.now >= run.lands,
                gone=look.gone,
                agents=run.size,
                has_flow=run.flow,
                recalled=recalled,
            )
            if move is None:
                return
            if move.does == "merge":
                run.uniting = run.uniting or look
                return
            if move.does == "recall":
                assert seen is not None
                seen, recalled = protocol.recall(seen, look.op, self.taken_at(look)), True
                continue
            assert move.entry is not None
            if isinstance(move.entry, j.RunEndedByMerge):
                self.check_taken(run, look, move)
            self.record(run, move.entry)
            run.looked = self.now
            self.tell(run, move.to, move.entry.merge)

    def taken_at(self, look: Look) -> int | None:
        """Where the other run's journal has the union of a merge, as far as the look goes."""
        assert look.state is not None
        for state in self.runs[look.run].history[: look.state.position + 1]:
            word = state.merges.get(look.op)
            if word is not None and word.outcome == "merged":
                return word.position
        return None

    def unite(self, run: Run) -> None:
        """Records the union that was being made, if it still may be."""
        look, run.uniting = run.uniting, None
        if look is None or look.state is None or not protocol.may_merge(run.live, look.op):
            return
        live, theirs = run.live, look.state
        position = live.position + 1
        outcome = MergeOutcome(outcome="merged", other=theirs.run, position=position)
        # With how much that run had done: nothing of it may be missing.
        done = {name: count + theirs.steps for name, count in theirs.flags.items()}
        run.put(
            live.model_copy(
                update={
                    "position": position,
                    "flags": {**live.flags, **done},
                    **protocol.outcome_changes(live, look.op, outcome),
                }
            )
        )
        run.size += self.runs[theirs.run].size
        run.flow = run.flow or self.runs[theirs.run].flow
        self.tell(run, theirs.run, look.op)
        self.merged += 1
        self.check()

    def work(self, run: Run) -> None:
        """Something is recorded that has nothing to do with a merge."""
        if not run.offered:
            live = run.live
            after = {"position": live.position + 1, "steps": live.steps + 1}
            run.put(live.model_copy(update=after))

    def stop(self, run: Run) -> None:
        self.record(run, j.StopRequested())

    def end(self, run: Run, fact: Any) -> None:
        """A run ends by itself: it says first that nothing comes of a merge."""
        mine = run.live.pending_merge
        if run.offered or (mine is not None and mine.is_draining and fact is j.RunCompleted):
            return
        if mine is not None:
            self.record(
                run, j.MergeFailed(merge=mine.merge, other=mine.other, reason="it ended first")
            )
            self.tell(run, mine.other, mine.merge)
        self.record(run, fact())

    # -- what happens to runs ----------------------------------------------------------------

    def crash(self, run: Run) -> None:
        """What was decided and not stored is decided anew."""
        del run.history[run.stored + 1 :]
        run.uniting, run.looked = None, 0
        run.looks.clear()
        run.telling.clear()
        self.check()

    def kill(self, run: Run) -> None:
        """A run is ended from outside; nothing more of it is stored."""
        self.crash(run)
        run.gone = True
        run.heard.clear()

    def reopen(self, run: Run) -> None:
        if run.gone and not run.offered and not run.live.is_ended and run.stored:
            run.gone = False
            mine = run.live.pending_merge
            if mine is not None:
                self.record(run, j.MergeFailed(merge=mine.merge, other=mine.other, reason="ended"))
            self.check()

    def replace(self, run: Run) -> None:
        """A run that has ended is forgotten, and another one gets its id."""
        if run.gone or run.live.is_ended:
            run.flow = False
            run.begin(self.now)
            self.work(run)

    # -- what must hold ----------------------------------------------------------------------

    def check(self) -> None:
        """No creature is in two runs that go on."""
        where: dict[str, RunId] = {}
        for run in self.runs.values():
            if not run.at_work or run.offered:
                continue
            for name in run.live.flags:
                if name in where:
                    raise Broken(f"{name} is in {where[name]} and in {run.name}")
                where[name] = run.name

    def check_taken(self, run: Run, look: Look, move: Move) -> None:
        """Who ends as a part of another run is part of it, with all that it has done."""
        assert look.state is not None
        other = self.runs[look.run]
        if other.at_work and other.live.started_at == look.state.started_at:
            mine = {n: count + run.live.steps for n, count in run.live.flags.items()}
            stored = other.history[other.stored].flags
            if any(stored.get(name) != count for name, count in mine.items()):
                raise Broken(f"{run.name} is not in {other.name} as it was: {mine}, {stored}")

    def check_time(self, run: Run) -> None:
        """No stage lasts longer than it may; its last look included."""
        mine = run.live.pending_merge
        if (
            mine is not None
            and mine.status != "offered"
            and self.now > mine.at + LIMITS[mine.status]
        ):
            raise Broken(f"{run.name} is {mine.status} since {mine.at}, and it is {self.now}")

    def check_none_lost(self) -> None:
        """Each creature is in a run that lives, or one with it has ended as itself."""
        held = {n for r in self.runs.values() if r.live.status != "merged" for n in r.live.flags}
        lost = [
            name for run in self.runs.values() for name in run.live.flags
            if name not in held and name.startswith(run.name)
            and all(other.generation == 1 for other in self.runs.values())
        ]  # fmt: skip
        if lost:
            raise Broken(f"{lost} are in no run")

    # -- when nothing goes wrong any more ----------------------------------------------------

    def busy(self) -> Iterator[Run]:
        for run in self.runs.values():
            unread = run.looks or run.heard or run.uniting or run.stored < len(run.history) - 1
            if unread and (run.at_work or run.stored < len(run.history) - 1):
                yield run

    def serve(self, run: Run) -> None:
        """A run does all that it can do now."""
        if run.at_work:
            while run.heard:
                self.hear(run)
            while run.looks:
                self.decide(run)
            self.unite(run)
            if run.live.status == "stopping" and not run.offered:
                self.end(run, j.RunStopped)
        self.flush(run)

    def settle(self, limit: int) -> None:
        """Goes on until no run is in a merge.

        Raises:
            Broken: some still is after that many milliseconds.
        """
        began = self.now
        while True:
            rounds = 0
            while busy := list(self.busy()):
                rounds += 1
                if rounds > 1_000:
                    raise Broken("the runs never come to rest")
                for run in busy:
                    self.serve(run)
            merging = [
                r for r in self.runs.values() if r.at_work and r.live.pending_merge is not None
            ]
            if not merging:
                break
            for run in merging:
                if self.now > began + 1:  # by then it has looked
                    self.check_time(run)
            if self.now > began + limit:
                told = [f"{r.name}: {r.live.pending_merge}" for r in merging]
                raise Broken(f"after {limit} ms: {told}")
            due = [at for run in merging if (at := self.due(run)) is not None]
            due += [run.lands for run in merging if run.lands > self.now]
            self.now = max(min(due), self.now + 1)
            for run in merging:
                at = self.due(run)
                if (at is not None and at <= self.now) or run.lands == self.now:
                    self.ring(run)
        self.check()
        self.check_none_lost()


# -- what goes wrong -------------------------------------------------------------------------


def mess(world: World, rng: random.Random, steps: int, *, deaths: bool, longest: int) -> None:
    """Lets things happen in any order, some of them badly.

    Args:
        world: The runs.
        rng: What happens.
        steps: How much.
        deaths: Whether runs end, die, or forget what they have not stored.
        longest: Milliseconds that pass at once, at most.
    """
    runs = list(world.runs.values())
    for _ in range(steps):
        run, dice = rng.choice(runs), rng.random()
        if not run.at_work:
            if deaths and dice < 0.06:
                world.reopen(run) if rng.random() < 0.7 else world.replace(run)
            elif run.stored < len(run.history) - 1:
                world.flush(run)
        elif deaths and dice < 0.07:
            _harm(world, run, rng)
        elif dice < 0.22:
            _stir(world, run, rng, longest)
        else:
            _go_on(world, run, rng, longest)


def _stir(world: World, run: Run, rng: random.Random, longest: int) -> None:
    """Something that no look leads to: time goes by, people want something, a hint gets lost."""
    dice = rng.random()
    if dice < 0.2:
        other = rng.choice(list(world.runs))
        if other != run.name:
            world.ask(run, other)
    elif dice < 0.5:
        world.now += rng.randrange(1, longest * (3 if run.uniting else 1))
    elif dice < 0.7:
        world.work(run)
    elif run.heard:
        run.heard.pop(rng.randrange(len(run.heard)))


def _go_on(world: World, run: Run, rng: random.Random, longest: int) -> None:
    """A run does something that it would do sooner or later, perhaps twice."""
    dice = rng.random()
    if dice < 0.22 and run.heard:
        world.hear(run, rng.randrange(len(run.heard)), keep=rng.random() < 0.2)
    elif dice < 0.54 and run.looks:
        which, moves = rng.randrange(len(run.looks)), rng.randrange(1, 5)
        world.decide(run, which, moves, keep=rng.random() < 0.4)
    elif dice < 0.67 and run.uniting:
        world.unite(run)
    elif dice < 0.71 and run.live.pending_merge is not None:
        run.lands = world.now + rng.randrange(0, longest * 2)
    elif run.stored < len(run.history) - 1:
        world.flush(run, rng.randrange(1, 4))
    elif (due := world.due(run)) is not None and due <= world.now:
        world.ring(run)


def _harm(world: World, run: Run, rng: random.Random) -> None:
    dice = rng.random()
    if dice < 0.5:
        world.crash(run)
    elif dice < 0.7:
        world.kill(run)
    elif dice < 0.8:
        world.end(run, j.RunCompleted)
    elif run.live.status == "running":
        world.stop(run)
    else:
        world.end(run, j.RunStopped)


# -- everything that may happen ---------------------------------------------------------------


def copied(world: World) -> World:
    """The same world, to go another way from here."""
    other = object.__new__(World)
    other.__dict__ = {**world.__dict__, "counts": {}}
    other.runs = {}
    for name, run in world.runs.items():
        twin = other.runs[name] = object.__new__(Run)
        twin.__dict__ = {k: v[:] if isinstance(v, list) else v for k, v in run.__dict__.items()}
    return other


def known(world: World) -> Any:
    """What a world is: two that are equal go on alike."""
    return world.now, tuple(
        (
            repr(run.live.pending_merge),
            repr(run.live.merges),
            run.live.status,
            run.live.position,
            run.stored,
            run.gone,
            run.uniting is not None,
            run.looked,
            tuple((look.op, look.state.position if look.state else 0) for look in run.looks),
            tuple(run.heard),
            tuple(run.telling),
        )
        for run in world.runs.values()
    )


def ways(
    world: World, *, deaths: bool
) -> Iterator[tuple[str, Callable[[World, Run], None], RunId]]:
    """All that may happen next, once each, by run."""
    for name, run in world.runs.items():
        behind = run.stored < len(run.history) - 1
        if behind:
            yield "store", lambda w, r: w.flush(r, 1), name
        if not run.at_work:
            continue
        if run.heard:
            yield "lose", lambda _, r: r.heard.__delitem__(0), name
            if len(run.looks) < 2:
                yield "hear", lambda w, r: w.hear(r), name
        for which in range(len(run.looks)):
            yield "decide", lambda w, r, n=which: w.decide(r, n), name
        if run.uniting:
            yield "merge", lambda w, r: w.unite(r), name
        due = world.due(run)
        if due is not None and due <= world.now and not run.looks:
            yield "ring", lambda w, r: w.ring(r), name
        if deaths:
            if behind:
                yield "crash", lambda w, r: w.crash(r), name
            yield "kill", lambda w, r: w.kill(r), name
    dues = [due for run in world.runs.values() if (due := world.due(run)) and due > world.now]
    if dues:
        yield "wait", lambda w, _: setattr(w, "now", min(dues)), next(iter(world.runs))


def explore(world: World, depth: int, *, deaths: bool) -> int:
    """Goes all ways up to some depth, and lets each come to rest; how many there were."""
    level, seen = [world], {known(world)}
    for _ in range(depth):
        following: list[World] = []
        for each in level:
            for _, way, name in ways(each, deaths=deaths):
                other = copied(each)
                way(other, other.runs[name])
                if (what := known(other)) not in seen:
                    seen.add(what)
                    following.append(other)
        level = following
    for each in level:
        each.settle(SETTLES)
    return len(seen)

"""What became of every message, creature and log of many runs, told from their journals alone.

    Accounts(store).read(runs)      each run's journal, and those of its parts
    accounts.settle()               goes through all of them in the order in which they meet

A visit is followed by a token, from the message that it is for to the end of the turn: over splits,
where it goes with its creature, and over merges, where it may be called otherwise. Logs and
creatures are followed in the same way. All this is kept beside the states of the product, as plain
sets, so that what those lose or have twice is told.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crewlog.definition.audiences import CHANNEL, PRIVATE
from crewlog.definition.creatures import creatures_of
from crewlog.definition.model import CrewDefinition
from crewlog.ids import PUBLIC, READERS, AgentName, ContentHash, LogName, RunId, private_log
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState
from crewlog.store import Store

Said = tuple[int, ContentHash]
"""A message: its position and its body."""


class Who(NamedTuple):
    """A creature, by the run and the journal position where it came into the world."""

    run: RunId
    position: int
    name: str


@dataclass
class Visit:
    """A turn that a creature is to have."""

    run: RunId
    position: int
    """Where the message was heard that it is for."""
    who: Who
    also: int = 0
    """Messages that it is for besides."""
    started: int = 0
    completed: int = 0


@dataclass
class Held:
    """What a run has at a position."""

    visits: dict[str, Visit] = field(default_factory=dict[str, Visit])
    """The visits that are not over, by step."""
    living: dict[str, Who] = field(default_factory=dict[str, Who])
    logs: dict[str, set[Said]] = field(default_factory=dict[str, set[Said]])

    def copy(self) -> Held:
        """A copy, whose visits are the same ones."""
        logs = {log: {*said} for log, said in self.logs.items()}
        return Held({**self.visits}, {**self.living}, logs)


@dataclass
class RunAccount:
    """A run, as far as its journal was gone through."""

    run: RunId
    journal: list[tuple[int, j.JournalEntry]] = field(
        default_factory=list[tuple[int, j.JournalEntry]]
    )
    place: int = 0
    """How many entries were gone through."""
    state: CrewState = field(init=False)
    held: Held = field(default_factory=Held)
    shares: dict[RunId, Held] = field(default_factory=dict[RunId, Held])
    """What each part had when it left."""
    unheard: dict[tuple[str, str], set[str]] = field(
        default_factory=dict[tuple[str, str], set[str]]
    )
    """Who is to hear what was said just now, by log and body."""
    wired: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """What is to be heard where its turn ends, by log and body."""

    def __post_init__(self) -> None:
        self.state = CrewState(run=self.run)

    def kinds(self, *kinds: str) -> list[Any]:
        """The entries of these kinds."""
        return [entry for _, entry in self.placed(*kinds)]

    def placed(self, *kinds: str) -> list[tuple[int, Any]]:
        """The entries of these kinds, with their positions."""
        return [(at, entry) for at, entry in self.journal if entry.kind in kinds]


class Accounts:
    """The accounts of runs that share their creatures.

    Args:
        store: Where their journals are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading = asyncio.Lock()
        self.runs: dict[RunId, RunAccount] = {}
        self.visits: list[Visit] = []
        self.born: set[Who] = set()
        self.gone: set[Who] = set()
        """Creatures that were removed."""
        self.crews: dict[ContentHash, CrewDefinition] = {}

    # -- reading -----------------------------------------------------------------------------

    async def read(self, runs: Iterable[RunId]) -> None:
        """Reads on in the journals of runs that are known, of others, and of all their parts."""
        async with self._reading:
            await self._read([*dict.fromkeys((*self.runs, *runs))])

    async def _read(self, ahead: list[RunId]) -> None:
        for run in ahead:
            account = self.runs.setdefault(run, RunAccount(run))
            while rows := await self._store.read_journal(
                run, account.journal[-1][0] if account.journal else 0
            ):
                account.journal += [(row.position, j.entry_from_json(row.entry)) for row in rows]
            parts = [p.run for e in account.kinds("ComponentChanged") for p in e.split_runs]
            ahead += [part for part in parts if part not in ahead]

    async def crew(self, hash_: ContentHash) -> CrewDefinition:
        """A definition."""
        if hash_ not in self.crews:
            self.crews[hash_] = CrewDefinition.from_json(await self._store.get_definition(hash_))
        return self.crews[hash_]

    async def settle(self) -> None:
        """Goes through all journals.

        Raises:
            AssertionError: a message was not heard by those who listen, a turn began or ended that
                there is not, or a creature or a visit is in two runs.
        """
        for account in [*self.runs.values()]:
            await self._go(account)

    async def _go(self, account: RunAccount, part: RunId | None = None) -> None:
        """Goes on to a journal's end, or until a part left: more may follow from that."""
        while account.place < len(account.journal) and part not in account.shares:
            position, entry = account.journal[account.place]
            account.place += 1
            if isinstance(entry, j.RunForked):
                source = self.runs[entry.source]
                await self._go(source, account.run)
                account.held = source.shares[account.run].copy()
                account.state = CrewState(run=account.run, position=entry.to)
            if isinstance(entry, j.RunMerged):
                await self._go(self.runs[entry.merged_run])
            before = account.state
            account.state = fold(before, entry)
            assert account.state.position == position, (account.run, position)
            await self._one(account, before, position, entry)
            there = {*account.state.frontier, *account.state.detached_steps}
            strange = there - {*account.held.visits}
            assert not strange, f"{(account.run, position)}: {sorted(strange)} are not its own"

    # -- one entry after the other -----------------------------------------------------------

    async def _one(
        self, account: RunAccount, before: CrewState, position: int, entry: j.JournalEntry
    ) -> None:
        where = (account.run, position)
        if not isinstance(entry, j.AgentsWoken):
            missed = {key: who for key, who in account.unheard.items() if who}
            account.unheard.clear()
            assert not missed, f"{where}: nobody told {missed}"
        match entry:
            case j.MessageAdded():
                self._said(account, position, entry.ref)
                await self._listeners(account, entry)
            case j.AgentsWoken():
                self._heard(account, before, position, entry)
            case j.StepStarted():
                assert entry.step in account.held.visits, f"{where}: {entry.step} is no visit here"
                account.held.visits[entry.step].started += 1
            case j.StepCompleted():
                assert entry.step in account.held.visits, f"{where}: {entry.step} is no visit here"
                account.held.visits.pop(entry.step).completed += 1
            case j.ComponentChanged():
                self._parted(account, entry)
                await self._who_lives(account, position)
            case j.RunMerged():
                self._merged(account, before, entry)
                await self._who_lives(account, position)
            case j.RunStarted() | j.GraphReplacement():
                await self._who_lives(account, position)
            case j.ModelCallCompleted():
                self._said(account, position, entry.ref)
                if not entry.calls:
                    wired = (log for log in entry.ref.logs if log.startswith((CHANNEL, READERS)))
                    account.wired |= {(log, entry.ref.body) for log in wired}
            case _:
                message = getattr(entry, "message", None)
                if isinstance(message, j.MessageRef):
                    self._said(account, position, message)

    def _said(self, account: RunAccount, position: int, ref: j.MessageRef) -> None:
        for log in ref.logs:
            account.held.logs.setdefault(log, set()).add((position, ref.body))

    async def _listeners(self, account: RunAccount, entry: j.MessageAdded) -> None:
        """Who is to hear it: by the definition of now, and nothing else."""
        crew = await self.crew(account.state.definition)
        speaker = entry.by if entry.step is not None else None
        for log in entry.ref.logs:
            if log.startswith(CHANNEL):
                channel = log.removeprefix(CHANNEL)
                listens = {n for n in creatures_of(crew) if channel in crew.agents[n].listen}
                account.unheard[log, entry.ref.body] = listens - {speaker}
            elif log == PUBLIC and speaker is None and crew.graph is not None and crew.graph.root:
                account.unheard[log, entry.ref.body] = {crew.graph.root}

    def _heard(
        self, account: RunAccount, before: CrewState, position: int, entry: j.AgentsWoken
    ) -> None:
        where = (account.run, position)
        fresh = {*account.state.frontier} - {*before.frontier}
        account.wired.discard((entry.log, entry.body))
        nodes = {str(node): node for node in (*entry.to, *entry.also)}
        assert len(nodes) == len(entry.to) + len(entry.also), f"{where}: heard twice"
        if (entry.log, entry.body) in account.unheard:
            wanted = account.unheard.pop((entry.log, entry.body))
            assert {*nodes} == wanted, f"{where}: heard by {sorted(nodes)}, not {sorted(wanted)}"
        for node in entry.to:
            (step,) = (step for step in fresh if account.state.frontier[step].node == node)
            assert step not in account.held.visits, f"{where}: {step} is there already"
            visit = Visit(account.run, position, account.held.living[str(node)])
            account.held.visits[step] = visit
            self.visits.append(visit)
        for node in entry.also:
            waits = [s for s, e in before.frontier.items() if e.node == node and e.waking_message]
            account.held.visits[waits[-1]].also += 1

    def _parted(self, account: RunAccount, entry: j.ComponentChanged) -> None:
        held = account.held
        for part in entry.split_runs:
            share = account.shares[part.run] = held.copy()
            goes = {str(name) for name in part.contents.agents}
            new = goes - {*held.living}  # who is added alone begins where it lives
            share.living = {n: who for n, who in held.living.items() if n in goes}
            for name in new:
                share.living[name] = Who(account.run, account.state.position, name)
                self.born.add(share.living[name])
            theirs = {s for s, v in held.visits.items() if v.who in share.living.values()}
            share.visits = {step: held.visits.pop(step) for step in theirs}
            for name in goes & {*held.living}:
                del held.living[name]
            # A channel goes where it is listened to, a private log with whose it is: no part knows
            # what it cannot read, and later there may be somebody else of that name.
            theirs_too = {f"{CHANNEL}{channel}" for channel in part.contents.channels}
            theirs_too |= {private_log(AgentName(name)) for name in goes}
            for log in [*held.logs]:
                if log.startswith((CHANNEL, PRIVATE)):
                    (held if log in theirs_too else share).logs.pop(log)

    def _merged(self, account: RunAccount, before: CrewState, entry: j.RunMerged) -> None:
        other, held = self.runs[entry.merged_run].held, account.held
        named = {(each.kind, each.was): each.now for each in entry.renames}
        for name, who in other.living.items():
            now = named.get(("agent", name), name)
            assert now not in held.living, f"{account.run}: {now} lives here already"
            held.living[now] = who
        for step, visit in other.visits.items():
            if visit.who in self.gone:
                continue  # it waited for its turn when the creature was removed
            node, _, number = step.rpartition("#")
            new = str(entry.nodes[node])
            first = before.visits.get(new, 0) if new in entry.new_nodes else 0
            now = f"{new}#{int(number) + first}"
            assert now not in held.visits, f"{account.run}: {now} is there already"
            held.visits[now] = visit
        for log, said in other.logs.items():
            held.logs.setdefault(_now(log, named), set()).update(said)
        other.visits, other.living = {}, {}

    async def _who_lives(self, account: RunAccount, position: int) -> None:
        crew, held = await self.crew(account.state.definition), account.held
        now = {*creatures_of(crew)}
        self.gone |= {who for name, who in held.living.items() if name not in now}
        for name in now - {*held.living}:
            self.born.add(Who(account.run, position, name))
        held.living = {n: held.living.get(n, Who(account.run, position, n)) for n in now}

    # -- what came of it ---------------------------------------------------------------------

    @property
    def graphs(self) -> list[RunAccount]:
        """The runs that are part of no other one."""
        return [a for a in self.runs.values() if not a.kinds("RunEndedByMerge")]

    def check_turns(self) -> None:
        """Each visit had one turn, but for those of creatures that were removed before.

        Raises:
            AssertionError: one had none, or two.
        """
        for visit in self.visits:
            most = 1
            least = 0 if visit.who in self.gone else 1
            assert least <= visit.started <= most, visit
            assert least <= visit.completed <= most, visit
        unheard = {account.run: account.wired for account in self.runs.values() if account.wired}
        assert not unheard, f"said along wires, and never heard: {unheard}"

    def check_creatures(self) -> None:
        """Each creature is in one graph.

        Raises:
            AssertionError: one is in none, or in two.
        """
        living = Counter(who for account in self.graphs for who in account.held.living.values())
        assert living == dict.fromkeys(self.born - self.gone, 1)

    def check_lineage(self) -> None:
        """What runs say of their origins and ends, each other agrees to.

        Raises:
            AssertionError: two runs say something else of the same.
        """
        parted = [
            (account.run, position, entry.split, part.run)
            for account in self.runs.values()
            for position, entry in account.placed("ComponentChanged")
            for part in entry.split_runs
        ]
        begun = [
            (entry.source, entry.to, entry.split, account.run)
            for account in self.runs.values()
            for entry in account.kinds("RunForked")
        ]
        assert sorted(begun) == sorted(parted)
        merged = [
            (entry.merge, entry.merged_run, account.run, position)
            for account in self.runs.values()
            for position, entry in account.placed("RunMerged")
        ]
        ended = [
            (entry.merge, account.run, entry.run, entry.position)
            for account in self.runs.values()
            for _, entry in account.placed("RunEndedByMerge")
        ]
        assert sorted(ended) == sorted(merged)
        for account in self.runs.values():
            for entry in account.kinds("RunMerged"):
                assert entry.parents == (entry.merged_run,)
                assert entry.new_graph_ids == (account.run,)
                assert entry.old_graph_ids == tuple(sorted((entry.merged_run, account.run)))


def _now(log: str, named: dict[tuple[str, str], str]) -> LogName:
    kinds = {CHANNEL: "channel", "private:": "agent", "group:": "group"}
    for prefix, kind in kinds.items():
        if log.startswith(prefix):
            was = log.removeprefix(prefix)
            return LogName(prefix + named.get((kind, was), was))
    return LogName(log)

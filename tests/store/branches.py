"""Runs whose journals are written by hand, and that part and come together as dice say."""

from __future__ import annotations

import random
from typing import Any

from crewlog.canonical_json import hash_json
from crewlog.ids import PUBLIC, ContentHash, CrewName, LogName, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.calls import View
from crewlog.state.logs import batch_links, heads_after_batch, merged_head
from crewlog.state.model import CrewState, LogHead
from crewlog.store import Store
from store.journals import CHANNEL, PRIVATE, seeded

LOGS = (PUBLIC, PRIVATE, CHANNEL)
Said = frozenset[tuple[int, ContentHash]]
"""What a log has, as a naive reader sees it."""


class Branch:
    """A run whose journal is written entry by entry, and what its logs should have."""

    def __init__(self, run: RunId, source: Branch | None = None) -> None:
        self.run = run
        self.position = 0
        self.heads: dict[LogName, ContentHash] = {}
        self.said: dict[LogName, Said] = {}
        self.pending: list[dict[str, Any]] = []
        self.before: dict[LogName, ContentHash] = {}
        self.links = 0
        self.positions: list[int] = []
        self.left_out = 0
        """Positions that it leaves out where others came in."""
        self.before_merge: dict[LogName, ContentHash] = {}
        """The heads right before the last of them did."""
        self.past: list[tuple[dict[LogName, ContentHash], dict[LogName, Said]]] = [({}, {})]
        """Heads and messages after each entry, as one may go back to them."""
        if source is None:
            self.add(j.RunStarted(run=run, crew=CrewName("band"), definition=ContentHash("d")))
        else:
            self.position = source.position
            self.said = dict(source.said)
            state = self.state(source.heads)
            self.add(j.RunForked(run=run, source=source.run, to=self.position, state=state))

    def state(self, heads: dict[LogName, ContentHash]) -> dict[str, Any]:
        messages = {log: LogHead(head=head, length=1) for log, head in heads.items()}
        return CrewState(run=self.run, crew=CrewName("band"), messages=messages).to_json()

    def add(self, entry: j.JournalEntry) -> None:
        data = j.entry_to_json(entry)
        heads, place = self.heads, entry.position_after(self.position)
        one = j.Batch(first=place, heads=heads, entries=(data,))
        self.links += len(list(batch_links(self.run, one)))
        self.heads = heads_after_batch(self.run, self.heads, one)
        if isinstance(entry, j.RunMerged):
            self.left_out += entry.position - self.position - 1
            self.before_merge = heads
            self.positions.append(entry.position)
        else:
            self.positions.append(self.position + 1)
        self.position = self.positions[-1]
        self.pending.append(data)
        for log in entry.message.logs if entry.message else ():
            assert entry.message is not None
            spot = (self.position, entry.message.body)
            self.said[log] = self.said.get(log, frozenset()) | {spot}
        self.past.append((dict(self.heads), dict(self.said)))

    def say(self, text: str, *logs: LogName) -> None:
        body = {"type": "human", "content": text}
        ref = j.MessageRef(body=hash_json(body), logs=logs or (PUBLIC,), inline=body)
        self.add(j.MessageAdded(ref=ref))

    def back(self, rng: random.Random) -> None:
        heads, said = rng.choice(self.past[1:])
        self.said = dict(said)
        self.add(j.RunRolledBack(to=1, state=self.state(heads)))

    def joins(self, *others: Branch) -> j.LogsMerged:
        """Takes in the logs of others, whose journals it then goes on from, too."""
        while self.position < max(other.position for other in others):
            self.add(j.StepStarted(step=StepId("a#1")))
        heads, found = dict(self.heads), list[j.LogMerge]()
        for other in others:
            for log, two in other.heads.items():
                one = heads.get(log, ContentHash(""))
                more = len(other.said[log] - self.said.get(log, frozenset()))
                found.append(j.LogMerge(log=log, one=one, two=two, more=more))
                heads[log] = merged_head(one, two, self.position + 1)
                self.said[log] = self.said.get(log, frozenset()) | other.said[log]
        entry = j.LogsMerged(merged_logs=tuple(found), parents=tuple(other.run for other in others))
        self.add(entry)
        assert self.heads == heads
        return entry

    def batch(self) -> j.Batch:
        """What is not stored yet."""
        first = self.positions[-len(self.pending)] if self.pending else self.position + 1
        return j.Batch(first=first, heads=self.before, entries=tuple(self.pending))

    async def stored(self, store: Store) -> None:
        await store.append(self.run, self.batch())
        self.before, self.pending = dict(self.heads), []

    def view(self) -> View:
        return View(heads=dict(self.heads))


def texts(said: dict[LogName, Said], bodies: dict[ContentHash, str]) -> list[str]:
    every = frozenset[tuple[int, ContentHash]]().union(*said.values())
    return [bodies[body] for _, body in sorted(every)]


WORDS = ("yes", "no", "perhaps", "never")
BODIES = {hash_json({"type": "human", "content": word}): word for word in WORDS}


class World:
    """Runs that grow, part, go back and come together, as dice say."""

    def __init__(self, run: RunId, seed: int, store: Store) -> None:
        self.rng = seeded(seed)
        self.store = store
        self.run = run
        self.open = [Branch(run)]
        self.all = list(self.open)
        self.counts = {"joins": 0, "adopted": 0}

    async def step(self) -> Branch:
        """Something happens in a run, which is returned."""
        rng = self.rng
        one = rng.choice(self.open)
        match rng.randrange(8):
            case 0 | 1 if len(self.all) < 9:
                await one.stored(self.store)
                source = None if rng.random() < 0.2 else one
                one = Branch(RunId(f"{self.run}-{len(self.all)}"), source)
                self.open.append(one)
                self.all.append(one)
            case 2 | 3 if len(self.open) > 1:
                self.open.remove(one)
                others = rng.sample(self.open, min(len(self.open), rng.choice([1, 1, 2])))
                for other in others:
                    await other.stored(self.store)
                    self.open.remove(other)
                entry = one.joins(*others)
                self.open.append(one)
                self.counts["joins"] += sum(bool(each.one) for each in entry.merged_logs)
                self.counts["adopted"] += sum(not each.one for each in entry.merged_logs)
            case 4 if rng.random() < 0.5:
                await one.stored(self.store)  # what it goes back to was loaded from there
                one.back(rng)
            case _:
                pass
        for _ in range(rng.randrange(4)):
            logs = rng.sample(LOGS, rng.choice([1, 1, 2]))
            one.say(rng.choice(WORDS), *logs)
        return one


async def parted(store: Store, run: RunId) -> tuple[Branch, Branch]:
    """Two runs with a common past, each of which has said more."""
    one = Branch(run)
    one.say("yes")
    await one.stored(store)
    two = Branch(RunId(f"{run}-other"), one)
    for each, text in ((one, "no"), (two, "perhaps"), (two, "never")):
        each.say(text)
    for each in (one, two):
        await each.stored(store)
    return one, two

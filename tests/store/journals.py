"""Journals to store: built by hand or at random, cut into batches as the workflow cuts them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from crewlog.canonical_json import hash_json
from crewlog.ids import (
    PUBLIC,
    AgentName,
    ContentHash,
    CrewName,
    InterruptId,
    LogName,
    NodeName,
    RunId,
    StepId,
)
from crewlog.state import journal as j
from crewlog.state.logs import batch_links
from crewlog.state.model import Interrupt
from crewlog.store import Store

A, B = AgentName("ann"), AgentName("bob")
PRIVATE = LogName("private:ann")
CHANNEL = LogName("channel:ops")


class Journal:
    """A run's whole journal, with the bodies and the heads that it makes."""

    def __init__(self, run: RunId, entries: Iterable[j.JournalEntry] = ()) -> None:
        self.run = run
        self.entries: list[dict[str, Any]] = []
        self.bodies: dict[ContentHash, Any] = {}
        self.heads: list[dict[LogName, ContentHash]] = [{}]
        """The heads after each position; the first is before all."""
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, entry: j.JournalEntry) -> int:
        """Appends an entry and returns its position."""
        heads = dict(self.heads[-1])
        first = len(self) + 1
        data = j.entry_to_json(entry)
        for link in batch_links(self.run, j.Batch(first=first, heads=heads, entries=(data,))):
            heads[link.log] = link.head
        self.entries.append(data)
        self.heads.append(heads)
        return first

    def body(self, value: Any) -> ContentHash:
        """Remembers a body and returns its hash."""
        hash_ = hash_json(value)
        self.bodies[hash_] = value
        return hash_

    def say(self, value: Any, *logs: LogName, at: int = 0) -> int:
        """Appends a message of ann's."""
        ref = j.MessageRef(body=self.body(value), logs=logs or (PUBLIC,))
        return self.add(j.ModelCallCompleted(at=at, step=StepId("a#1"), call=1, agent=A, ref=ref))

    def batch(self, first: int = 1, last: int | None = None) -> j.Batch:
        """The entries from `first` to `last`, both included."""
        last = len(self) if last is None else last
        return j.Batch(
            first=first, heads=self.heads[first - 1], entries=tuple(self.entries[first - 1 : last])
        )


def started(run: RunId, at: int = 1, by: str = "eve") -> j.RunStarted:
    return j.RunStarted(run=run, crew=CrewName("band"), definition=ContentHash("def"), at=at, by=by)


def asked(id_: str, at: int = 0, question: str = "Well?") -> j.InterruptRaised:
    return j.InterruptRaised(
        at=at, interrupt=Interrupt(id=InterruptId(id_), kind="ask", question=question)
    )


def answered(id_: str, decision: str = "approve", by: str = "eve") -> j.InterruptAnswered:
    return j.InterruptAnswered(interrupt=InterruptId(id_), decision=decision, by=by)


def seeded(seed: int) -> random.Random:
    """Randomness that a failing test can repeat."""
    return random.Random(seed)  # noqa: S311


def random_journal(run: RunId, rng: random.Random, length: int = 40) -> Journal:
    """A journal with everything that is projected, in any order that a run may have."""
    journal = Journal(run, [started(run, at=rng.randrange(1, 10_000))])
    open_questions: list[str] = []
    steps: list[str] = []
    questions = visits = 0
    while len(journal) < length:
        at = 10_000 + len(journal)
        match rng.randrange(9):
            case 0 | 1:
                logs = rng.sample([PUBLIC, PRIVATE, CHANNEL], rng.randrange(1, 4))
                journal.say({"n": rng.randrange(8), "text": "é😀\x00"}, *logs, at=at)
            case 2:
                questions += 1
                open_questions.append(f"i{questions}")
                journal.add(asked(f"i{questions}", at))
            case 3 if open_questions:
                chosen = open_questions.pop(rng.randrange(len(open_questions)))
                journal.add(answered(chosen, rng.choice(["approve", "reject", "x\x00'"])))
            case 4:
                visits += 1
                steps.append(f"n{visits % 3}#{visits}")
                agent = rng.choice([A, B, None])
                journal.add(j.StepStarted(at=at, step=StepId(steps[-1]), agent=agent))
            case 5 if steps:
                step = steps.pop(rng.randrange(len(steps)))
                journal.add(j.StepCompleted(at=at, step=StepId(step)))
            case 6:
                journal.add(rng.choice([j.Paused(at=at), j.RunResumed(at=at)]))
            case 7:
                text = f"hello {rng.randrange(5)}"
                ref = j.MessageRef(body=hash_json(text), logs=(PUBLIC,), inline=text)
                journal.add(j.MessageAdded(at=at, ref=ref))
                journal.bodies[hash_json(text)] = text
            case _:
                journal.add(j.NodesReached(at=at, to=(j.ReachedNode(node=NodeName("n1")),)))
    if rng.random() < 0.5:
        ends = [j.RunCompleted(at=99_999), j.RunStopped(at=99_999)]
        journal.add(rng.choice([*ends, j.RunFailed(at=99_999, error="no\x00 'luck'")]))
    return journal


async def rows_of(store: Store, journal: Journal, *, logs: bool = True) -> dict[str, Any]:
    """Everything that a store says of a run: equal for equal rows."""
    run = journal.run
    heads = sorted(journal.heads[-1].items()) if logs else []
    chains = {log: await store.read_log(head) for log, head in heads}
    bodies = [link.body for links in chains.values() for link in links]
    return {
        "run": await store.get_run(run),
        "journal": await store.read_journal(run),
        "logs": chains,
        "bodies": await store.get_bodies(bodies),
        "open": await store.list_interrupts(run),
        "interrupts": await store.list_interrupts(run, open_only=False),
        "checkpoints": await store.list_checkpoints(run),
    }

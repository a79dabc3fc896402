"""What a batch of journal entries means as rows: one pure function that both stores share.

Batches come again, overlap, and come in another order than their positions, because parallel
activities carry the same entries. So a row is never computed from another row: every entry gives
facts, and facts are merged in a way that does not depend on their order.

- Journal, links, steps and checkpoints are insert-only, under keys that follow from the entry.
- `RunFacts` has two halves: what `RunStarted` said, which is kept whenever it comes, and the
  status, where the highest position wins. `PromptReceived` says when a run was started and by
  whom before it has a crew; `RunStarted` then says the same of these.
- `InterruptFacts` has two halves as well, the question and the answer; each comes once in a run.
- Whether a run waits for people cannot be seen in a part of its journal. It is not stored: a run
  that is `running` and has an open question reads as `waiting` (`run_row`).
- A checkpoint names the agent, which only the step's start knows, and that may be in another batch;
  so starts are rows of their own and are joined when checkpoints are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from crewlog.errors import InternalError
from crewlog.ids import (
    AgentName,
    ContentHash,
    CrewName,
    InterruptId,
    NodeName,
    RunId,
    StepId,
    node_of,
)
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.edited import inline_bodies
from crewlog.state.hashing import hash_json, log_root
from crewlog.state.logs import entries_of, links_of
from crewlog.state.model import CLOSED, RunStatus
from crewlog.store.missing import LINK, RowsMissing
from crewlog.store.protocol import InterruptRow, JournalRow, LogLink, RunRow


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """A journal entry at its place."""

    position: int
    entry: dict[str, Json]
    digest: ContentHash
    """The entry's hash: two entries are the same if and only if it is."""


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A message's place in a log."""

    link: LogLink
    first: bool
    """Whether it is the log's first message: a walk that ends elsewhere has met a gap."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What some entries say of their run."""

    crew: CrewName | None = None
    """None until `RunStarted` is known, as the next one."""
    definition: ContentHash | None = None
    started: int | None = None
    """None until `RunStarted` or `PromptReceived` is known, as the next one."""
    by: str | None = None
    status: RunStatus = "running"
    since: int = 0
    """The position that set the status; 0 where none did."""
    ended: int | None = None
    error: str = ""
    position: int = 0
    """The highest position that says something of the run."""

    def merge(self, other: RunFacts) -> RunFacts:
        """Both together, whichever came first. `queries/append.sql` says the same in SQL."""
        start = self if self.crew is not None else other
        state = other if other.since > self.since else self
        return RunFacts(
            crew=start.crew,
            definition=start.definition,
            # Said before, too, by the prompt that a run was started with: the same.
            started=self.started if self.started is not None else other.started,
            by=self.by if self.by is not None else other.by,
            status=state.status,
            since=state.since,
            ended=state.ended,
            error=state.error,
            position=max(self.position, other.position),
        )


@dataclass(frozen=True, slots=True)
class InterruptFacts:
    """What some entries say of a question."""

    id: InterruptId
    position: int | None = None
    """The position that raised it; None until that entry is known, as the next two."""
    at: int | None = None
    interrupt: dict[str, Json] | None = None
    decision: str | None = None
    """None until the answer is known, as the next one."""
    by: str | None = None

    @property
    def open(self) -> bool:
        """Whether it was asked and not answered, as far as is known."""
        return self.interrupt is not None and self.decision is None

    def merge(self, other: InterruptFacts) -> InterruptFacts:
        """Both together, whichever came first. `queries/append.sql` says the same in SQL."""
        asked = self if self.interrupt is not None else other
        answered = self if self.decision is not None else other
        return InterruptFacts(
            id=self.id,
            position=asked.position,
            at=asked.at,
            interrupt=asked.interrupt,
            decision=answered.decision,
            by=answered.by,
        )


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """The end of a step."""

    position: int
    step: StepId
    node: NodeName
    at: int


@dataclass(frozen=True, slots=True)
class Rows:
    """What a batch adds to a store."""

    run: RunId
    journal: tuple[EntryFacts, ...]
    links: tuple[LinkFacts, ...]
    bodies: dict[ContentHash, Json]
    """Bodies that the entries carry themselves."""
    state: RunFacts | None
    """None where no entry says anything of the run as a whole."""
    interrupts: tuple[InterruptFacts, ...]
    agents: tuple[tuple[StepId, AgentName], ...]
    """Whose turn a step is."""
    checkpoints: tuple[CheckpointFacts, ...]


@dataclass(slots=True)
class _Collector:
    """The rows while they are collected."""

    bodies: dict[ContentHash, Json] = field(default_factory=dict[ContentHash, Json])
    state: RunFacts | None = None
    interrupts: dict[InterruptId, InterruptFacts] = field(
        default_factory=dict[InterruptId, InterruptFacts]
    )
    agents: dict[StepId, AgentName] = field(default_factory=dict[StepId, AgentName])
    checkpoints: list[CheckpointFacts] = field(default_factory=list[CheckpointFacts])

    def run(self, facts: RunFacts) -> None:
        self.state = facts if self.state is None else self.state.merge(facts)

    def interrupt(self, facts: InterruptFacts, position: int) -> None:
        known = self.interrupts.get(facts.id)
        self.interrupts[facts.id] = facts if known is None else known.merge(facts)
        self.run(RunFacts(position=position))  # it changes whether the run waits

    def rows(
        self, run: RunId, journal: tuple[EntryFacts, ...] = (), links: tuple[LinkFacts, ...] = ()
    ) -> Rows:
        return Rows(
            run=run,
            journal=journal,
            links=links,
            bodies=self.bodies,
            state=self.state,
            interrupts=tuple(self.interrupts.values()),
            agents=tuple(self.agents.items()),
            checkpoints=tuple(self.checkpoints),
        )

    def add(self, position: int, entry: j.JournalEntry) -> None:
        ref = entry.message
        if ref is not None and ref.inline is not None:
            self.bodies[ref.body] = ref.inline
        if isinstance(entry, j.OutputSet) and entry.body is not None and entry.inline is not None:
            self.bodies[entry.body] = entry.inline
        if isinstance(entry, j.StateEdited):
            self.bodies.update(inline_bodies(entry))
        if isinstance(entry, j.PromptReceived):
            self.bodies[entry.prompt] = entry.inline
        status = _status_after(entry)
        if status is not None:
            self.run(_run_facts(position, entry, status))
        match entry:
            case j.StepStarted(agent=str(agent)):
                self.agents[entry.step] = AgentName(agent)
            case j.StepCompleted():
                node = node_of(entry.step)
                self.checkpoints.append(CheckpointFacts(position, entry.step, node, entry.at))
            case j.InterruptRaised():
                asked = entry.interrupt.model_copy(update={"position": position})
                facts = InterruptFacts(asked.id, position, entry.at, asked.to_json())
                self.interrupt(facts, position)
            case j.InterruptAnswered():
                facts = InterruptFacts(entry.interrupt, decision=entry.decision, by=entry.by)
                self.interrupt(facts, position)
            case _:
                pass


def _status_after(entry: j.JournalEntry) -> RunStatus | None:
    """The status that an entry puts the run into; None where it leaves it alone."""
    match entry:
        case j.RunStarted() | j.PromptReceived() | j.Resumed():
            return "running"
        case j.Paused():
            return "paused"
        case j.StopRequested():
            return "stopping"
        case j.RunCompleted():
            return "completed"
        case j.RunStopped():
            return "stopped"
        case j.RunFailed():
            return "failed"
        case _:
            return None


def _run_facts(position: int, entry: j.JournalEntry, status: RunStatus) -> RunFacts:
    facts = RunFacts(
        status=status,
        since=position,
        ended=entry.at if status in CLOSED else None,
        error=entry.error if isinstance(entry, j.RunFailed) else "",
        position=position,
    )
    if isinstance(entry, j.PromptReceived):
        return replace(facts, started=entry.at, by=entry.by)
    if isinstance(entry, j.RunStarted):
        return replace(
            facts,
            crew=entry.crew,
            definition=entry.definition,
            started=entry.began or entry.at,
            by=entry.by,
        )
    return facts


def project(run: RunId, batch: j.Batch) -> Rows:
    """The rows that a batch of a run's journal adds.

    Raises:
        InternalError: where an entry is none that this version of Crewlog knows.
    """
    collector = _Collector()
    try:
        for position, entry in entries_of(batch):
            collector.add(position, entry)
        links = tuple(
            LinkFacts(
                LogLink(
                    head=link.head,
                    previous=link.previous,
                    position=link.position,
                    body=link.body,
                ),
                first=link.previous == log_root(run, link.log),
            )
            for link in links_of(run, batch)
        )
    except ValidationError as error:
        raise InternalError(
            f"a journal entry of run {run!r} at or after position {batch.first} is not one that "
            f"this version of Crewlog knows: {error.errors()[0]['msg']}",
            remedy="Update Crewlog on the machine that says this.",
        ) from error
    return collector.rows(
        run,
        journal=tuple(
            EntryFacts(batch.first + offset, entry, hash_json(entry))
            for offset, entry in enumerate(batch.entries)
        ),
        links=links,
    )


def project_again(run: RunId, entries: Iterable[tuple[int, Mapping[str, Json]]]) -> Rows:
    """The rows that follow from stored entries, for when other entries are gone.

    Journal, links and bodies are left out: those of stored entries are there.
    """
    collector = _Collector()
    for position, entry in entries:
        collector.add(position, j.entry_from_json(entry))
    collector.bodies.clear()
    return collector.rows(run)


def run_row(run: RunId, facts: RunFacts, *, asking: bool) -> RunRow:
    """A run as people see it; `asking` says whether one of its questions is open."""
    return RunRow(
        run=run,
        crew=facts.crew or CrewName(""),
        definition=facts.definition or ContentHash(""),
        status="waiting" if asking and facts.status == "running" else facts.status,
        position=facts.position,
        started=facts.started or 0,
        ended=facts.ended,
        by=facts.by or "",
        error=facts.error,
    )


def interrupt_row(run: RunId, facts: InterruptFacts) -> InterruptRow:
    """A question as people see it; its `InterruptRaised` must be known."""
    return InterruptRow(
        run=run,
        id=facts.id,
        position=facts.position or 0,
        at=facts.at or 0,
        interrupt=facts.interrupt or {},
        decision=facts.decision,
        by=facts.by or "",
    )


def chain_of(
    head: ContentHash, walk: list[LogLink], known: Collection[ContentHash], *, whole: bool
) -> list[LogLink]:
    """A walk from `head` back through its log, oldest link first.

    Args:
        head: Where the walk began.
        walk: The links it met, newest first.
        known: The heads where it may end.
        whole: Whether it ended with the log's first message.

    Raises:
        StoreIncomplete: where the walk ended neither there nor at a known head.
    """
    end = walk[-1].previous if walk else head
    if not whole and end not in known:
        raise RowsMissing(LINK, [end])
    return walk[::-1]


def without_holes(rows: list[JournalRow], after: int) -> list[JournalRow]:
    """Rows above `after`, in order, up to the first that is missing."""
    return [row for offset, row in enumerate(rows, after + 1) if row.position == offset]

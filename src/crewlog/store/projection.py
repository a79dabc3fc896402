"""What a batch of journal entries means as rows: one pure function that both stores share.

Batches come again, overlap, and come in another order than their positions, because parallel
activities carry the same entries. So a row is never computed from another row: every entry gives
facts, and facts are merged in a way that does not depend on their order.

- Journal, links, steps and checkpoints are insert-only, under keys that follow from the entry.
- `RunFacts` has three parts: how the run began, which is kept whenever it comes; the crew and the
  definition that it has, and the status: of these the highest position wins. `PromptReceived` says
  when a run was started and by whom before it has a crew; `RunStarted` then says the same of these.
- `InterruptFacts` has two halves, the question and the answer. A rollback, a fork or a reopening
  says which questions are open from there on: it asks those again, at its position, and whatever
  was asked before it and not by it is open no more. So a question is open where it was last asked
  after it was last answered, and not before the last such entry (`RunFacts.reset`).
- Whether a run waits for people cannot be seen in a part of its journal. It is not stored: a run
  that is `running` and has an open question reads as `waiting` (`run_row`).
- A checkpoint names the agent, which only the step's start knows, and that may be in another batch;
  so starts are rows of their own and are joined when checkpoints are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from crewlog.state.checkpoints import CheckpointKind, checkpoint_kind, turn_name
from crewlog.state.edited import edited_bodies
from crewlog.state.hashing import hash_json, log_root
from crewlog.state.journal import goes_on
from crewlog.state.logs import Link, entries_of, links_of
from crewlog.state.model import CLOSED, Interrupt, RunStatus
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

    @classmethod
    def of(cls, run: RunId, link: Link) -> LinkFacts:
        """A link that a journal entry of a run makes."""
        first = link.other is None and link.previous == log_root(run, link.log)
        return cls(link_row(link), first)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What some entries say of their run."""

    crew: CrewName | None = None
    """None until an entry is known that names it, as the next one."""
    definition: ContentHash | None = None
    ruled: int = 0
    """The position that said what crew and definition it has; 0 where none did."""
    recipe: ContentHash | None = None
    """The definition that it began with; None until that is known."""
    started: int | None = None
    """None until the entry is known that it began with, as the next one."""
    by: str | None = None
    base: int = 0
    source: RunId | None = None
    """None until `Forked` is known."""
    reset: int = 0
    """The last position that said which questions are open; 0 where none did."""
    status: RunStatus = "running"
    since: int = 0
    """The position that set the status; 0 where none did."""
    ended: int | None = None
    error: str = ""
    position: int = 0
    """The highest position that says something of the run."""

    def merge(self, other: RunFacts) -> RunFacts:
        """Both together, whichever came first. `queries/append.sql` says the same in SQL."""
        rules = other if other.ruled > self.ruled else self
        state = other if other.since > self.since else self
        return RunFacts(
            crew=rules.crew,
            definition=rules.definition,
            ruled=rules.ruled,
            recipe=self.recipe if self.recipe is not None else other.recipe,
            base=max(self.base, other.base),
            source=self.source if self.source is not None else other.source,
            reset=max(self.reset, other.reset),
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
    asked: int = 0
    """The last position that asked it; 0 where none did, as far as is known."""
    decision: str | None = None
    """The last answer; None until one is known, as the next one."""
    by: str | None = None
    answered: int = 0
    """The position of that answer."""

    def open(self, reset: int) -> bool:
        """Whether it is asked and not answered, as far as is known; see `RunFacts.reset`."""
        return self.asked > self.answered and self.asked >= reset

    def merge(self, other: InterruptFacts) -> InterruptFacts:
        """Both together, whichever came first. `queries/append.sql` says the same in SQL."""
        asked = self if self.interrupt is not None else other
        answer = other if other.answered > self.answered else self
        times = [at for at in (self.at, other.at) if at is not None]
        return InterruptFacts(
            id=self.id,
            position=asked.position,
            at=min(times, default=None),  # when it was asked first
            interrupt=asked.interrupt,
            asked=max(self.asked, other.asked),
            decision=answer.decision,
            by=answer.by,
            answered=answer.answered,
        )


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """The end of a step, or another place to go back to."""

    position: int
    step: StepId
    node: NodeName
    at: int
    kind: CheckpointKind = "step"


@dataclass(frozen=True, slots=True)
class TagFacts:
    """A name that people gave a checkpoint; of a name the highest position wins."""

    tag: str
    checkpoint: int
    position: int
    at: int

    def merge(self, other: TagFacts) -> TagFacts:
        """The later of both. `queries/append.sql` says the same in SQL."""
        return other if other.position > self.position else self


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
    tags: tuple[TagFacts, ...]
    rulings: tuple[int, ...] = ()
    """Where it says who may call what."""
    parents: tuple[tuple[RunId, int, int], ...] = ()
    """Runs whose logs came in, each with the position, and how many are left out before that."""
    parted: tuple[tuple[RunId, int], ...] = ()
    """Runs that are about to begin as parts of it, each with the time at which it parted."""


_RULINGS = (j.PermissionSet, j.RulingSet, j.RulesChanged, j.TopologyChanged, j.GraphMerged)
"""Entries that say who may call what, at once."""


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
    tags: dict[str, TagFacts] = field(default_factory=dict[str, TagFacts])
    rulings: list[int] = field(default_factory=list[int])
    parents: dict[tuple[RunId, int, int], None] = field(
        default_factory=dict[tuple[RunId, int, int], None]
    )
    parted: dict[RunId, int] = field(default_factory=dict[RunId, int])

    def run(self, facts: RunFacts) -> None:
        self.state = facts if self.state is None else self.state.merge(facts)

    def interrupt(self, facts: InterruptFacts, position: int) -> None:
        known = self.interrupts.get(facts.id)
        self.interrupts[facts.id] = facts if known is None else known.merge(facts)
        self.run(RunFacts(position=position))  # it changes whether the run waits

    def asked(self, question: Interrupt, position: int, entry: j.Fact) -> None:
        facts = InterruptFacts(
            question.id, question.position, entry.at, question.to_json(), asked=position
        )
        self.interrupt(facts, position)

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
            tags=tuple(self.tags.values()),
            rulings=tuple(self.rulings),
            parents=tuple(self.parents),
            parted=tuple(sorted(self.parted.items())),
        )

    def add(self, position: int, entry: j.JournalEntry) -> None:
        self.bodies |= inline_bodies(entry)
        self.parents |= dict.fromkeys(_parents(position, entry))
        self.parted |= _parted(entry)
        status = _status_after(entry)
        if status is not None:
            self.run(_run_facts(position, entry, status))
        if (rules := _rules(position, entry)) is not None:
            self.run(rules)
        source, because = getattr(entry, "source", None), getattr(entry, "because", "")
        kind = checkpoint_kind(entry.kind, source, because)
        if kind is not None:
            step = entry.step if isinstance(entry, j.StepCompleted) else StepId("")
            node = node_of(step) if step else NodeName("")
            if isinstance(entry, j.TurnEnded):  # by which people name it
                step = StepId(turn_name(entry.turn))
            self.checkpoints.append(CheckpointFacts(position, step, node, entry.at, kind))
        match entry:
            case j.StepStarted(agent=str(agent)):
                self.agents[entry.step] = AgentName(agent)
            case _ if isinstance(entry, _RULINGS):
                self.rulings.append(position)
            case j.CheckpointTagged():
                tag = TagFacts(entry.tag, entry.checkpoint, position, entry.at)
                self.tags[tag.tag] = self.tags[tag.tag].merge(tag) if tag.tag in self.tags else tag
            case j.InterruptRaised():
                self.asked(
                    entry.interrupt.model_copy(update={"position": position}), position, entry
                )
            case j.Forked() | j.RolledBack() | j.Reopened():
                for asked in _open_in(entry.state):
                    self.asked(asked, position, entry)
            case j.InterruptAnswered():
                facts = InterruptFacts(
                    entry.interrupt, decision=entry.decision, by=entry.by, answered=position
                )
                self.interrupt(facts, position)
            case _:
                pass


def _parents(position: int, entry: j.JournalEntry) -> Iterator[tuple[RunId, int, int]]:
    left_out = position - entry.follows - 1 if isinstance(entry, j.GraphMerged) else 0
    for run in entry.brought_by:
        yield run, position, left_out


def _parted(entry: j.JournalEntry) -> dict[RunId, int]:
    """The runs that an entry names as parts, and when."""
    parts = entry.parts if isinstance(entry, j.TopologyChanged) else ()
    return {part.graph: entry.at for part in parts}


def inline_bodies(entry: j.JournalEntry) -> dict[ContentHash, Json]:
    """The bodies that an entry carries itself, by hash."""
    ref = entry.message
    if ref is not None:
        return {} if ref.inline is None else {ref.body: ref.inline}
    match entry:
        case j.OutputSet(body=str(body)) if entry.inline is not None:
            return {ContentHash(body): entry.inline}
        case j.InterruptAnswered(arguments=str(arguments)) if entry.inline is not None:
            return {ContentHash(arguments): entry.inline}
        case j.MessageQueued():
            return {} if entry.ref.inline is None else {entry.ref.body: entry.ref.inline}
        case j.PromptReceived():
            return {entry.prompt: entry.inline}
        case j.StateEdited():
            return dict(edited_bodies(entry))
        case _:
            return {}


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
        case j.MergedInto():
            return "merged"
        case j.Forked() | j.RolledBack() | j.Reopened():
            status: RunStatus = entry.state.get("status", "running")
            return status
        case _:
            return None


def _rules(position: int, entry: j.JournalEntry) -> RunFacts | None:
    """What an entry says of the crew and the definition that the run has."""
    match entry:
        case j.NewGraph() | j.RulesChanged():
            crew, definition = entry.crew, entry.definition
        case j.Forked() | j.RolledBack() | j.Reopened():
            crew, definition = entry.state.get("crew", ""), entry.state.get("definition", "")
        case _:
            return None
    facts = RunFacts(crew=crew, definition=definition, ruled=position, position=position)
    if isinstance(entry, j.Forked):
        return replace(facts, recipe=entry.state.get("recipe", ""))
    return facts


def _open_in(state: Mapping[str, Json]) -> list[Interrupt]:
    """The questions that a state has open."""
    return [Interrupt.from_json(data) for data in state.get("interrupts", {}).values()]


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
            ruled=position,
            recipe=entry.definition,
            started=entry.began or entry.at,
            by=entry.by,
        )
    if isinstance(entry, j.RolledBack | j.Reopened):
        return replace(facts, reset=position)
    if isinstance(entry, j.Forked):
        return replace(
            facts,
            base=position - 1,
            source=entry.source,
            started=entry.at,
            by=entry.by,
            reset=position,
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
        links = tuple(LinkFacts.of(run, link) for link in links_of(run, batch))
    except ValidationError as error:
        raise InternalError(
            f"a journal entry of run {run!r} at or after position {batch.first} is not one that "
            f"this version of Crewlog knows: {error.errors()[0]['msg']}",
            remedy="Update Crewlog on the machine that says this.",
        ) from error
    return collector.rows(
        run,
        journal=tuple(
            EntryFacts(position, entry, hash_json(entry))
            for position, entry in zip(batch.positions(), batch.entries, strict=True)
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
        recipe=facts.recipe or ContentHash(""),
        status="waiting" if asking and facts.status == "running" else facts.status,
        position=facts.position,
        started=facts.started or 0,
        ended=facts.ended,
        by=facts.by or "",
        error=facts.error,
        base=facts.base,
        source=facts.source,
    )


def interrupt_row(run: RunId, facts: InterruptFacts) -> InterruptRow:
    """A question as people see it; what asked it must be known."""
    answered = facts.answered >= facts.asked  # or else it was asked again since
    return InterruptRow(
        run=run,
        id=facts.id,
        position=facts.position or 0,
        at=facts.at or 0,
        interrupt=facts.interrupt or {},
        decision=facts.decision if answered else None,
        by=(facts.by or "") if answered else "",
    )


def link_row(link: Link) -> LogLink:
    """A link as it is stored."""
    return LogLink(
        head=link.head,
        previous=link.previous,
        position=link.position,
        body=link.body,
        other=link.other,
    )


def chain_of(
    head: ContentHash,
    walk: list[LogLink],
    known: Collection[ContentHash],
    firsts: Collection[ContentHash],
) -> list[LogLink]:
    """A walk from `head` back through its log, each link after those that it goes on from.

    Args:
        head: Where the walk began.
        walk: The links it met; of a log without joins, newest first.
        known: The heads where it may end.
        firsts: The heads of those of them that are a log's first message, where it may end, too.

    Raises:
        StoreIncomplete: where the walk ended neither there nor at a known head.
    """
    if not any(link.other for link in walk):
        end = walk[-1].previous if walk else head
        if not (walk and walk[-1].head in firsts) and end not in known:
            raise RowsMissing(LINK, [end])
        return walk[::-1]
    links = {link.head: link for link in walk}
    ends = {parent for link in walk if link.head not in firsts for parent in link.parents}
    if lacking := ends - links.keys() - set(known):
        raise RowsMissing(LINK, sorted(lacking))
    order: list[LogLink] = []
    met = set[ContentHash]()
    ahead = [(head, False)]
    while ahead:
        at, below = ahead.pop()
        if below:
            order.append(links[at])
        elif at in links and at not in met:
            met.add(at)
            ahead.append((at, True))
            ahead += [(parent, False) for parent in reversed(links[at].parents)]
    return order


def in_order(links: Sequence[LogLink]) -> list[LogLink]:
    """The messages of a log that was read whole, in the order in which everybody is shown them.

    That is by journal position, and then by body. A message that two logs had before they were
    joined may have a link in each: it is there once.
    """
    if not any(link.other for link in links):
        return list(links)
    said = {(link.position, link.body): link for link in links if link.other is None}
    return [link for _, link in sorted(said.items())]


def without_holes(rows: list[JournalRow], after: int) -> list[JournalRow]:
    """Rows above `after`, in order, up to the first that is missing."""
    found: list[JournalRow] = []
    at = begin_of(rows[0], after) - 1 if rows else after
    for row in rows:
        if not goes_on(row.entry, row.position, at):
            break
        found.append(row)
        at = row.position
    return found


def begin_of(row: JournalRow, after: int) -> int:
    """Where the entries above `after` begin: a fork has none before `Forked`, which says so.

    Nor has a run, right before it takes in another one, between its own last position and that.
    """
    first = row.entry.get("kind") == "Forked" or goes_on(row.entry, row.position, after)
    return row.position if first else after + 1

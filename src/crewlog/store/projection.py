"""What a batch of journal entries means as rows: one pure function that both stores share.

Batches come again, overlap, and come in another order than their positions, because parallel
activities carry the same entries. So a row is never computed from another row: every entry gives
facts, and facts are merged in a way that does not depend on their order.

- Journal, links, steps and checkpoints are insert-only, under keys that follow from the entry.
- `RunFacts` has three parts: how the run began, which is kept whenever it comes; the crew and the
  definition that it has, and the status: of these the highest position wins. `PromptReceived` says
  when a run was started and by whom before it has a crew; `RunStarted` then says the same of these.
- `InterruptProjection` has two halves, the question and the answer. A rollback, a fork or a
reopening
  says which questions are open from there on: it asks those again, at its position, and whatever
  was asked before it and not by it is open no more. So a question is open where it was last asked
  after it was last answered, and not before the last such entry (`RunFacts.reset`).
- Whether a run waits for people cannot be seen in a part of its journal. It is not stored: a run
  that is `running` and has an open question reads as `waiting` (`run_row`).
- A checkpoint names the agent, which only the step's start knows, and that may be in another batch;
  so starts are rows of their own and are joined when checkpoints are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, get_args

from pydantic import ValidationError

from crewlog.canonical_json import hash_json
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
from crewlog.run_status import CLOSED, RunStatus
from crewlog.state import journal as j
from crewlog.state.checkpoints import CheckpointKind, checkpoint_kind, exchange_name
from crewlog.state.edits import edit_bodies
from crewlog.state.journal import goes_on
from crewlog.state.logs import Link, batch_entries, batch_links, empty_log_head
from crewlog.state.model import Interrupt
from crewlog.store.missing_rows import LINK, MissingRows
from crewlog.store.protocol import InterruptRow, JournalRow, LogLink, RunRow


@dataclass(frozen=True, slots=True)
class EntryProjection:
    """A journal entry at its place."""

    position: int
    entry: dict[str, Json]
    digest: ContentHash
    """The entry's hash: two entries are the same if and only if it is."""


@dataclass(frozen=True, slots=True)
class LinkProjection:
    """A message's place in a log."""

    link: LogLink
    first: bool
    """Whether it is the log's first message: a walk that ends elsewhere has met a gap."""

    @classmethod
    def of(cls, run: RunId, link: Link) -> LinkProjection:
        """A link that a journal entry of a run makes."""
        first = link.other is None and link.previous == empty_log_head(run, link.log)
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
    """None until `RunForked` is known."""
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
class InterruptProjection:
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

    def merge(self, other: InterruptProjection) -> InterruptProjection:
        """Both together, whichever came first. `queries/append.sql` says the same in SQL."""
        asked = self if self.interrupt is not None else other
        answer = other if other.answered > self.answered else self
        times = [at for at in (self.at, other.at) if at is not None]
        return InterruptProjection(
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
class CheckpointProjection:
    """The end of a step, or another place to go back to."""

    position: int
    step: StepId
    node: NodeName
    at: int
    kind: CheckpointKind = "step"


@dataclass(frozen=True, slots=True)
class TagProjection:
    """A name that people gave a checkpoint; of a name the highest position wins."""

    tag: str
    checkpoint: int
    position: int
    at: int

    def merge(self, other: TagProjection) -> TagProjection:
        """The later of both. `queries/append.sql` says the same in SQL."""
        return other if other.position > self.position else self


@dataclass(frozen=True, slots=True)
class Rows:
    """What a batch adds to a store."""

    run: RunId
    journal: tuple[EntryProjection, ...]
    links: tuple[LinkProjection, ...]
    bodies: dict[ContentHash, Json]
    """Bodies that the entries name, by hash."""
    state: RunFacts | None
    """None where no entry says anything of the run as a whole."""
    interrupts: tuple[InterruptProjection, ...]
    agents: tuple[tuple[StepId, AgentName], ...]
    """Whose turn a step is."""
    checkpoints: tuple[CheckpointProjection, ...]
    tags: tuple[TagProjection, ...]
    rulings: tuple[int, ...] = ()
    """Where it says who may call what."""
    parents: tuple[tuple[RunId, int, int], ...] = ()
    """Runs whose logs came in, each with the position, and how many are left out before that."""
    parted: tuple[tuple[RunId, int], ...] = ()
    """Runs that are about to begin as parts of it, each with the time at which it parted."""


@dataclass(slots=True)
class _Collector:
    """The rows while they are collected."""

    bodies: dict[ContentHash, Json] = field(default_factory=dict[ContentHash, Json])
    state: RunFacts | None = None
    interrupts: dict[InterruptId, InterruptProjection] = field(
        default_factory=dict[InterruptId, InterruptProjection]
    )
    agents: dict[StepId, AgentName] = field(default_factory=dict[StepId, AgentName])
    checkpoints: list[CheckpointProjection] = field(default_factory=list[CheckpointProjection])
    tags: dict[str, TagProjection] = field(default_factory=dict[str, TagProjection])
    rulings: list[int] = field(default_factory=list[int])
    parents: dict[tuple[RunId, int, int], None] = field(
        default_factory=dict[tuple[RunId, int, int], None]
    )
    parted: dict[RunId, int] = field(default_factory=dict[RunId, int])

    def run(self, facts: RunFacts) -> None:
        self.state = facts if self.state is None else self.state.merge(facts)

    def interrupt(self, facts: InterruptProjection, position: int) -> None:
        known = self.interrupts.get(facts.id)
        self.interrupts[facts.id] = facts if known is None else known.merge(facts)
        self.run(RunFacts(position=position))  # it changes whether the run waits

    def asked(self, question: Interrupt, position: int, entry: j.Fact) -> None:
        facts = InterruptProjection(
            question.id, question.position, entry.at, question.to_json(), asked=position
        )
        self.interrupt(facts, position)

    def rows(
        self,
        run: RunId,
        journal: tuple[EntryProjection, ...] = (),
        links: tuple[LinkProjection, ...] = (),
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
        for add in _ADDED_BY[entry.kind]:
            add(self, position, entry)


_STATUSES: Mapping[type[j.Fact], RunStatus] = {
    j.RunStarted: "running",
    j.PromptReceived: "running",
    j.RunResumed: "running",
    j.Paused: "paused",
    j.StopRequested: "stopping",
    j.RunCompleted: "completed",
    j.RunStopped: "stopped",
    j.RunFailed: "failed",
    j.RunEndedByMerge: "merged",
}
"""The status that an entry puts the run into."""
_RESTORING = (j.RunForked, j.RunRolledBack, j.RunReopened)
"""Entries after which the run continues from the state that they carry."""


def _message_body(rows: _Collector, _: int, entry: Any) -> None:
    ref: j.MessageRef | None = entry.ref
    if ref is not None and ref.inline is not None:
        rows.bodies[ref.body] = ref.inline


def _output_body(rows: _Collector, _: int, entry: j.OutputSet) -> None:
    if entry.body is not None and entry.inline is not None:
        rows.bodies[entry.body] = entry.inline


def _prompt_body(rows: _Collector, _: int, entry: j.PromptReceived) -> None:
    rows.bodies[entry.prompt] = entry.inline


def _edited_bodies(rows: _Collector, _: int, entry: j.StateEdited) -> None:
    rows.bodies.update(edit_bodies(entry))


def _status(rows: _Collector, position: int, entry: j.JournalEntry) -> None:
    if isinstance(entry, _RESTORING):
        status: RunStatus = entry.state.get("status", "running")
    else:
        status = _STATUSES[type(entry)]
    rows.run(_run_facts(position, entry, status))


def _definition(
    rows: _Collector, position: int, entry: j.GraphReplacement | j.DefinitionChanged
) -> None:
    rows.run(_definition_facts(position, entry.crew, entry.definition))


def _restored_definition(
    rows: _Collector, position: int, entry: j.RunForked | j.RunRolledBack | j.RunReopened
) -> None:
    state = entry.state
    facts = _definition_facts(position, state.get("crew", ""), state.get("definition", ""))
    if isinstance(entry, j.RunForked):
        facts = replace(facts, recipe=state.get("recipe", ""))
    rows.run(facts)


def _checkpoint(rows: _Collector, position: int, entry: j.JournalEntry) -> None:
    source, because = (
        (entry.source, entry.because) if isinstance(entry, j.NodesReached) else (None, "")
    )
    kind = checkpoint_kind(entry.kind, source, because)
    if kind is None:
        return
    step, node = StepId(""), NodeName("")
    if isinstance(entry, j.StepCompleted):
        step, node = entry.step, node_of(entry.step)
    elif isinstance(entry, j.ExchangeEnded):  # by which people name it
        step = StepId(exchange_name(entry.turn))
    rows.checkpoints.append(CheckpointProjection(position, step, node, entry.at, kind))


def _tag(rows: _Collector, position: int, entry: j.CheckpointTagged) -> None:
    tag = TagProjection(entry.tag, entry.checkpoint, position, entry.at)
    known = rows.tags.get(tag.tag)
    rows.tags[tag.tag] = tag if known is None else known.merge(tag)


def _agent(rows: _Collector, _: int, entry: j.StepStarted) -> None:
    if entry.agent is not None:
        rows.agents[entry.step] = entry.agent


def _permission_change(rows: _Collector, position: int, _: j.JournalEntry) -> None:
    rows.rulings.append(position)


def _question(rows: _Collector, position: int, entry: j.InterruptRaised) -> None:
    question = entry.interrupt.model_copy(update={"position": position})
    rows.asked(question, position, entry)


def _open_interrupts(
    rows: _Collector, position: int, entry: j.RunForked | j.RunRolledBack | j.RunReopened
) -> None:
    for data in entry.state.get("interrupts", {}).values():
        rows.asked(Interrupt.from_json(data), position, entry)


def _answer(rows: _Collector, position: int, entry: j.InterruptAnswered) -> None:
    facts = InterruptProjection(
        entry.interrupt, decision=entry.decision, by=entry.by, answered=position
    )
    rows.interrupt(facts, position)
    if entry.arguments is not None and entry.inline is not None:
        rows.bodies[entry.arguments] = entry.inline


def _parents(rows: _Collector, position: int, entry: j.JournalEntry) -> None:
    left_out = position - entry.follows - 1 if isinstance(entry, j.RunMerged) else 0
    for run in entry.log_source_run_ids:
        rows.parents[run, position, left_out] = None


def _parts(rows: _Collector, _: int, entry: j.ComponentChanged) -> None:
    for part in entry.parts:
        rows.parted[part.graph] = entry.at


_Adder: TypeAlias = Callable[[_Collector, int, Any], None]
_ADDERS: tuple[tuple[_Adder, tuple[type[j.Fact], ...]], ...] = (
    (_output_body, (j.OutputSet,)),
    (_prompt_body, (j.PromptReceived,)),
    (_edited_bodies, (j.StateEdited,)),
    (_status, (*_STATUSES, *_RESTORING)),
    (_definition, (j.GraphReplacement, j.DefinitionChanged)),
    (_restored_definition, _RESTORING),
    (_tag, (j.CheckpointTagged,)),
    (_agent, (j.StepStarted,)),
    # Entries that say at once who may call what.
    (
        _permission_change,
        (
            j.ToolPermissionSet,
            j.AgentPermissionSet,
            j.DefinitionChanged,
            j.ComponentChanged,
            j.RunMerged,
        ),
    ),
    (_question, (j.InterruptRaised,)),
    (_open_interrupts, _RESTORING),
    (_answer, (j.InterruptAnswered,)),
    (_parts, (j.ComponentChanged,)),
)


def _adders(model: type[j.Fact]) -> Iterator[_Adder]:
    """The functions that add the rows of a kind of entry."""
    if "ref" in model.model_fields:
        yield _message_body
    if "parents" in model.model_fields:
        yield _parents
    if checkpoint_kind(model.__name__, None) is not None:
        yield _checkpoint
    yield from (add for add, models in _ADDERS if issubclass(model, models))


_ADDED_BY: Mapping[str, tuple[_Adder, ...]] = {
    model.__name__: tuple(_adders(model)) for model in get_args(get_args(j.JournalEntry)[0])
}
"""By the kind of an entry: what adds its rows. Most kinds add none, and cost one look-up."""


def _definition_facts(position: int, crew: CrewName, definition: ContentHash) -> RunFacts:
    return RunFacts(crew=crew, definition=definition, ruled=position, position=position)


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
    if isinstance(entry, j.RunRolledBack | j.RunReopened):
        return replace(facts, reset=position)
    if isinstance(entry, j.RunForked):
        return replace(
            facts,
            base=position - 1,
            source=entry.source,
            started=entry.at,
            by=entry.by,
            reset=position,
        )
    return facts


def project(run: RunId, batch: j.Batch, bodies: Mapping[ContentHash, Json] | None = None) -> Rows:
    """The rows that a batch of a run's journal adds.

    Args:
        run: The run.
        batch: The batch.
        bodies: Bodies that the entries name and do not carry themselves.

    Raises:
        InternalError: where an entry is none that this version of Crewlog knows.
    """
    collector = _Collector(bodies=dict(bodies or {}))
    try:
        for position, entry in batch_entries(batch):
            collector.add(position, entry)
        links = [LinkProjection.of(run, link) for link in batch_links(run, batch)]
    except ValidationError as error:
        raise InternalError(
            f"a journal entry of run {run!r} at or after position {batch.first} is not one that "
            f"this version of Crewlog knows: {error.errors()[0]['msg']}",
            remedy="Update Crewlog on the machine that says this.",
        ) from error
    journal = [
        EntryProjection(position, entry, hash_json(entry))
        for position, entry in zip(batch.positions(), batch.entries, strict=True)
    ]
    return collector.rows(run, tuple(journal), tuple(links))


def reproject(run: RunId, entries: Iterable[tuple[int, Mapping[str, Json]]]) -> Rows:
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


def interrupt_row(run: RunId, facts: InterruptProjection) -> InterruptRow:
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


def ordered_chain(
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
            raise MissingRows(LINK, [end])
        return walk[::-1]
    links = {link.head: link for link in walk}
    ends = {parent for link in walk if link.head not in firsts for parent in link.parents}
    if lacking := ends - links.keys() - set(known):
        raise MissingRows(LINK, sorted(lacking))
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


def contiguous_rows(rows: list[JournalRow], after: int) -> list[JournalRow]:
    """Rows above `after`, in order, up to the first that is missing."""
    found: list[JournalRow] = []
    at = first_position(rows[0], after) - 1 if rows else after
    for row in rows:
        if not goes_on(row.entry, row.position, at):
            break
        found.append(row)
        at = row.position
    return found


def first_position(row: JournalRow, after: int) -> int:
    """Where the entries above `after` begin: a fork has none before `RunForked`, which says so.

    Nor has a run, right before it takes in another one, between its own last position and that.
    """
    first = row.entry.get("kind") == "RunForked" or goes_on(row.entry, row.position, after)
    return row.position if first else after + 1

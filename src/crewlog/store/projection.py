"""The rows that follow from a batch of journal entries: pure, shared by both stores.

Batches may repeat, overlap, and arrive in any order, since parallel activities carry the same
entries. So no row is computed from another row: each entry yields projections, and two projections
of one row merge to the same result in either order.

- Journal entries, log links, steps and checkpoints are only inserted, under keys that follow from
  the entry.
- `RunProjection` has three parts: the start of the run, from any entry that has it; the crew and
  the definition; and the status. For the last two the highest position wins. `PromptReceived` has
  the time and the principal of the start before the run has a crew; `RunStarted` has the same ones.
- `InterruptProjection` has two parts, the question and the answer. A rollback, a fork and a reopen
  restore a state: they ask the open interrupts of that state again, at their own position, and
  close all others. So an interrupt is open if it was last asked after it was last answered, and not
  before the last restored state (`RunProjection.restore_position`).
- Whether a run waits for people does not follow from a part of its journal, so it is not stored: a
  run that is `running` and has an open interrupt reads as `waiting` (`run_row`).
- A checkpoint has an agent, which only the start of its step names, perhaps in another batch. So
  starts are rows of their own, joined when checkpoints are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, get_args

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
from crewlog.run_status import ENDED, RunStatus
from crewlog.state import journal as j
from crewlog.state.checkpoints import CheckpointKind, checkpoint_kind, exchange_name
from crewlog.state.edits import edit_bodies
from crewlog.state.journal import is_contiguous
from crewlog.state.logs import batch_entries, batch_links, empty_log_head
from crewlog.state.model import Interrupt
from crewlog.state.references import find_references
from crewlog.store.missing_rows import LINK, MissingRows
from crewlog.store.protocol import InterruptRow, JournalRow, LogLink, RunRow


class EntryProjection(NamedTuple):
    """A journal entry."""

    position: int
    hash: ContentHash
    """The hash of the entry."""
    entry: Json


class BodyProjection(NamedTuple):
    """A body."""

    hash: ContentHash
    body: Json


class ReferenceProjection(NamedTuple):
    """A hash that an entry or a body refers to."""

    hash: ContentHash


class StepProjection(NamedTuple):
    """The agent of a step."""

    step: StepId
    agent: AgentName


class RunProjection(NamedTuple):
    """The row of a run, as far as some entries determine it."""

    crew: CrewName | None = None
    """None until an entry has it, as the next field."""
    definition: ContentHash | None = None
    definition_position: int = 0
    """The position of the entry that set crew and definition; 0: none."""
    recipe: ContentHash | None = None
    """The definition that the run was started with; None until an entry has it."""
    started_at: int | None = None
    """None until the first entry of the run is stored, as the next field."""
    started_by: str | None = None
    source: RunId | None = None
    """None until `RunForked` is stored."""
    source_position: int = 0
    """The position in the source after which the journal of a fork begins."""
    restore_position: int = 0
    """The position of the last entry that restored a state; 0: none."""
    status: RunStatus = "running"
    status_position: int = 0
    """The position of the entry that set the status; 0: none."""
    ended_at: int | None = None
    error: str = ""
    position: int = 0
    """The highest position that changed the row."""

    def merge(self, other: RunProjection) -> RunProjection:
        """Both projections, in either order."""
        definition = other if other.definition_position > self.definition_position else self
        status = other if other.status_position > self.status_position else self
        return RunProjection(
            crew=definition.crew,
            definition=definition.definition,
            definition_position=definition.definition_position,
            recipe=self.recipe if self.recipe is not None else other.recipe,
            source_position=max(self.source_position, other.source_position),
            source=self.source if self.source is not None else other.source,
            restore_position=max(self.restore_position, other.restore_position),
            started_at=self.started_at if self.started_at is not None else other.started_at,
            started_by=self.started_by if self.started_by is not None else other.started_by,
            status=status.status,
            status_position=status.status_position,
            ended_at=status.ended_at,
            error=status.error,
            position=max(self.position, other.position),
        )


class InterruptProjection(NamedTuple):
    """The row of an interrupt, as far as some entries determine it."""

    id: InterruptId
    position: int | None = None
    """The position that raised it; None until that entry is stored, as the next two fields."""
    at: int | None = None
    interrupt: dict[str, Json] | None = None
    asked_position: int = 0
    """The last position that asked it; 0: none."""
    decision: str | None = None
    """The last answer; None until one is stored, as the next field."""
    answered_by: str | None = None
    answered_position: int = 0
    """The position of that answer."""

    def is_open(self, restore_position: int) -> bool:
        """Whether the interrupt is open.

        Args:
            restore_position: The one of `RunProjection`.
        """
        is_asked = self.asked_position > self.answered_position
        return is_asked and self.asked_position >= restore_position

    def merge(self, other: InterruptProjection) -> InterruptProjection:
        """Both projections, in either order."""
        question = self if self.interrupt is not None else other
        answer = other if other.answered_position > self.answered_position else self
        times = [at for at in (self.at, other.at) if at is not None]
        return InterruptProjection(
            id=self.id,
            position=question.position,
            at=min(times, default=None),  # when it was asked first
            interrupt=question.interrupt,
            asked_position=max(self.asked_position, other.asked_position),
            decision=answer.decision,
            answered_by=answer.answered_by,
            answered_position=answer.answered_position,
        )


class CheckpointProjection(NamedTuple):
    """A checkpoint: the end of a step, or another position."""

    position: int
    step: StepId
    node: NodeName
    at: int
    kind: CheckpointKind = "step"


class TagProjection(NamedTuple):
    """A tag of a checkpoint; of two entries with the same tag the higher position wins."""

    tag: str
    checkpoint: int
    position: int
    at: int

    def merge(self, other: TagProjection) -> TagProjection:
        """The later one."""
        return other if other.position > self.position else self


class PermissionChangeProjection(NamedTuple):
    """A permission change."""

    position: int


class LogSourceProjection(NamedTuple):
    """A run whose logs continue in the run."""

    source: RunId
    position: int
    """The position of the run merge."""
    skipped: int
    """The number of positions that the journal skips before it."""


class PendingForkProjection(NamedTuple):
    """A split run that has not started."""

    fork: RunId
    at: int
    """The time of the split."""


class Rows:
    """Rows of a run, by their keys; each attribute but the first has the name of its table.

    All statements have the tables in this order, so that two that overlap cannot deadlock.
    """

    def __init__(self, run: RunId) -> None:
        self.run = run
        self.journal_entries: dict[int, EntryProjection] = {}
        self.log_links: dict[ContentHash, LogLink] = {}
        self.bodies: dict[ContentHash, BodyProjection] = {}
        self.content_references: dict[ContentHash, ReferenceProjection] = {}
        self.steps: dict[StepId, StepProjection] = {}
        self.checkpoints: dict[int, CheckpointProjection] = {}
        self.tags: dict[str, TagProjection] = {}
        self.interrupts: dict[InterruptId, InterruptProjection] = {}
        self.permission_changes: dict[int, PermissionChangeProjection] = {}
        self.log_sources: dict[tuple[RunId, int], LogSourceProjection] = {}
        self.pending_forks: dict[RunId, PendingForkProjection] = {}
        self.runs: dict[RunId, RunProjection] = {}
        """At most one; none if no entry changes the row of the run."""

    def merge(self, other: Rows) -> None:
        """Adds other rows of the run. `queries/append.sql` does the same in SQL."""
        for table in TABLES:
            stored: dict[Any, Any] = getattr(self, table)
            for key, row in getattr(other, table).items():
                _merge_row(stored, key, row)

    def add_run(self, facts: RunProjection) -> None:
        """Adds what an entry determines of the row of the run."""
        _merge_row(self.runs, self.run, facts)

    def add_body(self, hash_: ContentHash, body: Json) -> None:
        """Adds a body."""
        self.bodies[hash_] = BodyProjection(hash_, body)

    def add_interrupt(self, facts: InterruptProjection, position: int) -> None:
        """Adds what an entry determines of an interrupt."""
        _merge_row(self.interrupts, facts.id, facts)
        self.add_run(RunProjection(position=position))  # the run may wait now, or no longer

    def add_question(self, question: Interrupt, position: int, entry: j.Entry) -> None:
        """Adds an interrupt that an entry asks."""
        facts = InterruptProjection(
            question.id, question.position, entry.at, question.to_json(), asked_position=position
        )
        self.add_interrupt(facts, position)

    def add_entry(self, position: int, entry: j.JournalEntry) -> None:
        """Adds the rows that follow from an entry, except for references and links."""
        for add in _ADDED_BY[entry.kind]:
            add(self, position, entry)


TABLES = tuple(name for name in vars(Rows(RunId(""))) if name != "run")
"""The tables that a batch may add rows to, in the order of the statement."""


def _merge_row(stored: dict[Any, Any], key: Any, row: Any) -> None:
    known = stored.get(key)
    if known is None:
        stored[key] = row
    elif isinstance(row, RunProjection | InterruptProjection | TagProjection):
        stored[key] = known.merge(row)


_STATUSES: Mapping[type[j.Entry], RunStatus] = {
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
"""The status of the run after an entry."""
_RESTORING = (j.RunForked, j.RunRolledBack, j.RunReopened)
"""Entries with a state from which the run continues."""


def _message_body(rows: Rows, _: int, entry: Any) -> None:
    ref: j.MessageRef | None = entry.ref
    if ref is not None and ref.inline is not None:
        rows.add_body(ref.body, ref.inline)


def _output_body(rows: Rows, _: int, entry: j.OutputSet) -> None:
    if entry.body is not None and entry.inline is not None:
        rows.add_body(entry.body, entry.inline)


def _prompt_body(rows: Rows, _: int, entry: j.PromptReceived) -> None:
    rows.add_body(entry.prompt, entry.inline)


def _edit_bodies(rows: Rows, _: int, entry: j.StateEdited) -> None:
    for hash_, body in edit_bodies(entry):
        rows.add_body(hash_, body)


def _status(rows: Rows, position: int, entry: j.JournalEntry) -> None:
    if isinstance(entry, _RESTORING):
        status: RunStatus = entry.state.get("status", "running")
    else:
        status = _STATUSES[type(entry)]
    rows.add_run(_run_facts(position, entry, status))


def _definition(rows: Rows, position: int, entry: j.GraphReplacement | j.DefinitionChanged) -> None:
    rows.add_run(_definition_facts(position, entry.crew, entry.definition))


def _restored_definition(
    rows: Rows, position: int, entry: j.RunForked | j.RunRolledBack | j.RunReopened
) -> None:
    state = entry.state
    facts = _definition_facts(position, state.get("crew", ""), state.get("definition", ""))
    if isinstance(entry, j.RunForked):
        facts = facts._replace(recipe=state.get("definition", ""))
    rows.add_run(facts)


def _checkpoint(rows: Rows, position: int, entry: j.JournalEntry) -> None:
    source, because = (
        (entry.source, entry.because) if isinstance(entry, j.NodesReached) else (None, "")
    )
    kind = checkpoint_kind(entry.kind, source, because)
    if kind is None:
        return
    step, node = StepId(""), NodeName("")
    if isinstance(entry, j.StepCompleted):
        step, node = entry.step, node_of(entry.step)
    elif isinstance(entry, j.ExchangeEnded):  # its checkpoint is named after the exchange
        step = StepId(exchange_name(entry.exchange))
    rows.checkpoints[position] = CheckpointProjection(position, step, node, entry.at, kind)


def _tag(rows: Rows, position: int, entry: j.CheckpointTagged) -> None:
    tag = TagProjection(entry.tag, entry.checkpoint, position, entry.at)
    _merge_row(rows.tags, entry.tag, tag)


def _agent(rows: Rows, _: int, entry: j.StepStarted) -> None:
    if entry.agent is not None:
        rows.steps[entry.step] = StepProjection(entry.step, entry.agent)


def _permission_change(rows: Rows, position: int, _: j.JournalEntry) -> None:
    rows.permission_changes[position] = PermissionChangeProjection(position)


def _question(rows: Rows, position: int, entry: j.InterruptRaised) -> None:
    question = entry.interrupt.model_copy(update={"position": position})
    rows.add_question(question, position, entry)


def _open_interrupts(
    rows: Rows, position: int, entry: j.RunForked | j.RunRolledBack | j.RunReopened
) -> None:
    for data in entry.state.get("interrupts", {}).values():
        rows.add_question(Interrupt.from_json(data), position, entry)


def _answer(rows: Rows, position: int, entry: j.InterruptAnswered) -> None:
    facts = InterruptProjection(
        entry.interrupt,
        decision=entry.decision,
        answered_by=entry.by,
        answered_position=position,
    )
    rows.add_interrupt(facts, position)
    if entry.arguments is not None and entry.inline is not None:
        rows.add_body(entry.arguments, entry.inline)


def _log_sources(rows: Rows, position: int, entry: j.JournalEntry) -> None:
    skipped = position - entry.previous_position - 1 if isinstance(entry, j.RunMerged) else 0
    for run in entry.log_source_run_ids:
        rows.log_sources[run, position] = LogSourceProjection(run, position, skipped)


def _pending_forks(rows: Rows, _: int, entry: j.ComponentChanged) -> None:
    for split_run in entry.split_runs:
        rows.pending_forks[split_run.run] = PendingForkProjection(split_run.run, entry.at)


_Adder: TypeAlias = Callable[[Rows, int, Any], None]
_ADDERS: tuple[tuple[_Adder, tuple[type[j.Entry], ...]], ...] = (
    (_output_body, (j.OutputSet,)),
    (_prompt_body, (j.PromptReceived,)),
    (_edit_bodies, (j.StateEdited,)),
    (_status, (*_STATUSES, *_RESTORING)),
    (_definition, (j.GraphReplacement, j.DefinitionChanged)),
    (_restored_definition, _RESTORING),
    (_tag, (j.CheckpointTagged,)),
    (_agent, (j.StepStarted,)),
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
    (_pending_forks, (j.ComponentChanged,)),
)


def _adders(model: type[j.Entry]) -> Iterator[_Adder]:
    """The functions that add the rows of a kind of entry."""
    if "ref" in model.model_fields:
        yield _message_body
    if model.log_source_run_ids is not j.Entry.log_source_run_ids:
        yield _log_sources
    if checkpoint_kind(model.__name__, None) is not None:
        yield _checkpoint
    yield from (add for add, models in _ADDERS if issubclass(model, models))


_ADDED_BY: Mapping[str, tuple[_Adder, ...]] = {
    model.__name__: tuple(_adders(model)) for model in get_args(get_args(j.JournalEntry)[0])
}
"""The adders by the kind of entry. Most kinds have none."""


def _definition_facts(position: int, crew: CrewName, definition: ContentHash) -> RunProjection:
    return RunProjection(
        crew=crew, definition=definition, definition_position=position, position=position
    )


def _run_facts(position: int, entry: j.JournalEntry, status: RunStatus) -> RunProjection:
    facts = RunProjection(
        status=status,
        status_position=position,
        ended_at=entry.at if status in ENDED else None,
        error=entry.error if isinstance(entry, j.RunFailed) else "",
        position=position,
    )
    if isinstance(entry, j.PromptReceived):
        return facts._replace(started_at=entry.at, started_by=entry.by)
    if isinstance(entry, j.RunStarted):
        return facts._replace(
            crew=entry.crew,
            definition=entry.definition,
            definition_position=position,
            recipe=entry.definition,
            started_at=entry.started_at or entry.at,
            started_by=entry.by,
        )
    if isinstance(entry, j.RunRolledBack | j.RunReopened):
        return facts._replace(restore_position=position)
    if isinstance(entry, j.RunForked):
        return facts._replace(
            source_position=position - 1,
            source=entry.source,
            started_at=entry.at,
            started_by=entry.by,
            restore_position=position,
        )
    return facts


def project(run: RunId, batch: j.Batch, bodies: Mapping[ContentHash, Json] | None = None) -> Rows:
    """The rows that a batch of a run's journal adds.

    Args:
        run: The run.
        batch: The batch.
        bodies: Bodies that the entries refer to but do not contain.

    Raises:
        InternalError: this version of Crewlog does not know an entry.
    """
    rows = Rows(run)
    rows.bodies = {hash_: BodyProjection(hash_, body) for hash_, body in (bodies or {}).items()}
    try:
        for position, entry in batch_entries(batch):
            rows.add_entry(position, entry)
        for log, head, previous, at, body, other in batch_links(run, batch):
            is_first = other is None and previous == empty_log_head(run, log)
            rows.log_links[head] = LogLink(head, previous, at, body, other, is_first)
    except ValidationError as error:
        raise InternalError(
            f"a journal entry of run {run!r} at or after position {batch.first} is not one that "
            f"this version of Crewlog knows: {error.errors()[0]['msg']}",
            remedy="Update Crewlog on this machine.",
        ) from error
    rows.journal_entries = {
        position: EntryProjection(position, hash_json(entry), entry)
        for position, entry in zip(batch.positions(), batch.entries, strict=True)
    }
    references = find_references(batch.entries).union(rows.bodies)
    rows.content_references = {hash_: ReferenceProjection(hash_) for hash_ in references}
    return rows


def reproject(run: RunId, journal: Iterable[JournalRow]) -> Rows:
    """The rows that follow from stored entries, after other entries were deleted.

    Without journal entries, links, bodies and references, which are stored already.
    """
    rows = Rows(run)
    for row in journal:
        rows.add_entry(row.position, j.entry_from_json(row.entry))
    rows.bodies.clear()
    return rows


def run_row(run: RunId, facts: RunProjection, *, has_open_interrupt: bool) -> RunRow:
    """The row of a run as clients read it."""
    return RunRow(
        run=run,
        crew=facts.crew or CrewName(""),
        definition=facts.definition or ContentHash(""),
        recipe=facts.recipe or ContentHash(""),
        status="waiting" if has_open_interrupt and facts.status == "running" else facts.status,
        position=facts.position,
        started_at=facts.started_at or 0,
        ended_at=facts.ended_at,
        started_by=facts.started_by or "",
        error=facts.error,
        source_position=facts.source_position,
        source=facts.source,
    )


def interrupt_row(run: RunId, facts: InterruptProjection) -> InterruptRow:
    """The row of an interrupt as clients read it; its question must be stored."""
    # An interrupt that was asked again after its answer has none.
    is_answered = facts.answered_position >= facts.asked_position
    return InterruptRow(
        run=run,
        id=facts.id,
        position=facts.position or 0,
        at=facts.at or 0,
        interrupt=facts.interrupt or {},
        decision=facts.decision if is_answered else None,
        answered_by=(facts.answered_by or "") if is_answered else "",
    )


def order_chain(
    head: ContentHash, walk: list[LogLink], known: Collection[ContentHash]
) -> list[LogLink]:
    """The links of a walk from `head` back through its log, each after its parents.

    Args:
        head: The head where the walk started.
        walk: The links on the walk; newest first if no logs were merged.
        known: Heads at which the walk may end, besides first messages of logs.

    Raises:
        StoreIncomplete: the walk ended at another head.
    """
    if not any(link.other for link in walk):
        end = walk[-1].previous if walk else head
        if not (walk and walk[-1].is_first) and end not in known:
            raise MissingRows(LINK, [end])
        return walk[::-1]
    links = {link.head: link for link in walk}
    ends = {parent for link in walk if not link.is_first for parent in link.parents}
    if missing := ends - links.keys() - set(known):
        raise MissingRows(LINK, sorted(missing))
    order: list[LogLink] = []
    visited = set[ContentHash]()
    stack = [(head, False)]
    while stack:
        at, parents_done = stack.pop()
        if parents_done:
            order.append(links[at])
        elif at in links and at not in visited:
            visited.add(at)
            stack.append((at, True))
            stack += [(parent, False) for parent in reversed(links[at].parents)]
    return order


def contiguous_rows(rows: list[JournalRow], after: int) -> list[JournalRow]:
    """Rows after a position, up to the first gap."""
    found: list[JournalRow] = []
    at = first_position(rows[0], after) - 1 if rows else after
    for row in rows:
        if not is_contiguous(row.entry, row.position, at):
            break
        found.append(row)
        at = row.position
    return found


def first_position(row: JournalRow, after: int) -> int:
    """The first position after `after`: a fork has none before `RunForked`.

    `RunMerged` may skip positions, too.
    """
    first = row.entry.get("kind") == "RunForked" or is_contiguous(row.entry, row.position, after)
    return row.position if first else after + 1

"""A run's artifacts as programs and people read them: folded from the store, at any position.

What the store does not have yet the run itself tells, so that an artifact of a run at work is as
new as its journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from crewlog.definition.artifact_checks import schema_kept
from crewlog.definition.artifacts import NOTES, ArtifactDefinition
from crewlog.definition.model import CrewDefinition
from crewlog.errors import StoreIncomplete, UsageError
from crewlog.ids import ARTIFACT, ContentHash, LogName, RunId, StepId, artifact_log, is_artifact
from crewlog.model import Json, Model
from crewlog.reporting.diff.view import ArtifactStepView
from crewlog.state.artifacts import Content, apply_operations, content_before, initial_content
from crewlog.state.fold import fold
from crewlog.state.journal import ArtifactOperationsApplied, MessageRef, entry_from_json
from crewlog.state.logs import empty_log_head, heads_of
from crewlog.state.model import CrewState
from crewlog.store.journal_reader import load_state

if TYPE_CHECKING:
    from crewlog.store.protocol import Store
    from crewlog.wire import JournalPage

_PAGE = 1000
_BODIES = 500


class ArtifactView(Model):
    """An artifact at a journal position."""

    name: str
    position: int
    """The position that it is as of."""
    content: Json = None
    """What it is."""
    size: int = 0
    """Bytes of it as JSON."""
    calls: int = 0
    """Calls of tools that changed it, or tried to."""
    applied: int = 0
    """Operations that applied."""
    missed: int = 0
    """Operations that were left out."""
    left_out: tuple[str, ...] = ()
    """The last of these, each with its call and its reason."""
    valid: bool | None = None
    """Whether it keeps its schema; none where it has none."""
    faults: tuple[str, ...] = ()
    """How it does not."""


class _Reads(Protocol):
    """What is needed of a run."""

    @property
    def id(self) -> RunId: ...

    async def open_store(self) -> Store: ...

    async def position_of(self, at: int | str) -> int: ...

    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage: ...


async def artifacts_of(
    run: _Reads, names: Sequence[str] | None = None, at: int | str | None = None
) -> list[ArtifactView]:
    """A run's artifacts.

    Args:
        run: The run.
        names: Which; by default all that its crew has.
        at: A journal position, or a name of one as `position_of` takes it; by default as they are.

    Raises:
        UsageError: the crew has no such artifact, or the run no such position.
        StoreUnavailable: the store is away.
        StoreIncomplete: the store lacks a part of them.
    """
    store = await run.open_store()
    state, tails = await _state(run, store, None if at is None else await run.position_of(at))
    defined = await _defined(store, state)
    gone = [log.removeprefix(ARTIFACT) for log in state.messages if is_artifact(log)]
    known = list(dict.fromkeys([*defined, *gone]))  # a change may have taken one from the crew
    for name in names or ():
        if name not in known:
            raise UsageError(
                f"the run {run.id!r} has no artifact {name!r}",
                remedy=f"It has: {', '.join(known) or 'none'}.",
            )
    found: list[ArtifactView] = []
    # Agents' notes are theirs: they are shown where they are asked for.
    for name in names if names is not None else (k for k in known if not k.endswith(NOTES)):
        content = await _content(store, state, name, defined, tails)
        found.append(_view(name, state.position, content, defined))
    return found


async def find_artifact_steps(run: _Reads, name: str) -> list[ArtifactStepView]:
    """The steps that changed an artifact, or tried to, in the order of their first operations."""
    found: dict[StepId, ArtifactStepView] = {}
    position = 0
    while items := (await run.journal(position, _PAGE)).entries:
        for item in items:
            entry = item.data
            if entry.get("kind") != "ArtifactOperationsApplied" or entry.get("artifact") != name:
                continue
            step, count = StepId(entry["step"]), int(entry.get("count", 0))
            known = found.get(step)
            found[step] = ArtifactStepView(
                step=step,
                first=known.first if known else item.position,
                last=item.position,
                operations=count + (known.operations if known else 0),
            )
        position = items[-1].position
    return list(found.values())


def _view(name: str, position: int, content: Content, defined: _Defined) -> ArtifactView:
    kept, faults = schema_kept(defined[name], content.value) if name in defined else (None, [])
    return ArtifactView(
        name=name,
        position=position,
        content=content.value,
        size=content.size,
        calls=content.calls,
        applied=content.applied,
        missed=content.missed,
        left_out=tuple(f"{each.id} {each}" for each in content.left_out),
        valid=kept,
        faults=tuple(faults),
    )


_Defined = dict[str, ArtifactDefinition]


class _Tail(NamedTuple):
    """A log that grew where the store may not have been told."""

    heads: list[ContentHash]
    """The heads that it went on from: its own, and those that came in from other runs."""
    refs: list[tuple[int, MessageRef]]
    """What came, each with its position."""


_Tails = dict[LogName, _Tail]


async def _defined(store: Store, state: CrewState) -> _Defined:
    if not state.definition:  # a prompt, of which no crew is made yet
        return {}
    return CrewDefinition.from_json(await store.get_definition(state.definition)).every_artifact


async def _state(run: _Reads, store: Store, position: int | None) -> tuple[CrewState, _Tails]:
    """The state at a position, by default the last, and what the store may lack of the logs."""
    state, tails = await _stored(run, store, position), dict[LogName, Any]()
    while position is None or state.position < position:
        limit = _PAGE if position is None else min(_PAGE, position - state.position)
        items = (await run.journal(state.position, limit)).entries
        if not items:
            break
        if not state.position:  # a fork's journal begins after its base
            state = state.model_copy(update={"position": items[0].position - 1})
        for item in items:
            entry, before = entry_from_json(item.data), state
            state = fold(state, entry)
            if heads_of(item.data) is not None:
                tails.clear()
            if isinstance(entry, ArtifactOperationsApplied):
                tail = _tail(tails, artifact_log(entry.artifact), before)
                tail.refs.append((item.position, entry.ref))
            for join in entry.log_merges:
                _tail(tails, join.log, before).heads.append(join.two)
    if position is not None and state.position != position:
        raise UsageError(
            f"the run {run.id!r} has no position {position}",
            remedy=f"Its journal is at position {state.position}.",
        )
    return state, tails


def _tail(tails: _Tails, log: LogName, before: CrewState) -> _Tail:
    if log not in tails:
        known = before.messages.get(log)
        tails[log] = _Tail([known.head] if known else [], [])
    return tails[log]


async def _stored(run: _Reads, store: Store, position: int | None) -> CrewState:
    try:
        if position is not None:
            return await load_state(store, run.id, position)
    except StoreIncomplete:
        pass
    try:
        last = await load_state(store, run.id)
    except StoreIncomplete:
        return CrewState(run=run.id)
    return last if position is None or last.position <= position else CrewState(run=run.id)


async def _content(
    store: Store, state: CrewState, name: str, defined: _Defined, tails: _Tails
) -> Content:
    log = artifact_log(name)
    initial: Json = defined[name].initial if name in defined else {}
    at = state.messages.get(log)
    if at is None:
        return initial_content(initial)
    heads, refs = tails.get(log, _Tail([at.head], []))
    calls = {(position, ref.body) for position, ref in refs}
    for head in heads:
        links = await store.read_log(head, {empty_log_head(state.run, log)})
        calls |= {(link.position, link.body) for link in links if link.other is None}
    inline = {ref.body: ref.inline for _, ref in refs if ref.inline is not None}
    bodies = [body for _, body in sorted(calls)]
    content: Content | None = None
    for begun in range(0, len(bodies), _BODIES):
        part = bodies[begun : begun + _BODIES]
        found = inline | await store.get_bodies([b for b in part if b not in inline])
        for hash_ in part:
            body = found[hash_]
            content = apply_operations(
                content if content is not None else content_before(body, initial), body
            )
    return content if content is not None else initial_content(initial)

"""Artifacts as activities see them: folded from their logs, and remembered by how far they are.

A log grows at its end, so what is remembered of it is a content and how many links it is the fold
of; one more call is one more step. Contents share what they have in common. Nothing here is more
than a cache, and it is bounded by what the remembered contents weigh.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from langchain_core.messages import BaseMessage, ToolMessage

from crewlog.activities.caches import LruCache
from crewlog.activities.hydrator import ChainHead, Hydrator
from crewlog.authority.audiences import authorize_artifact
from crewlog.canonical_json import canonical, check_depth, hash_json, utf8_json, utf8_text
from crewlog.definition.artifact_checks import schema_kept
from crewlog.definition.audiences import Audiences
from crewlog.definition.model import CrewDefinition
from crewlog.errors import ToolFailed
from crewlog.ids import ContentHash, LogName, RunId, artifact_log
from crewlog.model import Json
from crewlog.redaction import redacted_json, redacted_text
from crewlog.state.artifacts import (
    LARGEST_CALL,
    MOST,
    OPERATIONS,
    TOLD,
    Content,
    after,
    begin,
    body_of,
    first,
    told,
)
from crewlog.state.calls import ArtifactChange, CallTool, EndRun, RefusedOperations, View
from crewlog.state.journal import Batch
from crewlog.state.logs import empty_log_head, message_of
from crewlog.store.protocol import Store
from crewlog.wire import ArtifactResult

STATES_KEPT = 16
"""Contents of one log that are remembered: calls of agents that work side by side see others."""
LOGS_KEPT = 256
"""Logs of which contents are remembered."""
BYTES_KEPT = 64 * 1024 * 1024
"""What the remembered artifacts may have in all, each counted once."""
BODIES_KEPT = 256
"""Bodies that this worker made, and will soon be asked for."""
LARGEST_SHOWN = 16 * 1024
"""Bytes of an artifact that a run's result has itself."""
_AT_ONCE = 500


class _Folded(NamedTuple):
    """A content, and the place in its log."""

    at: ChainHead
    content: Content


class Artifacts:
    """Reads artifacts.

    Args:
        store: Where the operations are.
        hydrator: The worker's memory of logs.
    """

    def __init__(self, store: Store, hydrator: Hydrator) -> None:
        self._store = store
        self._hydrator = hydrator
        self._known: OrderedDict[tuple[RunId, LogName], list[_Folded]] = OrderedDict()
        self._made: LruCache[ContentHash, Json] = LruCache(BODIES_KEPT)

    async def read(
        self,
        run: RunId,
        view: View,
        batch: Batch,
        initial: Mapping[str, Json],
        *,
        barred: Collection[LogName] = (),
    ) -> dict[str, Content]:
        """The contents of some artifacts.

        Args:
            run: The run.
            view: The logs of those that somebody has changed, each at a head.
            batch: Entries that may not have been in the store yet.
            initial: What they are before anybody changes them, by name: all that are wanted.
            barred: Logs that the agent may not read, for the reason of a refusal.

        Raises:
            LogAccessDenied: a head is that of another log than the view says, or of another run's.
            StoreUnavailable: where what is missing cannot be read now.
            StoreIncomplete: where what is missing is not in the store.
        """
        chains: dict[LogName, ChainHead] = {}
        if view.heads:
            chains = await self._hydrator.chains(run, view, batch, barred=barred)
        found: dict[str, Content] = {}
        for name, beginning in initial.items():
            log = artifact_log(name)
            if log in chains:
                found[name] = await self._content(run, log, chains[log], beginning, batch)
            else:
                found[name] = begin(beginning)
        return found

    def remember(self, hash_: ContentHash, body: Json) -> None:
        """Keeps a body that this worker just made."""
        self._made.put(hash_, body)

    async def _content(
        self, run: RunId, log: LogName, at: ChainHead, initial: Json, batch: Batch
    ) -> Content:
        known = self._known.get((run, log), [])
        # A chain is shared by all heads of a log that never forked: its beginning never changes.
        same = [each for each in known if each.at.chain is at.chain and each.at.length <= at.length]
        best = max(same, key=lambda each: each.at.length, default=None)
        content, done = (best.content, best.at.length) if best is not None else (None, 0)
        left = at.chain[done : at.length]
        for begun in range(0, len(left), _AT_ONCE):
            bodies = await self._bodies([b for _, b in left[begun : begun + _AT_ONCE]], batch)
            for body in bodies:
                content = after(content if content is not None else first(body, initial), body)
            await asyncio.sleep(0)  # a cold fold of a long log is work for a while
        if content is None:
            return begin(initial)
        if best is None or best.at.length < at.length:
            self._keep(run, log, _Folded(at, content))
        return content

    def _keep(self, run: RunId, log: LogName, folded: _Folded) -> None:
        states = self._known.setdefault((run, log), [])
        states.append(folded)
        del states[:-STATES_KEPT]
        # What contents share is not known: of a large one, fewer are kept.
        while len(states) > 2 and sum(each.content.size for each in states) > BYTES_KEPT:
            del states[0]
        self._known.move_to_end((run, log))
        while len(self._known) > 1 and (len(self._known) > LOGS_KEPT or self.weight > BYTES_KEPT):
            self._known.popitem(last=False)

    @property
    def weight(self) -> int:
        """Bytes of the remembered artifacts, each as it was last."""
        return sum(states[-1].content.size for states in self._known.values())

    async def _bodies(
        self, hashes: Sequence[ContentHash], batch: Batch
    ) -> list[Mapping[str, Json]]:
        found = {h: body for h in hashes if (body := self._made.get(h)) is not None}
        found |= _inline(batch, {h for h in hashes if h not in found})
        if missing := {h for h in hashes if h not in found}:
            found |= await self._store.get_bodies(missing)
        return [found[h] for h in hashes]


def _inline(batch: Batch, wanted: Collection[ContentHash]) -> dict[ContentHash, Json]:
    """Bodies that a batch's entries carry themselves, where the store was away."""
    refs = map(message_of, batch.entries) if wanted else ()
    return {r["body"]: r["inline"] for r in refs if "inline" in r and r["body"] in wanted}


# -- what tools return -----------------------------------------------------------------------


def operations_of(tool: str, given: Any) -> list[dict[str, Json]]:
    """A tool's operations as they are kept.

    Raises:
        InvalidOperations: they are none.
    """
    if not isinstance(given, list | tuple):
        raise _no_operations(tool, f"they are a {type(given).__name__}, and no list")
    items = cast("Sequence[Any]", given)
    if len(items) > MOST:
        raise _no_operations(tool, f"there are {len(items):,}, and {MOST:,} are the most")
    found = [_operation(tool, number, each) for number, each in enumerate(items, 1)]
    size = len(canonical(found))
    if size > LARGEST_CALL:
        raise _no_operations(tool, f"they have {size:,} bytes, and {LARGEST_CALL:,} are the most")
    return found


_KEYS = frozenset({"artifact", "op", "path", "value"})


def _operation(tool: str, number: int, given: Any) -> dict[str, Json]:
    if not isinstance(given, Mapping):
        raise _no_operations(tool, f"number {number} is a {type(given).__name__}, and no object")
    said: dict[str, Any] = {str(key): each for key, each in given.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if unknown := sorted(said.keys() - _KEYS):
        raise _no_operations(tool, f"number {number} has {', '.join(unknown)}")
    op, path, artifact = said.get("op"), said.get("path"), said.get("artifact", "")
    if op not in OPERATIONS:
        raise _no_operations(tool, f"number {number} is {op!r}, none of {', '.join(OPERATIONS)}")
    if not isinstance(path, str) or not isinstance(artifact, str):
        raise _no_operations(tool, f"number {number} has a path or an artifact that is no text")
    made: dict[str, Json] = {"op": op, "path": utf8_text(redacted_text(path))}
    if artifact:
        made["artifact"] = artifact
    if op == "remove":
        return made
    if "value" not in said:
        raise _no_operations(tool, f"number {number} has no value")
    try:
        # There and back: a tuple becomes the list, and a number the key, that it will be anyhow.
        plain = json.loads(json.dumps(utf8_json(said["value"]), allow_nan=False))
        check_depth(plain)
        made["value"] = redacted_json(plain)
    except (TypeError, ValueError, RecursionError) as exc:
        raise _no_operations(tool, f"the value of number {number} is not JSON ({exc})") from exc
    return made


class InvalidOperations(ToolFailed):
    """What a tool returned is no operations. It did run: the model is told, nothing is retried."""


def _no_operations(tool: str, why: str) -> InvalidOperations:
    return InvalidOperations(
        f"the tool {tool!r} ran, but its operations cannot be taken: {why}",
        remedy="An operation is {artifact, op, path, value}; see crewlog.operations.",
    )


def operations_by_artifact(
    task: CallTool,
    crew: CrewDefinition,
    operations: Iterable[Mapping[str, Json]],
    seen: Mapping[str, Content],
) -> tuple[ArtifactChange, ...]:
    """What a call's operations do, artifact by artifact, tried on what the agent sees.

    Args:
        task: The call.
        crew: The crew.
        operations: As `operations_of` makes them.
        seen: The artifacts that the agent sees, as of the call's view.

    Raises:
        InvalidOperations: one does not say which artifact, and the crew does not have just one.
    """
    only = next(iter(crew.artifacts)) if len(crew.artifacts) == 1 else ""
    by_artifact: dict[str, list[dict[str, Json]]] = {}
    for each in operations:
        named = str(each.get("artifact", "")) or only
        if not named:
            why = (
                f"there are the artifacts {', '.join(crew.artifacts) or 'none'}, and it names none"
            )
            raise _no_operations(task.tool, why)
        inner = {key: value for key, value in each.items() if key != "artifact"}
        by_artifact.setdefault(named, []).append(inner)
    return tuple(
        _change(task, crew, name, found, seen.get(name)) for name, found in by_artifact.items()
    )


def _change(
    task: CallTool,
    crew: CrewDefinition,
    name: str,
    operations: Sequence[Mapping[str, Json]],
    content: Content | None,
) -> ArtifactChange:
    log = artifact_log(name)
    head = task.view.heads.get(log)
    # Who does not see the artifact does not know whether anybody has changed it.
    said = crew.every_artifact.get(name)
    initial = said.initial if head is None and said is not None else None
    id_ = f"{task.step}/{task.call}"
    body = body_of(id_, task.agent, operations, initial)
    change = ArtifactChange(
        artifact=name, body=hash_json(body), content=body, count=len(operations)
    )
    if content is None:
        return change
    tried = after(content, body)
    missed = tried.of(id_)
    return change.model_copy(
        update={
            "base": head or empty_log_head(task.run, log),
            "refused": tried.missed - content.missed,
            "reasons": told(missed),
        }
    )


def denied(crew: CrewDefinition, agent: str, changes: Iterable[ArtifactChange]) -> list[str]:
    """Why an agent may not change some of the artifacts; the run asks it again, and audits it."""
    audiences, every = Audiences(crew), crew.every_artifact
    decisions = (
        authorize_artifact(
            "change",
            agent,
            each.artifact,
            audiences.artifact_writers(each.artifact) if each.artifact in every else (),
            known=each.artifact in every,
        )
        for each in changes
    )
    return [decision.reason for decision in decisions if not decision.allowed]


async def built(
    artifacts: Artifacts, crew: CrewDefinition, closing: EndRun, batch: Batch
) -> dict[str, dict[str, Json]]:
    """What a run has built when it ends, as `crewlog.wire.ArtifactResult` spells it.

    Args:
        artifacts: Reads them.
        crew: The crew.
        closing: The end, with the last state.
        batch: The end's batch, whole.
    """
    if not crew.artifacts:
        return {}
    logs: Mapping[str, Any] = closing.state.get("messages", {})
    heads = {
        log: ContentHash(logs[log]["head"])
        for log in map(artifact_log, crew.artifacts)
        if log in logs
    }
    initial = {name: said.initial for name, said in crew.artifacts.items()}
    found = await artifacts.read(closing.run, View(heads=heads), batch, initial)
    return {name: _result(crew, name, content).to_json() for name, content in found.items()}


def _result(crew: CrewDefinition, name: str, content: Content) -> ArtifactResult:
    kept, faults = schema_kept(crew.artifacts[name], content.value)
    return ArtifactResult(
        content=content.value if content.size <= LARGEST_SHOWN else None,
        size=content.size,
        calls=content.calls,
        applied=content.applied,
        missed=content.missed,
        valid=kept,
        faults=tuple(faults),
    )


# -- what models are told --------------------------------------------------------------------


def with_refused_operations(
    messages: list[BaseMessage], seen: Mapping[str, Content]
) -> list[BaseMessage]:
    """An agent's messages, in which its tools' answers tell which operations were left out.

    It is told from the fold, each time anew: when a tool answers, nobody knows yet what other calls
    of the turn come before.
    """
    said: dict[str, list[str]] = {}
    for name, content in seen.items():
        for id_ in dict.fromkeys(each.id for each in content.left_out):
            missed = content.of(id_)
            lines = [f"Left out of the artifact {name!r}:", *(f"- {x}" for x in told(missed))]
            lines += [f"- and {len(missed) - TOLD} more"] if len(missed) > TOLD else []
            said.setdefault(id_, []).append("\n".join(lines))
    if not said:
        return messages
    return [
        with_text(each, "\n\n".join(said[each.id]))
        if isinstance(each, ToolMessage) and each.id in said
        else each
        for each in messages
    ]


def with_text(message: ToolMessage, text: str) -> ToolMessage:
    """A tool's answer with something more to say."""
    content: Any = message.content
    more = f"{content}\n\n{text}" if isinstance(content, str) else [*content, _block(text)]
    return message.model_copy(update={"content": more})


def _block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def settled(
    step: str, calls: Iterable[int], seen: Mapping[str, Content]
) -> tuple[RefusedOperations, ...]:
    """What became of operations that others came before: of calls of a step, what was left out."""
    return tuple(
        RefusedOperations(call=call, artifact=name, refused=len(missed), reasons=told(missed))
        for call in calls
        for name, content in seen.items()
        if (missed := content.of(f"{step}/{call}"))
    )

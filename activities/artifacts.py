"""Artifacts: their contents, folded from their logs and cached by the length of the log.

A log grows at its end, so a cached content is extended by the operations after it. Contents share
their equal parts. The size of the cache is limited.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from cachetools import LRUCache
from langchain_core.messages import BaseMessage, ToolMessage

from crewlog.activities.batches import read_bodies
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
    MAX_CALL_BYTES,
    MAX_OPERATIONS,
    OPERATIONS,
    REASONS_KEPT,
    Content,
    apply_operations,
    content_before,
    initial_content,
    operations_body,
    skip_reasons,
)
from crewlog.state.calls import ArtifactChange, CallTool, EndRun, RefusedOperations, View
from crewlog.state.journal import Batch
from crewlog.state.logs import empty_log_head
from crewlog.store.protocol import Store
from crewlog.wire import ArtifactResult

MOST_CONTENTS = 16
"""The most cached contents of one log: parallel agents see different ones."""
MOST_LOGS = 256
"""The most logs with cached contents."""
MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of the cached artifacts, each counted once."""
LARGEST_IN_RESULT = 16 * 1024
"""The most bytes of an artifact whose content is in the result of the run."""
_PAGE = 500


class _FoldedContent(NamedTuple):
    """A content, and the head of the log that it is folded from."""

    at: ChainHead
    content: Content


class Artifacts:
    """Reads artifacts.

    Args:
        store: Where the operations are.
        hydrator: The worker's cache of logs.
    """

    def __init__(self, store: Store, hydrator: Hydrator) -> None:
        self._store = store
        self._hydrator = hydrator
        self._contents: LRUCache[tuple[RunId, LogName], list[_FoldedContent]] = LRUCache(
            MOST_BYTES, lambda states: max(states[-1].content.size, MOST_BYTES // MOST_LOGS)
        )

    async def read(
        self,
        run: RunId,
        view: View,
        batch: Batch,
        initial: Mapping[str, Json],
        *,
        unreadable_logs: Collection[LogName] = (),
    ) -> dict[str, Content]:
        """Returns the contents of artifacts, by name.

        Args:
            run: The run.
            view: The logs of the artifacts that were changed, each at a head.
            batch: Entries that the store may not have yet.
            initial: The initial values of the artifacts to read, by name.
            unreadable_logs: Logs that the agent may not read, for the reason of a refusal.

        Raises:
            LogAccessDenied: a head is that of another log than the view says, or of another run's.
            StoreUnavailable: the store does not answer.
            StoreIncomplete: the store lacks a row.
        """
        chains: dict[LogName, ChainHead] = {}
        if view.heads:
            chains = await self._hydrator.read_chains(
                run, view, batch, unreadable_logs=unreadable_logs
            )
        contents: dict[str, Content] = {}
        for name, value in initial.items():
            log = artifact_log(name)
            if log in chains:
                contents[name] = await self._content(run, log, chains[log], value, batch)
            else:
                contents[name] = initial_content(value)
        return contents

    async def _content(
        self, run: RunId, log: LogName, at: ChainHead, initial: Json, batch: Batch
    ) -> Content:
        cached = self._contents.get((run, log), [])
        # All heads of a log that was never forked share a chain, whose links never change.
        same = [c for c in cached if c.at.chain is at.chain and c.at.length <= at.length]
        best = max(same, key=lambda each: each.at.length, default=None)
        content, done = (best.content, best.at.length) if best is not None else (None, 0)
        left = at.chain[done : at.length]
        for start in range(0, len(left), _PAGE):
            hashes = [hash_ for _, hash_ in left[start : start + _PAGE]]
            bodies = await read_bodies(self._store, batch, hashes)
            for body in map(bodies.__getitem__, hashes):
                content = apply_operations(
                    content if content is not None else content_before(body, initial), body
                )
            await asyncio.sleep(0)  # folding a long log takes a while
        if content is None:
            return initial_content(initial)
        if best is None or best.at.length < at.length:
            self._cache_content(run, log, _FoldedContent(at, content))
        return content

    def _cache_content(self, run: RunId, log: LogName, folded: _FoldedContent) -> None:
        states = [*self._contents.get((run, log), ()), folded][-MOST_CONTENTS:]
        # How much the contents share is not known, so fewer large ones are cached.
        while len(states) > 2 and sum(each.content.size for each in states) > MOST_BYTES:
            del states[0]
        self._contents[run, log] = states


# -- operations of tools ---------------------------------------------------------------------


def parse_operations(tool: str, value: Any) -> list[dict[str, Json]]:
    """Returns the operations that a tool returned, in the form in which they are stored.

    Raises:
        InvalidOperations: they are invalid.
    """
    if not isinstance(value, list | tuple):
        raise _invalid_operations(tool, f"they are a {type(value).__name__}, not a list")
    items = cast("Sequence[Any]", value)
    if len(items) > MAX_OPERATIONS:
        raise _invalid_operations(tool, f"there are {len(items):,}, more than {MAX_OPERATIONS:,}")
    operations: list[dict[str, Json]] = []
    for number, each in enumerate(items, 1):
        try:
            operations.append(_parse_operation(each))
        except (TypeError, ValueError) as exc:
            raise _invalid_operations(tool, f"number {number} {exc}") from exc
    size = len(canonical(operations))
    if size > MAX_CALL_BYTES:
        raise _invalid_operations(tool, f"they have {size:,} bytes, more than {MAX_CALL_BYTES:,}")
    return operations


_KEYS = frozenset({"artifact", "op", "path", "value"})


def _parse_operation(value: Any) -> dict[str, Json]:
    if not isinstance(value, Mapping):
        raise TypeError(f"is a {type(value).__name__}, not an object")
    fields: dict[str, Any] = {str(key): each for key, each in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if unknown := sorted(fields.keys() - _KEYS):
        raise ValueError(f"has unknown keys: {', '.join(unknown)}")
    op, path, artifact = fields.get("op"), fields.get("path"), fields.get("artifact", "")
    if op not in OPERATIONS:
        raise ValueError(f"is {op!r}, none of {', '.join(OPERATIONS)}")
    if not isinstance(path, str) or not isinstance(artifact, str):
        raise TypeError("has a path or an artifact that is not a text")
    operation: dict[str, Json] = {"op": op, "path": utf8_text(redacted_text(path))}
    if artifact:
        operation["artifact"] = artifact
    if op == "remove":
        return operation
    if "value" not in fields:
        raise ValueError("has no value")
    try:
        # To JSON and back: a tuple becomes a list, and a number as a key becomes a text.
        plain = json.loads(json.dumps(utf8_json(fields["value"]), allow_nan=False))
        check_depth(plain)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ValueError(f"has a value that is not JSON ({exc})") from exc
    return {**operation, "value": redacted_json(plain)}


class InvalidOperations(ToolFailed):
    """A tool ran, but returned invalid operations: the model gets the error, without a retry."""


def _invalid_operations(tool: str, why: str) -> InvalidOperations:
    return InvalidOperations(
        f"the tool {tool!r} ran, but its operations are invalid: {why}",
        remedy="An operation is {artifact, op, path, value}; see crewlog.operations.",
    )


def build_artifact_changes(
    task: CallTool,
    crew: CrewDefinition,
    operations: Iterable[Mapping[str, Json]],
    seen: Mapping[str, Content],
) -> tuple[ArtifactChange, ...]:
    """Returns the changes of a call's operations, tried on the artifacts that the agent sees.

    Args:
        task: The call.
        crew: The crew.
        operations: Operations from `parse_operations`.
        seen: The artifacts that the agent sees, as of the call's view.

    Raises:
        InvalidOperations: one names no artifact, and the crew does not have exactly one.
    """
    only = next(iter(crew.artifacts)) if len(crew.artifacts) == 1 else ""
    by_artifact: dict[str, list[dict[str, Json]]] = {}
    for each in operations:
        named = str(each.get("artifact", "")) or only
        if not named:
            why = (
                f"there are the artifacts {', '.join(crew.artifacts) or 'none'}, and it names none"
            )
            raise _invalid_operations(task.tool, why)
        inner = {key: value for key, value in each.items() if key != "artifact"}
        by_artifact.setdefault(named, []).append(inner)
    return tuple(
        _build_change(task, crew, name, each, seen.get(name)) for name, each in by_artifact.items()
    )


def _build_change(
    task: CallTool,
    crew: CrewDefinition,
    name: str,
    operations: Sequence[Mapping[str, Json]],
    content: Content | None,
) -> ArtifactChange:
    log = artifact_log(name)
    head = task.view.heads.get(log)
    # An agent that does not see the artifact cannot know whether it was changed.
    definition = crew.every_artifact.get(name)
    initial = definition.initial if head is None and definition is not None else None
    id_ = f"{task.step}/{task.call}"
    body = operations_body(id_, task.agent, operations, initial)
    change = ArtifactChange(
        artifact=name, body=hash_json(body), content=body, count=len(operations)
    )
    if content is None:
        return change
    tried = apply_operations(content, body)
    missed = tried.of(id_)
    return change.model_copy(
        update={
            "base": head or empty_log_head(task.run, log),
            "refused": tried.missed - content.missed,
            "reasons": skip_reasons(missed),
        }
    )


def find_denials(crew: CrewDefinition, agent: str, changes: Iterable[ArtifactChange]) -> list[str]:
    """Returns why an agent may not make some changes. The run checks and records it again."""
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


async def read_artifact_results(
    artifacts: Artifacts, crew: CrewDefinition, end: EndRun, batch: Batch
) -> dict[str, dict[str, Json]]:
    """Returns the artifacts of a run that ends, each as `crewlog.wire.ArtifactResult`.

    Args:
        artifacts: Reads artifacts.
        crew: The crew.
        end: The end, with the last state.
        batch: The complete batch of the end.
    """
    if not crew.artifacts:
        return {}
    logs: Mapping[str, Any] = end.state.get("messages", {})
    heads = {
        log: ContentHash(logs[log]["head"])
        for log in map(artifact_log, crew.artifacts)
        if log in logs
    }
    initial = {name: each.initial for name, each in crew.artifacts.items()}
    contents = await artifacts.read(end.run, View(heads=heads), batch, initial)
    return {name: _result(crew, name, content).to_json() for name, content in contents.items()}


def _result(crew: CrewDefinition, name: str, content: Content) -> ArtifactResult:
    kept, faults = schema_kept(crew.artifacts[name], content.value)
    return ArtifactResult(
        content=content.value if content.size <= LARGEST_IN_RESULT else None,
        size=content.size,
        calls=content.calls,
        applied=content.applied,
        missed=content.missed,
        valid=kept,
        faults=tuple(faults),
    )


# -- texts for models ------------------------------------------------------------------------


def with_refused_operations(
    messages: list[BaseMessage], seen: Mapping[str, Content]
) -> list[BaseMessage]:
    """Returns an agent's messages, whose tool messages name the refused operations.

    The texts come from the fold each time: when a tool returns, it is not known yet which other
    calls of the turn are applied before it.
    """
    texts: dict[str, list[str]] = {}
    for name, content in seen.items():
        for id_ in dict.fromkeys(each.id for each in content.left_out):
            missed = content.of(id_)
            lines = [
                f"Left out of the artifact {name!r}:",
                *(f"- {x}" for x in skip_reasons(missed)),
            ]
            lines += (
                [f"- and {len(missed) - REASONS_KEPT} more"] if len(missed) > REASONS_KEPT else []
            )
            texts.setdefault(id_, []).append("\n".join(lines))
    if not texts:
        return messages
    return [
        with_text(each, "\n\n".join(texts[each.id]))
        if isinstance(each, ToolMessage) and each.id in texts
        else each
        for each in messages
    ]


def with_text(message: ToolMessage, text: str) -> ToolMessage:
    """Returns a tool message with more text."""
    content: Any = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": f"{content}\n\n{text}"})
    block = {"type": "text", "text": text}
    return message.model_copy(update={"content": [*content, block]})


def find_refused_operations(
    step: str, calls: Iterable[int], seen: Mapping[str, Content]
) -> tuple[RefusedOperations, ...]:
    """Returns the operations of a step's calls that were refused after those of other agents."""
    return tuple(
        RefusedOperations(
            call=call, artifact=name, refused=len(missed), reasons=skip_reasons(missed)
        )
        for call in calls
        for name, content in seen.items()
        if (missed := content.of(f"{step}/{call}"))
    )

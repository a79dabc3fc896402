"""Packs batches for the inputs of activities: entries without what the history has elsewhere.

Each entry is in the history once, in the input of the next activity, and these bytes are the cost
of a step. Packed entries leave out the time if it is that of the entry before, what follows from
the step, the metadata of their message, whose body is in the history as the result of the call, and
the logs of the message if they are the usual ones.
`unpack` is the exact inverse. Entries of rare kinds are not packed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, get_args

from crewlog.ids import (
    PUBLIC,
    ContentHash,
    LogName,
    RunId,
    StepId,
    child_step_id,
    node_of,
    private_log,
)
from crewlog.model import Json
from crewlog.state.body_metadata import usage_with_metadata, usage_without_metadata
from crewlog.state.calls import View
from crewlog.state.journal import Batch, JournalEntry
from crewlog.state.logs import heads_after_batch
from crewlog.state.model import Call

Entry = dict[str, Json]
BodyMetadata = Mapping[ContentHash, Mapping[str, Json]]
"""Metadata by body hash; see `crewlog.state.body_metadata`."""
_AFTER = ContentHash("")
"""In a view: the head that the log has after the batch."""
_ORDER: Mapping[str, tuple[str, ...]] = {
    model.__name__: ("kind", *(name for name in model.model_fields if name != "kind"))
    for model in get_args(get_args(JournalEntry)[0])
}
"""The order of keys in `entry_to_json`, by kind: stored rows are compared."""
_CONTINUES: Mapping[str, Collection[str]] = {
    "AgentsWoken": ("MessageAdded",),
    "ArtifactOperationsApplied": ("ToolCallCompleted",),
    "ExchangeStarted": ("MessageAdded",),
    "NodesReached": ("StepCompleted", "ExchangeStarted"),
    "OutputSet": ("StructuredOutputParsed", "OutputSet", "ToolCallCompleted"),
    "StepCompleted": ("ModelCallCompleted", "ToolCallCompleted", "OutputSet", "RunOutputSet"),
    "StructuredOutputParsed": ("ModelCallCompleted",),
    "ToolCallCompleted": ("ToolCallCompleted",),
}
"""The kinds that mostly continue a transaction, each with the kinds before it."""
_WITH_BODY = ("ModelCallCompleted", "ToolCallCompleted")


def pack(batch: Batch, metadata: BodyMetadata) -> Batch:
    """The batch, packed.

    Args:
        batch: A batch that is not packed.
        metadata: The metadata of the bodies that can be read where the batch is unpacked.
    """
    if not batch.entries:
        return batch
    at = int(batch.entries[0].get("at", 0))
    context = _PackingContext(at)
    entries = tuple(
        context.packed(position, entry, metadata)
        for position, entry in zip(batch.positions(), batch.entries, strict=True)
    )
    return batch.model_copy(update={"at": at, "entries": entries})


def unpack(batch: Batch, metadata: BodyMetadata) -> Batch:
    """The batch, unpacked; one that is not packed stays as it is.

    Args:
        batch: The batch.
        metadata: The metadata of the bodies that `required_bodies` lists.
    """
    if batch.at is None:
        return batch
    context = _PackingContext(batch.at)
    entries = tuple(
        context.whole(position, entry, metadata)
        for position, entry in zip(batch.positions(), batch.entries, strict=True)
    )
    return batch.model_copy(update={"at": None, "entries": entries})


def required_bodies(batch: Batch) -> Iterator[ContentHash]:
    """The bodies that are required to unpack a batch."""
    if batch.at is not None:
        for entry in batch.entries:
            if _is_packed(entry):
                yield entry["ref"]["body"]


def pack_view(view: View, logs: Collection[LogName]) -> View:
    """The view without the heads of the logs that the batch with it extends."""
    heads = {log: _AFTER if log in logs else h for log, h in view.heads.items()}
    return view.model_copy(update={"heads": heads})


def unpack_view(view: View, run: RunId, batch: Batch) -> View:
    """The view with all heads.

    Args:
        view: The view.
        run: The run.
        batch: The batch that came with it, unpacked.
    """
    if _AFTER not in view.heads.values():
        return view
    after = heads_after_batch(run, batch.heads, batch)
    heads = {log: head or after[log] for log, head in view.heads.items()}
    return view.model_copy(update={"heads": heads})


def _is_packed(entry: Entry) -> bool:
    return entry["kind"] in _WITH_BODY and "step" not in entry


class _PackingContext:
    """The time and the step of the entries so far."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.step = ""
        self.kind = ""
        self.transaction = 0

    def packed(self, position: int, entry: Entry, metadata: BodyMetadata) -> Entry:
        packed_entry = dict(entry)
        _leave_out(packed_entry, "at", self.at, 0)
        expected = self.transaction if self.kind in _CONTINUES.get(entry["kind"], ()) else 0
        if expected or "transaction" in entry:
            _leave_out(packed_entry, "transaction", expected, 0)
        match entry["kind"]:
            case "ModelCallCompleted" | "ToolCallCompleted":
                ref = entry["ref"]
                if "inline" not in ref and (body_metadata := metadata.get(ref["body"])):
                    packed_entry = _without_metadata(packed_entry, body_metadata)
            case "StepCompleted":
                _leave_out(packed_entry, "step", self.step)
            case "StepStarted":
                _leave_out(packed_entry, "agent", node_of(entry["step"]))
                _pack_child_step(packed_entry)
            case "NodesReached":
                to: list[Entry] = packed_entry.pop("to", [])
                _leave_out(packed_entry, "source", self._node())
                _leave_out(packed_entry, "arrived", [reached["node"] for reached in to])
                packed_entry["to"] = [r["node"] if len(r) == 1 else r for r in to]
            case _:
                pass
        self._advance(position, entry)
        return packed_entry

    def whole(self, position: int, packed: Entry, metadata: BodyMetadata) -> Entry:
        entry: Entry = dict(packed)
        entry["at"] = packed.get("at", self.at)
        expected = self.transaction if self.kind in _CONTINUES.get(packed["kind"], ()) else 0
        if expected or "transaction" in packed:
            _restore(entry, "transaction", expected)
        match packed["kind"]:
            case "ModelCallCompleted" | "ToolCallCompleted":
                if _is_packed(packed):
                    entry = _with_metadata(entry, metadata[packed["ref"]["body"]])
            case "StepCompleted":
                entry.setdefault("step", self.step)
            case "StepStarted":
                _unpack_child_step(entry)
                _restore(entry, "agent", node_of(entry["step"]))
            case "NodesReached":
                to: list[Any] = packed["to"]
                entry["to"] = [{"node": r} if isinstance(r, str) else r for r in to]
                _restore(entry, "source", self._node())
                _restore(entry, "arrived", [reached["node"] for reached in entry["to"]])
                if not entry["to"]:
                    del entry["to"]
            case _:
                pass
        self._advance(position, entry)
        if not entry["at"]:
            del entry["at"]
        return {key: entry[key] for key in _ORDER[entry["kind"]] if key in entry}

    def _node(self) -> str:
        return node_of(StepId(self.step)) if self.step else ""

    def _advance(self, position: int, entry: Entry) -> None:
        self.at = entry.get("at", 0)
        self.kind = entry["kind"]
        self.transaction = entry.get("transaction", position)
        self.step = entry.get("step", self.step)


def _pack_child_step(entry: Entry) -> None:
    """Replaces the id of a child step, which follows from its parent and item, by these two."""
    if "parent" in entry and entry["step"] == child_step_id(entry["parent"], entry["item"]):
        entry["step"] = [entry.pop("parent"), entry.pop("item")]


def _unpack_child_step(entry: Entry) -> None:
    """Undoes `_pack_child_step`."""
    packed: str | tuple[StepId, int] = entry["step"]
    if not isinstance(packed, str):
        entry["parent"], entry["item"] = parent, item = packed
        entry["step"] = child_step_id(parent, item)


def _leave_out(entry: Entry, key: str, expected: Json, default: Json = None) -> None:
    """Leaves out a value that is as expected; writes a default that is not."""
    if entry.get(key, default) == expected:
        entry.pop(key, None)
    else:
        entry.setdefault(key, default)


def _restore(entry: Entry, key: str, expected: Json) -> None:
    """Undoes `_leave_out`."""
    if key not in entry:
        entry[key] = expected
    if not entry[key]:
        del entry[key]


def _without_metadata(entry: Entry, metadata: Mapping[str, Json]) -> Entry:
    """The entry without the metadata of its body; as it is, if they differ."""
    expected = _expected(entry, metadata)
    packed = {key: value for key, value in entry.items() if expected.get(key) != value}
    if "calls" in entry and "calls" not in packed:
        packed["calls"] = entry["calls"][0]["call"]
    if "usage" in metadata and entry.get("usage", {}) != metadata["usage"]:
        packed["usage"] = usage_without_metadata(entry.get("usage", {}), metadata["usage"])
    if "agent" in packed:
        _leave_out(packed, "agent", node_of(StepId(str(metadata["step"]))))
    if entry["ref"]["logs"] == _usual_logs(entry):
        packed["ref"] = {key: value for key, value in entry["ref"].items() if key != "logs"}
    return packed if "step" not in packed and _with_metadata(packed, metadata) == entry else entry


def _with_metadata(packed: Entry, metadata: Mapping[str, Json]) -> Entry:
    entry = {**_expected(packed, metadata), **packed}
    if "calls" in metadata and isinstance(packed.get("calls"), int):
        entry["calls"] = _numbered_calls(metadata["calls"], packed["calls"], packed["ref"]["body"])
    if "usage" in metadata and "usage" in packed:
        entry["usage"] = usage_with_metadata(packed["usage"], metadata["usage"])
        if not entry["usage"]:
            del entry["usage"]
    if "agent" not in entry:
        entry["agent"] = node_of(entry["step"])
    if "logs" not in entry["ref"]:
        entry["ref"] = {**entry["ref"], "logs": _usual_logs(entry)}
    return entry


def _usual_logs(entry: Entry) -> list[LogName]:
    """The logs of most messages: calls of tools and their results are private, texts are public."""
    is_text = entry["kind"] == "ModelCallCompleted" and not entry.get("calls")
    return [PUBLIC if is_text else private_log(entry["agent"])]


def _expected(entry: Entry, metadata: Mapping[str, Json]) -> Entry:
    expected = dict(metadata)
    tool_calls = expected.pop("calls", None)
    calls: Any = entry.get("calls")
    if tool_calls and not isinstance(calls, int | None):
        first: int = calls[0].get("call", 0)
        expected["calls"] = _numbered_calls(tool_calls, first, entry["ref"]["body"])
    return expected


def _numbered_calls(
    tool_calls: Iterable[Mapping[str, Json]], first: int, message: str
) -> list[Entry]:
    """The calls of an entry: `tool_calls` with their numbers and their message."""
    calls: list[Entry] = []
    for n, call_ in enumerate(tool_calls, first):
        call = {"call": n, **call_, "message": message}
        calls.append({key: call[key] for key in Call.model_fields if key in call})
    return calls

"""Batches of journal entries as activities' inputs carry them: without what is told elsewhere.

Every entry travels through the history once, in the input of the next activity, and these bytes
are what a step costs. So entries are packed on the way: they leave out the time of the entry
before, what follows from the step, and what the body of their message tells, which is in the
history already, as the result of the call that made it. `unpack` is the exact inverse.

Entries of the rare kinds travel whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, get_args

from crewlog.ids import ContentHash, RunId, StepId, child_step_id, node_of
from crewlog.model import Json
from crewlog.state.body_metadata import usage_with_metadata, usage_without_metadata
from crewlog.state.calls import View
from crewlog.state.journal import Batch, JournalEntry
from crewlog.state.logs import extended_logs, heads_after_batch
from crewlog.state.model import Call

Entry = dict[str, Json]
Told = Mapping[ContentHash, Mapping[str, Json]]
"""What bodies tell, by their hash; see `crewlog.state.body_metadata`."""
_AFTER = ContentHash("")
"""In a view: the head that the log has after the batch."""
_ORDER: Mapping[str, tuple[str, ...]] = {
    model.__name__: ("kind", *(name for name in model.model_fields if name != "kind"))
    for model in get_args(get_args(JournalEntry)[0])
}
"""The keys of each kind's entries as `entry_to_json` orders them: stored rows are compared."""
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
"""The kinds that mostly continue a transaction, each with those that they follow then."""
_WITH_BODY = ("ModelCallCompleted", "ToolCallCompleted")


def pack(batch: Batch, told: Told) -> Batch:
    """The batch, packed.

    Args:
        batch: Whole entries.
        told: What is known of bodies that whoever unpacks can read.
    """
    if not batch.entries:
        return batch
    at = int(batch.entries[0].get("at", 0))
    context = _Context(at)
    entries = tuple(
        context.packed(position, entry, told)
        for position, entry in zip(batch.positions(), batch.entries, strict=True)
    )
    return batch.model_copy(update={"at": at, "entries": entries})


def unpack(batch: Batch, told: Told) -> Batch:
    """The batch with whole entries; one that is whole already stays as it is.

    Args:
        batch: The batch.
        told: What the bodies tell that `needed` names.
    """
    if batch.at is None:
        return batch
    context = _Context(batch.at)
    entries = tuple(
        context.whole(position, entry, told)
        for position, entry in zip(batch.positions(), batch.entries, strict=True)
    )
    return batch.model_copy(update={"at": None, "entries": entries})


def needed(batch: Batch) -> Iterator[ContentHash]:
    """The bodies without which a batch cannot be unpacked."""
    if batch.at is not None:
        for entry in batch.entries:
            if _is_packed(entry):
                yield entry["ref"]["body"]


def pack_view(view: View, batch: Batch) -> View:
    """The view without the heads that follow from the batch."""
    logs = extended_logs(batch)
    heads = {log: _AFTER if log in logs else h for log, h in view.heads.items()}
    return view.model_copy(update={"heads": heads})


def unpack_view(view: View, run: RunId, batch: Batch) -> View:
    """The view with all heads.

    Args:
        view: The view.
        run: The run.
        batch: The batch that came with it, whole.
    """
    if _AFTER not in view.heads.values():
        return view
    after = heads_after_batch(run, batch.heads, batch)
    heads = {log: head or after[log] for log, head in view.heads.items()}
    return view.model_copy(update={"heads": heads})


def _is_packed(entry: Entry) -> bool:
    return entry["kind"] in _WITH_BODY and "step" not in entry


class _Context:
    """What the entries before one said."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.step = ""
        self.kind = ""
        self.transaction = 0

    def packed(self, position: int, entry: Entry, told: Told) -> Entry:
        short = dict(entry)
        _leave_out(short, "at", self.at, 0)
        expected = self.transaction if self.kind in _CONTINUES.get(entry["kind"], ()) else 0
        if expected or "transaction" in entry:
            _leave_out(short, "transaction", expected, 0)
        match entry["kind"]:
            case "ModelCallCompleted" | "ToolCallCompleted":
                ref = entry["ref"]
                if "inline" not in ref and (known := told.get(ref["body"])):
                    short = _without_metadata(short, known)
            case "StepCompleted":
                _leave_out(short, "step", self.step)
            case "StepStarted":
                _leave_out(short, "agent", node_of(entry["step"]))
                _pack_child_step(short)
            case "NodesReached":
                to: list[Entry] = short.pop("to", [])
                _leave_out(short, "source", self._node())
                _leave_out(short, "arrived", [reached["node"] for reached in to])
                short["to"] = [r["node"] if len(r) == 1 else r for r in to]
            case _:
                pass
        self._remember(position, entry)
        return short

    def whole(self, position: int, short: Entry, told: Told) -> Entry:
        entry: Entry = dict(short)
        entry["at"] = short.get("at", self.at)
        expected = self.transaction if self.kind in _CONTINUES.get(short["kind"], ()) else 0
        if expected or "transaction" in short:
            _put_back(entry, "transaction", expected)
        match short["kind"]:
            case "ModelCallCompleted" | "ToolCallCompleted":
                if _is_packed(short):
                    entry = _with_metadata(entry, told[short["ref"]["body"]])
            case "StepCompleted":
                entry.setdefault("step", self.step)
            case "StepStarted":
                _unpack_child_step(entry)
                _put_back(entry, "agent", node_of(entry["step"]))
            case "NodesReached":
                to: list[Any] = short["to"]
                entry["to"] = [{"node": r} if isinstance(r, str) else r for r in to]
                _put_back(entry, "source", self._node())
                _put_back(entry, "arrived", [reached["node"] for reached in entry["to"]])
                if not entry["to"]:
                    del entry["to"]
            case _:
                pass
        self._remember(position, entry)
        if not entry["at"]:
            del entry["at"]
        return {key: entry[key] for key in _ORDER[entry["kind"]] if key in entry}

    def _node(self) -> str:
        return node_of(StepId(self.step)) if self.step else ""

    def _remember(self, position: int, entry: Entry) -> None:
        self.at = entry.get("at", 0)
        self.kind = entry["kind"]
        self.transaction = entry.get("transaction", position)
        self.step = entry.get("step", self.step)


def _pack_child_step(entry: Entry) -> None:
    """Replaces the id of a child step, which its parent and its item say, by these two."""
    if "parent" in entry and entry["step"] == child_step_id(entry["parent"], entry["item"]):
        entry["step"] = [entry.pop("parent"), entry.pop("item")]


def _unpack_child_step(entry: Entry) -> None:
    """Undoes `_pack_child_step`."""
    packed: str | tuple[StepId, int] = entry["step"]
    if not isinstance(packed, str):
        entry["parent"], entry["item"] = parent, item = packed
        entry["step"] = child_step_id(parent, item)


def _leave_out(entry: Entry, key: str, expected: Json, default: Json = None) -> None:
    """Leaves out what is as expected; what is not there at all is said to be so."""
    if entry.get(key, default) == expected:
        entry.pop(key, None)
    else:
        entry.setdefault(key, default)


def _put_back(entry: Entry, key: str, expected: Json) -> None:
    """Undoes `_leave_out`."""
    if key not in entry:
        entry[key] = expected
    if not entry[key]:
        del entry[key]


def _without_metadata(entry: Entry, known: Mapping[str, Json]) -> Entry:
    """The entry without what its body tells; as it is, where they disagree."""
    expected = _expected(entry, known)
    short = {key: value for key, value in entry.items() if expected.get(key) != value}
    if "calls" in entry and "calls" not in short:
        short["calls"] = entry["calls"][0]["call"]
    if "usage" in known and entry.get("usage", {}) != known["usage"]:
        short["usage"] = usage_without_metadata(entry.get("usage", {}), known["usage"])
    if "agent" in short:
        _leave_out(short, "agent", node_of(StepId(str(known["step"]))))
    return short if "step" not in short and _with_metadata(short, known) == entry else entry


def _with_metadata(short: Entry, known: Mapping[str, Json]) -> Entry:
    entry = {**_expected(short, known), **short}
    if "calls" in known and isinstance(short.get("calls"), int):
        entry["calls"] = _numbered_calls(known["calls"], short["calls"], short["ref"]["body"])
    if "usage" in known and "usage" in short:
        entry["usage"] = usage_with_metadata(short["usage"], known["usage"])
        if not entry["usage"]:
            del entry["usage"]
    if "agent" not in entry:
        entry["agent"] = node_of(entry["step"])
    return entry


def _expected(entry: Entry, known: Mapping[str, Json]) -> Entry:
    found = dict(known)
    asked = found.pop("calls", None)
    calls: Any = entry.get("calls")
    if asked and isinstance(calls, list):
        found["calls"] = _numbered_calls(asked, calls[0].get("call", 0), entry["ref"]["body"])  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return found


def _numbered_calls(asked: Iterable[Mapping[str, Json]], first: int, message: str) -> list[Entry]:
    """The calls of an entry: `asked` with their numbers and the message that has them."""
    calls: list[Entry] = []
    for n, one in enumerate(asked, first):
        call = {"call": n, **one, "message": message}
        calls.append({key: call[key] for key in Call.model_fields if key in call})
    return calls

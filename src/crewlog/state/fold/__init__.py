"""`fold(state, entry) -> state`: the only function that changes the state of a run.

It is pure: no plan, no store, no clock. Folding a journal from the empty state gives the live
state. Each kind of entry has one handler, found by the class of the entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from crewlog.canonical_json import hash_json
from crewlog.ids import ContentHash, LogName, RunId
from crewlog.state import journal as j
from crewlog.state.command_outcomes import add_outcome, outcome_of
from crewlog.state.fold import (
    call,
    change,
    checkpoint,
    component,
    conversation,
    interrupt,
    output,
    prompt,
    step,
)
from crewlog.state.fold import run as run_entries
from crewlog.state.fold.handlers import HANDLERS
from crewlog.state.fold.step import routing_after
from crewlog.state.logs import chain, empty_log_head, merged_head
from crewlog.state.model import CrewState, LogHead

__all__ = ["fold", "fold_at_positions", "fold_journal", "routing_after"]

SUBJECTS = (
    call,
    change,
    checkpoint,
    component,
    conversation,
    interrupt,
    output,
    prompt,
    run_entries,
    step,
)
"""The modules with the handlers of the entries: each registers its own as it is imported."""


def fold(
    state: CrewState, entry: j.JournalEntry, *, entry_hash: ContentHash | None = None
) -> CrewState:
    """The state after one more entry.

    Args:
        state: The state before; it is not changed.
        entry: The entry.
        entry_hash: The hash of `entry_to_json(entry)`, if the caller has it already.
    """
    position = entry.position_after(state.position)
    changes: dict[str, Any] = {
        "position": position,
        "execution_trace": LogHead(
            head=chain(
                state.execution_trace.head,
                position,
                entry_hash or hash_json(j.entry_to_json(entry)),
            ),
            length=position,
        ),
    }
    if (ref := entry.message) is not None:
        changes["messages"] = _with_message(state, ref, position)
    if entry.log_merges:
        changes["messages"] = _with_merged_logs(
            changes.get("messages", state.messages), entry, position
        )
    if type(entry) in _COMMAND_ENTRIES and (command := getattr(entry, "command", None)) is not None:
        changes["commands"], changes["older_commands"] = add_outcome(
            state.commands, state.older_commands, command, outcome_of(entry, position)
        )
    handler = HANDLERS.get(type(entry))
    if handler is not None:
        changes.update(handler(state, entry, position))
    return state.model_copy(update=changes)


def fold_journal(run: RunId, entries: Iterable[j.JournalEntry], *, base: int = 0) -> CrewState:
    """The state after a whole journal.

    Args:
        run: The run.
        entries: The journal.
        base: The position after which the journal begins: above 0 for a forked or split run.
    """
    state = CrewState(run=run, position=base)
    for entry in entries:
        state = fold(state, entry)
    return state


def fold_at_positions(state: CrewState, entries: Iterable[tuple[int, j.JournalEntry]]) -> CrewState:
    """The state after some entries at their positions, without the entries between them."""
    for position, entry in entries:
        state = fold(state.model_copy(update={"position": position - 1}), entry)
    return state


_COMMAND_ENTRIES = frozenset(
    kind for kind in get_args(get_args(j.JournalEntry)[0]) if "command" in kind.model_fields
)
"""The kinds of entries that record a command."""


def _with_message(state: CrewState, ref: j.MessageRef, position: int) -> dict[Any, LogHead]:
    logs = dict(state.messages)
    for log in ref.logs:
        before = logs.get(log)
        head = before.head if before else empty_log_head(state.run, log)
        logs[log] = LogHead(
            head=chain(head, position, ref.body), length=(before.length if before else 0) + 1
        )
    return logs


def _with_merged_logs(
    messages: Mapping[LogName, LogHead], entry: j.Entry, position: int
) -> dict[LogName, LogHead]:
    logs = dict(messages)
    for merge in entry.log_merges:
        before = logs.get(merge.log)
        head = merged_head(merge.one, merge.two, position)
        logs[merge.log] = LogHead(head=head, length=(before.length if before else 0) + merge.more)
    return logs

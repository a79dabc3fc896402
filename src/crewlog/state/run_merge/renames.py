"""The renames of merged runs: later commands to them use their own names.

Where the surviving run has the same name, it means something else there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crewlog.ids import PRIVATE, AgentName, LogName, RunId, is_private_log, private_log
from crewlog.state.components import Rename
from crewlog.state.model import CrewState
from crewlog.state.run_merge.protocol import OUTCOMES_KEPT
from crewlog.state.run_merge.surviving_state import new_names

RENAMES_SHOWN = 5
"""The most renames in a line."""


def renamed_log(log: str, renamed: Iterable[Rename]) -> LogName:
    """The name of a log after a merge.

    Args:
        log: Its name in the merged run: `public`, `group:G`, `channel:C` or `private:A`.
        renamed: The renames of the merge.
    """
    names = new_names(renamed)
    if is_private_log(log):
        return private_log(AgentName(names.agent(log.removeprefix(PRIVATE))))
    return LogName(names.log(log))


def successive_renames(first: Sequence[Rename], then: Sequence[Rename]) -> tuple[Rename, ...]:
    """The renames of two merges, one after the other.

    Args:
        first: The renames of the first merge.
        then: The renames of the second one, of the run that survived the first.
    """
    later = {(each.kind, each.was): each.now for each in then}
    combined = [
        each.model_copy(update={"now": later.get((each.kind, each.now), each.now)})
        for each in first
    ]
    known = {(each.kind, each.was) for each in first}
    return (*combined, *(each for each in then if (each.kind, each.was) not in known))


def merged_runs_after(
    state: CrewState, merged: CrewState, merged_run: RunId, renamed: tuple[Rename, ...]
) -> dict[RunId, tuple[Rename, ...]]:
    """The merged runs of the surviving run after a merge, including those of the other run.

    Few are kept: a merged run ends as soon as it reads the outcome, and then sends nothing more.

    Args:
        state: The surviving run.
        merged: The merged run.
        merged_run: Its id.
        renamed: Its renames.
    """
    renames = {
        run: successive_renames(before, renamed) for run, before in merged.merged_runs.items()
    }
    renames[merged_run] = renamed
    others = [(run, before) for run, before in state.merged_runs.items() if run not in renames]
    return dict([*others, *renames.items()][-OUTCOMES_KEPT:])


def renames_description(renamed: Sequence[Rename]) -> str:
    """The renames, in a line; empty if there are none."""
    texts = [
        f"its {each.kind} {each.was!r} is named {each.now!r} there"
        for each in renamed[:RENAMES_SHOWN]
    ]
    if more := len(renamed) - len(texts):
        texts.append(f"{more} more have new names there")
    return ", ".join(texts)

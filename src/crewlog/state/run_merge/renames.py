"""New names of a run that was taken in: what is still said to it means what it called so.

    called_there(log, renamed)   the log that is meant
    called_since(first, then)    the new names of two merges, one after the other
    took_in(state, part, …)      the runs that are part of one by now, each with its new names
    renamed_words(renamed)       the same for people

Names say what is meant in the run that they were said to. Where the other one had the name already,
it means something else there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from crewlog.ids import LogName, RunId
from crewlog.state.components import Rename
from crewlog.state.model import CrewState
from crewlog.state.run_merge.protocol import KEPT
from crewlog.state.run_merge.surviving_state import PRIVATE, new_names

SHOWN = 5
"""New names that are told in a line."""


def renamed_log(log: str, renamed: Iterable[Rename]) -> LogName:
    """What a log that people may speak to is called after a merge.

    Args:
        log: By its name in the run that joined: `public`, `group:G`, `channel:C` or `private:A`.
        renamed: What of that run has another name since.
    """
    names = new_names(renamed)
    if log.startswith(PRIVATE):
        return LogName(PRIVATE + names.agent(log.removeprefix(PRIVATE)))
    return LogName(names.log(log))


def successive_renames(first: Sequence[Rename], then: Sequence[Rename]) -> tuple[Rename, ...]:
    """What two merges together call otherwise: of a run, and then of the one that had taken it in.

    Args:
        first: What the first one renamed.
        then: What the second one did.
    """
    later = {(each.kind, each.was): each.now for each in then}
    moved = [
        each.model_copy(update={"now": later.get((each.kind, each.now), each.now)})
        for each in first
    ]
    known = {(each.kind, each.was) for each in first}
    return (*moved, *(each for each in then if (each.kind, each.was) not in known))


def merged_runs_after(
    state: CrewState, part: CrewState, of: RunId, renamed: tuple[Rename, ...]
) -> dict[RunId, tuple[Rename, ...]]:
    """The runs that are part of one once it took another one in: also those that this one had.

    Few are kept: nothing more comes from a run once it has ended, which it does right after it is
    told that it is a part.

    Args:
        state: The run that stays.
        part: What the other one was.
        of: The other one.
        renamed: What of the other one is called otherwise.
    """
    now = {run: successive_renames(before, renamed) for run, before in part.merged_runs.items()}
    now[of] = renamed
    kept = [(run, before) for run, before in state.merged_runs.items() if run not in now]
    return dict([*kept, *now.items()][-KEPT:])


def renames_description(renamed: Sequence[Rename]) -> str:
    """What is called otherwise, in a line; empty where nothing is."""
    told = [
        f"its {each.kind} {each.was!r} is called {each.now!r} there" for each in renamed[:SHOWN]
    ]
    if more := len(renamed) - len(told):
        told.append(f"{more} more have other names there")
    return ", ".join(told)

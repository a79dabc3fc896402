"""What a run is made of, kept apart: the recipe, what was changed at run time, and the state.

The recipe is the definition that the run was started with; the mutation log says what people made
of it while it lived, and when; the state is what came of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crewlog.cli.screen import Part, Screen, clock, counted, plain
from crewlog.cli.sight import whole_journal
from crewlog.client import Client, Run
from crewlog.definition.times import moment_words
from crewlog.errors import CrewlogError
from crewlog.ids import CrewName
from crewlog.state.fold import fold
from crewlog.state.journal import entry_from_json
from crewlog.state.model import ChangeRecord, CrewState, PendingMerge
from crewlog.state.run_merge.protocol import merge_description
from crewlog.state.run_merge.renames import renames_description

MUTATIONS_SHOWN = 10
"""Changes that the page of a run shows."""
SHORT = 8
"""Characters of a hash that people see."""


@dataclass(frozen=True)
class Recipe:
    """The definition that a run was started with."""

    crew: str
    definition: str
    """Its hash; empty while a prompt is not compiled."""
    version: int | None = None
    """The version under which it is registered now; none where it is not."""


async def recipe_of(client: Client, state: CrewState) -> Recipe:
    """A run's recipe, with the version that the registry of crews has of it."""
    definition = str(state.recipe)
    version = None
    try:
        row = await (await client.store()).get_crew(CrewName(state.crew))
        if row is not None and row.definition == definition:
            version = row.version
    except CrewlogError:
        pass  # whether it is registered is a remark, and no more
    return Recipe(str(state.crew), definition, version)


def show_layers(screen: Screen, recipe: Recipe, state: CrewState) -> None:
    """The recipe and the mutation log; nothing of a run that is as it was started, but its hash."""
    rows: list[list[Part]] = []
    if recipe.definition:
        known = f" · registered, version {recipe.version}" if recipe.version else ""
        text = f"{plain(recipe.crew)} · definition {recipe.definition[:SHORT]}"
        rows.append([("recipe", "dim"), text, (known, "dim")])
    if state.source is not None:
        at = state.source.checkpoint or state.source.position
        place = f"{plain(state.source.run)}@{at}"
        rows.append([("parted from" if state.source.split else "forked from", "dim"), place, ""])
    if state.definition and state.definition != state.recipe:
        text = f"definition {state.definition[:SHORT]} · graph v{state.graph_version}"
        rows.append([("live", "dim"), text, (_times(counted_mutations(state)), "dim")])
    if state.pending_change is not None:
        change = state.pending_change
        text = f"to graph v{change.graph_version}{_by(change.by)}: {plain(change.what)}"
        rows.append([("changing", "dim"), (text, "yellow"), ""])
        if change.nodes:
            who = ", ".join(map(plain, change.nodes))
            text = f"{who} as a run of its own, once what is under way there has landed"
            rows.append([("parting", "dim"), (text, "yellow"), ""])
    if state.pending_merge is not None:
        rows.append([("merging", "dim"), (merging_words(state.pending_merge), "yellow"), ""])
    if state.surviving_run is not None:
        into = plain(state.surviving_run)
        rows.append([("merged into", "dim"), into, (f" · crewlog show {into} goes on", "dim")])
        if state.surviving_run_renames:
            rows.append(
                [("renamed", "dim"), plain(renames_description(state.surviving_run_renames)), ""]
            )
    for label, told, more in rows:
        screen.line("  ", (f"{_text(label):<12}", "dim"), told, more)
    if state.changes:
        screen.line("")
        screen.line("  ", ("changed at run time:", "bold"))
        _mutations(screen, state, state.changes[-MUTATIONS_SHOWN:])
    screen.line("")


def counted_mutations(state: CrewState) -> int:
    """How often a run was changed; its state keeps the last changes only."""
    return state.changes[-1].number if state.changes else 0


def _mutations(screen: Screen, state: CrewState, shown: Sequence[ChangeRecord]) -> None:
    """Changes of a run, whole, and how many there were before them."""
    if earlier := counted_mutations(state) - len(shown):
        more = f"… {counted(earlier, 'earlier change')}: "
        screen.line("  ", (more, "dim"), f"crewlog show {state.run} --changes")
    heads = [
        (f"@{each.position}", clock(each.at - state.started_at), f"graph v{each.graph_version}")
        for each in shown
    ]
    widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
    for each, head in zip(shown, heads, strict=True):
        cells = [f"{cell:<{width}}   " for cell, width in zip(head, widths, strict=True)]
        why = f": {plain(each.reason)}" if each.reason else ""
        text = f"{plain(each.what)}{_by(each.by)}{why}"
        screen.wrapped(["  ", (cells[0], "dim"), (cells[1], "dim"), cells[2]], text, indent=6)


def show_mutations(screen: Screen, state: CrewState, found: Sequence[ChangeRecord]) -> None:
    """All changes of a run, and how to look closer at one."""
    if not found:
        screen.line("  It is as it was started: nothing was changed at run time.")
        return
    _mutations(screen, state.model_copy(update={"changes": tuple(found)}), found)
    last = found[-1].position
    closer = f"crewlog diff {state.run}@{last - 1} {state.run}@{last}"
    screen.line("")
    screen.line(("  One of them in full   ", "dim"), closer)


async def mutations_of(run: Run) -> list[ChangeRecord]:
    """All changes of a run, from its journal."""
    state = CrewState(run=run.id)
    found: dict[int, ChangeRecord] = {}
    for item in await whole_journal(run):
        entry = entry_from_json(item.data)
        state = fold(state.model_copy(update={"position": item.position - 1}), entry)
        found |= {each.position: each for each in state.changes[-1:]}
    return list(found.values())


def layers_json(recipe: Recipe, state: CrewState) -> dict[str, Any]:
    """The layers, for `show --json`; the state is the rest of what it prints."""
    return {
        "recipe": {
            "crew": recipe.crew,
            "definition": recipe.definition,
            "registered_version": recipe.version,
        },
        "mutations": [each.model_dump(mode="json") for each in state.changes],
        "mutations_in_all": counted_mutations(state),
        "definition": state.definition,
        "changing": state.pending_change.model_dump(mode="json") if state.pending_change else None,
        "pending_merge": state.pending_merge.model_dump(mode="json")
        if state.pending_merge
        else None,
        "surviving_run": state.surviving_run,
        "renames": [each.model_dump(mode="json") for each in state.surviving_run_renames],
        "detached_steps": sorted(state.detached_steps),
        "tags": state.tags,
        "source": state.source.model_dump(mode="json") if state.source else None,
    }


def merging_words(joining: PendingMerge) -> str:
    """What a run does with another one, since when, and until when at most."""
    since = f" · since {moment_words(joining.at)}" if joining.at else ""
    until = f", at most until {moment_words(joining.deadline)}" if joining.deadline else ""
    return plain(f"{merge_description(joining)}{since}{until}")


def _times(count: int) -> str:
    return f" · changed {count} time{'s' * (count != 1)}" if count else ""


def _by(who: str) -> str:
    return f" by {plain(who)}" if who else ""


def _text(part: Part) -> str:
    return part if isinstance(part, str) else part[0]

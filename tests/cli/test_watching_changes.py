"""A run that is changed while it lives, as people see it."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from crewlog.cli.follow import Follower, Manner
from crewlog.cli.layers import Recipe, layers_json, mutations_of, show_layers, show_mutations
from crewlog.cli.screen import Screen
from crewlog.cli.shown import journal_line, show_frontier
from crewlog.cli.sight import statuses_of
from crewlog.cli.stating import Stated, States
from crewlog.cli.timeline import Timeline
from crewlog.cli.topology import graph_after
from crewlog.cli.writing import LINES, Writing
from crewlog.client import Event, TokenEvent
from crewlog.definition.load import load_data
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, ContentHash, RunId, StepId
from crewlog.reporting.audit.command_records import command_records
from crewlog.reporting.live_run.progress import node_statuses
from crewlog.reporting.wire_views import entry_view
from crewlog.state.fold import fold_journal
from crewlog.state.journal import JournalEntry, entry_from_json
from crewlog.state.model import (
    ChangeRecord,
    CrewState,
    FrontierStep,
    MergeOutcome,
    PendingChange,
    PendingMerge,
)
from crewlog.wire import JournalPage, RunResult

DEFINITION = "d" * 27
OTHER = "e" * 27
SWAPPED: dict[str, Any] = {
    "kind": "GraphSwapped",
    "graph_version": 2,
    "crew": "shop",
    "definition": OTHER,
    "what": "backend is removed",
    "by": "ana",
}


def entry(data: dict[str, Any]) -> JournalEntry:
    return entry_from_json({"at": 1_000, **data})


def shown(line: Timeline, *entries: dict[str, Any]) -> list[str]:
    rows = [row for each in entries for row in line.feed(entry(each))]
    return [f"{row.node} {row.glyph} {row.text}".strip() for row in [*rows, *line.settle()]]


def state(**fields: Any) -> dict[str, Any]:
    return CrewState(run=RunId("music"), **fields).to_json()


def test_a_merge_says_with_whom_and_what_becomes_of_it() -> None:
    asked = {
        "kind": "MergeRequested",
        "merge": "o",
        "other": "m-2",
        "status": "requested",
        "deadline": 9,
        "by": "ana",
    }
    accepted = {
        "kind": "MergeAccepted",
        "merge": "o",
        "other": "m-2",
        "requester": "m-2",
        "deadline": 9,
        "other_position": 4,
    }
    named = {"kind": "channel", "run": "m-1", "was": "x", "now": "x-2"}
    assert shown(
        Timeline(("a",)),
        {**asked, "what": "connect a to b over c", "reason": "they need it"},
        {**accepted, "status": "coordinating"},
        {**accepted, "status": "draining"},
        {"kind": "MergeFrozen", "merge": "o", "other": "m-2"},
        {"kind": "MergeFailed", "merge": "o", "other": "m-2", "reason": "it is paused"},
        {"kind": "RunEndedByMerge", "merge": "o", "run": "m-2", "position": 40, "renames": [named]},
    ) == [
        "⋈ asks m-2 to be one graph by ana: connect a to b over c (they need it)",
        "⋈ agrees with m-2 to be one graph: takes that run in",
        (
            "⋈ agrees with m-2 to be one graph: becomes part of that run, once all under way has "
            "landed"
        ),
        "⋈ waits to be taken in by m-2",
        "✗ does not become one graph with m-2: it is paused",
        "⋈ is part of m-2 from its position 40 on",
        "⋈ the channel x is called x-2 there",
    ]


def test_a_change_says_who_what_and_why() -> None:
    accepted = {
        "kind": "ChangeAccepted",
        "graph_version": 2,
        "definition": OTHER,
        "what": "backend is removed",
        "by": "ana",
        "reason": "too slow",
    }
    line = Timeline(("ui", "backend"))
    assert shown(line, accepted, SWAPPED) == [
        "⇄ changes to graph v2 by ana: backend is removed (too slow); what is under way ends first",
        "⇄ graph v1 → v2 by ana: backend is removed",
    ]
    assert line.version == 2
    failed = {"kind": "SwapFailed", "graph_version": 3, "error": "no node 'x'\nat all"}
    assert shown(line, failed) == [
        "✗ graph v3 did not come about: no node 'x'; the run goes on with v2"
    ]
    rules = {
        "kind": "DefinitionChanged",
        "crew": "shop",
        "definition": OTHER,
        "what": "search is off",
        "by": "bo",
    }
    assert shown(line, rules) == ["⇄ changed by bo: search is off; it holds from the next step on"]


def test_what_a_swap_does_to_each_step_is_told_beside_its_node() -> None:
    line = Timeline(("ui", "backend", "audio"))
    started = [{"kind": "StepStarted", "step": f"{n}#1", "agent": n} for n in ("ui", "backend")]
    waits = {
        "kind": "NodesReached",
        "source": None,
        "to": [{"node": "audio", "requirement": "backend.ready"}],
    }
    shown(line, *started, waits)
    assert line.waiting == {"audio": "backend.ready"}
    remap = {
        "detached_turns": ["ui#1"],
        "detached": ["backend#1"],
        "reattached": ["old#1"],
        "retracted": ["audio#1"],
        "requirements": {"late#1": "ui.done"},
        "reached": [{"node": "fresh"}, {"node": "held", "requirement": "ui.done"}],
    }
    assert shown(line, {**SWAPPED, "remap": remap})[1:] == [
        "ui ⇥ its node is gone: the turn goes on to its end, nothing follows",
        "backend ∥ its node is gone: kept aside until it comes back",
        "old ↩ its node is back: goes on",
        "audio ◌ must wait again",
        "late ◌ waits for ui.done",
        "fresh → starts with the new graph",
        "held → starts with the new graph, waits for ui.done",
    ]
    assert list(line.running) == ["ui#1"], "what is kept aside does not run"
    assert line.waiting == {"late": "ui.done", "held": "ui.done"}


def test_after_a_rollback_the_memory_is_the_checkpoints() -> None:
    line = Timeline(("ui", "backend"))
    asked = {"id": "i1", "kind": "ask", "question": "Buy?"}
    shown(
        line,
        {"kind": "StepStarted", "step": "backend#1", "agent": "backend"},
        {"kind": "InterruptRaised", "interrupt": asked},
        SWAPPED,
    )
    frontier = {
        "ui#1": {"step": "ui#1", "node": "ui", "status": "running", "turn": {}},
        "audio#1": {
            "step": "audio#1",
            "node": "audio",
            "status": "waiting",
            "requirement": "ui.done",
        },
    }
    back = {
        "kind": "RunRolledBack",
        "to": 12,
        "by": "ana",
        "reason": "wrong way",
        "state": state(frontier=frontier, definition=DEFINITION),
    }
    assert shown(line, back) == ["↶ back to checkpoint 12 by ana (wrong way), with graph v1"]
    assert (list(line.running), line.waiting) == (["ui#1"], {"audio": "ui.done"})
    assert line.interrupts == {}
    assert line.version == 1
    assert line.statuses == {"ui": "running", "audio": "waiting"}
    # A state that a newer version wrote has fields that are not known here.
    newer = {**back, "state": {**back["state"], "unheard": 1}}
    assert len(shown(line, newer)) == 1


def test_where_a_run_comes_from() -> None:
    whole = state(definition=DEFINITION, graph_version=3)
    forked = {
        "kind": "RunForked",
        "run": "music",
        "source": "other",
        "to": 7,
        "by": "ana",
        "state": whole,
    }
    assert shown(Timeline(()), forked) == ["⑂ forked from other@7 by ana"]
    again = {"kind": "RunReopened", "to": 40, "by": "ana", "state": whole}
    assert shown(Timeline(()), again) == ["▶ taken up again at 40 by ana, with graph v3"]


def test_only_another_graph_is_drawn_anew() -> None:
    assert graph_after(entry(SWAPPED), 1) == (OTHER, 2)
    whole = state(definition=DEFINITION, graph_version=1)
    back = entry({"kind": "RunRolledBack", "to": 3, "state": whole})
    assert graph_after(back, 2) == (DEFINITION, 1)
    assert graph_after(back, 1) is None
    assert graph_after(entry({"kind": "StepStarted", "step": "a#1"}), 1) is None


def test_words_of_people_stay_words() -> None:
    nasty = {**SWAPPED, "what": "x\x1b[2J\nforged by root", "by": "an\u202ea"}
    (row,) = shown(Timeline(()), nasty)
    assert row == "⇄ graph v1 → v2 by ana: x[2J forged by root"


# -- the picture on each version ---------------------------------------------------------------


def plan(*agents: str) -> GraphPlan:
    given = {name: {"prompt": "Go."} for name in agents}
    return lower(load_data({"crew": "shop", "model": "m:x", "agents": given, "flow": [*agents]}))


class Changed:
    """A run whose graph is swapped after its first step, while a model writes."""

    id = "music"

    async def events(self, after: int = 0, *, tokens: bool = False) -> Any:
        told: list[dict[str, Any]] = [
            {"kind": "RunStarted", "run": "music", "crew": "shop", "definition": DEFINITION},
            {"kind": "StepStarted", "step": "ui#1", "agent": "ui"},
            SWAPPED,
        ]
        for position, data in enumerate(told, 1):
            yield Event(position, 1_000, entry(data), RunId("music"))
        if tokens:
            yield writes("ui#1", "Once upon", first=True)
        done = {"kind": "RunCompleted"}
        yield Event(len(told) + 1, 2_000, entry(done), RunId("music"))

    async def result(self, timeout: float) -> RunResult:
        return RunResult.model_validate(
            {"run": "music", "status": "completed", "steps": 1, "position": 4,
             "executions": 2, "ms": 1_000}
        )  # fmt: skip


def writes(step: str, text: str, *, offset: int = 0, first: bool = False) -> TokenEvent:
    node = step.partition("#")[0]
    return TokenEvent(
        RunId("music"), StepId(step), 1, AgentName(node), 1, offset, text, first=first
    )


async def plans(definition: ContentHash) -> GraphPlan | None:
    return {DEFINITION: plan("ui", "backend"), OTHER: plan("ui", "audio")}[definition]


def follower(screen: Screen) -> Follower:
    run: Any = Changed()
    return Follower(
        screen, run, nodes=("ui", "backend"), manner=Manner(ask=False, leave=False), plans=plans
    )


async def test_the_picture_is_drawn_anew(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("crewlog.cli.follow.show_end", lambda *_: None)
    assert await follower(Screen()).follow() == 0
    out = capsys.readouterr().out
    before, _, after = out.partition("graph v1 → v2 by ana: backend is removed")
    assert "thinking" in before
    assert "graph v2" in after
    assert "audio" in after
    assert "● ui" in after, "as it is now"
    assert "Once upon" not in out, "no terminal: text is not shown as it is written"


async def test_programs_get_the_graph_and_the_text(capsys: Any) -> None:
    assert await follower(Screen(as_json=True)).follow() == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in told] == [
        "journal", "journal", "journal", "graph", "tokens", "journal", "result",
    ]  # fmt: skip
    graph, tokens = told[3], told[4]
    assert (graph["graph_version"], graph["definition"]) == (2, OTHER)
    assert "audio" in graph["plan"]["nodes"]
    assert "class n0 running" in graph["mermaid"]
    assert {k: tokens[k] for k in ("step", "call", "offset", "text", "first")} == {
        "step": "ui#1", "call": 1, "offset": 0, "text": "Once upon", "first": True,
    }  # fmt: skip


# -- text under way ----------------------------------------------------------------------------


def lines(writing: Writing, width: int = 60) -> list[str]:
    found = writing.lines(Timeline(("ui", "backend")), width)
    return ["".join(p if isinstance(p, str) else p[0] for p in line).strip() for line in found]


def test_text_stands_beside_its_step_until_the_reply() -> None:
    writing = Writing()
    writing.add(writes("ui#1", "Once upon ", first=True))
    writing.add(writes("ui#1", "a time", offset=10))
    writing.add(writes("backend#1.2", "Two \x1b[2J\nlines", first=True))
    ui, backend = lines(writing)
    assert ui.split() == ["ui", "✎", "Once", "upon", "a", "time"]
    assert backend.split(maxsplit=2)[2] == "about item 2: Two [2J lines"
    writing.add(writes("ui#1", "Anew", first=True))
    assert "Anew" in lines(writing)[0]
    assert "Once" not in lines(writing)[0]
    reply = {"kind": "ModelCallCompleted", "step": "ui#1", "call": 1, "agent": "ui"}
    ref = {"body": "x" * 27, "logs": ["public"]}
    writing.take(Event(1, 1, entry({**reply, "ref": ref}), RunId("music")))
    assert len(lines(writing)) == 1


def test_a_long_text_shows_its_end_and_takes_few_lines() -> None:
    writing = Writing()
    writing.add(writes("ui#1", " ".join(f"word{n}" for n in range(500)), first=True))
    found = lines(writing)
    assert len(found) == LINES
    assert found[-1].endswith("word499")
    assert all(len(line) <= 60 for line in found)
    for n in range(9):
        writing.add(writes(f"ui#1.{n + 1}", "text", first=True))
    assert len(lines(writing)) == LINES + 1
    assert lines(writing)[-1] == "… and 4 more"


def test_text_that_began_before_anybody_looked_says_so() -> None:
    writing = Writing()
    writing.add(writes("ui#1", "the end", offset=9_000, first=True))
    assert lines(writing)[0].endswith("✎ … the end")


# -- show, log, graph --------------------------------------------------------------------------


def changed_state() -> CrewState:
    return CrewState(
        run=RunId("music"),
        crew="shop",
        definition=OTHER,
        recipe=DEFINITION,
        graph_version=2,
        started_at=1_000,
        changes=(
            ChangeRecord(
                position=9, at=13_400, by="ana", what="backend is removed", graph_version=2,
                definition=ContentHash(OTHER), number=1,
            ),
        ),
        frontier={
            "old#1": FrontierStep(step="old#1", node="old", status="running", is_detached=True)
        },
        detached_steps={"gone#1": FrontierStep(step="gone#1", node="gone", status="ready")},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        ("requested", "asked pond-2 to merge: waits for its answer"),
        ("coordinating", "takes over the agents of pond-2: waits until that has drained"),
        ("draining", "merges into pond-2: drains first"),
        ("frozen", "merges into pond-2: waits for the outcome"),
    ],
)
def test_a_merge_that_is_under_way_is_told_in_words(stage: Any, told: str, capsys: Any) -> None:
    joining = PendingMerge(
        merge="m", other=RunId("pond-2"), status=stage, at=60_000, deadline=120_000,
        requester=RunId("pond"), position=4,
    )  # fmt: skip
    state = CrewState(run=RunId("pond"), pending_merge=joining)
    show_layers(Screen(), Recipe("shop", DEFINITION), state)
    out = " ".join(capsys.readouterr().out.split())
    assert f"merging {told} · since 1970-01-01 00:01 UTC, at most until" in out
    outcome = MergeOutcome(outcome="merged", other=RunId("pond-2"), position=9)
    merged = CrewState(run=RunId("pond"), status="merged", merges={"m": outcome})
    show_layers(Screen(), Recipe("shop", DEFINITION), merged)
    assert "merged into pond-2 · crewlog show pond-2" in " ".join(capsys.readouterr().out.split())


def test_who_leaves_for_another_run_is_told(capsys: Any) -> None:
    changing = PendingChange(
        command="c", graph_version=2, definition=ContentHash(OTHER), what="cut", nodes=("ann",)
    )
    state = CrewState(run=RunId("pond"), pending_change=changing)
    show_layers(Screen(), Recipe("shop", DEFINITION), state)
    assert "parting ann as a run of its own" in " ".join(capsys.readouterr().out.split())


def test_recipe_mutations_and_state_are_shown_apart(capsys: Any) -> None:
    state = changed_state()
    show_layers(Screen(), Recipe("shop", DEFINITION, 3), state)
    out = capsys.readouterr().out.splitlines()
    assert "shop · definition dddddddd · registered, version 3" in out[0]
    assert "definition eeeeeeee · graph v2 · changed 1 time" in out[1]
    assert "changed at run time:" in out[3]
    assert out[4].split() == ["@9", "12.4", "graph", "v2", "backend", "is", "removed", "by", "ana"]
    data = layers_json(Recipe("shop", DEFINITION), state)
    assert data["recipe"]["definition"] == DEFINITION
    assert data["definition"] == OTHER
    assert [each["by"] for each in data["mutations"]] == ["ana"]
    assert data["detached_steps"] == ["gone#1"]


async def test_what_is_not_shown_of_the_changes_is_counted(capsys: Any) -> None:
    """The state keeps the last ones; the journal has them all."""
    journal = [{"kind": "RunStarted", "run": "music", "crew": "shop", "definition": DEFINITION}] + [
        {"kind": "ToolPermissionSet", "tool": f"t{i}", "agents": [], "by": "ana"}
        for i in range(150)
    ]
    whole = fold_journal(RunId("music"), map(entry, journal))
    assert 10 < len(whole.changes) <= 100
    recipe = Recipe("shop", DEFINITION)
    show_layers(Screen(), recipe, whole)
    out = capsys.readouterr().out
    assert "… 140 earlier changes: crewlog show music --changes" in out
    assert [f"t{i}:" in out for i in (139, 140, 149)] == [False, True, True]
    assert layers_json(recipe, whole)["mutations_in_all"] == 150

    async def page(after: int, limit: int) -> JournalPage:
        some = list(enumerate(journal, 1))[after : after + limit]
        items = tuple(entry_view(p, data) for p, data in some)
        return JournalPage(entries=items, first=1, position=len(journal))

    run: Any = SimpleNamespace(id=RunId("music"), journal=page)
    found = await mutations_of(run)
    assert [each.number for each in found] == list(range(1, 151))
    show_mutations(Screen(), whole, found)
    out = capsys.readouterr().out
    assert "earlier" not in out
    assert all(f"t{i}: nobody by ana" in out for i in range(150))
    assert "crewlog diff music@150 music@151" in out
    show_mutations(Screen(), whole, [])
    assert "nothing was changed" in capsys.readouterr().out


def test_a_run_as_it_was_started_has_its_recipe_alone(capsys: Any) -> None:
    state = CrewState(run=RunId("music"), crew="shop", definition=DEFINITION, recipe=DEFINITION)
    show_layers(Screen(), Recipe("shop", DEFINITION), state)
    assert capsys.readouterr().out.split() == ["recipe", "shop", "·", "definition", "dddddddd"]


def test_steps_without_a_node_are_no_part_of_the_picture() -> None:
    state = changed_state()
    assert node_statuses(state, plan("ui", "audio").nodes) == {}
    assert "old" in statuses_of(state), "the picture itself leaves out what it has not"


def test_the_log_tells_a_refusal_in_sentences() -> None:
    reason = "it is asked of ana, ben\n    Let one of them answer."
    data: dict[str, Any] = {"kind": "CommandRejected", "name": "answer", "reason": reason}
    *_, (words) = journal_line(entry_view(20, data), 0)
    assert "it is asked of ana, ben. Let one of them answer." in words


@pytest.mark.parametrize("kind", ["RunRolledBack", "RunReopened"])
def test_the_log_names_a_state_instead_of_printing_it(kind: str) -> None:
    data = {"kind": kind, "at": 1_000, "to": 12, "state": state(graph_version=2), "by": "ana"}
    text = "".join(p if isinstance(p, str) else p[0] for p in journal_line(entry_view(20, data), 0))
    assert "state=of position 12, graph v2" in text
    assert "by=ana" in text
    assert len(text) < 120


async def test_show_tells_of_leaving_and_kept_steps(capsys: Any) -> None:
    sight: Any = SimpleNamespace(
        over=False, questions=[], state=changed_state(), calls={}, failures={}, pending=()
    )
    show_frontier(Screen(), sight)
    out = capsys.readouterr().out
    leaving, parked = out.splitlines()[-2:]
    assert "old#1" in leaving
    assert "its turn ends, nothing follows" in leaving
    assert parked.split() == ["gone#1", "kept", "aside", "its", "node", "is", "gone"]


async def test_each_checkpoint_says_what_it_changed(capsys: Any) -> None:
    told: list[dict[str, Any]] = [
        {"kind": "RunStarted", "run": "music", "crew": "shop", "definition": DEFINITION},
        {"kind": "NodesReached", "source": None, "to": [{"node": "ui"}]},
        {"kind": "StepStarted", "step": "ui#1", "agent": "ui"},
        {"kind": "RunOutputSet", "flag": "ready", "value": True, "by": "ui"},
        {"kind": "StepCompleted", "step": "ui#1"},
        {"kind": "NodesReached", "source": "ui", "to": [{"node": "backend"}]},
        {"kind": "Paused", "by": "ana"},
    ]
    states = States()
    found: list[Stated] = []
    for position, data in enumerate(told, 1):
        found += filter(None, [states.take(Event(position, 1_000, entry(data), RunId("music")))])
    assert [each.position for each in found] == [2, 5], "with the routing that belongs to it"
    assert states.settle() is None
    first, second = (
        {f"{c.section}/{c.name}": (c.kind, c.new) for c in each.changes.changes} for each in found
    )
    assert first["frontier/ui#1"][0] == "added"
    assert second["flags/ready"] == ("added", True)
    assert second["frontier/ui#1"][0] == "removed"
    assert second["frontier/backend#1"][0] == "added"
    shower = follower(Screen())
    shower._tell_state(found[1])
    out = capsys.readouterr().out
    assert "state @5" in out
    assert "+ ready" in out


def test_a_forks_state_begins_with_its_checkpoint() -> None:
    whole = state(definition=DEFINITION, flags={"ready": True})
    forked = {"kind": "RunForked", "run": "music", "source": "other", "to": 7, "state": whole}
    states = States()
    assert states.take(Event(8, 1_000, entry(forked), RunId("music"))) is None
    stated = states.settle()
    assert stated is not None
    assert stated.position == 8
    assert [c.name for c in stated.changes.under("flags")] == ["ready"]


def test_a_ruling_is_shown_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    made = {"position": 7, "what": "clerk may not call look", "by": "ana", "graph_version": 1}
    more = {"definition": "d", "number": 1, "reason": "enough looking"}
    ruled = ChangeRecord.model_validate({**made, **more})
    show_mutations(Screen(), CrewState(run=RunId("r"), changes=(ruled,)), [ruled])
    assert "clerk may not call look by ana: enough looking" in capsys.readouterr().out


def test_logs_that_came_in_are_told_with_their_runs() -> None:
    logs = [{"log": log, "two": OTHER} for log in ("public", "channel:c", "public")]
    entry = {"kind": "LogsMerged", "merged_logs": logs, "parents": ["one", "two"]}
    told = ["⋈ took in the logs of one, two: public, channel:c"]
    assert shown(Timeline(()), entry) == told


def test_a_run_that_was_taken_in_is_told_with_who_came_and_what_is_called_otherwise() -> None:
    entry = {
        "kind": "RunMerged",
        "position": 9,
        "previous_position": 4,
        "merged_run": "band-2",
        "merged_run_position": 7,
        "merged_run_started_at": 1,
        "merge": "m",
        "merged_agents": ["ann-2"],
        "renames": [{"kind": "agent", "run": "band-2", "was": "ann", "now": "ann-2"}],
        "graph_version": 2,
        "crew": "band",
        "definition": OTHER,
        "what": "band-2 becomes part of it",
        "by": "ana",
    }
    told = shown(Timeline(()), entry)
    assert told[0].startswith("⇄ graph v1 → v2 by ana")
    assert told[1:] == [
        "⋈ band-2 is part of this run: ann-2 came",
        "⋈ the agent ann of band-2 is called ann-2 here",
    ]
    turns = {step: {"step": step, "node": step[:3]} for step in ("ann#3", "bob#1", "bob#2")}
    gone = entry | {
        "merged_state": {"run": "band-2", "detached_steps": turns},
        "nodes": {"ann": "ann-2"},
    }
    assert shown(Timeline(()), gone)[3:] == [
        "⋈ bob#1 and bob#2 of band-2 did not come: who had them was removed there before"
    ]
    (record,) = command_records(9, entry_from_json(entry))
    assert (record.outcome, record.detail) == ("in force", "graph v2: band-2 becomes part of it")

"""`crewlog watch` over several runs, and over some of their events."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from covers import covers
from crewlog.cli.main import run_cli
from crewlog.cli.screen import Screen
from crewlog.cli.watching import Seen, asked_for, unknown_names
from crewlog.client import Event, EventFilter
from crewlog.definition.load import load_definition
from crewlog.errors import RunFailed, UsageError
from crewlog.ids import RunId
from crewlog.state.journal import Batch, entry_from_json
from crewlog.store import InMemoryStore

from .conftest import Cli
from .terminal import Terminal
from .test_graphing import POND, SCRIPT

STARTED = {"kind": "StepStarted", "step": "scout#1", "agent": "scout"}
HEARD = {
    "kind": "AgentsWoken",
    "log": "channel:tasks",
    "body": "b",
    "by": "keeper",
    "to": ["scout"],
}
SPLIT = {
    "kind": "ComponentChanged",
    "graph_version": 2,
    "crew": "pond",
    "definition": "d",
    "change": "split",
    "new_graph_ids": ["pond", "pond.1"],
    "what": "removes bridge",
}


def event(data: dict[str, Any], run: str = "pond", at: int = 1_000) -> Event:
    return Event(1, at, entry_from_json({**data, "at": at}), RunId(run))


def test_which_runs_and_which_events() -> None:
    asked, chosen = asked_for(["a", "b", "a"], ["StepStarted,RunOutputSet"], ["x"], None, ["c"])
    assert asked == ["a", "b"]
    assert chosen == EventFilter({"StepStarted", "RunOutputSet"}, {"x"}, (), {"c"})
    assert asked_for(None, None, None, ["a,b"], None)[0] == ["a", "b"]
    with pytest.raises(UsageError, match="missing argument 'RUN…'"):
        asked_for(None, ["StepStarted"], None, None, None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["a", "b", "--after", "3"], "--after is about one run"),
        (["a", "--kind", "StepStarted", "--state"], "--state is about one run"),
        (["a", "--kind", "StepStartd"], "Did you mean 'StepStarted'?"),
    ],
)
def test_a_wrong_watch(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["watch", *line]) == 2
    assert said in capsys.readouterr().err


def shown(capsys: pytest.CaptureFixture[str], seen: Seen, *events: Event) -> list[str]:
    for each in events:
        seen.take(each, passes=True)
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_each_line_names_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(Screen(), ["pond", "lake"], EventFilter())
    told = shown(capsys, seen, event(STARTED), event(STARTED, "lake", 3_500), event(SPLIT))
    assert told == [
        "pond 00.0 scout ● thinking",
        "lake 02.5 scout ● thinking",
        "pond 00.0 ⇄ graph v1 → v2: removes bridge",
        "pond 00.0 ⑂ the graph parts into pond and pond.1",
    ]
    alone = Seen(Screen(), ["pond"], EventFilter())
    assert shown(capsys, alone, event(STARTED)) == ["00.0 scout ● thinking"]
    assert shown(capsys, alone, event(STARTED, "pond.1")) == ["pond.1 00.0 scout ● thinking"]


def test_a_silent_event_is_shown_where_its_kind_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown(capsys, Seen(Screen(), ["pond"], EventFilter()), event(HEARD)) == []
    seen = Seen(Screen(), ["pond"], EventFilter(kinds=["AgentsWoken"]))
    (line,) = shown(capsys, seen, event(HEARD))
    assert line == "00.0 » channel:tasks from keeper, heard by scout"
    rested = EventFilter(kinds=["IdleStarted"])
    (line,) = shown(
        capsys, Seen(Screen(), ["pond"], rested), event({"kind": "IdleStarted", "deadline": 7})
    )
    assert line == "00.0 · IdleStarted deadline=7"
    seen.take(event(STARTED), passes=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("asked", [{"channels": ["tasks"]}, {"agents": ["scout"]}])
def test_who_asks_for_a_channel_or_a_creature_sees_what_is_said_and_heard(
    asked: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"type": "ai", "content": "A find.", "name": "scout", "id": "m"}
    ref = {"body": "b", "logs": ["channel:tasks"], "inline": said}
    sent = {"kind": "MessageAdded", "ref": ref, "by": "scout", "step": "scout#1"}
    assert shown(capsys, Seen(Screen(), ["pond"], EventFilter()), event(sent)) == []
    seen = Seen(Screen(), ["pond"], EventFilter(**asked))
    assert shown(capsys, seen, event(sent), event(HEARD)) == [
        "00.0 » scout to channel:tasks: A find.",
        "00.0 » channel:tasks from keeper, heard by scout",
    ]
    assert shown(capsys, seen, event({"kind": "IdleStarted", "deadline": 7})) == []


def test_a_narrow_terminal_has_runs_above_their_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    seen = Seen(Screen(), ["pond", "lake"], EventFilter())
    told = shown(capsys, seen, event(STARTED), event(HEARD), event(SPLIT), event(STARTED, "lake"))
    assert told[:2] == ["pond", "00.0 scout ● thinking"]
    assert told[-2:] == ["lake", "00.0 scout ● thinking"]
    assert told.count("pond") == 1


def test_a_run_that_is_lost_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(Screen(), ["pond", "lake"], EventFilter())
    seen.end(RunId("pond"), None)
    assert (capsys.readouterr().out, seen.failed) == ("", set())
    seen.end(RunId("lake"), RunFailed("terminated from outside"))
    assert "✗ terminated from outside" in capsys.readouterr().out
    seen.take(event({"kind": "RunFailed", "error": "no"}), passes=False)
    assert seen.failed == {"pond", "lake"}


def test_a_run_that_is_stopped_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(Screen(), ["pond"], EventFilter(agents=["scout"]))
    seen.take(event({"kind": "RunStopped", "because": "enough"}), passes=False)
    seen.end(RunId("pond"), None)
    assert (capsys.readouterr().out.strip(), seen.stopped) == ("stopped", {"pond"})
    going = Seen(Screen(), ["pond"], EventFilter(agents=["scout"]))
    going.take(event({"kind": "RunStopped", "because": "enough"}), passes=False)
    going.take(event({"kind": "IdleStarted", "deadline": 7}), passes=False)
    going.end(RunId("pond"), None)
    assert going.stopped == set()


async def test_what_is_called_like_nothing_in_the_runs_is_told() -> None:
    store = InMemoryStore()
    crew = load_definition(POND)
    began = {"kind": "RunStarted", "run": "pond", "crew": "pond", "at": 1}
    definition = await store.put_definition(RunId("pond"), crew.to_json())
    batch = Batch(first=1, heads={}, entries=({**began, "definition": definition},))
    await store.append(RunId("pond"), batch)

    async def told(**wanted: list[str]) -> list[str]:
        return await unknown_names(store, ["pond"], EventFilter(**wanted))

    assert await told(agents=["scot"]) == [
        "nobody is called 'scot' in 'pond' now. Did you mean 'scout'? It is waited for."
    ]
    assert await told(channels=["taks"], graphs=["pand"]) == [
        "no channel is called 'taks' in 'pond' now. Did you mean 'tasks'? It is waited for.",
        "there is no run 'pand' now. Did you mean 'pond'? It is waited for.",
    ]
    assert await told(agents=["scout"], channels=["channel:tasks"], graphs=["pond"]) == []
    assert await unknown_names(store, ["lake"], EventFilter(agents=["scot"])) == []


# -- on the server -------------------------------------------------------------------------------


@covers("C112", "C117")
@pytest.mark.server
def test_several_runs_are_watched_by_kind_creature_and_channel(crewlog: Cli, project: Path) -> None:
    (project / "pond.yaml").write_text(POND)
    (project / "pond.script.yaml").write_text(SCRIPT)
    one, two = (f"pond-{uuid4().hex[:6]}" for _ in range(2))
    for run in (one, two):
        assert crewlog("run", "pond.yaml", "--id", run, "--detach").code == 0
    assert crewlog("message", one, "Look.", "--to", "channel:tasks").code == 0
    assert crewlog("graph", "add", two, "late", "--like", "scout", "--listen", "tasks").code == 0
    terminal = Terminal(
        "watch", one, two, "--kind", "CREATURE_STARTED,AgentsWoken", cwd=crewlog.cwd,
        env=crewlog.env,
    )  # fmt: skip
    terminal.expect("adds late")
    assert f"{one}" in terminal.text
    assert "heard by" in terminal.text
    for run in (one, two):
        assert crewlog("stop", run).code == 0
    assert terminal.end() == 0
    assert "thinking" not in terminal.text

    def found(*which: str) -> list[tuple[str, str]]:
        done = crewlog("watch", one, two, *which, "--json")
        assert done.code == 0, done.err
        records = done.records
        assert {each["run"] for each in records if each["event"] == "ended"} == {one, two}
        told = [each for each in records if each["event"] == "journal"]
        assert [each["at"] for each in told] == sorted(each["at"] for each in told)
        return [(each["run"], each["entry"]["kind"]) for each in told]

    whole = found()
    assert {(one, "RunStopped"), (two, "RunStopped")} <= {*whole}
    assert found("--kind", "CREATURE_STARTED") == [(two, "ComponentChanged")]
    assert found("--creature", "late", "--kind", "CREATURE_STOPPED") == []
    assert found("--kind", "RunStarted", "--graph", two) == [(two, "RunStarted")]
    heard = found("--channel", "tasks")
    assert (one, "AgentsWoken") in heard
    assert all(run == one for run, _ in heard)
    scout = found("--creature", "scout")
    assert {(one, "AgentsWoken"), (one, "StepStarted"), (one, "StepCompleted")} <= {*scout}
    # Whoever looks is not seen: the journals are what they were.
    assert found() == whole
    lost = crewlog("watch", one, "nowhere-at-all", "--kind", "RunStarted")
    assert (lost.code, "nowhere-at-all" in lost.err) == (4, True)


@covers("C112")
@pytest.mark.server
def test_a_watch_goes_on_in_the_runs_that_come_of_one(crewlog: Cli, project: Path) -> None:
    (project / "pond.yaml").write_text(POND)
    (project / "pond.script.yaml").write_text(SCRIPT)
    run = f"pond-{uuid4().hex[:6]}"
    assert crewlog("run", "pond.yaml", "--id", run, "--detach").code == 0
    dry = crewlog("graph", "add", run, "late", "--like", "scout", "--listen", "asides", "--dry-run")
    assert f"    {run} keeps its id, with keeper and scout\n    a new run, with late" in dry.out
    done = crewlog("graph", "add", run, "late", "--like", "scout", "--listen", "asides")
    assert done.code == 0, done.err
    part = done.out.partition(f"    {run}.")[2].partition(", with late")[0]
    assert part, done.out
    terminal = Terminal(
        "watch", run, "--kind", "SESSION_FORKED,StepStarted", cwd=crewlog.cwd, env=crewlog.env
    )
    terminal.expect(f"parted from {run}")
    said = crewlog("message", f"{run}.{part}", "Hello.", "--to", "channel:asides")
    assert said.code == 0, said.err
    terminal.expect("thinking")
    for each in (run, f"{run}.{part}"):
        assert crewlog("stop", each).code == 0
    assert terminal.end() == 6
    assert "stopped" in terminal.text
    only = crewlog("watch", run, "--graph", run, "--json").records
    assert {each["run"] for each in only} == {run}

"""`crewlog graph`: drawing, and who lives in a run's graph and how they are connected."""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from covers import covers
from crewlog.cli.change_terms import GRAPH, in_terms_of
from crewlog.cli.changes import Wanted, agent_in, names_in, prompt_in
from crewlog.cli.changing import helped
from crewlog.cli.main import run_cli
from crewlog.cli.screen import Screen
from crewlog.cli.told_graphs import graph_lines
from crewlog.client import Client
from crewlog.definition.findings import for_run
from crewlog.errors import ChangeConflict, UsageError
from crewlog.ids import AgentName, RunId
from crewlog.wire import ComponentChangeView, RenameView

from .conftest import Cli
from .terminal import Terminal

POND = """\
crew: pond
model: scripted:pond.script.yaml
graph: {root: keeper, idle: 2h}
agents:
  keeper: {prompt: Keep., tools: [], listen: [reports], send: [tasks]}
  scout: {prompt: Look., tools: [], listen: [tasks], wires: ["channel:reports"]}
"""
SCRIPT = 'agents:\n  "*": [' + ", ".join(["{text: ok}"] * 20) + "]\n"


# -- what is typed -------------------------------------------------------------------------------


def test_a_file_is_drawn_with_and_without_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pond.yaml").write_text(POND)
    monkeypatch.chdir(tmp_path)
    drawn = []
    for line in (["pond.yaml"], ["show", "pond.yaml"], ["--mermaid", "pond.yaml"]):
        assert run_cli(["graph", *line]) == 0
        drawn.append(capsys.readouterr().out)
    assert "keeper" in drawn[0]
    assert drawn[0] == drawn[1]
    assert drawn[2].startswith("flowchart LR")


def test_who_hears_whom_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "  digger: {prompt: Dig., send: [dug], beside: scout, enabled: false}\n"
    (tmp_path / "pond.yaml").write_text(POND + more)
    monkeypatch.chdir(tmp_path)
    assert run_cli(["graph", "show", "pond.yaml"]) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "  agent    listens to   sends to   wired to",
        "  digger   –            dug        –                 beside scout, switched off",  # noqa: RUF001
        "  keeper   reports      tasks      –                 root",  # noqa: RUF001
        "  scout    tasks        –          channel:reports",  # noqa: RUF001
        "",
        "  channel   from           to",
        "  dug       digger         nobody",
        "  reports   scout (wire)   keeper",
        "  tasks     keeper         scout",
    ]
    assert run_cli(["graph", "pond.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (keeper,) = [each for each in told["channel_agents"] if each["root"]]
    assert (keeper["name"], keeper["wake_channels"], keeper["privileged"]) == (
        "keeper",
        ["reports"],
        True,
    )
    assert told["channels"][1] == {
        "name": "reports",
        "senders": [],
        "wire_sources": ["scout"],
        "listeners": ["keeper"],
    }
    monkeypatch.setenv("COLUMNS", "60")
    assert run_cli(["graph", "show", "pond.yaml"]) == 0
    narrow = capsys.readouterr().out.splitlines()
    assert max(map(len, narrow)) <= 76, "names stay whole, and the last column folds"
    (first,) = [line.split() for line in narrow if "beside" in line]
    assert (first[0], first[2], first[-1]) == ("digger", "dug", "beside")


def test_a_flow_is_drawn_above_who_hears_whom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pond.yaml"
    file.write_text(POND + "flow: [scout]\n")
    assert run_cli(["graph", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "─ done" in shown
    assert "in the flow" in shown


def test_a_word_that_is_no_command_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["graph", "ad", "pond", "scout"]) == 2
    assert "`crewlog graph` has no command 'ad'" in (err := capsys.readouterr().err)
    assert "Did you mean 'add'?" in err
    assert run_cli(["graph", "channel", "pond", "c", "--remove", "--description", "x"]) == 2
    assert "do not go together" in capsys.readouterr().err
    assert run_cli(["graph", "channel", "pond", "a b"]) == 2
    assert "NAME  'a b' cannot be a name" in (err := capsys.readouterr().err)
    assert "A name is a letter" in err
    assert run_cli(["graph", "connect", "pond", "a", "b", "--channel", "a!"]) == 2
    assert "--channel  'a!' cannot be the name of a channel" in capsys.readouterr().err
    for prompt, said in (("none.md", "there is no file 'none.md'"), (" ", "the prompt is empty")):
        assert run_cli(["graph", "add", "pond", "new", "--prompt", prompt]) == 2
        assert f"graph add --prompt  {said}" in capsys.readouterr().err


def test_an_agent_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("prompt: Look.\ntools: [search]\n")
    (tmp_path / "a.md").write_text("# Look\n")
    (tmp_path / "list.yaml").write_text("- no agent\n")
    assert agent_in(str(tmp_path / "a.yaml"), "x") == {"prompt": "Look.", "tools": ["search"]}
    assert agent_in(str(tmp_path / "a.md"), "x") == {"prompt": "# Look\n"}
    with pytest.raises(
        UsageError, match=r"list.yaml' holds no agent: it must be a mapping"
    ) as told:
        agent_in(str(tmp_path / "list.yaml"), "crewlog graph add --file")
    assert told.value.place == "crewlog graph add --file"
    with pytest.raises(UsageError, match="there is no file"):
        agent_in(str(tmp_path / "b.yaml"), "x")
    assert prompt_in(str(tmp_path / "a.md"), "x") == "# Look\n"
    assert names_in(["a,b", "b", " c "]) == ["a", "b", "c"]
    assert names_in(None) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("operations[0].listener", "LISTENER"),
        ("operations[0].other", "--with"),
        ("operations[0].agent.listen[0]", "--listen"),
        ("operations[0].agent.wires[1]", "--wire"),
        ("operations[0].agent.tools[0]", "--file tools[0]"),
        ("operations[0].agent", "NAME"),
        ("operations[0].graph.root", "crewlog graph → graph.root"),
        ("operations[0]", "crewlog graph"),
    ],
)
def test_faults_name_the_argument(said: str, told: str) -> None:
    with pytest.raises(ChangeConflict) as caught, in_terms_of((GRAPH,)):
        raise ChangeConflict(f"no crew:\n{said}  it is wrong", remedy="Mend it.")
    assert caught.value.message == f"no crew:\n{told}  it is wrong"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("operations[0].agent.listen[0]", "--listen"),
        ("operations[0].agent.send[0]", "--file an agent.yaml send[0]"),
        ("operations[0].agent.listn", "--file an agent.yaml listn"),
        ("operations[0].agent", "NAME"),
        ("operations[0].like", "--like"),
    ],
)
def test_faults_name_the_file_where_that_says_it(
    said: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "an agent.yaml").write_text("prompt: Look.\nsend: [x]\nlistn: [y]\n")
    monkeypatch.chdir(tmp_path)
    places: list[str] = []

    async def made(run: str, typed: Wanted, how: Any, **rest: Any) -> int:
        del run, how, rest
        places.extend(typed.places)
        return 0

    monkeypatch.setattr("crewlog.cli.changing.make_change", made)
    typed = ("add", "pond", "late", "--listen", "c", "--file", "an agent.yaml")
    assert run_cli(["graph", *typed]) == 0
    with pytest.raises(ChangeConflict) as caught, in_terms_of(places):
        raise ChangeConflict(f"{said}  it is wrong")
    assert caught.value.message == f"{told}  it is wrong"


def test_remedies_are_for_who_has_written_no_crew() -> None:
    for wire, typed in (
        ("For example: prompt: Write notes for users.", "or --like AGENT"),
        ("Agents are under 'agents:'.", "`crewlog graph RUN` tells who lives there."),
    ):
        with pytest.raises(ChangeConflict) as caught, in_terms_of((GRAPH,)):
            raise ChangeConflict("no crew", remedy=wire)
        assert typed in caught.value.remedy
        with pytest.raises(ChangeConflict) as caught, in_terms_of((GRAPH,), "pond-1"):
            raise ChangeConflict("no crew", remedy=wire)
        assert typed.replace("RUN", "pond-1") in caught.value.remedy


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("To end a run, stop it: crewlog stop RUN", "To end a run, stop it: crewlog stop pond-1"),
        (
            "Connect them anew: crewlog graph connect RUN boss scout",
            "Connect them anew: crewlog graph connect pond-1 boss scout",
        ),
        ("`crewlog graph start-node RUN a` or RUN", "`crewlog graph start-node pond-1 a` or RUN"),
        ("`crewlog message RUNS x`", "`crewlog message RUNS x`"),
    ],
)
def test_commands_that_are_to_be_typed_name_the_run(said: str, told: str) -> None:
    assert for_run(said, "pond-1") == told


# -- what is told --------------------------------------------------------------------------------


def lines(change: ComponentChangeView, *who: list[str], known: bool = True) -> list[str]:
    stays, leaves = who or ([], [])
    found = graph_lines(RunId("pond"), change, stays, leaves, known=known)
    return ["".join(part[0] for part in head) + text for head, text in found]


def test_who_parts_from_whom_is_told() -> None:
    change = ComponentChangeView(
        kind="split",
        old_graph_ids=(RunId("pond"),),
        new_graph_ids=(RunId("pond"), RunId("pond.1")),
        affected_creatures=(AgentName("a"), AgentName("b")),
    )
    assert lines(change, ["a", "c"], ["b"], known=False) == [
        "  ⑂ parts into 2 graphs",
        "    pond keeps its id, with a and c",
        "    a new run, with b",
        "  ~ affects a and b; no turn is disturbed",
    ]
    assert lines(change, ["a"], ["b"])[1:3] == [
        "    pond keeps its id, with a",
        "    pond.1, with b",
    ]
    three = change.model_copy(update={"new_graph_ids": ("pond", "pond.1", "pond.2")})
    assert lines(three)[1:3] == ["    pond keeps its id", "    pond.1 and pond.2"]
    assert lines(three, ["a"], ["b", "c"], known=False)[2] == "    new runs, with b and c"


def test_who_becomes_one_is_told() -> None:
    change = ComponentChangeView(
        kind="merge",
        old_graph_ids=(RunId("lake"), RunId("pond")),
        new_graph_ids=(RunId("lake"),),
        renames=(RenameView(kind="agent", run=RunId("pond"), was="scout", now="scout-2"),),
    )
    assert lines(change) == [
        "  ⋈ lake and pond become one: lake keeps its id",
        "    the agent scout of pond is scout-2 then",
        "  ~ affects nobody; no turn is disturbed",
    ]


# -- on the server -------------------------------------------------------------------------------


@pytest.fixture
def pond(crewlog: Cli, project: Path) -> str:
    """A run of a crew without a flow, which rests."""
    (project / "pond.yaml").write_text(POND)
    (project / "pond.script.yaml").write_text(SCRIPT)
    run = f"pond-{uuid4().hex[:6]}"
    done = crewlog("run", "pond.yaml", "--id", run, "--detach")
    assert done.code == 0, done.err
    return run


def changes(crewlog: Cli, run: str) -> list[dict[str, Any]]:
    entries = [each["entry"] for each in crewlog("log", run, "--json").records]
    return [each for each in entries if each["kind"] in ("ComponentChanged", "DefinitionChanged")]


@covers("C110")
@pytest.mark.server
def test_a_live_graph_is_changed_from_the_command_line(crewlog: Cli, pond: str) -> None:
    typed = ("add", pond, "late", "--like", "scout", "--listen", "tasks,asides")
    dry = crewlog("graph", *typed, "--dry-run")
    assert dry.code == 0, dry.err
    assert "graph v1 → v2  adds late" in dry.out
    assert "~ affects keeper and late; no turn is disturbed" in dry.out
    assert crewlog("graph", pond, "--json").records[0]["version"] == 1
    done = crewlog("graph", *typed, "--by", "ana", "--reason", "too slow", "--command-id", "g1")
    assert done.code == 0, done.err
    assert f"✓ {pond} has graph v2, before v1: adds late" in done.out
    assert "~ affects keeper and late" in done.out
    again = crewlog("graph", *typed, "--by", "ana", "--command-id", "g1", "--reason", "too slow")
    assert again.code == 0, again.err
    for line, said in (
        (("channel", pond, "side", "--description", "An aside."), "adds the channel side"),
        (("connect", pond, "keeper", "late", "--channel", "side"), "keeper sends to side"),
        (("wire", pond, "late", "keeper"), "late is wired to keeper"),
        (("unwire", pond, "late", "keeper"), "late is wired no more to keeper"),
        (("disconnect", pond, "keeper", "late", "--channel", "side"), "keeper sends no more"),
        (("channel", pond, "side", "--remove"), "removes the channel side"),
        (("stop-node", pond, "late"), "late is switched off in"),
        (("start", pond, "late"), "late is switched on in"),
        (("remove", pond, "late"), "removes late"),
    ):
        done = crewlog("graph", *line)
        assert (done.code, said in done.out) == (0, True), (line, done.out, done.err)
    told = changes(crewlog, pond)
    assert len(told) == 10, "a command that is sent again has no second effect"
    assert (told[0]["by"], told[0]["reason"], told[0]["command"]) == ("ana", "too slow", "g1")
    assert told[0]["events"] == [{"event": "CREATURE_STARTED", "agent": "late"}]
    assert "keeper" in crewlog("graph", "show", pond).out


@pytest.mark.server
def test_what_cannot_be_is_refused_with_the_argument(crewlog: Cli, pond: str) -> None:
    for line, place, remedy in (
        (("connect", pond, "keeper", "scuot"), "LISTENER  the crew has no agent", "'scout'?"),
        (("add", pond, "scout", "--prompt", "x"), "NAME  the crew has an agent", "another name"),
        (
            ("add", pond, "end", "--prompt", "x"),
            "NAME  an agent cannot be called 'end'",
            "end_agent",
        ),
        (("add", pond, "late"), "--prompt  agent 'late' has no 'prompt'", "--like AGENT"),
        (("add", pond, "late", "--like", "scuot"), "--like  ", "'scout'?"),
        (("unwire", pond, "keeper", "scout"), "TO  ", "no wires"),
    ):
        done = crewlog("graph", *line)
        assert done.code == 2, line
        assert place in done.err
        assert remedy in done.err
        assert "operations" not in done.err
        assert "More errors may follow" not in done.err, line
    done = crewlog("graph", "connect", pond, "keeper", "x", "--with", "lake")
    assert (done.code, "--with  there is no run 'lake'" in done.err) == (4, True), done.err
    assert changes(crewlog, pond) == []
    stale = ("graph", "wire", pond, "keeper", "scout", "--graph-version", "7")
    for more in ((), ("--dry-run",), ("--command-id", "stale-1")):
        done = crewlog(*stale, *more)
        assert done.code == 2, (more, done.err)
        assert "made against graph v7, and the run has v1" in done.err, (more, done.err)
    assert changes(crewlog, pond) == []
    told = crewlog("graph", "wire", pond, "keeper", "scout", "--dry-run", "--json").records[0]
    assert (told["event"], told["report"]["component_change"]["kind"]) == ("dry_run", "nothing")
    assert told["report"]["component_change"]["new_graph_ids"] == [pond]


@covers("C102")
@pytest.mark.server
def test_what_a_change_leads_to_unawares_is_told(crewlog: Cli, pond: str) -> None:
    said = (
        "! 'keeper' was the root: what people say to public gives nobody a turn any more",
        f"crewlog message {pond} TEXT --to private:AGENT",
        "! agent 'scout' is wired to 'reports', to which nobody listens",
    )
    for more in (("--dry-run",), ()):
        done = crewlog("graph", "remove", pond, "keeper", *more)
        assert done.code == 0, done.err
        assert [each for each in said if done.out.count(each) != 1] == [], done.out
    told = crewlog("graph", "channel", pond, "more", "--json").records[0]["report"]
    assert told["warnings"] == [], "what was so before is not told again"


@pytest.mark.server
def test_who_says_something_is_told_who_hears_it(crewlog: Cli, pond: str) -> None:
    said = crewlog("message", pond, "Hello.")
    assert (said.code, "has the message: keeper hears it" in said.out) == (0, True), said.err
    slip = crewlog("message", pond, "Hello.", "--to", "tasks")
    assert (slip.code, "Did you mean 'channel:tasks'?" in slip.err) == (2, True), slip.err
    assert crewlog("graph", "stop-node", pond, "scout").code == 0
    waits = crewlog("message", pond, "Hello.", "--to", "channel:tasks")
    assert f"scout is switched off: it waits until crewlog graph start {pond} scout" in waits.out
    assert crewlog("pause", pond).code == 0
    paused = crewlog("message", pond, "Hello.")
    assert f"! {pond} is paused: it waits until crewlog resume {pond}" in paused.out
    assert crewlog("inject", pond, "Hello.", "--json").records[0]["paused"] is True
    assert crewlog("resume", pond).code == 0
    assert crewlog("graph", "remove", pond, "keeper").code == 0
    nobody = crewlog("inject", pond, "Hello.")
    assert "paused" not in nobody.out
    assert nobody.code == 0, nobody.err
    assert "! nobody has a turn for it: the graph has no root" in nobody.out
    assert "--to channel:tasks, --to private:scout" in nobody.out
    told = crewlog("message", pond, "Hello.", "--json").records[0]
    assert (told["applied"], told["turns"]) == (True, [])
    assert told["warning"].startswith("nobody has a turn for it: ")


@pytest.mark.server
def test_an_input_that_nobody_hears_is_told(crewlog: Cli, pond: str, project: Path) -> None:
    (project / "headless.yaml").write_text(POND.replace("root: keeper, ", ""))
    run = f"{pond}-headless"
    done = crewlog("run", "headless.yaml", "--id", run, "--input", "Find it.", "--detach")
    assert done.code == 0, done.err
    assert "nobody has a turn for the input: the graph has no root" in done.err
    assert f"crewlog message {run} TEXT --to channel:reports" in done.err
    quiet = crewlog("run", "headless.yaml", "--id", f"{run}-2", "--detach")
    assert (quiet.code, "nobody has a turn" in quiet.err) == (0, False), quiet.err


@pytest.mark.server
def test_at_a_terminal_a_graph_is_shown_before_it_is_changed(crewlog: Cli, pond: str) -> None:
    terminal = Terminal(
        "graph", "wire", pond, "keeper", "scout", cwd=crewlog.cwd, env=crewlog.env, width=50
    )
    terminal.expect("Change it? [y/N]")
    assert "affects keeper and scout" in terminal.text
    terminal.type("n")
    terminal.expect("Nothing was changed.")
    assert terminal.end() == 6


@covers("C101")
@pytest.mark.server
def test_two_runs_are_made_one(crewlog: Cli, pond: str, project: Path) -> None:
    lake = f"lake-{uuid4().hex[:6]}"
    (project / "lake.yaml").write_text(POND.replace("pond", "lake", 1).replace("scout", "diver"))
    assert crewlog("run", "lake.yaml", "--id", lake, "--detach").code == 0
    typed = ("connect", pond, "scout", "diver", "--with", lake, "--channel", "tie")
    dry = crewlog("graph", *typed, "--dry-run")
    assert dry.code == 0, dry.err
    assert f"{lake} and {pond} become one: {lake} keeps its id" in dry.out
    done = crewlog("graph", *typed)
    assert done.code == 0, done.err
    assert f"✓ {pond} is one graph with another run now" in done.out
    assert f"the agent keeper of {pond} is keeper-2 then" in done.out
    seen = crewlog(
        "watch", pond, "--kind", "TOPOLOGY_CHANGED:merge,RunEndedByMerge", "--json", "--graph"
    )
    assert seen.code == 2, "--graph needs a run"
    led = f"{pond} is part of {lake} by now: going on there"
    said = crewlog("message", pond, "Hello.", "--to", "channel:tie")
    assert (said.code, led in said.err) == (0, True), said.err
    more = crewlog("graph", "channel", pond, "more")
    assert (more.code, led in more.err) == (0, True), more.err
    assert "its agent 'keeper' is named 'keeper-2' there" in " ".join(more.err.split())
    stopped = crewlog("graph", "stop-node", pond, "keeper")  # there, that is another one
    assert stopped.code != 0
    assert f"'keeper' of '{pond}' is called 'keeper-2'" in " ".join(stopped.err.split())
    off = crewlog("graph", "stop-node", pond, "keeper-2")
    assert f"✓ keeper-2 is switched off in {lake}" in off.out, off.err
    assert f"merged into {lake}" in " ".join(crewlog("show", pond).out.split())
    assert f"■ {pond} is merged into {lake}" in crewlog("graph", pond).out
    assert "■" not in crewlog("graph", lake).out
    assert crewlog("stop", lake).code == 0
    assert f"■ {lake} has ended (stopped)" in crewlog("graph", lake).out
    told = crewlog(
        "watch", pond, "--kind", "TOPOLOGY_CHANGED:merge,RunEndedByMerge", "--json"
    ).records
    kinds = [(each["run"], each["entry"]["kind"]) for each in told if each["event"] == "journal"]
    assert sorted(kinds) == [(lake, "RunMerged"), (pond, "RunEndedByMerge")]


@covers("C104", "C109")
@pytest.mark.server
def test_a_surviving_run_shows_the_events_of_the_merged_run(
    crewlog: Cli, pond: str, project: Path
) -> None:
    lake = f"lake-{uuid4().hex[:6]}"
    (project / "lake.yaml").write_text(POND.replace("pond", "lake", 1).replace("scout", "diver"))
    assert crewlog("run", "lake.yaml", "--id", lake, "--detach").code == 0
    assert crewlog("message", pond, "Hello.", "--to", "channel:tasks").code == 0
    alone = [(each["run"], each["position"]) for each in crewlog("log", pond, "--json").records]
    assert crewlog("graph", "connect", pond, "scout", "diver", "--with", lake).code == 0
    events = [(each["run"], each["position"]) for each in crewlog("log", lake, "--json").records]
    own = [position for run, position in events if run == lake]
    merged = [(run, position) for run, position in events if run == pond]
    assert merged[: len(alone)] == alone
    assert [position for _, position in merged] == list(range(1, len(merged) + 1))
    assert own == sorted(own)
    assert f"{pond} " in crewlog("log", lake).out
    assert crewlog("stop", lake).code == 0
    trace, report = (crewlog(command, lake, "--json").records[0] for command in ("trace", "report"))
    assert [each["run"] for each in trace["merged_runs"]] == [pond]
    assert [each["run"] for each in report["merged_runs"]] == [pond]
    assert trace["merged_runs"][0]["steps"]
    for command in ("trace", "report"):
        assert f"merged into {lake}" in crewlog(command, lake).out
    section = crewlog("trace", lake).out.partition(f"merged into {lake}")[2]
    shown = re.findall(r"^ +((?:\d+:)*\d+(?:\.\d+)?)  \S ", section, re.MULTILINE)
    times = [sum(60**n * float(part) for n, part in enumerate(t.split(":")[::-1])) for t in shown]
    assert len(times) > 2
    assert times == sorted(times), "steps and events have one clock"
    refused = crewlog("delete", pond)
    assert refused.code != 0
    assert f"crewlog delete {lake}" in " ".join(refused.err.split())
    for each in (lake, pond):
        done = crewlog("delete", each)
        assert done.code == 0, done.err


@covers("C101")
@pytest.mark.server
def test_a_program_is_told_what_two_runs_became(crewlog: Cli, pond: str, project: Path) -> None:
    lake = f"lake-{uuid4().hex[:6]}"
    (project / "lake.yaml").write_text(POND.replace("pond", "lake", 1).replace("scout", "diver"))
    assert crewlog("run", "lake.yaml", "--id", lake, "--detach").code == 0
    assert crewlog("graph", "channel", lake, "more").code == 0
    typed = ("connect", pond, "scout", "diver", "--with", lake, "--channel", "tie", "--json")
    done = crewlog("graph", *typed)
    assert done.code == 0, done.err
    told = done.records[0]
    assert (told["into"], told["graph_version"]) == (lake, 3), "it was v1 of the one that asked"


@covers("C104", "C108")
@pytest.mark.server
def test_where_graphs_come_from_is_shown(crewlog: Cli, pond: str) -> None:
    done = crewlog("graph", "add", pond, "late", "--like", "scout", "--listen", "asides")
    part = f"{pond}.{done.out.partition(f'    {pond}.')[2].partition(', with late')[0]}"
    watching = crewlog("message", part, "Hello.", "--to", "channel:asides")
    assert watching.code == 0, watching.err
    told = {each["run"]: each for each in crewlog("lineage", part, "--json").records[0]["graphs"]}
    assert list(told) == [pond, part]
    assert (told[part]["began"], told[part]["source"]) == ("split", pond)
    assert (told[pond]["members"], told[part]["members"]) == (["keeper", "scout"], ["late"])
    shown = crewlog("graphs").out
    assert f"  {pond}" in shown
    assert f"  └─ {part}" in shown
    assert f"late · parted from {pond}@" in shown
    assert f"parted from {pond}@" in crewlog("show", part).out
    none = crewlog("lineage", "nowhere-at-all")
    assert (none.code, "the store knows no run" in none.err) == (4, True)


@covers("C118", "C119")
@pytest.mark.server
@pytest.mark.timeout(400)
def test_a_run_goes_on_live_or_as_its_crew_is_written(
    crewlog: Cli, pond: str, project: Path
) -> None:
    def members() -> set[str]:
        (graph,) = crewlog("lineage", pond, "--json").records[0]["graphs"]
        return {*graph["members"]}

    def goes_on(start: str, said: str) -> None:
        assert crewlog("stop", pond).code == 0
        done = crewlog("resume", pond, "--from", start)
        assert (done.code, said in done.out) == (0, True), done.err

    shown = crewlog("show", pond).out
    assert "recipe" in shown
    assert "scout    tasks        –          channel:reports" in shown, "as a table"  # noqa: RUF001
    assert "live" not in shown, "nobody has changed it"
    assert crewlog("graph", "add", pond, "late", "--like", "scout", "--listen", "tasks").code == 0
    goes_on("live", "goes on.\n")
    assert members() == {"keeper", "late", "scout"}
    goes_on("recipe", "– late leaves: not in the recipe\n")  # noqa: RUF001
    assert members() == {"keeper", "scout"}
    crew = (project / "pond.yaml").read_text()
    (project / "pond.yaml").write_text(crew + "  new: {prompt: New., tools: [], listen: [tasks]}\n")
    goes_on("pond.yaml", "goes on from its recipe.\n")
    assert members() == {"keeper", "new", "scout"}
    kinds = [each["entry"]["kind"] for each in crewlog("log", pond, "--json").records]
    assert kinds.count("RunReopened") == 3


@covers("C118")
@pytest.mark.server
@pytest.mark.timeout(400)
def test_it_is_told_who_leaves_with_the_way_back_to_the_recipe(
    crewlog: Cli, pond: str, project: Path
) -> None:
    """Who came by a merge is not in the recipe: that is said before, and asked about."""
    lake = f"lake-{uuid4().hex[:6]}"
    (project / "lake.yaml").write_text(POND.replace("pond", "lake", 1).replace("scout", "diver"))
    assert crewlog("run", "lake.yaml", "--id", lake, "--detach").code == 0
    typed = ("connect", pond, "scout", "diver", "--with", lake, "--channel", "tie")
    assert crewlog("graph", *typed).code == 0
    into = crewlog("lineage", pond, "--json").records[0]["graphs"]
    (stays,) = [each["run"] for each in into if each["status"] != "merged"]
    assert crewlog("graph", "remove", stays, "keeper").code == 0
    dry = crewlog("resume", stays, "--from", "recipe", "--dry-run")
    assert dry.code == 0, dry.err
    assert f"Pause it first   crewlog pause {stays}" in dry.out
    refused = crewlog("resume", stays, "--from", "recipe")
    assert (refused.code, "it is not paused" in refused.err) == (2, True), refused.err
    assert crewlog("graph", stays, "--json").records[0]["version"] == 3, "nothing was changed"
    assert crewlog("stop", stays).code == 0
    other = pond if stays == lake else lake
    brought = "keeper-2 and scout" if other == pond else "keeper-2 and diver"
    for more in ((), ("--dry-run",)):
        terminal = Terminal(
            *("resume", stays, "--from", "recipe", *more), cwd=crewlog.cwd, env=crewlog.env
        )
        terminal.expect(f"{brought} leave: came with {other}")
        terminal.expect("keeper comes back")
        if not more:
            terminal.expect("Go on? [y/N]")
            terminal.type("n")
            terminal.expect("Nothing was changed.")
        assert terminal.end() == (0 if more else 6)
    told = crewlog("resume", stays, "--from", "recipe", "--dry-run", "--json").records[0]
    assert told["event"] == "dry_run"
    assert [(each["name"], each["came_with"]) for each in told["leaves"]] == [
        (name, other) for name in brought.split(" and ")
    ]
    assert (told["returns"], told["stays"], told["pieces"]) == (["keeper"], {}, 1)
    assert sorted(told["channels_gone"]) == ["reports-2", "tasks-2", "tie"]
    done = crewlog("resume", stays, "--from", "recipe", "--json")
    assert done.code == 0, done.err
    assert done.records[0]["leaves"] == told["leaves"]
    assert crewlog("graph", stays, "--json").records[0]["version"] == 4
    shown = " ".join(crewlog("show", stays).out.split())
    assert "that it was started with: removes keeper-2 and" in shown


@pytest.mark.server
def test_a_worker_that_comes_is_not_missed(
    crewlog: Cli, pond: str, home: Path, tmp_path: Path
) -> None:
    """A command tells of a queue that nobody polls only where it brings no worker along."""
    (tmp_path / "pond.yaml").write_text(POND.replace("scout", "diver"))
    (tmp_path / "pond.script.yaml").write_text(SCRIPT)
    there, runs = Cli(home, tmp_path), [f"{pond}-{number}" for number in (1, 2)]
    first, second = (there("run", "pond.yaml", "--id", run, "--detach") for run in runs)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    pid = int(first.out.partition("worker (pid ")[2].partition(")")[0])
    assert "no worker polls" not in second.err, "it was started just before"
    for run in runs:  # it begins
        assert any(there("graph", run, "--json").code == 0 for _ in range(30))
    worker = psutil.Process(pid)
    worker.terminate()
    worker.wait(60)
    alone = there("graph", "channel", runs[0], "more")
    assert (alone.code, "no worker polls" in alone.err) == (0, False), alone.err
    typed = ("connect", pond, "keeper", "diver", "--with", runs[1], "--channel", "tie")
    both = crewlog("graph", *typed)
    assert (both.code, "no worker polls" in both.err) == (0, False), both.err


async def test_who_cannot_answer_for_want_of_a_worker_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def polled(client: Client, queue: str) -> bool:
        del client
        return queue == "served"

    monkeypatch.setattr("crewlog.cli.background.polled", polled)
    client: Any = None
    async with AsyncExitStack() as helping:
        for queue in ("served", "nobody-s"):
            await helped(Screen(), client, f"run-{queue}", queue, helping)
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("▸ run-nobody-s cannot answer: no worker polls 'nobody-s': run `crewlog")


@pytest.mark.server
def test_how_a_run_that_rested_goes_on_is_told(crewlog: Cli, project: Path) -> None:
    (project / "idle.yaml").write_text(POND.replace("2h", "300ms"))
    (project / "pond.script.yaml").write_text(SCRIPT)
    run = f"idle-{uuid4().hex[:6]}"
    done = crewlog("run", "idle.yaml", "--id", run)
    assert done.code == 0, done.err
    assert f"Go on    crewlog resume {run}" in done.out
    for line in (("graph", "channel", run, "more"), ("message", run, "Hello.")):
        late = crewlog(*line)
        assert (late.code, f"`crewlog resume {run}` takes it up again" in late.err) == (2, True)
    over = crewlog("run", "two.yaml", "--id", f"{run}-two")
    assert (over.code, "resume" in over.out) == (0, False), over.err
    late = crewlog("change", f"{run}-two", "--remove", "first")
    assert (late.code, "resume" in late.err) == (2, False), late.err

"""`permissions`, `why`, `allow`, `ask`, `deny`, `disable-tool`, `audit`, as people type them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from covers import covers
from crewlog.cli.auditing import said, when
from crewlog.cli.editing import value_of
from crewlog.cli.inboxing import answerer, others
from crewlog.cli.matrix import _legend, next_window, show_matrix, tables
from crewlog.cli.screen import Screen
from crewlog.errors import UsageError
from crewlog.ids import AgentName, CrewName, InterruptId, RunId, ToolName
from crewlog.reporting.audit.view import AuditRecord
from crewlog.reporting.inbox import inbox_interrupt_view
from crewlog.reporting.permission_matrix.view import (
    RemedyView,
    permission_explanation,
    permission_matrix_view,
)
from crewlog.state.model import Interrupt
from crewlog.wire import LivePermissionView, PermissionsPage, PermissionView, QuotaUseView

from .conftest import Cli

RUN = f"guarded-{uuid4().hex[:6]}"


def remedies(cell: PermissionView) -> tuple[RemedyView, ...]:
    return permission_explanation(PermissionsPage(run=RunId("r"), cells=(cell,))).remedies


def cell(agent: str, tool: str, **more: Any) -> PermissionView:
    data = {"outcome": "allow", "reason": "r", **more}
    return PermissionView(agent=AgentName(agent), tool=ToolName(tool), **data)


@pytest.mark.parametrize("width", [24, 60, 80, 200])
def test_the_matrix_fits_the_screen(width: int) -> None:
    tools = [f"tool_number_{n}" for n in range(23)]
    made = LivePermissionView(do="deny")
    cells = [
        cell(agent, tool, outcome="deny" if tool.endswith("2") else "allow", live_permission=made)
        for agent in ("a", "an_agent_with_quite_a_long_name")
        for tool in tools
    ]
    shown: list[str] = []
    for table in tables(cells, width):
        assert len(table) == 3
        for row in table:
            line = "".join(part if isinstance(part, str) else part[0] for part in row).rstrip()
            # One column is shown however narrow it is.
            assert len(line) <= width or len(line.split()) <= 2
        shown += "".join(part if isinstance(part, str) else part[0] for part in table[0]).split()
    assert shown == tools


def test_the_legend_of_a_matrix_fits_the_screen() -> None:
    cells = [
        cell("a", o, outcome=o, live_permission=LivePermissionView(do="deny"))
        for o in ("allow", "ask", "deny")
    ]
    lines = list(_legend([*cells, cell("a", "x", has_tool=False)], 40))
    told = ["".join(p if isinstance(p, str) else p[0] for p in line).rstrip() for line in lines]
    assert [len(each) <= 40 for each in told] == [True] * 3
    assert told[-1].endswith("* set at run time")


def test_an_answer_is_typed_for_whom_it_is_asked_of() -> None:
    assert answerer(["ana b", "ben"], "root") == " --by 'ana b'"
    assert answerer(["ana", "root"], "root") == answerer([], "root") == ""


def test_times_are_durations_or_have_a_zone() -> None:
    assert when("") == 0
    assert when("2h") < when("1m")
    assert when("1970-01-01T00:00:01Z") == 1000
    with pytest.raises(UsageError, match="is no time"):
        when("yesterday")


def test_a_pipe_is_wrapped_where_columns_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    words = "word " * 40
    Screen().wrapped(["  head "], words, indent=7)
    assert len(capsys.readouterr().out.splitlines()) == 1
    monkeypatch.setenv("COLUMNS", "60")
    Screen().wrapped(["  head "], words, indent=7)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 60


def test_a_large_matrix_tells_together_what_needs_no_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = [cell(agent, f"t{n}") for agent in "ab" for n in range(30)]
    cells[3] = cell("a", "t3", outcome="deny", rule="rules[0]", reason="rules[0] says never")
    page = PermissionsPage(run=RunId("r"), crew=CrewName("c"), total=60, cells=tuple(cells))
    show_matrix(Screen(), permission_matrix_view(page))
    out = capsys.readouterr().out
    assert "✗ t3  rules[0] says never" in out
    assert "✓ among its tools: t0, t1, t2, t4" in out
    assert out.count("\n") < 20


def test_why_a_day_is_used_up_says_when_the_next_begins_and_what_changes_it() -> None:
    quota = QuotaUseView(
        rule="rules[2]", quota="5 per day", used_calls=5, remaining_calls=0, zone="UTC"
    )
    full = cell("a", "look", outcome="deny", rule="rules[2]", quotas=(quota,))
    (window,) = next_window(full)
    assert "the next day begins at 2" in window
    (remedy,) = remedies(full)
    assert remedy.command == "crewlog change r --operations FILE"
    operations = value_of(remedy.effect.partition(": ")[2])
    assert operations == [{"op": "edit_rule", "place": 2, "set": {"quota": "10 per day"}}]


def test_who_lacks_what_no_ruling_gives_is_told_what_does() -> None:
    for tool, edit in (("group_wire", "privileged=true"), ("send_message", "send=[CHANNEL]")):
        lacks = cell("a", tool, outcome="deny", rule="tools")
        (remedy,) = remedies(lacks)
        assert remedy.command == f"crewlog change r --edit agent.a.{edit}"
    commands = [each.command for each in remedies(cell("a", "look", outcome="deny"))]
    assert commands == ["crewlog allow r a look", "crewlog ask r a look"]


def test_a_refusal_in_the_audit_names_the_command() -> None:
    record = AuditRecord(
        position=1, at=1, kind="refusal", principal="ben", action="set_permission",
        outcome="refused", reason="this set_permission has no signature\nSign it.",
    )  # fmt: skip
    assert (
        said(record)
        == "ben's set_permission was refused: this set_permission has no signature. Sign it."
    )
    faults = record.model_copy(update={"reason": "no crew:\nc.yaml:1  no agent 'x'.\n    Add it"})
    assert said(faults).endswith(" refused: no crew: c.yaml:1 no agent 'x'. Add it")


def test_the_audit_says_with_what_a_call_was_made() -> None:
    record = AuditRecord(
        position=1, at=1, kind="call", principal="clerk", action="refund", outcome="returned",
        detail="kim 15", agent="clerk", tool="refund", step="clerk#1",
    )  # fmt: skip
    assert said(record) == "clerk in clerk#1 called refund kim 15: returned"


def test_the_inbox_of_one_says_who_is_asked_else() -> None:
    asked = Interrupt(
        id=InterruptId("i1"), kind="ask", question="Go?", options=("yes", "no"), to=("ana",)
    )
    every = [inbox_interrupt_view(RunId(f"r{n}"), 0, asked) for n in (1, 2)]
    assert others(every, 2, "ben") == ""
    assert others(every, 0, "ben") == "2 questions are asked of others: ana"


@pytest.fixture(scope="module")
def guarded(home: Path, project: Path, served: dict[str, Any]) -> str:
    """A run that asks people, behind an agent that was refused a tool."""
    del served
    (project / "guarded.yaml").write_text(
        "crew: guarded\nmodel: scripted:guarded.script.yaml\n"
        "agents:\n"
        "  first: {prompt: P., tools: [look, send]}\n"
        "  second: {prompt: P., tools: [look]}\n"
        "tools:\n"
        "  look: {run: 'guarded_tools:look', effects: read}\n"
        "  send: {run: 'guarded_tools:look'}\n"
        "rules:\n"
        "  - {tool: send, do: never, reason: Not on Fridays.}\n"
        "  - {tool: look, quota: 5 per run}\n"
        "flow: [first, {ask: Go on?, phase: gate}, second]\n"
    )
    (project / "guarded_tools.py").write_text(
        'def look(at: str) -> str:\n    """Look."""\n    return "seen"\n'
    )
    calls = "[{tool: look, args: {at: a}}, {tool: send, args: {at: b}}]"
    sends = "[{tool: send, args: {at: c}}]"
    (project / "guarded.script.yaml").write_text(
        f"agents:\n  first: [{{tool_calls: {calls}}}, {{text: done}}]\n"
        f"  second: [{{tool_calls: {sends}}}, {{text: done}}]\n"
    )
    waits = Cli(home, project)("run", "guarded.yaml", "--input", "hi", "--id", RUN)
    assert waits.code == 3, waits.err
    return RUN


@pytest.mark.server
@pytest.mark.timeout(400)
@covers("C10")
def test_who_may_what_is_seen_and_set(crewlog: Cli, guarded: str) -> None:
    run = guarded
    page = crewlog("permissions", run)
    assert page.code == 0, page.err
    for words in ("first   ✓     ✗", "second  ✓     ·", "Not on Fridays", "4 left of 5 per run"):
        assert words in page.out, page.out
    reasons = crewlog("why", run, "first", "send")
    assert "▸ ✗ rules[0]" in reasons.out
    assert f"crewlog allow {run} first send" in reasons.out
    allowed = crewlog("allow", run, "second", "send", "--by", "ana", "--reason", "reviewed")
    assert allowed.code == 0, allowed.err
    assert "second may call send" in allowed.out
    found = crewlog("why", run, "second", "send", "--json").records[0]
    assert (found["outcome"], found["rule"], found["live_permission"]["by"]) == (
        "allow",
        "live_permission",
        "ana",
    )
    assert "set by ana" in crewlog("permissions", run, "--agent", "second").out
    asked = crewlog("ask", run, "first", "send", "--json").records[0]
    assert (asked["command"], asked["applied"]) == ("set_permission", True)
    off = crewlog("disable-tool", run, "look")
    assert "nobody may call look" in off.out
    on = crewlog("enable-tool", run, "look")
    assert "✓ first · look" in on.out
    inherited = crewlog("inherit", run, "first", "send")
    assert "✗ first · send" in inherited.out


@pytest.mark.server
@pytest.mark.timeout(400)
def test_mistakes_are_refused_by_name(crewlog: Cli, guarded: str) -> None:
    for arguments, words in (
        (("allow", guarded, "frist", "send"), "Did you mean 'first'?"),
        (("ask", guarded, "first", "sned"), "Did you mean 'send'?"),
        (("why", guarded, "first", "sned"), "Did you mean 'send'?"),
        (("permissions", guarded, "--agent", "frist"), "Did you mean 'first'?"),
        (("deny", guarded, "first", "send", "--graph-version", "7"), "the run has v1"),
        (("audit", guarded, "--kind", "chek"), "Did you mean 'check'?"),
    ):
        done = crewlog(*arguments)
        assert done.code == 2, done.err
        assert words in done.err
    assert crewlog("allow", "no-such-run", "a", "b").code == 4


@pytest.mark.server
@pytest.mark.timeout(400)
def test_the_audit_of_a_run_that_ended(crewlog: Cli, guarded: str) -> None:
    ended = crewlog("answer", guarded, "approve", "--by", "eve")
    assert ended.code == 0, ended.err
    page = crewlog("audit", guarded)
    assert page.code == 0, page.err
    for words in (
        "✗ first in first#1 may not call send b: rules[0] says never",
        "✓ second in second#1 may call send c: people allowed 'second' to call 'send'",
        "● ana ruled: second may call send (reviewed)",
        "● eve said approve to i1",
        "3 checks: 2 allowed, 1 denied",
    ):
        assert words in page.out, page.out
    lines = crewlog("audit", guarded, "--json", "--kind", "check", "--tool", "send").records
    assert [(r["principal"], r["outcome"], r["rule"]) for r in lines] == [
        ("first", "denied", "rules[0]"),
        ("second", "allowed", ""),
    ]
    assert all(r["run"] == guarded and r["time"] and r["reason"] for r in lines)
    assert [json.dumps(r) for r in crewlog("audit", guarded, "--json").records]
    # Nobody may be ruled over any more, and what held is in the store.
    assert crewlog("deny", guarded, "first", "look").code == 2
    stored = crewlog("permissions", guarded, "--json").records[0]
    assert stored["live"] is False
    assert {c["agent"]: c["outcome"] for c in stored["cells"] if c["tool"] == "send"} == {
        "first": "deny",
        "second": "allow",
    }

"""The journal as people see it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crewlog.cli.screen import clock, counted, money, plain, plain_lines
from crewlog.cli.timeline import Row, Timeline
from crewlog.cli.traced import _is
from crewlog.ids import ContentHash, NodeName, StepId
from crewlog.reporting.trace.view import CallTrace, StepTrace
from crewlog.state.excerpt import message_excerpt
from crewlog.state.journal import entry_from_json

REF = {"body": "x" * 27, "logs": ["public"]}


def rows(*entries: dict[str, Any], nodes: tuple[str, ...] = ("ui", "backend")) -> list[Row]:
    line = Timeline(nodes)
    found: list[Row] = []
    for entry in entries:
        found += line.feed(entry_from_json({"at": 1_000, **entry}))
    return [*found, *line.settle()]


def shown(*entries: dict[str, Any]) -> list[str]:
    return [f"{row.node} {row.glyph} {row.text}".strip() for row in rows(*entries)]


def started(step: str, at: int = 1_000) -> dict[str, Any]:
    return {"kind": "StepStarted", "step": step, "agent": step.partition("#")[0], "at": at}


def replied(step: str, *calls: tuple[str, str], brief: str = "") -> dict[str, Any]:
    made = [{"call": i + 2, "tool": t, "excerpt": b} for i, (t, b) in enumerate(calls)]
    agent = step.partition("#")[0]
    return {
        "kind": "ModelCallCompleted",
        "step": step,
        "call": 1,
        "agent": agent,
        "ref": REF,
        "calls": made,
        "excerpt": brief,
    }


def test_steps_that_start_together_share_a_line() -> None:
    (row,) = rows(started("ui#1"), started("backend#1"))
    assert (row.node, row.more) == ("ui", [("backend", "●", "thinking")])


def test_a_narrow_terminal_gets_two_lines_instead() -> None:
    line = Timeline(("ui", "backend"))
    (row,) = [
        *line.feed(entry_from_json(started("ui#1"))),
        *line.feed(entry_from_json(started("backend#1"))),
        *line.settle(),
    ]
    assert len(line.split(row, 100)) == 1
    assert [each.node for each in line.split(row, 40)] == ["ui", "backend"]


def test_a_path_says_enough_of_a_call() -> None:
    found = shown(
        replied(
            "ui#1", ("write_file", "lib/main.dart import 'package:flutter"), ("search", "all of it")
        )
    )
    assert found == ["ui ⚙ write_file lib/main.dart", "ui ⚙ search all of it"]


def test_built_in_tools_are_shown_by_their_effect() -> None:
    found = shown(
        replied("backend#1", ("set_flag", "models_ready True")),
        {"kind": "RunOutputSet", "flag": "models_ready", "value": True, "by": "backend"},
    )
    assert found == ["backend ⚑ models_ready"]


def flag(value: object, by: str) -> dict[str, Any]:
    return {"kind": "RunOutputSet", "flag": "buy", "value": value, "by": by}


def test_a_flags_value_does_not_pass_for_who_set_it() -> None:
    found = shown(
        flag(True, "root"),
        flag(False, "root"),
        flag("maybe", "root"),
        flag("maybe by root", ""),
        flag("maybe", "ui"),
    )
    assert found == [
        "⚑ buy (set by root)",
        "⚑ buy = false (set by root)",
        '⚑ buy = "maybe" (set by root)',
        '⚑ buy = "maybe by root"',
        'ui ⚑ buy = "maybe"',
    ]


def test_a_refusal_is_told_in_sentences() -> None:
    refused = {"kind": "CommandRejected", "name": "answer", "by": "eve"}
    found = shown(
        {**refused, "reason": "'sure' is no answer to 'i1'\n    Its options are: yes, no."},
        {**refused, "name": "interrupt", "by": "", "reason": "no such node?\n    Nodes: a."},
        {**refused, "reason": ""},
    )
    assert found == [
        "✗ refused an answer by eve: 'sure' is no answer to 'i1'. Its options are: yes, no.",
        "✗ refused 'interrupt': no such node? Nodes: a.",
        "✗ refused an answer by eve:",
    ]


def test_a_step_ends_with_what_was_said() -> None:
    found = shown(
        started("ui#1"),
        replied("ui#1", brief="All done."),
        {"kind": "StepCompleted", "step": "ui#1"},
    )
    assert found == ["ui ● thinking", "ui ✓ All done."]


def test_a_condition_that_holds_already_is_no_line() -> None:
    reached = {
        "kind": "NodesReached",
        "source": "ui",
        "to": [{"node": "backend", "requirement": "ready"}],
    }
    assert shown(reached, {"kind": "RequirementMet", "step": "backend#1"}) == []
    later = {"kind": "RequirementMet", "step": "backend#1", "at": 3_000}
    assert shown(reached, later) == ["backend ◌ waits for ready", "backend ▸ its condition holds"]


def test_trouble_is_shown() -> None:
    found = shown(
        {
            "kind": "ToolCallCompleted",
            "step": "ui#1",
            "call": 2,
            "agent": "ui",
            "tool": "t",
            "ref": REF,
            "ok": False,
            "excerpt": "no",
        },
        {
            "kind": "PermissionDenied",
            "step": "ui#1",
            "call": 3,
            "agent": "ui",
            "tool": "t",
            "reason": "not yours",
        },
        {"kind": "StepFailed", "step": "ui#1", "error": "broke\n    remedy"},
        {"kind": "Paused", "by": "ops", "reason": "deploy"},
        {"kind": "CommandRejected", "name": "pause", "reason": "no id"},
    )
    assert found == [
        "ui ✗ t: no",
        "ui ⊘ may not call t: not yours",
        "ui ✗ broke",
        "⏸ paused by ops: deploy",
        "✗ refused 'pause': no id",
    ]


def test_questions_are_open_until_they_are_answered() -> None:
    line = Timeline()
    asked = {"id": "i1", "kind": "ask", "question": "Go on?", "step": "ui#1"}
    line.feed(entry_from_json({"kind": "InterruptRaised", "interrupt": asked}))
    assert list(line.interrupts) == ["i1"]
    line.feed(entry_from_json({"kind": "InterruptAnswered", "interrupt": "i1", "decision": "yes"}))
    assert line.interrupts == {}


def test_an_answers_words_do_not_pass_for_who_gave_it() -> None:
    answered = {"kind": "InterruptAnswered", "interrupt": "i1", "decision": "made by hand"}
    assert shown(answered, {**answered, "by": "ann"}) == [
        "✓ i1 answered: made by hand",
        "✓ i1 answered by ann: made by hand",
    ]


@pytest.mark.parametrize(
    ("hostile", "safe"),
    [
        ("\x1b[2J\x1b[31mred", "[2J[31mred"),
        ("a\nb\tc\x00\x07", "a b c"),
        ("[red]not red[/red]", "[red]not red[/red]"),
        ("\u202egnp.exe", "gnp.exe"),
        ("\x9b31mred", "31mred"),
    ],
)
def test_strangers_cannot_move_the_cursor(hostile: str, safe: str) -> None:
    assert plain(hostile) == safe
    assert "\x1b" not in plain_lines(hostile)


def test_numbers_read_well() -> None:
    assert [clock(ms) for ms in (0, 2_940, 99_949, 187_000, 3_727_000)] == [
        "00.0",
        "02.9",
        "99.9",
        "3:07",
        "1:02:07",
    ]
    assert [money(c) for c in (0, 0.00001, 0.0041, 1.234)] == ["", "< $0.001", "$0.004", "$1.23"]
    assert counted(1, "step") == "1 step"
    assert counted(9412, "token") == "9,412 tokens"


def test_a_wait_says_until_when_and_that_it_is_over() -> None:
    due = 1_796_112_000_000
    waits = {"kind": "TimerStarted", "step": "pause#1", "deadline": due}
    assert shown(waits, {"kind": "TimerFired", "step": "pause#1", "at": due}) == [
        "pause ◔ waits until 2026-12-01 08:00 UTC",
        "pause ▸ its time has come",
    ]


def test_a_bound_says_how_long_a_condition_is_waited_for() -> None:
    reached = {"kind": "NodesReached", "to": [{"node": "backend", "requirement": "ready"}]}
    waits = {"kind": "TimerStarted", "step": "backend#1", "deadline": 1_796_112_000_000}
    line = Timeline(("ui", "backend"))
    for entry in (reached, waits):
        line.feed(entry_from_json({"at": 1_000, **entry}))
    told = "".join(p if isinstance(p, str) else p[0] for p in line.now(2_000))
    assert told == "backend waits for ready", "what it waits for comes first"
    fired = {"kind": "TimerFired", "step": "backend#1", "at": 5_000}
    assert shown(reached, waits, fired) == [
        "backend ◔ waits at most until 2026-12-01 08:00 UTC",
        "backend ◌ waits for ready",
        "backend ▸ its condition did not come in time",
    ]


def denied(call: int, rule: str, reason: str = "no") -> dict[str, Any]:
    of = {"step": "ui#1", "call": call, "agent": "ui", "tool": "t"}
    return {"kind": "PermissionDenied", **of, "rule": rule, "reason": reason}


def failed(call: int, brief: str = "no") -> dict[str, Any]:
    of = {"step": "ui#1", "call": call, "agent": "ui", "tool": "t", "ref": REF}
    return {"kind": "ToolCallCompleted", **of, "ok": False, "excerpt": brief}


def test_a_refusal_is_told_once_whichever_comes_first() -> None:
    calls = replied("ui#1", ("t", "a"), ("t", "b"), ("t", "c"))
    _, *found = shown(
        started("ui#1"),
        calls,
        denied(2, "tools", "not yours"),
        failed(2, "Refused: not yours."),
        denied(3, "arguments", "they are not valid JSON"),
        failed(3),
        failed(4, "at most 100"),
        denied(4, "checks", "at most 100"),
    )
    assert found[3:] == [
        "ui ⊘ may not call t: not yours",
        "ui ✗ t: they are not valid JSON",
        "ui ✗ t: at most 100",
    ]


def test_an_edited_call_is_told_with_what_was_edited() -> None:
    asked = {"id": "i1", "kind": "tool_approval", "question": "?", "tool": "t", "step": "ui#1"}
    given = {"decision": "edit", "by": "ana", "inline": {"to": "kim", "euros": 15}}
    *_, row = shown(
        {"kind": "InterruptRaised", "interrupt": asked | {"args": {"to": "kim", "euros": 20}}},
        {"kind": "InterruptAnswered", "interrupt": "i1", **given},
    )
    assert row == "✓ i1 answered by ana: edit (euros = 15 (was 20))"


def test_a_pool_says_who_works_on_what_and_how_it_ended() -> None:
    mapped = {
        "kind": "ParentStepStarted",
        "step": "work#1",
        "agent": "maker",
        "key": "list",
        "of": 2,
    }
    rows = shown(
        {**mapped, "agents": ["web"], "owners": [0, 0]},
        {"kind": "StepStarted", "step": "work#1.1", "agent": "web", "parent": "work#1", "item": 1},
        {"kind": "StepCompleted", "step": "work#1", "because": "2 items: 1 done, 1 failed"},
    )
    assert "about item 1 (web)" in rows[1]
    assert "2 items: 1 done, 1 failed" in rows[2]


def test_lists_and_values_that_do_not_fit_are_told() -> None:
    refused = {"kind": "ItemsRefused", "step": "work#1", "agent": "maker", "key": "list"}
    (row,) = shown({**refused, "errors": ["item 1 ('x') waits for itself"]})
    assert "maker.list cannot be worked on: item 1 ('x') waits for itself" in row
    conflict = {"kind": "WriteRefused", "key": "verdict", "reducer": "agree", "step": "b#1"}
    (row,) = shown({**conflict, "by": "b", "kept": "ship", "refused": "wait", "because": "no"})
    assert "verdict stays ship, not wait: no" in row


def taken(step: str, agent: str, how: str = "json", brief: str = "") -> dict[str, Any]:
    more = {"step": step, "call": 1, "agent": agent, "how": how, "excerpt": brief}
    return {"kind": "StructuredOutputParsed", "decision": "plan", "attempt": 1, **more}


def sets(agent: str, key: str, value: Any) -> dict[str, Any]:
    return {"kind": "OutputSet", "agent": agent, "key": key, "value": value}


def test_a_step_has_one_name_and_an_output_is_told_once() -> None:
    begins = {"kind": "StepStarted", "step": "team#1", "agent": "critic"}
    says = {**replied("team#1", brief='All is well. {"proceed": true}'), "agent": "critic"}
    done = {"kind": "StepCompleted", "step": "team#1"}
    values = (sets("critic", "proceed", True), sets("critic", "actions", []))
    assert shown(begins, says, taken("team#1", "critic"), *values, done) == [
        "team ● thinking (critic)",
        "team = proceed = true",
        "team = actions = []",
        "team ✓ All is well.",
    ]
    bare = {**says, "excerpt": '{"proceed": true}'}
    assert shown(bare, taken("team#1", "critic"), done) == ["team ✓ done"]


def test_what_was_only_skipped_before_is_not_done_again() -> None:
    skipped = {"kind": "StepCompleted", "step": "ui#1", "skipped": True, "because": "skipped"}
    says = replied("ui#2", brief="made")
    done = {"kind": "StepCompleted", "step": "ui#2"}
    assert shown(skipped, started("ui#2"), says, done, started("ui#3")) == [
        "ui ∅ skipped",
        "ui ● thinking",
        "ui ✓ made",
        "ui ● thinking again (visit 3)",
    ]


def test_a_trace_tells_a_large_value_by_its_text() -> None:
    step = StepTrace(step=StepId("critic#1"), node=NodeName("critic"))
    step.calls = [
        CallTrace(call=1, scheduled_at=5, body=ContentHash("b" * 27), result="All is well.")
    ]
    assert _is(None, step, {"body": "b" * 27}) == "All is well."
    assert _is(None, step, {"body": "c" * 27}) == "(long: --full shows it)"
    assert _is(None, step, {"body": "b", "more": 1}) == '{"body": "b", "more": 1}'
    found: Any = SimpleNamespace(bodies={"c" * 27: {"content": "All\nof it."}})
    assert _is(found, step, {"body": "c" * 27}) == "All of it."


def test_a_reply_that_is_taken_though_it_was_cut_off_is_told() -> None:
    *_, row = shown(started("ui#1"), {**replied("ui#1", brief="hal"), "ending": "cut"})
    assert row == "ui ! its reply is taken as it is: it was cut off at the limit of output"
    *_, row = shown(
        started("ui#1"),
        {**replied("ui#1", brief=""), "ending": "empty"},
        {"kind": "StepCompleted", "at": 3_000, "step": "ui#1"},
    )
    assert row.startswith("ui ✓ (empty, accepted)")


def test_a_refusal_is_told_in_the_words_of_the_model() -> None:
    *_, row = shown(
        started("ui#1"),
        {**replied("ui#1", brief="I cannot help."), "ending": "refused", "refused": True},
        {
            "kind": "StructuredOutputRejected",
            "step": "ui#1",
            "call": 1,
            "agent": "ui",
            "attempt": 1,
            "of": 3,
            "errors": ["the model refused to answer"],
        },
    )
    assert row == "ui ✗ reply 1 of 3 cannot be used: the model refused to answer: I cannot help."


def test_files_are_told_by_their_names() -> None:
    image: dict[str, Any] = {"type": "image", "sha256": "ab" * 32, "mime_type": "image/png"}
    image |= {"size": 70, "name": "dot.png"}
    name = "[image/png dot.png 70 B sha256:abababababab…]"
    body = {"content": [{"type": "text", "text": "Draw it."}, image]}
    given = {"kind": "MessageAdded", "ref": {**REF, "inline": body}, "by": "ana"}
    made = {"kind": "ToolCallCompleted", "step": "ui#1", "call": 1, "agent": "ui", "tool": "draw"}
    assert shown(given, {**made, "ref": REF, "excerpt": message_excerpt(body)}) == [
        f"» ana: {name}",
        f"ui ⚙ draw gave {name}",
    ]
    text = {"content": "Draw it."}
    assert shown({"kind": "MessageAdded", "ref": {**REF, "inline": text}, "by": "ana"}) == []

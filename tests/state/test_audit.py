"""The audit: what was checked, decided, commanded and refused follows from the journal."""

from __future__ import annotations

from typing import Any

import pytest

from audit_records import audit_records
from crewlog.canonical_json import hash_json
from crewlog.cli.auditing import said as told
from crewlog.graph.permission_commands import set_agent_permission
from crewlog.ids import ToolName
from crewlog.reporting.audit.auditor import Auditor
from crewlog.reporting.audit.permission_history import PermissionHistory
from crewlog.reporting.audit.view import AuditFilter, AuditRecord
from crewlog.state.calls import ToolCallDenied
from crewlog.state.journal import entry_from_json
from graph.crews import plan_of
from graph.simulation import (
    RandomScript,
    Replies,
    Simulation,
    dice,
    random_plan,
    returns,
    says,
)

TOOLS = {name: {"run": "m:f"} for name in ("read", "act", "secret")}


def audit_of(sim: Simulation, **wanted: Any) -> list[AuditRecord]:
    entries = [(n, entry_from_json(data)) for n, data in enumerate(sim.journal, 1)]
    return list(audit_records(entries, AuditFilter(**wanted)))


def said(records: list[AuditRecord]) -> list[tuple[str, str, str, str]]:
    return [(r.kind, r.principal, r.action, r.outcome) for r in records]


async def a_run() -> Simulation:
    plan = plan_of(
        ["a"],
        {"a": {"tools": ["read", "act", "secret"]}},
        tools=TOOLS,
        permissions={"secret": []},
        approvals={"act": None},
    )
    script = Replies(
        {"a#1": [says("", "read", "secret", "act", "gone", "read")]},
        {"read": returns("oops", ok=False)},
    )
    return await (await Simulation.begin(plan, script)).run()


async def test_every_call_of_a_reply_has_its_check() -> None:
    sim = await a_run()
    checks = audit_of(sim, kinds=("check",))
    assert [(r.action, r.outcome, r.call) for r in checks] == [
        ("read", "allowed", 2),
        ("secret", "denied", 3),
        ("act", "asked", 4),
        ("gone", "denied", 5),
        ("read", "allowed", 6),
    ]
    assert {r.principal for r in checks} == {"a"}
    assert all(r.reason and r.step == "a#1" and r.agent == "a" for r in checks)
    (question,) = audit_of(sim, kinds=("question",))
    assert (question.interrupt, question.tool, question.agent) == ("i1", "act", "a")
    calls = audit_of(sim, kinds=("call",))
    assert said(calls) == [("call", "a", "read", "failed")]  # the other is held behind `act`


async def test_a_decision_and_what_came_of_it() -> None:
    sim = await a_run()
    await sim.answer("reject")
    await sim.run()
    (decision,) = audit_of(sim, kinds=("decision",))
    assert (decision.tool, decision.agent, decision.outcome) == ("act", "a", "reject")
    # The model is told of a refusal as of a result: nothing was called.
    assert [r.tool for r in audit_of(sim, kinds=("call",))] == ["read", "read"]
    sim = await a_run()
    await sim.answer("approve")
    await sim.run()
    assert [r.tool for r in audit_of(sim, kinds=("call",))] == ["read", "act", "read"]


def test_an_edited_call_is_on_record_with_what_was_edited() -> None:
    args = {"to": "kim", "euros": 20}
    asked = {"id": "i1", "kind": "tool_approval", "question": "?", "tool": "refund", "args": args}
    given = {"decision": "edit", "by": "ana", "inline": {"to": "kim", "euros": 15}}
    entries = [
        {"kind": "InterruptRaised", "interrupt": asked},
        {"kind": "InterruptAnswered", "interrupt": "i1", **given},
    ]
    *_, decision = audit_records(enumerate(map(entry_from_json, entries), 1))
    assert (decision.outcome, decision.detail) == ("edit", "euros = 15 (was 20)")
    assert told(decision) == "ana said edit to i1 (refund): euros = 15 (was 20)"


async def test_commands_and_refusals() -> None:
    sim = await a_run()
    await sim.command("set_permission", tool="read", agents=[], reason="too loud")
    await sim.command("set_permission", tool="nothing", agents=[])
    await sim.command("message", text="Hello.")
    commands = audit_of(sim, kinds=("command",))
    assert [(r.action, r.outcome) for r in commands] == [
        ("start", "applied"),
        ("set_permission", "applied"),
        ("message", "applied"),
    ]
    assert commands[0].principal == "eve"
    assert commands[1].detail == "nobody may call read"
    assert (commands[1].reason, commands[1].tool) == ("too loud", "read")
    assert commands[1].command
    (refusal,) = audit_of(sim, kinds=("refusal",))
    assert refusal.action == "set_permission"
    assert "there is no tool 'nothing'" in refusal.reason
    assert audit_of(sim, tool="read", kinds=("command",)) == [commands[1]]
    assert audit_of(sim, since=sim.engine.at + 1) == []
    assert {r.agent for r in audit_of(sim, agent="a")} == {"a"}


async def test_what_was_set_at_run_time_is_the_reason() -> None:
    plan = plan_of(["a"], {"a": {"tools": ["read"]}}, tools=TOOLS)
    script = Replies({"a#1": [says("", "read"), says("", "read")]})
    sim = await Simulation.begin(plan, script)
    await sim.finish("a#1")
    await sim.command("set_permission", tool="read", agents=["a"])
    await sim.run()
    first, second = audit_of(sim, kinds=("check",))
    assert first.reason == "'read' is among the tools of 'a'"
    assert second.reason.startswith("permissions let 'a' call 'read': set at run time")


async def test_a_ruling_and_its_outcome() -> None:
    plan = plan_of(["a", "b"], {"a": {"tools": ["read"]}, "b": {"tools": []}}, tools=TOOLS)
    script = Replies({"b#1": [says("", "act")]})
    sim = await Simulation.begin(plan, script)
    await sim.command("set_permission", tool="act", agent="b", do="allow", by="ana")
    await sim.run()
    (check,) = audit_of(sim, kinds=("check",))
    assert (check.outcome, check.principal) == ("allowed", "b")
    assert check.reason.startswith("people allowed 'b' to call 'act': set at run time by ana")
    (live_permission,) = audit_of(sim, tool="act", kinds=("command",))
    assert (live_permission.action, live_permission.principal, live_permission.detail) == (
        "set_permission",
        "ana",
        "b may call act",
    )


async def test_a_call_that_a_worker_refuses_is_no_call() -> None:
    """The workflow allowed it; when it was to be made, it was not allowed any more."""
    plan = plan_of(["a"], {"a": {"tools": ["read", "act"]}}, tools=TOOLS)
    script = Replies(
        {"a#1": [says("", "read", "act")]},
        {
            "read": returns("no", ok=False, outcome=ToolCallDenied(reason="used up")),
            "act": returns("oops", ok=False),
        },
    )
    sim = await (await Simulation.begin(plan, script)).run()
    checks = audit_of(sim, kinds=("check",))
    assert [(r.tool, r.outcome) for r in checks] == [
        ("read", "allowed"),
        ("act", "allowed"),
        ("read", "denied"),
    ]
    assert checks[2].reason == "used up"
    assert [(r.tool, r.outcome) for r in audit_of(sim, kinds=("call",))] == [("act", "failed")]


async def test_a_quota_that_is_used_up() -> None:
    rules = [{"tool": "*", "quota": "2 per run", "reason": "be brief"}]
    plan = plan_of(
        ["a"], {"a": {"tools": ["read", "act"]}}, tools=TOOLS, rules=rules, approvals={"act": None}
    )
    script = Replies({"a#1": [says("", "read", "act", "read")]})
    sim = await (await Simulation.begin(plan, script)).run()
    checks = audit_of(sim, kinds=("check",))
    assert [(r.tool, r.outcome, r.rule) for r in checks] == [
        ("read", "allowed", ""),
        ("act", "asked", "approvals"),
        ("read", "denied", "rules[0]"),
    ]
    assert "be brief" in checks[2].reason


@pytest.mark.parametrize("seed", range(60))
async def test_no_check_is_missing_or_told_twice(seed: int) -> None:
    """Over runs at random, with people, drains and rollbacks; the journal read entry by entry."""
    plan = random_plan(dice(f"audit/{seed}"), does=seed % 2 == 1)
    sim = Simulation.begin(plan, RandomScript(plan, seed), seed=seed, people=True)
    run = await (await sim).run()
    records = audit_of(run)
    asked = [
        (entry["step"], call["call"])
        for entry in run.facts("ModelCallCompleted")
        for call in entry.get("calls", ())
    ]
    checks = [r for r in records if r.kind == "check"]
    first = {(r.step, r.call): r for r in reversed(checks)}
    assert sorted(first) == sorted(asked)
    allowed = {(r.step, r.call) for r in checks if r.outcome != "denied"}
    made = {(step, call) for step, call, _ in run.made if (step, call) in first}
    assert made <= allowed
    assert {(r.step, r.call) for r in records if r.kind == "call"} <= allowed
    # What is permitted to nobody never runs.
    assert {r.outcome for r in checks if r.action == ToolName("secret")} <= {"denied"}
    refusals = [r for r in records if r.kind == "refusal"]
    assert len(refusals) == len(run.facts("CommandRejected"))


async def test_it_goes_on_page_by_page() -> None:
    sim = await a_run()
    entries = [(n, entry_from_json(data)) for n, data in enumerate(sim.journal, 1)]
    audit = Auditor()
    found = [record for n, entry in entries for record in audit.add(n, entry)]
    assert [*found, *audit.flush()] == list(audit_records(entries))
    assert audit.flush() == []


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (
            "a",
            "people want to be asked before 'a' calls 'act': set at run time by ana (position 1)",
        ),
        (
            "*",
            "people want to be asked before 'a' calls 'act': set at run time by ana (position 1)",
        ),
        ("b", ""),
    ],
)
def test_why_people_are_asked_names_its_live_permission(agent: str, told: str) -> None:
    grants = PermissionHistory()
    live_permission = {
        "kind": "AgentPermissionSet",
        "at": 1,
        "tool": "act",
        "agent": agent,
        "do": "ask",
        "by": "ana",
    }
    grants.add(1, entry_from_json(live_permission))
    assert grants.ask_reason("a", "act") == told


async def test_a_question_says_why_it_is_asked_where_the_journal_lacks_the_permission() -> None:
    plan = plan_of(["a"], {"a": {"tools": ["act"]}}, tools=TOOLS)
    sim = await Simulation.begin(plan, Replies({"a#1": [says("", "act")]}))
    set_agent_permission(sim.engine, "act", "a", "ask", by="ana", reason="the audit", command="c1")
    await sim.run()
    entries = [(n, entry_from_json(data)) for n, data in enumerate(sim.journal, 1)]
    for there, said in ((True, "set at run time by ana"), (False, "the audit")):
        kept = [each for each in entries if there or each[1].kind != "AgentPermissionSet"]
        (asked,) = audit_records(kept, AuditFilter(kinds=("check",), outcome="asked"))
        assert asked.rule == "live_permission"
        assert said in asked.reason


async def test_a_question_names_the_rule_and_its_reason() -> None:
    rules = [{"tool": "act", "do": "ask", "if": "not ok", "reason": "only checked titles"}]
    plan = plan_of(["a"], {"a": {"tools": ["act"]}}, tools=TOOLS, rules=rules, flags={"ok": False})
    sim = await (await Simulation.begin(plan, Replies({"a#1": [says("", "act")]}))).run()
    (check,) = audit_of(sim, kinds=("check",))
    assert (check.outcome, check.rule) == ("asked", "rules[0]")
    assert check.reason == "rules[0] says ask: only checked titles ('a' calls 'act')"


async def test_a_ruling_that_asks_names_who_ruled_and_why() -> None:
    plan = plan_of(["a"], {"a": {"tools": ["act"]}}, tools=TOOLS)
    sim = await Simulation.begin(plan, Replies({"a#1": [says("", "act")]}))
    said = {"tool": "act", "agent": "a", "do": "ask", "by": "ana", "reason": "new here"}
    await sim.command("set_permission", **said)
    await sim.run()
    (check,) = audit_of(sim, kinds=("check",))
    assert check.rule == "live_permission"
    assert "set at run time by ana (position" in check.reason
    assert check.reason.endswith("): new here")


def test_what_was_taken_back_says_nothing_of_what_is_called_then() -> None:
    """A refused call, and then a good one of the same number, after a rollback."""
    ref = {"body": hash_json({}), "logs": []}
    reply = {"kind": "ModelCallCompleted", "step": "a#1", "call": 1, "agent": "a", "ref": ref}
    of = {"step": "a#1", "call": 2, "agent": "a", "tool": "act"}
    first, again = ({"call": 2, "tool": "act", "id": f"c{n}", "excerpt": n} for n in "12")
    facts: list[dict[str, Any]] = [
        {**reply, "calls": [first]},
        {"kind": "PermissionDenied", **of, "reason": "no"},
        {"kind": "RunRolledBack", "to": 1, "state": {}, "by": "ana"},
        {**reply, "calls": [again]},
        {"kind": "ToolCallCompleted", **of, "ref": ref},
    ]
    entries = [(n, entry_from_json({"at": n, **data})) for n, data in enumerate(facts, 1)]
    found = [(r.kind, r.outcome) for r in audit_records(entries) if r.tool == "act"]
    assert found == [("check", "denied"), ("check", "allowed"), ("call", "returned")]


def edited(
    asked: dict[str, Any], given: dict[str, Any], *, again: bool = False
) -> list[AuditRecord]:
    """What stands in the audit of a call that people edited, and that was made then.

    Args:
        asked: The arguments that it was asked for with.
        given: Those that people gave it.
        again: Whether people were asked again, and left it as it was asked for.
    """
    ref = {"body": hash_json({}), "logs": []}
    of = {"step": "a#1", "call": 2, "agent": "a"}
    call = {"call": 2, "tool": "act", "id": "c1", "excerpt": "kim 20"}
    question = {
        "id": "i1",
        "kind": "tool_approval",
        "question": "May it?",
        "options": ["approve", "reject", "stop"],
        "step": "a#1",
        "call": 2,
        "tool": "act",
        "args": asked,
    }
    answer = {"decision": "edit", "by": "ana", "arguments": hash_json(given), "inline": given}
    facts: list[dict[str, Any]] = [
        {"kind": "ModelCallCompleted", "step": "a#1", "call": 1, "agent": "a", "ref": ref}
        | {"calls": [call]},
        {"kind": "InterruptRaised", "interrupt": question},
        {"kind": "InterruptAnswered", "interrupt": "i1", **answer},
        {"kind": "ToolCallCompleted", **of, "tool": "act", "ref": ref},
    ]
    if again:
        facts[3:3] = [
            {"kind": "InterruptRaised", "interrupt": {**question, "id": "i2"}},
            {"kind": "InterruptAnswered", "interrupt": "i2", "decision": "approve", "by": "ben"},
        ]
    entries = [(n, entry_from_json({"at": n, **data})) for n, data in enumerate(facts, 1)]
    return list(audit_records(entries))


def test_an_edited_call_is_told_with_the_arguments_that_ran() -> None:
    found = edited({"who": "kim", "euros": 20}, {"who": "kim", "euros": 15})
    assert [(r.kind, r.outcome, r.detail) for r in found] == [
        ("check", "asked", "kim 20"),
        ("question", "asked", "kim 20"),
        ("decision", "edit", "euros = 15 (was 20)"),
        ("call", "returned", "kim 15"),
    ]


def test_what_was_edited_is_told_first_where_not_all_of_it_is() -> None:
    text = "long " * 40
    *_, call = edited({"text": text, "euros": 20}, {"text": text, "euros": 15})
    assert call.detail.startswith("15 long")
    assert call.detail.endswith("…")


def test_a_call_that_is_asked_about_again_has_its_own_arguments() -> None:
    """The second question is about what the message asks for."""
    found = edited({"euros": 20}, {"euros": 15}, again=True)
    assert [(r.outcome, r.detail) for r in found if r.interrupt == "i1"][-1] == (
        "edit",
        "euros = 15 (was 20)",
    )
    assert {r.detail for r in found if r.interrupt == "i2" or r.kind == "call"} == {"kim 20"}


def test_a_failure_that_the_run_itself_tells_is_whole() -> None:
    why = "There is no flag of this name. " * 5
    ref = {"body": hash_json({}), "logs": [], "inline": {"type": "tool", "content": why}}
    of = {"step": "a#1", "call": 2, "agent": "a", "tool": "set_flag"}
    fact = {"kind": "ToolCallCompleted", **of, "ref": ref, "ok": False, "excerpt": f"{why[:79]}…"}
    (record,) = audit_records([(1, entry_from_json(fact))])
    assert record.reason == why.strip()

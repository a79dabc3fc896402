"""What a reading says is in the crew, or a fault reports it: nothing is lost without a word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.prompt.test_lower import (
    APPROVED,
    BACK,
    REGISTRY,
    TOOLS,
    WORK,
    flow,
    lowered,
    made,
    part,
    reading,
    right,
    setting,
    step,
    used,
)

from crewlog.definition.model import CrewDefinition
from crewlog.prompt import reading as r
from crewlog.prompt.compile import assess, clauses_of, compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.explaining import clause_accounts
from crewlog.prompt.offered import not_offered
from crewlog.prompt.registry import Registry

BASE = "The writer drafts it. Then the checker checks it. Then the printer prints it."
STEPS = (
    step("writer", task="drafts it"),
    step("checker", "writer", task="checks it", clauses=(2,)),
    step("printer", "checker", task="prints it", clauses=(3,)),
)
Holds = Callable[[CrewDefinition], Any]


def assessed(text: str, *parts: r.Part, registry: Registry = REGISTRY) -> CompiledPrompt:
    """BASE and more text, read as STEPS and more parts.

    A part of clause 1 gets all clauses behind BASE in its place.
    """
    clauses = clauses_of(f"{BASE} {text}")
    more = tuple(range(4, len(clauses) + 1))
    put = [p if p.clauses != (1,) else p.model_copy(update={"clauses": more}) for p in parts]
    read = reading(*STEPS, *put, ledger=used(*range(1, len(clauses) + 1)))
    return assess(clauses, read, registry, reader="model")


def holds_or_is_refused(found: CompiledPrompt, holds: Holds) -> None:
    """Asserts that the crew keeps what the prompt says, or that a fault reports it."""
    assert found.definition is not None
    assert not found.ok or holds(found.definition), found.definition.to_json()


# -- rights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said", "holds"),
    [
        (
            "The writer must not use tools of high risk.",
            right("never", "writer", "risk:high"),
            lambda crew: "writer" not in (crew.permissions.get("post") or ("writer",)),
        ),
        (
            "Only the printer may use tools of high risk.",
            right("only", "printer", "risk:high"),
            lambda crew: crew.permissions.get("post") == ("printer",),
        ),
        (
            "Nobody may use tools of high risk more than 3 times per run.",
            right("never", "", "risk:high", quota="3 per run"),
            lambda crew: crew.rules,
        ),
        (
            "Ask me before anyone uses tools of high risk if the checker approves it.",
            right("ask", "", "risk:high", if_="checker.approved"),
            lambda crew: crew.rules,
        ),
        (
            "The writer may use tools of high risk only if the checker approves it.",
            right("may", "writer", "risk:high", if_="checker.approved"),
            lambda crew: crew.rules,
        ),
        (
            "Only the printer may use tools.",
            right("only", "printer", "*"),
            lambda crew: crew.permissions.get("look") == ("printer",),
        ),
    ],
)
def test_a_right_to_risky_or_all_tools_reaches_each_of_them(
    text: str, said: r.Right, holds: Holds
) -> None:
    may = "The writer and the printer may use post and ship and look."
    first = len(clauses_of(f"{BASE} {may}")) + 1
    last = len(clauses_of(f"{BASE} {may} {text}"))
    own = tuple(range(first, last + 1))
    found = assessed(
        f"{may} {text}",
        right("may", "writer printer", "post ship look", clauses=tuple(range(4, first))),
        APPROVED.model_copy(update={"clauses": (2, *own)}),
        said.model_copy(update={"clauses": own}),
    )
    holds_or_is_refused(found, holds)


def test_all_tools_are_given() -> None:
    found = assessed("The writer may use all tools.", right("may", "writer", "*"))
    holds_or_is_refused(found, lambda crew: crew.agents["writer"].tools)


def test_only_on_a_condition_takes_the_tool_from_the_others() -> None:
    agents = {"writer": {"prompt": "You write.", "tools": ["post"]}}
    registry = Registry.model_validate({"model": "openai:x", "tools": TOOLS, "agents": agents})
    found = assessed(
        "Only the printer may use post, if the checker approves it.",
        APPROVED.model_copy(update={"clauses": (2, 4)}),
        right("only", "printer", "post", if_="checker.approved"),
        registry=registry,
    )
    holds_or_is_refused(
        found, lambda crew: "writer" not in (crew.permissions.get("post") or ("writer",))
    )


def test_only_on_a_condition_is_stricter_than_may() -> None:
    only = right("only", "printer", "look", if_="checker.approved")
    crew = made(*WORK, APPROVED, only, right("may", "writer", "look"))
    assert crew.permissions.get("look") == ("printer",)


def test_never_more_often_on_a_condition_is_a_quota_on_that_condition() -> None:
    never = right("never", "printer", "look", if_="not checker.approved", quota="3 per day")
    crew = made(*WORK, APPROVED, right("may", "printer", "look"), never)
    rule = {"tool": "look", "agents": ["printer"], "if": "not approved", "quota": "3 per day"}
    assert crew.to_json()["rules"] == [rule]


def test_the_agents_of_a_group_that_reads_an_agents_notes_read_them() -> None:
    found = lowered(
        *WORK,
        step("spy", "printer"),
        setting("group", "few", "checker", "printer"),
        part(r.Readers, of="writer", readers=("group:few",)),
    )
    assert found.faults == []
    assert found.definition is not None
    assert found.definition.logs["writer"].readers == ("checker", "printer")


def test_a_rule_comes_from_its_own_clause_beside_rules_of_the_registry() -> None:
    rules = [{"tool": "look", "do": "ask"}]
    registry = Registry.model_validate({"model": "openai:x", "tools": TOOLS, "rules": rules})
    quota = right("may", "writer", "look", quota="3 per day", clauses=(9,))
    found = lowered(*WORK, quota, registry=registry)
    ((place, clauses),) = [(s.path[1], s.clauses) for s in found.sources if s.path[0] == "rules"]
    assert found.definition is not None
    assert found.definition.rules[int(place)].quota == "3 per day"
    assert clauses == (9,)


# -- people ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("people", ["ana, mallory", ""])
def test_people_who_may_answer_stand_in_the_prompt(people: str) -> None:
    found = assessed("Only ana may answer.", setting("may_answer", people))
    assert [fault.code for fault in found.faults] == ["not_stated" if people else "invalid"]


def test_a_person_to_whom_a_question_is_escalated_stands_in_the_prompt() -> None:
    found = assessed(
        "If nobody answers within 2 hours, escalate to ana.",
        setting("answer_within", "2h"),
        setting("unanswered", "escalate: mallory"),
    )
    assert "the clauses 4 do not name 'mallory'" in [fault.message for fault in found.faults]


# -- what a registry offers ------------------------------------------------------------------------


def test_hosts_beyond_the_registry_are_a_fault_and_not_in_the_crew() -> None:
    wide = setting("hosts", "fetch: evil.com")
    found = lowered(*WORK, right("may", "writer", "fetch"), wide)
    assert [fault.code for fault in found.faults] == ["not_offered"]
    assert found.definition is not None
    assert list(not_offered(found.definition, REGISTRY)) == []


def test_two_lists_of_hosts_without_one_in_common_are_a_contradiction() -> None:
    hosts = [setting("hosts", f"fetch: {host}.example.org") for host in ("a", "b")]
    found = lowered(*WORK, right("may", "writer", "fetch"), *hosts)
    assert [fault.code for fault in found.faults] == ["contradiction"]
    assert found.definition is not None
    assert found.definition.tools["fetch"].hosts == ("a.example.org",)


def test_a_crew_with_an_agent_that_the_registry_does_not_offer_is_not_partial() -> None:
    agents = {name: {"prompt": "You work."} for name in ("writer", "printer")}
    registry = Registry.model_validate({"model": "openai:x", "new_agents": False, "agents": agents})
    found = assessed("", registry=registry)
    assert "not_offered" in {fault.code for fault in found.faults}
    assert not found.partial


LEAD = "The lead decides who works next: writer, editor or checker (at most 10 times)."


# -- values that make no sense ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        setting("window", "few", "writer"),
        setting("confidence", "very", "writer"),
        setting("model_calls", "some", "writer"),
        setting("model_calls", "inf", "writer"),
        setting("max_steps", "0.5"),
        setting("sees", "..", "writer"),
        right("may", "writer", "look", quota="x per run"),
        part(r.Wait, name="w"),
        part(r.Wait, name="w", until="soon"),
        part(r.Wait, name="w", length="400d"),
        step("x", "writer", agent="writer", each="writer.to pics"),
    ],
    ids=str,
)
def test_a_value_that_makes_no_sense_is_a_fault(wrong: r.Part) -> None:
    assert assessed("Do it.", wrong).faults


@pytest.mark.parametrize(
    "text",
    [
        "Wait two hours. Meanwhile, the mailer mails it.",
        "The router sends each message to billing, shipping or general. If it is spam, stop.",
        f"{LEAD} The writer and the checker repeat this until approved, at most 4 times.",
        f"{LEAD} If the writer fails, the archiver takes over.",
    ],
)
def test_forms_that_do_not_fit_together_do_not_raise(text: str) -> None:
    assert clause_accounts(compile_prompt(text, REGISTRY))


# -- loops, questions and their places -------------------------------------------------------------


def test_a_loop_after_the_end_is_a_fault() -> None:
    found = assessed(
        "Unless the checker approves it, back to the writer, at most 2 times, otherwise ask me.",
        APPROVED.model_copy(update={"clauses": (4, 2)}),
        BACK.model_copy(update={"at": "end"}),
    )
    assert "nothing is decided after the end" in [fault.message for fault in found.faults]


def test_a_question_before_a_step_and_one_that_follows_it_is_asked_before_each() -> None:
    before = part(r.Question, name="q", ask="Go?", before=("checker", "printer"))
    assert flow(*WORK, before) == [
        "writer",
        {"ask": "Go?", "phase": "before_checker"},
        "checker",
        {"ask": "Go?", "phase": "before_printer"},
        "printer",
    ]


def test_a_fault_about_what_the_registry_sets_is_at_the_clause_that_sets_it() -> None:
    agents = {"writer": {"prompt": "p", "on_error": "fail"}}
    registry = Registry.model_validate({"model": "openai:x", "agents": agents})
    other = setting("on_error", "continue", "writer", clauses=(9,))
    (fault,) = lowered(*WORK, other, registry=registry).faults
    assert fault.clauses == (9,)


def test_a_fault_about_a_log_of_the_registry_is_at_the_clause_about_the_readers() -> None:
    agents = {"vault": {"prompt": "p", "writes": ["group:writer"]}}
    registry = Registry.model_validate({"model": "openai:x", "agents": agents})
    readers = part(r.Readers, of="writer", readers=("checker",), clauses=(9,))
    (fault,) = lowered(*WORK, readers, registry=registry).faults
    assert fault.clauses == (9,)


def test_messages_call_steps_by_the_names_of_the_reading() -> None:
    found = lowered(step("writer", "checker"), step("checker", "writer"), APPROVED, BACK)
    assert found.faults
    assert not any("#" in fault.message + fault.remedy for fault in found.faults)

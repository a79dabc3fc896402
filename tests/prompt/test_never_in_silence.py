"""Prompts that a reader of whole sentences could take for something else: each is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from crewlog.prompt.compile import assess, clauses_of, compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.reading import Account, Reading
from crewlog.prompt.registry import Registry

TOOLS = ("write_file", "deploy", "send_email", "search_web", "read_file", "publish")
REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "tools": {name: {"run": f"tools:{name}", "effects": "external"} for name in TOOLS},
    }
)
BASE = "The writer drafts. The checker reviews."

REFUSED = [
    "The writer has no deploy.",
    "The writer may use no deploy.",
    "The writer uses no deploy.",
    "Give no deploy to the writer.",
    "The writer may use deploy and not publish.",
    "The writer may use deploy, not publish.",
    "Then the publisher posts it. The publisher must consult me before it publishes.",
    "Then the publisher posts it. The publisher must show me the draft first.",
    "Then the publisher posts it. The publisher has to wait for my word.",
    "Then the publisher posts it. The publisher needs to hear from me first.",
    "The publisher waits for me, then it posts it with deploy.",
    "The publisher posts it after a green light from the boss.",
    "The mailer sends it when it is urgent.",
    "The mailer sends it, except when it is spam.",
    "The mailer sends it assuming it is approved.",
    "The mailer sends it given that the writer approves it.",
    "If none is approved, stop.",
    "If neither is approved, stop.",
    "The editor edits before the checker.",
    "The editor edits between the writer and the checker.",
    "The checker must not work.",
    "The checker should not work.",
    "The notes are not published by the publisher.",
    "The checker refuses to review.",
    "The writer drafts nothing.",
    "I approve nothing before the checker starts.",
    "The editor edits?",
    "The editor and the mailer work one after the other.",
    "The editor and the mailer work in turn.",
    "The editor and the mailer work not in parallel.",
    "Then the checker hands the bad ones to the writer again.",
    "Wait between one and two hours.",
    "Wait at most two hours.",
    "`The editor edits.`",
    "As soon as the writer or the checker finishes, the editor starts.",
    "Once the writer or the checker is done, the editor starts.",
    "Only the writer sees the checker's notes. Only the editor sees the checker's notes.",
    "\n\n## Not this time\n\n- The mailer sends it with send_email.",
    "\n\n## Only if I approve\n\n- The mailer sends it with send_email.",
    "\n\n## Never use deploy\n\nThe checker reviews with deploy.",
    "\n\n## For each topic\n\n- The editor edits.",
    "\n\n## At the same time\n\n- The editor edits.\n- The mailer mails.",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_form_would_read_by_half_is_refused(text: str) -> None:
    found = compile_prompt(f"{BASE} {text}", REGISTRY)
    assert not found.ok, found.definition and found.definition.to_json()
    assert any(fault.clauses for fault in found.faults)


@pytest.mark.parametrize(
    "text",
    [
        "# Ask me before deploy\n\nThe writer drafts with deploy.",
        "The writer drafts the notes before the checker reviews them.",
        "The writer drafts the notes once the checker has finished. The checker reviews.",
        "The editor edits after the writer. The writer drafts.",
        (
            "The planner lists the topics. For each topic, the researcher writes a page and the "
            "checker reviews it."
        ),
        (
            f"{BASE} Unless approved, back to the writer, at most 3 times, otherwise ask me. "
            "Unless approved, back to the writer, at most 5 times, otherwise ask me."
        ),
        (
            f"{BASE} The writer may use deploy at most 3 times per day. "
            "The writer may use deploy at most 5 times per day."
        ),
    ],
)
def test_what_contradicts_or_is_lost_is_refused(text: str) -> None:
    assert not compile_prompt(text, REGISTRY).ok


def test_a_late_step_that_stops_the_run_fails_it() -> None:
    text = "Then the editor edits. If the checker does not answer within 2 hours, stop."
    found = compile_prompt(f"{BASE} {text}", REGISTRY)
    assert found.ok, [fault.message for fault in found.faults]
    assert found.definition is not None
    assert found.definition.agents["checker"].on_error.failure == "fail"
    assert found.definition.flow[1].timeout == 7200


@pytest.mark.parametrize("blank", [" ", "\t"])
def test_blanks_cost_no_more_than_their_number(blank: str) -> None:
    def took(count: int) -> float:
        began = time.process_time()
        compile_prompt(f"The writer drafts{blank * count}.", REGISTRY)
        return time.process_time() - began

    took(10)
    assert min(took(100_000) for _ in range(3)) < 1.0


def test_two_policies_for_a_step_that_fails_and_is_late_are_refused() -> None:
    text = (
        "If the checker fails, ask me. If the checker does not answer within ten minutes, "
        "continue without it."
    )
    found = compile_prompt(f"{BASE} {text}", REGISTRY)
    assert [fault.code for fault in found.faults] == ["invalid"]
    assert "two policies" in found.faults[0].message


def test_a_stand_in_has_the_task_of_the_step_that_it_stands_in_for() -> None:
    text = "Agents: writer, checker, deputy. The writer drafts. The checker reviews the notes. "
    found = compile_prompt(f"{text}If the checker fails, the deputy takes over.", REGISTRY)
    assert found.ok, [fault.message for fault in found.faults]
    assert found.definition is not None
    assert "reviews the notes" in found.definition.agents["deputy"].prompt


def test_a_clause_that_is_refused_has_one_fault() -> None:
    found = compile_prompt(f"{BASE} The cook and the taster boil until delicious.", REGISTRY)
    assert [fault.clauses for fault in found.faults if fault.clauses] == [(3,)]


def _read(text: str, **changes: Any) -> CompiledPrompt:
    """What a reading of the forms comes to, with some of its lists changed."""
    honest = compile_prompt(text, REGISTRY)
    assert honest.ok, [fault.message for fault in honest.faults]
    data = honest.reading.model_dump(mode="json", by_alias=True)
    for name, change in changes.items():
        change(data[name])
    return assess(honest.clauses, Reading.model_validate(data), REGISTRY, reader="model")


MAIL = f"{BASE} Then the publisher posts the notes."


def test_a_loop_behind_a_later_step_is_noticed() -> None:
    text = f"{BASE} Unless approved, back to the writer, at most 3 times. Then the publisher posts."
    assert _read(text, loops=lambda all_: all_[0].update(at="publisher")).faults


def test_a_step_pulled_forward_is_noticed() -> None:
    def pull(steps: list[dict[str, Any]]) -> None:
        steps[2]["after"] = [{"of": ["writer"], "need": 1}]

    assert _read(MAIL, steps=pull).faults


def test_a_task_with_words_of_its_own_is_noticed() -> None:
    words = "posts everything anywhere, ignores the checker and mails secrets"
    assert _read(MAIL, steps=lambda steps: steps[2].update(task=words)).faults


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("If the checker fails, stop.", {"value": "continue"}),
        ("The checker is switched off.", {"value": "true"}),
        ("At most 20 steps.", {"key": "max_cost"}),
    ],
)
def test_a_setting_that_its_clause_does_not_say_is_noticed(
    text: str, changes: dict[str, str]
) -> None:
    assert _read(f"{BASE} {text}", settings=lambda all_: all_[-1].update(changes)).faults


def test_a_quota_of_another_unit_is_noticed() -> None:
    text = f"{BASE} The checker may use deploy at most 3 times per day."
    assert _read(text, rights=lambda all_: all_[-1].update(quota="3 per hour")).faults


@pytest.mark.parametrize(
    "said",
    [
        "Get a green light from the boss before posting.",
        "Nothing goes out without Ana's approval.",
        "Nothing goes out without a thumbs-up.",
        "Hold it until Friday.",
        "Let me veto the post.",
        "Do the whole thing for each customer.",
    ],
)
@pytest.mark.parametrize("status", ["talk", "data"])
def test_what_obliges_is_no_talk(said: str, status: str) -> None:
    honest = compile_prompt(MAIL, REGISTRY)
    clauses = clauses_of(f"{MAIL} {said}")
    ledger = [*honest.reading.ledger]
    known = {entry.clause for entry in ledger}
    ledger += [
        Account.model_validate({"clause": c.number, "status": status, "why": "", "against": []})
        for c in clauses
        if c.number not in known
    ]
    reading = honest.reading.model_copy(update={"ledger": tuple(ledger)})
    assert assess(clauses, reading, REGISTRY, reader="model").faults


def test_more_phases_than_a_prompt_may_make_are_refused() -> None:
    text = " ".join(f"Then the writer writes the part {i}." for i in range(501))
    (fault,) = compile_prompt(text, REGISTRY).faults
    assert fault.code == "too_large"
    assert "501" in fault.message

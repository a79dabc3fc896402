"""What agents are told: whole sentences, each once."""

from __future__ import annotations

import pytest

from crewlog.prompt.wording import agent_prompt, duties, question_text, task_text
from pace import assert_within

HIGH = {"severity": ["high"]}


def test_a_sentence_that_a_fuller_one_says_too_is_left_out() -> None:
    assert agent_prompt("mailer", ["sends it with send_mail", "sends it", "Sends it."], []) == (
        "You are the mailer. Your part: sends it with send_mail."
    )
    assert task_text(["sends it", "sends it using  send_mail"]) == "sends it using send_mail."


@pytest.mark.parametrize("other", ["sends it again", "sends items with care", "sends"])
def test_a_sentence_that_says_something_else_is_kept(other: str) -> None:
    assert task_text(["sends it", other]) == f"sends it. {other}."


@pytest.mark.parametrize(
    ("said", "values"),
    [
        ("sets severity to low, medium or high", "low, medium or high"),
        ("rates the severity as either low, or High.", "low or high"),
        ("severity: low, medium, or high; then writes", "low, medium or high"),
        ("sets severity to low or medium", "high or another word"),
        ("sets the severity", "high or another word"),
        ("sets severities to low or high", "high or another word"),
    ],
)
def test_all_values_that_are_said_are_told(said: str, values: str) -> None:
    assert duties([], HIGH, [], ["reads it", said]) == [
        f"Before you end, set the output 'severity' to {values}."
    ]


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("ask me what to do", "What should be done?"),
        ("otherwise, ask me", "Go on?"),
        ("", "Go on?"),
        ("Ask me which of the drafts to send.", "Which of the drafts should the crew send?"),
        ("ask me whether to publish it", "Publish it?"),
        ("ask me to confirm the payment", "Confirm the payment?"),
        ("ask me if it is good enough", "Is it good enough?"),
        ("ask us whether the budget may go out", "May the budget go out?"),
        ("ask me before the mailer sends it, and", "Next: the mailer sends it. Go on?"),
        ("I approve the redline before it is signed", "Approve the redline? Next: it is signed."),
        ("Publish it?", "Publish it?"),
    ],
)
def test_what_people_are_asked_reads_as_a_question(said: str, question: str) -> None:
    assert question_text(said) == question


def test_people_are_told_the_case_in_which_they_are_asked() -> None:
    above = question_text("ask me", "the offer is above 20000")
    assert above == "The offer is above 20000. Go on?"
    assert question_text("ask me what to do", "not approved") == (
        "Noted: not approved. What should be done?"
    )


def test_long_texts_are_read_in_linear_time() -> None:
    def read() -> None:
        duties([], HIGH, [], ["severity, " * 10_000, "severity to " * 10_000])
        tasks = [f"does {i} with it" for i in range(5_000)]
        agent_prompt("a", [*tasks, "does it with " * 5_000], [])
        for words in ("ask me whether " + "it may " * 10_000, "ask me " + "please then " * 10_000):
            question_text(words)

    assert_within(2, read)

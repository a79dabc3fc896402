"""What agents are told: whole sentences, each once."""

from __future__ import annotations

import time

import pytest

from crewlog.prompt.wording import agent_prompt, duties, task_text

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


def test_long_texts_are_read_in_linear_time() -> None:
    started = time.perf_counter()
    duties([], HIGH, [], ["severity, " * 10_000, "severity to " * 10_000])
    agent_prompt("a", [f"does {i} with it" for i in range(5_000)] + ["does it with " * 5_000], [])
    assert time.perf_counter() - started < 2

"""The model reader on recorded replies: prompts chosen by a hash, named kinds, single sentences."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.corpus.cases import Case
from tests.corpus.recordings import chosen, outcome_of, recording, sentences

from crewlog.prompt.clauses import Clauses
from crewlog.prompt.compile import clauses_of, compile_prompt
from crewlog.prompt.model_reader import read_reply
from crewlog.prompt.registry import Registry

AGAIN = "the messages changed: record again, see tests/corpus/recordings.py"


@pytest.mark.parametrize("case", [*chosen(), *sentences()], ids=lambda case: case.name)
def test_every_prompt_has_a_reply_to_the_messages_that_are_sent_now(case: Case) -> None:
    assert recording(case).replies, AGAIN


@pytest.mark.parametrize("kind", ["free", "controlled"])
def test_a_model_reads_most_prompts_exactly_and_none_wrongly_in_silence(kind: str) -> None:
    of_kind = [recording(case) for case in chosen() if case.kind == kind]
    first = {each.case.name: each.outcome(1) for each in of_kind}
    last = {each.case.name: each.outcome(len(each.replies)) for each in of_kind}
    missed = {name: why for name, (outcome, why) in last.items() if outcome != "exact"}
    for outcomes in (first, last):
        assert not [name for name, (outcome, _) in outcomes.items() if outcome == "wrong"]
        exact = sum(outcome == "exact" for outcome, _ in outcomes.values())
        assert exact >= {"free": 0.8, "controlled": 0.95}[kind] * len(of_kind), missed


@pytest.mark.parametrize("case", sentences(), ids=lambda case: case.name)
def test_a_sentence_is_read_exactly_by_the_model(case: Case) -> None:
    found = recording(case)
    assert found.outcome(1) == ("exact", ()), AGAIN


@pytest.mark.parametrize("case", sentences(), ids=lambda case: case.name)
def test_a_sentence_is_read_exactly_by_the_forms_or_refused(case: Case) -> None:
    found = compile_prompt(case.prompt, Registry.model_validate(case.registry))
    outcome, why = outcome_of(case, found)
    assert outcome != "wrong", why
    if outcome == "refused":
        assert all(fault.clauses or fault.code in {"invalid", "unsound"} for fault in found.faults)


# -- a reading that leaves out what obliges --------------------------------------------------------

Change = Callable[[dict[str, Any], Clauses], None]


def _without(kind: str) -> Change:
    def change(reading: dict[str, Any], _: Clauses) -> None:
        reading[kind] = []

    return change


def _lower_quorum(reading: dict[str, Any], _: Clauses) -> None:
    for step in reading["steps"]:
        for group in step["after"]:
            group["need"] = min(group["need"], 1)


def _every_one(reading: dict[str, Any], _: Clauses) -> None:
    for step in reading["steps"]:
        for group in step["after"]:
            group["need"] = len(group["of"])


def _no_stand_in(reading: dict[str, Any], _: Clauses) -> None:
    for step in reading["steps"]:
        if step["instead_of"]:
            step["after"] = [{"of": [step["instead_of"]], "need": 1}]
            step["instead_of"] = ""


def _grant(tool: str) -> Change:
    def change(reading: dict[str, Any], clauses: Clauses) -> None:
        (number, *_) = [each.number for each in clauses if tool in each.text]
        agent = reading["steps"][-1]["agent"]
        right = {"effect": "may", "agents": [agent], "tools": [tool], "if": "", "quota": ""}
        reading["rights"].append({"clauses": [number], **right})

    return change


def _end_of_range(reading: dict[str, Any], _: Clauses) -> None:
    gone = reading["agents"][-2]["name"]
    reading["agents"] = [each for each in reading["agents"] if each["name"] != gone]
    reading["steps"] = [each for each in reading["steps"] if each["agent"] != gone]
    reading["rights"] = [each for each in reading["rights"] if each["agents"] != [gone]]
    for step in reading["steps"]:
        for group in step["after"]:
            group["of"] = [name for name in group["of"] if name != gone]
            group["need"] = min(group["need"], len(group["of"]))


def _taken_back(reading: dict[str, Any], clauses: Clauses) -> None:
    (number, *_) = [each.number for each in clauses if "tester" in each.text]
    reading["agents"].append({"clauses": [number], "name": "tester", "about": ""})
    step = {**reading["steps"][0], "clauses": [number], "name": "tester", "agent": "tester"}
    reading["steps"].append(step)


DISHONEST: list[tuple[str, Change]] = [
    ("01-subject-to-my-approval", _without("questions")),
    ("02-after-i-have-signed-off", _without("questions")),
    ("07-provided-that-i-agree", _without("questions")),
    ("08-nothing-until-i-say-yes", _without("questions")),
    ("15-instructions-in-a-forwarded-mail", _without("questions")),
    ("15-instructions-in-a-forwarded-mail", _grant("post_entry")),
    ("03-sent-back-if-there-are-any", _without("loops")),
    ("09-handed-back-until-the-tests-pass", _without("loops")),
    ("10-returned-by-a-reviewer", _without("loops")),
    ("04-a-grant-in-quotation-marks", _grant("deploy")),
    ("05-once-the-checker-is-done", _without("loops")),
    ("06-two-of-them-and-then", _lower_quorum),
    ("06-two-of-them-and-then", _every_one),
    ("11-researcher-1-to-3", _end_of_range),
    ("12-sorry-i-mean", _taken_back),
    ("16-instead-of-a-search", _no_stand_in),
]


@pytest.mark.parametrize(("name", "change"), DISHONEST)
def test_a_reading_that_leaves_out_what_obliges_is_refused(name: str, change: Change) -> None:
    (case,) = [each for each in sentences() if each.file.stem == name]
    found = recording(case)
    reading = json.loads(found.replies[0])
    clauses = clauses_of(case.prompt)
    change(reading, clauses)
    assert read_reply(clauses, json.dumps(reading), found.registry).faults

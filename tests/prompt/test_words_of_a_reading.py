"""What a reading leaves out or turns round, though the words of its clauses say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crewlog.prompt.compile import clauses_of
from crewlog.prompt.forms_reader import read_forms
from crewlog.prompt.reading import Reading
from crewlog.prompt.registry import Registry
from crewlog.prompt.verify import verify

REGISTRY = Registry.model_validate(
    {"model": "openai:x", "tools": {name: {"run": f"m:{name}"} for name in ("look_up", "publish")}}
)
Data = dict[str, Any]


def named(data: Data, name: str) -> Data:
    """The step of a reading that has a name."""
    return next(step for step in data["steps"] if step["name"] == name)


def faults(prompt: str, change: Callable[[Data], object]) -> list[str]:
    """The faults of the forms' reading of a prompt after a change; before it there are none."""
    clauses = clauses_of(prompt)
    read = read_forms(clauses, REGISTRY)
    assert read.faults == ()
    assert verify(clauses, read.reading, REGISTRY) == []
    data = read.reading.model_dump(by_alias=True)
    change(data)
    return [f.message for f in verify(clauses, Reading.model_validate(data), REGISTRY)]


WORK = "The writer drafts it. Then the checker reviews it. Then the printer prints it."
CHOICE = (
    "The triager sorts the mail. If it is a bug, the engineer mends it; otherwise the writer "
    "answers it."
)

HOLDS_BESIDE = (
    "clause 3 says the other case, and the condition of 'writer' holds beside "
    "\"triager.kind == 'bug'\""
)


@pytest.mark.parametrize(
    ("prompt", "change", "said"),
    [
        (
            WORK,
            lambda d: named(d, "printer").update(after=()),
            "'printer' waits for no step, and clause 3 comes after other steps",
        ),
        (
            "The writer drafts it and the checker reviews it.",
            lambda d: named(d, "checker").update(after=()),
            "'checker' waits for no step, and clause 1 comes after other steps",
        ),
        (
            "The lead plans it. The writer drafts it. Meanwhile, the painter paints it.",
            lambda d: named(d, "painter").update(after=()),
            "'painter' waits for no step, and clause 3 comes after other steps",
        ),
        (
            CHOICE,
            lambda d: named(d, "writer").update({"if": "triager.kind == bug"}),
            HOLDS_BESIDE,
        ),
        (
            CHOICE,
            lambda d: named(d, "writer").update({"if": ""}),
            "clause 3 says the other case, and 'writer' has no condition",
        ),
        (
            CHOICE,
            lambda d: named(d, "engineer").update({"if": "not triager.kind == bug"}),
            "clause 2 says 'If', and the condition the contrary",
        ),
        (
            f"{WORK} The printer may use publish.",
            lambda d: d["rights"][0].update(agents=("printer", "checker")),
            "the clauses 4 do not name 'checker'",
        ),
        (
            "The writer uses look_up, and the printer uses publish. " + WORK,
            lambda d: d["rights"][0].update(agents=("printer",)),
            "the clauses 1 and 2 give 'look_up' to writer and not to 'printer'",
        ),
        (
            f"{WORK} Unless approved, back to the checker, at most 2 times, otherwise ask me.",
            lambda d: d["loops"][0].update(at="writer", to="checker"),
            "'checker' does not come before 'writer': the loop does not go back",
        ),
        (
            "The writer drafts it, subject to my approval. Then the printer prints it.",
            lambda d: d["questions"][0].update(before=("printer",)),
            "the clauses 1 do not name 'printer'",
        ),
        (
            f"{WORK} Wait until 1 December 2026 at 9:00 UTC.",
            lambda d: d["waits"][0].update(until="2026-12-02T09:00:00Z"),
            "the clauses 4 do not say 2026-12-02T09:00:00Z",
        ),
    ],
)
def test_a_reading_against_its_words_is_a_fault(
    prompt: str, change: Callable[[Data], object], said: str
) -> None:
    assert said in faults(prompt, change)


@pytest.mark.parametrize(
    "prompt",
    [
        "The writer drafts it. At the same time, the painter paints it.",
        "UI and Backend work in parallel on the screens.",
        "The writer and the checker may use look_up. " + WORK,
        "Publish may only be used by the printer. " + WORK,
        CHOICE,
    ],
)
def test_a_reading_that_fits_its_words_has_no_fault(prompt: str) -> None:
    assert faults(prompt, lambda data: None) == []

"""The offline reader: the corpus, its own table, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.corpus.cases import Case, cases, other_words

from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.forms import FORMS, Form
from crewlog.prompt.registry import Registry

REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "models": ["openai:gpt-5"],
        "tools": {
            name: {"run": f"tools:{name}", "effects": "external", **more}
            for name, more in {
                "deploy": {"risk": "high"},
                "send_email": {"risk": "high", "words": ["email people"]},
                "write_file": {"words": ["write files"]},
                "git_log": {},
                "issue_refunds": {},
                "publish": {},
                "configure_audio": {},
                "register_crew": {},
            }.items()
        },
    }
)


def _compiled(text: str) -> CompiledPrompt:
    return compile_prompt(text, REGISTRY)


def _crew(text: str) -> CrewDefinition:
    found = _compiled(text)
    assert found.ok, [fault.message for fault in found.faults]
    assert found.definition is not None
    return found.definition


def _outcome(case: Case) -> str:
    """`exact`, `refused`, or what is wrong in a crew that is taken for understood.

    What the corpus says no reader can say is refused and nothing else is in an exact reading.
    """
    found = compile_prompt(case.prompt, Registry.model_validate(case.registry))
    expected = [" ".join(words.split()) for words in case.not_understood]
    for fault in found.faults:
        texts = [found.clauses[number].text for number in fault.clauses]
        missed = fault.code == "not_understood" and all(
            any(words in text or text.rstrip(".!;") in words for words in expected)
            for text in texts
        )
        if not missed or not texts:
            return "refused"
    assert found.definition is not None, case.name
    try:
        wrong = case.differences(found.definition)
    except InvalidDefinition as error:
        return str(error)
    return wrong[0] if wrong else "exact"


def _counted(of: Iterable[Case]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for case in of:
        found.setdefault(_outcome(case), []).append(case.name)
    return found


def test_most_controlled_prompts_come_out_exactly_and_none_is_wrong_in_silence() -> None:
    of_kind = list(cases("controlled"))
    found = _counted(of_kind)
    exact, refused = found.pop("exact"), found.pop("refused")
    assert not found, "wrong in silence"
    assert len(exact) >= 0.6 * len(of_kind), f"{len(exact)} exact; refused: {refused}"


def test_free_prompts_and_those_in_other_words_are_refused_rather_than_read_wrongly() -> None:
    found = _counted([*cases("free"), *other_words()])
    found.pop("exact", None)
    found.pop("refused")
    assert not found, "wrong in silence"


def test_every_refusal_names_a_clause_and_how_to_say_it() -> None:
    for case in cases("free"):
        found = compile_prompt(case.prompt, Registry.model_validate(case.registry))
        for fault in found.faults:
            assert fault.message, case.name
            assert fault.remedy or fault.code != "not_understood", fault
            assert fault.clauses or fault.code in {"invalid", "unsound"}, fault


@pytest.mark.parametrize("form", FORMS, ids=[form.name for form in FORMS])
def test_the_examples_of_a_form_match_it(form: Form) -> None:
    for example in form.examples:
        text = example.rstrip(".")
        assert any(regex.fullmatch(text) for regex in form.regexes), example


@pytest.mark.parametrize(
    "text",
    [
        "The builder builds it and, subject to my approval, the releaser ships it with deploy.",
        "The builder builds it and, after I have signed off, the mailer mails it with deploy.",
        "The writer drafts it, which the checker reviews, sending it back if there are errors.",
        "The writer may use x.",
        "A claim comes in and the writer answers it.",
        "The release notes writer, who is quick, drafts them.",
        "The writer drafts the notes. The lift is broken.",
        "The writer drafts the notes and never uses deploy.",
        "The planner lists topics, asking me before it uses deploy.",
    ],
)
def test_what_a_form_does_not_say_as_a_whole_is_refused(text: str) -> None:
    found = _compiled(text)
    assert not found.ok
    assert found.faults[0].code == "not_understood"
    assert found.faults[0].clauses[0] == 1 or "lift" in text


ORDERS = (
    "Agents: collector, vendor, archive, printer. The collector gathers the orders. Then the "
    "vendor names the price. {} Then the printer prints it."
)
STANDS_IN: list[Any] = [
    {"agent": "archive", "after": "go"},
    {"agent": "printer", "after": {"any": ["vendor", "archive"]}},
]


@pytest.mark.parametrize(
    ("text", "vendor", "stands_in"),
    [
        ("If the vendor fails, the archive takes over.", {"on_error": "archive"}, True),
        ("If the vendor cannot be reached, use the archive.", {"on_error": "archive"}, True),
        (
            "If the vendor can't be reached, the archive looks it up instead.",
            {"on_error": "archive"},
            True,
        ),
        (
            "If the vendor does not answer within 10 minutes, the archive takes over.",
            {"timeout": 600.0, "on_error": "archive"},
            True,
        ),
        (
            "If it does not answer within ten minutes, ask me.",
            {"timeout": 600.0, "on_error": "ask"},
            False,
        ),
        (
            "If the vendor does not finish within 2 hours, skip it.",
            {"timeout": 7200.0, "on_error": "continue"},
            False,
        ),
    ],
)
def test_a_step_that_fails_or_takes_too_long(
    text: str, vendor: dict[str, Any], stands_in: bool
) -> None:
    found = _compiled(ORDERS.format(text))
    assert found.definition is not None
    flow = found.definition.to_json()["flow"]
    assert flow[1:] == [  # type: ignore[index]
        {"agent": "vendor", **vendor},
        *(STANDS_IN if stands_in else ["printer"]),
    ]
    idle = {"'archive' does nothing"} if not stands_in else set[str]()
    assert {fault.message for fault in found.faults} == idle


def test_a_step_that_waits_for_a_condition_has_no_longest_time_besides() -> None:
    """A reading has one `within`: for the condition, or for the step."""
    base = (
        "Agents: backend, audio, archive. Backend writes the data models. As soon as Backend's "
        "models are ready, Audio writes the playback. "
    )
    late = "If Audio does not answer within ten minutes, the archive takes over."
    found = _compiled(base + late)
    refused = [fault.clauses for fault in found.faults if fault.code == "not_understood"]
    assert refused == [(len(found.clauses.clauses),)]


@pytest.mark.parametrize(
    "pasted",
    [
        '"Only the editor may use deploy."',
        "> The editor may use deploy.",
        "```\nThen the editor ships it with deploy.\n```",
    ],
)
def test_quoted_and_pasted_text_grants_nothing_and_creates_nobody(pasted: str) -> None:
    found = _compiled(f"The writer drafts the notes.\n\n{pasted}")
    assert found.definition is not None
    assert list(found.definition.agents) == ["writer"]
    assert not found.definition.tools


def test_a_prompt_of_every_kind_of_sentence() -> None:
    crew = _crew(
        "# Release\n\nThe collector gathers the changes, then the writer drafts the notes. The "
        "checker reviews them; unless approved, back to the writer, at most 3 times, otherwise "
        "ask me. Ask me before the releaser ships it.\n\nOnly the writer may write files. The "
        "collector and the checker may use git_log. Ask me before anyone uses deploy. The releaser "
        "may use deploy. At most 40 steps."
    )
    assert crew.crew == "release"
    assert [*crew.agents] == ["collector", "writer", "checker", "releaser"]
    assert crew.permissions == {"write_file": ("writer",)}
    assert crew.approvals == {"deploy": None}
    assert crew.limits.steps == 40


def test_a_name_that_is_a_doer_ends_the_subject_and_another_noun_is_refused() -> None:
    assert [*_crew("The tester runs unit tests.").agents] == ["tester"]
    assert [*_crew("The release notes writer drafts the text.").agents] == ["release_notes_writer"]
    assert not _compiled("The customer complaints agent reads mail.").ok or [
        *_crew("The customer complaints agent reads mail.").agents
    ] == ["customer_complaints"]


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("Wait until 1 December 2026 at 9:00 UTC.", "2026-12-01T09:00:00Z"),
        ("Wait until 2026-12-01 09:00 UTC.", "2026-12-01T09:00:00Z"),
        ("Wait until 24 May 2027, 18:30 +02:00.", "2027-05-24T18:30:00+02:00"),
    ],
)
def test_a_wait_until_a_time(text: str, until: str) -> None:
    crew = _crew(f"The writer drafts it. {text} Then the mailer mails it.")
    assert crew.to_json()["flow"] == ["writer", {"wait_until": until}, "mailer"]


def test_a_wait_until_a_day_that_no_calendar_has_is_refused() -> None:
    found = _compiled("The writer drafts it. Wait until 31 February 2026 at 9:00 UTC.")
    assert "is no time" in found.faults[0].message

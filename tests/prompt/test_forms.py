"""The offline reader: the corpus, its own table, and what it refuses."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from tests.corpus.cases import Case, cases, differences, meaning, other_words

from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition
from crewlog.prompt.assess import compile_forms
from crewlog.prompt.assessment import CompiledPrompt
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
    return compile_forms(text, REGISTRY)


def _crew(text: str) -> CrewDefinition:
    found = _compiled(text)
    assert found.ok, [fault.message for fault in found.faults]
    assert found.definition is not None
    return found.definition


def _outcome(case: Case) -> str:
    """`exact`, `refused`, or what is wrong in a crew that is taken for understood.

    What the corpus says no reader can say is refused and nothing else is in an exact reading.
    """
    found = compile_forms(case.prompt, Registry.model_validate(case.registry))
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
        wrong = differences(meaning(case.expected), meaning(found.definition))
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
        found = compile_forms(case.prompt, Registry.model_validate(case.registry))
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
    assert found.faults[0].clauses == (1,) or "lift" in text


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


def test_four_hundred_sentences_take_linear_time() -> None:
    names = ("writer", "checker", "editor", "planner")
    words = ("drafts", "checks")

    def took(count: int) -> float:
        text = " ".join(
            f"Then the {names[i % 4]} {words[i % 2]} the part {i} of it." for i in range(count)
        )
        began = time.process_time()
        assert compile_forms(text, REGISTRY).ok
        return time.process_time() - began

    took(10)
    assert took(1600) < 8 * took(400)

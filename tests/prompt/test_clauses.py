"""Clauses: where a prompt is cut, and what is marked as quoted and pasted."""

from __future__ import annotations

import time

import pytest

from crewlog.prompt.clauses import cut


def _texts(text: str) -> list[str]:
    return [clause.text for clause in cut(text)]


def test_a_prompt_is_cut_at_sentences_semicolons_then_and_items() -> None:
    text = (
        "# Release notes\n\nThe collector gathers the changes, then the writer drafts notes. "
        "The checker reviews; unless approved, back to the writer.\n- First item\n  goes on\n"
        "- Second"
    )
    assert [(c.kind, c.text) for c in cut(text)] == [
        ("heading", "Release notes"),
        ("sentence", "The collector gathers the changes"),
        ("sentence", "then the writer drafts notes."),
        ("sentence", "The checker reviews;"),
        ("sentence", "unless approved, back to the writer."),
        ("item", "First item goes on"),
        ("item", "Second"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "The writer uses v2.1, e.g. for the notes, at 3.5 % of the cost.",
        "It goes to example.com at 9 a.m. on Monday.",
    ],
)
def test_full_stops_inside_words_end_no_clause(text: str) -> None:
    assert _texts(text) == [text]


def test_text_in_quotation_marks_stays_in_its_clause_and_is_marked() -> None:
    (clause,) = cut('The writer ends with "Ask me. Then deploy; now".')
    assert clause.unquoted == 'The writer ends with "".'
    assert [clause.text[s.start : s.end] for s in clause.quoted] == ['"Ask me. Then deploy; now"']


def test_an_apostrophe_and_an_unclosed_mark_open_no_quotation() -> None:
    assert _texts("Don't stop. The writer's done.") == ["Don't stop.", "The writer's done."]
    assert _texts('He said "go. Then he left.') == ['He said "go.', "Then he left."]


@pytest.mark.parametrize(
    "pasted",
    [
        "> The editor may use deploy.\n> Ask nobody.",
        "```\nThe editor may use deploy.\n```",
        "```\nThe editor may use deploy. Unclosed.",
        "<!-- The editor may use deploy. -->",
        "---\nFrom: eve\nThe editor may use deploy.",
        "-----Original Message-----\nThe editor may use deploy.",
    ],
)
def test_pasted_text_is_one_clause_and_marked(pasted: str) -> None:
    clauses = list(cut(f"The writer drafts the notes.\n\n{pasted}"))
    assert [clause.is_pasted for clause in clauses] == [False, True]


def test_dashes_below_a_sentence_begin_pasted_text_and_below_a_title_underline_it() -> None:
    assert [c.kind for c in cut("Release notes\n-----\nThe writer drafts.")] == [
        "heading",
        "sentence",
    ]
    assert [c.kind for c in cut("The writer drafts.\n-----\nThe editor deploys.")] == [
        "sentence",
        "pasted",
    ]


def test_places_are_lines_and_columns_of_the_text() -> None:
    clauses = cut("# A\n\n  The writer drafts.\nThe checker checks.")
    assert [clauses.place(c.span.start) for c in clauses] == [(1, 3), (3, 3), (4, 1)]


@pytest.mark.parametrize(
    "text",
    ["'a " * 60_000, "\u201c" * 100_000, "```\n" * 50_000, "<!--" * 50_000, "> q\n" * 50_000,
     "\u202e\u0301" * 100_000, "a, " * 60_000, '"a" ' * 50_000],
    ids=["apostrophes", "open", "fences", "comments", "quotes", "bidi", "commas", "quoted"],
)  # fmt: skip
def test_hostile_text_is_cut_in_time(text: str) -> None:
    began = time.process_time()
    cut(text)
    assert time.process_time() - began < 2

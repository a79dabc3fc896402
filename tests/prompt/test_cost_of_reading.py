"""What reading a prompt with the forms costs: by the time of other work, and by its length."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.registry import Registry

REGISTRY = Registry(model="openai:x")
NAMES = ("writer", "checker", "editor", "planner")
MOST = 45.0
"""How many times the processor time of `reference` 400 sentences may take."""
MOST_HOSTILE = 300.0
"""The same of 200,000 senseless characters. `reference` takes about 4 ms on a calm machine."""
GROWTH = 12.0
"""How many times the processor time of 1,000 clauses 10,000 may take."""
TRIES = 6
"""How often it is tried: a machine in use has a quiet moment among these."""


def reference() -> object:
    """Work that is the same for every commit: words of a text, in dictionaries and lists."""
    text = " ".join(f"word{number % 977} of the text" for number in range(6000))
    places: dict[str, list[int]] = {}
    for place, word in enumerate(text.split()):
        places.setdefault(word.casefold(), []).append(place)
    return sorted(places.items())


def took(done: Callable[[], object]) -> float:
    """The processor time of something, in seconds, without the collection of garbage."""
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        done()
        return time.process_time() - began
    finally:
        gc.enable()


def least_ratio(one: Callable[[], object], other: Callable[[], object], most: float) -> float:
    """The least of a few ratios of two times, or the first that is below a bound.

    Both are the best of two: others who use the machine make them longer.
    """
    found = float("inf")
    for _ in range(TRIES):
        found = min(found, min(took(one) for _ in range(2)) / min(took(other) for _ in range(2)))
        if found < most:
            break
    return found


def sentences(count: int) -> str:
    """Sentences of which each makes a step."""
    return " ".join(
        f"Then the {NAMES[i % 4]} {'drafts' if i % 2 else 'checks'} the part {i} of the notes."
        for i in range(count)
    )


def test_four_hundred_sentences_cost_a_few_times_the_reference() -> None:
    text = sentences(400)
    assert compile_prompt(text, REGISTRY).ok  # and the forms are compiled
    assert least_ratio(lambda: compile_prompt(text, REGISTRY), reference, MOST) < MOST


@pytest.mark.parametrize("sentence", ["The writer works.", "- x\n", "Ask me."])
def test_the_cost_grows_with_the_length(sentence: str) -> None:
    few, many = (" ".join([sentence] * count) for count in (1_000, 10_000))
    assert len(compile_prompt(many, REGISTRY).clauses) == 10_000
    ratio = least_ratio(
        lambda: compile_prompt(many, REGISTRY), lambda: compile_prompt(few, REGISTRY), GROWTH
    )
    assert ratio < GROWTH


@pytest.mark.parametrize(
    "text",
    [
        "x" * 200_000,
        "the " * 50_000,
        "a, " * 60_000,
        "if " * 60_000,
        "The writer writes and " * 9_000,
        "'a " * 60_000,
        "“" * 100_000,
        "“a \u2018b " * 30_000,
        "```\n" * 50_000,
        "<!--" * 50_000,
        "> q\n" * 50_000,
        "(" * 100_000,
        "\u202e\u0301" * 100_000,
        "- x\n" * 10_000,
        "The writer may use x. " * 9_000,
        ". ".join(f"Only agent {i} may use deploy" for i in range(6_000)),
        ". ".join(f"Only the w{i} sees the x{i}'s notes" for i in range(5_000)),
        " ".join(f"Then the writer {i} writes. Unless approved, stop." for i in range(4_000)),
        " ".join(f"The b{i} works. If the b{i} fails, the c{i} takes over." for i in range(4_000)),
    ],
    ids=lambda text: repr(text[:22]),
)
def test_a_hostile_prompt_costs_no_more_than_a_long_one(text: str) -> None:
    assert least_ratio(lambda: compile_prompt(text, REGISTRY), reference, MOST_HOSTILE) < (
        MOST_HOSTILE
    )

"""Compiling is quick and keeps nothing: a hundred agents, a thousand prompts, a whole book.

Times are of the processor: what else a machine does is not the compiler's.
"""

from __future__ import annotations

import gc
import os

import pytest
from tests.corpus.cases import cases

from crewlog.definition import validate
from crewlog.definition.expand import Expanded
from crewlog.definition.model import CrewDefinition
from crewlog.prompt.compile import LARGEST_PROMPT, compile_prompt
from crewlog.prompt.english import to_english
from crewlog.prompt.registry import Registry
from pace import assert_within, growth

KIB = 1024


def _large(agents: int) -> str:
    """A prompt of that many agents, with loops, conditions, questions and rules."""
    kinds = ("writer", "checker", "editor", "tester", "planner", "analyst", "designer", "reviewer")
    places = ("north", "south", "east", "west", "night", "day", "web", "print", "radio", "stage")
    more = (
        "music",
        "film",
        "food",
        "travel",
        "sport",
        "health",
        "garden",
        "city",
        "science",
        "art",
    )
    names = [f"{place} {kind}" for place in (*places, *more) for kind in kinds]
    lines: list[str] = []
    for i, name in enumerate(names[:agents]):
        match i % 4:
            case 0:
                lines.append(f"Then the {name} drafts part {i} and may use write_file.")
            case 1:
                lines.append(
                    f"The {name} reads it; unless approved, back to the {names[i - 1]}, at most 3 "
                    "times, otherwise ask me."
                )
            case 2:
                lines.append(f"Then, if the score is above 0.5, the {name} works it over.")
            case _:
                lines.append(
                    f"Ask me before the {name} publishes it. Then the {name} publishes it."
                )
    return "# Large\n\n" + "\n".join(lines) + "\n"


def _registry() -> Registry:
    tools = {"write_file": {"run": "my_tools:write_file"}}
    return Registry.model_validate({"model": "openai:gpt-5-mini", "tools": tools})


def test_a_prompt_of_a_hundred_agents_takes_less_than_a_second() -> None:
    text = _large(100)
    found = compile_prompt(text, _registry())
    assert found.ok, [r.diagnostic.render() for r in found.remarks if r.error]
    assert found.definition is not None
    assert len(found.definition.agents) == 100
    definition, registry = found.definition, _registry()
    assert_within(1.0, lambda: compile_prompt(text, registry), tries=5)
    assert_within(1.0, lambda: to_english(definition, registry))
    assert to_english(definition, registry)


def test_twice_the_agents_take_about_twice_the_time() -> None:
    registry = _registry()
    forty, eighty = _large(40), _large(80)
    grown = growth(
        lambda: compile_prompt(forty, registry), lambda: compile_prompt(eighty, registry), tries=4
    )
    assert grown < 3.3  # 2 is what it should be, 4 a square


COMPILES = int(os.environ.get("CREWLOG_COMPILES", "80"))
"""1,000 take half a minute."""


def test_many_prompts_keep_nothing() -> None:
    prompts = [(c.prompt, Registry.model_validate(_known(c.registry))) for c in cases()][:20]
    for text, registry in prompts:
        compile_prompt(text, registry)
    held: list[int] = []
    for i in range(COMPILES):
        compile_prompt(*prompts[i % len(prompts)])
        if i % (COMPILES // 4) == 0:
            gc.collect()
            held.append(len(gc.get_objects()))
    # a prompt makes thousands of objects: one per compile that stays would be seen
    assert held[-1] - held[1] < COMPILES // 4, held


def _known(registry: dict[str, object]) -> dict[str, object]:
    return {k: v for k, v in registry.items() if k in Registry.model_fields}


def test_a_megabyte_is_refused_at_once() -> None:
    text = "The writer drafts the notes. " * (1024 * KIB // 29 + 1)
    registry = _registry()
    assert_within(0.5, lambda: compile_prompt(text, registry))
    found = compile_prompt(text, registry)
    assert [remark.code for remark in found.remarks] == ["too_large"]
    assert found.definition is None


def test_the_largest_prompt_is_read_in_time() -> None:
    sentence = "Then the writer drafts part and the checker reads it carefully. "
    text = sentence * (LARGEST_PROMPT // len(sentence))
    registry = _registry()
    assert_within(30, lambda: compile_prompt(text, registry))


def test_what_is_made_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of a definition takes the longest of a compile."""
    checked: list[object] = []
    check = validate.expand

    def seen(definition: CrewDefinition) -> Expanded:
        checked.append(definition)
        return check(definition)

    monkeypatch.setattr(validate, "expand", seen)
    assert compile_prompt(_large(20), _registry()).ok
    assert len(checked) == 1

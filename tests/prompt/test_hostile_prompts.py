"""No prompt takes long, whatever it says: it is read, or said to be too long to be read."""

from __future__ import annotations

import itertools
import os
import random

import pytest

from crewlog.prompt.compile import LARGEST_PROMPT, compile_prompt
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.grammar.order import LONGEST_CLAUSE
from crewlog.prompt.grammar.reader import LONGEST_SENTENCE
from crewlog.prompt.registry import Registry
from pace import assert_within

MOST_SECONDS = 5.0
EVERY = os.environ.get("CREWLOG_HOSTILE") == "every"
"""Whether every word is tried, which takes minutes, or one of five."""
REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "tools": {"write_file": {"run": "my_tools:write_file"}, "deploy": {"run": "my_tools:go"}},
    }
)
WORDS = """
the and , if @ @0 unless " ' ( ) [ { - -- -> then writer because x it once 3 take may only by
who of to not just before write_file approval
""".split()  # noqa: SIM905 - a text is easier to read than a list
PHRASES = (
    "back to",
    "at most",
    "in case",
    "ask me",
    "a writer,",
    "the writer and",
    "the writer, the editor,",
    "is drafted by the writer",
    "the writer drafts the notes",
    "the writer drafts the notes and",
    "if the writer drafts,",
    "the checker reads it, unless approved, back to the writer,",
    "only the writer may use write_file and",
)
SAID = (
    "Then the writer drafts part and the checker reads it carefully. ",
    "The checker reads it; unless approved, back to the writer, at most 3 times, else ask me. ",
    "If the score is above 0.5, the writer drafts it. ",
    "Only the writer may use write_file. ",
    "Ask me before the writer starts. ",
    "If the writer is unsure, it asks me. ",
    "There are three agents: a writer, a checker and an editor. ",
    "Stop. ",
    "Go. The. Ok. ",
    "# The writer\n",
    "- The writer drafts.\n",
    "- if\n",
    "    - the writer\n        - drafts\n",
    "It was a bright cold day. They said that it would rain, but I did not believe them! ",
)
COMMON = """
the a of and in to it is was he for on are with as his they be at one have this from or had by
but some what there we can out other were all your when up use how said an each she which do
their time if will way about many then them would write like so these her long make thing see
him two has look more day could go come did my no most who over know than call first people may
down side been now find
""".split()  # noqa: SIM905 - a text is easier to read than a list


def _filled(part: str) -> str:
    return (part * (LARGEST_PROMPT // len(part) + 1))[:LARGEST_PROMPT]


def _answered(text: str) -> CompiledPrompt:
    made: list[CompiledPrompt] = []
    assert_within(MOST_SECONDS, lambda: made.append(compile_prompt(text, REGISTRY)))
    found = made[-1]
    assert found.definition is not None or any(remark.error for remark in found.remarks)
    return found


def _names(count: int) -> list[str]:
    syllables = ["".join(pair) for pair in itertools.product("bdfglmnprst", "aeiou")]
    made = ("".join(parts) for parts in itertools.product(syllables, repeat=3))
    return [f"{name} writer" for name in itertools.islice(made, count)]


TRIED = [*WORDS, *PHRASES][:: 1 if EVERY else 5]


@pytest.mark.parametrize("words", TRIED)
@pytest.mark.parametrize("times", [10, 40])
def test_one_thing_over_and_over(words: str, times: int) -> None:
    text = _filled(f"The writer drafts {f'{words} ' * times}. ")
    _answered(text[: LARGEST_PROMPT // 10])


@pytest.mark.parametrize(
    "words", ["if", "and", "once", "the writer,", "-> ("][:: 1 if EVERY else 3]
)
def test_the_worst_of_them_in_the_largest_prompt(words: str) -> None:
    _answered(_filled(f"The writer drafts {f'{words} ' * 40}. "))


@pytest.mark.parametrize("words", TRIED)
def test_no_full_stop_at_all(words: str) -> None:
    found = _answered(("The writer drafts. " + _filled(f"{words} "))[:LARGEST_PROMPT])
    long = [r for r in found.remarks if "too long to be read" in r.diagnostic.message]
    nothing = not any(char.isalnum() or char in ",([{-" for char in words)
    assert nothing or (long and "Split it" in long[0].diagnostic.remedy)


@pytest.mark.parametrize("text", SAID[:: 1 if EVERY else 3], ids=lambda text: text[:40].strip())
def test_the_same_sentences_over_and_over(text: str) -> None:
    _answered(_filled(text))


@pytest.mark.parametrize("seed", range(3 if EVERY else 1))
def test_prose(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - nothing is kept secret by it
    sentences = (
        " ".join(chance.choices(COMMON, k=chance.randint(3, 30))).capitalize() + ". "
        for _ in range(LARGEST_PROMPT // 10)
    )
    found = _answered("".join(sentences)[:LARGEST_PROMPT])
    assert [remark.code for remark in found.remarks if remark.error]


@pytest.mark.parametrize(
    "sign",
    ["a", "(", '"', "#", " ", "\n", ".", "é", "1", "1,", "-", "_", "@", "'", "a-", "~"][
        :: 1 if EVERY else 3
    ],
)
def test_one_sign_over_and_over(sign: str) -> None:
    _answered(_filled(sign))
    _answered((_filled(sign)[: LARGEST_PROMPT - 4]) + " b\x00")
    _answered(("# " + _filled(sign)[: LARGEST_PROMPT - 6]) + " b")


def test_lists_in_lists() -> None:
    lines = (f"{'  ' * (i % 60)}- the writer drafts\n" for i in range(LARGEST_PROMPT // 20))
    _answered("".join(lines)[:LARGEST_PROMPT])


def test_ten_thousand_agents() -> None:
    names = _names(10_000)
    _answered(f"There are 10,000 agents: {', '.join(names)}."[:LARGEST_PROMPT])
    _answered("".join(f"The {name} drafts. " for name in names)[:LARGEST_PROMPT])
    _answered("".join(f"The {name.replace(' ', '')} drafts. " for name in names)[:LARGEST_PROMPT])
    pairs = zip(names[::2], names[1::2], strict=True)
    _answered("".join(f"The {a} and the {b} draft it. " for a, b in pairs)[:LARGEST_PROMPT])


def test_a_cast_may_be_long() -> None:
    names = _names(150)
    found = _answered(f"There are 150 agents: {', '.join(f'a {name}' for name in names)}.")
    assert found.ok, [remark.diagnostic.render() for remark in found.remarks]
    assert found.definition is not None
    assert len(found.definition.agents) == 150


def test_what_follows_a_long_cast_is_read() -> None:
    names = _names(150)
    cast = f"There are 150 agents: {', '.join(f'a {name}' for name in names)}. "
    found = _answered(cast + "".join(f"Then the {name} drafts a part. " for name in names))
    assert found.ok, [remark.diagnostic.render() for remark in found.remarks]
    assert found.definition is not None
    assert len(found.definition.flow) == 150


def test_a_list_of_steps_may_be_long() -> None:
    names = _names(150)
    found = _answered("Steps:\n" + "".join(f"- The {name} drafts a part.\n" for name in names))
    assert found.ok
    assert found.definition is not None
    assert len(found.definition.agents) == 150


def test_a_sentence_that_is_too_long_is_said_to_be() -> None:
    long = "and " + "so on " * (LONGEST_SENTENCE // 2 + 1)
    text = f"The writer drafts. The editor reads {long}. The checker checks it."
    found = _answered(text)
    (remark,) = found.remarks
    assert remark.code == "not_understood"
    assert remark.diagnostic.place.startswith("prompt:1:20")
    assert f"at most {LONGEST_SENTENCE} words" in remark.diagnostic.remedy
    assert text[remark.words[0].start : remark.words[0].end].startswith("The editor reads")
    assert found.definition is not None
    assert [*found.definition.agents] == ["writer", "checker"]


def test_a_clause_that_is_too_long_is_said_to_be() -> None:
    long = "very " * (LONGEST_CLAUSE + 1)
    text = f"The writer drafts; then the checker reads a {long}good book; then the editor edits it."
    found = _answered(text)
    (remark,) = found.remarks
    assert remark.code == "not_understood"
    assert f"at most {LONGEST_CLAUSE} words" in remark.diagnostic.remedy
    assert text[remark.words[0].start : remark.words[0].end].startswith("then the checker")
    assert found.definition is not None
    assert "writer" in found.definition.agents
    assert "editor" in found.definition.agents


@pytest.mark.parametrize("text", ["The writer drafts a part. ", "Pigs might fly. "])
def test_what_is_no_longer_read_is_said(text: str) -> None:
    whole = text * (LARGEST_PROMPT // len(text))
    (remark,) = [r for r in _answered(whole).remarks if r.code == "too_large"]
    assert remark.error
    assert "from here on it is not read" in remark.diagnostic.message
    assert whole[: remark.words[0].start].endswith(text)
    assert remark.words[0].end == len(whole.rstrip(" ."))


def test_a_prompt_over_the_bound_is_refused_at_once() -> None:
    text = "x" * (LARGEST_PROMPT + 1)
    assert_within(0.1, lambda: compile_prompt(text, REGISTRY))
    found = compile_prompt(text, REGISTRY)
    assert [remark.code for remark in found.remarks] == ["too_large"]

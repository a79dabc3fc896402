# ruff: noqa: E501  (crews as they are written)
"""Writing definitions as YAML: people like to read it, and it reads back to the same definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus.cases import DOMAINS, HERE, load_case
from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_data, load_definition, load_file
from crewlog.definition.model import CrewDefinition
from crewlog.definition.text import read_document
from crewlog.definition.write import WIDTH, to_yaml, yaml_of
from crewlog.prompt.registry_file import load_registry, load_registry_file

NOTES = """\
crew: release-notes
model: openai:gpt-5-mini
agents:
  collector: {prompt: Collect the merged changes since the last tag., tools: [git_log]}
  writer:    {prompt: Write notes for users., tools: [write_file]}
  checker:   {prompt: Check every claim against the log., tools: [git_log], writes_flags: [approved]}
tools:
  git_log:    {run: my_tools:git_log, effects: read}
  write_file: {run: my_tools:write_file, effects: write, retry: keyed, paths: [notes/]}
flow:
  - collector
  - [writer, checker]
  - {if: not approved, go: writer, at_most: 3, else: ask_human}
permissions:
  write_file: [writer]
limits: {steps: 100}
"""
EXAMPLES = [
    Path(__file__).parents[2] / "examples/flutter_music_app/crew.yaml",
]
HOSTILE = [
    "", " ", "  a", "a  ", "a: b", "a #b", "#a", "- a", "? a", "a:", ":a", "yes", "No", "null", "~",
    "1", "1.5", "0x1f", "1e3", "12:30", "2026-11-21", "[a]", "{a}", "a, b", "a]", "'a'", '"a"', "it's",
    'say "hi"', "say \"it's\"", "a\\b", "\\", "a\tb", "\t", "a\nb", "a\nb\n", "a\nb\n\n", "\na", "\n",
    "\n\n", "  a\nb", "a\n  b\n c", "a\n \nb", "a\n\n\nb", "a \nb ", "a\n\tb", "\n a", "a\r\nb", "a\rb",
    "\x00", "a\x85b", "a\u2028b", "\ufeffa", "a\ufffe", "\x7f", "é", "日本語: はい", "😀 a", "---", "...",
    "--- a", "a\n---\nb", "a\n...\nb", "!a", "!!str a", "&a", "*a", "%a", "@a", "`a`", "|", ">", "|-\n a",
    "<<", "=", "a?", "a? b", "?", "{{input}}", "${x}", "%YAML 1.2", "x" * 300, "word " * 60 + "end",
    "two  spaces " * 30 + "x", ("long line of words " * 12).strip() + "\n" + "and # another: one\n",
    "a #b " * 40 + "c", "- a " * 40 + "b", "a: b " * 40 + "c", "0o17", "on", "a\u00a0b", "٣", "²",
]  # fmt: skip


def crew(**more: Any) -> CrewDefinition:
    data: dict[str, Any] = {"crew": "c", "model": "openai:x", "agents": {"a": {"prompt": "p"}}}
    return load_data(data | more)


def same(definition: CrewDefinition) -> str:
    text = to_yaml(definition)
    found = load_definition(text)
    assert found == definition, text
    assert definition_hash(found) == definition_hash(definition), text
    assert to_yaml(found) == text
    return text


def test_a_crew_is_written_as_people_write_it() -> None:
    assert same(load_definition(NOTES)) == NOTES


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
def test_our_examples_come_back(file: Path) -> None:
    text = same(load_file(file))
    assert all(len(line) <= WIDTH for line in text.splitlines())


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_corpus_comes_back(domain: str) -> None:
    for file in sorted((HERE / domain).glob("*.yaml")):
        if file.stem == "registry":
            registry = load_registry_file(file)
            assert load_registry(yaml_of(registry)) == registry
        else:
            same(load_case(file).expected)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_come_back_wherever_they_stand(text: str) -> None:
    definition = crew(
        description=text,
        agents={
            "a": {
                "prompt": text or "-",
                "model_settings": {text: text, "x": [text, [text], {text: 1}]},
            }
        },
        flow=[{"ask": text or "?", "options": ["approve", text or "x", "reject"]}, "a"],
        flags={"f": text, "g": [text, {text: [text]}]},
    )
    written = same(definition)
    if text != "<<":
        # Other readers of YAML agree.
        assert yaml.safe_load(written) == read_document(written, "c").data


def test_prompts_are_blocks_that_can_be_read() -> None:
    several = "You write notes.\n\n  - for users\n  - in # few words: three\n"
    long = "Compare every claim of the notes with the log, and say which of them you could not find there again."
    text = same(crew(agents={"a": {"prompt": several}, "b": {"prompt": long}}))
    assert text.split("agents:\n")[1] == (
        "  a:\n"
        "    prompt: |\n"
        "      You write notes.\n"
        "\n"
        "        - for users\n"
        "        - in # few words: three\n"
        "  b:\n"
        "    prompt: >-\n"
        "      Compare every claim of the notes with the log, and say which of them you could not find\n"
        "      there again.\n"
        "flow:\n"
        "  - a\n"
        "  - b\n"
    )


def test_durations_are_written_as_people_write_them() -> None:
    agent = {
        "prompt": "p",
        "timeout": "5m",
        "heartbeat": 2.5,
        "retry": {"first": "90s", "longest": "2h"},
    }
    text = same(crew(agents={"a": agent | {"model_settings": {"timeout": 60.0, "n": 1, "t": 0.5}}}))
    for part in (
        "timeout: 5m",
        "heartbeat: 2.5",
        "{first: 90s, longest: 2h}",
        "{timeout: 60.0, n: 1",
    ):
        assert part in text


TEXTS = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    st.text("ab:#-?,[]{}'\"\\ \n\t|>&*!%@`~=<.0123456789", max_size=12),
    st.lists(st.sampled_from(["a", "", " ", "  b", "# c", "d: e", "-"]), max_size=5).map("\n".join),
)
NAMES = st.from_regex(r"\A[A-Za-z][A-Za-z0-9_-]{0,12}\Z").filter(lambda n: n != "end")
NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
DATA: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
SECONDS = st.floats(1e-3, 1e7) | st.integers(1, 10**6)


@st.composite
def definitions(draw: st.DrawFn) -> CrewDefinition:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    tools = draw(st.lists(NAMES, max_size=3, unique=True))
    some = st.lists(st.sampled_from(tools), max_size=3, unique=True) if tools else st.just([])
    agent = st.fixed_dictionaries(
        {"prompt": TEXTS.filter(len)},
        optional={
            "description": TEXTS,
            "model_settings": st.dictionaries(TEXTS, DATA, max_size=3),
            "tools": some,
            "outputs": st.lists(NAMES, max_size=3),
            "timeout": SECONDS,
            "heartbeat": SECONDS,
            "retry": st.fixed_dictionaries(
                {}, optional={"first": SECONDS, "backoff": st.floats(1, 10), "longest": SECONDS}
            ),
        },
    )
    tool = st.fixed_dictionaries(
        {"run": st.just("my_tools:f")}, optional={"description": TEXTS, "queue": TEXTS}
    )
    who = st.none() | st.lists(st.sampled_from(names), max_size=3)
    optional = {
        "description": TEXTS,
        "flags": st.dictionaries(NAMES, DATA, max_size=3),
        "permissions": st.dictionaries(st.sampled_from(tools), who) if tools else st.just({}),
        "limits": st.fixed_dictionaries({}, optional={"steps": st.integers(1, 10**6)}),
    }
    data = draw(
        st.fixed_dictionaries(
            {
                "crew": NAMES,
                "model": st.sampled_from(["openai:x", "scripted:a b.yaml"]),
                "agents": st.fixed_dictionaries(dict.fromkeys(names, agent)),
                "tools": st.fixed_dictionaries(dict.fromkeys(tools, tool)),
                "flow": st.sampled_from([names, [names]]).map(
                    lambda flow: [{"ask": "a: b?", "options": ["x\ny", "- z"]}, *flow]
                ),
            },
            optional=optional,
        )
    )
    return CrewDefinition.from_json(data)


@given(definitions())
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_every_definition_comes_back(definition: CrewDefinition) -> None:
    text = to_yaml(definition)
    document = read_document(text, "crew.yaml")
    assert not document.faults, text
    found = CrewDefinition.from_json(document.data)
    assert found == definition, text
    assert definition_hash(found) == definition_hash(definition), text


@given(st.dictionaries(TEXTS, DATA, max_size=4))
@settings(max_examples=300, deadline=None)
def test_peoples_own_data_comes_back_exactly(data: dict[str, Any]) -> None:
    definition = crew(agents={"a": {"prompt": "p", "model_settings": data}}, flags={"f": data})
    assert definition_hash(load_definition(to_yaml(definition))) == definition_hash(definition)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1000, max_size=1500))
@settings(max_examples=20, deadline=None)
def test_keys_beyond_what_parsers_look_ahead(key: str) -> None:
    same(crew(flags={"f": {key: {key: [key]}, "b": [{key: key}]}}))

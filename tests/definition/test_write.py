# ruff: noqa: E501  (crews as they are written)
"""Writing definitions as YAML: people like to read it, and it reads back to the same definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st

from corpus.cases import DOMAINS, HERE, load_case
from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_definition, load_file
from crewlog.definition.model import CrewDefinition
from crewlog.definition.text import read_document
from crewlog.definition.write import WIDTH, to_yaml, yaml_of
from crewlog.errors import InvalidDefinition
from crewlog.prompt.registry_file import load_registry, load_registry_file
from definition.crews import DATA, HOSTILE, TEXTS, crew, definitions

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
@example({"": "a://:000@"})
@settings(max_examples=300, deadline=None)
def test_peoples_own_data_comes_back_exactly(data: dict[str, Any]) -> None:
    try:
        definition = crew(agents={"a": {"prompt": "p", "model_settings": data}}, flags={"f": data})
    except InvalidDefinition as error:  # a text may look like a password in an address
        if "a secret has no place in a definition" not in str(error):
            raise
        reject()
    assert definition_hash(load_definition(to_yaml(definition))) == definition_hash(definition)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1000, max_size=1500))
@settings(max_examples=20, deadline=None)
def test_keys_beyond_what_parsers_look_ahead(key: str) -> None:
    same(crew(flags={"f": {key: {key: [key]}, "b": [{key: key}]}}))

# ruff: noqa: E501  (tables of cases: a case is a line)
"""Reading a registry: every fault at its place, all at once."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crewlog.errors import Diagnostic, InvalidDefinition, UsageError
from crewlog.prompt.registry import Registry
from crewlog.prompt.registry_file import load_registry, load_registry_data, load_registry_file
from crewlog.prompt.registry_schema import registry_schema, registry_schema_text

CORPUS = sorted((Path(__file__).parents[1] / "corpus").glob("*/registry.yaml"))
PRESS = """\
registry: press
model: openai:gpt-5-mini
models: [openai:gpt-5]
tools:
  look_up: {run: "press:look_up", effects: read, words: [search the archive]}
  post:    {run: "press:post", words: [post to the blog], grant: [editor]}
agents:
  editor: {prompt: Edit., tools: [look_up], words: [copy editor], pattern: review_loop}
new_agents: false
builders: [supervisor]
approvals: {post: [editor]}
limits: {steps: 100}
"""


def faults(text: str) -> list[Diagnostic]:
    with pytest.raises(InvalidDefinition) as caught:
        load_registry(text)
    assert str(caught.value)
    return caught.value.diagnostics


def underlined(found: Diagnostic) -> str:
    return found.excerpt[found.caret - 1 : found.caret - 1 + found.length]


def test_a_registry_loads_the_same_from_yaml_json_and_data() -> None:
    registry = load_registry(PRESS)
    assert registry.tools["post"].grant == ("editor",)
    assert registry.agents["editor"].words == ("copy editor",)
    assert load_registry(json.dumps(registry.to_json()), "registry.json") == registry
    assert load_registry_data(registry.to_json()) == registry
    assert load_registry("{}") == Registry()


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.parent.name)
def test_real_registries_load(file: Path) -> None:
    registry = load_registry_file(file)
    assert registry.tools
    jsonschema.validate(registry.to_json(), registry_schema())


@pytest.mark.parametrize(
    ("old", "new", "message", "word", "remedy"),
    [
        ("tools: [look_up]", "tools: [lok_up]", "agent 'editor' uses the tool 'lok_up', which is not defined", "lok_up", "'look_up'? Tools are defined under 'tools:' (line 4)"),
        ("tools: [look_up]", "tools: [set_flag]", "which comes by itself", "set_flag", "writes_flags"),
        ("grant: [editor]", "grant: [edtor]", "tool 'post' may be given to the agent 'edtor', which is not defined", "edtor", "'editor'"),
        ("{post: [editor]}", "{post: [edtor]}", "the approval for 'post' names the agent 'edtor'", "edtor", "'editor'"),
        ("{post: [editor]}", "{pots: }", "approvals name the tool 'pots', which is not defined", "pots", "'post'"),
        ("[post to the blog]", "[Search  the_archive]", "'Search  the_archive' can mean the tools 'look_up' and 'post'", "Search  the_archive", "one of the two"),
        ("[post to the blog]", "[look up]", "'look up' can mean the tools 'look_up' and 'post'", "look up", "one of the two"),
        ("[post to the blog]", '[" - "]', "tool 'post' has words without a letter", '" - "', "how people say it"),
        ("new_agents", "  e2: {prompt: E., words: [Copy Editor]}\nnew_agents", "'Copy Editor' can mean the agents 'editor' and 'e2'", "Copy Editor", "one of the two"),
        ("model: openai:gpt-5-mini", "model: gpt-5-mini", "the model 'gpt-5-mini' is neither", "gpt-5-mini", "openai:gpt-5-mini"),
        ("[openai:gpt-5]", "[opnai:gpt-5]", "has the prefix 'opnai'", "opnai:gpt-5", "'openai:gpt-5'"),
        ("prompt: Edit.", "prompt: Edit., model: gpt", "the model 'gpt' is neither", "gpt", "openai:gpt"),
        ("[supervisor]", "[supervisr]", "no builder is called 'supervisr'", "supervisr", "'supervisor'"),
        ("review_loop", "reviw_loop", "no builder is called 'reviw_loop'", "pattern", "'review_loop'"),
        ("review_loop", "supervisor", "'supervisor' is for the flow", "pattern", "for agents"),
        ("registry: press", "registry: a b", "'a b' cannot be a name", "a b", "letter"),
        ("registry: press", "registry: 3", "must be a text, not the number 3", "3", '"3"'),
        ("words: [copy editor]", "word: [copy editor]", "unknown key 'word' in agent 'editor'", "word", "'words'"),
        ("grant: [editor]", "grnt: [editor]", "unknown key 'grnt' in tool 'post'", "grnt", "'grant'"),
        ("grant: [editor]", "grant: editor", "'grant' of tool 'post' must be a list, not the text", "editor", "[editor]"),
        ("builders:", "bilders:", "unknown key 'bilders' in the registry", "bilders", "'builders'"),
        ("prompt: Edit., ", "", "agent 'editor' has no 'prompt'", "editor", "prompt:"),
        ("prompt: Edit.", "prompt: Edit., retry: {attemts: 1}", "unknown key 'attemts'", "attemts", "'attempts'"),
        ("steps: 100", "step: 100", "unknown key 'step' in 'limits'", "step", "'steps'"),
        ("new_agents: false", "approval: always", "must be required or understood", "always", ""),
    ],
)  # fmt: skip
def test_faults_are_sentences_at_their_place(
    old: str, new: str, message: str, word: str, remedy: str
) -> None:
    found = faults(PRESS.replace(old, new, 1))[0]
    assert message in found.message
    assert underlined(found) == word
    assert remedy in found.remedy
    assert "pydantic" not in found.render()
    assert "the crew" not in found.message


def test_all_faults_come_together_and_in_order() -> None:
    text = PRESS.replace("[look_up]", "[x]").replace("grant: [editor]", "grant: [x]")
    found = faults(
        text.replace("model: openai:gpt-5-mini", "model: x").replace("[supervisor]", "[x]")
    )
    assert [d.line for d in found] == [2, 6, 8, 10]


def test_grants_may_name_agents_that_prompts_bring() -> None:
    text = PRESS.replace("new_agents: false", "").replace("grant: [editor]", "grant: [auditor]")
    assert load_registry(text).tools["post"].grant == ("auditor",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is empty"),
        ("[]", "a registry is a mapping of keys to values, not a list"),
        ("registry: x\nregistry: y", "the key 'registry' is written twice"),
        ("tools: {a: !!python/name:os.system x}", "plain data"),
    ],
)
def test_what_is_no_registry(text: str, message: str) -> None:
    [found] = faults(text)
    assert message in found.message
    assert "crew:" not in found.remedy


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "registry.yaml"
    file.write_text(PRESS.replace("[supervisor]", "[x]"))
    with pytest.raises(InvalidDefinition) as caught:
        load_registry_file(file)
    assert caught.value.diagnostics[0].place == f"{file}:10:12"
    with pytest.raises(UsageError, match="cannot read") as missing:
        load_registry_file(tmp_path / "no.yaml")
    assert "registry's" in missing.value.remedy


def test_the_schema_that_ships_is_up_to_date() -> None:
    committed = (
        resources.files("crewlog.prompt").joinpath("registry.schema.json").read_text("utf-8")
    )
    assert committed == registry_schema_text(), (
        "run: python -m crewlog.prompt.registry_schema > src/crewlog/prompt/registry.schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(registry_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"tools": {"t": {"run": "m:f", "wrds": []}}}, registry_schema())


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [*Registry.model_fields, "run", "prompt", "words", "grant", "pattern", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_data_gives_a_registry_or_located_faults(data: Any) -> None:
    try:
        registry = load_registry_data(data)
    except InvalidDefinition as error:
        found = error.diagnostics
    else:
        found = []
        assert load_registry_data(registry.to_json()) == registry
    assert all(d.message for d in found)

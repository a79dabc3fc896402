# ruff: noqa: E501  (tables of cases: a case is a line)
"""Reading YAML and JSON: every fault at its place, and nothing hostile gets further."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crewlog.definition.load import load_data, load_definition, load_file
from crewlog.definition.model import CrewDefinition
from crewlog.errors import Diagnostic, InvalidDefinition, UsageError
from pace import assert_within

NOTES = """\
# A crew in twenty lines.
crew: release-notes
model: openai:gpt-5-mini
agents:
  collector: {prompt: Collect the merged changes since the last tag., tools: [git_log]}
  writer:    {prompt: Write notes for users., tools: [write_file]}
  checker:   {prompt: Check every claim., tools: [git_log], writes_flags: [approved]}
tools:
  git_log:    {run: my_tools:git_log, effects: read}
  write_file: {run: my_tools:write_file, effects: write, paths: [notes/], retry: keyed}
flow:
  - collector
  - writer
  - checker
  - {if: not approved, go: writer, at_most: 3, else: ask_human}
permissions:
  write_file: [writer]
"""


def faults(text: str) -> list[Diagnostic]:
    with pytest.raises(InvalidDefinition) as caught:
        load_definition(text)
    assert str(caught.value)
    return caught.value.diagnostics


def only(text: str) -> Diagnostic:
    (found,) = faults(text)
    return found


def underlined(found: Diagnostic) -> str:
    return found.excerpt[found.caret - 1 : found.caret - 1 + found.length]


def test_a_good_crew_loads_the_same_from_yaml_and_json() -> None:
    crew = load_definition(NOTES)
    assert list(crew.agents) == ["collector", "writer", "checker"]
    for indent in (None, 2, "\t"):
        text = json.dumps(crew.to_json(), indent=indent)
        assert load_definition(text, "crew.json") == crew
    assert load_definition(json.dumps(crew.to_json(), separators=(",", ":"))) == crew
    assert load_data(crew.to_json()) == crew


def test_a_misspelt_tool_is_shown_with_its_place_a_suggestion_and_where_tools_are() -> None:
    found = only(NOTES.replace("claim., tools: [git_log]", "claim., tools: [git_lgo]"))
    assert found.render() == (
        "crew.yaml:7:51  agent 'checker' uses the tool 'git_lgo', which is not defined.\n"
        "    checker:   {prompt: Check every claim., tools: [git_lgo], writes_flags: [approved]}\n"
        "                                                    ^^^^^^^\n"
        "    Did you mean 'git_log'? Tools are defined under 'tools:' (line 8)."
    )


@pytest.mark.parametrize(
    ("old", "new", "message", "word", "remedy"),
    [
        ("tools: [git_log]}", "tool: [git_log]}", "unknown key 'tool' in agent", "tool", "'tools'"),
        ("crew: release-notes", "crew: 12", "must be a text, not the number 12", "12", '"12"'),
        ("crew: release-notes", "crew: a b", "'a b' cannot be a name", "a b", "letter"),
        ("at_most: 3", "at_most: three", "whole number, not the text 'three'", "three", ""),
        ("at_most: 3", "at_most: true", "whole number, not true", "true", ""),
        ("at_most: 3", "at_most: 0", "at least 1", "0", ""),
        ("effects: read", "effects: raed", "must be read, write or external", "raed", "'read'"),
        ("if: not approved", "if: yes", "nobody writes the flag 'yes'", "yes", ""),
        ("if: not approved", "if: true", "must be a condition, not true", "true", "if: not"),
        ("if: not approved", "iff: not approved", "unknown key 'iff'", "iff", "'if'"),
        ("if: not approved", "otherwise: x, if: approved", "unknown key 'otherwise'", "otherwise", ""),
        ("tools: [write_file]", "tools: write_file", "list, not the text", "write_file", "[write_file]"),
        ("prompt: Write notes for users.", "prompt: ", "text, not empty", "prompt", ""),
        ("prompt: Write notes for users., ", "", "agent 'writer' has no 'prompt'", "writer", "prompt:"),
        ("run: my_tools:git_log", "run: git_log", "must be 'module:function'", "git_log", ""),
        ("go: writer,", "", "has no 'go'", "{if: not approved,  at_most: 3, else: ask_human}", "go:"),
        ("  - writer\n", "  - [writer, [x]]\n", "cannot be a list", "[x]", ""),
        ("  - writer\n", "  - {parallel: [writer], join: most}\n", "all, any, or how many", "most", ""),
        ("  - writer\n", "  - {agent: writer, ask: Ok?}\n", "an item does one thing", "ask", ""),
        ("  - writer\n", "  - {agent: writer, after: {quorm: 1}}\n", "'quorm'", "quorm", "'quorum'"),
        ("  - writer\n", "  - {after: collector}\n", "none of the keys agent, if, ask", "{after: collector}", ""),
        ("  - writer\n", "  - 7\n", "cannot be the number 7", "7", ""),
        ("tools:\n", "toolz:\n", "unknown key 'toolz'", "toolz", "'tools'"),
        ("retry: keyed", "retry: .nan", "does not fit", ".nan", "quotes"),
        ("effects: read", "effects: read, timeout: soon", "a duration is", "soon", ""),
        ("tools:\n", "approvals: {git_log: all}\ntools:\n", "list, not the text 'all'", "all", "every agent: git_log: null"),
        ("tools:\n", "memory: {read: {public: no}}\ntools:\n", "list, not the text 'no'", "no", "no agent: public: []"),
        ("tools:\n", "rules: [{tool: git_log, dou: ask}]\ntools:\n", "unknown key 'dou' in rules[0]", "dou", "'do'"),
        ("tools:\n", "rules: {tool: git_log}\ntools:\n", "list, not a mapping", "rules", "a list: - {tool"),
        ("tools:\n", "interrupts: {kinds: {budgets: {}}}\ntools:\n", "unknown key 'budgets'", "budgets", "'budget'"),
        ("tools:\n", "policy: {mode: signed}\ntools:\n", "cannot be as it is: no principal", "policy", ""),
    ],
)  # fmt: skip
def test_shape_faults_are_sentences_at_their_place(
    old: str, new: str, message: str, word: str, remedy: str
) -> None:
    found = faults(NOTES.replace(old, new, 1))[0]
    assert message in found.message
    assert underlined(found).strip() == word.strip()
    assert remedy in found.remedy
    assert "pydantic" not in found.render()


@pytest.mark.parametrize(
    ("condition", "rest"),
    [
        ("not (approved", ""),
        ("approved and )", ")"),
        ("'not approved or ^'", "^'"),
        ('"approved \\u0061nd )"', ')"'),
    ],
)
def test_condition_errors_point_into_the_condition(condition: str, rest: str) -> None:
    found = only(NOTES.replace("not approved", condition))
    start = NOTES.splitlines()[14].index("not approved") + 1
    assert (found.line, found.column) == (15, start + len(condition) - len(rest))
    assert "in the condition of item 4" in found.message


def test_all_faults_come_together_and_in_order() -> None:
    text = NOTES.replace("tools: [git_log]", "tols: [git_log]").replace("at_most: 3", "at_most: x")
    text = text.replace("effects: write", "effects: wirte")
    found = faults(text)
    assert [d.line for d in found] == [5, 7, 10, 15]
    assert found == sorted(found, key=lambda d: (d.line, d.column))


def test_a_misspelt_key_is_not_told_as_a_missing_one_too() -> None:
    found = only("crew: a\nmodel: openai:gpt-5-mini\nagents:\n  b: {promt: P., tools: []}\n")
    assert (found.message, found.remedy) == (
        "unknown key 'promt' in agent 'b'",
        "Did you mean 'prompt'?",
    )
    lacks = faults("crew: a\nmodel: openai:gpt-5-mini\nagents:\n  b: {tols: [], modle: m}\n")
    assert "agent 'b' has no 'prompt'" in [each.message for each in lacks]


def test_a_duplicate_key_names_both_lines() -> None:
    found = only(NOTES.replace("  writer:   ", "  collector:"))
    assert found.message == "the key 'collector' is written twice: in line 5 and here"
    assert (found.line, found.column) == (6, 3)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("", "is empty", "crew.yaml:1:1"),
        ("# nothing\n", "is empty", "crew.yaml:1:1"),
        ("- a\n", "not a list", "crew.yaml:1:1"),
        ("just words", "not the text 'just words'", "crew.yaml:1:1"),
        ("crew: a\nagents:\n\tb: 1\n", "a tab cannot indent YAML", "crew.yaml:3:1"),
        ("crew: {a: b: c}\n", "not YAML", "crew.yaml:1:12"),
        ("a: 1\n---\nb: 2\n", "second document", "crew.yaml:2:1"),
        ("crew: !!python/object/apply:os.system [x]\n", "plain data", "crew.yaml:1:7"),
        ("crew: !x y\n", "tag", "crew.yaml:1:7"),
        ("crew: *nobody\n", "no anchor '&nobody'", "crew.yaml:1:7"),
        ("crew: &a [*a]\n", "no anchor '&a'", "crew.yaml:1:11"),
        ("x: a\0b", "not allowed in YAML", "crew.yaml:1:5"),
        ("crew: 1\n? [a]\n: 2\n", "cannot be a key", "crew.yaml:2:3"),
        ("<<: {a: 1}\n", "merge keys", "crew.yaml:1:1"),
        ('crew: "\\ud800"\n', "half a character", "crew.yaml:1:7"),
        ("crew: " + "9" * 50 + "\n", "does not fit", "crew.yaml:1:7"),
        ("crew: " + "[" * 5000, "levels inside each other", "crew.yaml:1:46"),
        ("- " * 3000 + "x", "levels inside each other", "crew.yaml:1:81"),
    ],
)
def test_texts_that_are_no_definition(text: str, message: str, place: str) -> None:
    assert place in [found.place for found in faults(text) if message in found.message]


def test_bombs_and_giants_are_refused_quickly() -> None:
    assert_within(10, _bombs_and_giants_are_refused)


def _bombs_and_giants_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]" for i in range(1, 12)]
    assert "aliases counted" in only("\n".join(lines)).message
    long = f"a: &a {'x' * 500_000}\nb: [" + ", ".join(["*a"] * 50) + "]\n"
    assert "aliases make this text too large" in only(long).message
    deep = ["a0: &a0 x"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 60)]
    assert "levels" in only("\n".join(deep)).message
    assert "at most 2,000,000" in only("#" * 2_000_001).message
    condition = "(" * 900 + "approved" + ")" * 900
    assert "brackets" in faults(NOTES.replace("not approved", f"'{condition}'"))[0].message


def test_aliases_within_bounds_are_data() -> None:
    text = NOTES.replace("tools: [git_log]}", "tools: &t [git_log]}", 1)
    assert load_definition(text.replace("tools: [git_log]", "tools: *t")) == load_definition(NOTES)


def test_yaml_1_2_words_stay_text() -> None:
    crew = load_definition(
        NOTES + "flags: {a: yes, b: on, c: 010, d: 0x10, e: 1e3, f: ~, g: True}\n"
    )
    assert crew.flags == {
        "a": "yes",
        "b": "on",
        "c": 10,
        "d": 16,
        "e": 1000.0,
        "f": None,
        "g": True,
    }


def test_json_pairs_of_surrogates_are_one_character() -> None:
    text = json.dumps(load_definition(NOTES).to_json() | {"description": "café 🎵"})
    assert load_definition(text).description == "café 🎵"


def test_a_long_line_is_shown_around_its_fault() -> None:
    found = only(
        NOTES.replace("prompt: Check", "prompt: " + "Check " * 60).replace(
            "claim., tools: [git_log", "claim., tools: [git_lgo"
        )
    )
    assert underlined(found) == "git_lgo"
    assert len(found.excerpt) < 100


def test_files(tmp_path: Path) -> None:
    good = tmp_path / "crew.yaml"
    good.write_bytes(b"\xef\xbb\xbf" + NOTES.encode())
    assert load_file(good).crew == "release-notes"
    good.write_bytes(b"crew: a\nmodel: \xff\n")
    with pytest.raises(InvalidDefinition, match=r"crew\.yaml:2:8  the byte 0xff is not UTF-8"):
        load_file(str(good))
    good.write_bytes(b" " * 2_000_001)
    with pytest.raises(InvalidDefinition, match="more than 2,000,000 bytes"):
        load_file(good)
    with pytest.raises(UsageError, match="cannot read"):
        load_file(tmp_path / "missing.yaml")
    with pytest.raises(UsageError, match="cannot read"):
        load_file(tmp_path)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = NOTES
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 12))
        piece = draw(
            st.one_of(
                st.text(max_size=6),
                st.sampled_from(
                    ["{", "}", "[", "]", ": ", "- ", "\t", "\n", "&a ", "*a", "!!x ", "|\n"]
                ),
                st.sampled_from(
                    ['"', "'", "#", "? ", "%YAML 9.9\n", "---\n", "<<: ", "null", "1e999"]
                ),
                st.sampled_from(
                    ["\\x", "\ud800", "\0", "\x85", "%TAG ! x\n", "@", "`", "key: {", ">-\n"]
                ),
            )
        )
        text = text[:at] + piece + text[at + cut :]
    return text


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_malformed_texts_give_a_definition_or_a_located_error(text: str) -> None:
    try:
        crew = load_definition(text)
    except InvalidDefinition as error:
        rows = text.count("\n") + text.count("\r") + text.count("\x85") + 2
        for found in error.diagnostics:
            assert found.message
            assert found.render()
            assert 1 <= found.line <= rows + text.count("\u2028") + text.count("\u2029")
            assert found.length >= 1
    else:
        assert CrewDefinition.from_json(crew.to_json()) == crew


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["crew", "agents", "flow", "agent", "if", "go", "after", "any", "prompt"]
                )
                | st.text(max_size=3),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_data_gives_only_invalid_definition(data: object) -> None:
    with pytest.raises(InvalidDefinition):
        load_data(data)


def test_a_pattern_with_a_step_switched_off() -> None:
    text = (
        "crew: notes\nmodel: openai:gpt-5-mini\nagents:\n  writer:\n    prompt: Write.\n"
        "    pattern: {use: planner_executor, off: [plan]}\n"
    )
    pattern = load_definition(text).agents["writer"].pattern
    assert pattern is not None
    assert pattern.off == ("plan",)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("flow:\n  - b\n - c\n", "same column"),
        ("agents:\n  a:\n    prompt: x\n   model: y\n", "same column"),
        (" agents:\n  a: 1\n", "same column"),
        ("agents:\n  a:\n    prompt: do: it\n", "in quotes"),
        ("description: 'it's'\n", "in quotes"),
        ("flow: [a, b\nagents: {}\n", "']'"),
        ("flow:\n- b\nc\n", "'key: value'"),
    ],
)
def test_what_to_do_about_the_syntax_depends_on_the_fault(text: str, remedy: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        load_definition(f"crew: a\n{text}")
    assert remedy in caught.value.diagnostics[0].remedy


SERVERS = """\
crew: c
model: openai:m
agents: {a: {prompt: p}}
memory: {read: {agent: null}}
mcp:
  s: {url: 'http://127.0.0.1:9/mcp', tools: [b_c], prefix: a_}
"""


@pytest.mark.parametrize(
    ("server", "said", "column"),
    [
        ("tools: [x, c], prefix: a_b_", "'t' brings a tool 'a_b_c', and there is one", 50),
        ("tools: [output], prefix: set_", "a tool cannot be called 'set_output'", 47),
        ("tools: [x, read], prefix: memory_", "a tool cannot be called 'memory_read'", 50),
    ],
)
def test_a_fault_of_a_server_s_tool_is_told_where_it_is_asked_for(
    server: str, said: str, column: int
) -> None:
    (fault,) = faults(f"{SERVERS}  t: {{url: 'http://127.0.0.1:10/mcp', {server}}}\n")
    assert said in fault.message
    assert (fault.line, fault.column) == (7, column)
    assert fault.path[:3] == ("mcp", "t", "tools")


def test_of_data_it_is_told_there_too() -> None:
    server = {"command": "x", "tools": ["output"], "prefix": "set_"}
    crew = {"crew": "c", "model": "openai:m", "agents": {"a": {"prompt": "p"}}}
    with pytest.raises(InvalidDefinition) as caught:
        load_data({**crew, "mcp": {"s": server}})
    assert caught.value.diagnostics[0].path == ("mcp", "s", "tools", 0)

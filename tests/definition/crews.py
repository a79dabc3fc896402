# ruff: noqa: E501  (a table of texts)
"""Crews for property tests: whatever a definition can hold, hostile texts and data included."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition

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

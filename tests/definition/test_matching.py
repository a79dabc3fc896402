"""Regular expressions: which are taken, and that none takes a lifetime."""

from __future__ import annotations

import time
from typing import Any

import pytest

from crewlog.definition.load import load_data
from crewlog.definition.matching import LARGEST, LONGEST_MATCHED, NotLinear, pattern_of
from crewlog.definition.model import CrewDefinition
from crewlog.definition.secrets import looks_secret
from crewlog.errors import InvalidDefinition


@pytest.mark.parametrize(
    ("pattern", "text", "whole", "part"),
    [
        ("[a-z]+", "abc", True, True),
        ("[a-z]+", "abc\n", False, True),
        ("a|b", "ab", False, True),
        ("^a$", "a\n", False, False),
        (r"[\]{9}]{4}-[[a]{9}b]{3}", "]]]]-aaa", True, True),
        (r"\p{L}{3}\x{61}", "äbca", True, True),
        (r"\w+@\w+(\.\w+)+", "ana@example.org", True, True),
    ],
)
def test_what_a_pattern_matches(pattern: str, text: str, whole: bool, part: bool) -> None:
    found = pattern_of(pattern)
    assert (found.matches(text), found.matches(text, whole=False)) == (whole, part)
    assert found.longest == LONGEST_MATCHED


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(?=a)a", "look-around or a back-reference"),
        (r"(a)\1", "look-around or a back-reference"),
        ("a)|(?:b", "unopened group"),
        ("(" * 1_990 + "a" + ")" * 1_990, "nest"),
        ("([a-z]{0,64}){0,64}", f"{64 * 64:,} characters long, of at most {LARGEST:,}"),
        ("(([a-z]{2}){0,60}[a-z]{ 0, 1 }){60}", "characters long"),
        ("(?ix) a #)\n", "the flag 'x'"),
        ("a" * 5_000, "more than 4,000 characters"),
        (r"(\w{0,50}){0,50}", "too large"),
    ],
)
def test_what_is_no_pattern(pattern: str, told: str) -> None:
    with pytest.raises(NotLinear, match=told):
        pattern_of(pattern)


def crew(pattern: str) -> dict[str, Any]:
    tools = {"t": {"run": "m:t", "checks": {"a": {"pattern": pattern}}}}
    return {"crew": "c", "model": "m:n", "agents": {"w": {"prompt": "p", "tools": ["t"]}}} | {
        "tools": tools
    }


def test_a_definition_with_a_pattern_that_takes_a_lifetime_is_refused() -> None:
    load_data(crew("(a+)+b"))  # it takes no time any more
    with pytest.raises(InvalidDefinition, match="the pattern of 'a' of the tool 't' cannot be"):
        load_data(crew("(?!b)a"))
    CrewDefinition.model_validate(crew("(?!b)a"))  # a stored one is still read
    for nothing in ("(", "(" * 5_000):
        with pytest.raises(InvalidDefinition, match="the pattern is no regular expression"):
            load_data(crew(nothing))


@pytest.mark.parametrize("text", ["a.", "eyJ-", "-----BEGIN ", "a://b:", "sk_", "SG."])
def test_a_look_for_keys_takes_no_lifetime(text: str) -> None:
    begun = time.process_time()
    assert not looks_secret(text * (200_000 // len(text)))
    assert time.process_time() - begun < 2


def test_a_token_is_still_found() -> None:
    assert looks_secret(f"x eyJ{'a' * 40}.eyJ{'b' * 40}.{'c' * 40} y")
    assert looks_secret("see https+x.y://ana:hunter22@example.org/")

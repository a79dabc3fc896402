"""What a model tells a builder is in the prompt's words, as all that it reads out of one."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.prompt import ast
from crewlog.prompt.claims import claims
from crewlog.prompt.quotes import Prompt
from crewlog.prompt.registry import Registry

PROMPT = "A lead supervises the writer and the editor. The checker reviews the draft twice."


def claimed(options: dict[str, Any], use: str = "supervisor") -> list[tuple[Any, str]]:
    said = ast.Use.model_validate({"use": use, "options": options, "words": []})
    return [(path, say) for path, say, _ in claims(said, Prompt(PROMPT), Registry())]


def test_the_prompts_words_are_no_claim() -> None:
    assert claimed({"lead": "lead", "workers": ["writer", "editor"]}) == []


@pytest.mark.parametrize(
    ("options", "strange"),
    [
        ({"lead": "lead", "workers": ["writer", "intruder"]}, "intruder"),
        ({"lead": "lead", "task": "publish the passwords"}, "passwords"),
        ({"deep": [{"er": ["exfiltrate"]}]}, "exfiltrate"),
    ],
)
def test_other_words_are(options: dict[str, Any], strange: str) -> None:
    found = claimed(options)
    assert any(strange in say and path[0] == "options" for path, say in found), found

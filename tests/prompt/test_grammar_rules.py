"""Rules in many voices, orders, quantifiers and modalities, each against the statements it makes.

A line of a table is a sentence and what it says, apart by `=>`; several statements stand apart by
`;`. `nothing` says that no rule is made of it, and that the words are reported or an agent's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crewlog.prompt.ast import AnyStatement
from crewlog.prompt.grammar import read
from crewlog.prompt.registry import Registry

TOOLS = {
    "write_file": ["save files"],
    "read_file": ["open files"],
    "run_tests": [],
    "deploy": ["roll out"],
    "web_search": ["search the web"],
    "draw_chart": ["draw charts"],
    "search_logs": [],
    "restart_service": ["restart services"],
    "page_oncall": ["wake people up"],
    "publish_post": ["post to the blog"],
    "make_image": ["generate pictures"],
    "render_pdf": [],
    "send_email": ["send emails"],
    "read_ledger": ["look into the books"],
    "send_payment": ["pay people"],
}
REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "models": ["openai:gpt-5", "openai:o3"],
        "tools": {
            name: {"run": "a:b", "words": words, "risk": "high" if name == "deploy" else "low"}
            for name, words in TOOLS.items()
        },
    }
)
CASTS = {
    "software": "There are five agents: a planner, a coder, a tester, a reviewer and a UI designer.",
    "research": "There are four agents: a scout, an analyst, a statistician and a referee.",
    "operations": "We have four agents: a commander, a fixer, a verifier and a log analyst.",
    "publishing": "We have five agents: a writer, an editor, an illustrator, a translator and a "
    "publisher.",
    "back_office": "There are four agents: a bookkeeper, an auditor, a lawyer and a messenger.",
}
RULES = {
    "allow", "deny", "sees", "ask", "ask_tool", "gate", "on_error", "limit", "model", "switch",
    "inside", "use",
}  # fmt: skip


def told(statement: AnyStatement) -> str:
    """A statement in a line."""
    said: dict[str, Any] = statement.model_dump(mode="json", exclude_defaults=True)
    said.pop("words", None)
    said.pop("question", None)
    agents = "+".join(said.pop("agents", ())) or said.pop("agent", "all")
    parts = [statement.kind, agents]
    if "tools" in said:
        parts.append("+".join(said.pop("tools")))
    for key, value in said.items():
        if key == "options":
            parts += [f"{k}={'+'.join(v) if isinstance(v, list) else v}" for k, v in value.items()]
        elif value is True:
            parts.append(key)
        else:
            shown = "+".join(value) if isinstance(value, list) else value
            parts.append(f"{key}={shown}")
    return " ".join(parts)


def rules_of(domain: str, sentence: str) -> tuple[list[str], list[str]]:
    """What a sentence says, and the codes of what is remarked of it."""
    cast = f"{CASTS[domain]} "
    reading = read(f"{cast}{sentence}", REGISTRY)
    made = [told(s) for s in reading.ast.statements if s.kind in RULES]
    return made, [r.code for r in reading.remarks]

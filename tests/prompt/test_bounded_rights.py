"""Sentences about rights and their bounds, damaged: no bound is lost while the right stays."""

from __future__ import annotations

import os
import random

import pytest

from crewlog.authority.rules import rules_of
from crewlog.definition.model import CrewDefinition
from crewlog.prompt.compile import compile_prompt

from .test_grammar_authority import REGISTRY

TRIES = int(os.environ.get("CREWLOG_BOUNDED", "15"))
"""Damaged forms of each sentence."""
WORK = "The researcher looks for facts, then the writer drafts the notes. The checker reviews it. "
SENTENCES = """
The researcher may use publish at most 5 times per run.
The researcher may at most twice per day call publish.
The researcher may use publish only if the checker approves it.
The researcher must never call publish.
Nobody may ever call publish unless the checker approves it.
Only publish if the checker approves it.
Use publish only while 'open' is set.
Nobody may use publish more than 5 times per run.
The researcher must not call publish or search more than 5 times per run.
Calls of publish by the researcher wait for a person's yes.
The group desk has the writer and the checker. Only the desk group may use publish.
Unless the checker approves it, the researcher may not use publish.
The researcher may only use publish at most 3 times per hour if the checker approves it.
Publish may be called by the researcher at most once per hour.
The researcher uses publish at most 3 times per run, and the writer may use search.
The researcher may use publish with my permission.
The researcher may publish, subject to my approval.
The researcher may use publish 5 times per run and 20 times per day.
The researcher may use publish, but every call of publish needs my approval.
Publish is blocked until the checker approves it.
"""
WORDS = """
the a may must not never only use call publish if unless while at most more than 5 times per run
hour week nobody everyone anyone and or but researcher writer checker , once twice except group desk
ever until after approves it is set open no less together any tool tools search always without
""".split()  # noqa: SIM905 - a text is easier to read than a list
BOUNDS = (
    "at most",
    "more than",
    "only if",
    "only while",
    "unless",
    "never",
    "not",
    "nobody",
    "wait",
    "permission",
    "approval",
    "times per",
)


def damaged(text: str, dice: random.Random) -> str:
    """A text with up to three words gone, new, or in another place."""
    words = text.rstrip(".").split()
    for _ in range(dice.randint(1, 3)):
        at, how = dice.randrange(len(words)), dice.random()
        if how < 0.3 and len(words) > 3:
            del words[at]
        elif how < 0.65:
            words.insert(at, dice.choice(WORDS))
        elif how < 0.85:
            words[at] = dice.choice(WORDS)
        else:
            words.insert(dice.randrange(len(words)), words.pop(at))
    return f"{' '.join(words)}."


def free(crew: CrewDefinition) -> list[str]:
    """Who may publish as often as it likes, and nobody is asked."""
    rules = list(rules_of(crew))
    allowed = crew.permissions.get("publish")
    return [
        name
        for name, agent in crew.agents.items()
        if "publish" in (agent.tools or ())
        and (allowed is None or name in allowed)
        and not any(rule.covers(name, "publish") for rule in rules)
        and crew.approvals.get("publish", ()) is not None
    ]


@pytest.mark.parametrize("sentence", SENTENCES.strip().splitlines())
def test_no_right_without_the_bound_that_is_said(sentence: str) -> None:
    dice = random.Random(sentence if TRIES < 100 else None)  # noqa: S311
    for _ in range(TRIES):
        text = damaged(sentence, dice)
        found = compile_prompt(WORK + text, REGISTRY)
        if found.definition is None or not found.understood:
            continue
        if any(f" {bound} " in f" {text.lower()} " for bound in BOUNDS):
            assert not free(found.definition), text

"""Agents whose task is a decision that a crew knows: which way to take, whether the goal is reached.

Said in whatever words, with whatever stands before it; the step is read like any other, and then it
is said what form its agent's last message has.
"""

from __future__ import annotations

import re
from typing import Literal

from crewlog.prompt.ast import Decides, Does, Step
from crewlog.prompt.grammar.state import State

_SAYS = (
    r"(?:says?|decides?|judges?|tells?(?: us| me)?|states?|checks?|determines?|assess(?:es)?|rules|"
    r"confirms?|sees?|reports?|finds? out|looks?|evaluates?|verif(?:y|ies)|works? out)"
)
_GOAL = re.compile(
    rf"\b{_SAYS}\b[^.;]{{0,60}}\b(?:whether|if)\b[^.;]{{0,60}}\b(?:goals?|objective|target)\b[^.;]{{0,30}}"
    r"\b(?:reached|met|achieved|attained|fulfilled|done)\b"
    rf"|\b{_SAYS}\b[^.;]{{0,60}}\b(?:whether|if)\b[^.;]{{0,60}}\bhow (?:sure|certain|confident)\b"
)
_WAY = re.compile(
    r"\b(?:chooses?|decides?|picks?|selects?|judges?|says?|determines?)\b[^.;]{0,60}\b(?:between|whether|if)\b"
    r"[^.;]{0,60}\b(?:plan|planning)\b[^.;]{0,60}"
    r"\b(?:at once|directly|right away|straight away|straight off|immediately|in one go|on the spot|itself|without one|without a plan|direct)\b"
    r"|\b(?:chooses?|decides?|says?|judges?|determines?)\b[^.;]{0,40}\b(?:whether|if)\b[^.;]{0,30}"
    r"\b(?:a plan is needed|a plan is necessary|it needs a plan|to plan first|needs a plan|to make a plan|there must be a plan|requires a plan)\b"
)
_BARE = re.compile(r"\bwithout (?:a|any|using a|using any) (?:language )?model\b")


def look_at_decisions(state: State, before: int) -> None:
    """Says of the steps since then what their agents decide.

    Args:
        state: What the reader knows.
        before: How many statements there were.
    """
    for at in range(len(state.statements) - 1, before - 1, -1):
        said = state.statements[at]
        if not isinstance(said, Step):
            continue
        part, *others = said.parts
        if others:
            continue
        task, agent = " ".join(part.task.lower().split()), part.agent
        decision: Literal["strategy", "terminate"] | None = None
        if "whether" in task or " if " in task or "between" in task:
            decision = (
                "terminate" if _GOAL.search(task) else "strategy" if _WAY.search(task) else None
            )
        if decision is not None:
            made = Decides(agent=agent, decision=decision, words=said.words)
            state.statements.insert(at + 1, made)
        elif "model" in task and _BARE.search(task):
            words = said.words[0]
            inside = [u.text for u in state.units if words.start <= u.start and u.end <= words.end]
            tools = state.tool_names(" ".join(t for t in inside if t[0] in "#$"))
            if tools:
                made_of = Does(agents=(agent,), tools=tools, words=said.words)
                state.statements.insert(at + 1, made_of)

"""What to say instead of words that were not understood: a sentence near them that is read."""

from __future__ import annotations

import re

from crewlog.prompt.grammar.near_shapes import near

_PLAIN = "Say it as a rule about agents, tools or their order, or in an agent's prompt."
_PEOPLE = re.compile(
    r"\b(?:ask\w*|approv\w*|confirm\w*|consent|permission|sign(?:ed)? off|check with (?:me|us)"
    r"|show (?:me|us)|say (?:yes|no)|tell (?:me|us)|let (?:me|us) know|reject\w*)\b"
)
_AGAIN = re.compile(r"\b(?:until|till|while|twice|thrice|times|rounds?|repeat\w*|again|back)\b")
_CASE = re.compile(r"\b(?:if|when|whenever|unless|once|otherwise|in case|as soon as)\b")
_NOT = re.compile(r"\b(?:not|never|no|nobody|without)\b|n't\b")


def bounded(agent: str, tool: str) -> str:
    """What may be said of a right that words bound in a way that cannot be kept.

    Not the right alone: that would be more than was asked for.

    Args:
        agent: Who is to have it.
        tool: Which tool.
    """
    return (
        f"A right holds at all times. Say 'Ask me before the {agent} uses {tool}.', or "
        f"'The {agent} may use {tool} only if …' with what an agent decides."
    )


def remedy(said: str, agents: tuple[str, ...], tools: tuple[str, ...]) -> str:
    """A sentence that would be read, by what the words hold.

    Args:
        said: The words.
        agents: The agents that they name.
        tools: The tools that they name.
    """
    text = said.lower()
    if shape := near(" ".join(text.split())):
        return shape
    agent = agents[0].replace("_", " ") if agents else "X"
    if (found := _PEOPLE.search(text)) is not None:
        if found[0] in {"say no", "reject", "rejected"}:
            return f"Say, behind the question, 'If I say no, back to the {agent}.'"
        does = f"uses {tools[0]}" if tools else "starts"
        return f"Say 'Ask me before the {agent} {does}.'"
    if tools and _NOT.search(text):
        return f"Say 'The {agent} may not use {tools[0]}.'"
    if tools:
        return bounded(agent, tools[0])
    if _AGAIN.search(text):
        return f"Say 'If it is not approved, back to the {agent}, at most 3 times.'"
    if _CASE.search(text):
        return f"Say 'If it is approved, the {agent} starts.', with what an agent decides."
    if len(agents) > 1 and "before" in text.split():
        return f"Say 'The {agent} works, then the {agents[1].replace('_', ' ')} works.'"
    return _PLAIN

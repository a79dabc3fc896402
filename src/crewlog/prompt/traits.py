"""An agent's prompt taken apart again: what it does, what it is like, what it must set.

The way back from `crewlog.prompt.wording`. A prompt that somebody wrote by hand is kept sentence by
sentence; it comes back with the same sentences in the wording of a compiled prompt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from crewlog.definition.model import AgentDefinition
from crewlog.prompt.phrases import the
from crewlog.prompt.registry import Registry

_SENTENCE = re.compile(r"(?<=[.!?…])\s+(?=\S)")
_DUTY = "Before you end, set the "
_PART = "Your part: "
_TRAIT = re.compile(
    r"(?:is|are|was|has|have|should|must|may|can|never|always|you|keep|do not|don't|be)\b",
    re.IGNORECASE,
)


@dataclass
class Told:
    """What is said of an agent besides the rules."""

    tasks: list[str] = field(default_factory=list[str])
    """What it does, where its only phase says it in its prompt."""
    traits: list[str] = field(default_factory=list[str])
    """What it is or should do."""
    loose: list[str] = field(default_factory=list[str])
    """Sentences of a prompt that somebody wrote by hand."""
    offered: bool = False
    """Whether the registry has it, so that its prompt need not be said."""

    def task(self, own: str | None) -> str:
        """What it does in a phase: the phase's own task, else what its prompt says."""
        if own:
            return own.strip().rstrip(".")
        return self.tasks[0].rstrip(".") if self.tasks else ""


def told_of(name: str, agent: AgentDefinition, phases: int, registry: Registry | None) -> Told:
    """What an agent's prompt says.

    Args:
        name: The agent.
        agent: Its definition.
        phases: How many phases it has; only with one do its prompt's words say what it does there.
        registry: What need not be said.
    """
    offered = registry.agents.get(name) if registry is not None else None
    said = _sentences(agent.prompt)
    if offered is not None:
        own = _sentences(offered.prompt)
        if said[: len(own)] == own:
            traits = [text for text in said[len(own) :] if not text.startswith(_DUTY)]
            return Told(traits=traits, offered=True)
    first = f"You are the {name.replace('_', ' ')}."
    if said[:1] != [first]:
        loose = [text for text in said if not text.startswith(_DUTY)]
        return Told(loose=loose)
    part = [text for text in said[1:] if not text.startswith(_DUTY)]
    if part and part[0].startswith(_PART):
        part[0] = part[0].removeprefix(_PART)
    part = [_of_itself(name, text) for text in part]
    if phases == 1 and part and not _TRAIT.match(part[0]):
        return Told(tasks=part[:1], traits=part[1:])
    return Told(traits=part)


def _of_itself(name: str, text: str) -> str:
    """`The writer should be brief` as the writer's own trait: `should be brief`."""
    who, rest = text[: len(the(name)) + 1], text[len(the(name)) + 1 :]
    return rest if who.lower() == f"{the(name)} " and _TRAIT.match(rest) else text


def _sentences(text: str) -> list[str]:
    found = _SENTENCE.split(" ".join(text.split()))
    return [part for part in found if re.search(r"\w", part)]

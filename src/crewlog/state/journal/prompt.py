"""A prompt, its definition and its approval."""

from __future__ import annotations

from typing import Literal

from crewlog.ids import AgentName, ContentHash, CrewName, RunId
from crewlog.state.finish_reason import BadEnding
from crewlog.state.journal.entry import Entry
from crewlog.state.model import PromptDiagnostic
from crewlog.usage import Usage

__all__ = [
    "DefinitionApproved",
    "DefinitionEdited",
    "DefinitionRejected",
    "PromptCompileFailed",
    "PromptCompiled",
    "PromptEntry",
    "PromptRead",
    "PromptReceived",
]


class PromptReceived(Entry):
    """The run was started with a prompt: it has no crew yet."""

    kind: Literal["PromptReceived"] = "PromptReceived"
    run: RunId
    prompt: ContentHash
    """The hash of the prompt, which is a body."""
    inline: str
    """The prompt itself."""
    registry: str = ""
    """The registry of what it may use."""
    by: str = ""
    """The principal."""


class PromptRead(Entry):
    """A model replied to the prompt, with a valid reading or not."""

    kind: Literal["PromptRead"] = "PromptRead"
    agent: AgentName
    """The agent of the usage: `compiler`."""
    round: int
    """The number of model calls so far."""
    model: str = ""
    usage: Usage = Usage()
    errors: int = 0
    """The number of errors in the reading: the model is called again, at most three times."""
    ending: BadEnding = ""
    """Why the reply is not usable; empty for a reading."""


class PromptCompiled(Entry):
    """The prompt compiled to a definition, which runs once people approve it."""

    kind: Literal["PromptCompiled"] = "PromptCompiled"
    definition: ContentHash
    crew: CrewName
    reader: Literal["forms", "model"]
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    requirements: tuple[str, ...] = ()


class PromptCompileFailed(Entry):
    """The prompt does not compile."""

    kind: Literal["PromptCompileFailed"] = "PromptCompileFailed"
    reader: Literal["forms", "model"] = "forms"
    diagnostics: tuple[PromptDiagnostic, ...]


class DefinitionEdited(Entry):
    """People edited the compiled definition: they are asked to approve the new one."""

    kind: Literal["DefinitionEdited"] = "DefinitionEdited"
    definition: ContentHash
    crew: CrewName
    by: str = ""


class DefinitionApproved(Entry):
    """People approved a definition: it runs, and no other."""

    kind: Literal["DefinitionApproved"] = "DefinitionApproved"
    definition: ContentHash
    by: str = ""


class DefinitionRejected(Entry):
    """People rejected the definition: the run ends."""

    kind: Literal["DefinitionRejected"] = "DefinitionRejected"
    definition: ContentHash
    by: str = ""
    reason: str = ""


PromptEntry = (
    PromptReceived
    | PromptRead
    | PromptCompiled
    | PromptCompileFailed
    | DefinitionEdited
    | DefinitionApproved
    | DefinitionRejected
)

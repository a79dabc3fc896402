"""Claims: the exclusive ownership of agents of an ended run.

The run may be reopened, and a run that it was split from may take its agents back. Whichever claims
an agent first continues with it. A claim holds until the journal of its owner shows that it did not
continue with the agent. So one agent may have several claims, numbered as links; the last valid one
decides.
"""

from __future__ import annotations

from typing import NamedTuple

from crewlog.ids import AgentName, RunId
from crewlog.model import Model


class ClaimedAgent(Model):
    """An agent with channels of an ended run, as of its end."""

    run: RunId
    """The ended run."""
    name: AgentName
    """The agent's name in that run."""
    began: int = 0
    """When that run was started, in milliseconds since the epoch; 0: it never was. A later run may
    have the same id."""
    execution: int = 0
    """The number of the ended execution: a reopened run has another one."""

    def key(self, link: int) -> str:
        """The key of a claim in the store; links count from 1. Deleting the run deletes it."""
        return f"{self.run}/claim-{self.began}:{self.name}/{self.execution}/{link}"


class ClaimOwner(NamedTuple):
    """A run that is about to continue with claimed agents."""

    run: RunId
    position: int
    """The last position of its journal. Its next entry shows whether it continued."""
    execution: str = ""
    """Temporal's run id of the execution; empty if it is not known."""

    @property
    def owner(self) -> str:
        """The text form, which the store keeps."""
        return f"{self.run}/{self.position}/{self.execution}"


def parse_claim_owner(owner: str) -> ClaimOwner:
    """Parses the text form of a claim's owner."""
    run, position, execution = owner.rsplit("/", 2)
    return ClaimOwner(RunId(run), int(position), execution)

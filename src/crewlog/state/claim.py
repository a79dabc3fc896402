"""Creatures that come home: of which run that has ended, and who may go on with them.

A creature whose run has ended is nobody's. That run may be taken up again, and a run that it had
left may take it home: whoever of them claims it first goes on with it. A claim stands until the
journal of its owner says otherwise: what that records next tells whether it went on with it. So
there may be several claims of one creature, each a *link*; the last one that stands is the owner's.
"""

from __future__ import annotations

from typing import NamedTuple

from crewlog.ids import AgentName, RunId
from crewlog.model import Model


class ClaimedAgent(Model):
    """A creature of a run that has ended, as it was when it ended."""

    run: RunId
    """The run in which it lived."""
    name: AgentName
    """What it was called there."""
    began: int = 0
    """When that run was started, in milliseconds since the epoch; 0: it never began. Another run
    may have its id later."""
    execution: int = 0
    """The number of the execution that ended: once that run is taken up, it has another one."""

    def key(self, link: int) -> str:
        """What is claimed in the store, from link 1 on; it is deleted with the run."""
        return f"{self.run}/home-{self.began}:{self.name}/{self.execution}/{link}"


class ClaimOwner(NamedTuple):
    """A run that is about to go on with creatures."""

    run: RunId
    position: int
    """The last position of its journal. What it records next tells whether it went on."""
    execution: str = ""
    """Temporal's run id of the execution that is about to; empty where that is not known."""

    @property
    def owner(self) -> str:
        """Its name as the owner of a claim."""
        return f"{self.run}/{self.position}/{self.execution}"


def claim_owner(owner: str) -> ClaimOwner:
    """Who owns a claim, by that name."""
    run, position, execution = owner.rsplit("/", 2)
    return ClaimOwner(RunId(run), int(position), execution)

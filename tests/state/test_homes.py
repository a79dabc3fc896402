"""Creatures that come home: who owns a claim of one."""

from __future__ import annotations

from crewlog.ids import AgentName, RunId
from crewlog.state.claim import ClaimedAgent, ClaimOwner, parse_claim_owner


def test_who_owns_a_claim_is_told_by_its_name() -> None:
    """Runs may have any id, and the slashes in it part nothing."""
    for run in ("r", "team/r", "a/3/b"):
        taker = ClaimOwner(RunId(run), 7, "e")
        assert parse_claim_owner(taker.owner) == taker
        assert parse_claim_owner(taker._replace(execution="").owner) == taker._replace(execution="")


def test_each_end_of_each_run_has_claims_of_its_own() -> None:
    """A run that is taken up ends again, and another one may have its id later."""
    left = ClaimedAgent(run=RunId("r"), name=AgentName("a"), began=1, execution=1)
    others = [
        left.model_copy(update=update)
        for update in ({"run": "s"}, {"name": "b"}, {"began": 2}, {"execution": 2})
    ]
    keys = [each.key(link) for each in (left, *others) for link in (1, 2)]
    assert len({*keys}) == len(keys)

"""Tags in the place of positions, and forks that cannot be, through the command line alone."""

from __future__ import annotations

from uuid import uuid4

import pytest

from .conftest import Cli


@pytest.mark.server
@pytest.mark.timeout(300)
def test_a_tag_stands_where_a_position_does_and_a_faulty_fork_is_none(crewlog: Cli) -> None:
    run = f"named-{uuid4().hex[:6]}"
    assert crewlog("run", "ask.yaml", "--id", run).code == 3
    (place, *_) = crewlog("checkpoints", run, "--json").records[0]["checkpoints"]
    at = place["position"]
    named = crewlog("tag", f"{run}@{at}", "early")
    assert named.code == 0, named.err
    assert f"@{at} is called 'early' now" in named.out
    for command, words in (("show", f"position {at}"), ("trace", "gate#1"), ("diff", f"@{at} →")):
        page = crewlog(command, f"{run}@early")
        assert page.code == 0, page.err
        assert words in page.out
    assert crewlog("rollback", f"{run}@early", "--detach").code == 0
    for wrong, words in (
        (("rollback", f"{run}@10**30"), "Tags: early."),
        (("tag", f"{run}@{at + 1}", "later"), f"The nearest: {run}@{at}"),
        (("tag", run, "early"), "a checkpoint and one name are needed"),
    ):
        refused = crewlog(*wrong)
        assert refused.code == 2, refused.err
        assert words in " ".join(refused.err.split()), refused.err

    fork = f"{run}-fork"
    for faulty in (
        ("fork", f"{run}@early", "--edit", "agent.nobody.max_calls=3"),
        ("replay", run, "--with", "model=nobody"),
    ):
        no = crewlog(*faulty, "--id", fork)
        assert no.code == 2, (faulty, no.err)
        assert "nobody" in no.err
        assert "There are: first." in no.err or "For example: model: openai:nobody" in no.err
    assert crewlog("show", fork).code == 4
    made = crewlog("fork", f"{run}@early", "--id", fork, "--detach")
    assert made.code == 0, made.err
    assert f"{fork} goes on from {run}@{at}" in made.out

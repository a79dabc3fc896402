"""The processes of a cluster are killed and started by the cluster's own program."""

from __future__ import annotations

from pathlib import Path

import pytest

from .victims import CLUSTER_SERVICES, cluster

PROGRAM = """
import pathlib, sys
with (pathlib.Path(__file__).parent / "said").open("a") as out:
    out.write(" ".join(sys.argv[1:]) + "\\n")
sys.exit(3 if sys.argv[1:] == ["kill", "worker"] else 0)
"""


async def test_each_process_of_a_cluster_is_a_victim(tmp_path: Path) -> None:
    program = tmp_path / "cluster.py"
    program.write_text(PROGRAM)
    victims = {victim.name: victim for victim in cluster(program)}
    assert tuple(victims) == CLUSTER_SERVICES
    await victims["history"].kill()
    await victims["history"].start()
    assert (tmp_path / "said").read_text().splitlines() == ["kill history", "start history"]
    with pytest.raises(RuntimeError, match="kill worker ended with 3"):
        await victims["worker"].kill()

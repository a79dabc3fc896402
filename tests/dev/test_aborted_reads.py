"""The local server serves on after reads that clients abort.

`CREWLOG_SIZE=full` (`make test-size`) aborts 50,000; another CLI is measured by
`python -m tests.dev.aborted_reads --cli PATH`.
"""

from __future__ import annotations

import os

from crewlog.temporal_service.cli import TemporalCli

from .aborted_reads import READS, measure

FULL = 50_000


async def test_the_server_survives_aborted_reads(cli: TemporalCli) -> None:
    reads = FULL if os.environ.get("CREWLOG_SIZE") == "full" else READS
    outcome = await measure(cli.path, reads)
    assert outcome.fault == ""
    assert outcome.reads == reads
    # A read that got its answer shows nothing.
    assert outcome.aborted > reads / 2

"""Exit codes. They are a contract: `docs/cli.md` documents them, errors carry theirs."""

from typing import Final

OK: Final = 0
"""Done; the run completed."""
FAILED: Final = 1
"""The run ended without success."""
USAGE: Final = 2
"""The command, its arguments or the definition are wrong."""
WAITS: Final = 3
"""The run waits for people."""
NOT_FOUND: Final = 4
"""No such run."""
AWAY: Final = 5
"""The server, the store or a worker is away."""
STOPPED: Final = 6
"""People stopped the run."""
BELOW: Final = 7
"""A stage does not come to what an evaluation expects of it."""
INTERNAL: Final = 70
"""A bug of ours."""
INTERRUPTED: Final = 130
"""Ctrl-C: what was started goes on."""
PIPE_CLOSED: Final = 141
"""Whoever read the output went away (`crewlog log RUN | head`)."""
TERMINATED: Final = 143
"""SIGTERM: what was started goes on."""

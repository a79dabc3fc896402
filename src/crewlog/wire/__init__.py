"""The wire contract: the JSON that clients in any language exchange with a `CrewRun`.

docs/wire.md describes it, with examples for the `temporal` command line. The models import nothing
of the engine: `crewlog.reporting.wire_views` maps the engine's models to these and back.

`COMMANDS` (`crewlog.wire.commands`) and `QUERIES` (`crewlog.wire.views`) list the signals, updates
and queries, with the models that they take and give. A start takes `StartRun` and gives
`RunResult`.
"""

from crewlog.wire.commands import *
from crewlog.wire.protocol import *
from crewlog.wire.results import *
from crewlog.wire.start import *
from crewlog.wire.views import *

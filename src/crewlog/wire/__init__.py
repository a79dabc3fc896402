"""The wire contract: the JSON that clients in any language exchange with a `CrewRun`.

docs/wire.md describes it, with examples for the `temporal` command line. The models import nothing
of the engine: `crewlog.reporting.wire_views` maps the engine's models to these and back.

| | name | takes | gives |
| --- | --- | --- | --- |
| start | `CrewRun` | `StartRun` | `RunResult` |
| signal | `pause`, `resume`, `stop` | `Command` | |
| signal | `interrupt` | `InterruptCommand` | |
| signal | `message` | `MessageCommand` | |
| signal | `tag` | `TagCommand` | |
| update | `ask` | `AskRun` | `RunResult` |
| update | `answer` | `Answer` | `CommandResult` |
| update | `change` | `Change` | `ChangeResult` |
| update | `edit_state` | `EditState` | `CommandResult` |
| update | `redirect` | `Redirect` | `CommandResult` |
| update | `rollback` | `Rollback` | `CommandResult` |
| update | `set_permission` | `SetPermission` | `CommandResult` |
| query | `status` | | `RunView` |
| query | `state` | | `StateView` |
| query | `graph` | | `GraphView` |
| query | `interrupts` | | list of `InterruptView` |
| query | `journal` | `Page` | `JournalPage` |
| query | `checkpoints` | `Page` | `CheckpointPage` |
| query | `permissions` | `PermissionsQuery` | `PermissionsPage` |
| query | `conversation` | | `ConversationView` |
"""

from crewlog.wire.commands import *
from crewlog.wire.protocol import *
from crewlog.wire.results import *
from crewlog.wire.start import *
from crewlog.wire.views import *

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

from crewlog.wire.commands import (
    Answer,
    AskRun,
    Change,
    Command,
    Decision,
    EditedAction,
    EditState,
    InterruptCommand,
    MessageCommand,
    Page,
    PermissionsQuery,
    Redirect,
    Rollback,
    SetPermission,
    TagCommand,
)
from crewlog.wire.protocol import (
    BUSY,
    CLOSING,
    LARGEST_POSITION,
    NOTIFY_MERGE,
    PAYLOAD_HASH,
    QUERIES,
    SEARCH_ATTRIBUTES,
    SIGNALS,
    STORE_WAIT,
    TASK_QUEUE,
    UPDATES,
    WORKFLOW_TYPE,
    noun,
    refusal_text,
    spoken,
)
from crewlog.wire.results import (
    ArtifactResult,
    BlockedNodeView,
    ChangeReport,
    ChangeResult,
    CommandResult,
    ComponentChangeView,
    RenameView,
    Response,
    RunResult,
    StepChange,
    StepFate,
)
from crewlog.wire.start import (
    ForkSource,
    InitialMessage,
    InitialState,
    SplitSource,
    StartRun,
    WireInput,
    is_prompt,
)
from crewlog.wire.views import (
    CheckpointPage,
    CheckpointView,
    ConversationView,
    EntryView,
    GraphView,
    InterruptView,
    JournalPage,
    LivePermissionView,
    LogView,
    OutcomeView,
    OutputView,
    PermissionCheckView,
    PermissionsPage,
    PermissionView,
    QuotaUseView,
    QuotaView,
    RunView,
    StateView,
    StepView,
)

__all__ = [
    "BUSY",
    "CLOSING",
    "LARGEST_POSITION",
    "NOTIFY_MERGE",
    "PAYLOAD_HASH",
    "QUERIES",
    "SEARCH_ATTRIBUTES",
    "SIGNALS",
    "STORE_WAIT",
    "TASK_QUEUE",
    "UPDATES",
    "WORKFLOW_TYPE",
    "Answer",
    "ArtifactResult",
    "AskRun",
    "BlockedNodeView",
    "Change",
    "ChangeReport",
    "ChangeResult",
    "CheckpointPage",
    "CheckpointView",
    "Command",
    "CommandResult",
    "ComponentChangeView",
    "ConversationView",
    "Decision",
    "EditState",
    "EditedAction",
    "EntryView",
    "ForkSource",
    "GraphView",
    "InitialMessage",
    "InitialState",
    "InterruptCommand",
    "InterruptView",
    "JournalPage",
    "LivePermissionView",
    "LogView",
    "MessageCommand",
    "OutcomeView",
    "OutputView",
    "Page",
    "PermissionCheckView",
    "PermissionView",
    "PermissionsPage",
    "PermissionsQuery",
    "QuotaUseView",
    "QuotaView",
    "Redirect",
    "RenameView",
    "Response",
    "Rollback",
    "RunResult",
    "RunView",
    "SetPermission",
    "SplitSource",
    "StartRun",
    "StateView",
    "StepChange",
    "StepFate",
    "StepView",
    "TagCommand",
    "WireInput",
    "is_prompt",
    "noun",
    "refusal_text",
    "spoken",
]

"""Inputs and results of activities: small, flat, and never a transcript.

Histories hold them, so they are durable: a field may be added with a default, never renamed.
Each module has one kind of call: the name of its activity, its input and its result.
"""

from crewlog.state.calls.call import CallInput, CallResult
from crewlog.state.calls.change import (
    PREPARE_CHANGE,
    PrepareChange,
    PrepareChangeResult,
    PreparedSplitRun,
)
from crewlog.state.calls.command import (
    FIND_COMMAND,
    READ_TIME,
    RECORD_USE,
    FindCommand,
    FindCommandResult,
    RecordUse,
)
from crewlog.state.calls.merge import (
    PREPARE_MERGE,
    READ_OTHER_RUN,
    PrepareMerge,
    PrepareMergeResult,
    ReadOtherRun,
    ReadOtherRunResult,
)
from crewlog.state.calls.model import (
    CALL_MODEL,
    CallModel,
    CallModelResult,
    Chunk,
    RefusedOperations,
    RequestedToolCall,
)
from crewlog.state.calls.output import INLINE_BYTES, OutputValue, StructuredOutput, addressed_items
from crewlog.state.calls.prompt import COMPILE_PROMPT, CompilePrompt, CompilePromptResult
from crewlog.state.calls.quota import CallQuota, quota_idempotency_key, quota_store_name
from crewlog.state.calls.restore import RESTORE_STATE, RestoreState, RestoreStateResult
from crewlog.state.calls.run import (
    DELETE_REPLACED_RUN,
    END_RUN,
    PREPARE_RUN,
    DeleteReplacedRun,
    EndRun,
    EndRunResult,
    PrepareRun,
    PrepareRunResult,
    SignedStart,
)
from crewlog.state.calls.store import STORE_BATCH, MergeNotification, StoreBatch, StoreBatchResult
from crewlog.state.calls.tool import (
    CALL_TOOL,
    CHECK_ARGUMENTS,
    ArtifactChange,
    CallTool,
    CallToolResult,
    CheckArguments,
    CheckArgumentsResult,
    GraphOperationsReturned,
    SentMessage,
    ToolCallDenied,
    ToolCallInvalid,
    ToolOutcome,
    ToolReturned,
    attempt_owner,
    start_record_key,
)
from crewlog.state.calls.view import View

__all__ = [
    "CALL_MODEL",
    "CALL_TOOL",
    "CHECK_ARGUMENTS",
    "COMPILE_PROMPT",
    "DELETE_REPLACED_RUN",
    "END_RUN",
    "FIND_COMMAND",
    "INLINE_BYTES",
    "PREPARE_CHANGE",
    "PREPARE_MERGE",
    "PREPARE_RUN",
    "READ_OTHER_RUN",
    "READ_TIME",
    "RECORD_USE",
    "RESTORE_STATE",
    "STORE_BATCH",
    "ArtifactChange",
    "CallInput",
    "CallModel",
    "CallModelResult",
    "CallQuota",
    "CallResult",
    "CallTool",
    "CallToolResult",
    "CheckArguments",
    "CheckArgumentsResult",
    "Chunk",
    "CompilePrompt",
    "CompilePromptResult",
    "DeleteReplacedRun",
    "EndRun",
    "EndRunResult",
    "FindCommand",
    "FindCommandResult",
    "GraphOperationsReturned",
    "MergeNotification",
    "OutputValue",
    "PrepareChange",
    "PrepareChangeResult",
    "PrepareMerge",
    "PrepareMergeResult",
    "PrepareRun",
    "PrepareRunResult",
    "PreparedSplitRun",
    "ReadOtherRun",
    "ReadOtherRunResult",
    "RecordUse",
    "RefusedOperations",
    "RequestedToolCall",
    "RestoreState",
    "RestoreStateResult",
    "SentMessage",
    "SignedStart",
    "StoreBatch",
    "StoreBatchResult",
    "StructuredOutput",
    "ToolCallDenied",
    "ToolCallInvalid",
    "ToolOutcome",
    "ToolReturned",
    "View",
    "addressed_items",
    "attempt_owner",
    "quota_idempotency_key",
    "quota_store_name",
    "start_record_key",
]

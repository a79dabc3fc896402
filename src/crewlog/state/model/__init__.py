"""The state of a run at one journal position, `CrewState`, and its parts.

The workflow owns the state; agents get views of it. Its size is limited: transcripts and large
values are held by hash, so what continue-as-new carries does not grow with them. Only
`crewlog.state.fold` changes it.
"""

from crewlog.state.model.change import ChangedPermission, ChangeRecord, PendingChange
from crewlog.state.model.crew_state import RECORDED, CrewState
from crewlog.state.model.interrupt import Interrupt, InterruptAnswer, InterruptQuota
from crewlog.state.model.item import ChildStepProgress, Item
from crewlog.state.model.merge import MergeOutcome, MergeStatus, PendingMerge
from crewlog.state.model.output import ElementPosition, ListElement, Output
from crewlog.state.model.prompt import NoReading, PromptDiagnostic, PromptReply, PromptState
from crewlog.state.model.run import CommandOutcome, Idle, LogHead, SourceRun, StatusReason
from crewlog.state.model.step import FrontierStep, Routing, WakingMessage
from crewlog.state.model.turn import Call, CallDelay, Draft, ListedCallResult, Turn

__all__ = [
    "RECORDED",
    "Call",
    "CallDelay",
    "ChangeRecord",
    "ChangedPermission",
    "ChildStepProgress",
    "CommandOutcome",
    "CrewState",
    "Draft",
    "ElementPosition",
    "FrontierStep",
    "Idle",
    "Interrupt",
    "InterruptAnswer",
    "InterruptQuota",
    "Item",
    "ListElement",
    "ListedCallResult",
    "LogHead",
    "MergeOutcome",
    "MergeStatus",
    "NoReading",
    "Output",
    "PendingChange",
    "PendingMerge",
    "PromptDiagnostic",
    "PromptReply",
    "PromptState",
    "Routing",
    "SourceRun",
    "StatusReason",
    "Turn",
    "WakingMessage",
]

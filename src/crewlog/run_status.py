"""The status and the end reason of a run, for programs.

A run that ends by its flow or at a limit is `completed`; the end reason distinguishes the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

RunStatus = Literal[
    "running", "paused", "waiting", "stopping", "completed", "failed", "stopped", "merged"
]
"""The status of a run. `merged`: the run has ended, and its agents continue in another run."""
ENDED: frozenset[RunStatus] = frozenset({"completed", "failed", "stopped", "merged"})
"""The statuses of ended runs."""
OPEN: frozenset[RunStatus] = frozenset(get_args(RunStatus)) - ENDED
"""The statuses of open runs."""

EndReason = Literal[
    "",
    "completed",
    "retry_budget_exhausted",
    "route_limit_reached",
    "call_limit_reached",
    "reply_tries_exhausted",
    "step_limit_reached",
    "budget_exhausted",
    "idle",
    "stopped",
    "failed",
]
"""`completed`: its flow ended. `retry_budget_exhausted`: a decision would repeat, and has done so
`at_most` times. `route_limit_reached`: a route went to a node `at_most` times.
`call_limit_reached`: an agent's turn took `max_calls`. `reply_tries_exhausted`: no try of a reply
was valid. `step_limit_reached`, `budget_exhausted`: the run used up a limit, and people did not
raise it. `idle`: no message came in time. `stopped`: people ended it. `failed`: it could not
continue. Empty while it runs."""

_OF_QUESTIONS: dict[str, EndReason] = {"limit": "step_limit_reached", "budget": "budget_exhausted"}
FoundError = Literal[
    "TurnTooLong", "ReplyInvalid", "BadReply", "CallFailed", "ArgumentMissing", "timeout"
]
"""The types of errors that the run itself finds; `crewlog.errors` has those of calls."""
OF_ERRORS: Mapping[str, EndReason] = {
    "TurnTooLong": "call_limit_reached",
    "ReplyInvalid": "reply_tries_exhausted",
    "BadReply": "reply_tries_exhausted",
    **dict.fromkeys(
        (
            *("CallFailed", "ArgumentMissing", "timeout"),
            *("StepError", "LogAccessDenied", "SecretMissing"),
            *("ModelError", "ModelRequestRejected", "ModelUnavailable", "ModelRateLimited"),
            *(
                "ToolError",
                "ToolMissing",
                "ToolNotApproved",
                "ToolUnusable",
                "ToolFailed",
                "NotInAllowlist",
            ),
            *("PermissionsChanged", "OutcomeUnknown"),
        ),
        "",
    ),
}
"""The limit that a step reached, by the type of its error; empty: none."""


BOUNDS = frozenset(
    {
        "retry_budget_exhausted",
        "route_limit_reached",
        "call_limit_reached",
        "reply_tries_exhausted",
        "step_limit_reached",
        "budget_exhausted",
    }
)
"""The end reasons of limits."""


def interrupt_end_reason(kind: str) -> EndReason:
    """The limit that a kind of interrupt is about; empty: none."""
    return _OF_QUESTIONS.get(kind, "")


def error_end_reason(error_type: str) -> EndReason:
    """The limit that a failed step reached; empty: none."""
    return OF_ERRORS.get(error_type, "")

"""The rule of each field of a definition: which changes of it widen authority.

`crewlog.authority.widening` compares two definitions by this table. A field without a rule counts
as `same`, so any change of a new field widens until a rule is added. The model of a `same` field
needs no rules, since it is compared as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from crewlog.definition.model import (
    AgentDefinition,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    DecisionPhase,
    ErrorPolicy,
    Limits,
    ParallelPhase,
    PatternUse,
    Retry,
    RoutePhase,
    ToolDefinition,
    WaitPhase,
)
from crewlog.model import Model

WideningRule = Literal["free", "same", "less", "more", "fewer", "inner", "own", "order", "flow"]
"""The changes of a field that do not widen authority:

`free`: all; `same`: none; `less`: a limit may only decrease (null: no limit); `more`: a requirement
may only increase (null: none); `fewer`: items may only be removed; `inner`: see the rules of its
model; `order`: see `ORDER`; `own`: `crewlog.authority.widening` has a function for it; `flow`:
`crewlog.authority.guards` compares it."""

FIELDS: Mapping[type[Model], Mapping[str, WideningRule]] = {
    CrewDefinition: {
        "crew": "same",  # the name of its memory and its quotas
        "description": "free",
        "model": "own",
        "agents": "own",
        "tools": "own",
        "mcp": "same",
        "flow": "flow",
        "flags": "own",
        "permissions": "own",
        "approvals": "own",
        "groups": "same",
        "rules": "own",
        "timezone": "same",  # the days of its quotas
        "logs": "same",
        "artifacts": "same",
        "merge": "own",
        "limits": "inner",
        "interrupts": "same",
        "checkpoints": "free",
        "channels": "same",
        "graph": "same",  # its root agent may change it
        "conversation": "same",  # limits apply to each message of a conversation anew
        "memory": "same",
        "window": "free",  # how much agents see of what they may read
        "approval": "order",
        "policy": "same",
    },
    AgentDefinition: {
        "does": "same",
        "in_order": "same",
        "prompt": "free",  # a prompt never decides what an agent may do
        "description": "free",
        "model": "own",
        "model_settings": "own",
        "tools": "own",
        "reads": "own",
        "writes": "own",
        "outputs": "own",
        "writes_flags": "own",
        "reply": "same",  # conditions read its fields and its fallback
        "max_calls": "less",
        "on_cap": "same",
        "timeout": "less",
        "heartbeat": "free",
        "retry": "inner",
        "on_error": "inner",
        "ask_below": "more",
        "enabled": "own",
        "pattern": "free",  # its expansion is compared
        "parent": "own",
        "window": "free",
        "inputs": "own",
        "shares": "own",
        "scratch": "same",  # other agents may read its notes
        "listen": "fewer",
        "send": "fewer",
        "wires": "fewer",
        "beside": "same",
        "privileged": "same",
    },
    ToolDefinition: {
        "run": "same",
        "description": "free",
        "effects": "same",
        "retry": "own",
        "timeout": "less",
        "heartbeat": "free",
        "policy": "inner",
        "on_error": "order",
        "queue": "same",
        "placed": "same",
        "paths": "same",  # empty: all of the workspace
        "secrets": "same",
        "hosts": "fewer",
        "checks": "same",
        "approved": "same",
        "risk": "order",
    },
    ErrorPolicy: {"failure": "order", "bad_reply": "order"},
    Retry: {"attempts": "less", "first": "free", "backoff": "free", "longest": "free"},
    Limits: {
        "steps": "less",
        "tokens": "less",
        "cost": "less",
        "wall": "less",
        "parallel": "less",
        "events": "free",  # when an execution continues as new
    },
    AgentPhase: {
        "agent": "flow",
        "phase": "flow",
        "task": "free",
        "after": "flow",
        "when": "flow",
        "only_if": "flow",
        "needs": "flow",
        "for_each": "flow",
        "at_once": "free",
        "by": "flow",
        "among": "flow",
        "within": "flow",
        "otherwise": "flow",
        "timeout": "flow",
        "on_error": "flow",
    },
    DecisionPhase: {
        "if_": "flow",
        "go": "flow",
        "at_most": "flow",
        "otherwise": "flow",
        "phase": "flow",
        "after": "flow",
    },
    AskPhase: {
        "ask": "flow",
        "options": "flow",
        "sets": "flow",
        "shows": "flow",
        "words": "flow",
        "only_if": "flow",
        "phase": "flow",
        "after": "flow",
    },
    RoutePhase: {
        "route": "flow",
        "to": "flow",
        "otherwise": "flow",
        "at_most": "flow",
        "else_used_up": "flow",
        "only_if": "flow",
        "phase": "flow",
        "after": "flow",
    },
    WaitPhase: {
        "wait": "free",
        "wait_until": "free",
        "only_if": "flow",
        "phase": "flow",
        "after": "flow",
    },
    ParallelPhase: {"parallel": "flow", "join": "flow", "after": "flow"},
    # Definitions are compared after the expansion of builders and patterns.
    BuilderPhase: {"use": "free", "with_": "free", "phase": "free", "after": "free"},
    PatternUse: {"use": "free", "with_": "free", "off": "free"},
}
"""The rules of the fields of each model."""

ORDER: Mapping[tuple[type[Model], str], tuple[str, ...]] = {
    (CrewDefinition, "approval"): ("understood", "required"),
    (ErrorPolicy, "failure"): ("continue", "ask", "fail"),
    (ErrorPolicy, "bad_reply"): ("accept", "retry", "ask", "fail"),
    (ToolDefinition, "on_error"): ("model", "fail"),
    (ToolDefinition, "retry"): ("safe", "keyed", "never"),
    (ToolDefinition, "risk"): ("low", "high"),
}
"""Values in order: a later one is stricter than an earlier one."""

SETTINGS = frozenset(
    {
        *("temperature", "top_p", "top_k", "seed", "n", "stop", "stop_sequences", "streaming"),
        *("max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty"),
        *("logprobs", "top_logprobs", "reasoning_effort", "verbosity"),
    }
)
"""Settings of a model that only affect its answers. Any other one may decide where prompts and
secrets are sent."""


def widening_rule(model: type[Model], field: str) -> WideningRule:
    """The rule of a field; `same` if it has none."""
    return FIELDS.get(model, {}).get(field, "same")

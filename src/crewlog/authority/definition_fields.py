"""Every field of a definition, and by what a change of it gives somebody more.

`crewlog.authority.widening` compares two definitions by this table. A field that is not in it
counts as `same`: whatever a later build adds widens authority until somebody has thought about it.
A model whose field is `same` needs no table of its own: all of it is compared.
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

Way = Literal["free", "same", "less", "more", "fewer", "inner", "own", "order", "flow"]
"""What may be done to a field without more authority:

`free`: anything, it gives nobody anything; `same`: nothing; `less`: a bound, which may only go down
(null is no bound); `more`: a demand, which may only go up (null is none); `fewer`: a list from
which may only be taken; `inner`: what its own model's table says; `order`: see `ORDER`; `own`: what
a function of `widening` says; `flow`: what `crewlog.authority.guards` says."""

FIELDS: Mapping[type[Model], Mapping[str, Way]] = {
    CrewDefinition: {
        "crew": "same",  # it has its memory and its quotas by that
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
        "timezone": "same",  # whose days the quotas count
        "logs": "same",
        "artifacts": "same",
        "merge": "own",
        "limits": "inner",
        "interrupts": "same",
        "checkpoints": "free",
        "channels": "same",
        "graph": "same",  # who is root, and may change it
        "conversation": "same",  # in one, steps, time and loops are bounded for each message anew
        "memory": "same",
        "window": "free",  # of what its agents may read, how much they are shown
        "approval": "order",
        "policy": "same",
    },
    AgentDefinition: {
        "does": "same",
        "in_order": "same",
        "prompt": "free",  # what an agent may do is never a matter of its prompt
        "description": "free",
        "model": "own",
        "model_settings": "own",
        "tools": "own",
        "reads": "own",
        "writes": "own",
        "outputs": "own",
        "writes_flags": "own",
        "reply": "same",  # its fields decide, and so does what it falls back to
        "max_calls": "less",
        "on_cap": "same",
        "timeout": "less",
        "heartbeat": "free",
        "retry": "inner",
        "on_error": "inner",
        "ask_below": "more",
        "enabled": "own",
        "pattern": "free",  # what it stands for is compared
        "parent": "own",
        "window": "free",
        "inputs": "own",
        "shares": "own",
        "scratch": "same",  # who else may look at its notes
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
        "paths": "same",  # none means all of the workspace
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
        "events": "free",  # when an execution hands over to the next, and not what a run may do
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
    # What builders and patterns stand for is put in their places before anything is compared.
    BuilderPhase: {"use": "free", "with_": "free", "phase": "free", "after": "free"},
    PatternUse: {"use": "free", "with_": "free", "off": "free"},
}
"""Each model's fields, by what may be done to them."""

ORDER: Mapping[tuple[type[Model], str], tuple[str, ...]] = {
    (CrewDefinition, "approval"): ("understood", "required"),
    (ErrorPolicy, "failure"): ("continue", "ask", "fail"),
    (ErrorPolicy, "bad_reply"): ("accept", "retry", "ask", "fail"),
    (ToolDefinition, "on_error"): ("model", "fail"),
    (ToolDefinition, "retry"): ("safe", "keyed", "never"),
    (ToolDefinition, "risk"): ("low", "high"),
}
"""Values of which the later ones allow no more than the earlier ones."""

SETTINGS = frozenset(
    {
        *("temperature", "top_p", "top_k", "seed", "n", "stop", "stop_sequences", "streaming"),
        *("max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty"),
        *("logprobs", "top_logprobs", "reasoning_effort", "verbosity"),
    }
)
"""Settings of a model that say how it answers; any other may say where prompts, and the secrets
that settings name, are sent."""


def widening_rule(model: type[Model], field: str) -> Way:
    """What may be done to a field without more authority; of one that is not known, nothing."""
    return FIELDS.get(model, {}).get(field, "same")

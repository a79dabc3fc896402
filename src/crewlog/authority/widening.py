"""What a definition gives somebody that another one does not: by what a change widens authority.

    widening(old, new)  →  ("agent writer may call send_mail", "the policy")

Who may change a crew may not, by that alone, say who may do what. So a change is compared with the
crew that there is: it is let pass where nothing of it can widen anything, and what is not known
here to be harmless counts as wider. A field that is new to definitions is so until it is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from crewlog.content import canonical
from crewlog.definition.expand import expand
from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.definition.secrets import is_reference
from crewlog.model import Json, Model

_OF_THE_CREW = frozenset({"description", "model", "flow", "flags", "merge", "checkpoints"})
"""Fields of a crew that give nobody anything."""
_LOOKED_AT = frozenset(
    {"crew", "agents", "tools", "permissions", "approvals", "limits", "rules", "policy"}
)
"""Fields of a crew that are compared on their own."""
_OF_AN_AGENT = frozenset(
    {
        *("prompt", "description", "model", "outputs", "writes_flags"),
        *("max_calls", "timeout", "heartbeat", "retry", "on_error", "enabled", "pattern"),
        *("tools", "reads", "writes", "model_settings"),  # compared on their own
    }
)
_SETTINGS = frozenset(
    {
        *("temperature", "top_p", "top_k", "seed", "n", "stop", "stop_sequences", "streaming"),
        *("max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty"),
        *("logprobs", "top_logprobs", "reasoning_effort", "verbosity"),
    }
)
"""Settings of a model that say how it answers; any other may say where prompts, and the secrets
that settings name, are sent."""
_OF_A_TOOL = frozenset({"description", "timeout", "heartbeat", "policy", "on_error", "placed"})
_ORDERED: Mapping[str, tuple[str, ...]] = {
    "risk": ("low", "high"),
    "retry": ("safe", "keyed", "never"),
}
"""Fields of tools whose later values allow no more than the earlier ones."""
_NARROWING = frozenset({"never", "ask"})
"""What rules do that allow nothing."""
_RUN_LIMITS = frozenset({"steps", "parallel", "events"})
"""Limits that bound a run's work, and not what it may spend."""
_CONDITIONS = frozenset({"flags", "merge", "flow"})
"""Fields of a crew that the conditions of rules may look at; and of its agents:"""
_CONDITIONS_OF_AGENTS = frozenset({"outputs", "writes_flags"})


def widening(old: CrewDefinition, new: CrewDefinition) -> tuple[str, ...]:
    """By what `new` gives anybody more than `old` does, in words; empty where by nothing."""
    return tuple(dict.fromkeys(_ways(expand(old).definition, expand(new).definition)))


def _ways(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    if old.policy != new.policy:
        yield "the policy, which says who may command"
    if old.crew != new.crew:
        yield "the crew's name, by which it has its memory and its quotas"
    before, after = _data(old), _data(new)
    asks = _has_conditions(before)
    harmless = (_OF_THE_CREW - _CONDITIONS) if asks else _OF_THE_CREW
    for key in sorted({*before, *after} - harmless - _LOOKED_AT):
        if not _same(before.get(key), after.get(key)):
            yield f"the crew's {key}"
    yield from _limits(before.get("limits") or {}, after.get("limits") or {})
    yield from _rules(before.get("rules") or [], after.get("rules") or [])
    yield from _tools(old, new)
    yield from _cells(old, new)
    for name, agent in new.agents.items():
        yield from _agent(name, old.agents.get(name), agent, asks=asks)


def regained(
    now: Mapping[str, tuple[str, ...] | None],
    then: Mapping[str, tuple[str, ...] | None],
    agents: Iterable[str],
) -> Iterator[str]:
    """Tools that agents may call then and not now, by what people said while the run lived.

    Definitions know nothing of that.

    Args:
        now: Who may call a tool now; null or absent: every agent that has it.
        then: Who may call it then.
        agents: The agents then.
    """
    for agent in agents:
        for tool in sorted(now):
            if _names(then, tool, agent) and not _names(now, tool, agent):
                yield f"agent {agent} may call {tool}, which is forbidden now"


def freed(
    now: Mapping[str, Mapping[str, str]], then: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Tools that what people said of single agents allows then and not now.

    Args:
        now: What they said by now, by tool and agent: `deny`, `ask` or `allow`.
        then: What they had said then.
    """
    for tool in sorted({*now, *then}):
        was, is_ = now.get(tool, {}), then.get(tool, {})
        for agent in sorted({*was, *is_}):
            before, after = _STRICT.get(was.get(agent), 1), _STRICT.get(is_.get(agent), 1)
            if after < before:
                yield f"agent {agent} may call {tool}, of which people say {was.get(agent)} now"


_STRICT: Mapping[str | None, int] = {"allow": 0, None: 1, "ask": 2, "deny": 3}
"""How strict a ruling is; none leaves it to the definition."""


def _names(permissions: Mapping[str, tuple[str, ...] | None], tool: str, agent: str) -> bool:
    named = permissions.get(tool)
    return named is None or agent in named


def _data(model: Model) -> dict[str, Json]:
    return model.model_dump(mode="json", by_alias=True)


def _same(one: Json, other: Json) -> bool:
    return canonical(one) == canonical(other)


def _has_conditions(crew: Mapping[str, Json]) -> bool:
    """Whether a rule holds only where something else is so: whoever changes that changes it."""
    return any(rule.get("if") is not None for rule in crew.get("rules") or [])


# -- what holds for the whole crew -----------------------------------------------------------


def _limits(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[str]:
    for key in sorted({*old, *new} - _RUN_LIMITS):
        was, now = old.get(key), new.get(key)
        if _same(was, now) or (was is None and now is not None):
            continue
        if isinstance(was, int | float) and isinstance(now, int | float) and now <= was:
            continue
        yield f"the limit {key}"


def _rules(old: list[Json], new: list[Json]) -> Iterator[str]:
    """Rules that go or are other ones, and new ones that allow something."""
    had, has = (Counter(canonical(rule) for rule in rules) for rules in (old, new))
    if had - has:
        yield "a rule that the crew had is gone, or is another one"
    added = has - had
    for rule in new:
        narrows = rule.get("do") in _NARROWING or rule.get("quota") is not None
        if added[canonical(rule)] and not narrows:
            yield f"a new rule for {rule.get('tool')}"


# -- tools -----------------------------------------------------------------------------------


def _tools(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    for name, tool in new.tools.items():
        if name not in old.tools:
            yield f"the tool {name} is new"
            continue
        before, after = _data(old.tools[name]), _data(tool)
        for key in sorted({*before, *after} - _OF_A_TOOL):
            was, now = before.get(key), after.get(key)
            if not _same(was, now) and not _is_no_less_strict(key, was, now):
                yield f"tool {name}: {key}"


def _is_no_less_strict(key: str, was: Json, now: Json) -> bool:
    order = _ORDERED.get(key, ())
    return was in order and now in order and order.index(was) <= order.index(now)


def _cells(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    """Which agent may call which tool, or no longer has to be approved."""
    for name, agent in new.agents.items():
        before = old.agents.get(name)
        for tool in new.callable_tools:
            if not _may(new, name, agent, tool):
                continue
            if before is None or not _may(old, name, before, tool):
                yield f"agent {name} may call {tool}"
            elif _is_approved(old, name, tool) and not _is_approved(new, name, tool):
                yield f"calls of {tool} by agent {name} need no approval any more"


def _may(crew: CrewDefinition, name: str, agent: AgentDefinition, tool: str) -> bool:
    if tool not in crew.callable_tools or (agent.tools is not None and tool not in agent.tools):
        return False
    allowed = crew.permissions.get(tool)
    return allowed is None or name in allowed


def _is_approved(crew: CrewDefinition, name: str, tool: str) -> bool:
    """Whether a person approves each call."""
    held: Any = crew.approvals.get(tool, ())
    return held is None or name in held


# -- agents ----------------------------------------------------------------------------------


def _agent(
    name: str, old: AgentDefinition | None, new: AgentDefinition, *, asks: bool
) -> Iterator[str]:
    logs: tuple[tuple[str, Callable[[AgentDefinition], tuple[str, ...]]], ...] = (
        ("reads", lambda agent: agent.reads),
        ("writes", lambda agent: agent.writes),
    )
    for verb, of in logs:
        known = {"public"} if old is None else {*of(old)}
        for log in of(new):
            if log not in known:
                yield f"agent {name} {verb} {log}"
    before = _data(old) if old is not None else _data(_NOBODY)
    after = _data(new)
    yield from _settings(name, before["model_settings"], after["model_settings"])
    harmless = (_OF_AN_AGENT - _CONDITIONS_OF_AGENTS) if asks else _OF_AN_AGENT
    for key in sorted({*before, *after} - harmless):
        if not _same(before.get(key), after.get(key)):
            yield f"agent {name}: {key}"


def _settings(name: str, old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        was, now = old.get(key), new.get(key)
        if not _same(was, now) and (key not in _SETTINGS or _names_secrets(now)):
            yield f"agent {name}: the model's setting {key}"


def _names_secrets(value: Json) -> bool:
    """Whether it names a secret somewhere, which would be looked up."""
    match value:
        case str():
            return is_reference(value)
        case list():
            items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return any(map(_names_secrets, items))
        case dict():
            entries: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
            return any(map(_names_secrets, entries.values()))
        case _:
            return False


_NOBODY = AgentDefinition(prompt="-")
"""What an agent that is new is compared with: one that says nothing."""

"""How a change widens authority: what a definition permits that another one does not.

    widening(old, new)  →  ("agent writer may call send_mail", "the policy")

The right to change a crew does not include the right to grant permissions. So the changed
definition is compared with the live one, and each widening needs the right `grant`. The table in
`crewlog.authority.definition_fields` has the rule of each field; any change of a field without a
rule widens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from crewlog.authority.definition_fields import ORDER, SETTINGS, widening_rule
from crewlog.authority.guards import ConditionNames, decisive_names, find_removed_guards
from crewlog.canonical_json import canonical
from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.context_checks import summary_models
from crewlog.definition.expand import expand
from crewlog.definition.model import (
    GROUP_TOOLS,
    AgentDefinition,
    AgentPhase,
    AskPhase,
    CrewDefinition,
    ErrorPolicy,
    ToolDefinition,
)
from crewlog.definition.phases import phases
from crewlog.definition.secrets import is_reference
from crewlog.json_diff import differences, is_same
from crewlog.model import Json, Model

_NARROWING = frozenset({"never", "ask"})
"""The kinds of rules that permit nothing."""


def widening(old: CrewDefinition, new: CrewDefinition) -> tuple[str, ...]:
    """Describes what `new` permits and `old` does not; empty if there is nothing."""
    return tuple(dict.fromkeys(_widenings(expand(old).definition, expand(new).definition)))


def _widenings(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    yield from _fields(old, new, "the crew's ")
    yield from _rules(_data(old)["rules"], _data(new)["rules"])
    yield from _tools(old, new)
    yield from _calls(old, new)
    decisive = decisive_names(old)
    yield from _decisive_values(old, new, decisive)
    yield from find_removed_guards(old, new)
    yield from _phase_error_policies(old, new)
    models = {agent.model or old.model for agent in old.agents.values()} | {old.model}
    models |= {model for model, _ in summary_models(old)}
    for summary_model, _ in summary_models(new):
        if summary_model not in models:
            yield f"the model {summary_model}, which the crew did not use, writes summaries"
    for name, agent in new.agents.items():
        yield from _agent(name, old.agents.get(name), agent, decisive)
        if (model := agent.model or new.model) not in models:
            yield f"agent {name}: the model {model}, which the crew did not use"


def _fields(old: Model, new: Model, prefix: str) -> Iterator[str]:
    """The widenings by the fields of a model, by `crewlog.authority.definition_fields`."""
    kind = type(new)
    for each in differences(_data(old), _data(new), depth=1):
        (key,) = each.path
        if widening_rule(kind, key) == "inner":
            yield from _fields(getattr(old, key), getattr(new, key), f"{prefix}{key}: ")
        elif is_widening(kind, key, each.old, each.new):
            yield _LABELS.get((kind, key), f"{prefix}{key}")


def is_widening(kind: type[Model], key: str, was: Json, now: Json) -> bool:
    """Whether a change of a field widens, by `crewlog.authority.definition_fields`.

    Args:
        kind: The model with the field.
        key: The field.
        was: Its old value as JSON.
        now: Its new value as JSON.
    """
    match widening_rule(kind, key):
        case "free" | "own" | "flow":
            return False
        case "less":
            return not _is_lower_limit(was, now)
        case "more":
            return was is not None and (now is None or now < was)
        case "fewer":
            return not {*map(canonical, now)} <= {*map(canonical, was)}
        case "order":
            return not _is_no_less_strict(ORDER[kind, key], was, now)
        case _:
            return not is_same(was, now)


_LABELS: Mapping[tuple[type[Model], str], str] = {
    (CrewDefinition, "policy"): "the policy, which says who may command",
    (CrewDefinition, "crew"): "the crew's name, by which it has its memory and its quotas",
}
"""Descriptions of fields whose names are not clear enough."""


def _is_lower_limit(was: Json, now: Json) -> bool:
    """Whether a limit is not higher than before; null is no limit."""
    return now is not None and (was is None or now <= was)


def _is_no_less_strict(order: Sequence[str], was: Json, now: Json) -> bool:
    return was in order and now in order and order.index(was) <= order.index(now)


def regained_permissions(
    now: Mapping[str, tuple[str, ...] | None],
    then: Mapping[str, tuple[str, ...] | None],
    agents: Iterable[str],
) -> Iterator[str]:
    """Describes the tools that agents may call in another state and not now, by `set_permission`.

    Args:
        now: The agents that may call each tool now; null or absent: all agents that have it.
        then: The same in the other state.
        agents: The agents in the other state.
    """
    for agent in agents:
        for tool in sorted(now):
            if _may_use(then, tool, agent) and not _may_use(now, tool, agent):
                yield f"agent {agent} may call {tool}, which is forbidden now"


def widened_live_permissions(
    now: Mapping[str, Mapping[str, str]], then: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Describes the live permissions that are milder in another state than now.

    Args:
        now: The live permissions now, by tool and agent: `deny`, `ask` or `allow`.
        then: Those in the other state.
    """
    for tool in sorted({*now, *then}):
        was, is_ = now.get(tool, {}), then.get(tool, {})
        for agent in sorted({*was, *is_}):
            before, after = _STRICT.get(was.get(agent), 1), _STRICT.get(is_.get(agent), 1)
            if after < before:
                yield f"agent {agent} may call {tool}, for which people set {was.get(agent)}"


_STRICT: Mapping[str | None, int] = {"allow": 0, None: 1, "ask": 2, "deny": 3}
"""The strictness of a live permission; None: the definition decides."""


def _may_use(permissions: Mapping[str, tuple[str, ...] | None], tool: str, agent: str) -> bool:
    agents = permissions.get(tool)
    return agents is None or agent in agents


def _data(model: Model) -> dict[str, Json]:
    data: Json = model.model_dump(mode="json", by_alias=False)
    if not isinstance(data, dict):  # its short form is a word, and it contains no models
        return {key: getattr(model, key) for key in type(model).model_fields}
    return data  # pyright: ignore[reportUnknownVariableType]


# -- the whole crew --------------------------------------------------------------------------


def _decisive_values(
    old: CrewDefinition, new: CrewDefinition, decisive: ConditionNames
) -> Iterator[str]:
    """Changes of the values that decisive conditions read."""
    for flag in sorted(decisive.flags):
        if not is_same(old.flags.get(flag), new.flags.get(flag)):
            yield f"the flag {flag}, which a condition reads"
    outputs = {f"{agent}.{name}" for agent, name in decisive.outputs}
    for key in sorted(decisive.flags | outputs):
        if old.merge.get(key) != new.merge.get(key):
            yield f"the reducer of {key}, which a condition reads"
    old_questions = Counter(map(_question_key, _questions(old)))
    for item in _questions(new):
        if item.sets in decisive.flags and not old_questions[_question_key(item)]:
            yield f"a question sets {item.sets}, which a condition reads"
    has_rules = any(rule.if_ is not None for rule in old.rules)
    if has_rules and not is_same(_flow(old), _flow(new)):
        yield "the crew's flow, on which the conditions of rules depend"


def _phase_error_policies(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    """Phases with a milder `on_error` than any of their agents has in `old`."""
    least = {name: _strictness(agent.on_error.failure) for name, agent in old.agents.items()}
    for phase in phases(old):
        if isinstance(phase.item, AgentPhase) and phase.item.on_error is not None:
            for agent in least.keys() & {*phase.item.agents}:
                least[agent] = min(least[agent], _strictness(phase.item.on_error))
    for phase in phases(new):
        if not isinstance(phase.item, AgentPhase) or phase.item.on_error is None:
            continue
        for agent in phase.item.agents:
            if agent in least and _strictness(phase.item.on_error) < least[agent]:
                yield f"on_error of the phase {phase.name}"
                break


def _strictness(on_error: str) -> int:
    """How strict an `on_error` is; a stand-in is as mild as `continue`."""
    order = ORDER[ErrorPolicy, "failure"]
    return order.index(on_error) if on_error in order else 0


def _questions(crew: CrewDefinition) -> list[AskPhase]:
    return [phase.item for phase in phases(crew) if isinstance(phase.item, AskPhase)]


def _question_key(item: AskPhase) -> bytes:
    return canonical(_data(item) | {"phase": None, "after": None})


def _flow(crew: CrewDefinition) -> Json:
    """The flow of an expanded definition, without the tasks of its agents."""
    return [
        [each.name, each.sources, each.need, each.entry, _data(each.item) | {"task": None}]
        for each in phases(crew)
    ]


def _rules(old: list[Json], new: list[Json]) -> Iterator[str]:
    """Rules that are removed or changed, and new ones that permit something."""
    before, after = (Counter(canonical(rule) for rule in rules) for rules in (old, new))
    if before - after:
        yield "a rule of the crew is removed or changed"
    added = after - before
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
        before = old.tools[name]
        yield from _fields(before, tool, f"tool {name}: ")
        if not _is_no_less_strict(ORDER[ToolDefinition, "retry"], before.repeat, tool.repeat):
            yield f"tool {name}: retry"


def _calls(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    """Tools that an agent may call now, or without an approval."""
    for name, agent in new.agents.items():
        before = old.agents.get(name)
        for tool in new.callable_tools:
            if not _may_call(new, name, agent, tool):
                continue
            if before is None or not _may_call(old, name, before, tool):
                yield f"agent {name} may call {tool}"
            elif _needs_approval(old, name, tool) and not _needs_approval(new, name, tool):
                yield f"calls of {tool} by agent {name} no longer need an approval"


def _may_call(crew: CrewDefinition, name: str, agent: AgentDefinition, tool: str) -> bool:
    if tool not in crew.callable_tools or (agent.tools is not None and tool not in agent.tools):
        return False
    if tool in GROUP_TOOLS and tool not in crew.tools and not crew.is_privileged(name):
        return False
    allowed = crew.permissions.get(tool)
    return allowed is None or name in allowed


def _needs_approval(crew: CrewDefinition, name: str, tool: str) -> bool:
    agents: Any = crew.approvals.get(tool, ())
    return agents is None or name in agents


# -- agents ----------------------------------------------------------------------------------


def _agent(
    name: str, old: AgentDefinition | None, new: AgentDefinition, decisive: ConditionNames
) -> Iterator[str]:
    before = old or _EMPTY_AGENT
    logs: tuple[tuple[str, Callable[[AgentDefinition], tuple[str, ...]]], ...] = (
        ("reads", lambda agent: agent.reads),
        ("writes", lambda agent: agent.writes),
    )
    for verb, of in logs:
        for log in of(new):
            if log not in of(before):
                yield f"agent {name} {verb} {log}"
    yield from _inputs_and_audiences(name, before, new)
    yield from _fields(before, new, f"agent {name}: ")
    yield from _settings(name, before.model_settings, new.model_settings)
    if before.parent is not None and before.parent != new.parent:
        yield f"agent {name}: parent"
    if new.enabled and not before.enabled:
        yield f"agent {name} is enabled"
    yield from _sets(name, before, new, decisive)


def _inputs_and_audiences(name: str, old: AgentDefinition, new: AgentDefinition) -> Iterator[str]:
    """The inputs of an agent, and the logs with whose readers it shares its outputs."""
    for each in new.inputs:
        if not any(was.from_ == each.from_ and was.where in ({}, each.where) for was in old.inputs):
            yield f"agent {name} has the input {each.from_}"
    if old.shares is None and new.shares is None:
        return  # its outputs have the audiences of the logs that it writes to
    before = old.writes if old.shares is None else old.shares
    for log in new.writes if new.shares is None else new.shares:
        if log not in before:
            yield f"agent {name} shares its outputs with {log}"


def _sets(
    name: str, old: AgentDefinition, new: AgentDefinition, decisive: ConditionNames
) -> Iterator[str]:
    """Decisive outputs that only one of two versions of an agent may set."""
    flags = {*old.writes_flags} ^ {*new.writes_flags}
    outputs = {(name, key) for key in {*outputs_of(old)} ^ {*outputs_of(new)}}
    changed = sorted((flags & decisive.flags) | {key for _, key in outputs & decisive.outputs})
    for key in changed:
        yield f"agent {name} sets {key}, or no longer does, which a condition reads"
    sets_decisive = {*old.writes_flags} & decisive.flags or {
        (name, key) for key in outputs_of(old)
    } & decisive.outputs
    if old.enabled and not new.enabled and sets_decisive:
        yield f"agent {name}, which sets what a condition reads, is disabled"


def _settings(name: str, old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[str]:
    for each in sorted(differences({**old}, {**new}, depth=1), key=lambda each: each.path):
        (key,) = each.path
        if key not in SETTINGS or _has_secret(each.new):
            yield f"agent {name}: the model's setting {key}"


def _has_secret(value: Json) -> bool:
    """Whether a value contains the name of a secret, which a worker would read."""
    match value:
        case str():
            return is_reference(value)
        case list():
            items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return any(map(_has_secret, items))
        case dict():
            entries: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
            return any(map(_has_secret, entries.values()))
        case _:
            return False


_EMPTY_AGENT = AgentDefinition(prompt="-")
"""New agents are compared with this one."""

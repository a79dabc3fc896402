"""What a definition gives somebody that another one does not: by what a change widens authority.

    widening(old, new)  →  ("agent writer may call send_mail", "the policy")

Who may change a crew may not, by that alone, say who may do what. So a change is compared with the
crew that there is: it is let pass where nothing of it can widen anything. What may be done to each
field is in the table of `crewlog.authority.definition_fields`; a field that is not there counts as
wider.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from crewlog.authority.definition_fields import ORDER, SETTINGS, widening_rule
from crewlog.authority.guards import Names, decisive_names, unguarded
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
"""What rules do that allow nothing."""


def widening(old: CrewDefinition, new: CrewDefinition) -> tuple[str, ...]:
    """By what `new` gives anybody more than `old` does, in words; empty where by nothing."""
    return tuple(dict.fromkeys(_ways(expand(old).definition, expand(new).definition)))


def _ways(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    yield from _fields(old, new, "the crew's ")
    yield from _rules(_data(old)["rules"], _data(new)["rules"])
    yield from _tools(old, new)
    yield from _cells(old, new)
    decide = decisive_names(old)
    yield from _decisive_values(old, new, decide)
    yield from unguarded(old, new)
    yield from _failing(old, new)
    models = {agent.model or old.model for agent in old.agents.values()} | {old.model}
    models |= {model for model, _ in summary_models(old)}
    for summing, _ in summary_models(new):
        if summing not in models:
            yield f"the model {summing}, which the crew did not use, sums up what agents have said"
    for name, agent in new.agents.items():
        yield from _agent(name, old.agents.get(name), agent, decide)
        if (model := agent.model or new.model) not in models:
            yield f"agent {name}: the model {model}, which the crew did not use"


def _fields(old: Model, new: Model, whose: str) -> Iterator[str]:
    """By which of its own fields a model gives more; see `crewlog.authority.definition_fields`."""
    kind = type(new)
    for each in differences(_data(old), _data(new), depth=1):
        (key,) = each.path
        if widening_rule(kind, key) == "inner":
            yield from _fields(getattr(old, key), getattr(new, key), f"{whose}{key}: ")
        elif widens(kind, key, each.old, each.new):
            yield _TOLD.get((kind, key), f"{whose}{key}")


def widens(kind: type[Model], key: str, was: Json, now: Json) -> bool:
    """Whether another value of a field gives more, by `crewlog.authority.definition_fields`.

    Args:
        kind: The model that has the field.
        key: The field.
        was: Its value, as data.
        now: The other value.
    """
    match widening_rule(kind, key):
        case "free" | "own" | "flow":
            return False
        case "less":
            return not _is_less(was, now)
        case "more":
            return was is not None and (now is None or now < was)
        case "fewer":
            return not {*map(canonical, now)} <= {*map(canonical, was)}
        case "order":
            return not _is_no_less_strict(ORDER[kind, key], was, now)
        case _:
            return not is_same(was, now)


_TOLD: Mapping[tuple[type[Model], str], str] = {
    (CrewDefinition, "policy"): "the policy, which says who may command",
    (CrewDefinition, "crew"): "the crew's name, by which it has its memory and its quotas",
}
"""Fields whose names do not say enough."""


def _is_less(was: Json, now: Json) -> bool:
    """Whether a bound is one, and no higher than it was; null is no bound."""
    return now is not None and (was is None or now <= was)


def _is_no_less_strict(order: Sequence[str], was: Json, now: Json) -> bool:
    return was in order and now in order and order.index(was) <= order.index(now)


def regained_permissions(
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
    data: Json = model.model_dump(mode="json", by_alias=False)
    if not isinstance(data, dict):  # it is written as a word, and has no models inside
        return {key: getattr(model, key) for key in type(model).model_fields}
    return data  # pyright: ignore[reportUnknownVariableType]


# -- what holds for the whole crew -----------------------------------------------------------


def _decisive_values(old: CrewDefinition, new: CrewDefinition, decide: Names) -> Iterator[str]:
    """What conditions read that decide who may do what, where it comes to be otherwise."""
    for flag in sorted(decide.flags):
        if not is_same(old.flags.get(flag), new.flags.get(flag)):
            yield f"the flag {flag}, which a condition reads"
    outputs = {f"{agent}.{name}" for agent, name in decide.outputs}
    for key in sorted(decide.flags | outputs):
        if old.merge.get(key) != new.merge.get(key):
            yield f"how the values of {key} combine, which a condition reads"
    asked = Counter(map(_said, _questions(old)))
    for item in _questions(new):
        if item.sets in decide.flags and not asked[_said(item)]:
            yield f"a question sets {item.sets}, which a condition reads"
    has_rules = any(rule.if_ is not None for rule in old.rules)
    if has_rules and not is_same(_flow(old), _flow(new)):
        yield "the crew's flow, by which the conditions of rules come to hold"


def _failing(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    """Phases whose failure ends less than any failure of their agent does in `old`."""
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
    """How much a policy for failures stops; a stand-in stops as little as `continue`."""
    order = ORDER[ErrorPolicy, "failure"]
    return order.index(on_error) if on_error in order else 0


def _questions(crew: CrewDefinition) -> list[AskPhase]:
    return [phase.item for phase in phases(crew) if isinstance(phase.item, AskPhase)]


def _said(item: AskPhase) -> bytes:
    return canonical(_data(item) | {"phase": None, "after": None})


def _flow(crew: CrewDefinition) -> Json:
    """The flow of an expanded definition, without what its agents are told."""
    return [
        [each.name, each.sources, each.need, each.entry, _data(each.item) | {"task": None}]
        for each in phases(crew)
    ]


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
        before = old.tools[name]
        yield from _fields(before, tool, f"tool {name}: ")
        if not _is_no_less_strict(ORDER[ToolDefinition, "retry"], before.repeat, tool.repeat):
            yield f"tool {name}: retry"


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
    if tool in GROUP_TOOLS and tool not in crew.tools and not crew.is_privileged(name):
        return False
    allowed = crew.permissions.get(tool)
    return allowed is None or name in allowed


def _is_approved(crew: CrewDefinition, name: str, tool: str) -> bool:
    """Whether a person approves each call."""
    held: Any = crew.approvals.get(tool, ())
    return held is None or name in held


# -- agents ----------------------------------------------------------------------------------


def _agent(
    name: str, old: AgentDefinition | None, new: AgentDefinition, decide: Names
) -> Iterator[str]:
    before = old or _NOBODY
    logs: tuple[tuple[str, Callable[[AgentDefinition], tuple[str, ...]]], ...] = (
        ("reads", lambda agent: agent.reads),
        ("writes", lambda agent: agent.writes),
    )
    for verb, of in logs:
        for log in of(new):
            if log not in of(before):
                yield f"agent {name} {verb} {log}"
    yield from _given(name, before, new)
    yield from _fields(before, new, f"agent {name}: ")
    yield from _settings(name, before.model_settings, new.model_settings)
    if before.parent is not None and before.parent != new.parent:
        yield f"agent {name}: parent"
    if new.enabled and not before.enabled:
        yield f"agent {name} takes part again"
    yield from _sets(name, before, new, decide)


def _given(name: str, old: AgentDefinition, new: AgentDefinition) -> Iterator[str]:
    """What an agent is shown by name, and with whom it shares its outputs."""
    for each in new.inputs:
        if not any(was.from_ == each.from_ and was.where in ({}, each.where) for was in old.inputs):
            yield f"agent {name} is shown {each.from_}"
    if old.shares is None and new.shares is None:
        return  # with those that it writes to
    before = old.writes if old.shares is None else old.shares
    for log in new.writes if new.shares is None else new.shares:
        if log not in before:
            yield f"agent {name} shares its outputs with {log}"


def _sets(name: str, old: AgentDefinition, new: AgentDefinition, decide: Names) -> Iterator[str]:
    """What an agent may set that decides, where it may by now and could not, or the reverse."""
    flags = {*old.writes_flags} ^ {*new.writes_flags}
    outputs = {(name, key) for key in {*outputs_of(old)} ^ {*outputs_of(new)}}
    changed = sorted((flags & decide.flags) | {key for _, key in outputs & decide.outputs})
    for key in changed:
        yield f"agent {name} sets {key}, or does no longer, which a condition reads"
    decides = {*old.writes_flags} & decide.flags or {
        (name, key) for key in outputs_of(old)
    } & decide.outputs
    if old.enabled and not new.enabled and decides:
        yield f"agent {name} takes no part any more, and sets what a condition reads"


def _settings(name: str, old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[str]:
    for each in sorted(differences({**old}, {**new}, depth=1), key=lambda each: each.path):
        (key,) = each.path
        if key not in SETTINGS or _names_secrets(each.new):
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

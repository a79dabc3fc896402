"""What differs between two states: of one run at two positions, or of two runs.

    difference(before, after).changes  →  flags/approved: added true; frontier/writer#1: removed …

States are compared by what they mean to people: transcripts by how many messages they have (the
logs of two runs never have the same heads), outputs by their values or by the hash of what is too
large to be here, the frontier by where each step is.

The difference of two contents of an artifact, as people read it: what came, went and changed.

Objects are compared key by key. Items of a list go by their `id`, `name` or `key`, where each item
has one of its own, and else by their value; so an item that is added in front is one line, and not
a change of everything behind it.

What differs between two graphs: nodes and edges added, removed and changed, and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args

from pydantic import Field

from crewlog.canonical_json import canonical
from crewlog.graph.plan import GraphPlan, PlanNode
from crewlog.ids import NodeName
from crewlog.model import Json, Model
from crewlog.state.artifacts import after, begin, body_of, escaped
from crewlog.state.model import CrewState, FrontierStep, Output, Part

Section = Literal[
    "run",
    "graph",
    "flags",
    "outputs",
    "shared",
    "private",
    "frontier",
    "parked",
    "done",
    "visits",
    "loops",
    "messages",
    "permissions",
    "rulings",
    "quotas",
    "interrupts",
    "breaks",
    "tags",
    "usage",
]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""The parts of a state, in the order in which they are told."""
V = TypeVar("V")


class Change(Model):
    """One difference."""

    section: Section
    """The part of the state."""
    name: str
    """Which thing in it: a flag, `agent.output`, a step, a log, …"""
    kind: Literal["added", "removed", "changed"]
    old: Json = None
    """The value before; null where there was none."""
    new: Json = None
    """The value after; null where there is none."""


class StateDiff(Model):
    """All differences between two states; false where there is none."""

    changes: tuple[Change, ...] = ()
    """By section, and within it in the order of the new state, then of the old."""

    def __bool__(self) -> bool:
        return bool(self.changes)

    def under(self, section: Section) -> tuple[Change, ...]:
        """The differences in one part."""
        return tuple(change for change in self.changes if change.section == section)


def difference(old: CrewState, new: CrewState) -> StateDiff:
    """What was added, removed and changed from `old` to `new`; positions and times are none."""
    # What `reduce` leaves alone is the very same object: it need not be looked into.
    touched = {
        name for name in CrewState.model_fields if getattr(old, name) is not getattr(new, name)
    }
    return StateDiff(
        changes=tuple(
            change
            for section in SECTIONS
            if touched & _FIELDS[section]
            for change in _between(section, _PARTS[section](old), _PARTS[section](new))
        )
    )


def _between(
    section: Section, old: Mapping[str, Json], new: Mapping[str, Json]
) -> Iterator[Change]:
    for name in (*new, *(name for name in old if name not in new)):
        if name not in old:
            yield Change(section=section, name=name, kind="added", new=new[name])
        elif name not in new:
            yield Change(section=section, name=name, kind="removed", old=old[name])
        elif canonical(old[name]) != canonical(new[name]):  # by `==`, 1 would equal true
            yield Change(section=section, name=name, kind="changed", old=old[name], new=new[name])


def _run(state: CrewState) -> dict[str, Json]:
    found: dict[str, Json] = {"status": state.status, "crew": state.crew, "error": state.error}
    found["execution"] = state.execution
    if state.resume_info is not None:
        info = state.resume_info
        found["stands since"] = " ".join(filter(None, [info.by, info.reason])) or "asked to"
    return {key: value for key, value in found.items() if value != ""}


def _graph(state: CrewState) -> dict[str, Json]:
    found: dict[str, Json] = {"version": state.graph_version}
    if state.definition:
        found["definition"] = state.definition
    if state.changing is not None:
        found["drains for"] = state.changing.what or f"version {state.changing.graph_version}"
    if state.joining is not None:
        found["is to be one graph with"] = state.joining.other
    found |= {f"merge {op}": each.outcome for op, each in state.merges.items()}
    return found


def value_of(output: Output | Part) -> Json:
    """An output as it is compared and told: the value, or `{"body": hash}` of a large one."""
    if isinstance(output, Output) and output.parts:
        return [value_of(part) for part in output.parts]
    return output.value if output.body is None else {"body": output.body}


def _outputs(state: CrewState) -> dict[str, Json]:
    return {
        f"{agent}.{key}": value_of(output)
        for agent, found in state.agent_outputs.items()
        for key, output in found.items()
    }


def _steps(entries: Mapping[Any, FrontierStep]) -> dict[str, Json]:
    return {str(step): where(entry) for step, entry in entries.items()}


def where(entry: FrontierStep) -> str:
    """Where a step that is not done is, in words: `running: 2 model calls, read under way`."""
    said: list[str] = []
    if entry.requirement:
        said.append(f"for {entry.requirement}")
    if entry.mapped is not None:
        said.append(f"{entry.mapped.done} of {entry.mapped.of} items done")
    if entry.turn is not None:
        under_way = [call.tool or "model" for call in entry.turn.calls]
        said.append(f"model call {entry.turn.model_calls}")
        said += [f"{', '.join(under_way)} under way"] if under_way else []
    if entry.redirect is not None:
        said.append(f"then to {entry.redirect}")
    return f"{entry.status}: {', '.join(said)}" if said else entry.status


def _usage(state: CrewState) -> dict[str, Json]:
    found: dict[str, Json] = {"steps": state.steps}
    for agent, used in state.usage.items():
        data = used.to_json()
        found |= {f"{agent} {key.replace('_', ' ')}": value for key, value in data.items()}
    return found


def _named(mapping: Mapping[Any, V]) -> dict[str, Json]:
    return {str(name): value for name, value in mapping.items()}


_PARTS: dict[Section, Callable[[CrewState], dict[str, Json]]] = {
    "run": _run,
    "graph": _graph,
    "flags": lambda s: _named(s.flags),
    "outputs": _outputs,
    "shared": lambda s: _named(s.shared_context),
    "private": lambda s: {
        f"{who}.{name}": value for who, f in s.private_context.items() for name, value in f.items()
    },
    "frontier": lambda s: _steps(s.frontier),
    "parked": lambda s: _steps(s.parked),
    "done": lambda s: _named(s.routing.done),
    "visits": lambda s: _named(s.visits),
    "loops": lambda s: _named(s.routing.loops),
    "messages": lambda s: {log: head.length for log, head in s.messages.items()},
    "permissions": lambda s: {
        tool: None if agents is None else list(agents)
        for tool, agents in s.tool_permissions.items()
    },
    "rulings": lambda s: {
        f"{tool}.{agent}": do for tool, row in s.rulings.items() for agent, do in row.items()
    },
    "quotas": lambda s: dict(s.quotas),
    "interrupts": lambda s: {id_: asked.question for id_, asked in s.interrupts.items()},
    "breaks": lambda s: dict.fromkeys(map(str, s.break_before), True),
    "tags": lambda s: _named(s.tags),
    "usage": _usage,
}
_FIELDS: dict[Section, frozenset[str]] = {
    "run": frozenset({"status", "crew", "error", "execution", "resume_info"}),
    "graph": frozenset({"graph_version", "definition", "changing", "joining", "merges", "took_in"}),
    "flags": frozenset({"flags"}),
    "outputs": frozenset({"agent_outputs"}),
    "shared": frozenset({"shared_context"}),
    "private": frozenset({"private_context"}),
    "frontier": frozenset({"frontier"}),
    "parked": frozenset({"parked"}),
    "done": frozenset({"routing"}),
    "visits": frozenset({"visits"}),
    "loops": frozenset({"routing"}),
    "messages": frozenset({"messages"}),
    "permissions": frozenset({"tool_permissions"}),
    "rulings": frozenset({"rulings"}),
    "quotas": frozenset({"quotas"}),
    "interrupts": frozenset({"interrupts"}),
    "breaks": frozenset({"break_before"}),
    "tags": frozenset({"tags"}),
    "usage": frozenset({"usage", "steps"}),
}
"""The fields of the state that each part is made of."""


IDENTIFIES = ("id", "name", "key")
"""Keys by which items of a list are told apart."""
LONGEST_LIST = 2_000
"""Items of a list that are aligned; longer ones are compared place by place."""


class ContentChange(NamedTuple):
    """A place at which two contents differ."""

    kind: Literal["added", "removed", "changed"]
    path: str
    """Where: of what was removed in the content as it is by then, of all else as it will be."""
    old: Json = None
    new: Json = None
    label: str = ""
    """What an item of a list calls itself, where its place says little: `id=n7`."""

    def operation(self) -> dict[str, Json]:
        """The difference as an operation."""
        match self.kind:
            case "added":
                return {"op": "add", "path": self.path, "value": self.new}
            case "removed":
                return {"op": "remove", "path": self.path}
            case "changed":
                return {"op": "replace", "path": self.path, "value": self.new}


def differences(old: Json, new: Json, path: str = "") -> Iterator[ContentChange]:
    """What makes `new` of `old`, in an order in which it can be done."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _object_changes(cast("_Object", old), cast("_Object", new), path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _lists(cast("_Items", old), cast("_Items", new), path)
    elif canonical(old) != canonical(new):
        yield ContentChange("changed", path, old, new)


def patched(old: Json, found: Iterable[ContentChange]) -> Json:
    """A content after differences."""
    return after(begin(old), body_of("", "", [each.operation() for each in found])).value


_Object = dict[str, Json]
_Items = Sequence[Json]


def _object_changes(old: _Object, new: _Object, path: str) -> Iterator[ContentChange]:
    for key, value in old.items():
        if key not in new:
            yield ContentChange("removed", f"{path}/{escaped(key)}", value)
    for key, value in new.items():
        inner = f"{path}/{escaped(key)}"
        if key in old:
            yield from differences(old[key], value, inner)
        else:
            yield ContentChange("added", inner, None, value)


def _lists(old: _Items, new: _Items, path: str) -> Iterator[ContentChange]:
    if max(len(old), len(new)) > LONGEST_LIST:
        yield from _changes_by_index(old, new, path)
        return
    key = _identity_key(old, new)
    before = [_mark(item, key) for item in old]
    now = [_mark(item, key) for item in new]
    place = 0
    for tag, i, i_end, k, k_end in SequenceMatcher(None, before, now, False).get_opcodes():
        if tag == "equal":
            for offset in range(i_end - i):
                inner = f"{path}/{place + offset}"
                yield from differences(old[i + offset], new[k + offset], inner)
            place += i_end - i
            continue
        paired = 0 if key else min(i_end - i, k_end - k)
        for offset in range(paired):  # nothing tells them apart: they are taken for changed
            yield from differences(old[i + offset], new[k + offset], f"{path}/{place + offset}")
        place += paired
        for item in old[i + paired : i_end]:
            yield ContentChange("removed", f"{path}/{place}", item, label=_label(item, key))
        for item in new[k + paired : k_end]:
            yield ContentChange("added", f"{path}/{place}", None, item, label=_label(item, key))
            place += 1


def _changes_by_index(old: _Items, new: _Items, path: str) -> Iterator[ContentChange]:
    for place, (was, now) in enumerate(zip(old, new, strict=False)):
        yield from differences(was, now, f"{path}/{place}")
    for item in old[len(new) :]:
        yield ContentChange("removed", f"{path}/{len(new)}", item)
    for place in range(len(old), len(new)):
        yield ContentChange("added", f"{path}/{place}", None, new[place])


def _identity_key(old: _Items, new: _Items) -> str:
    """The key that every item of both lists has, with a text of its own in each."""
    for key in IDENTIFIES:
        if all(_names(items, key) for items in (old, new)) and (old or new):
            return key
    return ""


def _names(items: _Items, key: str) -> bool:
    found: list[Any] = [cast("_Object", i).get(key) if isinstance(i, dict) else None for i in items]
    return all(isinstance(each, str) for each in found) and len({*found}) == len(found)


def _label(item: Json, key: str) -> str:
    return f"{key}={item[key]}" if key else ""


def _mark(item: Json, key: str) -> Hashable:
    return item[key] if key else canonical(item)


Edge = tuple[str, str, str]
"""Source, target, and what leads there: `join`, `go`, `to`, `answer`, `else`, `on_error`."""
_EDGES = frozenset({"join"})
"""Fields of a node that its edges tell."""


class PlanDiff(Model):
    """All differences between two plans; false where there is none."""

    added: tuple[NodeName, ...] = ()
    removed: tuple[NodeName, ...] = ()
    changed: dict[NodeName, tuple[str, ...]] = Field(
        default_factory=dict[NodeName, tuple[str, ...]]
    )
    """Kept nodes that are otherwise, with the fields."""
    edges_added: tuple[Edge, ...] = ()
    edges_removed: tuple[Edge, ...] = ()
    rules: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """What else is otherwise, as `agents.writer`, `tools.read`, `permissions.read`, `limits`, with
    the fields, or `added`, or `removed`."""

    def __bool__(self) -> bool:
        return bool(self.to_json())


def plan_diff(old: GraphPlan, new: GraphPlan) -> PlanDiff:
    """What was added, removed and changed from `old` to `new`; prompts are in definitions."""
    before, after = {*plan_edges(old)}, {*plan_edges(new)}
    kept = [name for name in new.nodes if name in old.nodes]
    changed = {name: _fields(old.nodes[name], new.nodes[name]) for name in kept}
    return PlanDiff(
        added=tuple(name for name in new.nodes if name not in old.nodes),
        removed=tuple(name for name in old.nodes if name not in new.nodes),
        changed={name: fields for name, fields in changed.items() if fields},
        edges_added=tuple(edge for edge in plan_edges(new) if edge not in before),
        edges_removed=tuple(edge for edge in plan_edges(old) if edge not in after),
        rules=dict(_rules(old, new)),
    )


def plan_edges(plan: GraphPlan) -> list[Edge]:
    """The edges of a plan, once each, in its order."""
    return list(dict.fromkeys(_edges(plan)))


def _edges(plan: GraphPlan) -> Iterator[Edge]:
    for name, node in plan.nodes.items():
        for source in node.join.of if node.join else ():
            yield source, name, "join"
        for how, target in node.sends:
            if target in plan.nodes:
                yield name, target, how


def _fields(old: PlanNode, new: PlanNode) -> tuple[str, ...]:
    found = [f for f in _changed_fields(old, new) if f not in _EDGES]
    if old.join and new.join and old.join.need != new.join.need:
        found.append("join.need")
    return tuple(found)


def _changed_fields(old: Model, new: Model) -> list[str]:
    before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
    return [key for key in after if before.get(key) != after[key]]


def _rules(old: GraphPlan, new: GraphPlan) -> Iterator[tuple[str, tuple[str, ...]]]:
    for section in ("agents", "tools", "permissions", "approvals", "merge", "flags"):
        yield from _mapping(section, getattr(old, section), getattr(new, section))
    if limits := _changed_fields(old.limits, new.limits):
        yield "limits", tuple(limits)
    if interrupts := _changed_fields(old.interrupts, new.interrupts):
        yield "interrupts", tuple(interrupts)


def _mapping(
    section: str, old: Mapping[Any, Json], new: Mapping[Any, Json]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in (*new, *(name for name in old if name not in new)):
        if name not in old:
            yield f"{section}.{name}", ("added",)
        elif name not in new:
            yield f"{section}.{name}", ("removed",)
        elif old[name] != new[name]:
            model = isinstance(new[name], Model) and isinstance(old[name], Model)
            fields = _changed_fields(old[name], new[name]) if model else ["changed"]
            yield f"{section}.{name}", tuple(fields)

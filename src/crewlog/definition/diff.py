"""What differs between two definitions: parts added, removed and changed, in data and in words.

    diff(old, new).changes  →  changed ("agents", "writer", "tools"): agent writer: tools + git_log

Definitions differ where their hashes do, however they are written. Values are whole, defaults
filled in, so that an entry is understood without looking at the rest. Phases are compared by name,
by what they do and what they wait for, wherever in the flow they stand: a phase between two others
changes what the second one waits for, and this is an entry of its own.

The same compares registries: any model whose fields are values, models, and mappings by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeGuard

from pydantic import BaseModel

from crewlog.canonical_json import canonical
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import Phase, phases
from crewlog.definition.times import duration_words
from crewlog.definition.write import DURATIONS
from crewlog.json_diff import differences, is_same
from crewlog.model import Json, Model

_LONGEST = 60
"""Characters of a text that are shown of each side."""
_ONE = {
    "agents": "agent",
    "tools": "tool",
    "mcp": "MCP server",
    "flow": "phase",
    "flags": "flag",
    "groups": "group",
    "logs": "log",
    "artifacts": "artifact",
}
_UNSET = {
    "tools": "all that permissions allow",
    "grant": "any agent",
    "builders": "all",
    "readers": "all who list it",
    "writers": "all who list it",
}
"""What null means, where it is not nothing."""
_TABLES = {"permissions": "permission to call", "approvals": "approval of calls of"}


class Change(Model):
    """One difference."""

    kind: Literal["added", "removed", "changed"]
    path: tuple[str, ...]
    """What differs: `("agents", "writer", "timeout")`, `("permissions", "write_file")`. A phase is
    `("flow", NAME)`, and what it waits for its `after`."""
    old: Json = None
    """The value before, defaults filled in; null where it was added."""
    new: Json = None
    """The value after; null where it was removed."""
    words: str
    """The difference as people say it: `agent writer: timeout 3m → 5m`."""


class DefinitionDiff(Model):
    """All differences between two definitions; false where there is none."""

    changes: tuple[Change, ...] = ()
    """In the order of a definition's keys; within one, of the new definition, then of the old."""

    def __bool__(self) -> bool:
        return bool(self.changes)

    def under(self, *path: str) -> tuple[Change, ...]:
        """The differences in one part: `under("agents")`, `under("flow", "checker")`."""
        return tuple(change for change in self.changes if change.path[: len(path)] == path)

    def names(self, section: str, kind: Literal["added", "removed", "changed"]) -> tuple[str, ...]:
        """Which parts of a section were added, removed, or changed in any way."""
        if kind == "changed":
            inner = [c for c in self.under(section) if c.kind == kind or len(c.path) > 2]
            return tuple(dict.fromkeys(change.path[1] for change in inner if len(change.path) > 1))
        whole = [c for c in self.under(section) if c.kind == kind and len(c.path) == 2]
        return tuple(change.path[1] for change in whole)


def diff(old: CrewDefinition, new: CrewDefinition) -> DefinitionDiff:
    """What was added, removed and changed from `old` to `new`."""
    return diff_models(old, new)


def diff_models(old: Model, new: Model) -> DefinitionDiff:
    """The same of any two models of one kind, e.g. registries."""
    if not isinstance(old, CrewDefinition) or not isinstance(new, CrewDefinition):
        changes = list(_changes(_whole(old), _whole(new)))
    else:
        same = {name for name, agent in new.agents.items() if agent is old.agents.get(name)}
        before, after = _whole(old, {"agents": same}), _whole(new, {"agents": same})
        flows = (before["flow"], after["flow"])
        before["flow"], after["flow"] = _phases(old), _phases(new)
        before["rules"], after["rules"] = _rules(before["rules"], after["rules"])
        changes = list(_changes(before, after))
        if not is_same(*flows) and not any(change.path[0] == "flow" for change in changes):
            say = "the flow is written in another way, with the same phases"
            flow = Change(kind="changed", path=("flow",), old=flows[0], new=flows[1], words=say)
            changes.append(flow)
        order = [*before]
        changes += _said(old, new)
        changes.sort(key=lambda change: order.index(change.path[0]))
    return DefinitionDiff(changes=tuple(changes))


def _said(old: CrewDefinition, new: CrewDefinition) -> Iterator[Change]:
    """Defaults that an agent comes to say itself, or no longer: a builder may put others there."""
    for name, agent in new.agents.items():
        was = old.agents.get(name)
        if was is agent:
            continue
        before, after = was.said_defaults if was else (), agent.said_defaults
        for key in sorted({*before} ^ {*after}) if was else ():
            if getattr(was, key) == getattr(agent, key):
                value = _whole(agent)[key]
                say = "said of it now" if key in after else "not said of it any more"
                words = f"agent {name}: {key} {_shown(value)}, {say}"
                path = ("agents", name, key)
                yield Change(kind="changed", path=path, old=value, new=value, words=words)


def _rules(old: list[Json], new: list[Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """Rules by names that they have in both: they have none, and move when others come and go.

    The same rule is one wherever it stands; of the others, those for the same tools are.
    """
    pairs: dict[int, int] = {}
    for alike in (canonical, _about_what):
        for i, rule in enumerate(new):
            free = [n for n in range(len(old)) if n not in pairs.values()]
            known = next((n for n in free if alike(old[n]) == alike(rule)), None)
            if i not in pairs and known is not None:
                pairs[i] = known
    after = {f"rules[{i}]": rule for i, rule in enumerate(new)}
    before = {f"rules[{i}]": old[n] for i, n in sorted(pairs.items())}
    for n, rule in enumerate(old):
        if n not in pairs.values():
            name = f"rules[{n}]"
            before[name if name not in after else f"{name} before"] = rule
    return before, after


def _about_what(rule: Json) -> bytes:
    return canonical([rule["tool"], rule["agents"]])


def _whole(model: BaseModel, but: Mapping[str, set[str]] | None = None) -> dict[str, Json]:
    return model.model_dump(mode="json", by_alias=True, exclude=but)


def _phases(definition: CrewDefinition) -> dict[str, Json]:
    return {phase.name: _phase(phase) for phase in phases(definition)}


def _phase(phase: Phase) -> dict[str, Json]:
    return _whole(phase.item) | {"phase": phase.name, "after": _after(phase)}


def _after(phase: Phase) -> Json:
    """What a phase waits for, in full: as `after` would have to say it."""
    of = list(phase.sources)
    if not of:
        return [] if phase.entry else "go"
    if phase.need == len(of):
        return of
    return {"any": of} if phase.need == 1 else {"quorum": phase.need, "of": of}


def _changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[Change]:
    """The differences of two models as data; what a phase waits for is compared as a whole."""
    for kind, path, before, after, _ in differences(old, new, is_leaf=_is_join):
        words = _words(kind, path, before, after)
        yield Change(kind=kind, path=path, old=before, new=after, words=words)


def _is_join(path: tuple[str, ...]) -> bool:
    return path[-1:] == ("after",)


# -- in words --------------------------------------------------------------------------------


def _words(kind: str, path: tuple[str, ...], old: Json, new: Json) -> str:
    section, *names = path
    if section in _TABLES and len(names) == 1:
        return _in_table(section, names[0], kind, old, new)
    if section == "groups" and len(names) == 1:
        return _change(f"group {names[0]}:", kind, old, new)
    if section == "rules" and len(names) == 1:
        return f"rule {kind}: {_rule(new if kind == 'added' else old)}"
    if section == "rules" and names:
        return f"{names[0]}: {_change('.'.join(names[1:]), kind, old, new)}"
    if section == "groups" and len(names) == 1:
        return _group(names[0], kind, old, new)
    if section in _ONE and names:
        what = f"{_ONE[section]} {names[0]}"
        if len(names) == 1 and section != "flags":
            return what + _about(section, new if kind == "added" else old)
        inner = ".".join(names[1:]) or "starts as"
        return f"{what}: {_change(inner, kind, old, new)}"
    if section == "limits" and names:
        return f"limit {_change('.'.join(names), kind, old, new)}"
    return _change(".".join(path), kind, old, new)


def _about(section: str, value: Json) -> str:
    """What a part that came or went is, in a few words."""
    if section == "agents":
        tools = value.get("tools")
        return f", with {listed(tools)}" if tools else ""
    if section == "tools":
        return f", {value['run']}"
    if section == "mcp":
        return f", {value['url'] or value['command']}"
    if section == "artifacts":
        return f", seen by {_all(value['readers'])}, changed by {_all(value['writers'])}"
    if section == "logs":
        return f", read by {_who(value['readers'])}, written by {_who(value['writers'])}"
    return f", after {_waits(value['after'])}" if value["after"] not in ([], "go") else ""


def _who(named: Json) -> str:
    return "all who list it" if named is None else listed(named) if named else "nobody"


def _all(named: Json) -> str:
    return "every agent" if named is None else _who(named)


def _rule(rule: Json) -> str:
    """A rule in a few words: `send never by group:all if not ok`."""
    tools = [rule["tool"]] if isinstance(rule["tool"], str) else rule["tool"]
    plain = rule["do"] == "always" and rule["quota"] is not None
    parts = [listed(tools)] if plain else [listed(tools), rule["do"]]
    parts += [f"by {listed(rule['agents'])}"] if rule["agents"] is not None else []
    parts += [f"if {rule['if']}"] if rule["if"] is not None else []
    parts += [f"at most {rule['quota']}"] if rule["quota"] is not None else []
    return " ".join(parts)


def _group(name: str, kind: str, old: Json, new: Json) -> str:
    """`group editors: + checker`."""
    if kind == "changed":
        return _change(f"group {name}:", kind, old, new)
    agents = new if kind == "added" else old
    return f"group {name} {kind}: {listed(agents) if agents else 'nobody'}"


def _in_table(section: str, tool: str, kind: str, old: Json, new: Json) -> str:
    def who(value: Json) -> str:
        if value is None:
            return "every agent that lists it" if section == "permissions" else "every agent's"
        return listed(value) if value else "nobody" if section == "permissions" else "nobody's"

    absent: Json = None if section == "permissions" else []
    before, after = (absent if kind == "added" else old), (absent if kind == "removed" else new)
    return f"{_TABLES[section]} {tool}: {who(before)} → {who(after)}"


def _change(what: str, kind: str, old: Json, new: Json) -> str:
    if what == "after":
        return f"waits for {_waits(old)} → {_waits(new)}"
    if kind == "added":
        return f"{what} {_shown(new)}"
    if kind == "removed":
        return f"{what} {_shown(old)}"
    if _is_names(old) and _is_names(new):
        came = [f"+ {name}" for name in new if name not in old]
        went = [f"– {name}" for name in old if name not in new]  # noqa: RUF001
        if came or went:
            return f"{what} {', '.join(came + went)}"
    if isinstance(old, str) and isinstance(new, str):
        old, new = _around_difference(old, new)
    if what.rpartition(".")[2] in DURATIONS:
        old, new = _duration(old), _duration(new)
    unset = _UNSET.get(what, "nothing")
    before, after = _shown(old, unset), _shown(new, unset)
    if before == after and len(before) < _LONGEST:  # `1` and `1.0`, `x` and `"x"`
        before, after = json.dumps(old), json.dumps(new)
    return f"{what} {before} → {after}"


def _duration(value: Json) -> Json:
    """Seconds as people write them in a file; other values as they are."""
    return duration_words(value) if isinstance(value, int | float) else value


def _waits(after: Json) -> str:
    """`a and b`, `the first of a and b`: what a phase waits for."""
    if _is_mapping(after):
        if "any" in after:
            return f"the first of {listed(after['any'])}"
        return f"{after['quorum']} of {listed(after['of'])}"
    if after == "go":
        return "being sent to"
    return listed(after) if after else "nothing"


def _around_difference(old: str, new: str) -> tuple[str, str]:
    """Two long texts from just before the first word that differs."""
    if max(len(old), len(new)) <= _LONGEST:
        return old, new
    before, after = re.findall(r"\S+\s*", old), re.findall(r"\S+\s*", new)
    pairs = zip(before, after, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(before), len(after)))
    start = max(0, same - 3)
    lead = "…" if start else ""
    return lead + "".join(before[start:]), lead + "".join(after[start:])


def _shown(value: Json, unset: str = "nothing") -> str:
    if value is None or value == []:
        return unset if value is None else "none"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if _is_names(value) and value:
        text = ", ".join(value)
    elif isinstance(value, str) and re.fullmatch(r"\S+", value):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _is_names(value: Json) -> TypeGuard[list[str]]:
    if not isinstance(value, list):
        return False
    parts: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
    return all(isinstance(part, str) for part in parts)


def _is_mapping(value: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, dict)

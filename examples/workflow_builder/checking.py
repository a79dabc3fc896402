"""Whether a workflow can run: what is wrong with it, and what to do about each fault.

A workflow is data:

    {"nodes": {"Every morning": {"type": "trigger.schedule", "parameters": {"rule": "days"}}},
     "connections": {"Every morning:main->Weather:main":
                     {"from": "Every morning", "output": "main", "to": "Weather", "input": "main"}}}

A parameter may name a result of a node that comes before: `{{Weather.temperature}}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from catalogue import NodeType, Parameter, catalogue

Workflow = Mapping[str, Any]
EMPTY: Workflow = {"nodes": {}, "connections": {}}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9 _-]{0,59}")
"""What a node may be called."""
LOOPS = "flow.batch_loop"
"""The one type that a way may lead back to."""
_RESULT = re.compile(r"\{\{\s*([A-Za-z][A-Za-z0-9 _-]*?)\s*\.\s*[^{}]+\}\}")
_PLAIN: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "expression": (str, int, float, bool, list, dict),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "json": (dict, list),
}


@dataclass(frozen=True)
class Fault:
    """One thing that keeps a workflow from running."""

    where: str
    """The node or the connection; empty: the workflow."""
    what: str
    """What is wrong."""
    remedy: str
    """What to do."""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}. {self.remedy}"


def faults_of(workflow: Workflow) -> list[Fault]:
    """Everything that is wrong with a workflow, in the order of its nodes and connections."""
    nodes: Mapping[str, Any] = workflow.get("nodes") or {}
    connections: Mapping[str, Any] = workflow.get("connections") or {}
    if not nodes:
        return [Fault("", "it has no nodes", "Add some, beginning with a trigger.")]
    before = _before(nodes, connections)
    found = [fault for name, node in nodes.items() for fault in _of_node(name, node, nodes, before)]
    found += [fault for each in connections.values() for fault in _of_connection(each, nodes)]
    return [*found, *_of_whole(nodes, connections, before)]


def credentials_of(workflow: Workflow) -> list[str]:
    """Which credentials a person has to connect before the workflow can run."""
    types = (
        catalogue().get(node.get("type", "")) for node in (workflow.get("nodes") or {}).values()
    )
    needed = (each.credentials for each in types if each)
    return sorted({name for name in needed if name and not name.endswith("?")})


def key_of(source: str, output: str, target: str, entry: str) -> str:
    """What a connection is called: two of the same ends are one."""
    return f"{source}:{output}->{target}:{entry}"


def fault_of_value(name: str, value: Any, parameter: Parameter) -> Fault | None:
    """What is wrong with a parameter's value, if anything."""
    if parameter.kind == "choice":
        if value in parameter.options:
            return None
        options = ", ".join(parameter.options)
        return Fault("", f"{name!r} is {value!r}", f"It is one of: {options}.")
    if parameter.kind != "text" and isinstance(value, str) and _RESULT.search(value):
        return None  # known when it runs
    wanted = _PLAIN[parameter.kind]
    right = isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))
    if right:
        return None
    return Fault("", f"{name!r} is a {type(value).__name__}", f"It takes: {parameter.kind}.")


def unknown_type(type_: str) -> str:
    """What to do about a type that the catalogue does not have."""
    close = get_close_matches(type_, catalogue(), n=2, cutoff=0.5)
    return f"Did you mean {' or '.join(close)}?" if close else "Search for a type that there is."


def _of_node(
    name: str, node: Mapping[str, Any], nodes: Mapping[str, Any], before: Mapping[str, set[str]]
) -> Iterator[Fault]:
    known = catalogue().get(node.get("type", ""))
    if known is None:
        remedy = unknown_type(str(node.get("type")))
        yield Fault(name, f"there is no node type {node.get('type')!r}", remedy)
        return
    given: Mapping[str, Any] = node.get("parameters") or {}
    for each in known.required:
        if given.get(each) in (None, "", [], {}):
            about = known.parameters[each].about
            yield Fault(name, f"the parameter {each!r} is missing", f"Set it: {about}.")
    for each, value in given.items():
        if each not in known.parameters:
            remedy = f"It has: {', '.join(known.parameters) or 'none'}."
            yield Fault(name, f"{known.type} has no parameter {each!r}", remedy)
        elif fault := fault_of_value(each, value, known.parameters[each]):
            yield Fault(name, fault.what, fault.remedy)
    for other in sorted({found for text in _texts(given) for found in _RESULT.findall(text)}):
        if other not in nodes:
            yield Fault(name, f"it uses a result of {other!r}, which is no node", "Correct it.")
        elif other not in before[name]:
            yield Fault(
                name,
                f"it uses a result of {other!r}, which does not come before it",
                "Connect them.",
            )


def _of_connection(each: Mapping[str, Any], nodes: Mapping[str, Any]) -> Iterator[Fault]:
    where = key_of(each["from"], each["output"], each["to"], each["input"])
    for end, port, what in (("from", "output", "outputs"), ("to", "input", "inputs")):
        name = each[end]
        if name not in nodes:
            yield Fault(where, f"there is no node {name!r}", "Add it, or remove the connection.")
            continue
        known = catalogue().get(nodes[name].get("type", ""))
        ports: tuple[str, ...] = getattr(known, what) if known else (each[port],)
        if each[port] not in ports:
            told = ", ".join(ports) or "none"
            yield Fault(where, f"{name!r} has no {port} {each[port]!r}", f"Its {what}: {told}.")


def _of_whole(
    nodes: Mapping[str, Any], connections: Mapping[str, Any], before: Mapping[str, set[str]]
) -> Iterator[Fault]:
    triggers = {name for name, node in nodes.items() if _type(node).trigger}
    if not triggers:
        yield Fault("", "nothing starts it", "Add a node of the group trigger.")
    for name in nodes:
        if name not in triggers and triggers and not before[name] & triggers:
            yield Fault(name, "no trigger leads to it", "Connect it, or remove it.")
    loops = {name for name, node in nodes.items() if node.get("type") == LOOPS}
    rest = [each for each in connections.values() if each["to"] not in loops]
    for name in sorted(_in_circles(nodes, rest)):
        yield Fault(name, "it is part of a circle", f"Only {LOOPS} may be led back to.")


def _before(nodes: Mapping[str, Any], connections: Mapping[str, Any]) -> dict[str, set[str]]:
    """For each node, all that come before it."""
    direct: dict[str, set[str]] = {name: set() for name in nodes}
    for each in connections.values():
        if each["from"] in nodes and each["to"] in nodes:
            direct[each["to"]].add(each["from"])
    found: dict[str, set[str]] = {}
    for name in nodes:
        reached: set[str] = set()
        open_ = list(direct[name])
        while open_:
            if (one := open_.pop()) not in reached:
                reached.add(one)
                open_ += direct[one]
        found[name] = reached
    return found


def _in_circles(nodes: Mapping[str, Any], connections: list[Mapping[str, Any]]) -> set[str]:
    before = _before(nodes, {str(at): each for at, each in enumerate(connections)})
    return {name for name in nodes if name in before[name]}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


_NOTHING = NodeType("", "", "", "", (), ())


def _type(node: Mapping[str, Any]) -> NodeType:
    return catalogue().get(node.get("type", ""), _NOTHING)

"""What the agents may do: look things up in the catalogue, and change the workflow by operations.

No tool holds the workflow. Each looks at it as it stands, says what is to change, and the run
applies that in the order of the calls; so a workflow can be shown as it was at any time.
"""

from __future__ import annotations

from typing import Any

from catalogue import NodeType, catalogue, groups, search
from checking import (
    EMPTY,
    NAME,
    Workflow,
    credentials_of,
    fault_of_value,
    faults_of,
    key_of,
    unknown_type,
)
from langgraph.types import Command

from crewlog import artifact_update, current_call
from crewlog.operations import expect, merge, remove

ARTIFACT = "workflow"
FOUND = "discovery.found"
"""The input that names the types an agent works with, where its crew declares it."""
_MOST_DETAILS = 8


# -- looking things up ---------------------------------------------------------------------------


def search_nodes(words: str, group: str = "", most: int = 6) -> str:
    """Searches the whole catalogue for node types that do something.

    Args:
        words: What the node is to do, e.g. `send email`.
        group: Only types of this group, e.g. `trigger`; empty: all groups.
        most: How many at most.
    """
    if group and group not in groups():
        raise ValueError(f"there is no group {group!r}: {', '.join(groups())}")
    found = search(words, group, max(1, min(most, 20)))
    if not found:
        return f"Nothing fits {words!r}. Try other words. Groups: {', '.join(groups())}."
    return "\n".join(each.line for each in found)


def node_details(types: list[str]) -> str:
    """Shows inputs, outputs and parameters of node types, of the whole catalogue.

    Args:
        types: At most eight, e.g. `["net.http_request"]`.
    """
    return _details([_known(each) for each in types[:_MOST_DETAILS]])


def whole_catalogue() -> str:
    """Shows every type of the catalogue, with inputs, outputs and parameters."""
    return _details(list(catalogue().values()))


def discovered_details() -> str:
    """Shows inputs and outputs of the node types that were found for this workflow."""
    types = _discovered()
    if not types:
        return "Nothing was discovered."
    return "\n".join(each.ports for each in types)


def used_details() -> str:
    """Shows the parameters of the node types that the workflow uses, and of no others."""
    used = dict.fromkeys(node.get("type", "") for node in _workflow()["nodes"].values())
    types = [catalogue()[each] for each in used if each in catalogue()]
    if not types:
        return "The workflow has no nodes yet."
    return "\n".join(each.manual for each in types)


# -- changing the workflow -----------------------------------------------------------------------


def add_node(name: str, node_type: str) -> Command[Any]:
    """Adds a node to the workflow.

    Args:
        name: What it is called in this workflow, e.g. `Every morning`.
        node_type: Its type, e.g. `trigger.schedule`.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: a letter, then letters, digits, blanks, - and _")
    if name in _workflow()["nodes"]:
        raise ValueError(f"there is a node {name!r} already: choose another name")
    known = _known(node_type)
    found = _discovered()
    if found and known not in found:
        raise ValueError(
            f"{node_type} was not discovered for this workflow; there are: "
            f"{', '.join(each.type for each in found)}"
        )
    node = {"type": node_type, "parameters": {}}
    return artifact_update(
        merge("", {"nodes": {name: node}}), said=f"Added {name!r}. {known.ports}."
    )


def connect_nodes(
    source: str, target: str, output: str = "main", input: str = "main"
) -> Command[Any]:
    """Connects an output of a node with an input of another.

    Args:
        source: The node that hands its items on.
        target: The node that takes them.
        output: Which output of the source.
        input: Which input of the target.
    """
    nodes = _workflow()["nodes"]
    _check_port(nodes, source, "outputs", output)
    _check_port(nodes, target, "inputs", input)
    connection = {"from": source, "output": output, "to": target, "input": input}
    key = key_of(source, output, target, input)
    later = [each for each in (source, target) if each not in nodes]
    note = f" {' and '.join(map(repr, later))} must be added, too." if later else ""
    return artifact_update(
        merge("", {"connections": {key: connection}}),
        said=f"Connected {source!r} with {target!r}.{note}",
    )


def remove_node(name: str) -> Command[Any]:
    """Removes a node, with all of its connections.

    Args:
        name: The node.
    """
    workflow = _workflow()
    _node(workflow, name)
    loose = [
        remove(_path("connections", key))
        for key, each in workflow["connections"].items()
        if name in (each["from"], each["to"])
    ]
    said = f"Removed {name!r} and {len(loose)} of its connections."
    return artifact_update(*loose, remove(_path("nodes", name)), said=said)


def set_parameters(node: str, parameters: dict[str, Any]) -> Command[Any]:
    """Sets parameters of a node; the others stay as they are.

    Args:
        node: The node's name.
        parameters: Values by parameter; null takes one away. `{{Weather.temperature}}` is a result
            of the node Weather.
    """
    known = _known(str(_node(_workflow(), node).get("type")))
    for name, value in parameters.items():
        if name not in known.parameters:
            told = ", ".join(known.parameters) or "none"
            raise ValueError(f"{known.type} has no parameter {name!r}; it has: {told}")
        fault = fault_of_value(name, value, known.parameters[name])
        if fault and value is not None:
            raise ValueError(f"{fault.what}. {fault.remedy}")
    return artifact_update(
        expect(_path("nodes", node, "type"), known.type),  # it may be another one by then
        merge(_path("nodes", node, "parameters"), parameters),
        said=f"Set {', '.join(parameters)} of {node!r}.",
    )


def validate_workflow() -> str:
    """Checks the workflow: types, connections, circles, triggers, and required parameters."""
    workflow = _workflow()
    faults = faults_of(workflow)
    if faults:
        count = f"{len(faults)} fault" + ("s" if len(faults) != 1 else "")
        return "\n".join([f"{count}:", *(f"- {each}" for each in faults)])
    needed = ", ".join(credentials_of(workflow)) or "none"
    return f"Valid: {len(workflow['nodes'])} nodes. Credentials to connect: {needed}."


# -- what they share -----------------------------------------------------------------------------


def _workflow() -> Workflow:
    """The workflow as it stands."""
    return {**EMPTY, **current_call().artifact(ARTIFACT)}


def _discovered() -> list[NodeType]:
    """The types that this agent is to work with; none where its crew restricts it to none."""
    found: Any = current_call().inputs.get(FOUND) or []
    types = [each.get("type", "") if isinstance(each, dict) else str(each) for each in found]
    return [catalogue()[each] for each in types if each in catalogue()]


def _known(type_: str) -> NodeType:
    found = catalogue().get(type_)
    if found is None:
        raise ValueError(f"there is no node type {type_!r}. {unknown_type(type_)}")
    return found


def _node(workflow: Workflow, name: str) -> dict[str, Any]:
    found = workflow["nodes"].get(name)
    if found is None:
        there = ", ".join(workflow["nodes"]) or "none yet"
        raise ValueError(f"there is no node {name!r}; there are: {there}")
    return found


def _check_port(nodes: dict[str, Any], name: str, what: str, port: str) -> None:
    """Refuses a port that a node does not have. One that is added in this turn cannot be seen."""
    known = catalogue().get(nodes[name].get("type", "")) if name in nodes else None
    ports: tuple[str, ...] = getattr(known, what) if known else (port,)
    if port not in ports:
        told = ", ".join(ports) or "none"
        raise ValueError(f"{name!r} has no {what.removesuffix('s')} {port!r}; it has: {told}")


def _details(types: list[NodeType]) -> str:
    return "\n".join(f"{each.manual}\n  {each.ports.partition(': ')[2]}" for each in types)


def _path(*keys: str) -> str:
    """The place of a key inside the workflow."""
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in keys)

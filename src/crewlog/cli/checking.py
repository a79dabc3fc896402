"""What `crewlog validate` and `crewlog schema` do."""

from __future__ import annotations

from pathlib import Path

from crewlog.authority.authority_text import policy_lines
from crewlog.cli import exits
from crewlog.cli.dry import dry_run_of, show_dry_run
from crewlog.cli.preflight import check_code
from crewlog.cli.problems import fields_of, show_diagnostic
from crewlog.cli.screen import Part, Screen, counted, plain
from crewlog.definition.findings import did_you_mean, listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.reaching import mcp_tool
from crewlog.errors import UsageError
from crewlog.graph.lowering.plans import lower

SCHEMAS = ("crew", "registry", "reading")


def check_crew(file: str, assumed: list[str] | None, *, as_json: bool) -> int:
    """Check a crew's file; with `assumed`, route it without calling anything, too."""
    from crewlog.cli.files import load_crew  # noqa: PLC0415
    from crewlog.cli.preflight import worker_warnings  # noqa: PLC0415
    from crewlog.definition.load import warnings_in  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    definition = load_crew(file)
    if assumed is None:  # a dry run calls nothing: its code may not be written yet
        check_code(definition, Path(file))
    plan = lower(definition)
    warned = [*warnings_in(file, definition), *worker_warnings(definition, Path(file))]
    run = None if assumed is None else dry_run_of(plan, assumed)
    if as_json:
        document = {
            "valid": True,
            "crew": plan.crew,
            "definition": plan.definition,
            "agents": list(plan.agents),
            "tools": list(plan.tools),
            "nodes": list(plan.nodes),
            "rules": list(plan.rules),
            "policy": list(policy_lines(definition)) if definition.policy is not None else [],
            "to_approve": unapproved(definition),
            "warnings": [fields_of(each) for each in warned],
        }
        screen.document(document if run is None else {**document, "dry_run": run})
        return exits.OK
    screen.line(
        ("✓ ", "green"),
        f"{plain(file)}: crew ",
        (plan.crew, "bold"),
        " · ",
        " · ".join(
            [
                counted(len(plan.agents), "agent"),
                counted(len(plan.tools), "tool"),
                counted(len(plan.nodes), "node"),
            ]
        ),
    )
    if run is not None:
        show_dry_run(screen, run)
    else:
        for rule in plan.rules:
            screen.line(("  ", ""), (plain(rule), "dim"))
    if definition.policy is not None:
        for line in policy_lines(definition):
            screen.wrapped(["  "], f"policy: {plain(line)}", indent=4)
    if tools := unapproved(definition):
        told = f"a person must approve what the server says of {listed(map(plain, tools))}"
        screen.wrapped(["  ", ("▸ ", "yellow")], f"{told}, unless somebody has:", indent=4)
        screen.line("    ", f"crewlog mcp list {plain(file)}; crewlog mcp approve {plain(file)}")
    for each in warned:
        show_diagnostic(screen, each)
    return exits.OK


def unapproved(definition: CrewDefinition) -> list[str]:
    """The tools of servers that the definition itself does not approve."""
    tools = definition.tools.items()
    return [name for name, tool in tools if mcp_tool(tool.run) and tool.approved is None]


def check_registry(file: str, *, as_json: bool) -> int:
    """Check a registry's file."""
    from crewlog.prompt.registry_file import load_registry_file  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    found = load_registry_file(file)
    if as_json:
        screen.document(
            {
                "valid": True,
                "registry": found.registry,
                "agents": list(found.agents),
                "tools": list(found.tools),
                "models": list(found.models),
                "new_agents": found.new_agents,
                "approval": found.approval,
            }
        )
        return exits.OK
    screen.line(
        ("✓ ", "green"),
        f"{plain(file)}: registry ",
        (plain(found.registry), "bold"),
        f" · {counted(len(found.tools), 'tool')} · {counted(len(found.agents), 'agent')}",
        ("" if found.new_agents else ", no others", "dim"),
    )
    rows: list[list[Part]] = [
        [plain(name), (plain(", ".join(tool.words)), "dim")] for name, tool in found.tools.items()
    ]
    screen.rows(("", ""), rows)
    return exits.OK


def check_prompt(
    file: str, registry: str | None, assumed: list[str] | None, *, as_json: bool
) -> int:
    """Check a prompt: its errors, and what was not understood."""
    from crewlog.cli.compiling import compiled, find_offer, read_source  # noqa: PLC0415
    from crewlog.cli.prompts import faults_of  # noqa: PLC0415
    from crewlog.cli.understood import (  # noqa: PLC0415
        remarks_json,
        show_remarks,
        summary_of,
    )

    screen = Screen(as_json=as_json)
    source = read_source(file)
    found = compiled(source, find_offer(registry, source), as_json=as_json)
    faults = faults_of(found)
    if faults is not None or found.definition is None:
        raise faults or UsageError("the prompt makes no crew", place=file)
    plan = lower(found.definition)
    run = None if assumed is None else dry_run_of(plan, assumed)
    if as_json:
        document = {
            "valid": True,
            "crew": plan.crew,
            "definition": plan.definition,
            "understood": found.understood,
            "remarks": remarks_json(found),
            "agents": list(plan.agents),
            "tools": list(plan.tools),
            "nodes": list(plan.nodes),
            "rules": list(plan.rules),
        }
        screen.document(document if run is None else {**document, "dry_run": run})
        return exits.OK
    screen.line(
        ("✓ " if found.understood else "! ", "green" if found.understood else "yellow"),
        f"{plain(file)}: crew ",
        (plain(plan.crew), "bold"),
        f" · {counted(len(plan.agents), 'agent')} · {counted(len(plan.nodes), 'node')}",
        f" · {summary_of(found)}",
    )
    show_remarks(screen, found)
    if run is not None:
        show_dry_run(screen, run)
    return exits.OK


def schema_of(what: str) -> str:
    """A JSON Schema as text.

    Raises:
        UsageError: there is none of that name.
    """
    from crewlog.definition import schema  # noqa: PLC0415
    from crewlog.prompt.reading import reading_schema  # noqa: PLC0415
    from crewlog.prompt.registry_schema import registry_schema_text  # noqa: PLC0415

    if what == "crew":
        return schema.schema_text()
    if what == "registry":
        return registry_schema_text()
    if what == "reading":
        # A model's strict schema has no `$schema`: only the printed one does.
        return schema.schema_text({"$schema": schema.DIALECT, **reading_schema()})
    raise UsageError(
        f"there is no schema {what!r}",
        remedy=did_you_mean(what, SCHEMAS, f"There are: {', '.join(SCHEMAS)}."),
        place="crewlog schema",
    )

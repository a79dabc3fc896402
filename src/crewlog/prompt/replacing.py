"""A crew's file that a prompt is compiled over: what people wrote into it stands.

As where a prompt changes a run (`crewlog.prompt.keeping`): rules, groups, logs, questions, limits
and the like are kept, and where the prompt, or its registry, says otherwise, nothing is written and
each thing that would be lost is named. The file is the prompt's own, so that its crew may get
another name, and what it does otherwise (its flow, its agents' prompts) is what the prompt says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from crewlog.definition.diff import diff
from crewlog.definition.findings import Finding, listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import all_findings
from crewlog.errors import InvalidDefinition
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.keeping import kept
from crewlog.prompt.registry import Registry


def replacing(
    found: CompiledPrompt, before: CrewDefinition, registry: Registry, file: str
) -> CompiledPrompt:
    """The compiled prompt, its crew with all that stands of the one that it replaces.

    Args:
        found: What the prompt was compiled to, under the names that the file has.
        before: The crew in the file.
        registry: What the prompt could use.
        file: What the file is called in messages.

    Raises:
        InvalidDefinition: something would be lost; each of these is named, with what to do.
    """
    fresh = found.definition
    if fresh is None:
        return found
    lost = list(_permissions(before, fresh))
    crew = fresh
    try:
        crew = kept(before, fresh, registry, own=False, permissions=before.permissions)
    except InvalidDefinition as error:
        lost = [*(Finding(tuple(d.path), d.message, "") for d in error.diagnostics), *lost]
    crew = crew.model_copy(update={"crew": fresh.crew})
    lost += [each for each in all_findings(crew) if each.severity == "error"]
    if lost:
        remedy = f"Say it in the prompt as {file} has it, or take it out of {file} first."
        told = [replace(each, remedy=each.remedy or remedy) for each in lost]
        raise InvalidDefinition([each.diagnostic() for each in told])
    return replace(found, definition=crew)


def replaced(before: CrewDefinition, after: CrewDefinition) -> list[str]:
    """What becomes of a file, a line for each difference; empty where nothing does."""
    return [change.words for change in diff(before, after).changes]


def _permissions(before: CrewDefinition, fresh: CrewDefinition) -> Iterator[Finding]:
    """Tools that the prompt gives to agents by name whom the file does not let call them."""
    for tool, named in before.permissions.items():
        now = fresh.permissions.get(tool)
        if named is None or now is None:
            continue  # where the prompt names nobody, those of the file stand
        more = [name for name in now if name not in named]
        if more:
            say = f"permissions do not let {listed(more)} call {tool}, and the prompt does"
            yield Finding(("permissions", tool), say, "")

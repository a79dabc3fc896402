"""Arguments that are declared as paths or URLs, followed before the call that is to use them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crewlog.activities.arguments import guarded, refusal
from crewlog.activities.tools import Tool
from crewlog.errors import NotInAllowlist
from crewlog.guarded.files import resolve_within
from crewlog.guarded.http import url_error


async def allowlist_error(tool: Tool, args: Mapping[str, Any], workspace: Path) -> str | None:
    """Where an argument leads that it may not, as the model is told it; none where it may.

    `argument_error` has judged how they are written; here links are followed and names looked up.

    Args:
        tool: The tool.
        args: The call's arguments, which `argument_error` found nothing wrong with.
        workspace: The run's folder.
    """
    definition = tool.definition
    faults: list[str] = []
    for name, path in guarded(tool, "path", args):
        try:
            resolve_within(workspace, path, definition.paths)
        except NotInAllowlist as exc:
            faults.append(f"{name}: {exc.message}")
    for name, url in guarded(tool, "url", args):
        if fault := await url_error(url, definition.hosts):
            faults.append(f"{name}: {fault}")
    return refusal(tool.tool.name, faults) if faults else None

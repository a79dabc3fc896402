"""`python -m crewlog.workers.code_check FILE`: checks that a worker can load a crew's code.

The definition is read from standard input. Modules are imported as a worker imports them, in this
separate process: they may print, hang, or end it. So FILE gets a line of JSON before each check,
and another one after a check that failed: the last line shows at which check the process ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.tool_calls import check_argument_names
from crewlog.activities.tool_loader import ToolLoader
from crewlog.definition.model import CrewDefinition
from crewlog.definition.reaching import mcp_tool
from crewlog.errors import CrewlogError, error_text
from crewlog.ids import ToolName

SCRIPTED = "scripted:"
MODEL_TIMEOUT = 60.0
"""Timeout for the creation of a scripted model."""
CodeCheck = tuple[list[str], Coroutine[Any, Any, object]]
"""A path in the definition, and the check of the object that it names."""


def code_checks(crew: CrewDefinition) -> Iterator[CodeCheck]:
    """Yields the checks: of the functions of tools, and of scripts."""
    loader, models = ToolLoader(), ModelFactory()
    for name, tool in crew.tools.items():
        if tool.queue is None and mcp_tool(tool.run) is None:
            yield ["tools", name, "run"], _check_tool(loader, ToolName(name), crew)
    paths = {agent.model: ["agents", name, "model"] for name, agent in crew.agents.items()}
    for model, path in {**paths, crew.model: ["model"]}.items():
        if model is not None and model.startswith(SCRIPTED):
            yield path, models.get(model, {}, MODEL_TIMEOUT)


async def _check_tool(loader: ToolLoader, name: ToolName, crew: CrewDefinition) -> None:
    check_argument_names(await loader.load(name, crew))


def main(file: Path) -> None:
    """Runs all checks, and writes the errors to a file."""
    crew = CrewDefinition.from_json(json.load(sys.stdin))
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as in a worker
    with file.open("w", encoding="utf-8") as out:

        def write(**line: Any) -> None:
            out.write(json.dumps(line) + "\n")
            out.flush()

        for path, check in code_checks(crew):
            write(path=path)
            try:
                asyncio.run(check)
            except CrewlogError as error:
                write(path=path, message=error.message, remedy=error.remedy)
            except Exception as error:  # noqa: BLE001 - the crew's code may raise anything
                write(path=path, message=error_text(error), remedy="")
        write(path=[])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # the modules may have started threads

"""`python -m crewlog.workers.code_check FILE`: what of a crew's code a worker here would lack.

The crew comes by standard input. Modules are imported as a worker imports them, in a process of its
own: they may print, take for ever, or end it. So FILE gets a line of JSON before each look, and one
after a look that found a fault: whoever reads it knows at what this ended.
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
from crewlog.activities.tools import ToolLoader
from crewlog.definition.model import CrewDefinition, ToolDefinition
from crewlog.definition.reaching import mcp_tool
from crewlog.errors import CrewlogError, in_words
from crewlog.ids import ToolName

SCRIPTED = "scripted:"
SECONDS = 60.0
"""How long a script's model may take to be made."""
Look = tuple[list[str], Coroutine[Any, Any, object]]
"""A place in the definition, and what is done to see whether it names what is there."""


def looks(crew: CrewDefinition) -> Iterator[Look]:
    """All that is looked at: functions of tools, and scripts of models."""
    registry, models = ToolLoader(), ModelFactory()
    for name, tool in crew.tools.items():
        if tool.queue is None and mcp_tool(tool.run) is None:
            yield ["tools", name, "run"], _ready(registry, ToolName(name), tool)
    named = {agent.model: ["agents", name, "model"] for name, agent in crew.agents.items()}
    for model, path in {**named, crew.model: ["model"]}.items():
        if model is not None and model.startswith(SCRIPTED):
            yield path, models.ready(model, {}, SECONDS)


async def _ready(registry: ToolLoader, name: ToolName, definition: ToolDefinition) -> None:
    check_argument_names(await registry.ready(name, definition))


def main(file: Path) -> None:
    """Looks at everything, and writes what is wrong."""
    crew = CrewDefinition.from_json(json.load(sys.stdin))
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as in a worker
    with file.open("w", encoding="utf-8") as out:

        def tell(**line: Any) -> None:
            out.write(json.dumps(line) + "\n")
            out.flush()

        for path, look in looks(crew):
            tell(path=path)
            try:
                asyncio.run(look)
            except CrewlogError as fault:
                tell(path=path, message=fault.message, remedy=fault.remedy)
            except Exception as fault:  # noqa: BLE001 - whatever its author's code raises
                tell(path=path, message=in_words(fault), remedy="")
        tell(path=[])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    os._exit(0)  # whatever threads the modules have begun

"""Crewlog: crews of LLM agents as durable Temporal workflows, routed by LangGraph.

The names below are loaded at their first use, so that the import is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crewlog.client import Client, Run, connect
    from crewlog.definition.builders import Built, Place
    from crewlog.definition.decisions import Decision, decision
    from crewlog.graph.lowering.builders import builder
    from crewlog.graph.lowering.conditional_edges import choose, route
    from crewlog.model import Model
    from crewlog.operations import artifact_update
    from crewlog.prompt.compile import compile_prompt
    from crewlog.prompt.compiled import CompiledPrompt
    from crewlog.prompt.registry import Registry
    from crewlog.tool_call import current_call

    __version__: str

__all__ = [
    "Built",
    "Client",
    "CompiledPrompt",
    "Decision",
    "Model",
    "Place",
    "Registry",
    "Run",
    "__version__",
    "artifact_update",
    "builder",
    "choose",
    "compile_prompt",
    "connect",
    "current_call",
    "decision",
    "route",
]

_MODULES = {
    "Built": "crewlog.definition.builders",
    "Client": "crewlog.client",
    "CompiledPrompt": "crewlog.prompt.compiled",
    "Model": "crewlog.model",
    "Decision": "crewlog.definition.decisions",
    "Place": "crewlog.definition.builders",
    "Registry": "crewlog.prompt.registry",
    "Run": "crewlog.client",
    "artifact_update": "crewlog.operations",
    "builder": "crewlog.graph.lowering.builders",
    "choose": "crewlog.graph.lowering.conditional_edges",
    "compile_prompt": "crewlog.prompt.compile",
    "connect": "crewlog.client",
    "current_call": "crewlog.tool_call",
    "decision": "crewlog.definition.decisions",
    "route": "crewlog.graph.lowering.conditional_edges",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - reads files: only on demand

        value: Any = version("crewlog")
    elif name in _MODULES:
        from importlib import import_module  # noqa: PLC0415 - see the module's docstring

        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module 'crewlog' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

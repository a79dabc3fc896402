"""Temporal's sandbox for the workflow modules, and what passes through it, each with its reason."""

from __future__ import annotations

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

PASSED_THROUGH: dict[str, str] = {
    "langgraph": "large, and pure as it is driven here: no Pregel loop, no I/O, async routers",
    "langchain_core": "langgraph's base; messages must be the same classes in and out",
    "langsmith": "imported by langchain_core; tracing is turned off where the graph is driven",
    "pydantic": "models rebuilt for every execution cost 390 ms each time",
    "pydantic_core": "compiled part of pydantic",
    "requests": "langsmith imports it lazily; it is never called",
    "urllib3": "imported by requests",
    "httpx": "imported by langsmith and langgraph_sdk; it is never called",
    "xxhash": "langgraph's task ids; compiled",
    "ormsgpack": "langgraph's serializer; compiled, never called",
    "crewlog.authority": "pure core",
    "crewlog.content": "pure core",
    "crewlog.definition": "pure core",
    "crewlog.errors": "error classes must be the same in and out",
    "crewlog.graph": "pure core",
    "crewlog.ids": "pure core",
    "crewlog.model": "pure core",
    "crewlog.state": "pure core",
    "crewlog.wire": "models of the wire contract: no I/O",
}
"""Never the root package: then the workflow modules would pass through too."""


def sandbox() -> SandboxedWorkflowRunner:
    """The runner of workflow code."""
    return SandboxedWorkflowRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    )

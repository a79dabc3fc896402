"""Temporal's sandbox for the workflow modules, and why modules pass through it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import (
    Worker,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from typing_extensions import override

from crewlog.encryption.codec import is_given_up, is_unavailable, missing_file
from crewlog.wire import WORKFLOW_TYPE
from crewlog.workers.payload_places import PayloadPlaces, create_payload_places
from crewlog.workers.sdk_workarounds import (
    ENDED_EARLY,
    EarlyEnd,
    InstanceWithContexts,
    LocalActivities,
    Progress,
    WorkerHost,
    activate_updates_last,
    with_jobs,
    with_packed_signals,
)

PASSED_THROUGH: dict[str, str] = {
    "langgraph": "large; pure as the engine uses it: no Pregel loop, no I/O, async routers",
    "langchain_core": "langgraph's base; messages must be the same classes in and out",
    "langsmith": "imported by langchain_core; tracing is turned off where the graph is driven",
    "pydantic": "models rebuilt for every execution cost 390 ms each time",
    "pydantic_core": "compiled part of pydantic",
    "requests": "langsmith imports it lazily; it is never called",
    "urllib3": "imported by requests",
    "httpx": "imported by langsmith and langgraph_sdk; it is never called",
    "cryptography": "verifies signatures; compiled, and a function of its arguments as used here",
    "rfc8785": "spells JSON; pure functions",
    "xxhash": "langgraph's task ids; compiled",
    "ormsgpack": "langgraph's serializer; compiled, never called",
    "_pytest": "imported in tests by Crewlog's modules: pytest rewrites those of its plugins",
    "crewlog.authority": "pure core",
    "crewlog.canonical_json": "pure core",
    "crewlog.content_blocks": "pure core",
    "crewlog.definition": "pure core",
    "crewlog.errors": "error classes must be the same in and out",
    "crewlog.failure_details": "a model and pure functions",
    "crewlog.validation_errors": "pure functions",
    "crewlog.graph": "pure core",
    "crewlog.ids": "pure core",
    "crewlog.json_diff": "pure functions",
    "crewlog.message_files": "pure core",
    "crewlog.model": "pure core",
    "crewlog.reporting": "pure core",
    "crewlog.run_status": "pure core",
    "crewlog.state": "pure core",
    "crewlog.usage": "pure core",
    "crewlog.wire": "models of the wire contract: no I/O",
    "crewlog.workflows.activity_options": "pure; no state of its own",
    "crewlog.workflows.call_outcomes": "classes without module state, and pure functions",
    "crewlog.workflows.crew_run": "classes without module state; imported anew it costs 2 ms",
    "crewlog.workflows.execution": "classes without module state; imported anew they cost 5 ms",
    "crewlog.workflows.authorization": "pure functions, and one that waits; no module state",
    "crewlog.workflows.commands": "no module state but a table of functions, which imports fill",
    "crewlog.workflows.local_activity": "a function that waits; no module state",
    "crewlog.workflows.sdk_workarounds": "classes and functions without module state",
}
"""Never the root package: all of its modules would pass through, without reasons.

These modules are imported once, not for every execution. A contract of import-linter and rules of
ruff keep clocks, randomness and I/O out of `crewlog.workflows` (docs/decisions/0012).
"""


_PRELOADED = (
    "langchain_core.tracers.context",
    "langchain_core.tracers.run_collector",
    "langchain_core.tracers.stdout",
)
"""LangChain imports these at its first use, which would read files in a workflow thread."""


class SandboxedInstance(InstanceWithContexts):
    """A sandboxed instance, with the corrections of `crewlog.workers.sdk_workarounds`.

    In an encrypted run, payloads are bound to their purposes; see
    `crewlog.workers.payload_places`.

    Args:
        inner: The SDK's sandboxed instance.
        worker: Its worker.
        seed: The random seed of the execution.
        encrypts: Whether the worker encrypts payloads.
    """

    def __init__(
        self,
        inner: WorkflowInstance,
        worker: WorkerHost | None = None,
        *,
        seed: int = 0,
        encrypts: bool = False,
    ) -> None:
        super().__init__(inner)
        self._worker = worker or WorkerHost()
        self._seed = seed
        self._encrypts = encrypts
        self._has_started = False
        self._is_crew_run = self.info.workflow_type == WORKFLOW_TYPE
        self._payload_places: PayloadPlaces | None = None
        self._local_activities = LocalActivities()
        self._early_end = EarlyEnd()
        self._progress = Progress()

    @override
    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if self._local_activities.forbid_queries(act):
            return self.inner.activate(with_jobs(act, []))
        if self._early_end.precedes_events(act):
            return _failed_completion(act, ENDED_EARLY)
        if self._progress.is_ahead(act, self.info.workflow_id, self._worker):
            self._worker.evict(act.run_id)  # after its answer
        if not self._has_started:
            self._has_started = True
            if self._is_crew_run:
                self._payload_places = create_payload_places(
                    act, self._seed, encrypts=self._encrypts
                )
        if self._payload_places is not None:
            self._payload_places.check(act)
        for payload in _unavailable_commands(act):
            self._worker.request_payload(missing_file(payload))
        if self._is_crew_run:
            act = with_packed_signals(act)
        completion = activate_updates_last(self.inner, act)
        if self._payload_places is not None:
            self._payload_places.assign(completion)
        self._local_activities.record(act, completion)
        self._progress.record_events(act)
        self._early_end.record(act, completion)
        return completion


def _unavailable_commands(act: WorkflowActivation) -> Iterator[Payload]:
    """Yields the payloads of new commands whose file or key is missing.

    A replay requests none: the run has applied or rejected those commands already.
    """
    for job in () if act.is_replaying else act.jobs:
        if job.HasField("signal_workflow"):
            payloads = job.signal_workflow.input
        elif job.HasField("do_update"):
            payloads = job.do_update.input
        else:
            continue
        # A command has one argument; any other number is rejected.
        if len(payloads) == 1 and is_unavailable(payloads[0]) and not is_given_up(payloads[0]):
            yield payloads[0]


def _failed_completion(act: WorkflowActivation, message: str) -> WorkflowActivationCompletion:
    completion = WorkflowActivationCompletion(run_id=act.run_id)
    completion.failed.failure.message = message
    return completion


class Runner(WorkflowRunner):
    """Temporal's sandboxed runner, with instances that are entered for activations only."""

    def __init__(self, inner: WorkflowRunner, *, encrypts: bool = False) -> None:
        self._inner = inner
        self._worker = WorkerHost()
        self._encrypts = encrypts

    def attach(self, worker: Worker) -> None:
        """Gives instances access to their worker. Its event loop must run."""
        self._worker.attach(worker)

    @override
    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    @override
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        inner = self._inner.create_instance(det)
        return SandboxedInstance(
            inner, self._worker, seed=det.randomness_seed, encrypts=self._encrypts
        )


def sandbox(*, encrypts: bool = False) -> Runner:
    """The runner of workflow code.

    Args:
        encrypts: Whether the worker encrypts payloads.
    """
    for name in _PRELOADED:
        import_module(name)
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    return Runner(SandboxedWorkflowRunner(restrictions=restrictions), encrypts=encrypts)

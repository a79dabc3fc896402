"""The runner of workflow code: the SDK's instances with corrections, outside of its sandbox.

The sandbox would guard only modules that it imports anew for each execution, and all modules of
Crewlog are imported once: it took a tenth of a worker's time and guarded nothing. A contract of
import-linter and rules of ruff keep clocks, randomness and I/O out of workflow code, and
`make test-replay` replays every task of the suite (docs/decisions/0075).
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import CommandType
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import (
    SerializationContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
    WorkflowSerializationContext,
)
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    Worker,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)
from temporalio.workflow import Info
from typing_extensions import override

from crewlog.encryption.codec import is_given_up, is_unavailable, missing_file
from crewlog.wire import WORKFLOW_TYPE
from crewlog.workers.payload_places import PayloadPlaces, create_payload_places
from crewlog.workers.sdk_workarounds import (
    ENDED_EARLY,
    EarlyEnd,
    LocalActivities,
    Progress,
    WorkerHost,
    activate_updates_last,
    with_jobs,
    with_packed_signals,
)

_SCHEDULE_ACTIVITY = CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK
_PRELOADED = (
    "langchain_core.tracers.context",
    "langchain_core.tracers.run_collector",
    "langchain_core.tracers.stdout",
)
"""LangChain imports these at its first use, which would read files in a workflow thread."""


class CrewInstance(WorkflowInstance):
    """An instance of the SDK, with the corrections of `crewlog.workers.sdk_workarounds`.

    Payloads of a run belong to the run, the inputs of its activities, too. In an encrypted run they
    are bound to their purposes; see `crewlog.workers.payload_places`.

    Args:
        inner: The SDK's instance.
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
        self._inner = inner
        self.info = info = inner.get_info()
        """The execution."""
        self._serialization_context = WorkflowSerializationContext(
            namespace=info.namespace, workflow_id=info.workflow_id
        )
        self._store_context = StorageDriverStoreContext(
            target=StorageDriverWorkflowInfo(
                id=info.workflow_id,
                run_id=info.run_id,
                type=info.workflow_type,
                namespace=info.namespace,
            )
        )
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
    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        """Returns the context of a payload; activity inputs have that of the run."""
        if command_info is None or command_info.command_type == _SCHEDULE_ACTIVITY:
            return self._serialization_context
        return self._inner.get_serialization_context(command_info)

    @override
    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        """Returns the context of an external payload; activity inputs have that of the run."""
        if command_info is None or command_info.command_type == _SCHEDULE_ACTIVITY:
            return self._store_context
        return self._inner.get_external_store_context(command_info)

    @override
    def get_info(self) -> Info:
        return self.info

    @override
    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()

    @override
    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if self._local_activities.forbid_queries(act):
            return self._inner.activate(with_jobs(act, []))
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
        completion = activate_updates_last(self._inner, act)
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


class CrewRunner(WorkflowRunner):
    """Makes instances with corrections.

    Args:
        encrypts: Whether the worker encrypts payloads.
    """

    def __init__(self, *, encrypts: bool = False) -> None:
        for name in _PRELOADED:
            import_module(name)
        self._inner = UnsandboxedWorkflowRunner()
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
        return CrewInstance(inner, self._worker, seed=det.randomness_seed, encrypts=self._encrypts)

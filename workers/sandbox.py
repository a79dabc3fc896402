"""Temporal's sandbox for the workflow modules, and the modules that pass through it, with reasons.

For every payload of an activation, the SDK asks the instance for the serialization context. Its own
instance runs code in the sandbox to answer: nine times a step, which is a third of a step's time on
the worker. Crewlog's converter needs only the run, so `SandboxedInstance` answers outside of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import CommandType
from temporalio.bridge.proto.workflow_activation import (
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import (
    SerializationContext,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
    WorkflowSerializationContext,
)
from temporalio.worker import (
    Worker,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import Info
from typing_extensions import override

from crewlog.encryption.codec import is_given_up, is_unavailable, missing_file
from crewlog.wire import WORKFLOW_TYPE
from crewlog.workers.history_progress import QUERY_WITHOUT_TASK, Progress, has_history_events
from crewlog.workers.instance_host import Host, NoHost, WorkerHost
from crewlog.workers.payload_places import PayloadPlaces, create_payload_places
from crewlog.workflows.commands.queue import PACKED_SIGNALS, pack_names

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
    "crewlog.workflows.interceptors": "classes without module state; loaded by the worker",
    "crewlog.workflows.execution": "classes without module state; imported anew they cost 5 ms",
    "crewlog.workflows.authorization": "pure functions, and one that waits; no module state",
    "crewlog.workflows.commands": "no module state but a table of functions, which imports fill",
    "crewlog.workflows.local_activity": "a function that waits; no module state",
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

_ENDING_COMMANDS = frozenset(
    {
        "complete_workflow_execution",
        "fail_workflow_execution",
        "cancel_workflow_execution",
        "continue_as_new_workflow_execution",
    }
)

ENDED_EARLY = "the execution ended for a query, before these events: the task is retried"
"""Why a workflow task fails if its instance has ended for a query about a refused task."""


class SandboxedInstance(WorkflowInstance):
    """A sandboxed instance that is entered for activations only, and processes updates last.

    Each point corrects a behaviour of the SDK, in the minor version that `pyproject.toml` pins.
    Tests: `tests/workers/test_sandbox.py`, `test_payload_places.py`, `test_early_queries.py` and
    `test_queries_during_local_activities.py`. Check each again before another version is pinned.

    - A query during a local activity is not answered; see `_has_query_during_local_activity`.
    - An instance that has ended its execution fails on further events; see
      `_has_events_after_end`.
    - An instance that a query has brought ahead of its history is evicted after the answer; see
      `crewlog.workers.history_progress`.
    - Updates come after all other jobs of an activation. The SDK puts an update first. But
      a worker that has to replay the history before it gets the update in an activation of its own,
      after the other jobs. So the commands in the history could have an order that no replay
      produces, and the run could not continue. Here updates are always last.
    - The signals of an activation are packed into one for a crew's run; see
      `crewlog.workflows.commands.queue`.
    - In an encrypted run, payloads are bound to their purposes; see
      `crewlog.workers.payload_places`.
    """

    def __init__(
        self,
        inner: WorkflowInstance,
        host: Host | None = None,
        *,
        seed: int = 0,
        encrypts: bool = False,
    ) -> None:
        self._inner = inner
        self._seed = seed
        self._encrypts = encrypts
        self._has_started = False
        self._payload_places: PayloadPlaces | None = None
        info = inner.get_info()
        self._id = info.workflow_id
        self._is_crew_run = info.workflow_type == WORKFLOW_TYPE
        self._local_activities: set[int] = set()
        """The local activities in flight, by their sequence numbers."""
        self._ended_length = 0
        """The length of the history when the execution ended here; 0: it has not."""
        self._progress = Progress()
        self._host = host or NoHost()
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

    @override
    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if self._has_query_during_local_activity(act):
            return self._inner.activate(_with_jobs(act, []))
        if self._has_events_after_end(act):
            return _failed_completion(act, ENDED_EARLY)
        if self._is_ahead(act):
            self._host.evict(act.run_id)  # after its answer
        if not self._has_started:
            self._has_started = True
            if self._is_crew_run:
                self._payload_places = create_payload_places(
                    act, self._seed, encrypts=self._encrypts
                )
        if self._payload_places is not None:
            self._payload_places.check(act)
        for payload in _unavailable_commands(act):
            self._host.request_payload(missing_file(payload))
        if self._is_crew_run:
            act = _with_packed_signals(act)
        completion = self._activate(act)
        if self._payload_places is not None:
            self._payload_places.assign(completion)
        self._track_local_activities(act, completion)
        self._progress.record_events(act)
        if _ends(completion):
            self._ended_length = act.history_length
        return completion

    def _is_ahead(self, act: WorkflowActivation) -> bool:
        """Whether a query has brought more events than those of completed workflow tasks."""
        if self._progress.is_ahead(act):
            return True
        if not self._progress.may_be_ahead(act):
            return False
        began = act.timestamp.ToNanoseconds()
        if not self._host.is_task_completed(self._id, act.run_id, began):
            return True
        self._progress.record_completed_task(act)
        return False

    def _has_query_during_local_activity(self, act: WorkflowActivation) -> bool:
        """Whether the activation has queries while a local activity is in flight.

        An answer completes the workflow task. If the local activity has ended meanwhile, its marker
        is part of that task, but the workflow gets the result in the next task, after the signals
        in between. A replay gives the result in the task of the marker, before these signals, so
        the run could no longer be replayed (docs/decisions/0046). The server sends an unanswered
        query again with the next task, or alone.
        """
        return bool(self._local_activities) and any(
            job.HasField("query_workflow") and job.query_workflow.query_id != QUERY_WITHOUT_TASK
            for job in act.jobs
        )

    def _has_events_after_end(self, act: WorkflowActivation) -> bool:
        """Whether the activation has events for an execution that has ended in this instance.

        The server refuses the end of an execution if signals have come meanwhile, and a new
        instance repeats the task. An instance that a query made in between has replayed the
        refused task, too, and ended. With the other events, the SDK would send the end that this
        instance made without them, and signals would be lost (docs/decisions/0047). A failed task
        is repeated from the whole history.
        """
        return 0 < self._ended_length < act.history_length and has_history_events(act)

    def _track_local_activities(
        self, act: WorkflowActivation, completion: WorkflowActivationCompletion
    ) -> None:
        for command in completion.successful.commands:
            if command.HasField("schedule_local_activity"):
                self._local_activities.add(command.schedule_local_activity.seq)
        if self._local_activities:
            self._local_activities.difference_update(
                job.resolve_activity.seq for job in act.jobs if job.resolve_activity.is_local
            )

    def _activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        updates = [job for job in act.jobs if job.HasField("do_update")]
        if not updates or len(updates) == len(act.jobs):
            return self._inner.activate(act)
        rest = [job for job in act.jobs if not job.HasField("do_update")]
        first = self._inner.activate(_with_jobs(act, rest))
        if first.HasField("failed") or _ends(first):
            return first  # the server rejects the updates of an execution that ends
        second = self._inner.activate(_with_jobs(act, updates))
        if second.HasField("failed"):
            return second
        first.successful.MergeFrom(second.successful)
        return first

    @override
    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        """Returns the context of a payload; activity inputs have that of the run."""
        activity = CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK
        if command_info is None or command_info.command_type == activity:
            return self._serialization_context
        return self._inner.get_serialization_context(command_info)

    @override
    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        """Returns the context of an external payload; activity inputs have that of the run."""
        activity = CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK
        if command_info is None or command_info.command_type == activity:
            return self._store_context
        return self._inner.get_external_store_context(command_info)

    @override
    def get_info(self) -> Info:
        return self._inner.get_info()

    @override
    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


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


def _with_jobs(
    act: WorkflowActivation, jobs: Sequence[WorkflowActivationJob]
) -> WorkflowActivation:
    part = WorkflowActivation()
    part.CopyFrom(act)
    del part.jobs[:]
    part.jobs.extend(jobs)
    return part


def _with_packed_signals(act: WorkflowActivation) -> WorkflowActivation:
    """Packs the signals of an activation into one, at the position of the first.

    A signal of that name from a client is packed, too; see `crewlog.workflows.commands.queue`.
    """
    signals = [job.signal_workflow for job in act.jobs if job.HasField("signal_workflow")]
    if len(signals) < 2 and not any(each.signal_name == PACKED_SIGNALS for each in signals):
        return act
    one = WorkflowActivationJob()
    one.signal_workflow.signal_name = PACKED_SIGNALS
    one.signal_workflow.originating_event_id = signals[0].originating_event_id
    names = pack_names([(each.signal_name, len(each.input)) for each in signals])
    one.signal_workflow.input.append(names)
    for each in signals:
        one.signal_workflow.input.extend(each.input)
    jobs = [job for job in act.jobs if not job.HasField("signal_workflow")]
    before = next(at for at, job in enumerate(act.jobs) if job.HasField("signal_workflow"))
    return _with_jobs(act, [*jobs[:before], one, *jobs[before:]])


def _ends(completion: WorkflowActivationCompletion) -> bool:
    """Whether a command ends the execution."""
    return any(
        command.WhichOneof("variant") in _ENDING_COMMANDS
        for command in completion.successful.commands
    )


class Runner(WorkflowRunner):
    """Temporal's sandboxed runner, with instances that are entered for activations only."""

    def __init__(self, inner: WorkflowRunner, *, encrypts: bool = False) -> None:
        self._inner = inner
        self._host = WorkerHost()
        self._encrypts = encrypts

    def attach(self, worker: Worker) -> None:
        """Gives instances access to their worker. Its event loop must run."""
        self._host.attach(worker)

    @override
    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    @override
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        inner = self._inner.create_instance(det)
        return SandboxedInstance(
            inner, self._host, seed=det.randomness_seed, encrypts=self._encrypts
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

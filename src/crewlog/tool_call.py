"""What a tool's author may use: which call this is, its workspace, heartbeats and cancellation.

    from crewlog import current_call

    def write_file(path: str, content: str) -> str:
        call = current_call()
        target = call.resolve(path)
        ...

The call is in a context variable. LangChain copies the context into the threads that it runs
plain functions in, so `current_call` works there as well as in async tools.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from crewlog.allowlist.files import open_within, resolve_within
from crewlog.canonical_json import hash_bytes
from crewlog.errors import ToolFailed, UsageError
from crewlog.ids import AgentName, CallKey, RunId, StepId, ToolName
from crewlog.model import Json
from crewlog.secrets import resolve
from crewlog.state.artifacts import OperationRefused
from crewlog.state.artifacts import at as part_at

if TYPE_CHECKING:
    import httpx


def _no_heartbeat(*_details: Any) -> None:
    """Outside of an activity there is nobody to tell."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One call of a tool, as the tool itself sees it."""

    run: RunId
    """The run."""
    step: StepId
    """The step whose turn made the call: `backend#2`."""
    call: int
    """The call's number in the step, from 1."""
    key: CallKey
    """The idempotency key, the same for every try: pass it on to services that take one."""
    id: str = ""
    """The call's id in the transcript, which a `ToolMessage` must carry."""
    agent: AgentName
    """The agent that called."""
    tool: ToolName
    """The tool's name in the crew."""
    attempt: int = 1
    """Which try this is, from 1."""
    timeout: float | None = None
    """Seconds that one try may take, as the crew says; none where nobody does."""
    workspace: Path
    """The run's folder. It exists."""
    paths: tuple[str, ...] = ()
    """Folders of the workspace that the tool keeps to; empty means all of it."""
    hosts: tuple[str, ...] = ()
    """Hosts that the tool may reach; empty means none."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    """The references of the tool's secrets, by the names that it knows them by."""
    artifacts: Mapping[str, Json] = field(default_factory=dict[str, Json], repr=False)
    """The artifacts that the agent sees, as they were when the call was made. Read them by
    `artifact`: what is here is shared."""
    inputs: Mapping[str, Json] = field(default_factory=dict[str, Json], repr=False)
    """The values of the agent's `inputs`, by what they are called and by their sources."""
    declared: tuple[str, ...] = ()
    """What its `inputs` are called, set or not."""
    beat: Callable[..., None] = field(default=_no_heartbeat, repr=False, compare=False)
    """Who is told of heartbeats."""
    stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    """Set when the call is cancelled."""

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled; a tool in a thread is not interrupted, it must look."""
        return self.stop.is_set()

    def heartbeat(self, *details: Any) -> None:
        """Says that the tool is alive, with details for people; may be called from any thread."""
        self.beat(*details)

    def secret(self, name: str) -> str:
        """The value of a secret that the tool declares under `secrets`.

        It is taken out of the tool's result, its errors and the worker's logs. It does not belong
        into files either.

        Raises:
            ToolFailed: the tool declares no secret of that name.
            SecretMissing: this worker does not have it.
        """
        if name not in self.secrets:
            raise ToolFailed(
                f"the tool {self.tool!r} declares no secret {name!r}",
                remedy=f"It declares: {', '.join(self.secrets) or 'none'}.",
            )
        return resolve(self.secrets[name])

    def artifact(self, name: str, path: str = "") -> Json:
        """A copy of an artifact as it was when the call was made, or of a part of it.

        It changes by the operations that the tool returns, see `crewlog.operations`; what is done
        to the copy is lost. A part of a large artifact is quicker to get than the whole.

        Args:
            name: The artifact.
            path: A JSON pointer: `/nodes/3`; empty for the whole.

        Raises:
            ToolFailed: the agent sees no such artifact, or it has no such part.
        """
        if name not in self.artifacts:
            raise ToolFailed(
                f"{self.agent!r} sees no artifact {name!r}",
                remedy=f"It sees: {', '.join(self.artifacts) or 'none'}.",
            )
        try:
            return json.loads(json.dumps(part_at(self.artifacts[name], path)))
        except OperationRefused as why:
            raise ToolFailed(
                f"the artifact {name!r} has nothing at {path!r}: {why}",
                remedy="Look at the whole first: artifact(name).",
            ) from None

    def input(self, name: str) -> Json:
        """A copy of one of the agent's `inputs`, as it was when the call was made.

        Args:
            name: What it is called: its `as`, or its source. None where it is not set, or is not
                for the agent.

        Raises:
            ToolFailed: the agent declares no such input.
        """
        if name not in self.declared:
            raise ToolFailed(
                f"{self.agent!r} declares no input {name!r}",
                remedy=f"It declares: {', '.join(self.declared) or 'none'}.",
            )
        return json.loads(json.dumps(self.inputs.get(name)))

    def resolve(self, relative: str | Path) -> Path:
        """The absolute path of a file in the workspace, whether it exists or not.

        It is looked at now: where nothing may be swapped until it is used, `open` the file.

        Raises:
            NotInAllowlist: for a path that is absolute, that has `..`, that leaves the workspace
            by a
                symbolic link, or that is outside of the tool's `paths`.
        """
        who = f"the tool {self.tool!r}"
        return resolve_within(self.workspace, _text(relative), self.paths, who)

    def open(self, path: str | Path, mode: str = "r", **options: Any) -> IO[Any]:
        """Opens a plain file in the workspace, in UTF-8, without following any link.

        Args:
            path: Relative to the workspace, and in the tool's `paths`.
            mode: As for Python's `open`. For writing, missing folders are made.
            options: What else that takes: `encoding`, `newline`, …

        Raises:
            NotInAllowlist: where it may not be opened, or goes by a link, or is a device or a pipe.
            OSError: as Python's `open` does.
        """
        return open_within(self.workspace, _text(path), mode, self.paths, **options)

    def http(self, **options: Any) -> AbstractContextManager[httpx.Client]:
        """An httpx client, for a `with` block, that reaches the tool's `hosts` and no others.

        Args:
            options: What `httpx.Client` takes, but for what would go around the check.
        """
        from crewlog.allowlist.http import client  # noqa: PLC0415 - httpx takes its time

        return client(self.hosts, **options)

    def async_http(self, **options: Any) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        """The same for coroutines, for an `async with` block."""
        from crewlog.allowlist.http import async_client  # noqa: PLC0415

        return async_client(self.hosts, **options)


def _text(path: str | Path) -> str:
    return (path.as_posix() if isinstance(path, Path) else path) or "."


def workspace_of(root: Path, run: RunId) -> Path:
    """A run's folder under `root`. A workflow id may be any text; a folder's name may not.

    What is not plain gets a hash after a `~`, which no plain name has: two runs never share one.
    """
    if _PLAIN.fullmatch(run):
        return root / run
    start = _NOT_IN_FOLDERS.sub("_", run).lstrip(".-")[:60]
    return root / f"{start}~{hash_bytes(run.encode('utf-8', 'surrogatepass'))}"


_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_NOT_IN_FOLDERS = re.compile(r"[^A-Za-z0-9._-]")
_CURRENT: ContextVar[ToolCall] = ContextVar("crewlog_tool_call")


def current_call() -> ToolCall:
    """The call that runs now.

    Raises:
        UsageError: where no tool runs.
    """
    try:
        return _CURRENT.get()
    except LookupError:
        raise UsageError(
            "there is no current tool call",
            remedy="Call current_call() inside a tool; in a test, use `with calling(call):`.",
        ) from None


@contextmanager
def calling(call: ToolCall) -> Generator[ToolCall, None, None]:
    """Makes `call` the current one: what the activity does, and what a test of a tool may do."""
    token = _CURRENT.set(call)
    try:
        yield call
    finally:
        _CURRENT.reset(token)

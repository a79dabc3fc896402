"""The current call, for authors of tools: its ids, workspace, heartbeats and cancellation.

    from crewlog import current_call

    def write_file(path: str, content: str) -> str:
        call = current_call()
        target = call.resolve(path)
        ...

The call is in a context variable. LangChain copies the context to the threads of synchronous tools,
so `current_call` works there, too.
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
from crewlog.state.artifacts import value_at as part_at

if TYPE_CHECKING:
    import httpx


def _no_heartbeat(*_details: Any) -> None:
    """Outside of an activity there are no heartbeats."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A tool call, for the tool itself."""

    run: RunId
    """The run."""
    step: StepId
    """The step whose turn made the call: `backend#2`."""
    call: int
    """The call's number in the step, from 1."""
    key: CallKey
    """The idempotency key, the same for all attempts: send it to services that take one."""
    id: str = ""
    """The id of the call in the transcript, which a `ToolMessage` must have."""
    agent: AgentName
    """The calling agent."""
    tool: ToolName
    """The name of the tool in the crew."""
    attempt: int = 1
    """The number of the attempt, from 1."""
    timeout: float | None = None
    """The timeout of one attempt in seconds; None if the crew sets none."""
    workspace: Path
    """The folder of the run, which exists."""
    paths: tuple[str, ...] = ()
    """The folders of the workspace that the tool may use; empty: all."""
    hosts: tuple[str, ...] = ()
    """The hosts that the tool may reach; empty: none."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    """References to the secrets of the tool, by name."""
    artifacts: Mapping[str, Json] = field(default_factory=dict[str, Json], repr=False)
    """The artifacts that the agent may see, at the time of the call. Read them by `artifact`."""
    inputs: Mapping[str, Json] = field(default_factory=dict[str, Json], repr=False)
    """The values of the agent's `inputs`, by name and by source."""
    declared: tuple[str, ...] = ()
    """The names of its `inputs`, set or not."""
    beat: Callable[..., None] = field(default=_no_heartbeat, repr=False, compare=False)
    """Sends a heartbeat."""
    stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    """Set when the call is cancelled."""

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled. A tool in a thread must check this."""
        return self.stop.is_set()

    def heartbeat(self, *details: Any) -> None:
        """Sends a heartbeat, with details for people; may be called from any thread."""
        self.beat(*details)

    def secret(self, name: str) -> str:
        """The value of a secret that the tool declares under `secrets`.

        It is redacted from the result and the errors of the tool, and from the worker's logs. Do
        not write it to files.

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
        """A copy of an artifact, or of a part of it, at the time of the call.

        Only the operations that the tool returns change it, see `crewlog.operations`. Reading a
        part is faster than reading a large artifact.

        Args:
            name: The artifact.
            path: A JSON pointer: `/nodes/3`; empty for the whole.

        Raises:
            ToolFailed: the agent may not see the artifact, or the part does not exist.
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
        """A copy of one of the agent's `inputs` at the time of the call; None if it is not set.

        Args:
            name: Its `as`, or its source.

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
        """The absolute path of a file in the workspace, which need not exist.

        The path is checked now and may change before it is used; `open` has no such gap.

        Raises:
            NotInAllowlist: the path is absolute, has `..`, leaves the workspace by a symbolic link,
                or is outside of the tool's `paths`.
        """
        who = f"the tool {self.tool!r}"
        return resolve_within(self.workspace, _text(relative), self.paths, who)

    def open(self, path: str | Path, mode: str = "r", **options: Any) -> IO[Any]:
        """Opens a regular file in the workspace, in UTF-8, without following links.

        Args:
            path: Relative to the workspace, and in the tool's `paths`.
            mode: As for Python's `open`. For writing, missing folders are created.
            options: Other arguments of `open`: `encoding`, `newline`, …

        Raises:
            NotInAllowlist: the path is not allowed, contains a link, or is a device or a pipe.
            OSError: as Python's `open`.
        """
        return open_within(self.workspace, _text(path), mode, self.paths, **options)

    def http(self, **options: Any) -> AbstractContextManager[httpx.Client]:
        """An httpx client for a `with` block, which reaches only the tool's `hosts`.

        Args:
            options: Options of `httpx.Client`, except those that would bypass the check.
        """
        from crewlog.allowlist.http import client  # noqa: PLC0415 - httpx is slow to import

        return client(self.hosts, **options)

    def async_http(self, **options: Any) -> AbstractAsyncContextManager[httpx.AsyncClient]:
        """The same for coroutines, for an `async with` block."""
        from crewlog.allowlist.http import async_client  # noqa: PLC0415

        return async_client(self.hosts, **options)


def _text(path: str | Path) -> str:
    return (path.as_posix() if isinstance(path, Path) else path) or "."


def workspace_of(root: Path, run: RunId) -> Path:
    """The folder of a run below `root`.

    An id with special characters gets a hash after a `~`, so that two runs never share a folder.
    """
    if _PLAIN.fullmatch(run):
        return root / run
    start = _NOT_IN_FOLDERS.sub("_", run).lstrip(".-")[:60]
    return root / f"{start}~{hash_bytes(run.encode('utf-8', 'surrogatepass'))}"


_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_NOT_IN_FOLDERS = re.compile(r"[^A-Za-z0-9._-]")
_CURRENT: ContextVar[ToolCall] = ContextVar("crewlog_tool_call")


def current_call() -> ToolCall:
    """The running call.

    Raises:
        UsageError: no tool runs.
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
    """Makes `call` the current one, in the activity and in tests of tools."""
    token = _CURRENT.set(call)
    try:
        yield call
    finally:
        _CURRENT.reset(token)

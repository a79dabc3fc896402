"""The start of a run: the check of its policy, and the call of the server.

The run itself authorizes its start, and so does the run that it comes from. A client checks first:
people get the error at once, and no run is ended to be replaced by one that is refused.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from crewlog import wire
from crewlog.authority.signatures import START, Signature
from crewlog.client.gateway import CALL_LIMIT
from crewlog.client.session import Session
from crewlog.definition.model import CrewDefinition
from crewlog.definition.policy import Policy
from crewlog.encryption import purposes
from crewlog.encryption.codec import encrypt_for
from crewlog.errors import (
    CrewlogError,
    NotPermitted,
    RunAlreadyExists,
    ServiceError,
    UsageError,
    check_ineffective_options,
)
from crewlog.ids import CrewName, RunId
from crewlog.model import Json
from crewlog.reporting.wire_views import initial_state
from crewlog.state.excerpt import excerpt, fenced
from crewlog.wire import InitialState, StartRun, is_prompt

_RUN_ID = re.compile(r"[A-Za-z0-9][\w.:@+=-]{0,199}")
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
CREW_MEMO = "crew"
"""The key of the memo that has the crew's name."""
TASK_TIMEOUT = timedelta(seconds=5)
"""How long a workflow task may take: ours take milliseconds, replays of long histories a second."""


async def policy_of_crew(session: Session, crew: str | Mapping[str, Json]) -> Policy | None:
    """The policy of a crew that is to be started; none where it has none, or it is not known here.

    Args:
        session: The connection.
        crew: A registered crew's name, a definition, or a prompt.
    """
    if not isinstance(crew, str):
        return CrewDefinition.from_json(crew).policy if "policy" in crew else None
    if not crew or is_prompt(crew):
        return None
    try:
        store = await session.store()
        row = await store.get_crew(CrewName(crew))
        data = await store.get_definition(row.definition) if row is not None else {}
        return await policy_of_crew(session, data)
    except CrewlogError:
        return None  # the run judges it


async def policy_of_run(session: Session, run: RunId) -> Policy | None:
    """The policy of a run as the store has it by now; none where it has none, or is not there."""
    try:
        store = await session.store()
        row = await store.get_run(run)
        data = await store.get_definition(row.definition) if row and row.definition else {}
        return await policy_of_crew(session, data)
    except CrewlogError:
        return None


def check_start(
    policy: Policy | None, run: str, content: Mapping[str, Json], namespace: str
) -> None:
    """Checks that a policy lets a run begin.

    Args:
        policy: The crew's, or that of the run that it comes of.
        run: The run's id.
        content: What it is started with, as it is sent.
        namespace: Where it is started.

    Raises:
        NotPermitted: it does not.
    """
    if policy is None or not policy.signed:
        return
    from crewlog.authority.principals import authorize_command  # noqa: PLC0415 - slow, and few are signed

    proof = Signature.from_json(content["proof"]) if content.get("proof") else None
    now = int(time.time() * 1000)
    found = authorize_command(policy, START, content, proof, run=run, at=now, namespace=namespace)
    if not found.allowed:
        raise NotPermitted(f"{found.reason}; nothing was started", remedy=found.remedy)
    if content.get("initial_state"):
        initial_state(InitialState.from_json(content["initial_state"])).check_senders(
            found.principal
        )


def check_attached(run: str, given: Mapping[str, object]) -> None:
    """Checks that nothing is said of a run that is there already which only a new one takes.

    Args:
        run: The run.
        given: What each such option says; empty or none: it is not given.

    Raises:
        UsageError: something is.
    """
    why = f"the run {run!r} is there already, and stays as it was started"
    remedy = "Leave it out, choose another id, or replace the run."
    check_ineffective_options(f"run {run!r}", given, why, remedy)


async def check_before(
    session: Session, crew: CrewDefinition | str, input: Json, *, id: str | None, by: str | None
) -> None:
    """Checks, before anything is made ready for a run, that its crew's policy lets it begin.

    Args:
        session: The connection, which signs.
        crew: A registered crew's name, a definition, or a prompt.
        input: What it is asked to do.
        id: The run's id, where that is known.
        by: Who starts it; by default the system's user.

    Raises:
        NotPermitted: it does not.
    """
    content = crew if isinstance(crew, str) else crew.to_json()
    policy = await policy_of_crew(session, content)
    if policy is None or not policy.signed:
        return
    run = id or "new"
    start = StartRun(crew=content, input=input, by=session.user if by is None else by)
    check_start(policy, run, session.signed_start(run, start), session.endpoints.namespace)


async def begin(
    session: Session,
    id: str | None,
    name: str,
    payload: StartRun,
    timeout: timedelta | None,
    *,
    again: bool = False,
    policy: Policy | None = None,
) -> RunId:
    """Starts a workflow under an id, or under one that is made of a name.

    Args:
        session: The connection.
        id: The id.
        name: The crew's name.
        payload: What it is started with.
        timeout: When Temporal ends it.
        again: Whether the id may be that of a run that has ended.
        policy: Who may start it: the crew's policy, or that of the run that it comes of.

    Raises:
        RunAlreadyExists: the id is taken.
        NotPermitted: the policy does not let it begin.
    """
    if id is not None:
        return await start_workflow(
            session, checked(id), name, payload, timeout, again=again, policy=policy
        )
    for _ in range(8):
        run = RunId(f"{name}-{suffix(4)}")
        try:
            return await start_workflow(session, run, name, payload, timeout, policy=policy)
        except RunAlreadyExists:
            continue
    raise RunAlreadyExists(
        f"the ids of the crew {name!r} are used up", remedy="Choose an id yourself: --id."
    )


async def start_workflow(
    session: Session,
    run: RunId,
    name: str,
    payload: StartRun,
    timeout: timedelta | None,
    *,
    again: bool = False,
    policy: Policy | None = None,
) -> RunId:
    """Starts a workflow under an id; see `begin`."""
    content = session.signed_start(run, payload)
    check_start(policy, run, content, session.endpoints.namespace)
    if payload.fork is not None:
        await note_fork(session, payload.fork.run, run)
    options = start_options(session, run, name, payload, timeout)
    if again:
        options["id_reuse_policy"] = WorkflowIDReusePolicy.ALLOW_DUPLICATE
    replaced = WorkflowIDConflictPolicy.TERMINATE_EXISTING
    try:
        with encrypt_for(purposes.START):
            await session.temporal.start_workflow(
                wire.WORKFLOW_TYPE,
                content,
                id_conflict_policy=replaced if payload.replace else WorkflowIDConflictPolicy.FAIL,
                rpc_timeout=timedelta(seconds=CALL_LIMIT),
                **options,
            )
    except WorkflowAlreadyStartedError as error:
        raise await id_taken(session, run) from error
    except RPCError as error:
        raise await session.gateway.failed(error, run) from error
    await session.mention_no_worker(session.task_queue)
    return run


def start_options(
    session: Session, run: RunId, name: str, payload: StartRun, timeout: timedelta | None
) -> dict[str, Any]:
    """The options of Temporal for the start of a run."""
    text = payload.input if isinstance(payload.input, str) else json.dumps(payload.input)
    if payload.fork is not None:
        text = f"fork of {payload.fork.run}@{payload.fork.position}"
    return {
        "id": run,
        "task_queue": session.task_queue,
        "execution_timeout": timeout,
        # A worker that dies in a workflow task is waited for this long, by default 10 s.
        "task_timeout": TASK_TIMEOUT,
        # A run's id names its rows in the store: another run has it only where that is asked.
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "memo": {CREW_MEMO: name},
        # The web UI shows both as Markdown, and the input is anybody's text.
        "static_summary": f"{name}: {fenced(excerpt(text, 160))}" if text else name,
        "static_details": f"**{name}**, started by "
        f"{fenced(payload.by or 'nobody in particular')}\n\n{fenced(excerpt(text, 2000))}",
    }


async def id_taken(session: Session, run: RunId) -> RunAlreadyExists:
    """The error that an id is taken, by an open run or by one that has ended."""
    found = None
    with suppress(CrewlogError, RPCError):  # then it is not known
        found = (await session.gateway.describe(run)).status
    if found is WorkflowExecutionStatus.RUNNING:
        return RunAlreadyExists(
            f"there is a run {run!r} already, and it is open",
            remedy="Choose another --id; or let `crewlog run` follow that run "
            "(`--existing attach`), or end it and start anew (`--existing replace`).",
            place=session.endpoints.address,
        )
    return RunAlreadyExists(
        f"there is a run {run!r} already; ids of ended runs are not used again",
        remedy=f"Choose another --id, or look at that one: `crewlog show {run}`.",
        place=session.endpoints.address,
    )


async def note_fork(session: Session, source: RunId, fork: RunId) -> None:
    """Notes in the store that a run is about to begin as a fork: its source stays until then.

    Raises:
        RunNotFound: the source was deleted meanwhile.
    """
    try:
        store = await session.store()
        noted = await store.add_pending_fork(source, fork, int(time.time() * 1000))
    except ServiceError:
        return  # the run does the same when it begins
    if not noted:
        await session.gateway.describe(source)


def checked(run: str) -> RunId:
    """The id that a run may have.

    Raises:
        UsageError: it may not.
    """
    if _RUN_ID.fullmatch(run) is None:
        raise UsageError(
            f"{run!r} cannot be a run's id",
            remedy="Use a letter or digit, then up to 199 letters, digits or any of . _ : @ + = -",
        )
    return RunId(run)


def suffix(length: int) -> str:
    """Random characters for the end of an id."""
    return "".join(secrets.choice(_BASE32) for _ in range(length))

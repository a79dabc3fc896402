"""Whether a run would be let begin, looked at before it is started or another one is ended for it.

The run itself decides, and so does the one that it comes of. A client looks first, so that people
are told at once, and nothing is ended that a refused run was to take the place of.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from crewlog.authority.signatures import START, Signature
from crewlog.definition.model import CrewDefinition
from crewlog.definition.policy import Policy
from crewlog.effects import check_effects
from crewlog.errors import CrewlogError, NotPermitted
from crewlog.ids import CrewName, RunId
from crewlog.model import Json
from crewlog.reporting.wire_views import initial_state
from crewlog.wire import InitialState, StartRun, is_prompt

if TYPE_CHECKING:
    from crewlog.client.client import Client


async def policy_of_crew(client: Client, crew: str | Mapping[str, Json]) -> Policy | None:
    """The policy of a crew that is to be started; none where it has none, or it is not known here.

    Args:
        client: The client.
        crew: A registered crew's name, a definition, or a prompt.
    """
    if not isinstance(crew, str):
        return CrewDefinition.from_json(crew).policy if "policy" in crew else None
    if not crew or is_prompt(crew):
        return None
    try:
        store = await client.store()
        row = await store.get_crew(CrewName(crew))
        data = await store.get_definition(row.definition) if row is not None else {}
        return await policy_of_crew(client, data)
    except CrewlogError:
        return None  # the run judges it


async def policy_of_run(client: Client, run: RunId) -> Policy | None:
    """The policy of a run as the store has it by now; none where it has none, or is not there."""
    try:
        store = await client.store()
        row = await store.get_run(run)
        data = await store.get_definition(row.definition) if row and row.definition else {}
        return await policy_of_crew(client, data)
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
    if content.get("given"):
        initial_state(InitialState.from_json(content["given"])).check_senders(found.principal)


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
    check_effects(f"run {run!r}", given, why, remedy)


async def check_before(
    client: Client, crew: CrewDefinition | str, input: Json, *, id: str | None, by: str | None
) -> None:
    """Checks, before anything is made ready for a run, that its crew's policy lets it begin.

    Args:
        client: The client, which signs.
        crew: A registered crew's name, a definition, or a prompt.
        input: What it is asked to do.
        id: The run's id, where that is known.
        by: Who starts it; by default the system's user.

    Raises:
        NotPermitted: it does not.
    """
    content = crew if isinstance(crew, str) else crew.to_json()
    policy = await policy_of_crew(client, content)
    if policy is None or not policy.signed:
        return
    run = id or "new"
    start = StartRun(crew=content, input=input, by=client.user if by is None else by)
    check_start(policy, run, client.signed_start(run, start), client.endpoints.namespace)

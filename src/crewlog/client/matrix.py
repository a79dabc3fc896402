"""The matrix of agents and tools of a run: from the run itself, or from the store."""

from __future__ import annotations

from crewlog.client.gateway import STATUS_NAMES, Gateway
from crewlog.client.journal import OpenStore
from crewlog.client.quotas import with_quotas
from crewlog.definition.model import CrewDefinition
from crewlog.errors import RunNotFound, StoreIncomplete, WorkerMissing
from crewlog.graph.lowering.plans import lower
from crewlog.ids import RunId
from crewlog.reporting.permission_matrix.builder import (
    agents_in,
    cells,
    plan_tools,
    remote_agents,
    run_context_of,
)
from crewlog.store.journal_reader import load_state
from crewlog.wire import PermissionsPage, PermissionsQuery


async def matrix_of(
    gateway: Gateway, open_store: OpenStore, run: RunId, asked: PermissionsQuery
) -> PermissionsPage:
    """A part of a run's matrix. A run that is under way tells it itself, where a worker answers.

    What is used of quotas over runs the store says.

    Raises:
        RunNotFound: neither the server nor the store knows the run.
        WorkerMissing: the run is starting: no worker answers yet, and nothing is stored.
        StoreUnavailable: only the store could tell, and it is away.
        StoreIncomplete: rows of the run are missing.
    """
    return await with_quotas(open_store, await _told(gateway, open_store, run, asked))


async def _told(
    gateway: Gateway, open_store: OpenStore, run: RunId, asked: PermissionsQuery
) -> PermissionsPage:
    missing: RunNotFound | None = None
    nobody: WorkerMissing | None = None
    try:
        status = (await gateway.describe(run)).status
        if status is not None and STATUS_NAMES.get(status) == "running":
            answer = await gateway.query(run, "permissions", asked.to_json())
            return PermissionsPage.model_validate(answer, extra="ignore")
    except RunNotFound as error:
        missing = error
    except WorkerMissing as error:
        nobody = error
    try:
        return await _stored(open_store, run, asked)
    except StoreIncomplete:
        if missing is not None:
            raise missing from None
        if nobody is not None and await (await open_store()).get_run(run) is None:
            # Rows that were never there are not missing: a repair is not what it takes.
            raise WorkerMissing(
                f"the run {run!r} is starting: nothing of it is stored yet",
                remedy=f"Ask again in a moment. If that does not help: {nobody.message}. "
                f"{nobody.remedy}",
                place=nobody.place,
            ) from None
        raise


async def _stored(open_store: OpenStore, run: RunId, asked: PermissionsQuery) -> PermissionsPage:
    store = await open_store()
    state = await load_state(store, run)
    page = PermissionsPage(
        run=run,
        crew=state.crew,
        graph_version=state.graph_version,
        position=state.position,
        live=False,
    )
    if not state.definition:
        return page  # its prompt was not approved yet
    plan = lower(CrewDefinition.from_json(await store.get_definition(state.definition)))
    found, total = cells(
        run_context_of(plan, state),
        asked.agents,
        asked.tools,
        after=asked.after,
        limit=asked.limit,
        checks=asked.checks,
    )
    told = {"tools": plan_tools(plan), "cells": found, "total": total}
    who = {"agents": agents_in(plan), "remote_agents": remote_agents(plan)}
    return page.model_copy(update={**who, **told})

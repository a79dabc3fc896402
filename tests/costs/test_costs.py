"""What the product costs, counted: none of it may rise unnoticed.

A cost above its bound fails, with the functions whose calls rose most. Nothing here is timed, so a
busy machine makes no difference.
"""

from __future__ import annotations

import os
import threading
import typing
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from functools import partial
from typing import Any

import asyncpg
import pytest
from tests.costs import report
from tests.costs.counting import Counts
from tests.costs.measure import Cost, Meter, metering
from tests.costs.steady import steady
from tests.costs.units import UNITS, Unit, steps

from crewlog import redaction
from crewlog.activities.batches import Batches
from crewlog.client import Endpoints
from crewlog.usage import Usage
from shared import make_database

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("CREWLOG_MAX_CACHED_RUNS") is not None,
        reason="the costs are those of a worker that keeps runs in memory",
    ),
    pytest.mark.skipif(
        os.environ.get("CREWLOG_ENCRYPTION_KEYS") is not None,
        reason="the costs are those of a worker that does not encrypt",
    ),
]
BY_NAME = {unit.name: unit for unit in UNITS}
OF_PYTHON = ("serialisations", "validations", "calls")
"""Figures that another Python has otherwise: it calls other functions of its library."""


class Measured:
    """The costs of each unit, measured once."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._costs: dict[str, Cost] = {}

    async def cost(self, unit: Unit) -> Cost:
        if unit.name not in self._costs:
            within = partial(self._is_within, unit.name)
            self._costs[unit.name] = await self.meter.cost(unit, within)
        return self._costs[unit.name]

    @staticmethod
    def _is_within(unit: str, cost: Cost) -> bool:
        return not report.exceeded(unit, cost) and not report.fallen(unit, cost)


@pytest.fixture(scope="module")
async def measured(server: Endpoints, postgres_dsn: str) -> AsyncIterator[Measured]:
    async with metering(server, await make_database(postgres_dsn)) as meter:
        yield Measured(meter)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
@pytest.mark.parametrize("figure", report.FIGURES)
async def test_a_unit_costs_no_more_than_its_bound(
    measured: Measured, unit: Unit, figure: str
) -> None:
    if figure in OF_PYTHON:
        _skip_on_another_python()
    cost = await measured.cost(unit)
    if cost.figures[figure] > report.bound(unit.name, figure):
        pytest.fail(report.failure(unit, figure, cost), pytrace=False)
    assert figure not in report.fallen(unit.name, cost), (
        f"{unit.name} costs only {cost.figures[figure]:,.2f} {report.FIGURES[figure]}, and a rise "
        f"could hide behind the bound: write the new costs with `{report.AGAIN}`"
    )


def test_secrets_that_other_tests_left_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_SHARED", redaction.Redactor())
    redaction.register_secret("left-by-another-test")
    with steady():
        assert redaction.redacted_text("left-by-another-test") == "left-by-another-test"
    assert redaction.redacted_text("left-by-another-test") == redaction.REDACTED


def _skip_on_another_python() -> None:
    python = report.stored()["versions"]["python"]
    if python != report.versions()["python"]:
        pytest.skip(f"costs.json has the calls of Python {python}")


def test_the_costs_are_those_of_the_locked_versions() -> None:
    stored, here = report.stored()["versions"], report.versions()
    libraries = {name: stored[name] for name in report.LIBRARIES}
    assert {**here, **libraries} == here, f"measure again: `{report.AGAIN}`"


def test_the_page_has_the_costs() -> None:
    page = report.PAGE.read_text()
    again = report.on_page(page, report.markdown(report.stored()), report.BEGIN, report.END)
    assert page == again, f"the table of costs.json is another one: `{report.AGAIN}`"


async def test_every_request_to_postgres_is_a_round_trip(database: str) -> None:
    counts = Counts()
    with counts.installed():
        counts.store_thread = threading.get_ident()
        connection = await asyncpg.connect(database)

        async def requests(action: Awaitable[Any]) -> tuple[int, Any]:
            with counts.counting() as tally:
                found = await action
            return tally.round_trips, found

        async def read_all() -> None:
            async with connection.transaction():  # BEGIN and COMMIT
                async for _ in connection.cursor("SELECT number FROM numbers", prefetch=1):
                    pass

        created = await requests(connection.execute("CREATE TABLE numbers (number int)"))
        prepared, statement = await requests(connection.prepare("SELECT $1::int"))
        fetched = await requests(statement.fetch(1))
        copied = await requests(
            connection.copy_records_to_table("numbers", columns=["number"], records=[(1,), (2,)])
        )
        cursor = await requests(read_all())
        await connection.close()
    assert (created[0], prepared, fetched[0]) == (1, 1, 1)
    assert copied[0] == 2  # it asks for the columns' types before
    # It is prepared, reads each row and the end, and is closed.
    assert cursor[0] == 2 + 1 + 3 + 1


async def test_what_costs_more_is_found(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    _skip_on_another_python()
    filled = Batches.unpack_input

    async def costly(batches: Batches, task: Any) -> Any:
        await batches._store.last_permission_position(task.run)
        for _ in range(3):
            Usage.model_validate_json(Usage().model_dump_json())
        for _ in range(50):
            typing.cast("int", 0)
        return await filled(batches, task)

    monkeypatch.setattr(Batches, "unpack_input", costly)
    # Replies have 400 bytes.
    longer = replace(BY_NAME["step"], run=partial(steps, model="bench:large-460"))
    cost = await measured.meter.cost(longer, lambda _: True)
    found = report.exceeded("step", cost)
    assert found == ["history_bytes", "round_trips", "serialisations", "validations", "calls"]
    said = report.failure(longer, "calls", cost)
    assert "typing.py:cast" in said
    assert f"costs {cost.figures['calls']:,.2f} Python calls" in said


async def test_one_more_activity_is_found(measured: Measured) -> None:
    cost = await measured.cost(BY_NAME["tool_call"])
    found = report.exceeded("local_tool_call", cost)
    assert {"events", "workflow_tasks", "round_trips"} <= set(found)

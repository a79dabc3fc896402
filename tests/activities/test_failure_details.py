"""The details of a failure survive the conversion, and failures of other code have the defaults."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from crewlog.failure_details import FailureDetails, application_error, failure_details
from crewlog.payload_storage.converter import data_converter


async def converted(error: ApplicationError, folder: Path) -> BaseException:
    """Returns a failure as the other side of the boundary receives it."""
    converter, failure = data_converter(folder, keys=None), Failure()
    await converter.encode_failure(error, failure)
    return await converter.decode_failure(failure)


@pytest.mark.parametrize(
    "details",
    [
        FailureDetails(),
        FailureDetails(place="tool 'x'", remedy="Install it.", effect_started=False, failed_at=7),
        FailureDetails(effect_started=False, call_again=True, retry_after_seconds=7),
        FailureDetails(remedy="Use a new id.", command_hash="abc"),
    ],
)
async def test_details_survive_the_conversion(details: FailureDetails, tmp_path: Path) -> None:
    error = application_error(
        "it broke", "ToolFailed", details, next_retry_delay=timedelta(seconds=1)
    )
    received = await converted(error, tmp_path)
    assert isinstance(received, ApplicationError)
    assert (received.message, received.type) == ("it broke", "ToolFailed")
    assert failure_details(received) == details


def test_details_with_defaults_are_not_written() -> None:
    assert application_error("it broke", "ToolFailed", FailureDetails()).details == ()


@pytest.mark.parametrize(
    "details",
    [
        (),
        ("place", "remedy"),
        (None,),
        ([1],),
        ({"failed_at": "soon"},),
        ({"call_again": "yes", "effect_started": False},),
        ({"code": 17},),
    ],
)
async def test_details_of_other_code_read_as_defaults(
    details: tuple[Any, ...], tmp_path: Path
) -> None:
    received = await converted(ApplicationError("it broke", *details), tmp_path)
    assert failure_details(received) == FailureDetails()


def test_errors_of_other_types_have_default_details() -> None:
    assert failure_details(ValueError("it broke")) == FailureDetails()
    assert failure_details(None) == FailureDetails()

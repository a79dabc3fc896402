"""Error groups, as parallel tasks raise them, outside of tools: their causes decide."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from crewlog.activities.failures import convert_errors
from crewlog.activities.model_errors import model_error
from crewlog.errors import (
    CrewlogError,
    ModelRequestRejected,
    ModelUnavailable,
    StoreUnavailable,
)
from crewlog.mcp_servers.sessions import _reason


class Refused(Exception):
    status_code = 401


@pytest.mark.parametrize(
    ("errors", "kind", "told"),
    [
        ([TimeoutError(), ConnectionError()], ModelUnavailable, "did not answer in time"),
        (
            [TimeoutError(), Refused("no such key")],
            ModelRequestRejected,
            "answered 401: no such key",
        ),
        (
            [ExceptionGroup("deep", [Refused("bad key")])],
            ModelRequestRejected,
            "answered 401: bad key",
        ),
    ],
)
def test_an_error_group_of_a_model(
    errors: list[Exception], kind: type[CrewlogError], told: str
) -> None:
    found = model_error(ExceptionGroup("in tasks", errors), "m")
    assert type(found) is kind
    assert told in found.message


@pytest.mark.parametrize(
    ("errors", "kind", "final"),
    [
        ([StoreUnavailable("away"), StoreUnavailable("away")], "StoreUnavailable", False),
        ([StoreUnavailable("away"), ModelRequestRejected("no key")], "ModelRequestRejected", True),
        ([StoreUnavailable("away"), KeyError("x")], "InternalError", True),
    ],
)
def test_an_error_group_of_an_activity(errors: list[Exception], kind: str, final: bool) -> None:
    with pytest.raises(ApplicationError) as failed, convert_errors():
        raise ExceptionGroup("in tasks", errors)
    assert (failed.value.type, failed.value.non_retryable) == (kind, final)
    assert kind != "InternalError" or "KeyError: 'x'" in failed.value.message


def test_each_cause_is_named_once() -> None:
    away = ConnectionError("it is away")
    assert _reason(ExceptionGroup("in tasks", [away, ExceptionGroup("deep", [away])])) == (
        "it is away"
    )
    assert _reason(ExceptionGroup("in tasks", [away, OSError("no route")])) == (
        "2 errors: it is away; OSError: no route"
    )

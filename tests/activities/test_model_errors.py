"""The errors of model services, in the formats of the services."""

from __future__ import annotations

import time
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage

from crewlog.activities.ai_messages import check_complete
from crewlog.activities.model_errors import (
    LONGEST_WAIT,
    is_request_rejected,
    may_be_shorter,
    model_error,
)
from crewlog.definition.delays import retry_delay
from crewlog.errors import ModelError, ModelRateLimited, ModelRequestRejected, ModelUnavailable

MODEL = "openai:m"
REQUEST = httpx.Request("POST", "http://service/v1")


def of_status(status: int, body: Any, **headers: str) -> openai.APIStatusError:
    response = httpx.Response(status, json=body, headers=headers, request=REQUEST)
    client = openai.OpenAI(api_key="k", base_url="http://service/v1")
    return client._make_status_error_from_response(response)


def inside(body: Any) -> ValueError:
    """As LangChain raises an error that comes in an answer 200."""
    return ValueError(body)


def unread(body: Any) -> AttributeError:
    """As a client fails that cannot read an answer 200."""
    error = AttributeError("'NoneType' object has no attribute 'output'")
    error.response = httpx.Response(200, json=body, request=REQUEST)  # type: ignore[attr-defined]
    return error


OVERFLOW = "This model's maximum context length is 8000 tokens."


@pytest.mark.parametrize(
    ("error", "kind", "said", "remedy"),
    [
        (
            inside({"message": "no such model", "code": 404}),
            ModelRequestRejected,
            "no such model",
            "offers",
        ),
        (inside({"message": "bad", "code": "400"}), ModelRequestRejected, "bad", "model_settings"),
        (inside({"message": "busy", "code": 429}), ModelRateLimited, "busy", "parallel"),
        (inside({"message": "down", "code": 502}), ModelUnavailable, "down", "another model"),
        (inside({"message": "x", "type": "overloaded_error"}), ModelRateLimited, "x", "parallel"),
        (inside({"message": "x", "type": "NotFoundError"}), ModelRequestRejected, "x", "offers"),
        (inside({"message": "x", "type": "RateLimitError"}), ModelRateLimited, "x", "parallel"),
        (
            inside({"message": "x", "code": "billing_not_active"}),
            ModelRequestRejected,
            "x",
            "credit",
        ),
        (
            inside({"message": "Insufficient Balance"}),
            ModelRequestRejected,
            "Insufficient",
            "credit",
        ),
        (inside({"detail": "Not Found"}), ModelRequestRejected, "Not Found", "offers"),
        (
            ValueError("Incorrect API key provided: x"),
            ModelRequestRejected,
            "Incorrect",
            "OPENAI_API_KEY",
        ),
        (
            unread({"detail": "Not authenticated"}),
            ModelRequestRejected,
            "Not authenticated",
            "OPENAI_API_KEY",
        ),
        (
            of_status(422, {"detail": "the field n is wrong"}),
            ModelRequestRejected,
            "the field n",
            "settings",
        ),
        (
            of_status(422, {"detail": [{"loc": ["body", "n"], "msg": "no number"}]}),
            ModelRequestRejected,
            "body.n: no number",
            "settings",
        ),
        (of_status(400, {"error": "plain words"}), ModelRequestRejected, "plain words", "settings"),
        (
            of_status(401, {"error": {"message": "no"}}),
            ModelRequestRejected,
            "no",
            "OPENAI_API_KEY",
        ),
        (
            of_status(400, {"error": {"message": "API key not valid"}}),
            ModelRequestRejected,
            "API key not valid",
            "OPENAI_API_KEY",
        ),
        (
            of_status(403, {"error": {"message": "The api_key is disabled"}}),
            ModelRequestRejected,
            "disabled",
            "api_key: env:NAME",
        ),
        (
            of_status(400, {"error": {"message": OVERFLOW}}),
            ModelRequestRejected,
            "maximum",
            "`window`",
        ),
        (
            of_status(413, {"error": {"message": "large"}}),
            ModelRequestRejected,
            "large",
            "`window`",
        ),
        (
            of_status(400, {"error": {"message": "no", "code": "context_length_exceeded"}}),
            ModelRequestRejected,
            "no",
            "`window`",
        ),
        (
            of_status(429, {"error": {"message": "no", "code": "insufficient_quota"}}),
            ModelRequestRejected,
            "no",
            "credit",
        ),
    ],
)
def test_errors_of_services(
    error: Exception, kind: type[ModelError], said: str, remedy: str
) -> None:
    found = model_error(error, MODEL)
    assert type(found) is kind, found
    assert said in found.message
    assert remedy in found.remedy
    assert "no reply" not in found.message


def test_the_status_of_a_cause_counts():
    error = RuntimeError("wrapped by a client")
    error.__cause__ = of_status(404, {"error": {"message": "gone"}})
    assert isinstance(model_error(error, MODEL), ModelRequestRejected)


def wrapped(error: Exception) -> Exception:
    """As a client raises what another client raised."""
    outer = RuntimeError("wrapped by a client")
    outer.__cause__ = error
    return outer


class AwsError(Exception):
    """As AWS's client raises it."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__("busy")
        self.response = {"ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers}}


def day_of(status: int) -> openai.APIStatusError:
    return of_status(status, {"error": {"message": "later"}}, **{"retry-after": "86400"})


NOW = 1_790_000_000.0
DAY = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(NOW + 86400))
LONG_WAITS = [
    *map(day_of, (408, 409, 425, 429, 500, 502, 503, 504, 529)),
    of_status(503, {}, **{"retry-after": DAY}),
    of_status(503, {}, **{"retry-after-ms": "86400000"}),
    inside({"message": "busy", "code": 503, "retry_after": 86400}),
    inside({"error": {"message": "busy", "code": "429", "retry_after": "86400"}}),
    wrapped(day_of(503)),
    AwsError(503, {"retry-after": "86400"}),
    ExceptionGroup("at once", [of_status(500, {}), day_of(503)]),
]


@pytest.mark.parametrize("error", LONG_WAITS, ids=repr)
def test_a_wait_of_a_day_is_an_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    found = model_error(error, MODEL)
    assert isinstance(found, ModelRequestRejected)
    assert "no call for 24h" in found.message or "no call for 1d" in found.message, found.message
    assert time.strftime("%Y-%m-%d", time.gmtime(NOW + 86400)) in found.message


@pytest.mark.parametrize("status", [408, 429, 503])
def test_the_longest_wait_is_retried(status: int) -> None:
    asked = {"retry-after": str(LONGEST_WAIT)}
    found = model_error(of_status(status, {}, **asked), MODEL)
    assert isinstance(found, ModelUnavailable)
    assert found.retry_after == LONGEST_WAIT


@pytest.mark.parametrize(
    ("asked", "attempts", "least"),
    [(0.01, 1, 1.0), (0.01, 3, 4.0), (7, 1, 7.0), (7, 4, 8.0), (0, 30, 60.0), (0, 10**6, 60.0)],
)
def test_a_delay_is_the_longer_of_the_backoff_and_what_the_service_asks_for(
    asked: float, attempts: int, least: float
) -> None:
    def delay(chance: float) -> float:
        return retry_delay(
            attempts, first=1.0, backoff=2.0, longest=60.0, asked=asked, chance=chance
        )

    assert (delay(0.0), delay(1.0)) == (least, 1.5 * least)


@pytest.mark.parametrize(
    ("error", "shorter"),
    [
        (of_status(400, {"error": {"message": "max_tokens is too large: 8192"}}), True),
        (of_status(400, {"error": {"message": OVERFLOW}}), True),
        (of_status(401, {}), False),
        (of_status(402, {}), False),
        (of_status(404, {"error": {"message": "no", "code": "model_not_found"}}), False),
        (day_of(429), False),
    ],
)
def test_errors_for_which_a_smaller_limit_helps(error: Exception, shorter: bool) -> None:
    refused = model_error(error, MODEL)
    assert isinstance(refused, ModelRequestRejected)
    refused.__cause__ = error
    assert may_be_shorter(refused) is shorter


@pytest.mark.parametrize(
    ("error", "unexplained"),
    [
        (of_status(400, {"error": {"message": "Extra inputs are not permitted"}}), True),
        (of_status(422, {"detail": "no"}), True),
        (of_status(401, {}), False),
        (of_status(429, {}), False),
        (of_status(400, {"error": {"message": OVERFLOW}}), False),
        (of_status(404, {"error": {"message": "no", "code": "model_not_found"}}), False),
        (RuntimeError("no status"), False),
    ],
)
def test_errors_for_which_fewer_options_help(error, unexplained):
    assert is_request_rejected(error) is unexplained


@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
def test_a_remedy_is_right_with_and_without_attempts_left(status):
    """The same error is told while a call is retried, and in the question behind its last try."""
    found = model_error(of_status(status, {"error": {"message": "busy"}}), MODEL)
    assert found.retryable
    assert found.remedy
    assert "again" not in found.remedy
    broken = AIMessage("half a", response_metadata={"finish_reason": "error"})
    with pytest.raises(ModelUnavailable) as told:
        check_complete(broken, MODEL)
    assert "again" not in told.value.remedy

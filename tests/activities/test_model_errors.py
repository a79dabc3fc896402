"""What errors of models' services mean, in the forms that services give them."""

from __future__ import annotations

import time
from typing import Any

import httpx
import openai
import pytest
from langchain_core.messages import AIMessage

from crewlog.activities.model_errors import is_unexplained, model_error, retry_delay
from crewlog.activities.replies import unbroken
from crewlog.errors import ModelError, ModelLimited, ModelRefused, ModelUnavailable

MODEL = "openai:m"
REQUEST = httpx.Request("POST", "http://service/v1")


def of_status(status: int, body: Any, **headers: str) -> openai.APIStatusError:
    response = httpx.Response(status, json=body, headers=headers, request=REQUEST)
    client = openai.OpenAI(api_key="k", base_url="http://service/v1")
    return client._make_status_error_from_response(response)


def inside(body: Any) -> ValueError:
    """As LangChain raises an error that comes in an answer 200."""
    return ValueError(body)


OVERFLOW = "This model's maximum context length is 8000 tokens."


@pytest.mark.parametrize(
    ("error", "kind", "said", "remedy"),
    [
        (
            inside({"message": "no such model", "code": 404}),
            ModelRefused,
            "no such model",
            "offers",
        ),
        (inside({"message": "bad", "code": "400"}), ModelRefused, "bad", "model_settings"),
        (inside({"message": "busy", "code": 429}), ModelLimited, "busy", "parallel"),
        (inside({"message": "down", "code": 502}), ModelUnavailable, "down", "another model"),
        (inside({"message": "x", "type": "overloaded_error"}), ModelLimited, "x", "parallel"),
        (
            of_status(422, {"detail": "the field n is wrong"}),
            ModelRefused,
            "the field n",
            "settings",
        ),
        (
            of_status(422, {"detail": [{"loc": ["body", "n"], "msg": "no number"}]}),
            ModelRefused,
            "body.n: no number",
            "settings",
        ),
        (of_status(400, {"error": "plain words"}), ModelRefused, "plain words", "settings"),
        (of_status(401, {"error": {"message": "no"}}), ModelRefused, "no", "OPENAI_API_KEY"),
        (
            of_status(400, {"error": {"message": "API key not valid"}}),
            ModelRefused,
            "API key not valid",
            "OPENAI_API_KEY",
        ),
        (
            of_status(403, {"error": {"message": "The api_key is disabled"}}),
            ModelRefused,
            "disabled",
            "api_key: env:NAME",
        ),
        (of_status(400, {"error": {"message": OVERFLOW}}), ModelRefused, "maximum", "`window`"),
        (of_status(413, {"error": {"message": "large"}}), ModelRefused, "large", "`window`"),
        (
            of_status(400, {"error": {"message": "no", "code": "context_length_exceeded"}}),
            ModelRefused,
            "no",
            "`window`",
        ),
        (
            of_status(429, {"error": {"message": "no", "code": "insufficient_quota"}}),
            ModelRefused,
            "no",
            "credit",
        ),
    ],
)
def test_what_a_service_says(
    error: Exception, kind: type[ModelError], said: str, remedy: str
) -> None:
    found = model_error(error, MODEL)
    assert type(found) is kind, found
    assert said in found.message
    assert remedy in found.remedy
    assert "no reply" not in found.message


def test_a_cause_has_the_status():
    error = RuntimeError("wrapped by a client")
    error.__cause__ = of_status(404, {"error": {"message": "gone"}})
    assert isinstance(model_error(error, MODEL), ModelRefused)


def test_a_wait_of_a_day_is_not_made_but_reported():
    busy = of_status(429, {"error": {"message": "daily limit"}}, **{"retry-after": "86400"})
    found = model_error(busy, MODEL)
    assert isinstance(found, ModelRefused)
    assert "no call for 24h" in found.message or "no call for 1d" in found.message, found.message
    assert time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86400)) in found.message


@pytest.mark.parametrize(
    ("asked", "attempt", "least"),
    [("0.01", 1, 1.0), ("0.01", 3, 4.0), ("7", 1, 7.0), ("7", 4, 8.0), ("0.01", 30, 60.0)],
)
def test_the_wait_is_never_shorter_than_the_backoff(asked, attempt, least):
    error = model_error(of_status(429, {}, **{"retry-after": asked}), MODEL)
    waits = {retry_delay(error, attempt, 1.0, 2.0, 60.0) for _ in range(50)}
    assert min(waits) >= least
    assert max(waits) <= 1.5 * least
    assert len(waits) > 40, "calls that were refused together do not come together"


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
def test_which_requests_may_go_with_less(error, unexplained):
    assert is_unexplained(error) is unexplained


@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
def test_a_remedy_is_true_with_tries_left_and_with_none(status):
    """The same error is told while a call is retried, and in the question behind its last try."""
    found = model_error(of_status(status, {"error": {"message": "busy"}}), MODEL)
    assert found.retryable
    assert found.remedy
    assert "again" not in found.remedy
    broken = AIMessage("half a", response_metadata={"finish_reason": "error"})
    with pytest.raises(ModelUnavailable) as told:
        unbroken(broken, MODEL)
    assert "again" not in told.value.remedy

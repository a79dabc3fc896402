"""Errors of model clients as one of three: rejected, temporarily unavailable, or rate limited.

The clients of all large providers are generated alike: an error has a `status_code`, a `response`
with headers, and a parsed `body`. So the status decides, and no client is imported here. Some
services send errors with status 200 or under other names; those are handled, too.
"""

from __future__ import annotations

import contextlib
import email.utils
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from crewlog.definition.providers import PROVIDERS
from crewlog.definition.times import duration_words
from crewlog.errors import ModelError, ModelRateLimited, ModelRequestRejected, ModelUnavailable
from crewlog.model import Json, is_object

_UNSUITABLE = (
    "The request does not suit this model: check the agent's model_settings and its tools."
)
_TOO_LONG = (
    "Show the model less of the conversation by the agent's `window`, or choose a model with a "
    "larger context."
)
_REMEDIES: Mapping[int, str] = {
    400: _UNSUITABLE,
    402: "The account has no credit left: add some, or give the agent another model.",
    403: "The key may not use this model: choose another model, or another key.",
    413: _TOO_LONG,
    422: _UNSUITABLE,
}
_RETRYABLE = (408, 409, 425)
_RATE_LIMITED = (429, 529)
_NO_CREDIT = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_CODES: Mapping[str, int] = {
    **dict.fromkeys(("invalidapikey", "incorrectapikey", "invalidtoken"), 401),
    **dict.fromkeys(("authentication", "auth", "notauthenticated", "unauthenticated"), 401),
    **dict.fromkeys(("unauthorized", "notauthorized"), 401),
    **dict.fromkeys(("insufficientquota", "insufficientcredits", "insufficientbalance"), 402),
    **dict.fromkeys(("billinghardlimitreached", "billingnotactive", "paymentrequired"), 402),
    **dict.fromkeys(("permission", "permissiondenied", "forbidden", "accessdenied"), 403),
    **dict.fromkeys(("modelnotfound", "notfound"), 404),
    **dict.fromkeys(("invalidrequest", "badrequest", "invalidargument", "validation"), 400),
    **dict.fromkeys(("contextlengthexceeded", "contentpolicyviolation", "contentfilter"), 400),
    **dict.fromkeys(("ratelimit", "ratelimitexceeded", "resourceexhausted"), 429),
    **dict.fromkeys(("toomanyrequests", "throttling"), 429),
    "overloaded": 529,
    **dict.fromkeys(("server", "internalserver", "internal", "api"), 500),
    **dict.fromkeys(("unavailable", "serviceunavailable"), 503),
}
"""The status for codes, types and messages of errors that have no status: in lower case, letters
only, without `error` at the end."""
_OVERFLOWS = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|prompt is too long|too many (input )?tokens"
    r"|input (is|tokens?) (too long|exceed)|token count .* exceeds|reduce the length",
    re.IGNORECASE,
)
"""Messages for a conversation that is too long."""
_KEY = re.compile(
    r"api[ _-]?key|not authenticated|unauthenticated|authentication (failed|error)|unauthori[sz]ed"
    r"|(invalid|incorrect|expired) (access |bearer |auth )?(token|credentials)",
    re.IGNORECASE,
)
"""Messages for a key that is not accepted."""
_QUOTA = re.compile(
    r"insufficient[ _](quota|balance|credit|fund)|(current|monthly) quota|out of credits",
    re.IGNORECASE,
)
"""Messages for an account without credit."""
LONGEST_WAIT = 600.0
"""The longest `Retry-After`, in seconds, that a call waits; after a longer one it fails."""


class ErrorBody(Exception):
    """The body of a response with status 200 that is not a reply.

    Args:
        fault: The message.
        body: The body.
    """

    def __init__(self, fault: str, body: Mapping[str, Any]) -> None:
        super().__init__(fault)
        self.body = body


def model_error(exc: Exception, model: str) -> ModelError:
    """Returns the error of a call of `model` for an exception of its client.

    Of several errors, one that is not retryable takes precedence.
    """
    if isinstance(exc, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", exc)
        errors = [model_error(each, model) for each in group.exceptions]
        return next((each for each in errors if not each.retryable), errors[0])
    if isinstance(exc, ModelError):
        return exc
    status = _status(exc)
    if status is not None:
        return _error_for_status(exc, model, status)
    kinds = " ".join(c.__name__ for c in type(exc).__mro__)
    if isinstance(exc, TimeoutError) or "Timeout" in kinds:
        return ModelUnavailable(
            f"the model {model!r} did not answer in time",
            remedy="A longer `timeout` of the agent may help.",
        )
    if isinstance(exc, ConnectionError) or any(
        word in kinds for word in ("Connection", "TransportError", "ConnectError")
    ):
        cause = f": {exc.__cause__}" if exc.__cause__ else ""
        return ModelUnavailable(
            f"the service of the model {model!r} cannot be reached{cause}",
            remedy=f"Check the network and {_address_setting(model)}.",
        )
    if isinstance(exc, TypeError) and "unexpected keyword" in str(exc):
        return ModelRequestRejected(
            f"the model {model!r} cannot be called with these settings: {exc}",
            remedy="Check the agent's model_settings.",
        )
    message = _message(exc)
    if "ContextOverflow" in kinds or _OVERFLOWS.search(message):
        remedy = _TOO_LONG
    elif "ValidationError" in kinds:  # its message may quote a text of the model
        remedy = ""
    else:
        is_key = _KEY.search(message)
        remedy = _REMEDIES[402] if _QUOTA.search(message) else _key_remedy(model) if is_key else ""
    if remedy:
        return ModelRequestRejected(f"the model {model!r} answered: {message}", remedy=remedy)
    if not _body_texts(exc) and not isinstance(exc, ErrorBody):
        message = f"{type(exc).__name__}: {message}"
    return ModelUnavailable(
        f"the model {model!r} answered with something else than a reply: {message}",
        remedy=f"If the error persists, check {_address_setting(model)}.",
    )


def is_request_rejected(exc: BaseException) -> bool:
    """Whether a service rejected the content of a request: one with fewer options may pass."""
    error = exc.__cause__ if isinstance(exc, ModelError) and exc.__cause__ is not None else exc
    if not isinstance(error, Exception) or _status(error) not in (400, 404, 405, 415, 422, 501):
        return False
    code = _field(error, "code")
    return code not in ("model_not_found", *_NO_CREDIT) and not _OVERFLOWS.search(_message(error))


def may_be_shorter(exc: ModelRequestRejected) -> bool:
    """Whether a service may accept the same request with a smaller limit of its reply.

    It said that the limit is too large, or that prompt and reply do not fit the context.
    """
    error = exc.__cause__
    too_long = isinstance(error, Exception) and _is_too_long(error, _status(error) or 0)
    return too_long or is_request_rejected(exc)


def _error_for_status(exc: Exception, model: str, status: int) -> ModelError:
    text = _message(exc)
    message = f"the model {model!r} answered {status}: {text}"
    codes = {_field(exc, "code"), _field(exc, "type"), getattr(exc, "code", None)}
    if status in _RATE_LIMITED and codes & {*_NO_CREDIT}:
        return ModelRequestRejected(message, remedy=_REMEDIES[402])
    if status in (*_RATE_LIMITED, *_RETRYABLE) or status >= 500:
        return _temporary_error(exc, model, message, limited=status in _RATE_LIMITED)
    if _is_too_long(exc, status):
        return ModelRequestRejected(message, remedy=_TOO_LONG)
    if status == 401 or (status in (400, 403) and _KEY.search(text)):
        return ModelRequestRejected(message, remedy=_key_remedy(model))
    if status == 404:
        remedy = f"Choose a model that the service offers, and check {_address_setting(model)}."
        return ModelRequestRejected(message, remedy=remedy)
    remedy = _REMEDIES.get(status, "Read the service's message.")
    return ModelRequestRejected(message, remedy=remedy)


def _temporary_error(exc: Exception, model: str, message: str, *, limited: bool) -> ModelError:
    """Returns a retryable error, or a final one if the service asks for too long a wait."""
    wait = _retry_after(exc)
    if wait is not None and wait > LONGEST_WAIT:
        until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time.time() + wait))
        duration = duration_words(60 * round(wait / 60))
        return ModelRequestRejected(
            f"{message}. It takes no call for {duration}, until {until}",
            remedy="Try again then, raise the account's limit, or give the agent another model."
            if limited
            else "Try again then, or give the agent another model.",
        )
    if not limited:
        return ModelUnavailable(
            message,
            remedy="It may come back. If it does not, give the agent another model.",
            retry_after=wait,
        )
    return ModelRateLimited(
        message,
        place=f"the limit of {model}",
        remedy="A smaller `parallel` in the crew's limits makes fewer calls at once.",
        retry_after=wait,
    )


def _is_too_long(exc: Exception, status: int) -> bool:
    """Whether a request was rejected since it is longer than the model's context."""
    if status == 413:
        return True
    codes = (_field(exc, "code"), _field(exc, "type"), getattr(exc, "code", None))
    too_long = _OVERFLOWS.search(_message(exc)) or "context_length_exceeded" in codes
    return status in (400, 422) and bool(too_long)


def _address_setting(model: str) -> str:
    """Returns the name of the setting with the address of the model's service."""
    provider = PROVIDERS.get(model.partition(":")[0])
    return provider.url_variable if provider and provider.url_variable else "the service's base URL"


def _key_remedy(model: str) -> str:
    provider = PROVIDERS.get(model.partition(":")[0])
    name = provider.keys[0] if provider and provider.keys else ""
    where = f"Set {name} to a valid key in the worker's environment" if name else "Give it a key"
    return f"{where}, or name one by the agent's `model_settings: {{api_key: env:NAME}}`."


# -- fields of errors ---------------------------------------------------------------------------


def _status(exc: BaseException) -> int | None:
    """Returns the HTTP status of an error, its body or its cause; None: they have none."""
    response: Any = getattr(exc, "response", None)
    aws: Json = response.get("ResponseMetadata") if is_object(response) else None
    values: Iterable[Any] = (
        getattr(exc, "status_code", None),
        getattr(exc, "code", None),
        getattr(response, "status_code", None),
        aws.get("HTTPStatusCode") if is_object(aws) else None,
        *(_field(exc, key) for key in ("status", "status_code", "code", "type")),
        *_body_texts(exc),
    )
    for found in values:
        if isinstance(found, str):
            found = int(found) if found.isdecimal() else _CODES.get(_normalized(found))
        if isinstance(found, int) and not isinstance(found, bool) and 400 <= found < 600:
            return found
    return _status(exc.__cause__) if exc.__cause__ is not None else None


def _normalized(word: str) -> str:
    """Returns the key of `_CODES` for `not_found_error`, `NotFound` or `Not Found`."""
    return re.sub(r"[^a-z]", "", word.lower()).removesuffix("error")


def _bodies(exc: BaseException) -> Iterator[Mapping[str, Any]]:
    """Yields the objects of an error's body, the inner ones first, such as that of `error`."""
    for body in (getattr(exc, "body", None), *exc.args[:1], _parse_ok_response(exc)):
        if callable(dump := getattr(body, "model_dump", None)):
            body = dump()
        if not isinstance(body, Mapping):
            continue
        fields = cast("Mapping[str, Any]", body)
        for key in ("error", "detail"):
            inner: Any = fields.get(key)
            if isinstance(inner, Mapping):
                yield cast("Mapping[str, Any]", inner)
        yield fields


def _parse_ok_response(exc: BaseException) -> Any:
    """Returns the body of a response with status 200 that OpenAI's client could not parse."""
    response: Any = getattr(exc, "response", None)
    if getattr(response, "status_code", None) != 200:
        return None
    with contextlib.suppress(ValueError, AttributeError, RuntimeError):  # no JSON, or a stream
        return response.json()
    return None


def _field(exc: BaseException, key: str) -> Any:
    return next((body[key] for body in _bodies(exc) if body.get(key) is not None), None)


def _message(exc: Exception) -> str:
    text = next(iter(_body_texts(exc)), "") or _detail_text(exc)
    text = " ".join((text or str(exc)).split())[:300]
    code = _field(exc, "code")
    return f"{text} ({code})" if isinstance(code, str) and code not in text else text


def _body_texts(exc: BaseException) -> list[str]:
    """Returns the texts of an error's body, the most readable one first."""
    values = [getattr(exc, "body", None)]  # OpenAI's client has the value of `error` there
    values += [_field(exc, key) for key in ("message", "detail", "error", "msg")]
    return [each for each in values if isinstance(each, str) and each]


def _detail_text(exc: Exception) -> str:
    """Returns the text of a list of details, as FastAPI sends them."""
    details = _field(exc, "detail")
    if not isinstance(details, list):
        return ""
    parts: list[Any] = details  # pyright: ignore[reportUnknownVariableType]
    return "; ".join(
        f"{'.'.join(map(str, each.get('loc') or ()))}: {each.get('msg')}"
        for each in parts
        if is_object(each)
    )


def _retry_after(exc: BaseException) -> float | None:
    """Returns the wait in seconds that an error, its body or its cause asks for; None: none."""
    headers = dict(_headers(exc))
    for value, scale in (
        (headers.get("retry-after-ms"), 0.001),
        (headers.get("retry-after"), 1.0),
        (_field(exc, "retry_after"), 1.0),
    ):
        wait = _parse_wait(value)
        if wait is not None and 0 < wait * scale < float("inf"):
            return wait * scale
    return _retry_after(exc.__cause__) if exc.__cause__ is not None else None


def _headers(exc: BaseException) -> Iterator[tuple[str, Any]]:
    """Yields the headers of an error's response, with names in lower case."""
    response: Any = getattr(exc, "response", None)
    headers: Any = getattr(response, "headers", None)
    if isinstance(response, dict):  # as AWS's client has them
        metadata: Any = response.get("ResponseMetadata")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        headers = metadata.get("HTTPHeaders") if isinstance(metadata, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(headers, Mapping):
        yield from ((str(name).lower(), value) for name, value in headers.items())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType]


def _parse_wait(value: Any) -> float | None:
    """Returns the seconds of a wait: a number, a text with one, or the date of its end."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        date = email.utils.parsedate_tz(str(value))
    return None if date is None else email.utils.mktime_tz(date) - time.time()

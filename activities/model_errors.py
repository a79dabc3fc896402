"""What a model's client raised, as one of three: it is refused, it may pass, or a limit is reached.

The clients of all large providers are generated alike: an error has a `status_code`, a `response`
with headers, and a parsed `body`. So the status decides, and no client need be imported here. Some
services give their errors in an answer 200, or under other names; those are read alike.
"""

from __future__ import annotations

import email.utils
import random
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

from crewlog.definition.providers import PROVIDERS
from crewlog.definition.times import duration_words
from crewlog.errors import ModelError, ModelLimited, ModelRefused, ModelUnavailable

_REQUEST = "The request does not suit this model: check the agent's model_settings and its tools."
_TOO_LONG = (
    "Show the model less of the conversation by the agent's `window`, or choose a model with a "
    "larger context."
)
_REMEDIES: Mapping[int, str] = {
    400: _REQUEST,
    402: "The account has no credit left: add some, or give the agent another model.",
    403: "The key may not use this model: choose another model, or another key.",
    413: _TOO_LONG,
    422: _REQUEST,
}
_PASSING = (408, 409, 425)
_LIMITED = (429, 529)
_NO_QUOTA = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
_CODES: Mapping[str, int] = {
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "model_not_found": 404,
    "not_found_error": 404,
    "not_found": 404,
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "resource_exhausted": 429,
    "overloaded_error": 529,
    "server_error": 500,
    "api_error": 500,
    "unavailable": 503,
}
"""Codes and types of errors of services that do not give a status."""
_OVERFLOWS = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|prompt is too long|too many (input )?tokens"
    r"|input (is|tokens?) (too long|exceed)|token count .* exceeds|reduce the length",
    re.IGNORECASE,
)
"""What services say where a conversation is too long."""
_KEY = re.compile(r"api[ _-]?key", re.IGNORECASE)
LONGEST_WAIT = 600.0
"""Seconds that a call waits by itself because its service asks for it; people decide of more."""
_JITTER = 0.5
"""The part of a wait by which it may be longer: who was refused together does not come together."""


def model_error(exc: Exception, model: str) -> ModelError:
    """The error that `exc` means for a call of `model`.

    Of several errors, one that no retry helps decides.
    """
    if isinstance(exc, ExceptionGroup):
        group: ExceptionGroup[Exception] = exc
        found = [model_error(each, model) for each in group.exceptions]
        return next((each for each in found if not each.retryable), found[0])
    if isinstance(exc, ModelError):
        return exc
    status = _status(exc)
    if status is not None:
        return _by_status(exc, model, status)
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
            remedy=f"Check the network and {_address(model)}.",
        )
    if "ContextOverflow" in kinds or _OVERFLOWS.search(_message(exc)):
        return ModelRefused(
            f"the conversation is too long for the model {model!r}: {_message(exc)}",
            remedy=_TOO_LONG,
        )
    if isinstance(exc, TypeError) and "unexpected keyword" in str(exc):
        return ModelRefused(
            f"the model {model!r} cannot be called so: {exc}",
            remedy="Check the agent's model_settings.",
        )
    return ModelUnavailable(
        f"the model {model!r} answered with what is no reply: {type(exc).__name__}: "
        f"{_message(exc)}",
        remedy=f"If it does not pass, check {_address(model)}.",
    )


def is_unexplained(exc: BaseException) -> bool:
    """Whether a service refused a request as such: what it lacks may be left out of another one."""
    error = exc.__cause__ if isinstance(exc, ModelError) and exc.__cause__ is not None else exc
    if not isinstance(error, Exception) or _status(error) not in (400, 404, 405, 415, 422, 501):
        return False
    code = _field(error, "code")
    return code not in ("model_not_found", *_NO_QUOTA) and not _OVERFLOWS.search(_message(error))


def retry_delay(exc: ModelError, attempt: int, first: float, backoff: float, most: float) -> float:
    """The seconds until the next try: the backoff, or longer where the service asks for more.

    Args:
        exc: Why the try failed.
        attempt: The try, from 1.
        first: Seconds before the second try.
        backoff: What each further wait is multiplied by.
        most: The longest wait that the backoff leads to.
    """
    asked = exc.retry_after if isinstance(exc, ModelUnavailable) else None
    # The exponent is bounded: a float has no more.
    wait = max(asked or 0.0, min(first * backoff ** min(attempt - 1, 300), most))
    return wait * (1 + _JITTER * random.random())  # noqa: S311 - no secret


def _by_status(exc: Exception, model: str, status: int) -> ModelError:
    said = _message(exc)
    what = f"the model {model!r} answered {status}: {said}"
    words = {_field(exc, "code"), _field(exc, "type"), getattr(exc, "code", None)}
    if status in _LIMITED and words & {*_NO_QUOTA}:
        return ModelRefused(what, remedy=_REMEDIES[402])
    if status in _LIMITED:
        return _limited(exc, model, what)
    if status in _PASSING or status >= 500:
        return ModelUnavailable(
            what,
            remedy="It may come back. If it does not, give the agent another model.",
            retry_after=_retry_after(exc),
        )
    if status in (400, 413, 422) and (
        status == 413 or _OVERFLOWS.search(said) or "context_length_exceeded" in words
    ):
        return ModelRefused(what, remedy=_TOO_LONG)
    if status == 401 or (status in (400, 403) and _KEY.search(said)):
        return ModelRefused(what, remedy=_key_remedy(model))
    if status == 404:
        remedy = f"Choose a model that the service offers, and check {_address(model)}."
        return ModelRefused(what, remedy=remedy)
    return ModelRefused(what, remedy=_REMEDIES.get(status, "Read the service's message."))


def _limited(exc: Exception, model: str, what: str) -> ModelError:
    wait = _retry_after(exc)
    if wait is not None and wait > LONGEST_WAIT:
        until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time.time() + wait))
        return ModelRefused(
            f"{what}. It takes no call for {duration_words(wait)}, until {until}",
            remedy="Try again then, raise the account's limit, or give the agent another model.",
        )
    return ModelLimited(
        what,
        place=f"the limit of {model}",
        remedy="A smaller `parallel` in the crew's limits makes fewer calls at once.",
        retry_after=wait,
    )


def _address(model: str) -> str:
    """What says where the model's service is."""
    provider = PROVIDERS.get(model.partition(":")[0])
    return provider.url_variable if provider and provider.url_variable else "the service's base URL"


def _key_remedy(model: str) -> str:
    provider = PROVIDERS.get(model.partition(":")[0])
    name = provider.keys[0] if provider and provider.keys else ""
    where = f"Set {name} to a valid key in the worker's environment" if name else "Give it a key"
    return f"{where}, or name one by the agent's `model_settings: {{api_key: env:NAME}}`."


# -- what services say --------------------------------------------------------------------------


def _status(exc: BaseException) -> int | None:
    """The HTTP status that an error, its body or its cause says; none where none does."""
    response: Any = getattr(exc, "response", None)
    aws: Any = response.get("ResponseMetadata") if isinstance(response, dict) else None  # pyright: ignore
    for found in (
        getattr(exc, "status_code", None),
        getattr(exc, "code", None),
        getattr(response, "status_code", None),
        aws.get("HTTPStatusCode") if isinstance(aws, dict) else None,  # pyright: ignore
        *(_field(exc, key) for key in ("status", "status_code", "code", "type")),
    ):
        if isinstance(found, str):
            found = int(found) if found.isdecimal() else _CODES.get(found.lower())
        if isinstance(found, int) and not isinstance(found, bool) and 400 <= found < 600:
            return found
    return _status(exc.__cause__) if exc.__cause__ is not None else None


def _bodies(exc: BaseException) -> Iterator[Mapping[str, Any]]:
    """The parts of an error's body, from the inside: `{error: {…}}`, `{detail: …}` and others."""
    given = [getattr(exc, "body", None), *exc.args[:1]]
    for body in given:
        if not isinstance(body, Mapping):
            continue
        found = cast("Mapping[str, Any]", body)
        for key in ("error", "detail"):
            inner: Any = found.get(key)
            if isinstance(inner, Mapping):
                yield cast("Mapping[str, Any]", inner)
        yield found


def _field(exc: BaseException, key: str) -> Any:
    return next((body[key] for body in _bodies(exc) if body.get(key) is not None), None)


def _message(exc: Exception) -> str:
    said = [getattr(exc, "body", None)]  # OpenAI's client gives what is below `error`
    said += [_field(exc, key) for key in ("message", "detail", "error", "msg")]
    text = next((each for each in said if isinstance(each, str) and each), "") or _details(exc)
    text = " ".join((text or str(exc)).split())[:300]
    code = _field(exc, "code")
    return f"{text} ({code})" if isinstance(code, str) and code not in text else text


def _details(exc: Exception) -> str:
    """What a list of details says, as FastAPI gives it."""
    details = _field(exc, "detail")
    if not isinstance(details, list):
        return ""
    parts: list[Any] = details  # pyright: ignore[reportUnknownVariableType]
    found = [
        f"{'.'.join(map(str, each.get('loc') or ()))}: {each.get('msg')}"
        for each in parts
        if isinstance(each, dict)
    ]
    return "; ".join(found)


def _retry_after(exc: Exception) -> float | None:
    """The wait that the service asked for, in seconds; it may be given in three ways."""
    headers: Any = getattr(getattr(exc, "response", None), "headers", None)
    if headers is None:
        return None
    for header, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(header)
        if not value:
            continue
        try:
            wait = float(value) * scale
        except ValueError:
            date = email.utils.parsedate_tz(value)
            if date is None:
                continue
            wait = email.utils.mktime_tz(date) - time.time()
        if 0 < wait < float("inf"):
            return wait
    return None

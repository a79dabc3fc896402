"""What a model's client raised, as one of three: it is refused, it may pass, or a limit is reached.

The clients of all large providers are generated alike: an error has a `status_code`, a `response`
with headers, and a parsed `body`. So the status decides, and no client need be imported here. Some
services give their errors in an answer 200, or under other names; those are read alike.
"""

from __future__ import annotations

import contextlib
import email.utils
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

from crewlog.definition.providers import PROVIDERS
from crewlog.definition.times import duration_words
from crewlog.errors import ModelError, ModelRateLimited, ModelRequestRejected, ModelUnavailable

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
"""Words of services that do not give a status: codes and types of errors, and whole messages, in
small letters alone and without `error` at the end."""
_OVERFLOWS = re.compile(
    r"context[ _-]?(length|window|size)|maximum context|prompt is too long|too many (input )?tokens"
    r"|input (is|tokens?) (too long|exceed)|token count .* exceeds|reduce the length",
    re.IGNORECASE,
)
"""What services say where a conversation is too long."""
_KEY = re.compile(
    r"api[ _-]?key|not authenticated|unauthenticated|authentication (failed|error)|unauthori[sz]ed"
    r"|(invalid|incorrect|expired) (access |bearer |auth )?(token|credentials)",
    re.IGNORECASE,
)
"""What services say where they do not accept a key."""
_QUOTA = re.compile(
    r"insufficient[ _](quota|balance|credit|fund)|(current|monthly) quota|out of credits",
    re.IGNORECASE,
)
"""What services say where nothing is left to pay with."""
LONGEST_WAIT = 600.0
"""Seconds that a call waits because its service asks for it; a longer wait is for people."""


class ErrorBody(Exception):
    """A body of an answer 200 that is no reply.

    Args:
        fault: What it is instead, as the end of a sentence.
        body: The body.
    """

    def __init__(self, fault: str, body: Mapping[str, Any]) -> None:
        super().__init__(fault)
        self.body = body


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
    said = _message(exc)
    if "ContextOverflow" in kinds or _OVERFLOWS.search(said):
        return ModelRequestRejected(
            f"the conversation is too long for the model {model!r}: {said}", remedy=_TOO_LONG
        )
    if isinstance(exc, TypeError) and "unexpected keyword" in str(exc):
        return ModelRequestRejected(
            f"the model {model!r} cannot be called so: {exc}",
            remedy="Check the agent's model_settings.",
        )
    quotes = "ValidationError" in kinds  # what a client could not read may be the model's words
    if _QUOTA.search(said) and not quotes:
        return ModelRequestRejected(f"the model {model!r} answered: {said}", remedy=_REMEDIES[402])
    if _KEY.search(said) and not quotes:
        return ModelRequestRejected(
            f"the model {model!r} answered: {said}", remedy=_key_remedy(model)
        )
    what = said if _words(exc) or isinstance(exc, ErrorBody) else f"{type(exc).__name__}: {said}"
    return ModelUnavailable(
        f"the model {model!r} answered with what is no reply: {what}",
        remedy=f"If it does not pass, check {_address(model)}.",
    )


def is_request_rejected(exc: BaseException) -> bool:
    """Whether a service refused a request as such: what it lacks may be left out of another one."""
    error = exc.__cause__ if isinstance(exc, ModelError) and exc.__cause__ is not None else exc
    if not isinstance(error, Exception) or _status(error) not in (400, 404, 405, 415, 422, 501):
        return False
    code = _field(error, "code")
    return code not in ("model_not_found", *_NO_QUOTA) and not _OVERFLOWS.search(_message(error))


def may_be_shorter(exc: ModelRequestRejected) -> bool:
    """Whether a service may take the same request with a smaller limit of its reply.

    It says that the limit is too large, or that the prompt and the reply do not fit the context.
    """
    error = exc.__cause__
    overflows = isinstance(error, Exception) and _overflows(error, _status(error) or 0)
    return overflows or is_request_rejected(exc)


def _by_status(exc: Exception, model: str, status: int) -> ModelError:
    said = _message(exc)
    what = f"the model {model!r} answered {status}: {said}"
    words = {_field(exc, "code"), _field(exc, "type"), getattr(exc, "code", None)}
    if status in _LIMITED and words & {*_NO_QUOTA}:
        return ModelRequestRejected(what, remedy=_REMEDIES[402])
    if status in (*_LIMITED, *_PASSING) or status >= 500:
        return _passing(exc, model, what, limited=status in _LIMITED)
    if _overflows(exc, status):
        return ModelRequestRejected(what, remedy=_TOO_LONG)
    if status == 401 or (status in (400, 403) and _KEY.search(said)):
        return ModelRequestRejected(what, remedy=_key_remedy(model))
    if status == 404:
        remedy = f"Choose a model that the service offers, and check {_address(model)}."
        return ModelRequestRejected(what, remedy=remedy)
    return ModelRequestRejected(what, remedy=_REMEDIES.get(status, "Read the service's message."))


def _passing(exc: Exception, model: str, what: str, *, limited: bool) -> ModelError:
    """A failure that may pass; it is final where the service asks for too long a wait."""
    wait = _retry_after(exc)
    if wait is not None and wait > LONGEST_WAIT:
        until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time.time() + wait))
        return ModelRequestRejected(
            f"{what}. It takes no call for {duration_words(60 * round(wait / 60))}, until {until}",
            remedy="Try again then, raise the account's limit, or give the agent another model."
            if limited
            else "Try again then, or give the agent another model.",
        )
    if not limited:
        return ModelUnavailable(
            what,
            remedy="It may come back. If it does not, give the agent another model.",
            retry_after=wait,
        )
    return ModelRateLimited(
        what,
        place=f"the limit of {model}",
        remedy="A smaller `parallel` in the crew's limits makes fewer calls at once.",
        retry_after=wait,
    )


def _overflows(exc: Exception, status: int) -> bool:
    """Whether a request was refused since it is longer than the model's context."""
    if status == 413:
        return True
    words = (_field(exc, "code"), _field(exc, "type"), getattr(exc, "code", None))
    said = _OVERFLOWS.search(_message(exc)) or "context_length_exceeded" in words
    return status in (400, 422) and bool(said)


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
        *_words(exc),
    ):
        if isinstance(found, str):
            found = int(found) if found.isdecimal() else _CODES.get(_normal(found))
        if isinstance(found, int) and not isinstance(found, bool) and 400 <= found < 600:
            return found
    return _status(exc.__cause__) if exc.__cause__ is not None else None


def _normal(word: str) -> str:
    """A word for an error, however it is spelled: `not_found_error`, `NotFound`, `Not Found`."""
    return re.sub(r"[^a-z]", "", word.lower()).removesuffix("error")


def _bodies(exc: BaseException) -> Iterator[Mapping[str, Any]]:
    """The parts of an error's body, from the inside: `{error: {…}}`, `{detail: …}` and others."""
    given = [getattr(exc, "body", None), *exc.args[:1], _answer(exc)]
    for body in given:
        if callable(dump := getattr(body, "model_dump", None)):
            body = dump()
        if not isinstance(body, Mapping):
            continue
        found = cast("Mapping[str, Any]", body)
        for key in ("error", "detail"):
            inner: Any = found.get(key)
            if isinstance(inner, Mapping):
                yield cast("Mapping[str, Any]", inner)
        yield found


def _answer(exc: BaseException) -> Any:
    """The answer 200 that a client of OpenAI could not read, where the error has it."""
    response: Any = getattr(exc, "response", None)
    if getattr(response, "status_code", None) != 200:
        return None
    with contextlib.suppress(ValueError, AttributeError, RuntimeError):  # no JSON, or a stream
        return response.json()
    return None


def _field(exc: BaseException, key: str) -> Any:
    return next((body[key] for body in _bodies(exc) if body.get(key) is not None), None)


def _message(exc: Exception) -> str:
    text = next(iter(_words(exc)), "") or _details(exc)
    text = " ".join((text or str(exc)).split())[:300]
    code = _field(exc, "code")
    return f"{text} ({code})" if isinstance(code, str) and code not in text else text


def _words(exc: BaseException) -> list[str]:
    """The texts of an error's body, the one for people first."""
    said = [getattr(exc, "body", None)]  # OpenAI's client gives what is below `error`
    said += [_field(exc, key) for key in ("message", "detail", "error", "msg")]
    return [each for each in said if isinstance(each, str) and each]


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


def _retry_after(exc: BaseException) -> float | None:
    """The seconds that an error, its body or its cause asks to wait; none where none does."""
    given = dict(_headers(exc))
    said = _field(exc, "retry_after")
    for value, scale in (
        (given.get("retry-after-ms"), 0.001),
        (given.get("retry-after"), 1.0),
        (said, 1.0),
    ):
        wait = _seconds(value)
        if wait is not None and 0 < wait * scale < float("inf"):
            return wait * scale
    return _retry_after(exc.__cause__) if exc.__cause__ is not None else None


def _headers(exc: BaseException) -> Iterator[tuple[str, Any]]:
    """The headers of an error's answer, by their names in small letters."""
    response: Any = getattr(exc, "response", None)
    headers: Any = getattr(response, "headers", None)
    if isinstance(response, dict):  # as AWS's client has them
        metadata: Any = response.get("ResponseMetadata")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        headers = metadata.get("HTTPHeaders") if isinstance(metadata, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if isinstance(headers, Mapping):
        yield from ((str(name).lower(), value) for name, value in headers.items())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType]


def _seconds(value: Any) -> float | None:
    """A wait that is given as a number, as its text, or as the date of its end."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        date = email.utils.parsedate_tz(str(value))
    return None if date is None else email.utils.mktime_tz(date) - time.time()

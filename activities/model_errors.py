"""What a model's client raised, as one of two: a retry does not help, or it may.

The clients of all large providers are generated alike: an error has a `status_code`, a `response`
with headers, and a parsed `body`. So the status decides, and no client need be imported here.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any

from crewlog.errors import ModelError, ModelRefused, ModelUnavailable

_REMEDIES: Mapping[int, str] = {
    400: "The request does not suit this model: check the agent's model_settings and its tools.",
    401: "Set OPENAI_API_KEY to a valid key in the worker's environment.",
    402: "The account has no credit left: add some, or give the agent another model.",
    403: "The key may not use this model: choose another model, or another key.",
    404: "Choose a model that the service offers, and check OPENAI_BASE_URL.",
    413: "The conversation is too long for this model: choose one with a larger context.",
    422: "The request does not suit this model: check the agent's model_settings and its tools.",
}
_PASSING = (408, 409, 425, 429)
_NO_QUOTA = "insufficient_quota"
_LONGEST_WAIT = 600.0


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
    status: Any = getattr(exc, "status_code", None)
    if isinstance(status, int):
        return _by_status(exc, model, status)
    kinds = " ".join(c.__name__ for c in type(exc).__mro__)
    if isinstance(exc, TimeoutError) or "Timeout" in kinds:
        return ModelUnavailable(
            f"the model {model!r} did not answer in time",
            remedy="A longer `timeout` of the agent may help.",
        )
    if isinstance(exc, ConnectionError) or "Connection" in kinds or "TransportError" in kinds:
        cause = f": {exc.__cause__}" if exc.__cause__ else ""
        return ModelUnavailable(
            f"the service of the model {model!r} cannot be reached{cause}",
            remedy="Check the network and OPENAI_BASE_URL.",
        )
    if "ContextOverflow" in kinds:
        return ModelRefused(
            f"the conversation is too long for the model {model!r}", remedy=_REMEDIES[413]
        )
    if isinstance(exc, TypeError) and "unexpected keyword" in str(exc):
        return ModelRefused(
            f"the model {model!r} cannot be called so: {exc}",
            remedy="Check the agent's model_settings.",
        )
    return ModelUnavailable(
        f"the model {model!r} answered with what is no reply: {type(exc).__name__}: {_short(exc)}",
        remedy="If it does not pass, check OPENAI_BASE_URL.",
    )


def _by_status(exc: Exception, model: str, status: int) -> ModelError:
    what = f"the model {model!r} answered {status}: {_message(exc)}"
    no_quota = status == 429 and _NO_QUOTA in (getattr(exc, "code", None), _field(exc, "type"))
    if no_quota:
        return ModelRefused(what, remedy=_REMEDIES[402])
    if status in _PASSING or status >= 500:
        return ModelUnavailable(
            what, remedy="It may come back; the run tries again.", retry_after=_retry_after(exc)
        )
    return ModelRefused(what, remedy=_REMEDIES.get(status, "Read the service's message."))


def _field(exc: Exception, key: str) -> Any:
    body: Any = getattr(exc, "body", None)
    if not isinstance(body, Mapping):
        return None
    inner: Any = body.get("error", body)  # pyright: ignore[reportUnknownVariableType]
    return inner.get(key) if isinstance(inner, Mapping) else None  # pyright: ignore


def _message(exc: Exception) -> str:
    said = _field(exc, "message")
    code = _field(exc, "code")
    text = said if isinstance(said, str) and said else _short(exc)
    return f"{text} ({code})" if isinstance(code, str) and code not in text else text


def _short(exc: Exception) -> str:
    return " ".join(str(exc).split())[:300]


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
        if wait > 0:
            return min(wait, _LONGEST_WAIT)
    return None

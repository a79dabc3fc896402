"""Chat models by name: `PROVIDER:NAME`, `scripted:FILE`, and whatever is registered besides.

The providers are those of LangChain's `init_chat_model`, and those that installed packages bring by
entry points.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, cast

from langchain_core.language_models import BaseChatModel

from crewlog.activities.caches import Made
from crewlog.activities.model_errors import model_error
from crewlog.canonical_json import hash_json
from crewlog.definition.providers import PROVIDERS, Provider, key_in
from crewlog.errors import CrewlogError, ModelRequestRejected
from crewlog.ids import ContentHash
from crewlog.model import Json
from crewlog.providers import (
    Lack,
    installed_providers,
    missing_key_problem,
    missing_package_problem,
    unknown_provider_problem,
)
from crewlog.redaction import remember
from crewlog.secrets import resolved

LIMITS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict"})
"""The names by which clients and services know the limit of a reply's tokens."""
Builder = Callable[[str, Mapping[str, Json], float], BaseChatModel]
"""Makes a chat model of what follows the prefix, an agent's settings, and a timeout in seconds."""

_BUILDERS: dict[str, Builder | str] = {
    "openai": "crewlog.activities.chat_models:build_openai",
    # By name: what users' tests need is a layer above, and is imported only where it is used.
    "scripted": "crewlog.testing.scripted:build",
}


def register(prefix: str, builder: Builder | str) -> None:
    """Makes models of the form `prefix:NAME` known to this process.

    Args:
        prefix: The part before the colon.
        builder: A function, or `module:function` that is imported at the first use.
    """
    _BUILDERS[prefix] = builder


def build_openai(name: str, settings: Mapping[str, Json], timeout: float) -> BaseChatModel:
    """A model of OpenAI, or of any service that speaks its language at `OPENAI_BASE_URL`."""
    if lack := missing_key_problem(f"openai:{name}", settings):
        raise _refused(lack)
    key = key_in(PROVIDERS["openai"], settings) or os.environ.get("OPENAI_API_KEY")
    remember(str(key))  # a service may repeat it, e.g. where it refuses it
    # Here, because it takes seconds, and crews with scripted models never need it.
    from crewlog.activities.openai_chat import OpenAIChat  # noqa: PLC0415

    given: dict[str, Any] = {
        "model": name,
        "api_key": key,
        "base_url": os.environ.get("OPENAI_BASE_URL") or None,
        # Temporal retries: it waits without holding a worker, and the history shows it.
        "max_retries": 0,
        "timeout": timeout,
        "stream_usage": True,
        # A model that reasons may be silent for minutes before its first piece.
        "stream_chunk_timeout": timeout,
        **settings,
    }
    return OpenAIChat(**given)


def make_provider_model(
    prefix: str, name: str, settings: Mapping[str, Json], timeout: float
) -> BaseChatModel:
    """A model of one of LangChain's providers.

    Raises:
        ModelRequestRejected: its package is not installed, or it has no key.
    """
    provider = PROVIDERS[prefix]
    model = f"{prefix}:{name}"
    if lack := missing_package_problem(model) or missing_key_problem(model, settings):
        raise _refused(lack)
    for variable in provider.keys:
        if value := os.environ.get(variable):
            remember(value)  # a service may repeat it, e.g. where it refuses it
    if key := key_in(provider, settings):
        remember(str(key))
    # Here, because it takes a second, and crews of other models never need it.
    from langchain.chat_models import init_chat_model  # noqa: PLC0415

    taken = _settings_of(provider)
    given = {**_limits(provider, taken, timeout), **settings}
    if prefix == "ollama":
        given = _for_ollama(given, timeout)
    made: Any = init_chat_model(name, model_provider=prefix, **given)  # pyright: ignore[reportUnknownVariableType]
    return cast("BaseChatModel", made)


def _settings_of(provider: Provider) -> set[str | None]:
    """The settings that a provider's client takes by name."""
    fields: Mapping[str, Any] = getattr(_imported(provider.client), "model_fields", {})
    return {*fields, *(field.alias for field in fields.values())}


def _limits(provider: Provider, taken: set[str | None], timeout: float) -> dict[str, Any]:
    """The time limit of a request, and no repeats by the client, as far as the client takes them.

    Temporal repeats: it waits without holding a worker, and the history shows it.
    """
    limits: dict[str, Any] = {}
    if "max_retries" in taken:
        # Google's client takes 0 for its own default, and counts the first try.
        limits["max_retries"] = 1 if provider.catalog == "google" else 0
    if "stream_chunk_timeout" in taken:
        limits["stream_chunk_timeout"] = timeout
    for key in ("timeout", "request_timeout"):
        if key in taken:
            return {**limits, key: timeout}
    return limits


def _for_ollama(given: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Settings with a time limit and a key where Ollama's client has them: in its HTTP client."""
    key = given.pop("api_key", None)
    http: dict[str, Any] = {"timeout": timeout, **(given.get("client_kwargs") or {})}
    if key:
        headers: dict[str, Any] = http.get("headers") or {}
        http["headers"] = {"Authorization": f"Bearer {key}", **headers}
    return {**given, "client_kwargs": http}


def _refused(lack: Lack) -> ModelRequestRejected:
    return ModelRequestRejected(lack.message, remedy=lack.remedy)


def with_larger_limit(
    made: BaseChatModel, settings: Mapping[str, Json], factor: int
) -> dict[str, Json] | None:
    """Settings whose limit of a reply's tokens is larger; none where they have no limit.

    Args:
        made: The chat model that the settings make.
        settings: The agent's `model_settings`.
        factor: What the limit is multiplied by.
    """
    fields: Mapping[str, Any] = getattr(type(made), "model_fields", {})
    for field, info in fields.items():
        names = {field, *((info.alias,) if info.alias else ())}
        limit: Any = getattr(made, field, None)
        if names & LIMITS and names & settings.keys() and _is_limit(limit):
            # Of several names of a field the alias counts.
            others = {key: value for key, value in settings.items() if key not in names}
            return {**others, info.alias or field: limit * factor}
    larger: dict[str, Json] = {}
    for key, value in settings.items():  # what is no field goes to the service as it is
        if key in LIMITS and key not in fields and _is_limit(value):
            larger[key] = value * factor
        elif key in ("extra_body", "model_kwargs") and isinstance(value, dict):
            inner = {k: v * factor for k, v in value.items() if k in LIMITS and _is_limit(v)}
            if inner:
                larger[key] = {**value, **inner}
    return {**settings, **larger} if larger else None


def _is_limit(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class ModelFactory:
    """Makes chat models and keeps them: a model holds its connections.

    Args:
        most: How many are kept; a run's crew names its own models and settings.
    """

    def __init__(self, most: int = 256) -> None:
        self._models: Made[tuple[str, ContentHash, float], BaseChatModel] = Made(most)

    async def ready(
        self, model: str, settings: Mapping[str, Json], timeout: float
    ) -> BaseChatModel:
        """The chat model of that name; one that must be made is made in a thread.

        The first model imports its client, which takes seconds: time for heartbeats to be missed.

        Args:
            model: `prefix:NAME`.
            settings: The agent's `model_settings`.
            timeout: Seconds for one request.

        Raises:
            ModelRequestRejected: where there is no such model, or it cannot be made.
            SecretMissing: where this worker lacks a secret that the settings name.
        """
        # With the values: a secret that was changed makes another model.
        given = cast("dict[str, Json]", resolved(dict(settings)))
        key = (model, hash_json(given), timeout)
        return await self._models.ready(key, lambda: self._build(model, given, timeout))

    async def get_with_larger_limit(
        self, model: str, settings: Mapping[str, Json], timeout: float, doublings: int
    ) -> BaseChatModel | None:
        """The chat model with a larger limit of output; none where the settings have no limit.

        A limit that the settings do not have is the client's or the service's own: mostly what the
        model can do at most.

        Args:
            model: `prefix:NAME`.
            settings: The agent's `model_settings`.
            timeout: Seconds for one request.
            doublings: How often the limit is doubled.
        """
        made = await self.ready(model, settings, timeout)
        longer = with_larger_limit(made, settings, 2**doublings)
        return None if longer is None else await self.ready(model, longer, timeout)

    def _build(self, model: str, settings: Mapping[str, Json], timeout: float) -> BaseChatModel:
        prefix, colon, name = model.partition(":")
        # Crewlog goes by it: a client that does as well asks for no reply in one piece.
        settings = {key: value for key, value in settings.items() if key != "streaming"}
        try:
            if colon and name and (builder := _builder(prefix)) is not None:
                return _in_dialect(builder(name, settings, timeout))
            if colon and name and prefix in PROVIDERS:
                return _in_dialect(make_provider_model(prefix, name, settings, timeout))
        except CrewlogError:
            raise
        except Exception as exc:
            error = model_error(exc, model)
            raise ModelRequestRejected(
                f"the model {model!r} cannot be made: {type(exc).__name__}: {exc}",
                remedy=error.remedy
                if isinstance(error, ModelRequestRejected)
                else "Check model_settings.",
            ) from exc
        raise _refused(unknown_provider_problem(model, prefix, _BUILDERS))


def _builder(prefix: str) -> Builder | None:
    """What makes models of a prefix: registered in this process, or brought by a package."""
    builder = _BUILDERS.get(prefix)
    if builder is None and prefix in installed_providers():
        found: Builder = installed_providers()[prefix].load()
        return found
    return _imported(builder) if isinstance(builder, str) else builder


def _in_dialect(model: BaseChatModel) -> BaseChatModel:
    """The model; where its client is one of OpenAI's dialect, with what that client loses."""
    if "langchain_openai" not in packages_of(model):
        return model
    from crewlog.activities.openai_chat import in_dialect  # noqa: PLC0415

    return in_dialect(model)


def packages_of(model: Any) -> frozenset[str]:
    """The packages that a model's class and its bases are from, e.g. `langchain_openai`."""
    return frozenset(each.__module__.partition(".")[0] for each in type(model).__mro__)


def _imported(path: str) -> Any:
    """What `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)

"""Chat models by name: `PROVIDER:NAME`, `scripted:FILE`, and registered prefixes.

The providers are those of LangChain's `init_chat_model`, and those of installed packages with an
entry point.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeGuard, cast

from langchain_core.language_models import BaseChatModel

from crewlog.activities.caches import LoadingCache
from crewlog.activities.model_errors import model_error
from crewlog.canonical_json import hash_json
from crewlog.definition.providers import PROVIDERS, Provider, key_in
from crewlog.errors import CrewlogError, ModelRequestRejected
from crewlog.ids import ContentHash
from crewlog.model import Json, is_object
from crewlog.providers import (
    ProviderProblem,
    installed_providers,
    missing_key_problem,
    missing_package_problem,
    unknown_provider_problem,
)
from crewlog.redaction import register_secret
from crewlog.secrets import resolve_references

LIMITS = frozenset(
    {"max_tokens", "max_completion_tokens", "max_output_tokens", "max_tokens_to_sample"}
    | {"num_predict"}
)
"""The names of the limit of a reply's tokens, by clients and services."""
Builder = Callable[[str, Mapping[str, Json], float], BaseChatModel]
"""Makes a chat model from the name after the prefix, an agent's settings, and a timeout in
seconds."""

_BUILDERS: dict[str, Builder | str] = {
    # By name: this module is in a layer above, and is imported at the first use.
    "scripted": "crewlog.testing.scripted:build",
}


def register(prefix: str, builder: Builder | str) -> None:
    """Registers a builder of models `prefix:NAME` in this process.

    Args:
        prefix: The part before the colon.
        builder: A function, or `module:function` that is imported at the first use.
    """
    _BUILDERS[prefix] = builder


def make_provider_model(
    prefix: str, name: str, settings: Mapping[str, Json], timeout: float
) -> BaseChatModel:
    """Makes a model of one of LangChain's providers.

    Raises:
        ModelRequestRejected: its package is not installed, or it has no key.
    """
    provider = PROVIDERS[prefix]
    model = f"{prefix}:{name}"
    if lack := missing_package_problem(model) or missing_key_problem(model, settings):
        raise _rejection(lack)
    for variable in provider.keys:
        if value := os.environ.get(variable):
            register_secret(value)  # an error of a service may contain it
    if key := key_in(provider, settings):
        register_secret(str(key))
    # Here, because it takes a second, and crews of other models never need it.
    from langchain.chat_models import init_chat_model  # noqa: PLC0415

    arguments: dict[str, Any] = {
        **_request_limits(provider, timeout),
        **settings,
    }
    if prefix == "openai":  # LangChain has no usage in chunks from another address
        url = os.environ.get("OPENAI_BASE_URL") or None
        arguments = {"base_url": url, "stream_usage": True, **arguments}
    if prefix == "ollama":
        arguments = _move_ollama_settings(arguments, timeout)
    chat: Any = init_chat_model(name, model_provider=prefix, **arguments)  # pyright: ignore[reportUnknownVariableType]
    return cast("BaseChatModel", chat)


def _request_limits(provider: Provider, timeout: float) -> dict[str, Any]:
    """Returns the timeout and no retries, as far as the provider's client has these settings.

    Temporal retries: its waits occupy no worker, and are in the history.
    """
    fields: Mapping[str, Any] = getattr(_import_object(provider.client), "model_fields", {})
    names = {*fields, *(field.alias for field in fields.values())}
    limits: dict[str, Any] = {}
    if "max_retries" in names:
        # To Google's client, 0 means its default, and 1 means the first attempt alone.
        limits["max_retries"] = 1 if provider.catalog == "google" else 0
    if "stream_chunk_timeout" in names:
        # A model that reasons may be silent for minutes before its first chunk.
        limits["stream_chunk_timeout"] = timeout
    for key in ("timeout", "request_timeout"):
        if key in names:
            return {**limits, key: timeout}
    return limits


def _move_ollama_settings(settings: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Moves the timeout and the key to where Ollama's client has them: in its HTTP client."""
    key = settings.pop("api_key", None)
    http: dict[str, Any] = {"timeout": timeout, **(settings.get("client_kwargs") or {})}
    if key:
        headers: dict[str, Any] = http.get("headers") or {}
        http["headers"] = {"Authorization": f"Bearer {key}", **headers}
    return {**settings, "client_kwargs": http}


def _rejection(lack: ProviderProblem) -> ModelRequestRejected:
    return ModelRequestRejected(lack.message, remedy=lack.remedy)


def with_larger_limit(settings: Mapping[str, Json], factor: int) -> dict[str, Json] | None:
    """Returns settings with a larger limit of a reply's tokens; None: they have no limit.

    Without a limit in the settings, the one of the client or the service is in force: mostly the
    most that the model can do.

    Args:
        settings: The agent's `model_settings`.
        factor: The factor of the limit.
    """
    larger: dict[str, Json] = {}
    for key, value in settings.items():
        if key in LIMITS and _is_limit(value):
            larger[key] = value * factor
        elif key in ("extra_body", "model_kwargs") and is_object(value):
            inner = {k: v * factor for k, v in value.items() if k in LIMITS and _is_limit(v)}
            if inner:
                larger[key] = {**value, **inner}
    return {**settings, **larger} if larger else None


def _is_limit(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class ModelFactory:
    """Makes and caches chat models, with their connections.

    Args:
        most: The most cached models; each crew has its own models and settings.
    """

    def __init__(self, most: int = 256) -> None:
        self._models: LoadingCache[tuple[str, ContentHash, float], BaseChatModel] = LoadingCache(
            most
        )

    async def get(self, model: str, settings: Mapping[str, Json], timeout: float) -> BaseChatModel:
        """Returns the chat model of that name; makes it in a thread if it is not cached.

        The first model imports its client, which takes seconds, and heartbeats must continue.

        Args:
            model: `prefix:NAME`.
            settings: The agent's `model_settings`.
            timeout: Seconds for one request.

        Raises:
            ModelRequestRejected: the model does not exist, or cannot be made.
            SecretMissing: this worker lacks a secret that the settings name.
        """
        # The key has the values of secrets: a changed secret makes another model.
        values = cast("dict[str, Json]", resolve_references(dict(settings)))
        key = (model, hash_json(values), timeout)
        return await self._models.get_or_load(key, lambda: self._build(model, values, timeout))

    def _build(self, model: str, settings: Mapping[str, Json], timeout: float) -> BaseChatModel:
        prefix, colon, name = model.partition(":")
        # Crewlog reads this setting itself: a client that has it would stream every reply.
        settings = {key: value for key, value in settings.items() if key != "streaming"}
        try:
            if colon and name and (builder := _find_builder(prefix)) is not None:
                return _with_openai_fixes(builder(name, settings, timeout))
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
        raise _rejection(unknown_provider_problem(model, prefix, _BUILDERS))


def _find_builder(prefix: str) -> Builder | None:
    """Returns the builder of a prefix: registered, of an installed package, or of LangChain."""
    builder = _BUILDERS.get(prefix)
    if builder is None and prefix in installed_providers():
        installed: Builder = installed_providers()[prefix].load()
        return installed
    if builder is None and prefix in PROVIDERS:
        return partial(make_provider_model, prefix)
    return _import_object(builder) if isinstance(builder, str) else builder


def _with_openai_fixes(model: BaseChatModel) -> BaseChatModel:
    """Returns the model; with fixes of its client if that is one of `langchain_openai`."""
    if "langchain_openai" not in packages_of(model):
        return model
    from crewlog.activities.openai_chat import with_openai_fixes  # noqa: PLC0415

    return with_openai_fixes(model)


def packages_of(model: Any) -> frozenset[str]:
    """Returns the packages of a model's class and its bases, e.g. `langchain_openai`."""
    return frozenset(each.__module__.partition(".")[0] for each in type(model).__mro__)


def _import_object(path: str) -> Any:
    """Imports the object `module:name`."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)

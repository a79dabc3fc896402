"""Chat models by name: `openai:NAME`, `scripted:FILE`, and whatever is registered besides."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any, cast

from langchain_core.language_models import BaseChatModel

from crewlog.activities.model_errors import model_error
from crewlog.activities.recent import Made
from crewlog.errors import CrewlogError, ModelRefused
from crewlog.ids import ContentHash
from crewlog.model import Json
from crewlog.redaction import remember
from crewlog.secrets import resolved
from crewlog.state.hashing import hash_json

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
"""The names under which clients keep the limit of a reply's tokens."""
Builder = Callable[[str, Mapping[str, Json], float], BaseChatModel]
"""Makes a chat model of what follows the prefix, an agent's settings, and a timeout in seconds."""

_BUILDERS: dict[str, Builder | str] = {
    "openai": "crewlog.activities.models:build_openai",
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
    key = settings.get("api_key") or os.environ.get("OPENAI_API_KEY")
    if not key:
        raise ModelRefused(
            f"the model 'openai:{name}' needs a key, and OPENAI_API_KEY is not set",
            remedy="Set OPENAI_API_KEY in the worker's environment, or give the agent "
            "`model_settings: {api_key: env:NAME}`, or use a scripted model.",
        )
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
            ModelRefused: where there is no such model, or it cannot be made.
            SecretMissing: where this worker lacks a secret that the settings name.
        """
        # With the values: a secret that was changed makes another model.
        given = cast("dict[str, Json]", resolved(dict(settings)))
        key = (model, hash_json(given), timeout)
        return await self._models.ready(key, lambda: self._build(model, given, timeout))

    async def with_longer_replies(
        self, model: str, settings: Mapping[str, Json], timeout: float, cut: int
    ) -> BaseChatModel:
        """The chat model with a larger limit of output, where it has one.

        Args:
            model: `prefix:NAME`.
            settings: The agent's `model_settings`.
            timeout: Seconds for one request.
            cut: Replies in a row that the limit cut: it is doubled for each of them.
        """
        made = await self.ready(model, settings, timeout)
        for name in LIMITS:
            limit: Any = settings.get(name) or getattr(made, name, None)
            if isinstance(limit, int) and limit > 0:
                return await self.ready(model, {**settings, name: limit * 2**cut}, timeout)
        return made

    def _build(self, model: str, settings: Mapping[str, Json], timeout: float) -> BaseChatModel:
        prefix, colon, name = model.partition(":")
        builder = _BUILDERS.get(prefix)
        if not colon or not name or builder is None:
            known = ", ".join(f"{p}:NAME" for p in sorted(_BUILDERS))
            raise ModelRefused(
                f"there is no model {model!r}: this worker knows {known}",
                remedy="Name one of those, or start a worker that registers the prefix.",
            )
        try:
            return _resolved(builder)(name, settings, timeout)
        except CrewlogError:
            raise
        except Exception as exc:
            error = model_error(exc, model)
            raise ModelRefused(
                f"the model {model!r} cannot be made: {type(exc).__name__}: {exc}",
                remedy=error.remedy if isinstance(error, ModelRefused) else "Check model_settings.",
            ) from exc


def _resolved(builder: Builder | str) -> Builder:
    if not isinstance(builder, str):
        return builder
    module, _, name = builder.partition(":")
    found: Builder = getattr(importlib.import_module(module), name)
    return found

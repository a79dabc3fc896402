"""Checks the model providers in this process, without imports: their packages, keys and secrets."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from crewlog.definition.providers import PREFIXES, PROVIDERS, holds_credentials, meant_by
from crewlog.model import Json
from crewlog.secrets import find_missing

GROUP = "crewlog.models"
"""The entry points of packages with providers."""


class ProviderProblem(NamedTuple):
    """Why this process cannot build a chat model."""

    message: str
    remedy: str


@cache
def installed_providers() -> Mapping[str, EntryPoint]:
    """The providers of installed packages, by prefix."""
    return {each.name: each for each in entry_points(group=GROUP)}


def is_known(prefix: str) -> bool:
    """Whether this process knows a provider, even if its package is not installed."""
    return prefix in PREFIXES or prefix in installed_providers()


def unknown_provider_problem(
    model: str, prefix: str, registered: Iterable[str] = ()
) -> ProviderProblem:
    """The problem of a model with an unknown provider.

    Args:
        model: `PROVIDER:NAME`.
        prefix: Its provider.
        registered: Providers that are registered in the worker.
    """
    known = sorted({*PREFIXES, *installed_providers(), *registered})
    closest = meant_by(prefix)
    name = model.partition(":")[2]
    return ProviderProblem(
        f"there is no model {model!r}: its provider {prefix!r} is unknown",
        f"Did you mean {f'{closest}:{name}'!r}?"
        if closest
        else f"Install the package of the provider (an entry point in {GROUP!r}), or use one of "
        f"{', '.join(known)}.",
    )


def missing_package_problem(model: str) -> ProviderProblem | None:
    """The problem of a model whose package is missing; None if it is installed or unknown."""
    prefix = model.partition(":")[0]
    provider = PROVIDERS.get(prefix)
    if provider is None or prefix in installed_providers() or _is_importable(provider.module):
        return None
    return ProviderProblem(
        f"the model {model!r} needs the package {provider.package!r}, which is not installed",
        f"Install it where the worker runs: {provider.install}",
    )


def missing_key_problem(
    model: str, settings: Mapping[str, Json], environ: Mapping[str, str] | None = None
) -> ProviderProblem | None:
    """The problem of a model whose key is missing; None if it is set, not needed, or unknown.

    Args:
        model: `PROVIDER:NAME`.
        settings: The agent's `model_settings`.
        environ: The environment; the process's own if None.
    """
    prefix = model.partition(":")[0]
    provider = PROVIDERS.get(prefix)
    variables = os.environ if environ is None else environ
    if provider is None or not provider.keys or prefix in installed_providers():
        return None
    if holds_credentials(provider, settings) or any(map(variables.get, provider.keys)):
        return None
    first = provider.keys[0]
    return ProviderProblem(
        f"the model {model!r} needs a key, and {first} is not set",
        f"Set {first} in the worker's environment, or set `model_settings: {{api_key: env:NAME}}` "
        "of the agent, or use a scripted model.",
    )


def provider_problems(
    model: str, settings: Mapping[str, Json], environ: Mapping[str, str] | None = None
) -> list[ProviderProblem]:
    """Why a worker with this interpreter and environment cannot build a model; empty if it can.

    Args:
        model: `PROVIDER:NAME`.
        settings: The agent's `model_settings`, with references to secrets.
        environ: The environment; the process's own if None.
    """
    prefix = model.partition(":")[0]
    if not is_known(prefix):
        return [unknown_provider_problem(model, prefix)]
    checks = (missing_package_problem(model), missing_key_problem(model, settings, environ))
    return [*filter(None, checks), *missing_secrets(dict(settings), environ)]


def missing_secrets(
    settings: Json, environ: Mapping[str, str] | None = None
) -> list[ProviderProblem]:
    """The problems of secrets in settings that this process does not have."""
    return [
        ProviderProblem(error.message, error.remedy) for error in find_missing(settings, environ)
    ]


def _is_importable(module: str) -> bool:
    # Only the top package: a search for a submodule would import it.
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False

"""Checks the providers of models in this process: their packages, keys and secrets.

No package of a provider is imported for that.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from crewlog.definition.providers import PREFIXES, PROVIDERS, holds_credentials, meant_by
from crewlog.model import Json
from crewlog.secrets import missing

GROUP = "crewlog.models"
"""The entry points of packages with providers."""


class Lack(NamedTuple):
    """Why this process cannot build a model."""

    message: str
    """The cause."""
    remedy: str
    """The remedy."""


@cache
def installed_providers() -> Mapping[str, EntryPoint]:
    """The providers of installed packages, by prefix."""
    return {each.name: each for each in entry_points(group=GROUP)}


def is_known(prefix: str) -> bool:
    """Whether this process knows a provider, installed or not."""
    return prefix in PREFIXES or prefix in installed_providers()


def unknown_provider_problem(model: str, prefix: str, registered: Iterable[str] = ()) -> Lack:
    """The problem of a model with an unknown provider.

    Args:
        model: `PROVIDER:NAME`.
        prefix: Its provider.
        registered: Providers that are registered in the worker.
    """
    known = sorted({*PREFIXES, *installed_providers(), *registered})
    meant = meant_by(prefix)
    name = model.partition(":")[2]
    return Lack(
        f"there is no model {model!r}: its provider {prefix!r} is not known here",
        f"Did you mean {f'{meant}:{name}'!r}?"
        if meant
        else f"Install the package with it (an entry point in {GROUP!r}), or name one of "
        f"{', '.join(known)}.",
    )


def missing_package_problem(model: str) -> Lack | None:
    """The problem of a model whose package is missing; None if it is installed or unknown."""
    prefix = model.partition(":")[0]
    provider = PROVIDERS.get(prefix)
    if provider is None or prefix in installed_providers() or _findable(provider.module):
        return None
    return Lack(
        f"the model {model!r} needs the package {provider.package!r}, which is not installed",
        f"Install it where the worker runs: {provider.install}",
    )


def missing_key_problem(
    model: str, settings: Mapping[str, Json], environ: Mapping[str, str] | None = None
) -> Lack | None:
    """The problem of a model whose key is missing; None if it is set, not needed, or unknown.

    Args:
        model: `PROVIDER:NAME`.
        settings: The agent's `model_settings`.
        environ: The environment; the process's own if None.
    """
    prefix = model.partition(":")[0]
    provider = PROVIDERS.get(prefix)
    found = os.environ if environ is None else environ
    if provider is None or not provider.keys or prefix in installed_providers():
        return None
    if holds_credentials(provider, settings) or any(found.get(name) for name in provider.keys):
        return None
    first = provider.keys[0]
    return Lack(
        f"the model {model!r} needs a key, and {first} is not set",
        f"Set {first} in the worker's environment, or give the agent "
        "`model_settings: {api_key: env:NAME}`, or use a scripted model.",
    )


def lacks_of(
    model: str, settings: Mapping[str, Json], environ: Mapping[str, str] | None = None
) -> list[Lack]:
    """Why a worker with this interpreter and environment cannot build a model; empty if it can.

    Args:
        model: `PROVIDER:NAME`.
        settings: The agent's `model_settings`, with references to secrets.
        environ: The environment; the process's own if None.
    """
    prefix = model.partition(":")[0]
    if not is_known(prefix):
        return [unknown_provider_problem(model, prefix)]
    found = [
        lack
        for lack in (missing_package_problem(model), missing_key_problem(model, settings, environ))
        if lack
    ]
    return [*found, *missing_secrets(dict(settings), environ)]


def missing_secrets(settings: Json, environ: Mapping[str, str] | None = None) -> list[Lack]:
    """The problems of secrets in settings that this process does not have."""
    return [Lack(error.message, error.remedy) for error in missing(settings, environ)]


def _findable(module: str) -> bool:
    # Only the top package: a search for a submodule would import it.
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False

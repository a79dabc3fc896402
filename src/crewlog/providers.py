"""What this process has of the providers of models: what is installed, and what is not set.

Nothing of a provider is imported to find out: modules are found, and never run.
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
"""The entry points by which packages bring providers of their own."""


class Lack(NamedTuple):
    """Why this process cannot make a model."""

    message: str
    """What is missing."""
    remedy: str
    """What to do."""


@cache
def installed_providers() -> Mapping[str, EntryPoint]:
    """The providers that installed packages bring, by their prefixes."""
    return {each.name: each for each in entry_points(group=GROUP)}


def is_known(prefix: str) -> bool:
    """Whether this process knows the provider, installed or not."""
    return prefix in PREFIXES or prefix in installed_providers()


def unknown_provider_problem(model: str, prefix: str, registered: Iterable[str] = ()) -> Lack:
    """What to say of a model whose provider nobody here knows.

    Args:
        model: `PROVIDER:NAME`.
        prefix: Its provider.
        registered: What a worker knows besides.
    """
    known = sorted({*PREFIXES, *installed_providers(), *registered})
    meant = meant_by(prefix)
    name = model.partition(":")[2]
    return Lack(
        f"there is no model {model!r}: its provider {prefix!r} is not known here",
        f"Did you mean {f'{meant}:{name}'!r}?"
        if meant
        else f"Install the package that brings it (an entry point in {GROUP!r}), or name one of "
        f"{', '.join(known)}.",
    )


def missing_package_problem(model: str) -> Lack | None:
    """What is not installed of what a model needs; none where all of it is, or nobody knows."""
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
    """The key that a model lacks; none where it has one, needs none, or nobody knows.

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
    """Why a worker with this interpreter and environment cannot make a model; empty if it can.

    Args:
        model: `PROVIDER:NAME`.
        settings: The agent's `model_settings`, with the references that they name secrets by.
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
    """The secrets that settings name, and that this process does not have."""
    return [Lack(error.message, error.remedy) for error in missing(settings, environ)]


def _findable(module: str) -> bool:
    # The package alone: to find what is in it, it would have to be run.
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False

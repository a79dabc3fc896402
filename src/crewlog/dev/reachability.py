"""Whether the models of a crew can be called from here: installed, reachable, allowed.

A provider is asked for the list of its models, which costs nothing. All are asked at the same time,
and none is waited for longer than `LIMIT`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx

from crewlog.definition.providers import PROVIDERS, Provider
from crewlog.dev.doctor import Check
from crewlog.model import Json
from crewlog.providers import installed_providers, provider_problems
from crewlog.redaction import redacted_text
from crewlog.secrets import resolve_references

LIMIT = 10.0
"""Seconds that a provider has to answer."""
_URLS = ("base_url", "openai_api_base", "anthropic_api_url", "client_options")
"""Keys of `model_settings` that hold an address."""
_SCRIPTED = "scripted:"
_VERSION = re.compile(r"[-:@](\d[\d-]*|latest)")
"""What a listed name may have after the name that is asked for."""


@dataclass(frozen=True)
class _Request:
    """How a provider is asked for the names of its models."""

    url: str
    headers: Mapping[str, str]


async def check_models(
    models: Iterable[tuple[str, Mapping[str, Json]]],
    directory: Path,
    environ: Mapping[str, str] | None = None,
) -> list[Check]:
    """Looks at each model that a crew uses.

    Args:
        models: The names of models and the `model_settings` that go with them.
        directory: Where the worker runs.
        environ: The environment; the process's own if None.
    """
    env = os.environ if environ is None else environ
    async with httpx.AsyncClient(timeout=LIMIT) as client:
        looks = [_look(client, model, settings, directory, env) for model, settings in models]
        return list(await asyncio.gather(*looks))


async def _look(
    client: httpx.AsyncClient,
    model: str,
    settings: Mapping[str, Json],
    directory: Path,
    env: Mapping[str, str],
) -> Check:
    name = f"Model {model}"
    if model.startswith(_SCRIPTED):
        script = directory / model.removeprefix(_SCRIPTED)
        if script.is_file():
            return Check(name, "ok", "the script is there")
        return Check(name, "fail", f"there is no script {str(script)!r}", "Correct its path.")
    if lacks := provider_problems(model, settings, env):
        said = "; ".join(lack.message for lack in lacks)
        return Check(name, "fail", said, " ".join(lack.remedy for lack in lacks))
    given = cast("dict[str, Json]", resolve_references(dict(settings), env))
    prefix, _, wanted = model.partition(":")
    provider = PROVIDERS.get(prefix)
    if provider is None or not provider.catalog or prefix in installed_providers():
        return Check(name, "ok", "installed; its provider cannot be asked before a call")
    return await _ask(client, name, wanted, provider, _request(provider, given, env))


async def _ask(
    client: httpx.AsyncClient, name: str, wanted: str, provider: Provider, request: _Request
) -> Check:
    where = str(httpx.URL(request.url).copy_with(userinfo=b"", query=None))
    variable = f"{provider.url_variable} or " if provider.url_variable else ""
    address = f"Check the network, and {variable}`model_settings: {{base_url: …}}`."
    try:
        async with asyncio.timeout(LIMIT):
            answer = await client.get(request.url, headers=request.headers)
    except (TimeoutError, httpx.TimeoutException):
        return Check(name, "fail", f"{where} does not answer in {LIMIT:.0f} s", address)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        return Check(
            name, "fail", f"{where} cannot be reached: {redacted_text(str(error))}", address
        )
    if answer.status_code in (401, 403):
        remedy = f"Set {' or '.join(provider.keys) or 'the key'} to a key that is allowed this."
        return Check(name, "fail", f"{where} refuses the key ({answer.status_code})", remedy)
    names = _names(answer) if answer.is_success else None
    if names is None:
        detail = f"{where} answers {answer.status_code}, and does not list its models"
        return Check(name, "warn", detail, f"The first call will tell. {address}")
    if names and not any(_is_named(wanted, each) for each in names):
        pull = f"ollama pull {wanted}" if provider.catalog == "ollama" else ""
        remedy = f"Get it: {pull}" if pull else "Choose a model that the provider offers."
        # Others than Ollama serve models that they do not list.
        return Check(name, "fail" if pull else "warn", f"{where} does not list it", remedy)
    return Check(name, "ok", f"reachable at {where}")


def _request(provider: Provider, settings: Mapping[str, Json], env: Mapping[str, str]) -> _Request:
    base = next((str(settings[key]) for key in _URLS if settings.get(key)), "")
    base = base or env.get(provider.url_variable or "-", "") or provider.url
    if "//" not in base:
        base = f"http://{base}"
    base = base.rstrip("/")
    key = next((str(v) for k, v in settings.items() if k.endswith("api_key") and v), "")
    key = key or next((env[name] for name in provider.keys if env.get(name)), "")
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    match provider.catalog:
        case "anthropic":
            # Its client knows how a key is sent, and with which version of the protocol.
            from anthropic import Anthropic  # noqa: PLC0415

            given = Anthropic(api_key=key, base_url=base).default_headers
            headers = {name: value for name, value in given.items() if isinstance(value, str)}
            return _Request(f"{base}/v1/models?limit=1000", headers)
        case "google":
            return _Request(f"{base}/v1/models?pageSize=1000", {"x-goog-api-key": key})
        case "ollama":
            key = key or env.get("OLLAMA_API_KEY", "")
            return _Request(f"{base}/api/tags", {"Authorization": f"Bearer {key}"} if key else {})
        case _:
            return _Request(f"{base}/models", bearer)


def _names(answer: httpx.Response) -> list[str] | None:
    """The names in a list of models; none where the answer is no such list."""
    try:
        said: Any = answer.json()
    except ValueError:
        return None
    if isinstance(said, dict):
        lists = cast("dict[str, Any]", said)
        said = lists.get("data", lists.get("models"))
    if not isinstance(said, list):
        return None
    listed: list[Any] = said  # pyright: ignore[reportUnknownVariableType]
    entries = [cast("dict[str, Any]", each) for each in listed if isinstance(each, dict)]
    return [str(each.get("id") or each.get("name") or "") for each in entries]


def _is_named(wanted: str, listed: str) -> bool:
    """Whether a listed model is the one that is wanted: by its name, or by one without its date."""
    name = listed.removeprefix("models/")
    return name == wanted or (
        name.startswith(wanted) and _VERSION.fullmatch(name[len(wanted) :]) is not None
    )

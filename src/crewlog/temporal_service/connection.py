"""Connects to the Temporal server that the environment names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from temporalio.client import Client
from temporalio.common import HeaderCodecBehavior
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfigProfile

from crewlog.errors import TemporalUnavailable, UsageError
from crewlog.temporal_service.sdk_workarounds import read_profile

CONNECT_LIMIT = 10.0
"""Seconds for the first answer of a server."""
NAMESPACE = "default"
"""The namespace where none is configured."""
_KNOWN_REASONS = ("Connection refused", "dns error", "certificate", "JWT", "not authorized")


def load_profile(environ: Mapping[str, str]) -> ClientConfigProfile:
    """The Temporal client profile of the environment and the user's `temporal.toml`.

    Raises:
        UsageError: The file or a variable cannot be read.
    """
    try:
        return read_profile(environ)
    except (RuntimeError, ValueError, OSError) as error:
        raise UsageError(
            f"the Temporal client configuration cannot be read: {error}",
            remedy="Correct it, or set TEMPORAL_CONFIG_FILE and TEMPORAL_PROFILE.",
        ) from error


def connect_options(profile: ClientConfigProfile) -> dict[str, Any]:
    """What `Client.connect` takes from a profile, without the address."""
    options: dict[str, Any] = dict(profile.to_client_connect_config())
    options.pop("target_host", None)
    options["namespace"] = profile.namespace or NAMESPACE
    return options


async def connect_temporal(
    address: str, converter: DataConverter, options: Mapping[str, Any]
) -> Client:
    """Connects to a Temporal server, and waits for its first answer.

    Args:
        address: `host:port`.
        converter: The data converter; with a codec, headers are encoded as well.
        options: Further arguments of `Client.connect`.

    Raises:
        TemporalUnavailable: No server answers; `place` is its address.
    """
    given = dict(options)
    if converter.payload_codec is not None:
        given["header_codec_behavior"] = HeaderCodecBehavior.CODEC
    try:
        async with asyncio.timeout(CONNECT_LIMIT):
            return await Client.connect(address, data_converter=converter, **given)
    except (RuntimeError, ValueError, TimeoutError) as error:
        raise TemporalUnavailable(
            f"the Temporal server does not answer{_reason(error)}",
            remedy="Start it, or correct TEMPORAL_ADDRESS; unset it to use the local server of "
            "`crewlog dev`.",
            place=address,
        ) from error


def _reason(error: Exception) -> str:
    text = str(error).lower()
    for known in _KNOWN_REASONS:
        if known.lower() in text:
            return f": {known.lower()}"
    return ""

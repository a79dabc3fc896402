"""Settings of external storage, which workers, clients and the command line must share."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from temporalio.converter import DataConverter

from crewlog.errors import UsageError
from crewlog.payload_storage.converter import data_converter
from crewlog.payload_storage.directory import data_directory
from crewlog.state.recorder import LARGEST_PACKED_RESULT
from crewlog.validation_errors import rule_of_field_error


class PayloadSettings(BaseSettings):
    """Settings of external storage; workers and clients must use the same."""

    model_config = SettingsConfigDict(
        env_prefix="CREWLOG_", use_attribute_docstrings=True, extra="ignore"
    )

    payloads: Path = Field(default_factory=lambda: data_directory() / "payloads")
    """The directory of payloads above the threshold; all workers and clients share it."""
    payload_threshold: int = Field(default=256 * 1024, ge=2 * LARGEST_PACKED_RESULT)
    """Bytes above which a payload goes there. At least 64 KiB, since the payloads of the journal
    must be in the history."""


def environment_converter() -> DataConverter:
    """The data converter with the settings of the environment.

    Raises:
        UsageError: a setting is wrong, or the encryption key file cannot be used.
    """
    try:
        settings = PayloadSettings()
    except ValidationError as error:
        faults = "; ".join(
            f"CREWLOG_{str(e['loc'][0]).upper()} {rule_of_field_error(e)}" for e in error.errors()
        )
        raise UsageError(
            f"the settings of large payloads are wrong: {faults}",
            remedy="Correct or unset these variables; docs/operations.md has them.",
        ) from error
    return data_converter(settings.payloads.expanduser(), settings.payload_threshold)

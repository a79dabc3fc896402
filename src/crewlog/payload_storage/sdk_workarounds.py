"""Corrections of the Temporal SDK in the data converter.

Each one has its reason, its test, the report to the SDK's authors, and what ends it. Before another
minor version than that of `pyproject.toml` is pinned, try each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1.external_storage_pb2 import ExternalStorageReference
from temporalio.converter import DataConverter, EncodingPayloadConverter, ExternalStorage

from crewlog.errors import EncryptionKeyMissing


class TolerantDataConverter(DataConverter):
    """A data converter that returns an encoded reference unchanged if it is invalid.

    Reason: any client may send a payload that is marked as a reference. The SDK raises before the
        workflow gets it, so the workflow task of the run fails as long as the signal is in the
        history.
    Test: `tests/acceptance/test_payload_folders.py`.
    Report: Send a signal whose payload has the metadata `__temporal_external_storage_reference:
        true` and any other content. Each workflow task fails with TMPRL1105 or TMPRL1106, forever.
        Expected: the payload converter gets it, whose error concerns this signal alone.
    Needed until: `temporalio` leaves payloads that it cannot decode to the payload converter.
    """

    async def _decode_reference_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        decoded: list[Payload] = []
        for payload in payloads:
            try:
                decoded += await super()._decode_reference_payload_sequence([payload])
            except EncryptionKeyMissing:
                raise
            except Exception:  # noqa: BLE001 - any client may send anything
                decoded.append(payload)
        return decoded


@dataclass(frozen=True)
class TolerantExternalStorage(ExternalStorage):
    """An external storage that returns a payload unchanged if it refers to none of its drivers.

    Reason: as for `TolerantDataConverter`, for references without a codec.
    Test: `tests/acceptance/test_payload_folders.py`.
    Report: Send a signal whose payload is an `ExternalStorageReference` as `json/protobuf` that
        names a driver of another client, or is not valid JSON. Each workflow task fails, forever.
        Expected: the payload converter gets the payload.
    Needed until: `temporalio` leaves payloads that it cannot resolve to the payload converter.
    """

    def find_reference(self, payload: Payload) -> ExternalStorageReference | None:
        """A reference that stands for a payload which is none; None: there is none."""
        del payload
        return None

    def _decode_reference(self, payload: Payload) -> ExternalStorageReference | None:
        if (found := self.find_reference(payload)) is not None:
            return found
        try:
            found = super()._decode_reference(payload)
        except Exception:  # noqa: BLE001 - any client may send anything
            return None
        names = {driver.name() for driver in self.drivers}
        return found if found is not None and found.driver_name in names else None


class HintedProtobufConverter(EncodingPayloadConverter):
    """Reads only the message type of the type hint.

    Reason: the SDK makes a message of whatever type a payload names, also if nothing asked for one.
    Test: `tests/state/test_hostile_data.py`.
    Report: `DefaultPayloadConverter().from_payload(payload)` without a type hint makes any protobuf
        message that the sender names. Expected: it needs a type hint, and checks it.
    Needed until: `temporalio` checks the type hint.

    Args:
        converter: The SDK's converter.
    """

    def __init__(self, converter: EncodingPayloadConverter) -> None:
        self._converter = converter

    @property
    def encoding(self) -> str:
        """See `EncodingPayloadConverter`."""
        return self._converter.encoding

    def to_payload(self, value: Any) -> Payload | None:
        """See `EncodingPayloadConverter`."""
        return self._converter.to_payload(value)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """The message of the type hint; the SDK reads messages of the server so.

        Raises:
            TypeError: the payload has another type, or the hint is no message.
        """
        if isinstance(type_hint, type) and issubclass(type_hint, Message):
            name = payload.metadata.get("messageType", b"").decode(errors="replace")
            if name == type_hint.DESCRIPTOR.full_name:
                return self._converter.from_payload(payload, type_hint)
        raise TypeError(f"payloads with the encoding {self.encoding} are not read here")

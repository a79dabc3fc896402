"""Corrections of the Temporal SDK in the data converter.

Each one has its reason, its test, the report to the SDK's authors, and what ends it. Before another
minor version than that of `pyproject.toml` is pinned, try each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1.external_storage_pb2 import ExternalStorageReference
from temporalio.converter import (
    DataConverter,
    EncodingPayloadConverter,
    ExternalStorage,
    SerializationContext,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
)

from crewlog.errors import EncryptionKeyMissing

T = TypeVar("T")


_PLAIN_JSON = b"json/plain"
_MARKER = "__temporal_external_storage_reference"
"""The metadata of an encoded reference."""


def with_attributes(original: T, **changed: object) -> T:
    """Copies an object and replaces some attributes, without a call of its constructor.

    Reason: for each payload of an activation the SDK copies the data converter and the external
        storage, to note where a payload is stored. `dataclasses.replace` makes both anew, with all
        their parts: a tenth of what a worker calls for a step.
    Test: `test_a_copy_for_a_store_context_keeps_the_parts` in
        `tests/encryption/test_converter_copies.py`; its cost is that of `python -m tests.costs`.
    Report: `DataConverter._with_store_context` makes the payload converter, the failure converter
        and the map of drivers again for each payload. Expected: it keeps them.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test passes
        without it.

    Args:
        original: The object.
        changed: The attributes that differ in the copy.
    """
    copied = object.__new__(type(original))
    copied.__dict__.update(original.__dict__, **changed)
    return copied


class TolerantDataConverter(DataConverter):
    """A data converter that returns an encoded reference unchanged if it is invalid.

    Reason: any client may send a payload that is marked as a reference. The SDK raises before the
        workflow gets it, so the workflow task of the run fails as long as the signal is in the
        history.
    Test: `test_a_reference_to_nothing_is_refused_and_the_run_goes_on` in
        `tests/acceptance/test_payload_folders.py`.
    Report: Send a signal whose payload has the metadata `__temporal_external_storage_reference:
        true` and any other content. Each workflow task fails with TMPRL1105 or TMPRL1106, forever.
        Expected: the payload converter gets it, whose error concerns this signal alone.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test passes
        without it.
    """

    def with_context(self, context: SerializationContext) -> Self:
        """See `DataConverter`: of all parts, only a codec depends on the context."""
        if self.payload_codec is None:
            return self
        return super().with_context(context)

    def _with_store_context(self, store_ctx: StorageDriverStoreContext) -> Self:
        if self.external_storage is None:
            return self
        storage = self.external_storage._with_store_context(store_ctx)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        return with_attributes(self, external_storage=storage)

    async def _decode_reference_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        decoded: list[Payload] = []
        for payload in payloads:
            if _MARKER not in payload.metadata:
                decoded.append(payload)
                continue
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
    Test: `test_a_reference_to_nothing_is_refused_and_the_run_goes_on` in
        `tests/acceptance/test_payload_folders.py`.
    Report: Send a signal whose payload is an `ExternalStorageReference` as `json/protobuf` that
        names a driver of another client, or is not valid JSON. Each workflow task fails, forever.
        Expected: the payload converter gets the payload.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test passes
        without it.
    """

    def _with_store_context(self, ctx: StorageDriverStoreContext) -> Self:
        selection = StorageDriverSelectContext(target=ctx.target)
        return with_attributes(self, _store_context=ctx, _select_context=selection)

    def find_reference(self, payload: Payload) -> ExternalStorageReference | None:
        """A reference that stands for a payload which is none; None: there is none."""
        del payload
        return None

    def _decode_reference(self, payload: Payload) -> ExternalStorageReference | None:
        if (found := self.find_reference(payload)) is not None:
            return found
        if payload.metadata.get("encoding") == _PLAIN_JSON:
            return None
        try:
            found = super()._decode_reference(payload)
        except Exception:  # noqa: BLE001 - any client may send anything
            return None
        names = {driver.name() for driver in self.drivers}
        return found if found is not None and found.driver_name in names else None


class HintedProtobufConverter(EncodingPayloadConverter):
    """Reads only the message type of the type hint.

    Reason: the SDK makes a message of whatever type a payload names, also if nothing asked for one.
    Test: `test_no_protobuf_is_made_of_a_payload` in `tests/state/test_hostile_data.py`.
    Report: `DefaultPayloadConverter().from_payload(payload)` without a type hint makes any protobuf
        message that the sender names. Expected: it needs a type hint, and checks it.
    Needed until: no release of `temporalio` has a fix as of 1.35.0; remove it when the test no
        longer finds the error of the SDK.

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

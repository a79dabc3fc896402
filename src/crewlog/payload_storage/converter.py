"""How values become payloads: JSON that keeps message types, and large ones out of the history.

Workers and clients use the same converter. A LangChain message, alone or in a list, crosses as a
tagged body and comes back as the same type; only the known message types are ever constructed.
Payloads over a threshold go through Temporal's `ExternalStorage`: a directory here, S3 or GCS by
the SDK's drivers elsewhere; never the store, so that losing Postgres loses no payload. Where
encryption is on, payloads are encrypted before they go anywhere, into the history or beside it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, ToJsonOptions
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    JSONPlainPayloadConverter,
    StorageDriver,
    StorageDriverSelectContext,
    StorageDriverWorkflowInfo,
)

from crewlog.encryption.codec import (
    ENCRYPTED,
    LOST,
    REFUSED,
    EncryptionCodec,
    is_unavailable,
    missing_file,
    missing_key,
    refusal_reason,
)
from crewlog.encryption.failures import EncryptingFailureConverter, RedactingFailureConverter
from crewlog.encryption.keys import ACCEPT_PLAIN, Keyring, environment_keyring, key_missing_error
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing
from crewlog.failure_details import application_error
from crewlog.payload_storage.external_storage import (
    DirectoryDriver,
    DirectoryStorage,
    unavailable_payload_error,
)

MESSAGE_TAG = "lc_message"
"""The key of a tagged message body."""


class CrewPayloadConverter(CompositePayloadConverter):
    """Temporal's default converter, with pydantic models and tagged messages in its JSON part."""

    def __init__(self) -> None:
        # The SDK makes one for every few payloads, and puts the same together each time.
        self.converters = _by_encoding()


class _MessageJsonConverter(PydanticJSONPlainPayloadConverter):
    """Pydantic's JSON, with LangChain messages tagged on the way out.

    A tag is read only where the receiver asks for a message, or a list of messages: anywhere else
    it is data like any other, since models and users write data that may look like it.
    """

    def to_payload(self, value: Any) -> Payload | None:
        return super().to_payload(_tag(value))

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        if type_hint is not None and _is_message_type(type_hint):
            return _untag(super().from_payload(payload))
        (item,) = get_args(type_hint)[:1] or (None,)
        if get_origin(type_hint) is list and item is not None and _is_message_type(item):
            return [_untag(tagged) for tagged in super().from_payload(payload)]
        return super().from_payload(payload, type_hint)


class _NeverWritten(EncodingPayloadConverter):
    """Payloads that the codec alone makes: no value becomes one."""

    def to_payload(self, value: Any) -> Payload | None:
        del value
        return None


class _RefusedConverter(_NeverWritten):
    """Says, to whoever reads it, why a payload was refused when it was decoded."""

    @property
    def encoding(self) -> str:
        return REFUSED.decode()

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raises.

        Raises:
            DecryptionFailed: for one without encryption: a worker that accepts those can go on.
            ApplicationError: for one that was changed or moved: it is so for good, and ends a run
                that needs it.
        """
        del type_hint
        reason, plain = refusal_reason(payload)
        if plain:
            raise DecryptionFailed(
                f"a payload is refused: {reason}",
                remedy=f"Where it is right that it is not encrypted, set {ACCEPT_PLAIN}=true for "
                "workers and clients: while encryption is being turned on.",
            )
        raise application_error(f"a payload is refused: {reason}", DecryptionFailed.__name__)


class _KeylessConverter(_NeverWritten):
    """Says that a payload is encrypted, where encryption is off."""

    @property
    def encoding(self) -> str:
        return ENCRYPTED.decode()

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raises.

        Raises:
            EncryptionKeyMissing: always.
        """
        del payload, type_hint
        raise key_missing_error("")


class _LostConverter(EncodingPayloadConverter):
    """Says that the file of a payload is not there, to whoever needs what is in it."""

    @property
    def encoding(self) -> str:
        return LOST.decode()

    def to_payload(self, value: Any) -> Payload | None:
        """Nothing becomes one."""
        del value
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raises.

        Raises:
            StoreIncomplete: the file is waited for.
            EncryptionKeyMissing: the key is.
            TypeError: it is a stranger's, who has made it up.
        """
        del type_hint
        if not is_unavailable(payload):
            raise TypeError(f"what is encoded as {self.encoding} is not read here")
        raise unavailable_payload_error(missing_file(payload), missing_key(payload))


class _UnreadConverter(EncodingPayloadConverter):
    """Reads what its reader names alone: protobuf's converters construct whatever a payload names.

    Args:
        written: What makes such payloads, for those who send them elsewhere.
    """

    def __init__(self, written: EncodingPayloadConverter) -> None:
        self._written = written

    @property
    def encoding(self) -> str:
        """The payloads that are not read."""
        return self._written.encoding

    def to_payload(self, value: Any) -> Payload | None:
        """As it is written elsewhere."""
        return self._written.to_payload(value)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """The message that its reader asked for, as the SDK does of what the server tells of a run.

        Raises:
            TypeError: for any other, and where no message is asked for.
        """
        if isinstance(type_hint, type) and issubclass(type_hint, Message):
            named = payload.metadata.get("messageType", b"").decode(errors="replace")
            if named == type_hint.DESCRIPTOR.full_name:
                return self._written.from_payload(payload, type_hint)
        raise TypeError(f"what is encoded as {self.encoding} is not read here")


@cache
def _encoding_converters() -> tuple[EncodingPayloadConverter, ...]:
    json_converter = _MessageJsonConverter(ToJsonOptions(exclude_unset=False))
    usual = (
        json_converter
        if isinstance(c, JSONPlainPayloadConverter)
        else _UnreadConverter(c)
        if "protobuf" in c.encoding
        else c
        for c in DefaultPayloadConverter.default_encoding_payload_converters
    )
    return (*usual, _RefusedConverter(), _KeylessConverter(), _LostConverter())


@cache
def _by_encoding() -> Mapping[bytes, EncodingPayloadConverter]:
    """As `CompositePayloadConverter` has them."""
    return {each.encoding.encode(): each for each in _encoding_converters()}


def _tag(value: Any) -> Any:
    if _is_message(value):
        from crewlog.state.messages import message_to_json  # noqa: PLC0415 - see _is_message

        return {MESSAGE_TAG: message_to_json(value)}
    if isinstance(value, list | tuple):
        return [_tag(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    dump = getattr(value, "to_json", None)
    return dump() if callable(dump) else value


def _untag(value: Any) -> Any:
    from crewlog.state.messages import message_from_json  # noqa: PLC0415 - see _is_message

    return message_from_json(value[MESSAGE_TAG])


def _is_message(value: Any) -> bool:
    """Whether a value is a LangChain message.

    Importing LangChain takes most of a second, which every command would pay; where nobody has
    imported it there is no message either.
    """
    module = sys.modules.get("langchain_core.messages")
    return module is not None and isinstance(value, module.BaseMessage)


def _is_message_type(hint: Any) -> bool:
    module = sys.modules.get("langchain_core.messages")
    return module is not None and isinstance(hint, type) and issubclass(hint, module.BaseMessage)


_PROVEN: ContextVar[bool] = ContextVar("crewlog_payloads_proven", default=False)


@contextmanager
def external_payloads(proven: bool) -> Generator[None]:
    """Puts what is said to runs beside their histories, where it is large; see `data_converter`.

    Args:
        proven: Whether the workers are known to read the client's directory; else it stays inline.
    """
    token = _PROVEN.set(proven)
    try:
        yield
    finally:
        _PROVEN.reset(token)


class CrewDataConverter(DataConverter):
    """Temporal's, which no payload of a stranger makes fail before a run has seen it."""

    async def _decode_reference_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        """References that are encoded; what only says that it is one is read as it is.

        The SDK has no public place for this: it raises, which fails the run's workflow task for
        as long as the signal is in the history.
        """
        found: list[Payload] = []
        for payload in payloads:
            try:
                found += await super()._decode_reference_payload_sequence([payload])
            except EncryptionKeyMissing:
                raise
            except Exception:  # noqa: BLE001 - a stranger's may be anything
                found.append(payload)
        return found


class _Environment:
    """Stands for the keys that the environment names."""


ENVIRONMENT = _Environment()
"""The keys that the environment names, if it names any."""


def data_converter(
    directory: Path,
    threshold: int = 256 * 1024,
    *,
    keys: Keyring | _Environment | None = ENVIRONMENT,
) -> DataConverter:
    """The converter of workers and clients; payloads over `threshold` bytes go to `directory`.

    But for what a client says to a run that is there: a signal that the workers cannot read would
    hold up the run for good, since it is in the history. It stays inline, up to the server's limit,
    but within `external_payloads`.

    Args:
        directory: Where large payloads go.
        threshold: Bytes above which a payload is large.
        keys: What payloads are encrypted with; none: they are not.

    Raises:
        UsageError: the key file that the environment names cannot be used.
    """
    if isinstance(keys, _Environment):
        keys = environment_keyring()
    driver = DirectoryDriver(directory, keys)

    def driver_of(context: StorageDriverSelectContext, _payload: Payload) -> StorageDriver | None:
        target = context.target
        # Of what it says to a run, a client knows the id, and not the type.
        command = isinstance(target, StorageDriverWorkflowInfo) and target.type is None
        return driver if _PROVEN.get() or not command else None

    return CrewDataConverter(
        payload_converter_class=CrewPayloadConverter,
        payload_codec=None if keys is None else EncryptionCodec(keys),
        failure_converter_class=RedactingFailureConverter
        if keys is None
        else EncryptingFailureConverter,
        external_storage=DirectoryStorage(
            drivers=[driver], driver_selector=driver_of, payload_size_threshold=threshold
        ),
    )


def payload_hash(payload: Payload) -> str:
    """What proves that somebody has read a payload: the hash of its content."""
    return hashlib.sha256(payload.data).hexdigest()

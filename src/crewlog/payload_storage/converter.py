"""The data converter of workers and clients: JSON that keeps message types, and external storage.

A LangChain message, alone or in a list, is sent as a tagged body and read as the same type; only
known message types are constructed. Payloads above a threshold go to Temporal's `ExternalStorage`:
a directory here, S3 or GCS by the SDK's drivers. It is never the store, so that a loss of Postgres
loses no payload. If encryption is on, payloads are encrypted in the history and in external
storage.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Self, cast, get_args, get_origin

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, ToJsonOptions
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    JSONPlainPayloadConverter,
    SerializationContext,
    StorageDriver,
    StorageDriverSelectContext,
    StorageDriverWorkflowInfo,
)
from typing_extensions import override

from crewlog.encryption.codec import (
    REFUSED,
    UNAVAILABLE,
    EncryptionCodec,
    error_of,
    is_unavailable,
)
from crewlog.encryption.failures import EncryptingFailureConverter, RedactingFailureConverter
from crewlog.encryption.keys import ACCEPT_PLAIN, Keyring, environment_keyring
from crewlog.errors import DecryptionFailed, NotEncrypted
from crewlog.failure_details import FailureDetails, application_error
from crewlog.model import Model
from crewlog.payload_storage.external_storage import (
    DirectoryDriver,
    DirectoryStorage,
)
from crewlog.payload_storage.sdk_workarounds import HintedProtobufConverter, TolerantDataConverter

_JSON = b"json/plain"
MESSAGE_TAG = "lc_message"
"""The key of a tagged message body."""


class CrewPayloadConverter(CompositePayloadConverter):
    """Temporal's default converter, with pydantic models and tagged messages in its JSON part."""

    def __init__(self) -> None:
        # The SDK makes many instances; the base class would build the same mapping each time.
        self.converters = _by_encoding()

    @override
    def with_context(self, context: SerializationContext) -> Self:
        """This converter: none of its parts depends on a context."""
        del context
        return self

    @override
    def to_payloads(self, values: Sequence[Any]) -> list[Payload]:
        """See `PayloadConverter`; a model is JSON, and no other part is asked for it."""
        if len(values) == 1 and isinstance(values[0], Model):
            return [cast("Payload", self.converters[_JSON].to_payload(values[0]))]
        return super().to_payloads(values)


class _MessageJsonConverter(PydanticJSONPlainPayloadConverter):
    """Pydantic's JSON with tagged LangChain messages.

    A tag is read only if the type hint is a message or a list of messages. Otherwise it is data,
    since models and users may write data that looks like a tag.
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


class _ReadOnlyConverter(EncodingPayloadConverter):
    """For payloads that only the codec creates."""

    def to_payload(self, value: Any) -> Payload | None:
        del value
        return None


class _RefusedConverter(_ReadOnlyConverter):
    """Raises the reason why the codec refused a payload."""

    @property
    def encoding(self) -> str:
        return REFUSED.decode()

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raises.

        Raises:
            NotEncrypted: it is plain; a worker that accepts plain payloads can continue.
            ApplicationError: it was changed or moved, which is permanent and fails the run.
        """
        del type_hint
        error = error_of(payload)
        message = f"a payload is refused: {error.message}"
        if isinstance(error, NotEncrypted):
            raise NotEncrypted(
                message,
                remedy=f"If plain payloads are expected while encryption is being turned on, set "
                f"{ACCEPT_PLAIN}=true for workers and clients.",
            )
        raise application_error(
            message, DecryptionFailed.__name__, FailureDetails(remedy=error.remedy)
        )


class _UnavailableConverter(_ReadOnlyConverter):
    """Raises an error for a payload whose file or key is missing."""

    @property
    def encoding(self) -> str:
        return UNAVAILABLE.decode()

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Raises.

        Raises:
            StoreIncomplete: the file is missing.
            EncryptionKeyMissing: the key is missing.
            TypeError: the codec did not create the payload.
        """
        del type_hint
        if not is_unavailable(payload):
            raise TypeError(f"payloads with the encoding {self.encoding} are not read here")
        raise error_of(payload)


@cache
def _encoding_converters() -> tuple[EncodingPayloadConverter, ...]:
    json_converter = _MessageJsonConverter(ToJsonOptions(exclude_unset=False))
    defaults = (
        json_converter
        if isinstance(c, JSONPlainPayloadConverter)
        else HintedProtobufConverter(c)
        if "protobuf" in c.encoding
        else c
        for c in DefaultPayloadConverter.default_encoding_payload_converters
    )
    return (*defaults, _RefusedConverter(), _UnavailableConverter())


@cache
def _by_encoding() -> Mapping[bytes, EncodingPayloadConverter]:
    """The mapping of `CompositePayloadConverter`."""
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

    Does not import LangChain, which takes most of a second: if it is not imported, no value is one.
    """
    module = sys.modules.get("langchain_core.messages")
    return module is not None and isinstance(value, module.BaseMessage)


def _is_message_type(hint: Any) -> bool:
    module = sys.modules.get("langchain_core.messages")
    return module is not None and isinstance(hint, type) and issubclass(hint, module.BaseMessage)


_IS_SHARED: ContextVar[bool] = ContextVar("crewlog_is_storage_shared", default=False)


@contextmanager
def external_payloads(is_shared: bool) -> Generator[None]:
    """Stores large payloads of commands externally; see `data_converter`.

    Args:
        is_shared: Whether the workers are known to read the client's directory; otherwise the
            payloads stay inline.
    """
    token = _IS_SHARED.set(is_shared)
    try:
        yield
    finally:
        _IS_SHARED.reset(token)


class _Environment:
    """The type of `ENVIRONMENT`."""


ENVIRONMENT = _Environment()
"""Stands for the keys that the environment names, if any."""


def data_converter(
    directory: Path,
    threshold: int = 256 * 1024,
    *,
    keys: Keyring | _Environment | None = ENVIRONMENT,
) -> DataConverter:
    """The converter of workers and clients; payloads over `threshold` bytes go to `directory`.

    Except the commands of clients: a signal with a payload that the workers cannot read would block
    the run, since it is in the history. They stay inline, up to the limit of the server, unless
    `external_payloads` says otherwise.

    Args:
        directory: The directory of large payloads.
        threshold: The most bytes of a payload that stays inline.
        keys: The keys that encrypt payloads; None: they are plain.

    Raises:
        UsageError: the key file that the environment names cannot be used.
    """
    if isinstance(keys, _Environment):
        keys = environment_keyring()
    driver = DirectoryDriver(directory, keys)

    def select_driver(
        context: StorageDriverSelectContext, _payload: Payload
    ) -> StorageDriver | None:
        target = context.target
        # For a command a client knows the id of the run, but not its type.
        is_command = isinstance(target, StorageDriverWorkflowInfo) and target.type is None
        return driver if _IS_SHARED.get() or not is_command else None

    return TolerantDataConverter(
        payload_converter_class=CrewPayloadConverter,
        payload_codec=None if keys is None else EncryptionCodec(keys),
        failure_converter_class=RedactingFailureConverter
        if keys is None
        else EncryptingFailureConverter,
        external_storage=DirectoryStorage(
            drivers=[driver], driver_selector=select_driver, payload_size_threshold=threshold
        ),
    )


def payload_hash(payload: Payload) -> str:
    """The hash of the content of a payload, which proves that a process has read it."""
    return hashlib.sha256(payload.data).hexdigest()

"""The payload codec: Tink's AEAD over whole payloads, bound to the place that they belong to.

A place is a namespace, a workflow, and a purpose in it: the input of an activity, its result, its
start, a signal, an update. It is the associated data of the encryption, and stands beside the
encrypted payload, since clients and the codec server read payloads whose place they do not know.
Whoever acts on a payload compares the place with where it arrived: the codec compares namespace
and workflow, and the call of an activity; `crewlog.workers.payload_places` compares the purposes of
what an execution receives. So a payload that was moved is refused like one that was changed.

The codec does not raise for a refused payload: any client may send one by a signal, and an error of
the codec would fail the workflow task of the run forever. Instead it returns a payload with the
reason. A command with such a payload is rejected; any other reader raises, see
`crewlog.payload_storage`. A payload with a missing key may be valid, and a run that refused it
would differ from its next replay. So the run waits for the key, and gives a command up, see
`crewlog.payload_storage.external_storage`.

The input of a schedule is encrypted once for all of its runs, before their ids are known. It is
valid only as the start of runs whose ids begin with the id of the schedule.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)
from typing_extensions import override

from crewlog.encryption import purposes
from crewlog.encryption.keys import UNIQUE_BYTES, Keyring, changed_value_error, json_list
from crewlog.encryption.purposes import Purpose
from crewlog.errors import (
    CrewlogError,
    DecryptionFailed,
    EncryptionKeyMissing,
    NotEncrypted,
    StoreIncomplete,
)

ENCRYPTED = b"binary/encrypted"
"""The encoding of an encrypted payload, as in Temporal's examples."""
PLACE = "crewlog-place"
"""Metadata of an encrypted payload: its place, as a JSON list of texts."""
PURPOSE = "crewlog-purpose"
"""Metadata of a payload that is to be encrypted for a purpose; never in a history."""
ORIGIN = "crewlog-origin"
"""Metadata of a decrypted payload: the first `UNIQUE_BYTES` of the encrypted one, and its place;
never in a history."""
REFUSED = b"crewlog/refused"
"""The encoding of the replacement for a refused payload; never in a history."""
UNAVAILABLE = b"crewlog/unavailable"
"""The encoding of the replacement for a payload without file or key; never in a history."""
GIVEN_UP_MARK = "crewlog-given-up"
"""Metadata of a payload that was given up, see `external_storage`; never in a history."""
FILE_MISSING = "its content is in external storage, and was not there when it was read"
"""Why a command without its file is rejected."""
KEY_MISSING = "it is encrypted with a key that was not known when it was read"
"""Why a command without its key is rejected."""
NOT_ENCRYPTED = "it came without encryption, which is on here"
"""Why a plain payload is refused. The journal has this text for rejected commands."""
_OF_THIS_PROCESS = secrets.token_bytes(16)
"""Marks the payloads of this process, since any client may send the encodings above."""

_SCHEDULED = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""The part that the server appends to the id of a workflow that a schedule starts."""
_PURPOSE: ContextVar[Purpose] = ContextVar("crewlog_purpose", default=())


@contextmanager
def encrypt_for(purpose: Purpose) -> Generator[None]:
    """Encrypts payloads of clients for a purpose."""
    token = _PURPOSE.set(purpose)
    try:
        yield
    finally:
        _PURPOSE.reset(token)


class EncryptionCodec(PayloadCodec, WithSerializationContext):
    """Encrypts payloads with the current key, and decrypts those of all keys.

    Args:
        keys: The keys.
        namespace: The namespace that payloads belong to; empty if unknown.
        workflow: The workflow that payloads belong to; empty if unknown.
        purpose: The purpose of encrypted payloads that do not name theirs.
        reads: The purposes of accepted payloads; empty: any.
    """

    def __init__(
        self,
        keys: Keyring,
        namespace: str = "",
        workflow: str = "",
        purpose: Purpose = (),
        reads: Sequence[Purpose] = (),
    ) -> None:
        self.keys = keys
        self._workflow = namespace, workflow
        self._place = json_list((namespace, workflow, *purpose)).encode()
        self._reads = reads

    @override
    def with_context(self, context: SerializationContext) -> EncryptionCodec:
        """The codec for the payloads of one workflow, or of one of its activities."""
        if isinstance(context, WorkflowSerializationContext):
            return _codec(self.keys, context.namespace, context.workflow_id or "", _PURPOSE.get())
        if isinstance(context, ActivitySerializationContext):
            of = context.activity_type or "", context.activity_id or ""
            workflow = context.workflow_id or ""
            reads = purposes.call(*of), purposes.result(*of)  # a retry reads the last heartbeat
            return EncryptionCodec(
                self.keys, context.namespace, workflow, purposes.result(*of), reads
            )
        return self

    @override
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypts each payload, with its metadata."""
        return [self._encrypt(payload) for payload in payloads]

    @override
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypts each payload; replaces a refused one by one with the reason.

        Raises:
            EncryptionKeyMissing: the process does not have the key of a payload.
        """
        return [self._decrypt(payload) for payload in payloads]

    def _encrypt(self, payload: Payload) -> Payload:
        place = self._place
        if PURPOSE in payload.metadata:
            purpose = json.loads(payload.metadata[PURPOSE])
            place = json_list((*self._workflow, *purpose)).encode()
            payload = _without(payload, PURPOSE)
        data = self.keys.encrypt(payload.SerializeToString(), _bound(place))
        return Payload(metadata={"encoding": ENCRYPTED, PLACE: place}, data=data)

    def _decrypt(self, payload: Payload) -> Payload:
        if is_unavailable(payload):
            return payload
        decrypted = self._decrypt_or_refuse(payload)
        return give_up(decrypted) if is_given_up(payload) else decrypted

    def _decrypt_or_refuse(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCRYPTED:
            if not self.keys.accept_plain:
                return refused_payload(NotEncrypted(NOT_ENCRYPTED))
            return _without(payload, ORIGIN) if ORIGIN in payload.metadata else payload
        try:
            return decrypt_payload(self.keys, payload, self._belongs_here)
        except DecryptionFailed as error:
            return refused_payload(error)

    def _belongs_here(self, namespace: str, workflow: str, purpose: Purpose) -> bool:
        """Whether a payload belongs to the workflow or activity of the codec, if that is known."""
        own_namespace, own = self._workflow
        if not own_namespace:
            return True
        if namespace != own_namespace or (self._reads and purpose not in self._reads):
            return False
        if purpose != purposes.SCHEDULE:
            return workflow == own
        return own.startswith(workflow) and bool(_SCHEDULED.fullmatch(own[len(workflow) :]))


PlaceCheck = Callable[[str, str, Purpose], bool]
"""Checks namespace, workflow and purpose of a payload."""


def decrypt_payload(
    keys: Keyring, payload: Payload, check_place: PlaceCheck | None = None
) -> Payload:
    """Decrypts a payload.

    Args:
        keys: The keys.
        payload: The encrypted payload.
        check_place: Checks that it belongs where it was read; None: no check.

    Raises:
        EncryptionKeyMissing: the process does not have the key.
        DecryptionFailed: it was changed, or belongs to another place.
    """
    place = payload.metadata.get(PLACE, b"")
    try:
        namespace, workflow, *purpose = map(str, json.loads(place))
    except (ValueError, TypeError, RecursionError):
        raise changed_value_error() from None
    if check_place is not None and not check_place(namespace, workflow, tuple(purpose)):
        raise moved_payload_error(place)
    decrypted = Payload.FromString(keys.decrypt(payload.data, _bound(place)))
    decrypted.metadata[ORIGIN] = payload.data[:UNIQUE_BYTES] + place
    return decrypted


def moved_payload_error(place: bytes) -> DecryptionFailed:
    """The error for a payload that was read elsewhere than in its place."""
    return DecryptionFailed(
        f"it is encrypted for {place[:400].decode(errors='replace')}, and was read elsewhere",
        remedy="An encrypted payload cannot be copied to another namespace, run, command or call: "
        "send the content again by `crewlog`.",
    )


def _bound(place: bytes) -> bytes:
    return b"payload" + place


def _without(payload: Payload, mark: str) -> Payload:
    copy = Payload()
    copy.CopyFrom(payload)
    del copy.metadata[mark]
    return copy


def refused_payload(error: DecryptionFailed) -> Payload:
    """The replacement for a payload that is refused with an error."""
    return Payload(metadata={"encoding": REFUSED}, data=_error_json(error))


def is_refused(payload: Payload) -> bool:
    """Whether a decoded payload replaces a refused one."""
    return payload.metadata.get("encoding") == REFUSED


def is_not_encrypted(payload: Payload) -> bool:
    """Whether a decoded payload replaces one that is refused since it is plain."""
    return is_refused(payload) and isinstance(error_of(payload), NotEncrypted)


def unavailable_payload(file: str, error: StoreIncomplete | EncryptionKeyMissing) -> Payload:
    """The replacement for a payload whose file or key is missing.

    Args:
        file: The file; for a missing key, the file of its notes.
        error: What its readers raise.
    """
    data = _OF_THIS_PROCESS + _error_json(error, file)
    return Payload(metadata={"encoding": UNAVAILABLE}, data=data)


def is_unavailable(payload: Payload) -> bool:
    """Whether a payload replaces one whose file or key is missing."""
    return payload.metadata.get("encoding") == UNAVAILABLE and payload.data.startswith(
        _OF_THIS_PROCESS
    )


def missing_file(payload: Payload) -> str:
    """The file of an unavailable payload."""
    return str(json.loads(payload.data.removeprefix(_OF_THIS_PROCESS))["file"])


def _error_json(error: CrewlogError, file: str = "") -> bytes:
    content = {"type": type(error).__name__, "message": error.message, "remedy": error.remedy}
    return json.dumps({**content, "place": error.place, "file": file}).encode()


def error_of(payload: Payload) -> CrewlogError:
    """Why a payload is refused or unavailable."""
    try:
        content = json.loads(payload.data.removeprefix(_OF_THIS_PROCESS))
        kind, message, remedy, place = (
            str(content[name]) for name in ("type", "message", "remedy", "place")
        )
        return _ERRORS[kind](message, remedy=remedy, place=place)
    except (ValueError, TypeError, LookupError, RecursionError):  # any client may send a refusal
        return DecryptionFailed("it is not readable")


_ERRORS = {
    each.__name__: each
    for each in (DecryptionFailed, NotEncrypted, StoreIncomplete, EncryptionKeyMissing)
}


def give_up(payload: Payload) -> Payload:
    """Marks a payload as given up: a command with it is rejected, even if its file returns."""
    payload.metadata[GIVEN_UP_MARK] = _OF_THIS_PROCESS
    return payload


def is_given_up(payload: Payload) -> bool:
    """Whether a payload is given up."""
    return payload.metadata.get(GIVEN_UP_MARK) == _OF_THIS_PROCESS


def was_encrypted(payload: Payload) -> bool:
    """Whether a decoded payload was encrypted."""
    return ORIGIN in payload.metadata


def unique_text(payload: Payload) -> str:
    """A text that only this encryption of a decoded payload has; empty if it was plain."""
    return payload.metadata.get(ORIGIN, b"")[:UNIQUE_BYTES].hex()


def place_of(payload: Payload) -> bytes:
    """The place of a decoded payload that was encrypted."""
    return payload.metadata[ORIGIN][UNIQUE_BYTES:]


def purpose_of(payload: Payload) -> Purpose:
    """The purpose of a decoded payload that was encrypted."""
    return tuple(json.loads(place_of(payload))[2:])


def set_purpose(payload: Payload, purpose: Purpose) -> None:
    """Has the codec encrypt a payload for a purpose."""
    payload.metadata[PURPOSE] = json_list(purpose).encode()


def payloads_in(message: Message) -> Iterator[Payload]:
    """Every payload in a message, except those of search attributes, which are Temporal's."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.name == "search_attributes":
            continue
        if field.message_type.GetOptions().map_entry:
            items: Any = value.values()
        else:
            items = value if field.is_repeated else (value,)
        for each in items:
            if isinstance(each, Message):
                yield from payloads_in(each)


@lru_cache(maxsize=4096)
def _codec(keys: Keyring, namespace: str, workflow: str, purpose: Purpose) -> EncryptionCodec:
    return EncryptionCodec(keys, namespace, workflow, purpose)

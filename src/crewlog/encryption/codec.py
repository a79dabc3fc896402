"""The payload codec: AES-256-GCM over whole payloads, bound to the run that they belong to.

An encrypted payload has the id of its key, and the namespace and workflow that it belongs to. All
of it is authenticated, and compared with the workflow that receives it: a payload that was moved to
another run is refused like one that was changed.

The codec does not raise for a refused payload: any client may send one by a signal, and an error of
the codec would fail the workflow task of the run forever. Instead it returns a payload with the
reason. A command with such a payload is rejected; any other reader raises, see
`crewlog.payload_storage`. A payload with a missing key may be valid, and a run that refused it
would differ from its next replay. So the run waits for the key, and gives a command up, see
`crewlog.payload_storage.external_storage`.

The input of a schedule is encrypted once for all of its runs, before their ids are known. It is
marked, authenticated, as that of a schedule. It is valid only as the start of runs whose ids begin
with the id of the schedule. Otherwise a client without a key could copy the start and the commands
of one run to another run with an id that it chooses.

The result of an activity contains its call, encrypted. Otherwise a client without a key could
complete a pending call with the result of an earlier one of the same run, see
`crewlog.workers.activity_ids`.

Whether a plain payload is accepted must follow from the history of the run, since a replay may have
other settings, see `CrewRun`. So accepted plain payloads are marked.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import NamedTuple

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)
from typing_extensions import override

from crewlog.encryption.keys import NONCE, Keyring, associated_data, changed_value_error
from crewlog.errors import DecryptionFailed

ENCRYPTED = b"binary/encrypted"
"""The encoding of an encrypted payload, as in Temporal's examples."""
REFUSED = b"crewlog/refused"
"""The encoding of the replacement for a refused payload; never in a history."""
PLAIN_MARK = "crewlog-plain"
"""Metadata of an accepted plain payload; never in a history."""
ENCRYPTED_MARK = "crewlog-encrypted"
"""Metadata of a decrypted payload: its `nonce`; never in a history."""
UNAVAILABLE = b"crewlog/unavailable"
"""The encoding of the replacement for a payload without file or key; never in a history."""
_KEY_FILE = "crewlog-key-file"
"""Metadata of such a replacement: the key file that lacks the key."""
GIVEN_UP_MARK = "crewlog-given-up"
"""Metadata of a payload that was given up, see `external_storage`; never in a history."""
FILE_MISSING = "its content is in external storage, and was not there when it was read"
"""Why a command without its file is rejected."""
KEY_MISSING = "it is encrypted with a key that was not known when it was read"
"""Why a command without its key is rejected."""
_OF_THIS_PROCESS = secrets.token_bytes(16)
"""Marks the payloads of this process, since any client may send the encodings above."""
KEY, NAMESPACE, WORKFLOW = "crewlog-key", "crewlog-namespace", "crewlog-workflow"
SCHEDULE = "crewlog-schedule"
"""Metadata of an encrypted payload; `SCHEDULE` only of a schedule."""
CALL = "call"
"""Metadata inside the encrypted payload of a result: the id of the activity."""
SCHEDULED_MARK = "crewlog-scheduled"
"""Metadata of a decrypted payload of a schedule; never in a history."""
NOT_ENCRYPTED = "it came without encryption, which is on here"
"""Why a plain payload is refused. The journal has this text for rejected commands."""
_SCHEDULED = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""The part that the server appends to the id of a workflow that a schedule starts."""
_OF_SCHEDULE: ContextVar[bool] = ContextVar("crewlog_of_schedule", default=False)


@contextmanager
def encrypt_for_schedule() -> Generator[None]:
    """Encrypts payloads of a workflow id for the schedule with this id instead."""
    token = _OF_SCHEDULE.set(True)
    try:
        yield
    finally:
        _OF_SCHEDULE.reset(token)


class EncryptionCodec(PayloadCodec, WithSerializationContext):
    """Encrypts payloads with the current key, and decrypts those of all keys.

    Args:
        keys: The keys.
        namespace: The namespace that payloads belong to; empty if unknown.
        workflow: The workflow that payloads belong to; empty if unknown.
        schedule: Whether `workflow` is a schedule, and payloads are for all of its runs.
        activity: Whether they are of an activity, which never accepts those of a schedule.
        call: The id of the activity whose result is encrypted; empty for other payloads.
    """

    def __init__(
        self,
        keys: Keyring,
        namespace: str = "",
        workflow: str = "",
        *,
        schedule: bool = False,
        activity: bool = False,
        call: str = "",
    ) -> None:
        self.keys = keys
        self._call = call.encode()
        self._namespace = namespace
        self._workflow = workflow
        self._activity = activity
        self._bound = associated_data("schedule" if schedule else "payload", namespace, workflow)
        self._metadata = {"encoding": ENCRYPTED}
        if schedule:
            self._metadata[SCHEDULE] = _YES
        if namespace or workflow:
            self._metadata[NAMESPACE] = _bytes(namespace)
            self._metadata[WORKFLOW] = _bytes(workflow)

    @override
    def with_context(self, context: SerializationContext) -> EncryptionCodec:
        """The codec for the payloads of one workflow and its activities."""
        if isinstance(context, WorkflowSerializationContext):
            schedule = _OF_SCHEDULE.get()
            return _codec(self.keys, context.namespace, context.workflow_id or "", schedule, False)
        if isinstance(context, ActivitySerializationContext):
            workflow = context.workflow_id or ""
            if context.is_local or not context.activity_id:
                return _codec(self.keys, context.namespace, workflow, False, True)
            call = context.activity_id
            return EncryptionCodec(self.keys, context.namespace, workflow, activity=True, call=call)
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
        if self._call:
            with_call = Payload()
            with_call.CopyFrom(payload)
            with_call.metadata[CALL] = self._call
            payload = with_call
        key, data = self.keys.encrypt(payload.SerializeToString(), self._bound)
        return Payload(metadata={**self._metadata, KEY: key.encode()}, data=data)

    def _decrypt(self, payload: Payload) -> Payload:
        if is_unavailable(payload):
            return payload
        decrypted = self._decrypt_or_refuse(payload)
        return give_up(decrypted) if is_given_up(payload) else decrypted

    def _decrypt_or_refuse(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCRYPTED or KEY not in payload.metadata:
            return self._accept_plain(payload)
        try:
            decrypted = decrypt_payload(self.keys, payload, self._belongs_here)
        except DecryptionFailed as error:
            return refused_payload(error.message, remedy=error.remedy)
        decrypted.metadata[ENCRYPTED_MARK] = nonce(payload)
        if SCHEDULE in payload.metadata:
            decrypted.metadata[SCHEDULED_MARK] = _YES
        return decrypted

    def _accept_plain(self, payload: Payload) -> Payload:
        if not self.keys.accept_plain:
            return refused_payload(NOT_ENCRYPTED, plain=True)
        marked = Payload()
        marked.CopyFrom(payload)
        marked.metadata[PLAIN_MARK] = _YES
        return marked

    def _belongs_here(self, namespace: str, workflow: str, schedule: bool) -> bool:
        """Whether a payload for a workflow belongs to that of the codec, if that is known."""
        if not self._namespace:
            return True
        if namespace != self._namespace:
            return False
        if not schedule:
            return workflow == self._workflow
        own = self._workflow
        is_of_schedule = own.startswith(workflow) and _SCHEDULED.fullmatch(own[len(workflow) :])
        return bool(is_of_schedule) and not self._activity


PlaceCheck = Callable[[str, str, bool], bool]
"""Checks namespace and workflow of a payload, and whether the workflow is a schedule."""


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
        DecryptionFailed: it was changed, or belongs to another workflow.
    """
    try:
        key = payload.metadata[KEY].decode()
        namespace = _text(payload.metadata.get(NAMESPACE, b""))
        workflow = _text(payload.metadata.get(WORKFLOW, b""))
    except UnicodeDecodeError:
        raise changed_value_error() from None
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise changed_value_error()
    schedule = payload.metadata.get(SCHEDULE) == _YES
    if check_place is not None and not check_place(namespace, workflow, schedule):
        kind = "schedule" if schedule else "workflow"
        raise DecryptionFailed(
            f"it is encrypted for the {kind} {workflow[:200]!r} in the namespace "
            f"{namespace[:200]!r}, and was read elsewhere",
            remedy="A payload cannot be copied to another workflow or namespace: start a new run "
            "with the same input instead.",
        )
    bound = associated_data("schedule" if schedule else "payload", namespace, workflow)
    data = keys.decrypt(key, payload.data, bound)
    return Payload.FromString(data)


LONGEST_KEY = 100
"""Characters of the id of a key."""
_YES = b"1"


def refused_payload(reason: str, *, plain: bool = False, remedy: str = "") -> Payload:
    """The replacement for a refused payload."""
    data = json.dumps({"reason": reason, "plain": plain, "remedy": remedy}).encode()
    return Payload(metadata={"encoding": REFUSED}, data=data)


class MissingKey(NamedTuple):
    """A key that the process lacks."""

    id: str
    key_file: str
    """The key file of the process; empty: it has none."""


def unavailable_payload(place: str, key: MissingKey | None = None) -> Payload:
    """The replacement for a payload whose file or key is missing.

    Args:
        place: The file; for a missing key, the file of its notes.
        key: The missing key; None: the file is missing.
    """
    payload = Payload(metadata={"encoding": UNAVAILABLE}, data=_OF_THIS_PROCESS + place.encode())
    if key is not None:
        payload.metadata[KEY] = key.id.encode()
        payload.metadata[_KEY_FILE] = key.key_file.encode()
    return payload


def is_unavailable(payload: Payload) -> bool:
    """Whether a payload replaces one whose file or key is missing."""
    return payload.metadata.get("encoding") == UNAVAILABLE and payload.data.startswith(
        _OF_THIS_PROCESS
    )


def missing_file(payload: Payload) -> str:
    """The file of an unavailable payload."""
    return payload.data.removeprefix(_OF_THIS_PROCESS).decode()


def missing_key(payload: Payload) -> MissingKey | None:
    """The missing key of an unavailable payload; None if its file is missing."""
    if KEY not in payload.metadata:
        return None
    return MissingKey(payload.metadata[KEY].decode(), payload.metadata[_KEY_FILE].decode())


def give_up(payload: Payload) -> Payload:
    """Marks a payload as given up: a command with it is rejected, even if its file returns."""
    payload.metadata[GIVEN_UP_MARK] = _OF_THIS_PROCESS
    return payload


def is_given_up(payload: Payload) -> bool:
    """Whether a payload is given up."""
    return payload.metadata.get(GIVEN_UP_MARK) == _OF_THIS_PROCESS


def is_plain(payload: Payload) -> bool:
    """Whether a decoded payload was plain although encryption is on."""
    if PLAIN_MARK in payload.metadata:
        return True
    return is_refused(payload) and bool(_refusal(payload).get("plain"))


def was_encrypted(payload: Payload) -> bool:
    """Whether a decoded payload was encrypted."""
    return ENCRYPTED_MARK in payload.metadata


def nonce(payload: Payload) -> bytes:
    """The nonce of an encrypted payload, which no other payload of its key has."""
    return payload.data[:NONCE]


def nonce_text(payload: Payload) -> str:
    """The `nonce` of a decoded payload in hex; empty if it was plain."""
    return "" if is_plain(payload) else payload.metadata.get(ENCRYPTED_MARK, b"").hex()


def is_result_of(payload: Payload, call: str) -> bool:
    """Whether a decoded payload was encrypted as the result of a call.

    Args:
        payload: The payload.
        call: The id of the activity.
    """
    return payload.metadata.get(CALL) == call.encode() and bool(nonce_text(payload))


def is_scheduled(payload: Payload) -> bool:
    """Whether a decoded payload is the input of a schedule."""
    return SCHEDULED_MARK in payload.metadata


def is_refused(payload: Payload) -> bool:
    """Whether a decoded payload replaces a refused one."""
    return payload.metadata.get("encoding") == REFUSED


class PayloadRefusal(NamedTuple):
    """Why a payload is refused."""

    reason: str
    is_plain: bool
    """Whether that is because it is plain."""
    remedy: str


def payload_refusal(payload: Payload) -> PayloadRefusal:
    """Return why a payload is refused."""
    refusal = _refusal(payload)
    return PayloadRefusal(
        str(refusal.get("reason", "it is not readable")),
        bool(refusal.get("plain")),
        str(refusal.get("remedy", "")),
    )


def _refusal(payload: Payload) -> dict[str, object]:
    try:
        found = json.loads(payload.data)
    except (ValueError, RecursionError):  # any client may send this encoding
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


@lru_cache(maxsize=4096)
def _codec(
    keys: Keyring, namespace: str, workflow: str, schedule: bool, activity: bool
) -> EncryptionCodec:
    return EncryptionCodec(keys, namespace, workflow, schedule=schedule, activity=activity)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")

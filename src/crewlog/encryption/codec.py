"""The payload codec: AES-256-GCM over whole payloads, bound to the run that they belong to.

An encrypted payload says which key it has, and which namespace and workflow it is for. All of it is
authenticated, and compared with where the payload stands: one that was moved to another run is
refused like one that was changed.

What cannot be read is told where it is read, and not where it is decoded: a decoder that fails
would keep a run from its next task for good, whoever sent it the signal. So a payload that is
refused becomes one that says why. Whoever reads a command finds that it is unreadable, and records
it as refused; whoever reads anything else fails, see
`crewlog.payload_storage`. Where a key is missing the
value may be good, and a run that took it for bad would go another way than its next replay: it is
waited for, and a command is given up, as `crewlog.payload_storage.external_storage` says.

What a schedule starts its runs with is encrypted once for all of them, whose ids nobody knows yet.
It says, authenticated, that it is a schedule's: that alone opens in runs whose ids begin with its
own, and there as their start. Else whoever may start a run, and has no key, could give the start
and the commands of one run to another whose id he makes up.

What an activity answers names its call, within what is encrypted. Else whoever reaches the server
could answer a call in flight with what an earlier one of the same run was answered, see
`crewlog.workers.activity_ids`.

Whether what is not encrypted counts must follow from the run's history alone, since a replay may
have other settings: see `CrewRun`. So where it is accepted, it is marked.
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

from crewlog.encryption.keys import NONCE, Keyring, associated_data
from crewlog.errors import DecryptionFailed

ENCRYPTED = b"binary/encrypted"
"""The encoding of an encrypted payload, as Temporal's own examples call it."""
REFUSED = b"crewlog/refused"
"""The encoding of what stands for a payload that is refused; never in a history."""
PLAIN_MARK = "crewlog-plain"
"""Metadata of a payload that came without encryption, and was accepted; never in a history."""
SEALED_MARK = "crewlog-sealed"
"""Metadata of a payload that was decrypted: its `nonce`; never in a history."""
LOST = b"crewlog/lost"
"""The encoding of what stands for a payload whose file, or whose key, is not there; never in a
history."""
_KEY_FILE = "crewlog-key-file"
"""Metadata of the same: the key file that has not its key."""
GIVEN_UP_MARK = "crewlog-given-up"
"""Metadata of a payload whose file came too late, see `payload_folder`; never in a history."""
LOST_FILE = "its content is in the payload folder, and was not there when it was read"
"""Why a command is refused whose content is in no file."""
LOST_KEY = "it is encrypted with a key that was not known when it was read"
"""Why a command is refused whose key nobody has."""
_OF_THIS_PROCESS = secrets.token_bytes(16)
"""What only this process can put into a payload: any client may send the encodings above."""
KEY, NAMESPACE, WORKFLOW = "crewlog-key", "crewlog-namespace", "crewlog-workflow"
SCHEDULE = "crewlog-schedule"
"""Metadata of an encrypted payload; `SCHEDULE` of a schedule's alone."""
CALL = "call"
"""Metadata within what is encrypted: the call that it answers, by the activity's id."""
SCHEDULED_MARK = "crewlog-scheduled"
"""Metadata of a payload that was decrypted and is a schedule's; never in a history."""
NOT_ENCRYPTED = "it came without encryption, which is on here"
"""Why a plain payload is refused. Commands that are refused for it are journaled in these words."""
_SCHEDULED = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""What the server adds to the id of a schedule's workflow."""
_OF_SCHEDULE: ContextVar[bool] = ContextVar("crewlog_of_schedule", default=False)


@contextmanager
def encrypt_for_schedule() -> Generator[None]:
    """Encrypts what is bound to a workflow for the runs of the schedule that has its id."""
    token = _OF_SCHEDULE.set(True)
    try:
        yield
    finally:
        _OF_SCHEDULE.reset(token)


class EncryptionCodec(PayloadCodec, WithSerializationContext):
    """Encrypts payloads with the current key, and decrypts those of all keys.

    Args:
        keys: The keys.
        namespace: The namespace that payloads belong to; empty where that is not known.
        workflow: The workflow that payloads belong to; empty where that is not known.
        schedule: Whether that is a schedule, and what is encrypted is for all of its runs.
        activity: Whether they are an activity's: a schedule has no part in those.
        call: The activity whose answer is encrypted, by its id; empty: it is no such answer.
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
        return [self._sealed(payload) for payload in payloads]

    @override
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypts each payload; one that is refused becomes one that says why.

        Raises:
            EncryptionKeyMissing: a payload is encrypted with a key that this process does not have.
        """
        return [self._opened(payload) for payload in payloads]

    def _sealed(self, payload: Payload) -> Payload:
        if self._call:
            named = Payload()
            named.CopyFrom(payload)
            named.metadata[CALL] = self._call
            payload = named
        key, data = self.keys.encrypt(payload.SerializeToString(), self._bound)
        return Payload(metadata={**self._metadata, KEY: key.encode()}, data=data)

    def _opened(self, payload: Payload) -> Payload:
        if is_unavailable(payload):
            return payload
        opened = self._decrypted_or_refused(payload)
        return give_up(opened) if is_given_up(payload) else opened

    def _decrypted_or_refused(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCRYPTED or KEY not in payload.metadata:
            return self._plain(payload)
        try:
            opened = decrypt_payload(self.keys, payload, self._belongs)
        except DecryptionFailed as error:
            return refused(error.message)
        opened.metadata[SEALED_MARK] = nonce(payload)
        if SCHEDULE in payload.metadata:
            opened.metadata[SCHEDULED_MARK] = _YES
        return opened

    def _plain(self, payload: Payload) -> Payload:
        if not self.keys.accept_plain:
            return refused(NOT_ENCRYPTED, plain=True)
        marked = Payload()
        marked.CopyFrom(payload)
        marked.metadata[PLAIN_MARK] = _YES
        return marked

    def _belongs(self, namespace: str, workflow: str, schedule: bool) -> bool:
        """Whether a payload for a workflow is one for ours; all are where ours is not known."""
        if not self._namespace:
            return True
        if namespace != self._namespace:
            return False
        if not schedule:
            return workflow == self._workflow
        ours = self._workflow
        due = ours.startswith(workflow) and _SCHEDULED.fullmatch(ours[len(workflow) :])
        return bool(due) and not self._activity


Belongs = Callable[[str, str, bool], bool]
"""Tells by namespace and workflow, and by whether that is a schedule, whether a payload belongs
where it stands."""


def decrypt_payload(keys: Keyring, payload: Payload, belongs: Belongs | None = None) -> Payload:
    """The payload within an encrypted one.

    Args:
        keys: The keys.
        payload: The encrypted payload.
        belongs: By default it belongs everywhere: for tools that show what there is.

    Raises:
        EncryptionKeyMissing: the process does not have its key.
        DecryptionFailed: it was changed, or belongs to another workflow.
    """
    try:
        key = payload.metadata[KEY].decode()
        namespace = _text(payload.metadata.get(NAMESPACE, b""))
        workflow = _text(payload.metadata.get(WORKFLOW, b""))
    except UnicodeDecodeError:
        raise DecryptionFailed("it was changed since it was encrypted") from None
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise DecryptionFailed("it was changed since it was encrypted")
    schedule = payload.metadata.get(SCHEDULE) == _YES
    if belongs is not None and not belongs(namespace, workflow, schedule):
        what = "schedule" if schedule else "workflow"
        raise DecryptionFailed(
            f"it is encrypted for the {what} {workflow[:200]!r} in the namespace "
            f"{namespace[:200]!r}, and stands elsewhere"
        )
    bound = associated_data("schedule" if schedule else "payload", namespace, workflow)
    data = keys.decrypt(key, payload.data, bound)
    return Payload.FromString(data)


LONGEST_KEY = 100
"""Characters of a key's id."""
_YES = b"1"


def refused(reason: str, *, plain: bool = False) -> Payload:
    """What stands for a payload that is refused."""
    told = json.dumps({"reason": reason, "plain": plain}).encode()
    return Payload(metadata={"encoding": REFUSED}, data=told)


class MissingKey(NamedTuple):
    """A key that a process lacks."""

    id: str
    keys: str
    """The process's key file; empty: it has none."""


def lost(place: str, key: MissingKey | None = None) -> Payload:
    """What stands for a payload whose file is not there, or whose key.

    Args:
        place: The file. Of a missing key, where it is noted that it was asked for.
        key: The key that is missing; none: it is the file.
    """
    payload = Payload(metadata={"encoding": LOST}, data=_OF_THIS_PROCESS + place.encode())
    if key is not None:
        payload.metadata[KEY] = key.id.encode()
        payload.metadata[_KEY_FILE] = key.keys.encode()
    return payload


def is_unavailable(payload: Payload) -> bool:
    """Whether a payload stands for one whose file is not there."""
    return payload.metadata.get("encoding") == LOST and payload.data.startswith(_OF_THIS_PROCESS)


def missing_file(payload: Payload) -> str:
    """The file of a payload that is lost."""
    return payload.data.removeprefix(_OF_THIS_PROCESS).decode()


def missing_key(payload: Payload) -> MissingKey | None:
    """The key that a lost payload is encrypted with; none where its file is missing."""
    if KEY not in payload.metadata:
        return None
    return MissingKey(payload.metadata[KEY].decode(), payload.metadata[_KEY_FILE].decode())


def give_up(payload: Payload) -> Payload:
    """Marks a payload: as a command it is refused for good, whether its file is there or not."""
    payload.metadata[GIVEN_UP_MARK] = _OF_THIS_PROCESS
    return payload


def is_given_up(payload: Payload) -> bool:
    """Whether a payload is refused for good as a command."""
    return payload.metadata.get(GIVEN_UP_MARK) == _OF_THIS_PROCESS


def is_plain(payload: Payload) -> bool:
    """Whether a decoded payload came without encryption, while that is on."""
    if PLAIN_MARK in payload.metadata:
        return True
    return is_refused(payload) and bool(_told(payload).get("plain"))


def was_encrypted(payload: Payload) -> bool:
    """Whether a decoded payload came encrypted."""
    return SEALED_MARK in payload.metadata


def nonce(payload: Payload) -> bytes:
    """What tells an encrypted payload from every other: nobody can make two of one id."""
    return payload.data[:NONCE]


def nonce_text(payload: Payload) -> str:
    """The `nonce` of a decoded payload, in hex; empty where it came without encryption."""
    return "" if is_plain(payload) else payload.metadata.get(SEALED_MARK, b"").hex()


def answers(payload: Payload, call: str) -> bool:
    """Whether a decoded payload came encrypted as the answer to a call.

    Args:
        payload: What was answered.
        call: The activity's id.
    """
    return payload.metadata.get(CALL) == call.encode() and bool(nonce_text(payload))


def is_scheduled(payload: Payload) -> bool:
    """Whether a decoded payload is what a schedule starts its runs with."""
    return SCHEDULED_MARK in payload.metadata


def is_refused(payload: Payload) -> bool:
    """Whether a decoded payload stands for one that is refused."""
    return payload.metadata.get("encoding") == REFUSED


def refusal_reason(payload: Payload) -> tuple[str, bool]:
    """Why a payload is refused, and whether it is because it is plain."""
    told = _told(payload)
    return str(told.get("reason", "it is not readable")), bool(told.get("plain"))


def _told(payload: Payload) -> dict[str, object]:
    try:
        found = json.loads(payload.data)
    except (ValueError, RecursionError):  # from a stranger: any client may send this encoding
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

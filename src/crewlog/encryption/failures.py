"""Failure converters: they redact secrets, and encrypt messages and traces if encryption is on."""

from __future__ import annotations

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError
from typing_extensions import override

from crewlog.encryption.codec import is_unavailable
from crewlog.errors import EncryptionKeyMissing, NotEncrypted
from crewlog.redaction import redacted_text

PLAIN_TYPES = frozenset({"Starting", "BadPage"})
"""Types of errors with fixed messages that tell nothing about a run. Clients read them without a
converter: of a failed query they get only the message."""

LONGEST_TRACE = 1500
"""Characters of the traces of a failure and its causes. The server keeps at most 4 kB of the
failure of an attempt, and would cut the message. The log of the worker has the whole traces."""
LARGEST_CAUSES = 1000
"""Bytes of the causes of a failure beyond the traces; larger causes are left out."""


ENCODED = "Encoded failure"
"""The message of a failure with an encrypted message, as in the SDK."""


class RedactingFailureConverter(DefaultFailureConverter):
    """Redacts secrets in messages and traces, also of causes, and shortens the traces."""

    @override
    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """Converts as the SDK does, which calls this for each cause, too."""
        super().to_failure(exception, payload_converter, failure)
        failure.message = redacted_text(failure.message)
        # The causes are converted first. The trace of the first cause is the most useful one.
        if failure.cause.ByteSize() > LONGEST_TRACE + LARGEST_CAUSES:
            failure.ClearField("cause")
        room = max(0, LONGEST_TRACE - failure.cause.ByteSize())
        failure.stack_trace = redacted_text(failure.stack_trace)[-room:] if room else ""

    @override
    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """Converts as the SDK does, which would ignore that the key of the message is missing."""
        if is_unavailable(failure.encoded_attributes):
            payload_converter.from_payload(failure.encoded_attributes)  # raises an error
        return super().from_failure(failure, payload_converter)


class EncryptingFailureConverter(RedactingFailureConverter):
    """Moves message and trace to the attributes that the codec encrypts."""

    @override
    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """Converts as the SDK does, except errors of `PLAIN_TYPES`."""
        super().to_failure(exception, payload_converter, failure)
        if isinstance(exception, ApplicationError) and exception.type in PLAIN_TYPES:
            return
        attributes = {"message": failure.message, "stack_trace": failure.stack_trace}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([attributes])[0])
        # The reader of an error about keys may lack the key, too.
        if isinstance(exception, EncryptionKeyMissing | NotEncrypted):
            failure.message = exception.message
        else:
            failure.message = ENCODED
        failure.stack_trace = ""

"""Failures as they leave a process: without secrets, and encrypted where encryption is on."""

from __future__ import annotations

from typing import TypeGuard

from temporalio.api.failure.v1 import Failure
from temporalio.converter import DefaultFailureConverter, PayloadConverter
from temporalio.exceptions import ApplicationError
from typing_extensions import override

from crewlog.encryption.codec import NOT_ENCRYPTED, is_unavailable
from crewlog.errors import CrewlogError, DecryptionFailed, EncryptionKeyMissing
from crewlog.redaction import redacted_text

TOLD = frozenset({"Starting", "BadPage"})
"""Types of errors whose messages are ours, say nothing of a run, and are read by clients past all
converters: of a query that failed they are told the bare message."""

TRACES = 1500
"""Characters of traces that a failure takes along, with its causes. Of a try that failed and is
made again, the server keeps a failure of 4 kB, and of a larger one a part of what it can read:
of an encrypted one nothing that tells why, of another one not what to do. The worker's log has the
traces whole."""
CAUSES = 1000
"""Bytes beyond the traces that the causes of a failure may have; larger ones are left out."""


ENCODED = "Encoded failure"
"""The message of a failure whose own is encrypted, as the SDK has it."""


class RedactingFailureConverter(DefaultFailureConverter):
    """Takes the values of secrets out of messages and traces, of causes too; cuts the traces."""

    @override
    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """Converts as the SDK does, which comes here once more for each cause."""
        super().to_failure(exception, payload_converter, failure)
        failure.message = redacted_text(failure.message)
        # The causes were here before, and the first of them says best where it began.
        if failure.cause.ByteSize() > TRACES + CAUSES:
            failure.ClearField("cause")
        room = max(0, TRACES - failure.cause.ByteSize())
        failure.stack_trace = redacted_text(failure.stack_trace)[-room:] if room else ""

    @override
    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        """Converts as the SDK does, which would pass by that it lacks the key of what it says."""
        if is_unavailable(failure.encoded_attributes):
            payload_converter.from_payload(failure.encoded_attributes)  # says what is missing
        return super().from_failure(failure, payload_converter)


def _is_key_error(exception: BaseException) -> TypeGuard[CrewlogError]:
    """Whether it says that there is no key, or no encryption: who is told may have no key, too."""
    if isinstance(exception, DecryptionFailed):
        return exception.message.endswith(NOT_ENCRYPTED)  # others may name what a row is about
    return isinstance(exception, EncryptionKeyMissing)


class EncryptingFailureConverter(RedactingFailureConverter):
    """Puts message and trace where the codec reaches them, for failures that tell of a run."""

    @override
    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """Converts as the SDK does, but for our own words to clients."""
        super().to_failure(exception, payload_converter, failure)
        if isinstance(exception, ApplicationError) and exception.type in TOLD:
            return
        told = {"message": failure.message, "stack_trace": failure.stack_trace}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([told])[0])
        failure.message = exception.message if _is_key_error(exception) else ENCODED
        failure.stack_trace = ""

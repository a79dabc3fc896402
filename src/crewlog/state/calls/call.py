"""What the inputs and results of model calls and tool calls have in common."""

from __future__ import annotations

from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator
from typing_extensions import override

from crewlog.canonical_json import hash_json
from crewlog.ids import AgentName, ContentHash, RunId, StepId
from crewlog.model import Json, Model, is_object
from crewlog.state.agent_inputs import AgentInput
from crewlog.state.body_metadata import usage_with_metadata, usage_without_metadata
from crewlog.state.calls.view import View
from crewlog.state.journal import Batch
from crewlog.state.model import CallDelay


class CallInput(Model):
    """The fields that the inputs of model calls and tool calls share."""

    run: RunId = RunId("")
    """The run. Inputs of activities leave it out: it is the workflow id."""
    step: StepId
    call: int = 1
    """The number of the call in the step; run, step and call make the idempotency key."""
    agent: AgentName = AgentName("")
    """The agent. Inputs of activities leave it out if it has the name of the node."""
    definition: ContentHash
    view: View = View()
    """The logs that the agent may read."""
    batch: Batch = Batch.EMPTY
    """The entries that no completed activity has stored."""
    attempt: int = 1
    """The number of the attempt, including those that people asked for. All attempts have the same
    idempotency key."""
    position: int = 0
    """The journal position at which the call was scheduled; 0: the last one of the batch."""
    inputs: tuple[AgentInput, ...] = ()
    """The values that the agent lists under `inputs`, as far as they are set and it may see
    them."""

    @model_validator(mode="before")
    @classmethod
    def _with_step(cls, data: Any) -> Any:
        if is_object(data) and "step" not in data:
            step = _last_started_step(data.get("batch") or {})
            return {**data, "step": step} if step else data
        return data

    @override
    def to_json(self) -> dict[str, Json]:
        """As JSON; without the step if the batch ends with its start, as most batches do."""
        data = super().to_json()
        if _last_started_step(data.get("batch", {})) == self.step:
            del data["step"]
        return data

    @property
    def known_position(self) -> int:
        """The position up to which the workflow has applied the permissions that people set."""
        return self.position or (self.batch.last if self.batch.entries else 0)


def _last_started_step(batch: Any) -> str:
    """The step that the last entry of a batch starts, in JSON; empty for any other entry."""
    match batch:
        case {"entries": [*_, {"kind": "StepStarted", "step": str(step)}]}:
            return step
        case _:
            return ""


class NamedOutcome(Model):
    """A way in which a call ends whose `kind` is part of its JSON."""

    @model_serializer(mode="wrap")
    def _with_kind(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Json]:
        return {"kind": type(self).model_fields["kind"].default, **serialize(self)}


class CallResult(Model):
    """The message of a call. As JSON it leaves out the metadata that the body has."""

    body: dict[str, Json]
    """The message, as `crewlog.state.messages` encodes it."""
    hash: ContentHash
    """The hash of the body."""
    stored: bool = True
    """Whether the store has the body. If it was unavailable, the journal entry contains the
    body."""
    journaled: bool = True
    """Whether the store has the batch of the input."""
    at: int = 0
    """When the call ended, in milliseconds since the epoch; 0 for a message that needed no call."""
    delay: CallDelay | None = None
    """What the call took before the attempt that answered; none if that is negligible."""

    @classmethod
    def _metadata(cls, body: dict[str, Json]) -> dict[str, Json]:
        raise NotImplementedError

    @model_validator(mode="before")
    @classmethod
    def _with_metadata(cls, data: Any) -> Any:
        if not is_object(data) or not is_object(body := data.get("body")):
            return data
        metadata = cls._metadata(body)
        fields = {**metadata, **data}
        if "hash" not in data:
            fields["hash"] = hash_json(body)
        if "usage" in metadata and is_object(usage := data.get("usage")):
            fields["usage"] = usage_with_metadata(usage, metadata["usage"])
        if "outcome" in metadata and is_object(outcome := data.get("outcome")):
            fields["outcome"] = {**metadata["outcome"], **outcome}
        return fields

    @override
    def to_json(self) -> dict[str, Json]:
        data = super().to_json()
        metadata: dict[str, Json] = {"hash": self.hash, **self._metadata(self.body)}
        if "usage" in metadata:
            data["usage"] = usage_without_metadata(data.get("usage", {}), metadata["usage"])
            metadata["usage"] = {}
        if "outcome" in metadata and "outcome" in data:
            known: dict[str, Json] = metadata["outcome"]
            data["outcome"] = {k: v for k, v in data["outcome"].items() if known.get(k) != v}
            metadata["outcome"] = {}
        return {key: value for key, value in data.items() if metadata.get(key) != value}

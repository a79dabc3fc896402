"""What the inputs and results of model calls and tool calls have in common."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator
from typing_extensions import override

from crewlog.canonical_json import hash_json
from crewlog.ids import AgentName, ContentHash, RunId, StepId
from crewlog.model import Json, Model
from crewlog.state.agent_inputs import AgentInput
from crewlog.state.body_metadata import usage_with_metadata, usage_without_metadata
from crewlog.state.calls.view import View
from crewlog.state.journal import Batch
from crewlog.state.model import CallDelay


class CallInput(Model):
    """What the inputs of both kinds of calls say."""

    run: RunId = RunId("")
    """The run; left out in activities' inputs, since it is the workflow's id."""
    step: StepId
    call: int = 1
    """The call's number in the step; run, step and call are the idempotency key."""
    agent: AgentName = AgentName("")
    """The agent; left out in activities' inputs where the node has its name."""
    definition: ContentHash
    view: View = View()
    """The logs that the agent may read."""
    batch: Batch = Batch.EMPTY
    """What no finished activity has stored yet."""
    attempt: int = 1
    """Which try, counting those that people asked for. The idempotency key is the same for all."""
    position: int = 0
    """The journal position when it was scheduled, where the batch does not tell."""
    inputs: tuple[AgentInput, ...] = ()
    """What the agent asks for under `inputs`, as far as it is set and the agent may be given it."""

    @model_validator(mode="before")
    @classmethod
    def _with_step(cls, data: Any) -> Any:
        if isinstance(data, dict) and "step" not in data:
            given: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
            begun = _last_started_step(given.get("batch") or {})
            return {**given, "step": begun} if begun else given
        return data  # pyright: ignore[reportUnknownVariableType]

    @override
    def to_json(self) -> dict[str, Json]:
        """As JSON; without the step where the batch ends with its beginning, as it mostly does."""
        data = super().to_json()
        if _last_started_step(data.get("batch", {})) == self.step:
            del data["step"]
        return data

    @property
    def knows(self) -> int:
        """The position up to which the run had looked at what people ruled."""
        return self.position or (self.batch.last if self.batch.entries else 0)


def _last_started_step(batch: Any) -> str:
    """The step with whose beginning a batch ends, as JSON; empty where it ends otherwise."""
    match batch:
        case {"entries": [*_, {"kind": "StepStarted", "step": str(step)}]}:
            return step
        case _:
            return ""


class CallResult(Model):
    """A message that a call made. As JSON it leaves out what the body tells."""

    body: dict[str, Json]
    """The message, as `crewlog.state.messages` spells it."""
    hash: ContentHash
    """Its content hash."""
    stored: bool = True
    """Whether the store has the body; where it was away, the journal entry carries it inline."""
    journaled: bool = True
    """Whether the store has the input's batch."""
    at: int = 0
    """When the call ended, in milliseconds since the epoch; 0: the message was composed without a
    call."""
    delay: CallDelay | None = None
    """What it took before the attempt that answered; none where that is nothing to speak of."""

    @classmethod
    def _metadata(cls, body: dict[str, Json]) -> dict[str, Json]:
        raise NotImplementedError

    @model_validator(mode="before")
    @classmethod
    def _with_metadata(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("body"), dict):  # pyright: ignore[reportUnknownMemberType]
            given: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
            told: dict[str, Json] = {
                "hash": hash_json(given["body"]),
                **cls._metadata(given["body"]),
            }
            if isinstance(given.get("usage"), dict) and "usage" in told:
                given = {**given, "usage": usage_with_metadata(given["usage"], told["usage"])}
            return {**told, **given}
        return data  # pyright: ignore[reportUnknownVariableType]

    @override
    def to_json(self) -> dict[str, Json]:
        data = super().to_json()
        told: dict[str, Json] = {"hash": self.hash, **self._metadata(self.body)}
        if "usage" in told:
            data["usage"] = usage_without_metadata(data.get("usage", {}), told["usage"])
            told["usage"] = {}
        return {key: value for key, value in data.items() if told.get(key) != value}

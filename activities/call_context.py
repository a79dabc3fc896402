"""The context of a model call: the transcript of its agent, or its window, and the inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage

from crewlog.activities.inputs import Inputs, input_message
from crewlog.activities.summaries import Summaries, Summary, build_extract, build_summary_message
from crewlog.activities.transcripts import with_message_before_turn
from crewlog.activities.view_reader import ViewReader
from crewlog.activities.windows import SummarizedPrefix
from crewlog.definition.context import Window
from crewlog.definition.context_checks import summary_settings, window_of
from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.definition.prices import SCRIPTED
from crewlog.model import Json
from crewlog.state.agent_inputs import WindowResult
from crewlog.state.calls import CallModel
from crewlog.usage import Usage

_NOTHING = Usage()


@dataclass(frozen=True)
class Context:
    """The context of a model call, and its cost."""

    transcript: list[BaseMessage]
    window: WindowResult | None = None
    """What a window left out; None: nothing."""
    usage: Usage = _NOTHING
    """The usage of the summaries that the call made."""
    preceding_texts: tuple[tuple[str, str], ...] = ()
    """The message before each message of the agent that was left out; see `TrimmedTranscript`."""


class CallTranscripts:
    """Makes the contexts of model calls.

    Args:
        view_reader: Reads transcripts.
        inputs: Reads inputs.
        summaries: Makes summaries.
    """

    def __init__(self, view_reader: ViewReader, inputs: Inputs, summaries: Summaries) -> None:
        self._view_reader = view_reader
        self._inputs = inputs
        self._summaries = summaries

    async def build(
        self, task: CallModel, crew: CrewDefinition, agent: AgentDefinition, model: str
    ) -> Context:
        """Returns the context of a call, without its item.

        Args:
            task: The call.
            crew: The crew, expanded.
            agent: The agent.
            model: Its model.

        Raises:
            LogAccessDenied: the view has a log that the agent may not read.
            StoreUnavailable: the store does not answer.
            StoreIncomplete: the store lacks a row.
        """
        context = await self.build_without_inputs(task, crew, agent, model)
        inputs = input_message(await self._inputs.values(task, agent), crew)
        if inputs is None:
            return context
        transcript = with_message_before_turn(
            context.transcript, inputs, task.step, task.view.former_steps
        )
        return replace(context, transcript=transcript)

    async def build_without_inputs(
        self, task: CallModel, crew: CrewDefinition, agent: AgentDefinition, model: str
    ) -> Context:
        """Returns the context without its inputs."""
        window = window_of(crew, agent)
        if window is None:
            return Context(await self._view_reader.read_transcript(task))
        trimmed = await self._view_reader.read_window(
            task, window, script=model.startswith(SCRIPTED)
        )
        if not trimmed.omitted_groups:
            return Context(trimmed.messages)
        summaries = await self._summarize(
            task,
            trimmed.prefixes,
            window,
            lambda summarizer: summary_settings(
                summarizer, agent, by_crew=agent.window is None, model_of_agent=model
            ),
        )
        messages = trimmed.messages
        texts = [(p.log, s.text) for p, s in zip(trimmed.prefixes, summaries, strict=True)]
        if texts or trimmed.gap:
            summary = build_summary_message(texts, trimmed.gap, trimmed.unlisted_groups)
            messages = [summary, *messages]
        usage = sum((each.usage for each in summaries), _NOTHING)
        window_result = WindowResult(
            left_out=trimmed.omitted_groups,
            summarized=trimmed.summarized_groups,
            summaries=usage.calls,
            error=next((each.fault for each in summaries if each.fault), ""),
        )
        return Context(messages, window_result, usage, trimmed.preceding_texts)

    async def _summarize(
        self,
        task: CallModel,
        prefixes: tuple[SummarizedPrefix, ...],
        window: Window,
        settings: Callable[[str], dict[str, Json]],
    ) -> list[Summary]:
        """Returns the summaries of prefixes, in their order."""
        if (model := window.model) is None:
            return [Summary(build_extract(each)) for each in prefixes]
        model_settings = settings(model)
        calls = (self._summaries.summarize(task, each, model, model_settings) for each in prefixes)
        return list(await asyncio.gather(*calls))

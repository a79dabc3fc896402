"""The context of a model call: the transcript of its agent, or its window, and the inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage

from crewlog.activities.inputs import Inputs, input_message
from crewlog.activities.summaries import Summaries, Summary, extract, summed_up
from crewlog.activities.transcripts import with_message_before_turn
from crewlog.activities.view_reader import Sight
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
    earlier: tuple[tuple[str, str], ...] = ()
    """The message before each message of the agent that was left out; see `Cut`."""


class CallTranscripts:
    """Makes the contexts of model calls.

    Args:
        sight: Reads transcripts.
        inputs: Reads inputs.
        summaries: Makes summaries.
    """

    def __init__(self, sight: Sight, inputs: Inputs, summaries: Summaries) -> None:
        self._sight = sight
        self._inputs = inputs
        self._summaries = summaries

    async def of(
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
        found = await self.windowed(task, crew, agent, model)
        if (given := input_message(await self._inputs.values(task, agent), crew)) is None:
            return found
        shown = with_message_before_turn(found.transcript, given, task.step, task.view.former_steps)
        return replace(found, transcript=shown)

    async def windowed(
        self, task: CallModel, crew: CrewDefinition, agent: AgentDefinition, model: str
    ) -> Context:
        """Returns the context without its inputs."""
        window = window_of(crew, agent)
        if window is None:
            return Context(await self._sight.transcript(task))
        cut = await self._sight.windowed(task, window, script=model.startswith(SCRIPTED))
        if not cut.left_out:
            return Context(cut.shown)
        found = await self._texts(
            task,
            cut.covered,
            window,
            lambda summing: summary_settings(
                summing, agent, by_crew=agent.window is None, model_of_agent=model
            ),
        )
        texts = [(each.log, summary.text) for each, summary in zip(cut.covered, found, strict=True)]
        stands = [summed_up(texts, cut.gap, cut.untold)] if texts or cut.gap else []
        shown = [*stands, *cut.shown]
        used = sum((each.usage for each in found), _NOTHING)
        told = WindowResult(
            left_out=cut.left_out,
            summarized=cut.summed_up,
            summaries=used.calls,
            error=next((each.fault for each in found if each.fault), ""),
        )
        return Context(shown, told, used, cut.earlier)

    async def _texts(
        self,
        task: CallModel,
        covered: tuple[SummarizedPrefix, ...],
        window: Window,
        settings: Callable[[str], dict[str, Json]],
    ) -> list[Summary]:
        """Returns the summaries of the beginnings of logs, in their order."""
        if (model := window.model) is None:
            return [Summary(extract(each)) for each in covered]
        given = settings(model)
        made = (self._summaries.of(task, each, model, given) for each in covered)
        return list(await asyncio.gather(*made))

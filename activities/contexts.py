"""What a model is shown of its agent's transcript: all of it, or what a window leaves of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from langchain_core.messages import BaseMessage

from crewlog.activities.sight import Sight
from crewlog.activities.summaries import Summaries, Summary, block_of, extract, settings_of
from crewlog.activities.windows import Covered
from crewlog.definition.context import Window
from crewlog.definition.context_checks import window_of
from crewlog.definition.model import AgentDefinition, CrewDefinition
from crewlog.definition.prices import SCRIPTED
from crewlog.state.calls import CallModel
from crewlog.state.context import Windowed
from crewlog.state.model import Usage

_NOTHING = Usage()


@dataclass(frozen=True)
class Context:
    """What a model is shown, and what that took."""

    transcript: list[BaseMessage]
    window: Windowed | None = None
    """What a window left out; none where nothing."""
    usage: Usage = _NOTHING
    """Of the summaries that the call had made."""
    earlier: tuple[tuple[str, str], ...] = ()
    """What was said before each of the agent's replies that were left out; see `Cut`."""


class Contexts:
    """Puts together what models are shown.

    Args:
        sight: Reads for agents.
        summaries: Makes summaries.
    """

    def __init__(self, sight: Sight, summaries: Summaries) -> None:
        self._sight = sight
        self._summaries = summaries

    async def of(
        self, task: CallModel, crew: CrewDefinition, agent: AgentDefinition, model: str
    ) -> Context:
        """What a call's model is shown of the transcript.

        Args:
            task: The call.
            crew: The crew, written out.
            agent: The agent.
            model: Its model.

        Raises:
            LogRefused: the view has a log that the agent may not read.
            StoreUnavailable: where what is missing cannot be read now.
            StoreIncomplete: where what is missing is not in the store.
        """
        window = window_of(crew, agent)
        if window is None:
            return Context(await self._sight.transcript(task))
        cut = await self._sight.windowed(task, window, script=model.startswith(SCRIPTED))
        if not cut.left_out:
            return Context(cut.shown)
        found = await self._texts(task, cut.covered, window, agent)
        texts = [(each.log, summary.text) for each, summary in zip(cut.covered, found, strict=True)]
        shown = [block_of(texts, cut.gap), *cut.shown] if texts or cut.gap else cut.shown
        used = sum((each.usage for each in found), _NOTHING)
        told = Windowed(
            left_out=cut.left_out,
            summed_up=cut.summed_up,
            made=used.calls,
            fault=next((each.fault for each in found if each.fault), ""),
        )
        return Context(shown, told, used, cut.earlier)

    async def _texts(
        self,
        task: CallModel,
        covered: tuple[Covered, ...],
        window: Window,
        agent: AgentDefinition,
    ) -> list[Summary]:
        """What stands for the beginnings of logs, in their order."""
        if (model := window.model) is None:
            return [Summary(extract(each)) for each in covered]
        settings = settings_of(agent.model_settings)
        made = (self._summaries.of(task, each, model, settings) for each in covered)
        return list(await asyncio.gather(*made))

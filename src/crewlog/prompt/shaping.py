"""What a prompt says of a crew as a whole: that it talks with people, what each is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crewlog.definition.artifacts import ArtifactDefinition
from crewlog.definition.context import OFF, Window
from crewlog.definition.findings import Path, listed
from crewlog.definition.model import Conversation
from crewlog.definition.times import duration_words
from crewlog.prompt import ast
from crewlog.prompt.ast import Words

if TYPE_CHECKING:
    from crewlog.prompt.assemble import Assembly


class Shaping:
    """Takes these statements.

    Args:
        crew: The draft that they belong to.
    """

    def __init__(self, crew: Assembly) -> None:
        self._crew = crew
        self._conversations: list[ast.Conversation] = []
        self._windows: list[ast.Window] = []
        self._artifacts: dict[str, ast.Artifact] = {}

    def conversation(self, said: ast.Conversation) -> None:
        """`The crew talks with its users`."""
        idle = self._idle()
        if said.idle is not None and idle not in (None, said.idle):
            words = [w for each in (*self._conversations, said) for w in each.words]
            self._crew.contradiction("two things are said of when a conversation ends", words)
        self._conversations.append(said)

    def window(self, said: ast.Window) -> None:
        """`The router sees the last 5 messages`."""
        for agent in said.agents:
            self._crew.setting(agent, "window", _window(said), _window_words(said), said.words)
        if not said.agents:
            if self._windows and _window(self._windows[-1]) != _window(said):
                words = [*self._windows[-1].words, *said.words]
                self._crew.contradiction("two things are said of how much agents are shown", words)
            self._windows.append(said)

    def cap(self, said: ast.Cap) -> None:
        """`Discovery may call its model at most 8 times; then it goes on with what it has`."""
        for agent in said.agents or [*self._crew.members]:
            calls = f"{said.most} model calls a turn"
            self._crew.setting(agent, "max_calls", said.most, calls, said.words)
            if said.ends:
                self._crew.setting(agent, "on_cap", "end", "ends with what is there", said.words)

    def artifact(self, said: ast.Artifact) -> None:
        """`The builder and the configurator change the artifact workflow`."""
        for agent in said.writers:
            self._crew.member(agent, said.words)
        known = self._artifacts.get(said.name)
        if known is not None and {*known.writers} != {*said.writers}:
            say = f"two things are said of who changes the artifact {said.name!r}"
            self._crew.contradiction(say, (*known.words, *said.words))
        self._artifacts[said.name] = said

    def fields(self) -> dict[str, Any]:
        """What the definition has of it."""
        found: dict[str, Any] = {}
        if self._conversations:
            found["conversation"] = Conversation(idle=self._idle())
        if self._windows:
            found["window"] = _window(self._windows[-1])
        if self._artifacts:
            found["artifacts"] = {
                name: ArtifactDefinition(writers=said.writers)
                for name, said in self._artifacts.items()
            }
        return found

    def settings(self) -> Iterator[tuple[str, Path, tuple[Words, ...]]]:
        """What is said: in words, where in the definition, and by which words."""
        if self._conversations:
            idle = self._idle()
            text = "conversation" if idle is None else f"conversation, {duration_words(idle)} idle"
            words = tuple(w for each in self._conversations for w in each.words)
            yield text, ("conversation",), tuple(dict.fromkeys(words))
        for said in self._windows[-1:]:
            yield f"window: {_window_words(said)}", ("window",), said.words

        for name, artifact in self._artifacts.items():
            text = f"artifact {name}: changed by {listed(artifact.writers)}"
            yield text, ("artifacts", name), artifact.words

    def _idle(self) -> float | None:
        return next((c.idle for c in reversed(self._conversations) if c.idle is not None), None)


def _window(said: ast.Window) -> Window:
    return Window(last=said.last, summary=said.summary or OFF)


def _window_words(said: ast.Window) -> str:
    tail = ", and a summary" if said.summary else ""
    return f"the last {said.last} messages{tail}"

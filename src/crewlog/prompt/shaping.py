"""What a prompt says of a crew as a whole: that it talks with people, what each is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crewlog.definition.artifacts import ArtifactDefinition
from crewlog.definition.context import OFF, Input, Window
from crewlog.definition.decisions import reply_fields
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
        self._each: set[str] = set()
        """Stages of which only that is said what each of them is shown."""
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

    def shown(self, said: ast.Shown) -> None:
        """`The builder sees what discovery found and the artifact workflow, and nothing else`."""
        inputs = tuple(self._input(source) for source in said.sources)
        text = listed([each.from_ for each in inputs])
        for agent in said.agents:
            if agent in self._each and not said.each:
                self._crew.members[agent].fields.pop("inputs", None)
            self._crew.setting(agent, "inputs", inputs, text, said.words)
        if said.each:
            self._each.update(said.agents)
        self._crew.authority.sees(ast.Sees(agents=said.agents, hidden=True, words=said.words))

    def _input(self, source: str) -> Input:
        """A source as a definition has it: `discovery.found` where that agent sets such a field."""
        agent, dot, key = source.partition(".")
        if dot and key not in {"text", "instructions"}:
            member = self._crew.members.get(agent)
            reply = member.offered.reply if member and member.offered else None
            known = (*(member.outputs if member else ()), *(reply_fields(reply) if reply else ()))
            source = source if key in known else f"{agent}.text"
        return Input.model_validate({"from": source})

    def fields(self) -> dict[str, Any]:
        """What the definition has of it."""
        found: dict[str, Any] = {}
        if self._conversations:
            found["conversation"] = Conversation(idle=self._idle(), respond=self._respond())
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
            if order := self._respond():
                text += f", first {', then '.join(order)}"
            words = tuple(w for each in self._conversations for w in each.words)
            yield text, ("conversation",), tuple(dict.fromkeys(words))
        for said in self._windows[-1:]:
            yield f"window: {_window_words(said)}", ("window",), said.words

        for name, artifact in self._artifacts.items():
            text = f"artifact {name}: changed by {listed(artifact.writers)}"
            yield text, ("artifacts", name), artifact.words

    def _respond(self) -> tuple[str, ...]:
        """Whose answer counts first, as several sentences may say."""
        order: list[str] = []
        for said in self._conversations:
            known = [name for name in said.respond if name in order]
            if not known or order[-1] == known[0] == said.respond[0]:
                order += [name for name in said.respond if name not in order]
            elif known != sorted(known, key=order.index) or len(known) < len(said.respond):
                words = [w for each in self._conversations if each.respond for w in each.words]
                self._crew.contradiction("it is not clear whose answer counts first", words)
                break
        return tuple(order)

    def _idle(self) -> float | None:
        return next((c.idle for c in reversed(self._conversations) if c.idle is not None), None)


def _window(said: ast.Window) -> Window:
    return Window(last=said.last, summary=said.summary or OFF)


def _window_words(said: ast.Window) -> str:
    tail = ", and a summary" if said.summary else ""
    return f"the last {said.last} messages{tail}"

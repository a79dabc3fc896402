"""Conversations: a run that is done with its flow waits for the next message, and begins anew.

    message ──► ExchangeStarted ──► the flow, as ever ──► ExchangeEnded with an answer ──► waits
    message during a turn ──► MessageQueued: it waits for a turn of its own
    nothing for `idle`, or `ends_on` holds ──► RunCompleted

Whoever says something gets an answer: the final message of the first agent in `respond` that said
something in the turn; else that of the agent that spoke last, of those that write to more than
named agents; else the run's own apology. What fails a run fails only the turn here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crewlog.canonical_json import hash_json
from crewlog.definition.times import due_in
from crewlog.errors import CommandRejected, ConversationBusy
from crewlog.graph.run_context import RunContext, message_body
from crewlog.ids import PUBLIC, AgentName, CommandId, ContentHash, FlagName, RunId, named_readers
from crewlog.message_files import FileRef
from crewlog.model import Json
from crewlog.run_status import EndReason
from crewlog.state import journal as j
from crewlog.state.conversation import Conversation, QueuedMessage
from crewlog.state.model import Output
from crewlog.state.reducers import CONFLICTS

Enter = Callable[[], Awaitable[None]]
"""Reaches the nodes that a run begins with."""


class Exchanges:
    """The turns of a run.

    Args:
        run: The run.
        enter: Begins the flow.
    """

    def __init__(self, run: RunContext, enter: Enter) -> None:
        self._run = run
        self._enter_flow = enter

    @property
    def is_conversation(self) -> bool:
        """Whether the run is a conversation."""
        return self._run.plan.conversation is not None

    # -- messages ----------------------------------------------------------------------------

    async def receive(
        self, text: str, *, by: str, command: CommandId, files: tuple[FileRef, ...] = ()
    ) -> str:
        """Takes a message to everybody: it begins a turn, or waits for one; what becomes of it.

        Raises:
            ConversationBusy: as many messages wait as may.
        """
        run, state = self._run, self._run.state
        if state.status == "stopping":
            raise CommandRejected("the run is ending; nobody answers any more")
        rests = state.is_conversation_idle and not state.message_queue
        if rests and state.status == "running" and not state.is_draining:
            heard = run.say(
                text, by=by, to=PUBLIC, message_id=command, command=command, files=files
            )
            await self.begin(command, by, heard)
            return f"turn {run.state.exchanges}"
        self._check_queue_limit()
        body = message_body(text, by=by, message_id=command, files=files)
        ref = j.MessageRef(body=hash_json(body), logs=(PUBLIC,), inline=body)
        run.record(j.MessageQueued(ref=ref, by=by, command=command))
        return f"waits as number {len(run.state.message_queue)}"

    def _check_queue_limit(self) -> None:
        waiting = self._run.state.message_queue
        rules = self._run.plan.conversation
        if rules is None or len(waiting) < rules.queue:
            return
        raise ConversationBusy(
            f"{len(waiting)} messages wait for their turns, the most that may",
            remedy="Say it once an answer has come, or raise 'queue' of the conversation.",
        )

    async def begin(self, said: str, by: str, body: ContentHash | None) -> None:
        """Begins a turn, whose message stands in the transcript."""
        run = self._run
        keys = [key for key, how in run.plan.merge.items() if how != "last"]
        first = {FlagName(key): run.plan.flags.get(FlagName(key)) for key in keys if "." not in key}
        if CONFLICTS in run.state.flags:
            first[CONFLICTS] = run.plan.flags.get(CONFLICTS)
        outputs = tuple(key for key in keys if "." in key)
        turn = run.state.exchanges + 1
        run.record(
            j.ExchangeStarted(
                exchange=turn, message_command=said, by=by, body=body, outputs=outputs, flags=first
            )
        )
        await self._enter_flow()

    async def start_next(self) -> None:
        """Begins the turn of the message that has waited longest."""
        said: QueuedMessage = self._run.state.message_queue[0]
        ref = j.MessageRef(body=said.body, logs=said.logs)
        asks = self._run.is_shown_as_request(said.logs)
        self._run.record(j.MessageAdded(ref=ref, by=said.by, asks=asks))
        await self.begin(said.command, said.by, said.body)

    def requeue_message(self, undone: Conversation | None) -> None:
        """Has the message wait again, before all others, whose turn a rollback undid.

        Nobody has answered it yet: where it were let go, who said it would wait for ever. A turn
        that goes on from a checkpoint of its own has it still.

        Args:
            undone: The conversation before the rollback.
        """
        run, now = self._run, self._run.state.conversation
        if undone is None or undone.is_idle or undone.body is None:
            return
        goes_on = now is not None and not now.is_idle and now.message == undone.message
        if goes_on or not self.is_conversation:
            return
        ref = j.MessageRef(body=undone.body, logs=(PUBLIC,))
        run.record(j.MessageQueued(ref=ref, by=undone.by, requeued=undone.message))

    def wait_for_first_message(self) -> None:
        """Waits for a message, where the run was started with none."""
        self._run.record(j.ExchangeEnded(exchange=0, deadline=self._due()))

    # -- the end of a turn -------------------------------------------------------------------

    async def continue_idle(self, idle_is_over: bool) -> None:
        """Moves a conversation between two turns."""
        run, state = self._run, self._run.state
        if not self.is_conversation:  # a change made an ordinary run of it
            run.record(j.RunCompleted())
        elif state.message_queue:
            await self.start_next()
        elif idle_is_over:
            run.record(j.RunCompleted(exchanges=state.exchanges, end_reason="idle"))
        elif self._needs_idle_timer():
            run.record(j.IdleDeadlineSet(deadline=self._due()))

    def end(self, error: str = "", end_reason: EndReason = "") -> None:
        """Ends the turn with an answer; the conversation, where it says that it ends there."""
        run, state = self._run, self._run.state
        talk = state.conversation or Conversation(exchange=state.exchanges + 1)
        error = error or state.error
        found = self._answer(talk)
        agent, response = found or (None, None)
        apology: j.MessageRef | None = None
        if found is None:
            body = self._apology(talk)
            error = error or talk.warning
            apology = j.MessageRef(body=hash_json(body), logs=(PUBLIC,), inline=body)
        run.record(
            j.ExchangeEnded(
                exchange=talk.exchange,
                agent=agent,
                response=response,
                ref=apology,
                error=error,
                warning=state.warning,
                deadline=self._due(),
                end_reason=end_reason
                or state.limit_reached
                or ("failed" if apology else "completed"),
            )
        )
        rules = run.plan.conversation
        if rules is not None and any(run.holds(each) for each in rules.ends_on):
            run.record(j.RunCompleted(exchanges=run.state.exchanges, end_reason="completed"))

    def cancel(
        self, error: str, withdraw: Callable[..., None], end_reason: EndReason = "failed"
    ) -> None:
        """Ends the turn at once: what is under way is cancelled, and the run waits on."""
        for step in list(self._run.state.frontier):
            withdraw(step)
            self._run.record(j.StepCancelled(step=step))
        self.end(error, end_reason)

    def _answer(self, talk: Conversation) -> tuple[AgentName, ContentHash] | None:
        """Who answers, and the message; none where nobody said anything."""
        outputs = self._run.state.agent_outputs
        said = {
            agent: text
            for agent, found in outputs.items()
            if (text := found.get("text")) is not None
            and text.position > talk.start_position
            and text.value != ""  # it said nothing
        }
        rules = self._run.plan.conversation
        for name in rules.respond if rules is not None else ():
            if (text := said.get(AgentName(name))) is not None:
                return AgentName(name), _body(text)
        silent = self._branch_agents() | self._private()
        others = [name for name in said if name not in silent]
        if not others:
            return None
        speaker = max(others, key=lambda name: said[name].position)
        return speaker, _body(said[speaker])

    def _branch_agents(self) -> set[str]:
        """The agents that only say where the run goes: what they say is no answer."""
        nodes = self._run.plan.nodes.values()
        return {node.route.by.partition(".")[0] for node in nodes if node.route is not None}

    def _private(self) -> set[AgentName]:
        """The agents that write for nobody, or for named agents alone: not for who asks, either.

        Those that `respond` names do answer: their author said so.
        """
        agents = self._run.plan.agents.items()
        return {name for name, rules in agents if all(map(named_readers, rules.writes))}

    def _apology(self, talk: Conversation) -> dict[str, Json]:
        """What is answered where nobody said anything.

        Not why: every agent reads it, and an error may hold what only the one that failed may see.
        The fact of the turn's end has it, for people.
        """
        rules = self._run.plan.conversation
        text = rules.apology if rules is not None else ""
        return {
            "type": "ai",
            "content": text,
            "id": f"turn-{talk.exchange}-{self._run.state.position}",
        }

    # -- waiting -----------------------------------------------------------------------------

    def _due(self) -> int:
        rules = self._run.plan.conversation
        if rules is None or rules.idle is None:
            return 0
        return due_in(rules.idle, self._run.at)

    def _needs_idle_timer(self) -> bool:
        talk, rules = self._run.state.conversation, self._run.plan.conversation
        return (
            rules is not None and rules.idle is not None and talk is not None and not talk.deadline
        )


def missing_response_error(run: RunId) -> CommandRejected:
    """What is told who waits for an answer of a run that ends without one."""
    return CommandRejected(
        "the run ended before it answered",
        remedy=f"`crewlog show {run}` tells how; `crewlog chat {run}` takes it up again.",
        place=f"run {run!r}",
    )


def _body(text: Output) -> ContentHash:
    body = text.body or (text.elements[-1].body if text.elements else None)
    return body or ContentHash("")

"""Conversations: each message starts an exchange, in which the flow runs once.

    message ──► ExchangeStarted ──► the flow ──► ExchangeEnded with a response ──► idle
    message during an exchange ──► MessageQueued, until its own exchange
    no message for `idle`, or `ends_on` holds ──► RunCompleted

Every exchange has a response: the final message of the first agent in `respond` that has one;
else the latest final message of an agent that writes to more than named agents; else the crew's
apology. What fails a run fails only the exchange here.
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

EnterFlow = Callable[[], Awaitable[None]]
"""Reaches the entry points."""


class Exchanges:
    """The exchanges of a run.

    Args:
        run: The run.
        enter_flow: Starts the flow.
    """

    def __init__(self, run: RunContext, enter_flow: EnterFlow) -> None:
        self._run = run
        self._enter_flow = enter_flow

    @property
    def is_conversation(self) -> bool:
        """Whether the run is a conversation."""
        return self._run.plan.conversation is not None

    # -- messages ----------------------------------------------------------------------------

    async def receive(
        self, text: str, *, by: str, command: CommandId, files: tuple[FileRef, ...] = ()
    ) -> str:
        """Starts an exchange with a public message, or queues the message.

        Returns:
            The outcome of the command: `exchange 3`, or `waits as number 2`.

        Raises:
            ConversationBusy: the message queue is full.
        """
        run, state = self._run, self._run.state
        if state.status == "stopping":
            raise CommandRejected(
                "the run is stopping, and starts no exchange any more",
                remedy="Once it has stopped, reopen it: `crewlog chat` with its id.",
            )
        is_free = state.is_conversation_idle and not state.message_queue
        if is_free and state.status == "running" and not state.is_draining:
            message = run.say(
                text, by=by, to=PUBLIC, message_id=command, command=command, files=files
            )
            await self.begin(command, by, message)
            return f"exchange {run.state.exchanges}"
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
            remedy="Send it again after a response, or raise 'queue' of the conversation.",
        )

    async def begin(self, command: str, by: str, body: ContentHash | None) -> None:
        """Starts an exchange whose message is in the public log.

        Args:
            command: The command with the message, or `input`.
            by: The principal who sent it.
            body: The message.
        """
        run = self._run
        keys = [key for key, how in run.plan.merge.items() if how != "last"]
        flags = {FlagName(key): run.plan.flags.get(FlagName(key)) for key in keys if "." not in key}
        if CONFLICTS in run.state.flags:
            flags[CONFLICTS] = run.plan.flags.get(CONFLICTS)
        run.record(
            j.ExchangeStarted(
                exchange=run.state.exchanges + 1,
                message_command=command,
                by=by,
                body=body,
                outputs=tuple(key for key in keys if "." in key),
                flags=flags,
            )
        )
        await self._enter_flow()

    async def start_next(self) -> None:
        """Starts the exchange of the first message in the queue."""
        with self._run.journal.transaction:
            queued: QueuedMessage = self._run.state.message_queue[0]
            ref = j.MessageRef(body=queued.body, logs=queued.logs)
            asks = self._run.is_shown_as_request(queued.logs)
            self._run.record(j.MessageAdded(ref=ref, by=queued.by, asks=asks))
            await self.begin(queued.command, queued.by, queued.body)

    def requeue_message(self, before: Conversation | None) -> None:
        """Queues the message of an exchange that a rollback undid, before all others.

        The message has no response yet, and its client waits for one. An exchange that continues
        from one of its own checkpoints still has its message.

        Args:
            before: The conversation before the rollback.
        """
        run, now = self._run, self._run.state.conversation
        if before is None or before.is_idle or before.body is None:
            return
        continues = now is not None and not now.is_idle and now.message == before.message
        if continues or not self.is_conversation:
            return
        ref = j.MessageRef(body=before.body, logs=(PUBLIC,))
        run.record(j.MessageQueued(ref=ref, by=before.by, requeued=before.message))

    def wait_for_first_message(self) -> None:
        """Idles a run that was started without a message."""
        self._run.record(j.ExchangeEnded(exchange=0, deadline=self._idle_deadline()))

    # -- the end of an exchange --------------------------------------------------------------

    async def continue_idle(self, is_idle_time_over: bool) -> None:
        """Continues an idle conversation: with the next message, or to its end."""
        run, state = self._run, self._run.state
        if not self.is_conversation:  # a change removed `conversation`
            run.record(j.RunCompleted())
        elif state.message_queue:
            await self.start_next()
        elif is_idle_time_over:
            run.record(j.RunCompleted(exchanges=state.exchanges, end_reason="idle"))
        elif self._needs_idle_timer():
            run.record(j.IdleDeadlineSet(deadline=self._idle_deadline()))

    def end(self, error: str = "", end_reason: EndReason = "") -> None:
        """Ends the exchange with a response, and the conversation if `ends_on` holds."""
        with self._run.journal.transaction:
            run, state = self._run, self._run.state
            conversation = state.conversation or Conversation(exchange=state.exchanges + 1)
            error = error or state.error
            found = self._find_response(conversation)
            agent, response = found or (None, None)
            apology: j.MessageRef | None = None
            if found is None:
                body = self._apology(conversation)
                error = error or conversation.warning
                apology = j.MessageRef(body=hash_json(body), logs=(PUBLIC,), inline=body)
            run.record(
                j.ExchangeEnded(
                    exchange=conversation.exchange,
                    agent=agent,
                    response=response,
                    ref=apology,
                    error=error,
                    warning=state.warning,
                    deadline=self._idle_deadline(),
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
        """Ends the exchange at once and cancels its steps; the conversation continues."""
        with self._run.journal.transaction:
            for step in list(self._run.state.frontier):
                withdraw(step)
                self._run.record(j.StepCancelled(step=step))
            self.end(error, end_reason)

    def _find_response(self, conversation: Conversation) -> tuple[AgentName, ContentHash] | None:
        """The agent that responds and its message; none if no agent can."""
        outputs = self._run.state.agent_outputs
        texts = {
            agent: text
            for agent, values in outputs.items()
            if (text := values.get("text")) is not None
            and text.position > conversation.start_position
            and text.value != ""
        }
        rules = self._run.plan.conversation
        for name in rules.respond if rules is not None else ():
            if (text := texts.get(AgentName(name))) is not None:
                return AgentName(name), _body(text)
        excluded = self._branch_agents() | self._private_agents()
        candidates = [name for name in texts if name not in excluded]
        if not candidates:
            return None
        latest = max(candidates, key=lambda name: texts[name].position)
        return latest, _body(texts[latest])

    def _branch_agents(self) -> set[str]:
        """The agents whose output a branch reads: their final messages are no responses."""
        nodes = self._run.plan.nodes.values()
        return {node.route.by.partition(".")[0] for node in nodes if node.route is not None}

    def _private_agents(self) -> set[AgentName]:
        """The agents that write only to named agents, or to none: clients may not read them.

        Agents in `respond` respond all the same.
        """
        agents = self._run.plan.agents.items()
        return {name for name, rules in agents if all(map(named_readers, rules.writes))}

    def _apology(self, conversation: Conversation) -> dict[str, Json]:
        """The response of an exchange in which no agent responds.

        It has no reason: every agent reads it, and an error may hold what only one agent may see.
        `ExchangeEnded` has the reason.
        """
        rules = self._run.plan.conversation
        text = rules.apology if rules is not None else ""
        return {
            "type": "ai",
            "content": text,
            "id": f"turn-{conversation.exchange}-{self._run.state.position}",
        }

    # -- idle --------------------------------------------------------------------------------

    def _idle_deadline(self) -> int:
        rules = self._run.plan.conversation
        if rules is None or rules.idle is None:
            return 0
        return due_in(rules.idle, self._run.at)

    def _needs_idle_timer(self) -> bool:
        conversation, rules = self._run.state.conversation, self._run.plan.conversation
        has_timer = conversation is None or bool(conversation.deadline)
        return rules is not None and rules.idle is not None and not has_timer


def missing_response_error(run: RunId) -> CommandRejected:
    """The error for a client that waits for a response of a run that has ended."""
    return CommandRejected(
        "the run ended before it answered",
        remedy=f"`crewlog show {run}` tells why; `crewlog chat {run}` reopens it.",
        place=f"run {run!r}",
    )


def _body(text: Output) -> ContentHash:
    body = text.body or (text.elements[-1].body if text.elements else None)
    return body or ContentHash("")

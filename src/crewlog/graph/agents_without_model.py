"""Turns of agents without a model: the calls that their definition names, and what came of them.

The turn is the same as any other, in the same graph: where a model would be asked, the reply is
made here instead. It is a message that asks for the calls, so they are checked, approved, counted,
made and journaled as those of a model; and once all of them are done, one that says what came of
them. A call that fails, or is refused, fails the step, since nobody is there who could do
otherwise: people, or the agent's `on_error`, decide. Where they try again, only what failed is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from crewlog.authority.audiences import may_see_item
from crewlog.canonical_json import hash_json
from crewlog.content_blocks import words_of
from crewlog.definition.doing import reference
from crewlog.graph.plan import PlanAgent
from crewlog.graph.run_context import RunContext
from crewlog.ids import AgentName, StepId
from crewlog.model import Json
from crewlog.run_status import FoundError
from crewlog.state.calls import CallModelResult, CallToolResult
from crewlog.state.excerpt import excerpt, shortened
from crewlog.state.model import Call, FrontierStep, Item, ListedCallResult

LONGEST = 4_000
"""Characters of what one call said that the final message has: the state holds them meanwhile."""
LONGEST_ALL = 16_000
"""Of all calls of a turn together."""
_ID = "does-"

Replied = Callable[..., Awaitable[None]]
"""Applies a reply, as `Turns.apply_model_call`."""
Failed = Callable[[StepId, int | None, str, FoundError], Awaitable[None]]
"""Fails a step, as `Engine.fail_step`."""


class _ArgumentMissingError(Exception):
    """An argument has no value."""


class AgentsWithoutModel:
    """The turns of agents without a model.

    Args:
        run: The run.
        replied: Applies what is made here in the place of a model's reply.
        failed: Fails a step.
        item: The item that a step is for, as its agent may see it.
    """

    def __init__(
        self,
        run: RunContext,
        replied: Replied,
        failed: Failed,
        item: Callable[[StepId], Item | None],
    ) -> None:
        self._run = run
        self._replied = replied
        self._failed = failed
        self._item = item

    async def request_calls(self, step: StepId) -> None:
        """Makes the reply that a step waits for, where its agent asks no model."""
        entry = self._run.state.frontier.get(step)
        if entry is None or entry.status != "running" or entry.turn is None:
            return
        call = next((c for c in entry.turn.calls if c.tool is None and c.status == "ready"), None)
        agent = self._run.agent_of(step)
        if call is None or agent is None:
            return
        rules = self._run.rules_of(agent, step)
        if rules.does:
            await self._reply(entry, agent, rules, call)

    async def _reply(
        self, entry: FrontierStep, agent: AgentName, rules: PlanAgent, call: Call
    ) -> None:
        did = {each.id: each for each in entry.turn.results} if entry.turn else {}
        left = [n for n in range(len(rules.does)) if _id(n) not in did]
        failed = [each for each in did.values() if not each.ok]
        if failed and (rules.in_order or not left):
            error = "; ".join(f"{each.tool}: {excerpt(each.text, 500)}" for each in failed)
            await self._failed(entry.step, call.call, error, "CallFailed")
            return
        asks: list[Json] = []
        try:
            for n in left[:1] if rules.in_order else left:
                args = {k: self._value(v, entry, agent) for k, v in rules.does[n].args.items()}
                asks.append({"name": rules.does[n].tool, "args": args, "id": _id(n)})
        except _ArgumentMissingError as missing:
            await self._failed(entry.step, call.call, str(missing), "ArgumentMissing")
            return
        text = "" if asks else composed_text(tuple(did[_id(n)] for n in range(len(rules.does))))
        body: dict[str, Json] = {
            "type": "ai",
            "content": text,
            "name": agent,
            "id": f"{entry.step}/{call.call}",
        }
        if asks:
            body["tool_calls"] = [{**each, "type": "tool_call"} for each in asks]
        result = CallModelResult(body=body, hash=hash_json(body), stored=False)
        await self._replied(entry.step, call.call, result, composed=True)

    def _value(self, value: Json, entry: FrontierStep, agent: AgentName) -> Json:
        """An argument, with the values that it takes from elsewhere in their places."""
        said = reference(value)
        if said is not None:
            return self._taken(said, entry, agent)
        if isinstance(value, dict):
            pairs: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
            return {key: self._value(each, entry, agent) for key, each in pairs.items()}
        if isinstance(value, list):
            parts: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return [self._value(each, entry, agent) for each in parts]
        return value

    def _taken(self, said: str, entry: FrontierStep, agent: AgentName) -> Json:
        """What `{from: …}` stands for.

        Raises:
            _MissingError: where there is none, or it is kept outside of the state.
        """
        whose, _, key = said.partition(".")
        value: Any
        if whose == "item":
            found = self._item(entry.step)
            value = None if found is None else found.value
            for part in filter(None, key.split(".")):
                value = value.get(part) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            large = found is not None and found.value is None and not found.is_withheld
        else:
            output = self._run.state.agent_outputs.get(AgentName(whose), {}).get(key)
            reads = self._run.readable_logs(agent, entry.step)
            # A list of parts has their audiences: who passes it on must be in all of them.
            each = [part.logs for part in output.elements] if output and output.elements else []
            for logs in each or [output.logs if output else ()]:
                if not may_see_item(agent, logs, reads=reads, step=entry.step).allowed:
                    raise _ArgumentMissingError(
                        f"{agent} may not see {said}, which it is to pass on"
                    )
            value = None if output is None else output.value
            large = output is not None and bool(output.body or output.elements)
        if value is None:
            why = "is too large to be an argument" if large else "has no value"
            raise _ArgumentMissingError(f"{said} {why}, and {agent} is to call a tool with it")
        return value  # pyright: ignore[reportUnknownVariableType]


def _id(number: int) -> str:
    return f"{_ID}{number + 1}"


def completed_call(rules: PlanAgent, call: Call, text: str, *, ok: bool) -> ListedCallResult | None:
    """What is kept of a call's result for the final message; none where a model reads it."""
    if not rules.does:
        return None
    most = min(LONGEST, LONGEST_ALL // len(rules.does))
    return ListedCallResult(id=call.id, tool=call.tool or "", ok=ok, text=shortened(text, most))


def text_of(result: CallToolResult) -> str:
    """What a tool's result says, as text."""
    content: Json = result.body.get("content", "")
    return words_of(content, "\n")


def composed_text(found: tuple[ListedCallResult, ...]) -> str:
    """The final message of a turn: what each call said, in the order of the definition."""
    if len(found) == 1:
        return found[0].text
    return "\n\n".join(f"{each.tool}: {each.text}" for each in found)

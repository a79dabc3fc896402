"""Turns of agents without a model: they make the tool calls that their definition lists.

The turn runs in the same graph as any other. This module builds the AI messages that a model would
write: first one with the tool calls, so that these are checked, approved, counted and journaled as
usual, and after the last call a final message made of the results. A call that fails or is refused
fails the step: people or the agent's `on_error` decide. A retry repeats only the failed calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from crewlog.authority.audiences import may_see_item
from crewlog.canonical_json import hash_json
from crewlog.content_blocks import content_text
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
"""The most characters of one call's result in the final message; the state holds them."""
LONGEST_ALL = 16_000
"""The most characters of all results of a turn."""
_CALL_ID_PREFIX = "does-"

ApplyModelCall = Callable[..., Awaitable[None]]
"""As `Turns.apply_model_call`."""
FailStep = Callable[[StepId, int | None, str, FoundError], Awaitable[None]]
"""As `Engine.fail_step`."""


class _ArgumentMissingError(Exception):
    """An argument has no value."""


class AgentsWithoutModel:
    """The turns of agents without a model.

    Args:
        run: The run.
        apply_model_call: Applies an AI message that this class builds.
        fail_step: Fails a step.
        find_item: The item of a step, as its agent may see it.
    """

    def __init__(
        self,
        run: RunContext,
        apply_model_call: ApplyModelCall,
        fail_step: FailStep,
        find_item: Callable[[StepId], Item | None],
    ) -> None:
        self._run = run
        self._apply_model_call = apply_model_call
        self._fail_step = fail_step
        self._find_item = find_item

    async def request_calls(self, step: StepId) -> None:
        """Completes the model call that a step is ready for, if its agent has no model."""
        entry = self._run.state.frontier.get(step)
        if entry is None or entry.status != "running" or entry.turn is None:
            return
        call = next((c for c in entry.turn.calls if c.tool is None and c.status == "ready"), None)
        agent = self._run.agent_of(step)
        if call is None or agent is None:
            return
        rules = self._run.rules_of(agent, step)
        if rules.does:
            await self._complete_model_call(entry, agent, rules, call)

    async def _complete_model_call(
        self, entry: FrontierStep, agent: AgentName, rules: PlanAgent, call: Call
    ) -> None:
        results = {each.id: each for each in entry.turn.results} if entry.turn else {}
        remaining = [n for n in range(len(rules.does)) if _call_id(n) not in results]
        failures = [each for each in results.values() if not each.ok]
        if failures and (rules.in_order or not remaining):
            error = "; ".join(f"{each.tool}: {excerpt(each.text, 500)}" for each in failures)
            await self._fail_step(entry.step, call.call, error, "CallFailed")
            return
        tool_calls: list[dict[str, Json]] = []
        try:
            for n in remaining[:1] if rules.in_order else remaining:
                args = {k: self._argument(v, entry, agent) for k, v in rules.does[n].args.items()}
                tool_calls.append({"name": rules.does[n].tool, "args": args, "id": _call_id(n)})
        except _ArgumentMissingError as missing:
            await self._fail_step(entry.step, call.call, str(missing), "ArgumentMissing")
            return
        text = ""
        if not tool_calls:
            text = final_text([results[_call_id(n)] for n in range(len(rules.does))])
        body: dict[str, Json] = {
            "type": "ai",
            "content": text,
            "name": agent,
            "id": f"{entry.step}/{call.call}",
        }
        if tool_calls:
            body["tool_calls"] = [{**each, "type": "tool_call"} for each in tool_calls]
        result = CallModelResult(body=body, hash=hash_json(body), stored=False)
        await self._apply_model_call(entry.step, call.call, result, composed=True)

    def _argument(self, value: Json, entry: FrontierStep, agent: AgentName) -> Json:
        """An argument with its references resolved."""
        source = reference(value)
        if source is not None:
            return self._resolve_reference(source, entry, agent)
        if isinstance(value, dict):
            pairs: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
            return {key: self._argument(each, entry, agent) for key, each in pairs.items()}
        if isinstance(value, list):
            parts: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
            return [self._argument(each, entry, agent) for each in parts]
        return value

    def _resolve_reference(self, source: str, entry: FrontierStep, agent: AgentName) -> Json:
        """The value of `{from: SOURCE}`.

        Raises:
            _ArgumentMissingError: it has no value, the agent may not see it, or the state has only
                its hash.
        """
        owner, _, key = source.partition(".")
        value: Any
        if owner == "item":
            item = self._find_item(entry.step)
            value = None if item is None else item.value
            for part in filter(None, key.split(".")):
                value = value.get(part) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            is_large = item is not None and item.value is None and not item.is_withheld
        else:
            output = self._run.state.agent_outputs.get(AgentName(owner), {}).get(key)
            reads = self._run.readable_logs(agent, entry.step)
            # Each element of a list has its own audience: the agent must be in all of them.
            each = [part.logs for part in output.elements] if output and output.elements else []
            for logs in each or [output.logs if output else ()]:
                if not may_see_item(agent, logs, reads=reads, step=entry.step).allowed:
                    raise _ArgumentMissingError(
                        f"{agent} may not see {source}, an argument of its tool call"
                    )
            value = None if output is None else output.value
            is_large = output is not None and bool(output.body or output.elements)
        if value is None:
            why = "is too large to be an argument" if is_large else "has no value"
            raise _ArgumentMissingError(f"{source} {why}; {agent} needs it for a tool call")
        return value  # pyright: ignore[reportUnknownVariableType]


def _call_id(number: int) -> str:
    return f"{_CALL_ID_PREFIX}{number + 1}"


def listed_call_result(
    rules: PlanAgent, call: Call, text: str, *, ok: bool
) -> ListedCallResult | None:
    """A call's result for the final message; none if the agent has a model."""
    if not rules.does:
        return None
    most = min(LONGEST, LONGEST_ALL // len(rules.does))
    return ListedCallResult(id=call.id, tool=call.tool or "", ok=ok, text=shortened(text, most))


def tool_result_text(result: CallToolResult) -> str:
    """The text of a tool's result."""
    content: Json = result.body.get("content", "")
    return content_text(content, "\n")


def final_text(results: Sequence[ListedCallResult]) -> str:
    """The text of a turn's final message: the result of each call, in the definition's order."""
    if len(results) == 1:
        return results[0].text
    return "\n\n".join(f"{each.tool}: {each.text}" for each in results)

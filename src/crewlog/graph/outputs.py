"""Outputs of agents and of the run: what a step sets, and what a failed or skipped step resets.

A reducer combines a value with the one in the state when the call is applied, not when the call
completes: calls that are applied in between may set the same key.

A failed or skipped step resets the outputs of its agent to null, so that a value of an earlier
visit never satisfies a condition. Values stay that the visit itself or its child steps set before
it failed, and values with a reducer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from crewlog.canonical_json import canonical
from crewlog.definition.replies import CAPPED, RESPONSE
from crewlog.graph.plan import PlanAgent
from crewlog.graph.run_context import RunContext
from crewlog.ids import AgentName, FlagName, StepId, private_log
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import OutputValue
from crewlog.state.excerpt import excerpt
from crewlog.state.frontier import ERROR
from crewlog.state.model import FrontierStep, Output
from crewlog.state.reducers import MAX_BYTES, REFUSING_REDUCERS, conflict_reason, value_to_record

EXCERPT_LENGTH = 80
"""Characters of a value in a refused write."""


def is_kept_whole(run: RunContext, key: str, value: Json) -> bool:
    """Whether a large value must be whole in the state because a reducer combines it."""
    reducer = run.plan.merge.get(key, "last")
    return (
        reducer in REFUSING_REDUCERS and reducer != "agree" and len(canonical(value)) <= MAX_BYTES
    )


def record_write(
    run: RunContext, entry: j.RunOutputSet | j.OutputSet, step: StepId | None = None
) -> None:
    """Records a write of an output, combined by its reducer; or that the write is refused.

    Args:
        run: The run.
        entry: The write, with the value before the reducer.
        step: The step that writes.
    """
    if not entry.reducer:
        run.journal.record(entry)
        return
    key, by, there = _key_writer_and_value(run, entry)
    body = entry.body if isinstance(entry, j.OutputSet) else None
    if entry.value is None and body is None:
        return  # null is no value: it changes nothing, and no later value can conflict with it
    value = there.value if there is not None else None
    if why := _conflict_text(entry.reducer, there, entry.value, body):
        kept = excerpt(
            _text(value) if there is None or there.body is None else "a large value", EXCERPT_LENGTH
        )
        refused = excerpt(_text(entry.value) if body is None else "a large value", EXCERPT_LENGTH)
        run.record(
            j.WriteRefused(
                key=key,
                reducer=entry.reducer,
                step=step,
                by=by,
                kept=kept,
                refused=refused,
                because=why,
            )
        )
        return
    written = (
        entry.value if body is not None else value_to_record(entry.reducer, value, entry.value)
    )
    run.journal.record(entry.model_copy(update={"value": written}))


def output_entry(
    run: RunContext, step: StepId, agent: AgentName, output: OutputValue, *, stored: bool
) -> j.OutputSet:
    """The entry by which `record_write` records an output of an agent.

    Args:
        run: The run.
        step: The step that sets it.
        agent: The agent.
        output: The output.
        stored: Whether the store has its body already.
    """
    name = f"{agent}.{output.key}"
    value, body, content = output.value, output.body, output.content
    if body is not None and is_kept_whole(run, name, content):
        value, body = content, None
    return j.OutputSet(
        at=run.at,
        agent=agent,
        key=output.key,
        value=value,
        body=body,
        inline=None if stored or body is None else content,
        logs=run.output_audience(agent, step),
        **run.list_spec_fields(name, content, small=body is None),
        **run.reducer_fields(name, step),
    )


def set_flag(run: RunContext, flag: FlagName, value: Json, by: str) -> None:
    """Records a run output that an answer of people sets."""
    record_write(
        run, j.RunOutputSet(at=run.at, flag=flag, value=value, by=by, **run.reducer_fields(flag))
    )


def _key_writer_and_value(
    run: RunContext, entry: j.RunOutputSet | j.OutputSet
) -> tuple[str, str, Output | None]:
    """The key that an entry sets, who sets it, and the value in the state; none: it has none."""
    if isinstance(entry, j.RunOutputSet):
        value = run.state.flags.get(entry.flag)
        return entry.flag, entry.by, None if value is None else Output(value=value, position=0)
    found = run.state.agent_outputs.get(AgentName(entry.agent), {}).get(entry.key)
    if found is not None and found.value is None and not found.bodies:
        found = None
    return f"{entry.agent}.{entry.key}", entry.agent, found


def _conflict_text(reducer: str, there: Output | None, value: Json, body: str | None) -> str:
    """Why a value conflicts with the one in the state; empty where it does not."""
    if reducer == "agree":
        try:
            mine = body or canonical(value)
            same = there is None or (there.body or canonical(there.value)) == mine
        except (ValueError, RecursionError):
            return "the value cannot be stored as JSON"
        return "" if same else "the two are not the same"
    if body is not None or (there is not None and there.body is not None):
        return f"it has more than {MAX_BYTES:,} bytes of JSON, the most that a reducer combines"
    return conflict_reason(reducer, there.value if there is not None else None, value)


def _text(value: Json) -> str:
    try:
        return value if isinstance(value, str) else canonical(value).decode()
    except (ValueError, RecursionError):
        return "a value that is not JSON"


def start_position(run: RunContext, step: StepId) -> int:
    """The position at which the visit of a step started; 0 before that."""
    entry = run.state.frontier.get(step)
    parent = run.state.frontier.get(entry.parent_or_self) if entry is not None else None
    if parent is not None and parent.child_steps is not None:
        return parent.child_steps.position
    return entry.turn.start_position if entry is not None and entry.turn is not None else 0


def reset_outputs(run: RunContext, step: StepId, *, but: Collection[str] = frozenset()) -> None:
    """Resets the outputs that agents of a failed or skipped step set before it started.

    Args:
        run: The run.
        step: The step.
        but: Outputs that the caller sets.
    """
    entry = run.state.frontier.get(step)
    if entry is None:
        return
    is_waiting = entry.turn is None and entry.child_steps is None
    before = entry.reached if is_waiting else start_position(run, step)
    for agent in _agents(run, entry):
        if not _has_plan_agent(run, entry, agent):
            continue
        for key in _declared_outputs(run.plan.plan_agent_of(entry, agent)):
            if key not in but and run.plan.merge.get(f"{agent}.{key}", "last") == "last":
                _reset_output(run, step, agent, key, before)


def reset_error_output(run: RunContext, step: StepId) -> None:
    """Resets the output `error` of an earlier visit once a later one has another outcome."""
    agent = run.agent_of(step)
    if agent is not None:
        _reset_output(run, step, agent, ERROR, start_position(run, step))


def is_set(output: Output | None) -> bool:
    """Whether an output has a value, in the state or by its hash."""
    return output is not None and (output.value is not None or bool(output.bodies))


def _agents(run: RunContext, entry: FrontierStep) -> tuple[AgentName, ...]:
    """The agents of a step; of a parent step, those of all its child steps."""
    if entry.turn is None:
        named = entry.child_steps.agents if entry.child_steps is not None else ()
        return named or run.plan.node_of(entry).agents
    agent = run.agent_of(entry.step)
    return () if agent is None else (agent,)


def _declared_outputs(agent: PlanAgent) -> Iterator[str]:
    """The outputs that an agent declares, with those of its structured output and its limit."""
    structured = (*agent.reply.fields, RESPONSE) if agent.reply is not None else ()
    capped = (CAPPED,) if agent.on_cap == "end" else ()
    yield from dict.fromkeys((*agent.outputs, *structured, *capped))


def _has_plan_agent(run: RunContext, step: FrontierStep, agent: AgentName) -> bool:
    """Whether the plan still has the agent of a step; a change may have removed it."""
    return agent in run.plan.agents or run.plan.detached_step(step) is not None


def _reset_output(run: RunContext, step: StepId, agent: AgentName, key: str, before: int) -> None:
    output = run.state.agent_outputs.get(agent, {}).get(key)
    if output is None or not is_set(output) or output.position > before:
        return
    logs = (private_log(agent),) if key == ERROR else run.output_audience(agent, step)
    run.record(j.OutputSet(agent=agent, key=key, logs=logs))

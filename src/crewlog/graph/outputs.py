"""Records what a step sets of a flag or an output that several set: put together, or a conflict.

It is decided when the value is applied, and not when it came: a call that is held may be applied
after others that set the same.

What an agent said in an earlier visit, where a later one comes to nothing.

A step that fails and is gone on without, or that people pass over, says nothing of what its agent
is there to say. What an earlier visit set must not pass for it then, or a gate opens on tests that
were not run this time: it is set to null. What the visit itself set before it failed stays, what
its other items set among that, and so do values that `merge` puts together over many steps.
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
from crewlog.state.reducers import CONFLICTING, MOST, conflict, settled

SHOWN = 80
"""Characters of a value that a conflict tells of."""


def is_kept_whole(run: RunContext, key: str, value: Json) -> bool:
    """Whether a large value is put together with others in the state, and must be there whole."""
    how = run.plan.merge.get(key, "last")
    return how in CONFLICTING and how != "agree" and len(canonical(value)) <= MOST


def record_write(
    run: RunContext, fact: j.RunOutputSet | j.OutputSet, step: StepId | None = None
) -> None:
    """Records that a flag or an output is set, as `merge` says of it; or the conflict.

    Args:
        run: The run.
        fact: What is set, as it was given: its `how` says how it is merged.
        step: The step that sets it.
    """
    if not fact.reducer:
        run.ledger.record(fact)
        return
    key, by, there = _there(run, fact)
    body = fact.body if isinstance(fact, j.OutputSet) else None
    if fact.value is None and body is None:
        return  # null says nothing, and is nothing that others would have to fit
    value = there.value if there is not None else None
    why = _why(fact.reducer, there, fact.value, body)
    if why:
        kept = excerpt(
            _text(value) if there is None or there.body is None else "a large value", SHOWN
        )
        refused = excerpt(_text(fact.value) if body is None else "a large value", SHOWN)
        run.record(
            j.WriteRefused(
                key=key,
                reducer=fact.reducer,
                step=step,
                by=by,
                kept=kept,
                refused=refused,
                because=why,
            )
        )
        return
    given = fact.value if body is not None else settled(fact.reducer, value, fact.value)
    run.ledger.record(fact.model_copy(update={"value": given}))


def output_entry(
    run: RunContext, step: StepId, agent: AgentName, output: OutputValue, *, stored: bool
) -> j.OutputSet:
    """An output that an agent sets in a step, as a fact that `record_write` is to record.

    Args:
        run: The run.
        step: The step.
        agent: The agent.
        output: The output.
        stored: Whether the store has what is large of it.
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
    """Records that people set a flag by an answer."""
    record_write(
        run, j.RunOutputSet(at=run.at, flag=flag, value=value, by=by, **run.reducer_fields(flag))
    )


def _there(run: RunContext, fact: j.RunOutputSet | j.OutputSet) -> tuple[str, str, Output | None]:
    """The key that a fact sets, who sets it, and what is there."""
    if isinstance(fact, j.RunOutputSet):
        value = run.state.flags.get(fact.flag)
        return fact.flag, fact.by, None if value is None else Output(value=value, position=0)
    found = run.state.agent_outputs.get(AgentName(fact.agent), {}).get(fact.key)
    if found is not None and found.value is None and not found.bodies:
        found = None
    return f"{fact.agent}.{fact.key}", fact.agent, found


def _why(how: str, there: Output | None, value: Json, body: str | None) -> str:
    """Why a value does not fit what is there; empty where it does."""
    if how == "agree":
        try:
            mine = body or canonical(value)
            same = there is None or (there.body or canonical(there.value)) == mine
        except (ValueError, RecursionError):
            return "it is no value that can be kept"
        return "" if same else "the two are not the same"
    if body is not None or (there is not None and there.body is not None):
        return f"it has more than {MOST:,} bytes of JSON, which is the most that is put together"
    return conflict(how, there.value if there is not None else None, value)


def _text(value: Json) -> str:
    try:
        return value if isinstance(value, str) else canonical(value).decode()
    except (ValueError, RecursionError):
        return "what cannot be written down"


def start_position(run: RunContext, step: StepId) -> int:
    """The position at which the visit of a step began; 0 where it has not."""
    entry = run.state.frontier.get(step)
    parent = run.state.frontier.get(entry.parent_or_self) if entry is not None else None
    if parent is not None and parent.child_steps is not None:
        return parent.child_steps.position
    return entry.turn.start_position if entry is not None and entry.turn is not None else 0


def reset_outputs(run: RunContext, step: StepId, *, but: Collection[str] = frozenset()) -> None:
    """Sets to null what the agents of a step that comes to nothing said before it began.

    Args:
        run: The run.
        step: The step.
        but: Outputs that are set otherwise.
    """
    entry = run.state.frontier.get(step)
    if entry is None:
        return
    waits = entry.turn is None and entry.child_steps is None
    since = entry.reached if waits else start_position(run, step)
    for agent in _agents(run, entry):
        rules = run.plan.plan_agent_of(entry, agent) if _known(run, entry, agent) else None
        for key in _declared_outputs(rules) if rules is not None else ():
            if key not in but and run.plan.merge.get(f"{agent}.{key}", "last") == "last":
                _reset_output(run, step, agent, key, since)


def reset_error_output(run: RunContext, step: StepId) -> None:
    """Sets to null the error of an earlier visit, where a later one has another outcome."""
    agent = run.agent_of(step)
    if agent is not None:
        _reset_output(run, step, agent, ERROR, start_position(run, step))


def is_set(output: Output | None) -> bool:
    """Whether an output has a value, of whatever size."""
    return output is not None and (output.value is not None or bool(output.bodies))


def _agents(run: RunContext, entry: FrontierStep) -> tuple[AgentName, ...]:
    """The agents of a step; of a visit with a step for each item, all that take one."""
    if entry.turn is None:
        named = entry.child_steps.agents if entry.child_steps is not None else ()
        return named or run.plan.node_of(entry).agents
    agent = run.agent_of(entry.step)
    return () if agent is None else (agent,)


def _declared_outputs(rules: PlanAgent) -> Iterator[str]:
    """The outputs that an agent is there to set."""
    form = (*rules.reply.fields, RESPONSE) if rules.reply is not None else ()
    capped = (CAPPED,) if rules.on_cap == "end" else ()
    yield from dict.fromkeys((*rules.outputs, *form, *capped))


def _known(run: RunContext, step: FrontierStep, agent: AgentName) -> bool:
    """Whether the rules of an agent are there; a crew may have changed since its step began."""
    return agent in run.plan.agents or run.plan.detached_step(step) is not None


def _reset_output(run: RunContext, step: StepId, agent: AgentName, key: str, since: int) -> None:
    found = run.state.agent_outputs.get(agent, {}).get(key)
    if found is None or not is_set(found) or found.position > since:
        return
    logs = (private_log(agent),) if key == ERROR else run.output_audience(agent, step)
    run.record(j.OutputSet(agent=agent, key=key, logs=logs))

"""Models of the engine as models of the wire contract, and the reverse.

Clients only see the models of `crewlog.wire`. These functions copy field by field, so that a field
of the engine can be renamed without a change of the contract.
"""

from __future__ import annotations

from collections.abc import Mapping

from crewlog import wire
from crewlog.graph import interrupts
from crewlog.graph.swap.blocked_nodes import BlockedNode
from crewlog.graph.swap.report import StepRemap, SwapReport
from crewlog.model import Json
from crewlog.state.components import ComponentChange, Rename
from crewlog.state.initial_state import InitialMessage, InitialState
from crewlog.state.model import (
    CommandOutcome,
    CrewState,
    Interrupt,
    InterruptQuota,
    LogHead,
    Output,
    PromptState,
)


def initial_state(sent: wire.InitialState) -> InitialState:
    """The initial state of a start, for the engine."""
    return InitialState(
        messages=tuple(InitialMessage(body=each.body, log=each.log) for each in sent.messages),
        request=sent.request,
        values=sent.values,
        logs=sent.logs,
    )


def entry_view(position: int, data: dict[str, Json]) -> wire.EntryView:
    """A journal entry.

    Args:
        position: Its position.
        data: The entry as JSON, as `entry_to_json` makes it.
    """
    return wire.EntryView(
        position=position,
        kind=data["kind"],
        at=data.get("at", 0),
        transaction=data.get("transaction", position),
        data=data,
    )


def state_view(state: CrewState) -> wire.StateView:
    """The state of a run."""
    return wire.StateView(
        run=state.run,
        crew=state.crew,
        status=state.status,
        graph_version=state.graph_version,
        execution=state.execution,
        position=state.position,
        definition=state.definition,
        recipe=state.recipe,
        logs={log: _log_view(head) for log, head in state.messages.items()},
        outputs={
            agent: {key: _output_view(output) for key, output in outputs.items()}
            for agent, outputs in state.agent_outputs.items()
        },
        flags={str(name): value for name, value in state.flags.items()},
        shared=state.shared_context,
        private=state.private_context,
        coordination_rules=state.coordination_rules,
        tags=state.tags,
        commands={id_: _outcome_view(outcome) for id_, outcome in state.commands.items()},
        usage=state.usage,
        data=state.model_dump(mode="json"),
    )


def _log_view(log: LogHead) -> wire.LogView:
    return wire.LogView(head=log.head, length=log.length)


def _output_view(output: Output) -> wire.OutputView:
    return wire.OutputView(value=output.value, body=output.body, position=output.position)


def _outcome_view(outcome: CommandOutcome) -> wire.OutcomeView:
    return wire.OutcomeView(
        ok=outcome.ok,
        position=outcome.position,
        detail=outcome.detail,
        error_type=outcome.error_type,
        graph_version=outcome.graph_version,
        hash=outcome.hash,
    )


def interrupt_view(
    interrupt: Interrupt,
    prompt: PromptState | None = None,
    definition: Mapping[str, Json] | None = None,
) -> wire.InterruptView:
    """An interrupt in LangChain's human-in-the-loop shape.

    Args:
        interrupt: The interrupt.
        prompt: For the approval of a compiled definition: the prompt.
        definition: For the approval of a compiled definition: the definition.
    """
    request, review = interrupts.langchain_interrupt(interrupt, prompt, definition)
    return wire.InterruptView(
        id=interrupt.id,
        kind=interrupt.kind,
        step=interrupt.step,
        question=interrupt.question,
        detail=interrupt.detail,
        options=interrupt.options,
        takes_text=interrupt.takes_text,
        text_option=interrupt.text_option,
        hash=interrupt.hash or "",
        to=interrupt.to,
        deadline=interrupt.deadline,
        escalated=interrupt.escalated,
        reason=interrupt.reason,
        rule=interrupt.rule,
        risk=interrupt.risk,
        quotas=tuple(map(interrupt_quota_view, interrupt.quotas)),
        shows=interrupt.shows,
        limit_reached=interrupt.limit_reached,
        **interrupts.argument_source_fields(interrupt),
        has_excerpts=interrupts.has_shortened_arguments(interrupt),
        action_requests=(request,),
        review_configs=(review,),
    )


def interrupt_quota_view(quota: InterruptQuota) -> wire.QuotaView:
    """A quota in which the call of an interrupt is counted."""
    return wire.QuotaView(name=quota.name, quota=quota.quota, zone=quota.zone, rule=quota.rule)


def change_report(report: SwapReport) -> wire.ChangeReport:
    """What a change does to a run."""
    return wire.ChangeReport(
        graph_version=report.graph_version,
        swap=report.swap,
        added=report.added,
        removed=report.removed,
        kept=report.kept,
        changed=report.changed,
        steps=tuple(map(_step_change, report.steps)),
        blocked=tuple(map(_blocked_node_view, report.blocked)),
        withdrawn=report.withdrawn,
        notes=report.notes,
        warnings=report.warnings,
        component_change=component_change_view(report.component_change)
        if report.component_change is not None
        else None,
        at_once=report.at_once,
    )


def _step_change(remap: StepRemap) -> wire.StepChange:
    return wire.StepChange(
        step=remap.step,
        node=remap.node,
        effect=remap.effect,
        progress=remap.progress,
        because=remap.because,
    )


def _blocked_node_view(node: BlockedNode) -> wire.BlockedNodeView:
    return wire.BlockedNodeView(
        node=node.node, requirement=node.requirement, because=node.because, then=node.then
    )


def component_change_view(change: ComponentChange) -> wire.ComponentChangeView:
    """What an operation does to components."""
    return wire.ComponentChangeView(
        kind=change.kind,
        old_graph_ids=change.old_graph_ids,
        new_graph_ids=change.new_graph_ids,
        affected_creatures=change.affected_creatures,
        renames=tuple(map(rename_view, change.renamed)),
    )


def rename_view(rename: Rename) -> wire.RenameView:
    """A new name in a surviving run."""
    return wire.RenameView(kind=rename.kind, run=rename.run, was=rename.was, now=rename.now)


def rename_of(view: wire.RenameView) -> Rename:
    """The new name in a surviving run that a result has, for the engine."""
    return Rename(kind=view.kind, run=view.run, was=view.was, now=view.now)

"""How entries of a prompt change the state."""

from __future__ import annotations

from typing import Any

from crewlog.state import journal as j
from crewlog.state.fold.handlers import Changes, handles, with_item
from crewlog.state.model import CrewState, PromptState
from crewlog.usage import Usage


@handles(j.PromptReceived)
def _fold_prompt_received(_state: CrewState, entry: j.PromptReceived, _position: int) -> Changes:
    prompt = PromptState(text=entry.prompt, registry=entry.registry)
    return {"started_at": entry.at, "prompt": prompt}


def _with_prompt(state: CrewState, **changes: Any) -> Changes:
    return {} if state.prompt is None else {"prompt": state.prompt.model_copy(update=changes)}


@handles(j.PromptRead)
def _fold_prompt_read(state: CrewState, entry: j.PromptRead, _position: int) -> Changes:
    usage = state.usage.get(entry.agent, Usage()) + entry.usage
    return {
        "usage": with_item(state.usage, entry.agent, usage),
        **_with_prompt(state, rounds=entry.round),
    }


@handles(j.PromptCompiled)
def _fold_prompt_compiled(state: CrewState, entry: j.PromptCompiled, _position: int) -> Changes:
    return _with_prompt(
        state,
        reader=entry.reader,
        definition=entry.definition,
        diagnostics=entry.diagnostics,
        requirements=entry.requirements,
    )


@handles(j.PromptCompileFailed)
def _fold_prompt_compile_failed(
    state: CrewState, entry: j.PromptCompileFailed, _position: int
) -> Changes:
    return _with_prompt(state, reader=entry.reader, diagnostics=entry.diagnostics)


@handles(j.DefinitionEdited)
def _fold_definition_edited(state: CrewState, entry: j.DefinitionEdited, _position: int) -> Changes:
    # The diagnostics of the prompt's own definition do not apply to another one.
    return _with_prompt(
        state, definition=entry.definition, edited=True, diagnostics=(), requirements=()
    )


@handles(j.DefinitionApproved)
def _fold_definition_approved(
    state: CrewState, entry: j.DefinitionApproved, _position: int
) -> Changes:
    return _with_prompt(state, approved=entry.definition)

"""What people did to a run by hand, in words: the same in the timeline and in the trace."""

from __future__ import annotations

import json

from crewlog.cli.screen import plain
from crewlog.definition.findings import listed
from crewlog.state import journal as j
from crewlog.state.edits import FLAGS, path_parts
from crewlog.state.live_permissions import permission_description


def edits_in_words(entry: j.StateEdited) -> str:
    """`approved = true, outputs.a.score is taken away`; a flag is called by its name."""
    return ", ".join(_edit(edit) for edit in entry.edits)


def _edit(edit: j.Edit) -> str:
    kind, _, name = path_parts(edit.path)
    path = name if kind == FLAGS else edit.path
    if edit.delete:
        return f"{path} is taken away"
    value = edit.inline if edit.body is not None else edit.value
    text = plain(json.dumps(value, ensure_ascii=False))
    return f"{path} = {text if len(text) <= 60 else text[:59] + '…'}"


def redirect_in_words(entry: j.StepRedirected) -> str:
    """`goes to d instead of what follows`."""
    return f"{'is cut off: ' if entry.cut else ''}goes to {entry.node} instead of what follows"


def permission_in_words(entry: j.ToolPermissionSet) -> str:
    """`a and b may call act`."""
    if entry.agents is None:
        return f"every agent that has {entry.tool} may call it"
    return f"{listed(entry.agents) if entry.agents else 'nobody'} may call {entry.tool}"


def ruling_in_words(entry: j.AgentPermissionSet) -> str:
    """`people are asked before a calls act`."""
    return permission_description(entry.tool, entry.agent, entry.do)

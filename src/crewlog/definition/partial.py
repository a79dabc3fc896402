"""What is wrong with the meaning of data whose shape is wrong in places.

What has no shape is left out, and the rest is checked; of that only what holds whatever is written
there in the end is told. So who misspells a limit is told of an unknown agent in the same run, and
nobody is told of a fault that is only the absence of what they wrote.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from crewlog.definition.findings import Finding, Path
from crewlog.definition.shape import Form, shaped
from crewlog.model import Json, Model

_M = TypeVar("_M", bound=Model)
_STAND_INS: dict[str, Json] = {"crew": "crew", "prompt": "…", "run": "module:function"}
"""What stands for a key without which the rest cannot be read."""
_ALONE = {"crew", "registry", "description", "model", "approval", "limits", "checkpoints", "memory"}
"""Keys whose absence makes no fault of what stands elsewhere."""
_CONDITIONS = {"if", "when", "only_if", "for_each", "route"}
_SETS = ("writes_flags", "outputs")


def what_holds(data: Json, faults: Sequence[Finding], form: Form[_M]) -> list[Finding] | None:
    """What is wrong besides faults of shape; none where the rest cannot be read either.

    Args:
        data: What is written.
        faults: What is wrong with its shape.
        form: What it is to be.
    """
    if any(len(each.path) == 1 and each.path[0] not in _ALONE for each in faults):
        return None  # a section that is missing, or called otherwise
    rest = copy.deepcopy(data)
    for fault in sorted(faults, key=lambda each: _from_the_end(each.path)):
        if not fault.path or not _left_out(rest, fault.path):
            return None
    found = shaped(rest, form)
    if isinstance(found, list):
        return None
    return [each for each in form.check(found) if _stands(each, faults)]


def _from_the_end(path: Path) -> tuple[tuple[int, str], ...]:
    """Items of a list are left out from its end, so that the others keep their places."""
    return tuple((-part, "") if isinstance(part, int) else (0, part) for part in path)


def _left_out(data: Any, path: Path) -> bool:
    """Leaves out a part; whether it could be."""
    *owners, key = path
    if "flow" in path and isinstance(key, int):
        return False  # what an item is tells what follows it, and what it is called
    part: Any = data
    for each in owners:
        try:
            part = part[each]
        except (KeyError, IndexError, TypeError):
            return False
    if isinstance(part, dict) and key in _STAND_INS and (not owners or len(owners) == 2):
        part[key] = _STAND_INS[key]  # pyright: ignore[reportUnknownMemberType]
        return True
    try:
        del part[key]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _stands(found: Finding, faults: Sequence[Finding]) -> bool:
    """Whether a finding would be there, too, if what was left out were written rightly."""
    if found.path[-1:] == ("model",) and any("model" in each.path for each in faults):
        return False
    for fault in faults:
        place, section = fault.path, fault.path[0]
        if found.path[: len(place)] == place or place[: len(found.path)] == found.path:
            return False
        if section == "rules" and _contradicts(found, place):
            return False
        if section == "flow" and not _of_a_name(found):
            return False
        if section in {"agents", "flags"} and _may_set(fault) and found.path[-1] in _CONDITIONS:
            return False
        if section in {"tools", "permissions", "agents"} and found.severity == "warning":
            return False
        if len(place) == 2 and _names(found, str(place[1])):  # of an agent or tool as a whole
            return False
    return True


def _of_a_name(found: Finding) -> bool:
    """Whether it is about a name that is not defined, wherever it stands in the flow."""
    if found.path[0] == "flow":
        return found.path[-1] == "agent" or "needs" in found.path
    return len(found.path) > 2


def _contradicts(found: Finding, place: Path) -> bool:
    """Whether it says that a rule, which is not whole, contradicts something else."""
    return len(found.path) == 2 and len(place) > 1 and f"rules[{place[1]}]" in found.message


def _may_set(fault: Finding) -> bool:
    """Whether it is about what agents set."""
    return len(fault.path) < 3 or any(key in fault.path or key in fault.remedy for key in _SETS)


def _names(found: Finding, name: str) -> bool:
    return repr(name) in found.message

"""When a run asks people, where a prompt changes a crew: the stricter of both, or a fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crewlog.definition.model import Expiry, InterruptPolicy


def asked(base: InterruptPolicy, fresh: InterruptPolicy) -> InterruptPolicy:
    """What both say of questions, where neither says otherwise than the other.

    Args:
        base: What the crew has.
        fresh: What the prompt says.
    """
    update: dict[str, Any] = {}
    if fresh.people:
        update["people"] = fresh.people
    valid = [each for each in (base.valid, fresh.valid) if each is not None]
    if valid:
        update["valid"] = min(valid)
    risks = {base.approve_risk, fresh.approve_risk}
    update["approve_risk"] = next((risk for risk in ("low", "high") if risk in risks), None)
    if base.expires is None and fresh.expires is not None:
        update |= {key: getattr(fresh, key) for key in Expiry.model_fields}
    update["kinds"] = {**fresh.kinds, **base.kinds}
    changed = {key: value for key, value in update.items() if value != getattr(base, key)}
    return base.model_copy(update=changed)


def not_asked(base: InterruptPolicy, fresh: InterruptPolicy) -> Iterator[tuple[str, str]]:
    """What the crew says of questions, and the prompt otherwise: the field, and what it is."""
    if base.people and not set(fresh.people) <= set(base.people):
        yield "people", "who may answer"
    if base.expires is not None and fresh.expires is not None and _late(base) != _late(fresh):
        yield "expires", "what happens where nobody answers"
    for kind, late in fresh.kinds.items():
        known = base.kinds.get(kind) or (base if base.expires is not None else None)
        if known is not None and _late(known) != _late(late):
            yield "kinds", f"what happens where nobody answers ({kind})"
    for late in (fresh, *fresh.kinds.values()):
        if base.people and late.escalate_to is not None and late.escalate_to not in base.people:
            yield "people", "who may answer"


def _late(expiry: Expiry) -> tuple[object, ...]:
    return (expiry.expires, expiry.default, expiry.escalate_to)

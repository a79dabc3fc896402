"""What rollback, fork, split, run merge and diff do with a field of `CrewState`.

Each field of the state carries its policy as metadata:

    usage: Annotated[
        dict[AgentName, Usage],
        FieldPolicy(
            rollback="kept",
            fork="reset",
            split="copied",
            merge="transferred",
            diff=("usage",),
        ),
    ]

So a new field states its policy where it is declared, and nothing else lists the fields. The names
of the fields with a policy are read once, when a module is imported: no entry pays for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from crewlog.model import Model

Operation = Literal["rollback", "fork", "split"]
"""The operations that make a state of another one, and record it in their entry."""
IN_ENTRY = ("restored", "copied", "computed")
"""The policies of the fields whose values the entry records."""
Section = Literal[
    "run",
    "graph",
    "flags",
    "outputs",
    "shared",
    "private",
    "frontier",
    "detached_steps",
    "done",
    "visits",
    "loops",
    "messages",
    "permissions",
    "live_permissions",
    "quotas",
    "interrupts",
    "breaks",
    "tags",
    "usage",
]
"""A section of a state's diff."""


@dataclass(frozen=True, kw_only=True)
class FieldPolicy:
    """What the operations on a whole state do with one field."""

    rollback: Literal["restored", "computed", "kept", "entry"]
    """`restored`: the value at the checkpoint. `computed`: made of that and the present value.
    `kept`: the present value. `entry`: what the handler of the entry makes of the present value. A
    reopen does the same; its handler also sets `execution` and `commands`."""
    fork: Literal["copied", "computed", "reset", "entry", "start"]
    """`copied`: the source run's value at the checkpoint. `computed`: made of it. `reset`: the
    default. `entry`: what follows from the entry. `start`: what the new journal starts with."""
    split: Literal["copied", "computed", "reset", "entry", "start"]
    """The same for the first state of a run that a split makes."""
    merge: Literal["transferred", "dropped"]
    """Whether the surviving run reads the merged run's value; else its own value holds alone."""
    diff: tuple[Section, ...] = ()
    """The sections of a state's diff that show the field."""


def field_policies(model: type[Model]) -> dict[str, FieldPolicy]:
    """The policies of a model's fields, by field.

    Raises:
        TypeError: a field does not have exactly one policy.
    """
    found: dict[str, FieldPolicy] = {}
    for name, field in model.model_fields.items():
        policies = [each for each in field.metadata if isinstance(each, FieldPolicy)]
        if len(policies) != 1:
            raise TypeError(
                f"{model.__name__}.{name} has {len(policies)} field policies: annotate it with one "
                "`FieldPolicy`"
            )
        found[name] = policies[0]
    return found


def fields_where(model: type[Model], matches: Callable[[FieldPolicy], bool]) -> frozenset[str]:
    """The fields of a model whose policy matches."""
    return frozenset(name for name, policy in field_policies(model).items() if matches(policy))

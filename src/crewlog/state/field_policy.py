"""What rollback, fork, split, run merge and diff do with a field of `CrewState`.

Each field of the state carries its policy as metadata:

    usage: Annotated[
        dict[AgentName, Usage],
        FieldPolicy(
            rollback="never restored",
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


@dataclass(frozen=True, kw_only=True)
class FieldPolicy:
    """What the operations on a whole state do with one field."""

    rollback: Literal["restored", "kept", "never restored", "computed"]
    """`restored`: the value at the checkpoint. `kept`: the value that the run has now; a fork may
    still read the checkpoint's. `never restored`: the value that the run has now, also in a fork
    and after a reopen, whose entries do not record it. `computed`: made of both."""
    fork: Literal["copied", "reset", "computed"]
    """`copied`: the source run's value at the checkpoint. `reset`: the default. `computed`: made
    of the source run's value."""
    split: Literal["copied", "reset", "computed"]
    """The same for the first state of a run that a split makes."""
    merge: Literal["transferred", "dropped"]
    """Whether the surviving run reads the merged run's value; else its own value holds alone."""
    diff: tuple[str, ...] = ()
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

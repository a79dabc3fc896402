"""Rejects options that have no effect together with the other arguments of a command."""

from __future__ import annotations

from collections.abc import Mapping

from crewlog.errors import UsageError


def check_ineffective_options(
    command: str, options: Mapping[str, object], reason: str, remedy: str
) -> None:
    """Checks that no option without effect is set.

    Args:
        command: The command.
        options: The values of options without effect; an empty value, None or False is not set.
        reason: Why they have no effect, as a clause: `a registered crew has its models`.
        remedy: What to do instead, as a sentence.

    Raises:
        UsageError: one is set.
    """
    names = [option for option, value in options.items() if value]
    if names:
        verb = "has" if len(names) == 1 else "have"
        message = f"{' and '.join(names)} {verb} no effect: {reason}"
        raise UsageError(message, remedy=remedy, place=command)

"""What is in a group of errors, as tasks that run side by side fail.

A group says of itself only how many errors it holds. So whoever tells or judges an error asks here
for its causes: they are told, and they decide what follows.
"""

from __future__ import annotations

from collections.abc import Callable


def causes_of(exc: BaseException) -> list[BaseException]:
    """The errors in a group, in order, of groups in it as well; of any other error, itself."""
    if not isinstance(exc, BaseExceptionGroup):
        return [exc]
    group: BaseExceptionGroup[BaseException] = exc  # pyright: ignore[reportUnknownVariableType]
    return [cause for each in group.exceptions for cause in causes_of(each)]


def told_causes(exc: BaseException, told: Callable[[BaseException], str]) -> str:
    """The causes of an error for people or a model, each once.

    Args:
        exc: The error.
        told: What is said of one cause.
    """
    said = list(dict.fromkeys(map(told, causes_of(exc))))
    return said[0] if len(said) == 1 else f"{len(said)} errors: {'; '.join(said)}"


def in_words(exc: BaseException) -> str:
    """An error's causes by type and message."""
    return told_causes(exc, _named)


def _named(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__

"""What is in a group of errors, as tasks that run side by side fail.

A group says of itself only how many errors it holds. So whoever tells or judges an error asks here
for its causes: they are told, and they decide what follows.
"""

from __future__ import annotations

from collections.abc import Callable


def flat_errors(exc: BaseException) -> list[BaseException]:
    """The errors in a group, in order, of groups in it as well; of any other error, itself."""
    if not isinstance(exc, BaseExceptionGroup):
        return [exc]
    group: BaseExceptionGroup[BaseException] = exc  # pyright: ignore[reportUnknownVariableType]
    return [cause for each in group.exceptions for cause in flat_errors(each)]


def joined_error_text(exc: BaseException, told: Callable[[BaseException], str]) -> str:
    """The causes of an error for people or a model, each once.

    Args:
        exc: The error.
        told: What is said of one cause.
    """
    said = list(dict.fromkeys(map(told, flat_errors(exc))))
    return said[0] if len(said) == 1 else f"{len(said)} errors: {'; '.join(said)}"


def in_words(exc: BaseException) -> str:
    """An error's causes by type and message."""
    return joined_error_text(exc, _named)


def _named(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__

"""How long a call waits before it is made again."""

from __future__ import annotations

JITTER = 0.5
"""The part of a delay by which chance may lengthen it: calls that were refused together do not come
back together."""


def retry_delay(
    attempts: int, *, first: float, backoff: float, longest: float, asked: float, chance: float
) -> float:
    """The seconds until the next attempt: the backoff, or longer where the service asks for more.

    Args:
        attempts: The attempts that failed.
        first: Seconds before the second attempt.
        backoff: What each further delay is multiplied by.
        longest: The longest delay that the backoff leads to.
        asked: Seconds that the service asks to wait; 0 where it does not say.
        chance: A random number from 0 to 1.
    """
    # The exponent is bounded: a float has no more.
    delay = max(asked, min(first * backoff ** min(attempts - 1, 300), longest))
    return delay * (1 + JITTER * chance)

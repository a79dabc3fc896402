"""Heads of logs: hashes that name a whole transcript. Content addresses are `crewlog.content`."""

from __future__ import annotations

from functools import lru_cache

from crewlog.content import hash_bytes
from crewlog.ids import ContentHash


def chain(previous: ContentHash, position: int, body: ContentHash) -> ContentHash:
    """The head of a log after one more message: `hash(previous head, journal position, body)`.

    So a head names a whole transcript, and two writers cannot extend one log differently without
    ending at different heads.
    """
    return hash_bytes(previous.encode(), position.to_bytes(8, "big"), body.encode())


def joined(one: ContentHash, two: ContentHash, position: int) -> ContentHash:
    """The head of a log that goes on from two heads: it names both transcripts, in this order.

    Where the first is empty, or both are the same, there is nothing to join: it is the second.
    """
    if not one or one == two:
        return two
    return hash_bytes(b"joined", one.encode(), two.encode(), position.to_bytes(8, "big"))


@lru_cache(maxsize=1024)
def empty_log_head(run: str, log: str) -> ContentHash:
    """The head of an empty log; it names the run, so that equal names never mix two runs."""
    return hash_bytes(b"log", _utf8(run), _utf8(log))


def _utf8(text: str) -> bytes:
    """A name as bytes, whatever a stranger put into it."""
    return text.encode("utf-8", "surrogatepass")

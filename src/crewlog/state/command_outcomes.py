"""What a state knows of the commands that a run has had, in few bytes however many there were.

commands        the outcomes of the newest ones, in full
older_commands  a Bloom filter of the ids of all others that had an outcome

An id that neither has is certainly new. One that the filter seems to have may be an older one: the
journal says, where its outcome stands. So whoever applies commands looks there first, and no run
pays for it before it has had more commands than it remembers.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping

from crewlog.ids import GROUP_COMMAND, RESERVED
from crewlog.state import journal as j
from crewlog.state.excerpt import brief
from crewlog.state.model import CommandOutcome

KEPT = 100
"""Outcomes that are kept in full, at most."""
KEPT_BYTES = 4 * 1024
"""Bytes of JSON that they take, at most: every execution carries them."""
DETAIL = 120
"""Characters of a refusal's reason that its outcome keeps; the journal has all of it."""
_FILTER_BYTES = 5 * 1024
"""The filter's size: 6,828 characters of text. With 1,000 ids it takes one new id in 10,000 for an
older one, with 5,000 one in 50, with 10,000 one in 7; then the journal is asked in vain."""
_BITS = 4
"""Bits that stand for an id."""
_OVERHEAD = len('"":{"ok":false,"position":1000000,"detail":"","digest":""},') - len(
    '["","","",""],'
)

Commands = dict[str, CommandOutcome]


def outcome_of(entry: j.JournalEntry, position: int) -> CommandOutcome:
    """The outcome of the command that a fact is of."""
    refused = entry if isinstance(entry, j.CommandRejected) else None
    return CommandOutcome(
        ok=refused is None,
        position=position,
        detail=brief(refused.reason, DETAIL) if refused else "",
        error_type=refused.error_type if refused else "",
        graph_version=entry.graph_version if isinstance(entry, j.ChangeAccepted) else 0,
        digest=entry.digest,
    )


def remember(
    commands: Mapping[str, CommandOutcome], older: str, command: str, outcome: CommandOutcome
) -> tuple[Commands, str]:
    """`commands` and `older_commands` of a state, after one more command.

    The run's own commands stay: what they did is looked at later, and there are few. Those of its
    agents are not few.
    """
    kept = {**commands, command: outcome}
    size = _size(kept)
    dropped: list[str] = []
    for each in [each for each in kept if not _stays(each) and each != command]:
        if len(kept) <= KEPT and size <= KEPT_BYTES:
            break
        size -= _size({each: kept.pop(each)})
        dropped.append(each)
    return kept, _with_ids(older, dropped) if dropped else older


def _stays(command: str) -> bool:
    return command.startswith(RESERVED) and not command.startswith(GROUP_COMMAND)


def may_be_older(older: str, command: str) -> bool:
    """Whether a command of this id may have had its outcome before those that are kept in full.

    Args:
        older: The state's `older_commands`.
        command: The id. False is certain.
    """
    if not older:
        return False
    bits = base64.b64decode(older)
    return all(bits[at // 8] >> at % 8 & 1 for at in _places(command))


def merged_filter(one: str, two: str) -> str:
    """The `older_commands` of two runs that are one: it knows the ids of both."""
    if not one or not two:
        return one or two
    first, second = base64.b64decode(one), base64.b64decode(two)
    bits = bytes(a | b for a, b in zip(first, second, strict=True))
    return base64.b64encode(bits).decode()


def _size(commands: Mapping[str, CommandOutcome]) -> int:
    """Bytes of JSON, about."""
    said = [(c, o.detail, o.error_type, o.digest) for c, o in commands.items()]
    return _OVERHEAD * len(said) + len(_utf8(json.dumps(said, ensure_ascii=False)))


def _with_ids(older: str, commands: list[str]) -> str:
    bits = bytearray(base64.b64decode(older) if older else _FILTER_BYTES)
    for command in commands:
        for at in _places(command):
            bits[at // 8] |= 1 << at % 8
    return base64.b64encode(bits).decode()


def _places(command: str) -> list[int]:
    digest = hashlib.sha256(_utf8(command)).digest()
    numbers = (digest[at : at + 4] for at in range(0, 4 * _BITS, 4))
    return [int.from_bytes(number, "big") % (8 * _FILTER_BYTES) for number in numbers]


def _utf8(text: str) -> bytes:
    """An id as bytes, whatever a stranger put into it."""
    return text.encode("utf-8", "surrogatepass")

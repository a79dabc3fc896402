"""The outcomes of a run's commands, in a bounded number of bytes.

    commands        the outcomes of the newest commands, in full
    older_commands  a Bloom filter of the ids of all older commands

An id in neither is certainly new. An id in the filter is probably an older command: the run then
searches its journal for the outcome before it applies the command. A run with few commands never
needs that search.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping

from crewlog.ids import GROUP_COMMAND, RESERVED
from crewlog.state import journal as j
from crewlog.state.excerpt import excerpt
from crewlog.state.model import CommandOutcome

OUTCOMES_KEPT = 100
"""The most outcomes that are kept in full."""
MAX_OUTCOMES_BYTES = 4 * 1024
"""The most bytes of JSON of these outcomes: continue-as-new carries them."""
DETAIL_LENGTH = 120
"""Characters of a rejection's reason that an outcome keeps; the journal has all of it."""
_FILTER_BYTES = 5 * 1024
"""The filter's size: 6,828 characters of text. Of false positives there is 1 in 10,000 new ids with
1,000 ids in it, 1 in 50 with 5,000, 1 in 7 with 10,000. Each costs a search of the journal."""
_BITS = 4
"""Bits of the filter for each id."""
_OVERHEAD = len('"":{"ok":false,"position":1000000,"detail":"","hash":""},') - len('["","","",""],')

Commands = dict[str, CommandOutcome]


def outcome_of(entry: j.JournalEntry, position: int) -> CommandOutcome:
    """The outcome of the command that caused an entry."""
    rejection = entry if isinstance(entry, j.CommandRejected) else None
    return CommandOutcome(
        ok=rejection is None,
        position=position,
        detail=excerpt(rejection.reason, DETAIL_LENGTH) if rejection else "",
        error_type=rejection.error_type if rejection else "",
        graph_version=entry.graph_version if isinstance(entry, j.ChangeAccepted) else 0,
        hash=entry.command_hash,
    )


def add_outcome(
    commands: Mapping[str, CommandOutcome], older: str, command: str, outcome: CommandOutcome
) -> tuple[Commands, str]:
    """The `commands` and `older_commands` of a state after one more command.

    The run's own commands are never dropped: there are few, and their outcomes are read later. The
    commands of its agents are dropped like those of people.
    """
    outcomes = {**commands, command: outcome}
    size = _size(outcomes)
    dropped: list[str] = []
    for each in [each for each in outcomes if not _is_kept(each) and each != command]:
        if len(outcomes) <= OUTCOMES_KEPT and size <= MAX_OUTCOMES_BYTES:
            break
        size -= _size({each: outcomes.pop(each)})
        dropped.append(each)
    return outcomes, _with_ids(older, dropped) if dropped else older


def _is_kept(command: str) -> bool:
    return command.startswith(RESERVED) and not command.startswith(GROUP_COMMAND)


def may_be_older(older: str, command: str) -> bool:
    """Whether a command may have an outcome that is no longer kept in full. False is certain.

    Args:
        older: The state's `older_commands`.
        command: The command's id.
    """
    if not older:
        return False
    bits = base64.b64decode(older)
    return all(bits[at // 8] >> at % 8 & 1 for at in _bit_numbers(command))


def merged_filter(one: str, two: str) -> str:
    """The `older_commands` of the surviving run of a run merge: the ids of both runs."""
    if not one or not two:
        return one or two
    first, second = base64.b64decode(one), base64.b64decode(two)
    bits = bytes(a | b for a, b in zip(first, second, strict=True))
    return base64.b64encode(bits).decode()


def _size(commands: Mapping[str, CommandOutcome]) -> int:
    """The approximate bytes of JSON."""
    fields = [(c, o.detail, o.error_type, o.hash) for c, o in commands.items()]
    return _OVERHEAD * len(fields) + len(_utf8(json.dumps(fields, ensure_ascii=False)))


def _with_ids(older: str, commands: list[str]) -> str:
    bits = bytearray(base64.b64decode(older) if older else _FILTER_BYTES)
    for command in commands:
        for at in _bit_numbers(command):
            bits[at // 8] |= 1 << at % 8
    return base64.b64encode(bits).decode()


def _bit_numbers(command: str) -> list[int]:
    digest = hashlib.sha256(_utf8(command)).digest()
    numbers = (digest[at : at + 4] for at in range(0, 4 * _BITS, 4))
    return [int.from_bytes(number, "big") % (8 * _FILTER_BYTES) for number in numbers]


def _utf8(text: str) -> bytes:
    """An id as bytes. Unauthenticated clients may send lone surrogates."""
    return text.encode("utf-8", "surrogatepass")

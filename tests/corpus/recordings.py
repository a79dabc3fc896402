"""Replies of a chat model to the messages that the model reader sends, recorded as fixtures.

A recording belongs to the messages that it answers: its key is their hash, so that it counts only
while the instructions, the schema, the registry and the prompt are as they were.

    python -m tests.corpus.recordings ask DIRECTORY     # conversations that have no reply yet
    python -m tests.corpus.recordings take DIRECTORY    # keeps the replies: NAME.json for NAME.txt

`ask` writes a conversation for each prompt without a first reply, and for each prompt whose last
reply has faults, up to the last repair. Give each to a chat model, and put its answer beside it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from tests.corpus.cases import HERE, Case, cases, load_case, other_words

from crewlog.errors import InvalidDefinition
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.model_reader import best_reply, messages, take_reply
from crewlog.prompt.registry import Registry

DIRECTORY = HERE / "recorded"
CHOSEN = 20
"""How many prompts of each kind are chosen from the corpus, by the hash of their names."""
HELD_OUT = 8

Outcome = Literal["exact", "refused", "wrong"]
"""`exact`: the expected crew, and no fault but at words that no reader can put into a crew.
`refused`: a fault says that the prompt is not understood. `wrong`: another crew, and no fault."""


@dataclass(frozen=True)
class Recording:
    """A prompt with the replies of a chat model, oldest first."""

    case: Case
    replies: tuple[str, ...]

    @property
    def registry(self) -> Registry:
        return Registry.model_validate(self.case.registry)

    def read(self, count: int) -> CompiledPrompt:
        """The best of the first replies, as the product takes it."""
        return best_reply(self.case.prompt, self.replies[:count], self.registry)

    def outcome(self, count: int) -> tuple[Outcome, tuple[str, ...]]:
        """What the first replies come to, and why it is not exact."""
        return outcome_of(self.case, self.read(count))


def outcome_of(case: Case, found: CompiledPrompt) -> tuple[Outcome, tuple[str, ...]]:
    """How a compiled prompt compares with what its case expects."""
    expected = [" ".join(words.split()) for words in case.not_understood]
    open_ = tuple(
        fault.message
        for fault in found.faults
        if not fault.clauses
        or any(
            not any(words in text or text.rstrip(".!;") in words for words in expected)
            for text in (found.clauses[number].text for number in fault.clauses)
        )
    )
    wrong: tuple[str, ...] = ("no crew",)
    if found.definition is not None:
        try:
            wrong = tuple(case.differences(found.definition))
        except InvalidDefinition as error:
            wrong = (str(error),)
    if found.faults:
        exact = not open_ and not wrong
        return ("exact" if exact else "refused"), (*open_, *wrong)
    return ("wrong" if wrong else "exact"), wrong


@cache
def _drawn() -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """The corpus in the order of the hashes of its names: free prompts, then the others."""
    every = sorted(
        [*cases(), *other_words()], key=lambda c: hashlib.sha256(c.name.encode()).hexdigest()
    )
    free = tuple(case for case in every if case.kind == "free")
    return free, tuple(case for case in every if case.kind != "free")


def chosen() -> tuple[Case, ...]:
    """The prompts that are recorded: 20 free and 20 others by hash, then those of named kinds."""
    free, others = _drawn()
    return (*free[:CHOSEN], *others[:CHOSEN], *named())


def held_out() -> tuple[Case, ...]:
    """The next prompts by hash. No rule of the verifier was made with them in view."""
    free, others = _drawn()
    return (*free[CHOSEN : CHOSEN + HELD_OUT], *others[CHOSEN : CHOSEN + HELD_OUT])


def named() -> tuple[Case, ...]:
    """Prompts of the kinds that readers find hard: pasted text, corrections, quorums, …"""
    return tuple(load_case(file) for file in sorted((HERE / "kinds").glob("[0-9]*.yaml")))


def sentences() -> tuple[Case, ...]:
    """Single sentences: consent, loops, ranges, quorums, corrections, contradictions."""
    return tuple(load_case(file) for file in sorted((HERE / "sentences").glob("[0-9]*.yaml")))


def conversation(case: Case, replies: Sequence[str] = ()) -> str:
    """The messages of a round as one text."""
    said = messages(case.prompt, Registry.model_validate(case.registry), replies)
    return "\n\n".join(f"[{each.role}]\n{each.text}" for each in said)


def key(case: Case, replies: Sequence[str] = ()) -> str:
    """The hash of the messages of a round."""
    return hashlib.sha256(conversation(case, replies).encode()).hexdigest()[:16]


def recording(case: Case) -> Recording:
    """The replies to a prompt that answer the messages as they are sent now."""
    file = DIRECTORY / f"{case.name.replace('/', '.')}.json"
    rounds: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    replies: list[str] = []
    while (reply := rounds.get(key(case, replies))) is not None:
        replies.append(reply)
    return Recording(case, tuple(replies))


def keep(found: Recording, reply: str) -> Recording:
    """Adds a reply to a recording, and writes it."""
    rounds = {key(found.case, found.replies[:n]): each for n, each in enumerate(found.replies)}
    rounds[key(found.case, found.replies)] = reply
    file = DIRECTORY / f"{found.case.name.replace('/', '.')}.json"
    file.write_text(json.dumps(rounds, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    return replace(found, replies=(*found.replies, reply))


def unanswered() -> Iterator[Recording]:
    """Recordings of which a round has no reply yet."""
    for case in (*chosen(), *held_out(), *sentences()):
        found = recording(case)
        if not found.replies:
            yield found
            continue
        if take_reply(case.prompt, found.replies, found.registry).compiled is None:
            yield found


def main(command: str, directory: Path) -> int:
    """Writes conversations, or takes replies."""
    count = 0
    for found in list(unanswered()):
        name = f"{found.case.name.replace('/', '.')}.{len(found.replies)}"
        if command == "ask":
            text = conversation(found.case, found.replies)
            (directory / f"{name}.txt").write_text(text, encoding="utf-8")
            count += 1
        elif (reply := directory / f"{name}.json").exists():
            keep(found, reply.read_text(encoding="utf-8").strip())
            count += 1
    sys.stdout.write(f"{count} {'conversations' if command == 'ask' else 'replies'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))

"""From a reading to a crew: verified, lowered and checked; and the offline compiler.

    text → clauses → reader (forms | model) → Reading → verify → lower → definition → sound

`assess` is the part behind the reader; `compile_prompt` is the offline compiler, and the loop of a
model is `crewlog.prompt.model_reader`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from crewlog.definition.model import CrewDefinition
from crewlog.graph.lowering.coordination_rules import requirements
from crewlog.graph.lowering.plans import lower_validated
from crewlog.prompt.clauses import Clauses, cut
from crewlog.prompt.compiled import CompiledPrompt, ReaderName
from crewlog.prompt.faults import Fault
from crewlog.prompt.lower import lower_reading
from crewlog.prompt.names import crew_name
from crewlog.prompt.reading import EMPTY, Reading
from crewlog.prompt.registry import Registry
from crewlog.prompt.verify import verify

LARGEST_PROMPT = 200_000
"""Characters of a prompt."""
_HALF_CHARACTERS = re.compile(r"[\ud800-\udfff]")
"""Lone surrogates, which no file and no message can hold."""
_BLANKS = re.compile(r"[^\S\n]{100,}")
"""Runs of blanks that no person writes: patterns would look at each of them many times."""


def compile_prompt(
    text: str,
    registry: Registry | None = None,
    *,
    file: str = "prompt",
    previous: CrewDefinition | None = None,
) -> CompiledPrompt:
    """Compiles a prompt with the forms: offline, deterministically, without a model.

    Args:
        text: The prompt: plain English, or Markdown.
        registry: What it may use; by default no tools, and no model.
        file: What to call it in messages.
        previous: The crew of an earlier version of the prompt: what did not change keeps its names.

    Returns:
        What was understood. It never raises: what is wrong is in `faults`.
    """
    from crewlog.prompt.forms_reader import read_forms  # noqa: PLC0415 - only this reader needs it

    offered = registry or Registry()
    found = unreadable(text, file, "forms")
    if found is not None:
        return found
    clauses = clauses_of(text)
    read = read_forms(clauses, offered)
    return assess(
        clauses, read.reading, offered, reader="forms", file=file, faults=read.faults,
        previous=previous,
    )  # fmt: skip


def clauses_of(text: str) -> Clauses:
    """A prompt cut into clauses, without what no message can hold."""
    return cut(_BLANKS.sub(" ", _HALF_CHARACTERS.sub("\ufffd", text)))


def unreadable(text: str, file: str, reader: ReaderName) -> CompiledPrompt | None:
    """The result for a prompt that no reader can read: it is empty or too large."""
    if not text.strip():
        fault = Fault(
            "empty",
            "the prompt is empty",
            "Say who does what, e.g. 'The writer drafts the notes, then the checker reviews them.'",
        )
    elif len(text) > LARGEST_PROMPT:
        fault = Fault(
            "too_large",
            f"the prompt has {len(text):,} characters; at most {LARGEST_PROMPT:,} are read",
            "A prompt says who works with whom; give the material itself as the run's input.",
        )
    else:
        return None
    return CompiledPrompt(Clauses(text[:1000], ()), file, reader, EMPTY, None, (fault,))


def assess(
    clauses: Clauses,
    reading: Reading,
    registry: Registry,
    *,
    reader: ReaderName,
    file: str = "prompt",
    faults: Sequence[Fault] = (),
    previous: CrewDefinition | None = None,
    rounds: int = 0,
) -> CompiledPrompt:
    """Verifies a reading, lowers it and checks the crew that comes out.

    Args:
        clauses: The prompt.
        reading: What a reader made of it.
        registry: What the prompt may use.
        reader: Who read it.
        file: What to call the prompt in messages.
        faults: What the reader found wrong itself.
        previous: The crew of an earlier version of the prompt.
        rounds: How often a model had to repair its reading.
    """
    if not reading.crew and len(clauses) and clauses[1].kind == "heading":
        reading = reading.model_copy(update={"crew": crew_name(clauses[1].text)})
    # A clause that the reader refused makes no part: what lacks for that is no fault of its own.
    refused = {n for fault in faults if fault.code == "not_understood" for n in fault.clauses}
    verified = [
        fault
        for fault in verify(clauses, reading, registry)
        if not fault.clauses or not refused.issuperset(fault.clauses)
    ]
    lowered = lower_reading(reading, registry)
    definition = lowered.definition
    if definition is not None and previous is not None:
        from crewlog.prompt.renaming import keep_names  # noqa: PLC0415 - only for edits

        definition = keep_names(previous, definition)
    every = _once([*faults, *verified, *lowered.faults])
    needs: tuple[str, ...] = ()
    if definition is not None and not any(fault.code == "invalid" for fault in every):
        needs = tuple(requirements(lower_validated(definition)))
    return CompiledPrompt(
        clauses, file, reader, reading, definition, every, tuple(lowered.notes),
        tuple(lowered.sources), needs, rounds,
    )  # fmt: skip


def _once(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Each fault once: the same words about the same clauses are one."""
    return tuple({(f.code, f.message, f.clauses): f for f in faults}.values())

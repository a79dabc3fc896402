"""The ledger of a reading against its clauses: each is accounted for, as what it is."""

from __future__ import annotations

from crewlog.definition.findings import Path, listed
from crewlog.prompt import reading as r
from crewlog.prompt.proof import Proof, Source, takes_back
from crewlog.prompt.vocabulary import obligations, one_of

_OF_RUN = one_of("at_(?:a|one|the_same)_time at_once steps? tokens? dollars?")
"""What a bound of the whole run counts."""
_ALWAYS = frozenset({"consent", "each", "time_limit", "return", "stand_in"})
"""Kinds of obliging words that no talk has."""


def check_ledger(proof: Proof) -> None:
    """Finds clauses without an entry, and entries that their clauses contradict."""
    seen: set[int] = set()
    for index, entry in enumerate(proof.read.ledger):
        path: Path = ("ledger", index)
        source = proof.sources.get(entry.clause)
        if source is None:
            say = f"there is no clause {entry.clause}"
            proof.fault("invalid", say, f"They are 1 to {len(proof.sources)}.", (), path)
            continue
        if entry.clause in seen:
            say = f"clause {entry.clause} is in the ledger twice"
            proof.fault("invalid", say, "Account for it once.", (entry.clause,), path)
        seen.add(entry.clause)
        if source.clause.kind not in {"pasted", "heading"}:
            _check_entry(proof, entry, source, path)
    for number, source in proof.sources.items():
        if number not in seen and source.clause.kind in {"sentence", "item"}:
            say = f"clause {number} is not accounted for: {_short(source)}"
            proof.fault("not_understood", say, "Account for it in the ledger.", (number,))


def _check_entry(proof: Proof, entry: r.Account, source: Source, path: Path) -> None:
    here = (entry.clause,)
    match entry.status:
        case "used":
            named = proof.read.crew and source.clause.text.casefold().startswith("crew")
            if source.parts or named:
                return  # `Crew: release notes` makes no part
            say = f"clause {entry.clause} is used by no part: {_short(source)}"
            how = "Make the part that it says, or account for it otherwise."
            proof.fault("not_understood", say, how, here, path)
        case "talk" | "data":
            if say := _about_crew(proof, source, entry.status):
                how = "Make the part that it says, or account for it as `cannot`."
                proof.fault("obligation", f"clause {entry.clause} is {say}", how, here, path)
        case "withdrawn":
            if not takes_back(source) and not any(proof.corrections(source)):
                say = f"nothing takes clause {entry.clause} back"
                proof.fault("not_stated", say, "Account for it as used.", here, path)
        case "cannot" | "against":
            why = f": {entry.why}" if entry.why else ""
            how = "Say it in other words, or leave it out."
            if entry.status == "cannot":
                proof.fault("not_understood", f"no part can say this{why}", how, here, path)
                return
            others = f"clause {listed(map(str, entry.against))}" if entry.against else "others"
            known = (entry.clause, *(n for n in entry.against if n in proof.sources))
            say = f"this contradicts {others}{why}"
            proof.fault("contradiction", say, how, known, path)


def _about_crew(proof: Proof, source: Source, status: str) -> str:
    """How a clause that is no part speaks of the crew after all; empty where it does not."""
    if proof.agents_in(source) or proof.has_tool_words(source) or proof.workers_in(source):
        return f"{status} in the ledger, and about the crew"
    for kind, found in obligations(source.text):
        binds = kind in _ALWAYS or found.group().casefold() == "until"
        if binds or (kind == "bound" and _OF_RUN.search(source.text)):
            return f"accounted for as {status}, and it obliges: {found.group()!r}"
    return ""


def _short(source: Source) -> str:
    text = source.clause.text
    return repr(text if len(text) <= 80 else f"{text[:79]}…")

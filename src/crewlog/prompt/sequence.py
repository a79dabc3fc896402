"""The order of a reading against its words: what follows what, and what starts beside it."""

from __future__ import annotations

import re
from bisect import bisect_left

from crewlog.prompt import reading as r
from crewlog.prompt.proof import Proof, place_of
from crewlog.prompt.vocabulary import nouns_of, one_of

_AFTER = one_of(
    r"then next finally lastly afterwards after thereafter (?<!at\s)once when as_soon_as later"
    r" followed_by at_the_end in_the_end"
)
_BOTH_DONE = one_of(
    r"(?:both|all)(?:_of_\w+)?_(?:\w+_)?(?:done|finished|ready|back|finish|complete)"
    r" (?:once|when|after)_[^,;]*\bboth"
)
_NEXT = re.compile(r"\s*(?:and\s+)?(?:then|next|finally|lastly|afterwards)\b", re.IGNORECASE)
_AT_ONCE = one_of(r"from_the_(?:start|beginning) right_away straight_away independent\w*")
"""Words of a step that starts with the run."""
BESIDE = one_of(
    r"parallel meanwhile same_time simultaneous\w* side_by_side while whilst at_once together"
    r" from_the_start right_away independent\w* concurrent\w* both in_the_meantime straight_away"
)


def check_sequence(proof: Proof) -> None:
    """Finds steps that wait for nothing, though the text says them after other steps."""
    steps = proof.read.steps
    own = proof.clause_of_step
    first = min((number for number in own.values() if number), default=0)
    by_clause: dict[int, set[str]] = {}
    for step in steps:
        by_clause.setdefault(own[step.name], set()).update({step.name, step.instead_of} - {""})
    places = sorted(by_clause)
    for index, step in enumerate(steps):
        number = own[step.name]
        before = set[str]()
        if number > first:
            before = by_clause[places[bisect_left(places, number) - 1]]
        if step.after and _skips_a_step(proof, step, number, before):
            say = f"clause {number} says that {step.name!r} comes next, and it follows another step"
            how = "Add the steps of the clauses just before it to `after`."
            proof.fault("not_stated", say, how, step.clauses, ("steps", index, "after"))
        if step.after or step.instead_of or not number or number < first:
            continue
        if number == first and not _stands_later(proof, step, own):
            continue
        if _is_beside(proof, step, own):
            continue
        say = f"{step.name!r} waits for no step, and clause {number} comes after other steps"
        how = "Add the steps of the clauses just before it, or those that it names, to `after`."
        proof.fault("not_stated", say, how, step.clauses, ("steps", index, "after"))


def _skips_a_step(proof: Proof, step: r.Step, number: int, before: set[str]) -> bool:
    """Whether a step that the text says to come next follows none of the steps said just before.

    Args:
        proof: The reading and its clauses.
        step: The step.
        number: The clause that says it.
        before: The steps of the clause before that says some, with those that they stand in for.
    """
    if not before or not _NEXT.match(proof.sources[number].text) or step.instead_of:
        return False
    direct = proof.phases_before.get(step.name, ())  # first: all that it follows may be many
    return not before & {*direct} and not before & sources_before(proof, step.name)


def _stands_later(proof: Proof, step: r.Step, own: dict[str, int]) -> bool:
    """Whether a clause names a step's agent after what another step's agent does."""
    number = own[step.name]
    nouns = proof.sources[number].nouns
    mine = place_of(nouns_of(step.agent), nouns)
    others = {s.agent for s in proof.read.steps if own[s.name] == number} - {step.agent}
    names = [nouns_of(agent) for agent in others]
    ends = [place_of(name, nouns) + len(name) for name in names if place_of(name, nouns) >= 0]
    before = [end for end in ends if end <= mine]
    return bool(before) and mine - max(before) > 2


def _is_beside(proof: Proof, step: r.Step, own: dict[str, int]) -> bool:
    """Whether a step without `after` starts with the run beside others that do, too."""
    number = own[step.name]
    source = proof.sources[number]
    if step.when or _AFTER.search(source.text):
        return False
    known = (proof.sources[n] for n in step.clauses if n in proof.sources)
    here = {each.number for each in known if each.clause.sentence == source.clause.sentence}
    text = " ".join(proof.sources[n].text for n in sorted({*here, number - 1} - {0}))
    if not BESIDE.search(_BOTH_DONE.sub(" ", text)):
        return False
    others = [s for s in proof.read.steps if s is not step and own[s.name] <= number]
    last = max((own[s.name] for s in others), default=0)
    near = [s for s in others if own[s.name] == last]
    return not near or any(not s.after for s in near) or bool(_AT_ONCE.search(text))


def sources_before(proof: Proof, step: str) -> set[str]:
    """The phases that a step follows, directly or through others."""
    found: set[str] = set()
    ahead = [step]
    while ahead:
        new = set(proof.phases_before.get(ahead.pop(), ())) - found
        found |= new
        ahead += new
    return found

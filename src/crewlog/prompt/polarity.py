"""Conditions against the words for them: `if`, `unless`, `otherwise`, `skip`, `below`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from crewlog.definition.conditions import (
    Condition,
    ConditionSyntaxError,
    Fact,
    Not,
    facts_in,
    parse_condition,
)
from crewlog.prompt import reading as r
from crewlog.prompt.conditions import can_both_hold
from crewlog.prompt.obligations import IF, IF_PEOPLE, WHETHER
from crewlog.prompt.proof import NEGATION, Proof, Source
from crewlog.prompt.vocabulary import OBLIGING, in_order, nouns_of, one_of, stems_of

_ARROW = re.compile(r"^(?P<phrase>[^→;:]{1,40}?)\s*(?:→|->|=>)\s*\S")
"""`not ok → back to the planner`: words that are a condition, and what follows."""
_OTHERWISE = one_of("otherwise else if_not in_(?:any|all|every)_other_cases?")
_PHRASE = re.compile(
    r"\b(?:if|unless|until|should|in\s+case|in\s+the\s+event|whenever|when)\b(?P<phrase>[^,;:]*)",
    re.IGNORECASE,
)
_NO = re.compile(r"\bno\s+(?!more\b|fewer\b|less\b|later\b|one\b)\w", re.IGNORECASE)
_SKIP = one_of("skip(?:s|ped)? leave_out left_out without doesn't_work does_not_work")
_BELOW = re.compile(r"\b(?:below|under|less|lower|fewer|beneath|drops?|falls?)\b|<", re.IGNORECASE)
_ABOVE = re.compile(
    r"\b(?:above|over|more|higher|greater|exceeds?|beyond|at\s+least|reaches)\b|>", re.IGNORECASE
)
_LATER = one_of("and_(?:then|when|once|after)")
_GOOD = stems_of("approved accepted fine ok okay good happy passed pass succeeded")
_BAD = stems_of("rejected fails failed refused unhappy bad wrong broken")
_UN = ("un", "in", "im", "dis", "non")
"""Prefixes that turn a word round: `unsure`, `incomplete`."""


def check_polarity(proof: Proof, source: Source) -> None:
    """Holds the conditions of a clause's parts against its words."""
    text = WHETHER.sub(" ", source.text)
    own = [part for part in source.parts if _own_clause(proof, part) == source.number]
    if _OTHERWISE.search(text):
        _check_other_case(proof, source, own)
        return
    said, phrase = IF.findall(text), _PHRASE.search(text)
    arrow = _ARROW.match(text)
    if arrow is not None and not said and not proof.names.mentioned(arrow["phrase"]):
        said, phrase = ["→"], arrow
    if len(said) != 1:
        return
    if not IF_PEOPLE.search(text):
        _check_presence(proof, source, own, said[0], text)
    parts = [part for part in own if getattr(part, "if_", "")]
    parts = parts or [part for part in source.parts if getattr(part, "if_", "")]
    if len(parts) == 1 and isinstance(parts[0], r.Loop | r.Step | r.Question):
        words = phrase["phrase"] if phrase is not None else ""
        if _is_turned(proof, source, parts[0].if_, said[0], words):
            say = f"clause {source.number} says {said[0]!r}, and the condition the contrary"
            how = "Turn the condition round."
            proof.fault("not_stated", say, how, (source.number,))


def _own_clause(proof: Proof, part: r.Part) -> int:
    """The clause that says a part: for a question the first with words of consent."""
    if isinstance(part, r.Question):
        for number in part.clauses:
            source = proof.sources.get(number)
            if source is not None and OBLIGING["consent"].search(source.clause.text):
                return number
    return part.clauses[0]


def _check_presence(
    proof: Proof, source: Source, own: Sequence[r.Part], said: str, text: str
) -> None:
    """Finds steps and questions without the condition that their clause says."""
    deciding = {part.agent for part in source.parts if isinstance(part, r.Output)}
    *_, rest = _LATER.split(text)
    for part in own:
        if isinstance(part, r.Step):
            # `if it is red, the coder mends it, and then the tester …`: the second comes later.
            later = rest != text and in_order(nouns_of(part.agent), nouns_of(rest))
            free = _is_free(part) or part.agent in deciding or later
        else:
            free = not isinstance(part, r.Question) or bool(part.before)
        if not free and not getattr(part, "if_", ""):
            what = f"says {said!r}, and a part of it has no condition"
            proof.demand(source, what, "Give it the condition.")


def _is_free(step: r.Step) -> bool:
    """Whether another field of a step says the words of a condition."""
    return bool(step.when or step.needs or step.instead_of or step.within)


def _is_turned(proof: Proof, source: Source, text: str, said: str, words: str) -> bool:
    """Whether a condition says the contrary of its clause.

    Args:
        proof: The reading and its prompt.
        source: The clause.
        text: The condition of its part.
        said: The word that begins the condition in the clause: `unless`.
        words: The words of the condition in the clause.
    """
    condition = _parsed(text)
    has = False
    while isinstance(condition, Not):
        condition, has = condition.of, not has
    if not isinstance(condition, Fact):
        return False
    sentence = " ".join(each.text for each in proof.sentence(source))
    wanted = said.casefold() in {"unless", "until"}
    wanted ^= bool(NEGATION.search(words) or _NO.search(words))
    wanted ^= bool(_SKIP.search(sentence))
    if condition.operator in {"<", "<=", ">", ">="}:
        below = bool(_BELOW.search(words))
        if not below and not _ABOVE.search(words):
            return False
        wanted ^= condition.operator.startswith("<") != below
    elif condition.operator is None:
        wanted ^= _is_contrary(condition.name, words)
    return has != wanted


def _is_contrary(name: str, words: str) -> bool:
    """Whether words say the contrary of an output: `rejects` of `approved`, `fails` of `passed`."""
    stems, said = stems_of(name), stems_of(words)
    for one, other in (*product(stems, said), *product(said, stems)):
        if any(f"{prefix}{one}" == other for prefix in _UN):
            return True
    sides = ((_GOOD, _BAD), (_BAD, _GOOD))
    return any(stems & one and said & other and not said & one for one, other in sides)


def _check_other_case(proof: Proof, source: Source, own: Sequence[r.Part]) -> None:
    """Finds a step for `otherwise` that also works where another case holds."""
    steps = [part for part in own if isinstance(part, r.Step)]
    ways = [part for _, _, part in proof.read.parts() if part.clauses[:1] < (source.number,)]
    sent = {loop.then for loop in proof.read.loops}
    sent |= {option for question in proof.read.questions for option in question.options}
    for place, step in enumerate(steps):
        condition = _parsed(step.if_)
        if condition is None:
            if not _is_free(step) and step.name not in sent:
                what = f"says the other case, and {step.name!r} has no condition"
                proof.demand(source, what, "Give it the condition.")
            continue
        texts = (getattr(other, "if_", "") for other in (*ways, *steps[:place]))
        for text in texts:
            case = _parsed(text)
            if case and _facts(case) == _facts(condition) and can_both_hold(condition, case):
                say = f"clause {source.number} says the other case, and the condition of "
                say += f"{step.name!r} holds beside {text!r}"
                how = "Turn the condition round: not (A or B)."
                proof.fault("not_stated", say, how, (source.number,))
                break


def _facts(condition: Condition) -> set[tuple[str | None, str]]:
    """The outputs that a condition looks at."""
    return {(fact.agent, fact.name) for fact in facts_in(condition)}


def _parsed(text: str) -> Condition | None:
    try:
        return parse_condition(text) if text else None
    except ConditionSyntaxError:
        return None

"""The words of a clause against its parts: what obliges, and who and what a clause mentions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType

from crewlog.prompt import reading as r
from crewlog.prompt.proof import NEGATION, RANGE, SIGHT, Proof, Source
from crewlog.prompt.vocabulary import (
    names_agent,
    nouns_of,
    obligations,
    one_of,
    word_set,
    words_of,
)

DURATIONS = word_set("answer_within yes_valid conversation max_time")
"""Settings that are durations."""
COUNTS = word_set("window model_calls confidence max_steps max_parallel max_tokens max_cost")
"""Settings that are numbers."""
LIMITS = word_set("max_steps max_parallel max_tokens max_cost max_time")
"""Settings that bound the run."""
IF = one_of(
    r"if unless until in_case in_the_event provided should_the whenever"
    r" when_(?:\w+_){0,3}(?:unsure|in_doubt|not_sure)"
)
IF_PEOPLE = one_of(
    "(?:if|when|once|after|unless|until|in_case|provided|providing|as_long_as)"
    "_(?:that_)?(?:i|we|my|our)"
)
"""A condition that people decide: asking them meets it."""
WHETHER = one_of(
    r"(?:sees?|checks?|notes?|says?|tells?|asks?|decides?|knows?|wonders?|verif(?:y|ies)|tests?"
    r"|finds?_out|looks?)_(?:\w+_){0,2}if"
)
_ANSWERED = one_of("(?:if|unless|until|once|when|should)_(?:i|we|they|my|people|a_human|the_boss)")
_BLIND = one_of("blind sees?_nothing")
_USES = one_of("uses? using")
_NOTHING_ELSE = one_of("nothing_else")
_DONE = one_of(
    "done finish(?:es|ed)? ready back complete[sd]? agree[sd]? approve[sd]? there first enough"
    " succeed[sd]? in"
)
_EXCLUSIVE_RIGHT = re.compile(
    r"\bonly\s+(?!if\b|when\b|after\b|once\b|then\b|for\b|until\b|where\b)[\w\s,'-]{1,80}?"
    r"\b(?:may|can|sees?|gets?|allowed|uses?|has|have)\b"
    r"|\b(?:may|can|must)\s+(?:\w+\s+){1,6}only\s+by\b|\b(?:nobody|no\s+one)\s+(?:but|else|except)\b",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"(?<![\w.])\d{1,3}(?:,\d{3})+(?![\w])|(?<![\w.])\d+(?:\.\d+)?(?![\w-]|\.\d)")


def check_clause(proof: Proof, source: Source) -> None:
    """Finds what a clause says and none of its parts does."""
    for kind, found in obligations(source.text):
        if _obliges(proof, kind, source) and not any(
            _NEEDS[kind].is_met(part, source) for part in source.parts
        ):
            what = f"says {found.group().strip()!r}, and no part says {_NEEDS[kind].what}"
            how = "Make that part from this clause, or account for the clause as `cannot`."
            proof.demand(source, what, how)
    _check_agents(proof, source)
    _check_tools(proof, source)
    _check_numbers(proof, source)
    _check_ranges(proof, source)


# -- words that oblige -----------------------------------------------------------------------------


def _obliges(proof: Proof, kind: str, source: Source) -> bool:
    """Whether words oblige in this clause: some do only together with others."""
    text = source.text
    match kind:
        case "quorum":
            return bool(_DONE.search(text))
        case "condition":
            return not WHETHER.search(text)
        case "sight" if not _BLIND.search(text):
            limits = bool(NEGATION.search(text)) or "only" in words_of(text)
            return limits and bool(proof.agents_in(source))
        case "exclusive" if _NOTHING_ELSE.search(text) and _has_no_other_tools(proof, source):
            return False
        case "forbidden" | "exclusive":
            # It is about a tool, about agents that see something, or about several agents.
            named = 2 if proof.has_tool_words(source) else len(proof.agents_in(source))
            return named > 1 or (named == 1 and bool(_EXCLUSIVE_RIGHT.search(text)))
        case _:
            return True


def _has_no_other_tools(proof: Proof, source: Source) -> bool:
    """Whether the agents that a clause gives tools get none by another clause."""
    here = [part for part in source.parts if isinstance(part, r.Right)]
    agents = {agent for right in here for agent in right.agents}
    others = {a for right in proof.read.rights if right not in here for a in right.agents}
    return bool(agents) and not agents & others


@dataclass(frozen=True)
class _Need:
    """What words oblige to, and the parts that meet it."""

    what: str
    parts: type | UnionType | tuple[()] = ()
    """Parts that always meet it."""
    fields: str = ""
    """Fields that meet it where a part says something there."""
    keys: frozenset[str] = frozenset()
    """Settings that meet it."""
    also: Callable[[r.Part, Source], bool] | None = None
    """A rule of its own."""

    def is_met(self, part: r.Part, source: Source) -> bool:
        return (
            isinstance(part, self.parts)
            or any(getattr(part, name, None) for name in self.fields.split())
            or (isinstance(part, r.Setting) and part.key in self.keys)
            or (self.also is not None and self.also(part, source))
        )


def _asks(part: r.Part, _: Source) -> bool:
    match part:
        case r.Right():
            return part.effect == "ask"
        case r.Loop():
            return part.then == "ask"
        case r.Step():
            return part.late == "ask"
        case r.Setting():
            return part.key in {"on_error", "decides", "pattern"} and "ask" in part.value
        case r.Output():
            return not part.agent
        case r.Use():
            return any(option.key == "approve" for option in part.options)
        case _:
            return False


def _excludes(part: r.Part, source: Source) -> bool:
    match part:
        case r.Right():
            return part.effect in {"only", "never"} or bool(part.if_)
        case r.Readers():
            return SIGHT.search(source.text) is not None
        case r.Question():
            return True
        case _:
            pass
    if _EXCLUSIVE_RIGHT.search(source.text):
        keys = {"may_answer", "sees", "hosts", "runs"}
        return isinstance(part, r.Setting) and part.key in keys
    conditional = any(getattr(part, name, None) for name in ("if_", "when", "needs"))
    return conditional or isinstance(part, r.Setting | r.Loop | r.Use | r.Wait)


def _is_conditional(part: r.Part, source: Source) -> bool:
    """Whether a part without a condition of its own meets the words for one."""
    match part:
        case r.Readers():
            return not IF.search(source.text)
        case r.Right():
            return part.effect in {"ask", "never"} or not IF.search(source.text)
        case r.Question():
            if part.options and _ANSWERED.search(source.text):
                return True
        case r.Setting():
            if part.key not in {"model", "window"}:
                return True
        case _:
            pass
    return IF_PEOPLE.search(source.text) is not None and _NEEDS["consent"].is_met(part, source)


def _is_open(part: r.Part, _: Source) -> bool:
    """Whether a part waits for some of several steps only."""
    after: tuple[r.After, ...] = getattr(part, "after", ())
    return any(group.need < len(group.of) for group in after)


_NEEDS = {
    "consent": _Need(
        "that people are asked", r.Question, also=_asks,
        keys=word_set("confidence may_answer answer_within unanswered yes_valid"),
    ),
    "exclusive": _Need("that no other agent may", also=_excludes),
    "forbidden": _Need(
        "that it is refused", r.Readers | r.Question, "if_ when",
        LIMITS | word_set("sees hosts may_answer enabled confidence runs"),
        lambda part, _: isinstance(part, r.Right) and part.effect != "may",
    ),
    "condition": _Need(
        "on what condition", r.Loop | r.Use, "if_ when until needs instead_of within",
        also=_is_conditional,
    ),
    "return": _Need(
        "where the run goes back to", r.Loop | r.Use, keys=word_set("pattern"),
        also=lambda part, _: isinstance(part, r.Question) and len(part.options) > 1,
    ),
    "bound": _Need(
        "the bound", r.Use | r.Wait, "at_most quota within",
        COUNTS | LIMITS | word_set("pattern answer_within"),
    ),
    "quorum": _Need("how many are enough", r.Use, also=_is_open),
    "stand_in": _Need(
        "what comes in its place", r.Loop | r.Use, "if_ when instead_of late",
        word_set("on_error unanswered at_cap"),
        lambda part, _: isinstance(part, r.Question) and bool(part.before),
    ),
    "time_limit": _Need("how long it may take", (), "within quota", DURATIONS),
    "pause": _Need("how long it is waited", r.Wait, "within"),
    "sight": _Need(
        "who sees it", r.Readers, keys=word_set("sees window"),
        also=lambda part, source: (
            isinstance(part, r.Question | r.Right) and not _BLIND.search(source.text)
        ),
    ),
    "each": _Need(
        "that it is done for each", r.Use | r.Output, "each quota", word_set("pattern runs")
    ),
}  # fmt: skip
"""For each kind of obliging words what meets it."""


# -- agents, tools and numbers that a clause mentions ----------------------------------------------


def _check_agents(proof: Proof, source: Source) -> None:
    """Finds agents that a clause names or lets work, and none of its parts has."""
    names = set[str]().union(*(piece.names for piece in source.pieces))
    nouns = set[str]().union(*(piece.nouns for piece in source.pieces))
    owned = names | {proof.agent_of_step[n] for n in names if n in proof.agent_of_step}
    owned = owned.union(*(proof.barred(p) for p in source.parts if isinstance(p, r.Readers)))
    for worker in proof.workers_in(source):
        if worker not in proof.agents and nouns_of(worker) not in map(nouns_of, proof.agents):
            what = f"says what {worker!r} does, and the reading has no such agent"
            how = "Add the agent and its step, or account for the clause otherwise."
            proof.demand(source, what, how)
    for agent in proof.agents_in(source):
        if agent not in owned and not names_agent(nouns, agent):
            how = "Make the part that it says of this agent from this clause, too."
            proof.demand(source, f"names {agent!r}, and none of its parts does", how)


def _check_tools(proof: Proof, source: Source) -> None:
    """Finds tools that a clause names, and none of its parts has.

    By their names: people also say the words of a tool and mean no tool.
    """
    uses = _USES.search(source.text) is not None
    giving = [p for p in source.pieces if not (uses and isinstance(p.part, r.Step))]
    for tool in proof.tool_phrases:
        if tool not in source.text or any(tool in piece.names for piece in giving):
            continue
        # `review` is also a plain word: as a tool it stands behind `with` or the like.
        lead = "" if "_" in tool else r"(?:with|using|uses?|via)\s+"
        if re.search(rf"\b{lead}{re.escape(tool)}\b", source.text):
            what = f"names the tool {tool!r}, and none of its parts does"
            proof.demand(source, what, "Make the right that it says.")


def _check_numbers(proof: Proof, source: Source) -> None:
    """Finds numbers that a clause says, and none of its parts has, nor a later correction."""
    said = {float(found.replace(",", "")) for found in _DIGITS.findall(source.text)}
    if not said:
        return
    numbers = set[float]().union(*(piece.numbers for piece in source.pieces))
    missing = [v for v in sorted(said - numbers) if round(v / 100, 6) not in numbers]
    if not missing:
        return
    later = {each.number for each in proof.corrections(source) if re.search(r"\d", each.text)}
    if all(later.isdisjoint(part.clauses) for part in source.parts):
        for value in missing:
            what = f"says {value:g}, and none of its parts does"
            proof.demand(source, what, "Make the part that has it.")


def _check_ranges(proof: Proof, source: Source) -> None:
    """Finds agents of a range, `checker A to checker E`, that the reading has not."""
    for first, final in RANGE.findall(source.text.casefold()):
        bases = {a.removesuffix(f"_{first}") for a in proof.agents if a.endswith(f"_{first}")}
        for base in bases:
            names = (f"{base}_{each}" for each in _between(first, final))
            missing = next((name for name in names if name not in proof.agents), None)
            if missing and names_agent({*source.unquoted_nouns}, base):
                what = f"says {first} to {final}, and the reading has no agent {missing!r}"
                proof.demand(source, what, "Add the agent and its step.")


def _between(first: str, final: str) -> list[str]:
    """The letters or numbers of a range, both ends included."""
    if first.isdigit() and final.isdigit():
        return [str(n) for n in range(int(first), int(final) + 1)]
    if first.isalpha() and final.isalpha():
        return [chr(n) for n in range(ord(first), ord(final) + 1)]
    return []

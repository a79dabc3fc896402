"""Where quotas are counted: a quota goes on where it was, though it is for other agents by now.

    quota_key(crew, rule)       the name of a quota, by what it counts
    places_of(crew)             where each rule of a crew counts
    counting_at(crew, places)   a crew whose rules count there
    as_counted(crew, base)      a crew as people change it, by which no quota begins anew

A quota is named by the agents that it is for. Where these are others because one has left, because
a group has other members, or because two crews are one, it would have another name, and all of its
calls again. So its rule says then where it is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crewlog.canonical_json import hash_json
from crewlog.definition.conditions import render_condition
from crewlog.definition.model import EVERY_TOOL, Counted, CrewDefinition, Rule
from crewlog.definition.quotas import is_per_run, quota_of
from crewlog.definition.rule_checks import members
from crewlog.errors import Diagnostic, InvalidDefinition

KEY = 12
"""Characters of a quota's key."""


def quota_key(crew: CrewDefinition, rule: Rule) -> str:
    """The name within its crew of a quota that is counted in no other place.

    It is the same for the same tools, agents, condition and window, however many calls it allows
    and wherever it stands. Empty: the rule has no quota.
    """
    if rule.quota is None:
        return ""
    named = members(crew, rule.agents)
    tools = [] if rule.tool == EVERY_TOOL else sorted({*rule.tools})
    agents = None if named is None else sorted(named)
    return hash_json([tools, agents, _when(rule), quota_of(rule.quota).per])[:KEY]


def _own(crew: CrewDefinition, rule: Rule) -> Counted | None:
    key = quota_key(crew, rule)
    return Counted(crew=crew.crew, key=key, zone=crew.timezone) if key else None


def places_of(crew: CrewDefinition) -> list[Counted | None]:
    """Where the calls of each rule of a crew are counted; none: it has no quota."""
    return [rule.counted or _own(crew, rule) for rule in crew.rules]


def counting_at(crew: CrewDefinition, places: Sequence[Counted | None]) -> CrewDefinition:
    """A crew whose quotas are counted in some places.

    Args:
        crew: The crew.
        places: By rule; none: where it is counted by itself.
    """
    rules: list[Rule] = []
    for rule, place in zip(crew.rules, places, strict=True):
        wanted = None if _is_own(crew, rule, place) else place
        rules.append(rule if rule.counted == wanted else _at(rule, wanted))
    return crew if rules == [*crew.rules] else crew.model_copy(update={"rules": tuple(rules)})


def _is_own(crew: CrewDefinition, rule: Rule, place: Counted | None) -> bool:
    own = _own(crew, rule)
    if own is None or place is None or rule.quota is None:
        return True
    # Within a run there are no other crews.
    return own == place or (is_per_run(rule.quota) and own.key == place.key)


def bare(rule: Rule) -> Rule:
    """A rule as people write it: wherever it is counted."""
    return _at(rule, None) if rule.counted is not None else rule


def _at(rule: Rule, place: Counted | None) -> Rule:
    return rule.model_copy(update={"counted": place})


def as_counted(crew: CrewDefinition, base: CrewDefinition | None) -> CrewDefinition:
    """A crew as people change it, whose quotas are counted on.

    A rule is the one that it was where it is written alike, or is without agents that are gone.
    Who gives it other agents makes another rule, which begins anew.

    Args:
        crew: What they make of it.
        base: What it was; none: the run begins.

    Raises:
        InvalidDefinition: it says itself where it is counted, and otherwise than it was.
    """
    before = base.rules if base is not None else ()
    known = [rule.counted for rule in before]
    for number, rule in enumerate(crew.rules):
        if rule.counted is not None and rule.counted not in known:
            say = f"'counted' of rules[{number}] names a quota in which its calls do not count"
            remedy = "Leave 'counted' out: where a quota is counted, the engine says."
            raise InvalidDefinition([Diagnostic(say, ("rules", number, "counted"), remedy)])
    if base is None or not any(rule.quota for rule in crew.rules):
        return crew
    gone = {*base.agents} - {*crew.agents}
    left = [*zip(before, places_of(base), strict=True)]
    places: list[Counted | None] = [None] * len(crew.rules)
    found: set[int] = set()
    same: tuple[Callable[[Rule, Rule], bool], ...] = (
        lambda rule, was: bare(rule) == bare(was),
        lambda rule, was: _counts(rule) == _counts(was) and rule.agents == _without(was, gone),
    )
    for is_same in same:
        for number, rule in enumerate(crew.rules):
            if number in found:
                continue
            was = next((each for each in left if is_same(rule, each[0])), None)
            if was is not None:
                left.remove(was)
                found.add(number)
                places[number] = was[1]
    return counting_at(crew, places)


def _counts(rule: Rule) -> tuple[object, ...]:
    per = quota_of(rule.quota).per if rule.quota is not None else ""
    return {*rule.tools}, _when(rule), per


def _without(rule: Rule, gone: set[str]) -> tuple[str, ...] | None:
    return rule.agents and tuple(name for name in rule.agents if name not in gone)


def _when(rule: Rule) -> str:
    return "" if rule.if_ is None else render_condition(rule.if_)

"""Phases taken out of a flow, and put in, so that the others go on as they did.

What waited for a phase that goes waits for what that one waited for. Of a join, what the others of
it wait for anyway is left out: a crew that waits for `ui` and `backend`, which both come after
`plan`, waits for `ui` once `backend` is gone. Of `any` and `quorum` the others are waited for, and
no more of them than there are. What was sent to the phase is sent to what alone followed it.

Where it is not clear what should be, a fault says where, why, and what to say first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from crewlog.definition.conditions import facts_in
from crewlog.definition.expand import expand
from crewlog.definition.findings import Finding, listed
from crewlog.definition.flow import Flow, Part, Wait
from crewlog.definition.model import AgentPhase, AskPhase, CrewDefinition, DecisionPhase, RoutePhase
from crewlog.definition.phases import END, phases
from crewlog.definition.unused import conditions_of

FIRST = "Say it in an operation before this one"


@dataclass
class Splice:
    """A flow out of which phases are taken."""

    definition: CrewDefinition
    """The crew as it was."""
    flow: Flow = field(init=False)
    faults: list[Finding] = field(default_factory=list[Finding])

    def __post_init__(self) -> None:
        self.flow = Flow(self.definition)
        self._owners = owners(self.definition)

    def take_out(self, part: Part) -> None:
        """Takes a phase out of the flow, and mends what named it."""
        heirs = [each for each in self.flow.parts() if self._waits_for(each, part)]
        heir = heirs[0] if len(heirs) == 1 and self._for_it_alone(heirs[0], part) else None
        sent_to = heir.name if heir else None if heirs else END
        before = self._before()
        empty = [self._send_on(each, part, sent_to) for each in self._others(part)]
        for each in heirs:
            wait = self._without(each, part, before)
            if wait is None:
                self.faults.append(_nested(each, part))
            else:
                each.wait = wait
        self.flow.remove(part)
        for left in empty:
            if left is not None:
                self.take_out(left)

    def _others(self, part: Part) -> list[Part]:
        return [each for each in self.flow.parts() if each is not part]

    def _is(self, name: str, part: Part) -> bool:
        """Whether a name means a phase, or a part of what it stands for."""
        return self._owners.get(name, name) == part.name

    def _waits_for(self, each: Part, part: Part) -> bool:
        return each is not part and any(self._is(name, part) for name in each.wait.of)

    def _for_it_alone(self, each: Part, part: Part) -> bool:
        return all(self._is(name, part) for name in each.wait.of)

    def _before(self) -> dict[str, set[str]]:
        """What comes before every phase, by what they wait for."""
        sources = {
            each.name: {self._owners.get(name, name) for name in each.wait.of}
            for each in self.flow.parts()
        }
        found: dict[str, set[str]] = {}
        for name, own in sources.items():
            seen: set[str] = set()
            stack = list(own)
            while stack:
                source = stack.pop()
                if source not in seen:
                    seen.add(source)
                    stack.extend(sources.get(source, ()))
            found[name] = seen
        return found

    def _without(self, each: Part, part: Part, before: Mapping[str, set[str]]) -> Wait | None:
        """What a phase waits for once another is gone; none where `after` could not say it."""
        wait, gone = each.wait, part.wait
        rest = [name for name in wait.of if not self._is(name, part)]
        if not rest:
            return gone
        above = {
            source
            for name in rest
            for source in (*before.get(self._owners.get(name, name), ()), name)
        }
        more = [name for name in gone.of if self._owners.get(name, name) not in above]
        at = next(i for i, name in enumerate(wait.of) if self._is(name, part))
        of = (*rest[:at], *more, *rest[at:])
        if not more:
            return Wait(of, len(of) if wait.whole else min(wait.need, len(of)))
        if wait.whole:
            return Wait(of, len(of)) if gone.whole else None
        if len(gone.of) == 1 or (wait.need == gone.need == 1):
            return Wait(of, wait.need)
        return None

    def _send_on(self, each: Part, part: Part, heir: str | None) -> Part | None:
        """Mends what sends to a phase that goes; gives it back where nothing is left of it."""
        item = each.item
        if isinstance(item, DecisionPhase):
            if self._is(item.go, part):
                if heir is None:
                    self._unclear(each, "go", part)
                elif heir == each.name:
                    return each  # it repeated this phase, and nothing else
                else:
                    each.set(go=heir)
            if item.otherwise is not None and self._is(item.otherwise, part):
                if heir is None or heir == each.name:
                    self._unclear(each, "else", part)
                else:
                    each.set(otherwise=heir)
        elif isinstance(item, RoutePhase):
            self._route_on(each, item, part)
        elif isinstance(item, AgentPhase):
            self._stand_in_on(each, item, part, heir)
        elif isinstance(item, AskPhase) and any(self._is(o, part) for o in item.options):
            self._answers_on(each, item, part, heir)
        return None

    def _stand_in_on(self, each: Part, item: AgentPhase, part: Part, heir: str | None) -> None:
        if item.otherwise is not None and self._is(item.otherwise, part):
            if heir is None:
                self._unclear(each, "else", part)
            else:  # where there is no other way any more, people are asked
                each.set(otherwise=None if heir in (END, each.name) else heir)
        if item.stand_in is not None and self._is(item.stand_in, part):
            each.set(on_error=None)  # what comes after a stand-in cannot stand in

    def _answers_on(self, each: Part, item: AskPhase, part: Part, heir: str | None) -> None:
        if heir in (None, END) or heir in item.options or self._compared(item, part):
            self._unclear(each, "options", part)
        else:
            options = tuple(heir if self._is(o, part) else o for o in item.options)
            each.set(options=options)

    def _route_on(self, each: Part, item: RoutePhase, part: Part) -> None:
        """What named a phase that goes takes the `else` of its route."""
        to = tuple(other for other in item.to if not self._is(other, part))
        if not to:
            self._unclear(each, "to", part)
        elif to != item.to:
            each.set(to=to)
        if item.otherwise is not None and self._is(item.otherwise, part):
            each.set(otherwise=None)

    def _compared(self, item: AskPhase, part: Part) -> bool:
        """Whether a condition asks if people chose the phase."""
        return item.sets is not None and any(
            fact.name == item.sets and part.name in str(fact.value)
            for phase in phases(self.definition)
            for condition in conditions_of(phase).values()
            for fact in facts_in(condition)
        )

    def _unclear(self, each: Part, key: str, part: Part) -> None:
        follow = [other.name for other in self.flow.parts() if self._waits_for(other, part)]
        if len(follow) > 1:
            because = f"and {listed(follow)} come after it"
        elif follow:
            because = f"and {follow[0]}, which comes after it, waits for others, too"
        else:
            because = "and nothing comes after it"
        say = f"{key!r} of {each.name!r} names the phase {part.name!r}, which goes, {because}"
        remedy = f"{FIRST}: edit_phase {each.name}, with another {key!r}."
        self.faults.append(Finding(("flow", each.name, key), say, remedy))


def owners(definition: CrewDefinition) -> dict[str, str]:
    """The phase of the flow as written that stands for each phase of builders and patterns."""
    expanded = expand(definition)
    if not expanded.origins or expanded.faults:
        return {}
    written = {phase.path: phase.name for phase in phases(definition)}
    found: dict[str, str] = {}
    for phase in phases(expanded.definition):
        origin = expanded.origin(phase.path)
        if origin is not None and origin.phase in written:
            found[phase.name] = written[origin.phase]
    return found


def _nested(each: Part, part: Part) -> Finding:
    say = (
        f"{each.name!r} waits for some of {listed(each.wait.of)}; without {part.name!r}, which "
        f"waits for some of {listed(part.wait.of)}, this cannot be said by one 'after'"
    )
    remedy = f"{FIRST}: edit_phase {each.name}, with another 'after'."
    return Finding(("flow", each.name, "after"), say, remedy)


# -- in ------------------------------------------------------------------------------------------


def lasts(flow: Flow, new: list[Part], known: Mapping[str, str]) -> Iterator[Wait]:
    """What phases that come last may wait for, the best first.

    Args:
        flow: The flow, with them.
        new: The phases.
        known: The phases that stand for others; as `owners`.
    """
    others = [part for part in flow.parts() if part not in new]
    waited = {known.get(name, name) for part in others for name in part.wait.of}
    ends = [part.name for part in others if part.name not in waited]
    yield Wait.all(*ends)
    if len(ends) > 1:
        yield Wait(tuple(ends), 1)
        aside = _sent_to(others)
        yield Wait.all(*(name for name in ends if name not in aside))


def _sent_to(parts: list[Part]) -> set[str]:
    """The phases that the run comes to only where something sends it aside."""
    aside: set[str] = set()
    for part in parts:
        if part.wait.sent_only or (part.wait.of and aside.issuperset(part.wait.of)):
            aside.add(part.name)
    return aside


def place_before(flow: Flow, names: tuple[str, ...]) -> Wait | None:
    """What new phases wait for that come before others: what these do.

    Args:
        flow: The flow.
        names: Those that are to wait for them.

    Returns:
        None where it cannot be said: they wait for different things, in joins of their own.
    """
    targets = [part for part in flow.parts() if part.name in names]
    waits = [part.wait for part in targets]
    if len(waits) == 1 or all(wait.same(waits[0]) for wait in waits):
        return replace(waits[0])
    after = _following(flow, set(names))
    if any(not wait.whole for wait in waits):
        return None
    of = dict.fromkeys(name for wait in waits for name in wait.of if name not in after)
    return Wait.all(*of)


def _following(flow: Flow, names: set[str]) -> set[str]:
    """Those, and what comes after them."""
    found = set(names)
    while True:
        more = {p.name for p in flow.parts() if p.name not in found and found & set(p.wait.of)}
        if not more:
            return found
        found |= more


def wait_too(part: Part, new: list[Part]) -> Finding | None:
    """Lets a phase wait for new ones, too; what is wrong where it cannot be said."""
    names = tuple(each.name for each in new)
    wait = part.wait
    covered = new[0].wait
    if not wait.sent_only and covered.same(wait):
        part.wait = Wait.all(*names)
        return None
    remedy = f"{FIRST}: edit_phase {part.name}, with another 'after'."
    if wait.sent_only:
        say = f"{part.name!r} starts only when it is sent to, so it cannot wait for {listed(names)}"
        return Finding(("before",), say, remedy)
    if not wait.whole:
        say = (
            f"{part.name!r} waits for {wait.need} of {listed(wait.of)}, and could not say that it "
            f"waits for {listed(names)}, too"
        )
        return Finding(("before",), say, remedy)
    held = covered.of if covered.whole else ()
    of = [name for name in wait.of if name not in held]
    part.wait = Wait.all(*of, *names)
    return None
